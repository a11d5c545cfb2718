/* Short text put together from pieces of 64 bytes, and given up again: inside the object, or always
 * on the heap. */
#include "memory/work.h"

#include <sluice/bytes.h>

#include <stdlib.h>
#include <string.h>

enum { MOST_TEXT = 1024, PIECE = 64 };

static const uint8_t *source(void) {
    static uint8_t text[MOST_TEXT];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)('a' + i % 26);
    return text;
}

/* What it costs to have put the text together must not be thought away. */
static uint64_t look(const uint8_t *text, size_t size) {
    __asm__ volatile("" : : "r"(text) : "memory");
    return size ? (uint64_t)text[size - 1] + text[size / 2] : 1;
}

static void run_library(const bench_work *work, uint64_t operations) {
    const uint8_t *from = source();
    uint64_t sum = 0;
    work_begin();
    for (uint64_t i = 0; i < operations; i++) {
        sluice_bytes bytes;
        sluice_bytes_init(&bytes, MOST_TEXT);
        for (size_t at = 0; at < work->most; at += PIECE)
            work_check("bytes",
                       sluice_bytes_append(&bytes, from + at, work->most - at < PIECE ? work->most - at : PIECE));
        sum += look(sluice_bytes_view(&bytes), sluice_bytes_length(&bytes));
        sluice_bytes_free(&bytes);
    }
    work_end(operations, operations * work->most, sum);
}

/* Doubles, beginning with a piece: as often as not what a program does. */
static void run_malloc(const bench_work *work, uint64_t operations) {
    const uint8_t *from = source();
    uint64_t sum = 0;
    work_begin();
    for (uint64_t i = 0; i < operations; i++) {
        size_t capacity = PIECE, length = 0;
        uint8_t *text = work_allocate(capacity);
        for (size_t at = 0; at < work->most; at += PIECE) {
            size_t part = work->most - at < PIECE ? work->most - at : PIECE;
            if (length + part > capacity) {
                capacity *= 2;
                uint8_t *larger = realloc(text, capacity);
                work_check("memory", larger ? 0 : -1);
                text = larger;
            }
            memcpy(text + length, from + at, part);
            length += part;
        }
        sum += look(text, length);
        free(text);
    }
    work_end(operations, operations * work->most, sum);
}

/* clang-format off */
#define IN_ALL_VARIANTS(name, size)              \
    {name, "library", run_library, size, size, 0}, \
    {name, "malloc", run_malloc, size, size, 0}

const bench_work text_work[] = {
    IN_ALL_VARIANTS("text-0", 0),
    IN_ALL_VARIANTS("text-5", 5),
    IN_ALL_VARIANTS("text-64", 64),
    IN_ALL_VARIANTS("text-128", 128),
    IN_ALL_VARIANTS("text-1024", 1024),
    {0},
};
