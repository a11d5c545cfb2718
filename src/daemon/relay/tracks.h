/*
 * The tracks of one kind, video or audio, of a stream: Enhanced RTMP's multitrack gives each an id;
 * a tag without one belongs to track 0. Each has a slot for its decoder's header; track 0 has the
 * first. One of them is the main track, which players get that do not support tracks, and with
 * which cached groups begin. It is track 0, or the lowest id present when the stream's players are
 * started.
 *
 * Headers and metadata have versions: the same bytes in the same slot have the same version, also
 * from the next publisher. So players do not get headers again that they have.
 */
#ifndef SLUICED_TRACKS_H
#define SLUICED_TRACKS_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/slice.h>

enum {
    /* of a kind: track 0 and so many others less one; what is of further ones is dropped */
    TRACKS_MOST = 16,
    TRACKS_HEADERS = 1 + 2 * TRACKS_MOST, /* metadata, and the headers of both kinds */
    TRACKS_DIGEST = 16,
};

/* By which the same bytes are known again. */
struct track_header {
    uint32_t version; /* 0: there was none */
    uint8_t digest[TRACKS_DIGEST];
};

struct track {
    uint8_t id;
    bool seen;        /* of this publisher */
    bool placed;      /* the place is this id's, also of an earlier publisher */
    uint8_t channels; /* of audio, as its tags say; 0: they do not */
    uint32_t codec;
    struct track_header header;
    uint64_t frames, bytes; /* of this publisher; bytes: of payloads */
};

/* All zero at first. Most publishers have track 0 alone: the other places take memory when one is
 * used. */
struct tracks {
    uint8_t main; /* the main track's place */
    bool any;     /* a track of this publisher has come */
    bool fixed;   /* the main track is another one no more */
    struct track first;
    struct track *others; /* TRACKS_MOST - 1; or NULL */
};

/* The same for another thread: without memory of its own. */
struct tracks_copy {
    uint8_t main;
    bool any, fixed;
    struct track list[TRACKS_MOST];
};

/* Places that there are. */
static inline unsigned tracks_room(const struct tracks *tracks) {
    return tracks->others ? TRACKS_MOST : 1;
}

/* One of them. */
static inline struct track *tracks_at(struct tracks *tracks, unsigned place) {
    return place == 0 ? &tracks->first : &tracks->others[place - 1];
}
static inline const struct track *tracks_get(const struct tracks *tracks, unsigned place) {
    return place == 0 ? &tracks->first : &tracks->others[place - 1];
}

/* Makes the place, below TRACKS_MOST. 0, -ENOMEM */
int tracks_need(struct tracks *tracks, unsigned place);

void tracks_clear(struct tracks *tracks);

void tracks_copy(const struct tracks *tracks, struct tracks_copy *ret_copy);

/* To tracks that are all zero: 0, -ENOMEM. */
int tracks_restore(struct tracks *tracks, const struct tracks_copy *copy);

/* Another publisher's: none has come yet. Places and versions stay. */
void tracks_begin(struct tracks *tracks);

/* The place of a track of which something has come; -EUSERS: there are as many as there may be;
 * -ENOMEM. */
int tracks_place(struct tracks *tracks, uint8_t id);

/* The same; at once for a publisher's only track, of which most tags are. */
static inline int tracks_take(struct tracks *tracks, uint8_t id) {
    return id == 0 && tracks->first.seen ? 0 : tracks_place(tracks, id);
}

/* Players are started: the main track stays what it is, or the first that comes where none has. */
void tracks_settle(struct tracks *tracks);

/* The main track. */
const struct track *tracks_main(const struct tracks *tracks);

/* The version of a header that has come. @last: the last version given; counted on where the bytes
 * are others. */
uint32_t track_header_take(struct track_header *header, const sluice_slice *payload, uint32_t *last);

#endif
