/*
 * Claims: publishers that wait for a name that another one still has. A peer that closes its connection and comes back
 * at once may be heard of before the end of the connection that it has closed: with workers they come by different
 * ways, and even on one loop there is no order between two sockets. So who finds its name taken waits a moment, and
 * gets it when it is left. Where the kernel knows that the connection of who has it is ending, which is not read yet,
 * it waits for that. Its worker's thread only.
 */
#ifndef SLUICED_CLAIM_H
#define SLUICED_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/loop.h>

#include "daemon/cidr.h"

/* What becomes of a publisher that asks for the name of a stream that has one. */
enum same_name {
    SAME_NAME_REFUSE,    /* it is refused */
    SAME_NAME_TAKE_OVER, /* the one that has it is ended */
    SAME_NAME_RESUME,    /* it is refused; and who has left is waited for, and nobody else gets the name meanwhile */
};

enum {
    CLAIM_MS = 1000,        /* that one waits at least: an end may still be behind what the peer's kernel has to send */
    CLAIM_ENDING_MS = 5000, /* and for a connection that is ending: what is left of it is read in no time */
    CLAIMS_OF_STREAM = 64,  /* most that wait for one name; further ones are refused at once */
    CLAIMS_OF_HOST = 16,    /* and of these, of one host, or network of 64 bits */
    CLAIMS_OF_HOST_IN_ALL = 256, /* of one host for all names of a worker */
};

struct address_counts;
struct stream;
struct stream_source;

/* The claimant's, and left alone by it while it waits. All zero at the beginning. */
struct claim {
    struct stream *stream; /* NULL: it does not wait */
    const struct stream_source *source;
    struct claim *next, *prev;
    uint64_t since; /* loop time */
    struct cidr_address host;
    bool is_ending; /* its own connection is, as the kernel has said */

    /*
     * Once, from a turn, unless it is withdrawn: 0: the stream is the claimant's; or an error of claim_stream(), or
     * -ECONNRESET: its connection is being closed.
     */
    void (*decided)(struct claim *claim, int error);
};

/* Streams, each in one list at most. */
struct claim_streams {
    struct stream *first, *last;
};

/* Of a stream: those that wait for its name, in the order in which they have come. All zero at the beginning. */
struct claim_queue {
    struct claim *first, *last;
    uint32_t count;
    struct claim_streams *list; /* that the stream is in; NULL: none waits */
    struct stream *next, *prev; /* in that list */
};

/* Of a worker. */
struct claims {
    sluice_loop *loop;
    struct address_counts *hosts;      /* how many claims each has */
    struct claim_streams due, waiting; /* to be looked at in the next turn, and with the next tick */
    sluice_call call;
    bool posted;
};

/* 0, -ENOMEM */
int claims_init(struct claims *claims, sluice_loop *loop);

/* Nobody waits any more. */
void claims_clear(struct claims *claims);

/*
 * Takes the stream for a publisher. @claim: with decided() set; @source: stays while it waits
 * 0; 1: it waits, and decided() says later what has come of it: 0, -EEXIST: another publisher has the stream; -EBUSY:
 * it is kept for one that has left; -EKEYREJECTED: this one is banned. At once, too: -EEXIST also where too many wait,
 * of all or of its host; -ENOMEM
 */
int claim_stream(struct claim *claim, struct stream *stream, const struct stream_source *source);

/* Waits no more. One that does not wait is allowed. */
void claim_withdraw(struct claim *claim);

/* A stream has lost its publisher: in the next turn, who claims it gets it. */
void claims_left(struct stream *stream);

/*
 * Now and then: decides what can be decided, and refuses those that have waited in vain; a part of them in each turn
 * where they are many.
 */
void claims_decide(struct claims *claims);

/*
 * The publisher of a stream leaves, and @error says why: where that is what the policy waits for, it is kept for a
 * while, for who comes from the same host.
 */
void claim_keep(struct stream *stream, int error, uint64_t now);

/* Whether it is kept; and no more. */
bool claim_is_kept(const struct stream *stream, uint64_t now);
void claim_let_go(struct stream *stream);

/* Whether the stream has a publisher that is there to stay, as far as its connection tells. */
bool claim_is_held(const struct stream *stream);

#endif
