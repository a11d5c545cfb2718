/* What the headers of codecs say, in words. */
#ifndef TOOLS_CODEC_TEXT_H
#define TOOLS_CODEC_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include <sluice/flv.h>
#include <sluice/slice.h>

enum { CODEC_TEXT = 32 };

/*
 * Profile and level of a sequence header: "High", "4.1"; of AAC the object: "LC", and no level.
 * Empty where they are not known.
 */
void codec_profile(const sluice_flv_tag *header, char profile[CODEC_TEXT], char level[CODEC_TEXT]);

#endif
