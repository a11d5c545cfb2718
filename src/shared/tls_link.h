/*
 * TLS between a connection and its user. The link receives the connection's events, and calls those
 * of the user with plaintext, as a plain connection does.
 *
 *     connection -> sluice_tls_receive() -> the user's on_data, which reads tls_link_chain()
 *     the user's on_gather -> sluice_tls_send() -> the user's on_sent -> sluice_tls_gather()
 *         -> connection
 *
 * The user's on_sent means that bytes are encrypted: the pieces have been copied and may be freed.
 * on_gather is called again once the kernel has taken all encrypted bytes, and at most
 * TLS_LINK_BATCH bytes are encrypted at a time, so a peer that does not read holds no more than
 * that. Where the kernel encrypts (sluice_tls_may_pass()), the user's pieces are sent as they are,
 * and on_sent means that the kernel has taken them. Closing the connection earlier loses them.
 * After tls_link_finish(), on_sent with 0 bytes reports that the kernel has taken all.
 *
 * The user's on_end: 0: the peer has sent close_notify; -ECONNRESET: its stream has ended without;
 * -EPROTO and so on: as of sluice_tls_receive(), and tls_link_reason() has words.
 *
 * The connection's loop's thread only.
 */
#ifndef SHARED_TLS_LINK_H
#define SHARED_TLS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/conn.h>
#include <sluice/tls.h>

enum {
    TLS_LINK_BATCH = 64 << 10,        /* bytes of plaintext that are encrypted at once */
    TLS_LINK_LINGER_MOST = 256 << 10, /* bytes that are dropped while it lingers */
};

struct tls_link;

/* Bytes, of stages: of data, and what was copied in user space for them. */
struct tls_bytes {
    uint64_t decrypted, encrypted; /* plaintext, by OpenSSL */
    uint64_t gathered;             /* put together for records before they were encrypted */
    uint64_t copied;               /* all copies: of these, of records, and of handshakes */
};

/* Those of a connection with a link, which is its user. */
extern const sluice_conn_events tls_link_events;

/*
 * A link without a connection. @events: the user's; on_data, on_end, on_gather, on_sent and
 * on_closed are called. 0, -ENOMEM
 */
int tls_link_new(const sluice_conn_events *events, void *user, struct tls_link **ret_link);

/* Only for a link without a connection: with one, it is freed after on_closed. NULL is allowed. */
void tls_link_free(struct tls_link *link);

/*
 * Begins a handshake on the connection. @name: as for sluice_tls_new(). A failure is reported by
 * the user's on_end in the next turn.
 */
void tls_link_begin(struct tls_link *link, sluice_conn *conn, sluice_tls_context *context, const char *name);

/* The same with a stage prepared by sluice_tls_detach(), which the link owns from now on. */
void tls_link_attach(struct tls_link *link, sluice_conn *conn, sluice_tls *tls);

/*
 * In place of sluice_conn_detach(): detaches once the kernel has taken all encrypted bytes. No
 * event of the user is called until then; a failure of the connection closes it. 0, or as of
 * sluice_conn_detach()
 */
int tls_link_leave(struct tls_link *link, sluice_conn_detached_fn *detached, void *user);

/* In that callback: the stage, which another thread may pass to tls_link_attach(). The user keeps
 * the link. @sum: as for tls_link_count() */
sluice_tls *tls_link_take(struct tls_link *link, struct tls_bytes *sum);

/* In place of the calls of sluice_conn_ with the same names. */
sluice_chain *tls_link_chain(const struct tls_link *link); /* of plaintext */
void tls_link_set_need(struct tls_link *link, size_t bytes);
void tls_link_again(struct tls_link *link);
int tls_link_finish(struct tls_link *link);

/* sluice_conn_close(), with close_notify before it as far as the socket takes it at once. */
void tls_link_close(struct tls_link *link);

/* Whether encrypted bytes wait for the kernel. */
bool tls_link_is_flushing(const struct tls_link *link);

/* Whether TLS has failed by what this side has found, so that the peer has been sent an alert, as
 * far as the socket had room. */
bool tls_link_has_alerted(const struct tls_link *link);

/* Drops received bytes from now on, for a user that only has an answer left to send. */
void tls_link_drop(struct tls_link *link);

/*
 * In on_end, which has reported that TLS has failed: the connection sends no more, and stays for a
 * peer that may still send, so that it reads the alert. What comes is dropped. on_end is called
 * again at its end; behind TLS_LINK_LINGER_MOST bytes it is closed. The time is the user's to
 * bound. 0, -EINVAL (TLS has not failed, or by the peer's own word), -errno: the user closes it
 */
int tls_link_linger(struct tls_link *link);

/* Bytes of blocks that it holds with what it has decrypted. OpenSSL's memory, some 18 KiB of an
 * open connection, is the heap's. */
size_t tls_link_footprint(const struct tls_link *link);

/* Adds all that a stage has counted. */
void tls_bytes_add(struct tls_bytes *sum, const sluice_tls *tls);

/* Adds what the link's stage has counted since the last call, or since it was attached. */
void tls_link_count(struct tls_link *link, struct tls_bytes *sum);

/* Whether its handshake has been completed. It may have failed or ended since. */
bool tls_link_was_open(const struct tls_link *link);

/* Whether the kernel encrypts what is sent, from now on. */
bool tls_link_kernel_sends(const struct tls_link *link);

/* Whether its stream has ended without close_notify, with TLS still intact until then. */
bool tls_link_was_cut(const struct tls_link *link);

/* Whether the kernel is sending the user's own pieces, which it encrypts. */
bool tls_link_passes(const struct tls_link *link);

/* Encrypted bytes that wait for the kernel, in blocks. */
size_t tls_link_queued(const struct tls_link *link);

/* For sluice_tls_get_info() and the like. NULL: there was no memory for it */
const sluice_tls *tls_link_stage(const struct tls_link *link);

/* Why it has failed, for logs; NULL: it has not. Static. */
const char *tls_link_reason(const struct tls_link *link);

#endif
