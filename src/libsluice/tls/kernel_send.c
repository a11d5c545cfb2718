#include "tls/kernel_send.h"

#include <errno.h>
#include <string.h>

#include "tls/stage.h"

enum {
    MESSAGE = 5, /* bytes of KeyUpdate */
    CLOSE_NOTIFY = 0,
    WARNING = 1,
};

static void give_up(struct tls_kernel_part *part) {
    tls_secret_cleanse(&part->secret);
    part->state = TLS_KERNEL_NEVER;
}

void tls_kernel_note(const SSL *ssl, const char *line) {
    sluice_tls *tls = SSL_get_app_data(ssl);
    if (!tls || !tls_secret_read(&tls->kernel.secret, line, tls->context->role == SLUICE_TLS_SERVER))
        return;
    tls->kernel.state = TLS_KERNEL_MAY;
    tls->kernel.sealed = 0;
}

static const EVP_MD *digest_of(const sluice_tls *tls) {
    return SSL_CIPHER_get_handshake_digest(SSL_get_current_cipher(tls->ssl));
}

void tls_kernel_updated(sluice_tls *tls) {
    struct tls_kernel_part *part = &tls->kernel;
    part->sealed = 0;
    if (part->state == TLS_KERNEL_MAY && tls_secret_next(&part->secret, digest_of(tls)) < 0)
        give_up(part);
}

void tls_kernel_message(sluice_tls *tls, int type, const uint8_t *bytes, size_t n) {
    struct tls_kernel_part *part = &tls->kernel;
    if (type == SSL3_RT_ALERT && n == sizeof part->alert) {
        memcpy(part->alert, bytes, n);
        part->alert_due = true;
    } else if (type == SSL3_RT_HANDSHAKE && n == MESSAGE && bytes[0] == SSL3_MT_KEY_UPDATE) {
        /* One answers several requests (RFC 8446, 4.6.3). */
        part->update_due = tls->context->kernel.changes_keys;
        part->update_asks |= bytes[MESSAGE - 1] == SSL_KEY_UPDATE_REQUESTED;
        part->expired = !part->update_due;
    } else if (type == SSL3_RT_HANDSHAKE) {
        part->expired = true; /* nothing else is sent behind the handshake: no peer can get here */
    }
}

/* The socket gets the key of the secret. 0, or an error */
static int set_key(const sluice_tls *tls, uint64_t sequence) {
    const struct tls_kernel_part *part = &tls->kernel;
    struct tls_kernel_key key = {.cipher = part->cipher, .sequence = sequence};
    int error = tls_secret_expand(&part->secret, digest_of(tls), "key", key.key, part->cipher->key);
    if (!error)
        error = tls_secret_expand(&part->secret, digest_of(tls), "iv", key.iv, sizeof key.iv);
    if (!error)
        error = tls_kernel_set_key(sluice_conn_fd(tls->conn), &key);
    OPENSSL_cleanse(&key, sizeof key);
    return error;
}

/* Nothing of OpenSSL's is under way: its records so far have gone, and it is in no message. */
static bool is_quiet(const sluice_tls *tls) {
    return (tls->state == SLUICE_TLS_OPEN || tls->state == SLUICE_TLS_ENDED) && !tls->finishing &&
           tls->stats.plain_out >= SLUICE_TLS_KERNEL_AFTER && !sluice_conn_is_sending(tls->conn) &&
           !sluice_conn_is_closing(tls->conn) && sluice_tls_queued(tls) == 0 && !SSL_in_init(tls->ssl) &&
           SSL_get_key_update_type(tls->ssl) == SSL_KEY_UPDATE_NONE;
}

bool tls_kernel_start(sluice_tls *tls) {
    struct tls_kernel_part *part = &tls->kernel;
    if (part->state != TLS_KERNEL_MAY || !is_quiet(tls))
        return part->state == TLS_KERNEL_SENDS;
    int fd = sluice_conn_fd(tls->conn);
    part->cipher = tls_kernel_cipher_of(SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(tls->ssl)));
    int error = part->cipher ? tls_kernel_given(fd, &part->given) : -ENOENT;
    if (!error)
        error = tls_kernel_prepare(fd);
    if (!error)
        error = set_key(tls, part->sealed);
    if (error) {
        give_up(part);
        return false;
    }
    part->state = TLS_KERNEL_SENDS;
    part->sequence = part->sealed;
    if (!tls->context->kernel.changes_keys)
        tls_secret_cleanse(&part->secret);
    return true;
}

/* How many records the key has protected. 0, or an error */
static int ask(struct tls_kernel_part *part, int fd) {
    uint64_t sequence;
    int error = tls_kernel_sequence(fd, part->cipher, &sequence);
    if (error)
        return error;
    part->records += sequence - part->sequence;
    part->sequence = sequence;
    part->unseen = 0;
    return 0;
}

int tls_kernel_expire(sluice_tls *tls, const char *reason) {
    tls_kernel_close(tls);
    return tls_fail(tls, -EKEYEXPIRED, SLUICE_TLS_DETAIL_KEY_LIMIT, reason);
}

int tls_kernel_check_key(sluice_tls *tls) {
    struct tls_kernel_part *part = &tls->kernel;
    if (part->update_due || part->sequence + part->unseen < tls->context->rekey_records)
        return 0;
    if (ask(part, sluice_conn_fd(tls->conn)) == 0 && part->sequence < tls->context->rekey_records)
        return 0;
    if (!tls->context->kernel.changes_keys)
        return tls_kernel_expire(tls, "the key has reached its limit, and the kernel cannot change it");
    part->update_due = true;
    return 0;
}

void tls_kernel_sent(sluice_tls *tls, size_t bytes) {
    if (tls->kernel.state != TLS_KERNEL_SENDS)
        return;
    tls->kernel.unseen += bytes;
    tls->kernel.bytes += bytes;
    tls->stats.kernel_out += bytes;
}

void tls_kernel_close(sluice_tls *tls) {
    struct tls_kernel_part *part = &tls->kernel;
    if (part->alert_due)
        return;
    part->alert[0] = WARNING;
    part->alert[1] = CLOSE_NOTIFY;
    part->alert_due = true;
}

static int send_message(sluice_tls *tls, uint8_t type, const uint8_t *bytes, size_t n) {
    struct tls_kernel_part *part = &tls->kernel;
    int error = tls_kernel_send(sluice_conn_fd(tls->conn), type, bytes, n);
    if (!error) {
        part->bytes += n;
        part->unseen += n;
    }
    return error;
}

/* KeyUpdate is the last record under the old key. */
static int send_update(sluice_tls *tls) {
    struct tls_kernel_part *part = &tls->kernel;
    const uint8_t message[MESSAGE] = {SSL3_MT_KEY_UPDATE, 0, 0, 1, part->update_asks};
    int error = send_message(tls, TLS_KERNEL_HANDSHAKE, message, sizeof message);
    if (error)
        return error;
    part->update_due = part->update_asks = false;
    error = ask(part, sluice_conn_fd(tls->conn));
    if (!error)
        error = tls_secret_next(&part->secret, digest_of(tls));
    if (!error)
        error = set_key(tls, 0);
    if (error) {
        part->broken = true;
        tls_fail(tls, error == -ENOMEM ? error : -EKEYEXPIRED, SLUICE_TLS_DETAIL_KEY_LIMIT,
                 "the kernel has refused a new key");
        sluice_conn_again(tls->conn); /* where the failure is reported */
        return 0;
    }
    part->sequence = 0;
    tls->stats.key_updates_out++;
    return 0;
}

/* Whether TCP has all records. */
static bool has_drained(sluice_tls *tls) {
    struct tls_kernel_part *part = &tls->kernel;
    int fd = sluice_conn_fd(tls->conn);
    uint64_t given;
    if (ask(part, fd) < 0 || tls_kernel_given(fd, &given) < 0)
        return true; /* there is no connection any more */
    return given - part->given >= part->bytes + part->records * TLS_KERNEL_OVERHEAD;
}

static int send_due(sluice_tls *tls) {
    struct tls_kernel_part *part = &tls->kernel;
    int error = part->update_due ? send_update(tls) : 0;
    if (!error && part->alert_due && !part->broken) {
        error = send_message(tls, TLS_KERNEL_ALERT, part->alert, sizeof part->alert);
        part->alert_due = error != 0;
        part->draining |= error == 0;
    }
    if (!error && part->draining && has_drained(tls))
        part->draining = false;
    return error;
}

void tls_kernel_flush(sluice_tls *tls) {
    struct tls_kernel_part *part = &tls->kernel;
    size_t due = tls_kernel_due(tls);
    if (due == 0 || !tls->conn || sluice_conn_is_closing(tls->conn) || sluice_conn_is_sending(tls->conn) ||
        sluice_tls_queued(tls) > due)
        return;
    int error = send_due(tls);
    if (error && error != -EAGAIN) /* the connection reports it */
        part->alert_due = part->update_due = part->draining = false;
    if (tls_kernel_due(tls) > 0)
        tls_stage_retry(tls);
    else
        sluice_conn_again(tls->conn); /* no bytes are reported that have been sent here */
}

size_t tls_kernel_due(const sluice_tls *tls) {
    const struct tls_kernel_part *part = &tls->kernel;
    if (part->broken)
        return 0;
    return (part->update_due ? MESSAGE : 0) + (part->alert_due ? sizeof part->alert : 0) + part->draining;
}

uint64_t tls_kernel_records(const sluice_tls *tls) {
    const struct tls_kernel_part *part = &tls->kernel;
    uint64_t sequence;
    if (part->state != TLS_KERNEL_SENDS)
        return 0;
    /* The descriptor of a connection that closes may be another one's. */
    if (!tls->conn || sluice_conn_is_closing(tls->conn) ||
        tls_kernel_sequence(sluice_conn_fd(tls->conn), part->cipher, &sequence) < 0)
        return part->records;
    return part->records + (sequence - part->sequence);
}

bool sluice_tls_may_pass(sluice_tls *tls) {
    struct tls_kernel_part *part = &tls->kernel;
    if (tls->error || !tls->conn || tls->finishing || !tls_kernel_start(tls))
        return false;
    if (tls_kernel_check_key(tls) < 0) {
        sluice_conn_again(tls->conn); /* where it is reported */
        return false;
    }
    tls_kernel_flush(tls);
    part->passing = sluice_tls_queued(tls) == 0 && !tls->error;
    return part->passing;
}
