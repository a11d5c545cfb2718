#include "tools/push/follow.h"

enum { ROUNDING_MS = 2, ORDER_MS = 1000, STRANGE_MOST = 8 };

void follow_init(struct follow *follow, const struct media *media) {
    *follow = (struct follow){.media = media};
}

void follow_restart(struct follow *follow) {
    follow->synced = follow->begun[MEDIA_VIDEO] = follow->begun[MEDIA_AUDIO] = false;
    follow->strange = 0;
}

static uint32_t size_of(const sluice_flv_tag *tag) {
    return tag->size - (tag->view.header_size < tag->size ? tag->view.header_size : 0);
}

static bool is_like(const struct follow *follow, const sluice_flv_tag *tag, uint64_t number) {
    const struct media_tag *sent = media_at(follow->media, number);
    return sent->frame && sent->type == tag->type && sent->size == size_of(tag);
}

/* When it is shown: that is what all protocols say, while times of decoding may have been made up
 * on the way. */
static int64_t shown(const sluice_flv_tag *tag) {
    return (int64_t)tag->timestamp + (tag->type == SLUICE_FLV_VIDEO ? tag->view.composition_time : 0);
}

static int64_t to_be_shown(const struct follow *follow, uint64_t number) {
    return (int64_t)media_time(follow->media, number) + media_at(follow->media, number)->show + follow->shift;
}

static bool is_at(const struct follow *follow, const sluice_flv_tag *tag, uint64_t number) {
    int64_t difference = shown(tag) - to_be_shown(follow, number);
    return difference >= -ROUNDING_MS && difference <= ROUNDING_MS;
}

/* The latest of what was sent that looks like it, and within the last round. */
static bool find_latest(const struct follow *follow, const sluice_flv_tag *tag, uint64_t sent, uint64_t *number) {
    for (size_t i = 0; i < follow->media->count && sent > 0; i++)
        if (is_like(follow, tag, --sent)) {
            *number = sent;
            return true;
        }
    return false;
}

/* The first frame: most servers leave times as they are. */
static bool sync(struct follow *follow, const sluice_flv_tag *tag, uint64_t sent, uint64_t *number) {
    const struct media *media = follow->media;
    int64_t time = shown(tag);
    bool found = false;
    follow->shift = 0;
    for (uint64_t i = media_find(media, time > ORDER_MS ? (uint64_t)(time - ORDER_MS) : 0);
         i < sent && (int64_t)media_due(media, i) <= time + ORDER_MS && !found; i++)
        if (is_like(follow, tag, i) && is_at(follow, tag, i)) {
            *number = i;
            found = true;
        }
    /* A time of its own: only a key frame is unlike the others. */
    if (!found && media->has[MEDIA_VIDEO] && !(tag->type == SLUICE_FLV_VIDEO && tag->view.key_frame))
        return false;
    if (!found && !find_latest(follow, tag, sent, number))
        return false;
    follow->shift = shown(tag) - to_be_shown(follow, *number);
    follow->next[MEDIA_VIDEO] = follow->next[MEDIA_AUDIO] = *number;
    follow->synced = true;
    return true;
}

/* The frame behind the last one, or one behind that. */
static bool find_next(struct follow *follow, const sluice_flv_tag *tag, uint64_t sent, uint64_t *number) {
    enum media_track track = tag->type == SLUICE_FLV_VIDEO ? MEDIA_VIDEO : MEDIA_AUDIO;
    uint64_t missing = 0;
    for (uint64_t i = follow->next[track]; i < sent; i++) {
        if (is_like(follow, tag, i) && is_at(follow, tag, i)) {
            follow->lost += follow->begun[track] ? missing : 0;
            follow->begun[track] = true;
            follow->next[track] = i + 1;
            *number = i;
            return true;
        }
        if ((int64_t)media_due(follow->media, i) + follow->shift > shown(tag) + ORDER_MS)
            break;
        const struct media_tag *other = media_at(follow->media, i);
        missing += other->frame && other->type == tag->type;
    }
    return false;
}

/*
 * A frame that has not been sent yet cannot have come. So the first one, taken for the latest that
 * looks like it, was of an earlier round: the server was late by a round or more. What has come
 * since was counted on from there.
 */
static bool go_back(struct follow *follow, const sluice_flv_tag *tag, uint64_t sent) {
    const struct media *media = follow->media;
    uint64_t first = follow->next[MEDIA_VIDEO] < follow->next[MEDIA_AUDIO] ? follow->next[MEDIA_VIDEO]
                                                                           : follow->next[MEDIA_AUDIO];
    for (uint64_t i = sent; (int64_t)media_due(media, i) + follow->shift <= shown(tag) + ORDER_MS; i++) {
        uint64_t rounds = (i - sent) / media->count + 1;
        if (rounds > first / media->count)
            return false;
        if (!is_like(follow, tag, i) || !is_at(follow, tag, i))
            continue;
        for (int track = 0; track < MEDIA_TRACKS; track++)
            follow->next[track] -= rounds * media->count;
        follow->shift += (int64_t)(rounds * media->duration);
        return true;
    }
    return false;
}

bool follow_take(struct follow *follow, const sluice_flv_tag *tag, uint64_t sent, uint64_t *ret_number) {
    uint64_t number;
    follow->frames++;
    if (!follow->synced && !sync(follow, tag, sent, &number)) {
        follow->unmatched++;
        return false;
    }
    if (!find_next(follow, tag, sent, &number) &&
        !(go_back(follow, tag, sent) && find_next(follow, tag, sent, &number))) {
        follow->unmatched++;
        if (++follow->strange == STRANGE_MOST)
            follow_restart(follow);
        return false;
    }
    follow->strange = 0;
    *ret_number = number;
    return true;
}
