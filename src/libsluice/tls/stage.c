#include "tls/stage.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/err.h>

#include "abi/sized.h"
#include "tls/verify.h"

const sluice_tls_context *tls_stage_context(const sluice_tls *tls) {
    return tls->context;
}

int tls_stage_queue(sluice_tls *tls) {
    int error = 0;
    while (!error) {
        size_t n = sluice_chain_length(tls->sealed);
        if (sluice_slice_length(&tls->unqueued) == 0 && n > 0)
            error = sluice_chain_take(tls->sealed, n, &tls->unqueued);
        if (error || sluice_slice_length(&tls->unqueued) == 0)
            break;
        error = sluice_writer_slice(tls->writer, &tls->unqueued);
        if (!error || error == -EPIPE)
            sluice_slice_release(&tls->unqueued);
    }
    return error;
}

void tls_stage_wake(sluice_tls *tls) {
    if (tls->conn &&
        (sluice_chain_length(tls->sealed) > 0 || sluice_slice_length(&tls->unqueued) > 0 || tls_kernel_due(tls) > 0))
        sluice_conn_want_send(tls->conn);
}

void tls_stage_retry(sluice_tls *tls) {
    if (tls->retry)
        sluice_timer_start(tls->retry, TLS_RETRY_MS);
}

static void retry(sluice_timer *timer, void *user) {
    sluice_tls *tls = user;
    (void)timer;
    tls_stage_wake(tls);
    sluice_conn_again(tls->conn);
}

/* What OpenSSL does, record by record and message by message: for counts, limits and rekeying. */
static void watch(int is_out, int version, int type, const void *bytes, size_t n, SSL *ssl, void *user) {
    sluice_tls *tls = user;
    (void)version, (void)ssl;
    tls->has_spoken |= type == SSL3_RT_HANDSHAKE || type == SSL3_RT_ALERT || type == SSL3_RT_CHANGE_CIPHER_SPEC;
    if (is_out && tls->kernel.state == TLS_KERNEL_SENDS) {
        tls_kernel_message(tls, type, bytes, n);
    } else if (type == SSL3_RT_HEADER && is_out) {
        tls->kernel.sealed++;
        tls->stats.records_out++;
        tls->key_records_out++;
    } else if (type == SSL3_RT_HEADER) {
        tls->stats.records_in++;
        tls->key_records_in++;
        tls->turn_records++;
        tls->data_records += n > 0 && *(const uint8_t *)bytes == SSL3_RT_APPLICATION_DATA;
    } else if (type == SSL3_RT_HANDSHAKE && n > 0 && *(const uint8_t *)bytes == SSL3_MT_KEY_UPDATE) {
        if (is_out) {
            tls->stats.key_updates_out++;
            tls->key_records_out = 0;
            tls_kernel_updated(tls);
            return;
        }
        tls->stats.key_updates_in++;
        tls->key_records_in = 0;
        tls->requested = false;
        /* In TLS 1.3 a key update is itself a record that looks like data. */
        if (2 * tls->stats.key_updates_in > tls->data_records + TLS_KEY_UPDATES_FREE)
            tls->flooded = true;
    }
}

/*
 * The connection's part, which a move makes anew. @receives: a connection that has failed, and is
 * not closed, is one to decrypt from. It has no writer.
 */
static int connect_stage(sluice_tls *tls, sluice_conn *conn, bool receives) {
    sluice_writer *writer = NULL;
    sluice_timer *timer;
    int error = sluice_writer_new(conn, SIZE_MAX, &writer);
    if (error && !(error == -EPIPE && receives && !sluice_conn_is_closing(conn)))
        return error;
    error = sluice_timer_new(sluice_conn_loop(conn), retry, tls, &timer);
    if (error) {
        sluice_writer_free(writer);
        return error;
    }
    tls->conn = conn;
    tls->writer = writer;
    tls->retry = timer;
    return 0;
}

static void disconnect_stage(sluice_tls *tls) {
    sluice_timer_free(tls->retry);
    sluice_writer_free(tls->writer);
    tls->conn = NULL;
    tls->writer = NULL;
    tls->retry = NULL;
}

/* The server's port, on which the session to resume depends. 0: it has none */
static uint16_t port_of(const sluice_conn *conn) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {0};
    socklen_t length = sizeof address;
    if (getpeername(sluice_conn_fd(conn), &address.any, &length) < 0)
        return 0;
    return ntohs(address.any.sa_family == AF_INET    ? address.v4.sin_port
                 : address.any.sa_family == AF_INET6 ? address.v6.sin6_port
                                                     : 0);
}

/* A client resumes the session of an earlier connection. */
static int resume(sluice_tls *tls, const char *name) {
    if (!tls->context->sessions || !name)
        return 0;
    memcpy(tls->session_key.name, name, strlen(name) + 1); /* its length has been checked */
    tls->session_key.port = port_of(tls->conn);
    SSL_SESSION *session = tls_sessions_take(tls->context->sessions, &tls->session_key);
    int result = session ? SSL_set_session(tls->ssl, session) : 1;
    SSL_SESSION_free(session);
    return result == 1 ? 0 : -ENOMEM;
}

static int make_ssl(sluice_tls *tls, const char *name) {
    tls->ssl = SSL_new(tls->context->ssl);
    BIO *bio = BIO_new(tls->context->method);
    if (!tls->ssl || !bio) {
        BIO_free(bio);
        return -ENOMEM;
    }
    BIO_set_data(bio, tls);
    SSL_set_bio(tls->ssl, bio, bio);
    if (SSL_set_app_data(tls->ssl, tls) != 1)
        return -ENOMEM;
    SSL_set_msg_callback(tls->ssl, watch);
    SSL_set_msg_callback_arg(tls->ssl, tls);
    if (tls->context->role == SLUICE_TLS_SERVER) {
        SSL_set_accept_state(tls->ssl);
        return 0;
    }
    SSL_set_connect_state(tls->ssl);
    int error = tls_verify_name(tls->context, tls->ssl, name);
    return error ? error : resume(tls, name);
}

/* A client's first message. */
static int begin(sluice_tls *tls) {
    ERR_clear_error();
    int result = SSL_do_handshake(tls->ssl);
    if (result != 1 && SSL_get_error(tls->ssl, result) == SSL_ERROR_WANT_READ) {
        tls->missing = 0;
        tls_stage_wake(tls);
        return 0;
    }
    ERR_clear_error();
    return tls->starved ? -ENOBUFS : -ENOMEM;
}

static int open_stage(sluice_tls *tls, sluice_conn *conn, const char *name) {
    sluice_pool *pool = sluice_loop_pool(sluice_conn_loop(conn));
    int error = sluice_chain_new(pool, &tls->plain);
    if (!error)
        error = sluice_chain_new(pool, &tls->sealed);
    if (!error)
        error = connect_stage(tls, conn, false);
    if (!error)
        error = make_ssl(tls, name);
    if (!error && tls->context->role == SLUICE_TLS_CLIENT)
        error = begin(tls);
    return error;
}

int sluice_tls_new(sluice_tls_context *context, sluice_conn *conn, const char *name, sluice_tls **ret_tls) {
    if (!context || !conn || (name && context->role == SLUICE_TLS_SERVER))
        return -EINVAL;
    sluice_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return -ENOMEM;
    atomic_store_explicit(&context->in_use, true, memory_order_relaxed);
    tls->context = sluice_tls_context_ref(context);
    tls->alert = -1;
    int error = open_stage(tls, conn, name);
    if (error) {
        sluice_tls_free(tls);
        return error;
    }
    *ret_tls = tls;
    return 0;
}

void sluice_tls_free(sluice_tls *tls) {
    if (!tls)
        return;
    disconnect_stage(tls);
    SSL_free(tls->ssl); /* and its BIO */
    sluice_chain_free(tls->plain);
    sluice_chain_free(tls->sealed);
    sluice_slice_release(&tls->unqueued);
    tls_secret_cleanse(&tls->kernel.secret);
    sluice_tls_context_unref(tls->context);
    free(tls->peer_name);
    free(tls->peer_subject);
    free(tls);
}

/* The connection sends no more, but has not been closed, nor is it leaving. */
static bool has_failed(const sluice_tls *tls) {
    return tls->conn && !sluice_conn_is_closing(tls->conn) &&
           (!tls->writer || sluice_writer_copy(tls->writer, "", 0) == -EPIPE);
}

/* Besides what the writer has, which goes with the connection: the kernel may have read from it. */
static void drop_queued(sluice_tls *tls) {
    sluice_chain_skip(tls->sealed, SIZE_MAX);
    sluice_slice_release(&tls->unqueued);
    tls->kernel.update_due = tls->kernel.alert_due = tls->kernel.draining = false;
}

int sluice_tls_detach(sluice_tls *tls) {
    if (sluice_tls_queued(tls) == 0) {
        /* The connection may be gone. */
        disconnect_stage(tls);
        return 0;
    }
    if (!has_failed(tls))
        return -EBUSY;
    drop_queued(tls);
    return 0;
}

int sluice_tls_attach(sluice_tls *tls, sluice_conn *conn) {
    if (tls->conn || !conn)
        return -EINVAL;
    int error = connect_stage(tls, conn, true);
    if (error)
        return error;
    sluice_pool *pool = sluice_loop_pool(sluice_conn_loop(conn));
    error = sluice_chain_change_pool(tls->plain, pool);
    if (!error) /* it is empty, which cannot fail */
        error = sluice_chain_change_pool(tls->sealed, pool);
    if (error) {
        disconnect_stage(tls);
        return error;
    }
    sluice_conn_again(conn);
    return 0;
}

sluice_chain *sluice_tls_chain(sluice_tls *tls) {
    return tls->plain;
}

size_t sluice_tls_queued(const sluice_tls *tls) {
    return sluice_chain_length(tls->sealed) + sluice_slice_length(&tls->unqueued) +
           (tls->writer ? sluice_writer_queued(tls->writer) : 0) + tls_kernel_due(tls);
}

/* Behind close_notify. */
static void shut(sluice_tls *tls) {
    if (!tls->closed || tls->shut || sluice_tls_queued(tls) > 0)
        return;
    tls->shut = true;
    sluice_conn_finish(tls->conn);
}

size_t sluice_tls_gather(sluice_tls *tls, struct iovec *iov, size_t max) {
    if (!tls->writer)
        return 0;
    int error = tls_stage_queue(tls);
    if (error == -ENOMEM) /* -EAGAIN: on_sent comes */
        tls_stage_retry(tls);
    tls->kernel.passing = false;
    tls_kernel_flush(tls);
    shut(tls);
    return sluice_writer_gather(tls->writer, iov, max);
}

void sluice_tls_sent(sluice_tls *tls, size_t bytes) {
    if (!tls->writer)
        return;
    tls_kernel_sent(tls, bytes);
    if (!tls->kernel.passing)
        sluice_writer_sent(tls->writer, bytes);
    tls->kernel.passing = false;
    shut(tls);
}

int tls_stage_flush(sluice_tls *tls) {
    size_t before = sluice_writer_queued(tls->writer);
    int error = sluice_writer_flush(tls->writer);
    tls_kernel_sent(tls, before - sluice_writer_queued(tls->writer));
    if (!error)
        tls_kernel_flush(tls);
    return error;
}

int sluice_tls_flush(sluice_tls *tls) {
    if (!tls->writer)
        return -EPIPE;
    if (tls_stage_queue(tls) == -ENOMEM)
        tls_stage_retry(tls);
    return tls_stage_flush(tls);
}

sluice_tls_state sluice_tls_get_state(const sluice_tls *tls) {
    return tls->state;
}

sluice_tls_detail sluice_tls_get_detail(const sluice_tls *tls) {
    return tls->detail;
}

const char *sluice_tls_reason(const sluice_tls *tls) {
    return tls->reason ? tls->reason : "no error";
}

int sluice_tls_alert(const sluice_tls *tls) {
    return tls->alert;
}

int sluice_tls_get_stats(const sluice_tls *tls, sluice_tls_stats *ret_stats) {
    sluice_tls_stats stats = tls->stats;
    stats.records_out += tls_kernel_records(tls);
    return SIZED_WRITE(ret_stats, &stats);
}
