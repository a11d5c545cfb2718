/* What packets take besides their payloads is within what --memory leaves for it, and comes
 * back. */
#include "daemon/relay/packet.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/slices.h"

enum {
    MOST = 1 << 20,
    LIST = 20000,
    BLOCK = 512,
    BLOCKS = 4096,
    COPIES = MOST / 16 / PACKET_COPY_MOST,
    HANDED = 20000,
    PIECES = 64
};

static struct packet *take(struct packet_pool *pool) {
    const sluice_flv_tag tag = {.type = SLUICE_FLV_VIDEO};
    sluice_slice payload = {0};
    return packet_new(pool, &tag, PACKET_VIDEO, 0, &payload);
}

static bool add_rtp(struct packet *packet, uint64_t *account) {
    packet_begin_rtp(packet, 0);
    return packet_add_rtp(packet, account);
}

/* As many descriptors as there is memory for; what they take is counted as it grows, and no more
 * than it. */
static void descriptors_are_charged(void **state) {
    (void)state;
    static struct packet *packets[MOST / sizeof(struct packet) + 1];
    struct packet_pool *pool;
    size_t count = 0;
    assert_int_equal(packet_pool_new(MOST, &pool), 0);
    assert_int_equal(packet_pool_bytes(pool), 0);
    while (count < sizeof packets / sizeof *packets && (packets[count] = take(pool))) {
        count++;
        assert_true(packet_pool_bytes(pool) >= count * sizeof(struct packet));
        assert_true(packet_pool_bytes(pool) <= MOST);
    }
    /* A quarter is left for copies and lists: at most that and a batch are not used. */
    assert_in_range(count * sizeof(struct packet), MOST / 2, MOST * 3 / 4);
    assert_false(packet_pool_charge(pool, 0, MOST / sizeof(void *)));
    for (size_t i = 0; i < count; i++)
        packet_unref(packets[i]);
    assert_true(packet_pool_bytes(pool) < MOST / 2);
    assert_true(packet_pool_charge(pool, 0, LIST));
    assert_true(packet_pool_bytes(pool) >= LIST * sizeof(void *) / 2);
    assert_true(packet_pool_charge(pool, LIST, 0));
    packet_pool_free(pool);
}

/* Packets of publishers and long queues of players that do not read take all that they may: RTP
 * still has an eighth. */
static void rtp_has_a_share_of_its_own(void **state) {
    (void)state;
    static struct packet *packets[MOST / sizeof(struct packet) + 1];
    static uint64_t accounts[MOST / sizeof(struct packet) + 1];
    struct packet_pool *pool;
    size_t count = 0, list = 0, made = 0;
    assert_int_equal(packet_pool_new(MOST, &pool), 0);
    while (count < sizeof packets / sizeof *packets && (packets[count] = take(pool)))
        count++;
    for (size_t more = LIST; more > 0; more /= 2)
        while (packet_pool_charge(pool, list, list + more))
            list += more;
    assert_true(list > PACKET_LIST_FREE);
    assert_true(packet_pool_bytes(pool) <= MOST - MOST / 8);
    while (made < count && add_rtp(packets[made], &accounts[made]))
        made++;
    assert_true(made * sizeof(struct rtp_packet) >= MOST / 16);
    assert_true(packet_pool_bytes(pool) <= MOST);
    for (size_t i = 0; i < count; i++)
        packet_unref(packets[i]);
    assert_true(packet_pool_charge(pool, list, 0));
    packet_pool_free(pool);
}

/* Headers in blocks, and where their copies are charged. */
typedef struct copying {
    sluice_pool *blocks;
    struct packet_pool *pool;
    uint8_t bytes[PACKET_COPY_MOST + 1];
} copying;

static void copying_open(copying *c) {
    static const sluice_pool_options options = {
        .size = sizeof options, .block_size = BLOCK, .slab_blocks = 64, .max_blocks = BLOCKS, .no_huge_pages = true};
    assert_int_equal(sluice_pool_new(&options, &c->blocks), 0);
    assert_int_equal(packet_pool_new(MOST, &c->pool), 0);
    for (size_t i = 0; i < sizeof c->bytes; i++)
        c->bytes[i] = (uint8_t)(i % 251);
}

static void copying_close(copying *c) {
    packet_pool_free(c->pool);
    feed_assert_returned(c->blocks);
    sluice_pool_free(c->blocks);
}

/* A header of so many bytes, in as many blocks as they take. */
static int copy(copying *c, size_t size, sluice_slice *ret_copy) {
    sluice_slice payload = {0};
    if (size > 0)
        payload = slice_of(c->blocks, c->bytes, size, 0);
    int error = packet_copy_header(c->pool, c->blocks, &payload, ret_copy);
    assert_int_equal(sluice_slice_length(&payload), size);
    sluice_slice_release(&payload);
    return error;
}

static void copies_hold_no_blocks(void **state) {
    (void)state;
    static const size_t sizes[] = {1, BLOCK, BLOCK + 1, PACKET_COPY_MOST - 1, PACKET_COPY_MOST};
    copying c;
    copying_open(&c);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t got[PACKET_COPY_MOST];
        sluice_slice slice;
        assert_int_equal(copy(&c, sizes[i], &slice), 0);
        sluice_pool_stats stats = {.size = sizeof stats};
        sluice_pool_get_stats(c.blocks, &stats);
        assert_int_equal(stats.held, 0);
        assert_in_range(packet_pool_bytes(c.pool), sizes[i], sizes[i] + BLOCK);
        assert_int_equal(slice_bytes(&slice, got, sizeof got), sizes[i]);
        assert_memory_equal(got, c.bytes, sizes[i]);
        sluice_slice_release(&slice);
        assert_int_equal(packet_pool_bytes(c.pool), 0);
    }
    copying_close(&c);
}

static void no_other_sizes_are_copied(void **state) {
    (void)state;
    copying c;
    sluice_slice untouched = {0};
    copying_open(&c);
    assert_int_equal(copy(&c, 0, &untouched), -EMSGSIZE);
    assert_int_equal(copy(&c, PACKET_COPY_MOST + 1, &untouched), -EMSGSIZE);
    assert_int_equal(sluice_slice_length(&untouched), 0);
    assert_int_equal(packet_pool_bytes(c.pool), 0);
    copying_close(&c);
}

static void copies_have_a_part_of_the_pool(void **state) {
    (void)state;
    sluice_slice slices[COPIES], one;
    size_t count = 0;
    copying c;
    copying_open(&c);
    while (count < COPIES && copy(&c, PACKET_COPY_MOST, &slices[count]) == 0)
        count++;
    assert_in_range(count, COPIES * 3 / 4, COPIES - 1);
    assert_int_equal(copy(&c, PACKET_COPY_MOST, &one), -ENOBUFS);
    assert_in_range(packet_pool_bytes(c.pool), MOST / 16 - MOST / 64, MOST / 16);
    /* What one gives back, another may take; and packets have what they had. */
    sluice_slice_release(&slices[--count]);
    assert_int_equal(copy(&c, PACKET_COPY_MOST, &slices[count]), 0);
    count++;
    struct packet *packet = take(c.pool);
    assert_non_null(packet);
    packet_unref(packet);
    while (count > 0)
        sluice_slice_release(&slices[--count]);
    assert_int_equal(copy(&c, PACKET_COPY_MOST, &one), 0);
    sluice_slice_release(&one);
    copying_close(&c);
}

/* Where packets and lists have taken what there is for them, a header stays in its block. */
static void copies_leave_what_is_for_rtp(void **state) {
    (void)state;
    sluice_slice one;
    size_t list = 0;
    copying c;
    copying_open(&c);
    for (size_t more = LIST; more > 0; more /= 2)
        while (packet_pool_charge(c.pool, list, list + more))
            list += more;
    assert_int_equal(copy(&c, PACKET_COPY_MOST, &one), -ENOBUFS);
    assert_true(packet_pool_charge(c.pool, list, 0));
    copying_close(&c);
}

/* What one thread gives to another. */
typedef struct handing {
    sluice_slice slices[HANDED];
    atomic_uint given;
} handing;

static void *release_there(void *user) {
    handing *h = user;
    for (unsigned i = 0; i < HANDED; i++) {
        while (atomic_load(&h->given) <= i)
            sched_yield();
        sluice_slice_release(&h->slices[i]);
    }
    return NULL;
}

/* As another worker does, which has a replica of the stream: while this one makes more, and after
 * its pools have gone. */
static void copies_are_released_on_another_thread(void **state) {
    (void)state;
    static handing h;
    pthread_t thread;
    copying c;
    copying_open(&c);
    assert_int_equal(pthread_create(&thread, NULL, release_there, &h), 0);
    for (unsigned i = 0; i < HANDED; i++) {
        while (copy(&c, BLOCK, &h.slices[i]) < 0)
            sched_yield();
        assert_true(packet_pool_bytes(c.pool) <= MOST / 16);
        if (i + 1 == HANDED) {
            packet_pool_free(c.pool);
            sluice_pool_free(c.blocks);
        }
        atomic_fetch_add(&h.given, 1);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* One piece more than is copied. */
static void headers_in_many_pieces_are_not_copied(void **state) {
    (void)state;
    copying c;
    sluice_slice copied;
    copying_open(&c);
    for (size_t size = PIECES; size <= PIECES + 1; size++) {
        sluice_slice payload = slice_of(c.blocks, c.bytes, size, 1);
        assert_int_equal(packet_copy_header(c.pool, c.blocks, &payload, &copied), size > PIECES ? -EMSGSIZE : 0);
        if (size <= PIECES)
            sluice_slice_release(&copied);
        sluice_slice_release(&payload);
    }
    copying_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_are_charged),
        cmocka_unit_test(rtp_has_a_share_of_its_own),
        cmocka_unit_test(copies_hold_no_blocks),
        cmocka_unit_test(no_other_sizes_are_copied),
        cmocka_unit_test(copies_have_a_part_of_the_pool),
        cmocka_unit_test(copies_leave_what_is_for_rtp),
        cmocka_unit_test(copies_are_released_on_another_thread),
        cmocka_unit_test(headers_in_many_pieces_are_not_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
