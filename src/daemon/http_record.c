/*
 * Recordings by HTTP: GET /recordings/STREAM/TIME.flv is a file, with ranges, and GET /recordings/STREAM a list of
 * them, in pages: ?limit=N&after=TIME.flv. A stream may have any number of them, and what a list takes is in nobody's
 * budget of memory; so it is bounded for each request. What may block (opening, looking into folders) is done on the
 * loop's thread for that.
 *
 * A file is read by the ring into blocks of the pool, which are sent in place, no further ahead than the connection
 * takes them. A splice from file to socket would spare one pass over the bytes; but on io_uring it needs a pipe and a
 * kernel thread for each connection, and sendfile() waits for the disk on the loop's thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sluice/file.h>

#include "daemon/deadline.h"
#include "daemon/http_range.h"
#include "daemon/http_session_internal.h"
#include "daemon/log.h"
#include "daemon/record_files.h"
#include "daemon/server.h"
#include "shared/json.h"

enum {
    OPEN_MS = 10000,        /* for the disk to say what there is */
    PIECE_MOST = 256 << 10, /* bytes that are taken from the file's chain at once */
    UNDER_WAY = 16 << 10,   /* bytes of a read that has not come back, which nothing shows: about so many */
    HEAD_MOST = 1024,
    READS_SHARE = 4, /* one part in so many of the blocks is for what downloads have read and not sent */
    RETRY_S = 1,     /* until others' lists, or downloads, may be done */
};

static const char prefix[] = "/recordings/";

/* One request, while the thread is at it. */
struct http_record {
    struct http_session *session; /* NULL when the connection has gone */
    const struct records *records;
    struct worker *worker;
    struct record_turn turn; /* of a list */
    sluice_work *work;       /* NULL until its turn */
    char stream[STREAM_NAME + 1];
    char path[RECORD_PATH]; /* of a file; empty for a list */
    struct record_page page;
    bool keep_alive;
    struct http_conditions conditions;

    /* What the thread has found: */
    int error;
    int fd;
    struct stat status;
    struct json list;
};

/* A file that is being sent. */
struct http_file {
    sluice_file *file;
    uint64_t left;      /* bytes that have not been sent */
    sluice_slice piece; /* what is being sent */
    size_t sent;        /* bytes of it */
    bool ended;         /* nothing more is read */
};

bool http_record_wants(const struct worker *worker, const sluice_http_text *path) {
    return worker->records && path->length >= sizeof prefix - 1 && memcmp(path->text, prefix, sizeof prefix - 1) == 0;
}

/* On the thread */

static int open_file(struct http_record *record, int root) {
    int fd = record_open(root, record->path, O_RDONLY);
    if (fd < 0)
        return fd;
    if (fstat(fd, &record->status) < 0 || !S_ISREG(record->status.st_mode)) {
        close(fd);
        return -ENOENT;
    }
    record->fd = fd;
    return 0;
}

static int make_list(struct http_record *record, int root) {
    struct record_page *page = &record->page;
    int error = record_list(root, record->stream, page);
    if (error)
        return error;
    struct json *json = &record->list;
    json_open(json, NULL, '{');
    json_string(json, "stream", record->stream);
    json_open(json, "recordings", '[');
    for (size_t i = 0; i < page->count; i++) {
        const struct record_entry *entry = &page->entries[i];
        char path[sizeof prefix + RECORD_PATH];
        struct http_resource resource;
        snprintf(path, sizeof path, "%s%s/%s", prefix, record->stream, entry->name);
        http_resource_describe(&resource, entry->bytes, entry->modified, 0);
        json_open(json, NULL, '{');
        json_string(json, "file", entry->name);
        json_string(json, "path", path);
        json_unsigned(json, "bytes", entry->bytes);
        json_string(json, "modified", resource.modified);
        json_close(json, '}');
    }
    json_close(json, ']');
    if (*page->next)
        json_string(json, "next", page->next);
    else
        json_null(json, "next");
    json_close(json, '}');
    free(page->entries);
    page->entries = NULL;
    return json->failed ? -ENOMEM : 0;
}

/* In each directory, since rules may have changed since. */
static void look(void *user) {
    struct http_record *record = user;
    const struct records *records = record->records;
    record->error = -ENOENT;
    for (size_t i = 0; i < records->root_count && record->error; i++)
        record->error = *record->path ? open_file(record, records->roots[i].fd)
                                      : make_list(record, records->roots[i].fd);
}

/* On the loop's own */

static void look_later(struct http_record *record);

/* It is the next one's turn. */
static void end_turn(struct worker *worker) {
    struct record_turn *next = record_turns_next(&worker->record_lists);
    if (next)
        look_later((struct http_record *)(void *)((char *)next - offsetof(struct http_record, turn)));
}

/* Nobody waits for it any more. What has not begun goes at once, and is not begun. */
static void give_up(struct http_record *record) {
    record->session->record = NULL;
    record->session = NULL;
    if (record_turns_leave(&record->worker->record_lists, &record->turn))
        free(record);
    else
        (void)sluice_work_cancel(record->work);
}

static void on_file_data(sluice_file *file, void *user) {
    struct http_session *session = user;
    (void)file;
    sluice_conn_want_send(session->base.conn);
}

static void on_file_end(sluice_file *file, int error, void *user) {
    struct http_session *session = user;
    struct http_file *sending = session->file;
    sending->ended = true;
    /* What is missing then cannot be said any more but by ending the connection before the length that was promised. */
    if (sluice_slice_length(&sending->piece) - sending->sent + sluice_chain_length(sluice_file_chain(file)) <
        sending->left) {
        LOG(LOG_ERROR, "cannot read a recording", {"peer", session->base.peer},
            {"reason", error ? strerror(-error) : "it has become shorter"});
        http_close(session);
    }
}

static const sluice_file_events file_events = {.on_data = on_file_data, .on_end = on_file_end};

void http_record_free(struct http_session *session) {
    if (session->record)
        give_up(session->record);
    if (!session->file)
        return;
    sluice_slice_release(&session->file->piece);
    sluice_file_close(session->file->file);
    free(session->file);
    session->file = NULL;
}

size_t http_record_held(const struct http_session *session) {
    const struct http_file *sending = session->file;
    if (!sending)
        return 0;
    return sluice_slice_length(&sending->piece) + sluice_chain_footprint(sluice_file_chain(sending->file)) +
           (sending->ended ? 0 : UNDER_WAY);
}

size_t http_record_gather(struct http_session *session, struct iovec *iov, size_t max) {
    struct http_file *sending = session->file;
    sluice_chain *chain = sluice_file_chain(sending->file);
    if (sluice_slice_length(&sending->piece) == 0) {
        size_t length = sluice_chain_length(chain);
        if (length == 0)
            return 0;
        (void)sluice_chain_take(chain, length < PIECE_MOST ? length : PIECE_MOST, &sending->piece);
    }
    size_t count = sluice_slice_iov(&sending->piece, sending->sent, iov, max);
    return count < max ? count : max;
}

bool http_record_sent(struct http_session *session, size_t bytes) {
    struct http_file *sending = session->file;
    if (bytes > 0)
        session->deadline = deadline_moved(session->deadline, worker_now(session->base.worker), bytes,
                                           session->base.worker->options->streams.all.stall_ms);
    sending->sent += bytes;
    sending->left -= bytes;
    if (sending->sent == sluice_slice_length(&sending->piece)) {
        sluice_slice_release(&sending->piece);
        sending->sent = 0;
    }
    if (sending->left == 0) {
        http_record_free(session);
        return true;
    }
    if (sluice_slice_length(&sending->piece) > 0 || sluice_chain_length(sluice_file_chain(sending->file)) > 0)
        sluice_conn_want_send(session->base.conn);
    return false;
}

static int write_head(char *head, const struct http_session *session, const struct http_resource *resource,
                      const struct http_part *part) {
    static const struct {
        unsigned status;
        const char *text;
    } texts[] = {{200, "OK"}, {206, "Partial Content"}, {304, "Not Modified"}, {416, "Range Not Satisfiable"}};
    /* Of what is not said to every page (Fetch, "CORS-safelisted response-header name"). */
    static const char exposed[] = "Access-Control-Expose-Headers: Content-Range, Accept-Ranges, ETag\r\n";
    char range[HTTP_RANGE_TEXT] = "", length[HTTP_RANGE_TEXT] = "", origin[HTTP_ORIGIN_TEXT];
    http_origin_write(session, origin, sizeof origin);
    const char *text = "";
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == part->status)
            text = texts[i].text;
    if (part->status == 206)
        snprintf(range, sizeof range, "Content-Range: bytes %llu-%llu/%llu\r\n", (unsigned long long)part->first,
                 (unsigned long long)(part->first + part->length - 1), (unsigned long long)resource->size);
    else if (part->status == 416)
        snprintf(range, sizeof range, "Content-Range: bytes */%llu\r\n", (unsigned long long)resource->size);
    if (part->status != 304)
        snprintf(length, sizeof length, "Content-Type: video/x-flv\r\nContent-Length: %llu\r\n",
                 (unsigned long long)part->length);
    return snprintf(head, HEAD_MOST,
                    "HTTP/1.1 %u %s\r\nServer: sluiced\r\n%s%s"
                    "Accept-Ranges: bytes\r\nETag: %s\r\nLast-Modified: %s\r\n%s%sConnection: %s\r\n\r\n",
                    part->status, text, origin, http_origin_is_granted(session) ? exposed : "", resource->etag,
                    resource->modified, range, length, session->keep_alive ? "keep-alive" : "close");
}

/* Begins to read what is to be sent. Takes the descriptor over in any case. */
static int open_body(struct http_session *session, struct http_record *record, const struct http_part *part) {
    if (part->length == 0 || session->head_only)
        return 0;
    const sluice_file_options options = {.offset = part->first, .length = part->length};
    struct http_file *sending = calloc(1, sizeof *sending);
    if (!sending)
        return -ENOMEM;
    sending->left = part->length;
    int error = sluice_file_new(session->base.worker->loop, record->fd, &options, &file_events, session,
                                &sending->file);
    if (error) {
        free(sending);
        return error;
    }
    record->fd = -1;
    session->file = sending;
    return 0;
}

/*
 * Downloads that are taken slowly hold what was read for them: further ones wait until those are done. What publishers
 * hold besides their chains counts as well.
 */
static bool is_too_much(const struct worker *worker) {
    return worker->holdings.extra >= worker->holdings.bytes / READS_SHARE;
}

static void refuse_download(struct http_session *session) {
    const struct http_reply reply = {
        .status = 503, .reason = "too many recordings are being read", .retry_after = RETRY_S};
    server_count_refusal(session->base.worker->server, REFUSED_MEMORY);
    http_refuse_with(session, &reply);
}

static void answer_file(struct http_session *session, struct http_record *record) {
    struct http_resource resource;
    http_resource_describe(&resource, (uint64_t)record->status.st_size, record->status.st_mtim.tv_sec,
                           record->status.st_mtim.tv_nsec);
    if (session->head_only)
        *record->conditions.range = '\0';
    struct http_part part = http_part_of(&resource, &record->conditions);
    char *head = malloc(HEAD_MOST);
    int error = head ? open_body(session, record, &part) : -ENOMEM;
    if (error) {
        free(head);
        http_refuse(session, 503, strerror(-error));
        return;
    }
    session->keep_alive = record->keep_alive;
    session->response = head;
    session->response_size = (size_t)write_head(head, session, &resource, &part);
    session->response_sent = 0;
    session->state = HTTP_RESPONDING;
    session->deadline = worker_now(session->base.worker) + session->base.worker->options->streams.all.stall_ms;
    if (!session->keep_alive)
        sluice_chain_skip(sluice_conn_chain(session->base.conn), SIZE_MAX);
    sluice_conn_want_send(session->base.conn);
}

static void answer(struct http_session *session, struct http_record *record) {
    /* It is a player's then, although it may be over soon. */
    if (!record->error)
        session_authorize(&session->base);
    record->keep_alive = record->keep_alive && http_may_go_on(session) && !session->base.worker->draining &&
                         !session->base.worker->leaving;
    if (record->error) {
        bool missing = record->error == -ENOENT || record->error == -ENOTDIR || record->error == -ELOOP;
        const struct http_reply reply = {.status = missing ? 404 : 503,
                                         .reason = missing ? "no such recording" : strerror(-record->error),
                                         .keep_alive = record->keep_alive};
        http_respond(session, &reply);
    } else if (*record->path && is_too_much(session->base.worker)) {
        refuse_download(session);
    } else if (*record->path) {
        answer_file(session, record);
        session_account(&session->base);
    } else {
        const struct http_reply reply = {.status = 200,
                                         .type = "application/json",
                                         .body = record->list.text,
                                         .body_size = record->list.length,
                                         .keep_alive = record->keep_alive};
        record->list.text = NULL;
        http_respond(session, &reply);
    }
}

static void looked(void *user) {
    struct http_record *record = user;
    struct http_session *session = record->session;
    if (!*record->path)
        end_turn(record->worker);
    if (session) {
        session->record = NULL;
        if (!session->base.closing)
            answer(session, record);
    }
    if (record->fd >= 0)
        close(record->fd);
    free(record->page.entries);
    free(record->list.text);
    free(record);
}

/* Has the thread do it. */
static void look_later(struct http_record *record) {
    if (sluice_loop_work(record->worker->loop, look, looked, record, &record->work) == 0)
        return;
    record->error = -ENOMEM;
    looked(record);
}

static bool is_head(const sluice_http_request *request) {
    return http_text_is(&request->method, "HEAD");
}

/* What is asked for: a file of a stream, or a stream. False when it can be neither. */
static bool read_path(struct http_record *record, const char *path, size_t length) {
    const char *slash = memrchr(path, '/', length);
    size_t name = slash ? (size_t)(slash - path) : 0;
    if (slash && record_file_name_is_valid(slash + 1, length - name - 1)) {
        memcpy(record->path, path, length < sizeof record->path ? length : 0);
        length = name;
    } else if (slash && name + 1 == length) {
        length = name;
    }
    if (!stream_name_is_valid(path, length))
        return false;
    memcpy(record->stream, path, length);
    return true;
}

/* A page's limit: a number of digits alone. False when it is out of range. */
static bool read_limit(const char *text, size_t length, size_t *ret_limit) {
    size_t limit = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || limit > RECORD_PAGE)
            return false;
        limit = 10 * limit + (size_t)(text[i] - '0');
    }
    *ret_limit = limit;
    return length > 0 && limit >= 1 && limit <= RECORD_PAGE;
}

/* Which page is asked for. What else is in a query, such as a token, is none of ours. */
static bool read_page(struct record_page *page, sluice_http_text query) {
    static const char limit[] = "limit=", after[] = "after=";
    page->limit = RECORD_PAGE;
    for (size_t at = 0; at < query.length;) {
        const char *part = query.text + at, *end = memchr(part, '&', query.length - at);
        size_t length = end ? (size_t)(end - part) : query.length - at;
        at += length + 1;
        if (length >= sizeof limit - 1 && memcmp(part, limit, sizeof limit - 1) == 0) {
            if (!read_limit(part + sizeof limit - 1, length - (sizeof limit - 1), &page->limit))
                return false;
        } else if (length >= sizeof after - 1 && memcmp(part, after, sizeof after - 1) == 0) {
            part += sizeof after - 1;
            length -= sizeof after - 1;
            if (!record_file_name_is_valid(part, length))
                return false;
            snprintf(page->after, sizeof page->after, "%.*s", (int)length, part);
        }
    }
    return true;
}

void http_record_look(struct http_session *session, const sluice_http_request *request, bool keep_alive) {
    struct worker *worker = session->base.worker;
    struct http_record *record = calloc(1, sizeof *record);
    bool has_path = record && read_path(record, request->path.text + sizeof prefix - 1,
                                        request->path.length - (sizeof prefix - 1));
    if (!has_path) {
        free(record);
        http_refuse(session, 503, "out of memory");
        return;
    }
    if (!*record->path && !read_page(&record->page, request->query)) {
        const struct http_reply reply = {.status = 400,
                                         .reason = "limit is a number from 1 to 1000, after the name of a file",
                                         .keep_alive = keep_alive};
        free(record);
        http_respond(session, &reply);
        return;
    }
    record->session = session;
    record->records = worker->records;
    record->fd = -1;
    record->keep_alive = keep_alive;
    http_conditions_read(request, &record->conditions);
    record->worker = worker;
    int place = *record->path ? 1 : record_turns_ask(&worker->record_lists, &record->turn);
    if (place < 0) {
        const struct http_reply reply = {
            .status = 503, .reason = "too many lists are asked for", .retry_after = RETRY_S};
        free(record);
        http_refuse_with(session, &reply);
        return;
    }
    session->record = record;
    session->state = HTTP_LOOKING;
    session->deadline = worker_now(worker) + OPEN_MS;
    if (place > 0)
        look_later(record);
}

void http_record_start(struct http_session *session, const sluice_http_request *request, bool keep_alive) {
    struct http_record wanted = {0};
    struct http_reply reply = {.status = 404, .reason = "no such recording", .keep_alive = keep_alive};
    if (!is_head(request) && !http_text_is(&request->method, "GET")) {
        reply.status = 405;
        reply.reason = "recordings are read with GET";
        reply.allow = "GET, HEAD, OPTIONS";
        http_respond(session, &reply);
        return;
    }
    if (!read_path(&wanted, request->path.text + sizeof prefix - 1, request->path.length - (sizeof prefix - 1))) {
        http_respond(session, &reply);
        return;
    }
    /* Who may play a stream may play what was recorded of it; a hook is told which of it is asked for. */
    const struct hook_question question = {.event = HOOK_PLAY,
                                           .stream = {wanted.stream, strlen(wanted.stream)},
                                           .protocol = "http",
                                           .recording = *wanted.path ? strrchr(wanted.path, '/') + 1 : ""};
    if (http_authorize(session, request, RULE_PLAY, question.stream) && !http_ask_hook(session, request, &question))
        http_record_look(session, request, keep_alive);
}
