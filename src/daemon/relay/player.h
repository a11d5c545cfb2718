/*
 * One player of a stream: the queue of packets to be sent to it, bounded in bytes. The queue holds
 * references; a queued packet costs memory only if nothing else holds the same blocks.
 *
 * A player that exceeds its bound loses the queued packets and continues at the next key frame. If
 * the next packet has waited too long, the player skips to the newest queued key frame, so that its
 * delay does not stay high. A partly sent packet, and packets that the kernel holds, are never
 * dropped: a player always receives whole tags. The kernel holds no packet of a player with a full
 * socket, so such a player costs only the partly sent packet. With TLS, what has been encrypted has
 * left the queue, and counts to the bound until the kernel has taken it.
 *
 * With a merge window (coalesce.h), packets come to the queue together, when the window is over.
 * Those that come earlier wait in the queue until they are due; each send takes all queued packets.
 */
#ifndef SLUICED_PLAYER_H
#define SLUICED_PLAYER_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/conn.h>

#include "daemon/relay/gop.h"
#include "daemon/relay/wire_format.h"

enum { PLAYER_PREAMBLE = 384 };

struct coalesce_group;

enum player_state {
    /* waits for the stream's tracks; set at the start of a player that needs to know them */
    PLAYER_ASKING,
    PLAYER_PAUSED,  /* wants nothing; set by player_pause(), and by a session before it plays */
    PLAYER_WAITING, /* for the stream's first frame; set at the start */
    PLAYER_PLAYING, /* set by the stream when it starts or catches up */
    /* waits for a key frame; set when there is none to start with, and on overflow */
    PLAYER_BEHIND,
    PLAYER_ENDING, /* sends what is queued and its end; set by player_end() */
};

struct player;

/* Writes the bytes before the first tag, once the stream's tracks are known. Bytes, at most
 * PLAYER_PREAMBLE. */
typedef size_t player_begin_fn(struct player *player, uint8_t flags, uint8_t *buffer);

struct player {
    uint64_t id;

    struct stream *stream;
    struct player *next, *prev; /* in the stream's list */
    sluice_conn *conn;
    const char *protocol; /* as logs and the API name it */
    void *user;
    /*
     * Of a node that fetches the stream: that node and those behind it, "A,B"; its user's. It ends
     * with the publisher that it was started with. NULL: another player
     */
    const char *nodes;
    /* for which packets are gathered; 0: they leave at once; or COALESCE_WINDOW_AUTO */
    uint32_t merge_window_ms;
    struct coalesce_group *merge; /* players that are sent to together; or NULL */
    struct player *next_member;   /* of these */

    /* NULL if there are no bytes before the first tag. */
    player_begin_fn *begin;

    /* Encrypted bytes that wait for the kernel; its user's. NULL: there are never any. */
    size_t (*encrypted)(const struct player *player);

    /* In PLAYER_ASKING: the stream's tracks are known. */
    void (*known)(struct player *player);

    enum player_state state;
    struct packet_form form;
    bool alone;           /* FLV: is sent the main tracks alone, as tags that name no track */
    bool is_delayed;      /* the socket gathers what its peer has not acknowledged (coalesce.h) */
    bool begun;           /* the preamble is queued or sent */
    uint32_t description; /* RTP: of the stream's tracks, as the player's user knows them */
    bool opened;          /* the headers have been queued once */
    /* bits of the video tracks of which frames are held back until a key frame */
    uint32_t needs_key;
    /* the decoder's headers must be sent before the next frame, where they are not known */
    bool needs_header;

    /* Versions of the headers that are queued or have been sent last, by their places; 0: none is
     * known to be. */
    uint32_t told[TRACKS_HEADERS];

    struct packet **queue;       /* a ring of a power of two */
    struct packet_pool *packets; /* to which that is charged; the packets' */
    size_t capacity, first, count;
    uint32_t peak;  /* most that were queued since it was empty */
    uint32_t spare; /* how often in a row it became empty and most slots had not been used */
    /* packets at the front that are to be sent now; the others wait for their window's end */
    size_t due;
    size_t gathered;      /* packets at the front that the kernel may be reading */
    size_t sent_of_first; /* bytes of the front packet that have been sent */
    /* packets from the last one on that decoding can begin with; 0: none is queued */
    size_t since_sync;
    uint64_t queued_bytes; /* payload */
    uint64_t limit;
    /* what has waited for longer is skipped where there is a newer key frame; 0: nothing is */
    uint32_t catch_up_ms;
    /* loop time at which it was last started; what was cached is queued since then */
    uint64_t started_at;
    /* loop time since which it has not been sent all that it was to get; 0: never yet */
    uint64_t behind_since;
    /* loop time at which it went on behind what it has lost by being slow; 0: never */
    uint64_t lost_at;

    uint8_t *preamble; /* lies behind the player; NULL without begin() */
    size_t preamble_size, preamble_sent;
    /* behind the last packet, once there was a preamble; its user's, set by begin() */
    const void *tail;
    size_t tail_size, tail_sent;

    uint64_t bytes_sent; /* on the wire */
    uint64_t packets_sent;
    uint64_t sends;                /* by which the kernel took bytes */
    uint64_t dropped[DROP_CAUSES]; /* packets */
    uint64_t since;                /* loop time at which it came to the stream */
    uint64_t progress_at;          /* loop time of the last byte taken, or of nothing to send */
    bool told_slow;                /* the log has it */
};

/*
 * Of a connection, whose session sets the rest. Room for what @begin writes comes with it, so that
 * a start needs no memory. @begin: may be NULL. NULL: no memory. free() after player_clear()
 */
struct player *player_new(player_begin_fn *begin);

/* Queues one packet, as the player's state allows. Called by the stream, in order. */
void player_push(struct player *player, struct packet *packet, const struct stream_headers *headers, bool has_video);

/* Counts a frame that is left out behind a loss, where the player waits for a key frame and is sent
 * frames of that kind. @is_main: of the main track */
void player_miss(struct player *player, sluice_flv_type type, bool is_main);

/*
 * Starts a player with what the stream has cached, or waits for its next key frame where it has
 * video. @now: loop time
 */
void player_start(struct player *player, uint64_t now, uint8_t flags, const struct gop *gop,
                  const struct stream_headers *headers, bool has_video);

/* What is queued is due now. */
void player_flush(struct player *player);

/* Payload of the largest packet that is queued; may be 0 where all are of at most @least bytes. */
uint32_t player_largest(const struct player *player, uint32_t least);

/* Packets that are queued and not being sent: those that would be taken back. */
size_t player_spare(const struct player *player);

/* Takes back what is queued and not being sent; goes on at the next key frame. */
void player_drop(struct player *player, enum player_drop cause);

/* Takes back what is queued and not being sent, and wants nothing from now on. stream_play() goes
 * on. */
void player_pause(struct player *player);

/* Encrypted bytes that wait for the kernel. */
size_t player_encrypted(const struct player *player);

/* Packets that were dropped, for any cause. */
uint64_t player_dropped(const struct player *player);

/* How much of the stream's time is queued, milliseconds. */
uint32_t player_queued_ms(const struct player *player);

/*
 * For how long it has been behind, milliseconds: something has been queued all the while, or lost.
 * 0 for one that has been sent everything.
 */
uint64_t player_behind_ms(const struct player *player, uint64_t now);

/* How long ago the first packet came that would be dropped, milliseconds; 0 where none would be. */
uint64_t player_waited_ms(const struct player *player, uint64_t now);

/* No more packets: what is queued is sent, then the end of the body. */
void player_end(struct player *player);

/* The first packet of each track that is queued, where there is one; the time of the first of all,
 * in milliseconds. */
uint32_t player_first_packets(const struct player *player, const struct packet *ret_first[PACKET_TRACKS]);

/* Everything has been sent, after player_end(). */
bool player_is_done(const struct player *player);

/* The bytes of pieces that have been gathered. */
static inline size_t player_gathered(const struct iovec *iov, size_t count) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += iov[i].iov_len;
    return bytes;
}

/* For the connection's events of the same names. */
size_t player_gather(struct player *player, struct iovec *iov, size_t max);

/*
 * In place of player_gather() for a session that sends something of its own between packets: the
 * rest of the packet that is partly sent, then the others.
 */
size_t player_gather_rest(struct player *player, struct iovec *iov, size_t max);
size_t player_gather_more(struct player *player, struct iovec *iov, size_t max);
void player_sent(struct player *player, size_t bytes);

/* Releases the queue. The kernel must be done with it. */
void player_clear(struct player *player);

#endif
