#include "rtsp/rtmp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/process.h"
#include "rtsp/secure.h"

enum {
    CHUNK_AT_FIRST = 128,
    HANDSHAKE = 1536,
    LONG_TIME = 0xFFFFFF,
    CONTROL_STREAM = 2,
    COMMAND_STREAM = 3,
    AUDIO_STREAM = 4,
    VIDEO_STREAM = 6,
    AMF_NUMBER = 0,
    AMF_STRING = 2,
    AMF_OBJECT = 3,
    AMF_NULL = 5,
    AMF_OBJECT_END = 9,
    MOST_COMMAND = 120, /* in one chunk of the first size */
};

static uint32_t be(const uint8_t *bytes, int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; i++)
        value = value << 8 | bytes[i];
    return value;
}

static uint8_t *put_be(uint8_t *to, uint32_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        *to++ = (uint8_t)(value >> 8 * (bytes - 1 - i));
    return to;
}

static uint8_t *put(uint8_t *to, const void *bytes, size_t size) {
    if (size > 0)
        memcpy(to, bytes, size);
    return to + size;
}

/* ---- Chunks ---- */

static void make_room(rtmp_stream *s) {
    if (s->length > RTMP_MOST_MESSAGE)
        fail(EXIT_FAILURE, "a message of %u bytes", s->length);
    if (s->length <= s->room)
        return;
    free(s->bytes);
    s->bytes = malloc(s->length);
    s->room = s->length;
    if (!s->bytes)
        fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
}

/* The header of a chunk, if it is there: as many bytes as it has; else 0. */
static size_t take_header(rtmp_stream *s, unsigned format, const uint8_t *bytes, size_t size) {
    static const size_t sizes[] = {11, 7, 3, 0};
    size_t header = 1 + sizes[format];
    if (size < header)
        return 0;
    bool is_long = format < 3 ? be(bytes + 1, 3) == LONG_TIME : s->is_long;
    if (size < header + 4 * is_long)
        return 0;
    s->is_long = is_long;
    if (format < 2) {
        s->length = be(bytes + 4, 3);
        s->type = bytes[7];
        make_room(s);
    }
    return header + 4 * is_long;
}

size_t rtmp_take(rtmp_chunks *chunks, const uint8_t *bytes, size_t size, rtmp_message_fn *message, void *user) {
    if (!chunks->streams) {
        chunks->streams = calloc(RTMP_STREAMS, sizeof *chunks->streams);
        chunks->size = CHUNK_AT_FIRST;
        if (!chunks->streams)
            fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
    }
    size_t done = 0;
    while (done < size) {
        unsigned stream = bytes[done] & 0x3F;
        if (stream < CONTROL_STREAM)
            fail(EXIT_FAILURE, "a chunk stream whose number is long");
        rtmp_stream *s = &chunks->streams[stream];
        rtmp_stream before = *s;
        size_t header = take_header(s, bytes[done] >> 6, bytes + done, size - done);
        uint32_t part = s->length - s->have < chunks->size ? s->length - s->have : chunks->size;
        if (header == 0 || size - done < header + part) {
            /* It comes again. The memory may be another. */
            before.bytes = s->bytes;
            before.room = s->room;
            *s = before;
            break;
        }
        put(s->bytes + s->have, bytes + done + header, part);
        s->have += part;
        done += header + part;
        if (s->have < s->length)
            continue;
        s->have = 0;
        if (s->type == RTMP_SET_CHUNK_SIZE && s->length == 4)
            chunks->size = be(s->bytes, 4);
        else if (!message(user, s->type, s->bytes, s->length))
            break;
    }
    return done;
}

void rtmp_forget(rtmp_chunks *chunks) {
    for (uint32_t i = 0; chunks->streams && i < RTMP_STREAMS; i++)
        free(chunks->streams[i].bytes);
    free(chunks->streams);
    *chunks = (rtmp_chunks){0};
}

uint8_t *rtmp_put(uint8_t *to, uint8_t type, uint32_t milliseconds, const void *head, size_t head_size,
                  const void *rest, size_t rest_size) {
    uint8_t stream = type == RTMP_AUDIO ? AUDIO_STREAM : type == RTMP_VIDEO ? VIDEO_STREAM : CONTROL_STREAM;
    *to++ = stream;
    to = put_be(to, milliseconds, 3);
    to = put_be(to, (uint32_t)(head_size + rest_size), 3);
    *to++ = type;
    *to++ = stream == CONTROL_STREAM ? 0 : RTMP_MEDIA_STREAM; /* the least significant byte first */
    to = put_be(to, 0, 3);
    to = put(to, head, head_size);
    const uint8_t *from = rest;
    for (size_t room = RTMP_CHUNK - head_size; rest_size > room; room = RTMP_CHUNK) {
        to = put(to, from, room);
        from += room;
        rest_size -= room;
        *to++ = 0xC0 | stream;
    }
    return put(to, from, rest_size);
}

/* ---- What comes before media ---- */

static rtmp_ready_fn *when_ready;
static bool publishing;

static void send_all(rtmp_client *c, const void *bytes, size_t size) {
    if (secure_send(c->opening.fd, bytes, size, 0) != (ssize_t)size)
        fail(EXIT_FAILURE, "RTMP: %s: sending: %s", c->opening.name, strerror(errno));
}

/* @return whether something has come */
static bool read_some(rtmp_client *c) {
    ssize_t n = secure_recv(c->opening.fd, c->in + c->have, sizeof c->in - c->have, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0)
        fail(EXIT_FAILURE, "RTMP: %s: ended before there was media: %s", c->opening.name, n < 0 ? strerror(errno) : "");
    /* A server that leaves Nagle's algorithm on sends the next message when this is acknowledged:
     * not in 40 ms. */
    const int on = 1;
    (void)setsockopt(c->opening.fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
    c->have += (size_t)n;
    return true;
}

static uint8_t *put_text(uint8_t *to, const char *text) {
    to = put_be(to, (uint32_t)strlen(text), 2);
    return put(to, text, strlen(text));
}

static uint8_t *put_string(uint8_t *to, const char *text) {
    *to++ = AMF_STRING;
    return put_text(to, text);
}

/* A command's name and number, of those that a double holds as 1.0, 2.0, 3.0. */
static uint8_t *put_command(uint8_t *to, const char *name, unsigned number) {
    static const uint16_t doubles[] = {0, 0x3FF0, 0x4000, 0x4008};
    to = put_string(to, name);
    *to++ = AMF_NUMBER;
    to = put_be(to, doubles[number], 2);
    to = put_be(to, 0, 4);
    return put_be(to, 0, 2);
}

static void send_command(rtmp_client *c, const uint8_t *payload, const uint8_t *end, uint8_t media_stream) {
    uint8_t chunk[RTMP_HEADER + CHUNK_AT_FIRST], *to = chunk;
    *to++ = COMMAND_STREAM;
    to = put_be(to, 0, 3);
    to = put_be(to, (uint32_t)(end - payload), 3);
    *to++ = RTMP_COMMAND;
    *to++ = media_stream;
    to = put_be(to, 0, 3);
    to = put(to, payload, (size_t)(end - payload));
    send_all(c, chunk, (size_t)(to - chunk));
}

static void ask_to_connect(rtmp_client *c) {
    uint8_t payload[MOST_COMMAND], *to = put_command(payload, "connect", 1);
    const char *name = c->opening.name, *stream = strchr(name, '/');
    char application[32];
    if (!stream || strlen(name) > sizeof application)
        fail(EXIT_FAILURE, "RTMP: a stream is APPLICATION/STREAM: %s", name);
    snprintf(application, sizeof application, "%.*s", (int)(stream - name), name);
    *to++ = AMF_OBJECT;
    to = put_string(put_text(to, "app"), application);
    to = put_string(put_text(to, "tcUrl"), "rtmp://127.0.0.1/live");
    to = put_be(to, AMF_OBJECT_END, 3);
    send_command(c, payload, to, 0);
}

static void ask_for_stream(rtmp_client *c) {
    uint8_t payload[MOST_COMMAND], *to = put_command(payload, "createStream", 2);
    *to++ = AMF_NULL;
    send_command(c, payload, to, 0);
}

static void ask_for_media(rtmp_client *c) {
    uint8_t payload[MOST_COMMAND], *to = put_command(payload, publishing ? "publish" : "play", 3);
    *to++ = AMF_NULL;
    to = put_string(to, strchr(c->opening.name, '/') + 1);
    if (publishing)
        to = put_string(to, "live");
    send_command(c, payload, to, RTMP_MEDIA_STREAM);
}

/* The plain handshake: what either side sends comes back. */
static void begin(void *client) {
    static const uint8_t hello[1 + HANDSHAKE] = {3};
    send_all(client, hello, sizeof hello);
}

static void shake_hands(rtmp_client *c) {
    if (c->have < 1 + 2 * HANDSHAKE)
        return;
    if (c->in[0] != 3)
        fail(EXIT_FAILURE, "RTMP: %s: version %u", c->opening.name, c->in[0]);
    send_all(c, c->in + 1, HANDSHAKE);
    c->have -= 1 + 2 * HANDSHAKE;
    memmove(c->in, c->in + 1 + 2 * HANDSHAKE, c->have);
    c->step = RTMP_CONNECTING;
    ask_to_connect(c);
}

static const char *expected_by(const rtmp_client *c) {
    if (c->step == RTMP_CONNECTING)
        return "NetConnection.Connect.Success";
    if (c->step == RTMP_CREATING)
        return "_result";
    return publishing ? "NetStream.Publish.Start" : "NetStream.Play.Start";
}

static void answered(rtmp_client *c) {
    c->step++;
    if (c->step == RTMP_CREATING)
        ask_for_stream(c);
    else if (c->step == RTMP_STARTING)
        ask_for_media(c);
}

/* With the answer's texts. */
_Noreturn static void refused(const rtmp_client *c, const uint8_t *payload, size_t size) {
    char text[256];
    size_t length = size < sizeof text - 1 ? size : sizeof text - 1;
    for (size_t i = 0; i < length; i++)
        text[i] = payload[i] >= ' ' && payload[i] <= '~' ? (char)payload[i] : ' ';
    text[length] = '\0';
    fail(EXIT_FAILURE, "RTMP: %s: the server refuses before it says %s: %s", c->opening.name, expected_by(c), text);
}

/* Behind the last answer there are media, which are the receiver's. */
static bool look(void *client, uint8_t type, const uint8_t *payload, size_t size) {
    rtmp_client *c = client;
    if (type != RTMP_COMMAND)
        return true;
    if (memmem(payload, size, "_error", 6) || memmem(payload, size, "\5error", 6))
        refused(c, payload, size);
    const char *expected = expected_by(c);
    if (memmem(payload, size, expected, strlen(expected)))
        answered(c);
    return c->step < RTMP_READY;
}

static bool go_on(void *client) {
    rtmp_client *c = client;
    if (!read_some(c))
        return false;
    if (c->step == RTMP_SHAKING)
        shake_hands(c);
    if (c->step == RTMP_SHAKING)
        return false;
    size_t done = rtmp_take(&c->chunks, c->in, c->have, look, c);
    c->have -= done;
    memmove(c->in, c->in + done, c->have);
    return c->step == RTMP_READY;
}

static void be_ready(void *client) {
    when_ready(client);
}

void rtmp_start(const opening *wanted, bool publishes, rtmp_ready_fn *ready) {
    static const opening_dialog dialog = {
        .size = sizeof(rtmp_client), .begin = begin, .go_on = go_on, .ready = be_ready};
    publishing = publishes;
    when_ready = ready;
    open_all(wanted, &dialog);
}
