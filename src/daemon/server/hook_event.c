#include "daemon/server/hook_event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/relay/player.h"
#include "daemon/server/server.h"
#include "shared/json.h"

enum { TIME_TEXT = sizeof "2026-11-21T20:15:03.123Z" };

static void format_now(char text[TIME_TEXT]) {
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t length = strftime(text, TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + length, TIME_TEXT - length, ".%03ldZ", now.tv_nsec / 1000000);
}

static void begin(struct json *json, enum hook_kind event, const char *stream) {
    char now[TIME_TEXT];
    format_now(now);
    json_open(json, NULL, '{');
    json_put_string(json, "event", hook_kind_name(event));
    json_put_string(json, "time", now);
    json_put_string(json, "stream", stream);
}

/* Takes the text over. NULL without memory. */
static struct hook_event *finish(struct json *json, enum hook_kind event, const char *stream) {
    struct hook_event *notice = calloc(1, sizeof *notice);
    json_close(json, '}');
    if (!notice || json->failed) {
        free(notice);
        free(json->text);
        return NULL;
    }
    *notice = (struct hook_event){.event = event, .body = json->text, .length = json->length};
    snprintf(notice->stream, sizeof notice->stream, "%s", stream);
    return notice;
}

void hook_event_free(struct hook_event *notice) {
    if (!notice)
        return;
    free(notice->body);
    free(notice);
}

/* What publishers and players have in common. */
static void tell(const struct worker *worker, struct json *json, enum hook_kind event, const char *stream) {
    struct hook_event *notice = finish(json, event, stream);
    if (notice)
        server_notify(worker->server, notice);
}

void hook_event_unpublish(const struct stream *stream, uint64_t now, const char *reason) {
    const struct stream_source *source = &stream->source;
    const struct worker *worker = source->session->worker;
    struct json json = {0};
    if (!*worker->options->hooks[HOOK_UNPUBLISH].host)
        return;
    begin(&json, HOOK_UNPUBLISH, stream->name);
    json_put_string(&json, "protocol", source->protocol);
    json_put_string(&json, "address", source->peer);
    json_put_unsigned(&json, "id", stream->publisher_id);
    json_put_real(&json, "seconds", (double)(now - source->since) / 1000);
    json_put_unsigned(&json, "bytes", stream->bytes);
    json_put_string(&json, "reason", reason);
    tell(worker, &json, HOOK_UNPUBLISH, stream->name);
}

void hook_event_stop(const struct session *session, const struct player *player, const char *reason) {
    const struct worker *worker = session->worker;
    struct json json = {0};
    if (!*worker->options->hooks[HOOK_STOP].host)
        return;
    begin(&json, HOOK_STOP, player->stream->name);
    json_put_string(&json, "protocol", player->protocol);
    json_put_string(&json, "address", session->peer);
    json_put_unsigned(&json, "id", player->id);
    json_put_real(&json, "seconds", (double)(worker_now(worker) - player->since) / 1000);
    json_put_unsigned(&json, "bytes", player->bytes_sent);
    json_put_string(&json, "reason", reason);
    tell(worker, &json, HOOK_STOP, player->stream->name);
}

/* A recording's name says when it began, with "-" for ":". */
static void format_begin(const char *name, char text[TIME_TEXT]) {
    snprintf(text, TIME_TEXT, "%s", name);
    text[strlen("2026-11-21T20")] = text[strlen("2026-11-21T20-15")] = ':';
}

struct hook_event *hook_event_recording(const struct record_done *done) {
    const char *slash = strrchr(done->path, '/');
    char stream[STREAM_NAME + 1], start[TIME_TEXT];
    struct json json = {0};
    snprintf(stream, sizeof stream, "%.*s", (int)(slash - done->path), done->path);
    format_begin(slash + 1, start);
    begin(&json, HOOK_RECORD, stream);
    json_put_string(&json, "directory", done->directory);
    json_put_string(&json, "file", done->path);
    json_put_string(&json, "start", start);
    json_put_real(&json, "seconds", (double)done->duration_ms / 1000);
    json_put_unsigned(&json, "bytes", done->bytes);
    json_put_bool(&json, "repaired", done->repaired);
    return finish(&json, HOOK_RECORD, stream);
}
