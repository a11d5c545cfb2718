/* Room for slices that the framers of a pool share: sizes, limits, memory that is short. */
#include "memory/slice_rooms.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "memory/pool.h"
#include "support/http_feed.h"

/* The linker puts this in the place of the call (--wrap). */
void *__real_reallocarray(void *memory, size_t count, size_t size);
void *__wrap_reallocarray(void *memory, size_t count, size_t size);

static bool refuses;
static size_t asked; /* slices, last */

void *__wrap_reallocarray(void *memory, size_t count, size_t size) {
    asked = count;
    return refuses ? NULL : __real_reallocarray(memory, count, size);
}

static void sizes_are_powers_of_two(void **state) {
    (void)state;
    for (size_t size = SLICE_ROOM_LEAST; size <= SLICE_ROOM_MOST; size *= 2) {
        for (int beyond = 0; beyond <= (size < SLICE_ROOM_MOST); beyond++) {
            sluice_slice *slices;
            size_t room;
            assert_int_equal(slice_room_get(NULL, size + (size_t)beyond, &slices, &room), 0);
            assert_int_equal(room, size << beyond);
            assert_int_equal(asked, room);
            slice_room_put(NULL, slices, room);
        }
    }
    slice_room_put(NULL, NULL, 0);
}

static void what_is_given_back_is_used_again(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(512, 8);
    sluice_slice *first, *second, *third, *before;
    size_t room, larger;
    assert_int_equal(slice_room_get(pool, 1, &first, &room), 0);
    assert_int_equal(slice_room_get(pool, room + 1, &second, &larger), 0);
    slice_room_put(pool, first, room);
    slice_room_put(pool, second, larger);
    assert_int_equal(pool_slice_rooms(pool)->kept, (room + larger) * sizeof *first);
    refuses = true;
    before = third = second;
    assert_int_equal(slice_room_get(pool, larger + 1, &third, &room), -ENOMEM);
    assert_ptr_equal(third, before);
    assert_int_equal(slice_room_get(pool, larger, &third, &room), 0);
    assert_ptr_equal(third, second);
    assert_int_equal(slice_room_get(pool, larger, &third, &room), -ENOMEM);
    assert_int_equal(slice_room_get(pool, 1, &third, &room), 0);
    assert_ptr_equal(third, first);
    assert_int_equal(pool_slice_rooms(pool)->kept, 0);
    refuses = false;
    slice_room_put(pool, first, room);
    slice_room_put(pool, second, larger);
    http_feed_pool_done(pool);
}

/* So much waits for a user; more is freed. */
static void so_much_is_kept(void **state) {
    (void)state;
    enum { BYTES = 4096 * sizeof(sluice_slice), MOST = SLICE_ROOMS_KEPT / BYTES };
    _Static_assert(SLICE_ROOMS_KEPT % BYTES == 0, "the limit is met");
    sluice_pool *pool = http_feed_pool(512, 8);
    const struct slice_rooms *rooms = pool_slice_rooms(pool);
    sluice_slice *all[MOST + 1], *least;
    size_t room, small;
    for (size_t i = 0; i <= MOST; i++)
        assert_int_equal(slice_room_get(pool, 4096, &all[i], &room), 0);
    assert_int_equal(slice_room_get(pool, 1, &least, &small), 0);
    for (size_t i = 0; i < MOST; i++)
        slice_room_put(pool, all[i], room);
    assert_int_equal(rooms->kept, SLICE_ROOMS_KEPT);
    slice_room_put(pool, all[MOST], room);
    slice_room_put(pool, least, small);
    assert_int_equal(rooms->kept, SLICE_ROOMS_KEPT);
    refuses = true;
    assert_int_equal(slice_room_get(pool, 1, &least, &small), -ENOMEM);
    refuses = false;
    http_feed_pool_done(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_powers_of_two),
        cmocka_unit_test(what_is_given_back_is_used_again),
        cmocka_unit_test(so_much_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
