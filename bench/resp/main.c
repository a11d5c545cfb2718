/* GET and SET against a real server: see --help. */
#include "resp/resp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/checksum.h"
#include "common/content.h"
#include "common/process.h"
#include "common/span.h"
#include "resp/raw.h"

enum { MOST_SIZE = 64 << 20, MOST_COMMANDS = 100000000, WARM = 2 * RESP_KEYS, PAGE = 4096 };

static const resp_variant *const variants[] = {
    &resp_uring,
    &resp_epoll_pool,
#ifdef BENCH_HIREDIS
    &resp_hiredis,
#endif
    &resp_raw,
};

static resp_work work;
static size_t page_byte; /* at which the memory for values begins */
static uint64_t done, checksum;

static void usage(FILE *out) {
    fprintf(out,
            "Usage: bench-resp --port N --variant NAME --command get|set --size N --commands N [options] | --list\n"
            "\n"
            "Gives a Redis server on 127.0.0.1 so many commands, one after the other, checks that each value\n"
            "arrives, and says \"result\" and JSON. Some commands come before, which are not counted.\n"
            "--list names the variants.\n"
            "\n"
            "  --size N             bytes of each value, 64 to 67108864\n"
            "  --page-byte N        the byte of a page, 0 to 4095, at which the memory for values begins (0)\n"
            "  --cpu N              stay on this processor\n"
            "  --perf-control W,R   descriptors by which perf stat is commanded (its --control)\n");
}

uint64_t resp_done(void) {
    return done;
}

static void count(void) {
    done++;
    if (done == WARM)
        span_begin();
    if (done == work.commands)
        span_end();
}

void resp_got(const resp_work *of, const uint8_t *value, size_t size) {
    if (size != of->size)
        fail(EXIT_FAILURE, "a value of %zu bytes, not %zu", size, of->size);
    checksum += packet_checksum(value, (uint32_t)size, done);
    count();
}

void resp_was_set(const char *answer, size_t length) {
    if (length != 2 || memcmp(answer, "OK", 2) != 0)
        fail(EXIT_FAILURE, "SET was answered '%.*s'", (int)length, answer);
    count();
}

static int connect_to(uint16_t port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
        fail(EXIT_FAILURE, "connecting: %s", strerror(errno));
    return fd;
}

static void make_values(void) {
    uint64_t seed = 1;
    for (int i = 0; i < RESP_KEYS; i++) {
        uint8_t *value = malloc(work.size + sizeof seed);
        if (!value)
            fail(EXIT_FAILURE, "no memory for the values");
        for (size_t at = 0; at < work.size; at += sizeof seed) {
            uint64_t word = content_random(&seed);
            memcpy(value + at, &word, sizeof word);
        }
        work.values[i] = value;
        snprintf(work.keys[i], sizeof work.keys[i], "bench:%d", i);
    }
    size_t room = page_byte + work.size + RESP_AROUND;
    work.memory = aligned_alloc(PAGE, (room + PAGE - 1) / PAGE * PAGE);
    if (!work.memory)
        fail(EXIT_FAILURE, "no memory for a value");
    memset(work.memory, 0, room);
    work.memory += page_byte;
}

/* GETs find the values; SETs find something else. */
static void prepare(int fd, bool is_get) {
    static const uint8_t other[] = "other";
    char answer[RESP_AROUND];
    for (uint64_t i = 0; i < RESP_KEYS; i++)
        raw_set(fd, work.keys[i], is_get ? work.values[i] : other, is_get ? work.size : sizeof other, answer);
}

/* What the server has afterwards. */
static void check_values(int fd) {
    for (uint64_t i = 0; i < RESP_KEYS; i++) {
        size_t size;
        const uint8_t *value = raw_get(fd, work.keys[i], work.memory, work.size + RESP_AROUND, &size);
        if (size != work.size || memcmp(value, work.values[i], size) != 0)
            fail(EXIT_FAILURE, "the server does not hold the value of %s", work.keys[i]);
    }
}

static uint64_t expected_checksum(void) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < work.commands; i++)
        sum += packet_checksum(resp_value(&work, i), (uint32_t)work.size, i);
    return sum;
}

static void run(uint16_t port, const resp_variant *variant, bool is_get) {
    make_values();
    int other = connect_to(port);
    prepare(other, is_get);
    work.fd = connect_to(port);
    if (is_get)
        variant->get(&work);
    else
        variant->set(&work);
    if (done != work.commands || (is_get && checksum != expected_checksum()))
        fail(EXIT_FAILURE, "not every value has arrived as it is");
    check_values(other);
    uint64_t counted = work.commands - WARM;
    printf("result {\"packets\": %" PRIu64 ", \"bytes\": %" PRIu64 ", ", counted, counted * work.size);
    span_print();
    puts("}");
}

static const resp_variant *find(const char *name) {
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (strcmp(variants[i]->name, name) == 0)
            return variants[i];
    fail(2, "no variant '%s': see --list", name);
}

static int list(void) {
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        puts(variants[i]->name);
    return 0;
}

int main(int argc, char **argv) {
    static const struct option known[] = {
        {"port", required_argument, NULL, 'o'},
        {"variant", required_argument, NULL, 'v'},
        {"command", required_argument, NULL, 'c'},
        {"size", required_argument, NULL, 's'},
        {"commands", required_argument, NULL, 'n'},
        {"page-byte", required_argument, NULL, 'b'},
        {"cpu", required_argument, NULL, 'p'},
        {"perf-control", required_argument, NULL, 'f'},
        {"list", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    const resp_variant *variant = NULL;
    const char *command = NULL;
    uint64_t port = 0;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 'o')
            port = parse_number("--port", optarg, 1, UINT16_MAX);
        else if (option == 'v')
            variant = find(optarg);
        else if (option == 'c')
            command = optarg;
        else if (option == 's')
            work.size = parse_number("--size", optarg, CHECKSUM_BYTES, MOST_SIZE);
        else if (option == 'n')
            work.commands = WARM + parse_number("--commands", optarg, 1, MOST_COMMANDS);
        else if (option == 'b')
            page_byte = parse_number("--page-byte", optarg, 0, PAGE - 1);
        else if (option == 'p')
            pin_to_cpu((int)parse_number("--cpu", optarg, 0, 1023));
        else if (option == 'f' && !span_command_perf(optarg))
            fail(2, "--perf-control: '%s' is not two descriptors", optarg);
        else if (option == 'l')
            return list();
        else if (option == 'h' || option == '?') {
            usage(option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
    }
    bool is_get = command && strcmp(command, "get") == 0;
    if (!port || !variant || !work.size || !work.commands || optind != argc || !command ||
        (!is_get && strcmp(command, "set") != 0)) {
        usage(stderr);
        return 2;
    }
    run((uint16_t)port, variant, is_get);
    return 0;
}
