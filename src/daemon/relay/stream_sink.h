/*
 * The outputs of a stream: the stream calls its sinks in a fixed order. A kind of output is one
 * constant table and one rank; the stream knows none of them. All players of a stream are one sink:
 * a packet costs an indirect call for each sink, none for each player.
 */
#ifndef SLUICED_STREAM_SINK_H
#define SLUICED_STREAM_SINK_H

#include <stdbool.h>
#include <stdint.h>

struct packet;
struct stream;
struct stream_sink;

/* In which order the sinks of a stream are called. */
enum stream_sink_rank {
    /* first: a replica that is opened while another sink is called begins with the cached group */
    SINK_REPLICA,
    SINK_PACKETIZER, /* before the players, which are sent what it makes */
    SINK_PLAYERS,
    SINK_RECORDER,
    SINK_SEARCH,   /* asks whether there is the stream */
    SINK_STAND_IN, /* last: what it passes on to another stream comes behind this stream's own */
};

/*
 * Each may be NULL. In all but has_begun() and freed() a sink may remove itself or others, and add
 * others: one that is removed is not called any more, one that is added is called for the same
 * event if its rank is higher than that of the sink that is called. None may let go of the stream.
 */
struct stream_sink_type {
    enum stream_sink_rank rank;

    /* A publisher has come. */
    void (*begun)(struct stream_sink *sink, struct stream *stream);

    /*
     * A packet; headers and the cached group have it already. Until the stream is settled, what
     * comes is only collected in the group: a sink that begins with the group leaves these packets
     * out. @flags: of the publisher's file header
     */
    void (*packet)(struct stream_sink *sink, struct stream *stream, struct packet *packet, uint8_t flags);

    /* The tracks are known, and all that has come is in the group. */
    void (*opened)(struct stream_sink *sink, struct stream *stream);

    /* A frame is lost. */
    void (*lost)(struct stream_sink *sink, struct stream *stream);

    /* The publisher has left; headers and group are empty. */
    void (*ended)(struct stream_sink *sink, struct stream *stream);

    /* stream_set_search() */
    void (*searched)(struct stream_sink *sink, struct stream *stream);

    /*
     * Whether a player of the sink has been sent a part of the stream, which another publisher has
     * to continue.
     */
    bool (*has_begun)(const struct stream_sink *sink, const struct stream *stream);

    /* Blocks are used up: asks for those back that are lent. */
    void (*want_room)(struct stream_sink *sink);

    /* The stream is freed, and has removed the sink. */
    void (*freed)(struct stream_sink *sink);
};

struct stream_sink {
    const struct stream_sink_type *type;
    struct stream_sink *next; /* in the stream's list */
};

/* A call of all sinks of a stream, while they come and go; one may be inside another. */
struct stream_sink_walk {
    struct stream_sink **link;      /* to the next one */
    enum stream_sink_rank rank;     /* of the one that is called */
    struct stream_sink_walk *outer; /* or NULL */
};

#endif
