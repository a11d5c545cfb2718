/*
 * Names looked up in threads of their own: getaddrinfo() knows all that this host knows (files, DNS, mDNS), but waits
 * for it, and cannot be told to stop.
 */
#ifndef SLUICED_CONTROL_LOOKUP_H
#define SLUICED_CONTROL_LOOKUP_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

struct lookups;
struct wake;

/* @wake: whom an answer wakes; the caller's, cleared after lookups_close(). */
int lookups_new(const struct wake *wake, struct lookups **ret_lookups);

/* Answers that are still to come are dropped, when they come. NULL is allowed. */
void lookups_close(struct lookups *lookups);

/* Looks up a name in a thread of its own. 0, -errno */
int lookups_start(struct lookups *lookups, const char *host, uint16_t port, void *user);

/* The next answer: true, with the user's value and addresses to be freed by freeaddrinfo(), or NULL without. */
bool lookups_next(struct lookups *lookups, void **ret_user, struct addrinfo **ret_addresses);

/* In this thread, a numeric address only: NULL for what is none. */
struct addrinfo *lookup_numeric(const char *host, uint16_t port);

#endif
