#include <stdio.h>
#include <string.h>

#include "sim/announcer.h"
#include "sim/peers.h"
#include "sim/world.h"

enum { SILENT_US = 60000000, BUSY_US = 500, CHUNK_LINE = 16 };

struct sim_publisher {
    struct publisher_plan plan;
    struct file *file;
    uint16_t generation;
    uint32_t number; /* of the last frame made */
    uint32_t timestamp;
    uint8_t *bytes; /* to be sent */
    size_t count, room, done;
    bool is_done, is_stopped, has_finished;
    uint32_t sent; /* frames */
    uint64_t next_at;
    struct announcer announcer;
};

static void put(struct sim_publisher *publisher, const void *bytes, size_t n) {
    world_append(&publisher->bytes, &publisher->count, &publisher->room, bytes, n);
}

/* A part of the body; chunks end where they like. */
static void put_body(struct sim_publisher *publisher, const uint8_t *bytes, size_t n) {
    char line[CHUNK_LINE];
    if (publisher->plan.form != PUBLISH_CHUNKED) {
        put(publisher, bytes, n);
        return;
    }
    for (size_t done = 0; done < n;) {
        size_t here = world_one_in(3) ? world_between(1, (uint32_t)(n - done)) : n - done;
        put(publisher, line, (size_t)snprintf(line, sizeof line, "%zx\r\n", here));
        put(publisher, bytes + done, here);
        put(publisher, "\r\n", 2);
        done += here;
    }
}

static void put_tag(struct sim_publisher *publisher, const struct media_tag *tag) {
    static uint8_t bytes[MEDIA_MOST + MEDIA_AROUND];
    media_write_tag(bytes, tag);
    put_body(publisher, bytes, tag->size + MEDIA_AROUND);
}

static void put_header(struct sim_publisher *publisher, enum media_kind kind) {
    put_tag(publisher, &(struct media_tag){.kind = kind,
                                           .stream = publisher->plan.show->stream,
                                           .generation = publisher->generation,
                                           .number = publisher->number + 1,
                                           .size = world_between(MEDIA_LEAST, 60),
                                           .timestamp = publisher->timestamp});
}

static enum media_kind next_kind(const struct sim_publisher *publisher) {
    const struct show *show = publisher->plan.show;
    if (!show->has_video)
        return MEDIA_AUDIO;
    if (publisher->number % publisher->plan.key_every == 1 || publisher->plan.key_every == 1)
        return MEDIA_KEY_FRAME;
    return show->has_audio && publisher->number % 3 == 0 ? MEDIA_AUDIO : MEDIA_VIDEO;
}

/* What it has to say by RTSP. */
static void put_said(struct sim_publisher *publisher) {
    size_t n;
    const uint8_t *bytes = announcer_take_out(&publisher->announcer, &n);
    if (n > 0)
        put(publisher, bytes, n);
}

static void put_frame(struct sim_publisher *publisher) {
    publisher->number++;
    publisher->timestamp += world_between(1, 40);
    struct media_tag tag = {
        .kind = next_kind(publisher),
        .stream = publisher->plan.show->stream,
        .generation = publisher->generation,
        .number = publisher->number,
        .size = world_between(MEDIA_LEAST, world_one_in(8) ? publisher->plan.size_most : 600),
        .timestamp = publisher->timestamp,
    };
    if (tag.kind == MEDIA_AUDIO && tag.size > MEDIA_MOST_AUDIO)
        tag.size = MEDIA_MOST_AUDIO;
    if (publisher->plan.form == PUBLISH_RTSP)
        announcer_put_frame(&publisher->announcer, &tag);
    else
        put_tag(publisher, &tag);
}

static void put_beginning(struct sim_publisher *publisher) {
    const struct show *show = publisher->plan.show;
    uint8_t header[MEDIA_HEADER];
    char head[160];
    if (publisher->plan.form == PUBLISH_RTSP)
        return;
    if (publisher->plan.form != PUBLISH_RAW)
        put(publisher, head,
            (size_t)snprintf(head, sizeof head, "POST /live/%u.flv HTTP/1.1\r\nHost: here\r\n%s\r\n", show->stream,
                             publisher->plan.form == PUBLISH_CHUNKED ? "Transfer-Encoding: chunked\r\n" : ""));
    media_write_header(header, show->has_video, show->has_audio);
    put_body(publisher, header, sizeof header);
    if (show->has_video)
        put_header(publisher, MEDIA_VIDEO_HEADER);
    if (show->has_audio)
        put_header(publisher, MEDIA_AUDIO_HEADER);
}

/* All that it will send has been sent. */
static void end(struct sim_publisher *publisher) {
    publisher->is_done = true;
    switch (publisher->plan.end) {
    case PUBLISHER_RESETS:
        peer_reset(publisher->file);
        break;
    case PUBLISHER_FALLS_SILENT:
        break;
    case PUBLISHER_ENDS:
    case PUBLISHER_CUTS:
    case PUBLISHER_LIES:
        if (!publisher->has_finished)
            peer_finish(publisher->file);
        publisher->has_finished = true;
        break;
    }
}

/* What comes last, where it is not to end well. */
static void put_end(struct sim_publisher *publisher) {
    static const uint8_t lie[] = "\11\377\377\377 this is no tag at all, and much too long";
    publisher->announcer.has_lied = publisher->plan.end != PUBLISHER_ENDS;
    if (publisher->plan.end == PUBLISHER_LIES)
        put_body(publisher, lie, sizeof lie);
    else if (publisher->plan.end == PUBLISHER_CUTS)
        put_body(publisher, lie, world_between(1, 3));
    else if (publisher->plan.end == PUBLISHER_ENDS && publisher->plan.form == PUBLISH_CHUNKED)
        put(publisher, "0\r\n\r\n", 5);
    else if (publisher->plan.end == PUBLISHER_ENDS && publisher->plan.form == PUBLISH_RTSP)
        announcer_put_end(&publisher->announcer);
}

/* For the server's leave to send. Who is told to stop does not. */
static bool is_waiting(const struct sim_publisher *publisher) {
    return publisher->plan.form == PUBLISH_RTSP && !announcer_may_send(&publisher->announcer) && !publisher->is_stopped;
}

static void make_more(struct sim_publisher *publisher) {
    if (publisher->done < publisher->count || world_now() < publisher->next_at)
        return;
    publisher->done = publisher->count = 0;
    if (publisher->number > publisher->plan.frames || is_waiting(publisher))
        return;
    /* Everything before this one has been sent. */
    publisher->sent = publisher->number;
    if (publisher->number == publisher->plan.frames || publisher->is_stopped) {
        publisher->number = publisher->plan.frames + 1;
        put_end(publisher);
        return;
    }
    if (publisher->number == 0)
        put_beginning(publisher);
    put_frame(publisher);
    publisher->next_at = world_now() + publisher->plan.frame_us;
}

static void listen(struct sim_publisher *publisher) {
    uint8_t answer[512];
    size_t n = peer_receive(publisher->file, answer, sizeof answer);
    if (publisher->plan.form != PUBLISH_RTSP)
        return;
    announcer_take(&publisher->announcer, answer, n);
    if (publisher->announcer.is_refused && !publisher->has_finished) {
        publisher->has_finished = true;
        peer_finish(publisher->file);
    }
}

static void work(void *user) {
    struct sim_publisher *publisher = user;
    if (publisher->is_done)
        return;
    listen(publisher);
    if (peer_is_ended(publisher->file)) {
        publisher->is_done = true;
        return;
    }
    make_more(publisher);
    if (publisher->plan.form == PUBLISH_RTSP)
        put_said(publisher);
    size_t n = publisher->count - publisher->done, sent = 0;
    if (n > publisher->plan.piece_most)
        n = publisher->plan.piece_most;
    if (n > 0) {
        n = world_between(1, (uint32_t)n);
        sent = peer_send(publisher->file, publisher->bytes + publisher->done, n);
        publisher->done += sent;
    }
    if (publisher->done == publisher->count && publisher->number > publisher->plan.frames) {
        end(publisher);
        return;
    }
    bool has_nothing = n == 0 && is_waiting(publisher) && publisher->file->sent_length == 0;
    if ((n > 0 && sent == 0) || has_nothing) {
        peer_watch(publisher->file, BUSY_US, work, publisher);
        return;
    }
    uint64_t wait = publisher->done < publisher->count ? world_between(1, BUSY_US) : 0;
    if (publisher->done == publisher->count && publisher->next_at > world_now())
        wait = publisher->next_at - world_now();
    world_after(wait + 1, work, publisher);
}

static uint16_t port_of(const struct publisher_plan *plan) {
    if (plan->form == PUBLISH_RTSP)
        return PEERS_RTSP_PORT;
    return plan->form == PUBLISH_RAW ? PEERS_FLV_PORT + plan->show->stream : PEERS_HTTP_PORT;
}

struct sim_publisher *sim_publisher_new(const struct publisher_plan *plan) {
    struct file *file = peer_connect(port_of(plan));
    if (!file)
        return NULL;
    struct sim_publisher *publisher = world_allocate(sizeof *publisher);
    publisher->plan = *plan;
    publisher->file = file;
    publisher->generation = ++plan->show->generations;
    const struct media_tag first = {.stream = plan->show->stream, .generation = publisher->generation, .number = 1};
    if (plan->form == PUBLISH_RTSP)
        announcer_begin(&publisher->announcer, &first, plan->show->has_video, plan->show->has_audio);
    world_trace("publisher", plan->show->stream, publisher->generation, plan->form);
    world_after(1, work, publisher);
    return publisher;
}

bool sim_publisher_is_done(const struct sim_publisher *publisher) {
    return publisher->is_done;
}

uint32_t sim_publisher_frames(const struct sim_publisher *publisher) {
    return publisher->sent;
}

uint16_t sim_publisher_generation(const struct sim_publisher *publisher) {
    return publisher->generation;
}

void sim_publisher_stop(struct sim_publisher *publisher) {
    publisher->is_stopped = true;
}

void sim_publisher_free(struct sim_publisher *publisher) {
    if (!publisher)
        return;
    kernel_file_unref(publisher->file);
    announcer_clear(&publisher->announcer);
    world_free(publisher->bytes);
    world_free(publisher);
}
