#include <sluice/flv.h>

#include <errno.h>
#include <stdlib.h>

#include "framers/flv/flv_view.h"
#include "memory/chain.h"
#include "reader/cursor.h"

enum {
    FILE_HEADER_MIN = 9,
    FILE_HEADER_MAX = 64 << 10, /* 9 in practice; the field allows 4 GiB */
    TAG_TYPE_MASK = 0x1F,
    TAG_RESERVED = 0xC0,
    TAG_FILTER = 0x20,
};

enum flv_state {
    FLV_START, /* before the file header; set by sluice_flv_new() */
    /* at a tag; set by read_start(), by read_tag() behind a tag, by skip_rest() at the end of
     * one */
    FLV_TAG,
    /* inside a skipped tag; set by read_tag(): received bytes are dropped, not gathered */
    FLV_SKIPPING,
    FLV_FAILED, /* for good; set by fail() */
};

struct sluice_flv {
    enum flv_state state;
    int error;   /* FLV_FAILED: what next() returns; else 0 */
    size_t need; /* below this many bytes in the chain next() has nothing to look at */
    uint32_t limit;
    uint32_t skip; /* FLV_SKIPPING: bytes of the tag and its trailer still to drop */
    uint8_t flags;
    /* handed out by pointer, so that a consumer's keep() empties this very slice */
    sluice_flv_tag tag;
};

int sluice_flv_new(uint32_t limit, sluice_flv **ret_flv) {
    if (limit > SLUICE_FLV_MAX_PAYLOAD)
        return -EINVAL;
    sluice_flv *flv = calloc(1, sizeof *flv);
    if (!flv)
        return -ENOMEM;
    flv->state = FLV_START;
    flv->need = 1;
    flv->limit = limit ? limit : SLUICE_FLV_DEFAULT_LIMIT;
    *ret_flv = flv;
    return 0;
}

void sluice_flv_free(sluice_flv *flv) {
    if (!flv)
        return;
    sluice_slice_release(&flv->tag.payload);
    free(flv);
}

size_t sluice_flv_need(const sluice_flv *flv) {
    return flv->need;
}

uint8_t sluice_flv_flags(const sluice_flv *flv) {
    return flv->flags;
}

/* No arrival is enough any more: next() ends at its first comparison. */
static int fail(sluice_flv *flv, int error) {
    flv->state = FLV_FAILED;
    flv->error = error;
    flv->need = SIZE_MAX;
    return error;
}

static void expect_tag(sluice_flv *flv) {
    flv->state = FLV_TAG;
    flv->need = SLUICE_FLV_TAG_HEADER_SIZE;
}

/*
 * Checks the signature and the version byte by byte, so that other data is rejected at the first
 * wrong byte.
 */
static int check_signature(sluice_flv *flv, sluice_cursor *cursor) {
    static const uint8_t signature[] = {'F', 'L', 'V', 1};
    for (size_t i = 0; i < sizeof signature; i++) {
        uint8_t byte;
        if (!cursor_u8(cursor, &byte)) {
            flv->need = i + 1;
            return 0;
        }
        if (byte != signature[i])
            return fail(flv, i < 3 ? -EPROTO : -EPROTONOSUPPORT);
    }
    flv->need = FILE_HEADER_MIN;
    return 0;
}

/* The file header up to its data offset, and the PreviousTagSize after it, which is not used. */
static int read_start(sluice_flv *flv, sluice_chain *chain) {
    sluice_cursor cursor = cursor_of_chain(chain);
    int error = check_signature(flv, &cursor);
    uint8_t flags;
    uint32_t offset;
    if (error || !cursor_u8(&cursor, &flags) || !cursor_be32(&cursor, &offset))
        return error;
    if (offset < FILE_HEADER_MIN || offset > FILE_HEADER_MAX)
        return fail(flv, -EPROTO);
    flv->need = offset + SLUICE_FLV_TRAILER_SIZE;
    if (chain_length(chain) < flv->need)
        return 0;
    flv->flags = flags;
    sluice_chain_skip(chain, flv->need);
    expect_tag(flv);
    return 0;
}

static bool is_known(uint8_t type) {
    return type == SLUICE_FLV_AUDIO || type == SLUICE_FLV_VIDEO || type == SLUICE_FLV_SCRIPT;
}

/* The whole tag is there, but not in one block. By itself: the usual tag needs none of its room.
 * The trailer. */
static __attribute__((noinline)) uint32_t take_straddling(sluice_chain *chain, uint32_t size,
                                                          sluice_slice *ret_payload) {
    uint32_t trailer = 0;
    chain_skip(chain, SLUICE_FLV_TAG_HEADER_SIZE);
    sluice_chain_take(chain, size, ret_payload);
    sluice_cursor cursor = cursor_of_chain(chain);
    cursor_be32(&cursor, &trailer);
    chain_skip(chain, SLUICE_FLV_TRAILER_SIZE);
    return trailer;
}

/* The whole tag is there. */
static void take_tag(sluice_flv *flv, sluice_chain *chain, sluice_flv_type type, uint32_t size, uint32_t timestamp) {
    sluice_flv_tag *tag = &flv->tag;
    const uint8_t *behind = chain_take_within(chain, SLUICE_FLV_TAG_HEADER_SIZE, size, SLUICE_FLV_TRAILER_SIZE,
                                              &tag->payload);
    uint32_t trailer = behind ? (uint32_t)bytes_be32(behind) : take_straddling(chain, size, &tag->payload);
    tag->type = type;
    tag->timestamp = timestamp;
    tag->size = size;
    tag->trailer_ok = trailer == SLUICE_FLV_TAG_HEADER_SIZE + size;
    flv_view(type, &tag->payload, &tag->view);
}

/* All of a tag's header but the stream id, which is 0 or means nothing. The chain has it. */
static uint64_t header_of(const sluice_chain *chain) {
    if (chain_here(chain) >= sizeof(uint64_t))
        return bytes_be64(chain->front.at);
    uint64_t header = 0;
    sluice_cursor cursor = cursor_of_chain(chain);
    cursor_be64(&cursor, &header);
    return header;
}

/* The header is read anew when the rest has come: that is cheaper than a state that remembers
 * it. */
static int read_tag(sluice_flv *flv, sluice_chain *chain) {
    uint64_t header = header_of(chain);
    uint8_t first = (uint8_t)(header >> 56);
    uint32_t size = (uint32_t)(header >> 32) & 0xFFFFFF;
    /* The low 24 bits, then the high 8 in the extension byte. */
    uint32_t timestamp = (uint32_t)(header >> 8 & 0xFFFFFF) | (uint32_t)(header & 0xFF) << 24;
    uint8_t type = first & TAG_TYPE_MASK;
    uint32_t whole = SLUICE_FLV_TAG_HEADER_SIZE + size + SLUICE_FLV_TRAILER_SIZE;
    /* Skipping unknown types is safe only as long as this still is a tag: text, or a second file
     * header, is not. */
    if (first & TAG_RESERVED)
        return fail(flv, -EPROTO);
    if (first & TAG_FILTER)
        return fail(flv, -EACCES);
    if (size == 0 || !is_known(type)) {
        flv->state = FLV_SKIPPING;
        flv->skip = whole;
        flv->need = 1;
        return 0;
    }
    if (size > flv->limit)
        return fail(flv, -EMSGSIZE);
    if (chain_length(chain) < whole) {
        flv->need = whole;
        return 0;
    }
    take_tag(flv, chain, (sluice_flv_type)type, size, timestamp);
    expect_tag(flv);
    return 1;
}

static void skip_rest(sluice_flv *flv, sluice_chain *chain) {
    flv->skip -= (uint32_t)sluice_chain_skip(chain, flv->skip);
    if (flv->skip == 0)
        expect_tag(flv);
}

int sluice_flv_next(sluice_flv *flv, sluice_chain *chain, sluice_flv_tag **ret_tag) {
    if (flv->tag.payload.first)
        sluice_slice_release(&flv->tag.payload);
    /* Each round raises the need or consumes. */
    while (chain_length(chain) >= flv->need) {
        int result = 0;
        if (flv->state == FLV_TAG)
            result = read_tag(flv, chain);
        else if (flv->state == FLV_SKIPPING)
            skip_rest(flv, chain);
        else
            result = read_start(flv, chain);
        if (result > 0)
            *ret_tag = &flv->tag;
        if (result != 0)
            return result;
    }
    return flv->error;
}
