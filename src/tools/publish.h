/*
 * A publisher: one connection that sends the tags of a file, as raw FLV, by HTTP (POST, chunked),
 * by RTSP or by RTMP.
 */
#ifndef TOOLS_PUBLISH_H
#define TOOLS_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/conn.h>

#include "tools/media.h"
#include "tools/target.h"

enum {
    /* most bytes that wait to be taken by the kernel; a tag may be larger */
    PUBLISH_QUEUE = 4 << 20,
    PUBLISH_ANSWER_MS = 10000, /* for a server to answer */
};

struct publish;

struct publish_events {
    /* The server has agreed: tags may be sent. */
    void (*ready)(void *user);
    /* The kernel has taken something. */
    void (*room)(void *user);
    /* The last call; the publisher goes by itself. @error is 0 when the server has taken all to the
     * end. */
    void (*ended)(int error, const char *reason, void *user);
};

/*
 * @conn: to the target; the publisher's, or on failure still the caller's. @ret_ready: whether tags
 * may be sent at once: raw FLV and HTTP do not wait to be asked. 0, -ENOMEM, -EMSGSIZE, -EOPNOTSUPP
 * (RTSP cannot carry the media)
 */
int publish_new(sluice_conn *conn, const struct target *target, const struct media *media,
                const struct publish_events *events, void *user, struct publish **ret_publish, bool *ret_ready);

/* 0, -EAGAIN (no room now: see room()), or the error of the connection, which ended() reports. */
int publish_tag(struct publish *publish, const struct media_tag *tag, uint32_t timestamp);

/* Sends what is queued, and the end: ended() follows. */
void publish_finish(struct publish *publish);

/* Ends it at once: ended() is called from in here. */
void publish_abort(struct publish *publish);

/* To be called each second. */
void publish_tick(struct publish *publish, uint64_t now);

/* Bytes that the kernel has taken. */
uint64_t publish_bytes(const struct publish *publish);

/* The rest is between publish.c and the kinds of publishers. */
struct publish_type {
    int (*create)(sluice_conn *conn, const struct target *target, const struct media *media,
                  struct publish **ret_publish, bool *ret_ready);
    int (*tag)(struct publish *publish, const struct media_tag *tag, uint32_t timestamp);
    void (*finish)(struct publish *publish);
    void (*abort)(struct publish *publish);
    void (*tick)(struct publish *publish, uint64_t now);
    uint64_t (*bytes)(const struct publish *publish);
};

struct publish {
    const struct publish_type *type;
    const struct publish_events *events;
    void *user;
    bool ended;
};

extern const struct publish_type publish_flv, publish_rtsp, publish_rtmp;

/* Tells the end once. */
void publish_ended(struct publish *publish, int error, const char *reason);

#endif
