#include "daemon/server/spread.h"

#include "daemon/relay/replica.h"
#include "daemon/server/server.h"

/* The worker with the fewest of the stream's players: its own, where no other has fewer. */
static struct worker *find_fewest(const struct stream *stream, struct worker *own) {
    struct worker *fewest = own;
    uint32_t count = server_worker_count(own->server), least = stream->player_count;
    for (uint32_t i = 1; i < count; i++) {
        struct worker *worker = server_worker(own->server, (own->index + i) % count);
        const struct replica *feed = replica_find(stream, &worker->site);
        uint32_t seats = feed ? replica_reservations(feed) : 0;
        if (seats < least && (!feed || replica_is_of_use(feed))) {
            fewest = worker;
            least = seats;
        }
    }
    return fewest;
}

bool spread_player(struct stream *stream, struct session *session) {
    struct worker *own = session->worker;
    uint64_t alone = own->options->spread;
    if (alone == 0 || stream->player_count < alone || session->reservation || own->draining)
        return false;
    struct worker *worker = find_fewest(stream, own);
    if (worker == own)
        return false;
    struct replica *feed = replica_find(stream, &worker->site);
    if (!feed)
        feed = replica_open(stream, &own->site, &worker->site);
    if (!feed)
        return false;
    session->reservation = replica_reserve(feed);
    stream_want(stream);
    return true;
}

struct worker *spread_worker(const struct session *session) {
    return server_worker(session->worker->server, replica_remote(session->reservation)->index);
}

struct stream *spread_stream(const struct session *session) {
    return replica_stream(session->reservation);
}

void spread_leave(struct session *session) {
    replica_unreserve(session->reservation);
    session->reservation = NULL;
}
