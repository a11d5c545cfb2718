/**
 * @file resp.h
 * RESP2 and RESP3 (the protocol of Redis) on a chain: reads replies, writes commands.
 *
 * Source: the Redis serialization protocol specification. Lines end with CRLF only; a line feed
 * inside a line is rejected. The streamed types of RESP3 ("$?", "*?"), which no server sends, are
 * rejected with -EOPNOTSUPP.
 *
 * A reply is not converted into a tree: it stays in its received bytes, and a walk visits its
 * elements in order. No memory is allocated for announced sizes.
 *
 * Threads: the chain's. A walk and its values may be used on any thread while the reply's bytes are
 * held.
 */
#ifndef SLUICE_RESP_H
#define SLUICE_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/chain.h>
#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /** Default maximum length of a bulk string, bytes. */
    SLUICE_RESP_DEFAULT_BULK = 64 << 20,
    /** Default maximum length of a simple string, error or big number, bytes. */
    SLUICE_RESP_DEFAULT_LINE = 64 << 10,
    SLUICE_RESP_DEFAULT_ELEMENTS = 1 << 20, /**< Default maximum number of values in one reply. */
    SLUICE_RESP_DEFAULT_DEPTH = 32,         /**< Default maximum nesting depth of aggregates. */
    SLUICE_RESP_MAX_DEPTH = 256,            /**< Highest depth that can be set. */
    /** Maximum length of a length, count, integer or boolean, bytes without type and CRLF. */
    SLUICE_RESP_MAX_NUMBER = 64,
    /** The same for doubles: modules print long ones without an exponent. */
    SLUICE_RESP_MAX_DOUBLE = 384,
    /** Maximum size of a header written by sluice_resp_write_header(), bytes. */
    SLUICE_RESP_HEADER_SIZE = 23,
};

/** Types, by their first byte. */
typedef enum sluice_resp_type {
    SLUICE_RESP_SIMPLE = '+', /**< Simple string: a line of text. */
    /** A line of text that begins with the kind of the error, such as "ERR". */
    SLUICE_RESP_ERROR = '-',
    SLUICE_RESP_INTEGER = ':', /**< Signed 64 bits. */
    SLUICE_RESP_BULK = '$',    /**< Bulk string: any bytes. */
    SLUICE_RESP_ARRAY = '*',
    SLUICE_RESP_NULL = '_', /**< Also the "$-1" and "*-1" of RESP2. */
    SLUICE_RESP_BOOLEAN = '#',
    SLUICE_RESP_DOUBLE = ',',
    SLUICE_RESP_BIG_NUMBER = '(', /**< Digits with an optional sign, of any length. */
    SLUICE_RESP_BULK_ERROR = '!', /**< An error as a bulk string. */
    SLUICE_RESP_VERBATIM = '=',   /**< A bulk string with a format. */
    SLUICE_RESP_MAP = '%',        /**< Keys and values, alternating. */
    SLUICE_RESP_SET = '~',
    /** Not a reply to a command. The first element is its kind. */
    SLUICE_RESP_PUSH = '>',
    /** Keys and values that describe the following value. */
    SLUICE_RESP_ATTRIBUTE = '|',
} sluice_resp_type;

/**
 * A position among the elements of a reply; a value without resources, which may be copied. The
 * bytes are borrowed from the reply: valid as long as they are held by the framer or by the caller.
 */
typedef struct sluice_resp_walk {
    sluice_slice rest; /**< Private to the library. */
    uint64_t left;     /**< Values still to come in the aggregates entered so far. */
    uint64_t inner;    /**< Private to the library: elements of the last aggregate returned. */
} sluice_resp_walk;

/** One value: a reply, or an element of one. Fields that do not apply to its type are 0. */
typedef struct sluice_resp_value {
    sluice_resp_type type; /**< Determines which of the fields below apply. */
    bool boolean;          /**< SLUICE_RESP_BOOLEAN. */
    char format[4];        /**< SLUICE_RESP_VERBATIM: three characters such as "txt", and NUL. */
    /** Aggregates: number of elements; for maps twice the number of pairs. */
    uint32_t count;
    int64_t integer; /**< SLUICE_RESP_INTEGER. */
    /**
     * SLUICE_RESP_DOUBLE: the nearest double; infinite if out of range or if the server sends
     * infinity.
     */
    double number;
    /**
     * The payload, or the line's text after the type; empty for aggregates and null. Borrowed: do
     * not release or take it; keep it with sluice_resp_keep().
     */
    sluice_slice text;
    /**
     * The attributes before the value (keys and values, alternating); empty if there are none. If
     * several precede the value, only the last.
     */
    sluice_resp_walk attributes;
} sluice_resp_value;

/** A whole reply. */
typedef struct sluice_resp_reply {
    sluice_resp_value value; /**< The reply itself. */
    /** The elements of an aggregate; empty for other types. Copy it before walking. */
    sluice_resp_walk elements;
    /**
     * The reply as received, including attributes and line ends. Owned by the framer and valid
     * until its next call. sluice_slice_take() keeps it, and with it the value, its text and its
     * walks, which may then be copied.
     */
    sluice_slice bytes;
} sluice_resp_reply;

/** Limits of a framer. Zero in any field means its default. */
typedef struct sluice_resp_limits {
    size_t size; /**< sizeof(sluice_resp_limits). */
    /** Maximum length of a bulk string (also error, verbatim), bytes, up to SIZE_MAX / 4. */
    size_t bulk;
    /**
     * Maximum size of a reply, everything included, bytes. Default 128 MiB, or twice @c bulk if
     * that is more.
     */
    size_t reply;
    uint32_t line; /**< Maximum length of a simple string, error or big number, bytes. */
    /** Maximum number of values announced by all aggregates of a reply, up to INT32_MAX. */
    uint32_t elements;
    uint32_t depth; /**< Maximum nesting depth of aggregates, up to SLUICE_RESP_MAX_DEPTH. */
} sluice_resp_limits;

/** A RESP framer: the receiving state of one connection; opaque. */
typedef struct sluice_resp sluice_resp;

/**
 * Makes a framer at the beginning of a stream. The caller owns it.
 * @param limits limits, or NULL for the defaults
 * @return 0, -EINVAL (a limit is out of range), -ENOMEM
 */
SLUICE_API int sluice_resp_new(const sluice_resp_limits *limits, sluice_resp **ret_resp);

/** Frees the framer and releases the last reply's bytes. NULL is allowed. */
SLUICE_API void sluice_resp_free(sluice_resp *resp);

/**
 * Resets the framer for another connection: forgets an error, an open bulk string and the progress
 * of the scan, and releases the last reply's bytes.
 */
SLUICE_API void sluice_resp_reset(sluice_resp *resp);

/**
 * Reads the next reply or push. Nothing is consumed until it is complete. The scan's progress is
 * remembered, so each byte is scanned once, in however many pieces it arrives; the scan restarts if
 * other code consumes from the chain or the call uses another chain. Releases the bytes of the
 * previous reply, unless they were moved out with sluice_slice_take().
 *
 * @param ret_reply the reply; untouched unless 1 is returned. It is stored in the framer and valid
 *                  until the framer's next call. To keep the bytes, take them from this struct, not
 *                  from a copy: the framer must see that they were moved out
 * @return 1 (a reply), 0 (more bytes are needed: see sluice_resp_need()), -EBUSY (a bulk string is
 *         open, and the rest of its body has been neither taken nor skipped; nothing is changed),
 *         or for good: -EPROTO (not RESP, or a push inside a reply), -EOPNOTSUPP (a streamed type),
 *         -EMSGSIZE (over a limit; detected from the announced sizes, before the data is buffered)
 */
SLUICE_API int sluice_resp_next(sluice_resp *resp, sluice_chain *chain, sluice_resp_reply **ret_reply);

/**
 * Number of bytes that the chain must hold before the framer can return another result; at least 1.
 */
SLUICE_API size_t sluice_resp_need(const sluice_resp *resp);

/**
 * Returns the next value. The elements of an aggregate follow it, depth first. To read an
 * aggregate, take as many values as it counts; to skip its elements, call sluice_resp_walk_skip().
 * @return true (a value), false (the end; @p ret_value is untouched)
 */
SLUICE_API bool sluice_resp_walk_next(sluice_resp_walk *walk, sluice_resp_value *ret_value);

/**
 * Skips the elements of the last aggregate returned, including nested ones. No effect after other
 * values.
 */
SLUICE_API void sluice_resp_walk_skip(sluice_resp_walk *walk);

/**
 * Keeps a value's text independently of the reply's bytes, with references of its own. Like
 * sluice_slice_take() it fails if the pool has only its reserve left. Pool owner's thread only.
 * @return 0, or -ENOBUFS (@p ret_kept untouched)
 */
SLUICE_API int sluice_resp_keep(const sluice_resp_value *value, sluice_slice *ret_kept);

/** Whether the value's text is @p text, byte for byte. */
SLUICE_API bool sluice_resp_equals(const sluice_resp_value *value, const char *text);

/**
 * Opens the next reply if it is a bulk string of any length: consumes its header and leaves the
 * body to the caller. The body is taken in pieces with sluice_resp_bulk_take(), or read from the
 * chain or directly from the kernel and reported with sluice_resp_bulk_advance(), or dropped with
 * sluice_resp_bulk_skip(). If it is too long for the caller's memory, skip it; the connection stays
 * usable.
 *
 * Any other reply (a push, null, an error, a bulk string with attributes) is not consumed; read it
 * with sluice_resp_next(). The limits do not apply to the body, unless sluice_resp_next() was
 * called first and has rejected it. Releases the previous reply like sluice_resp_next().
 *
 * @param ret_length size of the body, bytes
 * @return 1 (open), 0 (more bytes are needed), -ENOMSG (another reply), -EBUSY (one is open, see
 *         sluice_resp_next()), or for good: as sluice_resp_next()
 */
SLUICE_API int sluice_resp_bulk_open(sluice_resp *resp, sluice_chain *chain, uint64_t *ret_length);

/** Bytes of the open bulk string's body still to come; 0 if none is open. */
SLUICE_API uint64_t sluice_resp_bulk_left(const sluice_resp *resp);

/**
 * Takes the available bytes of the open body, up to @p max. The caller owns the slice.
 * @return 1 (a slice), 0 (nothing is available, or nothing is left: see sluice_resp_bulk_left()),
 *         -EINVAL (none is open, it is being skipped, or @p max is 0)
 */
SLUICE_API int sluice_resp_bulk_take(sluice_resp *resp, sluice_chain *chain, size_t max, sluice_slice *ret_slice);

/**
 * Reports that the caller has consumed the next @p n bytes of the open body itself.
 * @return 0, -EINVAL (none is open, it is being skipped, or fewer bytes are left; nothing is
 *         changed)
 */
SLUICE_API int sluice_resp_bulk_advance(sluice_resp *resp, uint64_t n);

/**
 * Skips the rest of the open body: later calls drop it as it arrives.
 * @return 0, -EINVAL (none is open)
 */
SLUICE_API int sluice_resp_bulk_skip(sluice_resp *resp);

/**
 * Finishes the open bulk string: drops skipped bytes and checks the CRLF. sluice_resp_next() and
 * sluice_resp_bulk_open() do this first; call it to verify the end before using the bytes.
 * @return 1 (finished, or none was open), 0 (more bytes are needed), -EBUSY (the body was neither
 *         taken nor skipped; nothing is changed), or for good: -EPROTO (no CRLF)
 */
SLUICE_API int sluice_resp_bulk_close(sluice_resp *resp, sluice_chain *chain);

/** One argument of a command; the caller owns the bytes. */
typedef struct sluice_resp_arg {
    const void *data; /**< May be NULL if @c length is 0. */
    size_t length;    /**< Bytes. */
} sluice_resp_arg;

/**
 * Size of the command written by sluice_resp_write_command(), bytes; SIZE_MAX if it is too large.
 */
SLUICE_API size_t sluice_resp_command_size(const sluice_resp_arg *args, size_t count);

/**
 * Writes a command: an array of bulk strings. The first argument is its name.
 * @param ret_length bytes written
 * @return 0, -EINVAL (no argument), -EMSGSIZE (@p size is too small; nothing is written)
 */
SLUICE_API int sluice_resp_write_command(void *buffer, size_t size, const sluice_resp_arg *args, size_t count,
                                         size_t *ret_length);

/** Size written by sluice_resp_write_command_header(), bytes; SIZE_MAX if it is too large. */
SLUICE_API size_t sluice_resp_command_header_size(const sluice_resp_arg *args, size_t count, uint64_t payload);

/**
 * Writes a command without the bytes of its last argument, which the caller sends by reference,
 * followed by CRLF. For SET with a key of 3 bytes and a value of 1000 bytes: `*3 CRLF $3 CRLF SET
 * CRLF $3 CRLF key CRLF $1000 CRLF`.
 * @param args       the arguments before the last
 * @param payload    size of the last argument, bytes
 * @param ret_length bytes written
 * @return 0, -EINVAL (no argument before the last), -EMSGSIZE (@p size is too small; nothing is
 *         written)
 */
SLUICE_API int sluice_resp_write_command_header(void *buffer, size_t size, const sluice_resp_arg *args, size_t count,
                                                uint64_t payload, size_t *ret_length);

/**
 * Writes one header line, such as "*3" or "$1000" with CRLF: for commands with several arguments
 * sent by reference.
 * @param n number of elements, or size of the body in bytes
 * @return bytes written
 */
SLUICE_API size_t sluice_resp_write_header(char buffer[SLUICE_RESP_HEADER_SIZE], sluice_resp_type type, uint64_t n);

#ifdef __cplusplus
}
#endif

#endif
