/* Reading onMetaData: what it says, whatever stands around it, and what broken or hostile AMF comes
 * to. */
#include <sluice/flv.h>

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/pool.h>
#include <sluice/slice.h>

#include "memory/chain.h"
#include "support/feed.h"

enum { MAX_BYTES = SLUICE_FLV_MAX_METADATA + 1 };

/* AMF made by hand. */
struct amf {
    uint8_t bytes[MAX_BYTES];
    size_t size;
};

/* ---- Making AMF ---- */

static void add_bytes(struct amf *amf, const void *bytes, size_t size) {
    if (size > sizeof amf->bytes - amf->size)
        fail_msg("the AMF is too long");
    memcpy(amf->bytes + amf->size, bytes, size);
    amf->size += size;
}

static void add_be(struct amf *amf, unsigned n, uint64_t value) {
    for (unsigned i = n; i-- > 0;)
        add_bytes(amf, &(uint8_t){(uint8_t)(value >> (8 * i))}, 1);
}

/* A property's name. */
static void add_name(struct amf *amf, const char *name) {
    add_be(amf, 2, strlen(name));
    add_bytes(amf, name, strlen(name));
}

static void add_number(struct amf *amf, double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    add_be(amf, 1, 0);
    add_be(amf, 8, bits);
}

static void add_boolean(struct amf *amf, bool value) {
    add_be(amf, 1, 1);
    add_be(amf, 1, value);
}

static void add_string(struct amf *amf, const char *text) {
    add_be(amf, 1, 2);
    add_name(amf, text);
}

static void add_end(struct amf *amf) {
    add_be(amf, 3, 9);
}

static void add_named_number(struct amf *amf, const char *name, double number) {
    add_name(amf, name);
    add_number(amf, number);
}

static void add_named_boolean(struct amf *amf, const char *name, bool value) {
    add_name(amf, name);
    add_boolean(amf, value);
}

static void add_named_string(struct amf *amf, const char *name, const char *text) {
    add_name(amf, name);
    add_string(amf, text);
}

/* onMetaData up to its first property. */
static void begin_array(struct amf *amf, uint32_t count) {
    amf->size = 0;
    add_string(amf, "onMetaData");
    add_be(amf, 1, 8);
    add_be(amf, 4, count);
}

static void begin_object(struct amf *amf) {
    amf->size = 0;
    add_string(amf, "onMetaData");
    add_be(amf, 1, 3);
}

/* ---- Reading ---- */

static int read_slice(sluice_chain *chain, sluice_flv_metadata *ret_metadata) {
    sluice_slice slice;
    assert_int_equal(sluice_chain_take(chain, sluice_chain_length(chain), &slice), 0);
    int result = sluice_flv_read_metadata(&slice, ret_metadata);
    sluice_slice_release(&slice);
    return result;
}

/* Piece sizes to read AMF in: whole blocks, and few bytes, as long as there are blocks enough for
 * them. */
static size_t piece_size(const struct amf *amf, size_t i) {
    return i * (1 + amf->size / 4096);
}

/* Reads the first @size bytes, in blocks of @piece. */
static int read_amf(sluice_pool *pool, const uint8_t *bytes, size_t size, size_t piece,
                    sluice_flv_metadata *ret_metadata) {
    sluice_chain chain;
    chain_init(&chain, pool);
    feed(&chain, pool, bytes, size, piece);
    return read_slice(&chain, ret_metadata);
}

static bool same(const sluice_flv_metadata *a, const sluice_flv_metadata *b) {
    return a->has_video == b->has_video && a->has_audio == b->has_audio && a->width == b->width &&
           a->height == b->height && a->frame_rate == b->frame_rate && a->video_data_rate == b->video_data_rate &&
           a->audio_data_rate == b->audio_data_rate && a->set_data_frame == b->set_data_frame;
}

/* No reading gives this. */
static const sluice_flv_metadata untouched = {.width = -1, .height = -2, .frame_rate = -3, .set_data_frame = 99};

static void assert_reads(sluice_pool *pool, const struct amf *amf, const sluice_flv_metadata *expected) {
    for (size_t i = 0; i < 4; i++) {
        sluice_flv_metadata metadata = untouched;
        assert_int_equal(read_amf(pool, amf->bytes, amf->size, piece_size(amf, i), &metadata), 0);
        assert_true(same(&metadata, expected));
    }
}

static void assert_fails(sluice_pool *pool, const struct amf *amf, int error) {
    for (size_t i = 0; i < 4; i++) {
        sluice_flv_metadata metadata = untouched;
        assert_int_equal(read_amf(pool, amf->bytes, amf->size, piece_size(amf, i), &metadata), error);
        assert_true(same(&metadata, &untouched));
    }
}

/* ---- What it says ---- */

/* As FFmpeg's muxer writes it. */
static void make_usual(struct amf *amf) {
    begin_array(amf, 12);
    add_named_number(amf, "duration", 0);
    add_named_number(amf, "width", 1280);
    add_named_number(amf, "height", 720);
    add_named_number(amf, "videodatarate", 2500.5);
    add_named_number(amf, "framerate", 29.97);
    add_named_number(amf, "videocodecid", 7);
    add_named_number(amf, "audiodatarate", 125);
    add_named_number(amf, "audiosamplerate", 44100);
    add_named_boolean(amf, "stereo", true);
    add_named_number(amf, "audiocodecid", 10);
    add_named_string(amf, "encoder", "Lavf59.27.100");
    add_named_number(amf, "filesize", 0);
    add_end(amf);
}

static const sluice_flv_metadata usual = {.has_video = true,
                                          .has_audio = true,
                                          .width = 1280,
                                          .height = 720,
                                          .frame_rate = 29.97,
                                          .video_data_rate = 2500.5,
                                          .audio_data_rate = 125};

static void test_usual(void **state) {
    static struct amf amf;
    make_usual(&amf);
    assert_reads(*state, &amf, &usual);
}

static void test_object(void **state) {
    static struct amf amf;
    begin_object(&amf);
    add_named_number(&amf, "audiodatarate", 64);
    add_named_string(&amf, "audiocodecid", "mp4a");
    add_end(&amf);
    assert_reads(*state, &amf, &(sluice_flv_metadata){.has_audio = true, .audio_data_rate = 64});
}

/* Publishers put a command in front, whose bytes are counted. */
static void test_set_data_frame(void **state) {
    static struct amf plain, amf = {.size = 0};
    sluice_flv_metadata expected = usual;
    expected.set_data_frame = 16;
    make_usual(&plain);
    add_string(&amf, "@setDataFrame");
    add_bytes(&amf, plain.bytes, plain.size);
    assert_reads(*state, &amf, &expected);

    /* Once only. */
    amf.size = 0;
    add_string(&amf, "@setDataFrame");
    add_string(&amf, "@setDataFrame");
    add_bytes(&amf, plain.bytes, plain.size);
    assert_fails(*state, &amf, -ENOENT);

    amf.size = 0;
    add_string(&amf, "@setDataFrame");
    assert_fails(*state, &amf, -EPROTO);
}

static void test_presence(void **state) {
    static struct amf amf;
    enum { NO_CODEC, NUMBER, STRING, NULL_VALUE, CODECS };
    enum { NOT_SAID, SAID_FALSE, SAID_TRUE, SAID_AS_NUMBER, SAYINGS };
    static const bool expected[CODECS][SAYINGS] = {
        [NO_CODEC] = {false, false, true, false},
        [NUMBER] = {true, false, true, true},
        [STRING] = {true, false, true, true},
        [NULL_VALUE] = {false, false, true, false},
    };
    for (int codec = 0; codec < CODECS; codec++) {
        for (int saying = 0; saying < SAYINGS; saying++) {
            for (int order = 0; order < 2; order++) {
                begin_array(&amf, 0);
                for (int part = 0; part < 2; part++) {
                    bool codec_now = part == order;
                    if (codec_now && codec == NUMBER) {
                        add_named_number(&amf, "videocodecid", 0);
                        add_named_number(&amf, "audiocodecid", 0);
                    } else if (codec_now && codec == STRING) {
                        add_named_string(&amf, "videocodecid", "avc1");
                        add_named_string(&amf, "audiocodecid", "mp4a");
                    } else if (codec_now && codec == NULL_VALUE) {
                        add_name(&amf, "videocodecid");
                        add_be(&amf, 1, 5);
                        add_name(&amf, "audiocodecid");
                        add_be(&amf, 1, 6);
                    } else if (!codec_now && (saying == SAID_TRUE || saying == SAID_FALSE)) {
                        add_named_boolean(&amf, "hasVideo", saying == SAID_TRUE);
                        add_named_boolean(&amf, "hasAudio", saying == SAID_TRUE);
                    } else if (!codec_now && saying == SAID_AS_NUMBER) {
                        add_named_number(&amf, "hasVideo", 1);
                        add_named_number(&amf, "hasAudio", 1);
                    }
                }
                add_end(&amf);
                bool present = expected[codec][saying];
                assert_reads(*state, &amf, &(sluice_flv_metadata){.has_video = present, .has_audio = present});
            }
        }
    }
}

/* One track's word is not the other's. */
static void test_presence_of_one(void **state) {
    static struct amf amf;
    begin_array(&amf, 0);
    add_named_boolean(&amf, "hasVideo", false);
    add_named_number(&amf, "videocodecid", 7);
    add_named_number(&amf, "audiocodecid", 10);
    add_end(&amf);
    assert_reads(*state, &amf, &(sluice_flv_metadata){.has_audio = true});
    begin_array(&amf, 0);
    add_named_boolean(&amf, "hasAudio", false);
    add_named_boolean(&amf, "hasVideo", true);
    add_end(&amf);
    assert_reads(*state, &amf, &(sluice_flv_metadata){.has_video = true});
}

/* A value of another type, and a number that cannot be a size or a rate, say nothing. */
static void test_values_that_say_nothing(void **state) {
    static struct amf amf;
    begin_array(&amf, 0);
    add_named_string(&amf, "width", "1280");
    add_named_number(&amf, "height", (double)NAN);
    add_named_number(&amf, "framerate", (double)INFINITY);
    add_named_number(&amf, "videodatarate", -1);
    add_named_boolean(&amf, "audiodatarate", true);
    add_end(&amf);
    assert_reads(*state, &amf, &(sluice_flv_metadata){0});
}

/* Only whole names count, and only those of the outermost object; the last of two counts. */
static void test_names(void **state) {
    static struct amf amf;
    begin_array(&amf, 0);
    add_named_number(&amf, "widt", 1);
    add_named_number(&amf, "widths", 2);
    add_named_number(&amf, "Width", 3);
    add_named_number(&amf, "", 4);
    add_named_number(&amf, "width234567890123456789012345678", 5);
    add_named_number(&amf, "width2345678901234567890123456789", 6);
    add_named_number(&amf, "width23456789012345678901234567890", 7);
    add_name(&amf, "nested");
    add_be(&amf, 1, 3);
    add_named_number(&amf, "width", 8);
    add_named_number(&amf, "videocodecid", 7);
    add_end(&amf);
    add_end(&amf);
    assert_reads(*state, &amf, &(sluice_flv_metadata){0});

    begin_array(&amf, 0);
    add_named_number(&amf, "width", 1);
    add_named_number(&amf, "width", 2);
    add_end(&amf);
    assert_reads(*state, &amf, &(sluice_flv_metadata){.width = 2});
}

/* A value of each type that can be stepped over. */
static void add_every_type(struct amf *amf) {
    static const uint8_t values[][32] = {
        /* length, then the value */
        {1, 5},
        {1, 6},
        {1, 13},
        {2, 1, 0},
        {3, 7, 0, 1},
        {9, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        {11, 11, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0},
        {3, 2, 0, 0},
        {5, 2, 0, 2, 'h', 'i'},
        {5, 12, 0, 0, 0, 0},
        {8, 12, 0, 0, 0, 3, 0, 0, 9},
        {7, 15, 0, 0, 0, 2, '<', '>'},
        {4, 3, 0, 0, 9},
        {8, 3, 0, 1, 'a', 5, 0, 0, 9},
        {8, 8, 0, 0, 0, 0, 0, 0, 9},
        {12, 8, 0xFF, 0, 0, 0, 0, 1, 'b', 6, 0, 0, 9},
        {7, 16, 0, 1, 'T', 0, 0, 9},
        {11, 16, 0, 1, 'T', 0, 1, 'c', 5, 0, 0, 9},
        {5, 10, 0, 0, 0, 0},
        {10, 10, 0, 0, 0, 4, 5, 1, 1, 6, 13},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        add_name(amf, "something");
        add_bytes(amf, values[i] + 1, values[i][0]);
    }
}

static void test_stepping_over(void **state) {
    static struct amf amf;
    begin_object(&amf);
    add_every_type(&amf);
    add_named_number(&amf, "width", 640);
    add_every_type(&amf);
    add_named_number(&amf, "height", 480);
    add_end(&amf);
    assert_reads(*state, &amf, &(sluice_flv_metadata){.width = 640, .height = 480});
}

/* The index of seekable files: thousands of numbers in arrays inside an object. */
static void test_index_of_key_frames(void **state) {
    static struct amf amf;
    begin_array(&amf, 2);
    add_name(&amf, "keyframes");
    add_be(&amf, 1, 3);
    add_name(&amf, "filepositions");
    add_be(&amf, 1, 10);
    add_be(&amf, 4, 3000);
    for (int i = 0; i < 3000; i++)
        add_number(&amf, i);
    add_name(&amf, "times");
    add_be(&amf, 1, 10);
    add_be(&amf, 4, 3000);
    for (int i = 0; i < 3000; i++)
        add_number(&amf, i);
    add_end(&amf);
    add_named_number(&amf, "framerate", 25);
    add_end(&amf);
    assert_reads(*state, &amf, &(sluice_flv_metadata){.frame_rate = 25});
}

/* The array's count is a guess of the writer's, and what follows the value is nobody's. */
static void test_liberal(void **state) {
    static const uint32_t counts[] = {0, 1, 13, UINT32_MAX};
    static struct amf amf, usual_amf;
    make_usual(&usual_amf);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        amf = usual_amf;
        for (unsigned byte = 0; byte < 4; byte++)
            amf.bytes[14 + byte] = (uint8_t)(counts[i] >> (24 - 8 * byte));
        assert_reads(*state, &amf, &usual);
        add_bytes(&amf, "\xFF\xFF trailing", 11);
        assert_reads(*state, &amf, &usual);
    }
    /* An ECMA array may lack its end. */
    amf = usual_amf;
    amf.size -= 3;
    assert_reads(*state, &amf, &usual);
    /* A value that is no object says nothing. */
    amf.size = 0;
    add_string(&amf, "onMetaData");
    add_be(&amf, 1, 5);
    assert_reads(*state, &amf, &(sluice_flv_metadata){0});
}

static void test_other_names(void **state) {
    static const char *const names[] = {"",
                                        "onTextData",
                                        "onCuePoint",
                                        "onMetaDat",
                                        "onMetaDataX",
                                        "onmetadata",
                                        "a name of more than thirty-two bytes in all"};
    static struct amf amf;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        amf.size = 0;
        add_string(&amf, names[i]);
        assert_fails(*state, &amf, -ENOENT);
        add_be(&amf, 1, 8);
        assert_fails(*state, &amf, -ENOENT);
    }
}

/* ---- Broken and hostile ---- */

/* Cut short anywhere it is broken, but for an array that only lacks its end. */
static void test_cut_short(void **state) {
    static struct amf amf;
    sluice_flv_metadata metadata = untouched;
    begin_object(&amf);
    add_named_number(&amf, "width", 640);
    add_every_type(&amf);
    add_named_string(&amf, "videocodecid", "hvc1");
    add_end(&amf);
    for (size_t size = 0; size < amf.size; size++) {
        for (size_t piece = 0; piece < 3; piece++)
            assert_int_equal(read_amf(*state, amf.bytes, size, piece, &metadata), -EPROTO);
        assert_true(same(&metadata, &untouched));
    }

    make_usual(&amf);
    size_t accepted = 0;
    for (size_t size = 0; size < amf.size; size++) {
        metadata = untouched;
        int result = read_amf(*state, amf.bytes, size, 0, &metadata);
        if (result == 0)
            accepted++;
        else
            assert_int_equal(result, -EPROTO);
        assert_int_equal(same(&metadata, &untouched), result != 0);
    }
    /* Before each property and behind the last. */
    assert_int_equal(accepted, 12 + 1);
}

/* Over a guard page, cut in two anywhere. */
static void test_each_cut(void **state) {
    static struct amf amf;
    begin_object(&amf);
    add_named_number(&amf, "width", 640);
    add_named_boolean(&amf, "hasVideo", true);
    add_every_type(&amf);
    add_named_number(&amf, "height", 480);
    add_end(&amf);
    const sluice_flv_metadata expected = {.has_video = true, .width = 640, .height = 480};
    feed_guarded *guarded = feed_guarded_new(amf.bytes, amf.size);
    for (size_t end = 1; end <= amf.size; end++) {
        for (size_t cut = 0; cut < end; cut++) {
            sluice_chain chain;
            sluice_flv_metadata metadata = untouched;
            chain_init(&chain, *state);
            feed_guarded_range(guarded, &chain, 0, cut);
            feed_guarded_range(guarded, &chain, cut, end);
            assert_int_equal(read_slice(&chain, &metadata), end < amf.size ? -EPROTO : 0);
            assert_true(same(&metadata, end < amf.size ? &untouched : &expected));
        }
    }
    feed_guarded_free(guarded);
}

static void test_nesting(void **state) {
    static struct amf amf;
    enum { CONTAINERS = 4, DEEPEST = 7 };
    static const uint8_t openings[CONTAINERS][12] = {
        /* length, then an opening that ends where the inner value begins */
        {4, 3, 0, 1, 'a'},
        {8, 8, 0, 0, 0, 0, 0, 1, 'a'},
        {5, 10, 0, 0, 0, 1},
        {7, 16, 0, 1, 'T', 0, 1, 'a'},
    };
    for (int container = 0; container < CONTAINERS; container++) {
        for (int depth = 0; depth <= DEEPEST + 2; depth++) {
            begin_object(&amf);
            add_name(&amf, "nest");
            for (int i = 0; i < depth; i++)
                add_bytes(&amf, openings[container] + 1, openings[container][0]);
            add_be(&amf, 1, 5);
            for (int i = 0; i < depth && openings[container][1] != 10; i++)
                add_end(&amf);
            add_named_number(&amf, "width", 1);
            add_end(&amf);
            if (depth <= DEEPEST)
                assert_reads(*state, &amf, &(sluice_flv_metadata){.width = 1});
            else
                assert_fails(*state, &amf, -EPROTO);
        }
        /* As deep as the bytes go. */
        begin_object(&amf);
        add_name(&amf, "nest");
        while (amf.size + openings[container][0] <= SLUICE_FLV_MAX_METADATA)
            add_bytes(&amf, openings[container] + 1, openings[container][0]);
        assert_fails(*state, &amf, -EPROTO);
    }
}

/* Lengths and counts that the payload does not hold. */
static void test_hostile_lengths(void **state) {
    static const struct {
        uint8_t size;
        uint8_t bytes[12];
    } values[] = {
        {3, {2, 0xFF, 0xFF}},
        {5, {12, 0xFF, 0xFF, 0xFF, 0xFF}},
        {5, {15, 0x7F, 0xFF, 0xFF, 0xFF}},
        {5, {10, 0xFF, 0xFF, 0xFF, 0xFF}},
        {6, {10, 0, 0, 0, 2, 5}},
        {3, {16, 0xFF, 0xFF}},
        {3, {3, 0xFF, 0xFF}},
        {7, {8, 0, 0, 0, 0, 0xFF, 0xFF}},
        {5, {12, 0, 0, 0, 1}},
        {4, {10, 0, 0, 9}},
    };
    static struct amf amf;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        begin_array(&amf, 0);
        add_name(&amf, "x");
        add_bytes(&amf, values[i].bytes, values[i].size);
        assert_fails(*state, &amf, -EPROTO);
        amf.size = 0;
        add_string(&amf, "onMetaData");
        add_bytes(&amf, values[i].bytes, values[i].size);
        assert_fails(*state, &amf, -EPROTO);
    }
    /* A strict array that claims four thousand million elements, with as many as are read, and as
     * many as fit. */
    begin_array(&amf, 0);
    add_name(&amf, "x");
    add_be(&amf, 1, 10);
    add_be(&amf, 4, UINT32_MAX);
    size_t begin = amf.size;
    memset(amf.bytes + begin, 5, sizeof amf.bytes - begin);
    amf.size = begin + SLUICE_FLV_MAX_VALUES - 2;
    assert_fails(*state, &amf, -EPROTO);
    amf.size = SLUICE_FLV_MAX_METADATA;
    assert_fails(*state, &amf, -EMSGSIZE);
    /* A name beyond the end. */
    begin_array(&amf, 0);
    add_be(&amf, 2, 0xFFFF);
    add_bytes(&amf, "width", 5);
    assert_fails(*state, &amf, -EPROTO);
}

/* So many bytes: a width, and a text that fills the rest. */
static void make_large(struct amf *amf, const char *name, size_t size) {
    amf->size = 0;
    add_string(amf, name);
    add_be(amf, 1, 8);
    add_be(amf, 4, 2);
    add_named_number(amf, "width", 640);
    add_name(amf, "text");
    add_be(amf, 1, 12);
    size_t length = size - amf->size - 4 - 3;
    add_be(amf, 4, length);
    memset(amf->bytes + amf->size, ' ', length);
    amf->size += length;
    add_end(amf);
    assert_int_equal(amf->size, size);
}

static void test_size_limit(void **state) {
    static struct amf amf;
    make_large(&amf, "onMetaData", SLUICE_FLV_MAX_METADATA);
    assert_reads(*state, &amf, &(sluice_flv_metadata){.width = 640});
    make_large(&amf, "onMetaData", SLUICE_FLV_MAX_METADATA + 1);
    assert_fails(*state, &amf, -EMSGSIZE);
    /* Nothing of others is read but their names. */
    make_large(&amf, "onTextData", SLUICE_FLV_MAX_METADATA + 1);
    assert_fails(*state, &amf, -ENOENT);
}

enum many { MANY_PROPERTIES, MANY_ELEMENTS, MANY_NESTED, MANY_PAIRS, MANY };

/* So many values, of which the last is a width. */
static void make_many(struct amf *amf, enum many many, size_t count) {
    size_t inside = count - 2;
    begin_object(amf);
    if (many == MANY_PROPERTIES)
        inside++;
    else
        add_name(amf, "x");
    if (many == MANY_ELEMENTS) {
        add_be(amf, 1, 10);
        add_be(amf, 4, inside);
    } else if (many != MANY_PROPERTIES) {
        add_be(amf, 1, 3);
    }
    for (size_t i = 0; i < inside; i++) {
        bool is_pair = many == MANY_PAIRS && i + 1 < inside;
        if (many != MANY_ELEMENTS)
            add_be(amf, 2, 0);
        add_be(amf, 1, is_pair ? 10 : 5);
        if (is_pair) { /* an array of one, so that it counts as two */
            add_be(amf, 4, 1);
            add_be(amf, 1, 5);
            i++;
        }
    }
    if (many == MANY_NESTED || many == MANY_PAIRS)
        add_end(amf);
    add_named_number(amf, "width", 640);
    add_end(amf);
}

/* Values of no bytes but their type: each costs as much as one that says something. */
static void test_value_limit(void **state) {
    static struct amf amf;
    for (enum many many = 0; many < MANY; many++) {
        make_many(&amf, many, SLUICE_FLV_MAX_VALUES);
        assert_reads(*state, &amf, &(sluice_flv_metadata){.width = 640});
        make_many(&amf, many, SLUICE_FLV_MAX_VALUES + 1);
        assert_fails(*state, &amf, -EMSGSIZE);
    }
}

static void test_unknown_types(void **state) {
    static const uint8_t types[] = {4, 9, 14, 17, 18, 0x7F, 0xFF};
    static struct amf amf;
    for (size_t i = 0; i < sizeof types; i++) {
        begin_object(&amf);
        add_named_number(&amf, "width", 1);
        add_name(&amf, "x");
        add_be(&amf, 1, types[i]);
        add_end(&amf);
        assert_fails(*state, &amf, -EPROTO);
        /* In the name's place, too. */
        amf.size = 0;
        add_be(&amf, 1, types[i]);
        add_name(&amf, "onMetaData");
        assert_fails(*state, &amf, -EPROTO);
    }
}

/* Damaged anywhere: an answer, the same in pieces as in one, and nothing written with an error. */
static void test_damage(void **state) {
    static struct amf whole, amf;
    uint64_t seed = 0xA3F0A3F0;
    begin_array(&whole, 0);
    add_named_number(&whole, "width", 640);
    add_every_type(&whole);
    add_named_string(&whole, "videocodecid", "avc1");
    add_end(&whole);
    for (int round = 0; round < 20000; round++) {
        memcpy(amf.bytes, whole.bytes, whole.size);
        for (int damage = 0; damage < 3; damage++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            amf.bytes[(seed >> 33) % whole.size] = (uint8_t)(seed >> 25);
        }
        sluice_flv_metadata in_one = untouched, in_pieces = untouched;
        int result = read_amf(*state, amf.bytes, whole.size, 0, &in_one);
        assert_int_equal(read_amf(*state, amf.bytes, whole.size, 1 + (size_t)(round % 7), &in_pieces), result);
        assert_true(result == 0 || result == -ENOENT || result == -EPROTO);
        assert_int_equal(same(&in_one, &untouched), result != 0);
        assert_true(same(&in_one, &in_pieces));
    }
}

#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, feed_set_up, feed_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_usual),      TEST(test_object),          TEST(test_set_data_frame),
        TEST(test_presence),   TEST(test_presence_of_one), TEST(test_values_that_say_nothing),
        TEST(test_names),      TEST(test_stepping_over),   TEST(test_index_of_key_frames),
        TEST(test_liberal),    TEST(test_other_names),     TEST(test_cut_short),
        TEST(test_each_cut),   TEST(test_nesting),         TEST(test_hostile_lengths),
        TEST(test_size_limit), TEST(test_value_limit),     TEST(test_unknown_types),
        TEST(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
