/*
 * The framer: chunks into messages. A chunk leaves the chain when it is whole. A message of one
 * chunk is taken as it lies; the pieces of another are gathered in a chain of views on the blocks
 * that they came in, between which the headers are left out.
 */
#include <sluice/rtmp.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "abi/sized.h"
#include "framers/rtmp/rtmp_header.h"
#include "memory/chain.h"
#include "memory/pool.h"
#include "reader/cursor.h"

enum {
    MOST_COPY = 65536,
    ROOM = 16,         /* pieces of memory that are filled at a time */
    FIRST_STREAMS = 4, /* for which there is room; more double it */
    MORE = 2,          /* what next() returns when its work is done and there may be more */
};

/* A chunk stream: the last header on it, and the message that is under way. */
struct chunk_stream {
    struct rtmp_previous previous;
    uint32_t left;   /* bytes of the message still to come; 0: none is under way */
    uint32_t pieces; /* gathered */
    sluice_chain gathered;
};

struct sluice_rtmp {
    int error;   /* what next() returns; 0: it goes on */
    size_t need; /* below this many bytes in the chain next() has nothing to look at */
    sluice_rtmp_limits limits;
    uint32_t chunk_size;
    uint32_t announced; /* bytes of the messages under way, by their headers */
    uint32_t window;    /* the peer's acknowledgement window; 0: none */
    uint32_t chunks;    /* that the last call of next() has read */
    uint32_t received, acknowledged;
    uint32_t count, capacity;
    struct chunk_stream **streams; /* in the order of their first chunks */
    /* handed out by pointer, so that a consumer's keep() empties this very slice */
    sluice_rtmp_message message;
};

static int read_limits(const sluice_rtmp_limits *limits, sluice_rtmp_limits *l) {
    int error = SIZED_READ(l, limits);
    if (error)
        return error;
    if (l->message > SLUICE_RTMP_MAX_MESSAGE || l->chunk_streams > SLUICE_RTMP_MAX_STREAMS || l->copy_below > MOST_COPY)
        return -EINVAL;
    l->message = l->message ? l->message : SLUICE_RTMP_DEFAULT_MESSAGE;
    if (l->gathered > 0 && l->gathered < l->message)
        return -EINVAL;
    l->gathered = l->gathered ? l->gathered : 2 * l->message;
    l->chunk_streams = l->chunk_streams ? l->chunk_streams : SLUICE_RTMP_DEFAULT_STREAMS;
    l->pieces = l->pieces ? l->pieces : SLUICE_RTMP_DEFAULT_PIECES;
    l->copy_below = l->copy_below ? l->copy_below : SLUICE_RTMP_DEFAULT_COPY;
    l->work = l->work ? l->work : SLUICE_RTMP_DEFAULT_WORK;
    return 0;
}

int sluice_rtmp_new(const sluice_rtmp_limits *limits, sluice_rtmp **ret_rtmp) {
    sluice_rtmp_limits l;
    int error = read_limits(limits, &l);
    if (error)
        return error;
    sluice_rtmp *rtmp = calloc(1, sizeof *rtmp);
    if (!rtmp)
        return -ENOMEM;
    rtmp->limits = l;
    rtmp->need = 1;
    rtmp->chunk_size = SLUICE_RTMP_DEFAULT_CHUNK;
    *ret_rtmp = rtmp;
    return 0;
}

/* What has been gathered of a message is dropped. */
static void drop(sluice_rtmp *rtmp, struct chunk_stream *cs) {
    if (cs->left > 0)
        rtmp->announced -= cs->previous.size;
    cs->left = 0;
    cs->pieces = 0;
    chain_clear(&cs->gathered);
}

static void drop_all(sluice_rtmp *rtmp) {
    for (uint32_t i = 0; i < rtmp->count; i++)
        drop(rtmp, rtmp->streams[i]);
}

void sluice_rtmp_free(sluice_rtmp *rtmp) {
    if (!rtmp)
        return;
    sluice_slice_release(&rtmp->message.payload);
    drop_all(rtmp);
    for (uint32_t i = 0; i < rtmp->count; i++)
        free(rtmp->streams[i]);
    free(rtmp->streams);
    free(rtmp);
}

size_t sluice_rtmp_need(const sluice_rtmp *rtmp) {
    return rtmp->need;
}

uint32_t sluice_rtmp_chunks(const sluice_rtmp *rtmp) {
    return rtmp->chunks;
}

size_t sluice_rtmp_footprint(const sluice_rtmp *rtmp) {
    size_t footprint = 0;
    for (uint32_t i = 0; i < rtmp->count; i++)
        footprint += rtmp->streams[i]->gathered.footprint;
    return footprint;
}

bool sluice_rtmp_must_acknowledge(sluice_rtmp *rtmp, uint32_t *ret_sequence) {
    uint32_t half = rtmp->window / 2 + rtmp->window % 2;
    if (half == 0 || rtmp->received - rtmp->acknowledged < half)
        return false;
    rtmp->acknowledged = *ret_sequence = rtmp->received;
    return true;
}

/* No arrival is enough any more: next() ends at its first comparison. */
static int fail(sluice_rtmp *rtmp, int error) {
    drop_all(rtmp);
    rtmp->error = error;
    rtmp->need = SIZE_MAX;
    return error;
}

/* ---- Chunk streams ---- */

static struct chunk_stream *find_stream(const sluice_rtmp *rtmp, uint32_t id) {
    for (uint32_t i = 0; i < rtmp->count; i++)
        if (rtmp->streams[i]->previous.id == id)
            return rtmp->streams[i];
    return NULL;
}

static int make_room(sluice_rtmp *rtmp) {
    uint32_t capacity = rtmp->capacity ? 2 * rtmp->capacity : FIRST_STREAMS;
    if (rtmp->count < rtmp->capacity)
        return 0;
    struct chunk_stream **streams = realloc(rtmp->streams, capacity * sizeof *streams);
    if (!streams)
        return -ENOMEM;
    rtmp->streams = streams;
    rtmp->capacity = capacity;
    return 0;
}

static int add_stream(sluice_rtmp *rtmp, uint32_t id, struct chunk_stream **ret_stream) {
    if (rtmp->count == rtmp->limits.chunk_streams)
        return -EMSGSIZE;
    int error = make_room(rtmp);
    if (error)
        return error;
    struct chunk_stream *cs = calloc(1, sizeof *cs);
    if (!cs)
        return -ENOMEM;
    cs->previous.id = id;
    rtmp->streams[rtmp->count++] = cs;
    *ret_stream = cs;
    return 0;
}

/* ---- Gathering ---- */

static void make_gathered(struct chunk_stream *cs, sluice_pool *pool) {
    chain_init(&cs->gathered, pool);
    cs->gathered.is_users = true; /* room is reserved in it for small pieces */
}

/*
 * The connection has come to another loop: what has been gathered stays in the blocks in which it
 * is, which are another thread's, and becomes a guest in the new loop's pool.
 */
static int follow_pool(struct chunk_stream *cs, sluice_pool *pool) {
    sluice_slice gathered;
    (void)sluice_chain_take(&cs->gathered, chain_length(&cs->gathered), &gathered);
    make_gathered(cs, pool);
    int error = sluice_chain_append_slice(&cs->gathered, &gathered);
    sluice_slice_release(&gathered);
    return error;
}

/* Fills the memory from the chain's front. */
static void fill(sluice_chain *chain, const struct iovec *room, size_t n) {
    uint8_t *to = room->iov_base;
    while (n > 0) {
        size_t here = chain_here(chain) < n ? chain_here(chain) : n;
        memcpy(to, chain->front.at, here);
        sluice_chain_skip(chain, here);
        to += here;
        n -= here;
    }
}

/* Copies the next n bytes behind what has been gathered: pieces that are not worth a reference. */
static int copy_piece(struct chunk_stream *cs, sluice_chain *chain, size_t n) {
    pool_count_copied(chain->pool, n);
    while (n > 0) {
        struct iovec room[ROOM];
        size_t done = 0;
        int count = sluice_chain_reserve(&cs->gathered, n, room, ROOM);
        if (count < 0)
            return count;
        for (int i = 0; i < count && done < n; i++) {
            size_t here = room[i].iov_len < n - done ? room[i].iov_len : n - done;
            fill(chain, &room[i], here);
            done += here;
        }
        int error = sluice_chain_commit(&cs->gathered, done);
        if (error)
            return error;
        n -= done;
    }
    return 0;
}

/* Decided by the chunk size: the last piece of a message may be small in any case. */
static bool is_to_be_copied(const sluice_rtmp *rtmp, const struct chunk_stream *cs) {
    if (cs->pieces >= rtmp->limits.pieces)
        return true;
    return cs->pieces >= SLUICE_RTMP_FREE_PIECES && rtmp->chunk_size < rtmp->limits.copy_below;
}

/* The payload of a chunk that is not the whole message. Messages in many pieces do not use up the
 * views that all framing needs. */
static int gather(sluice_rtmp *rtmp, struct chunk_stream *cs, sluice_chain *chain, size_t n) {
    if (!cs->gathered.pool)
        make_gathered(cs, chain->pool);
    int error = pool_is_one(cs->gathered.pool, chain->pool) ? 0 : follow_pool(cs, chain->pool);
    if (error)
        return error;
    if (is_to_be_copied(rtmp, cs) || pool_is_short_of_views(chain->pool))
        return copy_piece(cs, chain, n);
    size_t before = cs->gathered.blocks;
    error = sluice_chain_move(chain, n, &cs->gathered);
    if (error == -ENOBUFS)
        return copy_piece(cs, chain, n);
    cs->pieces += (uint32_t)(cs->gathered.blocks - before);
    return error;
}

/* ---- Messages ---- */

/* What the framer itself has to know. */
static int apply_control(sluice_rtmp *rtmp) {
    sluice_rtmp_control control;
    int error = sluice_rtmp_read_control(&rtmp->message, &control);
    struct chunk_stream *cs;
    if (error)
        return error == -ENOMSG ? 0 : error;
    switch (control.type) {
    case SLUICE_RTMP_SET_CHUNK_SIZE:
        rtmp->chunk_size = control.value;
        break;
    case SLUICE_RTMP_ABORT:
        if ((cs = find_stream(rtmp, control.value)))
            drop(rtmp, cs);
        break;
    case SLUICE_RTMP_WINDOW_SIZE:
        rtmp->window = control.value;
        break;
    default:
        break;
    }
    return 0;
}

static int deliver(sluice_rtmp *rtmp, const struct rtmp_previous *previous) {
    rtmp->message.type = previous->type;
    rtmp->message.chunk_stream = previous->id;
    rtmp->message.stream = previous->stream;
    rtmp->message.timestamp = previous->timestamp;
    rtmp->message.size = previous->size;
    int error = apply_control(rtmp);
    if (error)
        sluice_slice_release(&rtmp->message.payload);
    return error ? error : 1;
}

/* A message begins: whether it may. One that is whole in its first chunk is not gathered. */
static int check_begin(const sluice_rtmp *rtmp, uint32_t size) {
    if (size > rtmp->limits.message)
        return -EMSGSIZE;
    return size > rtmp->chunk_size && size > rtmp->limits.gathered - rtmp->announced ? -EMSGSIZE : 0;
}

/* The chunk is whole, and leaves the chain. */
static int take_chunk(sluice_rtmp *rtmp, struct chunk_stream *cs, sluice_chain *chain, const struct rtmp_header *header,
                      uint32_t here) {
    rtmp->received += header->length + here;
    rtmp->need = 1;
    cs->previous = header->next;
    if (cs->left == 0 && here == header->next.size) {
        if (!chain_take_within(chain, header->length, here, 0, &rtmp->message.payload)) {
            sluice_chain_skip(chain, header->length);
            (void)sluice_chain_take(chain, here, &rtmp->message.payload);
        }
        return deliver(rtmp, &cs->previous);
    }
    if (cs->left == 0) {
        cs->left = header->next.size;
        rtmp->announced += cs->left;
    }
    chain_skip(chain, header->length);
    int error = gather(rtmp, cs, chain, here);
    if (error)
        return error;
    cs->left -= here;
    if (cs->left > 0)
        return 0;
    rtmp->announced -= cs->previous.size;
    cs->pieces = 0;
    (void)sluice_chain_take(&cs->gathered, chain_length(&cs->gathered), &rtmp->message.payload);
    return deliver(rtmp, &cs->previous);
}

/* The header is read anew when the rest of the chunk has come. */
static int read_chunk(sluice_rtmp *rtmp, sluice_chain *chain) {
    struct rtmp_header header;
    uint32_t id;
    size_t need = rtmp_read_id(chain, &id);
    if (need > 0) {
        rtmp->need = need;
        return 0;
    }
    struct chunk_stream *cs = find_stream(rtmp, id);
    uint32_t left = cs ? cs->left : 0;
    int result = rtmp_read_header(chain, cs ? &cs->previous : NULL, left, &header);
    if (result == 0)
        rtmp->need = header.length;
    if (result <= 0)
        return result;
    int error = left > 0 ? 0 : check_begin(rtmp, header.next.size);
    if (error)
        return error;
    uint32_t here = left > 0 ? left : header.next.size;
    if (here > rtmp->chunk_size)
        here = rtmp->chunk_size;
    if (!cs && rtmp->count == rtmp->limits.chunk_streams)
        return -EMSGSIZE;
    rtmp->need = (size_t)header.length + here;
    if (chain_length(chain) < rtmp->need)
        return 0;
    error = cs ? 0 : add_stream(rtmp, id, &cs);
    return error ? error : take_chunk(rtmp, cs, chain, &header, here);
}

int sluice_rtmp_next(sluice_rtmp *rtmp, sluice_chain *chain, sluice_rtmp_message **ret_message) {
    sluice_slice_release(&rtmp->message.payload);
    /* Each round raises the need or consumes. */
    for (rtmp->chunks = 0; chain_length(chain) >= rtmp->need; rtmp->chunks++) {
        if (rtmp->chunks >= rtmp->limits.work)
            return MORE;
        int result = read_chunk(rtmp, chain);
        if (result < 0)
            return fail(rtmp, result);
        if (result == 0)
            continue;
        rtmp->chunks++;
        *ret_message = &rtmp->message;
        return 1;
    }
    return rtmp->error;
}
