#include "sim/rtsp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/rtp.h"
#include "sim/world.h"

enum {
    CHANNELS = 2 * RTSP_TRACKS,
    IDR = 5,
    SLICE = 1,
};

/* Requests */

static void ask(struct rtsp *rtsp, const char *method, const char *behind, const char *header) {
    dialog_ask(&rtsp->dialog, method, behind, header, "");
}

/* The next track, or all of them are to be played. */
static void go_on(struct rtsp *rtsp) {
    char behind[16], header[96];
    while (rtsp->next_track < RTSP_TRACKS && !rtsp->tracks[rtsp->next_track].is_there)
        rtsp->next_track++;
    unsigned track = rtsp->next_track++;
    if (track >= RTSP_TRACKS) {
        rtsp->step = RTSP_STARTS;
        ask(rtsp, "PLAY", "", "");
        return;
    }
    rtsp->step = RTSP_SETS_UP;
    snprintf(behind, sizeof behind, "/trackID=%u", track);
    snprintf(header, sizeof header, "Transport: RTP/AVP/TCP;unicast;interleaved=%u-%u\r\n", 2 * track, 2 * track + 1);
    ask(rtsp, "SETUP", behind, header);
}

static void choose(struct rtsp *rtsp) {
    if (rtsp->step != RTSP_PLAYS)
        return;
    if (!world_is_calm() && world_one_in(60)) {
        rtsp->step = RTSP_LEAVES;
        ask(rtsp, "TEARDOWN", "", "");
    } else if (world_one_in(10)) {
        ask(rtsp, world_one_in(2) ? "GET_PARAMETER" : "OPTIONS", "", "");
    }
}

void rtsp_say(struct rtsp *rtsp, struct file *file) {
    struct dialog *dialog = &rtsp->dialog;
    if (rtsp->out_sent == dialog->out_length && rtsp_is_answered(rtsp)) {
        rtsp->out_sent = dialog->out_length = 0;
        choose(rtsp);
    }
    size_t left = dialog->out_length - rtsp->out_sent;
    if (left > 0)
        rtsp->out_sent += peer_send(file, dialog->out + rtsp->out_sent, world_between(1, (uint32_t)left));
}

bool rtsp_is_answered(const struct rtsp *rtsp) {
    return dialog_is_answered(&rtsp->dialog);
}

/* Answers */

static void see_description(struct rtsp *rtsp, const char *reply) {
    rtsp->tracks[0].is_there = strstr(reply, "m=video") != NULL;
    rtsp->tracks[1].is_there = strstr(reply, "m=audio") != NULL;
    WORLD_CHECK(rtsp->tracks[0].is_there || rtsp->tracks[1].is_there, "%s: no track is described", rtsp->viewer->who);
    /* A track that comes later is not this player's, whose frames then have gaps that nothing
     * marks. */
    rtsp->viewer->has_video = rtsp->tracks[0].is_there;
    rtsp->viewer->takes_gaps |= rtsp->tracks[0].is_there != rtsp->needs_video ||
                                rtsp->tracks[1].is_there != rtsp->needs_audio;
}

static void refused(void *user, unsigned status) {
    struct rtsp *rtsp = user;
    world_trace("rtsp refused", rtsp->step, status, 0);
    rtsp->step = RTSP_IS_OVER;
}

static void granted(void *user, const char *reply) {
    struct rtsp *rtsp = user;
    rtsp->out_sent = rtsp->dialog.out_length = 0;
    switch (rtsp->step) {
    case RTSP_DESCRIBES:
        see_description(rtsp, reply);
        go_on(rtsp);
        break;
    case RTSP_SETS_UP:
        go_on(rtsp);
        break;
    case RTSP_STARTS:
        rtsp->step = RTSP_PLAYS;
        break;
    case RTSP_LEAVES:
        rtsp->step = RTSP_IS_OVER;
        rtsp->dialog.is_over = true;
        break;
    case RTSP_PLAYS:
    case RTSP_IS_OVER:
        break;
    }
}

/* Media */

static void see_frame(struct rtsp *rtsp, const uint8_t *name, size_t n, uint32_t before) {
    struct media_tag tag;
    media_read_frame(name, n, before, rtsp->viewer->who, &tag);
    viewer_see(rtsp->viewer, &tag);
}

/* Parameter sets go along with key frames. */
static void see_nal(struct rtsp *rtsp, const uint8_t *nal, size_t n) {
    WORLD_CHECK(n > 1, "%s: a NAL unit of %zu bytes", rtsp->viewer->who, n);
    if ((nal[0] & TYPE) == IDR || (nal[0] & TYPE) == SLICE)
        see_frame(rtsp, nal + 1, n - 1, MEDIA_BEFORE_NAL + 1);
}

static void add(struct rtsp *rtsp, struct rtsp_track *track, const uint8_t *bytes, size_t n) {
    WORLD_CHECK(track->length + n <= MEDIA_MOST, "%s: a frame is too long", rtsp->viewer->who);
    memcpy(track->frame + track->length, bytes, n);
    track->length += n;
}

static void see_fragment(struct rtsp *rtsp, struct rtsp_track *track, const uint8_t *bytes, size_t n) {
    WORLD_CHECK(n > 2 && track->is_open == !(bytes[1] & BEGINS), "%s: a fragment without a beginning",
                rtsp->viewer->who);
    if (bytes[1] & BEGINS) {
        track->length = 0;
        track->frame[track->length++] = (uint8_t)((bytes[0] & 0xe0) | (bytes[1] & TYPE));
    }
    add(rtsp, track, bytes + 2, n - 2);
    track->is_open = !(bytes[1] & ENDS);
    if (!track->is_open)
        see_nal(rtsp, track->frame, track->length);
}

static void see_video(struct rtsp *rtsp, struct rtsp_track *track, const uint8_t *bytes, size_t n) {
    WORLD_CHECK(n > 1, "%s: an empty packet", rtsp->viewer->who);
    if ((bytes[0] & TYPE) == FU_A) {
        see_fragment(rtsp, track, bytes, n);
        return;
    }
    WORLD_CHECK(!track->is_open, "%s: a NAL unit inside another", rtsp->viewer->who);
    if ((bytes[0] & TYPE) != STAP_A) {
        see_nal(rtsp, bytes, n);
        return;
    }
    for (size_t at = 1; at < n;) {
        size_t size = n - at > 2 ? get16(bytes + at) : n;
        WORLD_CHECK(size <= n - at - 2, "%s: an aggregate of more than it has", rtsp->viewer->who);
        see_nal(rtsp, bytes + at + 2, size);
        at += 2 + size;
    }
}

static void see_audio(struct rtsp *rtsp, struct rtsp_track *track, const uint8_t *bytes, size_t n) {
    WORLD_CHECK(n > AU && get16(bytes) == 16, "%s: a packet with %u bits of headers", rtsp->viewer->who,
                n > 1 ? get16(bytes) : 0);
    size_t size = get16(bytes + 2) >> 3;
    if (!track->is_open)
        track->length = 0;
    add(rtsp, track, bytes + AU, n - AU);
    WORLD_CHECK(track->length <= size, "%s: more than the frame has", rtsp->viewer->who);
    track->is_open = track->length < size;
    if (!track->is_open)
        see_frame(rtsp, track->frame, size, MEDIA_BEFORE_AUDIO);
}

static void see_packet(void *user, unsigned channel, const uint8_t *bytes, size_t n) {
    struct rtsp *rtsp = user;
    WORLD_CHECK(channel < CHANNELS && rtsp->tracks[channel / 2].is_there && rtsp->step >= RTSP_STARTS && n >= 8 &&
                    bytes[0] >> 6 == 2,
                "%s: a packet of %zu bytes in channel %u", rtsp->viewer->who, n, channel);
    if (channel % 2 == 1)
        return;
    struct rtsp_track *track = &rtsp->tracks[channel / 2];
    uint16_t sequence = (uint16_t)get16(bytes + 2);
    int16_t step = (int16_t)(uint16_t)(sequence - track->sequence);
    WORLD_CHECK(n > RTP && (bytes[0] & 63) == 0, "%s: an RTP packet with %u", rtsp->viewer->who, bytes[0]);
    WORLD_CHECK(!track->has_sequence || step == 1 || (step > 1 && !track->is_open), "%s: packet %u comes after %u",
                rtsp->viewer->who, sequence, track->sequence);
    track->has_sequence = true;
    track->sequence = sequence;
    if (channel == 0)
        see_video(rtsp, track, bytes + RTP, n - RTP);
    else
        see_audio(rtsp, track, bytes + RTP, n - RTP);
}

static const struct dialog_events dialog_events = {.granted = granted, .refused = refused, .packet = see_packet};

void rtsp_begin(struct rtsp *rtsp, struct viewer *viewer, bool has_video, bool has_audio) {
    *rtsp = (struct rtsp){.viewer = viewer, .needs_video = has_video, .needs_audio = has_audio};
    rtsp->dialog = (struct dialog){
        .who = viewer->who, .stream = viewer->stream, .events = &dialog_events, .user = rtsp};
    for (size_t i = 0; i < RTSP_TRACKS; i++)
        rtsp->tracks[i].frame = world_allocate(MEDIA_MOST);
    ask(rtsp, "DESCRIBE", "", "Accept: application/sdp\r\n");
}

void rtsp_take(struct rtsp *rtsp, const uint8_t *bytes, size_t n) {
    dialog_take(&rtsp->dialog, bytes, n);
}

void rtsp_clear(struct rtsp *rtsp) {
    for (size_t i = 0; i < RTSP_TRACKS; i++)
        world_free(rtsp->tracks[i].frame);
    dialog_clear(&rtsp->dialog);
}
