/*
 * What an operator has done: commands that name a stream by its name, anything else by its id. Run on the thread of the
 * worker that has it.
 */
#ifndef SLUICED_COMMAND_H
#define SLUICED_COMMAND_H

#include <stdint.h>

#include "daemon/record_wish.h"
#include "daemon/stream_name.h"

struct worker;

enum command_kind {
    COMMAND_KICK_PLAYER,
    COMMAND_KICK_PUBLISHER, /* a pull's is tried again, like after any failure */
    COMMAND_KICK_STREAM,    /* its publisher and all of its players */
    COMMAND_RECORD,         /* records a stream, or does not, that need not be there yet */
};

struct command {
    enum command_kind kind;
    uint64_t id; /* not of a stream */
    char stream[STREAM_NAME + 1];
    enum record_wish record;
    uint64_t ban_ms; /* for which the publisher's host may not publish the stream again; 0: it may at once */
};

/*
 * 0, -ENOENT (this worker has no such object), -ENOMEM (of a kick: it is done, but for the ban), and what
 * recorders_wish() says
 */
int command_run(struct worker *worker, const struct command *command);

#endif
