/* Players that throw away what they get: see --help. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/process.h"

enum { EVENTS = 1024, OTHER_DESCRIPTORS = 64, MOST_STREAMS = 1000, MOST_PLAYERS = 100000, READ_SIZE = 1 << 20 };

typedef struct player {
    int fd;
    uint64_t bytes; /* received, the response's head included */
} player;

static uint64_t players_done, all_bytes;

static void usage(FILE *out) {
    fprintf(out,
            "Usage: bench-play --port N --players N --bytes N [--cpu N] STREAM...\n"
            "\n"
            "So many players of each stream (GET /STREAM.flv on 127.0.0.1): says \"connected\" when all have sent\n"
            "their request, and \"result\" and JSON when each has received so many bytes. They look at none.\n");
}

static void open_player(player *p, int epoll, uint16_t port, const char *stream) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    const struct linger at_once = {.l_onoff = 1};
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->fd < 0 || connect(p->fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) < 0)
        fail(EXIT_FAILURE, "connecting: %s", strerror(errno));
    if (dprintf(p->fd, "GET /%s.flv HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", stream) < 0 ||
        fcntl(p->fd, F_SETFL, O_NONBLOCK) < 0)
        fail(EXIT_FAILURE, "asking for %s: %s", stream, strerror(errno));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = p};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, p->fd, &event) < 0)
        fail(EXIT_FAILURE, "epoll: %s", strerror(errno));
}

static void receive(player *p, uint64_t enough) {
    /* On TCP the kernel drops the bytes where it would copy them: a player costs the sink next to nothing. */
    ssize_t n = recv(p->fd, NULL, READ_SIZE, MSG_TRUNC | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        fail(EXIT_FAILURE, "a player was ended after %" PRIu64 " bytes: %s", p->bytes, n < 0 ? strerror(errno) : "");
    all_bytes += (uint64_t)n;
    if (p->bytes < enough && p->bytes + (uint64_t)n >= enough)
        players_done++;
    p->bytes += (uint64_t)n;
}

static void play(int epoll, uint64_t players, uint64_t enough) {
    static struct epoll_event events[EVENTS];
    while (players_done < players) {
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++)
            receive(events[i].data.ptr, enough);
    }
}

int main(int argc, char **argv) {
    static const struct option known[] = {
        {"port", required_argument, NULL, 'o'},  {"players", required_argument, NULL, 'n'},
        {"bytes", required_argument, NULL, 'b'}, {"cpu", required_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0},
    };
    uint64_t port = 0, each = 0, enough = 0;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 'o')
            port = parse_number("--port", optarg, 1, UINT16_MAX);
        else if (option == 'n')
            each = parse_number("--players", optarg, 1, MOST_PLAYERS);
        else if (option == 'b')
            enough = parse_number("--bytes", optarg, 1, UINT64_MAX);
        else if (option == 'p')
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
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!all || epoll < 0)
        fail(EXIT_FAILURE, "%s", strerror(errno));
    for (uint64_t i = 0; i < players; i++)
        open_player(&all[i], epoll, (uint16_t)port, argv[optind + (int)(i / each)]);
    puts("connected");
    fflush(stdout);
    play(epoll, players, enough);
    printf("result {\"players\": %" PRIu64 ", \"bytes\": %" PRIu64 "}\n", players, all_bytes);
    fflush(stdout);
    /* All stay until everything has been measured. */
    while (getchar() != EOF)
        continue;
    return 0;
}
