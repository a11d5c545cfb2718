/* Players that look at all they get: see --help. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/arrivals.h"
#include "common/media.h"
#include "common/process.h"
#include "rtsp/check.h"
#include "rtsp/client.h"
#include "rtsp/opening.h"
#include "rtsp/rtmp.h"
#include "rtsp/secure.h"

enum {
    EVENTS = 1024,
    OTHER_DESCRIPTORS = 64,
    MOST_STREAMS = 10000,
    MOST_PLAYERS = 100000,
    MOST_READ_MS = 1000,
    READ_SIZE = 8 << 20,
    /* bytes in which players of a stream may differ: less than a frame */
    TOLERANCE = 300,
    PATIENCE_MS = 2000, /* for the others, when those that look have all */
    READ_PER_START = 8, /* players, when one more starts */
    TURNS = 1 << 16,    /* of this program, the last ones */
};

typedef struct player {
    int fd;
    bool looks;     /* compares every byte; the others throw away what they get */
    uint64_t bytes; /* received */
    checker checker;
    /* frames whose arrival has been noted, or that came before it counts */
    uint32_t noted[MEDIA_TRACKS];
    uint8_t *rest; /* of what has been received: the beginning of a frame */
    size_t rest_size, rest_room;
} player;

static struct {
    uint16_t port;
    enum protocol protocol;
    bool join;        /* players may begin with any frame before those that count */
    uint32_t each;    /* players of a stream */
    uint32_t streams; /* of the publisher; 0: those that are played */
    uint32_t look;    /* players of a stream that look; 0: all */
    uint32_t read_ms; /* how often the others are read; 0: when something has come */
    uint32_t kbits, key_times, frames, warm_up, cool_down, at_once;
    enum arrivals arrivals;
    int cpu;
} set = {.each = 1,
         .kbits = 1000,
         .key_times = MEDIA_KEY_TIMES,
         .at_once = OPENING_AT_ONCE,
         .arrivals = ARRIVALS_INDEPENDENT,
         .cpu = -1};

/* A stream that is played. */
typedef struct stream {
    uint32_t first;   /* the frame that follows the preroll */
    uint64_t *due_ns; /* of each frame from there on, since the publisher began */
} stream;

static media what;
static stream *streams;
static player *players;
static uint32_t count, looking;
static char **names; /* of the streams */
/* in the order in which they have; of those that look, how many were done before all had */
static player **started;
static uint32_t started_count, done_early;
/* how long this program took for what had come at a time, microseconds: so long may an arrival wait
 * for it */
static uint32_t turns_us[TURNS];
static uint64_t turn_count;
/* of all frames that count: the time when a player had it, less when it was due since the publisher
 * began, nanoseconds */
static uint64_t *arrivals;
static size_t arrival_count;

static void usage(FILE *out) {
    fprintf(
        out,
        "Usage: bench-rtsp-play --port N --protocol rtsp|rtmp|flv --frames N [options] STREAM...\n"
        "\n"
        "Players of streams that bench-rtsp-send publishes with the same options, on 127.0.0.1, the first ones: says\n"
        "\"connected\" when all play (RTSP, RTMP) or have asked (GET /STREAM.flv), and \"result\" and JSON when "
        "each has\n"
        "got all frames of its stream. They compare every byte, and what is missing or different is an error.\n"
        "Then, for the \"start_ns\" of bench-rtsp-send on its standard input, it says \"delays\" and JSON: from when\n"
        "frames were due to be sent to when a player had them.\n"
        "\n"
        "  --join         the server does not keep what was sent before they came, or waits for a key picture: they\n"
        "                 may begin with any frame of the warm-up, but miss none after that\n"
        "  --players N    of each stream (1)\n"
        "  --at-once N    so many connect at a time, 1 to 4096 (64)\n"
        "  --streams N    as many as bench-rtsp-send has (those that are named)\n"
        "  --rate KBITS, --key-times N, --arrivals HOW, --frames N\n"
        "                 as bench-rtsp-send has them\n"
        "  --warm-up N    frames that come first, whose delay does not count (0)\n"
        "  --cool-down N  frames that come last, which do not count either; a player is done without them (0)\n"
        "  --look N       so many players of each stream compare their bytes and measure delays; the others throw\n"
        "                 theirs away, and must get as many (all)\n"
        "  --read-every MS\n"
        "                 the others are read so often; 0: when something has come (0)\n"
        "  --tls SUITE    by TLS 1.3 with this cipher suite; bytes are those within it\n"
        "  --cpu N        stay on this processor\n");
}

static void keep_rest(player *p, const uint8_t *bytes, size_t size) {
    if (size > p->rest_room) {
        free(p->rest);
        p->rest_room = 2 * size;
        p->rest = malloc(p->rest_room);
        if (!p->rest)
            fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
    }
    if (size > 0)
        memcpy(p->rest, bytes, size);
    p->rest_size = size;
}

/* The frames that have just become whole. */
static void note_arrivals(player *p) {
    const stream *s = &streams[(uint32_t)(p - players) / set.each];
    uint64_t now = now_ns();
    for (int track = 0; track < MEDIA_TRACKS; track++)
        for (; p->noted[track] < p->checker.next[track] && p->noted[track] < p->checker.enough[track];
             p->noted[track]++)
            arrivals[arrival_count++] = now - s->due_ns[what.tracks[track][p->noted[track]] - s->first];
}

/* Looks at all that is whole: true when it was the player's last frame. */
static bool check(player *p, uint8_t *bytes, size_t size) {
    bool before = check_is_done(&p->checker);
    static size_t (*const checks[])(checker *, uint8_t *, size_t) = {
        [PROTOCOL_RTSP] = check_rtp, [PROTOCOL_RTMP] = check_rtmp, [PROTOCOL_FLV] = check_flv};
    size_t done = checks[set.protocol](&p->checker, bytes, size);
    keep_rest(p, bytes + done, size - done);
    note_arrivals(p);
    return check_is_done(&p->checker) && !before;
}

/* Bytes, 0 when there are none now. */
static size_t receive_some(player *p, void *memory, size_t room, int flags) {
    ssize_t n = secure_recv(p->fd, memory, room, MSG_DONTWAIT | flags);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        fail(EXIT_FAILURE, "a player was ended: %s", n < 0 ? strerror(errno) : "");
    p->bytes += (uint64_t)n;
    return (size_t)n;
}

/* The kernel drops the bytes where it would copy them. */
static void drop(player *p) {
    receive_some(p, NULL, READ_SIZE, MSG_TRUNC);
}

/* @return whether it has all now, for the first time */
static bool receive(player *p) {
    /* One piece of memory for all, which stays in the cache. */
    static uint8_t buffer[READ_SIZE];
    size_t rest = p->rest_size;
    if (rest >= sizeof buffer / 2)
        fail(EXIT_FAILURE, "a frame that is too large");
    if (rest > 0)
        memcpy(buffer, p->rest, rest);
    size_t n = receive_some(p, buffer + rest, sizeof buffer - rest, 0);
    size_t data = p->checker.is_chunked ? chunked_strip(&p->checker.chunks_of, buffer + rest, n) : n;
    return data > 0 && check(p, buffer, rest + data);
}

/* What came with the answers, before anything is measured. @return whether it is done already */
static bool take_first(player *p, uint8_t *bytes, size_t size) {
    p->bytes += size;
    return p->looks && check(p, bytes, size);
}

/* Some of those that have started, so that what comes for them does not wait for all others to
 * start. */
static void read_some(void) {
    static uint32_t next;
    for (uint32_t i = 0; i < READ_PER_START && started_count > 0; i++, next++) {
        player *p = started[next % started_count];
        if (p->looks)
            done_early += receive(p);
        else
            drop(p);
    }
}

static player *has_started(const opening_client *client) {
    player *p = &players[client->index];
    p->fd = client->fd;
    read_some();
    started[started_count++] = p;
    return p;
}

static void rtsp_ready(rtsp_client *client) {
    player *p = has_started(&client->opening);
    done_early += take_first(p, (uint8_t *)client->in, client->have);
}

static void rtmp_ready(rtmp_client *client) {
    player *p = has_started(&client->opening);
    if (p->looks)
        p->checker.chunks = client->chunks;
    else
        rtmp_forget(&client->chunks);
    done_early += take_first(p, client->in, client->have);
}

static void ask_for_flv(void *user) {
    opening_client *client = user;
    char request[128];
    int size = snprintf(request, sizeof request, "GET /%s.flv HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", client->name);
    if (size >= (int)sizeof request || secure_send(client->fd, request, (size_t)size, 0) != size)
        fail(EXIT_FAILURE, "asking for %s: %s", client->name, strerror(errno));
}

/* They have asked. */
static void flv_ready(void *user) {
    has_started(user);
}

static const char *name_of(uint32_t index) {
    return names[index / set.each];
}

/* @return those that are done already */
static uint32_t start_players(void) {
    static const opening_dialog flv = {.size = sizeof(opening_client), .begin = ask_for_flv, .ready = flv_ready};
    const opening wanted = {.port = set.port, .count = count, .at_once = set.at_once, .name = name_of};
    started = calloc(count, sizeof(player *));
    if (!started)
        fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
    if (set.protocol == PROTOCOL_RTSP)
        rtsp_start(&wanted, NULL, rtsp_ready);
    else if (set.protocol == PROTOCOL_RTMP)
        rtmp_start(&wanted, false, rtmp_ready);
    else
        open_all(&wanted, &flv);
    return done_early;
}

/* Segments with data that all have received. */
static uint64_t segments(void) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct tcp_info info = {0};
        socklen_t size = sizeof info;
        if (getsockopt(players[i].fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
            sum += info.tcpi_data_segs_in;
    }
    return sum;
}

/* The next ones of those that are read now and then: all of them in read_ms. */
static void sweep(void) {
    static uint64_t before_ns;
    static uint32_t next;
    uint64_t now = now_ns(), passed = now - before_ns, all_ns = (uint64_t)set.read_ms * 1000000;
    uint64_t reads = passed < all_ns ? passed * count / all_ns : count;
    if (reads == 0)
        return;
    before_ns = now;
    for (; reads > 0; reads--, next = (next + 1) % count)
        if (!players[next].looks)
            drop(&players[next]);
}

/* The others get as many bytes as the first player of their stream has. What comes behind the span
 * may make up for as many that are lost: only the server can say. @return how many do not */
static uint32_t catch_up(void) {
    uint32_t missing = count - looking;
    for (uint32_t ms = 0; missing > 0 && ms < PATIENCE_MS; ms++) {
        missing = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (players[i].looks || players[i].bytes + TOLERANCE >= players[i - i % set.each].bytes)
                continue;
            drop(&players[i]);
            missing += players[i].bytes + TOLERANCE < players[i - i % set.each].bytes;
        }
        if (missing > 0)
            poll(NULL, 0, 1);
    }
    return missing;
}

/* @param done of those that look @return players that have not got all */
static uint32_t play(uint32_t done) {
    static struct epoll_event events[EVENTS];
    const bool sweeps = set.read_ms > 0 && looking < count;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (uint32_t i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &players[i]};
        if ((players[i].looks || !sweeps) && (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, players[i].fd, &event) < 0))
            fail(EXIT_FAILURE, "epoll: %s", strerror(errno));
    }
    while (done < looking) {
        int ready = epoll_wait(epoll, events, EVENTS, sweeps ? 1 : -1);
        uint64_t begin = now_ns();
        for (int i = 0; i < ready; i++) {
            player *p = events[i].data.ptr;
            if (p->looks)
                done += receive(p);
            else
                drop(p);
        }
        if (sweeps)
            sweep();
        turns_us[turn_count++ % TURNS] = (uint32_t)((now_ns() - begin) / 1000);
    }
    return catch_up();
}

static void start_stream(stream *s, uint32_t index) {
    uint32_t all = set.streams > 0 ? set.streams : count / set.each;
    s->first = media_first(&what, set.arrivals, index, all);
    s->due_ns = malloc(set.frames * sizeof *s->due_ns);
    if (!s->due_ns)
        fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
    media_due(&what, set.arrivals, index, all, s->due_ns, set.frames);
}

static uint32_t looking_of_each(void) {
    return set.look > 0 && set.look < set.each ? set.look : set.each;
}

/* Those that look are spread over their stream's players; the first one does. */
static void start_player(player *p) {
    uint64_t place = (uint64_t)(p - players) % set.each, look = looking_of_each();
    p->looks = place == 0 || place * look / set.each != (place - 1) * look / set.each;
    uint32_t first = streams[(uint32_t)(p - players) / set.each].first;
    const check_span span = {.first = first,
                             .counted = first + set.warm_up,
                             .enough = first + set.frames,
                             .end = first + set.frames + set.cool_down};
    check_start(&p->checker, &what, &span, set.join);
    memcpy(p->noted, p->checker.counts, sizeof p->noted);
}

static int compare(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static int compare_turns(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static uint32_t turn_p99_us(void) {
    size_t turns = turn_count < TURNS ? turn_count : TURNS;
    qsort(turns_us, turns, sizeof *turns_us, compare_turns);
    return turns > 0 ? turns_us[turns * 99 / 100] : 0;
}

static double us_at(double share, uint64_t start) {
    size_t place = (size_t)((double)arrival_count * share);
    uint64_t at = arrivals[place < arrival_count ? place : arrival_count - 1];
    return ((double)at - (double)start) / 1e3;
}

/* @start when the publisher's first frame was due */
static void print_delays(uint64_t start) {
    if (arrival_count == 0)
        fail(EXIT_FAILURE, "no frame counts");
    qsort(arrivals, arrival_count, sizeof *arrivals, compare);
    printf("delays {\"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, \"longest_us\": %.1f}\n", us_at(0.50, start),
           us_at(0.90, start), us_at(0.99, start), us_at(1.0, start));
    fflush(stdout);
}

/* Of media, in all frames of a stream. */
static uint64_t bytes_of(const stream *s) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->first + set.frames; i = i + 1 == MEDIA_PREROLL ? s->first : i + 1)
        sum += what.frames[i].size;
    return sum;
}

static void run(void) {
    allow_descriptors(count + OTHER_DESCRIPTORS);
    pin_to_cpu(set.cpu);
    media_make(&what, set.kbits, set.key_times, MEDIA_PREROLL + MEDIA_GROUP_FRAMES + set.frames + set.cool_down);
    looking = count / set.each * looking_of_each();
    streams = calloc(count / set.each, sizeof *streams);
    players = calloc(count, sizeof *players);
    arrivals = malloc((size_t)looking * set.frames * sizeof *arrivals);
    if (!streams || !players || !arrivals)
        fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
    for (uint32_t i = 0; i < count / set.each; i++)
        start_stream(&streams[i], i);
    for (uint32_t i = 0; i < count; i++)
        start_player(&players[i]);
    uint32_t done = start_players();
    uint64_t segments_before = segments();
    puts("connected");
    fflush(stdout);
    uint32_t missing = play(done);
    struct rusage usage;
    uint64_t packets = 0, all_bytes = 0, wire_bytes = 0;
    getrusage(RUSAGE_SELF, &usage);
    for (uint32_t i = 0; i < count; i++) {
        packets += players[i].checker.packets;
        wire_bytes += players[i].bytes;
        all_bytes += bytes_of(&streams[i / set.each]);
    }
    printf("result {\"players\": %" PRIu32 ", \"without_all\": %" PRIu32 ", \"media_bytes\": %" PRIu64
           ", \"wire_bytes\": %" PRIu64 ", \"wire_packets\": %" PRIu64 ", \"segments\": %" PRIu64
           ", \"turn_p99_us\": %" PRIu32 ", \"user_s\": %ld.%06ld, \"system_s\": %ld.%06ld}\n",
           count, missing, all_bytes, wire_bytes, packets, segments() - segments_before, turn_p99_us(),
           usage.ru_utime.tv_sec, usage.ru_utime.tv_usec, usage.ru_stime.tv_sec, usage.ru_stime.tv_usec);
    fflush(stdout);
    uint64_t begun;
    if (scanf("%" SCNu64, &begun) == 1)
        print_delays(begun);
    /* All stay until everything has been measured. */
    while (getchar() != EOF)
        continue;
}

int main(int argc, char **argv) {
    static const struct option known[] = {
        {"port", required_argument, NULL, 'o'},
        {"protocol", required_argument, NULL, 'r'},
        {"players", required_argument, NULL, 'n'},
        {"rate", required_argument, NULL, 'k'},
        {"frames", required_argument, NULL, 'f'},
        {"warm-up", required_argument, NULL, 'w'},
        {"streams", required_argument, NULL, 's'},
        {"key-times", required_argument, NULL, 'x'},
        {"arrivals", required_argument, NULL, 'a'},
        {"cpu", required_argument, NULL, 'p'},
        {"cool-down", required_argument, NULL, 'c'},
        {"join", no_argument, NULL, 'j'},
        {"tls", required_argument, NULL, 't'},
        {"look", required_argument, NULL, 'l'},
        {"read-every", required_argument, NULL, 'e'},
        {"at-once", required_argument, NULL, 'm'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 'o')
            set.port = (uint16_t)parse_number("--port", optarg, 1, UINT16_MAX);
        else if (option == 'r')
            set.protocol = read_protocol(optarg);
        else if (option == 'n')
            set.each = (uint32_t)parse_number("--players", optarg, 1, MOST_PLAYERS);
        else if (option == 'k')
            set.kbits = (uint32_t)parse_number("--rate", optarg, 1, MEDIA_MOST_KBITS);
        else if (option == 'f')
            set.frames = (uint32_t)parse_number("--frames", optarg, 1, MEDIA_MOST_FRAMES);
        else if (option == 'w')
            set.warm_up = (uint32_t)parse_number("--warm-up", optarg, 0, MEDIA_MOST_FRAMES);
        else if (option == 's')
            set.streams = (uint32_t)parse_number("--streams", optarg, 1, MOST_STREAMS);
        else if (option == 'x')
            set.key_times = (uint32_t)parse_number("--key-times", optarg, 1, MEDIA_MOST_KEY_TIMES);
        else if (option == 'a')
            set.arrivals = read_arrivals("--arrivals", optarg);
        else if (option == 'c')
            set.cool_down = (uint32_t)parse_number("--cool-down", optarg, 0, MEDIA_MOST_FRAMES);
        else if (option == 'j')
            set.join = true;
        else if (option == 't')
            secure_use(optarg);
        else if (option == 'l')
            set.look = (uint32_t)parse_number("--look", optarg, 0, MOST_PLAYERS);
        else if (option == 'e')
            set.read_ms = (uint32_t)parse_number("--read-every", optarg, 0, MOST_READ_MS);
        else if (option == 'm')
            set.at_once = (uint32_t)parse_number("--at-once", optarg, 1, OPENING_MOST_AT_ONCE);
        else if (option == 'p')
            set.cpu = (int)parse_number("--cpu", optarg, 0, 1023);
        else {
            usage(option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
    }
    uint64_t named = (uint64_t)(argc - optind);
    if (!set.port || !set.protocol || set.frames <= set.warm_up || named < 1 || named > MOST_STREAMS ||
        named * set.each > MOST_PLAYERS) {
        usage(stderr);
        return 2;
    }
    count = (uint32_t)named * set.each;
    names = argv + optind;
    run();
    return 0;
}
