#include "tls/bio.h"

#include <string.h>

#include "tls/stage.h"

enum { PIECES = 8 };

/* Copies and consumes bytes that the chain has. */
static void copy_out(sluice_chain *chain, char *to, size_t n) {
    sluice_slice slice;
    struct iovec pieces[PIECES];
    size_t done = 0;
    if (sluice_chain_take(chain, n, &slice) < 0)
        return;
    while (done < n) {
        size_t count = sluice_slice_iov(&slice, done, pieces, PIECES);
        for (size_t i = 0; i < count && i < PIECES; i++) {
            memcpy(to + done, pieces[i].iov_base, pieces[i].iov_len);
            done += pieces[i].iov_len;
        }
    }
    sluice_slice_release(&slice);
}

/* What the call may still read. A record that is begun is finished in a later turn. */
static size_t allowance(sluice_tls *tls) {
    if (tls->turn_records > TLS_TURN_RECORDS || tls->turn_bytes >= TLS_TURN_BYTES)
        return 0;
    return TLS_TURN_BYTES - tls->turn_bytes;
}

static int read_sealed(BIO *bio, char *to, size_t n, size_t *ret_read) {
    sluice_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    sluice_chain *chain = tls->conn ? sluice_conn_chain(tls->conn) : NULL;
    size_t have = chain ? sluice_chain_length(chain) : 0, allowed = allowance(tls);
    size_t most = have < allowed ? have : allowed;
    if (have > allowed && n > allowed)
        tls->throttled = true;
    if (n > most && have <= allowed)
        tls->missing = n - most;
    size_t take = n < most ? n : most;
    if (tls->state == SLUICE_TLS_HANDSHAKE) {
        tls->handshake_bytes += take;
        if (tls->handshake_bytes > tls->context->handshake_limit && !tls->is_overlong) {
            tls->flooded = true;
            return 0;
        }
    }
    if (take == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    copy_out(chain, to, take);
    tls->turn_bytes += take;
    tls->stats.sealed_in += take;
    *ret_read = take;
    return 1;
}

static int write_sealed(BIO *bio, const char *from, size_t n, size_t *ret_written) {
    sluice_tls *tls = BIO_get_data(bio);
    struct iovec room[TLS_PIECES];
    size_t done = 0;
    BIO_clear_retry_flags(bio);
    if (tls->kernel.state == TLS_KERNEL_SENDS) { /* it sends these messages itself */
        *ret_written = n;
        return 1;
    }
    if (sluice_tls_queued(tls) > tls->context->queue_limit + TLS_CONTROL_BYTES) {
        tls->flooded = true; /* a peer that has us answer and does not read */
        return 0;
    }
    int count = n > 0 ? sluice_chain_reserve(tls->sealed, n, room, TLS_PIECES) : 0;
    for (int i = 0; i < count && done < n; i++) {
        size_t part = n - done < room[i].iov_len ? n - done : room[i].iov_len;
        memcpy(room[i].iov_base, from + done, part);
        done += part;
    }
    if (count < 0 || sluice_chain_commit(tls->sealed, done) < 0 || done == 0) {
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
