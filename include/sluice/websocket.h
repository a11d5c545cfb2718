/**
 * @file websocket.h
 * WebSocket for both ends: the upgrade, messages out of a chain, frames to send.
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
    /** Longest message that a framer takes unless told otherwise, bytes. */
    SLUICE_WEBSOCKET_DEFAULT_LIMIT = 1 << 20,
    SLUICE_WEBSOCKET_MAX_HEADER = 14, /**< Longest header of a frame, bytes. */
    /** Longest payload of a ping, pong or close, bytes. */
    SLUICE_WEBSOCKET_MAX_CONTROL = 125,
    SLUICE_WEBSOCKET_MAX_REASON = 123, /**< Longest reason in a close frame, bytes. */
    SLUICE_WEBSOCKET_MASK_SIZE = 4,    /**< A masking key, bytes. */
    /** Longest ping, pong or close with its header, bytes. */
    SLUICE_WEBSOCKET_CONTROL_SIZE = 131,
    SLUICE_WEBSOCKET_NONCE_SIZE = 16,  /**< What Sec-WebSocket-Key encodes, bytes. */
    SLUICE_WEBSOCKET_KEY_SIZE = 24,    /**< Sec-WebSocket-Key, characters. */
    SLUICE_WEBSOCKET_ACCEPT_SIZE = 28, /**< Sec-WebSocket-Accept, characters. */
};

/** The end at which a framer stands. */
typedef enum sluice_websocket_role {
    SLUICE_WEBSOCKET_SERVER, /**< Reads masked frames, writes unmasked ones. */
    SLUICE_WEBSOCKET_CLIENT, /**< Reads unmasked frames, writes masked ones. */
} sluice_websocket_role;

/** What a frame or message is. */
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
    SLUICE_WEBSOCKET_NO_STATUS = 1005, /**< Never sent: stands for a close frame without a code. */
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
    /** Longest payload of one data frame, bytes. Default: what the message may still have. */
    uint64_t max_frame;
    /**
     * Longest message, all its frames together, bytes. Default SLUICE_WEBSOCKET_DEFAULT_LIMIT; none
     * with @c pieces.
     */
    uint64_t max_message;
    /**
     * Deliver data as it comes, in pieces, instead of whole messages: for relaying what is too long
     * to hold, or has no end. A piece never spans frames, nothing of a message is held back, and
     * text is checked as far as it has come.
     */
    bool pieces;
} sluice_websocket_options;

/** One message, one piece of it, or one control frame. */
typedef struct sluice_websocket_message {
    sluice_websocket_opcode opcode; /**< Of the message, in every piece of it. */
    bool first;                     /**< The message begins here. Always true but for pieces. */
    bool last;                      /**< The message ends here. Always true but for pieces. */
    /** SLUICE_WEBSOCKET_CLOSE: why, SLUICE_WEBSOCKET_NO_STATUS if not said. Else 0. */
    uint16_t close_code;
    /**
     * The payload, unmasked; of a close frame the reason, UTF-8. The framer's: valid until its next
     * call; sluice_slice_take() to hold it.
     */
    sluice_slice payload;
} sluice_websocket_message;

/** A WebSocket framer: the receiving side of one connection behind its upgrade; opaque. */
typedef struct sluice_websocket sluice_websocket;

/**
 * Makes a framer. The caller owns it.
 * @param options settings, or NULL for the defaults
 * @return 0, -EINVAL (no such role, or a limit over PTRDIFF_MAX), -ENOMEM
 */
SLUICE_API int sluice_websocket_new(sluice_websocket_role role, const sluice_websocket_options *options,
                                    sluice_websocket **ret_websocket);

/**
 * Frees the framer and releases the last message's payload, and the frames of a message that is not
 * complete. NULL is allowed.
 */
SLUICE_API void sluice_websocket_free(sluice_websocket *websocket);

/**
 * Takes the next message or control frame out of the chain. The frames of a message are joined by
 * reference; control frames between them are delivered as they come. Nothing of a frame is consumed
 * until it is whole (with pieces: until there is a piece). Releases the payload of the message
 * before, unless it was moved out with sluice_slice_take().
 *
 * A server's framer unmasks in place, in the chain's blocks: of a frame that is not whole, too. So
 * the bytes that are not consumed must be writable and the chain's alone, as received ones are, and
 * nobody else may read them; a chain to which slices were appended that others hold is not for it.
 * Bytes consumed before, in the same block, are not touched.
 *
 * Behind a close frame nothing means anything: what comes is dropped, and there is no further
 * message.
 *
 * @param ret_message the message; untouched unless 1 is returned. It lies in the framer, valid
 *                    until the framer's next call, and the framer sees whether its payload was
 *                    moved out: keep the payload of this message, never of a copy.
 * @return 1 (a message), 0 (more bytes are needed: see sluice_websocket_need()), or for good, each
 *         with its sluice_websocket_close_code(): -EPROTO (a frame that may not be), -EILSEQ (text,
 *         or a close frame's reason, that is not UTF-8; found at the first byte that cannot be),
 *         -EMSGSIZE (a frame or message over its limit, found before it is buffered, or frames so
 *         small that their bookkeeping would outweigh the data), -ENOBUFS (too many views in use),
 *         -ENOMEM
 */
SLUICE_API int sluice_websocket_next(sluice_websocket *websocket, sluice_chain *chain,
                                     sluice_websocket_message **ret_message);

/**
 * Bytes that the chain must hold before sluice_websocket_next() can say anything new; at least 1.
 */
SLUICE_API size_t sluice_websocket_need(const sluice_websocket *websocket);

/**
 * The code of the close frame to send: after an error of sluice_websocket_next() what tells the
 * peer of it, after a close frame of the peer its own code, to be sent back (which may be
 * SLUICE_WEBSOCKET_NO_STATUS). Else 0.
 */
SLUICE_API uint16_t sluice_websocket_close_code(const sluice_websocket *websocket);

/** Whether a code may stand in a close frame: 1000 to 1003, 1007 to 1014, 3000 to 4999. */
SLUICE_API bool sluice_websocket_is_close_code(unsigned code);

/**
 * Writes a frame's header; the payload follows it as it is (server) or masked with the key
 * (client). Control frames between the frames of a message are allowed, other messages are not.
 * @param opcode SLUICE_WEBSOCKET_CONTINUATION for all frames of a message but the first
 * @param last   the message ends with this frame
 * @param length payload, bytes
 * @param mask   for a client SLUICE_WEBSOCKET_MASK_SIZE bytes that cannot be guessed, new for each
 *               frame (getrandom(2)); NULL for a server
 * @return bytes written, 2 to SLUICE_WEBSOCKET_MAX_HEADER; -EINVAL (no such opcode, 2^63 bytes or
 *         more, a control frame that is too long or not the last; nothing is written)
 */
SLUICE_API int sluice_websocket_write_header(uint8_t buffer[SLUICE_WEBSOCKET_MAX_HEADER],
                                             sluice_websocket_opcode opcode, bool last, uint64_t length,
                                             const uint8_t *mask);

/**
 * Masks or unmasks in place (it is the same). For a client's payload before it is sent: memory of
 * the caller's own, or the pieces of a slice that it has kept and that nobody else reads.
 * @param offset bytes of the same frame's payload that lie before these
 */
SLUICE_API void sluice_websocket_mask(void *bytes, size_t n, const uint8_t mask[SLUICE_WEBSOCKET_MASK_SIZE],
                                      uint64_t offset);

/**
 * Writes a whole ping.
 * @param payload what the pong will carry back; may be NULL when @p length is 0
 * @param mask    as for sluice_websocket_write_header()
 * @return bytes written; -EINVAL (more than SLUICE_WEBSOCKET_MAX_CONTROL bytes; nothing is written)
 */
SLUICE_API int sluice_websocket_write_ping(uint8_t buffer[SLUICE_WEBSOCKET_CONTROL_SIZE], const void *payload,
                                           size_t length, const uint8_t *mask);

/**
 * Writes the whole pong that answers a ping. The payload, at most 125 bytes, is written anew, not
 * counted as copied.
 * @param ping what sluice_websocket_next() has delivered
 * @param mask as for sluice_websocket_write_header()
 * @return bytes written; -EINVAL (it is no ping; nothing is written)
 */
SLUICE_API int sluice_websocket_write_pong(uint8_t buffer[SLUICE_WEBSOCKET_CONTROL_SIZE],
                                           const sluice_websocket_message *ping, const uint8_t *mask);

/**
 * Writes a whole close frame; no other frame may follow it.
 * @param code   why; SLUICE_WEBSOCKET_NO_STATUS writes neither code nor reason
 * @param reason UTF-8, at most SLUICE_WEBSOCKET_MAX_REASON bytes and a NUL; NULL for none
 * @param mask   as for sluice_websocket_write_header()
 * @return bytes written; -EINVAL (a code that may not be sent, a reason that is too long, not
 *         UTF-8, or without a code; nothing is written)
 */
SLUICE_API int sluice_websocket_write_close(uint8_t buffer[SLUICE_WEBSOCKET_CONTROL_SIZE], uint16_t code,
                                            const char *reason, const uint8_t *mask);

/**
 * Checks a request to become a WebSocket, for a server. Answer it with status 101 and the headers
 * "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Accept" and, where one is chosen,
 * "Sec-WebSocket-Protocol"; the bytes behind the head are the first frames. Who lets browsers in
 * checks "Origin" too.
 * @param ret_accept the value of Sec-WebSocket-Accept, not terminated by NUL; untouched on failure
 * @return 0, -ENOENT (no upgrade to WebSocket is asked for: an ordinary request), -EPROTO (it is,
 *         but not as it must be), -EPROTONOSUPPORT (a version other than 13);
 *         sluice_websocket_error_status() has the answer
 */
SLUICE_API int sluice_websocket_upgrade(const sluice_http_request *request,
                                        char ret_accept[SLUICE_WEBSOCKET_ACCEPT_SIZE]);

/**
 * The HTTP status to refuse a request with after an error of sluice_websocket_upgrade(): 400, or
 * 426, to which the headers "Upgrade: websocket" and "Sec-WebSocket-Version: 13" belong. After
 * -ENOENT 426 too: for a resource that is nothing but a WebSocket.
 */
SLUICE_API unsigned sluice_websocket_error_status(int error);

/**
 * Chooses a subprotocol: the first that the request names and the server offers.
 * @param offered names, compared with case
 * @return one of @p offered, NULL when there is none: then the answer names none, and the client
 *   decides
 */
SLUICE_API const char *sluice_websocket_select_protocol(const sluice_http_request *request, const char *const *offered,
                                                        size_t count);

/**
 * The value of Sec-WebSocket-Key for a client's request, not terminated by NUL.
 * @param nonce random bytes, new for each connection
 */
SLUICE_API void sluice_websocket_make_key(const uint8_t nonce[SLUICE_WEBSOCKET_NONCE_SIZE],
                                          char ret_key[SLUICE_WEBSOCKET_KEY_SIZE]);

/**
 * The value of Sec-WebSocket-Accept that belongs to a Sec-WebSocket-Key; neither is terminated by
 * NUL.
 */
SLUICE_API void sluice_websocket_accept_key(const char key[SLUICE_WEBSOCKET_KEY_SIZE],
                                            char ret_accept[SLUICE_WEBSOCKET_ACCEPT_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
