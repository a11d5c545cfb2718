/**
 * @file rtsp.h
 * RTSP for both ends: requests, replies and interleaved frames out of one chain; their headers;
 * text to send.
 *
 * Source: RFC 2326 (RTSP 1.0); RFC 7235 and RFC 7616 for authentication. A 2.0 in the version is
 * taken, and nothing else of RFC 7826 is. Requests may come from either end, so there is no role: a
 * framer takes all three kinds, mixed freely.
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
    SLUICE_RTSP_MAX_METHOD = 64,      /**< Longest method, bytes. */
    SLUICE_RTSP_MAX_EMPTY = 64,       /**< Most CR and LF bytes before a message. */
    SLUICE_RTSP_MAX_REFUSED = 64,     /**< Most false beginnings while skipping. */
    SLUICE_RTSP_INTERLEAVED_SIZE = 4, /**< Header of an interleaved frame, bytes. */
    SLUICE_RTSP_DEFAULT_TIMEOUT = 60, /**< Of a session whose header names none, seconds. */
};

/** What a message is. */
typedef enum sluice_rtsp_kind {
    SLUICE_RTSP_REQUEST,     /**< Method and URL. */
    SLUICE_RTSP_REPLY,       /**< Status and reason. */
    SLUICE_RTSP_INTERLEAVED, /**< "$": a packet of a channel. */
} sluice_rtsp_kind;

/** Methods; each is one bit, so that a Public header is a set of them. */
typedef enum sluice_rtsp_method {
    SLUICE_RTSP_OTHER = 0, /**< Not known: 501. */
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
    /** Start line, headers and the empty line, bytes: to 1,048,576. Default 16,384. */
    uint32_t max_head;
    uint32_t max_url;     /**< Bytes: to 1,048,576. Default 2048. */
    uint32_t max_headers; /**< Lines, continued ones counted each: to 10,000. Default 255. */
    uint32_t max_key;     /**< Longest header name, bytes. Default 512. */
    uint32_t max_value;   /**< Longest header value, unfolded, bytes. Default 2048. */
    uint32_t max_body;    /**< Longest body, bytes. Default 131,072. */
    /**
     * Most bytes to skip between two messages where a peer puts what belongs to none, as some old
     * cameras do. Default none: then such bytes are -EPROTO, since where the next message begins is
     * a guess. See sluice_rtsp_next().
     */
    uint32_t max_skip;
    /** For skipping: channels that have been set up, counted from 0. Default 256, which is all. */
    uint16_t channels;
} sluice_rtsp_options;

/** One message. The texts and headers are the framer's: valid until its next call. */
typedef struct sluice_rtsp_message {
    sluice_rtsp_kind kind;        /**< Which of the fields hold. */
    uint8_t channel;              /**< Interleaved: the channel. */
    uint8_t version_major;        /**< Text: 1 or 2. */
    uint8_t version_minor;        /**< Text: 0. */
    sluice_rtsp_method method_id; /**< Request: the method, where it is known. */
    sluice_http_text method;      /**< Request: as it came; case counts. */
    sluice_http_text url;         /**< Request: as it came; "*" or a URL. */
    uint16_t status;              /**< Reply: 100 to 999. */
    sluice_http_text reason;      /**< Reply: what is behind the status; may be empty. */
    /**
     * Text: CSeq; -1 where it is missing or no number up to 2^32 - 1: a request without one is to
     * be answered 400.
     */
    int64_t cseq;
    const sluice_http_header *headers; /**< Text: in order. */
    size_t header_count;               /**< Text: headers. */
    /** Bytes before this message that belonged to none; CR and LF not counted. */
    size_t skipped;
    /**
     * Text: the body, by Content-Length. Interleaved: the packet. The framer's: valid until its
     * next call; sluice_slice_take() to hold it.
     */
    sluice_slice payload;
    /** Text: the body's bytes by Content-Length, also before it has come. */
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

/** Says how many channels have been set up, for max_skip; at most 256 count. */
SLUICE_API void sluice_rtsp_set_channels(sluice_rtsp *rtsp, uint16_t channels);

/**
 * Takes the next message out of the chain. Nothing of a message is consumed until it is whole with
 * its body; the search for a head's end goes over each byte once. What cannot become a message is
 * refused as early as its start line shows. Releases the payload of the message before, unless it
 * was moved out with sluice_slice_take().
 *
 * A head that lies in one block is read in place, and the framer holds that block until its next
 * call. One that straddles blocks, or has folded lines (which are unfolded), is copied into the
 * framer: text, not payload.
 *
 * Up to SLUICE_RTSP_MAX_EMPTY bytes of CR and LF before a message are dropped. Anything else that
 * begins no message is -EPROTO, or, with max_skip, dropped up to the next place that does: "RTSP/"
 * or the name of a method at the head of a well-formed start line; or "$", a channel that has been
 * set up and the first byte of an RTP or RTCP packet, where what lies behind the frame can begin a
 * message too. The message says how many bytes were skipped, so that nobody takes it for an
 * unbroken stream. A head that is malformed is skipped likewise; a limit stays an error.
 *
 * @param ret_message the message; untouched unless 1 is returned. It lies in the framer, valid
 *                    until the framer's next call, and the framer sees whether its payload was
 *                    moved out: keep the payload of this message, never of a copy.
 * @return 1 (a message), 0 (more bytes are needed: see sluice_rtsp_need()), or for good, each with
 *         its sluice_rtsp_error_status(): -EPROTO (malformed, or more to skip than max_skip),
 *         -EMSGSIZE (over a limit of the headers), -ENAMETOOLONG (a start line or URL that is too
 *         long), -EFBIG (a body over its limit, found before it is buffered), -EPROTONOSUPPORT (a
 *         version other than 1.0 and 2.0), -ENOMEM
 */
SLUICE_API int sluice_rtsp_next(sluice_rtsp *rtsp, sluice_chain *chain, sluice_rtsp_message **ret_message);

/**
 * The head of the message whose body has not come: sluice_rtsp_next() has returned 0 and waits for
 * the rest of it. For a server that decides whether to accept a body before it holds one. The
 * payload is empty; the texts are valid until the framer's next call, as long as nothing else is
 * consumed from the chain.
 * @return the message without its body, or NULL: no head has come, or its body came along
 */
SLUICE_API const sluice_rtsp_message *sluice_rtsp_head(const sluice_rtsp *rtsp);

/**
 * Drops the message that sluice_rtsp_head() shows: sluice_rtsp_next() drops its head, and its body
 * as it comes, and goes on behind it. Nothing of it is held. Without such a message it does
 * nothing.
 */
SLUICE_API void sluice_rtsp_drop_body(sluice_rtsp *rtsp);

/**
 * Gives back the blocks of the last message, of its head and of its payload; its texts and payload
 * are no longer valid. For servers that answer it much later. The next sluice_rtsp_next() does it
 * too.
 */
SLUICE_API void sluice_rtsp_release(sluice_rtsp *rtsp);

/** Bytes that the chain must hold before sluice_rtsp_next() can say anything new; at least 1. */
SLUICE_API size_t sluice_rtsp_need(const sluice_rtsp *rtsp);

/**
 * The status to answer an error of sluice_rtsp_next() with, such as 400, before the connection is
 * closed.
 */
SLUICE_API unsigned sluice_rtsp_error_status(int error);

/** The reason phrase of a status that RTSP or HTTP names; "Unknown" for others. */
SLUICE_API const char *sluice_rtsp_reason(unsigned status);

/** The first header of that name, whatever its case; NULL when there is none. */
SLUICE_API const sluice_http_header *sluice_rtsp_find(const sluice_rtsp_message *message, const char *name);

/** The methods in the message's Public headers: SLUICE_RTSP_... together. */
SLUICE_API unsigned sluice_rtsp_public(const sluice_rtsp_message *message);

/** A Session header. */
typedef struct sluice_rtsp_session {
    sluice_http_text id; /**< Case counts. */
    uint32_t timeout;    /**< Seconds; SLUICE_RTSP_DEFAULT_TIMEOUT where it is not said. */
} sluice_rtsp_session;

/**
 * Reads the Session header. @return 0, -ENOENT (there is none), -EPROTO (malformed; @p ret_session
 * is untouched)
 */
SLUICE_API int sluice_rtsp_read_session(const sluice_rtsp_message *message, sluice_rtsp_session *ret_session);

/** Two numbers, as ports and channels come; -1 for one that is not there. */
typedef struct sluice_rtsp_pair {
    int32_t first;  /**< RTP. */
    int32_t second; /**< RTCP. */
} sluice_rtsp_pair;

/** One alternative of a Transport header. */
typedef struct sluice_rtsp_transport {
    sluice_http_text text; /**< The alternative as it came. */
    /** "RTP/AVP", "RTP/AVPF", "RTP/SAVP"...: without the lower transport. */
    sluice_http_text profile;
    bool tcp;                     /**< Lower transport TCP; else UDP. */
    bool multicast;               /**< Else unicast. */
    bool record;                  /**< mode=record (or receive, as some write); else play. */
    sluice_rtsp_pair interleaved; /**< Channels, 0 to 255. */
    sluice_rtsp_pair client_port; /**< 0 to 65535. */
    sluice_rtsp_pair server_port; /**< 0 to 65535. */
    bool has_ssrc;                /**< ssrc is given. */
    uint32_t ssrc;                /**< Synchronization source. */
} sluice_rtsp_transport;

/**
 * A walk over the alternatives of all Transport headers; all zero at the beginning. The fields are
 * the library's.
 */
typedef struct sluice_rtsp_transport_walk {
    size_t header;         /**< The next header to look at. */
    sluice_http_text rest; /**< What remains of the one before. */
} sluice_rtsp_transport_walk;

/**
 * Steps to the next alternative, in the client's order of preference. Parameters that are not known
 * are stepped over; of a pair "4" the second is -1.
 * @return 1 (an alternative), 0 (there are no more), -EPROTO (this one is malformed; the walk may
 *   go on)
 */
SLUICE_API int sluice_rtsp_next_transport(const sluice_rtsp_message *message, sluice_rtsp_transport_walk *walk,
                                          sluice_rtsp_transport *ret_transport);

/** A Range header in normal play time. */
typedef struct sluice_rtsp_range {
    bool now;      /**< It begins at what is live. */
    int64_t start; /**< Milliseconds; 0 with @c now, and where only the end is given. */
    int64_t end;   /**< Milliseconds; -1 for open. */
} sluice_rtsp_range;

/**
 * Reads the Range header: npt=1.5-, npt=0-7.741, npt=now-, npt=0:01:30-, npt=-20.
 * @return 0, -ENOENT (there is none), -EOPNOTSUPP (clock or SMPTE time: 457), -EPROTO (malformed)
 */
SLUICE_API int sluice_rtsp_read_range(const sluice_rtsp_message *message, sluice_rtsp_range *ret_range);

/**
 * A challenge or credentials: WWW-Authenticate, Authorization. Empty texts where nothing is said.
 */
typedef struct sluice_rtsp_auth {
    sluice_http_text scheme;      /**< "Basic", "Digest": compare without case. */
    sluice_http_text credentials; /**< Basic credentials: base64; see sluice_rtsp_decode_basic(). */
    /** Quotes are taken off all values; backslashes stay as they came. */
    sluice_http_text realm;
    sluice_http_text nonce;     /**< Digest. */
    sluice_http_text opaque;    /**< Digest. */
    sluice_http_text algorithm; /**< Digest: "MD5" where it is empty. */
    sluice_http_text qop;       /**< Digest: of a challenge a list, of credentials one of it. */
    sluice_http_text username;  /**< Digest credentials. */
    sluice_http_text uri;       /**< Digest credentials. */
    sluice_http_text response;  /**< Digest credentials. */
    sluice_http_text cnonce;    /**< Digest credentials. */
    sluice_http_text nc;        /**< Digest credentials. */
    bool stale;                 /**< Digest challenge: only the nonce was too old. */
} sluice_rtsp_auth;

/**
 * Reads one challenge or credentials from a header's value and steps behind it; a value may hold
 * several. A parameter that comes twice is malformed, one that is not known is stepped over.
 * @param rest the header's value, then what is left of it
 * @return 1, 0 (nothing is left), -EPROTO (malformed; what is left is empty)
 */
SLUICE_API int sluice_rtsp_next_auth(sluice_http_text *rest, sluice_rtsp_auth *ret_auth);

/**
 * Decodes Basic credentials.
 * @param buffer     room for @p size bytes: "user:password", not terminated
 * @param ret_length bytes of it
 * @param ret_user   bytes before the first colon
 * @return 0, -EPROTO (not base64, or no colon), -EMSGSIZE (longer than the buffer)
 */
SLUICE_API int sluice_rtsp_decode_basic(sluice_http_text credentials, char *buffer, size_t size, size_t *ret_length,
                                        size_t *ret_user);

/** The parts of a URL; texts of the URL's. */
typedef struct sluice_rtsp_url {
    sluice_http_text scheme; /**< "rtsp", "rtsps", "rtspu"; empty for a relative one. */
    sluice_http_text user;   /**< "user:password", not percent-decoded; empty without. */
    sluice_http_text host;   /**< Name or address; an IPv6 one with its brackets. */
    uint16_t port;           /**< 554 (rtsps: 322) where it is not said. */
    /** From the first "/" to the "?", not percent-decoded; empty where there is none. */
    sluice_http_text path;
    /** Behind the "?"; empty where there is none. FFmpeg and others append "/track" here. */
    sluice_http_text query;
} sluice_rtsp_url;

/**
 * Splits a URL, or a relative one that begins with "/". @return 0, -EPROTO (another scheme, no
 * host, a bad port)
 */
SLUICE_API int sluice_rtsp_split_url(sluice_http_text url, sluice_rtsp_url *ret_url);

/** Text that is being written into memory of the caller's. The fields are the library's. */
typedef struct sluice_rtsp_writer {
    char *buffer;  /**< The caller's. */
    size_t size;   /**< Bytes of it. */
    size_t length; /**< Bytes written. */
    int error;     /**< The first error. */
} sluice_rtsp_writer;

/**
 * Begins a request. What goes wrong with this or a later call is said by sluice_rtsp_write_end(),
 * once.
 * @param size   bytes of @p buffer, which must stay until the text has been sent
 * @param method as "OPTIONS"
 */
SLUICE_API void sluice_rtsp_write_request(sluice_rtsp_writer *writer, char *buffer, size_t size, const char *method,
                                          const char *url, uint32_t cseq);

/**
 * Begins a reply. sluice_rtsp_write_status() does the same with other words than
 * sluice_rtsp_reason() has.
 * @param cseq   the request's; where it had none, -1 writes none
 * @param reason one line, printable
 */
SLUICE_API void sluice_rtsp_write_status(sluice_rtsp_writer *writer, char *buffer, size_t size, unsigned status,
                                         const char *reason, int64_t cseq);

/** Begins a reply with the usual words; as above. */
SLUICE_API void sluice_rtsp_write_reply(sluice_rtsp_writer *writer, char *buffer, size_t size, unsigned status,
                                        int64_t cseq);

/**
 * Writes a header, its value formatted as by printf(3). A value with line ends or other control
 * bytes is refused.
 */
SLUICE_API void sluice_rtsp_write_header(sluice_rtsp_writer *writer, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/**
 * Writes a Transport header with one alternative: only what is set. The profile's text is not
 * looked at: RTP/AVP.
 */
SLUICE_API void sluice_rtsp_write_transport(sluice_rtsp_writer *writer, const sluice_rtsp_transport *transport);

/**
 * Ends the head; the body follows it as it is. Never within an interleaved frame.
 * @param type           Content-Type, or NULL where there is no body; then no Content-Length is
 *                       written
 * @param content_length body, bytes
 * @return the head's bytes, which are not terminated by NUL; -EMSGSIZE (the buffer is too small),
 *         -EINVAL (control bytes, or blanks in method, URL or name); then nothing of it may be sent
 */
SLUICE_API int sluice_rtsp_write_end(sluice_rtsp_writer *writer, const char *type, size_t content_length);

/** Writes the header of an interleaved frame; the packet follows. */
SLUICE_API void sluice_rtsp_write_interleaved(uint8_t buffer[SLUICE_RTSP_INTERLEAVED_SIZE], uint8_t channel,
                                              uint16_t length);

#ifdef __cplusplus
}
#endif

#endif
