/* The frames of an FLV file and of a stream of tags, to be compared; and the tracks that an SDP
 * announces. */
#ifndef SLUICE_TESTS_SUPPORT_FLV_MEDIA_H
#define SLUICE_TESTS_SUPPORT_FLV_MEDIA_H

#include <stddef.h>
#include <stdint.h>

#include <sluice/codec.h>
#include <sluice/flv.h>

enum { FLV_MEDIA_MOST = 1024 };

/* A tag; the bytes are its payload's, behind the header that the view tells of. */
typedef struct flv_media_frame {
    sluice_flv_type type;
    sluice_flv_view view;
    uint32_t timestamp;
    uint8_t *bytes;
    size_t size;
} flv_media_frame;

typedef struct flv_media {
    flv_media_frame frames[FLV_MEDIA_MOST];
    size_t count;
} flv_media;

/* Appends a copy of a tag. */
void flv_media_add(flv_media *media, const sluice_flv_tag *tag);

/* The tags of a file in tests/vectors, without scripts. */
flv_media *flv_media_read(const char *name);

/* NULL is allowed. */
void flv_media_free(flv_media *media);

/* The frame with this number among those of a type and kind; NULL where there are not so many. */
const flv_media_frame *flv_media_find(const flv_media *media, sluice_flv_type type, sluice_flv_packet packet,
                                      size_t number);

/*
 * Fails unless all frames of @media, but for the last @unsent of audio, are in @out: the same
 * bytes, and the same times within a millisecond, but for an offset that is the same for all.
 */
void flv_media_compare(const flv_media *media, const flv_media *out, size_t unsent);

/* A track as SDP announces it. */
typedef struct flv_media_track {
    sluice_codec_config config;
    sluice_rtp_unpacker_options unpacker;
} flv_media_track;

/* The tracks that the session in tests/vectors announces; how many. */
size_t flv_media_tracks(const char *name, flv_media_track tracks[2]);

#endif
