/**
 * @file tls.h
 * TLS 1.2 and 1.3 (RFC 5246, RFC 8446) between a connection and a framer, for servers and clients.
 * This is a separate library, libsluice-tls (pkg-config: sluice-tls, CMake: sluice::tls), because
 * it needs OpenSSL 3.0 or newer, which does all protocol work and cryptography.
 *
 * A context has the certificates and rules of many connections. A stage has one connection. The
 * connection's user calls the stage from the connection's events:
 * @code
 * static void on_data(sluice_conn *conn, void *user) {
 *     struct session *session = user;
 *     int result = sluice_tls_receive(session->tls);
 *     if (result > 0)
 *         result = read_frames(session, sluice_tls_chain(session->tls));
 *     if (result < 0)
 *         sluice_conn_close(conn);
 * }
 *
 * static void on_end(sluice_conn *conn, int error, void *user) {
 *     struct session *session = user;
 *     if (error == 0 && sluice_tls_end(session->tls) == 0)
 *         session_ended(session);
 *     sluice_conn_close(conn);
 * }
 *
 * static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
 *     struct session *session = user;
 *     return sluice_tls_gather(session->tls, iov, max);
 * }
 *
 * static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
 *     struct session *session = user;
 *     sluice_tls_sent(session->tls, bytes);
 * }
 *
 * static void on_closed(sluice_conn *conn, void *user) {
 *     struct session *session = user;
 *     sluice_tls_free(session->tls);
 * }
 * @endcode
 *
 * Framers read the stage's chain in place of the connection's. It consists of blocks of the same
 * pool, so frames are slices as usual.
 *
 * Copies of payload in user space, besides encryption and decryption in place: received bytes are
 * copied from blocks to OpenSSL's record buffer (by the stage), and the plaintext from there to
 * blocks (by OpenSSL). Bytes to send are copied to OpenSSL's record buffer (by OpenSSL), and the
 * ciphertext from there to blocks (by the stage). Before that, the bytes of a record that spans
 * several pieces are put together (by the stage), which is a third copy. sluice_tls_stats counts
 * each. sluice_pool_stats.bytes_copied does not include them.
 * Where the kernel encrypts (sluice_tls_context_options.kernel), nothing that is sent is copied in
 * user space but the pieces of sluice_tls_send(); slices and sluice_tls_may_pass() copy nothing.
 *
 * A client may resume sessions (sluice_tls_context_options.sessions): the server is then not
 * verified again, since only the server that was verified under the same context's rules knows its
 * session.
 *
 * Not supported: renegotiation, compression, early data, and requests for a client certificate
 * after the handshake.
 *
 * Threads: a context may be used and freed on any thread. A stage belongs to the thread of its
 * connection's loop. Calls of a stage clear the thread's queue of OpenSSL errors.
 */
#ifndef SLUICE_TLS_H
#define SLUICE_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <sluice/chain.h>
#include <sluice/conn.h>
#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Certificates and rules of connections; opaque. */
typedef struct sluice_tls_context sluice_tls_context;
/** The TLS stage of one connection; opaque. */
typedef struct sluice_tls sluice_tls;

enum {
    SLUICE_TLS_HASH = 32,               /**< Bytes of a SHA-256 hash. */
    SLUICE_TLS_CERTIFICATES_MAX = 1024, /**< Maximum number of certificates of a context. */
    SLUICE_TLS_PINS_MAX = 64,           /**< Maximum number of pinned hashes of a context. */
    SLUICE_TLS_RECORD = 16384,          /**< Maximum plaintext of a record, bytes. */
    SLUICE_TLS_HELLO = 6,               /**< Bytes that sluice_tls_is_hello() needs. */
    SLUICE_TLS_QUEUE_MIN = 65536,       /**< Lowest sluice_tls_context_options.queue_limit. */
    SLUICE_TLS_SESSIONS_MAX = 4096,     /**< Highest sluice_tls_context_options.sessions. */
    SLUICE_TLS_KERNEL_AFTER = 65536,    /**< Bytes sent before the kernel is given the key. */
};

/** The side of a connection. */
typedef enum sluice_tls_role {
    SLUICE_TLS_SERVER = 0, /**< Answers a handshake. */
    SLUICE_TLS_CLIENT = 1, /**< Begins it. */
} sluice_tls_role;

/** Whether the peer's certificate is verified. */
typedef enum sluice_tls_verify {
    /** Clients verify servers (required); servers do not request certificates (none). */
    SLUICE_TLS_VERIFY_DEFAULT = 0,
    /** Nothing is verified. Any server can then pose as the one that a client wants. */
    SLUICE_TLS_VERIFY_NONE = 1,
    /** A server requests a certificate, and continues if the client has none. Invalid: rejected. */
    SLUICE_TLS_VERIFY_OPTIONAL = 2,
    /** A certificate is required. */
    SLUICE_TLS_VERIFY_REQUIRED = 3,
} sluice_tls_verify;

/** Versions of the protocol, with the numbers that it has for them. */
typedef enum sluice_tls_version {
    SLUICE_TLS_VERSION_DEFAULT = 0, /**< In options: no limit besides the library's. */
    SLUICE_TLS_1_2 = 0x0303,        /**< TLS 1.2. */
    SLUICE_TLS_1_3 = 0x0304,        /**< TLS 1.3. */
} sluice_tls_version;

/** Which connections have their records encrypted by the kernel (kTLS). */
typedef enum sluice_tls_kernel {
    SLUICE_TLS_KERNEL_OFF = 0, /**< None. */
    /** Those of a kernel that also changes their keys (Linux 6.14): nothing is lost by it. */
    SLUICE_TLS_KERNEL_AUTO = 1,
    /**
     * Also those of a kernel that does not. A connection there ends with close_notify and
     * -EKEYEXPIRED when it has sent rekey_records records, or when its peer requests a new key.
     */
    SLUICE_TLS_KERNEL_ANY = 2,
} sluice_tls_kernel;

/** Settings of a context. Zero in any field means its default. Read only during the call. */
typedef struct sluice_tls_context_options {
    size_t size;              /**< sizeof(sluice_tls_context_options). */
    sluice_tls_role role;     /**< Default: server. */
    sluice_tls_verify verify; /**< See sluice_tls_verify. */
    /**
     * File of trusted certificates in PEM, which are trusted as they are: roots, intermediates or
     * single certificates. Default for a client: the system's store. A server that verifies clients
     * needs this, @c ca or @c pins.
     */
    const char *ca_path;
    const void *ca;   /**< The same in memory. */
    size_t ca_length; /**< Size of @c ca, bytes. */
    /**
     * SHA-256 hashes of certificates (in DER), SLUICE_TLS_HASH bytes each. If there are any, the
     * peer's certificate must have one of them, and nothing else is verified: neither its name, nor
     * its validity, nor its issuer.
     */
    const uint8_t *pins;
    size_t pin_count; /**< Number of hashes in @c pins. */
    /**
     * Protocols for ALPN (RFC 7301), the preferred first, separated by commas, such as
     * "h2,http/1.1". A client that offers others alone is rejected. Default: ALPN is not used.
     */
    const char *alpn;
    sluice_tls_version min_version; /**< Default: TLS 1.2. */
    sluice_tls_version max_version; /**< Default: TLS 1.3. */
    /** Servers: issue no session tickets. In TLS 1.3 one goes out with the first data. */
    bool no_tickets;
    /**
     * Servers: seconds for which a ticket key encrypts new tickets; for the same time after that it
     * decrypts old ones. Keys exist in memory only. A ticket is not accepted once a certificate of
     * the client's chain has expired, unless the client's is pinned. At most 604,800. Default
     * 43,200.
     */
    uint32_t ticket_seconds;
    /**
     * Servers: continues the ticket keys of an earlier context, so that a reload does not end
     * sessions. Tickets are accepted only under the same rules for client certificates.
     */
    sluice_tls_context *ticket_source;
    /**
     * Maximum number of encrypted bytes that a stage queues: at least SLUICE_TLS_QUEUE_MIN. Default
     * 1,048,576.
     */
    size_t queue_limit;
    /** Maximum number of bytes that a peer may send in a handshake. Default 65,536. */
    size_t handshake_limit;
    /**
     * Records under one key, in each direction, after which a new one is set (RFC 8446, 5.5). At
     * most 16,777,216 (2^24), which is the default. A peer that does not follow within half as many
     * is rejected. TLS 1.2 has no new keys: the connection ends there.
     */
    uint32_t rekey_records;
    /** Clients: trust the system's store, too, if @c ca_path or @c ca is given. */
    bool ca_system;
    /**
     * Clients: number of sessions of earlier connections that are kept in memory for resumption, at
     * most SLUICE_TLS_SESSIONS_MAX; each takes some KiB with the server's certificates. The oldest
     * goes. A session is used for the same name and the same port of the peer, in TLS 1.3 once, and
     * not after a certificate of the server's chain has expired, unless @c pins verify it. Default
     * 0: clients request no tickets, and do not resume.
     */
    size_t sessions;
    /**
     * Whether the kernel encrypts what is sent, once a connection of TLS 1.3 has sent
     * SLUICE_TLS_KERNEL_AFTER bytes: see sluice_tls_may_pass(). What the kernel can do is tried
     * when the context is made, on a TCP connection over loopback; where it cannot, OpenSSL
     * encrypts. Received records are always OpenSSL's. Default: off.
     */
    sluice_tls_kernel kernel;
} sluice_tls_context_options;

/** A certificate with its key, in PEM, each from a file or from memory. */
typedef struct sluice_tls_certificate {
    size_t size; /**< sizeof(sluice_tls_certificate). */
    /**
     * Server names for which it is used: one name, or "*.example.org" for all names with one more
     * label. NULL: for the names that the certificate contains; the first such certificate, or else
     * the first of all, is also used for all other names. Ignored for clients.
     */
    const char *name;
    const char *chain_path; /**< File of the certificate, followed by intermediates. */
    const void *chain;      /**< The same in memory. */
    size_t chain_length;    /**< Size of @c chain, bytes. */
    const char *key_path;   /**< File of the private key. */
    const void *key;        /**< The same in memory. */
    size_t key_length;      /**< Size of @c key, bytes. */
} sluice_tls_certificate;

/** A certificate of a context, for displays and warnings. */
typedef struct sluice_tls_certificate_info {
    size_t size;                   /**< sizeof(sluice_tls_certificate_info), set by the caller. */
    const char *name;              /**< As it was added; NULL: none. Valid like the context. */
    const char *subject;           /**< RFC 2253. Valid like the context. */
    int64_t expires;               /**< Seconds since 1970. */
    uint8_t hash[SLUICE_TLS_HASH]; /**< SHA-256 of the certificate in DER. */
} sluice_tls_certificate_info;

/**
 * Makes a context without certificates, with one reference.
 * @param options     NULL: a server with the defaults
 * @param ret_context untouched on failure
 * @return 0, -EINVAL (a setting is out of range, or a server verifies clients without @c ca_path,
 *         @c ca and @c pins), -EPROTO (the CA is no PEM, or has no certificate), -ENOMEM, or the
 *         error of opening the CA file, such as -ENOENT
 */
SLUICE_API int sluice_tls_context_new(const sluice_tls_context_options *options, sluice_tls_context **ret_context);

/**
 * Adds a certificate. A server needs at least one; a name may have one of each key type (RSA,
 * ECDSA, Ed25519). A client sends its certificate to servers that request one. To replace
 * certificates, make another context for new connections. Not on several threads at once, and not
 * after the first sluice_tls_new().
 * @return 0, -EINVAL (size, or a missing part), -EPROTO (no PEM), -EKEYREJECTED (the key does not
 *         belong to the certificate, or OpenSSL considers either too weak), -EACCES (the key needs
 *         a password), -EEXIST (the name has one of this type), -EMSGSIZE
 *         (SLUICE_TLS_CERTIFICATES_MAX), -EBUSY (the context is in use), -ENOMEM, or the error of
 *         opening a file; on failure the context is unchanged
 */
SLUICE_API int sluice_tls_context_add_certificate(sluice_tls_context *context,
                                                  const sluice_tls_certificate *certificate);

/**
 * Describes certificate number @p index, in the order in which they were added.
 * @return 0, -ENOENT (there are fewer), -EINVAL (ret_info->size is not set)
 */
SLUICE_API int sluice_tls_context_get_certificate(const sluice_tls_context *context, size_t index,
                                                  sluice_tls_certificate_info *ret_info);

/**
 * Sets new ticket keys now, as the context does by itself after ticket_seconds. Tickets of the
 * previous key remain valid, those of the key before it do not. @return 0, -ENOMEM (no random
 * numbers)
 */
SLUICE_API int sluice_tls_context_rotate_tickets(sluice_tls_context *context);

/** What the kernel can do with a socket's records, as sluice_tls_context_new() has tried it. */
typedef struct sluice_tls_kernel_info {
    size_t size;       /**< sizeof(sluice_tls_kernel_info), set by the caller. */
    bool is_used;      /**< The context's connections use it. */
    bool sends;        /**< It encrypts records of TLS 1.3. */
    bool changes_keys; /**< It does so under a new key, too, as Linux does since 6.14. */
    int error;         /**< Why one of these is false: a negative errno; 0: neither is. */
    const char *step;  /**< What has failed, such as "TCP_ULP"; NULL: nothing. Static. */
} sluice_tls_kernel_info;

/**
 * What the kernel can do. "TCP_ULP" with -ENOENT: the module "tls" is not loaded, which the kernel
 * does by itself only for processes with CAP_NET_ADMIN.
 * @return 0, -ENOENT (it was not tried: SLUICE_TLS_KERNEL_OFF), -EINVAL (ret_info->size is not set)
 */
SLUICE_API int sluice_tls_context_get_kernel(const sluice_tls_context *context, sluice_tls_kernel_info *ret_info);

/** Adds a reference. Any thread. @return @p context */
SLUICE_API sluice_tls_context *sluice_tls_context_ref(sluice_tls_context *context);

/** Drops a reference; each stage has one, too. NULL is allowed. Any thread. */
SLUICE_API void sluice_tls_context_unref(sluice_tls_context *context);

/** The state of a stage. */
typedef enum sluice_tls_state {
    SLUICE_TLS_HANDSHAKE = 0, /**< From sluice_tls_new() on. */
    SLUICE_TLS_OPEN = 1,      /**< Set by sluice_tls_receive() when the handshake is complete. */
    SLUICE_TLS_ENDED = 2,     /**< Set by sluice_tls_receive(): the peer has sent close_notify. */
    SLUICE_TLS_FAILED = 3,    /**< Set by any call that has returned a final error. */
} sluice_tls_state;

/** Why a stage has failed. */
typedef enum sluice_tls_detail {
    SLUICE_TLS_DETAIL_NONE = 0,            /**< It has not failed. */
    SLUICE_TLS_DETAIL_PROTOCOL = 1,        /**< A violation of the protocol, or a forged record. */
    SLUICE_TLS_DETAIL_ALERT = 2,           /**< The peer's fatal alert: sluice_tls_alert(). */
    SLUICE_TLS_DETAIL_VERSION = 3,         /**< No common version. */
    SLUICE_TLS_DETAIL_NO_SHARED = 4,       /**< No common cipher, group or signature algorithm. */
    SLUICE_TLS_DETAIL_ALPN = 5,            /**< No common application protocol. */
    SLUICE_TLS_DETAIL_UNTRUSTED = 6,       /**< The certificate's issuer is not trusted. */
    SLUICE_TLS_DETAIL_EXPIRED = 7,         /**< The certificate is not valid yet or any more. */
    SLUICE_TLS_DETAIL_NAME = 8,            /**< The certificate is for other names. */
    SLUICE_TLS_DETAIL_PIN = 9,             /**< The certificate is not a pinned one. */
    SLUICE_TLS_DETAIL_NO_PEER = 10,        /**< The peer has sent no certificate. */
    SLUICE_TLS_DETAIL_CERTIFICATE = 11,    /**< The certificate is not valid for another reason. */
    SLUICE_TLS_DETAIL_HTTP = 12,           /**< Not TLS, but an HTTP request. */
    SLUICE_TLS_DETAIL_RTSP = 13,           /**< Not TLS, but an RTSP request. */
    SLUICE_TLS_DETAIL_RTMP = 14,           /**< Not TLS, but an RTMP handshake. */
    SLUICE_TLS_DETAIL_PLAINTEXT = 15,      /**< Not TLS, but something else. */
    SLUICE_TLS_DETAIL_TRUNCATED = 16,      /**< No close_notify, or one in the handshake. */
    SLUICE_TLS_DETAIL_HANDSHAKE = 17,      /**< The handshake is larger than its limit. */
    SLUICE_TLS_DETAIL_FLOOD = 18,          /**< Too many key updates, or answers unread. */
    SLUICE_TLS_DETAIL_KEY_LIMIT = 19,      /**< A key has protected as many records as it may. */
    SLUICE_TLS_DETAIL_MEMORY = 20,         /**< No memory. */
    SLUICE_TLS_DETAIL_NO_CERTIFICATE = 21, /**< This server has no certificate. */
} sluice_tls_detail;

/**
 * Makes the stage of a connection that has sent and consumed nothing but, for example, a request
 * for TLS. A client's handshake begins with the next turn. While there is a stage, only the stage
 * consumes from the connection's chain and calls sluice_conn_set_need() and sluice_conn_finish().
 * @param context the stage takes a reference of its own
 * @param conn    forwards its events, as shown above; must outlive the stage or be detached
 * @param name    clients: the server's name or IP address, which its certificate must contain; the
 *                server is sent names (SNI, RFC 6066). May be NULL if nothing or only a hash is
 *                verified. Servers: NULL
 * @return 0, -EINVAL (no name, or one for a server), -EPIPE (the connection is closed or has
 *         failed), -ENOMEM, -ENOBUFS (no block for a client's first message)
 */
SLUICE_API int sluice_tls_new(sluice_tls_context *context, sluice_conn *conn, const char *name, sluice_tls **ret_tls);

/**
 * Frees the stage with its plaintext; slices stay valid. Queued bytes are not sent. NULL is
 * allowed. Call it in on_closed, or earlier under the conditions of sluice_writer_free().
 */
SLUICE_API void sluice_tls_free(sluice_tls *tls);

/**
 * Continues the handshake and decrypts what has arrived, for on_data: at most 64 records and 256
 * KiB per call. If more has arrived, it requests another call (sluice_conn_again()). If there is no
 * block for plaintext, nothing is lost: it requests another call after 10 ms.
 *
 * The first error is final: later calls return it again. An alert for the peer has then been sent
 * as far as the socket had room. Plaintext from before is in the chain. If the first bytes are not
 * TLS (the details HTTP to PLAINTEXT), they are still in the connection's chain, and an answer may
 * be sent to the peer in plaintext, with a writer, after sluice_tls_free().
 *
 * The handshake of a server costs it about a millisecond of CPU time or less; the user may bound
 * the number of handshakes per turn by calling sluice_conn_again() in place of this for a stage in
 * SLUICE_TLS_HANDSHAKE.
 * @return 1: there is new plaintext; 0: there is none; -ENODATA: there is none, and the peer has
 *         sent close_notify: the stream has ended as its sender intended; -EPROTO (see
 *         sluice_tls_get_detail()), -EPROTONOSUPPORT (no common version), -EKEYREJECTED (the peer's
 *         certificate is missing, not valid or not the expected one), -EKEYEXPIRED (the key's limit
 *         of records), -EMSGSIZE (the handshake's limit), -ECONNRESET (after sluice_tls_end(), or
 *         close_notify before the handshake is complete),
 *         -ENOENT (a server without a certificate), -ENOMEM, -EPIPE (the stage is detached)
 */
SLUICE_API int sluice_tls_receive(sluice_tls *tls);

/**
 * For on_end with error 0: checks that the peer has sent close_notify, without which anyone on the
 * path may have cut the stream (RFC 8446, 6.1).
 * @return 0, -EAGAIN (not all that has arrived is decrypted, for example because there is no block:
 *         on_data is called for that, and the question is to be repeated after
 *         sluice_tls_receive()), -ECONNRESET (the stream is truncated; the stage has failed), or
 *         the error of the stage
 */
SLUICE_API int sluice_tls_end(sluice_tls *tls);

/** Decrypted, unconsumed bytes. Owned by the stage. */
SLUICE_API sluice_chain *sluice_tls_chain(sluice_tls *tls);

/**
 * Encrypts bytes and queues them. Records are as large as the data: pieces below
 * SLUICE_TLS_RECORD bytes are put together, which copies them once (sluice_tls_stats). All bytes
 * are sent automatically in the next turn, in order. The pieces are free for other use after the
 * call.
 * @param ret_done bytes that are queued, also on failure: whole records. The caller repeats the
 *                 rest later, with the same or other bytes. May be NULL
 * @return 0 (all), -EAGAIN (the queue is full: repeat after sluice_tls_sent(); or the handshake is
 *         not complete, or the peer is in the middle of a message about keys or tickets: repeat
 *         after sluice_tls_receive()), -ENOBUFS (no block: on_data is called after 10 ms, whatever
 *         has arrived, to repeat it),
 *         -EPIPE (after sluice_tls_finish(), or the connection is closed or has failed), or the
 *         error of the stage, as for sluice_tls_receive()
 */
SLUICE_API int sluice_tls_send(sluice_tls *tls, const struct iovec *pieces, size_t count, size_t *ret_done);

/**
 * The same for a slice, which the caller keeps.
 * @param offset first byte of the slice that is sent, to repeat the rest
 */
SLUICE_API int sluice_tls_send_slice(sluice_tls *tls, const sluice_slice *slice, size_t offset, size_t *ret_done);

/**
 * Sends close_notify after all queued bytes, and then shuts down the sending side of the
 * connection. Receiving continues. Repeated calls have no effect.
 * @return 0, -EAGAIN (the handshake is not complete), -EPIPE, or the error of the stage
 */
SLUICE_API int sluice_tls_finish(sluice_tls *tls);

/** Encrypted bytes queued that the kernel has not taken. */
SLUICE_API size_t sluice_tls_queued(const sluice_tls *tls);

/** Bytes that sluice_tls_send() can queue now. It grows in sluice_tls_sent(). 0 in a handshake. */
SLUICE_API size_t sluice_tls_room(const sluice_tls *tls);

/** For on_gather: writes up to @p max pieces. @return pieces written; 0 when nothing is queued */
SLUICE_API size_t sluice_tls_gather(sluice_tls *tls, struct iovec *iov, size_t max);

/** For on_sent: the kernel has taken the first @p bytes of the pieces last gathered. */
SLUICE_API void sluice_tls_sent(sluice_tls *tls, size_t bytes);

/**
 * For on_gather: whether it may return pieces of plaintext, which the kernel encrypts and reads
 * where they are. A connection may begin here to have its records encrypted by the kernel. on_sent
 * passes the bytes to sluice_tls_sent() as always; the pieces are then free for other use. If the
 * result is false, on_gather returns the pieces of sluice_tls_gather(), and data goes by
 * sluice_tls_send(). After this, a false result may mean that the stage has failed: on_data is
 * called in the next turn.
 * @code
 * if (sluice_tls_may_pass(session->tls))
 *     return pieces_of(session, iov, max);
 * return sluice_tls_gather(session->tls, iov, max);
 * @endcode
 */
SLUICE_API bool sluice_tls_may_pass(sluice_tls *tls);

/**
 * Sends at once what the socket accepts without waiting: see sluice_writer_flush().
 * @return 0, -EPIPE (the connection is closed or has failed, or the stage is detached)
 */
SLUICE_API int sluice_tls_flush(sluice_tls *tls);

/**
 * Prepares the move to another loop. Call it in the callback of sluice_conn_detach(), on the
 * previous loop's thread. Until sluice_tls_attach(), the stage may only be passed to another
 * thread, queried and freed. If the connection has failed, call it before sluice_conn_detach(),
 * too: what is queued cannot be sent, and is dropped.
 * @return 0, -EBUSY (sluice_tls_queued() is not 0; nothing has changed)
 */
SLUICE_API int sluice_tls_detach(sluice_tls *tls);

/**
 * Continues on a connection that sluice_conn_adopt() has returned, on its loop's thread. Plaintext
 * moves by reference, and framers of the stage's chain continue where they are. on_data is called
 * in the next turn. On a connection that has failed, what it has received is decrypted, and calls
 * that send return -EPIPE.
 * @return 0, -EINVAL (the stage is not detached), -EPIPE (the connection is closed), -ENOBUFS
 *         (too many views in use), -ENOMEM; on failure nothing has changed
 */
SLUICE_API int sluice_tls_attach(sluice_tls *tls, sluice_conn *conn);

/** The state. */
SLUICE_API sluice_tls_state sluice_tls_get_state(const sluice_tls *tls);

/** Why the stage has failed. */
SLUICE_API sluice_tls_detail sluice_tls_get_detail(const sluice_tls *tls);

/** A text for the failure, for logs: OpenSSL's words where it has some. Never NULL; static. */
SLUICE_API const char *sluice_tls_reason(const sluice_tls *tls);

/** The number of the peer's fatal alert (RFC 8446, 6). @return 0 to 255; -1: none */
SLUICE_API int sluice_tls_alert(const sluice_tls *tls);

/** What was negotiated. Texts are valid as long as the stage. */
typedef struct sluice_tls_info {
    size_t size;                /**< sizeof(sluice_tls_info), set by the caller. */
    sluice_tls_version version; /**< The version. */
    bool resumed;               /**< The handshake used a ticket. */
    bool peer_verified;         /**< The peer's certificate is there and was verified. */
    const char *cipher;         /**< The cipher suite's standard name. */
    const char *alpn;           /**< The application protocol; NULL: none. */
    const char *server_name;    /**< The name that the client has sent (SNI); NULL: none. */
    /**
     * Common name of the peer's certificate, or else its first DNS name; NULL: none, or one with
     * control characters.
     */
    const char *peer_name;
    const char *peer_subject;           /**< The certificate's subject, RFC 2253; NULL: none. */
    uint8_t peer_hash[SLUICE_TLS_HASH]; /**< SHA-256 of the certificate; zeros: none. */
    bool kernel_sends;                  /**< The kernel encrypts what is sent, from now on. */
} sluice_tls_info;

/**
 * Describes the connection once the handshake is complete.
 * @return 0, -EAGAIN (it is not), -EINVAL (ret_info->size is not set); on failure nothing is
 *         written
 */
SLUICE_API int sluice_tls_get_info(const sluice_tls *tls, sluice_tls_info *ret_info);

/** Counters of a stage. "In" is received, "out" is sent. */
typedef struct sluice_tls_stats {
    size_t size;              /**< sizeof(sluice_tls_stats), set by the caller. */
    uint64_t records_in;      /**< Records received, of all types. */
    uint64_t records_out;     /**< Records sent, of all types. */
    uint64_t sealed_in;       /**< Bytes copied from blocks to OpenSSL's record buffer. */
    uint64_t plain_in;        /**< Bytes copied by OpenSSL from its record buffer to blocks. */
    uint64_t gathered_out;    /**< Bytes of several pieces copied together for a record. */
    uint64_t plain_out;       /**< Bytes copied by OpenSSL to its record buffer. */
    uint64_t sealed_out;      /**< Bytes copied from OpenSSL's record buffer to blocks. */
    uint64_t key_updates_in;  /**< Keys set by the peer after the handshake. */
    uint64_t key_updates_out; /**< Keys set by this side. */
    uint64_t starved;         /**< Times that there was no block for plaintext. */
    uint64_t kernel_out;      /**< Bytes of data that the kernel has taken and encrypts. */
    uint64_t kernel_copied;   /**< Bytes copied to blocks for the kernel: sluice_tls_send() does. */
} sluice_tls_stats;

/**
 * Reads the counters. Of a connection that is closing, records_out may lack the kernel's last ones.
 * @return 0, -EINVAL (ret_stats->size is not set; nothing is written)
 */
SLUICE_API int sluice_tls_get_stats(const sluice_tls *tls, sluice_tls_stats *ret_stats);

/** Settings of a stage that a client makes by sluice_tls_conn_stage(). */
typedef struct sluice_tls_stage_options {
    size_t size;                 /**< sizeof(sluice_tls_stage_options). */
    sluice_tls_context *context; /**< As for sluice_tls_new(). */
    const char *name;            /**< As for sluice_tls_new(). */
} sluice_tls_stage_options;

/**
 * TLS for a client that takes a stage, such as sluice_resp_client_options.stage, with
 * sluice_tls_stage_options. Each stage is a sluice_tls.
 * @return static
 */
SLUICE_API const sluice_conn_stage *sluice_tls_conn_stage(void);

/**
 * Whether bytes are the beginning of a TLS handshake, for a port that expects something else.
 * @param bytes the first bytes that a client has sent
 * @return 1: yes; 0: not known yet, as fewer than SLUICE_TLS_HELLO bytes are there; -EPROTO: no
 */
SLUICE_API int sluice_tls_is_hello(const void *bytes, size_t n);

#ifdef __cplusplus
}
#endif

#endif
