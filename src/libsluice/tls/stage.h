/* A stage: OpenSSL's object between the chains of a connection. */
#ifndef SLUICE_TLS_STAGE_H
#define SLUICE_TLS_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/ssl.h>

#include <sluice/loop.h>
#include <sluice/tls.h>
#include <sluice/writer.h>

#include "tls/context.h"
#include "tls/kernel_send.h"

enum {
    TLS_TURN_RECORDS = 64,      /* that one call of sluice_tls_receive() reads */
    TLS_TURN_BYTES = 256 << 10, /* likewise */
    TLS_RETRY_MS = 10,          /* until blocks are looked for again */
    /* that a record's worth of data, and a message before it, adds at most: a client may ask for
     * records of 512 bytes (RFC 6066, 4), which is 32 of them, with 29 bytes each */
    TLS_OVERHEAD = 1024,
    TLS_CONTROL_BYTES = 65536, /* above the queue's limit: handshake, alerts, key updates */
    TLS_PIECES = 48,           /* of a record in blocks of 512 bytes, and more */
    TLS_KEY_UPDATES_FREE = 64, /* of the peer, besides one for each record of data */
};

/* A reservation at the end of the encrypted bytes. */
struct tls_room {
    struct iovec pieces[TLS_PIECES];
    int count;
    size_t bytes;
};

struct sluice_tls {
    sluice_tls_context *context;
    SSL *ssl;
    sluice_conn *conn;      /* NULL: detached */
    sluice_chain *plain;    /* decrypted */
    sluice_chain *sealed;   /* encrypted and not queued */
    struct tls_room *room;  /* of the record that OpenSSL is writing; NULL: none */
    sluice_slice unqueued;  /* before that: the writer had no memory for it */
    sluice_writer *writer;  /* NULL: detached */
    sluice_timer *retry;    /* when there was no block; NULL: detached */
    sluice_tls_state state; /* the public header says which call sets it */
    int error;              /* final; 0: none */
    sluice_tls_detail detail;
    const char *reason; /* static */
    int alert;          /* the peer's; -1: none */
    bool looked;        /* at the first bytes: they are TLS */
    bool flooded;       /* a bound was reached inside OpenSSL */
    bool is_overlong;   /* a record that OpenSSL rejects, with record_overflow, once it is whole */
    bool finishing;     /* sluice_tls_finish() was called */
    bool closed;        /* close_notify is queued */
    bool shut;          /* the connection's sending side is shut down */
    bool requested;     /* the peer was asked for a new key */
    bool ticket_due;    /* servers of TLS 1.3: one goes out before the first data */
    bool has_spoken;    /* OpenSSL may have kept the buffer of a message besides data */
    size_t record_left; /* bytes of the record that OpenSSL is reading; 0: a header is next */
    /* Of the current call of sluice_tls_receive(): */
    size_t turn_records, turn_bytes;
    size_t missing; /* bytes that OpenSSL wanted and the chain did not have */
    bool throttled; /* bytes are left that the call was not allowed to read */
    bool starved;   /* OpenSSL could not write */
    /* Of the current keys: */
    uint64_t key_records_in, key_records_out;
    uint64_t data_records; /* received */
    struct tls_kernel_part kernel;
    size_t handshake_bytes;
    sluice_tls_stats stats;
    const char *alpn;                   /* the context's */
    struct tls_session_key session_key; /* of a client that resumes; an empty name: none */
    char *peer_name;                    /* NULL: none */
    char *peer_subject;                 /* likewise */
    uint8_t peer_hash[SLUICE_TLS_HASH];
};

const sluice_tls_context *tls_stage_context(const sluice_tls *tls);

/* stage.c: hands what was encrypted to the writer. 0; -ENOMEM: later, by the timer */
int tls_stage_queue(sluice_tls *tls);
/* Sends at once what the socket takes. 0, or as of sluice_writer_flush() */
int tls_stage_flush(sluice_tls *tls);
/* Has the loop send what was encrypted. */
void tls_stage_wake(sluice_tls *tls);
/* Looks again for blocks after a while. */
void tls_stage_retry(sluice_tls *tls);

/* receive.c: when the user is called again. */
void tls_receive_plan(sluice_tls *tls);

/* failure.c: the stage ends with an error of the library's own, or with OpenSSL's last one. Sends
 * the alert. The error. */
int tls_fail(sluice_tls *tls, int error, sluice_tls_detail detail, const char *reason);
int tls_fail_ssl(sluice_tls *tls, int ssl_error);
/* Before a call whose SSL_get_error() is asked for: drops errors of earlier calls of the thread. */
void tls_drop_errors(void);

/* send.c: room for so many encrypted bytes, as far as there are blocks. Replaces an earlier one. */
void tls_room_reserve(sluice_tls *tls, size_t n, struct tls_room *ret_room);
/* close_notify, when it is due. 0, or an error */
int tls_send_finish(sluice_tls *tls);
/* A new key, where one is due or asked for. 0, or an error */
int tls_send_rekey(sluice_tls *tls);
/* The new key that the peer has requested: OpenSSL waits with it for data, of which it sees none
 * where the kernel encrypts. 0, or an error */
int tls_send_answer(sluice_tls *tls);

/* info.c: keeps what is known of the peer. 0, -ENOMEM, -EPROTO (the server chose no protocol of
 * ours) */
int tls_info_keep(sluice_tls *tls);

/* hello.c: whether the first bytes are TLS. 1, 0 (not known), or the error of the stage */
int tls_hello_look(sluice_tls *tls);

#endif
