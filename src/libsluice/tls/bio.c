#include "tls/bio.h"

#include <string.h>

#include "tls/stage.h"

enum { RECORD_HEADER = 5, PIECES = 8 };

/* Copies and consumes bytes that the chain has. */
static void copy_out(sluice_tls *tls, char *to, size_t n) {
    sluice_slice slice;
    struct iovec pieces[PIECES];
    if (sluice_chain_take(sluice_conn_chain(tls->conn), n, &slice) < 0)
        return;
    for (size_t done = 0; done < n;) {
        size_t count = sluice_slice_iov(&slice, done, pieces, PIECES);
        for (size_t i = 0; i < count && i < PIECES; i++) {
            memcpy(to + done, pieces[i].iov_base, pieces[i].iov_len);
            done += pieces[i].iov_len;
        }
    }
    sluice_slice_release(&slice);
    tls->turn_bytes += n;
    tls->stats.sealed_in += n;
}

/* What the call may still read. A record that is begun is finished in a later turn. */
static size_t allowance(const sluice_tls *tls) {
    if ((tls->record_left == 0 && tls->turn_records >= TLS_TURN_RECORDS) || tls->turn_bytes >= TLS_TURN_BYTES)
        return 0;
    return TLS_TURN_BYTES - tls->turn_bytes;
}

/* RFC 8446, 5.1; of an encrypted one, 5.2 allows more. */
static bool is_overlong(const uint8_t header[RECORD_HEADER], size_t length) {
    return header[0] == SSL3_RT_HANDSHAKE && length > SLUICE_TLS_RECORD;
}

/* The header, whole: how much is to follow it. */
static void begin_record(sluice_tls *tls, char *to) {
    const uint8_t *header = (const uint8_t *)to;
    copy_out(tls, to, RECORD_HEADER);
    tls->record_left = (size_t)header[3] << 8 | header[4];
    tls->is_overlong = is_overlong(header, tls->record_left);
}

/* Whether a handshake is longer by @n bytes than it may be. */
static bool floods(sluice_tls *tls, size_t n) {
    if (tls->state != SLUICE_TLS_HANDSHAKE)
        return false;
    tls->handshake_bytes += n;
    tls->flooded |= tls->handshake_bytes > tls->context->handshake_limit && !tls->is_overlong;
    return tls->flooded;
}

/*
 * OpenSSL reads ahead, so that header and body are one call, and is given the bytes of one record:
 * what is behind it stays in the chain, by reference, and in reach of the call's limits.
 */
static int read_sealed(BIO *bio, char *to, size_t n, size_t *ret_read) {
    sluice_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    size_t have = tls->conn ? sluice_chain_length(sluice_conn_chain(tls->conn)) : 0, allowed = allowance(tls);
    size_t least = tls->record_left > 0 ? 1 : RECORD_HEADER, done = 0;
    if (have < least || allowed < least) {
        tls->throttled |= have >= least;
        tls->missing = tls->record_left > 0 ? tls->record_left : RECORD_HEADER;
        BIO_set_retry_read(bio);
        return 0;
    }
    if (n < least)
        return 0; /* OpenSSL has room for a header at the least */
    if (tls->record_left == 0) {
        begin_record(tls, to);
        done = RECORD_HEADER;
    }
    size_t most = (have < allowed ? have : allowed) - done;
    size_t body = tls->record_left < n - done ? tls->record_left : n - done;
    body = body < most ? body : most;
    if (floods(tls, done + body))
        return 0;
    if (body > 0)
        copy_out(tls, to + done, body);
    tls->record_left -= body;
    *ret_read = done + body;
    return 1;
}

/* Into the room reserved for the record, or for a message besides it into other one. */
static size_t copy_in(sluice_tls *tls, const char *from, size_t n) {
    struct tls_room other, *room = tls->room;
    size_t done = 0;
    tls->room = NULL; /* a reservation is committed once */
    if (!room || room->bytes < n) {
        room = &other;
        tls_room_reserve(tls, n, room);
    }
    for (int i = 0; i < room->count && done < n; i++) {
        size_t part = n - done < room->pieces[i].iov_len ? n - done : room->pieces[i].iov_len;
        memcpy(room->pieces[i].iov_base, from + done, part);
        done += part;
    }
    return sluice_chain_commit(tls->sealed, done) < 0 ? 0 : done;
}

static int write_sealed(BIO *bio, const char *from, size_t n, size_t *ret_written) {
    sluice_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (tls->kernel.state == TLS_KERNEL_SENDS) { /* it sends these messages itself */
        *ret_written = n;
        return 1;
    }
    if (sluice_tls_queued(tls) > tls->context->queue_limit + TLS_CONTROL_BYTES) {
        tls->flooded = true; /* a peer that has us answer and does not read */
        return 0;
    }
    size_t done = n > 0 ? copy_in(tls, from, n) : 0;
    if (done == 0) {
        tls->starved = true;
        BIO_set_retry_write(bio);
        return 0;
    }
    tls->stats.sealed_out += done;
    *ret_written = done;
    return 1;
}

/* At an end within a handshake OpenSSL sends an alert, decode_error, in plaintext or encrypted as
 * the peer expects it then. */
static long control(BIO *bio, int command, long number, void *pointer) {
    const sluice_tls *tls = BIO_get_data(bio);
    (void)number, (void)pointer;
    if (command == BIO_CTRL_EOF)
        return tls->flooded && tls->state == SLUICE_TLS_HANDSHAKE;
    return command == BIO_CTRL_FLUSH;
}

static int create(BIO *bio) {
    BIO_set_init(bio, 1);
    return 1;
}

BIO_METHOD *tls_bio_method(void) {
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "sluice");
    if (!method)
        return NULL;
    if (BIO_meth_set_read_ex(method, read_sealed) != 1 || BIO_meth_set_write_ex(method, write_sealed) != 1 ||
        BIO_meth_set_ctrl(method, control) != 1 || BIO_meth_set_create(method, create) != 1) {
        BIO_meth_free(method);
        return NULL;
    }
    return method;
}
