/* Players that throw away what they get, or look at the stamps in it: see --help. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/process.h"
#include "play/stamps.h"

enum {
    EVENTS = 1024,
    OTHER_DESCRIPTORS = 64,
    MOST_STREAMS = 1000,
    MOST_PLAYERS = 100000,
    READ_SIZE = 1 << 20,
    /* of those who are read now and then; one a millisecond: at 4 Mbit/s each has 32 KB by then */
    SLICES = 64,
};

typedef struct player {
    int fd;
    uint64_t bytes; /* received, the response's head included */
    stamp_reader reader;
} player;

static uint64_t players_done, all_bytes;
static bool has_stamps;

static void usage(FILE *out) {
    fprintf(out,
            "Usage: bench-play --port N --players N --bytes N | --tags N [--cpu N] STREAM...\n"
            "\n"
            "So many players of each stream (GET /STREAM.flv on 127.0.0.1): says \"connected\" when all have sent\n"
            "their request, and \"result\" and JSON when each has received so many bytes. They look at none.\n"
            "With --tags one player of each stream looks at the stamps that bench-send has set, and is done with so\n"
            "many tags; the result has how long these took, in microseconds. The others are read now and then, so\n"
            "that it is not this program that packets wait for.\n");
}

static void open_player(player *p, uint16_t port, const char *stream) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    const struct linger at_once = {.l_onoff = 1};
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->fd < 0 || connect(p->fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) < 0)
        fail(EXIT_FAILURE, "connecting: %s", strerror(errno));
    /* Stamps are looked for where a tag has them: chunks would be in the way. */
    if (dprintf(p->fd, "GET /%s.flv HTTP/1.%d\r\nHost: 127.0.0.1\r\n\r\n", stream, !has_stamps) < 0 ||
        fcntl(p->fd, F_SETFL, O_NONBLOCK) < 0)
        fail(EXIT_FAILURE, "asking for %s: %s", stream, strerror(errno));
}

static void drop(player *p) {
    /* On TCP the kernel drops the bytes where it would copy them: a player costs the sink next to
     * nothing. */
    ssize_t n = recv(p->fd, NULL, READ_SIZE, MSG_TRUNC | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        fail(EXIT_FAILURE, "a player was ended after %" PRIu64 " bytes: %s", p->bytes, n < 0 ? strerror(errno) : "");
    all_bytes += (uint64_t)n;
    p->bytes += (uint64_t)n;
}

static void receive(player *p, uint64_t enough) {
    uint64_t before = has_stamps ? p->reader.tags : p->bytes;
    if (has_stamps) {
        uint64_t bytes = stamp_read(&p->reader, p->fd);
        all_bytes += bytes;
        p->bytes += bytes;
    } else {
        drop(p);
    }
    players_done += before < enough && (has_stamps ? p->reader.tags : p->bytes) >= enough;
}

/* Of a player's stream, the one that looks at what comes as soon as it comes: another one in each
 * stream's order. */
static uint64_t awake_of(uint64_t index, uint64_t each) {
    uint64_t stream = index / each;
    return stream * each + stream % each;
}

/* With stamps one of each stream, else all. */
static bool is_awake(uint64_t index, uint64_t each) {
    return !has_stamps || index == awake_of(index, each);
}

/* The next ones of those who are read now and then; they are called by nothing. */
static void sweep(player *all, uint64_t players, uint64_t each) {
    static uint64_t next;
    for (uint64_t count = players / SLICES + 1; count > 0; count--, next = (next + 1) % players)
        if (!is_awake(next, each))
            drop(&all[next]);
}

/* Those who are read now and then get what the one of their stream has got. */
static void catch_up(player *all, uint64_t players, uint64_t each) {
    for (uint64_t i = 0; i < players; i++) {
        const player *awake = &all[awake_of(i, each)];
        struct pollfd more = {.fd = all[i].fd, .events = POLLIN};
        while (all[i].bytes < awake->bytes && poll(&more, 1, -1) >= 0)
            drop(&all[i]);
    }
}

static void play(player *all, uint64_t players, uint64_t each, uint64_t enough) {
    static struct epoll_event events[EVENTS];
    const bool sweeps = has_stamps && each > 1;
    const uint64_t awake = sweeps ? players / each : players;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        fail(EXIT_FAILURE, "epoll: %s", strerror(errno));
    for (uint64_t i = 0; i < players; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        if (is_awake(i, each) && epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &event) < 0)
            fail(EXIT_FAILURE, "epoll: %s", strerror(errno));
    }
    for (uint64_t swept = now_ns(); players_done < awake;) {
        int count = epoll_wait(epoll, events, EVENTS, sweeps ? 1 : -1);
        for (int i = 0; i < count; i++)
            receive(events[i].data.ptr, enough);
        if (sweeps && now_ns() - swept >= 1000000) {
            sweep(all, players, each);
            swept = now_ns();
        }
    }
    if (sweeps)
        catch_up(all, players, each);
}

int main(int argc, char **argv) {
    static const struct option known[] = {
        {"port", required_argument, NULL, 'o'},
        {"players", required_argument, NULL, 'n'},
        {"bytes", required_argument, NULL, 'b'},
        {"tags", required_argument, NULL, 't'},
        {"cpu", required_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    uint64_t port = 0, each = 0, enough = 0;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 'o')
            port = parse_number("--port", optarg, 1, UINT16_MAX);
        else if (option == 'n')
            each = parse_number("--players", optarg, 1, MOST_PLAYERS);
        else if (option == 'b')
            enough = parse_number("--bytes", optarg, 1, UINT64_MAX);
        else if (option == 't') {
            enough = parse_number("--tags", optarg, 2, UINT64_MAX);
            has_stamps = true;
        } else if (option == 'p')
            pin_to_cpu((int)parse_number("--cpu", optarg, 0, 1023));
        else {
            usage(option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
    }
    uint64_t streams = (uint64_t)(argc - optind);
    if (!port || !each || !enough || streams < 1 || streams > MOST_STREAMS || streams * each > MOST_PLAYERS) {
        usage(stderr);
        return 2;
    }
    uint64_t players = streams * each;
    allow_descriptors(players + OTHER_DESCRIPTORS);
    player *all = calloc(players, sizeof *all);
    if (!all)
        fail(EXIT_FAILURE, "%s", strerror(errno));
    for (uint64_t i = 0; i < players; i++)
        open_player(&all[i], (uint16_t)port, argv[optind + (int)(i / each)]);
    puts("connected");
    fflush(stdout);
    play(all, players, each, enough);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("result {\"players\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"user_s\": %ld.%06ld, \"system_s\": %ld.%06ld",
           players, all_bytes, usage.ru_utime.tv_sec, usage.ru_utime.tv_usec, usage.ru_stime.tv_sec,
           usage.ru_stime.tv_usec);
    stamps_print();
    puts("}");
    fflush(stdout);
    /* All stay until everything has been measured. */
    while (getchar() != EOF)
        continue;
    return 0;
}
