#include "support/vectors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

uint8_t *vector_read(const char *name, size_t *ret_size) {
    char path[4096];
    assert_true(snprintf(path, sizeof path, "%s/%s", SLUICE_TEST_VECTORS, name) < (int)sizeof path);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be opened", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    assert_true(size > 0);
    rewind(file);
    uint8_t *bytes = malloc((size_t)size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)size, file), size);
    assert_int_equal(fclose(file), 0);
    *ret_size = (size_t)size;
    return bytes;
}
