/* The files in tests/vectors: what other programs have sent. */
#ifndef SLUICE_TESTS_SUPPORT_VECTORS_H
#define SLUICE_TESTS_SUPPORT_VECTORS_H

#include <stddef.h>
#include <stdint.h>

/* The bytes of a file, to be freed by the caller. */
uint8_t *vector_read(const char *name, size_t *ret_size);

#endif
