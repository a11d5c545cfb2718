/*
 * One FLV tag for players: the payload by reference in the blocks it was received into, and the few
 * bytes around it. All players of a stream share the packet, whether it is sent unchanged, as a
 * part of an HTTP chunked body, as a WebSocket message, as a message of RTMP in one chunk, or as
 * RTP packets in RTSP's interleaved frames. Its worker's thread only.
 */
#ifndef SLUICED_PACKET_H
#define SLUICED_PACKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/flv.h>
#include <sluice/flv_rtp.h>
#include <sluice/pool.h>
#include <sluice/rtmp.h>
#include <sluice/rtsp.h>
#include <sluice/websocket.h>

enum {
    CHUNK_LINE = 9, /* longest "size CRLF": seven digits */
    PACKET_PREFIX = CHUNK_LINE + SLUICE_FLV_TAG_HEADER_SIZE,
    PACKET_MESSAGE = SLUICE_WEBSOCKET_MAX_HEADER - SLUICE_WEBSOCKET_MASK_SIZE + SLUICE_FLV_TAG_HEADER_SIZE,
    PACKET_SUFFIX = SLUICE_FLV_TRAILER_SIZE + 2,
    PACKET_RTMP = 16,            /* longest header of a chunk on a chunk stream below 64 */
    PACKET_RTMP_STREAM = 8,      /* where the message stream is in it, */
    PACKET_RTMP_STREAM_SIZE = 4, /* bytes */
    PACKET_RTMP_AUDIO = 4,       /* chunk streams */
    PACKET_RTMP_DATA = 5,
    PACKET_RTMP_VIDEO = 6,
    PACKET_TRACKS = 2, /* that are sent by RTP */
    PACKET_MARK = 2,   /* bytes by which an interleaved frame names its channel */
    RTP_HEAD = SLUICE_RTSP_INTERLEAVED_SIZE + SLUICE_FLV_RTP_MAX_HEADER,

    PACKET_LIST_FREE = 1024, /* packets in a list that are not charged to the pool */
    PACKET_COPY_MOST = 2048, /* bytes of a header that is copied: packet_copy_header() */
};

/* The role of a packet for caching and dropping. */
enum packet_role {
    PACKET_METADATA,     /* onMetaData */
    PACKET_VIDEO_HEADER, /* a decoder's configuration */
    PACKET_AUDIO_HEADER,
    PACKET_KEY_FRAME, /* of the main video track: decoding can start with it */
    PACKET_VIDEO,     /* any other, key frames of other tracks included */
    PACKET_AUDIO,
    PACKET_OTHER, /* scripts, ends of sequences, commands */
};

static inline bool packet_role_is_frame(enum packet_role role) {
    return role >= PACKET_KEY_FRAME && role <= PACKET_AUDIO;
}

/* Why frames were not sent to a player. */
enum player_drop {
    DROP_QUEUE_FULL, /* more would have been queued than the player may be behind */
    DROP_NO_MEMORY,  /* the queue was given up since blocks had run out */
    /* they came between another loss and the key frame that decoding can go on with */
    DROP_UNTIL_KEY,
    DROP_PAUSED,   /* the player has paused or left */
    DROP_CATCH_UP, /* they had waited for too long, and there was a newer key frame */
    DROP_CAUSES,
};

/*
 * Memory of packets. It is bounded, and parts of it are for one use alone: whatever one kind takes,
 * there is some for the others (see the README).
 */
struct packet_pool;

/* One interleaved frame with an RTP packet: some bytes of its own, then a part of the payload. */
struct rtp_packet {
    struct rtp_packet *next;
    uint8_t head_size;
    /* interleaved header with the track's usual channel, RTP header, payload header */
    uint8_t head[RTP_HEAD];
    sluice_slice rest;
};

/* A frame as RTP. Made once, when the stream's first RTSP player needs it. */
struct rtp_frame {
    struct rtp_packet *first, *last;
    uint64_t *account; /* where they are counted; lives longer than the struct packet */
    uint32_t count;
    uint32_t wire_size;
    uint32_t timestamp; /* and sequence: of the first packet */
    uint16_t sequence;
    uint8_t track;
};

/* Memory that is counted while it is held, on whatever thread. All zero: none is. */
struct packet_loan {
    _Atomic uint64_t *account; /* lives longer than who holds the loan */
    uint64_t bytes;
};

/*
 * What surrounds the payload in each form. Written for the first player that is sent that form: a
 * stream without players never writes it.
 */
struct packet_frame {
    uint8_t prefix[PACKET_PREFIX];   /* chunk line (to the right), tag header */
    uint8_t suffix[PACKET_SUFFIX];   /* trailer, CRLF that ends the chunk */
    uint8_t message[PACKET_MESSAGE]; /* header of the message (to the right), tag header */
    uint8_t rtmp[PACKET_RTMP];       /* header of the RTMP message in one chunk */
};

/*
 * Packets of a cached group are used again and released seconds after they were last used: each
 * cache line that is touched is fetched from memory. So the first members, up to the flags, fill
 * one line, and are all that is written when a frame comes and read when it goes. The others are in
 * use where a flag, or the role, says so. What the payload itself says is not stored:
 * packet_view().
 */
struct packet {
    sluice_slice payload;
    uint64_t *blocks_account; /* where they are counted; lives longer than the struct packet */
    uint64_t received_at;     /* loop time; 0: unknown */
    uint32_t references;
    uint32_t blocks; /* that this packet adds to what its stream holds */
    uint32_t timestamp;
    enum packet_role role : 8;
    sluice_flv_type type : 8;
    uint32_t track : 8; /* its track's place: see tracks.h */
    uint32_t key_frame : 1;
    uint32_t takes_alone : 1; /* players that know no tracks are sent another form of it */
    uint32_t has_alone : 1, has_loan : 1, has_rtp : 1;
    uint32_t has_tag : 1, has_message : 1, has_rtmp : 1; /* written, in the frame */

    /* the same without its track's id, for players that know no tracks; made when needed */
    struct packet *alone;
    struct packet_loan loan; /* where the payload is another worker's memory */
    union {
        uint32_t version; /* of headers and metadata, which RTP does not carry */
        struct rtp_frame rtp;
    };
    struct packet_frame frame;
};

/* Whether decoding can begin with this packet. */
static inline bool packet_is_sync(const struct packet *packet, bool has_video) {
    return packet->role == (has_video ? PACKET_KEY_FRAME : PACKET_AUDIO);
}

/* @most: bytes that packets may take, with what is charged besides. 0, -ENOMEM */
int packet_pool_new(uint64_t most, struct packet_pool **ret_pool);

/* Every packet must be back. */
void packet_pool_free(struct packet_pool *pool);

/* That of the packet. */
struct packet_pool *packet_pool_of(const struct packet *packet);

/*
 * A list of packets, of so many pointers, is to have another capacity: what is over
 * PACKET_LIST_FREE is charged to the pool. False where that is too much: then nothing is charged. A
 * smaller one always may.
 */
bool packet_pool_charge(struct packet_pool *pool, size_t from, size_t to);

/*
 * A header's payload in memory of its own. A header stays as long as its publisher, and in the
 * block that it came in it would hold that block, and the slab around it. The copy is charged to
 * the pool until its last reference is dropped, on whatever thread; copies take a sixteenth of the
 * pool at most. @blocks: that of the payload's blocks.
 * 0, -EMSGSIZE (empty, over PACKET_COPY_MOST, or in more than 64 pieces), -ENOBUFS (no more
 * copies, or too many views in use), -ENOMEM. The payload is the caller's still.
 */
int packet_copy_header(struct packet_pool *pool, sluice_pool *blocks, const sluice_slice *payload,
                       sluice_slice *ret_copy);

/* Bytes that packets take, used or not, with what is charged besides. */
uint64_t packet_pool_bytes(const struct packet_pool *pool);

/*
 * @tag: type and view. Takes the payload's references over. NULL when memory is short, or the
 * pool's is used up (the payload is the caller's still).
 */
struct packet *packet_new(struct packet_pool *pool, const sluice_flv_tag *tag, enum packet_role role,
                          uint32_t timestamp, sluice_slice *payload);

/*
 * The same payload at another time: that of a packet that it goes with. NULL when memory is short.
 * There is a part of the pool for it.
 */
struct packet *packet_at(const struct packet *source, uint32_t timestamp, uint64_t received_at);

/* Counts so much, until it is returned. */
struct packet_loan packet_loan(_Atomic uint64_t *account, uint64_t bytes);
void packet_loan_return(struct packet_loan *loan);

/* Returned when the packet goes. */
void packet_set_loan(struct packet *packet, struct packet_loan loan);

/* The packet without its track's id; takes the reference over. */
void packet_set_alone(struct packet *packet, struct packet *alone);

/* Of a header or of metadata: the same for the same bytes; 0: not known, or another packet. */
void packet_set_version(struct packet *packet, uint32_t version);

static inline uint32_t packet_version(const struct packet *packet) {
    return packet->role < PACKET_KEY_FRAME ? packet->version : 0;
}

/* Payload, bytes. */
static inline uint32_t packet_size(const struct packet *packet) {
    return (uint32_t)sluice_slice_length(&packet->payload);
}

/* As the framer has read it. */
static inline sluice_flv_view packet_view(const struct packet *packet) {
    sluice_flv_view view;
    sluice_flv_read_view(packet->type, &packet->payload, &view);
    return view;
}

static inline struct packet *packet_alone(const struct packet *packet) {
    return packet->has_alone ? packet->alone : NULL;
}

/* Whether codec and codec's data are the tag's. False also where either is in more than 64
 * pieces. */
bool packet_has_data(const struct packet *packet, const sluice_flv_tag *tag);

/* NULL until packet_begin_rtp(). */
static inline const struct rtp_frame *packet_rtp(const struct packet *packet) {
    return packet->has_rtp ? &packet->rtp : NULL;
}

/* Counts the packet's blocks until it goes. */
void packet_account(struct packet *packet, uint32_t blocks, uint64_t *account);

struct packet *packet_ref(struct packet *packet);
void packet_unref(struct packet *packet); /* NULL is allowed */

/* A frame, which is no header, is to be made RTP. */
void packet_begin_rtp(struct packet *packet, uint8_t track);

/*
 * Adds an RTP packet at the end of the frame's, with nothing in it yet. Once the rest is there,
 * rtp_packet_finish() writes the interleaved header. @account: RTP packets of the stream, the same
 * for all of a frame's. NULL when memory is short: a stream may have as many as could be made
 * besides, so that one alone never takes all.
 */
struct rtp_packet *packet_add_rtp(struct packet *packet, uint64_t *account);
void rtp_packet_finish(struct rtp_frame *frame, struct rtp_packet *rtp);
void packet_drop_rtp(struct packet *packet);

/* Write what surrounds the payload in a form, for the first player that is sent it. */
void packet_write_tag(struct packet *packet);
void packet_write_message(struct packet *packet);
void packet_write_rtmp(struct packet *packet);

/* The tag's header and trailer, with what makes them a chunk. */
static inline const struct packet_frame *packet_as_tag(struct packet *packet) {
    if (!packet->has_tag)
        packet_write_tag(packet);
    return &packet->frame;
}

/* Likewise, with what makes them a WebSocket message. */
static inline const struct packet_frame *packet_as_message(struct packet *packet) {
    if (!packet->has_message)
        packet_write_message(packet);
    return &packet->frame;
}

static inline const struct packet_frame *packet_as_rtmp(struct packet *packet) {
    if (!packet->has_rtmp)
        packet_write_rtmp(packet);
    return &packet->frame;
}

static inline uint32_t packet_tag_size(const struct packet *packet) {
    return SLUICE_FLV_TAG_HEADER_SIZE + packet_size(packet) + SLUICE_FLV_TRAILER_SIZE;
}

/* The size of the tag in hexadecimal, CRLF. */
static inline size_t packet_chunk_line_size(const struct packet *packet) {
    unsigned bits = 32 - (unsigned)__builtin_clz(packet_tag_size(packet));
    return (bits + 3) / 4 + 2;
}

/* Two bytes, and a length of 16 or 64 bits where 7 do not hold it. */
static inline size_t packet_message_header_size(const struct packet *packet) {
    uint32_t size = packet_tag_size(packet);
    return size < 126 ? 2 : size <= UINT16_MAX ? 4 : 10;
}

/* A full header, with four bytes more for a time that three do not hold. */
static inline size_t packet_rtmp_header_size(const struct packet *packet) {
    return packet->timestamp < 0xffffff ? PACKET_RTMP - 4 : PACKET_RTMP;
}

/* The channel that a track's frames have in memory; players with others cost a piece more. */
static inline uint8_t rtp_usual_channel(uint8_t track) {
    return (uint8_t)(2 * track);
}

/* The first two bytes of an interleaved frame on that channel. */
const uint8_t *packet_channel_mark(const struct packet *packet, uint8_t channel);

#endif
