/* Slices made of bytes, in pieces of the test's choice. */
#ifndef SLUICE_TESTS_SUPPORT_SLICES_H
#define SLUICE_TESTS_SUPPORT_SLICES_H

#include <sluice/slice.h>

#include "support/feed.h"
#include "support/http_feed.h"

/* The bytes as a slice: in blocks of at most @piece bytes, 0 for as few as there can be. */
static inline sluice_slice slice_of(sluice_pool *pool, const void *bytes, size_t size, size_t piece) {
    sluice_chain *chain = http_feed_chain(pool);
    sluice_slice slice = {0};
    feed(chain, pool, bytes, size, piece);
    assert_int_equal(sluice_chain_take(chain, size, &slice), 0);
    sluice_chain_free(chain);
    return slice;
}

/* The first @size guarded bytes as a slice that is cut in two places. */
static inline sluice_slice slice_guarded(sluice_pool *pool, feed_guarded *guarded, size_t a, size_t b, size_t size) {
    sluice_chain *chain = http_feed_chain(pool);
    sluice_slice slice = {0};
    feed_guarded_range(guarded, chain, 0, a);
    feed_guarded_range(guarded, chain, a, b);
    feed_guarded_range(guarded, chain, b, size);
    assert_int_equal(sluice_chain_take(chain, size, &slice), 0);
    sluice_chain_free(chain);
    return slice;
}

/* The bytes of a slice, not counted as copied; returns how many. */
static inline size_t slice_bytes(const sluice_slice *slice, uint8_t *to, size_t size) {
    struct iovec pieces[4096];
    size_t count = sluice_slice_iov(slice, 0, pieces, 4096), n = 0;
    assert_true(count <= 4096 && slice->length <= size);
    for (size_t i = 0; i < count; n += pieces[i++].iov_len)
        memcpy(to + n, pieces[i].iov_base, pieces[i].iov_len);
    return n;
}

#endif
