#include "support/feed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/poison.h"

void feed(sluice_chain *chain, sluice_pool *pool, const void *bytes, size_t size, size_t piece) {
    const uint8_t *from = bytes;
    while (size > 0) {
        sluice_block *block = NULL;
        assert_int_equal(sluice_block_get(pool, &block), 0);
        size_t here = sluice_block_capacity(block);
        if (piece > 0 && here > piece)
            here = piece;
        if (here > size)
            here = size;
        memcpy(sluice_block_data(block), from, here);
        assert_int_equal(sluice_block_set_length(block, (uint32_t)here), 0);
        poison_memory(sluice_block_data(block) + here, sluice_block_capacity(block) - here);
        sluice_chain_append(chain, block);
        from += here;
        size -= here;
    }
}

struct feed_guarded {
    size_t size;
    size_t page;
    uint8_t **ends; /* by length: where the guard behind the first so many bytes begins */
};

/* Pages that hold @length bytes. */
static size_t data_pages(const feed_guarded *guarded, size_t length) {
    return (length + guarded->page - 1) / guarded->page * guarded->page;
}

feed_guarded *feed_guarded_new(const void *bytes, size_t size) {
    feed_guarded *guarded = calloc(1, sizeof *guarded);
    assert_non_null(guarded);
    guarded->size = size;
    guarded->page = (size_t)sysconf(_SC_PAGESIZE);
    guarded->ends = calloc(size + 1, sizeof *guarded->ends);
    assert_non_null(guarded->ends);
    for (size_t length = 1; length <= size; length++) {
        size_t pages = data_pages(guarded, length);
        uint8_t *area = mmap(NULL, pages + guarded->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(area != MAP_FAILED);
        assert_int_equal(mprotect(area + pages, guarded->page, PROT_NONE), 0);
        guarded->ends[length] = area + pages;
        memcpy(area + pages - length, bytes, length);
    }
    return guarded;
}

void feed_guarded_free(feed_guarded *guarded) {
    if (!guarded)
        return;
    for (size_t length = 1; length <= guarded->size; length++) {
        size_t pages = data_pages(guarded, length);
        munmap(guarded->ends[length] - pages, pages + guarded->page);
    }
    free(guarded->ends);
    free(guarded);
}

void feed_guarded_range(feed_guarded *guarded, sluice_chain *chain, size_t from, size_t to) {
    if (from >= to)
        return;
    if (to > guarded->size)
        fail_msg("the bytes end at %zu, not at %zu", guarded->size, to);
    assert_int_equal(sluice_chain_append_memory(chain, guarded->ends[to] - (to - from), to - from, NULL, NULL), 0);
}

size_t feed_cuts_apart(void) {
#ifdef __SANITIZE_THREAD__
    size_t apart = 16;
#else
    size_t apart = 1;
#endif
    const char *text = getenv("SLUICE_TEST_CUTS_APART");
    if (text)
        apart = strtoul(text, NULL, 10);
    return apart > 0 ? apart : 1;
}

void feed_assert_returned(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.views, 0);
    assert_int_equal(stats.foreign, 0);
}

void feed_free_pool(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    feed_assert_returned(pool);
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.bytes_copied, 0);
    sluice_pool_free(pool);
}

int feed_set_up(void **state) {
    const sluice_pool_options options = {.size = sizeof options, .no_huge_pages = true};
    sluice_pool *pool = NULL;
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    *state = pool;
    return 0;
}

int feed_tear_down(void **state) {
    feed_free_pool(*state);
    return 0;
}
