/* For tests: a line comes back behind the worker's number and the peer's address. "go N" moves to
 * worker N. */
#include <stdio.h>
#include <stdlib.h>

#include <sluice/reader.h>
#include <sluice/writer.h>

#include "daemon/config/protocol.h"
#include "daemon/server/server.h"

enum { LINE = 256, UNSENT = 65536 };

struct line_session {
    struct session base;
    sluice_writer *writer;
    char line[LINE]; /* what there is of it */
    size_t length;
    struct worker *to; /* NULL: it stays */
};

static struct line_session *of(struct session *session) {
    return (struct line_session *)session;
}

static void end(struct session *base) {
    base->closing = true;
    sluice_conn_close(base->conn);
}

static void answer(struct line_session *session) {
    struct worker *worker = session->base.worker;
    char text[2 * LINE];
    unsigned to;
    session->line[session->length] = '\0';
    session->length = 0;
    if (sscanf(session->line, "go %u", &to) == 1 && to < server_worker_count(worker->server)) {
        session->to = server_worker(worker->server, to);
        return;
    }
    int length = snprintf(text, sizeof text, "%u %s %s\n", worker->index, session->base.peer, session->line);
    if (sluice_writer_copy(session->writer, text, (size_t)length) < 0)
        end(&session->base);
}

/* Once everything has been sent. */
static void try_move(struct line_session *session) {
    struct session *base = &session->base;
    if (session->to && !base->closing && !base->move && sluice_writer_queued(session->writer) == 0 &&
        !sluice_conn_is_sending(base->conn) && session_migrate(base, session->to) < 0)
        end(base);
}

static void read_lines(struct line_session *session) {
    struct session *base = &session->base;
    sluice_reader *reader = NULL;
    uint8_t byte;
    if (base->worker->draining || sluice_reader_new(sluice_conn_chain(base->conn), &reader) < 0)
        end(base);
    while (!session->to && !base->closing && sluice_reader_u8(reader, &byte) == 0)
        if (byte == '\n')
            answer(session);
        else if (session->length + 1 < LINE)
            session->line[session->length++] = (char)byte;
        else
            end(base);
    sluice_reader_free(reader);
    try_move(session);
}

static void on_data(sluice_conn *conn, void *user) {
    (void)conn;
    read_lines(user);
    session_account(user);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    (void)conn;
    (void)error;
    end(user);
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    (void)conn;
    return sluice_writer_gather(of(user)->writer, iov, max);
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    (void)conn;
    sluice_writer_sent(of(user)->writer, bytes);
    try_move(user);
}

static void discard(struct session *base) {
    sluice_writer_free(of(base)->writer);
    free(base);
}

static void on_closed(sluice_conn *conn, void *user) {
    (void)conn;
    worker_end_session(user);
    discard(user);
}

/* Also where it has moved to, with what has been read. */
static void begin(struct session *base) {
    struct line_session *session = of(base);
    sluice_writer_free(session->writer);
    session->writer = NULL;
    session->to = NULL;
    if (sluice_writer_new(base->conn, UNSENT, &session->writer) < 0)
        end(base);
    else
        read_lines(session);
}

static void tick(struct session *base, uint64_t now) {
    (void)now;
    if (session_is_overdue(base))
        end(base);
}

static void kick(struct session *base, int error) {
    (void)error;
    end(base);
}

static const sluice_conn_events events = {sizeof events, on_data, on_end, on_gather, on_sent, on_closed};
static const struct session_type type = {"line",         .events = &events, .size = sizeof(struct line_session),
                                         .begin = begin, .tick = tick,      .drain = end,
                                         .kick = kick,   .moved = begin,    .discard = discard};

static void name_stream(const struct handover *handover, char name[STREAM_NAME + 1]) {
    snprintf(name, STREAM_NAME + 1, "%s", handover->listener.stream);
}

static int reject(char *buffer, size_t size, unsigned status, const char *reason) {
    return snprintf(buffer, size, "%u %s\n", status, reason);
}

const struct protocol line_protocol = {
    .option = {"line", SETTING_LISTENER, true, .value = "ADDR:PORT[=STREAM]", .expected = "ADDR:PORT[=STREAM]",
               .help = "Send lines back, from the worker of STREAM"},
    .names_stream = true,
    .session = &type,
    .stream = name_stream,
    .reject = reject,
};
