#include "daemon/options.h"

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/flv.h>
#include <sluice/version.h>

#include "daemon/address.h"
#include "daemon/log.h"
#include "daemon/merge.h"

static const char help[] =
    "Usage: sluiced [OPTION]...\n"
    "Takes live streams in FLV over TCP and HTTP, and by RTSP, and relays them to HTTP and RTSP players without\n"
    "copying.\n"
    "\n"
    "Listeners (each may be given several times; ADDR is 127.0.0.1 or [::1], PORT 0 lets the system choose):\n"
    "  --flv ADDR:PORT[=STREAM]   raw FLV over TCP; publishers are called STREAM, or live/flv-PEERPORT\n"
    "                             (default 127.0.0.1:9000)\n"
    "  --http ADDR:PORT[,merge-window=MS]\n"
    "                             publish (POST /NAME.flv), play (GET /NAME.flv), GET /api/v1/streams\n"
    "                             (default 127.0.0.1:8080)\n"
    "  --rtsp ADDR:PORT[,merge-window=MS]\n"
    "                             publish and play rtsp://HOST:PORT/NAME, interleaved on the connection\n"
    "                             (default 127.0.0.1:8554)\n"
    "                             The defaults hold when none of these options is given.\n"
    "  --rtsp-users FILE          ask RTSP clients who they are; FILE has a line NAME:PASSWORD for each user, or\n"
    "                             \"publish NAME:PASSWORD\", \"play NAME:PASSWORD\", and nobody else may read it.\n"
    "                             HTTP and raw FLV are open to all who reach them\n"
    "  --pull URL=NAME[,on-demand]\n"
    "                             fetch rtsp://[USER:PASSWORD@]HOST[:PORT]/PATH by RTSP over TCP and publish it as "
    "NAME;\n"
    "                             with on-demand only while there are players. The last \"=\" ends the URL; it may be\n"
    "                             a word of its own: URL =NAME. What fails is tried again, after 1 to 30 seconds\n"
    "  --pull-file FILE           the same, a pull in each line, where ps does not show passwords; nobody else may\n"
    "                             read it\n"
    "  --allow-remote             accept addresses that are not loopback; anyone who reaches them may publish and\n"
    "                             play, except by RTSP with --rtsp-users\n"
    "\n"
    "Limits (SIZE in bytes, or with K, M, G for powers of 1024):\n"
    "  --workers N                threads that share the work; a stream is one worker's, and the memory is divided\n"
    "                             (default: the cores that sluiced may use; 1 to 256)\n"
    "  --memory SIZE              most memory for received blocks (default 256M, or 64M for each worker where that is\n"
    "                             more; 4M to 64G, and at least 1M for each worker)\n"
    "  --gop-size SIZE            most block memory for one stream's cached group of pictures (default 8M, up to 1G)\n"
    "  --player-buffer SIZE       most payload queued for one player before it loses frames up to a key frame\n"
    "                             (default 16M, 64K to 1G; at least --gop-size)\n"
    "  --frame-limit SIZE         largest tag payload (default 8M, 1K to 16777215; at most --player-buffer and half "
    "of\n"
    "                             a worker's share of --memory, which lower the default too)\n"
    "  --max-connections N        most connections at a time (default 10000, 1 to 1000000)\n"
    "\n"
    "Time:\n"
    "  --batch MS                 batching window of the loop, milliseconds (default 2; 0 to 100, fractions allowed)\n"
    "  --merge-window [STREAM=]MS gather what is due to a player for so long, milliseconds, and send it at once\n"
    "                             (default 0, up to 350): far less CPU for many players, and up to so much latency.\n"
    "                             Of one STREAM (repeatable), or else of a listener, or else of all\n"
    "  --wait SECONDS             how long a player waits for a publisher (default 30; 0 to 86400)\n"
    "  --idle SECONDS             a publisher that sends nothing for so long is ended (default 15; 1 to 86400)\n"
    "  --stall SECONDS            a player that takes nothing for so long is ended (default 30; 1 to 86400)\n"
    "\n"
    "Other:\n"
    "  --backend NAME             auto, uring or epoll (default auto: io_uring, or epoll with a warning where it\n"
    "                             cannot be had; uring and epoll never turn to the other)\n"
    "  --status                   show a status line on standard error each second\n"
    "  --log-level LEVEL          error, warning, info or debug (default info)\n"
    "  --help                     show this text\n"
    "  --version                  show the version\n";

enum option_id {
    OPTION_FLV = 256,
    OPTION_HTTP,
    OPTION_RTSP,
    OPTION_RTSP_USERS,
    OPTION_PULL,
    OPTION_PULL_FILE,
    OPTION_ALLOW_REMOTE,
    OPTION_WORKERS,
    OPTION_MEMORY,
    OPTION_GOP_SIZE,
    OPTION_PLAYER_BUFFER,
    OPTION_FRAME_LIMIT,
    OPTION_MAX_CONNECTIONS,
    OPTION_BATCH,
    OPTION_MERGE_WINDOW,
    OPTION_WAIT,
    OPTION_IDLE,
    OPTION_STALL,
    OPTION_BACKEND,
    OPTION_STATUS,
    OPTION_LOG_LEVEL,
    OPTION_HELP,
    OPTION_VERSION,
};

static const struct option long_options[] = {
    {"flv", required_argument, NULL, OPTION_FLV},
    {"http", required_argument, NULL, OPTION_HTTP},
    {"rtsp", required_argument, NULL, OPTION_RTSP},
    {"rtsp-users", required_argument, NULL, OPTION_RTSP_USERS},
    {"pull", required_argument, NULL, OPTION_PULL},
    {"pull-file", required_argument, NULL, OPTION_PULL_FILE},
    {"allow-remote", no_argument, NULL, OPTION_ALLOW_REMOTE},
    {"workers", required_argument, NULL, OPTION_WORKERS},
    {"memory", required_argument, NULL, OPTION_MEMORY},
    {"gop-size", required_argument, NULL, OPTION_GOP_SIZE},
    {"player-buffer", required_argument, NULL, OPTION_PLAYER_BUFFER},
    {"frame-limit", required_argument, NULL, OPTION_FRAME_LIMIT},
    {"max-connections", required_argument, NULL, OPTION_MAX_CONNECTIONS},
    {"batch", required_argument, NULL, OPTION_BATCH},
    {"merge-window", required_argument, NULL, OPTION_MERGE_WINDOW},
    {"wait", required_argument, NULL, OPTION_WAIT},
    {"idle", required_argument, NULL, OPTION_IDLE},
    {"stall", required_argument, NULL, OPTION_STALL},
    {"backend", required_argument, NULL, OPTION_BACKEND},
    {"status", no_argument, NULL, OPTION_STATUS},
    {"log-level", required_argument, NULL, OPTION_LOG_LEVEL},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

/* A default that depends on other options. */
#define DEPENDS UINT64_MAX

static const uint64_t KIB = 1024, MIB = 1024 * 1024, GIB = 1024 * 1024 * 1024;

/* An option with a number, what it may be and where it goes. */
struct number_option {
    int id;
    const char *name;
    const char *kind;   /* as messages call it */
    double scale;       /* of the stored value: 1, or 1000 for seconds and milliseconds */
    double least, most; /* as written */
    bool is_size;
    bool fractions;
    size_t field;
};

static const struct number_option number_options[] = {
    {OPTION_WORKERS, "--workers", "a number from 1 to 256", 1, 1, OPTIONS_MAX_WORKERS, false, false,
     offsetof(struct options, workers)},
    {OPTION_MEMORY, "--memory", "a size from 4M to 64G", 1, 4194304.0, 68719476736.0, true, false,
     offsetof(struct options, memory)},
    {OPTION_GOP_SIZE, "--gop-size", "a size up to 1G", 1, 0, 1073741824.0, true, false,
     offsetof(struct options, gop_size)},
    {OPTION_PLAYER_BUFFER, "--player-buffer", "a size from 64K to 1G", 1, 65536.0, 1073741824.0, true, false,
     offsetof(struct options, player_buffer)},
    {OPTION_FRAME_LIMIT, "--frame-limit", "a size from 1K to 16777215", 1, 1024.0, SLUICE_FLV_MAX_PAYLOAD, true, false,
     offsetof(struct options, frame_limit)},
    {OPTION_MAX_CONNECTIONS, "--max-connections", "a number from 1 to 1000000", 1, 1, 1000000, false, false,
     offsetof(struct options, max_connections)},
    {OPTION_WAIT, "--wait", "seconds from 0 to 86400", 1000, 0, 86400, false, true, offsetof(struct options, wait_ms)},
    {OPTION_IDLE, "--idle", "seconds from 1 to 86400", 1000, 1, 86400, false, true, offsetof(struct options, idle_ms)},
    {OPTION_STALL, "--stall", "seconds from 1 to 86400", 1000, 1, 86400, false, true,
     offsetof(struct options, stall_ms)},
};

static bool parse_number(const struct number_option *option, const char *text, uint64_t *ret_value) {
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    double value = option->fractions ? strtod(text, &end) : (double)strtoull(text, &end, 10);
    if (option->is_size && *end) {
        const char *suffix = strchr("KMG", *end);
        if (!suffix || end[1])
            return false;
        value *= (double)(*suffix == 'K' ? KIB : *suffix == 'M' ? MIB : GIB);
        end++;
    }
    if (*end || !(value >= option->least && value <= option->most))
        return false;
    *ret_value = (uint64_t)(value * option->scale + 0.5);
    return true;
}

static bool wrong(const char *name, const char *value, const char *expected) {
    fprintf(stderr, "sluiced: %s: expected %s, got \"%s\"\n", name, expected, value);
    return false;
}

static bool set_number(struct options *options, int id, const char *text) {
    for (size_t i = 0; i < sizeof number_options / sizeof *number_options; i++) {
        const struct number_option *option = &number_options[i];
        if (option->id == id)
            return parse_number(option, text, (uint64_t *)((char *)options + option->field)) ||
                   wrong(option->name, text, option->kind);
    }
    return false;
}

static bool set_batch(struct options *options, const char *text) {
    const struct number_option batch = {.scale = 1000, .most = 100, .fractions = true};
    uint64_t value;
    if (!parse_number(&batch, text, &value))
        return wrong("--batch", text, "milliseconds from 0 to 100");
    options->batch_us = (uint32_t)value;
    return true;
}

static const struct {
    const char *option, *expected;
} listeners[] = {
    [LISTENER_FLV] = {"--flv", "ADDR:PORT or ADDR:PORT=STREAM, such as 127.0.0.1:9000 or [::1]:9000=live/cam"},
    [LISTENER_HTTP] = {"--http", "ADDR:PORT, such as 127.0.0.1:8080 or [::1]:8080"},
    [LISTENER_RTSP] = {"--rtsp", "ADDR:PORT, such as 127.0.0.1:8554 or [::1]:8554"},
};

static bool parse_merge_window(const char *text, uint16_t *ret_window_ms) {
    const struct number_option window = {.scale = 1, .most = MERGE_WINDOW_MOST};
    uint64_t value;
    if (!parse_number(&window, text, &value))
        return false;
    *ret_window_ms = (uint16_t)value;
    return true;
}

static const struct merge_option *find_merge(const struct options *options, const char *stream, size_t length) {
    for (size_t i = 0; i < options->merge_count; i++)
        if (options->merges[i].length == length && memcmp(options->merges[i].stream, stream, length) == 0)
            return &options->merges[i];
    return NULL;
}

/* MS, or STREAM=MS; of the same stream, the last one holds. */
static bool set_merge_window(struct options *options, const char *text) {
    static const char name[] = "--merge-window";
    static const char expected[] = "milliseconds from 0 to 350, or STREAM=MS such as live/cam=100";
    const char *equals = strchr(text, '=');
    if (!equals)
        return parse_merge_window(text, &options->merge_window_ms) || wrong(name, text, expected);
    size_t length = (size_t)(equals - text);
    uint16_t window_ms;
    if (!stream_name_is_valid(text, length))
        return wrong(name, text, "a stream name such as live/cam before \"=\"");
    if (!parse_merge_window(equals + 1, &window_ms))
        return wrong(name, text, expected);
    const struct merge_option *earlier = find_merge(options, text, length);
    if (!earlier && options->merge_count == OPTIONS_MAX_MERGES)
        return wrong(name, text, "at most 1024 streams");
    size_t place = earlier ? (size_t)(earlier - options->merges) : options->merge_count++;
    options->merges[place] = (struct merge_option){text, length, window_ms};
    return true;
}

/* What comes behind the address of a listener for players. */
static bool set_player_listener(struct listener_option *listener, const char *text, const char *settings) {
    static const char merge[] = "merge-window=";
    const char *name = listeners[listener->protocol].option;
    if (strncmp(settings, merge, sizeof merge - 1) != 0)
        return wrong(name, text, "ADDR:PORT or ADDR:PORT,merge-window=MS");
    return parse_merge_window(settings + sizeof merge - 1, &listener->merge_window_ms) ||
           wrong(name, text, "milliseconds from 0 to 350 behind \"merge-window=\"");
}

static bool add_listener(struct options *options, enum listener_protocol protocol, const char *text) {
    bool is_flv = protocol == LISTENER_FLV;
    const char *name = listeners[protocol].option;
    if (options->listener_count == OPTIONS_MAX_LISTENERS)
        return wrong(name, text, "at most 64 listeners");
    struct listener_option *listener = &options->listeners[options->listener_count];
    const char *more = strchr(text, is_flv ? '=' : ',');
    size_t length = more ? (size_t)(more - text) : strlen(text);
    listener->protocol = protocol;
    listener->merge_window_ms = OPTIONS_MERGE_UNSET;
    if (address_parse(text, length, &listener->address) < 0)
        return wrong(name, text, listeners[protocol].expected);
    if (more && is_flv) {
        if (!stream_name_is_valid(more + 1, strlen(more + 1)))
            return wrong(name, text, "a stream name such as live/cam behind \"=\"");
        strcpy(listener->stream, more + 1);
    } else if (more && !set_player_listener(listener, text, more + 1)) {
        return false;
    }
    options->listener_count++;
    return true;
}

/* Nothing of what is wrong is shown: it may hold a password. */
static bool add_pull(struct options *options, const char *url, const char *name) {
    char *text;
    if (asprintf(&text, "%s%s", url, name) < 0) {
        fputs("sluiced: --pull: out of memory\n", stderr);
        return false;
    }
    const char *wrong = pull_options_add(&options->pulls, text);
    explicit_bzero(text, strlen(text));
    free(text);
    if (wrong)
        fprintf(stderr, "sluiced: --pull: %s\n", wrong);
    return !wrong;
}

static bool load_pulls(struct options *options, const char *path) {
    char error[PRIVATE_FILE_ERROR];
    if (pull_options_load(&options->pulls, path, error) == 0)
        return true;
    fprintf(stderr, "sluiced: --pull-file: %s\n", error);
    return false;
}

static bool set_backend(struct options *options, const char *text) {
    static const struct {
        const char *name;
        sluice_backend_choice choice;
    } backends[] = {{"auto", SLUICE_BACKEND_AUTO}, {"uring", SLUICE_BACKEND_URING}, {"epoll", SLUICE_BACKEND_EPOLL}};
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        if (strcmp(text, backends[i].name) == 0) {
            options->backend = backends[i].choice;
            return true;
        }
    }
    return wrong("--backend", text, "auto, uring or epoll");
}

static bool set_log_level(struct options *options, const char *text) {
    options->log_level = log_level_of(text);
    return options->log_level >= 0 || wrong("--log-level", text, "error, warning, info or debug");
}

static bool set(struct options *options, int id, const char *value) {
    switch (id) {
    case OPTION_FLV:
        return add_listener(options, LISTENER_FLV, value);
    case OPTION_HTTP:
        return add_listener(options, LISTENER_HTTP, value);
    case OPTION_RTSP:
        return add_listener(options, LISTENER_RTSP, value);
    case OPTION_RTSP_USERS:
        options->rtsp_users = value;
        return true;
    case OPTION_PULL_FILE:
        return load_pulls(options, value);
    case OPTION_ALLOW_REMOTE:
        return options->allow_remote = true;
    case OPTION_BATCH:
        return set_batch(options, value);
    case OPTION_MERGE_WINDOW:
        return set_merge_window(options, value);
    case OPTION_BACKEND:
        return set_backend(options, value);
    case OPTION_STATUS:
        return options->status = true;
    case OPTION_LOG_LEVEL:
        return set_log_level(options, value);
    default:
        return set_number(options, id, value);
    }
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* The cores that this process may run on. */
static uint64_t usable_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) < 0)
        return 1;
    return least((uint64_t)CPU_COUNT(&set), OPTIONS_MAX_WORKERS);
}

static uint64_t most(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* What only all options together can say, or get wrong. */
static bool complete(struct options *options) {
    if (options->listener_count == 0 && !(add_listener(options, LISTENER_FLV, "127.0.0.1:9000") &&
                                          add_listener(options, LISTENER_HTTP, "127.0.0.1:8080") &&
                                          add_listener(options, LISTENER_RTSP, "127.0.0.1:8554")))
        return false;
    for (size_t i = 0; i < options->listener_count && !options->allow_remote; i++) {
        char text[ADDRESS_TEXT];
        address_format(&options->listeners[i].address, text);
        if (!address_is_loopback(&options->listeners[i].address))
            return wrong(listeners[options->listeners[i].protocol].option, text,
                         "a loopback address, or --allow-remote (HTTP and raw FLV have no authentication yet)");
    }
    if (options->memory == DEPENDS)
        options->memory = most(256 * MIB, options->workers * 64 * MIB);
    uint64_t share = options->memory / options->workers;
    if (share < MIB) {
        fprintf(stderr, "sluiced: --memory: expected at least 1M for each of %llu workers, got %llu bytes\n",
                (unsigned long long)options->workers, (unsigned long long)options->memory);
        return false;
    }
    if (options->gop_size == DEPENDS)
        options->gop_size = least(8 * MIB, options->player_buffer);
    if (options->frame_limit == DEPENDS)
        options->frame_limit = least(SLUICE_FLV_DEFAULT_LIMIT, least(options->player_buffer, share / 2));
    if (options->gop_size > options->player_buffer) {
        fprintf(stderr, "sluiced: --gop-size: expected at most --player-buffer (%llu bytes), got %llu\n",
                (unsigned long long)options->player_buffer, (unsigned long long)options->gop_size);
        return false;
    }
    if (options->frame_limit > options->player_buffer || options->frame_limit > share / 2) {
        fprintf(stderr,
                "sluiced: --frame-limit: expected at most --player-buffer and half of a worker's share of --memory, "
                "got %llu\n",
                (unsigned long long)options->frame_limit);
        return false;
    }
    return true;
}

enum options_result options_parse(int argc, char **argv, struct options *ret_options) {
    *ret_options = (struct options){
        .workers = usable_cores(),
        .memory = DEPENDS,
        .gop_size = DEPENDS,
        .player_buffer = 16 * MIB,
        .frame_limit = DEPENDS,
        .batch_us = 2000,
        .wait_ms = 30000,
        .idle_ms = 15000,
        .stall_ms = 30000,
        .max_connections = 10000,
        .log_level = LOG_INFO,
        .backend = SLUICE_BACKEND_AUTO,
    };
    opterr = 0;
    int id;
    while ((id = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
        if (id == '?' || id == ':') {
            fprintf(stderr, "sluiced: %s: %s; see sluiced --help\n", argv[optind - 1],
                    id == ':' ? "a value is missing" : "unknown option");
            return OPTIONS_WRONG;
        }
        if (id == OPTION_HELP || id == OPTION_VERSION) {
            fputs(id == OPTION_HELP ? help : "sluiced " SLUICE_VERSION "\n", stdout);
            return OPTIONS_DONE;
        }
        bool done;
        if (id == OPTION_PULL)
            done = add_pull(ret_options, optarg, optind < argc && *argv[optind] == '=' ? argv[optind++] : "");
        else
            done = set(ret_options, id, optarg);
        if (!done)
            return OPTIONS_WRONG;
    }
    if (optind < argc) {
        fprintf(stderr, "sluiced: %s: unexpected argument; see sluiced --help\n", argv[optind]);
        return OPTIONS_WRONG;
    }
    return complete(ret_options) ? OPTIONS_RUN : OPTIONS_WRONG;
}

uint32_t options_merge_window(const struct options *options, const char *stream,
                              const struct listener_option *listener) {
    const struct merge_option *merge = find_merge(options, stream, strlen(stream));
    if (merge)
        return merge->window_ms;
    if (listener && listener->merge_window_ms != OPTIONS_MERGE_UNSET)
        return listener->merge_window_ms;
    return options->merge_window_ms;
}
