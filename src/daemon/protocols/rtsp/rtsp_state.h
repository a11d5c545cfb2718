/*
 * The state of an RTSP session on the server, and the requests that are allowed in each state. No
 * sockets and no streams.
 */
#ifndef SLUICED_RTSP_STATE_H
#define SLUICED_RTSP_STATE_H

#include <stddef.h>

#include <sluice/rtsp.h>

enum { RTSP_SESSION_ID = 24, RTSP_METHODS_TEXT = 128 };

enum rtsp_state {
    /* nothing is agreed; set at the start, and when a player's wait for its stream has been in
     * vain */
    RTSP_INIT,
    /* for a stream to describe; set by DESCRIBE where there is none. Its answer is owed
     * meanwhile */
    RTSP_WAITING,
    RTSP_DESCRIBED, /* a player knows the tracks; set by DESCRIBE, or when the stream has come */
    RTSP_TO_PLAY,   /* tracks are set up; set by SETUP for playing, and by PAUSE */
    RTSP_PLAYING,   /* set by PLAY */
    RTSP_ANNOUNCED, /* a publisher has the stream's name; set by ANNOUNCE */
    RTSP_TO_RECORD, /* tracks are set up; set by SETUP for publishing, and by PAUSE */
    RTSP_RECORDING, /* set by RECORD */
    /* what is owed is sent, then the connection ends; set by TEARDOWN, by errors, by the server's
     * end */
    RTSP_ENDING,
};

/* The methods that the server knows at all: SLUICE_RTSP_... together. */
unsigned rtsp_methods(void);

/* The methods that may come in a state. */
unsigned rtsp_methods_in(enum rtsp_state state);

/* Methods as Public and Allow have them: "OPTIONS, DESCRIBE". */
void rtsp_write_methods(unsigned methods, char text[RTSP_METHODS_TEXT]);

/*
 * Whether a request may be handled: 0, or the status to refuse it with. 400: no CSeq, or a
 * malformed Session. 551: it requires an option. 501, 405: a method that is not known, or not a
 * server's. 454: a session that is not this connection's, or none where one is needed. 455: not in
 * this state. @session_id: the connection's; empty before the first SETUP
 */
unsigned rtsp_admit(enum rtsp_state state, const char *session_id, const sluice_rtsp_message *request);

/* What a request's URL is about. */
struct rtsp_target {
    sluice_http_text name; /* of the stream; may be no valid name */
    int track;             /* of those with control URLs; -1 for all together */
};

/*
 * Takes a URL apart: rtsp://host/NAME, with or without a "/" at its end, a query, and a track's
 * control URL behind the path or behind the query. 0, -EPROTO (not an RTSP URL)
 */
int rtsp_read_target(sluice_http_text url, const sluice_http_text *controls, size_t count,
                     struct rtsp_target *ret_target);

#endif
