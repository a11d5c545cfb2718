/*
 * One connection of a forward: what all types have in common. The session is a player of the stream
 * on a connection that the daemon has made; a type adds the steps before, the requests between the
 * packets, and the end.
 *
 * A session and its forward let go of each other once: when the forward has no use for it any more
 * (forward_session_leave()), or when something goes wrong (forward_session_fail()). What is left is
 * the session's: it ends by itself.
 */
#ifndef SLUICED_FORWARD_SESSION_H
#define SLUICED_FORWARD_SESSION_H

#include <sluice/writer.h>

#include "daemon/relay/player.h"
#include "daemon/server/session.h"

struct forward;
struct forward_session;
struct stream_totals;

struct forward_session_type {
    struct session_type base; /* FORWARD_SESSION_TYPE */

    /*
     * The forward and the session have let go of each other, and nothing more of the stream is to
     * be sent: the type says so to the target, and closes the session. It is closed in any case
     * after a moment. @is_whole: all that was queued has been sent
     */
    void (*done)(struct forward_session *session, bool is_whole);

    /* Packets are about to be sent: what goes before them is queued in the writer now. NULL: there
     * is nothing */
    void (*gathering)(struct forward_session *session);

    /* All that was in the writer has been sent: so behind a TLS handshake. NULL: nothing is to be
     * done */
    void (*written)(struct forward_session *session);

    /* What has been received, or a part of it. */
    void (*received)(struct forward_session *session, sluice_chain *chain);

    /* Twice a second, while it has the forward. NULL: nothing is to be done */
    void (*tick)(struct forward_session *session, uint64_t now);

    /* Bytes of blocks that it holds with what it has received, besides the connection's chain.
     * NULL: none */
    size_t (*held)(const struct forward_session *session);

    /* Its own part, before the session is freed. NULL: there is none */
    void (*clear)(struct forward_session *session);
};

struct forward_session {
    struct session base;
    struct forward *forward; /* NULL when they have let go of each other */
    sluice_writer *writer;   /* for what goes before and between the packets */
    struct player *player;   /* or NULL */
    bool joined;             /* the player is in the stream's list */
    bool is_writing;         /* what the kernel has been given is the writer's */
    bool peer_ended;
    bool ends;        /* when all has been sent that is in the writer */
    uint64_t left_at; /* loop time at which they have let go */
};

/* What a type begins with. @scheme: as the API names the protocol; @of: a struct of which struct
 * forward_session is the first member */
#define FORWARD_SESSION_TYPE(scheme, of)                                                                               \
    {                                                                                                                  \
        .protocol = (scheme), .events = &forward_session_events, .size = sizeof(of),                                   \
        .prepare = forward_session_prepare, .tick = forward_session_tick, .drain = forward_session_drain,              \
        .kick = forward_session_kick, .evict = forward_session_evict, .discard = forward_session_discard,              \
        .held = forward_session_held,                                                                                  \
    }

extern const sluice_conn_events forward_session_events;
int forward_session_prepare(struct session *base, const struct handover *handover);
void forward_session_tick(struct session *base, uint64_t now);
void forward_session_drain(struct session *base);
void forward_session_kick(struct session *base, int error);
void forward_session_evict(struct session *base);
void forward_session_discard(struct session *base);
size_t forward_session_held(const struct session *base);

/*
 * Begins a session on the socket, for the forward, which negotiates from now on. @writer: bytes
 * that may wait in its writer. 0, -errno: then the socket is the caller's
 */
int forward_session_start(const struct forward_session_type *type, struct forward *forward, int fd, size_t writer,
                          struct forward_session **ret_session);

/*
 * Makes the player of the forward's stream, to be added to it by forward_session_play(), or by
 * stream_add_asking(). @begin: as of player_new(). 0, -ENOMEM
 */
int forward_session_make_player(struct forward_session *session, const struct wire_format *format,
                                player_begin_fn *begin);

/* The player joins the stream, and plays: the forward is sending. */
void forward_session_play(struct forward_session *session);

/* The player asks for the tracks first. */
void forward_session_ask(struct forward_session *session);

/* A player that has asked plays. */
void forward_session_play_asked(struct forward_session *session);

/* Something went wrong. No effect when they have let go already. @error: a negative errno */
void forward_session_fail(struct forward_session *session, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The forward lets go. @error: 0: what is queued is sent first */
void forward_session_leave(struct forward_session *session, int error);

/* The forward has let go, but another connection is needed at once. */
void forward_session_repeat(struct forward_session *session);

void forward_session_close(struct forward_session *session);

/* Sends what is in the writer, and says that nothing more comes; then the target closes. */
void forward_session_end(struct forward_session *session);

/* Adds what its player has been sent. */
void forward_session_add_totals(const struct forward_session *session, struct stream_totals *totals);

#endif
