/* Publishers by RTSP, or of the same by RTMP or as FLV: see --help. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/arrivals.h"
#include "common/media.h"
#include "common/process.h"
#include "common/schedule.h"
#include "rtsp/client.h"
#include "rtsp/opening.h"
#include "rtsp/rtmp.h"
#include "rtsp/secure.h"
#include "rtsp/tcp_table.h"
#include "rtsp/wire.h"

enum { EVENTS = 256, OTHER_DESCRIPTORS = 64, MOST_STREAMS = 10000, NAME = 32, READ_SIZE = 1 << 20 };

typedef struct stream {
    int fd;
    char name[NAME];
    uint64_t sent; /* of what all streams send: bytes up to where this one is */
    uint64_t due;  /* bytes up to which it may send by now */
    uint32_t next; /* the frame that is due next */
    /* frames that are due and that the kernel has not taken whole, and when the first was due */
    uint32_t waiting;
    uint64_t waits_since;
} stream;

static struct {
    uint16_t port;
    enum protocol protocol;
    uint32_t streams, kbits, key_times, frames, warm_up, cool_down, at_once;
    enum arrivals arrivals;
    int cpu;
} set = {.streams = 1,
         .kbits = 1000,
         .key_times = MEDIA_KEY_TIMES,
         .at_once = OPENING_AT_ONCE,
         .arrivals = ARRIVALS_INDEPENDENT,
         .cpu = -1};

static media what;
static wire bytes;
static schedule times;
static stream *streams;
static uint32_t unsent;
/* of all streams: still to be sent before the server is warm, and before the result */
static uint64_t frames_cold, frames_counted;
static int epoll;
static uint64_t start;
/* of each frame that counts: how late the kernel had taken it whole, microseconds */
static uint32_t *late_us;
static uint64_t latest_ns; /* of all frames */
static size_t late_count;

static void usage(FILE *out) {
    fprintf(
        out,
        "Usage: bench-rtsp-send --port N --protocol rtsp|rtmp|flv --frames N [options]\n"
        "\n"
        "Publishes streams of 25 pictures, in groups of 2 s, and 43 frames of AAC a second to a server on 127.0.0.1, "
        "by\n"
        "RTSP, RTMP or as raw FLV: sends the first frame of each track, says \"connected\" and the streams' names,\n"
        "waits for a line on its standard input, sends so many frames of each stream when they are due, one write\n"
        "each, says \"result\" and JSON, then \"unread\" and JSON: how old what the server has not read at that "
        "moment\n"
        "is, of all streams; and waits for the end of the input.\n"
        "\n"
        "  --streams N    1 to 10000 (1)\n"
        "  --at-once N    so many connect at a time, 1 to 4096 (64)\n"
        "  --rate KBITS   of each, both tracks (1000)\n"
        "  --key-times N  a key picture is as large as so many others, 1 to 50 (10)\n"
        "  --arrivals HOW independent: each stream is elsewhere in its group at random; even: the streams are spread\n"
        "                 over the group; together: all begin it at the same time; poisson: independent, and each\n"
        "                 frame late by a random time, 15 ms on average; ticks: independent streams whose frames wait\n"
        "                 for the next tick of 5 ms (independent)\n"
        "  --warm-up N    so many more frames of each stream come first; when they are sent, it says \"warm\" (0)\n"
        "  --cool-down N  so many more frames of each stream come behind the result, so that a server that gathers\n"
        "                 frames sends those before (0)\n"
        "  --tls SUITE    by TLS 1.3 with this cipher suite\n"
        "  --cpu N        stay on this processor\n"
        "  --describe     only says what all streams have: frames of each track, bytes of media, of these what is\n"
        "                 sent behind the warm-up, and payloads of tags, in all and of one stream in the beginning\n");
}

static uint32_t first_of(uint32_t index) {
    return media_first(&what, set.arrivals, index, set.streams);
}

/* Frames of each stream behind the preroll. */
static uint32_t frames_of_each(void) {
    return set.warm_up + set.frames + set.cool_down;
}

/* When the frames of all streams are due. */
static void plan_times(void) {
    uint64_t *due = malloc(frames_of_each() * sizeof *due);
    schedule_make(&times, (uint64_t)frames_of_each() * set.streams);
    if (!due)
        fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
    for (uint32_t i = 0; i < set.streams; i++) {
        media_due(&what, set.arrivals, i, set.streams, due, frames_of_each());
        schedule_add(&times, i, due, frames_of_each());
    }
    schedule_sort(&times);
    free(due);
}

static uint16_t own_port(const stream *s) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    if (getsockname(s->fd, (struct sockaddr *)&address, &length) < 0)
        fail(EXIT_FAILURE, "getsockname: %s", strerror(errno));
    return ntohs(address.sin_port);
}

/* Servers name streams by the port they come from. */
static void name_flv(stream *s) {
    snprintf(s->name, sizeof s->name, "live/flv-%u", own_port(s));
}

/* Waits for room; by TLS for whatever the socket is to take. */
static void send_whole(const stream *s, const uint8_t *from, size_t size) {
    while (size > 0) {
        struct pollfd room = {.fd = s->fd, .events = POLLOUT};
        ssize_t n = secure_send(s->fd, from, size, 0);
        if (n < 0 && (errno != EAGAIN || poll(&room, 1, -1) < 0))
            fail(EXIT_FAILURE, "%s: %s", s->name, strerror(errno));
        from += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
}

/* The first frame of each track. */
static void send_preroll(stream *s) {
    size_t size = bytes.ends[MEDIA_PREROLL - 1];
    uint8_t *numbered = set.protocol == PROTOCOL_RTSP ? malloc(size) : NULL;
    if (set.protocol == PROTOCOL_RTSP) {
        if (!numbered)
            fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
        wire_rtp_preroll(&bytes, s->next, numbered);
    }
    send_whole(s, numbered ? numbered : bytes.bytes, size);
    free(numbered);
}

/* It publishes, and the server has something of it at once. */
static void has_started(const opening_client *client) {
    stream *s = &streams[client->index];
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = s};
    s->fd = client->fd;
    if (set.protocol == PROTOCOL_FLV)
        name_flv(s);
    s->next = first_of(client->index);
    s->sent = s->due = bytes.ends[s->next - 1];
    send_preroll(s);
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, s->fd, &event) < 0)
        fail(EXIT_FAILURE, "%s: %s", s->name, strerror(errno));
}

static void rtsp_ready(rtsp_client *client) {
    has_started(&client->opening);
}

static void rtmp_ready(rtmp_client *client) {
    rtmp_forget(&client->chunks);
    has_started(&client->opening);
}

/* FLV has nothing before the file header. */
static void begin_flv(void *client) {
    (void)client;
}

static void flv_ready(void *client) {
    has_started(client);
}

static const char *name_of(uint32_t index) {
    return streams[index].name;
}

static void open_streams(void) {
    static const opening_dialog flv = {.size = sizeof(opening_client), .begin = begin_flv, .ready = flv_ready};
    const opening wanted = {.port = set.port, .count = set.streams, .at_once = set.at_once, .name = name_of};
    streams = calloc(set.streams, sizeof *streams);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!streams || epoll < 0)
        fail(EXIT_FAILURE, "%s", strerror(errno));
    for (uint32_t i = 0; i < set.streams; i++)
        snprintf(streams[i].name, NAME, "live/%s-%u", set.protocol == PROTOCOL_RTSP ? "rtsp" : "rtmp", i);
    if (set.protocol == PROTOCOL_RTSP)
        rtsp_start(&wanted, media_sdp, rtsp_ready);
    else if (set.protocol == PROTOCOL_RTMP)
        rtmp_start(&wanted, true, rtmp_ready);
    else
        open_all(&wanted, &flv);
}

/* Of frames that have waited together, all are as late as the first of them. */
static void note_late(uint32_t frames, uint64_t due, uint64_t now) {
    latest_ns = now - due > latest_ns ? now - due : latest_ns;
    for (uint32_t i = 0; i < frames && frames_cold == 0 && frames_counted > 0; i++)
        late_us[late_count++] = (uint32_t)((now - due) / 1000);
}

static void write_once(stream *s) {
    bool before = s->sent < s->due;
    if (!before)
        return;
    ssize_t n = secure_send(s->fd, bytes.bytes + s->sent, s->due - s->sent, MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        fail(EXIT_FAILURE, "%s: %s", s->name, strerror(errno));
    s->sent += n > 0 ? (uint64_t)n : 0;
    if (s->sent < s->due)
        return;
    unsent--;
    note_late(s->waiting, s->waits_since, now_ns());
    s->waiting = 0;
}

/* Up to so many nanoseconds, for room; reports are thrown away. Negative: for any length. */
static void wait_for_room(int64_t ns) {
    struct epoll_event events[EVENTS];
    const struct timespec timeout = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    int count = epoll_pwait2(epoll, events, EVENTS, ns < 0 ? NULL : &timeout, NULL);
    for (int i = 0; i < count; i++) {
        stream *s = events[i].data.ptr;
        if (events[i].events & EPOLLIN && secure_recv(s->fd, NULL, READ_SIZE, MSG_TRUNC | MSG_DONTWAIT) == 0)
            fail(EXIT_FAILURE, "%s: the server has ended it", s->name);
        if (events[i].events & EPOLLOUT)
            write_once(s);
    }
}

static void say(const char *word) {
    puts(word);
    fflush(stdout);
}

static int compare(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static uint32_t late_p99_us(void) {
    qsort(late_us, late_count, sizeof *late_us, compare);
    return late_count > 0 ? late_us[late_count * 99 / 100] : 0;
}

/* Says it when the last frame that counts has been given to the kernel, or waits for room. So may
 * others, which count. */
static void print_result(uint64_t now) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    for (uint32_t i = 0; i < set.streams; i++)
        if (streams[i].waiting > 0)
            note_late(streams[i].waiting, streams[i].waits_since, now);
    printf("result {\"wall_s\": %.6f, \"user_s\": %ld.%06ld, \"system_s\": %ld.%06ld, \"latest_us\": %" PRIu64
           ", \"late_p99_us\": %" PRIu32 ", \"start_ns\": %" PRIu64 "}\n",
           (double)(now_ns() - start) / 1e9, usage.ru_utime.tv_sec, usage.ru_utime.tv_usec, usage.ru_stime.tv_sec,
           usage.ru_stime.tv_usec, latest_ns / 1000, late_p99_us(), start);
    fflush(stdout);
}

/* What the server's ends of the connections have received and its program has not read. */
static void add_received(uint64_t *unread, const uint32_t *by_port) {
    FILE *table = tcp_table_open();
    for (tcp_row row; tcp_table_next(table, &row);)
        if (row.own_port == set.port && by_port[row.other_port] > 0)
            unread[by_port[row.other_port] - 1] += row.unread;
    fclose(table);
}

/* Of each stream, by the port that it comes from: bytes that are due and that the server's program
 * has not read. */
static void count_unread(uint64_t *unread, uint32_t *by_port) {
    for (uint32_t i = 0; i < set.streams; i++) {
        int unsent_bytes = 0;
        if (ioctl(streams[i].fd, SIOCOUTQNSD, &unsent_bytes) < 0)
            fail(EXIT_FAILURE, "%s: %s", streams[i].name, strerror(errno));
        by_port[own_port(&streams[i])] = i + 1;
        unread[i] = streams[i].due - streams[i].sent + (uint64_t)unsent_bytes;
    }
    add_received(unread, by_port);
}

/* When the frame was due in which the first byte is that the server has not read: until then. */
static uint64_t unread_since(uint32_t index, uint64_t unread, uint64_t *due, uint64_t now) {
    const stream *s = &streams[index];
    const uint32_t first = first_of(index);
    uint64_t at = s->due - (unread < s->due ? unread : s->due);
    uint32_t frame = s->next;
    while (frame > first && bytes.ends[frame - 1] > at)
        frame--;
    if (frame == s->next)
        return now;
    media_due(&what, set.arrivals, index, set.streams, due, frames_of_each());
    return start + due[frame - first];
}

/* The state of all streams when the result has been said: the server's players tell of those that
 * are played. */
static void print_unread(uint64_t now) {
    uint64_t *unread = calloc(set.streams, sizeof *unread), *due = malloc(frames_of_each() * sizeof *due);
    uint32_t *by_port = calloc(UINT16_MAX + 1, sizeof *by_port), *ages_us = calloc(set.streams, sizeof *ages_us);
    if (!unread || !due || !by_port || !ages_us)
        fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
    count_unread(unread, by_port);
    for (uint32_t i = 0; i < set.streams; i++)
        ages_us[i] = (uint32_t)((now - unread_since(i, unread[i], due, now)) / 1000);
    qsort(ages_us, set.streams, sizeof *ages_us, compare);
    printf("unread {\"unread_p50_us\": %" PRIu32 ", \"unread_p99_us\": %" PRIu32 "}\n", ages_us[set.streams / 2],
           ages_us[(uint64_t)set.streams * 99 / 100]);
    fflush(stdout);
    free(unread);
    free(due);
    free(by_port);
    free(ages_us);
}

/* The next frame of a stream is sent, which was due then. */
static void send_frame(stream *s, uint64_t due, uint64_t now) {
    unsent += s->sent == s->due;
    s->waits_since = s->waiting++ == 0 ? due : s->waits_since;
    s->due = bytes.ends[s->next++];
    write_once(s);
    if (frames_cold > 0 && --frames_cold == 0)
        say("warm");
    if (frames_counted == 0)
        return;
    if (frames_counted == 1)
        print_result(now);
    if (--frames_counted == 0)
        print_unread(now);
}

static void send_all(void) {
    size_t next = 0;
    start = now_ns();
    frames_cold = (uint64_t)set.warm_up * set.streams;
    frames_counted = frames_cold + (uint64_t)set.frames * set.streams;
    while (next < times.count || unsent > 0) {
        uint64_t now = now_ns(), at = UINT64_MAX;
        for (; next < times.count; next++) {
            at = start + times.events[next].due_ns;
            if (at > now)
                break;
            send_frame(&streams[times.events[next].stream], at, now);
        }
        if (next == times.count && unsent == 0)
            break;
        now = now_ns();
        wait_for_room(next == times.count ? -1 : at > now ? (int64_t)(at - now) : 0);
    }
}

static void run(void) {
    allow_descriptors(set.streams + OTHER_DESCRIPTORS);
    pin_to_cpu(set.cpu);
    prctl(PR_SET_TIMERSLACK, 1UL);
    static void (*const make[])(wire *, const media *) = {
        [PROTOCOL_RTSP] = wire_make_rtp, [PROTOCOL_RTMP] = wire_make_rtmp, [PROTOCOL_FLV] = wire_make_flv};
    make[set.protocol](&bytes, &what);
    plan_times();
    open_streams();
    printf("connected");
    for (uint32_t i = 0; i < set.streams; i++)
        printf(" %s", streams[i].name);
    say("");
    if (getchar() == EOF)
        return;
    late_us = malloc((times.count + 1) * sizeof *late_us);
    if (!late_us)
        fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
    send_all();
    while (getchar() != EOF)
        continue;
}

static void describe(void) {
    uint64_t counts[MEDIA_TRACKS] = {0}, all = 0, span = 0, flv = 0, flv_preroll = wire_flv_head();
    for (uint32_t i = 0; i < MEDIA_PREROLL; i++)
        flv_preroll += wire_flv_payload(&what.frames[i]);
    for (uint32_t i = 0; i < set.streams; i++) {
        uint32_t first = first_of(i), end = first + frames_of_each();
        flv += flv_preroll;
        for (uint32_t k = 0; k < end; k = k + 1 == MEDIA_PREROLL ? first : k + 1) {
            const media_frame *frame = &what.frames[k];
            counts[frame->track]++;
            all += frame->size;
            span += k >= first + set.warm_up && k < first + set.warm_up + set.frames ? frame->size : 0;
            flv += k >= first ? wire_flv_payload(frame) : 0;
        }
    }
    printf("plan {\"video\": %" PRIu64 ", \"audio\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"span_bytes\": %" PRIu64
           ", \"flv_bytes\": %" PRIu64 ", \"flv_preroll_bytes\": %" PRIu64 "}\n",
           counts[MEDIA_VIDEO], counts[MEDIA_AUDIO], all, span, flv, flv_preroll);
}

int main(int argc, char **argv) {
    static const struct option known[] = {
        {"port", required_argument, NULL, 'o'},
        {"protocol", required_argument, NULL, 'r'},
        {"streams", required_argument, NULL, 'n'},
        {"rate", required_argument, NULL, 'k'},
        {"frames", required_argument, NULL, 'f'},
        {"cpu", required_argument, NULL, 'p'},
        {"warm-up", required_argument, NULL, 'w'},
        {"cool-down", required_argument, NULL, 'c'},
        {"key-times", required_argument, NULL, 'x'},
        {"arrivals", required_argument, NULL, 'a'},
        {"tls", required_argument, NULL, 't'},
        {"at-once", required_argument, NULL, 'm'},
        {"describe", no_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    bool only_describe = false;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 'o')
            set.port = (uint16_t)parse_number("--port", optarg, 1, UINT16_MAX);
        else if (option == 'r')
            set.protocol = read_protocol(optarg);
        else if (option == 'n')
            set.streams = (uint32_t)parse_number("--streams", optarg, 1, MOST_STREAMS);
        else if (option == 'k')
            set.kbits = (uint32_t)parse_number("--rate", optarg, 1, MEDIA_MOST_KBITS);
        else if (option == 'f')
            set.frames = (uint32_t)parse_number("--frames", optarg, 1, MEDIA_MOST_FRAMES);
        else if (option == 'w')
            set.warm_up = (uint32_t)parse_number("--warm-up", optarg, 0, MEDIA_MOST_FRAMES);
        else if (option == 'p')
            set.cpu = (int)parse_number("--cpu", optarg, 0, 1023);
        else if (option == 'm')
            set.at_once = (uint32_t)parse_number("--at-once", optarg, 1, OPENING_MOST_AT_ONCE);
        else if (option == 'c')
            set.cool_down = (uint32_t)parse_number("--cool-down", optarg, 0, MEDIA_MOST_FRAMES);
        else if (option == 'x')
            set.key_times = (uint32_t)parse_number("--key-times", optarg, 1, MEDIA_MOST_KEY_TIMES);
        else if (option == 'a')
            set.arrivals = read_arrivals("--arrivals", optarg);
        else if (option == 't')
            secure_use(optarg);
        else if (option == 'd')
            only_describe = true;
        else {
            usage(option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
    }
    if (optind != argc || !set.frames || (!only_describe && (!set.port || !set.protocol))) {
        usage(stderr);
        return 2;
    }
    media_make(&what, set.kbits, set.key_times, MEDIA_PREROLL + MEDIA_GROUP_FRAMES + frames_of_each());
    if (only_describe)
        describe();
    else
        run();
    return 0;
}
