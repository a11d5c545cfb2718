/* The receiver: see --help. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/process.h"
#include "common/span.h"
#include "receive/keep.h"
#include "receive/meter.h"
#include "receive/receive.h"

enum { OTHER_DESCRIPTORS = 64, MOST_CONNECTIONS = 100000, MOST_OPENING = 1 << 20 };

enum { MOST_VARIANTS = 8 };

/* What is received, how much of it opens a connection, and by whom. */
static const struct protocol {
    const char *name;
    uint32_t opening; /* bytes; 0: --opening says it */
    const receive_variant *variants[MOST_VARIANTS];
} protocols[] = {
    {"flv",
     13,
     {&uring_variant, &epoll_pool_variant, &shared_buffer_variant, &read_malloc_variant, &read_buffer_variant,
      &evbuffer_variant, &raw_variant}},
    {"websocket",
     0,
     {&echo_uring_variant, &echo_epoll_pool_variant, &echo_read_write_variant, &echo_read_buffer_variant,
      &echo_both_buffer_variant, &echo_evbuffer_variant}},
};
enum { PROTOCOLS = sizeof protocols / sizeof *protocols };

/* What can be set, written behind a variant's name. */
static const struct setting {
    const char *name;
    size_t offset;
    uint32_t most;
} settings[] = {
    {"batch", offsetof(receive_options, batch_us), 100000},
    {"buffer", offsetof(receive_options, buffer), 16 << 20},
    {"block", offsetof(receive_options, block_size), 1 << 20},
    {"blocks", offsetof(receive_options, max_blocks), 4 << 20},
    {"stock", offsetof(receive_options, stock_bytes), 1 << 30},
    {"plain", offsetof(receive_options, plain), 1},
    {"small-pages", offsetof(receive_options, small_pages), 1},
};

static void usage(FILE *out) {
    fprintf(
        out,
        "Usage: bench-receive --variant NAME[+SETTING=VALUE...] --connections N --bytes N [options]\n"
        "\n"
        "Listens on a port of 127.0.0.1 and says \"listening PORT\", receives FLV streams, says \"ready\" when\n"
        "all have sent their file header, ends with the last byte, and says what that has cost: \"result\"\n"
        "and JSON; before that some say \"detail\" and JSON of what only they have. WebSocket messages, masked and\n"
        "shorter than 126 bytes, are sent back; bytes are then those sent back.\n"
        "\n"
        "  --protocol NAME      flv or websocket, behind its upgrade (flv)\n"
        "  --opening N          websocket: bytes that each connection gets back before it begins\n"
        "  --connections N      streams, 1 to 100000\n"
        "  --bytes N            in all streams together, file headers included\n"
        "  --unmeasured N       bytes of these, behind the file headers, that come before the measured span (0)\n"
        "  --keep HOW           flv: second: each frame is held for a second; thread: it is handed to another\n"
        "                       thread, which reads and releases it; at most 64 MiB in 8192 frames,\n"
        "                       or 256 frames for the thread, are held\n"
        "  --cpu N              stay on this processor\n"
        "  --perf-control W,R   descriptors by which perf stat is commanded (its --control)\n"
        "\n"
        "Variants and their settings (batch: microseconds; block, buffer, stock: bytes; the others: 1):\n");
    for (size_t i = 0; i < PROTOCOLS; i++)
        for (const receive_variant *const *at = protocols[i].variants; *at; at++)
            fprintf(out, "  %-10s %-20s %s\n", protocols[i].name, (*at)->name, (*at)->settings);
}

static bool has_word(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; length > 0 && (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

static void read_setting(const receive_variant *variant, char *text, receive_options *options) {
    char *value = strchr(text, '=');
    if (value)
        *value++ = '\0';
    if (!has_word(variant->settings, text))
        fail(2, "%s has no setting '%s'", variant->name, text);
    if (!value)
        fail(2, "'%s' needs a value: %s=N", text, text);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (strcmp(settings[i].name, text) == 0)
            *(uint32_t *)((char *)options + settings[i].offset) = (uint32_t)parse_number(text, value, 1,
                                                                                         settings[i].most);
}

static const struct protocol *read_protocol(const char *name) {
    for (size_t i = 0; i < PROTOCOLS; i++)
        if (strcmp(protocols[i].name, name) == 0)
            return &protocols[i];
    fail(2, "no protocol '%s': see --help", name);
}

static const receive_variant *read_variant(const struct protocol *protocol, const char *text,
                                           receive_options *options) {
    char *copy = strdup(text), *rest = NULL;
    if (!copy)
        fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
    const receive_variant *found = NULL;
    const char *name = strtok_r(copy, "+", &rest);
    for (const receive_variant *const *at = protocol->variants; name && *at; at++)
        if (strcmp((*at)->name, name) == 0)
            found = *at;
    if (!found)
        fail(2, "no variant '%s': see --help", text);
    for (char *setting; (setting = strtok_r(NULL, "+", &rest));)
        read_setting(found, setting, options);
    free(copy);
    return found;
}

static keep_how read_keep(const char *text) {
    if (strcmp(text, "second") == 0)
        return KEEP_SECOND;
    if (strcmp(text, "thread") == 0)
        return KEEP_THREAD;
    fail(2, "--keep: '%s' is neither second nor thread", text);
}

int main(int argc, char **argv) {
    static const struct option known[] = {
        {"protocol", required_argument, NULL, 'r'},
        {"opening", required_argument, NULL, 'o'},
        {"variant", required_argument, NULL, 'v'},
        {"connections", required_argument, NULL, 'c'},
        {"bytes", required_argument, NULL, 'b'},
        {"unmeasured", required_argument, NULL, 'u'},
        {"keep", required_argument, NULL, 'k'},
        {"cpu", required_argument, NULL, 'p'},
        {"perf-control", required_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    receive_options options = {0};
    const struct protocol *protocol = &protocols[0];
    const char *variant_text = NULL;
    uint64_t connections = 0, bytes = 0, opening = 0, unmeasured = 0;
    int cpu = -1;

    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 'v')
            variant_text = optarg;
        else if (option == 'r')
            protocol = read_protocol(optarg);
        else if (option == 'o')
            opening = parse_number("--opening", optarg, 1, MOST_OPENING);
        else if (option == 'c')
            connections = parse_number("--connections", optarg, 1, MOST_CONNECTIONS);
        else if (option == 'b')
            bytes = parse_number("--bytes", optarg, 1, UINT64_MAX);
        else if (option == 'u')
            unmeasured = parse_number("--unmeasured", optarg, 0, UINT64_MAX);
        else if (option == 'k')
            keep_asked = read_keep(optarg);
        else if (option == 'p')
            cpu = (int)parse_number("--cpu", optarg, 0, 1023);
        else if (option == 'f' && !span_command_perf(optarg))
            fail(2, "--perf-control: '%s' is not two descriptors", optarg);
        else if (option == 'h' || option == '?') {
            usage(option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
    }
    if (protocol->opening > 0)
        opening = protocol->opening;
    if (!variant_text || !connections || !bytes || !opening || optind != argc) {
        usage(stderr);
        return 2;
    }
    if (bytes / connections <= opening || unmeasured >= bytes - connections * opening)
        fail(2, "--bytes %" PRIu64 ": nothing is left to be measured", bytes);
    const receive_variant *variant = read_variant(protocol, variant_text, &options);
    if (keep_asked != KEEP_NOTHING && (!variant->parses || protocol != &protocols[0]))
        fail(2, "%s cannot keep frames", variant_text);
    pin_to_cpu(cpu);
    allow_descriptors(connections + OTHER_DESCRIPTORS);
    meter_expect((uint32_t)connections, (uint32_t)opening, unmeasured, bytes);
    variant->run(&options);
    printf("result {\"parses\": %s, ", variant->parses ? "true" : "false");
    meter_print();
    puts("}");
    return 0;
}
