/*
 * What a player gets, held against the file that is published: which frame of the endless stream
 * each one is, how many are missing between, and so what was due when. Servers may shift times, and
 * round them; frames are known by their track, size and time, and the shift is learned from the
 * first one. Knows no sockets.
 */
#ifndef TOOLS_FOLLOW_H
#define TOOLS_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/media.h"

struct follow {
    const struct media *media;
    bool synced;
    int64_t shift;               /* of the player's times against the file's */
    uint64_t next[MEDIA_TRACKS]; /* numbers behind the last frame that came */
    /* since the sync: what is before a track's first frame was not lost */
    bool begun[MEDIA_TRACKS];
    unsigned strange; /* frames in a row that are none of the file's */

    uint64_t frames, lost, unmatched;
};

/* @media: must outlive it */
void follow_init(struct follow *follow, const struct media *media);

/*
 * Takes a frame. @sent: number behind the last tag that was sent. True where it is known which one
 * it is: @ret_number.
 */
bool follow_take(struct follow *follow, const sluice_flv_tag *tag, uint64_t sent, uint64_t *ret_number);

/* Another publisher's session: times may have another shift, and what lies between was not lost on
 * the way. */
void follow_restart(struct follow *follow);

#endif
