/* What a publisher says by RTSP: its requests, and between them its frames as packets of RTP. */
#ifndef SLUICE_TESTS_SIM_ANNOUNCER_H
#define SLUICE_TESTS_SIM_ANNOUNCER_H

#include "sim/dialog.h"
#include "sim/media.h"

enum { ANNOUNCER_TRACKS = 2, ANNOUNCER_WHO = 32 };

enum announcer_step { ANNOUNCER_ANNOUNCES, ANNOUNCER_SETS_UP, ANNOUNCER_STARTS, ANNOUNCER_SENDS, ANNOUNCER_LEAVES };

struct announcer {
    char who[ANNOUNCER_WHO];
    enum announcer_step step;
    struct dialog dialog;
    bool has_video, has_audio;
    bool is_hasty; /* does not wait until it is told that it may send */
    /* what a decoder needs comes with each key frame, and not with the description */
    bool sets_in_band;
    uint8_t video_header[MEDIA_LEAST + MEDIA_AROUND], audio_header[MEDIA_LEAST + MEDIA_AROUND];
    unsigned next_track;  /* to be set up */
    uint32_t packet_most; /* bytes of a payload */
    struct announcer_track {
        uint16_t sequence;
        uint32_t source, first_time;
    } tracks[ANNOUNCER_TRACKS];
    bool is_refused, has_lied;
    uint32_t waited; /* frames, for an answer */
    uint8_t *out;    /* to be sent, by whoever asks for it: announcer_take_out() */
    size_t out_length, out_room;
};

/* Announces a stream, of which @first is to be the first frame. */
void announcer_begin(struct announcer *announcer, const struct media_tag *first, bool has_video, bool has_audio);
void announcer_take(struct announcer *announcer, const uint8_t *bytes, size_t n);

/* Whether frames may be put now; the others wait for answers. */
bool announcer_may_send(const struct announcer *announcer);

/* A frame, and sometimes what servers have to bear between two. */
void announcer_put_frame(struct announcer *announcer, const struct media_tag *tag);

/* Leaves, with a word or without. */
void announcer_put_end(struct announcer *announcer);

/* What is to be sent, which is forgotten with the next call. */
const uint8_t *announcer_take_out(struct announcer *announcer, size_t *ret_size);
void announcer_clear(struct announcer *announcer);

#endif
