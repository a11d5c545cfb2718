#include "rtsp/rtmp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/process.h"
#include "rtsp/client.h"
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
        else
            message(user, s->type, s->bytes, s->length);
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

static void send_all(rtmp_client *c, const void *bytes, size_t size) {
    if (secure_send(c->fd, bytes, size, 0) != (ssize_t)size)
        fail(EXIT_FAILURE, "RTMP: sending: %s", strerror(errno));
}

static void read_some(rtmp_client *c) {
    ssize_t n = secure_recv(c->fd, c->in + c->have, sizeof c->in - c->have, 0);
    if (n <= 0)
        fail(EXIT_FAILURE, "RTMP: ended before there was media: %s", n < 0 ? strerror(errno) : "");
    /* A server that leaves Nagle's algorithm on sends the next message when this is acknowledged:
     * not in 40 ms. */
    const int on = 1;
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
    c->have += (size_t)n;
}

/* The plain handshake: what either side sends comes back. */
static void shake_hands(rtmp_client *c) {
    static uint8_t hello[1 + HANDSHAKE] = {3};
    send_all(c, hello, sizeof hello);
    while (c->have < 1 + 2 * HANDSHAKE)
        read_some(c);
    if (c->in[0] != 3)
        fail(EXIT_FAILURE, "RTMP: version %u", c->in[0]);
    send_all(c, c->in + 1, HANDSHAKE);
    c->have -= 1 + 2 * HANDSHAKE;
    memmove(c->in, c->in + 1 + 2 * HANDSHAKE, c->have);
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

typedef struct answer {
    const char *expected; /* in a command of the server's */
    bool has_come;
} answer;

/* With the answer's texts. */
_Noreturn static void refused(const char *expected, const uint8_t *payload, size_t size) {
    char text[256];
    size_t length = size < sizeof text - 1 ? size : sizeof text - 1;
    for (size_t i = 0; i < length; i++)
        text[i] = payload[i] >= ' ' && payload[i] <= '~' ? (char)payload[i] : ' ';
    text[length] = '\0';
    fail(EXIT_FAILURE, "RTMP: the server refuses before it says %s: %s", expected, text);
}

static void look(void *user, uint8_t type, const uint8_t *payload, size_t size) {
    answer *wanted = user;
    if (type != RTMP_COMMAND)
        return;
    if (memmem(payload, size, "_error", 6) || memmem(payload, size, "\5error", 6))
        refused(wanted->expected, payload, size);
    wanted->has_come |= memmem(payload, size, wanted->expected, strlen(wanted->expected)) != NULL;
}

static void wait_for(rtmp_client *c, const char *expected) {
    answer wanted = {.expected = expected};
    while (!wanted.has_come) {
        size_t done = rtmp_take(&c->chunks, c->in, c->have, look, &wanted);
        c->have -= done;
        memmove(c->in, c->in + done, c->have);
        if (!wanted.has_come)
            read_some(c);
    }
}

void rtmp_start(rtmp_client *c, uint16_t port, const char *name, bool publishes) {
    uint8_t payload[MOST_COMMAND], *to;
    const char *stream = strchr(name, '/');
    char application[32];
    snprintf(application, sizeof application, "%.*s", stream ? (int)(stream - name) : 0, name);
    if (!stream || strlen(name) > 32)
        fail(EXIT_FAILURE, "RTMP: a stream is APPLICATION/STREAM: %s", name);
    c->fd = connect_to(port);
    shake_hands(c);
    to = put_command(payload, "connect", 1);
    *to++ = AMF_OBJECT;
    to = put_string(put_text(to, "app"), application);
    to = put_string(put_text(to, "tcUrl"), "rtmp://127.0.0.1/live");
    to = put_be(to, AMF_OBJECT_END, 3);
    send_command(c, payload, to, 0);
    wait_for(c, "NetConnection.Connect.Success");
    to = put_command(payload, "createStream", 2);
    *to++ = AMF_NULL;
    send_command(c, payload, to, 0);
    wait_for(c, "_result");
    to = put_command(payload, publishes ? "publish" : "play", 3);
    *to++ = AMF_NULL;
    to = put_string(to, stream + 1);
    if (publishes)
        to = put_string(to, "live");
    send_command(c, payload, to, RTMP_MEDIA_STREAM);
    wait_for(c, publishes ? "NetStream.Publish.Start" : "NetStream.Play.Start");
    if (fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0)
        fail(EXIT_FAILURE, "fcntl: %s", strerror(errno));
}
