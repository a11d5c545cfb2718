/**
 * @file http.h
 * HTTP/1.x requests and responses on a chain: heads and bodies.
 *
 * Source: RFC 9110 and RFC 9112. Strict where lenient parsers have allowed request smuggling:
 * messages with both Transfer-Encoding and Content-Length, a bare LF, a space before a colon, a
 * folded header line or an invalid chunk size are rejected.
 *
 * A server reads requests with sluice_http_next(), a client reads responses with
 * sluice_http_next_response(). Both then read the body with sluice_http_body_next(), piece by piece
 * as it arrives.
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
    /** Maximum size of a head (start line, headers and the empty line), bytes. */
    SLUICE_HTTP_MAX_HEAD = 8192,
    SLUICE_HTTP_MAX_METHOD = 64,   /**< Maximum length of a method, bytes. */
    SLUICE_HTTP_MAX_TARGET = 2048, /**< Maximum length of a request target, bytes. */
    SLUICE_HTTP_MAX_HEADERS = 100, /**< Maximum number of header lines. */
    /** Maximum length of a chunk size line with extensions and CRLF, bytes. */
    SLUICE_HTTP_MAX_CHUNK_LINE = 256,
};

/** Text inside a head: not NUL-terminated. */
typedef struct sluice_http_text {
    const char *text; /**< The first character. */
    size_t length;    /**< Bytes. */
} sluice_http_text;

/** One header line. */
typedef struct sluice_http_header {
    sluice_http_text name;  /**< As received. */
    sluice_http_text value; /**< Without surrounding blanks. */
} sluice_http_header;

/** How a body is delimited (RFC 9112, section 6.3). */
typedef enum sluice_http_body_kind {
    /**
     * A request without Content-Length and Transfer-Encoding, or a response that has no body
     * because of its status or its request.
     */
    SLUICE_HTTP_BODY_NONE,
    SLUICE_HTTP_BODY_LENGTH,  /**< Content-Length. */
    SLUICE_HTTP_BODY_CHUNKED, /**< Transfer-Encoding: chunked. */
    /**
     * Ends when the peer closes: a response without Content-Length and Transfer-Encoding; for a
     * request only with sluice_http_body_begin().
     */
    SLUICE_HTTP_BODY_UNTIL_CLOSE,
} sluice_http_body_kind;

/** Head of a request. The texts are owned by the framer: valid until its next call. */
typedef struct sluice_http_request {
    sluice_http_text method; /**< As received; case-sensitive. */
    /**
     * As received: origin form, absolute form (its authority applies instead of Host), "*" for
     * OPTIONS, or host and port for CONNECT.
     */
    sluice_http_text target;
    /**
     * The target up to "?", without scheme and authority; not percent-decoded. Empty only for
     * CONNECT.
     */
    sluice_http_text path;
    sluice_http_text query; /**< After the "?", or empty. */
    uint8_t minor_version;  /**< 0 for HTTP/1.0, 1 for HTTP/1.1. */
    bool keep_alive;        /**< The connection may be used for another request. */
    /** The client waits for "100 Continue" before it sends the body. */
    bool expect_continue;
    sluice_http_body_kind body;        /**< How the body is delimited. */
    uint64_t content_length;           /**< For SLUICE_HTTP_BODY_LENGTH. */
    const sluice_http_header *headers; /**< In order. */
    size_t header_count;               /**< Number of headers. */
} sluice_http_request;

/** Head of a response. The texts are owned by the framer: valid until its next call. */
typedef struct sluice_http_response {
    /**
     * 100 to 999. Treat an unknown status as the x00 of its class, and 600 and above as 500 (RFC
     * 9110, section 15).
     */
    uint16_t status;
    /** Reason phrase, or empty: any bytes except CR, LF and NUL; for human readers only. */
    sluice_http_text reason;
    uint8_t minor_version; /**< 0 for HTTP/1.0, 1 for HTTP/1.1. */
    /** 1xx except 101: the final response to the same request follows. */
    bool interim;
    /** 101, or 2xx to CONNECT: the bytes after the head belong to another protocol. */
    bool switched;
    /** The connection may be used for another response, after the body. */
    bool keep_alive;
    sluice_http_body_kind body;        /**< How the body is delimited. */
    uint64_t content_length;           /**< For SLUICE_HTTP_BODY_LENGTH, bytes. */
    const sluice_http_header *headers; /**< In order. */
    size_t header_count;               /**< Number of headers. */
} sluice_http_response;

/**
 * A framer for heads, of either requests or responses: the receiving state of one connection;
 * opaque.
 */
typedef struct sluice_http sluice_http;

/** Makes a framer. The caller owns it. @return 0, -ENOMEM */
SLUICE_API int sluice_http_new(sluice_http **ret_http);

/** Frees the framer. NULL is allowed. */
SLUICE_API void sluice_http_free(sluice_http *http);

/**
 * Reads the next request's head. Nothing is consumed until the head is complete; the search for its
 * end scans each byte once. Up to two empty lines before a head are skipped. Bytes that cannot
 * become a request, such as a first byte that starts no method, are rejected before the rest
 * arrives, and stay in the chain.
 *
 * A head within one block is read in place; the framer then holds that block until its next call,
 * which may find the chain empty. A head that spans blocks is copied into memory of the framer
 * (text, not payload). That memory, and the headers', is allocated for each head and freed with it.
 *
 * @param ret_request the request; untouched unless 1 is returned
 * @return 1 (a head), 0 (more bytes are needed), or for good: -EPROTO (malformed), -EMSGSIZE (a
 *         limit of the head or of the headers is exceeded), -ENAMETOOLONG (the target is too long),
 *         -EPROTONOSUPPORT (an HTTP version other than 1.0 and 1.1), -EOPNOTSUPP (a transfer coding
 *         other than chunked), -ENOMEM
 */
SLUICE_API int sluice_http_next(sluice_http *http, sluice_chain *chain, sluice_http_request *ret_request);

/**
 * Reads the next response's head, as sluice_http_next() does for requests: nothing is consumed
 * until the head is complete, each byte is scanned once, and bytes that cannot become a response
 * are rejected before the rest arrives and stay in the chain. The texts have the same lifetime.
 * Empty lines before a head are rejected.
 *
 * Interim responses may precede the final response to a request. Each is returned; call again until
 * one is not interim. The caller limits their number and time.
 *
 * The body's kind follows RFC 9112, section 6.3: none for 1xx, 204 and 304, for any response to
 * HEAD, and for 2xx to CONNECT, whatever the headers say; otherwise chunked, by length, or until
 * close.
 * @param method       method of the request, of which "HEAD" and "CONNECT" matter; NULL: any other
 * @param ret_response the response; untouched unless 1 is returned
 * @return 1 (a head), 0 (more bytes are needed), or for good: -EPROTO (malformed), -EMSGSIZE (a
 *         limit of the head or of the headers is exceeded), -EPROTONOSUPPORT (an HTTP version other
 *         than 1.0 and 1.1), -EOPNOTSUPP (a transfer coding other than chunked), -ENOMEM
 */
SLUICE_API int sluice_http_next_response(sluice_http *http, sluice_chain *chain, const char *method,
                                         sluice_http_response *ret_response);

/**
 * Releases the block in which the last head was read in place, or the memory that it was copied to,
 * and its headers': that head's texts and headers become invalid.
 * Use it on connections that last long after their head; the next sluice_http_next() or
 * sluice_http_next_response() also does it.
 */
SLUICE_API void sluice_http_release(sluice_http *http);

/**
 * The HTTP status for an error of sluice_http_next(), such as 400. For errors of
 * sluice_http_body_next() use sluice_http_body_error_status(): the same codes have other causes
 * there.
 */
SLUICE_API unsigned sluice_http_error_status(int error);

/** The first header with this name, compared without regard to case; NULL if there is none. */
SLUICE_API const sluice_http_header *sluice_http_find(const sluice_http_request *request, const char *name);

/** The same for a response. */
SLUICE_API const sluice_http_header *sluice_http_response_find(const sluice_http_response *response, const char *name);

/** Progress within a body; a value without resources. Fields are private to the library. */
typedef struct sluice_http_body {
    sluice_http_body_kind kind; /**< How it is delimited. */
    uint8_t state;              /**< State of the chunk parser. */
    /** Bytes received of the chunk size line or the trailer. */
    uint32_t line;
    uint64_t left;  /**< Bytes of the body or chunk still to arrive. */
    uint64_t total; /**< Bytes delivered. */
    int error;      /**< The final error. */
} sluice_http_body;

/**
 * Starts to read a request's body.
 * @param until_close treat a body that the request does not delimit (SLUICE_HTTP_BODY_NONE) as
 *                    lasting until the peer closes, as encoders do that publish with POST in the
 *                    style of HTTP/1.0; only for routes that expect it
 */
SLUICE_API void sluice_http_body_begin(sluice_http_body *body, const sluice_http_request *request, bool until_close);

/** Starts to read a response's body. */
SLUICE_API void sluice_http_body_begin_response(sluice_http_body *body, const sluice_http_response *response);

/**
 * Moves the available bytes of the body to the end of another chain, by reference; payload is not
 * copied. Chunk size lines and trailers are checked and dropped. Bytes after the body stay in the
 * chain.
 * @return 1 (the body is complete), 0 (more is to come), or for good: -EPROTO (invalid chunking),
 *         -EMSGSIZE (chunks so small that their bookkeeping exceeds the data, or a size line or
 *         trailer that is too long), -ENOBUFS (too many views in use), -ENOMEM
 */
SLUICE_API int sluice_http_body_next(sluice_http_body *body, sluice_chain *chain, sluice_chain *to);

/**
 * The HTTP status for an error of sluice_http_body_next() on a request: 413 for a part of the body
 * that is too long, 431 for a trailer that is too long (its lines are header fields), 400 for
 * malformed chunking, 503 if memory or views have run out.
 */
SLUICE_API unsigned sluice_http_body_error_status(const sluice_http_body *body);

/**
 * Evaluates the end of the connection for the body.
 * @return 0 (the body was complete, or lasts until close), -ECONNRESET (truncated)
 */
SLUICE_API int sluice_http_body_end(const sluice_http_body *body);

#ifdef __cplusplus
}
#endif

#endif
