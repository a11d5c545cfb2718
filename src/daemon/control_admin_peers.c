#include "daemon/control_admin_peers.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "daemon/control_refusal.h"
#include "shared/clock.h"

enum {
    PEERS_MOST = 64,     /* connections; one more ends the one that has been waited for longest */
    REQUEST_MS = 10000,  /* for a request to come, from the answer before it, or the connection's begin */
    RESPONSE_MS = 60000, /* for an answer to be taken */
    SWEEP_MS = 500,
};

struct peer {
    struct admin_peers *peers;
    struct peer *next;
    struct bufferevent *connection; /* libevent's; valid while it is not gone */
    int fd;                         /* of it; -1: not known yet, and a reference to the connection is ours */
    ino_t socket;                   /* which one that is: the server closes it, and its number is another's then */
    bool asks;                      /* from when its request is there until the answer is sent */
    uint64_t since;                 /* what is waited for has been so since then */
};

struct admin_peers {
    struct event *sweep;
    struct peer *first; /* the newest */
};

/*
 * Whether the server has let go of it, which it does not tell. To keep a reference, so as to look, would keep its
 * events in the loop, too, where they would be taken for those of the next descriptor with that number.
 */
static bool is_gone(const struct peer *peer) {
    struct stat status;
    if (peer->fd >= 0)
        return fstat(peer->fd, &status) < 0 || status.st_ino != peer->socket;
    /* bufferevent_free() takes the callbacks away, of which a server always has this one. */
    bufferevent_event_cb on_event;
    bufferevent_getcb(peer->connection, NULL, NULL, &on_event, NULL);
    return !on_event;
}

/* The server has made it ready, before anything could come on it. */
static void note_socket(struct peer *peer) {
    struct stat status;
    int fd = is_gone(peer) ? -1 : bufferevent_getfd(peer->connection);
    if (fd < 0 || fstat(fd, &status) < 0)
        return;
    peer->fd = fd;
    peer->socket = status.st_ino;
    bufferevent_decref(peer->connection);
}

/* Not while it waits for us. */
static bool is_waited_for(const struct peer *peer) {
    return !peer->asks || evbuffer_get_length(bufferevent_get_output(peer->connection)) > 0;
}

/* As a time-out of libevent's own does. */
static void end(struct peer *peer) {
    bufferevent_trigger_event(peer->connection, BEV_EVENT_TIMEOUT | BEV_EVENT_READING, 0);
}

static void forget_gone(struct admin_peers *peers) {
    for (struct peer **at = &peers->first; *at;) {
        struct peer *peer = *at;
        if (!is_gone(peer)) {
            at = &peer->next;
            continue;
        }
        *at = peer->next;
        if (peer->fd < 0)
            bufferevent_decref(peer->connection);
        free(peer);
    }
}

/* Of all that are there, the one that has been waited for longest. Returns how many there are. */
static size_t find_slowest(const struct admin_peers *peers, struct peer **ret_slowest) {
    size_t count = 0;
    struct peer *slowest = NULL;
    for (struct peer *peer = peers->first; peer; peer = peer->next) {
        if (is_gone(peer))
            continue;
        count++;
        if (is_waited_for(peer) && (!slowest || peer->since <= slowest->since))
            slowest = peer;
    }
    *ret_slowest = slowest;
    return count;
}

static void on_sweep(evutil_socket_t fd, short what, void *user) {
    struct admin_peers *peers = user;
    struct peer *slowest;
    const uint64_t now = clock_ms();
    (void)fd;
    (void)what;
    /* The newest are first. */
    for (struct peer *peer = peers->first; peer && peer->fd < 0; peer = peer->next)
        note_socket(peer);
    for (struct peer *peer = peers->first; peer; peer = peer->next) {
        if (is_gone(peer))
            continue;
        if (!is_waited_for(peer))
            peer->since = now;
        else if (now - peer->since >= (peer->asks ? RESPONSE_MS : REQUEST_MS))
            end(peer);
    }
    while (find_slowest(peers, &slowest) > PEERS_MOST && slowest)
        end(slowest);
    forget_gone(peers);
}

/* For a connection that has been accepted. Without memory it is one of libevent's own, with its time-outs alone. */
static struct bufferevent *on_connection(struct event_base *base, void *user) {
    struct admin_peers *peers = user;
    struct peer *peer = calloc(1, sizeof *peer);
    struct bufferevent *connection = peer ? refusal_bufferevent(base) : NULL;
    if (!connection) {
        free(peer);
        return NULL;
    }
    bufferevent_incref(connection);
    *peer = (struct peer){
        .peers = peers, .next = peers->first, .connection = connection, .fd = -1, .since = clock_ms()};
    peers->first = peer;
    /* When the server has made it ready. */
    event_active(peers->sweep, 0, 0);
    return connection;
}

int admin_peers_new(struct event_base *base, struct admin_peers **ret_peers) {
    static const struct timeval pause = {.tv_usec = SWEEP_MS * 1000};
    struct admin_peers *peers = calloc(1, sizeof *peers);
    if (!peers)
        return -ENOMEM;
    peers->sweep = event_new(base, -1, EV_PERSIST, on_sweep, peers);
    if (!peers->sweep || event_add(peers->sweep, &pause) < 0) {
        admin_peers_free(peers);
        return -ENOMEM;
    }
    *ret_peers = peers;
    return 0;
}

void admin_peers_free(struct admin_peers *peers) {
    if (!peers)
        return;
    forget_gone(peers);
    if (peers->sweep)
        event_free(peers->sweep);
    free(peers);
}

void admin_peers_watch(struct admin_peers *peers, struct evhttp *http) {
    evhttp_set_bevcb(http, on_connection, peers);
}

/* The next one may come. */
static void on_answered(struct evhttp_request *request, void *user) {
    struct peer *peer = user;
    (void)request;
    peer->asks = false;
    peer->since = clock_ms();
}

void admin_peers_asked(struct admin_peers *peers, struct evhttp_request *request) {
    const struct bufferevent *connection = evhttp_connection_get_bufferevent(evhttp_request_get_connection(request));
    for (struct peer *peer = peers->first; peer; peer = peer->next) {
        if (peer->connection != connection || is_gone(peer))
            continue;
        peer->asks = true;
        evhttp_request_set_on_complete_cb(request, on_answered, peer);
        return;
    }
}
