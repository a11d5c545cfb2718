/* A player's queue where memory is short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/relay/player.h"

static bool refuses;

struct packet *__real_packet_at(const struct packet *packet, uint32_t timestamp, uint64_t received_at);
struct packet *__wrap_packet_at(const struct packet *packet, uint32_t timestamp, uint64_t received_at);
struct packet *__wrap_packet_at(const struct packet *packet, uint32_t timestamp, uint64_t received_at) {
    return refuses ? NULL : __real_packet_at(packet, timestamp, received_at);
}

void __wrap_sluice_conn_want_send(sluice_conn *conn);
void __wrap_sluice_conn_want_send(sluice_conn *conn) {
    (void)conn;
}

static struct packet *make(struct packet_pool *pool, enum packet_role role) {
    const sluice_flv_tag tag = {.type = SLUICE_FLV_VIDEO};
    sluice_slice payload = {0};
    struct packet *packet = packet_new(pool, &tag, role, 1000, &payload);
    assert_non_null(packet);
    return packet;
}

/* Who has lost frames goes on with the decoder's headers and a key frame, or does not go on yet. */
static void no_key_frame_is_queued_whose_headers_found_no_memory(void **state) {
    struct packet_pool *pool;
    (void)state;
    assert_int_equal(packet_pool_new(UINT64_MAX, &pool), 0);
    struct packet *header = make(pool, PACKET_VIDEO_HEADER), *key = make(pool, PACKET_KEY_FRAME);
    const struct stream_headers headers = {.first[HEADERS_VIDEO] = header};
    struct player player = {
        .state = PLAYER_BEHIND, .form = {.format = &wire_flv_chunked}, .needs_header = true, .limit = 1000};

    refuses = true;
    player_push(&player, key, &headers, true);
    assert_int_equal(player.count, 0);
    assert_int_equal(player.state, PLAYER_BEHIND);
    assert_true(player.needs_header);
    assert_int_equal(player_dropped(&player), 1);

    refuses = false;
    player_push(&player, key, &headers, true);
    assert_int_equal(player.count, 2);
    assert_int_equal(player.queue[0]->role, PACKET_VIDEO_HEADER);
    assert_ptr_equal(player.queue[1], key);
    assert_int_equal(player.state, PLAYER_PLAYING);

    player_clear(&player);
    packet_unref(header);
    packet_unref(key);
    packet_pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_key_frame_is_queued_whose_headers_found_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
