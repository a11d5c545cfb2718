/*
 * Goes over an FLV stream that may be damaged: tags that are sound go through the library's framer,
 * and where none can be, the next place at which one begins is searched for. Says where what was
 * wrong. Knows no files and no sockets.
 *
 * A tag is taken for sound when its header can be one and its PreviousTagSize is right; where that
 * is wrong, when the next tag's header follows, or the end: some writers get the size wrong all the
 * time.
 */
#ifndef TOOLS_FLV_SCAN_H
#define TOOLS_FLV_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/chain.h>
#include <sluice/flv.h>

enum flv_scan_fault {
    FLV_SCAN_NO_HEADER,     /* the stream does not begin with a file header */
    FLV_SCAN_DAMAGE,        /* bytes that belong to no tag were skipped */
    FLV_SCAN_WRONG_TRAILER, /* a PreviousTagSize that is not that of its tag */
    /* a tag of a type that is not known, or an empty one, or an encrypted one; skipped */
    FLV_SCAN_UNKNOWN_TAG,
    FLV_SCAN_TRUNCATED, /* the end comes within a tag */
};

/* What the next step has found. */
struct flv_scan_step {
    sluice_flv_tag *tag; /* or NULL for a fault alone; the scan's, until its next step */
    uint64_t offset;     /* of the tag, or of what is wrong */
    bool has_fault;
    enum flv_scan_fault fault;
    uint64_t bytes; /* skipped */
};

struct flv_scan;

/* @input stays the caller's, and must outlive the scan. 0, -ENOMEM */
int flv_scan_new(sluice_pool *pool, sluice_chain *input, struct flv_scan **ret_scan);
void flv_scan_free(struct flv_scan *scan);

/*
 * One step. @ended: nothing will be added to the input. 1, 0 (more is needed, or, where it has
 * ended, it is all done), -ENOBUFS, -ENOMEM
 */
int flv_scan_next(struct flv_scan *scan, bool ended, struct flv_scan_step *ret_step);

#endif
