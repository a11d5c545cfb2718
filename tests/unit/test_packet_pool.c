/* What packets take besides their payloads is within what --memory leaves for it, and comes
 * back. */
#include "daemon/relay/packet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST = 1 << 20, LIST = 20000 };

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_are_charged),
        cmocka_unit_test(rtp_has_a_share_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
