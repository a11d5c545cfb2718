/* Commands of the client. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/protocols/rtmp/rtmp_session_internal.h"

/* Of a client that has not been authorized: an encoder sends some five before it publishes. */
enum { COMMANDS_MOST = 64, COMMAND_BYTES = 16 << 10, COMMAND_VALUES = 512 };

typedef void handle_fn(struct rtmp_session *session, uint32_t stream, sluice_rtmp_command *command);

/* Of the next argument; empty where it is no text. False: too long, or malformed. */
static bool read_text(sluice_amf_reader *values, char *text, size_t size) {
    sluice_amf_value value;
    *text = '\0';
    int result = sluice_amf_next(values, &value);
    if (result <= 0)
        return result == 0;
    if (value.type != SLUICE_AMF_STRING)
        return sluice_amf_skip(values) == 0;
    return sluice_amf_get_text(&value.text, text, size) >= 0;
}

/* Behind the command object, or null. */
static bool skip_object(sluice_amf_reader *values) {
    sluice_amf_value value;
    return sluice_amf_next(values, &value) >= 0 && sluice_amf_skip(values) == 0;
}

static bool find(const sluice_amf_reader *object, const char *name, sluice_amf_value *ret_value) {
    sluice_amf_reader reader = *object;
    return sluice_amf_find(&reader, name, ret_value) > 0;
}

/* False: it is too long. */
static bool find_text(const sluice_amf_reader *object, const char *name, char *text, size_t size) {
    sluice_amf_value value;
    *text = '\0';
    return !find(object, name, &value) || value.type != SLUICE_AMF_STRING ||
           sluice_amf_get_text(&value.text, text, size) >= 0;
}

/* Also in depth: a member that cannot be read would count as missing. */
static bool is_object(sluice_amf_reader *values) {
    sluice_amf_value object;
    if (sluice_amf_next(values, &object) <= 0 || object.type != SLUICE_AMF_OBJECT)
        return false;
    sluice_amf_reader members = *values;
    return sluice_amf_skip(&members) == 0;
}

/* Refuses it, where adobe's authentication is needed, or has failed. */
static bool is_refused(struct rtmp_session *session, double transaction, const sluice_amf_reader *object) {
    struct rtmp_asked *asked = session->asked;
    const struct options *options = session->base.worker->options;
    char description[RTMP_AUTH_DESCRIPTION];
    sluice_amf_value type;
    bool failed = false;
    if (rtmp_target_read_app(asked->app, asked->url, &asked->target) < 0) {
        rtmp_answer_error(session, transaction, "NetConnection.Connect.InvalidApp", "invalid app");
        return true;
    }
    /* Encoders say "nonprivate". */
    const struct authorize access = {.by = options_credentials(options),
                                     .action = find(object, "type", &type) ? RULE_PUBLISH : RULE_PLAY,
                                     .stream = {asked->target.name, strlen(asked->target.name)},
                                     .peer = &session->base.peer_address,
                                     .certificate = session_peer_certificate(&session->base)};
    const sluice_http_text query = {asked->target.query, strlen(asked->target.query)};
    unsigned status = rtmp_auth_connect(&asked->auth, &access, query, description, &failed);
    if (status == 0)
        return false;
    if (failed)
        session_log_refusal(&session->base, status, NULL);
    rtmp_answer_error(session, transaction, "NetConnection.Connect.Rejected", description);
    return true;
}

static void on_connect(struct rtmp_session *session, uint32_t stream, sluice_rtmp_command *command) {
    (void)stream;
    if (session->state != RTMP_CONNECTING)
        return;
    session->asked = calloc(1, sizeof *session->asked);
    if (!session->asked || !is_object(&command->values) ||
        !find_text(&command->values, "app", session->asked->app, sizeof session->asked->app) ||
        !find_text(&command->values, "tcUrl", session->asked->url, sizeof session->asked->url)) {
        session_log_refusal(&session->base, 400, "malformed RTMP command");
        rtmp_answer_error(session, command->transaction, "NetConnection.Connect.Rejected", "invalid connect");
        rtmp_end(session);
        return;
    }
    session->caps = rtmp_read_capabilities(&command->values);
    if (is_refused(session, command->transaction, &command->values)) {
        rtmp_end(session);
        return;
    }
    session->state = RTMP_CONNECTED;
    rtmp_answer_control(session, SLUICE_RTMP_WINDOW_SIZE, RTMP_WINDOW);
    if (!session->base.closing)
        rtmp_answer_control(session, SLUICE_RTMP_PEER_BANDWIDTH, RTMP_WINDOW);
    if (!session->base.closing)
        rtmp_answer_control(session, SLUICE_RTMP_SET_CHUNK_SIZE, RTMP_CHUNK);
    if (!session->base.closing)
        rtmp_answer_connect(session, command->transaction);
}

static void on_create_stream(struct rtmp_session *session, uint32_t stream, sluice_rtmp_command *command) {
    (void)stream;
    if (session->streams < RTMP_STREAMS_MOST)
        rtmp_answer_result(session, command->transaction, ++session->streams);
    else
        rtmp_answer_error(session, command->transaction, "NetConnection.Call.Failed", "too many streams");
}

static void on_accept(struct rtmp_session *session, uint32_t stream, sluice_rtmp_command *command) {
    (void)stream;
    if (command->transaction > 0)
        rtmp_answer_result(session, command->transaction, -1);
}

/* The name is not known yet to be right: publish says it. */
static void on_fc_publish(struct rtmp_session *session, uint32_t stream, sluice_rtmp_command *command) {
    on_accept(session, stream, command);
    if (!session->base.closing)
        rtmp_answer_notice(session, "onFCPublish", "NetStream.Publish.Start", "accepted");
}

static void on_fc_unpublish(struct rtmp_session *session, uint32_t stream, sluice_rtmp_command *command) {
    on_accept(session, stream, command);
    if (!session->base.closing)
        rtmp_answer_notice(session, "onFCUnpublish", "NetStream.Unpublish.Success", "accepted");
}

static void on_fc_subscribe(struct rtmp_session *session, uint32_t stream, sluice_rtmp_command *command) {
    on_accept(session, stream, command);
    if (!session->base.closing)
        rtmp_answer_notice(session, "onFCSubscribe", "NetStream.Play.Start", "accepted");
}

/* A live stream has none. */
static void on_get_stream_length(struct rtmp_session *session, uint32_t stream, sluice_rtmp_command *command) {
    (void)stream;
    rtmp_answer_result(session, command->transaction, 0);
}

static void begin(struct rtmp_session *session, uint32_t stream, sluice_rtmp_command *command,
                  enum rule_action action) {
    char name[RTMP_TEXT + 1];
    if (session->state != RTMP_CONNECTED)
        return;
    session->stream = stream;
    session->asked->transaction = command->transaction;
    if (!skip_object(&command->values) || !read_text(&command->values, name, sizeof name)) {
        session->asked->action = action;
        rtmp_refuse(session, action == RULE_PUBLISH ? "NetStream.Publish.BadName" : "NetStream.Play.StreamNotFound",
                    "not a stream name");
        return;
    }
    rtmp_request_begin(session, action, name);
}

static void on_publish(struct rtmp_session *session, uint32_t stream, sluice_rtmp_command *command) {
    begin(session, stream, command, RULE_PUBLISH);
}

static void on_play(struct rtmp_session *session, uint32_t stream, sluice_rtmp_command *command) {
    begin(session, stream, command, RULE_PLAY);
}

/* A client that is done: what it published or played ends, and so does the connection, which has
 * been for that alone. */
static void on_close_stream(struct rtmp_session *session, uint32_t stream, sluice_rtmp_command *command) {
    (void)stream;
    (void)command;
    if (session->state != RTMP_PUBLISHING && session->state != RTMP_PLAYING)
        return;
    session->peer_ends = true;
    rtmp_play_leave(session, "closed by player");
    rtmp_publish_end(session, 0, true);
    rtmp_end(session);
}

static void on_pause(struct rtmp_session *session, uint32_t stream, sluice_rtmp_command *command) {
    sluice_amf_value value;
    (void)stream;
    if (session->state == RTMP_PLAYING && skip_object(&command->values) &&
        sluice_amf_next(&command->values, &value) > 0)
        rtmp_play_pause(session, value.type == SLUICE_AMF_BOOLEAN && value.boolean);
}

static void on_seek(struct rtmp_session *session, uint32_t stream, sluice_rtmp_command *command) {
    (void)stream;
    rtmp_answer_error(session, command->transaction, "NetStream.Seek.Failed", "a live stream cannot seek");
}

static const struct {
    const char *name;
    handle_fn *handle;
} handlers[] = {
    {"connect", on_connect},
    {"releaseStream", on_accept},
    {"FCPublish", on_fc_publish},
    {"FCUnpublish", on_fc_unpublish},
    {"FCSubscribe", on_fc_subscribe},
    {"createStream", on_create_stream},
    {"publish", on_publish},
    {"play", on_play},
    {"getStreamLength", on_get_stream_length},
    {"_checkbw", on_accept},
    {"deleteStream", on_close_stream},
    {"closeStream", on_close_stream},
    {"pause", on_pause},
    {"seek", on_seek},
    {"receiveAudio", on_accept},
    {"receiveVideo", on_accept},
};

static handle_fn *find_handler(const struct rtmp_session *session, const sluice_slice *name) {
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++)
        if (sluice_amf_equals(name, handlers[i].name))
            return session->state == RTMP_CONNECTING && handlers[i].handle != on_connect ? NULL : handlers[i].handle;
    return NULL;
}

/* Answers to what the daemon has said, which asks for none. */
static bool is_answer(const sluice_slice *name) {
    return sluice_amf_equals(name, "_result") || sluice_amf_equals(name, "_error") ||
           sluice_amf_equals(name, "onStatus");
}

void rtmp_command_handle(struct rtmp_session *session, const sluice_rtmp_message *message) {
    static const sluice_amf_limits limits = {.size = sizeof limits, .bytes = COMMAND_BYTES, .values = COMMAND_VALUES};
    sluice_rtmp_command command;
    bool begins = session->state == RTMP_CONNECTING || session->state == RTMP_CONNECTED;
    if (sluice_rtmp_read_command(message, &limits, &command) < 0 || (begins && ++session->commands > COMMANDS_MOST)) {
        session_log_refusal(&session->base, 400,
                            session->commands > COMMANDS_MOST ? "too many commands" : "malformed RTMP command");
        rtmp_publish_end(session, -EILSEQ, false);
        rtmp_play_leave(session, "malformed command");
        rtmp_end(session);
        return;
    }
    handle_fn *handle = find_handler(session, &command.name);
    if (handle)
        handle(session, message->stream, &command);
    else if (command.transaction > 0 && !is_answer(&command.name))
        rtmp_answer_error(session, command.transaction, "NetConnection.Call.Failed", NULL);
}
