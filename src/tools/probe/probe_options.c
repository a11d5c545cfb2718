#include "tools/probe/probe_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include <sluice/version.h>

#include "tools/backend.h"
#include "tools/number.h"
#include "tools/say.h"

static const char help[] = "Usage: sluice-probe [OPTION]... INPUT\n"
                           "Show what a stream or a file contains: tracks, times, sizes and errors.\n"
                           "\n"
                           "INPUT is an FLV file, \"-\" for standard input, http://HOST[:PORT]/NAME.flv\n"
                           "(HTTP-FLV), rtsp://[USER:PASSWORD@]HOST[:PORT]/NAME (RTSP over TCP), or\n"
                           "rtmp://[USER:PASSWORD@]HOST[:PORT]/APP/NAME; or by TLS the same with https://,\n"
                           "rtsps:// or rtmps://. A live stream is read until it ends, until --duration or\n"
                           "--count, or until an interrupt (Ctrl-C); then the summary is printed.\n"
                           "\n"
                           "Options:\n"
                           "  --frames          Print a line per tag: offset, kind, dts, pts, size, key and\n"
                           "                    codec\n"
                           "  --json            Print one JSON document; with --frames: JSON lines, one per\n"
                           "                    tag and the summary\n"
                           "  --duration S      Stop after this many seconds of media, fractions allowed\n"
                           "  --count N         Stop after this many frames\n"
                           "  --timeout S       Stop if a server sends nothing for this long (1 to 3600;\n"
                           "                    default 10)\n"
                           "  --tls-ca FILE     With TLS: trust the certificates in FILE instead of the\n"
                           "                    system's\n"
                           "  --tls-pin SHA256  With TLS: accept only a certificate with this hash; may be\n"
                           "                    repeated\n"
                           "  --backend NAME    Select auto, uring or epoll (default auto)\n"
                           "  --help            Print this help and exit\n"
                           "  --version         Print the version and exit\n"
                           "\n"
                           "Exit status: 0 no errors; 1 the stream has errors; 2 wrong usage; 3 the input\n"
                           "cannot be read or is not FLV, or output cannot be written.\n";

enum option_id {
    OPTION_FRAMES = 256,
    OPTION_JSON,
    OPTION_DURATION,
    OPTION_COUNT,
    OPTION_TIMEOUT,
    OPTION_TLS_CA,
    OPTION_TLS_PIN,
    OPTION_BACKEND,
    OPTION_HELP,
    OPTION_VERSION,
};

static const struct option long_options[] = {
    {"frames", no_argument, NULL, OPTION_FRAMES},
    {"json", no_argument, NULL, OPTION_JSON},
    {"duration", required_argument, NULL, OPTION_DURATION},
    {"count", required_argument, NULL, OPTION_COUNT},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"tls-ca", required_argument, NULL, OPTION_TLS_CA},
    {"tls-pin", required_argument, NULL, OPTION_TLS_PIN},
    {"backend", required_argument, NULL, OPTION_BACKEND},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

static bool take_number(int id, const char *text, struct probe_options *options) {
    double seconds;
    uint64_t number;
    switch (id) {
    case OPTION_DURATION:
        if (!number_read_real("--duration", text, 0.001, 1e9, &seconds))
            return false;
        options->duration_ms = (int64_t)(seconds * 1000);
        return true;
    case OPTION_COUNT:
        return number_read("--count", text, 1, UINT64_MAX, &options->count);
    default:
        if (!number_read("--timeout", text, 1, 3600, &number))
            return false;
        options->timeout_ms = (uint32_t)number * 1000;
        return true;
    }
}

static enum probe_options_result take_option(int id, struct probe_options *options) {
    switch (id) {
    case OPTION_FRAMES:
        options->frames = true;
        return PROBE_RUN;
    case OPTION_JSON:
        options->json = true;
        return PROBE_RUN;
    case OPTION_TLS_CA:
        options->trust.ca = optarg;
        return PROBE_RUN;
    case OPTION_TLS_PIN:
        return trust_add_pin(&options->trust, optarg) ? PROBE_RUN : PROBE_WRONG;
    case OPTION_BACKEND:
        return backend_read(optarg, &options->backend) ? PROBE_RUN : PROBE_WRONG;
    case OPTION_HELP:
        fputs(help, stdout);
        return PROBE_DONE;
    case OPTION_VERSION:
        puts("sluice-probe " SLUICE_VERSION);
        return PROBE_DONE;
    case '?':
        fputs("Try sluice-probe --help.\n", stderr);
        return PROBE_WRONG;
    default:
        return take_number(id, optarg, options) ? PROBE_RUN : PROBE_WRONG;
    }
}

enum probe_options_result probe_options_parse(int argc, char **argv, struct probe_options *ret_options) {
    struct probe_options options = {.timeout_ms = 10000};
    int id;
    while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        enum probe_options_result result = take_option(id, &options);
        if (result != PROBE_RUN)
            return result;
    }
    if (optind + 1 != argc) {
        say("%s; try sluice-probe --help", optind == argc ? "an input is missing" : "more than one input");
        return PROBE_WRONG;
    }
    options.input = argv[optind];
    struct rtmp_url url;
    int error = target_read(options.input, &options.target);
    if (!error && options.target.kind == TARGET_RTMP)
        error = target_rtmp_url(&options.target, &url);
    if (error || options.target.kind == TARGET_FLV) {
        say("%s: %s", options.input,
            error == -EMSGSIZE ? "too long"
                               : "neither a file nor an http[s]://, rtsp[s]:// or rtmp[s]:// URL that can be read");
        return PROBE_WRONG;
    }
    *ret_options = options;
    return PROBE_RUN;
}
