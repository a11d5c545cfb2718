/*
 * Finds the complete tags of an unfinished recording, whatever lies between them, and decides
 * whether the remaining bytes can be media. A tag is complete if its header is one that recordings
 * have and the size after it agrees; so after damage the search continues byte by byte, in time
 * linear in the file.
 */
#ifndef SLUICED_RECORD_SCAN_H
#define SLUICED_RECORD_SCAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/flv.h>

enum { RECORD_TAG_AROUND = SLUICE_FLV_TAG_HEADER_SIZE + SLUICE_FLV_TRAILER_SIZE };

struct record_scan;

struct record_tag {
    sluice_flv_type type;
    uint32_t timestamp;
    uint32_t size;        /* of the payload, bytes */
    uint64_t place;       /* of the tag's header in the file */
    bool after_gap;       /* what lies before it is no tag */
    sluice_flv_view view; /* of the payload */
    /* until the next call; of audio and video that is large the first part */
    const sluice_slice *payload;
};

/* What lies behind the last whole tag. */
enum record_tail {
    /* nothing, or zeros, which a file system leaves where data was never written */
    RECORD_TAIL_NONE,
    RECORD_TAIL_CUT,     /* the beginning of a tag, without a byte of audio or video */
    RECORD_TAIL_FRAME,   /* the beginning of a tag with some of its audio or video */
    RECORD_TAIL_UNKNOWN, /* anything else */
};

/*
 * @fd: must stay. @ending: the search stops when it becomes true. 0, -ENOMEM, or -errno of reading
 */
int record_scan_new(int fd, const atomic_bool *ending, struct record_scan **ret_scan);
void record_scan_free(struct record_scan *scan);

/* The next whole tag: 1; 0: there is none any more; -ECANCELED, -ENOMEM, or -errno of reading */
int record_scan_next(struct record_scan *scan, struct record_tag *ret_tag);

/* The end of the last whole tag that was found; before the first, of the file header. */
uint64_t record_scan_end(const struct record_scan *scan);

/* Bytes of the file. */
uint64_t record_scan_size(const struct record_scan *scan);

/* Whether the file begins as recordings do, and no two tags had anything between them. */
bool record_scan_is_sound(const struct record_scan *scan);

/* After the last tag. 0, -ECANCELED, or -errno of reading */
int record_scan_tail(struct record_scan *scan, enum record_tail *ret_tail);

#endif
