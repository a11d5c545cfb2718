/*
 * Reloads the configuration: on SIGHUP, or on request of the control plane. Errors are reported
 * with file and line; then nothing changes. The control plane's thread only.
 */
#ifndef SLUICED_RELOAD_H
#define SLUICED_RELOAD_H

#include <stdbool.h>

#include <sluice/tls.h>

#include "daemon/config/command_line.h"
#include "daemon/config/options.h"
#include "daemon/server/server.h"

struct event_base;
struct reload;
struct tls_client;

struct reload_result {
    /* 0; or why nothing has changed: -EINVAL (the configuration is wrong), or what the server
     * says */
    int error;

    /*
     * Lines, each with its end: what is wrong; or, without an error, a line for each changed
     * setting, "NAME: FROM -> TO" and when it takes effect: "(now)", "(for those who come)",
     * "(needs a restart)".
     */
    const char *text;
};
typedef void reload_done_fn(const struct reload_result *result, void *user);

/* @line, @server and @tls outlive it. The server has its TLS context. 0, -ENOMEM, -EMFILE */
int reload_new(struct event_base *base, struct server *server, const struct command_line *line,
               const struct options *options, struct tls_client *tls, struct reload **ret_reload);

/* When nothing runs the server any more, and before the server goes. NULL is allowed. */
void reload_free(struct reload *reload);

/*
 * Reads the configuration again and puts it in force. @done is called once, before this returns or
 * later; not at all if the reload is freed first. NULL: the result is only logged. 0, -EBUSY (one
 * is pending, or held), -ENOMEM
 */
int reload_start(struct reload *reload, reload_done_fn *done, void *user);

/* Whether one is under way. */
bool reload_is_under_way(const struct reload *reload);

/* While the server's sockets are being given away, there is no reload: -EBUSY. */
void reload_hold(struct reload *reload, bool is_held);

/* What is in force. Valid until the next event of the control plane; take a reference for
 * longer. */
const struct options *reload_options(const struct reload *reload);

/* The TLS context of new connections, likewise; NULL: there is none. */
sluice_tls_context *reload_tls(const struct reload *reload);

/* One that shows what the kernel can do (tls_kernel_get()): of listeners, or else of forwards;
 * NULL: neither has one. Likewise. */
const sluice_tls_context *reload_tls_kernel(const struct reload *reload);

#endif
