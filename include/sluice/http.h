/**
 * @file http.h
 * HTTP/1.x requests and responses on a chain: heads and bodies.
 *
 * Source: RFC 9110 and RFC 9112. Strict where leniency has been used for request smuggling: a
 * message with both Transfer-Encoding and Content-Length, a bare LF, a space before a colon, a
 * folded header line, a bad chunk size is refused.
 *
 * A server reads requests with sluice_http_next(), a client reads responses with
 * sluice_http_next_response(). Both then read the body with sluice_http_body_next(), piece by piece
 * as it comes.
 *
 * Threads: the chain's.
 */
#ifndef SLUICE_HTTP_H
#define SLUICE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/chain.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /** Longest head: start line, headers and the empty line, bytes. */
    SLUICE_HTTP_MAX_HEAD = 8192,
    SLUICE_HTTP_MAX_METHOD = 64,   /**< Longest method, bytes. */
    SLUICE_HTTP_MAX_TARGET = 2048, /**< Longest request target, bytes. */
    SLUICE_HTTP_MAX_HEADERS = 100, /**< Most header lines. */
    /** Longest chunk size line with its extensions and CRLF, bytes. */
    SLUICE_HTTP_MAX_CHUNK_LINE = 256,
};

/** Text inside a head: not terminated by NUL. */
typedef struct sluice_http_text {
    const char *text; /**< The first character. */
    size_t length;    /**< Bytes. */
} sluice_http_text;

/** One header line. */
typedef struct sluice_http_header {
    sluice_http_text name;  /**< As it came. */
    sluice_http_text value; /**< Without the space around it. */
} sluice_http_header;

/** How a body is delimited (RFC 9112, section 6.3). */
typedef enum sluice_http_body_kind {
    /**
     * A request without Content-Length and Transfer-Encoding, or a response that has no body by its
     * status or its request.
     */
    SLUICE_HTTP_BODY_NONE,
    SLUICE_HTTP_BODY_LENGTH,  /**< Content-Length. */
    SLUICE_HTTP_BODY_CHUNKED, /**< Transfer-Encoding: chunked. */
    /**
     * Until the peer closes: a response without Content-Length and Transfer-Encoding; a request by
     * sluice_http_body_begin() only.
     */
    SLUICE_HTTP_BODY_UNTIL_CLOSE,
} sluice_http_body_kind;

/** A request's head. The texts are the framer's: valid until its next call. */
typedef struct sluice_http_request {
    sluice_http_text method; /**< As it came: case counts. */
    /**
     * As it came: origin form, absolute form (whose authority counts, not Host), "*" for OPTIONS,
     * or for CONNECT host and port.
     */
    sluice_http_text target;
    /**
     * The target up to "?", without scheme and authority; not percent-decoded. Empty only for
     * CONNECT.
     */
    sluice_http_text path;
    sluice_http_text query; /**< Behind the "?", or empty. */
    uint8_t minor_version;  /**< 0 for HTTP/1.0, 1 for HTTP/1.1. */
    bool keep_alive;        /**< The connection may carry a further request. */
    /** The client waits for "100 Continue" before it sends the body. */
    bool expect_continue;
    sluice_http_body_kind body;        /**< What follows the head. */
    uint64_t content_length;           /**< For SLUICE_HTTP_BODY_LENGTH. */
    const sluice_http_header *headers; /**< In order. */
    size_t header_count;               /**< Headers. */
} sluice_http_request;

/** A response's head. The texts are the framer's: valid until its next call. */
typedef struct sluice_http_response {
    /**
     * 100 to 999. An unknown one stands for the x00 of its class, and from 600 on for 500 (RFC
     * 9110, section 15).
     */
    uint16_t status;
    /** Behind the status, or empty: any bytes but CR, LF and NUL, for people alone. */
    sluice_http_text reason;
    uint8_t minor_version; /**< 0 for HTTP/1.0, 1 for HTTP/1.1. */
    /** 1xx but not 101: the response to the same request is still to come. */
    bool interim;
    /** 101, or 2xx to CONNECT: what follows the head is another protocol's. */
    bool switched;
    /** The connection may carry a further response, behind the body. */
    bool keep_alive;
    sluice_http_body_kind body;        /**< What follows the head. */
    uint64_t content_length;           /**< For SLUICE_HTTP_BODY_LENGTH, bytes. */
    const sluice_http_header *headers; /**< In order. */
    size_t header_count;               /**< Headers. */
} sluice_http_response;

/**
 * A framer for heads, of either requests or responses: the state of one connection's receiving
 * side; opaque.
 */
typedef struct sluice_http sluice_http;

/** Makes a framer. The caller owns it. @return 0, -ENOMEM */
SLUICE_API int sluice_http_new(sluice_http **ret_http);

/** Frees the framer. NULL is allowed. */
SLUICE_API void sluice_http_free(sluice_http *http);

/**
 * Takes the next request's head out of the chain. Nothing is consumed until the head is whole; the
 * search for its end goes over each byte once. Up to two empty lines before a head are stepped
 * over. What cannot become a request, such as a first byte that begins no method, is refused before
 * the rest has come, and stays in the chain.
 *
 * A head that lies in one block is read in place, and the framer holds that block until its next
 * call (which may as well find the chain empty). One that straddles blocks is copied into the
 * framer (text, not payload).
 *
 * @param ret_request the request; untouched unless 1 is returned
 * @return 1 (a head), 0 (more bytes are needed), or for good: -EPROTO (malformed), -EMSGSIZE (over
 *         a limit of head, headers), -ENAMETOOLONG (the target is too long), -EPROTONOSUPPORT (an
 *         HTTP version other than 1.0 and 1.1), -EOPNOTSUPP (a transfer coding other than chunked)
 */
SLUICE_API int sluice_http_next(sluice_http *http, sluice_chain *chain, sluice_http_request *ret_request);

/**
 * Takes the next response's head out of the chain, as sluice_http_next() does for requests: nothing
 * is consumed until the head is complete, each byte is searched once, and bytes that cannot become
 * a response are refused before the rest arrives, and stay in the chain. The texts have the same
 * lifetime. Empty lines before a head are refused.
 *
 * Interim responses may precede the response to a request. Each is returned; call again until one
 * is not interim. The caller limits their number and time.
 *
 * The body's kind follows RFC 9112, section 6.3: none for 1xx, 204 and 304, for any response to
 * HEAD, and for 2xx to CONNECT, whatever the headers say; else chunked, by length, or until close.
 * @param method       of the request that is answered, for which "HEAD" and "CONNECT" matter; NULL:
 *                     another one
 * @param ret_response the response; untouched unless 1 is returned
 * @return 1 (a head), 0 (more bytes are needed), or for good: -EPROTO (malformed), -EMSGSIZE (over
 *         a limit of head, headers), -EPROTONOSUPPORT (an HTTP version other than 1.0 and 1.1),
 *         -EOPNOTSUPP (a transfer coding other than chunked)
 */
SLUICE_API int sluice_http_next_response(sluice_http *http, sluice_chain *chain, const char *method,
                                         sluice_http_response *ret_response);

/**
 * Gives back the block in which the last head was read in place; that head's texts are no longer
 * valid. For connections that go on for long after their head; the next sluice_http_next() or
 * sluice_http_next_response() does it too.
 */
SLUICE_API void sluice_http_release(sluice_http *http);

/**
 * The HTTP status to answer an error of sluice_http_next() with, such as 400. For one of
 * sluice_http_body_next() there is sluice_http_body_error_status(): the same error is about
 * something else there.
 */
SLUICE_API unsigned sluice_http_error_status(int error);

/** The first header of that name, whatever its case; NULL when there is none. */
SLUICE_API const sluice_http_header *sluice_http_find(const sluice_http_request *request, const char *name);

/** The same of a response. */
SLUICE_API const sluice_http_header *sluice_http_response_find(const sluice_http_response *response, const char *name);

/** Where a body is; a value without resources. The fields are the library's. */
typedef struct sluice_http_body {
    sluice_http_body_kind kind; /**< How it ends. */
    uint8_t state;              /**< Of the chunk reader. */
    /** Bytes of the chunk's size line, or of the trailer, that have come. */
    uint32_t line;
    uint64_t left;  /**< Bytes of the body or chunk still to come. */
    uint64_t total; /**< Bytes delivered. */
    int error;      /**< The error that is for good. */
} sluice_http_body;

/**
 * Begins to read a request's body.
 * @param until_close take a body that the request does not delimit (SLUICE_HTTP_BODY_NONE) to last
 *                    until the peer closes, as encoders that publish with "POST" and HTTP/1.0
 *                    manners do; for routes that expect it
 */
SLUICE_API void sluice_http_body_begin(sluice_http_body *body, const sluice_http_request *request, bool until_close);

/** Begins to read a response's body. */
SLUICE_API void sluice_http_body_begin_response(sluice_http_body *body, const sluice_http_response *response);

/**
 * Moves what is there of the body to the end of another chain, by reference; payload is not copied.
 * Chunk lines and trailers are checked and dropped. Behind the body's end the chain is left alone.
 * @return 1 (the body is complete), 0 (more is to come), or for good: -EPROTO (bad chunking),
 *         -EMSGSIZE (chunks so small that their bookkeeping would outweigh the data, or too long a
 *         size line or trailer), -ENOBUFS (too many views in use), -ENOMEM
 */
SLUICE_API int sluice_http_body_next(sluice_http_body *body, sluice_chain *chain, sluice_chain *to);

/**
 * The HTTP status to answer the error with that sluice_http_body_next() has returned for a request:
 * 413 for what is too long of a body, but 431 for too long a trailer, whose lines are fields like a
 * header's; 400 for a malformed one, 503 where memory or views have run out.
 */
SLUICE_API unsigned sluice_http_body_error_status(const sluice_http_body *body);

/**
 * What the peer's close means for the body.
 * @return 0 (it was complete, or lasts until close), -ECONNRESET (cut short)
 */
SLUICE_API int sluice_http_body_end(const sluice_http_body *body);

#ifdef __cplusplus
}
#endif

#endif
