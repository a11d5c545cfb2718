/* The command line. */
#ifndef SLUICED_OPTIONS_H
#define SLUICED_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <sluice/loop.h>

#include "daemon/pull_option.h"
#include "daemon/stream_name.h"

enum {
    OPTIONS_MAX_LISTENERS = 64,
    OPTIONS_MAX_MERGES = 1024,
    OPTIONS_MAX_WORKERS = 256,
    OPTIONS_MERGE_UNSET = UINT16_MAX,
};

enum listener_protocol { LISTENER_FLV, LISTENER_HTTP, LISTENER_RTSP };

struct listener_option {
    enum listener_protocol protocol;
    struct sockaddr_storage address;
    char stream[STREAM_NAME + 1]; /* of raw publishers; empty: named after the peer's port */
    uint16_t merge_window_ms;     /* of its players, or OPTIONS_MERGE_UNSET */
};

/* The merge window of one stream's players. */
struct merge_option {
    const char *stream; /* not terminated: it points into the command line */
    size_t length;
    uint16_t window_ms;
};

struct options {
    struct listener_option listeners[OPTIONS_MAX_LISTENERS];
    size_t listener_count;
    struct pull_options pulls; /* to be cleared */
    bool allow_remote;
    const char *rtsp_users; /* file; or NULL */
    uint64_t workers;       /* threads */
    uint64_t memory;        /* bytes, of all workers together */
    uint64_t gop_size;      /* bytes */
    uint64_t player_buffer; /* bytes */
    uint64_t frame_limit;   /* bytes */
    sluice_backend_choice backend;
    uint32_t batch_us;
    uint16_t merge_window_ms;
    struct merge_option merges[OPTIONS_MAX_MERGES];
    size_t merge_count;
    uint64_t wait_ms;
    uint64_t idle_ms;
    uint64_t stall_ms;
    uint64_t max_connections;
    bool status;
    int log_level;
};

/* What main() is to do after options_parse(). */
enum options_result {
    OPTIONS_RUN,
    OPTIONS_DONE,  /* --help or --version has been printed */
    OPTIONS_WRONG, /* said why on standard error */
};

enum options_result options_parse(int argc, char **argv, struct options *ret_options);

/* The merge window of a player, milliseconds: its stream's, or else its listener's (or NULL), or else everybody's. */
uint32_t options_merge_window(const struct options *options, const char *stream,
                              const struct listener_option *listener);

#endif
