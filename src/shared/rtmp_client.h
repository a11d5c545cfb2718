/*
 * A client of RTMP: from the handshake to media, as a publisher or a player. It has no sockets: its
 * user gives it what has been received, as a chain, and a writer for what is to be sent, and closes
 * the connection when it says so. The loop's thread only.
 *
 * A user makes one for each connection, calls rtmp_client_feed() when bytes have come, waits
 * meanwhile for rtmp_client_need() bytes, and calls rtmp_client_check() about once a second. It
 * ends when one of the two returns an error: rtmp_client_reason() then says why. -ERESTART is a
 * server that wants a login: the user closes the connection and makes another client on a new one,
 * with the same struct rtmp_login, which has got the next answer. That happens twice at most.
 *
 * A publisher may send by rtmp_client_send() from the running event on. A player's media come as
 * tags; their payloads are slices of what was received.
 *
 * What a server can make it hold: messages under way, up to twice the longest one, the last
 * message, and replies to its pings in the writer. A server has RTMP_CLIENT_STEP_MS for each step
 * before media; how long media may be silent is up to the user.
 */
#ifndef SHARED_RTMP_CLIENT_H
#define SHARED_RTMP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/chain.h>
#include <sluice/flv.h>
#include <sluice/rtmp.h>
#include <sluice/writer.h>

#include "shared/rtmp_login.h"
#include "shared/rtmp_url.h"

enum {
    RTMP_CLIENT_STEP_MS = 10000, /* that the server has for each step */
    RTMP_CLIENT_REASON = 128,
    /*
     * Room in the writer that media leave free, for replies: the writer's limit has to be larger
     * than this and the longest frame together.
     */
    RTMP_CLIENT_RESERVE = 16384,
    /*
     * Chunk size that a publisher announces: a longer frame has a header for each part. nginx
     * allocates buffers of this size.
     */
    RTMP_CLIENT_CHUNK = 1 << 20,
    RTMP_CLIENT_COMMAND = 16, /* messages that a command costs as much as */
};

enum rtmp_client_mode { RTMP_CLIENT_PLAY, RTMP_CLIENT_PUBLISH };

enum rtmp_client_state {
    RTMP_CLIENT_SHAKING,    /* the handshake has begun; set by rtmp_client_new() */
    RTMP_CLIENT_CONNECTING, /* connect is sent; set when the handshake is complete (shake) */
    /* createStream is sent; set when connect has been accepted (on_connected) */
    RTMP_CLIENT_CREATING,
    /* publish or play is sent; set when there is a message stream (on_created) */
    RTMP_CLIENT_STARTING,
    /* media may be sent, or come; set when the server says so, or by the first media (run) */
    RTMP_CLIENT_RUNNING,
    RTMP_CLIENT_FINISHING, /* the end is queued; set by rtmp_client_finish() */
    RTMP_CLIENT_ENDED,     /* every call returns the same error; set by any failure (fail) */
};

/* What becomes of a tag. */
enum {
    RTMP_CLIENT_GO_ON, /* it is done with */
    RTMP_CLIENT_REST,  /* likewise; what is behind it is left to another rtmp_client_feed() */
    RTMP_CLIENT_AGAIN, /* the next rtmp_client_feed() gives it once more */
};

struct rtmp_client;

struct rtmp_client_events {
    /* The server has agreed. The user may send, finish, or just wait. */
    void (*running)(void *user);
    /*
     * A player's audio, video or data, as a tag of FLV. Its payload may be taken by
     * sluice_slice_take(), and is released otherwise. RTMP_CLIENT_...; or a negative errno, which
     * ends the client. It must not free the client.
     */
    int (*tag)(sluice_flv_tag *tag, void *user);
};

struct rtmp_client_options {
    enum rtmp_client_mode mode;
    const struct rtmp_url *url; /* copied */
    struct rtmp_login *login;   /* the user's, which outlives the client */
    sluice_writer *writer;      /* likewise; the client queues all that it sends */
    uint32_t max_message;       /* longest one that a player takes; 0: the library's default */
    const struct rtmp_client_events *events;
    void *user;
    uint64_t now; /* milliseconds, of the clock of the other calls */
};

/* Makes a client for a new connection, and queues the beginning of the handshake. 0, -ENOMEM, -EIO
 * (no random bytes), -EINVAL, or an error of the writer */
int rtmp_client_new(const struct rtmp_client_options *options, struct rtmp_client **ret_client);

/* NULL is allowed. What is queued in the writer stays there. */
void rtmp_client_free(struct rtmp_client *client);

/*
 * Goes on with what has been received. 0: more bytes are needed. 1: there may be more to do at
 * once, as after each few dozen messages that are no tags; in a later turn, where others wait. Or
 * for good: -ERESTART (see above), -ECONNREFUSED (the server refuses), -ENOENT (it has no such
 * stream), -EACCES (the login is wrong), -ENOKEY (a login is wanted, and there is none), -ENODATA
 * (the server has ended the stream), -EPROTO, -EMSGSIZE, -EOPNOTSUPP, -EPROTONOSUPPORT, -ENOBUFS
 * (the pool is short, or the server asks for replies and reads none), -ENOMEM, -EIO, or the error
 * of the tag event
 */
int rtmp_client_feed(struct rtmp_client *client, sluice_chain *chain, uint64_t now);

/* What the last rtmp_client_feed() has handled besides tags, in messages: for a user with a
 * budget. */
uint32_t rtmp_client_work(const struct rtmp_client *client);

/* Bytes that the chain must hold before rtmp_client_feed() can go on; at least 1. */
size_t rtmp_client_need(const struct rtmp_client *client);

/* 0, -ETIMEDOUT (the server has not answered for RTMP_CLIENT_STEP_MS), or the error that ended
 * it. */
int rtmp_client_check(struct rtmp_client *client, uint64_t now);

/*
 * Queues a frame: the payload of a tag, by reference. A script gets the "@setDataFrame" that
 * servers keep it by. 0, -EAGAIN (no room now, or the server has not agreed yet), -EMSGSIZE (too
 * long for the writer), or an error that ends it: -EPIPE, -ENOMEM
 */
int rtmp_client_send(struct rtmp_client *client, sluice_flv_type type, uint32_t timestamp, const sluice_slice *payload);

/* Queues the end of the stream. The user closes the connection when the writer is empty. 0, or why
 * there is nothing to wait for. */
int rtmp_client_finish(struct rtmp_client *client);

enum rtmp_client_state rtmp_client_get_state(const struct rtmp_client *client);

/* The message stream that the server has given it; 0 before. */
uint32_t rtmp_client_stream(const struct rtmp_client *client);

/* What the server has announced in its answer to connect: RTMP_CAN_..., RTMP_IS_ENHANCED of
 * rtmp_peer.h; 0 before. */
unsigned rtmp_client_capabilities(const struct rtmp_client *client);

/* The step that it waits for: "handshake", "connect", "createStream", "publish", "play"; static. */
const char *rtmp_client_step(const struct rtmp_client *client);

/* Why it ended, in a few words: a constant phrase, with the server's code behind a colon where it
 * gave one. Empty before. No text of the URL or the login is in it. */
const char *rtmp_client_reason(const struct rtmp_client *client);

/* Bytes of the pool that messages under way keep in use. */
size_t rtmp_client_footprint(const struct rtmp_client *client);

#endif
