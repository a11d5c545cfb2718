/* A player by RTSP: OPTIONS, DESCRIBE, SETUP of each media that can be taken, PLAY; media on the
 * same connection. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/rtp_input.h"
#include "tools/play.h"
#include "tools/rtsp_client.h"

enum { WRITER = 64 * 1024, REPORT_MS = 5000 };

/* A media that has been set up. */
struct channel {
    bool set_up;
    uint8_t rtp, rtcp;
};

struct rtsp_play {
    struct play base;
    struct rtsp_client *client;
    struct rtp_input *input;
    char *sdp_text; /* that the description's texts lie in */
    sluice_sdp *sdp;
    struct channel channels[SLUICE_SDP_MAX_MEDIA];
    size_t track; /* that is being set up */
    bool playing, stopping;
    uint32_t timeout_ms;
    uint64_t reported_at;
    char ignored[RTP_INPUT_NAMES]; /* media that are not taken */
    char base_url[RTSP_URL + 1];
    char control[RTSP_URL + 1]; /* of all media together */
};

static struct rtsp_play *of(struct play *base) {
    return (struct rtsp_play *)base;
}

static bool take_tag(sluice_flv_tag *tag, uint8_t flags, void *user) {
    struct rtsp_play *play = user;
    (void)flags;
    if (!play->base.ended)
        play->base.events->tag(tag, play->base.user);
    return true;
}

static const struct rtp_input_events input_events = {.tag = take_tag};

/* The description, copied: text, not payload. */
static int read_description(struct rtsp_play *play, const sluice_slice *body) {
    size_t length = sluice_slice_length(body);
    play->sdp_text = malloc(length + 1);
    play->sdp = malloc(sizeof *play->sdp);
    if (!play->sdp_text || !play->sdp)
        return -ENOMEM;
    sluice_slice_copy(body, 0, play->sdp_text, length);
    int error = sluice_sdp_read(play->sdp_text, length, play->sdp);
    if (!error)
        error = rtp_input_new(sluice_loop_pool(sluice_conn_loop(play->client->conn)), play->sdp, 0, &input_events, play,
                              &play->input, play->ignored);
    return error;
}

static bool find_track(struct rtsp_play *play, size_t from) {
    while (from < play->sdp->media_count && !rtp_input_takes(play->input, from))
        from++;
    play->track = from;
    return from < play->sdp->media_count;
}

static void set_up(struct rtsp_play *play) {
    char url[RTSP_URL + 1];
    if (rtsp_control_url(play->base_url, play->sdp->media[play->track].control, url) < 0) {
        rtsp_client_end(play->client, -EMSGSIZE, "a control URL is too long");
        return;
    }
    rtsp_client_ask(play->client, &(struct rtsp_request){
                                      .method = SLUICE_RTSP_SETUP, .url = url, .channel = (uint8_t)(2 * play->track)});
}

static void on_described(struct rtsp_play *play, const sluice_rtsp_message *reply) {
    const sluice_http_header *base = sluice_rtsp_find(reply, "Content-Base");
    int error = read_description(play, &reply->payload);
    if (error) {
        char reason[RTP_INPUT_NAMES + 32] = "the description is malformed";
        if (error == -EOPNOTSUPP)
            snprintf(reason, sizeof reason, "no media that can be taken: %s", play->ignored);
        rtsp_client_end(play->client, error, reason);
        return;
    }
    if (base)
        snprintf(play->base_url, sizeof play->base_url, "%.*s", (int)base->value.length, base->value.text);
    else
        snprintf(play->base_url, sizeof play->base_url, "%s", play->client->url);
    if (rtsp_control_url(play->base_url, play->sdp->control, play->control) < 0)
        rtsp_client_end(play->client, -EMSGSIZE, "a control URL is too long");
    else if (find_track(play, 0))
        set_up(play);
}

/* The channels that the server has chosen; as asked, where it does not say. */
static bool take_channels(struct rtsp_play *play, const sluice_rtsp_message *reply) {
    sluice_rtsp_transport_walk walk = {0};
    sluice_rtsp_transport transport;
    struct channel *channel = &play->channels[play->track];
    int result = sluice_rtsp_next_transport(reply, &walk, &transport);
    if (result < 0 || (result > 0 && !transport.tcp))
        return false;
    *channel = (struct channel){true, (uint8_t)(2 * play->track), (uint8_t)(2 * play->track + 1)};
    if (result > 0 && transport.interleaved.first >= 0) {
        channel->rtp = (uint8_t)transport.interleaved.first;
        channel->rtcp = (uint8_t)(transport.interleaved.second >= 0 ? transport.interleaved.second
                                                                    : transport.interleaved.first + 1);
    }
    return true;
}

static void on_set_up(struct rtsp_play *play, const sluice_rtsp_message *reply) {
    unsigned most = 0;
    if (!take_channels(play, reply)) {
        rtsp_client_end(play->client, -EBADMSG, "the server does not send over the connection");
        return;
    }
    for (size_t i = 0; i < SLUICE_SDP_MAX_MEDIA; i++)
        if (play->channels[i].set_up && play->channels[i].rtcp >= most)
            most = play->channels[i].rtcp + 1u;
    sluice_rtsp_set_channels(play->client->framer, (uint16_t)most);
    if (find_track(play, play->track + 1))
        set_up(play);
    else
        rtsp_client_ask(play->client, &(struct rtsp_request){.method = SLUICE_RTSP_PLAY, .url = play->control});
}

static void on_playing(struct rtsp_play *play) {
    play->playing = true;
    (void)sluice_conn_set_timeout(play->client->conn, play->timeout_ms);
    play->base.events->begun(play->base.user);
}

static void answered(struct rtsp_client *client, sluice_rtsp_method asked, const sluice_rtsp_message *reply,
                     void *user) {
    struct rtsp_play *play = user;
    if (asked == SLUICE_RTSP_OPTIONS)
        rtsp_client_ask(client, &(struct rtsp_request){.method = SLUICE_RTSP_DESCRIBE, .url = client->url});
    else if (asked == SLUICE_RTSP_DESCRIBE)
        on_described(play, reply);
    else if (asked == SLUICE_RTSP_SETUP)
        on_set_up(play, reply);
    else
        on_playing(play);
}

static void on_frame(struct rtsp_client *client, sluice_rtsp_message *frame, void *user) {
    struct rtsp_play *play = user;
    (void)client;
    for (size_t i = 0; play->input && i < play->sdp->media_count && !play->base.ended; i++) {
        if (!play->channels[i].set_up)
            continue;
        if (frame->channel == play->channels[i].rtp)
            rtp_input_rtp(play->input, i, &frame->payload);
        else if (frame->channel == play->channels[i].rtcp)
            (void)rtp_input_rtcp(play->input, i, &frame->payload);
    }
}

static void on_ended(struct rtsp_client *client, int error, const char *reason, void *user) {
    struct rtsp_play *play = user;
    (void)client;
    /* What is described is no stream yet: parameter sets alone are nothing to show. */
    if (play->playing && !play->stopping)
        rtp_input_flush(play->input);
    play_ended(&play->base, error, reason);
}

static void on_closed(void *user) {
    struct rtsp_play *play = user;
    rtp_input_free(play->input);
    free(play->sdp_text);
    free(play->sdp);
    free(play);
}

static const struct rtsp_client_events events = {
    .answered = answered, .frame = on_frame, .ended = on_ended, .closed = on_closed};

static int create(sluice_conn *conn, const struct target *target, uint32_t timeout_ms, struct play **ret_play) {
    struct rtsp_play *play = calloc(1, sizeof *play);
    if (!play)
        return -ENOMEM;
    play->base.type = &play_rtsp;
    play->timeout_ms = timeout_ms;
    int error = rtsp_client_new(conn, target, WRITER, &events, play, &play->client);
    if (error) {
        free(play);
        return error;
    }
    (void)sluice_conn_set_timeout(play->client->conn, timeout_ms);
    *ret_play = &play->base;
    return 0;
}

static void stop(struct play *base) {
    struct rtsp_play *play = of(base);
    play->stopping = true;
    if (play->playing)
        rtsp_client_ask(play->client, &(struct rtsp_request){.method = SLUICE_RTSP_TEARDOWN, .url = play->control});
    else
        rtsp_client_end(play->client, 0, "stopped");
}

static void stall(struct play *base) {
    sluice_conn_pause(of(base)->client->conn);
}

static void tick(struct play *base, uint64_t now) {
    struct rtsp_play *play = of(base);
    uint8_t report[RTP_MAX_RECEIVER_REPORT];
    if (!play->playing)
        return;
    if (now - play->reported_at >= REPORT_MS) {
        play->reported_at = now;
        for (size_t i = 0; i < play->sdp->media_count; i++)
            if (play->channels[i].set_up)
                rtsp_client_send_rtcp(play->client, play->channels[i].rtcp, report,
                                      rtp_input_write_report(play->input, i, report));
    }
    rtsp_client_tick(play->client, now);
}

static void get_counts(const struct play *base, struct play_counts *ret_counts) {
    const struct rtsp_play *play = (const struct rtsp_play *)base;
    struct rtp_input_counts counts = {0};
    ret_counts->bytes = transport_received(&play->client->transport);
    if (play->input)
        rtp_input_get_counts(play->input, &counts);
    ret_counts->packets = counts.packets;
    ret_counts->lost = counts.lost;
    ret_counts->malformed = counts.malformed;
    ret_counts->dropped = counts.dropped;
}

const struct play_type play_rtsp = {
    .create = create,
    .stop = stop,
    .stall = stall,
    .tick = tick,
    .get_counts = get_counts,
};
