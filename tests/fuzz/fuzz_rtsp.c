/* RTSP: messages of both ends, what their headers say, and resynchronisation. */
#include <string.h>

#include <sluice/rtsp.h>

#include "fuzz/fuzz.h"

static void show_auth(fuzz_run *run, sluice_http_text value) {
    sluice_rtsp_auth auth;
    int result;
    while ((result = sluice_rtsp_next_auth(&value, &auth)) == 1) {
        const sluice_http_text texts[] = {auth.scheme,    auth.realm,  auth.nonce,    auth.opaque,
                                          auth.algorithm, auth.qop,    auth.username, auth.uri,
                                          auth.response,  auth.cnonce, auth.nc};
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            fuzz_show_text(run, "auth", texts[i]);
        fuzz_show(run, "stale", auth.stale);
        char text[64];
        size_t length, user;
        result = sluice_rtsp_decode_basic(auth.credentials, text, sizeof text, &length, &user);
        fuzz_show(run, "basic", result);
        if (result == 0) {
            FUZZ_CHECK(user < length && text[user] == ':' && !memchr(text, ':', user));
            fuzz_show_bytes(run, "login", text, length);
        }
    }
    fuzz_show(run, "auth ends", result);
    FUZZ_CHECK(value.length == 0);
}

static void show_transports(fuzz_run *run, const sluice_rtsp_message *message) {
    sluice_rtsp_transport_walk walk = {0};
    sluice_rtsp_transport transport;
    int result;
    while ((result = sluice_rtsp_next_transport(message, &walk, &transport)) != 0) {
        fuzz_show(run, "transport", result);
        if (result != 1)
            continue;
        fuzz_show_text(run, "text", transport.text);
        fuzz_show_text(run, "profile", transport.profile);
        fuzz_show(run, "flags", transport.tcp << 2 | transport.multicast << 1 | transport.record);
        const sluice_rtsp_pair pairs[] = {transport.interleaved, transport.client_port, transport.server_port};
        fuzz_show_bytes(run, "pairs", pairs, sizeof pairs);
        fuzz_show(run, "ssrc", transport.has_ssrc ? (int64_t)transport.ssrc : -1);
        char text[200];
        sluice_rtsp_writer writer;
        sluice_rtsp_write_reply(&writer, text, sizeof text, 200, 1);
        sluice_rtsp_write_transport(&writer, &transport);
        int length = sluice_rtsp_write_end(&writer, NULL, 0);
        FUZZ_CHECK(length > 0);
        fuzz_show_bytes(run, "written", text, (size_t)length);
    }
}

static void show_headers(fuzz_run *run, const sluice_rtsp_message *message) {
    for (size_t i = 0; i < message->header_count; i++) {
        fuzz_show_text(run, "name", message->headers[i].name);
        fuzz_show_text(run, "value", message->headers[i].value);
        FUZZ_CHECK(message->headers[i].name.length > 0);
        if (message->headers[i].name.length > 12)
            show_auth(run, message->headers[i].value);
    }
    const sluice_http_header *type = sluice_rtsp_find(message, "Content-Type");
    fuzz_show(run, "type", type ? type - message->headers : -1);
    fuzz_show(run, "public", sluice_rtsp_public(message));
    sluice_rtsp_session session;
    int result = sluice_rtsp_read_session(message, &session);
    fuzz_show(run, "session", result);
    if (result == 0) {
        fuzz_show_text(run, "id", session.id);
        fuzz_show(run, "timeout", session.timeout);
    }
    sluice_rtsp_range range;
    result = sluice_rtsp_read_range(message, &range);
    fuzz_show(run, "range", result);
    if (result == 0) {
        fuzz_show(run, "now", range.now);
        fuzz_show(run, "start", range.start);
        fuzz_show(run, "end", range.end);
    }
    show_transports(run, message);
}

static void show_url(fuzz_run *run, sluice_http_text text) {
    sluice_rtsp_url url;
    int result = sluice_rtsp_split_url(text, &url);
    fuzz_show(run, "split", result);
    if (result != 0)
        return;
    const sluice_http_text parts[] = {url.scheme, url.user, url.host, url.path, url.query};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        fuzz_show_text(run, "part", parts[i]);
    fuzz_show(run, "port", url.port);
}

static int next(void *state, sluice_chain *chain, fuzz_run *run) {
    sluice_rtsp_message *message;
    int result = sluice_rtsp_next(state, chain, &message);
    if (result < 0)
        fuzz_show(run, "answer", sluice_rtsp_error_status(result));
    if (result != 1)
        return result;
    fuzz_show(run, "message", message->kind);
    fuzz_show(run, "skipped", (int64_t)message->skipped);
    fuzz_show_slice(run, "payload", &message->payload);
    if (message->kind == SLUICE_RTSP_INTERLEAVED) {
        fuzz_show(run, "channel", message->channel);
        FUZZ_CHECK(sluice_slice_length(&message->payload) <= UINT16_MAX);
    } else {
        fuzz_show(run, "version", message->version_major << 8 | message->version_minor);
        fuzz_show(run, "cseq", message->cseq);
        if (message->kind == SLUICE_RTSP_REQUEST) {
            fuzz_show_text(run, "method", message->method);
            fuzz_show(run, "method", message->method_id);
            fuzz_show_text(run, "url", message->url);
            show_url(run, message->url);
        } else {
            fuzz_show(run, "status", message->status);
            fuzz_show_text(run, "reason", message->reason);
        }
        show_headers(run, message);
    }
    fuzz_keep(run, &message->payload);
    return 1;
}

static size_t need(const void *state) {
    return sluice_rtsp_need(state);
}

void fuzz_target(fuzz_run *run) {
    static const sluice_rtsp_options options[] = {
        {.size = sizeof(sluice_rtsp_options)},
        {.size = sizeof(sluice_rtsp_options), .max_skip = 100},
        {.size = sizeof(sluice_rtsp_options), .max_skip = 1 << 20, .channels = 4},
        {.size = sizeof(sluice_rtsp_options),
         .max_head = 200,
         .max_url = 30,
         .max_headers = 5,
         .max_key = 12,
         .max_value = 40,
         .max_body = 50},
    };
    sluice_rtsp *rtsp;
    FUZZ_CHECK(sluice_rtsp_new(&options[run->settings[0] % 4], &rtsp) == 0);
    if (run->settings[1] > 0)
        sluice_rtsp_set_channels(rtsp, run->settings[1]);
    fuzz_drive(run, &(fuzz_framer){next, need}, rtsp);
    sluice_rtsp_free(rtsp);
}
