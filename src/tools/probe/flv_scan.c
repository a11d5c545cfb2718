#include "tools/probe/flv_scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/reader.h>

enum {
    HEADER = SLUICE_FLV_TAG_HEADER_SIZE,
    TRAILER = SLUICE_FLV_TRAILER_SIZE,
    FILE_HEADER = 9,
    FILE_HEADER_MOST = 1024, /* data offset that is believed */
    MARK = SLUICE_FLV_MAX_PAYLOAD + 2 * (HEADER + TRAILER),
};

struct flv_scan {
    sluice_chain *input, *clean; /* clean: what the framer sees, sound tags alone */
    sluice_reader *reader;
    sluice_flv *flv;
    bool begun;
    bool searching;     /* for the next tag */
    bool was_cut;       /* what was not sound is a tag that ends beyond the end */
    uint64_t lost_from; /* where that lay */
};

/* What a tag's header says, as far as a border is to be believed. */
struct header {
    bool possible; /* it can be one */
    bool wanted;   /* of a type that is known, and neither empty nor encrypted */
    uint32_t size;
};

static struct header read_header(const uint8_t bytes[HEADER]) {
    struct header header = {.size = (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3]};
    uint8_t type = bytes[0] & 0x1F;
    bool known = type == SLUICE_FLV_AUDIO || type == SLUICE_FLV_VIDEO || type == SLUICE_FLV_SCRIPT;
    header.possible = !(bytes[0] & 0xC0) && known && !(bytes[8] | bytes[9] | bytes[10]);
    header.wanted = !(bytes[0] & 0x20) && header.size > 0;
    return header;
}

int flv_scan_new(sluice_pool *pool, sluice_chain *input, struct flv_scan **ret_scan) {
    static const uint8_t file_header[] = {'F', 'L', 'V', 1, 5, 0, 0, 0, 9, 0, 0, 0, 0};
    struct flv_scan *scan = calloc(1, sizeof *scan);
    if (!scan)
        return -ENOMEM;
    scan->input = input;
    int error = sluice_chain_new(pool, &scan->clean);
    if (!error)
        error = sluice_reader_new(input, &scan->reader);
    if (!error)
        error = sluice_flv_new(SLUICE_FLV_MAX_PAYLOAD, &scan->flv);
    /* The framer gets a header of ours: the stream's own may be what is damaged. */
    if (!error)
        error = sluice_chain_append_memory(scan->clean, file_header, sizeof file_header, NULL, NULL);
    if (error) {
        flv_scan_free(scan);
        return error;
    }
    *ret_scan = scan;
    return 0;
}

void flv_scan_free(struct flv_scan *scan) {
    if (!scan)
        return;
    sluice_flv_free(scan->flv);
    sluice_reader_free(scan->reader);
    sluice_chain_free(scan->clean);
    free(scan);
}

/* Bytes at a distance from the front, without consuming any. False where they are not there. */
static bool look(struct flv_scan *scan, size_t at, size_t n, uint8_t *bytes) {
    const uint8_t *view;
    if (sluice_chain_length(scan->input) < at + n || sluice_reader_mark(scan->reader, MARK) < 0)
        return false;
    bool seen = sluice_reader_skip(scan->reader, at) == 0 && sluice_reader_peek(scan->reader, n, bytes, &view) == 0;
    if (seen && view != bytes)
        memcpy(bytes, view, n);
    sluice_reader_rewind(scan->reader);
    sluice_reader_unmark(scan->reader);
    return seen;
}

/* What is at the front. */
enum verdict { SOUND, WRONG_TRAILER, BROKEN, MORE, CUT };

static enum verdict judge(struct flv_scan *scan, bool ended, struct header *ret_header) {
    uint8_t bytes[HEADER > TRAILER ? HEADER : TRAILER];
    size_t length = sluice_chain_length(scan->input);
    if (!look(scan, 0, HEADER, bytes))
        return ended ? CUT : MORE;
    struct header header = read_header(bytes), next;
    *ret_header = header;
    if (!header.possible)
        return BROKEN;
    size_t size = HEADER + (size_t)header.size + TRAILER;
    if (length < size)
        return ended ? CUT : MORE;
    if (!look(scan, size - TRAILER, TRAILER, bytes))
        return BROKEN;
    uint32_t trailer = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    if (trailer == HEADER + header.size)
        return SOUND;
    if (length == size && ended)
        return WRONG_TRAILER;
    if (!look(scan, size, HEADER, bytes))
        return ended ? BROKEN : MORE;
    next = read_header(bytes);
    return next.possible ? WRONG_TRAILER : BROKEN;
}

static void fault(struct flv_scan_step *step, enum flv_scan_fault what, uint64_t offset, uint64_t bytes) {
    *step = (struct flv_scan_step){.has_fault = true, .fault = what, .offset = offset, .bytes = bytes};
}

/* The file header. 1 (a fault is to be told), 0 (go on), -EAGAIN */
static int begin(struct flv_scan *scan, bool ended, struct flv_scan_step *step) {
    uint8_t bytes[FILE_HEADER];
    if (!look(scan, 0, FILE_HEADER, bytes) && !ended)
        return -EAGAIN;
    bool whole = sluice_chain_length(scan->input) >= FILE_HEADER;
    if (whole && memcmp(bytes, "FLV\x01", 4) == 0) {
        uint32_t offset = (uint32_t)bytes[5] << 24 | (uint32_t)bytes[6] << 16 | (uint32_t)bytes[7] << 8 | bytes[8];
        if (offset < FILE_HEADER || offset > FILE_HEADER_MOST)
            offset = FILE_HEADER;
        if (sluice_chain_length(scan->input) < offset + TRAILER && !ended)
            return -EAGAIN;
        scan->begun = true;
        sluice_chain_skip(scan->input, offset + TRAILER);
        return 0;
    }
    scan->begun = true;
    fault(step, FLV_SCAN_NO_HEADER, 0, 0);
    return 1;
}

/* Searches for the next place at which a tag is sound. 1 (found, or all is searched to the end), 0
 * (more is needed) */
static int search(struct flv_scan *scan, bool ended) {
    while (sluice_chain_length(scan->input) > 0) {
        struct header header;
        enum verdict verdict = judge(scan, ended, &header);
        if (verdict == SOUND)
            return 1;
        /* It may be a tag that is not all there. */
        if (verdict == MORE)
            return 0;
        sluice_chain_skip(scan->input, 1);
    }
    return ended;
}

static int take(struct flv_scan *scan, enum verdict verdict, const struct header *header, struct flv_scan_step *step) {
    uint64_t offset = sluice_chain_consumed(scan->input);
    size_t size = HEADER + (size_t)header->size + TRAILER;
    if (!header->wanted) {
        sluice_chain_skip(scan->input, size);
        fault(step, FLV_SCAN_UNKNOWN_TAG, offset, size);
        return 1;
    }
    sluice_flv_tag *tag;
    int result = sluice_chain_move(scan->input, size, scan->clean);
    if (result == 0)
        result = sluice_flv_next(scan->flv, scan->clean, &tag);
    if (result <= 0)
        return result < 0 ? result : -EBADMSG;
    *step = (struct flv_scan_step){
        .tag = tag, .offset = offset, .has_fault = verdict == WRONG_TRAILER, .fault = FLV_SCAN_WRONG_TRAILER};
    return 1;
}

int flv_scan_next(struct flv_scan *scan, bool ended, struct flv_scan_step *ret_step) {
    if (!scan->begun) {
        int result = begin(scan, ended, ret_step);
        if (result)
            return result < 0 ? 0 : 1;
    }
    if (!scan->searching) {
        struct header header;
        if (sluice_chain_length(scan->input) == 0)
            return 0;
        enum verdict verdict = judge(scan, ended, &header);
        if (verdict == MORE)
            return 0;
        if (verdict == SOUND || verdict == WRONG_TRAILER)
            return take(scan, verdict, &header, ret_step);
        scan->searching = true;
        scan->lost_from = sluice_chain_consumed(scan->input);
        scan->was_cut = verdict == CUT;
        sluice_chain_skip(scan->input, 1);
    }
    if (!search(scan, ended))
        return 0;
    scan->searching = false;
    bool truncated = scan->was_cut && sluice_chain_length(scan->input) == 0;
    fault(ret_step, truncated ? FLV_SCAN_TRUNCATED : FLV_SCAN_DAMAGE, scan->lost_from,
          sluice_chain_consumed(scan->input) - scan->lost_from);
    return 1;
}
