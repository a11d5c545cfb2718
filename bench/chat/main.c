/* WebSocket clients whose messages come back: see --help. */
#include <sluice/websocket.h>

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
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/content.h"
#include "common/process.h"

enum {
    EVENTS = 1024,
    OTHER_DESCRIPTORS = 64,
    MOST_CONNECTIONS = 10000,
    MOST_PAYLOAD = 125,
    MOST_WINDOW = 1024,
    FRAMES = 4096, /* different ones, sent again and again */
    HEADER = 2 + SLUICE_WEBSOCKET_MASK_SIZE,
    ANSWER_HEADER = 2,
    READ_SIZE = 64 << 10,
};

typedef struct client {
    int fd;
    uint64_t sent;     /* messages */
    uint64_t received; /* bytes of answers */
} client;

static struct {
    uint16_t port;
    uint32_t connections, payload, window;
    uint64_t messages;
    int cpu;
} set = {.connections = 1, .payload = 50, .window = 1, .messages = 1, .cpu = -1};

/* The frames, and the answers to them, both with as many more of their beginning as one write or
 * read may take. */
static uint8_t *frames, *answers;
static client *clients;
static int epoll;

static uint32_t frame_size(void) {
    return HEADER + set.payload;
}

static uint32_t answer_size(void) {
    return ANSWER_HEADER + set.payload;
}

static void usage(FILE *out) {
    fprintf(
        out,
        "Usage: bench-chat --port N | --describe [options]\n"
        "\n"
        "WebSocket clients behind their upgrade. Connects to a server on 127.0.0.1 that sends messages back, sends\n"
        "one message on each connection, says \"connected\" when all are back, waits for a line on its standard\n"
        "input, sends the others, compares every byte that comes back, says \"result\" and JSON, and waits for the\n"
        "end of the input.\n"
        "--describe only says what would be sent.\n"
        "\n"
        "  --connections N   1 to 10000 (1)\n"
        "  --payload N       bytes of each message, 1 to 125 (50)\n"
        "  --messages N      of each connection, behind the first (1)\n"
        "  --window N        of each connection that may be under way, 1 to 1024 (1)\n"
        "  --cpu N           stay on this processor\n");
}

static void make_frames(void) {
    uint64_t seed = 1;
    size_t more = MOST_WINDOW + READ_SIZE / answer_size() + 1;
    frames = malloc((FRAMES + more) * frame_size());
    answers = malloc((FRAMES + more) * answer_size());
    if (!frames || !answers)
        fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
    for (size_t i = 0; i < FRAMES; i++) {
        uint8_t *frame = frames + i * frame_size(), *answer = answers + i * answer_size();
        uint8_t mask[sizeof seed], header[SLUICE_WEBSOCKET_MAX_HEADER];
        uint64_t random = content_random(&seed);
        memcpy(mask, &random, sizeof mask);
        sluice_websocket_write_header(header, SLUICE_WEBSOCKET_BINARY, true, set.payload, NULL);
        memcpy(answer, header, ANSWER_HEADER);
        for (uint32_t k = 0; k < set.payload; k++)
            answer[ANSWER_HEADER + k] = (uint8_t)content_random(&seed);
        sluice_websocket_write_header(header, SLUICE_WEBSOCKET_BINARY, true, set.payload, mask);
        memcpy(frame, header, HEADER);
        memcpy(frame + HEADER, answer + ANSWER_HEADER, set.payload);
        sluice_websocket_mask(frame + HEADER, set.payload, mask, 0);
    }
    memcpy(frames + (size_t)FRAMES * frame_size(), frames, more * frame_size());
    memcpy(answers + (size_t)FRAMES * answer_size(), answers, more * answer_size());
}

/* As many messages as may be under way, in one write. */
static void send_more(client *c, uint64_t messages) {
    uint64_t back = c->received / answer_size(), most = back + set.window;
    uint64_t n = (most < messages ? most : messages) - c->sent;
    if (n == 0)
        return;
    size_t size = n * frame_size();
    if (send(c->fd, frames + c->sent % FRAMES * frame_size(), size, MSG_NOSIGNAL) != (ssize_t)size)
        fail(EXIT_FAILURE, "send: %s", strerror(errno));
    c->sent += n;
}

/* @param whole what is to come back in all: behind that the server may go, while others are still
 *   served */
static void receive(client *c, uint64_t whole) {
    static uint8_t bytes[READ_SIZE];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 && c->received == whole) {
        epoll_ctl(epoll, EPOLL_CTL_DEL, c->fd, NULL);
        return;
    }
    if (n <= 0)
        fail(EXIT_FAILURE, "the server has closed: %s", n < 0 ? strerror(errno) : "");
    uint64_t place = c->received % ((uint64_t)FRAMES * answer_size());
    if (memcmp(bytes, answers + place, (size_t)n) != 0)
        fail(EXIT_FAILURE, "what has come back is not what was sent");
    c->received += (uint64_t)n;
    if (c->received > whole)
        fail(EXIT_FAILURE, "more has come back than was sent");
}

/* Until each connection has so many messages back. */
static void exchange(uint64_t messages) {
    static struct epoll_event events[EVENTS];
    uint64_t whole = messages * answer_size();
    uint32_t left = set.connections;
    for (uint32_t i = 0; i < set.connections; i++)
        send_more(&clients[i], messages);
    while (left > 0) {
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            client *c = events[i].data.ptr;
            uint64_t before = c->received;
            receive(c, whole);
            left -= before < whole && c->received == whole;
            send_more(c, messages);
        }
    }
}

static void open_client(client *c) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(set.port)};
    const int on = 1;
    const struct linger at_once = {.l_onoff = 1};
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ||
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) < 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event) < 0)
        fail(EXIT_FAILURE, "connecting: %s", strerror(errno));
}

static void describe(void) {
    uint64_t all = (set.messages + 1) * set.connections;
    printf("plan {\"connections\": %" PRIu32 ", \"packets\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"opening\": %" PRIu32
           ", \"checksum\": \"%016x\"}\n",
           set.connections, all, all * answer_size(), answer_size(), 0);
}

/* @return false at the end of the input */
static bool wait_for_line(void) {
    char line[16];
    return fgets(line, sizeof line, stdin);
}

static void run(void) {
    allow_descriptors(set.connections + OTHER_DESCRIPTORS);
    pin_to_cpu(set.cpu);
    make_frames();
    clients = calloc(set.connections, sizeof *clients);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!clients || epoll < 0)
        fail(EXIT_FAILURE, "%s", strerror(errno));
    for (uint32_t i = 0; i < set.connections; i++)
        open_client(&clients[i]);
    exchange(1);
    puts("connected");
    fflush(stdout);
    if (!wait_for_line())
        return;
    uint64_t begin = now_ns();
    exchange(set.messages + 1);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("result {\"wall_s\": %.6f, \"user_s\": %ld.%06ld, \"system_s\": %ld.%06ld, \"latest_us\": 0}\n",
           (double)(now_ns() - begin) / 1e9, usage.ru_utime.tv_sec, usage.ru_utime.tv_usec, usage.ru_stime.tv_sec,
           usage.ru_stime.tv_usec);
    fflush(stdout);
    while (wait_for_line())
        continue;
}

int main(int argc, char **argv) {
    static const struct option known[] = {
        {"port", required_argument, NULL, 'o'},
        {"describe", no_argument, NULL, 'd'},
        {"connections", required_argument, NULL, 'c'},
        {"payload", required_argument, NULL, 'l'},
        {"messages", required_argument, NULL, 'n'},
        {"window", required_argument, NULL, 'w'},
        {"cpu", required_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    bool only_describe = false;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 'o')
            set.port = (uint16_t)parse_number("--port", optarg, 1, UINT16_MAX);
        else if (option == 'd')
            only_describe = true;
        else if (option == 'c')
            set.connections = (uint32_t)parse_number("--connections", optarg, 1, MOST_CONNECTIONS);
        else if (option == 'l')
            set.payload = (uint32_t)parse_number("--payload", optarg, 1, MOST_PAYLOAD);
        else if (option == 'n')
            set.messages = parse_number("--messages", optarg, 1, UINT32_MAX);
        else if (option == 'w')
            set.window = (uint32_t)parse_number("--window", optarg, 1, MOST_WINDOW);
        else if (option == 'p')
            set.cpu = (int)parse_number("--cpu", optarg, 0, 1023);
        else {
            usage(option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
    }
    if (optind != argc || only_describe == (set.port != 0)) {
        usage(stderr);
        return 2;
    }
    if (only_describe)
        describe();
    else
        run();
    return 0;
}
