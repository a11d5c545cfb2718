/*
 * Makes a playable recording from the intact parts of a damaged one. The damaged file is only read.
 */
#ifndef SLUICED_RECORD_SALVAGE_H
#define SLUICED_RECORD_SALVAGE_H

#include <stdatomic.h>
#include <stdint.h>

#include "daemon/recording/flv_index.h"

/*
 * Writes a recording of the complete tags of @from to @to, an empty file. Frames without their
 * decoder configuration are left out, and so is video after a gap up to the next key frame. Times
 * are not changed. @ret_index: contents of the recording, to be cleared in any case; without frames
 * the file is useless. @ret_bytes: of the file. 0, -ECANCELED, -ENOMEM, or -errno
 */
int record_salvage(int from, int to, const atomic_bool *ending, struct flv_index *ret_index, uint64_t *ret_bytes);

#endif
