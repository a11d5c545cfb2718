#include "daemon/spread.h"

#include "daemon/feed.h"
#include "daemon/server.h"

/* The worker with the fewest of the stream's players: its own, where no other has fewer. */
static struct worker *find_fewest(const struct stream *stream, struct worker *own) {
    struct worker *fewest = own;
    uint32_t count = server_worker_count(own->server), least = stream->player_count;
    for (uint32_t i = 1; i < count; i++) {
        struct worker *worker = server_worker(own->server, (own->index + i) % count);
        const struct feed *feed = feed_find(stream, &worker->site);
        uint32_t seats = feed ? feed_seats(feed) : 0;
        if (seats < least && (!feed || feed_is_of_use(feed))) {
            fewest = worker;
            least = seats;
        }
    }
    return fewest;
}

bool spread_player(struct stream *stream, struct session *session) {
    struct worker *own = session->worker;
    uint64_t alone = own->options->spread;
    if (alone == 0 || stream->player_count < alone || session->seat || own->draining)
        return false;
    struct worker *worker = find_fewest(stream, own);
    if (worker == own)
        return false;
    struct feed *feed = feed_find(stream, &worker->site);
    if (!feed)
        feed = feed_open(stream, &own->site, &worker->site);
    if (!feed)
        return false;
    session->seat = feed_take_seat(feed);
    stream_want(stream);
    return true;
}

struct worker *spread_worker(const struct session *session) {
    return server_worker(session->worker->server, feed_there(session->seat)->index);
}

struct stream *spread_stream(const struct session *session) {
    return feed_get_replica(session->seat);
}

void spread_leave(struct session *session) {
    feed_leave_seat(session->seat);
    session->seat = NULL;
}
