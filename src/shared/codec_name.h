/* Names of codecs for logs, reasons, the API and sluice-probe. */
#ifndef SHARED_CODEC_NAME_H
#define SHARED_CODEC_NAME_H

#include <stdint.h>

enum { CODEC_NAME = 16 };

/* The name that FFmpeg has for a codec, or else its four characters; "unknown" of
 * SLUICE_CODEC_NONE. */
void codec_name(uint32_t codec, char ret_name[CODEC_NAME]);

#endif
