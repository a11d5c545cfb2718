/*
 * A player: one connection to a server that sends a stream, by HTTP-FLV, RTSP or RTMP; it
 * delivers FLV tags.
 */
#ifndef TOOLS_PLAY_H
#define TOOLS_PLAY_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/chain.h>
#include <sluice/conn.h>
#include <sluice/flv.h>

#include "tools/target.h"

struct play;

struct play_events {
    /* The server has agreed: media follow. */
    void (*begun)(void *user);
    /* The payload may be kept. */
    void (*tag)(sluice_flv_tag *tag, void *user);
    /*
     * Where it is not NULL, HTTP gives the bytes of the FLV stream instead of tags, for a user that
     * looks at them itself and consumes what it has seen.
     */
    void (*body)(sluice_chain *body, void *user);
    /* The last call; the player goes by itself. @error is 0 when the end was asked for, or the
     * server's own. */
    void (*ended)(int error, const char *reason, void *user);
};

struct play_counts {
    uint64_t bytes;              /* received, with framing */
    uint64_t packets, lost;      /* RTP */
    uint64_t malformed, dropped; /* RTP */
};

/*
 * @conn: to the target; the player's, or on failure still the caller's. @timeout_ms: what nothing
 * may come for. 0, -ENOMEM, -EMSGSIZE
 */
int play_new(sluice_conn *conn, const struct target *target, uint32_t timeout_ms, const struct play_events *events,
             void *user, struct play **ret_play);

/* Ends it, by RTSP with a TEARDOWN: ended() follows, from in here or later. */
void play_stop(struct play *play);

/* Reads nothing more: a player that is stalled. */
void play_stall(struct play *play);

/* To be called each second. */
void play_tick(struct play *play, uint64_t now);

void play_get_counts(const struct play *play, struct play_counts *ret_counts);

/* The rest is between play.c and the kinds of players. */
struct play_type {
    int (*create)(sluice_conn *conn, const struct target *target, uint32_t timeout_ms, struct play **ret_play);
    void (*stop)(struct play *play);
    void (*stall)(struct play *play);
    void (*tick)(struct play *play, uint64_t now);
    void (*get_counts)(const struct play *play, struct play_counts *ret_counts);
};

struct play {
    const struct play_type *type;
    const struct play_events *events;
    void *user;
    bool ended;
};

extern const struct play_type play_http, play_rtsp, play_rtmp;

/* Tells the end once. */
void play_ended(struct play *play, int error, const char *reason);

#endif
