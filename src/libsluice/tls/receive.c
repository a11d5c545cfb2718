/* The way in: handshake, decryption, the end of the stream. */
#include <errno.h>

#include <openssl/err.h>

#include "tls/stage.h"

/* What is left of a call when OpenSSL cannot go on. 0, or the final error */
static int settle(sluice_tls *tls, int result) {
    int error = SSL_get_error(tls->ssl, result);
    if (tls->flooded)
        return tls_fail_ssl(tls, error);
    switch (error) {
    case SSL_ERROR_WANT_READ:
        return 0;
    case SSL_ERROR_WANT_WRITE:
        tls->starved = true;
        return 0;
    case SSL_ERROR_ZERO_RETURN:
        if (tls->state == SLUICE_TLS_HANDSHAKE)
            return tls_fail(tls, -ECONNRESET, SLUICE_TLS_DETAIL_TRUNCATED, "the stream has ended in the handshake");
        tls->state = SLUICE_TLS_ENDED;
        return 0;
    default:
        return tls_fail_ssl(tls, error);
    }
}

static int shake_hands(sluice_tls *tls) {
    if (tls->context->role == SLUICE_TLS_SERVER && tls->context->count == 0)
        return tls_fail(tls, -ENOENT, SLUICE_TLS_DETAIL_NO_CERTIFICATE, "no certificate");
    tls_drop_errors();
    int result = SSL_do_handshake(tls->ssl);
    if (result != 1)
        return settle(tls, result);
    int error = tls_info_keep(tls);
    if (error == -ENOMEM)
        return tls_fail(tls, error, SLUICE_TLS_DETAIL_MEMORY, "no memory");
    if (error)
        return tls_fail(tls, error, SLUICE_TLS_DETAIL_ALPN, "the server chose another application protocol");
    tls->state = SLUICE_TLS_OPEN;
    tls->ticket_due = tls->context->tickets && SSL_version(tls->ssl) == TLS1_3_VERSION;
    tls->key_records_in = tls->key_records_out = 0;
    return 0;
}

/* Room for plaintext. If there is no block, reading a record into OpenSSL's buffer may release
 * some. 1, 0 (none), or the final error */
static int find_room(sluice_tls *tls, struct iovec *ret_room) {
    if (sluice_chain_reserve(tls->plain, SLUICE_TLS_RECORD, ret_room, 1) > 0)
        return 1;
    char byte;
    tls_drop_errors();
    int result = SSL_peek(tls->ssl, &byte, sizeof byte);
    int error = result > 0 ? 0 : settle(tls, result);
    if (error)
        return error;
    if (result <= 0)
        return 0;
    if (sluice_chain_reserve(tls->plain, SLUICE_TLS_RECORD, ret_room, 1) > 0)
        return 1;
    tls->starved = true;
    tls->stats.starved++;
    return 0;
}

/* Bytes that may be decrypted, or 0: none, or the final error. */
static int decrypt_some(sluice_tls *tls, size_t *ret_bytes) {
    struct iovec room;
    size_t n = 0;
    int result = find_room(tls, &room);
    if (result <= 0)
        return result;
    tls_drop_errors();
    result = SSL_read_ex(tls->ssl, room.iov_base, room.iov_len, &n);
    int error = result == 1 ? 0 : settle(tls, result);
    int committed = sluice_chain_commit(tls->plain, n);
    if (!error && committed < 0)
        return tls_fail(tls, -ENOMEM, SLUICE_TLS_DETAIL_MEMORY, "no memory");
    if (!error && tls->flooded)
        error = tls_fail_ssl(tls, SSL_ERROR_SSL);
    tls->stats.plain_in += n;
    *ret_bytes = n;
    return error;
}

static int decrypt(sluice_tls *tls) {
    for (size_t n = 1; n > 0 && tls->state == SLUICE_TLS_OPEN;) {
        n = 0;
        if (sluice_chain_length(sluice_conn_chain(tls->conn)) == 0 && !SSL_has_pending(tls->ssl))
            break;
        int error = decrypt_some(tls, &n);
        if (error)
            return error;
    }
    /* A peer whose key is used up is asked for another one, and has some records to follow. */
    if (tls->state == SLUICE_TLS_OPEN && tls->key_records_in >= tls->context->rekey_records) {
        if (tls->key_records_in - tls->context->rekey_records >= tls->context->rekey_records / 2 + TLS_TURN_RECORDS ||
            SSL_version(tls->ssl) != TLS1_3_VERSION)
            return tls_fail(tls, -EKEYEXPIRED, SLUICE_TLS_DETAIL_KEY_LIMIT, "the peer's key has reached its limit");
        return tls_send_rekey(tls);
    }
    return 0;
}

void tls_receive_plan(sluice_tls *tls) {
    sluice_conn_set_need(tls->conn, tls->missing > 0 && !tls->throttled && !tls->starved ? tls->missing : 1);
    tls_stage_wake(tls);
    if (tls->starved)
        tls_stage_retry(tls);
    else if (tls->throttled)
        sluice_conn_again(tls->conn);
}

/* Behind close_notify nothing counts. */
static void drop(sluice_tls *tls) {
    sluice_chain *chain = sluice_conn_chain(tls->conn);
    sluice_chain_skip(chain, sluice_chain_length(chain));
}

static int advance(sluice_tls *tls) {
    int result = tls_hello_look(tls);
    if (result <= 0)
        return result;
    if (tls->state == SLUICE_TLS_HANDSHAKE)
        result = shake_hands(tls);
    else
        result = 0;
    if (result == 0 && tls->state == SLUICE_TLS_OPEN)
        result = decrypt(tls);
    if (result == 0 && tls->kernel.state == TLS_KERNEL_SENDS)
        result = tls_send_answer(tls);
    if (result == 0 && tls->kernel.expired)
        return tls_kernel_expire(tls, "a new key is due, and the kernel cannot change it");
    if (result == 0 && tls->finishing)
        result = tls_send_finish(tls);
    return result < 0 ? result : 0;
}

int sluice_tls_receive(sluice_tls *tls) {
    if (tls->error)
        return tls->error;
    if (!tls->conn)
        return -EPIPE;
    if (tls->state == SLUICE_TLS_ENDED) {
        drop(tls);
        int error = tls->finishing ? tls_send_finish(tls) : 0;
        return error ? error : -ENODATA;
    }
    uint64_t before = tls->stats.plain_in;
    tls->turn_records = tls->turn_bytes = tls->missing = 0;
    tls->throttled = tls->starved = false;
    int error = advance(tls);
    if (error)
        return error;
    if (!tls->looked)
        return 0;
    tls_receive_plan(tls);
    /* Those of data OpenSSL frees itself. The call looks at each of 32 records of a pipeline. */
    if (tls->has_spoken)
        tls->has_spoken = SSL_free_buffers(tls->ssl) != 1; /* there is a part of a record */
    bool more = tls->stats.plain_in > before;
    if (tls->state != SLUICE_TLS_ENDED)
        return more;
    drop(tls);
    if (more)
        sluice_conn_again(tls->conn); /* then it is reported */
    return more ? 1 : -ENODATA;
}

int sluice_tls_end(sluice_tls *tls) {
    if (tls->error)
        return tls->error;
    if (tls->state == SLUICE_TLS_ENDED)
        return 0;
    if (tls->throttled || tls->starved)
        return -EAGAIN;
    if (tls->conn && !tls->looked && sluice_chain_length(sluice_conn_chain(tls->conn)) > 0)
        return tls_fail(tls, -EPROTO, SLUICE_TLS_DETAIL_PLAINTEXT, "not TLS");
    return tls_fail(tls, -ECONNRESET, SLUICE_TLS_DETAIL_TRUNCATED, "the stream has ended without close_notify");
}
