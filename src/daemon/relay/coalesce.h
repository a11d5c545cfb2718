/*
 * The merge window: packets for a player are collected for a time and sent together. The cost of a
 * send in the kernel hardly depends on its size.
 *
 * Players of one stream with the same window are sent to together: they get the same packets, so
 * one timer, which starts with the first packet, serves all of them. Until the window is over the
 * group keeps the packets: then each player gets all of them at once, while its queue is in the
 * processor's cache, and is sent to. Whatever changes what a member would be given (it starts or
 * ends, headers change, frames are lost) has them given before: coalesce_deliver(). A key frame
 * that a member waits for is not kept.
 *
 * The automatic window (auto_window.h) is read when the timer starts. A window ends early, with the
 * last frame that it can gather: when, by the cadence of the stream's tracks (cadence.h), none is
 * expected before its end. So a stream whose frames are further apart than the window, as audio
 * alone is, does not wait. While an automatic window is open, the members' sockets have Nagle's
 * algorithm on: a player that has not acknowledged the last send gets the next one behind it.
 *
 * More players than COALESCE_MEMBERS are several groups, whose windows end one after the other: the
 * last of thousands would have to wait for the sends to all others at each window's end.
 */
#ifndef SLUICED_COALESCE_H
#define SLUICED_COALESCE_H

#include <stdint.h>

#include <sluice/loop.h>

#include "daemon/base/cadence.h"
#include "daemon/relay/auto_window.h"
#include "daemon/relay/packet.h"
#include "daemon/relay/player.h"

enum {
    COALESCE_WINDOW_MOST = 350,   /* milliseconds */
    COALESCE_WINDOW_AUTO = 65534, /* in place of milliseconds: as the worker's load requires */
    COALESCE_MEMBERS = 256,       /* of a group, at most */
};

/* What a worker's groups share. */
struct coalesce_site {
    struct auto_window automatic;
    /* of all groups, for each player: frames that have waited, and how long */
    uint64_t waited, waited_ms;
};

struct coalesce_group {
    struct coalesce_group *next; /* of its stream */
    struct player *members;      /* by next_member */
    uint32_t member_count;
    uint32_t window_ms;   /* or COALESCE_WINDOW_AUTO */
    uint32_t place;       /* a number of its own among the groups of this window */
    bool is_spread;       /* there are, or were, others: its windows end when theirs do not */
    bool is_open;         /* the next packet is sent at once: no window is wanted, or none gains */
    bool is_delayed;      /* members' sockets gather, too: while there is an automatic window */
    sluice_timer *timer;  /* runs while something is gathered */
    struct packet **kept; /* a reference each: packets that the members are still to get */
    size_t kept_count, kept_capacity;
    bool has_video; /* the stream, when those came */
    uint64_t bytes; /* of packets since the last flush */
    uint64_t most;  /* more bytes than these do not wait */
    struct coalesce_site *site;
    sluice_loop *loop;
    uint64_t packets, came_ms; /* gathered for each member, and the sum of their times */
    /* of what is gathered: loop time of the first packet, and the window that it found */
    uint64_t began;
    uint32_t window_now_ms;
    bool is_whole;               /* it is not ended early */
    struct cadence video, audio; /* of the stream's frames */
};

/* The window that holds for a player now, and the longest that may. @window_ms: of a player */
uint32_t coalesce_window_now(const struct coalesce_site *site, uint32_t window_ms);
uint32_t coalesce_window_most(const struct coalesce_site *site, uint32_t window_ms);

/*
 * Finds or makes a group for the player's window in a stream's @groups, and enters the player;
 * without a window, or without memory for it, the player stays alone and is sent to at once.
 * @site: the worker's
 */
void coalesce_join(struct coalesce_group **groups, struct coalesce_site *site, sluice_loop *loop,
                   struct player *player);

/* The last one to leave frees the group. */
void coalesce_leave(struct coalesce_group **groups, struct player *player);

/* A packet comes for the members: decides whether it waits. @now: loop time */
void coalesce_begin(struct coalesce_group *merge, uint64_t now);

/* Queues it for them, or keeps it until the window is over. */
void coalesce_push(struct coalesce_group *merge, struct packet *packet, bool has_video);

/* It has been pushed, and has so many bytes on the wire. */
void coalesce_add(struct coalesce_group *merge, const struct packet *packet, uint64_t bytes, uint64_t now);

/* The members get what is kept for them. It is not due before the window is over. NULL: nobody */
void coalesce_deliver(struct coalesce_group *merge);

/* They get it, and it is due now. */
void coalesce_flush(struct coalesce_group *merge, uint64_t now);

#endif
