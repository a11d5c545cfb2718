/* sluice-push's look at what players get: every frame that is missing is counted, and none that is
 * not. */
#include "tools/push/follow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { FRAMES = 50, STEP_MS = 40, KEY_EVERY = 25, COUNT = 2 + 2 * FRAMES };

/* A file of 25 frames a second with B pictures, each with an audio frame behind it; no two sizes
 * follow each other. */
static struct media_tag tags[COUNT];
static const struct media media = {.tags = tags, .count = COUNT, .duration = FRAMES * STEP_MS, .has = {true, true}};

static int make(void **state) {
    (void)state;
    tags[0] = (struct media_tag){.type = SLUICE_FLV_VIDEO};
    tags[1] = (struct media_tag){.type = SLUICE_FLV_AUDIO};
    for (uint32_t i = 0; i < FRAMES; i++) {
        uint32_t time = i * STEP_MS;
        tags[2 + 2 * i] = (struct media_tag){.type = SLUICE_FLV_VIDEO,
                                             .frame = true,
                                             .key = i % KEY_EVERY == 0,
                                             .time = time,
                                             .due = time,
                                             .show = i % 3 == 0 ? 80 : 0,
                                             .size = 1000 + 7 * i};
        tags[3 + 2 * i] = (struct media_tag){
            .type = SLUICE_FLV_AUDIO, .frame = true, .time = time + 3, .due = time + 3, .size = 200 + i % 4};
    }
    return 0;
}

/* A tag as it comes to a player, by its number; its times shifted, and decoding times made up
 * anew. */
static sluice_flv_tag tag_of(uint64_t number, int64_t shift, uint32_t anew) {
    const struct media_tag *tag = media_at(&media, number);
    return (sluice_flv_tag){
        .type = tag->type,
        .timestamp = (uint32_t)((int64_t)media_time(&media, number) + shift - (tag->show ? anew : 0)),
        .size = tag->size + 5,
        .view = {.packet = SLUICE_FLV_FRAME,
                 .key_frame = tag->key,
                 .header_size = 5,
                 .composition_time = tag->show ? tag->show + (int32_t)anew : 0},
    };
}

/* Frames from @from up to @to, but for every @skip-th: all are known for what they are. How many
 * were missing. */
static uint64_t take(struct follow *follow, uint64_t from, uint64_t to, uint64_t skip, int64_t shift, uint32_t anew) {
    uint64_t missing = 0, number;
    for (uint64_t i = from; i < to; i++) {
        if (!media_at(&media, i)->frame)
            continue;
        if (skip && i > from + 4 && i < to - 4 && i % skip == 0) {
            missing++;
            continue;
        }
        sluice_flv_tag tag = tag_of(i, shift, anew);
        assert_true(follow_take(follow, &tag, i + 1, &number));
        assert_int_equal(number, i);
    }
    return missing;
}

static void all_is_there(void **state) {
    (void)state;
    static const int64_t shifts[] = {0, 1000, 987654, -30};
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++)
        for (uint32_t anew = 0; anew <= 20; anew += 20) {
            struct follow follow;
            /* From a key frame in the second round on, over the file's end, for three rounds. */
            follow_init(&follow, &media);
            take(&follow, COUNT + 2, 4 * COUNT, 0, shifts[i], anew);
            assert_int_equal(follow.lost, 0);
            assert_int_equal(follow.unmatched, 0);
        }
}

static void what_is_missing_is_counted(void **state) {
    (void)state;
    for (uint64_t skip = 2; skip < 40; skip++) {
        struct follow follow;
        follow_init(&follow, &media);
        uint64_t missing = take(&follow, 2, 3 * COUNT, skip, 5000, 0);
        assert_true(missing > 0);
        assert_int_equal(follow.lost, missing);
        assert_int_equal(follow.unmatched, 0);
    }
}

/* Servers send a key frame's group with the audio from there on: what was before was not for this
 * player. */
static void a_track_that_begins_later(void **state) {
    (void)state;
    struct follow follow;
    uint64_t number;
    follow_init(&follow, &media);
    for (uint64_t i = 2; i < COUNT; i++) {
        sluice_flv_tag tag = tag_of(i, 0, 0);
        if (tag.type == SLUICE_FLV_VIDEO || i > 30)
            assert_true(follow_take(&follow, &tag, COUNT, &number));
    }
    assert_int_equal(follow.lost, 0);
}

static void another_session_of_the_publisher(void **state) {
    (void)state;
    struct follow follow;
    follow_init(&follow, &media);
    take(&follow, 2, 60, 0, 0, 0);
    /* 40 frames never were sent; the server lets times go on where they stopped. */
    follow_restart(&follow);
    take(&follow, COUNT + 2, 2 * COUNT, 0, -700, 0);
    assert_int_equal(follow.lost, 0);
}

/* Frames of another stream are told from those of this one, and it is found again behind them. */
static void frames_of_another_stream(void **state) {
    (void)state;
    struct follow follow;
    uint64_t number;
    follow_init(&follow, &media);
    take(&follow, 2, 60, 0, 0, 0);
    for (uint32_t i = 0; i < 20; i++) {
        sluice_flv_tag tag = {.type = SLUICE_FLV_VIDEO, .timestamp = 1200 + i, .size = 77};
        assert_false(follow_take(&follow, &tag, COUNT, &number));
    }
    assert_int_equal(follow.unmatched, 20);
    take(&follow, COUNT + 2, 2 * COUNT, 0, 0, 0);
    assert_int_equal(follow.unmatched, 20);
}

/* The server was slow to begin: rounds have been sent when the first frame comes, which looks like
 * one of each. */
static void a_server_that_is_rounds_late(void **state) {
    (void)state;
    for (uint64_t late = 1; late <= 3; late++) {
        struct follow follow;
        uint64_t number = 0, sent = (2 + late) * COUNT;
        follow_init(&follow, &media);
        for (uint64_t i = COUNT + 2; i < 8 * COUNT; i++) {
            sluice_flv_tag tag = tag_of(i, 987654, 0);
            /* Which then stands still, until the player has caught up. */
            sent = i + 1 > sent ? i + 1 : sent;
            if (media_at(&media, i)->frame)
                assert_true(follow_take(&follow, &tag, sent, &number));
        }
        assert_int_equal(number, 8 * COUNT - 1);
        assert_int_equal(follow.lost, 0);
        assert_int_equal(follow.unmatched, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_there),
        cmocka_unit_test(what_is_missing_is_counted),
        cmocka_unit_test(a_track_that_begins_later),
        cmocka_unit_test(another_session_of_the_publisher),
        cmocka_unit_test(frames_of_another_stream),
        cmocka_unit_test(a_server_that_is_rounds_late),
    };
    return cmocka_run_group_tests(tests, make, NULL);
}
