/* The way out: records, new keys, close_notify. */
#include <errno.h>
#include <string.h>

#include <openssl/err.h>

#include "tls/stage.h"

/* Pieces of a source, one after the other. */
typedef struct source {
    const struct iovec *pieces;
    size_t count;
    size_t at;   /* the piece */
    size_t done; /* of its bytes */
    size_t left; /* bytes of all */
} source;

void tls_room_reserve(sluice_tls *tls, size_t n, struct tls_room *ret_room) {
    int count = sluice_chain_reserve(tls->sealed, n, ret_room->pieces, TLS_PIECES);
    ret_room->count = count > 0 ? count : 0;
    ret_room->bytes = 0;
    for (int i = 0; i < count; i++)
        ret_room->bytes += ret_room->pieces[i].iov_len;
}

/* Whether there are blocks for a record, so that OpenSSL does not stop within it. */
static bool find_blocks(sluice_tls *tls, size_t n, struct tls_room *ret_room) {
    tls_room_reserve(tls, n + TLS_OVERHEAD, ret_room);
    return ret_room->bytes >= n + TLS_OVERHEAD;
}

/* The same for a message alone. */
static bool has_blocks(sluice_tls *tls) {
    struct tls_room room;
    return find_blocks(tls, 0, &room);
}

static int fail(sluice_tls *tls, int result) {
    return tls_fail_ssl(tls, SSL_get_error(tls->ssl, result));
}

/* Before a record: the key must be allowed one more. */
static int check_key(sluice_tls *tls) {
    if (tls->key_records_out < tls->context->rekey_records)
        return 0;
    if (SSL_version(tls->ssl) != TLS1_3_VERSION)
        return tls_fail(tls, -EKEYEXPIRED, SLUICE_TLS_DETAIL_KEY_LIMIT, "the key has reached its limit");
    if (SSL_get_key_update_type(tls->ssl) != SSL_KEY_UPDATE_NONE)
        return 0; /* one is pending */
    tls_drop_errors();
    return SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1 ? 0 : fail(tls, -1);
}

/*
 * OpenSSL sends no data in the middle of a message behind the handshake: of the peer's, which may
 * arrive in pieces, or of its own, for which there was no block. 1: there is none, 0: there is, and
 * the user is called when it can go on, or the final error
 */
static int end_message(sluice_tls *tls) {
    if (!SSL_in_init(tls->ssl))
        return 1;
    tls_drop_errors();
    int result = SSL_do_handshake(tls->ssl), error = SSL_get_error(tls->ssl, result);
    if (result == 1)
        return 1;
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
        return fail(tls, result);
    tls->starved |= error == SSL_ERROR_WANT_WRITE;
    tls_receive_plan(tls);
    return 0;
}

int tls_send_rekey(sluice_tls *tls) {
    if (tls->requested || tls->closed)
        return 0;
    /* The peer's new key would be one of both sides, which the kernel cannot change. */
    if (tls->kernel.state == TLS_KERNEL_SENDS && !tls->context->kernel.changes_keys)
        return 0;
    if (!has_blocks(tls)) {
        tls->starved = true;
        return 0;
    }
    int result = end_message(tls);
    if (result <= 0)
        return result;
    tls_drop_errors();
    if (SSL_key_update(tls->ssl, SSL_KEY_UPDATE_REQUESTED) != 1)
        return fail(tls, -1);
    tls->requested = true;
    result = end_message(tls);
    return result < 0 ? result : 0;
}

int tls_send_answer(sluice_tls *tls) {
    int type = SSL_get_key_update_type(tls->ssl);
    if (type == SSL_KEY_UPDATE_NONE || SSL_in_init(tls->ssl))
        return 0;
    tls_drop_errors();
    if (SSL_key_update(tls->ssl, type) != 1)
        return fail(tls, -1);
    int result = end_message(tls);
    return result < 0 ? result : 0;
}

/* 0, -EAGAIN (in the middle of a message), or the final error */
static int seal(sluice_tls *tls, const void *bytes, size_t n) {
    size_t written;
    int result = end_message(tls);
    if (result <= 0)
        return result ? result : -EAGAIN;
    int error = check_key(tls);
    if (error)
        return error;
    tls_drop_errors();
    result = SSL_write_ex(tls->ssl, bytes, n, &written);
    if (result != 1 || written != n)
        return fail(tls, result);
    tls->stats.plain_out += n;
    return 0;
}

/*
 * A ticket of TLS 1.3 goes out with the first data, not behind the handshake: a peer that only
 * sends may have closed its socket by then, and its kernel answers what still comes with a reset,
 * and drops what it has not sent yet. 0, -ENOBUFS, -EAGAIN (a part is left), or the final error
 */
static int send_ticket(sluice_tls *tls) {
    if (!tls->ticket_due || SSL_in_init(tls->ssl))
        return 0;
    if (!has_blocks(tls))
        return -ENOBUFS;
    tls->ticket_due = false;
    if (SSL_new_session_ticket(tls->ssl) != 1)
        return 0; /* the connection does without */
    int result = end_message(tls);
    if (result <= 0)
        return result ? result : -EAGAIN;
    tls->has_spoken = SSL_free_buffers(tls->ssl) != 1; /* else until it is received from */
    return 0;
}

static int write_record(sluice_tls *tls, const void *bytes, size_t n) {
    struct tls_room room;
    int error = send_ticket(tls);
    if (error)
        return error;
    if (!find_blocks(tls, n, &room))
        return -ENOBUFS;
    tls->room = &room;
    error = seal(tls, bytes, n);
    tls->room = NULL;
    return error;
}

/* Behind the first @n bytes of what is left of the current piece, which may be all and none. */
static void advance_piece(source *from, size_t n) {
    from->left -= n;
    from->done += n;
    if (from->done == from->pieces[from->at].iov_len) {
        from->at++;
        from->done = 0;
    }
}

static void advance(source *from, size_t n) {
    while (n > 0) {
        size_t here = from->pieces[from->at].iov_len - from->done;
        size_t part = n < here ? n : here;
        advance_piece(from, part);
        n -= part;
    }
}

/* The next @n bytes in one piece: in place, or put together. */
static const void *contiguous(sluice_tls *tls, const source *from, size_t n, uint8_t *together) {
    size_t at = from->at, done = from->done;
    while (from->pieces[at].iov_len == done) /* empty ones */
        at++, done = 0;
    if (from->pieces[at].iov_len - done >= n)
        return (const uint8_t *)from->pieces[at].iov_base + done;
    for (size_t copied = 0; copied < n; at++, done = 0) {
        size_t here = from->pieces[at].iov_len - done;
        size_t part = n - copied < here ? n - copied : here;
        if (part > 0)
            memcpy(together + copied, (const uint8_t *)from->pieces[at].iov_base + done, part);
        copied += part;
    }
    tls->stats.gathered_out += n;
    return together;
}

/* To the end of the queue, in the clear: the kernel encrypts it. */
static int queue_plain(sluice_tls *tls, source *from, size_t n) {
    struct iovec room[TLS_PIECES];
    size_t done = 0;
    int error = tls_kernel_check_key(tls);
    if (error)
        return error;
    int count = sluice_chain_reserve(tls->sealed, n, room, TLS_PIECES);
    for (int i = 0; i < count && done < n; i++) {
        size_t left = n - done < room[i].iov_len ? n - done : room[i].iov_len;
        for (uint8_t *to = room[i].iov_base; left > 0;) {
            const struct iovec *piece = &from->pieces[from->at];
            size_t here = piece->iov_len - from->done, part = left < here ? left : here;
            if (part > 0)
                memcpy(to, (const uint8_t *)piece->iov_base + from->done, part);
            advance_piece(from, part);
            to += part;
            left -= part;
            done += part;
        }
    }
    if (done == 0)
        return -ENOBUFS;
    if (sluice_chain_commit(tls->sealed, done) < 0)
        return tls_fail(tls, -ENOMEM, SLUICE_TLS_DETAIL_MEMORY, "no memory");
    tls->stats.kernel_copied += done;
    return 0;
}

static int send_record(sluice_tls *tls, source *from) {
    uint8_t together[SLUICE_TLS_RECORD];
    size_t n = from->left < SLUICE_TLS_RECORD ? from->left : SLUICE_TLS_RECORD;
    if (sluice_tls_queued(tls) + n + TLS_OVERHEAD > tls->context->queue_limit)
        return -EAGAIN;
    if (tls->kernel.state == TLS_KERNEL_SENDS)
        return queue_plain(tls, from, n);
    int error = write_record(tls, contiguous(tls, from, n, together), n);
    if (!error)
        advance(from, n);
    return error;
}

/* Whether data may be sent. */
static int check_open(const sluice_tls *tls) {
    if (tls->error)
        return tls->error;
    if (!tls->writer || tls->finishing)
        return -EPIPE;
    return tls->state == SLUICE_TLS_HANDSHAKE ? -EAGAIN : 0;
}

int sluice_tls_send(sluice_tls *tls, const struct iovec *pieces, size_t count, size_t *ret_done) {
    source from = {.pieces = pieces, .count = count};
    for (size_t i = 0; i < count; i++)
        from.left += pieces[i].iov_len;
    size_t total = from.left;
    int error = check_open(tls);
    if (!error)
        tls_kernel_start(tls);
    while (!error && from.left > 0)
        error = send_record(tls, &from);
    tls_stage_wake(tls);
    if (error == -ENOBUFS)
        tls_stage_retry(tls);
    if (ret_done)
        *ret_done = total - from.left;
    return error;
}

/* The slice itself is queued for the kernel, as far as there is room. */
static int queue_slice(sluice_tls *tls, const sluice_slice *slice, size_t offset, size_t *ret_done) {
    size_t room = sluice_tls_room(tls), n = sluice_slice_length(slice) - offset;
    sluice_slice part = {0};
    int error = tls_kernel_check_key(tls);
    if (!error)
        error = tls_stage_queue(tls); /* what is before it */
    if (!error && room == 0)
        error = -EAGAIN;
    if (!error)
        error = sluice_slice_sub(slice, offset, n < room ? n : room, &part);
    size_t done = sluice_slice_length(&part);
    if (!error)
        error = sluice_writer_slice(tls->writer, &part);
    sluice_slice_release(&part);
    if (error == -ENOMEM)
        tls_stage_retry(tls);
    if (error)
        return error == -ENOMEM ? -ENOBUFS : error;
    tls_stage_wake(tls);
    *ret_done = done;
    return done < n ? -EAGAIN : 0;
}

int sluice_tls_send_slice(sluice_tls *tls, const sluice_slice *slice, size_t offset, size_t *ret_done) {
    enum { PIECES = 64 };
    struct iovec pieces[PIECES];
    size_t total = 0;
    int error = check_open(tls);
    if (!error && offset < sluice_slice_length(slice) && tls_kernel_start(tls)) {
        error = queue_slice(tls, slice, offset, &total);
        if (ret_done)
            *ret_done = total;
        return error;
    }
    while (!error && offset + total < sluice_slice_length(slice)) {
        size_t count = sluice_slice_iov(slice, offset + total, pieces, PIECES), done;
        error = sluice_tls_send(tls, pieces, count < PIECES ? count : PIECES, &done);
        total += done;
    }
    if (ret_done)
        *ret_done = total;
    return error;
}

size_t sluice_tls_room(const sluice_tls *tls) {
    size_t queued = sluice_tls_queued(tls) + TLS_OVERHEAD, limit = tls->context->queue_limit;
    return check_open(tls) == 0 && queued < limit ? limit - queued : 0;
}

int tls_send_finish(sluice_tls *tls) {
    if (tls->closed)
        return 0;
    if (tls->kernel.state == TLS_KERNEL_SENDS) {
        tls_kernel_close(tls);
        tls->closed = true;
        tls_stage_wake(tls);
        return 0;
    }
    if (!has_blocks(tls)) {
        tls->starved = true;
        tls_stage_retry(tls);
        return 0;
    }
    int result = end_message(tls);
    if (result <= 0)
        return result;
    tls_drop_errors();
    result = SSL_shutdown(tls->ssl);
    if (result < 0)
        return fail(tls, result);
    tls->closed = true;
    tls_stage_wake(tls);
    return 0;
}

int sluice_tls_finish(sluice_tls *tls) {
    if (tls->finishing)
        return tls->error;
    int error = check_open(tls);
    if (error)
        return error;
    tls->finishing = true;
    return tls_send_finish(tls);
}
