#include "rtsp/opening.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/process.h"
#include "rtsp/secure.h"
#include "rtsp/tcp_table.h"

enum { EVENTS = 256, PATIENCE_MS = 10000 };

enum state {
    STATE_CONNECTING, /* start(): until the socket can be written */
    STATE_SHAKING,    /* connected(): the handshake of TLS */
    STATE_TALKING,    /* shake_hands(): the dialog, until go_on() says that it is over */
};

/* Place of a connection that is not ready. */
typedef struct slot {
    enum state state;
    uint32_t waits_for; /* events of epoll */
    opening_client *client;
} slot;

typedef struct work {
    const opening *wanted;
    const opening_dialog *dialog;
    int epoll;
    uint32_t started, ready;
    slot *slots;
    slot **unused;
    uint32_t unused_count;
} work;

static void watch(const work *w, slot *s, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = s};
    if (s->waits_for == events)
        return;
    int operation = s->waits_for == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(w->epoll, events == 0 ? EPOLL_CTL_DEL : operation, s->client->fd, &event) < 0)
        fail(EXIT_FAILURE, "epoll: %s", strerror(errno));
    s->waits_for = events;
}

static void be_ready(work *w, slot *s) {
    watch(w, s, 0);
    w->dialog->ready(s->client);
    w->ready++;
    w->unused[w->unused_count++] = s;
}

static void talk(work *w, slot *s) {
    s->state = STATE_TALKING;
    w->dialog->begin(s->client);
    if (w->dialog->go_on)
        watch(w, s, EPOLLIN);
    else
        be_ready(w, s);
}

static void shake_hands(work *w, slot *s) {
    short events = secure_shake(s->client->fd);
    if (events == 0)
        talk(w, s);
    else
        watch(w, s, events == POLLIN ? EPOLLIN : EPOLLOUT);
}

_Noreturn static void not_connected(const slot *s, int error) {
    fail(EXIT_FAILURE, "connection %u, %s: connecting: %s", s->client->index, s->client->name, strerror(error));
}

static void connected(work *w, slot *s) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(s->client->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error != 0)
        not_connected(s, error != 0 ? error : errno);
    s->state = STATE_SHAKING;
    secure_start(s->client->fd);
    shake_hands(w, s);
}

/*
 * Where the machine's congestion control paces (BBR), each socket with something left to send has a
 * timer, and on loopback it runs wherever the acknowledgement is made: on the server's processor.
 * That of a publisher elsewhere does not.
 */
static const char unpaced[] = "reno";

/* A socket that leaves no states behind. */
static void start(work *w) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(w->wanted->port)};
    const int on = 1;
    const struct linger at_once = {.l_onoff = 1};
    slot *s = w->unused[--w->unused_count];
    memset(s->client, 0, w->dialog->size);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *s->client = (opening_client){.index = w->started, .fd = fd, .name = w->wanted->name(w->started)};
    w->started++;
    s->state = STATE_CONNECTING;
    s->waits_for = 0;
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof unpaced - 1) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) < 0 ||
        (connect(fd, (struct sockaddr *)&address, sizeof address) < 0 && errno != EINPROGRESS))
        not_connected(s, errno);
    watch(w, s, EPOLLOUT);
}

/* Connections that the server has not accepted. */
static unsigned not_accepted(uint16_t port) {
    unsigned found = 0;
    FILE *table = tcp_table_open();
    for (tcp_row row; tcp_table_next(table, &row) && row.listens;)
        if (row.own_port == port)
            found = row.unread;
    fclose(table);
    return found;
}

static void wait_until_accepted(const work *w) {
    for (int ms = 0; not_accepted(w->wanted->port) > 0; ms++) {
        if (ms == PATIENCE_MS)
            fail(EXIT_FAILURE, "%u of %u connections are made, and for 10 s the server has not accepted them", w->ready,
                 w->wanted->count);
        poll(NULL, 0, 1);
    }
}

/* As many as may be under way. Where nothing is answered, those before have to be accepted
 * first. */
static void start_more(work *w) {
    bool answers = w->dialog->go_on != NULL;
    if (!answers && w->unused_count == w->wanted->at_once)
        wait_until_accepted(w);
    else if (!answers)
        return;
    while (w->started < w->wanted->count && w->unused_count > 0)
        start(w);
}

/* None has made a step: of those that are under way one has begun first. */
_Noreturn static void give_up(const work *w) {
    static const char *const what[] = {[STATE_CONNECTING] = "to be accepted",
                                       [STATE_SHAKING] = "for the handshake",
                                       [STATE_TALKING] = "for an answer"};
    const slot *first = NULL;
    for (uint32_t i = 0; i < w->wanted->at_once; i++)
        if (w->slots[i].waits_for != 0 && (!first || w->slots[i].client->index < first->client->index))
            first = &w->slots[i];
    fail(EXIT_FAILURE, "%u of %u connections are ready, and for 10 s there was no answer: connection %u, %s, waits %s",
         w->ready, w->wanted->count, first->client->index, first->client->name, what[first->state]);
}

static void make_slots(work *w) {
    uint32_t count = w->wanted->at_once;
    w->slots = calloc(count, sizeof *w->slots);
    w->unused = calloc(count, sizeof(slot *));
    uint8_t *clients = calloc(count, w->dialog->size);
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!w->slots || !w->unused || !clients || w->epoll < 0)
        fail(EXIT_FAILURE, "%s", strerror(errno));
    for (uint32_t i = 0; i < count; i++) {
        w->slots[i].client = (opening_client *)(clients + i * w->dialog->size);
        w->unused[w->unused_count++] = &w->slots[i];
    }
}

void open_all(const opening *wanted, const opening_dialog *dialog) {
    struct epoll_event events[EVENTS];
    work w = {.wanted = wanted, .dialog = dialog};
    make_slots(&w);
    opening_client *clients = w.slots[0].client;
    while (w.ready < wanted->count) {
        start_more(&w);
        int count = epoll_wait(w.epoll, events, EVENTS, PATIENCE_MS);
        if (count == 0)
            give_up(&w);
        for (int i = 0; i < count; i++) {
            slot *s = events[i].data.ptr;
            if (s->state == STATE_CONNECTING)
                connected(&w, s);
            else if (s->state == STATE_SHAKING)
                shake_hands(&w, s);
            else if (dialog->go_on(s->client))
                be_ready(&w, s);
        }
    }
    close(w.epoll);
    free(clients);
    free(w.slots);
    free(w.unused);
}
