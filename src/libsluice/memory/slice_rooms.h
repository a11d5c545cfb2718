/*
 * Arrays of slices for framers whose frames need many for a short while. The framers of a pool
 * share them, so that a session has none between its frames. The pool owner's thread only.
 */
#ifndef SLUICE_MEMORY_SLICE_ROOMS_H
#define SLUICE_MEMORY_SLICE_ROOMS_H

#include <sluice/pool.h>
#include <sluice/slice.h>

enum {
    SLICE_ROOM_LEAST = 4, /* slices; then powers of two */
    SLICE_ROOM_MOST = 65536,
    SLICE_ROOM_SIZES = 15,
    SLICE_ROOMS_KEPT = 1 << 20, /* bytes of arrays that wait for a user; more are freed */
};

/* Those of a pool that nobody uses, by size. All zero at first. */
struct slice_rooms {
    struct slice_room *spare[SLICE_ROOM_SIZES];
    size_t kept; /* bytes */
};

/*
 * An array for @count slices, at most SLICE_ROOM_MOST, whose content is undefined. @pool: NULL: of
 * memory of its own. 0, -ENOMEM
 */
int slice_room_get(sluice_pool *pool, size_t count, sluice_slice **ret_slices, size_t *ret_room);

/* Gives it back, with the room that it has. NULL is allowed. */
void slice_room_put(sluice_pool *pool, sluice_slice *slices, size_t room);

/* Frees those that nobody uses. */
void slice_rooms_clear(struct slice_rooms *rooms);

#endif
