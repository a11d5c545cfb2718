/*
 * Recordings by HTTP: GET /recordings/STREAM/TIME.flv is a file, with ranges, and GET
 * /recordings/STREAM a list of them, in pages: ?limit=N&after=TIME.flv. A stream may have any
 * number of recordings, and the memory of a list is not part of any budget, so it is bounded for
 * each request. Blocking operations (opening files, reading directories) run on the loop's work
 * thread.
 *
 * A file is read by the ring into blocks of the pool, which are sent in place, no further ahead
 * than the connection accepts them. A splice from file to socket would save one pass over the
 * bytes; but on io_uring it needs a pipe and a kernel thread for each connection, and sendfile()
 * waits for the disk on the loop's thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sluice/file.h>

#include "daemon/base/http_status.h"
#include "daemon/base/log.h"
#include "daemon/base/min_rate.h"
#include "daemon/protocols/http/http_range.h"
#include "daemon/protocols/http/http_route.h"
#include "daemon/protocols/http/http_session_internal.h"
#include "daemon/recording/record_files.h"
#include "daemon/server/server.h"
#include "shared/json.h"
#include "shared/text.h"

enum {
    OPEN_MS = 10000,        /* for the disk to say what there is */
    PIECE_MOST = 256 << 10, /* bytes that are taken from the file's chain at once */
    READ_AHEAD = 256 << 10, /* bytes of a file that are read before they can be sent */
    HEAD_MOST = 1024,
    /* one part in so many of the blocks is for what downloads have read and not sent */
    READS_SHARE = 4,
    RETRY_S = 1, /* until others' lists, or downloads, may be done */
};

static const char prefix[] = "/recordings/";

/* One request, while the thread is at it. */
struct http_record {
    struct http_session *session; /* NULL when the connection has gone */
    const struct record_store *records;
    struct worker *worker;
    struct record_queue_slot turn; /* of a list */
    sluice_work *work;             /* NULL until its turn */
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

bool http_record_is_served(const struct worker *worker) {
    return worker->records;
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

static int make_list(struct http_record *record) {
    struct record_page *page = &record->page;
    int error = record_list(record->records->roots, record->records->root_count, record->stream, page);
    if (error)
        return error;
    struct json *json = &record->list;
    json_open(json, NULL, '{');
    json_put_string(json, "stream", record->stream);
    json_open(json, "recordings", '[');
    for (size_t i = 0; i < page->count; i++) {
        const struct record_entry *entry = &page->entries[i];
        char path[sizeof prefix + RECORD_PATH];
        struct http_resource resource;
        snprintf(path, sizeof path, "%s%s/%s", prefix, record->stream, entry->name);
        http_resource_describe(&resource, entry->bytes, entry->modified, 0);
        json_open(json, NULL, '{');
        json_put_string(json, "file", entry->name);
        json_put_string(json, "path", path);
        json_put_unsigned(json, "bytes", entry->bytes);
        json_put_string(json, "modified", resource.modified);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_put_optional(json, "next", page->next);
    json_close(json, '}');
    free(page->entries);
    page->entries = NULL;
    return json->failed ? -ENOMEM : 0;
}

/* In each directory, since rules may have changed since. */
static void look(void *user) {
    struct http_record *record = user;
    const struct record_store *records = record->records;
    if (!*record->path) {
        record->error = make_list(record);
        return;
    }
    record->error = -ENOENT;
    for (size_t i = 0; i < records->root_count && record->error; i++)
        record->error = open_file(record, records->roots[i].fd);
}

/* On the loop's own */

static void look_later(struct http_record *record);

/* It is the next one's turn. */
static void end_turn(struct worker *worker) {
    struct record_queue_slot *next = record_queue_next(&worker->record_lists);
    if (next)
        look_later((struct http_record *)(void *)((char *)next - offsetof(struct http_record, turn)));
}

/* The request has been given up. Work that has not begun is cancelled at once. */
static void give_up(struct http_record *record) {
    record->session->record = NULL;
    record->session = NULL;
    if (record_queue_leave(&record->worker->record_lists, &record->turn))
        free(record);
    else
        (void)sluice_work_cancel(record->work);
}

static void on_file_data(sluice_file *file, void *user) {
    struct http_session *session = user;
    (void)file;
    sluice_conn_want_send(session->base.conn);
    session_account(&session->base);
}

static void on_file_end(sluice_file *file, int error, void *user) {
    struct http_session *session = user;
    struct http_file *sending = session->file;
    sending->ended = true;
    /* What is missing then cannot be said any more but by ending the connection before the length
     * that was promised. */
    if (sluice_slice_length(&sending->piece) - sending->sent + sluice_chain_length(sluice_file_chain(file)) <
        sending->left) {
        LOG(LOG_ERROR, "cannot read recording", {"peer", session->base.peer},
            {"reason", error ? strerror(-error) : "file truncated"});
        http_close(session);
    }
}

static const sluice_file_events file_events = {
    .size = sizeof file_events, .on_data = on_file_data, .on_end = on_file_end};

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
    return sluice_slice_length(&sending->piece) + sluice_file_footprint(sending->file);
}

size_t http_record_reads(const struct http_session *session) {
    const struct http_file *sending = session->file;
    size_t held = http_record_held(session);
    if (held > 0 || !sending || sending->ended)
        return held;
    /* Those that begin in one turn read with its end: each is to know of the others. */
    return sending->left < READ_AHEAD ? (size_t)sending->left : READ_AHEAD;
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
        session->deadline = min_rate_extend(session->deadline, worker_now(session->base.worker), bytes,
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
    /* Of what is not said to every page (Fetch, "CORS-safelisted response-header name"). */
    static const char exposed[] = "Access-Control-Expose-Headers: Content-Range, Accept-Ranges, ETag\r\n";
    char range[HTTP_RANGE_TEXT] = "", length[HTTP_RANGE_TEXT] = "", origin[HTTP_CORS_TEXT];
    http_cors_write(session, origin, sizeof origin);
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
                    part->status, http_status_text(part->status), origin, http_cors_is_granted(session) ? exposed : "",
                    resource->etag, resource->modified, range, length, session->keep_alive ? "keep-alive" : "close");
}

/* Begins to read what is to be sent. Takes the descriptor over in any case. */
static int open_body(struct http_session *session, struct http_record *record, const struct http_part *part) {
    if (part->length == 0 || session->head_only)
        return 0;
    const sluice_file_options options = {
        .size = sizeof options, .offset = part->first, .length = part->length, .read_ahead = READ_AHEAD};
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

/* Downloads that are taken slowly hold what was read for them: further ones wait until those are
 * done. */
static bool is_too_much(const struct worker *worker) {
    return worker->holdings.reads >= worker->holdings.bytes / READS_SHARE;
}

static void refuse_download(struct http_session *session) {
    const struct http_reply reply = {.status = 503, .reason = "too many downloads", .retry_after = RETRY_S};
    server_count_reject(session->base.worker->server, REJECT_MEMORY);
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
    http_send(session, head, (size_t)write_head(head, session, &resource, &part),
              session->base.worker->options->streams.all.stall_ms);
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

/* Parses the path: a file of a stream, or a stream. False if it can be neither. */
static bool read_path(struct http_record *record, sluice_http_text text) {
    const char *path = text.text;
    size_t length = text.length;
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

/* Parses the page of the list. Other parts of a query, such as a token, are ignored. */
static bool read_page(struct record_page *page, sluice_http_text query) {
    sluice_http_text value;
    uint64_t limit = RECORD_PAGE;
    if (text_parameter(query, "limit", &value) && (!text_number(value, RECORD_PAGE, &limit) || limit == 0))
        return false;
    page->limit = (size_t)limit;
    if (!text_parameter(query, "after", &value))
        return true;
    if (!record_file_name_is_valid(value.text, value.length))
        return false;
    snprintf(page->after, sizeof page->after, "%.*s", (int)value.length, value.text);
    return true;
}

void http_record_serve(struct http_session *session, const sluice_http_request *request, sluice_http_text path) {
    struct worker *worker = session->base.worker;
    bool keep_alive = http_keeps_alive(session, request);
    struct http_record *record = calloc(1, sizeof *record);
    if (!record || !read_path(record, path)) {
        free(record);
        http_refuse(session, 503, "out of memory");
        return;
    }
    if (!*record->path && !read_page(&record->page, request->query)) {
        const struct http_reply reply = {.status = 400,
                                         .reason = "invalid parameter: limit is 1 to 1000, after is the name of a file",
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
    int place = *record->path ? 1 : record_queue_enter(&worker->record_lists, &record->turn);
    if (place < 0) {
        const struct http_reply reply = {.status = 503, .reason = "too many listings", .retry_after = RETRY_S};
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

void http_record_handle(struct http_session *session, const sluice_http_request *request, sluice_http_text path) {
    struct http_record wanted = {0};
    if (!read_path(&wanted, path)) {
        const struct http_reply reply = {
            .status = 404, .reason = "no such recording", .keep_alive = http_keeps_alive(session, request)};
        http_respond(session, &reply);
        return;
    }
    /* The right to play a stream includes its recordings; a hook gets the name of the recording. */
    const struct hook_query_about question = {.event = HOOK_PLAY,
                                              .stream = {wanted.stream, strlen(wanted.stream)},
                                              .protocol = "http",
                                              .recording = *wanted.path ? strrchr(wanted.path, '/') + 1 : ""};
    if (http_authorize(session, request, session->route->action, question.stream) &&
        !http_ask_hook(session, request, &question))
        http_record_serve(session, request, path);
}
