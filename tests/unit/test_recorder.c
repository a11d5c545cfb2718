/*
 * The daemon's recorder, on a disk that is as slow as a pipe that nobody reads, and switched on and
 * off; and the index that it writes. On both backends.
 */
#include "daemon/recording/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/base/log.h"
#include "daemon/recording/flv_index.h"
#include "daemon/relay/player_list.h"
#include "daemon/relay/registry.h"
#include "support/feed.h"
#include "support/files.h"
#include "support/publishing.h"
#include "support/slices.h"

enum {
    BLOCK = 4096,
    FRAME = 5000,
    GROUP = 10,      /* frames from one key frame to the next */
    LIMIT = 1 << 20, /* of a recording's queue */
    STEP = 40,       /* milliseconds */
};

/* Where the next part is written to; negative: to the disk. Taken by the loop's thread for that. */
static int slow_disk = -1;

/* So many of the next parts are taken by a recovery. */
static unsigned taken;

int __real_record_part_create(int root, const char *path);
int __wrap_record_part_create(int root, const char *path);

int __wrap_record_part_create(int root, const char *path) {
    int fd = slow_disk;
    slow_disk = -1;
    if (taken > 0) {
        taken--;
        return -EAGAIN;
    }
    return fd >= 0 ? fd : __real_record_part_create(root, path);
}

/* The next part is written to a pipe. The end that is to be read, and closed. */
static int slow_down_disk(void) {
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    slow_disk = ends[1];
    return ends[0];
}

typedef struct recorder_rig {
    loop_rig loop;
    char folder[32], rule[64];
    struct record_options options;
    struct record_store *records;
    struct recorders recorders;
    struct registry *registry;
    struct stream *stream;
    sluice_chain *chain;
    sluice_flv *flv;
    unsigned next; /* number of the next frame */
} recorder_rig;

static void opened(struct stream *stream, void *user) {
    recorders_opened(user, stream);
}

static void open_rig(recorder_rig *rig, void **state, bool by_rule) {
    static const sluice_pool_options pool = {
        .size = sizeof pool, .block_size = BLOCK, .max_blocks = 8192, .no_huge_pages = true};
    static const struct stream_policies policies = {.all = {.gop_size = 1 << 20, .player_buffer = 4 << 20}};
    static const struct stream_limits limits = {.packet_bytes = 16 << 20, .policies = &policies};
    *rig = (recorder_rig){.folder = "/tmp/sluice-test-XXXXXX", .options.segment_ms = 60000};
    log_set_level(LOG_ERROR);
    assert_non_null(mkdtemp(rig->folder));
    snprintf(rig->rule, sizeof rig->rule, "%s=%s", by_rule ? "live/*" : "none", rig->folder);
    assert_null(record_options_add(&rig->options, rig->rule));
    files_rig_open(&rig->loop, &pool, state);
    assert_int_equal(record_store_new(&rig->options, &rig->records), 0);
    recorders_init(&rig->recorders, rig->records, rig->loop.loop, LIMIT);
    assert_int_equal(registry_new(rig->loop.loop, &limits, &rig->registry), 0);
    registry_on_opened(rig->registry, opened, &rig->recorders);
    assert_int_equal(registry_get(rig->registry, "live/a", 6, 0, &rig->stream), 0);
    publishing_begin(rig->stream, rig->loop.pool, &rig->chain, &rig->flv);
}

static void turn_until_closed(const recorder_rig *rig) {
    while (rig->recorders.count > 0)
        turn(rig->loop.loop);
}

static void end_stream(recorder_rig *rig) {
    stream_detach(rig->stream, 0);
    turn_until_closed(rig);
}

/* Removes what lies below, two folders deep. */
static void remove_folder(const char *folder) {
    char command[96];
    snprintf(command, sizeof command, "rm -r -- %s", folder);
    assert_int_equal(system(command), 0);
}

static void close_rig(recorder_rig *rig) {
    stream_unref(rig->stream);
    sluice_flv_free(rig->flv);
    sluice_chain_free(rig->chain);
    registry_free(rig->registry);
    recorders_clear(&rig->recorders);
    record_store_free(rig->records);
    record_options_clear(&rig->options);
    files_rig_close(&rig->loop);
    remove_folder(rig->folder);
}

static void publish(recorder_rig *rig, const uint8_t *payload, uint32_t size, uint32_t timestamp) {
    uint8_t bytes[FRAME + 32];
    sluice_flv_tag *tag;
    sluice_flv_write_tag_header(bytes, SLUICE_FLV_VIDEO, size, timestamp);
    memcpy(bytes + SLUICE_FLV_TAG_HEADER_SIZE, payload, size);
    sluice_flv_write_trailer(bytes + SLUICE_FLV_TAG_HEADER_SIZE + size, size);
    feed(rig->chain, rig->loop.pool, bytes, SLUICE_FLV_TAG_HEADER_SIZE + size + SLUICE_FLV_TRAILER_SIZE, 0);
    assert_int_equal(sluice_flv_next(rig->flv, rig->chain, &tag), 1);
    assert_int_equal(stream_publish(rig->stream, tag, SLUICE_FLV_HAS_VIDEO), 0);
}

/* A frame of H.264 in form, which says its number. */
static void publish_frame(recorder_rig *rig) {
    uint8_t payload[FRAME] = {rig->next % GROUP == 0 ? 0x17 : 0x27, 1, 0, 0, 0};
    payload[5] = (uint8_t)(rig->next >> 8);
    payload[6] = (uint8_t)rig->next;
    publish(rig, payload, sizeof payload, 1000 + STEP * rig->next);
    rig->next++;
}

static void publish_frames(recorder_rig *rig, unsigned count) {
    static const uint8_t header[] = {0x17, 0, 0, 0, 0, 1, 0x64, 0, 10, 0xff, 0xe0, 0};
    if (rig->next == 0)
        publish(rig, header, sizeof header, 1000);
    for (unsigned i = 0; i < count; i++) {
        publish_frame(rig);
        turn_through(rig->loop.loop, 1);
    }
}

static uint32_t number_24(const uint8_t *at) {
    return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

/*
 * A recording's bytes are whole tags, its frames go up from @first, and where some are left out the
 * next is a key frame. How many frames; the last one's number.
 */
static unsigned check_tags(const uint8_t *bytes, size_t size, unsigned first, unsigned *ret_last) {
    size_t at = SLUICE_FLV_HEADER_SIZE;
    unsigned frames = 0, next = first;
    while (at < size) {
        uint32_t length = number_24(bytes + at + 1), time = number_24(bytes + at + 4);
        const uint8_t *payload = bytes + at + SLUICE_FLV_TAG_HEADER_SIZE;
        assert_true(at + SLUICE_FLV_TAG_HEADER_SIZE + length + SLUICE_FLV_TRAILER_SIZE <= size);
        assert_int_equal(number_24(payload + length + 1), length + SLUICE_FLV_TAG_HEADER_SIZE);
        if (bytes[at] == SLUICE_FLV_VIDEO && payload[1] == 1) {
            unsigned number = (unsigned)payload[5] << 8 | payload[6];
            assert_true(number == next || (number > next && number % GROUP == 0));
            assert_int_equal(time, STEP * (number - first));
            next = number + 1;
            frames++;
        }
        at += SLUICE_FLV_TAG_HEADER_SIZE + length + SLUICE_FLV_TRAILER_SIZE;
    }
    assert_int_equal(at, size);
    *ret_last = next - 1;
    return frames;
}

typedef struct reading {
    int fd;
    uint8_t *bytes;
    size_t size;
    bool ended;
} reading;

/* What is there. */
static void read_some(reading *from) {
    ssize_t n = read(from->fd, from->bytes + from->size, 65536);
    if (n > 0)
        from->size += (size_t)n;
    from->ended = n == 0;
}

/* Takes the descriptor. */
static void reading_begin(reading *from, int fd) {
    *from = (reading){.fd = fd, .bytes = malloc(16 << 20)};
    assert_non_null(from->bytes);
    sockets_set_blocking(fd, false);
}

static void read_until_written(reading *from, recorder_rig *rig) {
    while (recorder_queued(recorder_of(rig->stream)) > 0) {
        recorders_tick(&rig->recorders);
        read_some(from);
        turn_through(rig->loop.loop, 1);
    }
}

static void read_until_closed(reading *from, const recorder_rig *rig) {
    while (!from->ended || rig->recorders.count > 0) {
        turn_through(rig->loop.loop, 1);
        read_some(from);
    }
}

static void reading_end(reading *from) {
    free(from->bytes);
    close(from->fd);
}

/*
 * While nobody reads, the queue fills up to its limit and no further; what is left out is whole
 * groups. The stream loses nothing. When somebody reads again, recording goes on with a key frame.
 */
static void a_slow_disk_costs_the_recording_groups_and_nobody_else(void **state) {
    recorder_rig rig;
    open_rig(&rig, state, true);
    int disk = slow_down_disk();
    publish_frames(&rig, 1000);
    const struct recorder *recorder = recorder_of(rig.stream);
    const size_t metadata = flv_index_size(FLV_INDEX_LEAST);
    assert_non_null(recorder);
    assert_string_equal(recorder_state_name(recorder), "behind");
    assert_true(recorder->frames_dropped > 700);
    assert_int_equal(recorder->frames + recorder->frames_dropped, 1000);
    assert_true(recorder_queued(recorder) <= LIMIT + 2 * metadata);
    assert_true(recorder_queued(recorder) > LIMIT / 2);
    assert_int_equal(rig.stream->frames_dropped, 0);
    /* The blocks of what is queued, and of the cached group. */
    assert_true(files_held(&rig.loop) < 2 * (LIMIT / BLOCK) + 100);

    reading from;
    reading_begin(&from, disk);
    read_until_written(&from, &rig);
    uint64_t dropped = recorder->frames_dropped, recorded = recorder->frames;
    for (unsigned i = 0; i < 100; i++) {
        publish_frames(&rig, 1);
        read_some(&from);
    }
    assert_string_equal(recorder_state_name(recorder), "recording");
    assert_int_equal(recorder->frames_dropped, dropped);
    assert_int_equal(recorder->frames, recorded + 100);
    recorded = recorder->frames;

    stream_detach(rig.stream, 0);
    assert_null(recorder_of(rig.stream));
    read_until_closed(&from, &rig);
    /* Behind the last tag comes what would have been written over the first. */
    unsigned last;
    assert_int_equal(check_tags(from.bytes, from.size - metadata, 0, &last), recorded);
    assert_int_equal(last, 1099);
    reading_end(&from);
    close_rig(&rig);
}

static void read_recording(const recorder_rig *rig, const char *file, reading *ret_recording) {
    char path[sizeof rig->folder + RECORD_PATH + 1];
    snprintf(path, sizeof path, "%s/%s", rig->folder, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    reading_begin(ret_recording, fd);
    while (!ret_recording->ended)
        read_some(ret_recording);
}

/* A part that a recovery takes as soon as it is there is made under another name, without a pause
 * and without a loss. */
static void a_part_that_is_taken_gets_another_name(void **state) {
    recorder_rig rig;
    char file[RECORD_PATH];
    reading recording;
    unsigned last;
    open_rig(&rig, state, true);
    taken = 2;
    publish_frames(&rig, 2 * GROUP);
    const struct recorder *recorder = recorder_of(rig.stream);
    while (recorder_queued(recorder) > 0) {
        recorders_tick(&rig.recorders);
        turn_through(rig.loop.loop, 1);
    }
    assert_int_equal(taken, 0);
    assert_int_equal(recorder->error, 0);
    assert_int_equal(recorder->hold_to, 0);
    assert_int_equal(recorder->files, 1);
    memcpy(file, recorder->file, sizeof file);
    end_stream(&rig);
    read_recording(&rig, file, &recording);
    assert_int_equal(check_tags(recording.bytes, recording.size, 0, &last), 2 * GROUP);
    reading_end(&recording);
    close_rig(&rig);
}

/* All recordings together never hold more than a quarter of the pool. */
static void recordings_leave_most_of_the_pool_to_others(void **state) {
    recorder_rig rig;
    open_rig(&rig, state, true);
    rig.recorders.budget = 200000;
    int disk = slow_down_disk();
    publish_frames(&rig, 300);
    assert_true(rig.recorders.queued <= 200000);
    assert_true(recorder_of(rig.stream)->frames_dropped > 200);
    recorders_give_up(&rig.recorders);
    close(disk);
    end_stream(&rig);
    assert_int_equal(rig.recorders.queued, 0);
    close_rig(&rig);
}

/* The others have all that recordings may have: a new one would have its beginning, and no
 * frame. */
static void no_recording_is_begun_without_room_for_a_frame(void **state) {
    recorder_rig rig;
    struct recorder *recorder;
    open_rig(&rig, state, true);
    const uint64_t others = rig.recorders.budget - flv_index_size(FLV_INDEX_LEAST) - FRAME / 2;
    rig.recorders.queued += others;
    publish_frames(&rig, GROUP);
    recorder = recorder_of(rig.stream);
    assert_non_null(recorder);
    assert_int_equal(rig.recorders.count, 0);
    assert_string_equal(recorder_state_name(recorder), "paused");
    assert_int_equal(recorder->frames_dropped, GROUP);
    /* The next key frame finds room again. */
    rig.recorders.queued -= others;
    publish_frames(&rig, GROUP);
    assert_int_equal(recorder->files, 1);
    assert_int_equal(recorder->frames, GROUP);
    end_stream(&rig);
    close_rig(&rig);
}

/*
 * What one recording may hold was more than twice what all may together, where a worker's share was
 * small: so one that had been behind waited for room that could not be, and lost the rest of its
 * segment.
 */
static void a_recording_goes_on_where_all_may_hold_less_than_one(void **state) {
    recorder_rig rig;
    open_rig(&rig, state, true);
    rig.recorders.budget = LIMIT / 4;
    recorders_set_limit(&rig.recorders, LIMIT);
    int disk = slow_down_disk();
    publish_frames(&rig, 200);
    const struct recorder *recorder = recorder_of(rig.stream);
    assert_string_equal(recorder_state_name(recorder), "behind");
    assert_true(rig.recorders.queued <= LIMIT / 4);

    reading from;
    reading_begin(&from, disk);
    read_until_written(&from, &rig);
    uint64_t recorded = recorder->frames;
    for (unsigned i = 0; i < GROUP; i++) {
        publish_frames(&rig, 1);
        read_some(&from);
    }
    assert_string_equal(recorder_state_name(recorder), "recording");
    assert_int_equal(recorder->frames, recorded + GROUP);
    stream_lose(rig.stream);
    publish_frames(&rig, 1);
    assert_string_equal(recorder_state_name(recorder), "recording");

    stream_detach(rig.stream, 0);
    read_until_closed(&from, &rig);
    reading_end(&from);
    close_rig(&rig);
}

/* A reload said that it was in force, and the recordings that there were had the limit they had
 * begun with. */
static void another_limit_is_in_force_for_what_is_being_recorded(void **state) {
    recorder_rig rig;
    open_rig(&rig, state, true);
    recorders_set_limit(&rig.recorders, LIMIT / 4);
    int disk = slow_down_disk();
    publish_frames(&rig, 20);
    recorders_set_limit(&rig.recorders, LIMIT);
    publish_frames(&rig, 120);
    assert_string_equal(recorder_state_name(recorder_of(rig.stream)), "recording");
    recorders_set_limit(&rig.recorders, LIMIT / 4);
    publish_frames(&rig, 1);
    assert_string_equal(recorder_state_name(recorder_of(rig.stream)), "behind");
    recorders_give_up(&rig.recorders);
    close(disk);
    end_stream(&rig);
    close_rig(&rig);
}

static uint8_t *read_file(const recorder_rig *rig, const char *path, size_t *ret_size) {
    uint8_t *bytes = malloc(16 << 20);
    int root = record_root_open(rig->folder);
    int fd = record_open(root, path, O_RDONLY);
    assert_non_null(bytes);
    assert_true(fd >= 0);
    ssize_t n = read(fd, bytes, 16 << 20);
    assert_true(n >= 0);
    *ret_size = (size_t)n;
    close(fd);
    close(root);
    return bytes;
}

/* Switched on in the middle of a group, a recording begins with it. */
static void recording_is_switched_on_and_off(void **state) {
    recorder_rig rig;
    char path[RECORD_PATH];
    size_t size;
    unsigned last;
    open_rig(&rig, state, false);
    publish_frames(&rig, 25);
    assert_null(recorder_of(rig.stream));
    /* One that is not there yet has it when it comes. */
    assert_int_equal(recorders_wish(&rig.recorders, rig.registry, "live/none", RECORD_ON), 0);
    struct stream *later;
    assert_int_equal(registry_get(rig.registry, "live/none", 9, 0, &later), 0);
    assert_int_equal(record_overrides_find(&rig.recorders.overrides, "live/none"), RECORD_ON);
    stream_unref(later);
    assert_int_equal(recorders_wish(&rig.recorders, rig.registry, "live/a", RECORD_ON), 0);
    assert_int_equal(recorders_wish(&rig.recorders, rig.registry, "live/a", RECORD_ON), 0);
    assert_non_null(recorder_of(rig.stream));
    publish_frames(&rig, 100);
    memcpy(path, recorder_of(rig.stream)->file, sizeof path);
    assert_int_equal(recorders_wish(&rig.recorders, rig.registry, "live/a", RECORD_OFF), 0);
    assert_null(recorder_of(rig.stream));
    publish_frames(&rig, 20);
    turn_until_closed(&rig);
    uint8_t *bytes = read_file(&rig, path, &size);
    assert_int_equal(check_tags(bytes, size, 20, &last), 105);
    assert_int_equal(last, 124);
    free(bytes);
    /* By the rules it is not. */
    assert_int_equal(recorders_wish(&rig.recorders, rig.registry, "live/a", RECORD_BY_RULE), 0);
    assert_null(recorder_of(rig.stream));
    stream_detach(rig.stream, 0);
    close_rig(&rig);
}

/* Of one more than there may be, nothing is kept; the others are as they were. */
static void wishes_are_bounded(void **state) {
    struct record_overrides overrides = {0};
    char name[STREAM_NAME + 1];
    (void)state;
    for (int i = 0; i < RECORD_OVERRIDES_MOST; i++) {
        snprintf(name, sizeof name, "live/%d", i);
        assert_int_equal(record_overrides_set(&overrides, name, i % 2 ? RECORD_ON : RECORD_OFF), 0);
    }
    assert_int_equal(record_overrides_set(&overrides, "live/more", RECORD_ON), -ENOSPC);
    assert_int_equal(record_overrides_set(&overrides, "live/more", RECORD_BY_RULE), 0);
    assert_int_equal(record_overrides_find(&overrides, "live/more"), RECORD_BY_RULE);
    for (int i = 0; i < RECORD_OVERRIDES_MOST; i++) {
        snprintf(name, sizeof name, "live/%d", i);
        assert_int_equal(record_overrides_find(&overrides, name), i % 2 ? RECORD_ON : RECORD_OFF);
        assert_int_equal(record_overrides_set(&overrides, name, RECORD_BY_RULE), 0);
    }
    assert_int_equal(overrides.count, 0);
    record_overrides_clear(&overrides);
}

/* What a recording begins with, room for an index above all, may be more bytes than a file is to
 * have. */
static void no_recording_is_ended_before_it_has_a_frame(void **state) {
    recorder_rig rig;
    open_rig(&rig, state, true);
    rig.options.segment_bytes = 100;
    publish_frames(&rig, 3 * GROUP);
    /* One for each group: none is ended by the key frame that it begins with. */
    assert_int_equal(recorder_of(rig.stream)->files, 3);
    assert_int_equal(recorder_of(rig.stream)->frames, 3 * GROUP);
    end_stream(&rig);
    close_rig(&rig);
}

static void without_a_directory_nothing_can_be_recorded(void **state) {
    recorder_rig rig;
    open_rig(&rig, state, true);
    struct recorders none;
    recorders_init(&none, NULL, rig.loop.loop, LIMIT);
    assert_int_equal(recorders_wish(&none, rig.registry, "live/a", RECORD_ON), -EOPNOTSUPP);
    stream_detach(rig.stream, 0);
    close_rig(&rig);
}

/* Whatever it holds, an index fills its room to the byte, and is metadata that can be read. */
static void an_index_fills_its_room(void **state) {
    static const size_t rooms[] = {0, 1, 2, 64, 65, 1000, FLV_INDEX_MOST};
    sluice_pool *pool;
    (void)state;
    assert_int_equal(sluice_pool_new(NULL, &pool), 0);
    for (size_t r = 0; r < sizeof rooms / sizeof *rooms; r++) {
        for (size_t count = 0; count <= 2 * rooms[r] + 1; count += 1 + count / 10) {
            for (size_t extra = 0; extra < 40; extra += 13) {
                struct flv_index index;
                sluice_flv_metadata metadata;
                sluice_flv_view view = {.codec = SLUICE_CODEC_H264, .packet = SLUICE_FLV_FRAME, .key_frame = true};
                size_t size = flv_index_size(rooms[r]) + extra;
                if (rooms[r] == 0 && count > 0)
                    continue;
                assert_int_equal(flv_index_init(&index, rooms[r] ? rooms[r] : 1), 0);
                index.width = 320;
                for (size_t i = 0; i < count; i++)
                    flv_index_add(&index, SLUICE_FLV_VIDEO, &view, (uint32_t)i * 1000, i * 5000);
                assert_true(index.count <= index.room);
                uint8_t *payload = malloc(size);
                assert_non_null(payload);
                memset(payload, 0xee, size);
                flv_index_write(&index, 123456, payload, size);
                assert_memory_equal(payload + size - 3, "\0\0\x09", 3);
                sluice_slice slice = slice_of(pool, payload, size, 0);
                assert_int_equal(sluice_flv_read_metadata(&slice, &metadata), 0);
                assert_int_equal(metadata.has_video, count > 0);
                assert_true(count == 0 || metadata.width == 320);
                assert_int_equal(flv_index_duration(&index), count > 1 ? count * 1000 : 0);
                assert_true(flv_index_room(size) >= rooms[r]);
                sluice_slice_release(&slice);
                free(payload);
                flv_index_clear(&index);
            }
        }
    }
    pool_close(pool);
}

static void names_are_times(void **state) {
    char name[RECORD_FILE];
    (void)state;
    record_file_name(1795292103123, name);
    assert_string_equal(name, "2026-11-21T20-15-03.123Z.flv");
    assert_true(record_file_name_is_valid(name, strlen(name)));
    static const char *const others[] = {"",
                                         ".",
                                         "..",
                                         "2026-11-21T20-15-03.123Z.flv.part",
                                         "2026-11-21T20-15-03.123Z.fl",
                                         "2026-11-21T20-15-0/.123Z.flv",
                                         "x026-11-21T20-15-03.123Z.flv",
                                         "2026-11-21t20-15-03.123Z.flv"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(record_file_name_is_valid(others[i], strlen(others[i])));
}

int main(void) {
    /* As the daemon does. */
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        FILES_ON_BOTH(a_slow_disk_costs_the_recording_groups_and_nobody_else),
        FILES_ON_BOTH(a_part_that_is_taken_gets_another_name),
        FILES_ON_BOTH(a_recording_goes_on_where_all_may_hold_less_than_one),
        FILES_ON_BOTH(another_limit_is_in_force_for_what_is_being_recorded),
        FILES_ON_BOTH(recordings_leave_most_of_the_pool_to_others),
        FILES_ON_BOTH(no_recording_is_begun_without_room_for_a_frame),
        FILES_ON_BOTH(recording_is_switched_on_and_off),
        FILES_ON_BOTH(no_recording_is_ended_before_it_has_a_frame),
        FILES_ON_BOTH(without_a_directory_nothing_can_be_recorded),
        cmocka_unit_test(an_index_fills_its_room),
        cmocka_unit_test(names_are_times),
        cmocka_unit_test(wishes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
