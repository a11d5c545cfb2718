/*
 * A protocol of the data plane: all that the daemon knows of it outside of its folder. A new
 * protocol is a folder and a row of the table; see "Add a protocol" in CONTRIBUTING.md.
 */
#ifndef SLUICED_PROTOCOL_H
#define SLUICED_PROTOCOL_H

#include "daemon/base/stream_name.h"
#include "daemon/config/setting.h"

struct handover;
struct session_type;

struct protocol {
    /* the listener option; its name is the protocol's: logs, API, LISTEN_FDNAMES */
    struct setting option;
    bool names_stream;   /* the option may end in =STREAM */
    bool serves_players; /* the option may end in ,merge-window=MS */

    const struct session_type *session; /* what a connection becomes: see session_start() */

    /* The stream of a connection, where it is known from the beginning. NULL: connections go to
     * workers in turn. */
    void (*stream)(const struct handover *handover, char name[STREAM_NAME + 1]);

    /*
     * The answer to a connection that is rejected before anything has been read, as snprintf()
     * would write it. @status: of HTTP, at least 400. NULL: it is closed without a word
     */
    int (*reject)(char *buffer, size_t size, unsigned status, const char *reason);
};

/* In the order of the help, to NULL. Defined in process/protocol_table.c. */
extern const struct protocol *const protocol_table[];

/* NULL when there is none of that name. */
const struct protocol *protocol_find(const char *name);

enum { PROTOCOL_NAMES = 128 };

/* "flv, http, rtsp": for messages. */
void protocol_names(char text[PROTOCOL_NAMES]);

#endif
