/* Rejections because of a limit, or of what a port expects: the reason, and the answer to the
 * client. */
#ifndef SLUICED_REJECT_H
#define SLUICED_REJECT_H

#include <sluice/tls.h>

#include "daemon/config/protocol.h"

/* In the order in which they are counted; each has the name of its setting, where there is one. */
enum reject_cause {
    REJECT_CONNECTIONS,   /* --max-connections */
    REJECT_PER_ADDRESS,   /* --max-connections-per-address */
    REJECT_STREAMS,       /* --max-streams */
    REJECT_PLAYERS,       /* --max-players */
    REJECT_PROXY_HEADER,  /* --proxy-from: no PROXY header, or a malformed one */
    REJECT_MEMORY,        /* --memory: they held the most of it with what was not whole */
    REJECT_HANDSHAKES,    /* --tls-handshakes, --tls-handshakes-per-address */
    REJECT_TLS_HANDSHAKE, /* it failed, or took too long */
    REJECT_PLAINTEXT,     /* no TLS on a port with TLS */
    REJECT_TLS_HELLO,     /* TLS on a port without */
    REJECT_CAUSES,
};

/* "max_connections" and so on. */
const char *reject_name(enum reject_cause refusal);

/* In a few words, for logs and answers. */
const char *reject_reason(enum reject_cause refusal);

/* Of a stage that has failed within its handshake: REJECT_PLAINTEXT or REJECT_TLS_HANDSHAKE. */
enum reject_cause reject_cause_of_tls(const sluice_tls *tls);

/* Whether a connection's first bytes begin a TLS handshake. 1, 0 (not known yet), -EPROTO (no), as
 * of sluice_tls_is_hello(); -ENOMEM */
int reject_is_hello(sluice_chain *chain);

/* Answers a connection that is not wanted, as far as its protocol has words for it, and the socket
 * takes them at once. */
void reject_answer(int fd, const struct protocol *protocol, enum reject_cause refusal);

/*
 * Answers a connection that has been accepted and is not wanted, and closes it. Waits for nothing:
 * a peer that has filled no buffer yet gets the answer.
 */
void reject_close(int fd, const struct protocol *protocol, enum reject_cause refusal);

#endif
