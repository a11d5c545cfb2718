/* Reading files: the part common to both backends. */
#ifndef SLUICE_BACKENDS_IO_READ_H
#define SLUICE_BACKENDS_IO_READ_H

#include <sys/uio.h>

#include "backends/backend.h"

/*
 * The memory that @read lacks bytes in, in order, as pieces: at most IO_READ_BLOCKS of them. Blocks
 * that are neighbours in one slab make one piece. How many.
 */
uint32_t io_read_pieces(const io_read *read, struct iovec *pieces, sluice_block **ret_first);

#endif
