/**
 * @file websocket.h
 * WebSocket for clients and servers: the upgrade, messages from a chain, frames to send.
 *
 * Source: RFC 6455, and IANA's registry of close codes. No extension is negotiated, so a reserved
 * bit is an error.
 *
 * Threads: the chain's.
 */
#ifndef SLUICE_WEBSOCKET_H
#define SLUICE_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/chain.h>
#include <sluice/http.h>
#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /** Default maximum size of a message, bytes. */
    SLUICE_WEBSOCKET_DEFAULT_LIMIT = 1 << 20,
    SLUICE_WEBSOCKET_MAX_HEADER = 14, /**< Maximum size of a frame header, bytes. */
    /** Maximum payload of a ping, pong or close, bytes. */
    SLUICE_WEBSOCKET_MAX_CONTROL = 125,
    SLUICE_WEBSOCKET_MAX_REASON = 123, /**< Maximum length of the reason in a close frame, bytes. */
    SLUICE_WEBSOCKET_MASK_SIZE = 4,    /**< Size of a masking key, bytes. */
    /** Maximum size of a ping, pong or close with its header, bytes. */
    SLUICE_WEBSOCKET_CONTROL_SIZE = 131,
    SLUICE_WEBSOCKET_NONCE_SIZE = 16,  /**< Size of the random value in Sec-WebSocket-Key, bytes. */
    SLUICE_WEBSOCKET_KEY_SIZE = 24,    /**< Length of Sec-WebSocket-Key, characters. */
    SLUICE_WEBSOCKET_ACCEPT_SIZE = 28, /**< Length of Sec-WebSocket-Accept, characters. */
};

/** Role of a framer. */
typedef enum sluice_websocket_role {
    SLUICE_WEBSOCKET_SERVER, /**< Reads masked frames, writes unmasked ones. */
    SLUICE_WEBSOCKET_CLIENT, /**< Reads unmasked frames, writes masked ones. */
} sluice_websocket_role;

/** Opcode of a frame or message. */
typedef enum sluice_websocket_opcode {
    SLUICE_WEBSOCKET_CONTINUATION = 0, /**< A further frame of a message; only for writing. */
    SLUICE_WEBSOCKET_TEXT = 1,
    SLUICE_WEBSOCKET_BINARY = 2,
    SLUICE_WEBSOCKET_CLOSE = 8,
    SLUICE_WEBSOCKET_PING = 9,
    SLUICE_WEBSOCKET_PONG = 10,
} sluice_websocket_opcode;

/**
 * Close codes (RFC 6455, section 7.4, and IANA). 3000 to 3999 are for libraries, 4000 to 4999 for
 * applications.
 */
enum {
    SLUICE_WEBSOCKET_NORMAL = 1000,
    SLUICE_WEBSOCKET_GOING_AWAY = 1001,
    SLUICE_WEBSOCKET_PROTOCOL_ERROR = 1002,
    SLUICE_WEBSOCKET_UNSUPPORTED_DATA = 1003,
    /** Never sent: reported for a close frame without a code. */
    SLUICE_WEBSOCKET_NO_STATUS = 1005,
    SLUICE_WEBSOCKET_INVALID_DATA = 1007,
    SLUICE_WEBSOCKET_POLICY_VIOLATION = 1008,
    SLUICE_WEBSOCKET_TOO_BIG = 1009,
    SLUICE_WEBSOCKET_MANDATORY_EXTENSION = 1010,
    SLUICE_WEBSOCKET_INTERNAL_ERROR = 1011,
    SLUICE_WEBSOCKET_SERVICE_RESTART = 1012,
    SLUICE_WEBSOCKET_TRY_AGAIN_LATER = 1013,
    SLUICE_WEBSOCKET_BAD_GATEWAY = 1014,
};

/** Settings of a framer. Zero in any field means its default. */
typedef struct sluice_websocket_options {
    size_t size; /**< sizeof(sluice_websocket_options). */
    /** Maximum payload of one data frame, bytes. Default: the remaining size of the message. */
    uint64_t max_frame;
    /**
     * Maximum size of a message over all its frames, bytes. Default SLUICE_WEBSOCKET_DEFAULT_LIMIT;
     * unlimited with @c pieces.
     */
    uint64_t max_message;
    /**
     * Deliver data in pieces as it arrives, instead of whole messages: for relaying messages that
     * are too long to hold, or endless. A piece never spans frames, no data is held back, and text
     * is checked as far as it has arrived.
     */
    bool pieces;
} sluice_websocket_options;

/** A message, a piece of one, or a control frame. */
typedef struct sluice_websocket_message {
    sluice_websocket_opcode opcode; /**< Opcode of the message, also in each of its pieces. */
    bool first;                     /**< First piece of the message; true for whole messages. */
    bool last;                      /**< Last piece of the message; true for whole messages. */
    /** SLUICE_WEBSOCKET_CLOSE: the close code, or SLUICE_WEBSOCKET_NO_STATUS. Otherwise 0. */
    uint16_t close_code;
    /**
     * The payload, unmasked; for a close frame the reason, UTF-8. Owned by the framer and valid
     * until its next call; keep it with sluice_slice_take().
     */
    sluice_slice payload;
} sluice_websocket_message;

/** A WebSocket framer: the receiving side of one connection after the upgrade; opaque. */
typedef struct sluice_websocket sluice_websocket;

/**
 * Makes a framer. The caller owns it.
 * @param options settings, or NULL for the defaults
 * @return 0, -EINVAL (no such role, or a limit over PTRDIFF_MAX), -ENOMEM
 */
SLUICE_API int sluice_websocket_new(sluice_websocket_role role, const sluice_websocket_options *options,
                                    sluice_websocket **ret_websocket);

/**
 * Frees the framer and releases the last message's payload and the frames of an incomplete message.
 * NULL is allowed.
 */
SLUICE_API void sluice_websocket_free(sluice_websocket *websocket);

/**
 * Reads the next message or control frame. The frames of a message are joined by reference; control
 * frames between them are delivered as they arrive. Nothing of a frame is consumed until it is
 * complete (with @c pieces: until a piece is available). Releases the payload of the previous
 * message, unless it was moved out with sluice_slice_take().
 *
 * A server's framer unmasks in place, in the chain's blocks, also in incomplete frames. Unconsumed
 * bytes must therefore be writable and must not be read by other code. This is true for received
 * bytes, but not for a chain with appended slices that are also held elsewhere. Bytes of the same
 * block that were consumed before are not changed.
 *
 * After a close frame, further data is dropped and no more messages are returned.
 *
 * @param ret_message the message; untouched unless 1 is returned. It is stored in the framer and
 *                    valid until the framer's next call. To keep the payload, take it from this
 *                    struct, not from a copy: the framer must see that it was moved out
 * @return 1 (a message), 0 (more bytes are needed: see sluice_websocket_need()), or for good, each
 *         with its sluice_websocket_close_code(): -EPROTO (an invalid frame), -EILSEQ (text or a
 *         close reason that is not UTF-8, detected at the first invalid byte), -EMSGSIZE (a frame
 *         or message over its limit, detected before it is buffered, or frames so small that their
 *         bookkeeping exceeds the data), -ENOBUFS (too many views in use), -ENOMEM
 */
SLUICE_API int sluice_websocket_next(sluice_websocket *websocket, sluice_chain *chain,
                                     sluice_websocket_message **ret_message);

/**
 * Number of bytes that the chain must hold before sluice_websocket_next() can return another
 * result; at least 1.
 */
SLUICE_API size_t sluice_websocket_need(const sluice_websocket *websocket);

/**
 * The code for the close frame to send: after an error of sluice_websocket_next() the code for that
 * error; after a close frame from the peer its own code, to be echoed (possibly
 * SLUICE_WEBSOCKET_NO_STATUS). Otherwise 0.
 */
SLUICE_API uint16_t sluice_websocket_close_code(const sluice_websocket *websocket);

/** Whether a code is allowed in a close frame: 1000 to 1003, 1007 to 1014, 3000 to 4999. */
SLUICE_API bool sluice_websocket_is_close_code(unsigned code);

/**
 * Writes a frame header; the payload follows, unchanged (server) or masked with the key (client).
 * Control frames may be sent between the frames of a message, other messages may not.
 * @param opcode SLUICE_WEBSOCKET_CONTINUATION for all frames of a message except the first
 * @param last   true for the last frame of a message
 * @param length payload size, bytes
 * @param mask   for a client, SLUICE_WEBSOCKET_MASK_SIZE unpredictable bytes, new for each frame
 *               (getrandom(2)); NULL for a server
 * @return bytes written, 2 to SLUICE_WEBSOCKET_MAX_HEADER; -EINVAL (unknown opcode, 2^63 bytes or
 *         more, or a control frame that is too long or fragmented; nothing is written)
 */
SLUICE_API int sluice_websocket_write_header(uint8_t buffer[SLUICE_WEBSOCKET_MAX_HEADER],
                                             sluice_websocket_opcode opcode, bool last, uint64_t length,
                                             const uint8_t *mask);

/**
 * Masks or unmasks in place (the operation is its own inverse). For a client's payload before it is
 * sent: the caller's own memory, or the pieces of a retained slice that no other code reads.
 * @param offset position of these bytes in the frame's payload
 */
SLUICE_API void sluice_websocket_mask(void *bytes, size_t n, const uint8_t mask[SLUICE_WEBSOCKET_MASK_SIZE],
                                      uint64_t offset);

/**
 * Writes a complete ping.
 * @param payload returned by the peer's pong; may be NULL if @p length is 0
 * @param mask    as for sluice_websocket_write_header()
 * @return bytes written; -EINVAL (more than SLUICE_WEBSOCKET_MAX_CONTROL bytes; nothing is written)
 */
SLUICE_API int sluice_websocket_write_ping(uint8_t buffer[SLUICE_WEBSOCKET_CONTROL_SIZE], const void *payload,
                                           size_t length, const uint8_t *mask);

/**
 * Writes a complete pong in reply to a ping. The payload, at most 125 bytes, is copied; this does
 * not count in bytes_copied.
 * @param ping a message from sluice_websocket_next()
 * @param mask as for sluice_websocket_write_header()
 * @return bytes written; -EINVAL (not a ping; nothing is written)
 */
SLUICE_API int sluice_websocket_write_pong(uint8_t buffer[SLUICE_WEBSOCKET_CONTROL_SIZE],
                                           const sluice_websocket_message *ping, const uint8_t *mask);

/**
 * Writes a complete close frame; no other frame may follow it.
 * @param code   the close code; SLUICE_WEBSOCKET_NO_STATUS writes neither code nor reason
 * @param reason UTF-8, NUL-terminated, at most SLUICE_WEBSOCKET_MAX_REASON bytes; NULL for none
 * @param mask   as for sluice_websocket_write_header()
 * @return bytes written; -EINVAL (a code that must not be sent, or a reason that is too long, not
 *         UTF-8, or given without a code; nothing is written)
 */
SLUICE_API int sluice_websocket_write_close(uint8_t buffer[SLUICE_WEBSOCKET_CONTROL_SIZE], uint16_t code,
                                            const char *reason, const uint8_t *mask);

/**
 * Checks an upgrade request, for a server. Accept it with status 101 and the headers "Upgrade:
 * websocket", "Connection: Upgrade", "Sec-WebSocket-Accept" and, if a subprotocol is selected,
 * "Sec-WebSocket-Protocol"; the bytes after the head are the first frames. A server for browsers
 * must also check "Origin".
 * @param ret_accept value of Sec-WebSocket-Accept, not NUL-terminated; untouched on failure
 * @return 0, -ENOENT (an ordinary request without an upgrade to WebSocket), -EPROTO (an invalid
 *         upgrade request), -EPROTONOSUPPORT (a version other than 13).
 *         sluice_websocket_error_status() returns the HTTP status
 */
SLUICE_API int sluice_websocket_upgrade(const sluice_http_request *request,
                                        char ret_accept[SLUICE_WEBSOCKET_ACCEPT_SIZE]);

/**
 * The HTTP status for an error of sluice_websocket_upgrade(): 400, or 426 with the headers
 * "Upgrade: websocket" and "Sec-WebSocket-Version: 13". For -ENOENT it is 426, too: for a resource
 * that only serves WebSocket.
 */
SLUICE_API unsigned sluice_websocket_error_status(int error);

/**
 * Selects a subprotocol: the first one in the request that the server offers.
 * @param offered names, compared case-sensitively
 * @return one of @p offered; NULL if none matches: then do not send the header, and the client
 *         decides
 */
SLUICE_API const char *sluice_websocket_select_protocol(const sluice_http_request *request, const char *const *offered,
                                                        size_t count);

/**
 * Makes the value of Sec-WebSocket-Key for a client's request, not NUL-terminated.
 * @param nonce random bytes, new for each connection
 */
SLUICE_API void sluice_websocket_make_key(const uint8_t nonce[SLUICE_WEBSOCKET_NONCE_SIZE],
                                          char ret_key[SLUICE_WEBSOCKET_KEY_SIZE]);

/** Computes Sec-WebSocket-Accept from Sec-WebSocket-Key; neither is NUL-terminated. */
SLUICE_API void sluice_websocket_accept_key(const char key[SLUICE_WEBSOCKET_KEY_SIZE],
                                            char ret_accept[SLUICE_WEBSOCKET_ACCEPT_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
