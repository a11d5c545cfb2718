/* What is refused because there is as much of it as there may be: why, in words, and to whom how. */
#ifndef SLUICED_REFUSAL_H
#define SLUICED_REFUSAL_H

#include "daemon/options.h"

/* In the order in which they are counted; each has the name of its setting. */
enum refusal {
    REFUSED_CONNECTIONS,  /* --max-connections */
    REFUSED_PER_ADDRESS,  /* --max-connections-per-address */
    REFUSED_STREAMS,      /* --max-streams */
    REFUSED_PLAYERS,      /* --max-players */
    REFUSED_PROXY_HEADER, /* --proxy-from: no PROXY header, or a malformed one */
    REFUSED_MEMORY,       /* --memory: they held the most of it with what was not whole */
    REFUSALS,
};

/* "max_connections" and so on. */
const char *refusal_name(enum refusal refusal);

/* In a few words, for logs and answers. */
const char *refusal_reason(enum refusal refusal);

/*
 * Answers a connection that has been accepted and is not wanted, as far as its protocol has words for it, and closes
 * it. Waits for nothing: a peer that has filled no buffer yet gets the answer.
 */
void refusal_close(int fd, enum listener_protocol protocol, enum refusal refusal);

#endif
