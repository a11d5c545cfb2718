/* Messages to the client. */
#include <errno.h>

#include "daemon/protocols/rtmp/rtmp_session_internal.h"
#include "shared/rtmp_peer.h"

static void check(struct rtmp_session *session, int error) {
    session->failed |= error && session->begins;
    if (error && !session->begins)
        rtmp_close(session);
}

int rtmp_answer_open(struct rtmp_session *session) {
    return session->writer ? 0 : sluice_writer_new(session->base.conn, RTMP_WRITER, &session->writer);
}

void rtmp_answer_close(struct rtmp_session *session) {
    if (!session->writer || sluice_writer_queued(session->writer) > 0)
        return;
    sluice_writer_free(session->writer);
    session->writer = NULL;
}

size_t rtmp_answer_queued(const struct rtmp_session *session) {
    return session->writer ? sluice_writer_queued(session->writer) : 0;
}

static void queue(struct rtmp_session *session, struct rtmp_command *command, uint32_t stream) {
    int error = rtmp_answer_open(session);
    check(session, error ? error : rtmp_command_send(command, stream, session->chunk_size, session->writer));
}

static int queue_control(struct rtmp_session *session, const sluice_rtmp_control *control) {
    int error = rtmp_answer_open(session);
    return error ? error : rtmp_send_control(session->writer, control);
}

void rtmp_answer_control(struct rtmp_session *session, uint8_t type, uint32_t value) {
    const sluice_rtmp_control control = {.type = type, .limit = 2, .value = value};
    int error = queue_control(session, &control);
    if (!error && type == SLUICE_RTMP_SET_CHUNK_SIZE)
        session->chunk_size = value;
    check(session, error);
}

void rtmp_answer_event(struct rtmp_session *session, uint16_t event, uint32_t value) {
    const sluice_rtmp_control control = {.type = SLUICE_RTMP_USER_CONTROL, .event = event, .value = value};
    check(session, queue_control(session, &control));
}

/* What is relayed, whatever is in it. */
static void write_capabilities(struct rtmp_command *command) {
    static const char *const codecs[] = {"avc1", "hvc1", "vvc1", "av01", "vp09", "vp08",
                                         "mp4a", "Opus", "fLaC", "ac-3", "ec-3", ".mp3"};
    enum { COUNT = sizeof codecs / sizeof *codecs, CAN_FORWARD = 4 };
    static const char *const maps[] = {"videoFourCcInfoMap", "audioFourCcInfoMap"};
    sluice_amf_writer *values = &command->values;
    sluice_amf_write_name(values, "fourCcList");
    sluice_amf_write_array(values, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        sluice_amf_write_string(values, codecs[i]);
    for (size_t i = 0; i < 2; i++) {
        sluice_amf_write_name(values, maps[i]);
        sluice_amf_write_object(values);
        rtmp_command_number(command, "*", CAN_FORWARD);
        sluice_amf_write_object_end(values);
    }
    rtmp_command_number(command, "capsEx",
                        RTMP_CAN_RECONNECT | RTMP_CAN_MULTITRACK | RTMP_CAN_MODEX | RTMP_CAN_NANOSECONDS);
}

/* @url: of a request to connect again; or NULL */
static void write_status(struct rtmp_command *command, const char *level, const char *code, const char *url,
                         const char *description) {
    sluice_amf_write_object(&command->values);
    rtmp_command_text(command, "level", level);
    rtmp_command_text(command, "code", code);
    if (url)
        rtmp_command_text(command, "tcUrl", url);
    if (description)
        rtmp_command_text(command, "description", description);
    sluice_amf_write_object_end(&command->values);
}

void rtmp_answer_connect(struct rtmp_session *session, double transaction) {
    struct rtmp_command command;
    rtmp_command_begin(&command, "_result", transaction);
    sluice_amf_writer *values = &command.values;
    sluice_amf_write_object(values);
    /* Clients look at it for what servers of that version can do. */
    rtmp_command_text(&command, "fmsVer", "FMS/3,5,7,7009");
    rtmp_command_number(&command, "capabilities", 31);
    rtmp_command_number(&command, "mode", 1);
    if (session->caps & RTMP_IS_ENHANCED)
        write_capabilities(&command);
    sluice_amf_write_object_end(values);
    sluice_amf_write_object(values);
    rtmp_command_text(&command, "level", "status");
    rtmp_command_text(&command, "code", "NetConnection.Connect.Success");
    rtmp_command_text(&command, "description", "connected");
    rtmp_command_number(&command, "objectEncoding", 0);
    sluice_amf_write_object_end(values);
    queue(session, &command, 0);
}

void rtmp_answer_result(struct rtmp_session *session, double transaction, double number) {
    struct rtmp_command command;
    rtmp_command_begin(&command, "_result", transaction);
    sluice_amf_write_null(&command.values);
    if (number < 0)
        sluice_amf_write_undefined(&command.values);
    else
        sluice_amf_write_number(&command.values, number);
    queue(session, &command, 0);
}

void rtmp_answer_error(struct rtmp_session *session, double transaction, const char *code, const char *description) {
    struct rtmp_command command;
    rtmp_command_begin(&command, "_error", transaction);
    sluice_amf_write_null(&command.values);
    write_status(&command, "error", code, NULL, description);
    queue(session, &command, 0);
}

void rtmp_answer_status(struct rtmp_session *session, uint32_t stream, const char *level, const char *code,
                        const char *description) {
    struct rtmp_command command;
    rtmp_command_begin(&command, "onStatus", 0);
    sluice_amf_write_null(&command.values);
    write_status(&command, level, code, NULL, description);
    queue(session, &command, stream);
}

void rtmp_answer_notice(struct rtmp_session *session, const char *name, const char *code, const char *description) {
    struct rtmp_command command;
    rtmp_command_begin(&command, name, 0);
    sluice_amf_write_null(&command.values);
    write_status(&command, "status", code, NULL, description);
    queue(session, &command, 0);
}

bool rtmp_answer_reconnect(struct rtmp_session *session, const char *url) {
    struct rtmp_command command;
    if (!(session->caps & RTMP_CAN_RECONNECT))
        return false;
    if (session->told_to_reconnect && !url)
        return true;
    session->told_to_reconnect = true;
    rtmp_command_begin(&command, "onStatus", 0);
    sluice_amf_write_null(&command.values);
    write_status(&command, "status", "NetConnection.Connect.ReconnectRequest", url,
                 url ? "another server takes over" : "the server restarts");
    queue(session, &command, 0);
    return true;
}
