/*
 * The size of a stream's pictures: from its metadata, or from the decoder's configuration (the
 * SPS).
 */
#ifndef SLUICED_VIDEO_SIZE_H
#define SLUICED_VIDEO_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include <sluice/slice.h>

struct stream;

/* Pixels of the main track; 0 where neither says it. Its worker's thread only. */
void video_size(const struct stream *stream, double *ret_width, double *ret_height);

/* The same by the payload of a sequence header alone. @offset: of the decoder's configuration in
 * it */
void video_size_of_header(const sluice_slice *payload, uint32_t codec, size_t offset, double *ret_width,
                          double *ret_height);

#endif
