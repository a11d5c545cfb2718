/**
 * @file headers.h
 * A block of "key: value" lines up to an empty line, as MIME, HTTP and RTSP have it.
 *
 * A line ends with CRLF or LF. A key is a token of RFC 9110, followed by its colon at once; a value
 * has no control bytes but tabs, and the blanks around it are not part of it. A folded line (one
 * that begins with a blank) is refused, as RFC 9112, section 5.2, lets a recipient do.
 *
 * Threads: the reader's.
 */
#ifndef SLUICE_HEADERS_H
#define SLUICE_HEADERS_H

#include <stddef.h>
#include <stdint.h>

#include <sluice/reader.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Limits of a header block. Zero in any field means its default. */
typedef struct sluice_headers_options {
    size_t size;        /**< sizeof(sluice_headers_options). */
    uint32_t max_count; /**< Most lines: 1 to 10,000. Default 100. */
    uint32_t max_key;   /**< Longest key, bytes. Default 256. */
    uint32_t max_value; /**< Longest value, bytes. Default 8192. */
    /**
     * The whole block with its line ends and the empty line, bytes: 1 to 1,048,576. Default 8192.
     */
    uint32_t max_total;
} sluice_headers_options;

/** One line. The texts are not terminated by NUL. */
typedef struct sluice_header {
    const char *key;     /**< As it came. */
    size_t key_length;   /**< Bytes. */
    const char *value;   /**< Without the blanks around it. */
    size_t value_length; /**< Bytes. */
} sluice_header;

/** A header block; opaque. */
typedef struct sluice_headers sluice_headers;

/**
 * Makes an empty block, with room for all its lines.
 * @param options limits, or NULL for the defaults
 * @return 0, -EINVAL (a limit out of range), -ENOMEM
 */
SLUICE_API int sluice_headers_new(const sluice_headers_options *options, sluice_headers **ret_headers);

/** Frees the block; its texts are no longer valid. NULL is allowed. */
SLUICE_API void sluice_headers_free(sluice_headers *headers);

/**
 * Reads a block and consumes it with its empty line. Until it is whole nothing is consumed, and the
 * search for its end goes over each byte once. The texts stay valid until the next call for this
 * block that reads, clears or frees it: where the block's bytes lie in one block of memory they are
 * read in place and that block is held; else they are copied, and counted in the pool's
 * bytes_copied.
 * @return 0, -EPROTO (a line is malformed or folded), -EMSGSIZE (a limit: said before the rest has
 *         come where count or total is exceeded), -ENOMEM, -EAGAIN (more bytes are needed) or what
 *         else the reader's source says; on failure the block is empty and nothing is consumed
 */
SLUICE_API int sluice_headers_read(sluice_headers *headers, sluice_reader *reader);

/**
 * Makes the block empty, gives back the block of memory that it holds, and forgets how far a read
 * that said -EAGAIN had come: to be called before a read from another stream, whose chain may lie
 * where that of the last one was.
 */
SLUICE_API void sluice_headers_clear(sluice_headers *headers);

/** Lines in the block. */
SLUICE_API size_t sluice_headers_count(const sluice_headers *headers);

/** The line at @p index, in the order in which they came; NULL beyond the last. */
SLUICE_API const sluice_header *sluice_headers_at(const sluice_headers *headers, size_t index);

/** The first line with that key, whatever its case (of ASCII letters); NULL when there is none. */
SLUICE_API const sluice_header *sluice_headers_find(const sluice_headers *headers, const char *key);

#ifdef __cplusplus
}
#endif

#endif
