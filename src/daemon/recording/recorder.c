#include "daemon/recording/recorder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sluice/chain.h>
#include <sluice/file_writer.h>

#include "daemon/base/log.h"
#include "daemon/recording/flv_index.h"
#include "daemon/relay/reclaim.h"
#include "daemon/relay/registry.h"
#include "daemon/relay/video_size.h"

enum {
    RETRY_MS = 5000,   /* until a disk that took nothing is tried again */
    GATHER = 64 << 10, /* bytes of a write, unless they wait for too long */
    /* recordings of a stream that are not closed: a disk that is behind gets no more of them */
    OPEN_MOST = 32,
    RENAMES_MOST = 8, /* of a part that cannot be made under its name */
    TAG_AROUND = SLUICE_FLV_TAG_HEADER_SIZE + SLUICE_FLV_TRAILER_SIZE,
    SPARE = 64,        /* bytes for a file header and the like */
    HEADERS = 4096,    /* bytes for those of decoders as well, and */
    HEADER_BLOCKS = 8, /* blocks */
};

/* One file. */
struct recording {
    LIST_ENTRY(recording) link; /* in the owner's list */
    struct recorders *owner;
    struct recorder *recorder; /* NULL when it is being completed, or given up */
    const struct record_root *root;
    char path[RECORD_PATH]; /* below the root, of the whole recording */
    sluice_file_writer *writer;
    struct flv_index index;
    size_t metadata; /* bytes of its payload */
    uint32_t base;   /* time of the stream that is 0 here */
    uint64_t place;  /* where the next tag goes */
    uint64_t queued; /* bytes that are counted with the owner's */
    uint64_t retry_at;
    uint8_t renames; /* of the part, before it was there */
    bool opened;     /* something of it is on the disk */
    bool failed;     /* what is next has failed, and is tried again at retry_at */
    bool ending;     /* all that it is made of is queued */
};

static void on_progress(sluice_file_writer *writer, void *user);
static void on_error(sluice_file_writer *writer, int error, void *user);
static void on_closed(sluice_file_writer *writer, int error, void *user);

static const sluice_file_writer_events writer_events = {
    .size = sizeof writer_events, .on_progress = on_progress, .on_error = on_error, .on_closed = on_closed};

void recorders_init(struct recorders *recorders, struct record_store *records, sluice_loop *loop, uint64_t limit) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool *pool = sluice_loop_pool(loop);
    sluice_pool_get_stats(pool, &stats);
    *recorders = (struct recorders){
        .records = records,
        .loop = loop,
        .pool = pool,
        .budget = stats.bytes_max / 4,
    };
    recorders_set_limit(recorders, limit);
}

void recorders_set_limit(struct recorders *recorders, uint64_t limit) {
    recorders->limit = limit < recorders->budget ? limit : recorders->budget;
}

void recorders_clear(struct recorders *recorders) {
    record_overrides_clear(&recorders->overrides);
}

static void count_queued(struct recording *recording) {
    uint64_t queued = sluice_file_writer_queued(recording->writer);
    recording->owner->queued += queued - recording->queued;
    recording->queued = queued;
}

/* Takes a recording from its recorder; what becomes of it is its own affair. */
static void part(struct recording *recording) {
    if (recording->recorder && recording->recorder->current == recording)
        recording->recorder->current = NULL;
}

static void give_up(struct recording *recording) {
    part(recording);
    sluice_file_writer_close(recording->writer);
}

/* Bytes */

static void free_payload(const void *memory, size_t n, void *user) {
    (void)n, (void)user;
    free((void *)memory);
}

/* The metadata as it is now, as a slice. 0, -ENOMEM, -ENOBUFS */
static int make_metadata(const struct recording *recording, uint64_t file_size, sluice_slice *ret_slice) {
    sluice_chain *chain;
    uint8_t *payload = malloc(recording->metadata);
    if (!payload)
        return -ENOMEM;
    flv_index_write(&recording->index, file_size, payload, recording->metadata);
    int error = sluice_chain_new(recording->owner->pool, &chain);
    if (error) {
        free(payload);
        return error;
    }
    error = sluice_chain_append_memory(chain, payload, recording->metadata, free_payload, NULL);
    if (error)
        free(payload);
    else
        error = sluice_chain_take(chain, recording->metadata, ret_slice);
    sluice_chain_free(chain);
    return error;
}

/* Queues a tag, and takes the slice over in any case. */
static int put_tag(struct recording *recording, sluice_flv_type type, uint32_t timestamp, sluice_slice *payload) {
    uint8_t header[SLUICE_FLV_TAG_HEADER_SIZE], trailer[SLUICE_FLV_TRAILER_SIZE];
    uint32_t size = (uint32_t)sluice_slice_length(payload);
    sluice_flv_write_tag_header(header, type, size, timestamp);
    sluice_flv_write_trailer(trailer, size);
    int error = sluice_file_writer_copy(recording->writer, header, sizeof header);
    if (!error)
        error = sluice_file_writer_slice(recording->writer, payload);
    if (!error)
        error = sluice_file_writer_copy(recording->writer, trailer, sizeof trailer);
    sluice_slice_release(payload);
    recording->place += size + TAG_AROUND;
    return error;
}

static int put_packet(struct recording *recording, const struct packet *packet, uint32_t timestamp) {
    sluice_slice payload;
    uint64_t place = recording->place;
    sluice_slice_ref(&packet->payload, &payload);
    int error = put_tag(recording, packet->type, timestamp, &payload);
    if (error)
        return error;
    sluice_flv_view view = packet_view(packet);
    flv_index_add(&recording->index, packet->type, &view, timestamp, place);
    return 0;
}

/* What a decoder needs before the frame that follows. */
static int put_headers(struct recording *recording, const struct stream_headers *headers, uint32_t timestamp) {
    int error = 0;
    /* The metadata is the recording's own. */
    for (size_t i = 1; i < TRACKS_HEADERS && !error; i++)
        if (stream_headers_at(headers, i))
            error = put_packet(recording, stream_headers_at(headers, i), timestamp);
    return error;
}

/* Audio may lie a little before the key frame that began the recording. */
static uint32_t time_in(const struct recording *recording, const struct packet *packet) {
    int32_t since = (int32_t)(packet->timestamp - recording->base);
    return since > 0 ? (uint32_t)since : 0;
}

/* Beginning a recording */

/* On a thread. */
static int open_part(int fd, void *user) {
    const struct recording *recording = user;
    (void)fd;
    return record_part_create(recording->root->fd, recording->path);
}

/* The time by the wall's clock; never the same twice, since files are named by it. */
static uint64_t name_time(struct recorders *owner) {
    struct timespec clock;
    clock_gettime(CLOCK_REALTIME, &clock);
    uint64_t now = (uint64_t)clock.tv_sec * 1000 + (uint64_t)clock.tv_nsec / 1000000;
    owner->named = now > owner->named ? now : owner->named + 1;
    return owner->named;
}

/* Room for the key frames of the usual distance, or more. */
static size_t index_room(const struct record_options *options) {
    uint64_t seconds = options->segment_ms ? options->segment_ms / 1000 : FLV_INDEX_MOST;
    if (seconds < FLV_INDEX_LEAST)
        return FLV_INDEX_LEAST;
    return seconds < FLV_INDEX_MOST ? (size_t)seconds : FLV_INDEX_MOST;
}

/* The file header, and the metadata with room for the index. */
static int put_beginning(struct recording *recording, uint8_t flags) {
    uint8_t header[SLUICE_FLV_HEADER_SIZE];
    sluice_slice metadata = {0};
    sluice_flv_write_header(header, flags);
    int error = sluice_file_writer_run(recording->writer, open_part, recording);
    if (!error)
        error = sluice_file_writer_copy(recording->writer, header, sizeof header);
    recording->place = sizeof header;
    if (!error)
        error = make_metadata(recording, 0, &metadata);
    return error ? error : put_tag(recording, SLUICE_FLV_SCRIPT, 0, &metadata);
}

static void describe_tracks(struct recording *recording, const struct stream *stream) {
    video_size(stream, &recording->index.width, &recording->index.height);
    recording->index.frame_rate = stream->metadata.frame_rate;
}

static int make(struct recorder *recorder, struct recording **ret_recording) {
    struct recorders *owner = recorder->owner;
    size_t room = index_room(owner->records->options);
    char name[RECORD_FILE];
    struct recording *recording = calloc(1, sizeof *recording);
    if (!recording)
        return -ENOMEM;
    recording->metadata = flv_index_size(room);
    /* The limit may change while it is written. */
    const sluice_file_writer_options options = {
        .size = sizeof options, .limit = owner->budget + 2 * recording->metadata + SPARE, .gather = GATHER};
    int error = flv_index_init(&recording->index, room);
    if (!error)
        error = sluice_file_writer_new(owner->loop, -1, &options, &writer_events, recording, &recording->writer);
    if (error) {
        flv_index_clear(&recording->index);
        free(recording);
        return error;
    }
    recording->owner = owner;
    recording->recorder = recorder;
    recording->root = recorder->root;
    record_file_name(name_time(owner), name);
    snprintf(recording->path, sizeof recording->path, "%s/%s", recorder->stream->name, name);
    describe_tracks(recording, recorder->stream);
    LIST_INSERT_HEAD(&owner->recordings, recording, link);
    owner->count++;
    recorder->open++;
    *ret_recording = recording;
    return 0;
}

/* Says so once, until something is recorded again. */
static void tell_paused(struct recorder *recorder, const char *path, int error) {
    if (!recorder->error)
        LOG(LOG_ERROR, "recording paused", {"stream", recorder->stream->name}, {"file", path},
            {"reason", strerror(-error)});
    recorder->error = error;
}

static void trouble(struct recorder *recorder, const char *path, int error) {
    recorder->hold_to = sluice_loop_now(recorder->owner->loop) + RETRY_MS;
    tell_paused(recorder, path, error);
}

/*
 * Whether the other recordings leave enough memory to begin one with this packet: a file that gets
 * no frame is useless. The first of all is always begun, however little memory recordings may use.
 */
static bool may_begin(const struct recorders *owner, const struct packet *packet) {
    uint64_t needed = flv_index_size(index_room(owner->records->options)) + packet_size(packet) + TAG_AROUND + HEADERS;
    return owner->queued == 0 ||
           (owner->queued + needed <= owner->budget && !reclaim_exceeds(owner->pool, 3, HEADER_BLOCKS));
}

static void begin(struct recorder *recorder, const struct packet *packet, const struct stream_headers *headers) {
    struct recording *recording;
    if (!may_begin(recorder->owner, packet)) {
        tell_paused(recorder, "", -ENOBUFS);
        return;
    }
    int error = make(recorder, &recording);
    if (error) {
        trouble(recorder, "", error);
        return;
    }
    recorder->current = recording;
    recording->base = packet->timestamp;
    error = put_beginning(recording, recorder->stream->seen);
    if (!error)
        error = put_headers(recording, headers, 0);
    if (error) {
        trouble(recorder, recording->path, error);
        give_up(recording);
        return;
    }
    recorder->files++;
    recorder->needs_key = UINT32_MAX;
    memcpy(recorder->file, recording->path, sizeof recorder->file);
    recorder->behind = false;
    LOG(LOG_DEBUG, "recording started", {"stream", recorder->stream->name}, {"file", recording->path});
}

/* Ending it */

/* What is written last: the index, into the room that was left for it. */
static int put_end(struct recording *recording) {
    char part_path[RECORD_PATH];
    sluice_slice metadata;
    int error = make_metadata(recording, recording->place, &metadata);
    if (error)
        return error;
    error = sluice_file_writer_seek(recording->writer, SLUICE_FLV_HEADER_SIZE + SLUICE_FLV_TAG_HEADER_SIZE);
    if (!error)
        error = sluice_file_writer_slice(recording->writer, &metadata);
    sluice_slice_release(&metadata);
    if (!error)
        error = sluice_file_writer_sync(recording->writer);
    snprintf(part_path, sizeof part_path, "%.*s%s", (int)(sizeof part_path - sizeof RECORD_PART), recording->path,
             RECORD_PART);
    if (!error)
        error = sluice_file_writer_rename(recording->writer, recording->root->fd, part_path, recording->path);
    return error;
}

/* Completes what is recorded so far. What fails now is repaired like what a crash leaves behind. */
static void end(struct recording *recording) {
    part(recording);
    recording->ending = true;
    if (recording->failed || put_end(recording) < 0) {
        give_up(recording);
        return;
    }
    sluice_file_writer_finish(recording->writer);
    count_queued(recording);
}

static void tell(const struct recording *recording) {
    const struct record_store *records = recording->owner->records;
    const struct record_done done = {
        .directory = recording->root->path,
        .path = recording->path,
        .bytes = recording->place,
        .frames = recording->index.frames,
        .duration_ms = flv_index_duration(&recording->index),
    };
    LOG(LOG_INFO, "recorded", {"file", done.path}, {"bytes", log_unsigned(done.bytes).text},
        {"frames", log_unsigned(done.frames).text}, {"milliseconds", log_unsigned(done.duration_ms).text});
    if (records->done)
        records->done(&done, records->done_user);
}

static void tell_end(const struct recording *recording, int error) {
    if (!error)
        tell(recording);
    else if (recording->opened)
        LOG(LOG_WARNING, "recording incomplete", {"file", recording->path}, {"action", "repair"});
}

static void on_closed(sluice_file_writer *writer, int error, void *user) {
    struct recording *recording = user;
    struct recorders *owner = recording->owner;
    (void)writer;
    part(recording);
    tell_end(recording, error);
    if (error)
        (void)recovery_add(owner->records->repairs, recording->root, recording->path);
    if (recording->recorder)
        recording->recorder->open--;
    owner->queued -= recording->queued;
    LIST_REMOVE(recording, link);
    owner->count--;
    flv_index_clear(&recording->index);
    free(recording);
}

/* What the disk says */

static void on_progress(sluice_file_writer *writer, void *user) {
    struct recording *recording = user;
    struct recorder *recorder = recording->recorder;
    (void)writer;
    recording->opened = true;
    recording->failed = false;
    count_queued(recording);
    /* Opening alone needs no room on the disk. */
    if (!recorder || !recorder->error || sluice_file_writer_offset(writer) == 0)
        return;
    recorder->error = 0;
    LOG(LOG_INFO, "recording resumed", {"stream", recorder->stream->name}, {"file", recording->path});
}

/* Whether it is worth waiting for: as long as the stream goes on, also for what is to be
 * completed. */
static bool may_pass(const struct recording *recording, int error) {
    bool full = error == -ENOSPC || error == -EDQUOT;
    return recording->recorder && (full || (!recording->opened && error != -EEXIST));
}

/*
 * What takes a new part may come back to its name: so it is made under another one, at once. Not
 * when the rename at the end is queued, which has the name.
 */
static bool take_other_name(struct recording *recording) {
    if (recording->opened || recording->ending || recording->renames == RENAMES_MOST)
        return false;
    recording->renames++;
    record_file_name(name_time(recording->owner), strrchr(recording->path, '/') + 1);
    memcpy(recording->recorder->file, recording->path, sizeof recording->recorder->file);
    return true;
}

static void on_error(sluice_file_writer *writer, int error, void *user) {
    struct recording *recording = user;
    if (error == -EAGAIN && take_other_name(recording)) {
        sluice_file_writer_retry(writer);
        return;
    }
    bool waits = may_pass(recording, error);
    if (recording->recorder && (waits || !recording->ending))
        trouble(recording->recorder, recording->path, error);
    else
        LOG(LOG_ERROR, "cannot complete recording", {"file", recording->path}, {"reason", strerror(-error)});
    if (!waits) {
        give_up(recording);
        return;
    }
    recording->failed = true;
    recording->retry_at = sluice_loop_now(recording->owner->loop) + RETRY_MS;
}

void recorders_tick(struct recorders *recorders) {
    uint64_t now = sluice_loop_now(recorders->loop);
    for (struct recording *recording = LIST_FIRST(&recorders->recordings); recording;
         recording = LIST_NEXT(recording, link)) {
        sluice_file_writer_flush(recording->writer);
        if (recording->failed && now >= recording->retry_at) {
            recording->retry_at = now + RETRY_MS;
            sluice_file_writer_retry(recording->writer);
        }
    }
}

void recorders_give_up(struct recorders *recorders) {
    for (struct recording *recording = LIST_FIRST(&recorders->recordings); recording;
         recording = LIST_NEXT(recording, link))
        sluice_file_writer_close(recording->writer);
}

void recorders_abandon(const struct recorders *recorders) {
    for (const struct recording *recording = LIST_FIRST(&recorders->recordings); recording;
         recording = LIST_NEXT(recording, link))
        tell_end(recording, -ETIMEDOUT);
}

/* Packets */

/*
 * Whether a packet can be queued, besides what ends the recording. Recordings are the first to do
 * without, so that players never have to: a quarter of the pool stays out of their reach.
 */
static bool has_room(const struct recording *recording, size_t size) {
    const struct recorders *owner = recording->owner;
    return sluice_file_writer_room(recording->writer) >= size + recording->metadata + SPARE &&
           recording->queued + size <= owner->limit + recording->metadata && owner->queued + size <= owner->budget &&
           !reclaim_exceeds(owner->pool, 3, 0);
}

/* Time that goes back behind its beginning, as when an encoder starts anew, cannot be told in the
 * same file. */
static bool is_full(const struct recorder *recorder, const struct packet *packet) {
    const struct record_options *options = recorder->owner->records->options;
    const struct recording *recording = recorder->current;
    /* Its beginning alone may be more than a file is to have. */
    if (recording->index.frames == 0)
        return false;
    if ((int32_t)(packet->timestamp - recording->base) < 0)
        return true;
    /* One that waits for the disk keeps what it has, and goes on: the next one would only wait
     * beside it. */
    return !recording->failed && ((options->segment_ms && time_in(recording, packet) >= options->segment_ms) ||
                                  (options->segment_bytes && recording->place >= options->segment_bytes));
}

/* A packet that decoding can begin with: a new recording may, and one that is behind goes on. */
static void synchronize(struct recorder *recorder, const struct packet *packet, const struct stream_headers *headers) {
    if (recorder->current && is_full(recorder, packet))
        end(recorder->current);
    if (!recorder->current) {
        if (recorder->open < OPEN_MOST && sluice_loop_now(recorder->owner->loop) >= recorder->hold_to)
            begin(recorder, packet, headers);
        return;
    }
    if (recorder->behind && has_room(recorder->current, recorder->owner->limit / 2)) {
        recorder->behind = false;
        recorder->needs_key = UINT32_MAX;
        if (put_headers(recorder->current, headers, time_in(recorder->current, packet)) < 0)
            give_up(recorder->current);
    }
}

/* Whether it is of a video track of which the file has no key frame yet. */
static bool is_held_back(struct recorder *recorder, const struct packet *packet) {
    uint32_t bit = 1u << packet->track;
    if (packet->role != PACKET_KEY_FRAME && packet->role != PACKET_VIDEO)
        return false;
    if (packet->role == PACKET_KEY_FRAME || packet->key_frame)
        recorder->needs_key &= ~bit;
    /* A stream's beginning may have frames of the main track before its first key frame: they are
     * its players' too. */
    return (recorder->needs_key & bit) && !stream_is_main(recorder->stream, packet);
}

static void push(struct recorder *recorder, const struct packet *packet, const struct stream_headers *headers) {
    bool is_frame = packet->role >= PACKET_KEY_FRAME && packet->role <= PACKET_AUDIO;
    if (packet->role == PACKET_METADATA)
        return;
    if (packet->role == (recorder->stream->seen & SLUICE_FLV_HAS_VIDEO ? PACKET_KEY_FRAME : PACKET_AUDIO))
        synchronize(recorder, packet, headers);
    struct recording *recording = recorder->current;
    if (recording && !recorder->behind && !has_room(recording, packet_size(packet) + TAG_AROUND))
        recorder->behind = true;
    if (recording && is_held_back(recorder, packet))
        return;
    if (!recording || recorder->behind) {
        /* Frames before the first key frame are not lost. */
        recorder->frames_dropped += is_frame && (recorder->files > 0 || recorder->error);
        return;
    }
    if (put_packet(recording, packet, time_in(recording, packet)) < 0) {
        give_up(recording);
        return;
    }
    count_queued(recording);
    recorder->frames += is_frame;
    recorder->bytes += packet_size(packet) + TAG_AROUND;
}

/* A stream's recorder as its sink */

static void take(struct stream_sink *sink, struct stream *stream, struct packet *packet, uint8_t flags) {
    (void)flags;
    push((struct recorder *)sink, packet, &stream->headers);
}

static void lost(struct stream_sink *sink, struct stream *stream) {
    (void)stream;
    ((struct recorder *)sink)->behind = true;
}

/* The recording is completed while the stream may go. */
static void stop(struct stream_sink *sink, struct stream *stream) {
    struct recorder *recorder = (struct recorder *)sink;
    stream_remove_sink(stream, sink);
    if (recorder->current)
        end(recorder->current);
    for (struct recording *recording = LIST_FIRST(&recorder->owner->recordings); recording;
         recording = LIST_NEXT(recording, link)) {
        if (recording->recorder != recorder)
            continue;
        recording->recorder = NULL;
        if (recording->failed)
            give_up(recording);
    }
    free(recorder);
}

static const struct stream_sink_type sink_type = {.rank = SINK_RECORDER, .packet = take, .lost = lost, .ended = stop};

struct recorder *recorder_of(const struct stream *stream) {
    return (struct recorder *)stream_find_sink(stream, &sink_type);
}

/* If it is to be recorded: begins with the group, which may be empty. */
void recorders_opened(struct recorders *recorders, struct stream *stream) {
    enum record_override override = record_overrides_find(&recorders->overrides, stream->name);
    if (override == RECORD_OFF || !recorders->records || recorder_of(stream))
        return;
    /* The node that has it does. */
    if (stream->source.is_remote && override != RECORD_ON)
        return;
    const struct record_root *root = record_store_find(recorders->records, stream->name);
    if (!root && override == RECORD_ON)
        root = record_store_default(recorders->records);
    struct recorder *recorder = root ? calloc(1, sizeof *recorder) : NULL;
    if (!recorder)
        return;
    recorder->sink.type = &sink_type;
    recorder->owner = recorders;
    recorder->stream = stream;
    recorder->root = root;
    stream_add_sink(stream, &recorder->sink);
    for (size_t i = 0; i < stream->gop.count; i++) {
        /* A stream's beginning may have frames before its first key frame: they are its players'
         * too. */
        if (i == 0 && !recorder->current)
            begin(recorder, stream->gop.packets[0], &stream->gop.headers);
        push(recorder, stream->gop.packets[i], &stream->gop.headers);
    }
}

int recorders_wish(struct recorders *recorders, struct registry *registry, const char *name,
                   enum record_override override) {
    struct stream *stream = registry_find(registry, name);
    if (!recorders->records)
        return -EOPNOTSUPP;
    int error = record_overrides_set(&recorders->overrides, name, override);
    if (error || !stream)
        return error;
    struct recorder *recorder = recorder_of(stream);
    if (override == RECORD_OFF || (override == RECORD_BY_RULE && !record_store_find(recorders->records, name))) {
        if (recorder)
            stop(&recorder->sink, stream);
    } else if (stream_is_known(stream)) {
        recorders_opened(recorders, stream);
    }
    return 0;
}

uint64_t recorder_queued(const struct recorder *recorder) {
    return recorder->current ? recorder->current->queued : 0;
}

const char *recorder_state_name(const struct recorder *recorder) {
    if (recorder->error)
        return "paused";
    if (recorder->behind)
        return "behind";
    return recorder->current ? "recording" : "waiting";
}
