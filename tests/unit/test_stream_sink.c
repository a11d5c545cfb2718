/*
 * A stream's sinks (stream_sink.h): which of them is called, when and in which order, while others
 * come and go. A sink of the test writes down each call, and may act in one of them.
 */
#include "daemon/relay/stream_sink.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/log.h"
#include "daemon/relay/packet.h"
#include "daemon/relay/registry.h"
#include "support/feed.h"
#include "support/publishing.h"
#include "support/sockets.h"

enum {
    GUARD = 100,
    BLOCK = 4096,
    BLOCKS = 64,
    RESERVE = 8,
    GROUP = 16, /* blocks */
    STEP = 40,  /* milliseconds from one frame to the next */
    CALLS = 512,
};

enum hook { BEGUN, PACKET, OPENED, LOST, ENDED, WANT_ROOM, HOOKS };

enum act {
    NOTHING,
    REMOVE_SELF,
    REMOVE_OTHER,
    ADD_OTHER,
    ADD_AGAIN, /* itself, once it has removed itself */
    LOSE,      /* a frame of the stream, while it is called */
};

typedef struct sink_rig {
    loop_rig loop;
    struct registry *registry;
    struct stream *stream;
    sluice_chain *chain;
    sluice_flv *flv;
    char calls[CALLS]; /* "a:begun b:begun ..." */
    struct packet *packet;
    uint32_t timestamp; /* of the last packet */
    uint8_t flags;
} sink_rig;

struct probe {
    struct stream_sink sink;
    sink_rig *rig;
    char name;
    bool has_begun;
    enum hook hook; /* in which it acts */
    enum act act;
    struct probe *other;
};

static void note(struct probe *probe, const char *call) {
    size_t used = strlen(probe->rig->calls);
    int length = snprintf(probe->rig->calls + used, CALLS - used, "%s%c:%s", used > 0 ? " " : "", probe->name, call);
    assert_in_range(used + (size_t)length, 0, CALLS - 1);
}

/* Acts once. */
static void on_call(struct stream_sink *sink, enum hook hook) {
    static const char *const names[] = {"begun", "packet", "opened", "lost", "ended", "want_room"};
    struct probe *probe = (struct probe *)sink;
    struct stream *stream = probe->rig->stream;
    note(probe, names[hook]);
    enum act act = hook == probe->hook ? probe->act : NOTHING;
    if (act != NOTHING)
        probe->act = NOTHING;
    switch (act) {
    case NOTHING:
        break;
    case REMOVE_SELF:
        stream_remove_sink(stream, sink);
        sink->next = NULL; /* it is the test's again */
        break;
    case REMOVE_OTHER:
        stream_remove_sink(stream, &probe->other->sink);
        probe->other->sink.next = NULL;
        break;
    case ADD_OTHER:
        stream_add_sink(stream, &probe->other->sink);
        break;
    case ADD_AGAIN:
        stream_remove_sink(stream, sink);
        stream_add_sink(stream, sink);
        break;
    case LOSE:
        stream_lose(stream);
        break;
    }
}

static void begun(struct stream_sink *sink, struct stream *stream) {
    assert_true(stream->live);
    assert_int_equal(stream->gop.count, 0);
    assert_int_equal(stream->seen, 0);
    on_call(sink, BEGUN);
}

static bool has_packet(const struct stream *stream, const struct packet *packet) {
    for (size_t i = 0; i < stream->gop.count; i++)
        if (stream->gop.packets[i] == packet)
            return true;
    for (size_t i = 0; i < TRACKS_HEADERS; i++)
        if (stream_headers_at(&stream->headers, i) == packet)
            return true;
    return false;
}

static void packet(struct stream_sink *sink, struct stream *stream, struct packet *packet, uint8_t flags) {
    sink_rig *rig = ((struct probe *)sink)->rig;
    assert_true(has_packet(stream, packet) || stream->gop.broken);
    rig->timestamp = packet->timestamp;
    rig->flags = flags;
    on_call(sink, PACKET);
}

static void opened(struct stream_sink *sink, struct stream *stream) {
    assert_true(stream->settled);
    assert_true(stream->seen & SLUICE_FLV_HAS_VIDEO);
    assert_in_range(stream->gop.count, 1, 2);
    on_call(sink, OPENED);
}

static void lost(struct stream_sink *sink, struct stream *stream) {
    assert_true(stream->frames_dropped > 0);
    on_call(sink, LOST);
}

static void ended(struct stream_sink *sink, struct stream *stream) {
    assert_false(stream->live);
    assert_int_equal(stream->gop.count, 0);
    for (size_t i = 0; i < TRACKS_HEADERS; i++)
        assert_null(stream_headers_at(&stream->headers, i));
    on_call(sink, ENDED);
}

static bool has_begun(const struct stream_sink *sink, const struct stream *stream) {
    assert_false(stream->live);
    return ((const struct probe *)sink)->has_begun;
}

static void want_room(struct stream_sink *sink) {
    on_call(sink, WANT_ROOM);
}

/* It is nobody's any more. */
static void freed(struct stream_sink *sink) {
    note((struct probe *)sink, "freed");
    free(sink);
}

#define TYPE(rank_)                                                                                                    \
    {                                                                                                                  \
        .rank = (rank_), .begun = begun, .packet = packet, .opened = opened, .lost = lost, .ended = ended,             \
        .has_begun = has_begun, .want_room = want_room, .freed = freed,                                                \
    }

static const struct stream_sink_type types[] = {TYPE(SINK_REPLICA), TYPE(SINK_PACKETIZER), TYPE(SINK_PLAYERS),
                                                TYPE(SINK_RECORDER)};

static struct probe *new_probe(sink_rig *rig, char name, enum stream_sink_rank rank) {
    struct probe *probe = calloc(1, sizeof *probe);
    assert_non_null(probe);
    *probe = (struct probe){.sink.type = &types[rank], .rig = rig, .name = name};
    return probe;
}

static struct probe *add(sink_rig *rig, char name, enum stream_sink_rank rank) {
    struct probe *probe = new_probe(rig, name, rank);
    stream_add_sink(rig->stream, &probe->sink);
    return probe;
}

static void rig_open(sink_rig *rig) {
    static const struct stream_policies policies = {
        .all = {.gop_size = (uint64_t)GROUP * BLOCK, .player_buffer = (uint64_t)GROUP * BLOCK}};
    const struct stream_limits limits = {.packet_bytes = 1 << 20, .policies = &policies};
    *rig = (sink_rig){0};
    log_set_level(LOG_ERROR);
    loop_rig_open_small(&rig->loop, BLOCK, BLOCKS, RESERVE, GUARD);
    assert_int_equal(registry_new(rig->loop.loop, &limits, &rig->registry), 0);
    assert_int_equal(registry_get(rig->registry, "live/a", 6, 1, &rig->stream), 0);
}

static void begin(sink_rig *rig) {
    publishing_begin(rig->stream, rig->loop.pool, &rig->chain, &rig->flv);
}

static void end(sink_rig *rig) {
    sluice_chain_free(rig->chain);
    sluice_flv_free(rig->flv);
    rig->chain = NULL;
    rig->flv = NULL;
    stream_detach(rig->stream, sluice_loop_now(rig->loop.loop));
}

static void rig_close(sink_rig *rig) {
    if (rig->stream->live)
        end(rig);
    stream_unref(rig->stream);
    registry_free(rig->registry);
    loop_rig_close(&rig->loop);
}

/* A tag of video: a header, a key frame, or another frame. */
static void publish(sink_rig *rig, uint8_t first, uint8_t kind, uint32_t time) {
    const uint8_t payload[] = {first, kind, 0, 0, 0, 1, 2, 3};
    uint8_t bytes[SLUICE_FLV_TAG_HEADER_SIZE + sizeof payload + SLUICE_FLV_TRAILER_SIZE];
    sluice_flv_tag *tag;
    sluice_flv_write_tag_header(bytes, SLUICE_FLV_VIDEO, sizeof payload, time);
    memcpy(bytes + SLUICE_FLV_TAG_HEADER_SIZE, payload, sizeof payload);
    sluice_flv_write_trailer(bytes + SLUICE_FLV_TAG_HEADER_SIZE + sizeof payload, sizeof payload);
    feed(rig->chain, rig->loop.pool, bytes, sizeof bytes, 0);
    assert_int_equal(sluice_flv_next(rig->flv, rig->chain, &tag), 1);
    assert_int_equal(stream_publish(rig->stream, tag, SLUICE_FLV_HAS_VIDEO), 0);
}

static void publish_header(sink_rig *rig, uint32_t time) {
    publish(rig, 0x17, 0, time);
}

static void publish_key_frame(sink_rig *rig, uint32_t time) {
    publish(rig, 0x17, 1, time);
}

static void publish_frame(sink_rig *rig, uint32_t time) {
    publish(rig, 0x27, 1, time);
}

/* What has been called since the last time. */
static void assert_calls(sink_rig *rig, const char *calls) {
    assert_string_equal(rig->calls, calls);
    rig->calls[0] = '\0';
}

static void is_called_from_begin_to_end(void **state) {
    (void)state;
    sink_rig rig;
    rig_open(&rig);
    add(&rig, 'a', SINK_RECORDER);
    begin(&rig);
    assert_calls(&rig, "a:begun");
    publish_header(&rig, 0);
    assert_calls(&rig, "a:packet");
    assert_int_equal(rig.flags, SLUICE_FLV_HAS_VIDEO);
    publish_key_frame(&rig, 0);
    assert_calls(&rig, "a:packet a:opened");
    publish_frame(&rig, STEP);
    publish_frame(&rig, 2 * STEP);
    assert_calls(&rig, "a:packet a:packet");
    assert_int_equal(rig.timestamp, 2 * STEP);
    stream_lose(rig.stream);
    assert_calls(&rig, "a:lost");
    end(&rig);
    assert_calls(&rig, "a:ended");
    begin(&rig);
    end(&rig);
    assert_calls(&rig, "a:begun a:ended");
    stream_unref(rig.stream);
    assert_calls(&rig, "a:freed");
    registry_free(rig.registry);
    loop_rig_close(&rig.loop);
}

/* One that comes to a stream that plays has missed nothing: headers and group are the stream's. */
static void begins_with_headers_and_group(void **state) {
    (void)state;
    sink_rig rig;
    rig_open(&rig);
    begin(&rig);
    publish_header(&rig, 0);
    publish_key_frame(&rig, 0);
    publish_frame(&rig, STEP);
    struct probe *probe = add(&rig, 'a', SINK_RECORDER);
    assert_ptr_equal(stream_find_sink(rig.stream, &types[SINK_RECORDER]), &probe->sink);
    assert_null(stream_find_sink(rig.stream, &types[SINK_REPLICA]));
    assert_true(stream_is_known(rig.stream));
    assert_int_equal(rig.stream->gop.count, 2);
    assert_int_equal(rig.stream->gop.packets[0]->role, PACKET_KEY_FRAME);
    assert_int_equal(rig.stream->gop.packets[1]->timestamp, STEP);
    unsigned headers = 0;
    for (size_t i = 0; i < TRACKS_HEADERS; i++) {
        const struct packet *header = stream_headers_at(&rig.stream->headers, i);
        headers += header && header->role == PACKET_VIDEO_HEADER;
    }
    assert_int_equal(headers, 1);
    assert_calls(&rig, "");
    publish_frame(&rig, 2 * STEP);
    assert_calls(&rig, "a:packet");
    assert_int_equal(rig.stream->gop.count, 3);
    rig_close(&rig);
}

static void are_called_by_rank(void **state) {
    (void)state;
    sink_rig rig;
    rig_open(&rig);
    add(&rig, 'r', SINK_RECORDER);
    add(&rig, 'f', SINK_REPLICA);
    add(&rig, 'p', SINK_PLAYERS);
    add(&rig, 'k', SINK_PACKETIZER);
    add(&rig, 'q', SINK_PLAYERS);
    begin(&rig);
    assert_calls(&rig, "f:begun k:begun q:begun p:begun r:begun");
    publish_key_frame(&rig, 0);
    assert_calls(&rig, "f:packet k:packet q:packet p:packet r:packet f:opened k:opened q:opened p:opened r:opened");
    assert_true(rig.registry->make_room(rig.registry, RECLAIM_FOR_BLOCKS));
    assert_calls(&rig, "f:want_room k:want_room q:want_room p:want_room r:want_room");
    end(&rig);
    assert_calls(&rig, "f:ended k:ended q:ended p:ended r:ended");
    stream_unref(rig.stream);
    assert_calls(&rig, "f:freed k:freed q:freed p:freed r:freed");
    registry_free(rig.registry);
    loop_rig_close(&rig.loop);
}

/* A publisher that does not get the stream is no event of it. */
static void rejected_publisher_is_not_announced(void **state) {
    (void)state;
    static const struct stream_source source = {.peer = "192.0.2.1:1", .protocol = "test"};
    sink_rig rig;
    rig_open(&rig);
    add(&rig, 'a', SINK_REPLICA);
    begin(&rig);
    publish_key_frame(&rig, 0);
    assert_calls(&rig, "a:begun a:packet a:opened");
    assert_int_equal(stream_attach(rig.stream, &source), -EEXIST);
    assert_true(stream_is_known(rig.stream));
    end(&rig);
    assert_calls(&rig, "a:ended");
    uint64_t now = sluice_loop_now(rig.loop.loop);
    assert_int_equal(bans_add(&rig.registry->bans, "live/a", source.peer, now, 1000000, &(struct ban_origin){0}), 0);
    assert_int_equal(stream_attach(rig.stream, &source), -EKEYREJECTED);
    stream_keep(rig.stream, now + 1000000);
    assert_int_equal(stream_attach(rig.stream, &source), -EBUSY);
    assert_false(rig.stream->live);
    assert_calls(&rig, "");
    publish_lock_unreserve(rig.stream);
    rig_close(&rig);
}

/* Where a sink has begun, the next publisher's times go on behind those of the last; else they are
 * its own. */
static void times_go_on_where_one_has_begun(void **state) {
    (void)state;
    for (unsigned which = 0; which < 3; which++) {
        sink_rig rig;
        rig_open(&rig);
        struct probe *first = add(&rig, 'a', SINK_REPLICA), *second = add(&rig, 'b', SINK_RECORDER);
        first->has_begun = which == 1;
        second->has_begun = which == 2;
        begin(&rig);
        publish_key_frame(&rig, 50000);
        publish_frame(&rig, 50000 + STEP);
        end(&rig);
        begin(&rig);
        publish_key_frame(&rig, 0);
        if (which == 0)
            assert_int_equal(rig.timestamp, 0);
        else
            assert_true(rig.timestamp > 50000 + STEP);
        rig_close(&rig);
    }
}

/* Brings about one call of each sink. */
static void call(sink_rig *rig, enum hook hook) {
    begin(rig);
    if (hook > BEGUN) {
        rig->calls[0] = '\0';
        publish_key_frame(rig, 0);
    }
    if (hook > OPENED)
        rig->calls[0] = '\0';
    if (hook == LOST)
        stream_lose(rig->stream);
    if (hook == WANT_ROOM)
        (void)rig->registry->make_room(rig->registry, RECLAIM_FOR_BLOCKS);
    if (hook == ENDED)
        end(rig);
}

/* How often the calls have this one. */
static unsigned count_calls(const sink_rig *rig, const char *text) {
    unsigned count = 0;
    for (const char *at = rig->calls; (at = strstr(at, text)); at++)
        count++;
    return count;
}

/* "b:lost" */
static unsigned called(const sink_rig *rig, char name, enum hook hook) {
    static const char *const names[] = {"begun", "packet", "opened", "lost", "ended", "want_room"};
    char text[16];
    snprintf(text, sizeof text, "%c:%s", name, names[hook]);
    return count_calls(rig, text);
}

static void may_remove_itself(void **state) {
    (void)state;
    for (enum hook hook = 0; hook < HOOKS; hook++)
        for (enum stream_sink_rank rank = SINK_REPLICA; rank <= SINK_RECORDER; rank++) {
            sink_rig rig;
            rig_open(&rig);
            add(&rig, 'a', SINK_REPLICA);
            add(&rig, 'z', SINK_RECORDER);
            struct probe *probe = add(&rig, 'x', rank);
            probe->hook = hook;
            probe->act = REMOVE_SELF;
            call(&rig, hook);
            for (const char *name = "axz"; *name; name++)
                assert_int_equal(called(&rig, *name, hook), 1);
            /* It is the test's again, and is not called any more. */
            free(probe);
            if (!rig.stream->live)
                begin(&rig);
            rig.calls[0] = '\0';
            publish_frame(&rig, STEP);
            end(&rig);
            assert_int_equal(count_calls(&rig, "x:"), 0);
            assert_int_equal(called(&rig, 'a', ENDED) + called(&rig, 'z', ENDED), 2);
            rig_close(&rig);
        }
}

static void may_remove_another(void **state) {
    (void)state;
    /* The second of four removes each: itself, the next, the last, one that has been called. */
    for (enum hook hook = 0; hook < HOOKS; hook++)
        for (unsigned which = 0; which < 4; which++) {
            sink_rig rig;
            rig_open(&rig);
            struct probe *probes[4];
            for (unsigned i = 0; i < 4; i++)
                probes[i] = add(&rig, (char)('a' + i), (enum stream_sink_rank)i);
            probes[1]->hook = hook;
            probes[1]->act = REMOVE_OTHER;
            probes[1]->other = probes[which];
            call(&rig, hook);
            for (unsigned i = 0; i < 4; i++)
                assert_int_equal(called(&rig, (char)('a' + i), hook), i == which && which > 1 ? 0 : 1);
            free(probes[which]);
            rig_close(&rig);
        }
}

/* One of a higher rank is called for the same event, the others from the next one on. */
static void may_add_another(void **state) {
    (void)state;
    for (enum hook hook = 0; hook < HOOKS; hook++)
        for (enum stream_sink_rank rank = SINK_REPLICA; rank <= SINK_RECORDER; rank++)
            for (unsigned others = 0; others < 2; others++) {
                sink_rig rig;
                rig_open(&rig);
                struct probe *probe = add(&rig, 'x', SINK_PACKETIZER);
                if (others > 0) {
                    add(&rig, 'a', SINK_REPLICA);
                    add(&rig, 'z', SINK_RECORDER);
                }
                probe->hook = hook;
                probe->act = ADD_OTHER;
                probe->other = new_probe(&rig, 'n', rank);
                call(&rig, hook);
                assert_int_equal(called(&rig, 'x', hook), 1);
                assert_int_equal(called(&rig, 'n', hook), rank > SINK_PACKETIZER ? 1 : 0);
                if (others > 0)
                    assert_int_equal(called(&rig, 'a', hook) + called(&rig, 'z', hook), 2);
                if (!rig.stream->live)
                    begin(&rig);
                rig.calls[0] = '\0';
                publish_frame(&rig, STEP);
                assert_int_equal(called(&rig, 'n', PACKET), 1);
                rig_close(&rig);
            }
}

/* One that is removed and added again is not called a second time. */
static void may_add_itself_again(void **state) {
    (void)state;
    for (enum hook hook = 0; hook < HOOKS; hook++)
        for (unsigned place = 0; place < 3; place++) {
            sink_rig rig;
            rig_open(&rig);
            struct probe *probes[3];
            for (unsigned i = 0; i < 3; i++)
                probes[i] = add(&rig, (char)('a' + i), SINK_PLAYERS);
            probes[place]->hook = hook;
            probes[place]->act = ADD_AGAIN;
            call(&rig, hook);
            for (const char *name = "abc"; *name; name++)
                assert_int_equal(called(&rig, *name, hook), 1);
            rig_close(&rig);
        }
}

/* A frame that is lost while another one is given out: sinks that leave then are not called for the
 * outer event, the others once for each. */
static void call_inside_a_call(void **state) {
    (void)state;
    sink_rig rig;
    rig_open(&rig);
    struct probe *first = add(&rig, 'a', SINK_REPLICA);
    struct probe *second = add(&rig, 'b', SINK_PACKETIZER), *third = add(&rig, 'c', SINK_PLAYERS);
    add(&rig, 'd', SINK_RECORDER);
    begin(&rig);
    publish_key_frame(&rig, 0);
    rig.calls[0] = '\0';
    *first = (struct probe){first->sink, &rig, 'a', .hook = PACKET, .act = LOSE};
    *second = (struct probe){second->sink, &rig, 'b', .hook = LOST, .act = REMOVE_OTHER, .other = third};
    publish_frame(&rig, STEP);
    assert_calls(&rig, "a:packet a:lost b:lost d:lost b:packet d:packet");
    free(third);
    publish_key_frame(&rig, 2 * STEP);
    assert_calls(&rig, "a:packet b:packet d:packet");
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_called_from_begin_to_end),
        cmocka_unit_test(begins_with_headers_and_group),
        cmocka_unit_test(are_called_by_rank),
        cmocka_unit_test(rejected_publisher_is_not_announced),
        cmocka_unit_test(times_go_on_where_one_has_begun),
        cmocka_unit_test(may_remove_itself),
        cmocka_unit_test(may_remove_another),
        cmocka_unit_test(may_add_another),
        cmocka_unit_test(may_add_itself_again),
        cmocka_unit_test(call_inside_a_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
