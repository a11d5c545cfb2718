/*
 * example: an RTSP client
 *
 * rtsp_client rtsp://HOST[:PORT]/PATH [COUNT] plays a stream over TCP and prints its access units:
 * pictures and audio frames. The packets arrive on the connection that carries the replies. It
 * sends no signs of life: a server may end the session when its time is over.
 */
#include <errno.h>
#include <netdb.h>
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TRACKS = 4, MAX_URL = 512 };

static struct client {
    sluice_stream *stream;
    sluice_rtsp *rtsp;
    uint32_t cseq;
    char session[128];
    struct track {
        char url[MAX_URL], name[16];
        sluice_rtp_source source; /* its sequence numbers */
        sluice_rtp_unpacker *unpacker;
    } tracks[MAX_TRACKS]; /* the first has channels 0 and 1, and so on */
    int track_count;
    long left; /* units to print */
} client;

static void print_units(const sluice_rtsp_message *message) {
    sluice_rtp_packet packet;
    sluice_rtp_unit *unit;
    uint64_t sequence;
    int result;
    if (message->channel % 2 != 0 || message->channel / 2 >= client.track_count ||
        sluice_rtp_read(&message->payload, &packet) < 0)
        return; /* RTCP, or malformed */
    struct track *track = &client.tracks[message->channel / 2];
    if (sluice_rtp_note(&track->source, packet.sequence, &sequence) == SLUICE_RTP_SUSPECT ||
        sluice_rtp_unpacker_push(track->unpacker, &message->payload, &packet, sequence) < 0)
        return;
    while (client.left > 0 && (result = sluice_rtp_unpacker_next(track->unpacker, &unit)) != 0) {
        if (result < 0)
            continue; /* the packet is dropped: its unit is damaged */
        printf("%s %u, %zu bytes in %zu pieces%s%s\n", track->name, unit->timestamp, unit->length, unit->piece_count,
               unit->key ? ", key" : "", unit->damaged ? ", damaged" : "");
        client.left--;
    }
}

/* Waits for the next message that is not a packet; of packets, prints the units. It is valid until
 * the next call. */
static int receive(sluice_rtsp_message **ret_message) {
    for (;;) {
        int result = sluice_rtsp_next(client.rtsp, sluice_stream_chain(client.stream), ret_message);
        if (result == 0)
            result = sluice_reader_fill(sluice_stream_reader(client.stream), sluice_rtsp_need(client.rtsp));
        else if (result > 0 && (*ret_message)->kind != SLUICE_RTSP_INTERLEAVED)
            return 0;
        else if (result > 0)
            print_units(*ret_message);
        if (result < 0 || (client.track_count > 0 && client.left == 0))
            return result < 0 ? result : -ECANCELED;
    }
}

static int call(const char *method, const char *url, const sluice_rtsp_transport *transport,
                sluice_rtsp_message **ret_reply) {
    char text[2048];
    sluice_rtsp_writer writer;
    sluice_rtsp_write_request(&writer, text, sizeof text, method, url, ++client.cseq);
    if (client.session[0])
        sluice_rtsp_write_header(&writer, "Session", "%s", client.session);
    if (transport)
        sluice_rtsp_write_transport(&writer, transport);
    int size = sluice_rtsp_write_end(&writer, NULL, 0);
    int error = size < 0 ? size : sluice_stream_write(client.stream, text, (size_t)size, NULL);
    while (error == 0 && ret_reply && (error = receive(ret_reply)) == 0) {
        if ((*ret_reply)->kind != SLUICE_RTSP_REPLY || (*ret_reply)->cseq != client.cseq)
            continue;
        if ((*ret_reply)->status == 200)
            return 0;
        fprintf(stderr, "rtsp_client: %s: %u\n", method, (*ret_reply)->status);
        return -EPROTO;
    }
    return error;
}

static void add_track(const sluice_sdp_media *media, const char *base) {
    const sluice_sdp_format *format = &media->formats[0];
    struct track *track = &client.tracks[client.track_count];
    sluice_rtp_unpacker_options options = {.size = sizeof options};
    sluice_codec_config config;
    if (client.track_count == MAX_TRACKS ||
        sluice_codec_read_rtpmap(&config, format->encoding, format->clock_rate, (uint8_t)format->channels, &options) <
            0 ||
        sluice_codec_read_fmtp(&config, format->fmtp, &options) < 0)
        return; /* a codec or a packetization that is not read */
    bool absolute = media->control.length > 7 && memcmp(media->control.text, "rtsp://", 7) == 0;
    const char *slash = absolute || base[strlen(base) - 1] == '/' ? "" : "/";
    int size = snprintf(track->url, MAX_URL, "%s%s%.*s", absolute ? "" : base, slash, (int)media->control.length,
                        media->control.text);
    if (size >= MAX_URL)
        return;
    snprintf(track->name, sizeof track->name, "%.*s", (int)media->type.length, media->type.text);
    if (sluice_rtp_unpacker_new((sluice_rtp_format)sluice_codec_rtp_format(config.codec), &options, &track->unpacker) ==
        0)
        client.track_count++;
}

static int describe(const char *url) {
    static char text[SLUICE_SDP_MAX_SIZE];
    static sluice_sdp sdp;
    char base[MAX_URL];
    sluice_rtsp_message *reply;
    int error = call("DESCRIBE", url, NULL, &reply);
    if (error < 0)
        return error;
    const sluice_http_header *header = sluice_rtsp_find(reply, "Content-Base");
    int size = header ? snprintf(base, sizeof base, "%.*s", (int)header->value.length, header->value.text)
                      : snprintf(base, sizeof base, "%s", url);
    if (size == 0 || size >= MAX_URL)
        return -EPROTO;
    error = sluice_sdp_read(text, sluice_slice_copy(&reply->payload, 0, text, sizeof text), &sdp);
    for (size_t i = 0; error == 0 && i < sdp.media_count; i++)
        add_track(&sdp.media[i], base);
    return error < 0 ? error : client.track_count > 0 ? 0 : -EOPNOTSUPP;
}

static int play(const char *url) {
    sluice_rtsp_message *message;
    sluice_rtsp_session session;
    int error = describe(url);
    for (int i = 0; error == 0 && i < client.track_count; i++) {
        const sluice_rtsp_pair channels = {2 * i, 2 * i + 1}, none = {-1, -1};
        const sluice_rtsp_transport transport = {
            .tcp = true, .interleaved = channels, .client_port = none, .server_port = none};
        error = call("SETUP", client.tracks[i].url, &transport, &message);
        if (error == 0 && sluice_rtsp_read_session(message, &session) == 0)
            snprintf(client.session, sizeof client.session, "%.*s", (int)session.id.length, session.id.text);
    }
    if (error == 0)
        error = call("PLAY", url, NULL, &message);
    while (error == 0)
        error = receive(&message); /* a server's request, which may be ignored */
    return error == -ECANCELED && client.left == 0 ? call("TEARDOWN", url, NULL, NULL) : error;
}

static int dial(const char *url) {
    sluice_rtsp_url parts;
    struct addrinfo *found;
    char host[256], port[8];
    if (sluice_rtsp_split_url((sluice_http_text){url, strlen(url)}, &parts) < 0)
        return -EINVAL;
    snprintf(host, sizeof host, "%.*s", (int)parts.host.length, parts.host.text);
    snprintf(port, sizeof port, "%u", parts.port);
    if (getaddrinfo(host, port, &(struct addrinfo){.ai_socktype = SOCK_STREAM}, &found) != 0)
        return -EHOSTUNREACH;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error = fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) < 0 ? -errno : 0;
    freeaddrinfo(found);
    return error < 0 ? error : fd;
}

int main(int argc, char **argv) {
    const sluice_stream_options options = {.size = sizeof options, .timeout_ms = 10000};
    sluice_pool *pool = NULL;
    sluice_loop *loop = NULL;
    int fd = argc < 2 ? -EINVAL : dial(argv[1]);
    client.left = argc > 2 ? atol(argv[2]) : 100;
    int error = fd < 0 ? fd : sluice_pool_new(NULL, &pool);
    if (error == 0 && (error = sluice_loop_new(pool, NULL, &loop)) == 0 &&
        (error = sluice_stream_new(loop, fd, &options, &client.stream)) == 0 &&
        (error = sluice_rtsp_new(NULL, &client.rtsp)) == 0)
        error = play(argv[1]);
    if (error)
        fprintf(stderr, "rtsp_client: %s\n", strerror(-error));
    for (int i = 0; i < client.track_count; i++)
        sluice_rtp_unpacker_free(client.tracks[i].unpacker);
    sluice_rtsp_free(client.rtsp);
    sluice_stream_free(client.stream);
    sluice_loop_free(loop);
    sluice_pool_free(pool);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
