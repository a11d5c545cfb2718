#include "daemon/relay/packet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/chain.h>

#include "daemon/relay/object_pool.h"

enum {
    LINE = 64,        /* of the processor's cache */
    PIECES = 64,      /* of a header that is copied or compared, at most */
    COPY_AROUND = 80, /* bytes that a copy takes besides: the allocator's, and the view of it */
};

_Static_assert(offsetof(struct packet, alone) == LINE, "what each frame uses is one line");
_Static_assert(sizeof(struct packet) % LINE == 0, "packets begin with a line");

/* Copies of headers. Other threads drop references too, also when the pool is gone. */
struct packet_copies {
    _Atomic uint64_t bytes;
    atomic_size_t users; /* copies, and the pool: the last of them frees this */
};

struct packet_pool {
    struct object_pool packets; /* the first: an object leads to it */
    struct object_pool rtp;
    struct packet_copies *copies;
    uint64_t charged; /* for lists */
    uint64_t most;    /* bytes in all */
    /* the first two bytes of an interleaved frame, for each channel */
    uint8_t marks[UINT8_MAX + 1][PACKET_MARK];
};

int packet_pool_new(uint64_t most, struct packet_pool **ret_pool) {
    struct packet_pool *pool = calloc(1, sizeof *pool);
    struct packet_copies *copies = calloc(1, sizeof *copies);
    if (!pool || !copies) {
        free(pool);
        free(copies);
        return -ENOMEM;
    }
    atomic_init(&copies->users, 1);
    pool->copies = copies;
    pool->most = most;
    pool->packets = (struct object_pool){.size = sizeof(struct packet), .most_spare = most / 16};
    pool->rtp = (struct object_pool){.size = sizeof(struct rtp_packet), .most_spare = most / 16};
    for (size_t channel = 0; channel <= UINT8_MAX; channel++) {
        pool->marks[channel][0] = '$';
        pool->marks[channel][1] = (uint8_t)channel;
    }
    *ret_pool = pool;
    return 0;
}

struct packet_pool *packet_pool_of(const struct packet *packet) {
    return (struct packet_pool *)object_pool_of(packet);
}

static void leave_copies(struct packet_copies *copies) {
    if (atomic_fetch_sub(&copies->users, 1) == 1)
        free(copies);
}

void packet_pool_free(struct packet_pool *pool) {
    if (!pool)
        return;
    object_pool_clear(&pool->packets);
    object_pool_clear(&pool->rtp);
    leave_copies(pool->copies);
    free(pool);
}

static uint64_t copied(const struct packet_pool *pool) {
    return atomic_load_explicit(&pool->copies->bytes, memory_order_relaxed);
}

/* All but RTP. */
static uint64_t others_than_rtp(const struct packet_pool *pool) {
    return pool->packets.bytes + pool->charged + copied(pool);
}

uint64_t packet_pool_bytes(const struct packet_pool *pool) {
    return others_than_rtp(pool) + pool->rtp.bytes;
}

/* RTP has this part of the memory whatever else there is. */
static uint64_t rtp_least(const struct packet_pool *pool) {
    return pool->most / 8;
}

/* For lists and copies of headers. */
static uint64_t left_besides_rtp(const struct packet_pool *pool) {
    uint64_t rtp = pool->rtp.bytes > rtp_least(pool) ? pool->rtp.bytes : rtp_least(pool);
    uint64_t bytes = others_than_rtp(pool) + rtp;
    return bytes < pool->most ? pool->most - bytes : 0;
}

static size_t charge_of(size_t capacity) {
    return capacity > PACKET_LIST_FREE ? capacity * sizeof(struct packet *) : 0;
}

bool packet_pool_charge(struct packet_pool *pool, size_t from, size_t to) {
    size_t before = charge_of(from), after = charge_of(to);
    if (after > before && after - before > left_besides_rtp(pool))
        return false;
    pool->charged = pool->charged - before + after;
    return true;
}

static void free_copy(const void *memory, size_t n, void *user) {
    struct packet_copies *copies = user;
    free((void *)memory);
    atomic_fetch_sub_explicit(&copies->bytes, n + COPY_AROUND, memory_order_relaxed);
    leave_copies(copies);
}

static void copy_pieces(const struct iovec *pieces, size_t count, uint8_t *to) {
    for (size_t i = 0; i < count; to += pieces[i++].iov_len)
        memcpy(to, pieces[i].iov_base, pieces[i].iov_len);
}

/* Takes the memory over where that is possible. 0, -ENOBUFS, -ENOMEM */
static int copy_to_slice(struct packet_copies *copies, sluice_pool *blocks, uint8_t *memory, size_t size,
                         sluice_slice *ret_copy) {
    sluice_chain *chain;
    int error = sluice_chain_new(blocks, &chain);
    if (error)
        return error;
    error = sluice_chain_append_memory(chain, memory, size, free_copy, copies);
    if (!error)
        error = sluice_chain_take(chain, size, ret_copy);
    sluice_chain_free(chain);
    return error;
}

int packet_copy_header(struct packet_pool *pool, sluice_pool *blocks, const sluice_slice *payload,
                       sluice_slice *ret_copy) {
    size_t size = sluice_slice_length(payload), cost = size + COPY_AROUND;
    struct packet_copies *copies = pool->copies;
    struct iovec pieces[PIECES];
    if (size == 0 || size > PACKET_COPY_MOST)
        return -EMSGSIZE;
    size_t count = sluice_slice_iov(payload, 0, pieces, PIECES);
    if (count > PIECES)
        return -EMSGSIZE;
    if (copied(pool) + cost > pool->most / 16 || cost > left_besides_rtp(pool))
        return -ENOBUFS;
    uint8_t *memory = malloc(size);
    if (!memory)
        return -ENOMEM;
    copy_pieces(pieces, count, memory);
    atomic_fetch_add_explicit(&copies->bytes, cost, memory_order_relaxed);
    atomic_fetch_add(&copies->users, 1);
    int error = copy_to_slice(copies, blocks, memory, size, ret_copy);
    if (error)
        free_copy(memory, size, copies);
    return error;
}

/* The chunk that carries the whole tag: its size in hexadecimal, written backwards from the tag
 * header. */
static void write_chunk_line(struct packet *packet) {
    static const char digits[] = "0123456789abcdef";
    uint8_t *at = packet->frame.prefix + CHUNK_LINE;
    *--at = '\n';
    *--at = '\r';
    for (uint32_t size = packet_tag_size(packet); size > 0; size >>= 4)
        *--at = (uint8_t)digits[size & 15];
}

void packet_write_tag(struct packet *packet) {
    struct packet_frame *frame = &packet->frame;
    write_chunk_line(packet);
    sluice_flv_write_tag_header(frame->prefix + CHUNK_LINE, packet->type, packet_size(packet), packet->timestamp);
    sluice_flv_write_trailer(frame->suffix, packet_size(packet));
    frame->suffix[SLUICE_FLV_TRAILER_SIZE] = '\r';
    frame->suffix[SLUICE_FLV_TRAILER_SIZE + 1] = '\n';
    packet->has_tag = true;
}

void packet_write_message(struct packet *packet) {
    struct packet_frame *frame = &packet->frame;
    uint8_t header[SLUICE_WEBSOCKET_MAX_HEADER];
    uint8_t *tag_header = frame->message + PACKET_MESSAGE - SLUICE_FLV_TAG_HEADER_SIZE;
    size_t size = sluice_websocket_write_header(header, SLUICE_WEBSOCKET_BINARY, true, packet_tag_size(packet), NULL);
    memcpy(tag_header - size, header, size);
    memcpy(tag_header, packet_as_tag(packet)->prefix + CHUNK_LINE, SLUICE_FLV_TAG_HEADER_SIZE);
    packet->has_message = true;
}

/*
 * The message that the tag is, on message stream 1, in one chunk. Its header is full: it depends on
 * nothing that was sent before, so that all players can be sent it. Audio and video have chunk
 * streams of their own. The length of a tag has 24 bits, as the largest chunk's, so this cannot
 * fail.
 */
void packet_write_rtmp(struct packet *packet) {
    sluice_rtmp_chunking chunking;
    sluice_rtmp_chunk chunk;
    const sluice_rtmp_message message = {
        .type = (uint8_t)packet->type,
        .chunk_stream = packet->type == SLUICE_FLV_AUDIO   ? PACKET_RTMP_AUDIO
                        : packet->type == SLUICE_FLV_VIDEO ? PACKET_RTMP_VIDEO
                                                           : PACKET_RTMP_DATA,
        .stream = 1,
        .timestamp = packet->timestamp,
        .size = packet_size(packet),
    };
    struct packet_frame *frame = &packet->frame;
    if (sluice_rtmp_chunk_begin(&chunking, &message, SLUICE_RTMP_MAX_CHUNK) == 0 &&
        sluice_rtmp_chunk_next(&chunking, &chunk) > 0)
        memcpy(frame->rtmp, chunk.header, sizeof frame->rtmp);
    packet->has_rtmp = true;
}

/*
 * Whether players that know no tracks are sent another form of the packet: one without its track's
 * id, or H.264 and AAC as FLV had them before FourCCs.
 */
static bool takes_alone(sluice_flv_type type, const sluice_flv_view *view) {
    if (view->multitrack)
        return true;
    if (!view->enhanced)
        return false;
    if (type == SLUICE_FLV_VIDEO)
        return view->codec == SLUICE_CODEC_H264 && view->packet <= SLUICE_FLV_SEQUENCE_END;
    return type == SLUICE_FLV_AUDIO && view->codec == SLUICE_CODEC_AAC && view->packet <= SLUICE_FLV_SEQUENCE_HEADER;
}

/* Writes the first line, and nothing beyond it. */
static void fill(struct packet *packet, const sluice_flv_tag *tag, enum packet_role role, uint32_t timestamp,
                 sluice_slice *payload) {
    packet->payload = *payload;
    *payload = (sluice_slice){0};
    packet->blocks_account = NULL;
    packet->received_at = 0;
    packet->references = 1;
    packet->blocks = 0;
    packet->timestamp = timestamp;
    packet->role = role;
    packet->type = tag->type;
    packet->track = 0;
    packet->key_frame = tag->view.key_frame;
    packet->takes_alone = takes_alone(tag->type, &tag->view);
    packet->has_alone = packet->has_loan = packet->has_rtp = false;
    packet->has_tag = packet->has_message = packet->has_rtmp = false;
    packet_set_version(packet, 0);
}

struct packet *packet_new(struct packet_pool *pool, const sluice_flv_tag *tag, enum packet_role role,
                          uint32_t timestamp, sluice_slice *payload) {
    /* A quarter is for what comes of packets: copies of headers, RTP, and lists. */
    uint64_t bytes = packet_pool_bytes(pool), most = pool->most - pool->most / 4;
    struct packet *packet = object_pool_take(&pool->packets, bytes < most ? most - bytes : 0);
    if (packet)
        fill(packet, tag, role, timestamp, payload);
    return packet;
}

struct packet *packet_at(const struct packet *source, uint32_t timestamp, uint64_t received_at) {
    struct packet_pool *pool = packet_pool_of(source);
    struct packet *copy = object_pool_take(&pool->packets, left_besides_rtp(pool));
    if (!copy)
        return NULL;
    sluice_slice payload;
    sluice_slice_ref(&source->payload, &payload);
    const sluice_flv_tag tag = {.type = source->type};
    fill(copy, &tag, source->role, timestamp, &payload);
    copy->track = source->track;
    copy->key_frame = source->key_frame;
    copy->takes_alone = source->takes_alone;
    packet_set_version(copy, packet_version(source));
    copy->received_at = received_at;
    return copy;
}

void packet_set_version(struct packet *packet, uint32_t version) {
    if (packet->role < PACKET_KEY_FRAME)
        packet->version = version;
}

/* What is left of a piece behind so many bytes; or the next one. */
static struct iovec *advance(struct iovec *piece, size_t n) {
    piece->iov_base = (uint8_t *)piece->iov_base + n;
    piece->iov_len -= n;
    return piece->iov_len > 0 ? piece : piece + 1;
}

static bool is_same(struct iovec *one, struct iovec *other, size_t size) {
    while (size > 0) {
        size_t n = one->iov_len < other->iov_len ? one->iov_len : other->iov_len;
        if (memcmp(one->iov_base, other->iov_base, n) != 0)
            return false;
        size -= n;
        one = advance(one, n);
        other = advance(other, n);
    }
    return true;
}

bool packet_has_data(const struct packet *packet, const sluice_flv_tag *tag) {
    struct iovec own[PIECES], others[PIECES];
    sluice_flv_view view = packet_view(packet);
    size_t size = packet_size(packet) - view.header_size;
    if (view.codec != tag->view.codec || size != sluice_slice_length(&tag->payload) - tag->view.header_size)
        return false;
    return sluice_slice_iov(&packet->payload, view.header_size, own, PIECES) <= PIECES &&
           sluice_slice_iov(&tag->payload, tag->view.header_size, others, PIECES) <= PIECES &&
           is_same(own, others, size);
}

struct packet_loan packet_loan(_Atomic uint64_t *account, uint64_t bytes) {
    atomic_fetch_add_explicit(account, bytes, memory_order_relaxed);
    return (struct packet_loan){account, bytes};
}

void packet_loan_return(struct packet_loan *loan) {
    if (loan->account)
        atomic_fetch_sub_explicit(loan->account, loan->bytes, memory_order_relaxed);
    *loan = (struct packet_loan){0};
}

void packet_set_loan(struct packet *packet, struct packet_loan loan) {
    packet->loan = loan;
    packet->has_loan = true;
}

void packet_set_alone(struct packet *packet, struct packet *alone) {
    packet->alone = alone;
    packet->has_alone = true;
}

void packet_account(struct packet *packet, uint32_t blocks, uint64_t *account) {
    packet->blocks = blocks;
    packet->blocks_account = account;
    *account += blocks;
}

struct packet *packet_ref(struct packet *packet) {
    packet->references++;
    return packet;
}

/*
 * RTP may take half of the memory, and leaves an eighth for copies of headers, and lists. When
 * these and packets have taken more, it keeps what it has, or grows to its own eighth: long queues
 * of players that do not read cost RTSP players no frame.
 */
static uint64_t most_rtp(const struct packet_pool *pool) {
    uint64_t others = others_than_rtp(pool), most = pool->most - pool->most / 8;
    uint64_t rest = others < most ? most - others : 0;
    uint64_t kept = pool->rtp.bytes > rtp_least(pool) ? pool->rtp.bytes : rtp_least(pool);
    if (rest < kept)
        return kept;
    return rest < pool->most / 2 ? rest : pool->most / 2;
}

/* No stream takes more than is left for the others. */
static struct rtp_packet *take_rtp(struct packet_pool *pool, uint64_t of_stream) {
    uint64_t most = most_rtp(pool), cost = object_pool_cost(&pool->rtp);
    if ((pool->rtp.used + of_stream) * cost >= most)
        return NULL;
    return object_pool_take(&pool->rtp, most > pool->rtp.bytes ? most - pool->rtp.bytes : 0);
}

void packet_begin_rtp(struct packet *packet, uint8_t track) {
    packet->rtp = (struct rtp_frame){.track = track};
    packet->has_rtp = true;
}

struct rtp_packet *packet_add_rtp(struct packet *packet, uint64_t *account) {
    struct rtp_packet *rtp = take_rtp(packet_pool_of(packet), *account);
    if (!rtp)
        return NULL;
    packet->rtp.account = account;
    packet->rtp.count++;
    ++*account;
    *rtp = (struct rtp_packet){.head_size = SLUICE_RTSP_INTERLEAVED_SIZE};
    if (packet->rtp.last)
        packet->rtp.last->next = rtp;
    else
        packet->rtp.first = rtp;
    packet->rtp.last = rtp;
    return rtp;
}

void rtp_packet_finish(struct rtp_frame *frame, struct rtp_packet *rtp) {
    uint32_t size = rtp->head_size + (uint32_t)sluice_slice_length(&rtp->rest);
    sluice_rtsp_write_interleaved(rtp->head, rtp_usual_channel(frame->track),
                                  (uint16_t)(size - SLUICE_RTSP_INTERLEAVED_SIZE));
    frame->wire_size += size;
}

void packet_drop_rtp(struct packet *packet) {
    struct rtp_frame *frame = &packet->rtp;
    while (frame->first) {
        struct rtp_packet *rtp = frame->first;
        frame->first = rtp->next;
        sluice_slice_release(&rtp->rest);
        object_pool_put(rtp);
    }
    if (frame->account)
        *frame->account -= frame->count;
    packet_begin_rtp(packet, frame->track);
}

/* By itself, so that the usual release needs no room for it. */
static __attribute__((noinline)) void unref_extras(struct packet *packet) {
    if (packet->has_rtp)
        packet_drop_rtp(packet);
    packet_unref(packet_alone(packet));
    sluice_slice_release(&packet->payload);
    if (packet->has_loan)
        packet_loan_return(&packet->loan);
}

void packet_unref(struct packet *packet) {
    if (!packet || --packet->references > 0)
        return;
    if (packet->blocks_account)
        *packet->blocks_account -= packet->blocks;
    if (packet->has_alone | packet->has_loan | packet->has_rtp)
        unref_extras(packet);
    else
        sluice_slice_release(&packet->payload);
    object_pool_put(packet);
}

const uint8_t *packet_channel_mark(const struct packet *packet, uint8_t channel) {
    return packet_pool_of(packet)->marks[channel];
}
