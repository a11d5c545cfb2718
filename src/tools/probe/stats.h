/* What a stream's tags say of it: tracks, times, sizes, and what is wrong. Knows no files and no
 * sockets. */
#ifndef TOOLS_STATS_H
#define TOOLS_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/codec.h>
#include <sluice/flv.h>

#include "tools/probe/codec_text.h"

enum {
    STATS_FAULTS = 1000,   /* that are kept; all are counted */
    STATS_GAP_MS = 1000,   /* a step of a track's time that is longer is a gap */
    STATS_JUMP_MS = 10000, /* and from here on a jump, as is one of any size back */
    STATS_NO_OFFSET = -1,  /* of what has no place in a file */
    STATS_MOST = 16        /* tracks of a kind that are examined; more are reported as an error */
};

enum stats_track_kind { STATS_VIDEO, STATS_AUDIO, STATS_TRACKS };

struct stats_track {
    bool seen, has_config, has_times;
    uint8_t id; /* of multitrack; else 0 */
    uint32_t codec;
    char profile[CODEC_TEXT], level[CODEC_TEXT];
    sluice_codec_config config;
    uint32_t legacy_rate; /* what FLV's own header says of audio */
    uint8_t legacy_channels;
    uint64_t headers, frames, key_frames, bytes, largest;
    int64_t first, last, step; /* decoding times, milliseconds; step: the last one */
    int64_t first_key, last_key, least_key, most_key;
    uint64_t back, gaps, jumps;
    bool before_header; /* a frame came before the header that its codec needs */
};

struct stats_fault {
    bool is_error; /* else a warning */
    int64_t offset;
    const char *what; /* one word */
    char text[120];
};

struct stats {
    struct stats_track tracks[STATS_TRACKS][STATS_MOST]; /* in the order in which they have come */
    bool has_more;                                       /* tracks than that */
    sluice_flv_metadata metadata;
    bool has_metadata;
    uint64_t tags, bytes; /* bytes: of payloads */
    uint64_t errors, warnings;
    struct stats_fault faults[STATS_FAULTS];
    uint32_t fault_count;
};

/* What a tag is: "frame", "header", "end", "metadata", "command", "other", "script". */
const char *stats_kind(const sluice_flv_tag *tag);

/* Bytes of a tag's own data: those of a frame without FLV's header, as other tools count them. */
uint32_t stats_size(const sluice_flv_tag *tag);

/* Takes a tag into account. @offset: of the tag, or STATS_NO_OFFSET */
void stats_take(struct stats *stats, const sluice_flv_tag *tag, int64_t offset);

/* What is wrong beside the tags. */
__attribute__((format(printf, 5, 6))) void stats_add(struct stats *stats, bool is_error, const char *what,
                                                     int64_t offset, const char *format, ...);

/* Milliseconds of a track, with its last frame; of the stream. */
int64_t stats_track_duration(const struct stats_track *track);
int64_t stats_duration(const struct stats *stats);

/* Bits per second over the track's duration; 0 where there is none. */
double stats_bit_rate(const struct stats_track *track);

/* Frames per second; 0 where it is not known. */
double stats_frame_rate(const struct stats_track *track);

#endif
