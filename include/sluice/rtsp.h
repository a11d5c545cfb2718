/**
 * @file rtsp.h
 * RTSP for clients and servers: reads requests, replies and interleaved frames from one chain,
 * reads their headers, and writes text to send.
 *
 * Source: RFC 2326 (RTSP 1.0); RFC 7235 and RFC 7616 for authentication. Messages with version 2.0
 * are accepted; nothing else of RFC 7826 is supported. Both ends may send requests, so there are no
 * roles: a framer accepts all three kinds in any order.
 *
 * Threads: the chain's.
 */
#ifndef SLUICE_RTSP_H
#define SLUICE_RTSP_H

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
    SLUICE_RTSP_MAX_METHOD = 64,      /**< Maximum length of a method, bytes. */
    SLUICE_RTSP_MAX_EMPTY = 64,       /**< Maximum number of CR and LF bytes before a message. */
    SLUICE_RTSP_MAX_REFUSED = 64,     /**< Maximum number of false starts while skipping. */
    SLUICE_RTSP_INTERLEAVED_SIZE = 4, /**< Size of an interleaved frame's header, bytes. */
    SLUICE_RTSP_DEFAULT_TIMEOUT = 60, /**< Of a session whose header has none, seconds. */
};

/** Kind of a message. */
typedef enum sluice_rtsp_kind {
    SLUICE_RTSP_REQUEST,     /**< Method and URL. */
    SLUICE_RTSP_REPLY,       /**< Status and reason. */
    SLUICE_RTSP_INTERLEAVED, /**< "$": a packet on a channel. */
} sluice_rtsp_kind;

/** Methods; each is one bit, so that a Public header is a bit mask. */
typedef enum sluice_rtsp_method {
    SLUICE_RTSP_OTHER = 0, /**< Unknown: answer 501. */
    SLUICE_RTSP_OPTIONS = 1 << 0,
    SLUICE_RTSP_DESCRIBE = 1 << 1,
    SLUICE_RTSP_ANNOUNCE = 1 << 2,
    SLUICE_RTSP_SETUP = 1 << 3,
    SLUICE_RTSP_PLAY = 1 << 4,
    SLUICE_RTSP_PAUSE = 1 << 5,
    SLUICE_RTSP_RECORD = 1 << 6,
    SLUICE_RTSP_TEARDOWN = 1 << 7,
    SLUICE_RTSP_GET_PARAMETER = 1 << 8,
    SLUICE_RTSP_SET_PARAMETER = 1 << 9,
    SLUICE_RTSP_REDIRECT = 1 << 10,
} sluice_rtsp_method;

/** Limits of a framer. Zero in any field means its default. */
typedef struct sluice_rtsp_options {
    size_t size; /**< sizeof(sluice_rtsp_options). */
    /** Start line, headers and the empty line, bytes: up to 1,048,576. Default 16,384. */
    uint32_t max_head;
    uint32_t max_url;     /**< Bytes: up to 1,048,576. Default 2048. */
    uint32_t max_headers; /**< Lines, each continuation line counted: up to 10,000. Default 255. */
    uint32_t max_key;     /**< Maximum length of a header name, bytes. Default 512. */
    /** Maximum length of a header value after unfolding, bytes. Default 2048. */
    uint32_t max_value;
    uint32_t max_body; /**< Maximum size of a body, bytes. Default 131,072. */
    /**
     * Maximum number of bytes to skip between two messages, for peers that send bytes outside of
     * any message, as some old cameras do. Default 0: such bytes are -EPROTO, because the start of
     * the next message can only be guessed. See sluice_rtsp_next().
     */
    uint32_t max_skip;
    /** For skipping: number of channels set up, counted from 0. Default 256, all channels. */
    uint16_t channels;
} sluice_rtsp_options;

/**
 * One message. Texts and headers are owned by the framer: valid until its next call. "Text" means a
 * request or a reply.
 */
typedef struct sluice_rtsp_message {
    sluice_rtsp_kind kind;        /**< Determines which fields are set. */
    uint8_t channel;              /**< Interleaved: the channel. */
    uint8_t version_major;        /**< Text: 1 or 2. */
    uint8_t version_minor;        /**< Text: 0. */
    sluice_rtsp_method method_id; /**< Request: the method if it is known. */
    sluice_http_text method;      /**< Request: as received; case-sensitive. */
    sluice_http_text url;         /**< Request: as received; "*" or a URL. */
    uint16_t status;              /**< Reply: 100 to 999. */
    sluice_http_text reason;      /**< Reply: reason phrase; may be empty. */
    /**
     * Text: CSeq; -1 if it is missing or not a number up to 2^32 - 1: answer such a request with
     * 400.
     */
    int64_t cseq;
    const sluice_http_header *headers; /**< Text: in order. */
    size_t header_count;               /**< Text: number of headers. */
    /** Bytes skipped before this message, without CR and LF. */
    size_t skipped;
    /**
     * Text: the body, by Content-Length. Interleaved: the packet. Owned by the framer and valid
     * until its next call; keep it with sluice_slice_take().
     */
    sluice_slice payload;
    /** Text: size of the body by Content-Length, also before the body has arrived. */
    size_t body_length;
} sluice_rtsp_message;

/** An RTSP framer: the receiving side of one connection; opaque. */
typedef struct sluice_rtsp sluice_rtsp;

/**
 * Makes a framer. The caller owns it.
 * @param options limits, or NULL for the defaults
 * @return 0, -EINVAL (a limit out of range), -ENOMEM
 */
SLUICE_API int sluice_rtsp_new(const sluice_rtsp_options *options, sluice_rtsp **ret_rtsp);

/** Frees the framer and releases the last message's payload. NULL is allowed. */
SLUICE_API void sluice_rtsp_free(sluice_rtsp *rtsp);

/** Sets the number of channels set up, for max_skip; at most 256. */
SLUICE_API void sluice_rtsp_set_channels(sluice_rtsp *rtsp, uint16_t channels);

/**
 * Reads the next message. Nothing of a message is consumed until it is complete with its body; the
 * search for a head's end scans each byte once. Bytes that cannot become a message are rejected as
 * early as the start line permits. Releases the payload of the previous message, unless it was
 * moved out with sluice_slice_take().
 *
 * A head within one block is read in place; the framer then holds that block until its next call. A
 * head that spans blocks, or has folded lines (which are unfolded), is copied into the framer:
 * text, not payload.
 *
 * Up to SLUICE_RTSP_MAX_EMPTY bytes of CR and LF before a message are dropped. Any other byte that
 * starts no message is -EPROTO or, with max_skip, dropped along with the following bytes up to the
 * next possible start: "RTSP/" or a method name at the beginning of a well-formed start line; or
 * "$", a channel that has been set up and the first byte of an RTP or RTCP packet, if a message can
 * also start after that frame. The message contains the number of skipped bytes, so that the caller
 * knows of the gap. A malformed head is skipped likewise; exceeding a limit is still an error.
 *
 * @param ret_message the message; untouched unless 1 is returned. It is stored in the framer and
 *                    valid until the framer's next call. To keep the payload, take it from this
 *                    struct, not from a copy: the framer must see that it was moved out
 * @return 1 (a message), 0 (more bytes are needed: see sluice_rtsp_need()), or for good, each with
 *         its sluice_rtsp_error_status(): -EPROTO (malformed, or more to skip than max_skip),
 *         -EMSGSIZE (a limit of the headers is exceeded), -ENAMETOOLONG (the start line or URL is
 *         too long), -EFBIG (a body over its limit, detected before it is buffered),
 *         -EPROTONOSUPPORT (a version other than 1.0 and 2.0), -ENOMEM
 */
SLUICE_API int sluice_rtsp_next(sluice_rtsp *rtsp, sluice_chain *chain, sluice_rtsp_message **ret_message);

/**
 * The head of an incomplete message: sluice_rtsp_next() has returned 0 and waits for the rest of
 * the body. A server can use it to decide whether to accept a body before buffering it. The payload
 * is empty; the texts are valid until the framer's next call, as long as nothing else is consumed
 * from the chain.
 * @return the message without its body, or NULL: no head has arrived, or its body arrived with it
 */
SLUICE_API const sluice_rtsp_message *sluice_rtsp_head(const sluice_rtsp *rtsp);

/**
 * Drops the message returned by sluice_rtsp_head(): sluice_rtsp_next() drops its head, and its body
 * as it arrives, and continues after it. Nothing of it is held. No effect without such a message.
 */
SLUICE_API void sluice_rtsp_drop_body(sluice_rtsp *rtsp);

/**
 * Releases the blocks of the last message's head and payload; its texts and payload become invalid.
 * For servers that answer much later. The next sluice_rtsp_next() also does it.
 */
SLUICE_API void sluice_rtsp_release(sluice_rtsp *rtsp);

/**
 * Number of bytes that the chain must hold before sluice_rtsp_next() can return another result; at
 * least 1.
 */
SLUICE_API size_t sluice_rtsp_need(const sluice_rtsp *rtsp);

/**
 * The status for an error of sluice_rtsp_next(), such as 400, to send before closing the
 * connection.
 */
SLUICE_API unsigned sluice_rtsp_error_status(int error);

/** The reason phrase of a status defined by RTSP or HTTP; "Unknown" for others. */
SLUICE_API const char *sluice_rtsp_reason(unsigned status);

/** The first header with this name, compared without regard to case; NULL if there is none. */
SLUICE_API const sluice_http_header *sluice_rtsp_find(const sluice_rtsp_message *message, const char *name);

/** The methods in the message's Public headers: a bit mask of SLUICE_RTSP_... */
SLUICE_API unsigned sluice_rtsp_public(const sluice_rtsp_message *message);

/** A Session header. */
typedef struct sluice_rtsp_session {
    sluice_http_text id; /**< Case-sensitive. */
    uint32_t timeout;    /**< Seconds; SLUICE_RTSP_DEFAULT_TIMEOUT if missing. */
} sluice_rtsp_session;

/**
 * Reads the Session header. @return 0, -ENOENT (there is none), -EPROTO (malformed; @p ret_session
 * is untouched)
 */
SLUICE_API int sluice_rtsp_read_session(const sluice_rtsp_message *message, sluice_rtsp_session *ret_session);

/** Two numbers, such as ports or channels; -1 if missing. */
typedef struct sluice_rtsp_pair {
    int32_t first;  /**< RTP. */
    int32_t second; /**< RTCP. */
} sluice_rtsp_pair;

/** One alternative of a Transport header. */
typedef struct sluice_rtsp_transport {
    sluice_http_text text; /**< The alternative as received. */
    /** "RTP/AVP", "RTP/AVPF", "RTP/SAVP"...: without the lower transport. */
    sluice_http_text profile;
    bool tcp;       /**< Lower transport TCP; else UDP. */
    bool multicast; /**< Else unicast. */
    /** mode=record (or receive, as some peers write); otherwise play. */
    bool record;
    sluice_rtsp_pair interleaved; /**< Channels, 0 to 255. */
    sluice_rtsp_pair client_port; /**< 0 to 65535. */
    sluice_rtsp_pair server_port; /**< 0 to 65535. */
    bool has_ssrc;                /**< ssrc is given. */
    uint32_t ssrc;                /**< Synchronization source. */
} sluice_rtsp_transport;

/**
 * A position in the alternatives of all Transport headers; initialize with zeros. Fields are
 * private to the library.
 */
typedef struct sluice_rtsp_transport_walk {
    size_t header;         /**< Next header to read. */
    sluice_http_text rest; /**< Rest of the current one. */
} sluice_rtsp_transport_walk;

/**
 * Returns the next alternative, in the client's order of preference. Unknown parameters are
 * ignored; in a pair "4" the second number is -1.
 * @return 1 (an alternative), 0 (there are no more), -EPROTO (this one is malformed; the next call
 *         continues)
 */
SLUICE_API int sluice_rtsp_next_transport(const sluice_rtsp_message *message, sluice_rtsp_transport_walk *walk,
                                          sluice_rtsp_transport *ret_transport);

/** A Range header in normal play time. */
typedef struct sluice_rtsp_range {
    bool now;      /**< Starts at the live position. */
    int64_t start; /**< Milliseconds; 0 with @c now, or if only the end is given. */
    int64_t end;   /**< Milliseconds; -1 for open. */
} sluice_rtsp_range;

/**
 * Reads the Range header: npt=1.5-, npt=0-7.741, npt=now-, npt=0:01:30-, npt=-20.
 * @return 0, -ENOENT (there is none), -EOPNOTSUPP (clock or SMPTE time: 457), -EPROTO (malformed)
 */
SLUICE_API int sluice_rtsp_read_range(const sluice_rtsp_message *message, sluice_rtsp_range *ret_range);

/** A challenge or credentials: WWW-Authenticate, Authorization. Missing texts are empty. */
typedef struct sluice_rtsp_auth {
    sluice_http_text scheme;      /**< "Basic", "Digest": compare without case. */
    sluice_http_text credentials; /**< Basic credentials: base64; see sluice_rtsp_decode_basic(). */
    /** Values are without quotes; backslashes are kept. */
    sluice_http_text realm;
    sluice_http_text nonce;     /**< Digest. */
    sluice_http_text opaque;    /**< Digest. */
    sluice_http_text algorithm; /**< Digest: empty means "MD5". */
    sluice_http_text qop;       /**< Digest: a list in a challenge, one value in credentials. */
    sluice_http_text username;  /**< Digest credentials. */
    sluice_http_text uri;       /**< Digest credentials. */
    sluice_http_text response;  /**< Digest credentials. */
    sluice_http_text cnonce;    /**< Digest credentials. */
    sluice_http_text nc;        /**< Digest credentials. */
    /** Digest challenge: the credentials were right but the nonce has expired. */
    bool stale;
} sluice_rtsp_auth;

/**
 * Reads one challenge or credentials from a header's value, which may contain several, and
 * advances. A repeated parameter is malformed, unknown parameters are ignored.
 * @param rest the header's value; updated to the remaining text
 * @return 1, 0 (nothing is left), -EPROTO (malformed; the remaining text is empty)
 */
SLUICE_API int sluice_rtsp_next_auth(sluice_http_text *rest, sluice_rtsp_auth *ret_auth);

/**
 * Decodes Basic credentials.
 * @param buffer     room for @p size bytes: "user:password", not NUL-terminated
 * @param ret_length its length, bytes
 * @param ret_user   length of the part before the first colon, bytes
 * @return 0, -EPROTO (not base64, or no colon), -EMSGSIZE (longer than the buffer)
 */
SLUICE_API int sluice_rtsp_decode_basic(sluice_http_text credentials, char *buffer, size_t size, size_t *ret_length,
                                        size_t *ret_user);

/** The parts of a URL, as texts within it. */
typedef struct sluice_rtsp_url {
    sluice_http_text scheme; /**< "rtsp", "rtsps", "rtspu"; empty for a relative one. */
    sluice_http_text user;   /**< "user:password", not percent-decoded; empty if missing. */
    sluice_http_text host;   /**< Name or address; IPv6 addresses include the brackets. */
    uint16_t port;           /**< Default 554 (rtsps: 322). */
    /** From the first "/" to the "?", not percent-decoded; empty if missing. */
    sluice_http_text path;
    /** After the "?"; empty if missing. FFmpeg and others append "/track" here. */
    sluice_http_text query;
} sluice_rtsp_url;

/**
 * Splits an absolute URL, or a relative one that begins with "/".
 * @return 0, -EPROTO (another scheme, no host, or an invalid port)
 */
SLUICE_API int sluice_rtsp_split_url(sluice_http_text url, sluice_rtsp_url *ret_url);

/** State of writing a head into the caller's memory. Fields are private to the library. */
typedef struct sluice_rtsp_writer {
    char *buffer;  /**< Owned by the caller. */
    size_t size;   /**< Its size, bytes. */
    size_t length; /**< Bytes written. */
    int error;     /**< The first error. */
} sluice_rtsp_writer;

/**
 * Starts a request. Errors of this and later calls are reported by sluice_rtsp_write_end().
 * @param size   size of @p buffer, which must stay valid until the text has been sent
 * @param method such as "OPTIONS"
 */
SLUICE_API void sluice_rtsp_write_request(sluice_rtsp_writer *writer, char *buffer, size_t size, const char *method,
                                          const char *url, uint32_t cseq);

/**
 * Starts a reply with a given reason phrase. sluice_rtsp_write_reply() uses that of
 * sluice_rtsp_reason().
 * @param cseq   the request's; -1, for a request without one, writes none
 * @param reason one line, printable
 */
SLUICE_API void sluice_rtsp_write_status(sluice_rtsp_writer *writer, char *buffer, size_t size, unsigned status,
                                         const char *reason, int64_t cseq);

/**
 * Starts a reply with the reason phrase of sluice_rtsp_reason(); otherwise like
 * sluice_rtsp_write_status().
 */
SLUICE_API void sluice_rtsp_write_reply(sluice_rtsp_writer *writer, char *buffer, size_t size, unsigned status,
                                        int64_t cseq);

/**
 * Writes a header whose value is formatted as by printf(3). Values with line ends or other control
 * characters are rejected.
 */
SLUICE_API void sluice_rtsp_write_header(sluice_rtsp_writer *writer, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/**
 * Writes a Transport header with one alternative, containing only the fields that are set. The
 * profile is always RTP/AVP; the field's text is not used.
 */
SLUICE_API void sluice_rtsp_write_transport(sluice_rtsp_writer *writer, const sluice_rtsp_transport *transport);

/**
 * Ends the head; the body follows unchanged. Not allowed within an interleaved frame.
 * @param type           Content-Type, or NULL if there is no body; then no Content-Length is
 *                       written
 * @param content_length size of the body, bytes
 * @return size of the head in bytes, not NUL-terminated; -EMSGSIZE (the buffer is too small),
 *         -EINVAL (control characters, or blanks in the method, URL or a name); then none of it may
 *         be sent
 */
SLUICE_API int sluice_rtsp_write_end(sluice_rtsp_writer *writer, const char *type, size_t content_length);

/** Writes the header of an interleaved frame; the packet follows. */
SLUICE_API void sluice_rtsp_write_interleaved(uint8_t buffer[SLUICE_RTSP_INTERLEAVED_SIZE], uint8_t channel,
                                              uint16_t length);

#ifdef __cplusplus
}
#endif

#endif
