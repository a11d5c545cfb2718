#include "daemon/relay/tracks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

/* of a header whose bytes are looked at: bytes, pieces */
enum { HEADER_MOST = 64 << 10, PIECES = 64 };

int tracks_need(struct tracks *tracks, unsigned place) {
    if (place < tracks_room(tracks))
        return 0;
    tracks->others = calloc(TRACKS_MOST - 1, sizeof *tracks->others);
    return tracks->others ? 0 : -ENOMEM;
}

void tracks_clear(struct tracks *tracks) {
    free(tracks->others);
    tracks->others = NULL;
}

void tracks_copy(const struct tracks *tracks, struct tracks_copy *ret_copy) {
    *ret_copy = (struct tracks_copy){
        .main = tracks->main, .any = tracks->any, .fixed = tracks->fixed, .list[0] = tracks->first};
    for (unsigned i = 1; i < tracks_room(tracks); i++)
        ret_copy->list[i] = *tracks_get(tracks, i);
}

int tracks_restore(struct tracks *tracks, const struct tracks_copy *copy) {
    for (unsigned i = 0; i < TRACKS_MOST; i++) {
        bool is_used = copy->list[i].placed || copy->list[i].seen;
        if (is_used && tracks_need(tracks, i) < 0)
            return -ENOMEM;
        if (i < tracks_room(tracks))
            *tracks_at(tracks, i) = copy->list[i];
    }
    tracks->main = copy->main;
    tracks->any = copy->any;
    tracks->fixed = copy->fixed;
    return 0;
}

void tracks_begin(struct tracks *tracks) {
    for (unsigned i = 0; i < tracks_room(tracks); i++) {
        struct track *track = tracks_at(tracks, i);
        track->seen = false;
        track->channels = 0;
        track->codec = 0;
        track->frames = track->bytes = 0;
    }
    tracks->main = 0;
    tracks->any = tracks->fixed = false;
}

static int find(struct tracks *tracks, uint8_t id) {
    int spare = -1, former = -1;
    if (id == 0)
        return 0;
    if (!tracks->others)
        return 1;
    for (int i = 1; i < TRACKS_MOST; i++) {
        const struct track *track = tracks_get(tracks, (unsigned)i);
        if (track->placed && track->id == id)
            return i;
        if (!track->placed && spare < 0)
            spare = i;
        if (track->placed && !track->seen && former < 0)
            former = i;
    }
    return spare >= 0 ? spare : former;
}

int tracks_place(struct tracks *tracks, uint8_t id) {
    int place = find(tracks, id);
    if (place < 0)
        return -EUSERS;
    if (tracks_need(tracks, (unsigned)place) < 0)
        return -ENOMEM;
    struct track *track = tracks_at(tracks, (unsigned)place);
    if (track->seen)
        return place;
    /* Another one's place has another one's header. */
    if (track->placed && track->id != id)
        track->header = (struct track_header){0};
    track->id = id;
    track->seen = track->placed = true;
    if (!tracks->any || (!tracks->fixed && id < tracks_main(tracks)->id))
        tracks->main = (uint8_t)place;
    tracks->any = true;
    return place;
}

void tracks_settle(struct tracks *tracks) {
    tracks->fixed = true;
}

const struct track *tracks_main(const struct tracks *tracks) {
    return tracks_get(tracks, tracks->main);
}

/* False where there is no digest: the bytes are too many, or memory is short. */
static bool make_digest(const sluice_slice *payload, uint8_t ret_digest[TRACKS_DIGEST]) {
    struct iovec pieces[PIECES];
    uint8_t whole[EVP_MAX_MD_SIZE];
    size_t count = sluice_slice_iov(payload, 0, pieces, PIECES);
    if (count > PIECES || sluice_slice_length(payload) > HEADER_MOST)
        return false;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool made = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    for (size_t i = 0; made && i < count; i++)
        made = EVP_DigestUpdate(context, pieces[i].iov_base, pieces[i].iov_len) == 1;
    made = made && EVP_DigestFinal_ex(context, whole, NULL) == 1;
    EVP_MD_CTX_free(context);
    if (made)
        memcpy(ret_digest, whole, TRACKS_DIGEST);
    return made;
}

uint32_t track_header_take(struct track_header *header, const sluice_slice *payload, uint32_t *last) {
    uint8_t digest[TRACKS_DIGEST] = {0};
    bool made = make_digest(payload, digest);
    if (made && header->version > 0 && memcmp(digest, header->digest, sizeof digest) == 0)
        return header->version;
    memcpy(header->digest, digest, sizeof digest);
    uint32_t version = ++*last;
    /* What cannot be known again is not remembered. */
    header->version = made ? version : 0;
    return version;
}
