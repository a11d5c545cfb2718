#include "daemon/relay/player.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/relay/coalesce.h"
#include "daemon/relay/stream.h"
#include "daemon/relay/track_payload.h"

enum {
    QUEUE_LEAST = 16, /* slots */
    /* more than these, which the cached group at the start needs, are given back when the queue
     * was empty so often in a row and had a quarter of them in use at most: a merge window fills
     * it again */
    QUEUE_KEPT = 64,
    QUEUE_SPARE = 8,
    SPARE_SHARE = 4,

    /* so long without a loss, a player that is sent everything is no more behind */
    RECOVERED_MS = 10000,
};

struct player *player_new(player_begin_fn *begin) {
    struct player *player = calloc(1, sizeof *player + (begin ? PLAYER_PREAMBLE : 0));
    if (!player)
        return NULL;
    player->begin = begin;
    player->preamble = begin ? (uint8_t *)(player + 1) : NULL;
    return player;
}

static struct packet **slot(const struct player *player, size_t index) {
    return &player->queue[(player->first + index) & (player->capacity - 1)];
}

static struct packet *at(const struct player *player, size_t index) {
    return *slot(player, index);
}

static bool make_room(struct player *player, const struct packet *packet) {
    if (player->count < player->capacity)
        return true;
    struct packet_pool *packets = packet_pool_of(packet);
    size_t capacity = player->capacity ? 2 * player->capacity : QUEUE_LEAST;
    if (!packet_pool_charge(packets, player->capacity, capacity))
        return false;
    struct packet **queue = malloc(capacity * sizeof *queue);
    if (!queue) {
        (void)packet_pool_charge(packets, capacity, player->capacity);
        return false;
    }
    player->packets = packets;
    for (size_t i = 0; i < player->count; i++)
        queue[i] = at(player, i);
    free(player->queue);
    player->queue = queue;
    player->capacity = capacity;
    player->first = 0;
    return true;
}

void player_flush(struct player *player) {
    if (player->due == player->count)
        return;
    player->due = player->count;
    sluice_conn_want_send(player->conn);
}

/* False where there is no memory: the player has lost what was queued, and is behind. */
static bool enqueue(struct player *player, struct packet *packet) {
    int place = header_place(packet->role, packet->track);
    if (!make_room(player, packet)) {
        player_drop(player, DROP_NO_MEMORY);
        return false;
    }
    *slot(player, player->count++) = packet_ref(packet);
    if (player->peak < player->count)
        player->peak = (uint32_t)player->count;
    player->since_sync += player->since_sync > 0;
    player->queued_bytes += packet_size(packet);
    if (place >= 0)
        player->told[place] = packet_version(packet);
    if (!player->merge || player->merge->is_open)
        player_flush(player);
    return true;
}

/* Whether it is a header, or metadata, that the player has: the last that it was sent in its
 * place. */
static bool knows(const struct player *player, const struct packet *packet) {
    int place = header_place(packet->role, packet->track);
    return place >= 0 && packet_version(packet) > 0 && player->told[place] == packet_version(packet);
}

/* It will not be sent: where it is the last in its place, the player has to be sent it again. */
static void forget(struct player *player, const struct packet *packet) {
    int place = header_place(packet->role, packet->track);
    if (place >= 0 && player->told[place] == packet_version(packet))
        player->told[place] = 0;
}

/* What the player is sent of a packet: nothing of other tracks where it knows none. NULL:
 * nothing */
static struct packet *as_sent(const struct player *player, struct packet *packet) {
    if (!player->alone)
        return packet;
    if (!stream_is_main(player->stream, packet))
        return NULL;
    return packet->takes_alone ? packet_alone(packet) : packet;
}

/* Whether there was no memory for what the player is to be sent of it. */
static bool is_lost(const struct player *player, const struct packet *packet) {
    return player->alone && packet->role <= PACKET_AUDIO && packet->takes_alone && !packet_alone(packet) &&
           stream_is_main(player->stream, packet);
}

/* Whether its format sends anything of the packet. */
static bool is_sent(const struct player *player, const struct packet *packet) {
    const struct packet_form *form = &player->form;
    return !form->format->has || form->format->has(packet, form);
}

/* A header of the stream, at the time of the frame that follows it, unless the player has it. */
static bool enqueue_header(struct player *player, struct packet *whole, const struct packet *frame,
                           uint32_t timestamp) {
    const struct packet *header = whole ? as_sent(player, whole) : NULL;
    if (whole && is_lost(player, whole)) {
        player_drop(player, DROP_NO_MEMORY);
        return false;
    }
    if (!header || knows(player, header) || !is_sent(player, header))
        return true;
    struct packet *copy = packet_at(header, timestamp, frame->received_at);
    if (!copy) {
        player_drop(player, DROP_NO_MEMORY);
        return false;
    }
    bool enqueued = enqueue(player, copy);
    packet_unref(copy);
    return enqueued;
}

/* False where one could not be queued: no frame may follow then. */
static bool enqueue_headers(struct player *player, const struct stream_headers *headers, const struct packet *frame) {
    uint32_t timestamp = frame->timestamp;
    player->needs_header = false;
    /* By RTP, parameter sets come with the key frames. */
    if (player->form.format->is_packetized)
        return true;
    /* At the beginning, metadata is at 0: ffmpeg takes it for a track of its own when it has
     * another time. */
    bool enqueued = enqueue_header(player, stream_headers_at(headers, HEADERS_METADATA), frame,
                                   player->opened ? timestamp : 0);
    player->opened |= enqueued;
    for (size_t i = 1; i < TRACKS_HEADERS && enqueued; i++)
        enqueued = enqueue_header(player, stream_headers_at(headers, i), frame, timestamp);
    return enqueued;
}

/* Packets at the front that are not taken back. Of a player that takes nothing, the one that is
 * sent in part. */
static size_t kept_count(const struct player *player) {
    return player->gathered == 0 && player->sent_of_first > 0 ? 1 : player->gathered;
}

uint32_t player_largest(const struct player *player, uint32_t least) {
    uint32_t largest = 0;
    if (player->queued_bytes <= least)
        return 0;
    for (size_t i = 0; i < player->count; i++)
        if (packet_size(at(player, i)) > largest)
            largest = packet_size(at(player, i));
    return largest;
}

size_t player_spare(const struct player *player) {
    size_t kept = kept_count(player);
    return player->count > kept ? player->count - kept : 0;
}

void player_drop(struct player *player, enum player_drop cause) {
    size_t kept = kept_count(player);
    /* Nothing had to wait: that something is lost is not for the player's being slow. */
    if (player->count == 0)
        player->behind_since = 0;
    player->since_sync = 0;
    while (player->count > kept) {
        struct packet *last = at(player, --player->count);
        forget(player, last);
        player->queued_bytes -= packet_size(last);
        player->dropped[cause]++;
        packet_unref(last);
    }
    if (player->due > player->count)
        player->due = player->count;
    if (player->state == PLAYER_PLAYING) {
        player->state = PLAYER_BEHIND;
        player->needs_header = true;
        player->needs_key = UINT32_MAX;
    }
}

void player_pause(struct player *player) {
    coalesce_deliver(player->merge);
    player_drop(player, DROP_PAUSED);
    player->state = PLAYER_PAUSED;
}

uint64_t player_dropped(const struct player *player) {
    uint64_t sum = 0;
    for (size_t cause = 0; cause < DROP_CAUSES; cause++)
        sum += player->dropped[cause];
    return sum;
}

uint32_t player_queued_ms(const struct player *player) {
    /* Headers may have another time than the frames behind them. */
    size_t first = 0;
    while (first < player->count && at(player, first)->role < PACKET_KEY_FRAME)
        first++;
    if (first >= player->count)
        return 0;
    int32_t length = (int32_t)(at(player, player->count - 1)->timestamp - at(player, first)->timestamp);
    return length > 0 ? (uint32_t)length : 0;
}

uint64_t player_behind_ms(const struct player *player, uint64_t now) {
    return player->count > 0 && player->behind_since > 0 && now > player->behind_since ? now - player->behind_since : 0;
}

/* The loop time at which a packet came to the player: one that was cached, when the player was
 * started. */
static uint64_t came_at(const struct player *player, const struct packet *packet) {
    return packet->received_at > player->started_at ? packet->received_at : player->started_at;
}

uint64_t player_waited_ms(const struct player *player, uint64_t now) {
    size_t kept = kept_count(player);
    if (player->count <= kept)
        return 0;
    uint64_t came = came_at(player, at(player, kept));
    return now > came ? now - came : 0;
}

/* The last header in each place is kept of those: decoders need them, and the frames are for
 * them. */
static size_t skip_frames(struct player *player, size_t from, size_t to) {
    uint64_t seen = 0;
    _Static_assert(TRACKS_HEADERS <= 64, "a bit for each place");
    size_t end = to;
    while (to > from) {
        struct packet *packet = at(player, --to);
        int place = header_place(packet->role, packet->track);
        if (place >= 0 && !(seen >> place & 1)) {
            seen |= (uint64_t)1 << place;
            *slot(player, --end) = packet;
            continue;
        }
        player->dropped[DROP_CATCH_UP] += packet->role >= PACKET_KEY_FRAME;
        player->queued_bytes -= packet_size(packet);
        packet_unref(packet);
    }
    return end;
}

/* Whether it is of a video track of which the player has to have a key frame first. */
static bool is_held_back(struct player *player, const struct packet *packet) {
    if (packet->role != PACKET_KEY_FRAME && packet->role != PACKET_VIDEO)
        return false;
    uint32_t bit = 1u << packet->track;
    if (packet->role == PACKET_KEY_FRAME || packet->key_frame)
        player->needs_key &= ~bit;
    return player->needs_key & bit;
}

/* Of what is left behind a gap, each other video track's frames come from a key frame of its own
 * on. */
static void hold_back_queued(struct player *player, size_t from) {
    size_t to = from;
    player->needs_key = UINT32_MAX;
    for (size_t i = from; i < player->count; i++) {
        struct packet *packet = at(player, i);
        if (!is_held_back(player, packet)) {
            *slot(player, to++) = packet;
            continue;
        }
        player->dropped[DROP_CATCH_UP]++;
        player->queued_bytes -= packet_size(packet);
        packet_unref(packet);
    }
    /* They came behind the packet that decoding begins with. */
    player->since_sync -= player->count - to;
    player->count = to;
}

/* Skips what has waited for too long, where a newer packet is queued that decoding can begin
 * with. */
static void catch_up(struct player *player, uint64_t now) {
    size_t kept = kept_count(player);
    if (player->catch_up_ms == 0 || player->since_sync == 0 || player->count <= kept + player->since_sync ||
        player_waited_ms(player, now) < player->catch_up_ms)
        return;
    size_t end = skip_frames(player, kept, player->count - player->since_sync);
    size_t gone = end - kept;
    while (end > gone) {
        end--;
        *slot(player, end) = at(player, end - gone);
    }
    player->first = (player->first + gone) & (player->capacity - 1);
    player->count -= gone;
    hold_back_queued(player, kept);
    player->lost_at = now;
    player->due = 0;
    player_flush(player);
}

size_t player_encrypted(const struct player *player) {
    return player->encrypted ? player->encrypted(player) : 0;
}

/* Bytes that count to its limit. */
static uint64_t held_bytes(const struct player *player) {
    return player->queued_bytes + player_encrypted(player);
}

/* Whether a player that is behind can go on with this packet. */
static bool goes_on(const struct player *player, const struct packet *packet, bool has_video) {
    return packet_is_sync(packet, has_video) && held_bytes(player) <= player->limit / 2;
}

/* Whether the player is to start at key frames: of a stream with video, unless it wants none. */
static bool wants_video(const struct player *player, bool has_video) {
    return has_video && (!player->form.format->is_packetized || player->form.tracks[0]);
}

/* A packet is to be queued. One that has lost frames is not up to date by that: it has to keep up
 * for a while. */
static void note_time(struct player *player, uint64_t now, bool was_behind) {
    if (player->behind_since == 0) {
        player->behind_since = now;
        player->lost_at = 0;
        return;
    }
    if (was_behind)
        player->lost_at = now;
    if (player->count == 0 && (player->lost_at == 0 || now - player->lost_at >= RECOVERED_MS))
        player->behind_since = now;
}

void player_push(struct player *player, struct packet *whole, const struct stream_headers *headers, bool has_video) {
    struct packet *packet = as_sent(player, whole);
    if (player->state == PLAYER_PLAYING && is_lost(player, whole))
        player_drop(player, DROP_NO_MEMORY);
    if (!packet || !is_sent(player, packet))
        return;
    has_video = wants_video(player, has_video);
    bool was_behind = player->state == PLAYER_BEHIND;
    if (was_behind) {
        if (!goes_on(player, packet, has_video)) {
            player->dropped[DROP_UNTIL_KEY] += packet->role >= PACKET_KEY_FRAME;
            return;
        }
        player->state = PLAYER_PLAYING;
    }
    if (player->state != PLAYER_PLAYING)
        return;
    if (is_held_back(player, packet) || knows(player, packet))
        return;
    if (held_bytes(player) + packet_size(packet) > player->limit) {
        player->dropped[DROP_QUEUE_FULL]++;
        player_drop(player, DROP_QUEUE_FULL);
        return;
    }
    note_time(player, came_at(player, packet), was_behind);
    bool begins = player->needs_header && packet->role >= PACKET_KEY_FRAME;
    if ((begins && !enqueue_headers(player, headers, packet)) || !enqueue(player, packet)) {
        player->dropped[DROP_NO_MEMORY]++;
        return;
    }
    if (packet_is_sync(packet, has_video))
        player->since_sync = 1;
    catch_up(player, came_at(player, packet));
    /* It has waited long enough. */
    if (was_behind)
        player_flush(player);
}

void player_miss(struct player *player, sluice_flv_type type, bool is_main) {
    bool is_packetized = player->form.format->is_packetized;
    bool is_wanted = !is_packetized || player->form.tracks[type == SLUICE_FLV_VIDEO ? 0 : 1];
    bool has_others = !is_packetized && !player->alone;
    if (player->state == PLAYER_BEHIND && is_wanted && (is_main || has_others))
        player->dropped[DROP_UNTIL_KEY]++;
}

void player_start(struct player *player, uint64_t now, uint8_t flags, const struct gop *gop,
                  const struct stream_headers *headers, bool has_video) {
    has_video = wants_video(player, has_video);
    if (!player->begun) {
        player->preamble_size = player->begin ? player->begin(player, flags, player->preamble) : 0;
        player->begun = true;
        sluice_conn_want_send(player->conn);
    }
    player->state = PLAYER_PLAYING;
    player->started_at = now;
    if (player->count == 0)
        player->behind_since = 0;
    player->needs_header = true;
    player->needs_key = has_video ? UINT32_MAX : 0;
    if (!gop)
        return;
    if (gop->count == 0) {
        player->state = has_video ? PLAYER_BEHIND : PLAYER_PLAYING;
        return;
    }
    (void)enqueue_headers(player, &gop->headers, gop->packets[0]);
    for (size_t i = 0; i < gop->count && player->state == PLAYER_PLAYING; i++)
        player_push(player, gop->packets[i], headers, has_video);
    player_flush(player);
}

uint32_t player_first_packets(const struct player *player, const struct packet *ret_first[PACKET_TRACKS]) {
    for (size_t i = player->count; i > 0; i--)
        ret_first[at(player, i - 1)->rtp.track] = at(player, i - 1);
    return player->count > 0 ? at(player, 0)->timestamp : 0;
}

void player_end(struct player *player) {
    coalesce_deliver(player->merge);
    player->state = PLAYER_ENDING;
    player->due = player->count;
    sluice_conn_want_send(player->conn);
}

bool player_is_done(const struct player *player) {
    return player->state == PLAYER_ENDING && player->count == 0 && player->preamble_sent == player->preamble_size &&
           player->tail_sent == player->tail_size;
}

static size_t gather_packet(struct player *player, struct iovec *iov, size_t max) {
    size_t offset = player->gathered == 0 ? player->sent_of_first : 0;
    return player->form.format->pieces(at(player, player->gathered++), &player->form, offset, iov, max);
}

size_t player_gather_rest(struct player *player, struct iovec *iov, size_t max) {
    player->gathered = 0;
    return player->sent_of_first > 0 && max > 0 ? gather_packet(player, iov, max) : 0;
}

size_t player_gather_more(struct player *player, struct iovec *iov, size_t max) {
    size_t count = 0;
    while (player->gathered < player->count && count < max)
        count += gather_packet(player, iov + count, max - count);
    /* What is not due yet goes along; what of it the kernel does not take is not to wait again. */
    if (player->due < player->gathered)
        player->due = player->gathered;
    return count;
}

size_t player_gather(struct player *player, struct iovec *iov, size_t max) {
    size_t count = 0;
    bool has_preamble = player->preamble_sent < player->preamble_size;
    player->gathered = 0;
    if (player->due == 0 && !has_preamble && player->state != PLAYER_ENDING)
        return 0;
    if (has_preamble && max > 0)
        iov[count++] = (struct iovec){player->preamble + player->preamble_sent,
                                      player->preamble_size - player->preamble_sent};
    count += player_gather_more(player, iov + count, max - count);
    size_t tail = player->tail_size - player->tail_sent;
    if (player->state == PLAYER_ENDING && player->gathered == player->count && count < max && tail > 0)
        iov[count++] = (struct iovec){(uint8_t *)player->tail + player->tail_sent, tail};
    return count;
}

static void free_queue(struct player *player) {
    if (player->packets)
        (void)packet_pool_charge(player->packets, player->capacity, 0);
    free(player->queue);
    player->queue = NULL;
    player->capacity = player->first = 0;
    player->spare = 0;
}

/* It has become empty. */
static void give_back_spare(struct player *player) {
    player->spare = player->peak <= player->capacity / SPARE_SHARE ? player->spare + 1 : 0;
    player->peak = 0;
    if (player->spare == QUEUE_SPARE)
        free_queue(player);
}

static void pop(struct player *player) {
    struct packet *packet = at(player, 0);
    player->first = (player->first + 1) & (player->capacity - 1);
    player->count--;
    player->due -= player->due > 0;
    player->queued_bytes -= packet_size(packet);
    player->packets_sent++;
    player->sent_of_first = 0;
    packet_unref(packet);
    if (player->count == 0 && player->capacity > QUEUE_KEPT)
        give_back_spare(player);
}

void player_sent(struct player *player, size_t bytes) {
    player->bytes_sent += bytes;
    if (bytes > 0) {
        player->sends++;
        stream_count_send(player->stream);
    }
    player->gathered = 0;
    size_t preamble = player->preamble_size - player->preamble_sent;
    if (preamble > bytes)
        preamble = bytes;
    player->preamble_sent += preamble;
    bytes -= preamble;
    while (bytes > 0 && player->count > 0) {
        size_t left = player->form.format->size(at(player, 0)) - player->sent_of_first;
        if (bytes < left) {
            player->sent_of_first += bytes;
            return;
        }
        bytes -= left;
        pop(player);
    }
    player->tail_sent += bytes;
}

void player_clear(struct player *player) {
    while (player->count > 0)
        packet_unref(at(player, --player->count));
    free_queue(player);
    player->due = player->gathered = player->since_sync = 0;
    player->queued_bytes = 0;
}
