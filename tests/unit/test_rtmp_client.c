/*
 * A client's dialogue: URLs, the login, each step to media and its refusals, and what a server can
 * make a client hold. The server is the test's, made of the library.
 */
#include "shared/rtmp_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/rtmp_peer.h"
#include "support/rtmp_rig.h"

enum { LIMIT = 4 << 20, FRAME = (1 << 20) + 5000, TEXT = 4096 };

/* ---- URLs ---- */

static void urls_are_split_as_ffmpeg_does(void **state) {
    static const struct {
        const char *url, *tc_url, *app, *name;
    } cases[] = {
        {"rtmp://host/live/cam", "rtmp://host/live", "live", "cam"},
        {"RTMP://host:1936/live/cam?token=a/b:c", "rtmp://host:1936/live", "live", "cam?token=a/b:c"},
        {"rtmp://u:p@host/live/cam", "rtmp://host/live", "live", "cam"},
        {"rtmp://host/app/instance/name", "rtmp://host/app/instance", "app/instance", "name"},
        {"rtmp://host/app/instance/a/b", "rtmp://host/app/instance", "app/instance", "a/b"},
        {"rtmp://host/app/mp4:a/b", "rtmp://host/app", "app", "mp4:a/b"},
        {"rtmp://[::1]:1935/app/name", "rtmp://[::1]:1935/app", "app", "name"},
        {"rtmps://u:p@host:443/app/name", "rtmps://host:443/app", "app", "name"},
        {"rtmp://host/app?vhost=v/name", "rtmp://host/app?vhost=v", "app?vhost=v", "name"},
    };
    struct rtmp_url url;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(rtmp_url_read(cases[i].url, strlen(cases[i].url), &url), 0);
        assert_string_equal(url.tc_url, cases[i].tc_url);
        assert_string_equal(url.app, cases[i].app);
        assert_string_equal(url.name, cases[i].name);
    }
}

static void urls_without_a_part_are_refused(void **state) {
    static const char *const cases[] = {
        "",
        "rtmp://",
        "rtsp://host/app/name",
        "rtmpss://host/app/name",
        "rtmps://host",
        "rtmp://host",
        "rtmp://host/",
        "rtmp://host/app",
        "rtmp:///a/b",
        "rtmp://host/app/",
        "rtmp://host//name",
        "rtmp://host/app/?q",
        "rtmp://host/app/a b",
        "rtmp://host/a\n/b",
    };
    struct rtmp_url url;
    char text[3000];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(rtmp_url_read(cases[i], strlen(cases[i]), &url), -EPROTO);
    int length = snprintf(text, sizeof text, "rtmp://host/%0*d/name", RTMP_URL_APP, 0);
    assert_int_equal(rtmp_url_read(text, (size_t)length, &url), 0);
    length = snprintf(text, sizeof text, "rtmp://host/%0*d/name", RTMP_URL_APP + 1, 0);
    assert_int_equal(rtmp_url_read(text, (size_t)length, &url), -EMSGSIZE);
    length = snprintf(text, sizeof text, "rtmp://host/app/%0*d", RTMP_URL_NAME, 0);
    assert_int_equal(rtmp_url_read(text, (size_t)length, &url), 0);
    length = snprintf(text, sizeof text, "rtmp://host/app/%0*d", RTMP_URL_NAME + 1, 0);
    assert_int_equal(rtmp_url_read(text, (size_t)length, &url), -EMSGSIZE);
    length = snprintf(text, sizeof text, "rtmp://%0*d/app/name", 300 + RTMP_URL_APP, 0);
    assert_int_equal(rtmp_url_read(text, (size_t)length, &url), -EMSGSIZE);
}

/* ---- The login ---- */

#define TEXT_OF(text) ((sluice_http_text){text, sizeof text - 1})
#define NEED_AUTH "[ AccessManager.Reject ] : [ code=403 need auth; authmod=adobe ] : "
#define CHALLENGE                                                                                                      \
    "[ AccessManager.Reject ] : [ authmod=adobe ] : ?reason=needauth&user=publisher&salt=salt=&challenge=ab"

static void responses_are_those_of_the_formula(void **state) {
    char response[RTMP_LOGIN_RESPONSE];
    (void)state;
    /* Computed by Python's hashlib and base64. */
    assert_int_equal(rtmp_login_response(TEXT_OF("publisher"), TEXT_OF("salt="), TEXT_OF("secret"),
                                         TEXT_OF("opaque+/="), TEXT_OF("01234567"), response),
                     0);
    assert_string_equal(response, "9YWWfrqAabyqYk3cNqJI5w==");
    assert_int_equal(
        rtmp_login_response(TEXT_OF("u"), TEXT_OF("s"), TEXT_OF("p"), TEXT_OF("c"), TEXT_OF("00000000"), response), 0);
    assert_string_equal(response, "tI0/jJ1yNEgKgRUKY4iorA==");
}

static void assert_answered(const struct rtmp_login *login, sluice_http_text challenge, const char *opaque) {
    char expected[RTMP_LOGIN_RESPONSE], ours[9], all[RTMP_LOGIN_QUERY + 1];
    const char *begin = strstr(login->query, "&challenge=");
    assert_non_null(begin);
    snprintf(ours, sizeof ours, "%s", begin + strlen("&challenge="));
    assert_int_equal(rtmp_login_response(TEXT_OF("publisher"), TEXT_OF("salt="), TEXT_OF("secret"), challenge,
                                         (sluice_http_text){ours, strlen(ours)}, expected),
                     0);
    snprintf(all, sizeof all, "?authmod=adobe&user=publisher&challenge=%s&response=%s%s", ours, expected, opaque);
    assert_string_equal(login->query, all);
}

static void a_login_takes_two_refusals(void **state) {
    struct rtmp_login login = {.user = "publisher", .password = "secret"};
    (void)state;
    assert_int_equal(rtmp_login_take(&login, TEXT_OF(NEED_AUTH)), 0);
    assert_string_equal(login.query, "?authmod=adobe&user=publisher");
    assert_int_equal(rtmp_login_take(&login, TEXT_OF(CHALLENGE "&opaque=cd==")), 0);
    assert_answered(&login, TEXT_OF("cd=="), "&opaque=cd==");
    assert_int_equal(rtmp_login_take(&login, TEXT_OF(CHALLENGE)), -EACCES);
    /* The challenge itself, where nothing is opaque. */
    login.state = RTMP_LOGIN_NAMED;
    assert_int_equal(rtmp_login_take(&login, TEXT_OF(CHALLENGE)), 0);
    assert_answered(&login, TEXT_OF("ab"), "");
}

static void refusals_that_are_no_challenge_end_a_login(void **state) {
    static char text[RTMP_LOGIN_DESCRIPTION + 1];
    struct rtmp_login login = {0};
    (void)state;
    memset(text, 'x', sizeof text);
    assert_int_equal(rtmp_login_take(&login, TEXT_OF("")), -ENOMSG);
    assert_int_equal(rtmp_login_take(&login, TEXT_OF("no such app")), -ENOMSG);
    assert_int_equal(rtmp_login_take(&login, (sluice_http_text){text, sizeof text}), -EMSGSIZE);
    assert_int_equal(rtmp_login_take(&login, TEXT_OF(NEED_AUTH)), -ENOKEY);
    login.user = "publisher";
    login.password = "secret";
    assert_int_equal(rtmp_login_take(&login, TEXT_OF("authmod=llnw : ?reason=needauth&nonce=1")), -EOPNOTSUPP);
    assert_int_equal(rtmp_login_take(&login, TEXT_OF("authmod=adobe : ?reason=needauth&user=a&opaque=b")), -EPROTO);
    assert_int_equal(rtmp_login_take(&login, TEXT_OF("authmod=adobe : ?reason=needauth&user=a&salt=b")), -EPROTO);
    assert_int_equal(rtmp_login_take(&login, TEXT_OF("authmod=adobe")), -EPROTO);
    assert_int_equal(rtmp_login_take(&login, TEXT_OF("authmod=adobe : ?reason=authfailed&opaque=x")), -EACCES);
    assert_int_equal(rtmp_login_take(&login, TEXT_OF("authmod=adobe : ?reason=nosuchuser&opaque=x")), -EACCES);
    assert_int_equal(login.state, RTMP_LOGIN_NONE);
    login.user = "a&b=c d";
    assert_int_equal(rtmp_login_take(&login, TEXT_OF(NEED_AUTH)), 0);
    assert_string_equal(login.query, "?authmod=adobe&user=a%26b%3Dc%20d");
    /* A server that asks for the name again and again. */
    assert_int_equal(rtmp_login_take(&login, TEXT_OF(NEED_AUTH)), -EACCES);
}

/* ---- The dialogue ---- */

/* A client at the first end of a rig, and the test's server at the second one. */
struct dialogue {
    struct rtmp_rig rig;
    struct rtmp_client *client;
    struct rtmp_login login;
    sluice_rtmp_handshake *handshake;
    sluice_rtmp *framer; /* the server's */
    uint64_t now;
    unsigned started, tags;
    int answer; /* to each tag */
    struct {
        sluice_flv_type type;
        uint32_t timestamp, size;
        uint8_t first; /* byte of the payload */
        bool key_frame;
    } seen[16];
    char name[64]; /* of the server's last command */
    double transaction;
    char object[TEXT]; /* its "app" and "tcUrl", or its strings */
};

static void on_running(void *user) {
    ((struct dialogue *)user)->started++;
}

static int on_tag(sluice_flv_tag *tag, void *user) {
    struct dialogue *d = user;
    struct iovec piece;
    assert_true(sluice_slice_iov(&tag->payload, 0, &piece, 1) > 0);
    assert_int_equal(sluice_slice_length(&tag->payload), tag->size);
    if (d->answer != RTMP_CLIENT_AGAIN && d->tags < 16) {
        d->seen[d->tags].type = tag->type;
        d->seen[d->tags].timestamp = tag->timestamp;
        d->seen[d->tags].size = tag->size;
        d->seen[d->tags].first = *(const uint8_t *)piece.iov_base;
        d->seen[d->tags++].key_frame = tag->view.key_frame;
    }
    return d->answer;
}

static const struct rtmp_client_events client_events = {.running = on_running, .tag = on_tag};

static void open_client(struct dialogue *d, enum rtmp_client_mode mode, const char *text, size_t limit) {
    struct rtmp_url url;
    d->started = d->tags = 0;
    d->now = 1000;
    rtmp_rig_open(&d->rig, limit);
    assert_int_equal(rtmp_url_read(text, strlen(text), &url), 0);
    const struct rtmp_client_options options = {.mode = mode,
                                                .url = &url,
                                                .login = &d->login,
                                                .writer = d->rig.ends[0].writer,
                                                .events = &client_events,
                                                .user = d,
                                                .now = d->now};
    assert_int_equal(rtmp_client_new(&options, &d->client), 0);
    assert_int_equal(rtmp_handshake_begin(SLUICE_RTMP_SERVER, SLUICE_RTMP_SIMPLE, &d->handshake), 0);
    assert_int_equal(sluice_rtmp_new(NULL, &d->framer), 0);
}

static void close_client(struct dialogue *d) {
    rtmp_client_free(d->client);
    sluice_rtmp_handshake_free(d->handshake);
    sluice_rtmp_free(d->framer);
    rtmp_rig_close(&d->rig);
    d->login = (struct rtmp_login){.user = d->login.user, .password = d->login.password};
}

static int feed_client(struct dialogue *d) {
    turn_through(d->rig.loop.loop, 4);
    return rtmp_client_feed(d->client, sluice_conn_chain(d->rig.ends[0].conn), d->now);
}

/* Both ends, until the server's is complete. */
static void shake_hands(struct dialogue *d) {
    int result = 0;
    assert_string_equal(rtmp_client_step(d->client), "handshake");
    while (result == 0) {
        assert_int_equal(feed_client(d), 0);
        result = sluice_rtmp_handshake_next(d->handshake, sluice_conn_chain(d->rig.ends[1].conn));
        assert_true(result >= 0);
        assert_int_equal(rtmp_handshake_send(d->handshake, d->rig.ends[1].writer), 0);
    }
    assert_int_equal(sluice_rtmp_handshake_schema(d->handshake), SLUICE_RTMP_EARLY);
}

static void add_text(struct dialogue *d, const sluice_slice *text) {
    char value[2048];
    assert_true(sluice_amf_get_text(text, value, sizeof value) >= 0);
    snprintf(d->object + strlen(d->object), sizeof d->object - strlen(d->object), "%s%s", *d->object ? " " : "", value);
}

/* The client's next command, with its texts: those of app and tcUrl, or its arguments. */
static void expect_command(struct dialogue *d, const char *name) {
    sluice_rtmp_message *message;
    sluice_rtmp_command command;
    sluice_amf_value value;
    do
        message = rtmp_rig_receive(&d->rig, d->framer);
    while (message->type != SLUICE_RTMP_COMMAND);
    assert_int_equal(sluice_rtmp_read_command(message, NULL, &command), 0);
    assert_true(sluice_amf_get_text(&command.name, d->name, sizeof d->name) > 0);
    assert_string_equal(d->name, name);
    d->transaction = command.transaction;
    d->object[0] = '\0';
    while (sluice_amf_next(&command.values, &value) == 1)
        if (value.type == SLUICE_AMF_STRING &&
            (value.depth == 0 || sluice_amf_equals(&value.name, "app") || sluice_amf_equals(&value.name, "tcUrl")))
            add_text(d, &value.text);
}

/* An answer: a code with a description, or the number of a stream. */
static void reply(struct dialogue *d, const char *name, const char *level, const char *code, const char *description) {
    struct rtmp_command command;
    rtmp_command_begin(&command, name, d->transaction);
    sluice_amf_write_null(&command.values);
    if (code) {
        sluice_amf_write_object(&command.values);
        rtmp_command_text(&command, "level", level);
        rtmp_command_text(&command, "code", code);
        rtmp_command_text(&command, "description", description);
        sluice_amf_write_object_end(&command.values);
    } else {
        sluice_amf_write_number(&command.values, 7);
    }
    assert_int_equal(rtmp_command_send(&command, 0, SLUICE_RTMP_DEFAULT_CHUNK, d->rig.ends[1].writer), 0);
}

static void queue_message(struct dialogue *d, uint8_t type, uint32_t timestamp, const char *bytes, size_t size) {
    const sluice_rtmp_message message = {
        .type = type, .chunk_stream = 6, .stream = 7, .timestamp = timestamp, .size = (uint32_t)size};
    sluice_rtmp_chunking chunking;
    sluice_rtmp_chunk chunk;
    assert_int_equal(sluice_rtmp_chunk_begin(&chunking, &message, SLUICE_RTMP_DEFAULT_CHUNK), 0);
    while (sluice_rtmp_chunk_next(&chunking, &chunk) == 1) {
        assert_int_equal(sluice_writer_copy(d->rig.ends[1].writer, chunk.header, chunk.header_size), 0);
        assert_int_equal(sluice_writer_copy(d->rig.ends[1].writer, bytes + chunk.offset, chunk.length), 0);
    }
}

#define MESSAGE(type, timestamp, bytes) queue_message(d, type, timestamp, bytes, sizeof bytes - 1)

static void connect_client(struct dialogue *d) {
    shake_hands(d);
    expect_command(d, "connect");
    assert_string_equal(rtmp_client_step(d->client), "connect");
    reply(d, "_result", "status", "NetConnection.Connect.Success", "");
    assert_int_equal(feed_client(d), 0);
}

static void start_publisher(struct dialogue *d) {
    connect_client(d);
    expect_command(d, "releaseStream");
    expect_command(d, "FCPublish");
    reply(d, "_error", "error", "NetConnection.Call.Failed", "not known here");
    /* As ffmpeg answers it: without a transaction. */
    MESSAGE(SLUICE_RTMP_COMMAND, 0, "\x02\0\x0bonFCPublish");
    expect_command(d, "createStream");
    assert_string_equal(rtmp_client_step(d->client), "createStream");
    reply(d, "_result", NULL, NULL, NULL);
    assert_int_equal(feed_client(d), 0);
    expect_command(d, "publish");
    assert_string_equal(d->object, "cam?token=x live");
    reply(d, "onStatus", "status", "NetStream.Publish.Start", "");
    assert_int_equal(d->started, 0);
    assert_int_equal(feed_client(d), 0);
    assert_int_equal(d->started, 1);
    assert_int_equal(rtmp_client_get_state(d->client), RTMP_CLIENT_RUNNING);
}

static void start_player(struct dialogue *d) {
    connect_client(d);
    expect_command(d, "createStream");
    reply(d, "_result", NULL, NULL, NULL);
    assert_int_equal(feed_client(d), 0);
    expect_command(d, "play");
    assert_string_equal(rtmp_client_step(d->client), "play");
    assert_string_equal(d->object, "cam");
}

/* What the library makes of bytes of a chain, to be sent. */
static sluice_slice payload_of(struct dialogue *d, const char *front, size_t size) {
    sluice_chain *chain;
    sluice_slice slice;
    struct iovec room;
    assert_int_equal(sluice_chain_new(d->rig.loop.pool, &chain), 0);
    for (size_t done = 0; done < size; done += room.iov_len) {
        assert_int_equal(sluice_chain_reserve(chain, 1, &room, 1), 1);
        if (room.iov_len > size - done)
            room.iov_len = size - done;
        memset(room.iov_base, 'x', room.iov_len);
        if (done == 0)
            memcpy(room.iov_base, front, strlen(front) < room.iov_len ? strlen(front) : room.iov_len);
        assert_int_equal(sluice_chain_commit(chain, room.iov_len), 0);
    }
    assert_int_equal(sluice_chain_take(chain, size, &slice), 0);
    sluice_chain_free(chain);
    return slice;
}

static struct dialogue dialogue; /* too large for a stack with guards */

static void a_publisher_sends_frames_by_reference(void **state) {
    struct dialogue *d = &dialogue;
    (void)state;
    *d = (struct dialogue){0};
    open_client(d, RTMP_CLIENT_PUBLISH, "rtmp://host:1/live/cam?token=x", LIMIT);
    sluice_slice frame = payload_of(d, "\x17\x01", FRAME), script = payload_of(d, "\x02\x00\x0aonMetaData", 200);
    assert_int_equal(rtmp_client_send(d->client, SLUICE_FLV_VIDEO, 0, &frame), -EAGAIN);
    start_publisher(d);
    assert_int_equal(rtmp_client_send(d->client, SLUICE_FLV_SCRIPT, 0, &script), 0);
    assert_int_equal(rtmp_client_send(d->client, SLUICE_FLV_VIDEO, 0x01000000, &frame), 0);
    size_t queued = sluice_writer_queued(d->rig.ends[0].writer);
    /* Headers of 12 and 16 bytes, and one of 5 for the part behind the chunk size. */
    assert_int_equal(queued, 12 + 16 + 200 + 16 + FRAME + 5);
    sluice_rtmp_message *message = rtmp_rig_receive(&d->rig, d->framer);
    assert_int_equal(message->type, SLUICE_RTMP_DATA);
    assert_int_equal(message->size, 216);
    assert_int_equal(message->stream, 7);
    message = rtmp_rig_receive(&d->rig, d->framer);
    assert_int_equal(message->type, SLUICE_RTMP_VIDEO);
    assert_int_equal(message->timestamp, 0x01000000);
    assert_int_equal(message->size, FRAME);
    assert_int_equal(rtmp_client_finish(d->client), 0);
    expect_command(d, "FCUnpublish");
    assert_string_equal(d->object, "cam");
    expect_command(d, "deleteStream");
    sluice_slice_release(&frame);
    sluice_slice_release(&script);
    close_client(d);
}

/* Replies find room whatever waits; and what would never fit is said to be too long. */
static void media_leave_room_for_replies(void **state) {
    struct dialogue *d = &dialogue;
    enum { SMALL = RTMP_CLIENT_RESERVE + 4096 };
    (void)state;
    *d = (struct dialogue){0};
    open_client(d, RTMP_CLIENT_PUBLISH, "rtmp://host/live/cam?token=x", SMALL);
    sluice_slice fits = payload_of(d, "\xaf\x01", 4096 - SLUICE_RTMP_MAX_HEADER);
    sluice_slice larger = payload_of(d, "\xaf\x01", 4096 - SLUICE_RTMP_MAX_HEADER + 1);
    start_publisher(d);
    turn_through(d->rig.loop.loop, 4);
    assert_int_equal(rtmp_client_send(d->client, SLUICE_FLV_AUDIO, 1, &larger), -EMSGSIZE);
    assert_int_equal(rtmp_client_send(d->client, SLUICE_FLV_AUDIO, 1, &fits), 0);
    assert_int_equal(rtmp_client_send(d->client, SLUICE_FLV_AUDIO, 2, &fits), -EAGAIN);
    assert_true(sluice_writer_room(d->rig.ends[0].writer) >= RTMP_CLIENT_RESERVE);
    assert_int_equal(rtmp_client_feed(d->client, sluice_conn_chain(d->rig.ends[0].conn), d->now), 0);
    sluice_slice_release(&fits);
    sluice_slice_release(&larger);
    close_client(d);
}

static void connect_names_the_app_without_the_password(void **state) {
    struct dialogue *d = &dialogue;
    (void)state;
    *d = (struct dialogue){0};
    open_client(d, RTMP_CLIENT_PLAY, "rtmp://user:pass@host/live/room/cam", LIMIT);
    shake_hands(d);
    expect_command(d, "connect");
    assert_string_equal(d->object, "live/room rtmp://host/live/room");
    close_client(d);
}

static void assert_seen(const struct dialogue *d, unsigned i, sluice_flv_type type, uint32_t timestamp, uint32_t size,
                        uint8_t first) {
    assert_int_equal(d->seen[i].type, type);
    assert_int_equal(d->seen[i].timestamp, timestamp);
    assert_int_equal(d->seen[i].size, size);
    assert_int_equal(d->seen[i].first, first);
}

static void a_player_gets_tags(void **state) {
    /* Two messages: types, sizes, timestamps of 100 and 140. */
    static const char aggregate[] = "\x08\0\0\x03\0\0\x64\0\0\0\0\xaf\x01z\0\0\0\x0e"
                                    "\x09\0\0\x06\0\0\x8c\0\0\0\0\x17\x01\0\0\0y\0\0\0\x11";
    struct dialogue *d = &dialogue;
    (void)state;
    *d = (struct dialogue){0};
    open_client(d, RTMP_CLIENT_PLAY, "rtmp://host/live/cam", LIMIT);
    start_player(d);
    MESSAGE(SLUICE_RTMP_DATA, 0, "\x02\0\x11|RtmpSampleAccess\x01\0\x01\0");
    assert_int_equal(feed_client(d), 0);
    assert_int_equal(d->started, 0);
    reply(d, "onStatus", "status", "NetStream.Play.Start", "");
    MESSAGE(SLUICE_RTMP_DATA, 0, "\x02\0\x0aonMetaData\x05");
    MESSAGE(SLUICE_RTMP_DATA3, 0, "\0\x02\0\x0aonMetaData\x05");
    MESSAGE(SLUICE_RTMP_DATA, 0, "\x02\0\x08onStatus\x05");
    MESSAGE(SLUICE_RTMP_VIDEO, 0xFFFFFFF0, "\x17\x01\0\0\0frame");
    MESSAGE(SLUICE_RTMP_AUDIO, 5, "");
    MESSAGE(SLUICE_RTMP_AGGREGATE, 1000, aggregate);
    MESSAGE(SLUICE_RTMP_AUDIO, 7, "\xaf\x01sound");
    assert_int_equal(feed_client(d), 0);
    assert_int_equal(d->started, 1);
    assert_int_equal(d->tags, 6);
    assert_seen(d, 0, SLUICE_FLV_SCRIPT, 0, 14, 2);
    assert_seen(d, 1, SLUICE_FLV_SCRIPT, 0, 14, 2);
    assert_seen(d, 2, SLUICE_FLV_VIDEO, 0xFFFFFFF0, 10, 0x17);
    assert_true(d->seen[2].key_frame);
    assert_seen(d, 3, SLUICE_FLV_AUDIO, 1000, 3, 0xaf);
    assert_seen(d, 4, SLUICE_FLV_VIDEO, 1040, 6, 0x17);
    assert_seen(d, 5, SLUICE_FLV_AUDIO, 7, 7, 0xaf);
    reply(d, "onStatus", "status", "NetStream.Play.UnpublishNotify", "");
    assert_int_equal(feed_client(d), -ENODATA);
    assert_int_equal(feed_client(d), -ENODATA);
    assert_string_equal(rtmp_client_reason(d->client), "the server has ended the stream");
    close_client(d);
}

/* A name that is in use, a budget that is spent, and a user that gives up. */
static void tags_wait_for_their_user(void **state) {
    struct dialogue *d = &dialogue;
    (void)state;
    *d = (struct dialogue){.answer = RTMP_CLIENT_AGAIN};
    open_client(d, RTMP_CLIENT_PLAY, "rtmp://host/live/cam", LIMIT);
    start_player(d);
    MESSAGE(SLUICE_RTMP_VIDEO, 1, "\x17\x01\0\0\0frame");
    MESSAGE(SLUICE_RTMP_VIDEO, 2, "\x27\x01\0\0\0frame");
    MESSAGE(SLUICE_RTMP_VIDEO, 3, "\x27\x01\0\0\0frame");
    assert_int_equal(feed_client(d), 1);
    assert_int_equal(d->started, 1); /* by the first media, though nothing has been said of it */
    assert_int_equal(rtmp_client_need(d->client), 1);
    assert_int_equal(feed_client(d), 1);
    assert_int_equal(d->tags, 0);
    d->answer = RTMP_CLIENT_REST;
    assert_int_equal(feed_client(d), 1);
    assert_int_equal(d->tags, 1);
    assert_seen(d, 0, SLUICE_FLV_VIDEO, 1, 10, 0x17);
    assert_int_equal(feed_client(d), 1);
    assert_int_equal(d->tags, 2);
    d->answer = -ECANCELED;
    assert_int_equal(feed_client(d), -ECANCELED);
    assert_int_equal(rtmp_client_check(d->client, d->now), -ECANCELED);
    close_client(d);
    /* A tag that waits when the client is freed. */
    d->answer = RTMP_CLIENT_AGAIN;
    open_client(d, RTMP_CLIENT_PLAY, "rtmp://host/live/cam", LIMIT);
    start_player(d);
    MESSAGE(SLUICE_RTMP_VIDEO, 1, "\x17\x01\0\0\0frame");
    assert_int_equal(feed_client(d), 1);
    close_client(d);
}

static void refusals_have_the_servers_code(void **state) {
    struct dialogue *d = &dialogue;
    (void)state;
    *d = (struct dialogue){0};
    open_client(d, RTMP_CLIENT_PLAY, "rtmp://host/live/cam", LIMIT);
    shake_hands(d);
    expect_command(d, "connect");
    reply(d, "_error", "error", "NetConnection.Connect.InvalidApp", "no such app");
    assert_int_equal(feed_client(d), -ECONNREFUSED);
    assert_string_equal(rtmp_client_reason(d->client), "connect refused: NetConnection.Connect.InvalidApp");
    close_client(d);

    open_client(d, RTMP_CLIENT_PLAY, "rtmp://host/live/cam", LIMIT);
    start_player(d);
    reply(d, "onStatus", "error", "NetStream.Play.StreamNotFound", "");
    assert_int_equal(feed_client(d), -ENOENT);
    assert_string_equal(rtmp_client_reason(d->client), "no such stream: NetStream.Play.StreamNotFound");
    close_client(d);

    /* A code that is none may be anything, such as the stream's key. */
    open_client(d, RTMP_CLIENT_PLAY, "rtmp://host/live/cam", LIMIT);
    start_player(d);
    reply(d, "onStatus", "error", "cam?token=secret", "");
    assert_int_equal(feed_client(d), -ECONNREFUSED);
    assert_string_equal(rtmp_client_reason(d->client), "play refused");
    close_client(d);
}

static void a_login_goes_on_at_the_next_connection(void **state) {
    struct dialogue *d = &dialogue;
    (void)state;
    *d = (struct dialogue){.login = {.user = "publisher", .password = "secret"}};
    open_client(d, RTMP_CLIENT_PUBLISH, "rtmp://host/live/cam", LIMIT);
    shake_hands(d);
    expect_command(d, "connect");
    reply(d, "_error", "error", "NetConnection.Connect.Rejected", NEED_AUTH);
    assert_int_equal(feed_client(d), -ERESTART);
    struct rtmp_login login = d->login;
    close_client(d);

    d->login = login;
    open_client(d, RTMP_CLIENT_PUBLISH, "rtmp://host/live/cam", LIMIT);
    shake_hands(d);
    expect_command(d, "connect");
    assert_string_equal(d->object, "live?authmod=adobe&user=publisher "
                                   "rtmp://host/live?authmod=adobe&user=publisher");
    reply(d, "_error", "error", "NetConnection.Connect.Rejected", "authmod=adobe : ?reason=authfailed");
    assert_int_equal(feed_client(d), -EACCES);
    assert_string_equal(rtmp_client_reason(d->client), "the user or the password is wrong");
    close_client(d);
}

/* Pings are answered; one that wants many answers and reads none is cut off at the writer's
 * bound. */
static void pings_are_answered_within_a_bound(void **state) {
    struct dialogue *d = &dialogue;
    const sluice_rtmp_control ping = {
        .type = SLUICE_RTMP_USER_CONTROL, .event = SLUICE_RTMP_PING_REQUEST, .value = 0x01020304};
    sluice_rtmp_control control;
    int error = 0;
    (void)state;
    *d = (struct dialogue){0};
    open_client(d, RTMP_CLIENT_PLAY, "rtmp://host/live/cam", RTMP_CLIENT_RESERVE);
    start_player(d);
    assert_int_equal(rtmp_send_control(d->rig.ends[1].writer, &ping), 0);
    assert_int_equal(feed_client(d), 0);
    do
        assert_int_equal(sluice_rtmp_read_control(rtmp_rig_receive(&d->rig, d->framer), &control), 0);
    while (control.event != SLUICE_RTMP_PING_RESPONSE);
    assert_int_equal(control.value, 0x01020304);
    sluice_conn_pause(d->rig.ends[1].conn);
    for (int i = 0; i < 1000000 && !error; i++) {
        if (rtmp_send_control(d->rig.ends[1].writer, &ping) == 0)
            continue;
        turn_through(d->rig.loop.loop, 4);
        do
            error = rtmp_client_feed(d->client, sluice_conn_chain(d->rig.ends[0].conn), d->now);
        while (error > 0);
    }
    assert_int_equal(error, -ENOBUFS);
    close_client(d);
}

/* Messages that are no tags, as many as a server likes: one call handles some of them. */
static void messages_without_tags_are_shared_out(void **state) {
    enum { MESSAGES = 2000, FEW = 64 };
    struct dialogue *d = &dialogue;
    unsigned feeds = 0;
    int result;
    (void)state;
    *d = (struct dialogue){0};
    open_client(d, RTMP_CLIENT_PLAY, "rtmp://host/live/cam", LIMIT);
    start_player(d);
    for (int i = 0; i < MESSAGES; i++)
        MESSAGE(SLUICE_RTMP_AUDIO, 5, "");
    MESSAGE(SLUICE_RTMP_AUDIO, 7, "\xaf\x01sound");
    while ((result = feed_client(d)) == 1) {
        assert_int_equal(rtmp_client_work(d->client), FEW);
        feeds++;
    }
    assert_int_equal(result, 0);
    assert_int_equal(feeds, MESSAGES / FEW);
    assert_int_equal(d->tags, 1);
    /* Each command costs as much as many of them. */
    for (int i = 0; i < FEW; i++)
        MESSAGE(SLUICE_RTMP_COMMAND, 0, "\x02\0\x0bonFCPublish");
    for (feeds = 0; (result = feed_client(d)) == 1; feeds++)
        assert_int_equal(rtmp_client_work(d->client), FEW);
    assert_int_equal(result, 0);
    assert_int_equal(feeds, RTMP_CLIENT_COMMAND);
    close_client(d);
}

static void each_step_has_its_time(void **state) {
    struct dialogue *d = &dialogue;
    (void)state;
    *d = (struct dialogue){0};
    open_client(d, RTMP_CLIENT_PLAY, "rtmp://host/live/cam", LIMIT);
    assert_int_equal(rtmp_client_check(d->client, d->now + RTMP_CLIENT_STEP_MS - 1), 0);
    d->now += RTMP_CLIENT_STEP_MS - 1;
    start_player(d);
    assert_int_equal(rtmp_client_check(d->client, d->now + RTMP_CLIENT_STEP_MS - 1), 0);
    MESSAGE(SLUICE_RTMP_VIDEO, 1, "\x17\x01\0\0\0frame");
    assert_int_equal(feed_client(d), 0);
    assert_int_equal(rtmp_client_check(d->client, d->now + 1000000), 0);
    close_client(d);

    /* A ping is no answer. */
    open_client(d, RTMP_CLIENT_PLAY, "rtmp://host/live/cam", LIMIT);
    start_player(d);
    d->now += RTMP_CLIENT_STEP_MS;
    const sluice_rtmp_control ping = {.type = SLUICE_RTMP_USER_CONTROL, .event = SLUICE_RTMP_PING_REQUEST};
    assert_int_equal(rtmp_send_control(d->rig.ends[1].writer, &ping), 0);
    assert_int_equal(feed_client(d), 0);
    assert_int_equal(rtmp_client_check(d->client, d->now), -ETIMEDOUT);
    assert_string_equal(rtmp_client_reason(d->client), "the server does not answer");
    assert_int_equal(feed_client(d), -ETIMEDOUT);
    close_client(d);
}

/* @first: in the properties, else in the information behind them */
static void reply_capabilities(struct dialogue *d, bool first, double capabilities, bool lists) {
    struct rtmp_command command;
    rtmp_command_begin(&command, "_result", d->transaction);
    if (!first)
        sluice_amf_write_null(&command.values);
    sluice_amf_write_object(&command.values);
    rtmp_command_text(&command, "fmsVer", "FMS/3,5,7,7009");
    if (lists) {
        sluice_amf_write_name(&command.values, "videoFourCcInfoMap");
        sluice_amf_write_object(&command.values);
        rtmp_command_number(&command, "*", 4);
        sluice_amf_write_object_end(&command.values);
    }
    if (capabilities >= 0)
        rtmp_command_number(&command, "capsEx", capabilities);
    sluice_amf_write_object_end(&command.values);
    assert_int_equal(rtmp_command_send(&command, 0, SLUICE_RTMP_DEFAULT_CHUNK, d->rig.ends[1].writer), 0);
}

static void servers_announce_capabilities(void **state) {
    static const struct {
        bool first;
        double sent;
        bool lists;
        unsigned expected;
    } cases[] = {
        {true, -1, false, 0},
        {true, -1, true, RTMP_IS_ENHANCED},
        {true, 2, true, RTMP_IS_ENHANCED | RTMP_CAN_MULTITRACK},
        {false, 3, false, RTMP_IS_ENHANCED | RTMP_CAN_MULTITRACK | RTMP_CAN_RECONNECT},
        {true, 4294967295.0, false, 31},
        {true, 4294967296.0, false, 0},
    };
    struct dialogue *d = &dialogue;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        *d = (struct dialogue){0};
        open_client(d, RTMP_CLIENT_PUBLISH, "rtmp://host/live/cam", LIMIT);
        shake_hands(d);
        expect_command(d, "connect");
        assert_int_equal(rtmp_client_capabilities(d->client), 0);
        reply_capabilities(d, cases[i].first, cases[i].sent, cases[i].lists);
        assert_int_equal(feed_client(d), 0);
        assert_string_equal(rtmp_client_step(d->client), "createStream");
        assert_int_equal(rtmp_client_capabilities(d->client), cases[i].expected);
        close_client(d);
    }
    /* An object that breaks off announces nothing. */
    *d = (struct dialogue){0};
    open_client(d, RTMP_CLIENT_PUBLISH, "rtmp://host/live/cam", LIMIT);
    shake_hands(d);
    MESSAGE(SLUICE_RTMP_COMMAND, 0,
            "\x02\0\x07_result\0\x3f\xf0\0\0\0\0\0\0\x03\0\x06"
            "capsEx\0\x40\0\0\0\0\0\0\0");
    assert_int_equal(feed_client(d), 0);
    assert_string_equal(rtmp_client_step(d->client), "createStream");
    assert_int_equal(rtmp_client_capabilities(d->client), 0);
    close_client(d);
}

static void what_is_not_rtmp_is_refused(void **state) {
    struct dialogue *d = &dialogue;
    (void)state;
    *d = (struct dialogue){0};
    open_client(d, RTMP_CLIENT_PLAY, "rtmp://host/live/cam", LIMIT);
    assert_int_equal(sluice_writer_copy(d->rig.ends[1].writer, "HTTP/1.1 400 Bad Request\r\n", 26), 0);
    assert_true(feed_client(d) < 0);
    close_client(d);

    open_client(d, RTMP_CLIENT_PLAY, "rtmp://host/live/cam", LIMIT);
    connect_client(d);
    expect_command(d, "createStream");
    reply(d, "_result", "status", "no.number", "");
    assert_int_equal(feed_client(d), -EPROTO);
    assert_string_equal(rtmp_client_reason(d->client), "not valid RTMP");
    close_client(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_split_as_ffmpeg_does),
        cmocka_unit_test(urls_without_a_part_are_refused),
        cmocka_unit_test(responses_are_those_of_the_formula),
        cmocka_unit_test(a_login_takes_two_refusals),
        cmocka_unit_test(refusals_that_are_no_challenge_end_a_login),
        cmocka_unit_test(a_publisher_sends_frames_by_reference),
        cmocka_unit_test(media_leave_room_for_replies),
        cmocka_unit_test(connect_names_the_app_without_the_password),
        cmocka_unit_test(a_player_gets_tags),
        cmocka_unit_test(tags_wait_for_their_user),
        cmocka_unit_test(refusals_have_the_servers_code),
        cmocka_unit_test(a_login_goes_on_at_the_next_connection),
        cmocka_unit_test(pings_are_answered_within_a_bound),
        cmocka_unit_test(messages_without_tags_are_shared_out),
        cmocka_unit_test(each_step_has_its_time),
        cmocka_unit_test(servers_announce_capabilities),
        cmocka_unit_test(what_is_not_rtmp_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
