/* A player that asks by RTSP and gets RTP between the answers: what it says, and what it must be
 * told. */
#ifndef SLUICE_TESTS_SIM_RTSP_H
#define SLUICE_TESTS_SIM_RTSP_H

#include "sim/dialog.h"
#include "sim/kernel.h"
#include "sim/viewer.h"

enum { RTSP_TRACKS = 2 };

enum rtsp_step { RTSP_DESCRIBES, RTSP_SETS_UP, RTSP_STARTS, RTSP_PLAYS, RTSP_LEAVES, RTSP_IS_OVER };

/* One track's packets: of frames that take several, what has come. */
struct rtsp_track {
    bool is_there, has_sequence, is_open;
    uint16_t sequence;
    uint8_t *frame;
    size_t length;
};

struct rtsp {
    struct viewer *viewer;
    enum rtsp_step step;
    bool needs_video, needs_audio; /* the stream has them */
    unsigned next_track;           /* to be set up */
    struct rtsp_track tracks[RTSP_TRACKS];
    struct dialog dialog;
    size_t out_sent; /* of what the dialog has to say */
};

/* Asks for the viewer's stream. */
void rtsp_begin(struct rtsp *rtsp, struct viewer *viewer, bool has_video, bool has_audio);
void rtsp_take(struct rtsp *rtsp, const uint8_t *bytes, size_t n);

/* Sends what is to be said; now and then asks for something. Leaves only while the world is not
 * calm. */
void rtsp_say(struct rtsp *rtsp, struct file *file);

/* Each request has been answered. */
bool rtsp_is_answered(const struct rtsp *rtsp);
void rtsp_clear(struct rtsp *rtsp);

#endif
