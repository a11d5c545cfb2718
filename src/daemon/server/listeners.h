/* The listeners of the data plane, as its options say: all are one worker's, the thread of which
 * they are for. */
#ifndef SLUICED_LISTENERS_H
#define SLUICED_LISTENERS_H

#include <sluice/conn.h>

#include "daemon/base/address.h"
#include "daemon/config/options.h"

enum { LISTENERS_ERROR = 128 };

struct listeners;
struct worker;

/* One that a connection has come by. */
typedef void listeners_accepted_fn(struct worker *worker, const struct listener_option *option, int fd);

/* 0, -ENOMEM. The worker outlives them. */
int listeners_new(struct worker *worker, listeners_accepted_fn *accepted, struct listeners **ret_listeners);

/* Stops listening. NULL is allowed. */
void listeners_free(struct listeners *listeners);

/*
 * Listens where the options say, and nowhere else any more. An address that is listened at already
 * stays so, also where it becomes another protocol's. 0, or -errno with the reason: then nothing is
 * changed
 */
int listeners_set(struct listeners *listeners, const struct options *options, char reason[LISTENERS_ERROR]);

/* A socket that listens, for another process. */
struct listeners_socket {
    int fd;                        /* a duplicate, closed on exec */
    struct listener_option option; /* what it is for */
};

/* Duplicates of all, at most OPTIONS_MAX_LISTENERS. 0, or -errno: then there are none. */
int listeners_lend(const struct listeners *listeners, struct listeners_socket *ret_list, size_t *ret_count);

/*
 * Stops listening without losing a connection: those that the kernel has accepted still come. Then
 * @left is called, at once where nothing listens; by listeners_free() at the latest. Nothing is to
 * be set before they return.
 */
void listeners_leave(struct listeners *listeners, void (*left)(void *user), void *user);

/*
 * Listens again, having left, at the sockets that were lent, with what waits in their backlogs. The
 * sockets are theirs, also on failure. 0, or -errno of the last one that cannot be listened at; the
 * others are.
 */
int listeners_return(struct listeners *listeners, const struct listeners_socket *list, size_t count);

/* Where those of the options listen, in their order: a port may be the system's choice. Empty where
 * one does not. */
void listeners_addresses(struct listeners *listeners, const struct options *options,
                         char ret_texts[OPTIONS_MAX_LISTENERS][ADDRESS_TEXT]);

#endif
