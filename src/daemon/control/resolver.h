/*
 * Looks names up in separate threads: getaddrinfo() uses all sources of this host (files, DNS,
 * mDNS), but blocks, and cannot be cancelled.
 */
#ifndef SLUICED_RESOLVER_H
#define SLUICED_RESOLVER_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

struct resolver;
struct wakeup;

/* @wakeup: signalled by each answer; the caller's, cleared after resolver_close(). */
int resolver_new(const struct wakeup *wakeup, struct resolver **ret_lookups);

/* Answers that are still to come are dropped, when they come. NULL is allowed. */
void resolver_close(struct resolver *resolver);

/* Looks up a name in a thread of its own. 0, -errno */
int resolver_start(struct resolver *resolver, const char *host, uint16_t port, void *user);

/* The next answer: true, with the user's value and addresses to be freed by freeaddrinfo(), or NULL
 * without. */
bool resolver_next(struct resolver *resolver, void **ret_user, struct addrinfo **ret_addresses);

/* In this thread, a numeric address only: NULL for what is none. */
struct addrinfo *resolver_numeric(const char *host, uint16_t port);

#endif
