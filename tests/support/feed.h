/* Pushing bytes into a chain the way receives do: in blocks, cut anywhere. */
#ifndef SLUICE_TESTS_SUPPORT_FEED_H
#define SLUICE_TESTS_SUPPORT_FEED_H

#include <stddef.h>
#include <stdint.h>

#include <sluice/chain.h>
#include <sluice/pool.h>

/*
 * Appends the bytes in blocks of the pool, at most @piece bytes in each; 0 fills every block. Under
 * AddressSanitizer the rest of each block traps.
 */
void feed(sluice_chain *chain, sluice_pool *pool, const void *bytes, size_t size, size_t piece);

/*
 * Bytes that trap when they are read over, wherever they are cut: for each length there is a copy
 * of the first so many bytes that ends at a page nobody may touch. So any range of them can be had
 * as foreign memory behind which the guard begins, without copying anything when it is fed. Costs a
 * page or more per byte: for vectors of a few KiB.
 */
typedef struct feed_guarded feed_guarded;

feed_guarded *feed_guarded_new(const void *bytes, size_t size);

/* What was fed must have been released. NULL is allowed. */
void feed_guarded_free(feed_guarded *guarded);

/* Appends the bytes from @from up to, without, @to as one piece; an empty range appends nothing. */
void feed_guarded_range(feed_guarded *guarded, sluice_chain *chain, size_t from, size_t to);

/*
 * By how many bytes the first cuts of all pairs of cuts are apart: 1, unless SLUICE_TEST_CUTS_APART
 * says more, for whoever runs the same tests a thousand times. The thread sanitizer has nothing to
 * find in one thread and takes long for it: 16.
 */
size_t feed_cuts_apart(void);

/* All blocks and views are back in the pool, and foreign memory has been released. */
void feed_assert_returned(sluice_pool *pool);

/* The same, and no bytes were copied; frees the pool. */
void feed_free_pool(sluice_pool *pool);

/* The fixture of tests whose state is a pool with the default settings, as feed_free_pool(). */
int feed_set_up(void **state);
int feed_tear_down(void **state);

#endif
