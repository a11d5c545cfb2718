/* Session descriptions: of other programs and of sloppy cameras; broken, cut and damaged ones; and
 * what is written. */
#include <sluice/sdp.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/http_feed.h"
#include "support/vectors.h"

static bool is(sluice_http_text text, const char *expected) {
    return text.length == strlen(expected) && (text.length == 0 || memcmp(text.text, expected, text.length) == 0);
}

#define assert_text(text, expected) check_text(text, expected, __LINE__)

static void check_text(sluice_http_text text, const char *expected, int line) {
    if (!is(text, expected))
        fail_msg("line %d: \"%.*s\" instead of \"%s\"", line, (int)text.length, text.text, expected);
}

/* Reads a copy that ends where its memory does, so that the sanitizer sees what reads on. */
static int read_copy(const char *text, size_t length, sluice_sdp *ret_sdp, char **ret_copy) {
    char *copy = malloc(length ? length : 1);
    assert_non_null(copy);
    memcpy(copy, text, length);
    int error = sluice_sdp_read(copy, length, ret_sdp);
    if (error || !ret_copy)
        free(copy);
    else
        *ret_copy = copy;
    return error;
}

static int error_of(const char *text) {
    static sluice_sdp sdp;
    return read_copy(text, strlen(text), &sdp, NULL);
}

static void read_good(const char *text, sluice_sdp *ret_sdp) {
    assert_int_equal(sluice_sdp_read(text, strlen(text), ret_sdp), 0);
}

/* The description that ffmpeg has announced, by its Content-Length. */
static char *announced(const char *name) {
    size_t size;
    uint8_t *bytes = vector_read(name, &size);
    char *head = strstr((char *)bytes, "ANNOUNCE ");
    assert_non_null(head);
    size_t length = strtoul(strstr(head, "Content-Length: ") + strlen("Content-Length: "), NULL, 10);
    char *body = strstr(head, "\r\n\r\n") + 4;
    char *copy = strndup(body, length);
    free(bytes);
    return copy;
}

static void of_ffmpeg_h264_aac(void **state) {
    (void)state;
    char *text = announced("h264-aac.publish");
    sluice_sdp sdp;
    read_good(text, &sdp);
    assert_text(sdp.origin, "- 0 0 IN IP4 127.0.0.1");
    assert_text(sdp.name, "No Name");
    assert_text(sdp.connection, "IN IP4 127.0.0.1");
    assert_text(sdp.tool, "libavformat LIBAVFORMAT_VERSION");
    assert_text(sdp.control, "");
    assert_int_equal(sdp.media_count, 2);

    const sluice_sdp_media *video = &sdp.media[0], *audio = &sdp.media[1];
    assert_text(video->type, "video");
    assert_text(video->protocol, "RTP/AVP");
    assert_text(video->control, "streamid=0");
    assert_text(video->connection, "IN IP4 127.0.0.1");
    assert_int_equal(video->format_count, 1);
    assert_int_equal(video->formats[0].payload_type, 96);
    assert_text(video->formats[0].encoding, "H264");
    assert_int_equal(video->formats[0].clock_rate, 90000);
    assert_int_equal(video->formats[0].channels, 0);
    sluice_http_text value;
    assert_true(sluice_sdp_parameter(&video->formats[0], "sprop-parameter-sets", &value));
    assert_text(value, "Z2QACqzZQg2wEQAAAwABAAADABQPEiWW,aO+Pyw==");
    assert_true(sluice_sdp_parameter(&video->formats[0], "Profile-Level-ID", &value));
    assert_text(value, "64000A");
    uint32_t number;
    assert_true(sluice_sdp_number(&video->formats[0], "packetization-mode", 2, &number));
    assert_int_equal(number, 1);

    assert_text(audio->control, "streamid=1");
    assert_text(audio->formats[0].encoding, "MPEG4-GENERIC");
    assert_int_equal(audio->formats[0].clock_rate, 44100);
    assert_int_equal(audio->formats[0].channels, 1);
    assert_true(sluice_sdp_parameter(&audio->formats[0], "config", &value));
    uint8_t config[5];
    assert_int_equal(sluice_sdp_decode_hex(value, config, sizeof config), 5);
    assert_memory_equal(config, "\x12\x08\x56\xE5\x00", 5);
    assert_true(sluice_sdp_number(&audio->formats[0], "indexlength", 8, &number));
    assert_int_equal(number, 3);
    assert_false(sluice_sdp_parameter(&audio->formats[0], "length", &value));
    free(text);
}

static void of_ffmpeg_the_others(void **state) {
    (void)state;
    static const struct {
        const char *vector, *encoding;
        int16_t payload_type;
        uint32_t clock_rate, channels;
    } cases[] = {
        {"h265.publish", "H265", 96, 90000, 0},
        {"pcmu.publish", "PCMU", 0, 8000, 1}, /* without an rtpmap */
        {"pcma.publish", "PCMA", 8, 8000, 1},
        {"opus.publish", "opus", 96, 48000, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = announced(cases[i].vector);
        sluice_sdp sdp;
        read_good(text, &sdp);
        assert_int_equal(sdp.media_count, 1);
        const sluice_sdp_format *format = &sdp.media[0].formats[0];
        assert_text(format->encoding, cases[i].encoding);
        assert_int_equal(format->payload_type, cases[i].payload_type);
        assert_int_equal(format->clock_rate, cases[i].clock_rate);
        assert_int_equal(format->channels, cases[i].channels);
        free(text);
    }
}

/* As GStreamer's server describes: attributes of its own, a direction, a session range. */
static const char of_gst[] =
    "v=0\r\n"
    "o=- 1188340656180883 1 IN IP4 192.0.2.7\r\n"
    "s=Session streamed with GStreamer\r\n"
    "i=rtsp-server\r\n"
    "t=0 0\r\n"
    "a=tool:GStreamer\r\n"
    "a=type:broadcast\r\n"
    "a=control:*\r\n"
    "a=range:npt=now-\r\n"
    "m=video 0 RTP/AVP 96\r\n"
    "c=IN IP4 0.0.0.0\r\n"
    "b=AS:2097\r\n"
    "a=rtpmap:96 H264/90000\r\n"
    "a=framerate:29.97\r\n"
    "a=fmtp:96 packetization-mode=1;profile-level-id=42c01e;sprop-parameter-sets=Z0LAHtkA,aM4G4g==\r\n"
    "a=control:stream=0\r\n"
    "a=ts-refclk:local\r\n"
    "a=recvonly\r\n";

static void of_gstreamer(void **state) {
    (void)state;
    sluice_sdp sdp;
    read_good(of_gst, &sdp);
    assert_text(sdp.information, "rtsp-server");
    assert_text(sdp.control, "*");
    assert_text(sdp.range, "npt=now-");
    const sluice_sdp_media *video = &sdp.media[0];
    assert_text(video->range, "npt=now-");
    assert_text(video->connection, "IN IP4 0.0.0.0");
    assert_text(video->control, "stream=0");
    assert_int_equal(video->direction, SLUICE_SDP_RECVONLY);
    assert_int_equal((int)(video->frame_rate * 100 + 0.5), 2997);

    sluice_http_text rest = video->lines, name, value;
    char names[128] = "";
    while (sluice_sdp_next_attribute(&rest, &name, &value))
        sprintf(names + strlen(names), "%.*s ", (int)name.length, name.text);
    assert_string_equal(names, "rtpmap framerate fmtp control ts-refclk recvonly ");
    rest = sdp.lines;
    assert_int_equal(sluice_sdp_next_attribute(&rest, &name, &value), 1);
    assert_text(name, "tool");
    assert_text(value, "GStreamer");
}

/* What cameras send: no end of the last line, LF or CR, blanks, other types, several formats, a
 * NUL, no o= s= t=. */
static void of_cameras(void **state) {
    (void)state;
    sluice_sdp sdp;
    sluice_http_text value;
    uint32_t number;
    read_good("v=0\nm=video 0 RTP/AVP 96", &sdp);
    assert_int_equal(sdp.media_count, 1);
    assert_text(sdp.media[0].formats[0].encoding, "");
    assert_text(sdp.origin, "");

    read_good("\r\n\nv=0\rs=\ro=x\rX=odd\rm=audio 49170/2  RTP/AVP  8 \ta=lonely\ra=rtpmap:8 PCMA/16000\r", &sdp);
    assert_int_equal(sdp.media[0].port, 49170);
    assert_text(sdp.media[0].formats[0].encoding, "PCMA");

    read_good("v=0\r\n"
              "m=video 0 RTP/AVP 96 97 26 96\r\n"
              "a=rtpmap:97 \t H265/90000 \r\n"
              "a=rtpmap:96 H264/90000/0\r\n"
              "a=rtpmap:96 H264/0\r\n"
              "a=rtpmap:96 \r\n"
              "a=rtpmap:96 h264/90000\r\n"
              "a=rtpmap:96 VP8/90000\r\n"
              "a=rtpmap:99 VP9/90000\r\n"
              "a=fmtp:96 ; PACKETIZATION-MODE = 1 ;sprop-parameter-sets=Z0I=,aM4=; flag;packetization-mode=0;\r\n"
              "a=fmtp:96 sprop-parameter-sets=other\r\n"
              "a=fmtp\r\na=\r\n"
              "a=framerate:a\r\na=framerate:1.2.3\r\na=framerate: 12 \r\n"
              "a=control:first\r\na=control:second\r\n"
              "a=sendonly\r\na=recvonly\r\n",
              &sdp);
    const sluice_sdp_media *media = &sdp.media[0];
    assert_int_equal(media->format_count, 3);
    assert_text(media->formats[0].encoding, "h264");
    assert_text(media->formats[1].encoding, "H265");
    assert_text(media->formats[2].encoding, "JPEG");
    assert_true(sluice_sdp_number(&media->formats[0], "packetization-mode", 2, &number));
    assert_int_equal(number, 1);
    assert_true(sluice_sdp_parameter(&media->formats[0], "sprop-parameter-sets", &value));
    assert_text(value, "Z0I=,aM4=");
    assert_true(sluice_sdp_parameter(&media->formats[0], "flag", &value));
    assert_text(value, "");
    assert_false(sluice_sdp_number(&media->formats[0], "sprop-parameter-sets", 9, &number));
    assert_text(media->control, "first");
    assert_int_equal(media->direction, SLUICE_SDP_SENDONLY);
    assert_int_equal((int)media->frame_rate, 12);

    assert_int_equal(sluice_sdp_read("v=0\r\ns=x\r\n\0", 11, &sdp), 0);
    assert_text(sdp.name, "x");
}

/* No media; a kind that is not known; two of a kind; the session's words for media that say nothing
 * themselves. */
static void media_of_any_number_and_kind(void **state) {
    (void)state;
    sluice_sdp sdp;
    read_good("v=0\r\ns=-\r\n", &sdp);
    assert_int_equal(sdp.media_count, 0);

    read_good("v=0\r\nc=IN IP6 ::\r\na=inactive\r\na=sendonly\r\na=control:rtsp://h/x\r\n"
              "m=application 0 RTP/AVP 107\r\na=rtpmap:107 vnd.onvif.metadata/90000\r\n"
              "m=video 0 RTP/AVP 96\r\na=sendrecv\r\n"
              "m=video 0 RTP/AVP 96\r\nc=IN IP4 0.0.0.0\r\n"
              "m=text 0 udp t140\r\n",
              &sdp);
    assert_int_equal(sdp.media_count, 4);
    assert_text(sdp.control, "rtsp://h/x");
    assert_text(sdp.media[0].type, "application");
    assert_int_equal(sdp.media[0].formats[0].channels, 0);
    assert_int_equal(sdp.media[0].direction, SLUICE_SDP_INACTIVE);
    assert_int_equal(sdp.media[1].direction, SLUICE_SDP_SENDRECV);
    assert_text(sdp.media[1].connection, "IN IP6 ::");
    assert_text(sdp.media[2].connection, "IN IP4 0.0.0.0");
    assert_int_equal(sdp.media[2].direction, SLUICE_SDP_INACTIVE);
    assert_int_equal(sdp.media[3].formats[0].payload_type, -1);
    assert_text(sdp.media[3].formats[0].name, "t140");
}

static void what_is_no_description(void **state) {
    (void)state;
    assert_int_equal(error_of(""), -EPROTO);
    assert_int_equal(error_of("\r\n\r\n"), -EPROTO);
    assert_int_equal(error_of("o=- 0 0 IN IP4 1.2.3.4\r\nv=0\r\n"), -EPROTO);
    assert_int_equal(error_of("v=1\r\n"), -EPROTONOSUPPORT);
    assert_int_equal(error_of("v=\r\n"), -EPROTONOSUPPORT);
    assert_int_equal(error_of("v=0\r\nv=0\r\n"), -EPROTO);
    assert_int_equal(error_of("v=0\r\nx\r\n"), -EPROTO);
    assert_int_equal(error_of("v=0\r\nno line\r\n"), -EPROTO);
    static const char *const bad_media[] = {"",
                                            " ",
                                            "video",
                                            "video 0",
                                            "video 0 RTP/AVP",
                                            "video 0 RTP/AVP ",
                                            "video -1 RTP/AVP 96",
                                            "video 65536 RTP/AVP 96",
                                            "video x RTP/AVP 96",
                                            "video /2 RTP/AVP 96"};
    for (size_t i = 0; i < sizeof bad_media / sizeof *bad_media; i++) {
        char text[64];
        snprintf(text, sizeof text, "v=0\r\nm=%s\r\n", bad_media[i]);
        assert_int_equal(error_of(text), -EPROTO);
    }
    sluice_sdp sdp = {.media_count = 77};
    assert_int_equal(sluice_sdp_read("v=0\0s=x\r\n", 9, &sdp), -EPROTO);
    assert_int_equal(sdp.media_count, 77);
}

static char *repeat(const char *begin, const char *part, size_t count) {
    char *text = malloc(strlen(begin) + strlen(part) * count + 1);
    assert_non_null(text);
    char *at = stpcpy(text, begin);
    for (size_t i = 0; i < count; i++)
        at = stpcpy(at, part);
    return text;
}

static void check_limit(const char *begin, const char *part, size_t most) {
    char *fits = repeat(begin, part, most), *over = repeat(begin, part, most + 1);
    assert_int_equal(error_of(fits), 0);
    assert_int_equal(error_of(over), -EMSGSIZE);
    free(fits);
    free(over);
}

static void limits(void **state) {
    (void)state;
    check_limit("v=0\n", "m=video 0 RTP/AVP 96\n", SLUICE_SDP_MAX_MEDIA);
    check_limit("v=0\n", "a=x\n", SLUICE_SDP_MAX_LINES - 1);
    check_limit("v=0\na=", "x", SLUICE_SDP_MAX_LINE - 2);
    check_limit("v=0\n", "\n", SLUICE_SDP_MAX_SIZE - 4);
    char *text = repeat("v=0\nm=video 0 RTP/AVP 0 1 2 3 4 5 6 7 8 9", "", 0);
    sluice_sdp sdp;
    read_good(text, &sdp);
    assert_int_equal(sdp.media[0].format_count, SLUICE_SDP_MAX_FORMATS);
    free(text);
}

/* Every text of a result lies in what was read. */
static void check_inside(const sluice_sdp *sdp, const char *text, size_t length) {
    const sluice_http_text texts[] = {sdp->origin, sdp->name,    sdp->information, sdp->connection,
                                      sdp->tool,   sdp->control, sdp->range,       sdp->lines};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_true(texts[i].length == 0 ||
                    (texts[i].text >= text && texts[i].text + texts[i].length <= text + length));
    for (size_t i = 0; i < sdp->media_count; i++) {
        const sluice_sdp_media *media = &sdp->media[i];
        assert_in_range(media->format_count, 1, SLUICE_SDP_MAX_FORMATS);
        sluice_http_text rest = media->lines, name, value;
        while (sluice_sdp_next_attribute(&rest, &name, &value))
            assert_true(name.text >= text && value.text + value.length <= text + length);
        for (size_t k = 0; k < media->format_count; k++) {
            uint8_t bytes[16];
            assert_in_range(media->formats[k].payload_type + 1, 0, 128);
            if (sluice_sdp_parameter(&media->formats[k], "config", &value))
                (void)sluice_sdp_decode_hex(value, bytes, sizeof bytes);
            if (sluice_sdp_parameter(&media->formats[k], "sprop-parameter-sets", &value))
                (void)sluice_sdp_decode_base64(value, bytes, sizeof bytes);
        }
    }
}

static void every_truncation(void **state) {
    (void)state;
    for (size_t length = 0; length < sizeof of_gst; length++) {
        sluice_sdp sdp;
        char *copy;
        if (read_copy(of_gst, length, &sdp, &copy) == 0) {
            check_inside(&sdp, copy, length);
            free(copy);
        }
    }
}

static void damage(void **state) {
    (void)state;
    static const char pieces[] = "\r\n=:;/ ,\0v0amox9-\xFF";
    char *base = announced("h264-aac.publish");
    size_t length = strlen(base), read = 0;
    uint64_t random = 20260521;
    for (int round = 0; round < 20000; round++) {
        char *text = strndup(base, length);
        for (uint64_t n = http_feed_random(&random) % 6 + 1; n > 0; n--)
            text[http_feed_random(&random) % length] = pieces[http_feed_random(&random) % (sizeof pieces - 1)];
        sluice_sdp sdp;
        char *copy;
        if (read_copy(text, length, &sdp, &copy) == 0) {
            check_inside(&sdp, copy, length);
            free(copy);
            read++;
        }
        free(text);
    }
    assert_in_range(read, 1000, 19999);
    free(base);
}

static void binary_parameters(void **state) {
    (void)state;
    uint8_t bytes[4];
    char text[16];
    const sluice_http_text base64 = {" aM4G4g== ", 10}, bare = {"aM4G4g", 6}, bad = {"aM4G4", 5}, hex = {"00fF1a", 6};
    assert_int_equal(sluice_sdp_decode_base64(base64, bytes, 4), 4);
    assert_memory_equal(bytes, "\x68\xCE\x06\xE2", 4);
    assert_int_equal(sluice_sdp_decode_base64(base64, bytes, 3), -EMSGSIZE);
    assert_int_equal(sluice_sdp_decode_base64(bare, bytes, 4), 4);
    assert_int_equal(sluice_sdp_decode_base64(bad, bytes, 4), -EPROTO);
    assert_int_equal(sluice_sdp_decode_hex(hex, bytes, 3), 3);
    assert_memory_equal(bytes, "\x00\xFF\x1A", 3);
    assert_int_equal(sluice_sdp_decode_hex(hex, bytes, 2), -EMSGSIZE);
    assert_int_equal(sluice_sdp_decode_hex((sluice_http_text){"00f", 3}, bytes, 4), -EPROTO);
    assert_int_equal(sluice_sdp_decode_hex((sluice_http_text){"0g", 2}, bytes, 4), -EPROTO);
    assert_int_equal(sluice_sdp_encode_base64((const uint8_t *)"\x68\xCE\x06\xE2", 4, text, 9), 8);
    assert_string_equal(text, "aM4G4g==");
    assert_int_equal(sluice_sdp_encode_base64((const uint8_t *)"\x68\xCE\x06\xE2", 4, text, 8), -EMSGSIZE);
    assert_int_equal(sluice_sdp_encode_hex((const uint8_t *)"\x12\x08\xFE", 3, text, 7), 6);
    assert_string_equal(text, "1208FE");
    assert_int_equal(sluice_sdp_encode_hex((const uint8_t *)"\x12\x08\xFE", 3, text, 6), -EMSGSIZE);
}

static int write_one(char *buffer, size_t size) {
    sluice_sdp_writer writer;
    sluice_sdp_write_session(&writer, buffer, size, 12345678901234, 2, "2001:db8::1", "live/cam", "sluiced");
    sluice_sdp_write_attribute(&writer, "range", "npt=now-");
    sluice_sdp_write_attribute(&writer, "control", "*");
    sluice_sdp_write_media(&writer, "video", 96, "H264", 90000, 0);
    sluice_sdp_write_attribute(&writer, "fmtp", "%d %s", 96, "packetization-mode=1");
    sluice_sdp_write_attribute(&writer, "control", "trackID=%d", 0);
    sluice_sdp_write_media(&writer, "audio", 97, "MPEG4-GENERIC", 48000, 2);
    sluice_sdp_write_attribute(&writer, "control", "trackID=%d", 1);
    sluice_sdp_write_attribute(&writer, "recvonly", NULL);
    return sluice_sdp_write_end(&writer);
}

static void what_is_written_is_read_the_same(void **state) {
    (void)state;
    char buffer[1024], small[1024];
    sluice_sdp sdp;
    int length = write_one(buffer, sizeof buffer);
    assert_in_range(length, 100, sizeof buffer);
    assert_int_equal(sluice_sdp_read(buffer, (size_t)length, &sdp), 0);
    assert_text(sdp.origin, "- 12345678901234 2 IN IP6 2001:db8::1");
    assert_text(sdp.name, "live/cam");
    assert_text(sdp.connection, "IN IP6 ::");
    assert_text(sdp.tool, "sluiced");
    assert_text(sdp.control, "*");
    assert_int_equal(sdp.media_count, 2);
    assert_text(sdp.media[0].formats[0].fmtp, "packetization-mode=1");
    assert_text(sdp.media[0].control, "trackID=0");
    assert_text(sdp.media[1].formats[0].encoding, "MPEG4-GENERIC");
    assert_int_equal(sdp.media[1].formats[0].channels, 2);
    assert_int_equal(sdp.media[1].direction, SLUICE_SDP_RECVONLY);
    for (size_t size = 0; size <= (size_t)length; size++)
        assert_int_equal(write_one(small, size), -EMSGSIZE);
    assert_int_equal(write_one(small, (size_t)length + 1), length);
}

static void what_is_not_written(void **state) {
    (void)state;
    static const struct {
        const char *address, *name, *attribute, *value, *encoding;
        uint8_t payload_type;
    } cases[] = {
        {"1.2.3.4 x", "-", "a", "b", "H264", 96},  {"1.2.3.4", "a\r\nb", "a", "b", "H264", 96},
        {"1.2.3.4", "", "a", "b", "H264", 96},     {"1.2.3.4", "-", "a b", "b", "H264", 96},
        {"1.2.3.4", "-", "a", "b\nc", "H264", 96}, {"1.2.3.4", "-", "a", "b", "H 264", 96},
        {"1.2.3.4", "-", "a", "b", "H264", 128},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char buffer[512];
        sluice_sdp_writer writer;
        sluice_sdp_write_session(&writer, buffer, sizeof buffer, 1, 1, cases[i].address, cases[i].name, NULL);
        sluice_sdp_write_attribute(&writer, cases[i].attribute, "%s", cases[i].value);
        sluice_sdp_write_media(&writer, "video", cases[i].payload_type, cases[i].encoding, 90000, 0);
        assert_int_equal(sluice_sdp_write_end(&writer), -EINVAL);
    }
}

/* RFC 3551, tables 4 and 5: what a payload type is without an rtpmap. */
static void static_payload_types(void **state) {
    (void)state;
    static const struct {
        const char *encoding;
        uint32_t rate, channels;
    } types[36] = {
        [0] = {"PCMU", 8000, 1},   [3] = {"GSM", 8000, 1},    [4] = {"G723", 8000, 1},   [5] = {"DVI4", 8000, 1},
        [6] = {"DVI4", 16000, 1},  [7] = {"LPC", 8000, 1},    [8] = {"PCMA", 8000, 1},   [9] = {"G722", 8000, 1},
        [10] = {"L16", 44100, 2},  [11] = {"L16", 44100, 1},  [12] = {"QCELP", 8000, 1}, [13] = {"CN", 8000, 1},
        [14] = {"MPA", 90000, 1},  [15] = {"G728", 8000, 1},  [16] = {"DVI4", 11025, 1}, [17] = {"DVI4", 22050, 1},
        [18] = {"G729", 8000, 1},  [25] = {"CelB", 90000, 0}, [26] = {"JPEG", 90000, 0}, [28] = {"nv", 90000, 0},
        [31] = {"H261", 90000, 0}, [32] = {"MPV", 90000, 0},  [33] = {"MP2T", 90000, 0}, [34] = {"H263", 90000, 0},
    };
    for (size_t type = 0; type < sizeof types / sizeof *types; type++) {
        char text[64];
        sluice_sdp sdp;
        bool video = types[type].encoding && types[type].channels == 0;
        sprintf(text, "v=0\nm=%s 0 RTP/AVP %zu\n", video ? "video" : "audio", type);
        read_good(text, &sdp);
        const sluice_sdp_format *format = &sdp.media[0].formats[0];
        assert_int_equal(format->payload_type, type);
        assert_text(format->encoding, types[type].encoding ? types[type].encoding : "");
        assert_int_equal(format->clock_rate, types[type].rate);
        if (types[type].encoding)
            assert_int_equal(format->channels, types[type].channels);
    }
}

/* Found by fuzzing: the walk gave "a=" and "a=:value" as attributes with an empty name. */
static void an_attribute_without_a_name_is_none(void **state) {
    (void)state;
    sluice_sdp sdp;
    sluice_http_text name, value;
    read_good("v=0\na=\na=:value\na= \na=tool:t\na= :x\n", &sdp);
    sluice_http_text rest = sdp.lines;
    assert_int_equal(sluice_sdp_next_attribute(&rest, &name, &value), 1);
    assert_text(name, "tool");
    assert_text(value, "t");
    assert_int_equal(sluice_sdp_next_attribute(&rest, &name, &value), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_ffmpeg_h264_aac),
        cmocka_unit_test(of_ffmpeg_the_others),
        cmocka_unit_test(of_gstreamer),
        cmocka_unit_test(of_cameras),
        cmocka_unit_test(media_of_any_number_and_kind),
        cmocka_unit_test(what_is_no_description),
        cmocka_unit_test(limits),
        cmocka_unit_test(every_truncation),
        cmocka_unit_test(damage),
        cmocka_unit_test(binary_parameters),
        cmocka_unit_test(what_is_written_is_read_the_same),
        cmocka_unit_test(what_is_not_written),
        cmocka_unit_test(static_payload_types),
        cmocka_unit_test(an_attribute_without_a_name_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
