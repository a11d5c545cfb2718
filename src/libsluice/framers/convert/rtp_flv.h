/* The inside of a session that turns RTP into FLV. */
#ifndef SLUICE_FRAMERS_RTP_FLV_H
#define SLUICE_FRAMERS_RTP_FLV_H

#include <sluice/rtp_flv.h>

#include "framers/convert/rtp_time.h"

/*
 * A track's configuration, in the bytes that it needs: the parameter sets are behind it, then their
 * bytes. The public structure has room for the most there may be.
 */
struct rtp_flv_config {
    uint32_t codec, clock_rate, frame_duration, width, height;
    uint8_t channels, length_size, reorder, set_count;
    bool reorder_known;
    uint16_t size; /* of the bytes */
    sluice_codec_set sets[];
};

/* Puts a copy in the place of the one there, which may be NULL. 0, -ENOMEM (it stays). */
int rtp_flv_keep_config(struct rtp_flv_config **config, const sluice_codec_config *from);

void rtp_flv_read_config(const struct rtp_flv_config *config, sluice_codec_config *ret_config);

/* Frames are put together here, by reference. */
struct rtp_flv_builder {
    sluice_chain *media;   /* what the frame is made of so far; NULL: none is being made */
    sluice_block *headers; /* that headers are written into; or NULL */
    uint32_t used;         /* bytes of that */
    sluice_pool *pool;
};

/* Appends bytes that FLV adds: 0, -ENOBUFS, -ENOMEM. */
int rtp_flv_add_bytes(struct rtp_flv_builder *builder, const uint8_t *bytes, size_t size);

/* Appends a unit's NAL units, each behind its length; parameter sets, which have gone to the
 * sequence header, not. */
int rtp_flv_add_picture(struct rtp_flv_builder *builder, uint32_t codec, const sluice_rtp_unit *unit);

/* Appends an audio frame. */
int rtp_flv_add_pieces(struct rtp_flv_builder *builder, const sluice_rtp_unit *unit, const sluice_rtp_nal *nal);

/* What precedes a codec's data in a tag; @composition in milliseconds. At most RTP_FLV_HEADER
 * bytes; how many. */
enum { RTP_FLV_HEADER = 8 };
size_t rtp_flv_frame_header(const struct rtp_flv_config *config, bool key, int32_t composition, uint8_t *to);
size_t rtp_flv_sequence_header(const struct rtp_flv_config *config, uint8_t *to);

#endif
