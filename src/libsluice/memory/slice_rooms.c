#include "memory/slice_rooms.h"

#include <errno.h>
#include <stdlib.h>

#include "memory/pool.h"

/* Lies in the array. */
struct slice_room {
    struct slice_room *next;
};

_Static_assert(SLICE_ROOM_LEAST << (SLICE_ROOM_SIZES - 1) == SLICE_ROOM_MOST, "the last size is the largest");

static size_t size_for(size_t count) {
    size_t size = 0;
    while ((size_t)SLICE_ROOM_LEAST << size < count)
        size++;
    return size;
}

int slice_room_get(sluice_pool *pool, size_t count, sluice_slice **ret_slices, size_t *ret_room) {
    size_t size = size_for(count), room = (size_t)SLICE_ROOM_LEAST << size;
    struct slice_rooms *rooms = pool ? pool_slice_rooms(pool) : NULL;
    void *memory = rooms ? rooms->spare[size] : NULL;
    if (memory) {
        rooms->spare[size] = rooms->spare[size]->next;
        rooms->kept -= room * sizeof(sluice_slice);
    } else {
        memory = reallocarray(NULL, room, sizeof(sluice_slice));
    }
    if (!memory)
        return -ENOMEM;
    *ret_slices = memory;
    *ret_room = room;
    return 0;
}

void slice_room_put(sluice_pool *pool, sluice_slice *slices, size_t room) {
    struct slice_rooms *rooms = pool ? pool_slice_rooms(pool) : NULL;
    size_t bytes = room * sizeof(sluice_slice);
    if (!slices || !rooms || bytes > SLICE_ROOMS_KEPT - rooms->kept) {
        free(slices);
        return;
    }
    struct slice_room *spare = (void *)slices;
    size_t size = size_for(room);
    spare->next = rooms->spare[size];
    rooms->spare[size] = spare;
    rooms->kept += bytes;
}

void slice_rooms_clear(struct slice_rooms *rooms) {
    for (size_t size = 0; size < SLICE_ROOM_SIZES; size++) {
        for (struct slice_room *spare; (spare = rooms->spare[size]);) {
            rooms->spare[size] = spare->next;
            free(spare);
        }
    }
    rooms->kept = 0;
}
