#include "rtsp/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/process.h"
#include "rtsp/secure.h"

enum { EVENTS = 256, STEPS = 4, MOST_REQUEST = 4096 };

static uint16_t server;
static const char *sdp; /* NULL: players */

enum protocol read_protocol(const char *name) {
    static const char *const names[] = {
        [PROTOCOL_NONE] = "", [PROTOCOL_RTSP] = "rtsp", [PROTOCOL_RTMP] = "rtmp", [PROTOCOL_FLV] = "flv"};
    for (enum protocol protocol = PROTOCOL_RTSP; protocol <= PROTOCOL_FLV; protocol++)
        if (strcmp(name, names[protocol]) == 0)
            return protocol;
    return PROTOCOL_NONE;
}

int connect_to(uint16_t port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    const int on = 1;
    const struct linger at_once = {.l_onoff = 1};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) < 0)
        fail(EXIT_FAILURE, "connecting: %s", strerror(errno));
    secure_start(fd);
    return fd;
}

static void ask(rtsp_client *c) {
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
                        methods[sdp != NULL][c->step], server, c->name, track, c->step + 1,
                        *c->session ? "Session: " : "", c->session, *c->session ? "\r\n" : "", more, body);
    if (size >= (int)sizeof request || secure_send(c->fd, request, (size_t)size, 0) != size)
        fail(EXIT_FAILURE, "asking for %s: %s", c->name, strerror(errno));
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
        fail(EXIT_FAILURE, "request %u for %s: %s", c->step + 1, c->name, c->in);
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

static void read_on(rtsp_client *c) {
    ssize_t n = secure_recv(c->fd, c->in + c->have, sizeof c->in - c->have, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        fail(EXIT_FAILURE, "%s: ended before there was media: %s", c->name, n < 0 ? strerror(errno) : "");
    c->have += (size_t)n;
    if (take_reply(c) && c->step < STEPS)
        ask(c);
}

void rtsp_clients_start(rtsp_client *clients, uint32_t count, uint16_t port, const char *description) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    server = port;
    sdp = description;
    for (uint32_t i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[i]};
        clients[i].fd = connect_to(port);
        if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].fd, &event) < 0)
            fail(EXIT_FAILURE, "epoll: %s", strerror(errno));
        ask(&clients[i]);
    }
    for (uint32_t left = count; left > 0;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            rtsp_client *c = events[i].data.ptr;
            read_on(c);
            if (c->step < STEPS)
                continue;
            left--;
            if (epoll_ctl(epoll, EPOLL_CTL_DEL, c->fd, NULL) < 0 || fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0)
                fail(EXIT_FAILURE, "epoll: %s", strerror(errno));
        }
    }
    close(epoll);
}
