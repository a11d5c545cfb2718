#include "shared/codec_name.h"

#include <stddef.h>
#include <stdio.h>

#include <sluice/flv.h>

static const struct {
    uint32_t codec;
    const char *name;
} codec_names[] = {
    {SLUICE_CODEC_NONE, "unknown"},    {SLUICE_CODEC_H263, "flv1"},
    {SLUICE_CODEC_VP6, "vp6f"},        {SLUICE_CODEC_H264, "h264"},
    {SLUICE_CODEC_HEVC, "hevc"},       {SLUICE_CODEC_VVC, "vvc"},
    {SLUICE_CODEC_AV1, "av1"},         {SLUICE_CODEC_VP8, "vp8"},
    {SLUICE_CODEC_VP9, "vp9"},         {SLUICE_CODEC_AAC, "aac"},
    {SLUICE_CODEC_MP3, "mp3"},         {SLUICE_CODEC_OPUS, "opus"},
    {SLUICE_CODEC_FLAC, "flac"},       {SLUICE_CODEC_AC3, "ac3"},
    {SLUICE_CODEC_EAC3, "eac3"},       {SLUICE_CODEC_PCMA, "pcm_alaw"},
    {SLUICE_CODEC_PCMU, "pcm_mulaw"},  {SLUICE_CODEC_PCM, "pcm"},
    {SLUICE_CODEC_ADPCM, "adpcm_swf"}, {SLUICE_CODEC_NELLYMOSER, "nellymoser"},
    {SLUICE_CODEC_SPEEX, "speex"},
};

void codec_name(uint32_t codec, char ret_name[CODEC_NAME]) {
    for (size_t i = 0; i < sizeof codec_names / sizeof *codec_names; i++) {
        if (codec_names[i].codec == codec) {
            snprintf(ret_name, CODEC_NAME, "%s", codec_names[i].name);
            return;
        }
    }
    for (int i = 0; i < 4; i++) {
        char c = (char)(codec >> (24 - 8 * i));
        ret_name[i] = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ? c : '?';
    }
    ret_name[4] = '\0';
}
