/**
 * @file resp.h
 * RESP2 and RESP3 (the protocol of Redis) on a chain: replies in, commands out.
 *
 * Source: the Redis serialization protocol specification. Line ends are CRLF, nothing else; a line
 * feed inside a line is refused. The streamed types of RESP3 ("$?", "*?"), which no server sends,
 * are refused with -EOPNOTSUPP.
 *
 * A reply is not made into a tree: it stays the bytes that came, and a walk goes over its elements
 * in their order. Nothing is allocated for what a peer announces.
 *
 * Threads: the chain's. A walk and its values may be used on any thread while the bytes they lie in
 * are held.
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
    /** Longest bulk string unless told otherwise, bytes. */
    SLUICE_RESP_DEFAULT_BULK = 64 << 20,
    /** Longest simple string, error or big number likewise, bytes. */
    SLUICE_RESP_DEFAULT_LINE = 64 << 10,
    SLUICE_RESP_DEFAULT_ELEMENTS = 1 << 20, /**< Most values in one reply likewise. */
    SLUICE_RESP_DEFAULT_DEPTH = 32,         /**< Most aggregates inside each other likewise. */
    SLUICE_RESP_MAX_DEPTH = 256,            /**< What the depth can be set to. */
    /** Longest length, count, integer or boolean, bytes without type, CRLF. */
    SLUICE_RESP_MAX_NUMBER = 64,
    /** The same for doubles: modules print long ones without exponent. */
    SLUICE_RESP_MAX_DOUBLE = 384,
    /** What sluice_resp_write_header() writes at most, bytes. */
    SLUICE_RESP_HEADER_SIZE = 23,
};

/** Types, by the byte that begins them. */
typedef enum sluice_resp_type {
    SLUICE_RESP_SIMPLE = '+', /**< Simple string: a line of text. */
    /** A line of text that begins with the error's kind, such as "ERR". */
    SLUICE_RESP_ERROR = '-',
    SLUICE_RESP_INTEGER = ':', /**< 64 bit, signed. */
    SLUICE_RESP_BULK = '$',    /**< Bulk string: any bytes. */
    SLUICE_RESP_ARRAY = '*',
    SLUICE_RESP_NULL = '_', /**< Also the "$-1" and "*-1" of RESP2. */
    SLUICE_RESP_BOOLEAN = '#',
    SLUICE_RESP_DOUBLE = ',',
    SLUICE_RESP_BIG_NUMBER = '(', /**< Digits, perhaps behind a sign, of any length. */
    SLUICE_RESP_BULK_ERROR = '!', /**< An error as a bulk string. */
    SLUICE_RESP_VERBATIM = '=',   /**< A bulk string that says its format. */
    SLUICE_RESP_MAP = '%',        /**< Keys and values by turns. */
    SLUICE_RESP_SET = '~',
    /** Out of turn: the answer to no command. The first element says its kind. */
    SLUICE_RESP_PUSH = '>',
    /** Keys and values about the value behind it, to which it is attached. */
    SLUICE_RESP_ATTRIBUTE = '|',
} sluice_resp_type;

/**
 * A place among the elements of a reply; a value without resources, which may be copied. The bytes
 * are borrowed from the reply's: valid as long as these are held, by the framer or by whoever has
 * kept them.
 */
typedef struct sluice_resp_walk {
    sluice_slice rest; /**< The library's. */
    uint64_t left;     /**< Values still to come, as far as their aggregates have been entered. */
    uint64_t inner;    /**< The library's: elements of the aggregate that was given last. */
} sluice_resp_walk;

/** One value: a reply, or an element of one. The fields that its type does not speak of are 0. */
typedef struct sluice_resp_value {
    sluice_resp_type type; /**< Says which of the fields below count. */
    bool boolean;          /**< SLUICE_RESP_BOOLEAN. */
    char format[4];        /**< SLUICE_RESP_VERBATIM: three characters such as "txt", and NUL. */
    /** Aggregates: elements; of maps the keys and the values, that is twice their pairs. */
    uint32_t count;
    int64_t integer; /**< SLUICE_RESP_INTEGER. */
    /** SLUICE_RESP_DOUBLE: the nearest one; infinite beyond the range, or where it says so. */
    double number;
    /**
     * The payload, or the line's text behind the type; empty for aggregates and null. Borrowed:
     * never to be released or kept itself; sluice_resp_keep() does that.
     */
    sluice_slice text;
    /**
     * Over the attributes before the value (keys and values by turns); empty without. Of several
     * only the last.
     */
    sluice_resp_walk attributes;
} sluice_resp_value;

/** A whole reply. */
typedef struct sluice_resp_reply {
    sluice_resp_value value; /**< The reply itself. */
    /** Over an aggregate's elements; empty for others. Copy it, then walk. */
    sluice_resp_walk elements;
    /**
     * The reply as it came, attributes and line ends included. The framer's: valid until its next
     * call; sluice_slice_take() to hold it, and with it the value, its text and its walks, of which
     * copies may be made.
     */
    sluice_slice bytes;
} sluice_resp_reply;

/** What a framer accepts. Zero in any field means its default. */
typedef struct sluice_resp_limits {
    size_t size; /**< sizeof(sluice_resp_limits). */
    size_t bulk; /**< Longest bulk string (also error, verbatim) in bytes, up to SIZE_MAX / 4. */
    /**
     * Longest reply in bytes, all included. Default 128 MiB, or twice @c bulk where that is more.
     */
    size_t reply;
    uint32_t line; /**< Longest simple string, error or big number in bytes. */
    /** Most values that a reply's aggregates announce together, up to INT32_MAX. */
    uint32_t elements;
    uint32_t depth; /**< Most aggregates inside each other, up to SLUICE_RESP_MAX_DEPTH. */
} sluice_resp_limits;

/** A RESP framer: the state of one connection's replies; opaque. */
typedef struct sluice_resp sluice_resp;

/**
 * Makes a framer at the beginning of a stream. The caller owns it.
 * @param limits what to accept, or NULL for the defaults
 * @return 0, -EINVAL (a limit out of range), -ENOMEM
 */
SLUICE_API int sluice_resp_new(const sluice_resp_limits *limits, sluice_resp **ret_resp);

/** Frees the framer and releases the last reply's bytes. NULL is allowed. */
SLUICE_API void sluice_resp_free(sluice_resp *resp);

/**
 * Makes the framer as new, for the replies of another connection: forgets an error, an open bulk
 * string, and how far the chain has been looked through; releases the last reply's bytes.
 */
SLUICE_API void sluice_resp_reset(sluice_resp *resp);

/**
 * Takes the next reply, or push, out of the chain. Nothing is consumed until it is whole. How far
 * it has been looked through is remembered, so each byte is looked at once, in however many pieces
 * it comes; bytes that somebody else takes out of the chain meanwhile make the search begin again,
 * and so does another chain. Releases the bytes of the reply before, unless they were moved out
 * with sluice_slice_take().
 *
 * @param ret_reply the reply; untouched unless 1 is returned. It lies in the framer, valid until
 *                  the framer's next call, and the framer sees whether its bytes were moved out:
 *                  keep those of this reply, never of a copy.
 * @return 1 (a reply), 0 (more bytes are needed: see sluice_resp_need()), -EBUSY (a bulk string is
 *         open, of which nobody has said what becomes of the rest; nothing is changed), or for
 *         good: -EPROTO (not RESP; a push inside a reply), -EOPNOTSUPP (a streamed type), -EMSGSIZE
 *         (over a limit; found by what is announced, before it is buffered)
 */
SLUICE_API int sluice_resp_next(sluice_resp *resp, sluice_chain *chain, sluice_resp_reply **ret_reply);

/** Bytes that the chain must hold before the framer can say anything new; at least 1. */
SLUICE_API size_t sluice_resp_need(const sluice_resp *resp);

/**
 * The next value. An aggregate is followed by its elements, their elements before the next one:
 * whoever wants an aggregate's elements takes as many values as it counts, whoever does not says
 * sluice_resp_walk_skip().
 * @return true (a value), false (the end; @p ret_value is untouched)
 */
SLUICE_API bool sluice_resp_walk_next(sluice_resp_walk *walk, sluice_resp_value *ret_value);

/**
 * Steps over the elements of the aggregate that the walk gave last, and all that is in them;
 * otherwise nothing.
 */
SLUICE_API void sluice_resp_walk_skip(sluice_resp_walk *walk);

/**
 * Holds a value's text beyond the life of the reply's bytes, with references of its own. Refused
 * when the pool has no more than its reserve left, as by sluice_slice_take(). Pool owner's thread
 * only.
 * @return 0, or -ENOBUFS (@p ret_kept untouched)
 */
SLUICE_API int sluice_resp_keep(const sluice_resp_value *value, sluice_slice *ret_kept);

/** Whether the value's text is @p text, byte for byte. */
SLUICE_API bool sluice_resp_equals(const sluice_resp_value *value, const char *text);

/**
 * Opens the next reply where it is a bulk string, however long: consumes its header and leaves the
 * body to the caller, to be taken in pieces by sluice_resp_bulk_take(), or out of the chain or
 * straight from the kernel by other means and then told by sluice_resp_bulk_advance(), or dropped
 * by sluice_resp_bulk_skip(). Whoever finds it longer than the memory he has for it skips it, and
 * the connection goes on.
 *
 * Nothing is consumed when it is another reply (a push, null, an error, a bulk string with
 * attributes): then sluice_resp_next() takes it. The limits do not hold for its length, unless
 * sluice_resp_next() has been asked first and has refused it. Releases the reply before like
 * sluice_resp_next().
 *
 * @param ret_length bytes of the body
 * @return 1 (open), 0 (more bytes are needed), -ENOMSG (another reply), -EBUSY (one is open, see
 *         sluice_resp_next()), or for good: as sluice_resp_next()
 */
SLUICE_API int sluice_resp_bulk_open(sluice_resp *resp, sluice_chain *chain, uint64_t *ret_length);

/** Bytes of the open bulk string's body still to come; 0 when none is open. */
SLUICE_API uint64_t sluice_resp_bulk_left(const sluice_resp *resp);

/**
 * Cuts what is there of the open body out of the chain, up to @p max bytes. The caller owns the
 * slice.
 * @return 1 (a slice), 0 (nothing is there, or nothing is left: see sluice_resp_bulk_left()),
 *         -EINVAL (none is open, or it is being dropped, or @p max is 0)
 */
SLUICE_API int sluice_resp_bulk_take(sluice_resp *resp, sluice_chain *chain, size_t max, sluice_slice *ret_slice);

/**
 * Says that the caller has got the next @p n bytes of the open body by itself.
 * @return 0, -EINVAL (none is open, or it is being dropped, or more than is left; nothing is
 *   changed)
 */
SLUICE_API int sluice_resp_bulk_advance(sluice_resp *resp, uint64_t n);

/**
 * Gives up what is left of the open body: it is dropped as it comes, by the calls that follow.
 * @return 0, -EINVAL (none is open)
 */
SLUICE_API int sluice_resp_bulk_skip(sluice_resp *resp);

/**
 * Goes behind the open bulk string's end: drops what is to be dropped and checks the CRLF.
 * sluice_resp_next() and sluice_resp_bulk_open() do that first; for those who want to be sure
 * before they hand the bytes on.
 * @return 1 (behind it, or none was open), 0 (more bytes are needed), -EBUSY (neither taken nor
 *         skipped; nothing is changed), or for good: -EPROTO (no CRLF)
 */
SLUICE_API int sluice_resp_bulk_close(sluice_resp *resp, sluice_chain *chain);

/** One argument of a command; the bytes stay the caller's. */
typedef struct sluice_resp_arg {
    const void *data; /**< May be NULL when @c length is 0. */
    size_t length;    /**< Bytes. */
} sluice_resp_arg;

/** What sluice_resp_write_command() writes, in bytes; SIZE_MAX when that is more than can be. */
SLUICE_API size_t sluice_resp_command_size(const sluice_resp_arg *args, size_t count);

/**
 * Writes a command: an array of bulk strings. The first argument is its name.
 * @param ret_length bytes written
 * @return 0, -EINVAL (no argument), -EMSGSIZE (@p size is too small; nothing is written)
 */
SLUICE_API int sluice_resp_write_command(void *buffer, size_t size, const sluice_resp_arg *args, size_t count,
                                         size_t *ret_length);

/**
 * What sluice_resp_write_command_header() writes, in bytes; SIZE_MAX when that is more than can be.
 */
SLUICE_API size_t sluice_resp_command_header_size(const sluice_resp_arg *args, size_t count, uint64_t payload);

/**
 * Writes a command up to its last argument's bytes, which the caller sends from where they lie, and
 * behind them CRLF: for SET with a key of 3 and a value of 1000 bytes `*3 CRLF $3 CRLF SET CRLF $3
 * CRLF key CRLF $1000 CRLF`.
 * @param args    the arguments before the last
 * @param payload bytes of the last
 * @param ret_length bytes written
 * @return 0, -EINVAL (no argument before the last), -EMSGSIZE (@p size is too small; nothing is
 *   written)
 */
SLUICE_API int sluice_resp_write_command_header(void *buffer, size_t size, const sluice_resp_arg *args, size_t count,
                                                uint64_t payload, size_t *ret_length);

/**
 * Writes one header line, such as "*3" or "$1000" with CRLF: for commands of which more than the
 * last argument is sent by reference.
 * @param n elements, or bytes of the body
 * @return bytes written
 */
SLUICE_API size_t sluice_resp_write_header(char buffer[SLUICE_RESP_HEADER_SIZE], sluice_resp_type type, uint64_t n);

#ifdef __cplusplus
}
#endif

#endif
