/*
 * The onMetaData at the beginning of a recording, from which players learn its length and the
 * positions to seek to. It is rewritten when the recording ends, so its size is fixed from the
 * start, with room for a limited number of key frames. If there are more, every second one is
 * removed, repeatedly.
 */
#ifndef SLUICED_FLV_INDEX_H
#define SLUICED_FLV_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/flv.h>

enum { FLV_INDEX_LEAST = 64, FLV_INDEX_MOST = 4096 }; /* key frames */

struct flv_index_key {
    uint32_t time;  /* milliseconds */
    uint64_t place; /* of its tag in the file */
};

struct flv_index_track {
    bool present;
    uint32_t number; /* of its codec, as onMetaData names it */
    uint32_t last;   /* time of the last frame */
    uint32_t step;   /* between the last two */
};

struct flv_index {
    struct flv_index_key *keys;
    size_t count, room;
    uint32_t gap; /* a key frame that is nearer to the last one is not entered */
    struct flv_index_track video, audio;
    uint8_t main;  /* the video track with the first frame: its key frames are entered */
    bool has_main; /* one has come */
    double width, height, frame_rate;
    uint64_t frames;
};

/* 0, -ENOMEM */
int flv_index_init(struct flv_index *index, size_t room);
void flv_index_clear(struct flv_index *index);

/* What onMetaData said of the tracks. */
void flv_index_describe(struct flv_index *index, const sluice_flv_metadata *metadata);

/* Enters a tag that lies at this place of the file. */
void flv_index_add(struct flv_index *index, sluice_flv_type type, const sluice_flv_view *view, uint32_t timestamp,
                   uint64_t place);

/* Bytes of the payload, with room for so many key frames. */
size_t flv_index_size(size_t room);

/* How many key frames a payload of this size has room for; 0 when it is too small for one. */
size_t flv_index_room(size_t size);

/* Writes the payload, with a size of at least the index's room. @file_size: 0 if unknown. */
void flv_index_write(const struct flv_index *index, uint64_t file_size, uint8_t *payload, size_t size);

/* Milliseconds from 0 to the end of the last frame, as far as can be told. */
uint32_t flv_index_duration(const struct flv_index *index);

#endif
