#include "rtsp/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/process.h"
#include "rtsp/secure.h"

enum { STEPS = 4, MOST_REQUEST = 4096 };

static uint16_t server;
static const char *sdp; /* NULL: players */
static rtsp_ready_fn *when_ready;

enum protocol read_protocol(const char *name) {
    static const char *const names[] = {
        [PROTOCOL_NONE] = "", [PROTOCOL_RTSP] = "rtsp", [PROTOCOL_RTMP] = "rtmp", [PROTOCOL_FLV] = "flv"};
    for (enum protocol protocol = PROTOCOL_RTSP; protocol <= PROTOCOL_FLV; protocol++)
        if (strcmp(name, names[protocol]) == 0)
            return protocol;
    return PROTOCOL_NONE;
}

static void ask(void *client) {
    rtsp_client *c = client;
    static const char *const methods[2][STEPS] = {{"DESCRIBE", "SETUP", "SETUP", "PLAY"},
                                                  {"ANNOUNCE", "SETUP", "SETUP", "RECORD"}};
    char request[MOST_REQUEST], track[32] = "", more[256] = "";
    const char *body = "";
    if (c->step == 0 && sdp) {
        snprintf(more, sizeof more, "Content-Type: application/sdp\r\nContent-Length: %zu\r\n", strlen(sdp));
        body = sdp;
    } else if (c->step == 1 || c->step == 2) {
        snprintf(track, sizeof track, "/%s=%u", sdp ? "streamid" : "trackID", c->step - 1);
        snprintf(more, sizeof more, "Transport: RTP/AVP/TCP;unicast;interleaved=%u-%u%s\r\n", 2 * c->step - 2,
                 2 * c->step - 1, sdp ? ";mode=record" : "");
    }
    int size = snprintf(request, sizeof request, "%s rtsp://127.0.0.1:%u/%s%s RTSP/1.0\r\nCSeq: %u\r\n%s%s%s%s\r\n%s",
                        methods[sdp != NULL][c->step], server, c->opening.name, track, c->step + 1,
                        *c->session ? "Session: " : "", c->session, *c->session ? "\r\n" : "", more, body);
    if (size >= (int)sizeof request || secure_send(c->opening.fd, request, (size_t)size, 0) != size)
        fail(EXIT_FAILURE, "asking for %s: %s", c->opening.name, strerror(errno));
}

/* The value of a header in a reply's head, which a NUL ends; NULL without. */
static const char *find(const char *head, const char *name) {
    const char *line = strcasestr(head, name);
    return line ? line + strlen(name) : NULL;
}

static void note_session(rtsp_client *c, const char *head) {
    const char *value = find(head, "\r\nSession: ");
    size_t length = value ? strcspn(value, ";\r") : 0;
    if (length >= sizeof c->session)
        fail(EXIT_FAILURE, "a session id that is too long");
    if (length > 0)
        memcpy(c->session, value, length);
}

/* Takes the reply, if it is there: whether it was. */
static bool take_reply(rtsp_client *c) {
    char *end = memmem(c->in, c->have, "\r\n\r\n", 4);
    if (!end)
        return false;
    *end = '\0';
    const char *length = find(c->in, "\r\nContent-Length: ");
    size_t size = (size_t)(end + 4 - c->in) + (length ? strtoul(length, NULL, 10) : 0);
    if (size > sizeof c->in || strncmp(c->in, "RTSP/1.0 200 ", 13) != 0)
        fail(EXIT_FAILURE, "request %u for %s: %s", c->step + 1, c->opening.name, c->in);
    if (c->have < size) {
        *end = '\r';
        return false;
    }
    note_session(c, c->in);
    c->have -= size;
    memmove(c->in, c->in + size, c->have);
    c->step++;
    return true;
}

static bool read_on(void *client) {
    rtsp_client *c = client;
    ssize_t n = secure_recv(c->opening.fd, c->in + c->have, sizeof c->in - c->have, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0)
        fail(EXIT_FAILURE, "%s: ended before there was media: %s", c->opening.name, n < 0 ? strerror(errno) : "");
    c->have += (size_t)n;
    if (take_reply(c) && c->step < STEPS)
        ask(c);
    return c->step == STEPS;
}

static void be_ready(void *client) {
    when_ready(client);
}

void rtsp_start(const opening *wanted, const char *description, rtsp_ready_fn *ready) {
    static const opening_dialog dialog = {
        .size = sizeof(rtsp_client), .begin = ask, .go_on = read_on, .ready = be_ready};
    server = wanted->port;
    sdp = description;
    when_ready = ready;
    open_all(wanted, &dialog);
}
