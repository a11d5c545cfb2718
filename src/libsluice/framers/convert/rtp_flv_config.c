/* Configurations of tracks, kept in the bytes that they need. */
#include <errno.h>
#include <stdlib.h>

#include "framers/convert/rtp_flv.h"

int rtp_flv_keep_config(struct rtp_flv_config **config, const sluice_codec_config *from) {
    size_t sets = from->set_count * sizeof *from->sets;
    struct rtp_flv_config *kept = malloc(sizeof *kept + sets + from->size);
    if (!kept)
        return -ENOMEM;
    *kept = (struct rtp_flv_config){
        .codec = from->codec,
        .clock_rate = from->clock_rate,
        .frame_duration = from->frame_duration,
        .width = from->width,
        .height = from->height,
        .channels = from->channels,
        .length_size = from->length_size,
        .reorder = from->reorder,
        .set_count = from->set_count,
        .reorder_known = from->reorder_known,
        .size = from->size,
    };
    uint8_t *bytes = (uint8_t *)(kept->sets + from->set_count);
    for (size_t i = 0; i < from->set_count; i++)
        kept->sets[i] = from->sets[i];
    for (size_t i = 0; i < from->size; i++)
        bytes[i] = from->bytes[i];
    free(*config);
    *config = kept;
    return 0;
}

void rtp_flv_read_config(const struct rtp_flv_config *config, sluice_codec_config *ret_config) {
    *ret_config = (sluice_codec_config){
        .codec = config->codec,
        .clock_rate = config->clock_rate,
        .channels = config->channels,
        .length_size = config->length_size,
        .reorder_known = config->reorder_known,
        .reorder = config->reorder,
        .frame_duration = config->frame_duration,
        .width = config->width,
        .height = config->height,
        .set_count = config->set_count,
        .size = config->size,
    };
    const uint8_t *bytes = (const uint8_t *)(config->sets + config->set_count);
    for (size_t i = 0; i < config->set_count; i++)
        ret_config->sets[i] = config->sets[i];
    for (size_t i = 0; i < config->size; i++)
        ret_config->bytes[i] = bytes[i];
}
