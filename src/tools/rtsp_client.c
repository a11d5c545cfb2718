#include "tools/rtsp_client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    ALIVE_MS = 25000, /* a session lasts a minute where nothing else is said */
    /* bytes between two messages that belong to none, as some cameras put there */
    SKIP_MOST = 16 * 1024
};

void rtsp_client_end(struct rtsp_client *client, int error, const char *reason) {
    if (client->ended)
        return;
    client->ended = true;
    client->events->ended(client, error, reason, client->user);
    transport_close(&client->transport);
}

__attribute__((format(printf, 3, 4))) static void fail(struct rtsp_client *client, int error, const char *format, ...) {
    char reason[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    rtsp_client_end(client, error, reason);
}

void rtsp_client_ask(struct rtsp_client *client, const struct rtsp_request *request) {
    client->alive_at = sluice_loop_now(sluice_conn_loop(client->conn));
    int error = rtsp_requests_ask(&client->requests, request);
    if (error == -EMSGSIZE)
        rtsp_client_end(client, error, "a request is too long");
    else if (error)
        fail(client, error, "%s cannot be sent: %s", rtsp_requests_method(request->method), strerror(-error));
}

static void on_challenge(struct rtsp_client *client, const sluice_rtsp_message *reply) {
    const char *method = rtsp_requests_method(client->requests.asked.method);
    int error = rtsp_requests_log_in(&client->requests, reply);
    if (error == -ENOKEY)
        fail(client, error, "%s answered 401: the URL needs a name and a password", method);
    else if (error == -EACCES)
        fail(client, error, "%s answered 401: wrong name or password", method);
    else if (error)
        fail(client, error, "%s answered 401: %s", method, strerror(-error));
}

static void on_good_reply(struct rtsp_client *client, const sluice_rtsp_message *reply) {
    sluice_rtsp_method asked = client->requests.asked.method;
    bool keeps = *client->requests.session && (asked == SLUICE_RTSP_GET_PARAMETER || asked == SLUICE_RTSP_OPTIONS);
    if (asked == SLUICE_RTSP_OPTIONS)
        client->has_get_parameter = sluice_rtsp_public(reply) & SLUICE_RTSP_GET_PARAMETER;
    if (rtsp_requests_answered(&client->requests, reply) < 0) {
        rtsp_client_end(client, -EBADMSG, "malformed Session");
        return;
    }
    if (client->requests.timeout > 1 && client->requests.timeout * 500u < client->alive_ms)
        client->alive_ms = client->requests.timeout * 500u;
    if (asked == SLUICE_RTSP_TEARDOWN)
        rtsp_client_end(client, 0, "ended");
    else if (!keeps)
        client->events->answered(client, asked, reply, client->user);
}

static void on_reply(struct rtsp_client *client, const sluice_rtsp_message *reply) {
    if (!rtsp_requests_is_answer(&client->requests, reply))
        return;
    sluice_rtsp_method asked = client->requests.asked.method;
    bool keeps = asked == SLUICE_RTSP_OPTIONS || asked == SLUICE_RTSP_GET_PARAMETER;
    if (reply->status == 401)
        on_challenge(client, reply);
    else if (reply->status < 300 || (keeps && (reply->status == 405 || reply->status == 501)))
        on_good_reply(client, reply);
    else
        fail(client, -ECONNREFUSED, "%s answered %u %s", rtsp_requests_method(asked), reply->status,
             sluice_rtsp_reason(reply->status));
}

static void answer(struct rtsp_client *client, const sluice_rtsp_message *request) {
    int error = rtsp_requests_reply(&client->requests, request);
    if (error)
        rtsp_client_end(client, error, "the server asks on and takes no answers");
}

static void on_data(sluice_conn *conn, void *user) {
    struct rtsp_client *client = user;
    sluice_chain *chain = transport_chain(&client->transport);
    sluice_rtsp_message *message;
    int result = 0;
    (void)conn;
    while (!client->ended && (result = sluice_rtsp_next(client->framer, chain, &message)) > 0) {
        if (message->kind == SLUICE_RTSP_REPLY)
            on_reply(client, message);
        else if (message->kind == SLUICE_RTSP_REQUEST)
            answer(client, message);
        else
            client->events->frame(client, message, client->user);
    }
    if (client->ended)
        return;
    if (result < 0)
        fail(client, -EBADMSG, "malformed RTSP, or over a limit: %s", strerror(-result));
    else
        transport_set_need(&client->transport, sluice_rtsp_need(client->framer));
}

/* Whether TEARDOWN is under way: the end has been asked for. */
static bool is_leaving(const struct rtsp_client *client) {
    return client->requests.asked.method == SLUICE_RTSP_TEARDOWN;
}

static void on_end(sluice_conn *conn, int error, void *user) {
    struct rtsp_client *client = user;
    char text[TRANSPORT_REASON];
    (void)conn;
    const bool leaving = is_leaving(client);
    if (error == -ETIMEDOUT)
        rtsp_client_end(client, leaving ? 0 : error, "nothing has come from the server for too long");
    else
        rtsp_client_end(client, leaving ? 0 : error,
                        error ? transport_reason(&client->transport, error, text)
                              : "the server has ended the connection");
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    const struct rtsp_client *client = user;
    (void)conn;
    return sluice_writer_gather(client->writer, iov, max);
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct rtsp_client *client = user;
    (void)conn;
    sluice_writer_sent(client->writer, bytes);
    if (client->events->sent && !client->ended)
        client->events->sent(client, client->user);
}

static void on_closed(sluice_conn *conn, void *user) {
    struct rtsp_client *client = user;
    (void)conn;
    /* The loop is being freed. */
    if (!client->ended) {
        client->ended = true;
        client->events->ended(client, is_leaving(client) ? 0 : -ECANCELED, "stopped", client->user);
    }
    client->events->closed(client->user);
    sluice_writer_free(client->writer);
    sluice_rtsp_free(client->framer);
    explicit_bzero(client, sizeof *client);
    free(client);
}

static const sluice_conn_events events = {
    .size = sizeof events,
    .on_data = on_data,
    .on_end = on_end,
    .on_gather = on_gather,
    .on_sent = on_sent,
    .on_closed = on_closed,
};

int rtsp_client_new(sluice_conn *conn, const struct target *target, size_t limit,
                    const struct rtsp_client_events *client_events, void *user, struct rtsp_client **ret_client) {
    const sluice_rtsp_options limits = {
        .size = sizeof limits, .max_body = SLUICE_SDP_MAX_SIZE, .max_skip = SKIP_MOST, .channels = 4};
    struct rtsp_client *client = malloc(sizeof *client);
    if (!client)
        return -ENOMEM;
    *client = (struct rtsp_client){
        .events = client_events, .user = user, .target = *target, .alive_ms = ALIVE_MS, .ended = true};
    if (*client->target.user)
        client->requests.login = (struct rtsp_login){.user = client->target.user, .password = client->target.password};
    int error = target_url(target, client->url);
    if (!error)
        error = sluice_rtsp_new(&limits, &client->framer);
    if (!error)
        error = transport_begin(&client->transport, conn, target, &events, client);
    if (error) {
        sluice_rtsp_free(client->framer);
        free(client);
        return error;
    }
    /* From here on the connection owns it. Its user is not told before the loop's next turn. */
    client->conn = conn;
    client->ended = false;
    *ret_client = client;
    error = sluice_writer_new(client->conn, limit, &client->writer);
    client->requests.writer = client->writer;
    client->requests.agent = "sluice";
    client->alive_at = sluice_loop_now(sluice_conn_loop(client->conn));
    if (!error)
        error = rtsp_requests_ask(&client->requests,
                                  &(struct rtsp_request){.method = SLUICE_RTSP_OPTIONS, .url = client->url});
    if (error)
        sluice_conn_close(client->conn);
    return 0;
}

void rtsp_client_tick(struct rtsp_client *client, uint64_t now) {
    if (client->ended || !*client->requests.session || client->requests.asked.method != SLUICE_RTSP_OTHER ||
        now - client->alive_at < client->alive_ms)
        return;
    sluice_rtsp_method method = client->has_get_parameter ? SLUICE_RTSP_GET_PARAMETER : SLUICE_RTSP_OPTIONS;
    rtsp_client_ask(client, &(struct rtsp_request){.method = method, .url = client->url});
}

void rtsp_client_send_rtcp(struct rtsp_client *client, uint8_t channel, const uint8_t *packet, size_t size) {
    rtsp_requests_send_rtcp(&client->requests, channel, packet, size);
}
