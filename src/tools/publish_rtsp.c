/* A publisher by RTSP: ANNOUNCE, SETUP of each track, RECORD; then the tags as RTP packets on the
 * same connection. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <sluice/flv_rtp.h>
#include <sluice/sdp.h>

#include "tools/publish.h"
#include "tools/rtsp_client.h"

enum { SDP_MOST = 16384, URL_MOST = RTSP_URL + 32, FIRST_DYNAMIC = 96, REPORT_MS = 5000, PACKET_MOST = 1400 };

struct track {
    bool present, reported;
    unsigned number; /* of the media in the description; its channels are 2n and 2n + 1 */
    sluice_flv_rtp *rtp;
};

struct rtsp_publish {
    struct publish base;
    struct rtsp_client *client;
    struct track tracks[MEDIA_TRACKS];
    unsigned track_count, set_up;
    bool recording, has_clock, finishing;
    uint64_t ntp_zero; /* wall clock at the time 0 */
    uint64_t reported_at;
    char sdp[SDP_MOST];
    size_t sdp_size;
};

static struct rtsp_publish *of(struct publish *base) {
    return (struct rtsp_publish *)base;
}

static uint64_t ntp_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return sluice_rtp_ntp_from_unix((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

/* What RFC 3551 gives a number has it. */
static uint8_t payload_type(const sluice_codec_config *config, unsigned number) {
    if (config->channels == 1 && config->codec == SLUICE_CODEC_PCMU)
        return 0;
    if (config->channels == 1 && config->codec == SLUICE_CODEC_PCMA)
        return 8;
    return (uint8_t)(FIRST_DYNAMIC + number);
}

static int make_track(struct rtsp_publish *publish, const struct media *media, enum media_track kind) {
    struct {
        uint32_t ssrc, timestamp;
        uint16_t sequence;
    } random;
    struct track *track = &publish->tracks[kind];
    if (getrandom(&random, sizeof random, 0) < (ssize_t)sizeof random)
        return -EIO;
    track->number = publish->track_count++;
    track->present = true;
    const sluice_flv_rtp_options options = {
        .size = sizeof options,
        .type = kind == MEDIA_VIDEO ? SLUICE_FLV_VIDEO : SLUICE_FLV_AUDIO,
        .payload_type = payload_type(&media->config[kind], track->number),
        .ssrc = random.ssrc,
        .sequence = random.sequence,
        .timestamp = random.timestamp,
        .max_packet = PACKET_MOST,
    };
    return sluice_flv_rtp_new(&options, &track->rtp);
}

static int describe(struct rtsp_publish *publish, const struct media *media) {
    char fmtp[SLUICE_CODEC_MAX_FMTP];
    sluice_sdp_writer writer;
    sluice_sdp_write_session(&writer, publish->sdp, sizeof publish->sdp, 1, 1, "0.0.0.0", "-", "sluice-push");
    sluice_sdp_write_attribute(&writer, "control", "*");
    for (int i = 0; i < MEDIA_TRACKS; i++) {
        const sluice_codec_config *config = &media->config[i];
        if (!media->has[i])
            continue;
        /* What cannot be announced cannot be sent: half a stream would look like a fault of the
         * server. */
        int error = media->has_config[i] ? make_track(publish, media, (enum media_track)i) : -EOPNOTSUPP;
        if (error)
            return error;
        uint8_t type = payload_type(config, publish->tracks[i].number);
        sluice_sdp_write_media(&writer, i == MEDIA_VIDEO ? "video" : "audio", type,
                               sluice_codec_rtp_name(config->codec), config->clock_rate, config->channels);
        if (sluice_codec_write_fmtp(config, fmtp, sizeof fmtp) > 0)
            sluice_sdp_write_attribute(&writer, "fmtp", "%u %s", type, fmtp);
        sluice_sdp_write_attribute(&writer, "control", "trackID=%u", publish->tracks[i].number);
    }
    int size = sluice_sdp_write_end(&writer);
    publish->sdp_size = size > 0 ? (size_t)size : 0;
    return size < 0 ? size : 0;
}

static void ask(struct rtsp_publish *publish, sluice_rtsp_method method) {
    rtsp_client_ask(publish->client, &(struct rtsp_request){.method = method, .url = publish->client->url});
}

static void set_up_next(struct rtsp_publish *publish) {
    char url[URL_MOST];
    snprintf(url, sizeof url, "%s/trackID=%u", publish->client->url, publish->set_up);
    rtsp_client_ask(publish->client, &(struct rtsp_request){.method = SLUICE_RTSP_SETUP,
                                                            .url = url,
                                                            .record = true,
                                                            .channel = (uint8_t)(2 * publish->set_up)});
}

static void answered(struct rtsp_client *client, sluice_rtsp_method asked, const sluice_rtsp_message *reply,
                     void *user) {
    struct rtsp_publish *publish = user;
    (void)reply;
    switch (asked) {
    case SLUICE_RTSP_OPTIONS:
        rtsp_client_ask(client, &(struct rtsp_request){.method = SLUICE_RTSP_ANNOUNCE,
                                                       .url = client->url,
                                                       .body = publish->sdp,
                                                       .body_size = publish->sdp_size});
        break;
    case SLUICE_RTSP_ANNOUNCE:
        set_up_next(publish);
        break;
    case SLUICE_RTSP_SETUP:
        if (++publish->set_up < publish->track_count)
            set_up_next(publish);
        else
            ask(publish, SLUICE_RTSP_RECORD);
        break;
    default:
        publish->recording = true;
        (void)sluice_conn_set_timeout(client->conn, 0);
        publish->base.events->ready(publish->base.user);
        break;
    }
}

static void on_frame(struct rtsp_client *client, sluice_rtsp_message *frame, void *user) {
    /* Receiver reports. */
    (void)client;
    (void)frame;
    (void)user;
}

static void on_sent(struct rtsp_client *client, void *user) {
    struct rtsp_publish *publish = user;
    (void)client;
    if (publish->recording)
        publish->base.events->room(publish->base.user);
}

static void on_ended(struct rtsp_client *client, int error, const char *reason, void *user) {
    struct rtsp_publish *publish = user;
    (void)client;
    publish_ended(&publish->base, error ? error : publish->finishing ? 0 : -ECONNRESET, reason);
}

static void on_closed(void *user) {
    struct rtsp_publish *publish = user;
    for (int i = 0; i < MEDIA_TRACKS; i++)
        sluice_flv_rtp_free(publish->tracks[i].rtp);
    free(publish);
}

static const struct rtsp_client_events events = {
    .answered = answered, .frame = on_frame, .sent = on_sent, .ended = on_ended, .closed = on_closed};

static int create(sluice_conn *conn, const struct target *target, const struct media *media,
                  struct publish **ret_publish, bool *ret_ready) {
    struct rtsp_publish *publish = calloc(1, sizeof *publish);
    if (!publish)
        return -ENOMEM;
    publish->base.type = &publish_rtsp;
    int error = describe(publish, media);
    if (!error)
        error = rtsp_client_new(conn, target, PUBLISH_QUEUE + 2 * SLUICE_FLV_MAX_PAYLOAD, &events, publish,
                                &publish->client);
    if (error) {
        on_closed(publish);
        return error;
    }
    (void)sluice_conn_set_timeout(publish->client->conn, PUBLISH_ANSWER_MS);
    *ret_publish = &publish->base;
    *ret_ready = false;
    return 0;
}

static void report(struct rtsp_publish *publish, struct track *track) {
    uint8_t packet[SLUICE_RTCP_SR_SIZE + SLUICE_RTCP_MAX_SDES];
    int size = sluice_flv_rtp_report(track->rtp, publish->ntp_zero, ntp_now(), "sluice-push", packet, sizeof packet);
    if (size > 0)
        rtsp_client_send_rtcp(publish->client, (uint8_t)(2 * track->number + 1), packet, (size_t)size);
    track->reported = size > 0;
}

static int send_packet(struct rtsp_publish *publish, const struct track *track, const sluice_flv_rtp_packet *packet) {
    uint8_t head[SLUICE_RTSP_INTERLEAVED_SIZE + SLUICE_FLV_RTP_MAX_HEADER];
    size_t size = packet->header_size + sluice_slice_length(&packet->slice);
    sluice_rtsp_write_interleaved(head, (uint8_t)(2 * track->number), (uint16_t)size);
    memcpy(head + SLUICE_RTSP_INTERLEAVED_SIZE, packet->header, packet->header_size);
    int error = sluice_writer_copy(publish->client->writer, head, SLUICE_RTSP_INTERLEAVED_SIZE + packet->header_size);
    return error ? error : sluice_writer_slice(publish->client->writer, &packet->slice);
}

static int send_tag(struct publish *base, const struct media_tag *tag, uint32_t timestamp) {
    struct rtsp_publish *publish = of(base);
    struct track *track = &publish->tracks[tag->type == SLUICE_FLV_VIDEO ? MEDIA_VIDEO : MEDIA_AUDIO];
    size_t size = sluice_slice_length(&tag->payload), queued;
    sluice_flv_rtp_packet packet;
    int result = 0, error = 0;
    if (base->ended)
        return -EPIPE;
    if (tag->type == SLUICE_FLV_SCRIPT || !track->present)
        return 0;
    queued = sluice_writer_queued(publish->client->writer);
    if (queued > 0 && queued + size > PUBLISH_QUEUE)
        return -EAGAIN;
    if (!publish->has_clock && tag->frame) {
        publish->ntp_zero = ntp_now() - ((uint64_t)(timestamp / 1000) << 32) -
                            ((uint64_t)(timestamp % 1000) << 32) / 1000;
        publish->has_clock = true;
    }
    error = sluice_flv_rtp_push(track->rtp, tag->type, timestamp, &tag->payload);
    if (!error && tag->frame && !track->reported)
        report(publish, track);
    while (!error && (result = sluice_flv_rtp_next(track->rtp, &packet)) > 0)
        error = send_packet(publish, track, &packet);
    if (error || result < 0)
        rtsp_client_end(publish->client, error ? error : result, strerror(error ? -error : -result));
    return error ? error : result;
}

static void finish(struct publish *base) {
    of(base)->finishing = true;
    (void)sluice_conn_set_timeout(of(base)->client->conn, PUBLISH_ANSWER_MS);
    ask(of(base), SLUICE_RTSP_TEARDOWN);
}

static void stop(struct publish *base) {
    rtsp_client_end(of(base)->client, -ECANCELED, "stopped");
}

static void tick(struct publish *base, uint64_t now) {
    struct rtsp_publish *publish = of(base);
    if (!publish->recording || publish->base.ended)
        return;
    if (now - publish->reported_at >= REPORT_MS) {
        publish->reported_at = now;
        for (int i = 0; i < MEDIA_TRACKS; i++)
            if (publish->tracks[i].present && publish->tracks[i].reported)
                report(publish, &publish->tracks[i]);
    }
    rtsp_client_tick(publish->client, now);
}

static uint64_t bytes(const struct publish *base) {
    const struct rtsp_publish *publish = (const struct rtsp_publish *)base;
    sluice_writer_stats stats = {.size = sizeof stats};
    if (publish->client->writer)
        sluice_writer_get_stats(publish->client->writer, &stats);
    return stats.sent_bytes;
}

const struct publish_type publish_rtsp = {
    .create = create,
    .tag = send_tag,
    .finish = finish,
    .abort = stop,
    .tick = tick,
    .bytes = bytes,
};
