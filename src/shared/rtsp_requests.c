#include "shared/rtsp_requests.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shared/writer_text.h"

enum { HEAD_MOST = 12 * 1024 }; /* the URL comes in it twice */

static const struct {
    sluice_rtsp_method method;
    const char *name;
} methods[] = {
    {SLUICE_RTSP_OPTIONS, "OPTIONS"},   {SLUICE_RTSP_DESCRIBE, "DESCRIBE"},
    {SLUICE_RTSP_ANNOUNCE, "ANNOUNCE"}, {SLUICE_RTSP_SETUP, "SETUP"},
    {SLUICE_RTSP_PLAY, "PLAY"},         {SLUICE_RTSP_RECORD, "RECORD"},
    {SLUICE_RTSP_TEARDOWN, "TEARDOWN"}, {SLUICE_RTSP_GET_PARAMETER, "GET_PARAMETER"},
};

const char *rtsp_requests_method(sluice_rtsp_method method) {
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i].method == method)
            return methods[i].name;
    return "OPTIONS";
}

static void write_transport(const struct rtsp_request *asked, sluice_rtsp_writer *request) {
    const sluice_rtsp_transport transport = {
        .tcp = true,
        .record = asked->record,
        .interleaved = {asked->channel, asked->channel + 1},
        .client_port = {-1, -1},
        .server_port = {-1, -1},
    };
    sluice_rtsp_write_transport(request, &transport);
}

static int write_login(struct rtsp_requests *requests, const char *method, sluice_rtsp_writer *request) {
    const sluice_http_text url = {requests->asked_url, strlen(requests->asked_url)};
    char value[RTSP_LOGIN_VALUE];
    int error = rtsp_login_write(&requests->login, method, url, value);
    if (!error && *value)
        sluice_rtsp_write_header(request, "Authorization", "%s", value);
    explicit_bzero(value, sizeof value);
    return error;
}

static int send_request(struct rtsp_requests *requests) {
    const struct rtsp_request *asked = &requests->asked;
    const char *method = rtsp_requests_method(asked->method);
    char buffer[HEAD_MOST];
    sluice_rtsp_writer request;
    sluice_rtsp_write_request(&request, buffer, sizeof buffer, method, requests->asked_url, ++requests->cseq);
    sluice_rtsp_write_header(&request, "User-Agent", "%s", requests->agent);
    if (*requests->session)
        sluice_rtsp_write_header(&request, "Session", "%s", requests->session);
    int error = write_login(requests, method, &request);
    if (asked->method == SLUICE_RTSP_DESCRIBE)
        sluice_rtsp_write_header(&request, "Accept", "application/sdp");
    else if (asked->method == SLUICE_RTSP_PLAY || asked->method == SLUICE_RTSP_RECORD)
        sluice_rtsp_write_header(&request, "Range", "npt=0.000-");
    else if (asked->method == SLUICE_RTSP_SETUP)
        write_transport(asked, &request);
    int length = sluice_rtsp_write_end(&request, asked->body ? "application/sdp" : NULL, asked->body_size);
    if (!error && length < 0)
        error = length;
    /* A head without its body would be the end of all that follows. */
    if (!error && sluice_writer_room(requests->writer) < (size_t)length + asked->body_size)
        error = -EAGAIN;
    if (!error)
        error = writer_text(requests->writer, buffer, (size_t)length);
    if (!error && asked->body)
        error = writer_text(requests->writer, asked->body, asked->body_size);
    explicit_bzero(buffer, sizeof buffer);
    return error;
}

int rtsp_requests_ask(struct rtsp_requests *requests, const struct rtsp_request *request) {
    requests->asked = *request;
    if (snprintf(requests->asked_url, sizeof requests->asked_url, "%s", request->url) > RTSP_URL)
        return -EMSGSIZE;
    requests->asked.url = requests->asked_url;
    rtsp_login_begin(&requests->login);
    return send_request(requests);
}

/* Some servers forget CSeq. */
bool rtsp_requests_is_answer(const struct rtsp_requests *requests, const sluice_rtsp_message *reply) {
    return requests->asked.method != SLUICE_RTSP_OTHER && (reply->cseq < 0 || reply->cseq == requests->cseq) &&
           reply->status >= 200;
}

int rtsp_requests_log_in(struct rtsp_requests *requests, const sluice_rtsp_message *reply) {
    int error = rtsp_login_take(&requests->login, reply->headers, reply->header_count);
    return error ? error : send_request(requests);
}

int rtsp_requests_answered(struct rtsp_requests *requests, const sluice_rtsp_message *reply) {
    sluice_rtsp_session session;
    requests->asked = (struct rtsp_request){.method = SLUICE_RTSP_OTHER};
    int error = sluice_rtsp_read_session(reply, &session);
    if (error == -ENOENT)
        return 0;
    if (error || session.id.length > RTSP_REQUESTS_SESSION)
        return -EPROTO;
    memcpy(requests->session, session.id.text, session.id.length);
    requests->session[session.id.length] = '\0';
    requests->timeout = session.timeout;
    return 0;
}

int rtsp_requests_reply(const struct rtsp_requests *requests, const sluice_rtsp_message *request) {
    sluice_rtsp_writer reply;
    char buffer[256];
    bool known = request->method_id == SLUICE_RTSP_OPTIONS || request->method_id == SLUICE_RTSP_GET_PARAMETER;
    sluice_rtsp_write_reply(&reply, buffer, sizeof buffer, request->cseq < 0 ? 400 : known ? 200 : 501, request->cseq);
    sluice_rtsp_write_header(&reply, "Public", "OPTIONS, GET_PARAMETER");
    int length = sluice_rtsp_write_end(&reply, NULL, 0);
    return length < 0 ? length : writer_text(requests->writer, buffer, (size_t)length);
}

void rtsp_requests_send_rtcp(const struct rtsp_requests *requests, uint8_t channel, const uint8_t *packet,
                             size_t size) {
    char frame[SLUICE_RTSP_INTERLEAVED_SIZE + RTSP_REQUESTS_RTCP];
    if (size == 0 || size > RTSP_REQUESTS_RTCP)
        return;
    sluice_rtsp_write_interleaved((uint8_t *)frame, channel, (uint16_t)size);
    memcpy(frame + SLUICE_RTSP_INTERLEAVED_SIZE, packet, size);
    (void)writer_text(requests->writer, frame, SLUICE_RTSP_INTERLEAVED_SIZE + size);
}
