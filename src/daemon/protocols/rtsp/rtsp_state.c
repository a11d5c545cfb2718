#include "daemon/protocols/rtsp/rtsp_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    ALWAYS = SLUICE_RTSP_OPTIONS | SLUICE_RTSP_GET_PARAMETER | SLUICE_RTSP_SET_PARAMETER | SLUICE_RTSP_TEARDOWN,
    NEED_SESSION = SLUICE_RTSP_PLAY | SLUICE_RTSP_PAUSE | SLUICE_RTSP_RECORD | SLUICE_RTSP_TEARDOWN,
};

static const struct {
    sluice_rtsp_method method;
    const char *name;
} method_names[] = {
    {SLUICE_RTSP_OPTIONS, "OPTIONS"},
    {SLUICE_RTSP_DESCRIBE, "DESCRIBE"},
    {SLUICE_RTSP_ANNOUNCE, "ANNOUNCE"},
    {SLUICE_RTSP_SETUP, "SETUP"},
    {SLUICE_RTSP_PLAY, "PLAY"},
    {SLUICE_RTSP_PAUSE, "PAUSE"},
    {SLUICE_RTSP_RECORD, "RECORD"},
    {SLUICE_RTSP_TEARDOWN, "TEARDOWN"},
    {SLUICE_RTSP_GET_PARAMETER, "GET_PARAMETER"},
    {SLUICE_RTSP_SET_PARAMETER, "SET_PARAMETER"},
};

unsigned rtsp_methods(void) {
    unsigned methods = 0;
    for (size_t i = 0; i < sizeof method_names / sizeof *method_names; i++)
        methods |= method_names[i].method;
    return methods;
}

unsigned rtsp_methods_in(enum rtsp_state state) {
    switch (state) {
    case RTSP_INIT:
        return ALWAYS | SLUICE_RTSP_DESCRIBE | SLUICE_RTSP_ANNOUNCE | SLUICE_RTSP_SETUP;
    case RTSP_DESCRIBED:
        return ALWAYS | SLUICE_RTSP_DESCRIBE | SLUICE_RTSP_SETUP;
    case RTSP_TO_PLAY:
        return ALWAYS | SLUICE_RTSP_DESCRIBE | SLUICE_RTSP_SETUP | SLUICE_RTSP_PLAY | SLUICE_RTSP_PAUSE;
    case RTSP_PLAYING:
        return ALWAYS | SLUICE_RTSP_DESCRIBE | SLUICE_RTSP_PLAY | SLUICE_RTSP_PAUSE;
    case RTSP_ANNOUNCED:
        return ALWAYS | SLUICE_RTSP_SETUP;
    case RTSP_TO_RECORD:
        return ALWAYS | SLUICE_RTSP_SETUP | SLUICE_RTSP_RECORD | SLUICE_RTSP_PAUSE;
    case RTSP_RECORDING:
        return ALWAYS | SLUICE_RTSP_RECORD | SLUICE_RTSP_PAUSE;
    case RTSP_WAITING:
    case RTSP_ENDING:
        break;
    }
    return 0;
}

void rtsp_write_methods(unsigned methods, char text[RTSP_METHODS_TEXT]) {
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof method_names / sizeof *method_names; i++)
        if (methods & method_names[i].method)
            at += (size_t)snprintf(text + at, RTSP_METHODS_TEXT - at, "%s%s", at ? ", " : "", method_names[i].name);
}

static unsigned check_session(const char *session_id, const sluice_rtsp_message *request) {
    sluice_rtsp_session session;
    int error = sluice_rtsp_read_session(request, &session);
    if (error == -EPROTO)
        return 400;
    if (error == -ENOENT)
        return request->method_id & NEED_SESSION || (request->method_id == SLUICE_RTSP_SETUP && *session_id) ? 454 : 0;
    bool same = *session_id && session.id.length == strlen(session_id) &&
                memcmp(session.id.text, session_id, session.id.length) == 0;
    return same ? 0 : 454;
}

unsigned rtsp_admit(enum rtsp_state state, const char *session_id, const sluice_rtsp_message *request) {
    if (request->cseq < 0)
        return 400;
    if (request->method_id == SLUICE_RTSP_OTHER)
        return 501;
    if (!(request->method_id & rtsp_methods()))
        return 405;
    if (sluice_rtsp_find(request, "Require") || sluice_rtsp_find(request, "Proxy-Require"))
        return 551;
    unsigned status = check_session(session_id, request);
    if (status)
        return status;
    return request->method_id & rtsp_methods_in(state) ? 0 : 455;
}

static bool ends_with(sluice_http_text text, sluice_http_text end) {
    return text.length > end.length && end.length > 0 && text.text[text.length - end.length - 1] == '/' &&
           memcmp(text.text + text.length - end.length, end.text, end.length) == 0;
}

static bool is_same(sluice_http_text a, sluice_http_text b) {
    return a.length == b.length && memcmp(a.text, b.text, a.length) == 0;
}

static void cut_slash(sluice_http_text *text) {
    if (text->length > 0 && text->text[text->length - 1] == '/')
        text->length--;
}

/* Of "rtsp", "rtsps", "rtspu", and none. With TLS or without is the listener's choice. */
static bool is_over_tcp(sluice_http_text scheme) {
    return scheme.length == 0 || (scheme.text[scheme.length - 1] | 0x20) != 'u';
}

int rtsp_read_target(sluice_http_text url, const sluice_http_text *controls, size_t count,
                     struct rtsp_target *ret_target) {
    sluice_rtsp_url parts;
    if (sluice_rtsp_split_url(url, &parts) < 0 || !is_over_tcp(parts.scheme))
        return -EPROTO;
    sluice_http_text path = parts.path, all = path;
    if (parts.query.length > 0)
        all.length = (size_t)(parts.query.text + parts.query.length - path.text);
    cut_slash(&path);
    cut_slash(&all);
    struct rtsp_target target = {.track = -1};
    for (size_t i = 0; i < count && target.track < 0; i++) {
        if (is_same(url, controls[i]) || ends_with(all, controls[i]) || ends_with(path, controls[i]))
            target.track = (int)i;
        if (target.track >= 0 && ends_with(path, controls[i]))
            path.length -= controls[i].length + 1;
    }
    cut_slash(&path);
    if (path.length > 0)
        target.name = (sluice_http_text){path.text + 1, path.length - 1};
    *ret_target = target;
    return 0;
}
