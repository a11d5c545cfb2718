#include "daemon/relay/replica.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/relay/player.h"
#include "daemon/relay/player_list.h"
#include "daemon/relay/reclaim.h"
#include "daemon/relay/registry.h"

enum {
    BATCH_MOST = 16,  /* tags in one message */
    IDLE_MS = 5000,   /* that a replica of a stream with a publisher stays without players */
    ROOM_ROUNDS = 64, /* slow players there are looked for so often at once */
};

enum parcel_kind {
    PARCEL_TAG,    /* comes now */
    PARCEL_CACHED, /* is in the stream's cached group */
    PARCEL_HEADER, /* what a decoder needs, and the metadata, as they are in force */
};

struct parcel {
    enum parcel_kind kind;
    struct stream_tag tag;
};

/* What has become of the stream before the tags of a batch; in this order. */
struct news {
    bool ended;
    uint64_t left_at, kept_until; /* if so */
    bool begun;                   /* another publisher has */
    bool gap;                     /* tags are missing */
    uint32_t lost;                /* frames, since that was told last */
    bool searched;                /* stream_set_search(), */
    enum stream_search search;    /* the last one */
};

struct batch {
    sluice_call call;
    struct replica *feed;
    struct news news;
    size_t count;
    struct parcel parcels[BATCH_MOST];
};

struct replica {
    struct stream_sink sink; /* of the stream here */
    atomic_uint references;  /* the stream's list, the replica, seats, and messages on their way */
    atomic_uint seats;
    atomic_bool failed;         /* there was no memory for a replica */
    atomic_bool room_is_asked;  /* and not made yet */
    atomic_bool room_of_groups; /* that are cached, too */
    atomic_bool wants_headers;  /* there; a header was lost there */
    struct replica_site *here, *there;
    struct stream_state state; /* of the stream when the feed began */
    sluice_call open_call, close_call, room_call, flush_call;

    /* Of this worker: */
    struct stream *stream; /* a reference; NULL: the feed has ended */
    struct batch *batch;   /* that is being filled; or NULL */
    struct news news;      /* for the next one */
    uint64_t block_bytes;
    bool behind; /* tags are left out up to a key frame */
    bool flush_is_posted;
    bool told;           /* that frames were lost: the log has it */
    uint64_t idle_since; /* loop time; 0: it has players */

    /* Of the other one: */
    struct stream *replica; /* a reference; or NULL */
    _Atomic uint64_t sends; /* to its players; only the other worker changes it */
};

static struct replica *ref(struct replica *feed) {
    atomic_fetch_add(&feed->references, 1);
    return feed;
}

static void unref(struct replica *feed) {
    if (atomic_fetch_sub(&feed->references, 1) == 1)
        free(feed);
}

struct replica_site *replica_remote(const struct replica *feed) {
    return feed->there;
}

/* What is lent. */

static uint64_t lent(const struct replica *feed) {
    return atomic_load_explicit(&feed->here->lent, memory_order_relaxed);
}

bool replica_is_pressed(const struct replica_site *lender) {
    return atomic_load_explicit(&lender->half_used, memory_order_relaxed);
}

/*
 * While a quarter of the blocks is free, what is lent does not matter: much of it is what the
 * stream has cached, too, and is counted twice.
 */
static bool look_whether_short(struct replica_site *here) {
    sluice_pool *pool = sluice_loop_pool(here->loop);
    bool half_used = reclaim_exceeds(pool, 2, 0);
    if (half_used != atomic_load_explicit(&here->half_used, memory_order_relaxed))
        atomic_store_explicit(&here->half_used, half_used, memory_order_relaxed);
    return half_used && reclaim_exceeds(pool, 3, 0);
}

/* There. */
static void make_room(void *user) {
    struct replica *feed = user;
    atomic_store(&feed->room_is_asked, false);
    bool groups = atomic_exchange(&feed->room_of_groups, false);
    for (int round = 0; round < ROOM_ROUNDS && lent(feed) > feed->here->most_lent / 2; round++)
        if (!reclaim_replicas(feed->there->registry, feed->here, groups))
            break;
    unref(feed);
}

static void want_room(struct replica *feed, bool groups) {
    if (groups) /* a request that is under way may ask for less */
        atomic_store(&feed->room_of_groups, true);
    if (atomic_load(feed->here->over) || atomic_exchange(&feed->room_is_asked, true))
        return;
    sluice_loop_post_call(feed->there->loop, &feed->room_call, make_room, ref(feed));
}

/* Batches, here. */

static bool has_news(const struct news *news) {
    return news->ended || news->begun || news->gap || news->lost > 0 || news->searched;
}

static void release(struct parcel *parcel) {
    sluice_slice_release(&parcel->tag.tag.payload);
    packet_loan_return(&parcel->tag.loan);
}

static void free_batch(struct batch *batch) {
    if (!batch)
        return;
    for (size_t i = 0; i < batch->count; i++)
        release(&batch->parcels[i]);
    free(batch);
}

static struct batch *new_batch(struct replica *feed) {
    struct batch *batch = malloc(sizeof *batch);
    if (!batch)
        return NULL;
    batch->feed = feed;
    batch->count = 0;
    batch->news = feed->news;
    feed->news = (struct news){0};
    return batch;
}

/* There: frames have been lost on the way, of which there is a gap from now on. */
static void lose_there(struct stream *replica, const struct news *news) {
    player_list_deliver(replica);
    for (struct player *player = replica->players; player; player = player->next) {
        if (player->state == PLAYER_PLAYING || player->state == PLAYER_BEHIND)
            player->dropped[DROP_NO_MEMORY] += news->lost;
        if (news->gap)
            player_drop(player, DROP_NO_MEMORY);
    }
    if (!news->gap)
        return;
    gop_drop(&replica->gop);
    /* The players know already. */
    struct stream_sink_walk walk;
    for (struct stream_sink *sink = stream_first_sink(replica, &walk); sink; sink = stream_next_sink(replica, &walk))
        if (sink->type->rank == SINK_STAND_IN)
            sink->type->lost(sink, replica);
}

/* There. */
static void take_batch(void *user) {
    struct batch *batch = user;
    struct replica *feed = batch->feed;
    struct stream *replica = feed->replica;
    const struct news *news = &batch->news;
    if (replica && news->ended)
        stream_replica_end(replica, news->left_at, news->kept_until);
    if (replica && news->begun)
        stream_replica_begin(replica);
    if (replica && (news->gap || news->lost > 0))
        lose_there(replica, news);
    if (replica && news->searched)
        stream_set_search(replica, news->search);
    for (size_t i = 0; i < batch->count && replica; i++) {
        struct parcel *parcel = &batch->parcels[i];
        if (parcel->kind == PARCEL_TAG)
            stream_replica_publish(replica, &parcel->tag);
        else
            stream_replica_cache(replica, &parcel->tag, parcel->kind == PARCEL_CACHED);
    }
    free_batch(batch);
    unref(feed);
}

/* Without memory, what there is to tell is told with the next batch. */
static void flush(struct replica *feed) {
    if (!feed->stream)
        return;
    struct batch *batch = feed->batch || !has_news(&feed->news) ? feed->batch : new_batch(feed);
    feed->batch = NULL;
    if (!batch)
        return;
    if (atomic_load(feed->here->over)) {
        free_batch(batch);
        return;
    }
    ref(feed);
    sluice_loop_post_call(feed->there->loop, &batch->call, take_batch, batch);
}

static void flush_posted(void *user) {
    struct replica *feed = user;
    feed->flush_is_posted = false;
    flush(feed);
    unref(feed);
}

/* With the end of this turn: what has come together goes together, and is sent together there. */
static void flush_soon(struct replica *feed) {
    if (feed->flush_is_posted)
        return;
    feed->flush_is_posted = true;
    sluice_loop_post_call(feed->here->loop, &feed->flush_call, flush_posted, ref(feed));
}

/* What is told before the tags that follow. */
static struct news *news_of(struct replica *feed) {
    if (feed->batch)
        flush(feed);
    flush_soon(feed);
    return &feed->news;
}

static struct parcel *add_parcel(struct replica *feed) {
    if (feed->batch && feed->batch->count == BATCH_MOST)
        flush(feed);
    if (!feed->batch)
        feed->batch = new_batch(feed);
    if (!feed->batch)
        return NULL;
    flush_soon(feed);
    return &feed->batch->parcels[feed->batch->count++];
}

static void lose(struct replica *feed) {
    if (feed->behind)
        return;
    feed->behind = true;
    news_of(feed)->gap = true;
    if (!feed->told)
        LOG(LOG_WARNING, "replica frames dropped", {"stream", feed->stream->name},
            {"worker", log_unsigned(feed->there->index).text}, {"reason", "too many blocks lent"},
            {"lent", log_unsigned(lent(feed)).text});
    feed->told = true;
}

/* The account of the worker whose blocks they are: this one's, or that of one that lends them. */
static _Atomic uint64_t *lender_of(const struct replica *feed) {
    struct replica_site *lender = feed->stream->lender;
    return lender ? &lender->lent : &feed->here->lent;
}

/* False where it is lost. */
static bool hand_over(struct replica *feed, enum parcel_kind kind, const struct packet *packet, uint8_t flags) {
    struct parcel *parcel = add_parcel(feed);
    if (!parcel) {
        lose(feed);
        return false;
    }
    uint64_t bytes = packet->blocks * feed->block_bytes + sizeof *parcel;
    *parcel = (struct parcel){
        .kind = kind,
        .tag = {.tag = {.type = packet->type,
                        .timestamp = packet->timestamp,
                        .size = packet_size(packet),
                        .view = packet_view(packet)},
                .role = packet->role,
                .flags = flags,
                .track = packet->track,
                .main = packet->type == SLUICE_FLV_SCRIPT ? 0 : stream_tracks(feed->stream, packet->type)->main,
                .version = packet_version(packet),
                .blocks = packet->blocks,
                .received_at = packet->received_at,
                .loan = packet_loan(lender_of(feed), bytes)}};
    sluice_slice_ref(&packet->payload, &parcel->tag.tag.payload);
    return true;
}

static bool hand_headers(struct replica *feed, const struct stream_headers *headers) {
    for (size_t i = 0; i < TRACKS_HEADERS; i++) {
        struct packet *header = stream_headers_at(headers, i);
        if (header && !hand_over(feed, PARCEL_HEADER, header, 0))
            return false;
    }
    return true;
}

/* What a player would be sent that comes now. */
static void hand_cached(struct replica *feed) {
    const struct stream *stream = feed->stream;
    const struct gop *gop = &stream->gop;
    bool whole = gop->count == 0 || hand_headers(feed, &gop->headers);
    for (size_t i = 0; i < gop->count && whole; i++)
        whole = hand_over(feed, PARCEL_CACHED, gop->packets[i], 0);
    if (whole)
        (void)hand_headers(feed, &stream->headers);
}

static struct replica *feed_of(const struct stream_sink *sink) {
    return (struct replica *)sink;
}

/* Where there is no wish this only reads: of streams of audio alone it is called for each frame. */
static bool take_wish(struct replica *feed) {
    return atomic_load_explicit(&feed->wants_headers, memory_order_relaxed) &&
           atomic_exchange_explicit(&feed->wants_headers, false, memory_order_relaxed);
}

static void push(struct stream_sink *sink, struct stream *stream, struct packet *packet, uint8_t flags) {
    struct replica *feed = feed_of(sink);
    bool is_short = look_whether_short(feed->here) && lent(feed) > feed->here->most_lent / 2;
    if (is_short) {
        want_room(feed, false);
        if (lent(feed) > feed->here->most_lent)
            lose(feed);
    }
    if (stream_is_sync(stream, packet) && (feed->behind ? !is_short : take_wish(feed))) {
        feed->behind = false;
        (void)hand_headers(feed, &stream->headers);
    }
    if (feed->behind || !hand_over(feed, PARCEL_TAG, packet, flags))
        feed->news.lost += packet_role_is_frame(packet->role);
}

static void lost(struct stream_sink *sink, struct stream *stream) {
    (void)stream;
    news_of(feed_of(sink))->gap = true;
    feed_of(sink)->news.lost++;
}

static void want_groups(struct stream_sink *sink) {
    want_room(feed_of(sink), true);
}

static void begun(struct stream_sink *sink, struct stream *stream) {
    struct replica *feed = feed_of(sink);
    struct news *news = news_of(feed);
    (void)stream;
    news->begun = true;
    news->gap = feed->behind = false;
}

static void ended(struct stream_sink *sink, struct stream *stream) {
    struct news *news = news_of(feed_of(sink));
    /* One that was not told of has not been. */
    news->ended |= !news->begun;
    news->begun = news->gap = false;
    news->left_at = stream->left_at;
    news->kept_until = stream->kept_until;
}

static void searched(struct stream_sink *sink, struct stream *stream) {
    struct news *news = news_of(feed_of(sink));
    news->searched = true;
    news->search = stream->cluster.search;
}

static bool has_players(const struct stream_sink *sink, const struct stream *stream) {
    (void)stream;
    return atomic_load(&feed_of(sink)->seats) > 0;
}

static const struct stream_sink_type sink_type = {
    .rank = SINK_REPLICA,
    .begun = begun,
    .packet = push,
    .lost = lost,
    .ended = ended,
    .searched = searched,
    .has_begun = has_players,
    .want_room = want_groups,
};

/* The stream's feeds are next to each other in its list. */
static struct replica *first_feed(const struct stream *stream) {
    return feed_of(stream_find_sink(stream, &sink_type));
}

static struct replica *next_feed(const struct replica *feed) {
    struct stream_sink *next = feed->sink.next;
    return next && next->type == &sink_type ? feed_of(next) : NULL;
}

/* A feed's life. */

static void close_replica(struct replica *feed) {
    struct stream *replica = feed->replica;
    feed->replica = NULL;
    stream_replica_end(replica, replica->left_at, 0);
    stream_unref(replica);
    unref(feed);
}

static void open_there(void *user) {
    struct replica *feed = user;
    if (registry_add_replica(feed->there->registry, &feed->state, feed, feed->here, &feed->replica) < 0) {
        LOG(LOG_ERROR, "cannot create replica", {"stream", feed->state.name}, {"reason", "out of memory"});
        atomic_store(&feed->failed, true);
        unref(feed);
    }
}

static void close_there(void *user) {
    struct replica *feed = user;
    if (feed->replica)
        close_replica(feed);
    unref(feed);
}

void replica_forget(struct stream *replica) {
    if (replica->fed_by)
        close_replica(replica->fed_by);
}

struct stream *replica_stream(const struct replica *feed) {
    if (feed->replica)
        feed->replica->references++;
    return feed->replica;
}

struct replica *replica_open(struct stream *stream, struct replica_site *here, struct replica_site *there) {
    struct replica *feed = calloc(1, sizeof *feed);
    if (!feed)
        return NULL;
    sluice_pool_stats pool = {.size = sizeof pool};
    sluice_pool_get_stats(sluice_loop_pool(here->loop), &pool);
    atomic_init(&feed->references, 1);
    feed->here = here;
    feed->there = there;
    feed->block_bytes = pool.block_size;
    feed->stream = stream;
    stream->references++;
    feed->sink.type = &sink_type;
    stream_add_sink(stream, &feed->sink);
    stream_get_state(stream, &feed->state);
    sluice_loop_post_call(there->loop, &feed->open_call, open_there, ref(feed));
    /* Before the player, which is on its way with the next message. */
    hand_cached(feed);
    flush(feed);
    LOG(LOG_INFO, "replica created", {"stream", stream->name}, {"worker", log_unsigned(here->index).text},
        {"to", log_unsigned(there->index).text});
    return feed;
}

static uint64_t sends(const struct replica *feed) {
    return atomic_load_explicit(&feed->sends, memory_order_relaxed);
}

/* It is the stream's no more. The message that ends the replica goes behind all others. */
static void close_feed(struct replica *feed) {
    struct stream *stream = feed->stream;
    stream_remove_sink(stream, &feed->sink);
    stream->sends += sends(feed);
    feed->stream = NULL;
    free_batch(feed->batch);
    feed->batch = NULL;
    if (!atomic_load(feed->here->over))
        sluice_loop_post_call(feed->there->loop, &feed->close_call, close_there, ref(feed));
    unref(feed);
    stream_unref(stream);
}

void replicas_tick(struct stream *stream, uint64_t now) {
    for (struct replica *feed = first_feed(stream), *next; feed; feed = next) {
        next = next_feed(feed);
        flush(feed);
        /* Seats are given here, so there will be none for it either. */
        if (atomic_load(&feed->seats) > 0)
            feed->idle_since = 0;
        else if (feed->idle_since == 0 && stream->live)
            feed->idle_since = now;
        else if (!stream->live || now - feed->idle_since >= IDLE_MS)
            close_feed(feed);
    }
}

void replicas_close(struct stream *stream) {
    for (struct replica *feed = first_feed(stream), *next; feed; feed = next) {
        next = next_feed(feed);
        close_feed(feed);
    }
}

/* Seats. */

bool replicas_any(const struct stream *stream) {
    return first_feed(stream);
}

uint32_t replicas_players(const struct stream *stream) {
    uint32_t count = 0;
    for (const struct replica *feed = first_feed(stream); feed; feed = next_feed(feed))
        count += atomic_load(&feed->seats);
    return count;
}

void replica_want_headers(struct replica *feed) {
    atomic_store_explicit(&feed->wants_headers, true, memory_order_relaxed);
}

void replica_count_send(struct replica *feed) {
    atomic_store_explicit(&feed->sends, sends(feed) + 1, memory_order_relaxed);
}

uint64_t replicas_sends(const struct stream *stream) {
    uint64_t count = 0;
    for (const struct replica *feed = first_feed(stream); feed; feed = next_feed(feed))
        count += sends(feed);
    return count;
}

uint32_t replica_reservations(const struct replica *feed) {
    return atomic_load(&feed->seats);
}

struct replica *replica_find(const struct stream *stream, const struct replica_site *there) {
    struct replica *feed = first_feed(stream);
    while (feed && feed->there != there)
        feed = next_feed(feed);
    return feed;
}

bool replica_is_of_use(const struct replica *feed) {
    return !atomic_load(&feed->failed);
}

struct replica *replica_reserve(struct replica *feed) {
    atomic_fetch_add(&feed->seats, 1);
    return ref(feed);
}

void replica_unreserve(struct replica *reservation) {
    if (!reservation)
        return;
    atomic_fetch_sub(&reservation->seats, 1);
    unref(reservation);
}
