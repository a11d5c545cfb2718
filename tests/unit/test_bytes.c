/* The inline-first byte builder: what it holds, what it allocates, its limit. realloc() and free()
 * are counted. */
#include <sluice/bytes.h>

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/chain.h>

#include "support/feed.h"

/* The linker puts these in the place of the calls (--wrap). */
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);
void *__wrap_realloc(void *memory, size_t size);
void __wrap_free(void *memory);

static uint8_t text[2048];

static struct {
    size_t allocations, live;
    bool fail;
} heap;

/* What grows always moves, as it may: whoever still reads it at the old place reads freed
 * memory. */
void *__wrap_realloc(void *memory, size_t size) {
    void *moved = heap.fail ? NULL : __real_realloc(NULL, size);
    if (!moved)
        return NULL;
    heap.allocations++;
    heap.live += !memory;
    size_t old = memory ? malloc_usable_size(memory) : 0;
    memcpy(moved, memory ? memory : text, old < size ? old : size);
    __real_free(memory);
    return moved;
}

void __wrap_free(void *memory) {
    heap.live -= memory != NULL;
    __real_free(memory);
}

static const size_t sizes[] = {0, 1, 5, 63, 64, 65, 127, 128, 129, 1024, 2048};
enum { SIZES = sizeof sizes / sizeof *sizes };

static int fill(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)(i * 7 >> 2);
    return 0;
}

static void assert_holds(const sluice_bytes *bytes, size_t n) {
    assert_int_equal(sluice_bytes_length(bytes), n);
    assert_non_null(sluice_bytes_view(bytes));
    assert_memory_equal(sluice_bytes_view(bytes), text, n);
}

static void in_one_piece_at_most_one_allocation(void **state) {
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        size_t before = heap.allocations, live = heap.live;
        sluice_bytes bytes;
        sluice_bytes_init(&bytes, sizeof text);
        assert_int_equal(sluice_bytes_append(&bytes, text, sizes[i]), 0);
        assert_holds(&bytes, sizes[i]);
        assert_int_equal(heap.allocations - before, sizes[i] > SLUICE_BYTES_INLINE);
        sluice_bytes_free(&bytes);
        assert_int_equal(heap.live, live);
        assert_int_equal(sluice_bytes_length(&bytes), 0);
        sluice_bytes_free(&bytes);
    }
}

/* Byte by byte and by odd pieces: 64, then doubling, never beyond the limit. */
static void in_pieces_it_doubles(void **state) {
    (void)state;
    for (size_t i = 0; i < SIZES; i++)
        for (size_t piece = 1; piece <= 70; piece += 23) {
            size_t before = heap.allocations, expected = 0, live = heap.live;
            for (size_t room = SLUICE_BYTES_INLINE; room < sizes[i]; room *= 2)
                expected++;
            sluice_bytes bytes;
            sluice_bytes_init(&bytes, sizes[i]);
            for (size_t done = 0; done < sizes[i];) {
                size_t n = piece < sizes[i] - done ? piece : sizes[i] - done;
                assert_int_equal(sluice_bytes_append(&bytes, text + done, n), 0);
                done += n;
                assert_holds(&bytes, done);
            }
            assert_true(heap.allocations - before <= expected);
            if (piece == 1)
                assert_int_equal(heap.allocations - before, expected);
            assert_true(bytes.capacity <= sizes[i]);
            sluice_bytes_free(&bytes);
            assert_int_equal(heap.live, live);
        }
}

static void cleared_it_keeps_its_memory(void **state) {
    (void)state;
    sluice_bytes bytes;
    sluice_bytes_init(&bytes, sizeof text);
    assert_int_equal(sluice_bytes_append(&bytes, text, 1000), 0);
    size_t before = heap.allocations;
    for (int i = 0; i < 10; i++) {
        sluice_bytes_clear(&bytes);
        assert_int_equal(sluice_bytes_length(&bytes), 0);
        assert_int_equal(sluice_bytes_append(&bytes, text, 1000), 0);
        assert_holds(&bytes, 1000);
    }
    assert_int_equal(heap.allocations, before);
    sluice_bytes_free(&bytes);
}

static void beyond_the_limit_nothing_changes(void **state) {
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        sluice_bytes bytes;
        sluice_bytes_init(&bytes, sizes[i]);
        assert_int_equal(sluice_bytes_append(&bytes, text, sizes[i] / 2), 0);
        size_t before = heap.allocations, left = sizes[i] - sizes[i] / 2;
        volatile size_t far = SIZE_MAX; /* so that the compiler does not refuse it */
        assert_int_equal(sluice_bytes_append(&bytes, text, left + 1), -EMSGSIZE);
        assert_int_equal(sluice_bytes_append(&bytes, text, far), -EMSGSIZE);
        assert_int_equal(heap.allocations, before);
        assert_holds(&bytes, sizes[i] / 2);
        assert_int_equal(sluice_bytes_append(&bytes, text + sizes[i] / 2, left), 0);
        assert_int_equal(sluice_bytes_append(&bytes, NULL, 0), 0);
        assert_int_equal(sluice_bytes_append(&bytes, text, 1), -EMSGSIZE);
        assert_holds(&bytes, sizes[i]);
        sluice_bytes_free(&bytes);
    }
}

static void without_memory_nothing_changes(void **state) {
    (void)state;
    for (size_t n = SLUICE_BYTES_INLINE; n <= 128; n += 64) {
        sluice_bytes bytes;
        sluice_bytes_init(&bytes, sizeof text);
        assert_int_equal(sluice_bytes_append(&bytes, text, n), 0);
        heap.fail = true;
        int error = sluice_bytes_append(&bytes, text + n, 1);
        heap.fail = false;
        assert_int_equal(error, -ENOMEM);
        assert_holds(&bytes, n);
        assert_int_equal(sluice_bytes_append(&bytes, text + n, 1), 0);
        assert_holds(&bytes, n + 1);
        sluice_bytes_free(&bytes);
    }
}

static void its_own_bytes_can_be_appended(void **state) {
    (void)state;
    sluice_bytes bytes;
    sluice_bytes_init(&bytes, sizeof text);
    assert_int_equal(sluice_bytes_append(&bytes, "abcd", 4), 0);
    for (size_t n = 4; n < 1024; n *= 2)
        assert_int_equal(sluice_bytes_append(&bytes, sluice_bytes_view(&bytes), n), 0);
    for (size_t i = 0; i < 1024; i++)
        assert_int_equal(sluice_bytes_view(&bytes)[i], "abcd"[i % 4]);
    sluice_bytes_free(&bytes);
}

static void a_slice_is_gathered_and_counted(void **state) {
    (void)state;
    sluice_pool *pool;
    sluice_chain *chain;
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_options options = {.size = sizeof options, .block_size = 512, .slab_blocks = 8, .max_blocks = 4096};
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    assert_int_equal(sluice_chain_new(pool, &chain), 0);
    uint64_t copied = 0;
    for (size_t i = 0; i < SIZES; i++)
        for (size_t piece = 1; piece <= 600; piece += 37) {
            sluice_slice slice;
            sluice_bytes bytes;
            feed(chain, pool, text, sizes[i], piece);
            assert_int_equal(sluice_chain_take(chain, sizes[i], &slice), 0);
            size_t before = heap.allocations;
            sluice_bytes_init(&bytes, sizes[i]);
            assert_int_equal(sluice_bytes_append_slice(&bytes, &slice), 0);
            assert_holds(&bytes, sizes[i]);
            assert_int_equal(heap.allocations - before, sizes[i] > SLUICE_BYTES_INLINE);
            if (sizes[i] > 0)
                assert_int_equal(sluice_bytes_append_slice(&bytes, &slice), -EMSGSIZE);
            assert_holds(&bytes, sizes[i]);
            copied += sizes[i];
            sluice_pool_get_stats(pool, &stats);
            assert_int_equal(stats.bytes_copied, copied);
            sluice_bytes_free(&bytes);
            sluice_slice_release(&slice);
        }
    sluice_chain_free(chain);
    feed_assert_returned(pool);
    sluice_pool_free(pool);
}

static void null_is_nothing(void **state) {
    (void)state;
    sluice_bytes_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_one_piece_at_most_one_allocation), cmocka_unit_test(in_pieces_it_doubles),
        cmocka_unit_test(cleared_it_keeps_its_memory),         cmocka_unit_test(beyond_the_limit_nothing_changes),
        cmocka_unit_test(without_memory_nothing_changes),      cmocka_unit_test(its_own_bytes_can_be_appended),
        cmocka_unit_test(a_slice_is_gathered_and_counted),     cmocka_unit_test(null_is_nothing),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
