#include "tools/probe/codec_text.h"

#include <stdio.h>
#include <string.h>

struct name {
    uint32_t number;
    const char *name;
};

/* ITU-T H.264, annex A. */
static const struct name h264_profiles[] = {
    {66, "Baseline"},
    {77, "Main"},
    {88, "Extended"},
    {100, "High"},
    {110, "High 10"},
    {122, "High 4:2:2"},
    {244, "High 4:4:4 Predictive"},
};

/* ITU-T H.265, annex A. */
static const struct name hevc_profiles[] = {{1, "Main"}, {2, "Main 10"}, {3, "Main Still Picture"}, {4, "Rext"}};

/* ISO/IEC 14496-3, table 1.1. */
static const struct name aac_objects[] = {
    {1, "Main"}, {2, "LC"},        {3, "SSR"},  {4, "LTP"},      {5, "HE-AAC"},
    {23, "LD"},  {29, "HE-AACv2"}, {39, "ELD"}, {42, "xHE-AAC"},
};

static const char *find(const struct name *names, size_t count, uint32_t number) {
    for (size_t i = 0; i < count; i++)
        if (names[i].number == number)
            return names[i].name;
    return NULL;
}

#define FIND(names, number) find(names, sizeof(names) / sizeof *(names), number)

static void take_name(const char *name, uint32_t number, char profile[CODEC_TEXT]) {
    if (name)
        snprintf(profile, CODEC_TEXT, "%s", name);
    else
        snprintf(profile, CODEC_TEXT, "%u", number);
}

void codec_profile(const sluice_flv_tag *header, char profile[CODEC_TEXT], char level[CODEC_TEXT]) {
    uint8_t record[16];
    size_t size = sluice_slice_copy(&header->payload, header->view.header_size, record, sizeof record);
    *profile = *level = '\0';
    if (header->view.codec == SLUICE_CODEC_H264 && size >= 4) {
        take_name(record[1] == 66 && record[2] & 0x40 ? "Constrained Baseline" : FIND(h264_profiles, record[1]),
                  record[1], profile);
        snprintf(level, CODEC_TEXT, "%u.%u", record[3] / 10, record[3] % 10);
    } else if (header->view.codec == SLUICE_CODEC_HEVC && size >= 13) {
        take_name(FIND(hevc_profiles, record[1] & 0x1F), record[1] & 0x1F, profile);
        snprintf(level, CODEC_TEXT, "%u.%u", record[12] / 30, record[12] % 30 / 3);
    } else if (header->view.codec == SLUICE_CODEC_AAC && size >= 2) {
        uint32_t object = record[0] >> 3;
        if (object == 31)
            object = 32 + ((record[0] & 7u) << 3 | record[1] >> 5);
        take_name(FIND(aac_objects, object), object, profile);
    }
}
