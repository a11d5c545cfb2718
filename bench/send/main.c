/* The load generator: see --help. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/arrivals.h"
#include "common/checksum.h"
#include "common/content.h"
#include "common/media.h"
#include "common/process.h"
#include "common/schedule.h"

enum { EVENTS = 1024, OTHER_DESCRIPTORS = 64, MOST_CONNECTIONS = 100000, MOST_PAYLOAD = 8 << 20, MOST_WRITE = 1 << 20 };

typedef struct stream {
    int fd;
    bool queued;     /* has something to write now */
    bool blocked;    /* the socket has no room */
    uint64_t sent;   /* bytes behind the file header */
    uint64_t due;    /* bytes that may be sent by now */
    uint64_t tags;   /* as many as these are */
    uint64_t first;  /* the tag that it begins with */
    uint64_t random; /* of the sizes of its writes */
} stream;

static struct {
    uint16_t port;
    uint32_t connections;
    uint32_t payload;
    uint64_t packets;
    uint32_t least_write, most_write;
    uint64_t interval_ns; /* between two packets of a stream; 0: as fast as it goes */
    uint32_t kbits;       /* of real streams; 0: packets of one size */
    uint32_t key_times;
    enum arrivals arrivals;
    uint64_t seed;
    int cpu;
} set = {.connections = 1,
         .payload = 1024,
         .packets = 1,
         .least_write = 65536,
         .most_write = 65536,
         .key_times = MEDIA_KEY_TIMES,
         .seed = 1,
         .cpu = -1};

static content what;
static media real;
static schedule times;
static stream *streams;
static int epoll;
static uint64_t start; /* of paced sending: nanoseconds */

/* Who has something to write, in a ring: each stream is in it once at most. */
static struct {
    stream **slots;
    uint32_t first, count;
} queue;

static void usage(FILE *out) {
    fprintf(
        out,
        "Usage: bench-send --port N | --describe [options]\n"
        "\n"
        "Connects to a receiver on 127.0.0.1, sends each connection's file header, says \"connected\", waits for\n"
        "a line on its standard input, sends the packets, says \"result\" and JSON, and waits for the end of\n"
        "the input.\n"
        "--describe only says what would be sent and what a receiver must find in it.\n"
        "\n"
        "  --connections N   streams, 1 to 100000 (1)\n"
        "  --payload N       bytes of each packet, 64 to 8388608 (1024)\n"
        "  --packets N       of each stream (1)\n"
        "  --write N[-M]     bytes of each write, up to 1048576; N-M: each one at random (65536)\n"
        "  --interval N      microseconds between two packets of a stream; 0: as fast as it goes (0)\n"
        "  --rate KBITS      real streams in place of packets of one size: 25 pictures a second in groups of 2 s,\n"
        "                    and 43 frames of AAC; of each stream, both tracks, on average\n"
        "  --key-times N     a key picture is as large as so many others, 1 to 50 (10)\n"
        "  --arrivals HOW    when paced packets are sent (even). even: streams are spread evenly over the interval\n"
        "                    or group; together: all at the same time; independent: each stream at random;\n"
        "                    poisson: and each packet late by a random time, 15 ms on average; ticks: independent\n"
        "                    streams whose packets wait for the next tick of 5 ms\n"
        "  --seed N          of contents and write sizes (1)\n"
        "  --cpu N           stay on this processor\n");
}

static void enqueue(stream *s) {
    if (s->queued || s->blocked)
        return;
    s->queued = true;
    queue.slots[(queue.first + queue.count++) % set.connections] = s;
}

static stream *dequeue(void) {
    stream *s = queue.slots[queue.first];
    queue.first = (queue.first + 1) % set.connections;
    queue.count--;
    s->queued = false;
    return s;
}

/* The tag that a stream begins with. */
static uint64_t first_of(uint32_t index) {
    return set.kbits > 0 ? media_first(&real, set.arrivals, index, set.connections) : 0;
}

/* Bytes of so many tags of a stream that begins with this one. */
static uint64_t bytes_of(uint64_t first, uint64_t tags) {
    return content_begin(&what, first + tags) - content_begin(&what, first);
}

static void open_stream(stream *s, uint32_t index) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(set.port)};
    const int on = 1;
    /* No states that linger: the next runs need the ports. */
    const struct linger at_once = {.l_onoff = 1};
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s->fd < 0 || connect(s->fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ||
        setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) < 0 || fcntl(s->fd, F_SETFL, O_NONBLOCK) < 0)
        fail(EXIT_FAILURE, "connection %u: %s", index, strerror(errno));
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET, .data.ptr = s};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, s->fd, &event) < 0 ||
        send(s->fd, content_file_header, CONTENT_FILE_HEADER, MSG_NOSIGNAL) != CONTENT_FILE_HEADER)
        fail(EXIT_FAILURE, "connection %u: %s", index, strerror(errno));
    s->random = set.seed + index;
    s->first = first_of(index);
}

static void open_streams(void) {
    streams = calloc(set.connections, sizeof *streams);
    queue.slots = calloc(set.connections, sizeof(stream *));
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!streams || !queue.slots || epoll < 0)
        fail(EXIT_FAILURE, "%s", strerror(errno));
    for (uint32_t i = 0; i < set.connections; i++)
        open_stream(&streams[i], i);
}

/* When the packets of all streams are due. */
static void plan_times(void) {
    uint64_t *due = malloc(set.packets * sizeof *due);
    schedule_make(&times, set.packets * set.connections);
    if (!due)
        fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
    for (uint32_t index = 0; index < set.connections; index++) {
        if (set.kbits > 0) {
            media_due(&real, set.arrivals, index, set.connections, due, (uint32_t)set.packets);
        } else {
            uint64_t phase = arrivals_phase_ns(set.arrivals, index, set.connections, set.interval_ns);
            for (uint64_t i = 0; i < set.packets; i++)
                due[i] = phase + i * set.interval_ns;
            arrivals_send(set.arrivals, index, due, set.packets);
        }
        schedule_add(&times, index, due, set.packets);
    }
    schedule_sort(&times);
    free(due);
}

static void write_once(stream *s) {
    uint64_t size = set.most_write;
    if (set.least_write < set.most_write)
        size = set.least_write + content_random(&s->random) % (set.most_write - set.least_write + 1);
    if (size > s->due - s->sent)
        size = s->due - s->sent;
    const uint8_t *bytes = content_at(&what, content_begin(&what, s->first) + s->sent);
    ssize_t n = send(s->fd, bytes, size, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        fail(EXIT_FAILURE, "send: %s", strerror(errno));
    s->blocked = n < 0 && errno == EAGAIN;
    if (n > 0)
        s->sent += (uint64_t)n;
    if (s->sent < s->due)
        enqueue(s);
}

/* Waits for room in a socket, up to so many nanoseconds; negative: for any length. */
static void wait_for_room(int64_t ns) {
    static struct epoll_event events[EVENTS];
    const struct timespec timeout = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    int count = epoll_pwait2(epoll, events, EVENTS, ns < 0 ? NULL : &timeout, NULL);
    for (int i = 0; i < count; i++) {
        stream *s = events[i].data.ptr;
        s->blocked = false;
        if (s->sent < s->due)
            enqueue(s);
    }
}

/* One write for each stream that has something to write. */
static void write_round(void) {
    for (uint32_t left = queue.count; left > 0; left--)
        write_once(dequeue());
}

static bool all_sent(void) {
    for (uint32_t i = 0; i < set.connections; i++)
        if (streams[i].sent < streams[i].due)
            return false;
    return true;
}

static void send_all_at_once(void) {
    for (uint32_t i = 0; i < set.connections; i++) {
        streams[i].due = bytes_of(streams[i].first, set.packets);
        enqueue(&streams[i]);
    }
    while (queue.count > 0 || !all_sent()) {
        write_round();
        wait_for_room(queue.count > 0 ? 0 : -1);
    }
}

/* How late the latest packet was given to the kernel, nanoseconds. */
static uint64_t send_paced(void) {
    uint64_t latest = 0;
    start = now_ns();
    for (size_t next = 0; next < times.count || queue.count > 0 || !all_sent();) {
        uint64_t now = now_ns(), at = UINT64_MAX;
        for (; next < times.count; next++) {
            stream *s = &streams[times.events[next].stream];
            at = start + times.events[next].due_ns;
            if (at > now)
                break;
            if (now - at > latest)
                latest = now - at;
            s->due = bytes_of(s->first, ++s->tags);
            enqueue(s);
        }
        write_round();
        now = now_ns();
        wait_for_room(queue.count > 0 || at <= now ? 0 : next == times.count ? -1 : (int64_t)(at - now));
    }
    return latest;
}

static void describe(void) {
    uint64_t packets = set.packets * set.connections, checksum = 0;
    uint64_t bytes = (uint64_t)set.connections * CONTENT_FILE_HEADER, first, before = UINT64_MAX, sum = 0;
    for (uint32_t i = 0; i < set.connections; i++, before = first) {
        first = first_of(i);
        if (first != before)
            sum = content_checksum(&what, first, set.packets);
        checksum += sum;
        bytes += bytes_of(first, set.packets);
    }
    printf("plan {\"connections\": %" PRIu32 ", \"packets\": %" PRIu64 ", \"bytes\": %" PRIu64
           ", \"checksum\": \"%016" PRIx64 "\"}\n",
           set.connections, packets, bytes, checksum);
}

/* @return false at the end of the input */
static bool wait_for_line(void) {
    char line[16];
    return fgets(line, sizeof line, stdin);
}

static bool is_paced(void) {
    return set.interval_ns > 0 || set.kbits > 0;
}

static void run(void) {
    allow_descriptors(set.connections + OTHER_DESCRIPTORS);
    pin_to_cpu(set.cpu);
    /* Packets of a thousand streams are some ten microseconds apart. */
    prctl(PR_SET_TIMERSLACK, 1UL);
    if (is_paced())
        plan_times();
    open_streams();
    puts("connected");
    fflush(stdout);
    if (!wait_for_line())
        return;
    uint64_t begin = now_ns(), late = 0;
    if (is_paced())
        late = send_paced();
    else
        send_all_at_once();
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("result {\"wall_s\": %.6f, \"user_s\": %ld.%06ld, \"system_s\": %ld.%06ld, \"latest_us\": %" PRIu64 "}\n",
           (double)(now_ns() - begin) / 1e9, usage.ru_utime.tv_sec, usage.ru_utime.tv_usec, usage.ru_stime.tv_sec,
           usage.ru_stime.tv_usec, late / 1000);
    fflush(stdout);
    while (wait_for_line())
        continue;
}

static void read_write_size(char *text) {
    char *most = strchr(text, '-');
    if (most)
        *most++ = '\0';
    set.least_write = (uint32_t)parse_number("--write", text, 1, MOST_WRITE);
    set.most_write = most ? (uint32_t)parse_number("--write", most, set.least_write, MOST_WRITE) : set.least_write;
}

static bool read_option(int option, char *text) {
    switch (option) {
    case 'o':
        set.port = (uint16_t)parse_number("--port", text, 1, UINT16_MAX);
        return true;
    case 'c':
        set.connections = (uint32_t)parse_number("--connections", text, 1, MOST_CONNECTIONS);
        return true;
    case 'l':
        set.payload = (uint32_t)parse_number("--payload", text, CHECKSUM_BYTES, MOST_PAYLOAD);
        return true;
    case 'n':
        set.packets = parse_number("--packets", text, 1, UINT32_MAX);
        return true;
    case 'w':
        read_write_size(text);
        return true;
    case 'i':
        set.interval_ns = parse_number("--interval", text, 0, 3600000000) * 1000;
        return true;
    case 'k':
        set.kbits = (uint32_t)parse_number("--rate", text, 1, MEDIA_MOST_KBITS);
        return true;
    case 'x':
        set.key_times = (uint32_t)parse_number("--key-times", text, 1, MEDIA_MOST_KEY_TIMES);
        return true;
    case 'a':
        set.arrivals = read_arrivals("--arrivals", text);
        return true;
    case 's':
        set.seed = parse_number("--seed", text, 0, UINT64_MAX);
        return true;
    case 'p':
        set.cpu = (int)parse_number("--cpu", text, 0, 1023);
        return true;
    default:
        return false;
    }
}

static void make_content(void) {
    if (set.kbits == 0) {
        content_make(&what, set.payload, set.most_write, set.seed);
        return;
    }
    if (set.packets > MEDIA_MOST_FRAMES)
        fail(2, "--packets: more than %d of real streams", MEDIA_MOST_FRAMES);
    media_make(&real, set.kbits, set.key_times, MEDIA_PREROLL + MEDIA_GROUP_FRAMES + (uint32_t)set.packets);
    content_make_media(&what, &real);
}

int main(int argc, char **argv) {
    static const struct option known[] = {
        {"port", required_argument, NULL, 'o'},     {"describe", no_argument, NULL, 'd'},
        {"payload", required_argument, NULL, 'l'},  {"connections", required_argument, NULL, 'c'},
        {"packets", required_argument, NULL, 'n'},  {"write", required_argument, NULL, 'w'},
        {"seed", required_argument, NULL, 's'},     {"interval", required_argument, NULL, 'i'},
        {"rate", required_argument, NULL, 'k'},     {"key-times", required_argument, NULL, 'x'},
        {"arrivals", required_argument, NULL, 'a'}, {"cpu", required_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0},
    };
    bool only_describe = false;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 'd')
            only_describe = true;
        else if (!read_option(option, optarg)) {
            usage(option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
    }
    if (optind != argc || (set.kbits && set.interval_ns) || only_describe == (set.port != 0)) {
        usage(stderr);
        return 2;
    }
    make_content();
    if (only_describe)
        describe();
    else
        run();
    return 0;
}
