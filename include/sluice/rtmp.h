/**
 * @file rtmp.h
 * RTMP for both ends: the handshake, messages out of a chain, chunks to send, and views of commands
 * and control messages.
 *
 * Source: Adobe's "Real Time Messaging Protocol" 1.0 (2012); the handshake with digests as Flash
 * Player and Flash Media Server have it, which is not in the specification.
 *
 * Threads: the chain's.
 */
#ifndef SLUICE_RTMP_H
#define SLUICE_RTMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <sluice/amf.h>
#include <sluice/chain.h>
#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SLUICE_RTMP_RANDOM_SIZE = 1528, /**< Random bytes that a handshake needs. */
    SLUICE_RTMP_DIGEST_SIZE = 32,   /**< An HMAC-SHA-256, bytes. */

    SLUICE_RTMP_DEFAULT_CHUNK = 128,       /**< Chunk size of both ends at first, bytes. */
    SLUICE_RTMP_MAX_CHUNK = 0x7FFFFFFF,    /**< Largest chunk size that can be set, bytes. */
    SLUICE_RTMP_MAX_MESSAGE = 0xFFFFFF,    /**< What a message's size field can say, bytes. */
    SLUICE_RTMP_DEFAULT_MESSAGE = 8 << 20, /**< Longest message unless set otherwise, bytes. */
    SLUICE_RTMP_DEFAULT_STREAMS = 32,      /**< Most chunk streams unless set otherwise. */
    SLUICE_RTMP_MAX_STREAMS = 1024,        /**< What that can be set to. */
    SLUICE_RTMP_DEFAULT_PIECES = 16384,    /**< Most pieces of a message likewise. */
    SLUICE_RTMP_FREE_PIECES = 16,          /**< First pieces of a message: they are not copied. */
    SLUICE_RTMP_DEFAULT_COPY = 512,        /**< Chunk size below which others are, bytes. */
    SLUICE_RTMP_DEFAULT_WORK = 1024,       /**< Most chunks of a call likewise. */
    SLUICE_RTMP_MAX_CHUNK_STREAM = 65599,  /**< Largest chunk stream id; the smallest is 2. */
    SLUICE_RTMP_MAX_HEADER = 18,           /**< Longest header of a chunk, bytes. */
    SLUICE_RTMP_CONTROL_SIZE = 22,         /**< Longest control message with its header, bytes. */
};

/* ---- Handshake ---- */

/** The end at which a handshake is made. */
typedef enum sluice_rtmp_role {
    SLUICE_RTMP_SERVER, /**< Answers. */
    SLUICE_RTMP_CLIENT, /**< Begins. */
} sluice_rtmp_role;

/** Where the digest lies in a handshake's block. */
typedef enum sluice_rtmp_schema {
    SLUICE_RTMP_SIMPLE, /**< Nowhere: the handshake of the specification. */
    SLUICE_RTMP_EARLY,  /**< In the first half ("schema 1"); the client's usual choice. */
    SLUICE_RTMP_LATE,   /**< In the second half ("schema 0"). */
} sluice_rtmp_schema;

/**
 * Computes an HMAC-SHA-256, with whatever cryptographic library the program has. The library has no
 * cryptography of its own.
 * @param pieces the message, in order
 * @return 0, or a negative errno, with which the handshake fails
 */
typedef int sluice_rtmp_hmac_fn(const void *key, size_t key_size, const struct iovec *pieces, size_t count,
                                uint8_t ret_digest[SLUICE_RTMP_DIGEST_SIZE], void *user);

/** Settings of a handshake. Zero in any field means its default. */
typedef struct sluice_rtmp_handshake_options {
    size_t size; /**< sizeof(sluice_rtmp_handshake_options). */
    /** SLUICE_RTMP_RANDOM_SIZE bytes, new for each connection; read by the call. Required. */
    const uint8_t *random;
    /** NULL: only the simple handshake, which every peer accepts in practice. */
    sluice_rtmp_hmac_fn *hmac;
    void *user; /**< For @c hmac. */
    /**
     * Client: where its digest lies; SLUICE_RTMP_EARLY or _LATE need @c hmac. Server: not used, it
     * answers as the client began.
     */
    sluice_rtmp_schema schema;
} sluice_rtmp_handshake_options;

/** A handshake under way; opaque. */
typedef struct sluice_rtmp_handshake sluice_rtmp_handshake;

/**
 * Begins a handshake. The caller owns it. A client has bytes to send at once.
 * @return 0, -EINVAL (no random bytes, no such role or schema, a digest without @c hmac), -ENOMEM,
 *         or an error of @c hmac
 */
SLUICE_API int sluice_rtmp_handshake_new(sluice_rtmp_role role, const sluice_rtmp_handshake_options *options,
                                         sluice_rtmp_handshake **ret_handshake);

/** Frees the handshake. NULL is allowed. */
SLUICE_API void sluice_rtmp_handshake_free(sluice_rtmp_handshake *handshake);

/**
 * Goes on as far as the chain's bytes allow, and consumes them; what follows the handshake stays in
 * the chain. Afterwards there may be bytes to send: see sluice_rtmp_handshake_output().
 *
 * The echo in the peer's last block is not checked: several clients and servers send other bytes.
 * @return 1 (complete: send what is left, then the chunks begin), 0 (more bytes are needed: see
 *         sluice_rtmp_handshake_need()), or for good: -EPROTO (not RTMP), -EPROTONOSUPPORT (another
 *         version, such as RTMPE), an error of @c hmac
 */
SLUICE_API int sluice_rtmp_handshake_next(sluice_rtmp_handshake *handshake, sluice_chain *chain);

/** Bytes that the chain must hold before the handshake can go on; at least 1. */
SLUICE_API size_t sluice_rtmp_handshake_need(const sluice_rtmp_handshake *handshake);

/**
 * Bytes to send that have not been reported by sluice_rtmp_handshake_sent().
 * @param ret_bytes valid until the next call other than this one
 * @return how many; 0 for none
 */
SLUICE_API size_t sluice_rtmp_handshake_output(const sluice_rtmp_handshake *handshake, const uint8_t **ret_bytes);

/** Reports the first @p n bytes of the output as sent or copied; at most all of them. */
SLUICE_API void sluice_rtmp_handshake_sent(sluice_rtmp_handshake *handshake, size_t n);

/** Where the peer's digest lay; SLUICE_RTMP_SIMPLE if it had none, or before it has been seen. */
SLUICE_API sluice_rtmp_schema sluice_rtmp_handshake_schema(const sluice_rtmp_handshake *handshake);

/* ---- Messages ---- */

/** Types of messages. */
typedef enum sluice_rtmp_type {
    SLUICE_RTMP_SET_CHUNK_SIZE = 1,
    SLUICE_RTMP_ABORT = 2,
    SLUICE_RTMP_ACKNOWLEDGEMENT = 3,
    SLUICE_RTMP_USER_CONTROL = 4,
    SLUICE_RTMP_WINDOW_SIZE = 5,
    SLUICE_RTMP_PEER_BANDWIDTH = 6,
    SLUICE_RTMP_AUDIO = 8,
    SLUICE_RTMP_VIDEO = 9,
    SLUICE_RTMP_DATA3 = 15, /**< Data, that may be in AMF 3. */
    SLUICE_RTMP_SHARED_OBJECT3 = 16,
    SLUICE_RTMP_COMMAND3 = 17, /**< A command, that may be in AMF 3. */
    SLUICE_RTMP_DATA = 18,     /**< As a script tag of FLV. */
    SLUICE_RTMP_SHARED_OBJECT = 19,
    SLUICE_RTMP_COMMAND = 20,
    SLUICE_RTMP_AGGREGATE = 22, /**< Several messages: see sluice_rtmp_next_part(). */
} sluice_rtmp_type;

/** One message, or what is written of one. Audio, video and data are as in an FLV tag. */
typedef struct sluice_rtmp_message {
    uint8_t type;          /**< SLUICE_RTMP_..., or another number. */
    uint32_t chunk_stream; /**< That it came on: 2 to SLUICE_RTMP_MAX_CHUNK_STREAM. */
    uint32_t stream;       /**< Message stream: 0 for the connection, else of createStream. */
    uint32_t timestamp;    /**< Milliseconds, all 32 bits; it wraps. */
    uint32_t size;         /**< Bytes of payload; may be 0. */
    /**
     * The payload, without the headers of its chunks. The framer's: valid until its next call;
     * sluice_slice_take() to hold it.
     */
    sluice_slice payload;
} sluice_rtmp_message;

/** What a framer accepts. Zero in any field means its default. */
typedef struct sluice_rtmp_limits {
    size_t size;      /**< sizeof(sluice_rtmp_limits). */
    uint32_t message; /**< Longest message, bytes: to SLUICE_RTMP_MAX_MESSAGE. */
    /**
     * Bytes that messages under way may announce together: at least @c message. Default twice
     * that. A message that comes in one chunk does not count.
     */
    uint32_t gathered;
    uint32_t chunk_streams; /**< Most chunk streams: to SLUICE_RTMP_MAX_STREAMS. */
    /**
     * Most pieces of a message that are gathered by reference, each of which costs a view and, to
     * send it, an entry of an iovec. What comes beyond is copied, and counted as such.
     */
    uint32_t pieces;
    /**
     * While the peer's chunk size is below this many bytes, pieces are copied together, once a
     * message has SLUICE_RTMP_FREE_PIECES of them, and counted: to 65,536. 1: none is.
     */
    uint32_t copy_below;
    uint32_t work; /**< Most chunks that one call of sluice_rtmp_next() reads. */
} sluice_rtmp_limits;

/** A framer: the state of the messages that come on one connection; opaque. */
typedef struct sluice_rtmp sluice_rtmp;

/**
 * Makes a framer for what follows a handshake. The caller owns it.
 * @param limits what to accept, or NULL for the defaults
 * @return 0, -EINVAL (a limit out of range), -ENOMEM
 */
SLUICE_API int sluice_rtmp_new(const sluice_rtmp_limits *limits, sluice_rtmp **ret_rtmp);

/** Frees the framer, with the messages under way and the last one's payload. NULL is allowed. */
SLUICE_API void sluice_rtmp_free(sluice_rtmp *rtmp);

/**
 * Takes the next message out of the chain. A chunk is consumed when it is whole. A message that
 * comes in one chunk is a part of the chain; the pieces of others are joined by reference, but for
 * small ones: see sluice_rtmp_limits. Releases the payload of the message before, unless it was
 * moved out with sluice_slice_take().
 *
 * Set Chunk Size, Abort and Window Acknowledgement Size are applied, and delivered too; the rest is
 * up to the caller. Extended timestamps of further chunks are read where they are, and may be
 * missing or absolute, as several encoders send them.
 *
 * @param ret_message the message; untouched unless 1 is returned. It lies in the framer, valid
 *                    until its next call, and the framer sees whether its payload was moved out
 * @return 1 (a message), 0 (more bytes are needed: see sluice_rtmp_need()), 2 (as many chunks have
 *         been read as one call may: call again, perhaps in a later turn), or for good: -EPROTO (a
 *         header that cannot be: of a chunk stream that has not begun, of another size or type
 *         within a message; a malformed control message), -EMSGSIZE (over a limit: a message, or
 *         the messages under way together, found before they are buffered; too many chunk streams),
 *         -ENOBUFS (the pool has neither views nor blocks), -ENOMEM
 */
SLUICE_API int sluice_rtmp_next(sluice_rtmp *rtmp, sluice_chain *chain, sluice_rtmp_message **ret_message);

/** Bytes that the chain must hold before sluice_rtmp_next() can go on; at least 1. */
SLUICE_API size_t sluice_rtmp_need(const sluice_rtmp *rtmp);

/**
 * Chunks that the last call of sluice_rtmp_next() has read, also where it returned 0: its work, to
 * be charged to the peer. With a chunk size of 1 a message is as many chunks as it has bytes.
 */
SLUICE_API uint32_t sluice_rtmp_chunks(const sluice_rtmp *rtmp);

/** Pool memory that messages under way keep in use, bytes: to be charged to the peer. */
SLUICE_API size_t sluice_rtmp_footprint(const sluice_rtmp *rtmp);

/**
 * Whether an acknowledgement is to be sent: the peer has set a window, and half of it has come
 * since the last time that this was true.
 * @param ret_sequence bytes received since the handshake, wrapping; untouched unless true
 */
SLUICE_API bool sluice_rtmp_must_acknowledge(sluice_rtmp *rtmp, uint32_t *ret_sequence);

/** A place among the messages of an aggregate; all zero at first. The fields are the library's. */
typedef struct sluice_rtmp_parts {
    bool begun;        /**< The first one has been taken. */
    uint32_t first;    /**< Timestamp that it states. */
    sluice_slice rest; /**< What has not been read, borrowed. */
} sluice_rtmp_parts;

/**
 * Takes the next message out of an aggregate, by reference. Timestamps are moved so that the first
 * one's is the aggregate's.
 * @param place    where to go on: all zero for the first, and then left alone
 * @param ret_part untouched unless 1 is returned; its payload is the caller's to release
 * @return 1 (a message), 0 (there are no more), -EPROTO (it ends within a message, or one is an
 *         aggregate itself), -ENOMSG (@p message is no aggregate)
 */
SLUICE_API int sluice_rtmp_next_part(sluice_rtmp_parts *place, const sluice_rtmp_message *message,
                                     sluice_rtmp_message *ret_part);

/* ---- Views ---- */

/** Events of user control messages. Others are delivered by their number: ignore them. */
enum {
    SLUICE_RTMP_STREAM_BEGIN = 0,       /**< Value: the message stream. */
    SLUICE_RTMP_STREAM_EOF = 1,         /**< Value: the message stream. */
    SLUICE_RTMP_STREAM_DRY = 2,         /**< Value: the message stream. */
    SLUICE_RTMP_SET_BUFFER = 3,         /**< Values: the message stream, milliseconds. */
    SLUICE_RTMP_STREAM_IS_RECORDED = 4, /**< Value: the message stream. */
    SLUICE_RTMP_PING_REQUEST = 6,       /**< Value: a time, which the response repeats. */
    SLUICE_RTMP_PING_RESPONSE = 7,      /**< Value: the request's. */
};

/** A control message. The fields that its type does not mention are 0. */
typedef struct sluice_rtmp_control {
    uint8_t type;   /**< SLUICE_RTMP_SET_CHUNK_SIZE to _PEER_BANDWIDTH. */
    uint8_t limit;  /**< PEER_BANDWIDTH: 0 hard, 1 soft, 2 dynamic. */
    uint16_t event; /**< USER_CONTROL: SLUICE_RTMP_STREAM_BEGIN and others. */
    /**
     * SET_CHUNK_SIZE: bytes. ABORT: the chunk stream. ACKNOWLEDGEMENT: bytes received. WINDOW_SIZE,
     * PEER_BANDWIDTH: bytes. USER_CONTROL: the event's, 0 where it has none.
     */
    uint32_t value;
    uint32_t second; /**< SET_BUFFER: milliseconds. */
} sluice_rtmp_control;

/**
 * Reads a control message.
 * @return 0, -ENOMSG (of another type), -EPROTO (too short for what it is; a chunk size of 0)
 */
SLUICE_API int sluice_rtmp_read_control(const sluice_rtmp_message *message, sluice_rtmp_control *ret_control);

/**
 * Begins to read the values of a command or data message, in AMF 0 or 3.
 * @param limits as for sluice_amf_read()
 * @return 0, -ENOMSG (of another type), or the errors of sluice_amf_read()
 */
SLUICE_API int sluice_rtmp_read_values(const sluice_rtmp_message *message, const sluice_amf_limits *limits,
                                       sluice_amf_reader *ret_reader);

/** A command. Everything is borrowed from the message's payload. */
typedef struct sluice_rtmp_command {
    sluice_slice name;  /**< Such as "connect", "_result", "onStatus". */
    double transaction; /**< The number that its answer repeats; 0: none is wanted. */
    /** In front of the command object, or null, behind which the arguments are. */
    sluice_amf_reader values;
} sluice_rtmp_command;

/**
 * Reads a command's name and transaction.
 * @return 0, -ENOMSG (no command), -EPROTO (the name is no string, or the transaction no number),
 *         or the errors of sluice_amf_read() and sluice_amf_next()
 */
SLUICE_API int sluice_rtmp_read_command(const sluice_rtmp_message *message, const sluice_amf_limits *limits,
                                        sluice_rtmp_command *ret_command);

/* ---- Writing ---- */

/** Lays a message out in chunks; by value. The fields are the library's. */
typedef struct sluice_rtmp_chunking {
    sluice_rtmp_message message; /**< Its payload is not used. */
    uint32_t chunk_size;         /**< Bytes of payload in a chunk. */
    uint32_t done;               /**< Bytes laid out. */
    bool begun;                  /**< The first chunk has been laid out. */
} sluice_rtmp_chunking;

/** One chunk: its header, and the range of the payload that follows it. */
typedef struct sluice_rtmp_chunk {
    uint8_t header[SLUICE_RTMP_MAX_HEADER]; /**< To be sent before the range. */
    uint8_t header_size;                    /**< Bytes of it. */
    uint32_t offset;                        /**< Of the range in the payload. */
    uint32_t length;                        /**< Of the range, bytes. */
} sluice_rtmp_chunk;

/**
 * Begins to lay a message out: all of its fields but the payload count. With a chunk size of at
 * least the message's size it is one header, and then the payload as it is; the header depends on
 * nothing else that was sent, so all receivers of a message can share it.
 * @param chunk_size what was sent last in Set Chunk Size, else SLUICE_RTMP_DEFAULT_CHUNK
 * @return 0, -EINVAL (a chunk stream, chunk size or message size out of range)
 */
SLUICE_API int sluice_rtmp_chunk_begin(sluice_rtmp_chunking *chunking, const sluice_rtmp_message *message,
                                       uint32_t chunk_size);

/** The next chunk. @return 1, 0 (there are no more) */
SLUICE_API int sluice_rtmp_chunk_next(sluice_rtmp_chunking *chunking, sluice_rtmp_chunk *ret_chunk);

/**
 * Writes a whole control message in one chunk, on chunk stream 2: the chunk size that was sent last
 * must be at least 10.
 * @return bytes written; -EINVAL (not of its type; a chunk size of 0 or over SLUICE_RTMP_MAX_CHUNK;
 *         nothing is written)
 */
SLUICE_API int sluice_rtmp_write_control(uint8_t buffer[SLUICE_RTMP_CONTROL_SIZE], const sluice_rtmp_control *control);

#ifdef __cplusplus
}
#endif

#endif
