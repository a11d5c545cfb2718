/*
 * An RTMP player that is paused is sent nothing, so the daemon asks whether it is there. A session
 * of a worker, on a socket, beside the publisher of its stream; the clock is the test's own.
 */
#include <linux/sockios.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/amf.h>
#include <sluice/flv.h>
#include <sluice/rtmp.h>

#include "daemon/protocols/flv/flv_session.h"
#include "daemon/protocols/rtmp/rtmp_session.h"
#include "daemon/server/server.h"
#include "daemon/server/worker.h"
#include "support/clock.h"
#include "support/server_rig.h"
#include "support/sockets.h"

enum {
    GUARD = 60,
    TICK_MS = 500,
    PING_MS = 30000,   /* between pings */
    PAUSED_MS = 70000, /* without a message */
    ACKNOWLEDGED_MS = 10000,
    HANDSHAKE = 1536,
    ANSWERS = 65536, /* bytes that the player is sent */
    PATIENCE = 5000, /* turns of a millisecond */
};

struct rig {
    const struct options *options;
    struct server *server;
    struct worker *worker;
    sluice_loop *loop;
    struct session *player;
    int peer, publisher;
    char heard[ANSWERS];
    size_t length, taken; /* bytes of what was heard; those up to the last that was waited for */
};

/* That the peers' hosts have not acknowledged. */
static int unacknowledged;

int __wrap_ioctl(int fd, unsigned long request, int *ret_bytes);

int __wrap_ioctl(int fd, unsigned long request, int *ret_bytes) {
    assert_true(fd >= 0);
    assert_int_equal(request, SIOCOUTQ);
    *ret_bytes = unacknowledged;
    return 0;
}

static const char ping[] = {2, 0, 0, 0, 0, 0, 6, SLUICE_RTMP_USER_CONTROL, 0, 0, 0, 0, 0, SLUICE_RTMP_PING_REQUEST};

static const struct options *make_options(void) {
    const char *backend = getenv("SLUICE_TEST_BACKEND");
    char *words[] = {"sluiced",
                     "--http",
                     "127.0.0.1:0",
                     "--workers",
                     "1",
                     "--unwatched-interval",
                     "0",
                     "--idle",
                     "600",
                     "--backend",
                     backend ? (char *)backend : "auto"};
    return server_rig_options(sizeof words / sizeof *words, words);
}

static bool is_there(const struct rig *rig) {
    for (const struct session *session = rig->worker->sessions; session; session = session->next)
        if (session == rig->player)
            return !session->closing;
    return false;
}

static void listen_on(struct rig *rig) {
    turn_through(rig->loop, 1);
    ssize_t n = recv(rig->peer, rig->heard + rig->length, sizeof rig->heard - rig->length, MSG_DONTWAIT);
    rig->length += n > 0 ? (size_t)n : 0;
}

/* Turns until the player is sent these bytes; those behind them. */
static const char *hear(struct rig *rig, const void *bytes, size_t size) {
    for (unsigned turns = 0; turns < PATIENCE; turns++) {
        const char *found = memmem(rig->heard + rig->taken, rig->length - rig->taken, bytes, size);
        if (found) {
            rig->taken = (size_t)(found - rig->heard) + size;
            return found + size;
        }
        listen_on(rig);
    }
    fail_msg("not heard");
    return NULL;
}

static void hear_text(struct rig *rig, const char *text) {
    hear(rig, text, strlen(text));
}

/* Whether there is a ping that has not been waited for. */
static bool is_asked(struct rig *rig) {
    listen_on(rig);
    return memmem(rig->heard + rig->taken, rig->length - rig->taken, ping, sizeof ping) != NULL;
}

static void shake_hands(struct rig *rig) {
    static const char begin[1 + HANDSHAKE] = {3};
    sockets_write(rig->peer, begin, sizeof begin);
    for (unsigned turns = 0; rig->length < 1 + 2 * HANDSHAKE; turns++) {
        assert_true(turns < PATIENCE);
        listen_on(rig);
    }
    sockets_write(rig->peer, rig->heard + 1, HANDSHAKE);
}

/* A message of one chunk. */
static void send_message(struct rig *rig, uint8_t type, uint8_t stream, const uint8_t *payload, size_t size) {
    const uint8_t header[] = {3, 0, 0, 0, 0, 0, (uint8_t)size, type, stream, 0, 0, 0};
    assert_true(size <= SLUICE_RTMP_DEFAULT_CHUNK);
    sockets_write(rig->peer, header, sizeof header);
    sockets_write(rig->peer, payload, size);
}

/* @app: of connect; or NULL. @name: of play; or NULL. @pause: 1, 0; or -1 */
static void send_command(struct rig *rig, const char *command, const char *app, const char *name, int pause) {
    uint8_t payload[SLUICE_RTMP_DEFAULT_CHUNK];
    sluice_amf_writer values;
    size_t size;
    sluice_amf_write_begin(&values, payload, sizeof payload, SLUICE_AMF0);
    sluice_amf_write_string(&values, command);
    sluice_amf_write_number(&values, 1);
    if (app) {
        sluice_amf_write_object(&values);
        sluice_amf_write_name(&values, "app");
        sluice_amf_write_string(&values, app);
        sluice_amf_write_object_end(&values);
    } else {
        sluice_amf_write_null(&values);
    }
    if (name)
        sluice_amf_write_string(&values, name);
    if (pause >= 0)
        sluice_amf_write_boolean(&values, pause > 0);
    assert_int_equal(sluice_amf_write_end(&values, &size), 0);
    send_message(rig, SLUICE_RTMP_COMMAND, name || pause >= 0, payload, size);
}

static void publish_frame(const struct rig *rig) {
    static const uint8_t frame[] = {0xaf, 1, 1, 2, 3, 4, 5, 6};
    uint8_t bytes[SLUICE_FLV_TAG_HEADER_SIZE + sizeof frame + SLUICE_FLV_TRAILER_SIZE];
    sluice_flv_write_tag_header(bytes, SLUICE_FLV_AUDIO, sizeof frame, 0);
    memcpy(bytes + SLUICE_FLV_TAG_HEADER_SIZE, frame, sizeof frame);
    sluice_flv_write_trailer(bytes + SLUICE_FLV_TAG_HEADER_SIZE + sizeof frame,
                             SLUICE_FLV_TAG_HEADER_SIZE + sizeof frame);
    sockets_write(rig->publisher, bytes, sizeof bytes);
}

static void publish(struct rig *rig) {
    static const uint8_t beginning[] = {'F', 'L',  'V',  1, SLUICE_FLV_HAS_AUDIO,
                                        0,   0,    0,    9, 0,
                                        0,   0,    0,    8, 0,
                                        0,   4,    0,    0, 0,
                                        0,   0,    0,    0, 0xaf,
                                        0,   0x12, 0x08, 0, 0,
                                        0,   15};
    rig->publisher = server_rig_connect(rig->server, &flv_protocol);
    sockets_write(rig->publisher, beginning, sizeof beginning);
    publish_frame(rig);
}

/* Up to a player that is sent frames. */
static void rig_open(struct rig *rig) {
    static const uint8_t sent[] = {0xaf, 1, 1, 2, 3, 4, 5, 6};
    hang_guard(GUARD);
    clock_stop();
    *rig = (struct rig){.options = make_options()};
    assert_int_equal(server_new(rig->options, &rig->server), 0);
    rig->worker = server_worker(rig->server, 0);
    rig->loop = rig->worker->loop;
    publish(rig);
    rig->peer = server_rig_connect(rig->server, &rtmp_protocol);
    rig->player = rig->worker->sessions;
    shake_hands(rig);
    send_command(rig, "connect", "live", NULL, -1);
    hear_text(rig, "NetConnection.Connect.Success");
    send_command(rig, "createStream", NULL, NULL, -1);
    hear_text(rig, "_result");
    send_command(rig, "play", NULL, "a", -1);
    hear_text(rig, "NetStream.Play.Start");
    publish_frame(rig);
    hear(rig, sent, sizeof sent);
}

static void rig_close(struct rig *rig) {
    unacknowledged = 0;
    server_free(rig->server);
    close(rig->peer);
    close(rig->publisher);
    options_unref(rig->options);
    clock_go_on();
    hang_guard(0);
}

static void pause_player(struct rig *rig) {
    send_command(rig, "pause", NULL, NULL, 1);
    hear_text(rig, "NetStream.Pause.Notify");
}

/* Time goes on, tick by tick. */
static void pass(const struct rig *rig, unsigned milliseconds) {
    for (unsigned passed = 0; passed < milliseconds; passed += TICK_MS) {
        clock_forward(TICK_MS);
        turn_through(rig->loop, 5);
    }
}

/* Its host has gone, and it holds nothing of the stream any more. */
static void a_paused_player_that_has_vanished_ends(void **state) {
    struct rig rig;
    (void)state;
    rig_open(&rig);
    unacknowledged = sizeof ping;
    const struct stream *stream = registry_find(rig.worker->registry, "live/a");
    pause_player(&rig);
    assert_int_equal(stream->player_count, 1);
    pass(&rig, PAUSED_MS - 2 * TICK_MS);
    assert_true(is_there(&rig));
    pass(&rig, 4 * TICK_MS);
    assert_false(is_there(&rig));
    assert_int_equal(stream->player_count, 0);
    rig_close(&rig);
}

/* As that of a program that is stopped: its host takes the pings. Once it has gone, no longer than
 * up to the next ping and the time for that. */
static void a_paused_player_that_does_not_read_stays(void **state) {
    struct rig rig;
    (void)state;
    rig_open(&rig);
    pause_player(&rig);
    pass(&rig, 3 * PAUSED_MS);
    assert_true(is_there(&rig));
    unacknowledged = sizeof ping;
    pass(&rig, PING_MS + ACKNOWLEDGED_MS + 2 * TICK_MS);
    assert_false(is_there(&rig));
    rig_close(&rig);
}

static void answer_ping(struct rig *rig) {
    uint8_t answer[6] = {0, SLUICE_RTMP_PING_RESPONSE};
    memcpy(answer + 2, hear(rig, ping, sizeof ping), 4);
    send_message(rig, SLUICE_RTMP_USER_CONTROL, 0, answer, sizeof answer);
    turn_through(rig->loop, 5);
}

static void a_paused_player_that_answers_pings_stays(void **state) {
    static const uint8_t sent[] = {0xaf, 1, 1, 2, 3, 4, 5, 6};
    struct rig rig;
    (void)state;
    rig_open(&rig);
    pause_player(&rig);
    for (unsigned passed = 0; passed < 3 * PAUSED_MS; passed += PING_MS) {
        pass(&rig, PING_MS - 2 * TICK_MS);
        assert_false(is_asked(&rig));
        pass(&rig, 2 * TICK_MS);
        answer_ping(&rig);
    }
    assert_true(is_there(&rig));
    send_command(&rig, "pause", NULL, NULL, 0);
    hear_text(&rig, "NetStream.Unpause.Notify");
    publish_frame(&rig);
    hear(&rig, sent, sizeof sent);
    rig_close(&rig);
}

/* The end of its connection would be noticed with the next frame. */
static void a_player_that_is_not_paused_is_asked_nothing(void **state) {
    struct rig rig;
    (void)state;
    rig_open(&rig);
    pass(&rig, 2 * PAUSED_MS);
    assert_true(is_there(&rig));
    assert_false(is_asked(&rig));
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_paused_player_that_has_vanished_ends),
        cmocka_unit_test(a_paused_player_that_does_not_read_stays),
        cmocka_unit_test(a_paused_player_that_answers_pings_stays),
        cmocka_unit_test(a_player_that_is_not_paused_is_asked_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
