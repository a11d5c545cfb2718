/* Files that are read in straight-line code, which waits for bytes. */
#include <sluice/file.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <sluice/reader.h>

#include "memory/chain.h"
#include "support/file_rig.h"
#include "support/files.h"

static void code_waits_for_bytes(void **state) {
    enum { SIZE = 2000003 };
    for (size_t i = 0; i < SIZES; i++) {
        loop_rig rig;
        sluice_file *file;
        uint64_t place = 0, random = 7;
        int error = 0;
        files_rig_open(&rig, &sizes[i], state);
        assert_int_equal(sluice_file_new(rig.loop, files_make(SIZE), NULL, NULL, NULL, &file), 0);
        sluice_chain *chain = sluice_file_chain(file);
        while (place < SIZE) {
            size_t need = random_between(&random, 0, random_between(&random, 0, 9) ? 5000 : 400000);
            size_t before = sluice_chain_length(chain);
            uint64_t left = SIZE - place;
            error = sluice_file_fill(file, need, UINT64_MAX);
            if (before == left) {
                assert_int_equal(error, -ENODATA);
            } else {
                assert_int_equal(error, 0);
                assert_true(sluice_chain_length(chain) > before);
                assert_true(sluice_chain_length(chain) >= need || sluice_chain_length(chain) == left);
            }
            size_t n = sluice_chain_length(chain) < need ? sluice_chain_length(chain) : need;
            assert_true(pattern_consume(chain, n + (need == 0 && before == left), FILES_SEED, &place));
        }
        assert_int_equal(sluice_file_fill(file, 1, UINT64_MAX), -ENODATA);
        assert_int_equal(sluice_file_fill(file, 0, 0), -ENODATA);
        files_rig_close(&rig);
    }
}

static void a_stop_ends_the_wait(void **state) {
    loop_rig rig;
    sluice_file *file;
    files_rig_open(&rig, NULL, state);
    assert_int_equal(sluice_file_new(rig.loop, files_make(100), NULL, NULL, NULL, &file), 0);
    sluice_loop_stop(rig.loop);
    assert_int_equal(sluice_file_fill(file, 100, UINT64_MAX), -EINTR);
    assert_int_equal(sluice_file_fill(file, 100, UINT64_MAX), 0);
    assert_int_equal(sluice_chain_length(sluice_file_chain(file)), 100);
    files_rig_close(&rig);
}

static void stop_it(sluice_timer *timer, void *user) {
    (void)timer;
    sluice_loop_stop(user);
}

/* What has come meanwhile is said first, and the stop by the next call; a reader needs both to be
 * told of it. */
static void a_stop_while_bytes_come_is_not_forgotten(void **state) {
    loop_rig rig;
    sluice_file *file;
    sluice_timer *timer;
    files_rig_open(&rig, NULL, state);
    assert_int_equal(sluice_file_new(rig.loop, files_make(64 << 20), NULL, NULL, NULL, &file), 0);
    assert_int_equal(sluice_timer_new(rig.loop, stop_it, rig.loop, &timer), 0);
    sluice_timer_start(timer, 0);
    size_t before;
    int error;
    do {
        before = sluice_chain_length(sluice_file_chain(file));
        error = sluice_file_fill(file, 64 << 20, UINT64_MAX);
    } while (error == 0 && sluice_chain_length(sluice_file_chain(file)) < 64 << 20);
    assert_int_equal(error, -EINTR);
    assert_int_equal(sluice_chain_length(sluice_file_chain(file)), before);
    sluice_timer_free(timer);
    files_rig_close(&rig);
}

/* A program with a format of its own: numbers until the end. */
static void a_reader_gets_integers(void **state) {
    enum { NUMBERS = 300000 };
    loop_rig rig;
    sluice_file *file;
    sluice_reader *reader;
    uint64_t value;
    uint8_t expected[8];
    files_rig_open(&rig, &sizes[0], state);
    assert_int_equal(sluice_file_new(rig.loop, files_make(7ull * NUMBERS), NULL, NULL, NULL, &file), 0);
    assert_int_equal(sluice_reader_new(sluice_file_chain(file), &reader), 0);
    for (uint64_t i = 0; i < NUMBERS; i++) {
        int error = sluice_reader_be(reader, 7, &value);
        if (error) {
            assert_int_equal(error, -EAGAIN);
            assert_int_equal(sluice_file_fill(file, 7, UINT64_MAX), 0);
            assert_int_equal(sluice_reader_be(reader, 7, &value), 0);
        }
        pattern_fill(FILES_SEED, 7 * i, expected, 7);
        for (int k = 0; k < 7; k++)
            assert_int_equal((uint8_t)(value >> (48 - 8 * k)), expected[k]);
    }
    assert_int_equal(sluice_reader_be(reader, 7, &value), -EAGAIN);
    assert_int_equal(sluice_file_fill(file, 7, UINT64_MAX), -ENODATA);
    sluice_reader_free(reader);
    files_rig_close(&rig);
}

/* Inside of a turn nothing can be waited for; of the second file there is more to come at first. */
static void fill_inside(sluice_file *file, void *user) {
    const file_consumer *c = user;
    bool has_more = c->data == 0 && sluice_file_offset(file) == 0 && file_buffered(c) > 10;
    assert_int_equal(sluice_file_fill(file, SIZE_MAX, UINT64_MAX), has_more ? -EAGAIN : -ENODATA);
    file_consumer_events.on_data(file, user);
}

static void close_it(sluice_timer *timer, void *user) {
    (void)timer;
    sluice_file_close(user);
}

static void waiting_ends_where_it_must(void **state) {
    loop_rig rig;
    file_consumer c = {0};
    sluice_file_events events = file_consumer_events;
    sluice_timer *timer;
    events.on_data = fill_inside;
    files_rig_open(&rig, NULL, state);

    const sluice_file_options options = {.size = sizeof options, .read_ahead = 1};
    assert_int_equal(sluice_file_new(rig.loop, files_make(5000), &options, &events, &c, &c.file), 0);
    turn_until(rig.loop, &c.told_end);
    assert_int_equal(c.data, 2);
    file_consumer_close(&c, &rig);
    c = (file_consumer){0};
    assert_int_equal(sluice_file_new(rig.loop, files_make(10), NULL, &events, &c, &c.file), 0);
    turn_until(rig.loop, &c.told_end);
    assert_int_equal(c.data, 1);

    /* A deadline that has passed: what is there, or what there will be soon. */
    int error;
    assert_int_equal(sluice_file_seek(c.file, 3, 0), 0);
    c.place = 3;
    while ((error = sluice_file_fill(c.file, 1, 0)) != -ENODATA)
        assert_true(error == 0 || error == -ETIMEDOUT);
    assert_int_equal(c.place, 10);
    assert_false(c.differs);

    /* Somebody closes it meanwhile. */
    sluice_file *file;
    assert_int_equal(sluice_file_new(rig.loop, files_make(64 << 20), NULL, NULL, NULL, &file), 0);
    assert_int_equal(sluice_timer_new(rig.loop, close_it, file, &timer), 0);
    sluice_timer_start(timer, 0);
    assert_int_equal(sluice_file_fill(file, SIZE_MAX, UINT64_MAX), -ECANCELED);
    sluice_timer_free(timer);
    files_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILES_ON_BOTH(code_waits_for_bytes),
        FILES_ON_BOTH(a_stop_ends_the_wait),
        FILES_ON_BOTH(a_stop_while_bytes_come_is_not_forgotten),
        FILES_ON_BOTH(a_reader_gets_integers),
        FILES_ON_BOTH(waiting_ends_where_it_must),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
