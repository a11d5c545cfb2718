/* Structs that carry their size: programs and libraries of different age understand each other, or
 * say so. */
#include "abi/sized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/conn.h>
#include <sluice/file.h>
#include <sluice/file_writer.h>
#include <sluice/flv_rtp.h>
#include <sluice/headers.h>
#include <sluice/resp_client.h>
#include <sluice/rtp.h>
#include <sluice/rtsp.h>
#include <sluice/stream.h>
#include <sluice/websocket.h>
#include <sluice/writer.h>

#include "support/sockets.h"

/* The same struct as it was at first, as it is, and as it will be. */
typedef struct first {
    size_t size;
    uint32_t a;
} first;

typedef struct second {
    first was;
    uint32_t b;
} second;

typedef struct third {
    second was;
    uint32_t c;
} third;

static void options_of_every_age_are_read(void **state) {
    (void)state;
    second known = {.b = 9};
    const first old = {.size = sizeof old, .a = 1};
    assert_int_equal(sized_read(&known, &old, sizeof known, sizeof(first)), 0);
    assert_int_equal(known.was.a, 1);
    assert_int_equal(known.b, 0);

    const second same = {{.size = sizeof same, .a = 2}, .b = 3};
    assert_int_equal(sized_read(&known, &same, sizeof known, sizeof(first)), 0);
    assert_int_equal(known.was.a, 2);
    assert_int_equal(known.b, 3);

    /* What the library does not know must not be in use. */
    third newer = {.was = {{.size = sizeof newer, .a = 4}, .b = 5}};
    assert_int_equal(sized_read(&known, &newer, sizeof known, sizeof(first)), 0);
    assert_int_equal(known.b, 5);
    newer.c = 6;
    assert_int_equal(sized_read(&known, &newer, sizeof known, sizeof(first)), -EINVAL);

    assert_int_equal(sized_read(&known, NULL, sizeof known, sizeof(first)), 0);
    assert_int_equal(known.was.a + known.b, 0);
}

static void a_size_that_was_not_set_is_refused(void **state) {
    (void)state;
    second known = {{0}, 0};
    const size_t wrong[] = {0, 1, sizeof(first) - 1, SIZED_MOST + 1, SIZE_MAX, 0x5A5A5A5A5A5A5A5A};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        union {
            second as;
            char room[SIZED_MOST];
        } all = {.as = {{.size = wrong[i], .a = 1}, .b = 7}};
        const second *given = &all.as;
        assert_int_equal(sized_check(&all, sizeof known, sizeof(first)), -EINVAL);
        assert_int_equal(sized_read(&known, &all, sizeof known, sizeof(first)), -EINVAL);
        assert_int_equal(sized_write(&all, &known, sizeof known, sizeof(first)), -EINVAL);
        assert_int_equal(given->was.a, 1);
        assert_int_equal(given->b, 7);
    }
}

static void statistics_are_written_as_far_as_both_know_them(void **state) {
    (void)state;
    const second known = {{.a = 1}, .b = 2};
    second old = {{.size = sizeof(first)}, .b = 7};
    assert_int_equal(sized_write(&old, &known, sizeof known, sizeof(first)), 0);
    assert_int_equal(old.was.size, sizeof(first));
    assert_int_equal(old.was.a, 1);
    assert_int_equal(old.b, 7);

    third newer = {.was.was.size = sizeof newer, .c = 8};
    assert_int_equal(sized_write(&newer, &known, sizeof known, sizeof(first)), 0);
    assert_int_equal(newer.was.was.size, sizeof newer);
    assert_int_equal(newer.was.b, 2);
    assert_int_equal(newer.c, 8);
}

/* Every call that takes such a struct asks for its size. All zero would be right but for that. */
static void each_call_asks_for_it(void **state) {
    (void)state;
    loop_rig rig;
    int fds[2];
    sluice_conn *conn;
    sluice_writer *writer;
    void *none = NULL;
    loop_rig_open(&rig, NULL, NULL, 60);
    sockets_unix_pair(fds);
    assert_int_equal(sluice_pool_new(&(sluice_pool_options){0}, (sluice_pool **)&none), -EINVAL);
    assert_int_equal(sluice_loop_new(rig.pool, &(sluice_loop_options){0}, (sluice_loop **)&none), -EINVAL);
    assert_int_equal(sluice_headers_new(&(sluice_headers_options){0}, (sluice_headers **)&none), -EINVAL);
    assert_int_equal(sluice_rtsp_new(&(sluice_rtsp_options){0}, (sluice_rtsp **)&none), -EINVAL);
    assert_int_equal(sluice_resp_new(&(sluice_resp_limits){0}, (sluice_resp **)&none), -EINVAL);
    assert_int_equal(
        sluice_websocket_new(SLUICE_WEBSOCKET_SERVER, &(sluice_websocket_options){0}, (sluice_websocket **)&none),
        -EINVAL);
    assert_int_equal(
        sluice_rtp_unpacker_new(SLUICE_RTP_H264, &(sluice_rtp_unpacker_options){0}, (sluice_rtp_unpacker **)&none),
        -EINVAL);
    assert_int_equal(sluice_flv_rtp_new(&(sluice_flv_rtp_options){.type = SLUICE_FLV_VIDEO}, (sluice_flv_rtp **)&none),
                     -EINVAL);
    assert_int_equal(sluice_stream_new(rig.loop, fds[0], &(sluice_stream_options){0}, (sluice_stream **)&none),
                     -EINVAL);
    assert_int_equal(sluice_file_new(rig.loop, fds[0], &(sluice_file_options){0}, NULL, NULL, (sluice_file **)&none),
                     -EINVAL);
    assert_int_equal(sluice_file_new(rig.loop, fds[0], NULL, &(sluice_file_events){0}, NULL, (sluice_file **)&none),
                     -EINVAL);
    assert_int_equal(sluice_file_writer_new(rig.loop, -1, &(sluice_file_writer_options){0}, NULL, NULL,
                                            (sluice_file_writer **)&none),
                     -EINVAL);
    assert_int_equal(
        sluice_file_writer_new(rig.loop, -1, NULL, &(sluice_file_writer_events){0}, NULL, (sluice_file_writer **)&none),
        -EINVAL);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &(sluice_conn_events){0}, NULL, (sluice_conn **)&none), -EINVAL);
    assert_null(none);

    static const sluice_conn_events events = {.size = sizeof events};
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, NULL, &conn), 0);
    assert_int_equal(sluice_conn_set_events(conn, &(sluice_conn_events){0}, &rig), -EINVAL);
    assert_null(sluice_conn_user(conn));
    assert_int_equal(sluice_writer_new(conn, 1, &writer), 0);
    assert_int_equal(sluice_writer_get_stats(writer, &(sluice_writer_stats){0}), -EINVAL);
    assert_int_equal(sluice_conn_get_stats(conn, &(sluice_conn_stats){0}), -EINVAL);
    assert_int_equal(sluice_loop_get_stats(rig.loop, &(sluice_loop_stats){0}), -EINVAL);
    assert_int_equal(sluice_pool_get_stats(rig.pool, &(sluice_pool_stats){0}), -EINVAL);

    /* These two close the descriptor. */
    assert_int_equal(sluice_resp_client_new(rig.loop, dup(fds[1]), &(sluice_resp_client_options){0}, NULL, NULL,
                                            (sluice_resp_client **)&none),
                     -EINVAL);
    assert_int_equal(sluice_resp_client_new(rig.loop, dup(fds[1]), NULL, &(sluice_resp_client_events){0}, NULL,
                                            (sluice_resp_client **)&none),
                     -EINVAL);
    sluice_writer_free(writer);
    close(fds[1]);
    loop_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_every_age_are_read),
        cmocka_unit_test(a_size_that_was_not_set_is_refused),
        cmocka_unit_test(statistics_are_written_as_far_as_both_know_them),
        cmocka_unit_test(each_call_asks_for_it),
    };
    return cmocka_run_group_tests_name("sized", tests, NULL, NULL);
}
