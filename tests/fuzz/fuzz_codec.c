/* Decoders' configurations: records, parameter sets and fmtp, each read, written and read again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/codec.h>

#include "fuzz/fuzz.h"

static void show_config(fuzz_run *run, const sluice_codec_config *config) {
    fuzz_show(run, "rate", config->clock_rate);
    fuzz_show(run, "channels", config->channels);
    fuzz_show(run, "length size", config->length_size);
    fuzz_show(run, "reorder", config->reorder_known ? config->reorder : -1);
    fuzz_show(run, "duration", config->frame_duration);
    fuzz_show(run, "size", (int64_t)((uint64_t)config->width << 32 | config->height));
    fuzz_show(run, "sets", config->set_count);
    FUZZ_CHECK(config->set_count <= SLUICE_CODEC_MAX_SETS && config->size <= SLUICE_CODEC_MAX_BYTES);
    FUZZ_CHECK(config->reorder <= SLUICE_CODEC_MAX_REORDER);
    for (size_t i = 0; i < config->set_count; i++) {
        const sluice_codec_set *set = &config->sets[i];
        FUZZ_CHECK(set->offset + set->length <= config->size);
        fuzz_show(run, "type", set->type << 16 | set->id);
        fuzz_show_bytes(run, "set", config->bytes + set->offset, set->length);
    }
    fuzz_show_bytes(run, "bytes", config->bytes, config->size);
    fuzz_show(run, "complete", sluice_codec_is_complete(config));
}

static bool same_sets(const sluice_codec_config *a, const sluice_codec_config *b) {
    if (a->set_count != b->set_count || a->size != b->size)
        return false;
    for (size_t i = 0; i < a->set_count; i++) {
        const sluice_codec_set *x = &a->sets[i], *y = &b->sets[i];
        if (x->type != y->type || x->id != y->id || x->length != y->length ||
            memcmp(a->bytes + x->offset, b->bytes + y->offset, x->length) != 0)
            return false;
    }
    return a->set_count > 0 || memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* Both forms in which it can be written say the same again. */
static void check_written(fuzz_run *run, const sluice_codec_config *config) {
    uint8_t record[SLUICE_CODEC_MAX_RECORD];
    char fmtp[SLUICE_CODEC_MAX_FMTP];
    sluice_codec_config again;
    int size = sluice_codec_write_record(config, record, sizeof record);
    FUZZ_CHECK((size >= 0) == sluice_codec_is_complete(config));
    if (size <= 0)
        return;
    fuzz_show_bytes(run, "record", record, (size_t)size);
    sluice_slice slice = fuzz_slice(run, record, (size_t)size);
    FUZZ_CHECK(sluice_codec_read_record(&again, config->codec, &slice, 0) == 0);
    sluice_slice_release(&slice);
    if (config->codec != SLUICE_CODEC_OPUS)
        FUZZ_CHECK(same_sets(config, &again));
    FUZZ_CHECK(again.channels == config->channels && again.width == config->width && again.height == config->height);
    size = sluice_codec_write_fmtp(config, fmtp, sizeof fmtp);
    FUZZ_CHECK(size >= 0);
    fuzz_show_bytes(run, "fmtp", fmtp, (size_t)size);
    FUZZ_CHECK(sluice_codec_init(&again, config->codec, config->clock_rate, config->channels) == 0);
    char *text = fuzz_copy(fmtp, (size_t)size);
    FUZZ_CHECK(sluice_codec_read_fmtp(&again, (sluice_http_text){text, (size_t)size}, NULL) == 0);
    free(text);
    if (config->codec != SLUICE_CODEC_OPUS)
        FUZZ_CHECK(same_sets(config, &again));
}

/* Each record is a parameter set. */
static void add_sets(fuzz_run *run, sluice_codec_config *config) {
    uint8_t kind;
    const uint8_t *bytes;
    size_t size;
    while (fuzz_record(run, &kind, &bytes, &size)) {
        sluice_codec_config before = *config;
        char *copy = fuzz_copy(bytes, size);
        int result = sluice_codec_add_set(config, (const uint8_t *)copy, size);
        free(copy);
        fuzz_show(run, "add", result);
        if (result <= 0)
            FUZZ_CHECK(memcmp(&before, config, sizeof before) == 0);
    }
}

void fuzz_target(fuzz_run *run) {
    static const uint32_t codecs[] = {SLUICE_CODEC_H264, SLUICE_CODEC_HEVC, SLUICE_CODEC_AAC,
                                      SLUICE_CODEC_OPUS, SLUICE_CODEC_PCMA, SLUICE_CODEC_PCMU};
    uint32_t codec = codecs[run->settings[0] % 6];
    sluice_codec_config config;
    sluice_rtp_unpacker_options options = {.size = sizeof options};
    int result = 0;
    memset(&config, 0, sizeof config);
    FUZZ_CHECK(sluice_codec_init(&config, codec, 0, 0) == 0);
    sluice_slice slice;
    char *text;
    switch (run->settings[1] % 3) {
    case 0:
        slice = fuzz_slice(run, run->bytes, run->size);
        result = sluice_codec_read_record(&config, codec, &slice, run->settings[1] / 3 % 8);
        sluice_slice_release(&slice);
        break;
    case 1:
        text = fuzz_copy(run->bytes, run->size);
        result = sluice_codec_read_fmtp(&config, (sluice_http_text){text, run->size}, &options);
        free(text);
        fuzz_show(run, "lengths", options.size_length << 16 | options.index_length << 8 | options.index_delta_length);
        break;
    default:
        add_sets(run, &config);
    }
    fuzz_show(run, "result", result);
    show_config(run, &config);
    if (result == 0)
        check_written(run, &config);
}
