#include "shared/tls_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What on_end has reported. */
enum link_end {
    LINK_OPEN,  /* nothing; set by tls_link_new() and tls_link_linger() */
    LINK_ENDED, /* that it has ended, or failed; set by end() */
};

struct tls_link {
    const sluice_conn_events *events; /* the user's */
    void *user;
    sluice_conn *conn; /* NULL: none */
    sluice_tls *tls;   /* NULL: there was no memory */
    size_t need;       /* bytes of plaintext without which the user is not called */
    int error;         /* why there is no stage */
    enum link_end end;
    bool again; /* the user is to be called whatever is there */
    /* the stage could not encrypt: without a block, or in the middle of a message of the peer's; it
     * calls on_data to try again */
    bool starved;
    bool is_over;  /* the connection has ended: see end_connection() */
    bool was_cut;  /* that has been the end of the stream, too */
    bool drops;    /* what comes is not decrypted any more */
    bool lingers;  /* tls_link_linger() has been called */
    size_t unread; /* bytes that have been dropped since then */
    bool finishes; /* close_notify is queued, and the user is told when it has gone */
    bool is_open;  /* the handshake is complete, and the user has been asked what it has to send */
    bool passes;   /* the user's pieces are being sent, which the kernel encrypts */
    bool is_due;   /* the next call is in the share of a turn that is for handshakes */
    /* it leaves with the last encrypted byte; NULL: it stays */
    sluice_conn_detached_fn *detached;
    void *detached_user;
    bool leaves;              /* it does so now */
    struct tls_bytes counted; /* by tls_link_count(), and elsewhere before it was attached */
};

static struct tls_bytes bytes_of(const sluice_tls *tls) {
    sluice_tls_stats stats = {.size = sizeof stats};
    if (!tls || sluice_tls_get_stats(tls, &stats) < 0)
        return (struct tls_bytes){0};
    return (struct tls_bytes){.decrypted = stats.plain_in,
                              .encrypted = stats.plain_out,
                              .gathered = stats.gathered_out,
                              .copied = stats.sealed_in + stats.plain_in + stats.gathered_out + stats.plain_out +
                                        stats.sealed_out + stats.kernel_copied};
}

static void add_difference(struct tls_bytes *sum, struct tls_bytes now, struct tls_bytes before) {
    sum->decrypted += now.decrypted - before.decrypted;
    sum->encrypted += now.encrypted - before.encrypted;
    sum->gathered += now.gathered - before.gathered;
    sum->copied += now.copied - before.copied;
}

void tls_bytes_add(struct tls_bytes *sum, const sluice_tls *tls) {
    add_difference(sum, bytes_of(tls), (struct tls_bytes){0});
}

void tls_link_count(struct tls_link *link, struct tls_bytes *sum) {
    if (!link->tls)
        return;
    struct tls_bytes now = bytes_of(link->tls);
    add_difference(sum, now, link->counted);
    link->counted = now;
}

int tls_link_new(const sluice_conn_events *events, void *user, struct tls_link **ret_link) {
    struct tls_link *link = calloc(1, sizeof *link);
    if (!link)
        return -ENOMEM;
    link->events = events;
    link->user = user;
    *ret_link = link;
    return 0;
}

void tls_link_free(struct tls_link *link) {
    if (!link)
        return;
    sluice_tls_free(link->tls);
    free(link);
}

/* There is no stage: on_data reports it in the next turn. */
static void fail(struct tls_link *link, int error) {
    link->error = error;
    sluice_conn_again(link->conn);
}

void tls_link_begin(struct tls_link *link, sluice_conn *conn, sluice_tls_context *context, const char *name) {
    link->conn = conn;
    int error = sluice_tls_new(context, conn, name, &link->tls);
    if (error)
        fail(link, error);
}

void tls_link_attach(struct tls_link *link, sluice_conn *conn, sluice_tls *tls) {
    link->conn = conn;
    link->tls = tls;
    link->counted = bytes_of(tls);
    int error = sluice_tls_attach(tls, conn);
    if (error)
        fail(link, error);
    else
        link->again = sluice_chain_length(sluice_tls_chain(tls)) > 0;
}

static bool has_queued(const struct tls_link *link) {
    return tls_link_queued(link) > 0;
}

int tls_link_leave(struct tls_link *link, sluice_conn_detached_fn *detached, void *user) {
    if (!has_queued(link))
        return sluice_conn_detach(link->conn, detached, user);
    if (sluice_conn_is_closing(link->conn))
        return -EPIPE;
    link->detached = detached;
    link->detached_user = user;
    sluice_conn_pause(link->conn); /* as a connection does that leaves */
    return 0;
}

sluice_tls *tls_link_take(struct tls_link *link, struct tls_bytes *sum) {
    sluice_tls *tls = link->tls;
    /* Before it is counted, which may look at its connection. */
    (void)sluice_tls_detach(tls);
    tls_link_count(link, sum);
    link->conn = NULL;
    link->tls = NULL;
    link->counted = (struct tls_bytes){0};
    link->detached = NULL;
    link->leaves = link->passes = false;
    link->is_open = false;
    link->need = 0;
    return tls;
}

sluice_chain *tls_link_chain(const struct tls_link *link) {
    return link->tls ? sluice_tls_chain(link->tls) : sluice_conn_chain(link->conn);
}

void tls_link_again(struct tls_link *link) {
    link->again = true;
    sluice_conn_again(link->conn);
}

/* The stage decrypts no more. */
static bool is_last(const struct tls_link *link) {
    sluice_tls_state state = link->tls ? sluice_tls_get_state(link->tls) : SLUICE_TLS_FAILED;
    return state == SLUICE_TLS_ENDED || state == SLUICE_TLS_FAILED;
}

void tls_link_set_need(struct tls_link *link, size_t bytes) {
    size_t length = sluice_chain_length(tls_link_chain(link)), before = link->need;
    link->need = bytes;
    /* At its end the user has been called already. */
    if (length > 0 && length < before && length >= bytes && !is_last(link))
        tls_link_again(link);
}

int tls_link_finish(struct tls_link *link) {
    int error = link->tls && !link->error ? sluice_tls_finish(link->tls) : -EPIPE;
    link->finishes = !error && has_queued(link);
    return error;
}

void tls_link_close(struct tls_link *link) {
    if (link->tls && !sluice_conn_is_closing(link->conn) && sluice_tls_finish(link->tls) == 0)
        (void)sluice_tls_flush(link->tls);
    sluice_conn_close(link->conn);
}

bool tls_link_is_flushing(const struct tls_link *link) {
    return has_queued(link) && !sluice_conn_is_closing(link->conn);
}

void tls_link_drop(struct tls_link *link) {
    link->drops = true;
    if (link->tls)
        sluice_chain_skip(sluice_tls_chain(link->tls), SIZE_MAX);
    sluice_chain_skip(sluice_conn_chain(link->conn), SIZE_MAX);
}

bool tls_link_has_alerted(const struct tls_link *link) {
    const sluice_tls_detail detail = link->tls ? sluice_tls_get_detail(link->tls) : SLUICE_TLS_DETAIL_NONE;
    return detail != SLUICE_TLS_DETAIL_NONE && detail != SLUICE_TLS_DETAIL_ALERT &&
           detail != SLUICE_TLS_DETAIL_TRUNCATED;
}

int tls_link_linger(struct tls_link *link) {
    if (!tls_link_has_alerted(link))
        return -EINVAL;
    tls_link_drop(link);
    link->lingers = true;
    link->end = LINK_OPEN;
    return sluice_conn_finish(link->conn);
}

size_t tls_link_footprint(const struct tls_link *link) {
    return link->tls ? sluice_chain_footprint(sluice_tls_chain(link->tls)) : 0;
}

size_t tls_link_queued(const struct tls_link *link) {
    return link->tls ? sluice_tls_queued(link->tls) : 0;
}

bool tls_link_passes(const struct tls_link *link) {
    return link->passes;
}

bool tls_link_kernel_sends(const struct tls_link *link) {
    sluice_tls_info info = {.size = sizeof info};
    return link->tls && sluice_tls_get_info(link->tls, &info) == 0 && info.kernel_sends;
}

bool tls_link_was_cut(const struct tls_link *link) {
    return link->was_cut;
}

bool tls_link_was_open(const struct tls_link *link) {
    return link->is_open;
}

const sluice_tls *tls_link_stage(const struct tls_link *link) {
    return link->tls;
}

const char *tls_link_reason(const struct tls_link *link) {
    if (link->error)
        return strerror(-link->error);
    return link->tls && sluice_tls_get_state(link->tls) == SLUICE_TLS_FAILED ? sluice_tls_reason(link->tls) : NULL;
}

static void end(struct tls_link *link, int error) {
    if (link->end != LINK_OPEN || link->detached || sluice_conn_is_closing(link->conn))
        return;
    link->end = LINK_ENDED;
    if (link->events->on_end)
        link->events->on_end(link->conn, error, link->user);
}

/* Calls on_data when the plaintext that the user needs is there, as a plain connection does. */
static void pass_data(struct tls_link *link) {
    if (link->drops) {
        sluice_chain_skip(sluice_tls_chain(link->tls), SIZE_MAX);
        link->again = false;
        return;
    }
    size_t length = sluice_chain_length(sluice_tls_chain(link->tls));
    bool is_enough = link->end == LINK_OPEN && length > 0 && (length >= link->need || is_last(link));
    if ((!link->again && !is_enough) || !link->events->on_data)
        return;
    link->again = false;
    link->events->on_data(link->conn, link->user);
}

/*
 * Reports the connection's end once everything received is decrypted (the stage calls on_data for
 * that) and the user has no work left.
 */
static void end_connection(struct tls_link *link) {
    bool was_last = is_last(link);
    int error = link->error ? link->error : sluice_tls_end(link->tls);
    link->was_cut |= !was_last && error == -ECONNRESET;
    link->is_over = true;
    if (error != -EAGAIN && !link->again)
        end(link, error);
}

/*
 * Servers may answer many connections of a program at once, and verifying one takes a millisecond.
 * So each message of a handshake is handled in the share of a turn that is for connections with
 * work left, which bounds the delay of other connections.
 */
static bool must_wait(struct tls_link *link) {
    link->is_due = !link->is_due && !link->error && sluice_tls_get_state(link->tls) == SLUICE_TLS_HANDSHAKE;
    if (link->is_due)
        sluice_conn_again(link->conn);
    return link->is_due;
}

/* What waits for the kernel to have taken all. */
static void settle_flushed(struct tls_link *link) {
    if (has_queued(link))
        return;
    bool leaves = link->detached && !link->leaves;
    link->leaves |= leaves;
    if (leaves && sluice_conn_detach(link->conn, link->detached, link->detached_user) < 0)
        sluice_conn_close(link->conn);
    if (!link->finishes)
        return;
    link->finishes = false;
    if (link->events->on_sent)
        link->events->on_sent(link->conn, 0, link->user);
}

static void drop_unread(struct tls_link *link) {
    sluice_chain *chain = sluice_conn_chain(link->conn);
    link->unread += sluice_chain_length(chain);
    sluice_chain_skip(chain, SIZE_MAX);
    if (link->unread > TLS_LINK_LINGER_MOST)
        sluice_conn_close(link->conn);
}

static void on_data(sluice_conn *conn, void *user) {
    struct tls_link *link = user;
    if (link->lingers) {
        drop_unread(link);
        return;
    }
    if (!link->passes) /* the stage has sent something itself */
        settle_flushed(link);
    if (link->detached)
        return;
    if (link->drops)
        sluice_chain_skip(sluice_conn_chain(conn), SIZE_MAX);
    if (link->starved)
        sluice_conn_want_send(conn);
    link->starved = false;
    if (must_wait(link))
        return;
    int result = link->error ? link->error : sluice_tls_receive(link->tls);
    if (!link->error && sluice_tls_get_state(link->tls) != SLUICE_TLS_HANDSHAKE)
        pass_data(link);
    if (result < 0 && !link->again)
        end(link, result == -ENODATA ? 0 : result);
    else if (link->is_over)
        end_connection(link);
    if (link->tls && !link->is_open && sluice_tls_get_state(link->tls) == SLUICE_TLS_OPEN) {
        link->is_open = true;
        sluice_conn_want_send(conn);
    }
}

static void on_end(sluice_conn *conn, int error, void *user) {
    struct tls_link *link = user;
    if (link->detached && error)
        sluice_conn_close(conn);
    else if (link->detached)
        link->is_over = true;
    else if (error || link->drops)
        end(link, error);
    else
        end_connection(link);
}

/* Shortens the pieces to TLS_LINK_BATCH. */
static size_t cut(struct iovec *iov, size_t count) {
    size_t left = TLS_LINK_BATCH;
    for (size_t i = 0; i < count; i++) {
        if (iov[i].iov_len >= left) {
            iov[i].iov_len = left;
            return i + 1;
        }
        left -= iov[i].iov_len;
    }
    return count;
}

/* The user's next bytes become records. */
static void encrypt(struct tls_link *link, struct iovec *iov, size_t max) {
    size_t done = 0, count = link->events->on_gather(link->conn, iov, max, link->user);
    if (count == 0)
        return;
    int error = sluice_tls_send(link->tls, iov, cut(iov, count), &done);
    /* Also of nothing: the pieces are the user's again. */
    if (link->events->on_sent)
        link->events->on_sent(link->conn, done, link->user);
    if (sluice_conn_is_closing(link->conn))
        return;
    link->starved = error == -ENOBUFS || error == -EAGAIN;
    if (error && error != -ENOBUFS && error != -EAGAIN)
        sluice_conn_again(link->conn); /* the stage's error is final, and is reported there */
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    struct tls_link *link = user;
    (void)conn;
    if (!link->tls)
        return 0;
    bool is_open = sluice_tls_get_state(link->tls) == SLUICE_TLS_OPEN ||
                   sluice_tls_get_state(link->tls) == SLUICE_TLS_ENDED;
    bool may_send = is_open && !link->detached && link->events->on_gather;
    if (may_send && sluice_tls_may_pass(link->tls)) {
        size_t count = link->events->on_gather(conn, iov, max, link->user);
        link->passes = count > 0;
        return count;
    }
    if (may_send && !has_queued(link))
        encrypt(link, iov, max);
    return sluice_tls_gather(link->tls, iov, max);
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct tls_link *link = user;
    bool passes = link->passes;
    link->passes = false;
    sluice_tls_sent(link->tls, bytes);
    if (passes && link->events->on_sent)
        link->events->on_sent(conn, bytes, link->user);
    if (!sluice_conn_is_closing(conn))
        settle_flushed(link);
}

static void on_closed(sluice_conn *conn, void *user) {
    struct tls_link *link = user;
    if (link->events->on_closed)
        link->events->on_closed(conn, link->user);
    tls_link_free(link);
}

const sluice_conn_events tls_link_events = {
    .size = sizeof tls_link_events,
    .on_data = on_data,
    .on_end = on_end,
    .on_gather = on_gather,
    .on_sent = on_sent,
    .on_closed = on_closed,
};
