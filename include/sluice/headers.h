/**
 * @file headers.h
 * A block of "key: value" lines that ends with an empty line, as in MIME, HTTP and RTSP.
 *
 * A line ends with CRLF or LF. A key is a token of RFC 9110, immediately followed by a colon. A
 * value contains no control characters except tabs; surrounding blanks are not part of it. Folded
 * lines (lines that begin with a blank) are rejected, as RFC 9112, section 5.2, permits.
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
    uint32_t max_count; /**< Maximum number of lines: 1 to 10,000. Default 100. */
    uint32_t max_key;   /**< Maximum length of a key, bytes. Default 256. */
    uint32_t max_value; /**< Maximum length of a value, bytes. Default 8192. */
    /**
     * Maximum size of the block including line ends and the empty line, bytes: 1 to 1,048,576.
     * Default 8192.
     */
    uint32_t max_total;
} sluice_headers_options;

/** One line. The texts are not NUL-terminated. */
typedef struct sluice_header {
    const char *key;     /**< As received. */
    size_t key_length;   /**< Bytes. */
    const char *value;   /**< Without surrounding blanks. */
    size_t value_length; /**< Bytes. */
} sluice_header;

/** A header block; opaque. */
typedef struct sluice_headers sluice_headers;

/**
 * Makes an empty block, with memory for all its lines.
 * @param options limits, or NULL for the defaults
 * @return 0, -EINVAL (a limit is out of range), -ENOMEM
 */
SLUICE_API int sluice_headers_new(const sluice_headers_options *options, sluice_headers **ret_headers);

/** Frees the block; its texts become invalid. NULL is allowed. */
SLUICE_API void sluice_headers_free(sluice_headers *headers);

/**
 * Reads a block and consumes it with its empty line. Nothing is consumed until the block is
 * complete, and the search for its end scans each byte once. The texts stay valid until the next
 * call that reads, clears or frees this header block. If its bytes lie in one block of memory, they
 * are used in place and that block is held; otherwise they are copied and added to the pool's
 * bytes_copied.
 * @return 0, -EPROTO (a line is malformed or folded), -EMSGSIZE (a limit is exceeded; for the
 *         number of lines and the total size, this is reported before the rest has arrived),
 *         -ENOMEM, -EAGAIN (more bytes are needed) or another error of the reader's source; on
 *         failure the block is empty and nothing is consumed
 */
SLUICE_API int sluice_headers_read(sluice_headers *headers, sluice_reader *reader);

/**
 * Makes the block empty, releases the memory block that it holds, and forgets the progress of a
 * read that returned -EAGAIN. Call it before reading from another stream: the chain of that stream
 * may have the same address as the previous one.
 */
SLUICE_API void sluice_headers_clear(sluice_headers *headers);

/** Number of lines. */
SLUICE_API size_t sluice_headers_count(const sluice_headers *headers);

/** The line at @p index, in order of arrival; NULL beyond the last. */
SLUICE_API const sluice_header *sluice_headers_at(const sluice_headers *headers, size_t index);

/** The first line with this key, compared without regard to ASCII case; NULL if there is none. */
SLUICE_API const sluice_header *sluice_headers_find(const sluice_headers *headers, const char *key);

#ifdef __cplusplus
}
#endif

#endif
