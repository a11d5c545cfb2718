#include "tools/push/push_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include <sluice/version.h>

#include "tools/backend.h"
#include "tools/number.h"
#include "tools/say.h"

static const char help[] = "Usage: sluice-push [OPTION]... FILE URL\n"
                           "       sluice-push -n 0 --players N [OPTION]... URL\n"
                           "Publish an FLV file as many live streams at the pace of its timestamps, play the\n"
                           "streams, and check what arrives. A report is printed each second and at the end.\n"
                           "\n"
                           "URL is flv://HOST[:PORT] (raw FLV over TCP), http://HOST[:PORT]/NAME.flv (POST,\n"
                           "chunked; played by GET), rtsp://[USER:PASSWORD@]HOST[:PORT]/NAME (RTSP over\n"
                           "TCP), or rtmp://[USER:PASSWORD@]HOST[:PORT]/APP/NAME; or by TLS the same with\n"
                           "flvs://, https://, rtsps:// or rtmps://. \"%d\" in it is the number of the stream,\n"
                           "from 1; with several streams and no \"%d\", \"-%d\" is appended to the name.\n"
                           "\n"
                           "Publishers:\n"
                           "  -n, --publishers N  Set the number of publishers (0 to 100000; default 1)\n"
                           "  --name PATTERN      Set the name of the streams instead of the URL's\n"
                           "  --rate X            Send X times as fast (0.01 to 1000; default 1)\n"
                           "  --loop              Repeat the file; timestamps continue\n"
                           "  --duration S        Stop after this many seconds, fractions allowed\n"
                           "  --ramp S            Start all within this many seconds (0 to 3600; default 1)\n"
                           "  --retries N         Limit the reconnects in a row (0 to 1000000; default 3)\n"
                           "\n"
                           "Players:\n"
                           "  --players N         Set the number of players (0 to 100000; default 0)\n"
                           "  --stalled N         Set the number of players that read nothing (0 to 100000;\n"
                           "                      default 0)\n"
                           "  --play URL          Play from URL instead; flv:// cannot be played\n"
                           "  --streams N         With -n 0: spread the players over N streams (1 to 100000;\n"
                           "                      default 1)\n"
                           "\n"
                           "Other:\n"
                           "  --timeout S         Stop if a server that must respond sends nothing for this\n"
                           "                      long (1 to 3600; default 10)\n"
                           "  --tls-ca FILE       With TLS: trust the certificates in FILE instead of the\n"
                           "                      system's\n"
                           "  --tls-pin SHA256    With TLS: accept only a certificate with this hash; may be\n"
                           "                      repeated\n"
                           "  --json              Print a JSON line each second, and one at the end\n"
                           "  --quiet             Print no line each second\n"
                           "  --backend NAME      Select auto, uring or epoll (default auto)\n"
                           "  --help              Print this help and exit\n"
                           "  --version           Print the version and exit\n"
                           "\n"
                           "Exit status: 0 every frame arrived; 1 not all; 2 wrong usage; 3 the file or the\n"
                           "host is not available.\n";

enum option_id {
    OPTION_NAME = 256,
    OPTION_RATE,
    OPTION_LOOP,
    OPTION_DURATION,
    OPTION_RAMP,
    OPTION_RETRIES,
    OPTION_PLAYERS,
    OPTION_STALLED,
    OPTION_PLAY,
    OPTION_STREAMS,
    OPTION_TIMEOUT,
    OPTION_TLS_CA,
    OPTION_TLS_PIN,
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_BACKEND,
    OPTION_HELP,
    OPTION_VERSION,
};

static const struct option long_options[] = {
    {"publishers", required_argument, NULL, 'n'},
    {"name", required_argument, NULL, OPTION_NAME},
    {"rate", required_argument, NULL, OPTION_RATE},
    {"loop", no_argument, NULL, OPTION_LOOP},
    {"duration", required_argument, NULL, OPTION_DURATION},
    {"ramp", required_argument, NULL, OPTION_RAMP},
    {"retries", required_argument, NULL, OPTION_RETRIES},
    {"players", required_argument, NULL, OPTION_PLAYERS},
    {"stalled", required_argument, NULL, OPTION_STALLED},
    {"play", required_argument, NULL, OPTION_PLAY},
    {"streams", required_argument, NULL, OPTION_STREAMS},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"tls-ca", required_argument, NULL, OPTION_TLS_CA},
    {"tls-pin", required_argument, NULL, OPTION_TLS_PIN},
    {"json", no_argument, NULL, OPTION_JSON},
    {"quiet", no_argument, NULL, OPTION_QUIET},
    {"backend", required_argument, NULL, OPTION_BACKEND},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

/* What is put together when all options are known. */
struct texts {
    const char *name, *play;
};

static bool take_count(const char *option, uint64_t least, uint64_t most, uint32_t *count) {
    uint64_t number;
    if (!number_read(option, optarg, least, most, &number))
        return false;
    *count = (uint32_t)number;
    return true;
}

static bool take_seconds(const char *option, double least, double most, uint64_t *ms) {
    double seconds;
    if (!number_read_real(option, optarg, least, most, &seconds))
        return false;
    *ms = (uint64_t)(seconds * 1000);
    return true;
}

static bool take_value(int id, struct push_options *options, struct texts *texts) {
    uint64_t ms;
    switch (id) {
    case 'n':
        return take_count("--publishers", 0, PUSH_MOST, &options->publishers);
    case OPTION_NAME:
        texts->name = optarg;
        return true;
    case OPTION_PLAY:
        texts->play = optarg;
        return true;
    case OPTION_RATE:
        return number_read_real("--rate", optarg, 0.01, 1000, &options->rate);
    case OPTION_DURATION:
        return take_seconds("--duration", 0.001, 1e8, &options->duration_ms);
    case OPTION_RAMP:
        if (!take_seconds("--ramp", 0, 3600, &ms))
            return false;
        options->ramp_ms = (uint32_t)ms;
        return true;
    case OPTION_RETRIES:
        return take_count("--retries", 0, 1000000, &options->retries);
    case OPTION_PLAYERS:
        return take_count("--players", 0, PUSH_MOST, &options->players);
    case OPTION_STALLED:
        return take_count("--stalled", 0, PUSH_MOST, &options->stalled);
    case OPTION_STREAMS:
        return take_count("--streams", 1, PUSH_MOST, &options->streams);
    case OPTION_TIMEOUT:
        if (!take_count("--timeout", 1, 3600, &options->timeout_ms))
            return false;
        options->timeout_ms *= 1000;
        return true;
    case OPTION_TLS_CA:
        options->trust.ca = optarg;
        return true;
    case OPTION_TLS_PIN:
        return trust_add_pin(&options->trust, optarg);
    default:
        return backend_read(optarg, &options->backend);
    }
}

static enum push_options_result take_option(int id, struct push_options *options, struct texts *texts) {
    switch (id) {
    case OPTION_LOOP:
        options->loop = true;
        return PUSH_RUN;
    case OPTION_JSON:
        options->json = true;
        return PUSH_RUN;
    case OPTION_QUIET:
        options->quiet = true;
        return PUSH_RUN;
    case OPTION_HELP:
        fputs(help, stdout);
        return PUSH_DONE;
    case OPTION_VERSION:
        puts("sluice-push " SLUICE_VERSION);
        return PUSH_DONE;
    case '?':
        fputs("Try sluice-push --help.\n", stderr);
        return PUSH_WRONG;
    default:
        return take_value(id, options, texts) ? PUSH_RUN : PUSH_WRONG;
    }
}

static bool read_target(const char *text, struct target *target) {
    int error = target_read(text, target);
    if (!error && target->kind != TARGET_FILE && target->kind != TARGET_INPUT)
        return true;
    say("%s: %s", text,
        error == -EMSGSIZE ? "too long" : "not a URL of flv[s]://, http[s]://, rtsp[s]:// or rtmp[s]://");
    return false;
}

/* The name's pattern in place of the URL's path. */
static bool set_name(const char *name, struct target *target) {
    size_t length = strlen(name);
    bool dotted = length >= 4 && strcmp(name + length - 4, ".flv") == 0;
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f || *c == '?' || *c == '#') {
            say("--name: a name has no blanks and no query");
            return false;
        }
    const char *ending = target->kind == TARGET_HTTP && !dotted ? ".flv" : "";
    if (snprintf(target->path, sizeof target->path, "/%s%s", name, ending) < (int)sizeof target->path)
        return true;
    say("--name: too long");
    return false;
}

/* An RTMP client names an app, too. */
static bool has_app(const struct target *target) {
    struct rtmp_url url;
    if (target->kind != TARGET_RTMP || target_rtmp_url(target, &url) == 0)
        return true;
    say("%s: not a path of RTMP such as /live/NAME", target->path);
    return false;
}

/* What remains of the command line: FILE and URL, or with -n 0 the URL alone. */
static bool take_words(int count, char **words, struct push_options *options, const struct texts *texts) {
    bool plays = options->players + options->stalled > 0;
    if (options->publishers == 0 && !plays) {
        say("neither publishers nor players");
        return false;
    }
    if (count != (options->publishers > 0 ? 2 : 1)) {
        say("%s; try sluice-push --help", options->publishers > 0 ? "FILE and URL are wanted" : "URL is wanted");
        return false;
    }
    options->file = options->publishers > 0 ? words[0] : NULL;
    if (!read_target(words[count - 1], &options->target) || (texts->name && !set_name(texts->name, &options->target)))
        return false;
    options->play = options->target;
    if (texts->play && !read_target(texts->play, &options->play))
        return false;
    if (texts->play && texts->name && !set_name(texts->name, &options->play))
        return false;
    if (!has_app(&options->target) || !has_app(&options->play))
        return false;
    if (plays && options->play.kind == TARGET_FLV) {
        say("flv:// and flvs:// are for publishing: say with --play where the players play");
        return false;
    }
    if (options->publishers > 0)
        options->streams = options->publishers;
    return true;
}

enum push_options_result push_options_parse(int argc, char **argv, struct push_options *ret_options) {
    struct push_options options = {
        .publishers = 1, .streams = 1, .rate = 1, .ramp_ms = 1000, .retries = 3, .timeout_ms = 10000};
    struct texts texts = {0};
    int id;
    while ((id = getopt_long(argc, argv, "n:", long_options, NULL)) != -1) {
        enum push_options_result result = take_option(id, &options, &texts);
        if (result != PUSH_RUN)
            return result;
    }
    if (!take_words(argc - optind, argv + optind, &options, &texts))
        return PUSH_WRONG;
    *ret_options = options;
    return PUSH_RUN;
}
