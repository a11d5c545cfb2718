/*
 * Makes a recording that can be played of what is whole in a damaged one. The damaged file is only
 * read.
 */
#ifndef SLUICED_RECORD_SALVAGE_H
#define SLUICED_RECORD_SALVAGE_H

#include <stdatomic.h>
#include <stdint.h>

#include "daemon/recording/flv_index.h"

/*
 * Writes a recording to @to, an empty file, of the whole tags of @from. Frames whose decoder
 * configuration was lost are left out, and so is video behind a gap up to the next key frame. Times
 * stay as they are. @ret_index: what the recording holds, to be cleared in any case; without frames
 * the file is of no use. @ret_bytes: of the file. 0, -ECANCELED, -ENOMEM, or -errno
 */
int record_salvage(int from, int to, const atomic_bool *ending, struct flv_index *ret_index, uint64_t *ret_bytes);

#endif
