/* A publisher of sluice-push: connects, sends each tag when it is due, connects again. */
#include <errno.h>
#include <string.h>

#include "tools/push/push.h"

static uint64_t now_of(const struct sender *sender) {
    return sluice_loop_now(sender->push->loop);
}

bool sender_is_over(const struct sender *sender) {
    return sender->state == SENDER_DONE || sender->state == SENDER_FAILED;
}

uint64_t sender_bytes(const struct sender *sender) {
    return sender->bytes + (sender->publish ? publish_bytes(sender->publish) : 0);
}

/* When a tag is due, milliseconds of the loop. */
static uint64_t due_at(const struct sender *sender, uint64_t number) {
    return sender->zero + (uint64_t)((double)media_due(sender->push->media, number) / sender->push->options->rate);
}

static bool is_at_end(const struct sender *sender) {
    const struct push_options *options = sender->push->options;
    return !options->loop && sender->next >= sender->push->media->count;
}

static void try_again(struct sender *sender, const char *reason) {
    sender->failures++;
    push_note_failure(sender->push, "publisher %u: %s", sender->number, reason);
    if (sender->push->ending || sender->in_a_row++ >= sender->push->options->retries) {
        sender->state = SENDER_FAILED;
        return;
    }
    sender->state = SENDER_WAITING;
    sluice_timer_start(sender->timer, PUSH_RETRY_MS);
}

static void finish(struct sender *sender) {
    sender->state = SENDER_FINISHING;
    publish_finish(sender->publish);
}

/* Sends the tags that are due, as far as there is room. */
static void send_due(struct sender *sender) {
    const struct media *media = sender->push->media;
    uint64_t now = now_of(sender);
    sender->blocked = false;
    while (sender->state == SENDER_SENDING && !is_at_end(sender)) {
        uint64_t due = due_at(sender, sender->next);
        if (due > now) {
            sluice_timer_start(sender->timer, due - now);
            return;
        }
        const struct media_tag *tag = media_at(media, sender->next);
        int error = publish_tag(sender->publish, tag, (uint32_t)media_time(media, sender->next));
        if (error == -EAGAIN) {
            sender->blocked = true;
            return;
        }
        if (error)
            return;
        sender->next++;
        sender->tags++;
        sender->late += now - due > PUSH_LATE_MS;
    }
    if (sender->state == SENDER_SENDING)
        finish(sender);
}

/* After a new connection: the decoder's headers, and then the first key frame that is not yet
 * due. */
static void skip_to_now(struct sender *sender) {
    const struct media *media = sender->push->media;
    uint64_t elapsed = (uint64_t)((double)(now_of(sender) - sender->zero) * sender->push->options->rate);
    uint64_t next = media_find(media, elapsed), last = next + media->count;
    enum sluice_flv_type type = media->has[MEDIA_VIDEO] ? SLUICE_FLV_VIDEO : SLUICE_FLV_AUDIO;
    while (next < last) {
        const struct media_tag *tag = media_at(media, next);
        if (tag->frame && tag->type == type && (tag->key || type == SLUICE_FLV_AUDIO))
            break;
        next++;
    }
    sender->next = next;
    if (is_at_end(sender))
        return;
    for (size_t i = 0; i < media->count && !media->tags[i].frame; i++)
        if (publish_tag(sender->publish, &media->tags[i], (uint32_t)media_time(media, next)) < 0)
            return;
}

static void begin(struct sender *sender) {
    bool again = sender->started;
    sender->state = SENDER_SENDING;
    if (again) {
        sender->reconnects++;
        skip_to_now(sender);
    } else {
        sender->zero = now_of(sender);
        sender->started = true;
    }
    push_sender_ready(sender->push, sender, again);
    send_due(sender);
}

static void on_ready(void *user) {
    struct sender *sender = user;
    if (sender->state == SENDER_CONNECTING)
        begin(sender);
}

static void on_room(void *user) {
    struct sender *sender = user;
    /* By TLS, the server is known now: raw FLV and HTTP have begun before that. */
    sender->in_a_row = 0;
    if (sender->blocked && sender->state == SENDER_SENDING)
        send_due(sender);
}

static void on_ended(int error, const char *reason, void *user) {
    struct sender *sender = user;
    sender->bytes += publish_bytes(sender->publish);
    sender->publish = NULL;
    sluice_timer_stop(sender->timer);
    if (sender->state == SENDER_FINISHING && !error)
        sender->state = SENDER_DONE;
    else if (!sender_is_over(sender))
        try_again(sender, reason);
}

static const struct publish_events events = {.ready = on_ready, .room = on_room, .ended = on_ended};

static void on_connected(struct connector_job *job, sluice_conn *conn, int error) {
    struct sender *sender = job->user;
    bool ready = false;
    if (!error)
        error = publish_new(conn, &sender->target, sender->push->media, &events, sender, &sender->publish, &ready);
    if (!error) {
        if (ready)
            begin(sender);
        return;
    }
    sluice_conn_close(conn);
    if (error == -EOPNOTSUPP)
        sender->in_a_row = sender->push->options->retries;
    try_again(sender, error == -EOPNOTSUPP ? "RTSP does not carry what is in the file" : strerror(-error));
}

/* Time to begin, or to try again, or for the next tag. */
static void on_time(sluice_timer *timer, void *user) {
    struct sender *sender = user;
    (void)timer;
    if (sender->state == SENDER_WAITING) {
        sender->state = SENDER_CONNECTING;
        int error = connector_start(&sender->job, sender->push->loop);
        if (error)
            on_connected(&sender->job, NULL, error);
    } else if (sender->state == SENDER_SENDING) {
        send_due(sender);
    }
}

int sender_init(struct sender *sender, struct push *push, uint32_t number) {
    const struct push_options *options = push->options;
    *sender = (struct sender){.push = push, .number = number, .target = options->target};
    sender->job = (struct connector_job){.addresses = push->publish_addresses, .done = on_connected, .user = sender};
    int error = target_number(&sender->target, number, options->streams > 1 && sender->target.kind != TARGET_FLV);
    return error ? error : sluice_timer_new(push->loop, on_time, sender, &sender->timer);
}

void sender_free(struct sender *sender) {
    sluice_timer_free(sender->timer);
    sender->timer = NULL;
}

void sender_start(struct sender *sender, uint64_t delay) {
    sluice_timer_start(sender->timer, delay);
}

void sender_finish(struct sender *sender) {
    sluice_timer_stop(sender->timer);
    switch (sender->state) {
    case SENDER_SENDING:
        finish(sender);
        break;
    case SENDER_WAITING:
    case SENDER_CONNECTING:
        connector_cancel(&sender->job);
        sender->state = SENDER_FAILED;
        if (sender->publish)
            publish_abort(sender->publish);
        if (sender->failures == 0)
            push_note_failure(sender->push, "publisher %u: has not begun", sender->number);
        break;
    default:
        break;
    }
}

void sender_tick(struct sender *sender, uint64_t now) {
    if (sender->publish)
        publish_tick(sender->publish, now);
}
