/* The memory of slabs: from the system, and back. */
#ifndef SLUICE_SLAB_MEMORY_H
#define SLUICE_SLAB_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SLAB_HUGE_PAGE = 2 << 20 };

/* Zeroed and untouched; NULL where there is none. @huge: of huge pages, where the system keeps some
 * and the size is a multiple; ret_huge: whether it is. */
uint8_t *slab_memory_map(size_t size, bool huge, bool *ret_huge);

void slab_memory_unmap(uint8_t *memory, size_t size);

/* Whether huge pages are wanted. Before it is touched: what has been touched stays as it is. */
void slab_memory_advise(uint8_t *memory, size_t size, bool huge);

#endif
