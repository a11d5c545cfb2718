/* SDP: what is read, what is made of it for a decoder, and that what is written is read as it was
 * meant. */
#include <stdlib.h>
#include <string.h>

#include <sluice/codec.h>
#include <sluice/sdp.h>

#include "fuzz/fuzz.h"

/* The texts are parts of this. */
typedef struct description {
    const char *text;
    size_t length;
} description;

static void show_part(fuzz_run *run, const description *in, const char *what, sluice_http_text text) {
    if (text.length > 0)
        FUZZ_CHECK(text.text >= in->text && text.text + text.length <= in->text + in->length);
    fuzz_show_text(run, what, text);
}

static void show_attributes(fuzz_run *run, const description *in, sluice_http_text rest) {
    sluice_http_text name, value;
    int result;
    while ((result = sluice_sdp_next_attribute(&rest, &name, &value)) == 1) {
        FUZZ_CHECK(name.length > 0);
        show_part(run, in, "attribute", name);
        show_part(run, in, "value", value);
    }
    FUZZ_CHECK(result == 0 && sluice_sdp_next_attribute(&rest, &name, &value) == 0);
}

static void show_decoded(fuzz_run *run, sluice_http_text text) {
    uint8_t bytes[100];
    ssize_t n = sluice_sdp_decode_base64(text, bytes, sizeof bytes);
    fuzz_show(run, "base64", n);
    if (n > 0)
        fuzz_show_bytes(run, "base64", bytes, (size_t)n);
    n = sluice_sdp_decode_hex(text, bytes, sizeof bytes);
    fuzz_show(run, "hex", n);
    if (n > 0)
        fuzz_show_bytes(run, "hex", bytes, (size_t)n);
}

static void show_config(fuzz_run *run, const sluice_sdp_format *format) {
    sluice_codec_config config;
    sluice_rtp_unpacker_options options = {.size = sizeof options};
    int result = sluice_codec_read_rtpmap(&config, format->encoding, format->clock_rate, (uint8_t)format->channels,
                                          &options);
    fuzz_show(run, "codec", result);
    if (result != 0)
        return;
    fuzz_show(run, "fmtp", sluice_codec_read_fmtp(&config, format->fmtp, &options));
    fuzz_show(run, "complete", sluice_codec_is_complete(&config));
    fuzz_show(run, "sets", config.set_count);
    fuzz_show_bytes(run, "config", config.bytes, config.size);
    fuzz_show(run, "latm", options.latm);
}

static void show_format(fuzz_run *run, const description *in, const sluice_sdp_format *format) {
    static const char *const names[] = {"config", "sprop-parameter-sets", "mode", "packetization-mode"};
    show_part(run, in, "format", format->name);
    fuzz_show(run, "type", format->payload_type);
    fuzz_show_text(run, "encoding", format->encoding);
    fuzz_show(run, "rate", format->clock_rate);
    fuzz_show(run, "channels", format->channels);
    show_part(run, in, "fmtp", format->fmtp);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sluice_http_text value;
        uint32_t number = 0;
        if (!sluice_sdp_parameter(format, names[i], &value))
            continue;
        show_part(run, in, names[i], value);
        show_decoded(run, value);
        fuzz_show(run, "number", sluice_sdp_number(format, names[i], 70000, &number));
        FUZZ_CHECK(number <= 70000);
    }
    show_config(run, format);
}

/* What is read of what has been written. */
static void check_written(const sluice_sdp *sdp) {
    static char text[SLUICE_SDP_MAX_SIZE];
    static sluice_sdp again;
    sluice_sdp_writer writer;
    sluice_sdp_write_session(&writer, text, sizeof text, 1, 1, "192.0.2.1", "-", NULL);
    size_t count = 0;
    for (size_t i = 0; i < sdp->media_count; i++) {
        const sluice_sdp_format *format = &sdp->media[i].formats[0];
        char encoding[40];
        if (format->payload_type < 96 || format->encoding.length == 0 || format->encoding.length >= sizeof encoding ||
            format->clock_rate == 0)
            continue;
        memcpy(encoding, format->encoding.text, format->encoding.length);
        encoding[format->encoding.length] = '\0';
        sluice_sdp_write_media(&writer, "video", (uint8_t)format->payload_type, encoding, format->clock_rate, 1);
        count++;
    }
    int length = sluice_sdp_write_end(&writer);
    if (length < 0) /* an encoding that cannot be written */
        return;
    FUZZ_CHECK(sluice_sdp_read(text, (size_t)length, &again) == 0 && again.media_count == count);
    for (size_t i = 0; i < count; i++)
        FUZZ_CHECK(again.media[i].formats[0].encoding.length > 0 && again.media[i].formats[0].clock_rate > 0);
}

void fuzz_target(fuzz_run *run) {
    static sluice_sdp sdp;
    description in = {fuzz_copy(run->bytes, run->size), run->size};
    int result = sluice_sdp_read(in.text, in.length, &sdp);
    fuzz_show(run, "result", result);
    if (result == 0) {
        const sluice_http_text texts[] = {sdp.origin, sdp.name,    sdp.information, sdp.connection,
                                          sdp.tool,   sdp.control, sdp.range,       sdp.lines};
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            show_part(run, &in, "session", texts[i]);
        fuzz_show(run, "direction", sdp.direction);
        show_attributes(run, &in, sdp.lines);
        for (size_t i = 0; i < sdp.media_count; i++) {
            const sluice_sdp_media *media = &sdp.media[i];
            const sluice_http_text parts[] = {media->type,    media->protocol, media->connection,
                                              media->control, media->range,    media->lines};
            for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
                show_part(run, &in, "media", parts[k]);
            fuzz_show(run, "port", media->port);
            fuzz_show(run, "direction", media->direction);
            fuzz_show_bytes(run, "frame rate", &media->frame_rate, sizeof media->frame_rate);
            show_attributes(run, &in, media->lines);
            FUZZ_CHECK(media->format_count > 0);
            for (size_t k = 0; k < media->format_count; k++)
                show_format(run, &in, &media->formats[k]);
        }
        check_written(&sdp);
    }
    free((void *)in.text);
}
