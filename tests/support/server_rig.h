/*
 * A server in the test's process: its options, from words as on the command line, and connections
 * to its first worker.
 */
#ifndef TESTS_SUPPORT_SERVER_RIG_H
#define TESTS_SUPPORT_SERVER_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/config/command_line.h"
#include "daemon/config/options_load.h"
#include "daemon/server/server.h"
#include "daemon/server/worker.h"
#include "support/sockets.h"

static inline const struct options *server_rig_options(int count, char **words) {
    struct config_errors errors = {0};
    struct command_line line;
    assert_true(command_line_parse(count, words, &errors, &line));
    const struct options *options = options_load(&line, NULL, NULL, NULL, &errors);
    assert_non_null(options);
    command_line_clear(&line);
    return options;
}

/* Its session is the worker's first one. The peer's socket. */
static inline int server_rig_connect(struct server *server, const struct protocol *protocol) {
    int fds[2];
    sockets_tcp_pair(fds);
    struct handover handover = {
        .connection = {.fd = fds[0], .told = true},
        .peer = {.ss_family = AF_INET},
        .listener = {protocol, .stream = "live/a", .merge_window_ms = OPTIONS_MERGE_UNSET},
    };
    server_add_connection(server);
    handover_begin(server_worker(server, 0), &handover);
    return fds[1];
}

#endif
