/* Codecs and what their headers say, in words. */
#ifndef TOOLS_CODEC_TEXT_H
#define TOOLS_CODEC_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include <sluice/flv.h>
#include <sluice/slice.h>

enum { CODEC_TEXT = 32 };

/* "h264", as FFmpeg calls them; the FourCC where it is not known. */
void codec_name(uint32_t codec, char text[CODEC_TEXT]);

/*
 * Profile and level of a sequence header: "High", "4.1"; of AAC the object: "LC", and no level. Empty where they are
 * not known.
 */
void codec_profile(const sluice_flv_tag *header, char profile[CODEC_TEXT], char level[CODEC_TEXT]);

#endif
