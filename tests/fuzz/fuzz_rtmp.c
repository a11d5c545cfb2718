/* RTMP: messages in chunks, what they say, and that what is written of them is read as it was. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/rtmp.h>

#include "fuzz/fuzz.h"

enum { MORE = 2 };

typedef struct messages {
    sluice_rtmp *rtmp;
    sluice_rtmp_limits limits;
} messages;

static void show_values(fuzz_run *run, sluice_amf_reader *values) {
    sluice_amf_value value;
    int result;
    while ((result = sluice_amf_next(values, &value)) == 1) {
        fuzz_show(run, "value", value.type << 8 | value.depth);
        fuzz_show_slice(run, "name", &value.name);
        fuzz_show_slice(run, "text", &value.text);
    }
    fuzz_show(run, "values", result);
}

static void show_parts(fuzz_run *run, const sluice_rtmp_message *message) {
    sluice_rtmp_parts place = {0};
    sluice_rtmp_message part;
    size_t sum = 0;
    int result;
    while ((result = sluice_rtmp_next_part(&place, message, &part)) == 1) {
        FUZZ_CHECK(part.size == sluice_slice_length(&part.payload));
        sum += part.size;
        fuzz_show(run, "part", part.type);
        fuzz_show(run, "at", part.timestamp);
        fuzz_show_slice(run, "payload", &part.payload);
        sluice_slice_release(&part.payload);
    }
    FUZZ_CHECK(sum <= message->size);
    fuzz_show(run, "parts", result);
}

static void show_views(fuzz_run *run, const sluice_rtmp_message *message) {
    sluice_rtmp_control control;
    sluice_rtmp_command command;
    sluice_amf_reader values;
    int result = sluice_rtmp_read_control(message, &control);
    fuzz_show(run, "control", result);
    if (result == 0) {
        fuzz_show(run, "type", control.type << 16 | control.event);
        fuzz_show(run, "value", control.value);
        fuzz_show(run, "second", control.second + control.limit);
    }
    result = sluice_rtmp_read_command(message, NULL, &command);
    fuzz_show(run, "command", result);
    if (result == 0) {
        fuzz_show_slice(run, "name", &command.name);
        fuzz_show_bytes(run, "transaction", &command.transaction, sizeof command.transaction);
        show_values(run, &command.values);
    }
    result = sluice_rtmp_read_values(message, NULL, &values);
    fuzz_show(run, "data", result);
    if (result == 0)
        show_values(run, &values);
    show_parts(run, message);
}

/* The message in chunks of some size, before another framer. */
static void write_anew(fuzz_run *run, const sluice_rtmp_message *message) {
    const sluice_rtmp_limits limits = {.size = sizeof limits, .message = SLUICE_RTMP_MAX_MESSAGE};
    const sluice_rtmp_control control = {.type = SLUICE_RTMP_SET_CHUNK_SIZE, .value = 1 + fuzz_random(run, 300)};
    sluice_rtmp_chunking chunking;
    sluice_rtmp_chunk chunk;
    sluice_rtmp_message *again;
    sluice_rtmp *rtmp;
    sluice_chain *chain;
    uint8_t set[SLUICE_RTMP_CONTROL_SIZE];
    int result;
    FUZZ_CHECK(sluice_rtmp_new(&limits, &rtmp) == 0 && sluice_chain_new(run->pool, &chain) == 0);
    fuzz_append(run, chain, set, (size_t)sluice_rtmp_write_control(set, &control));
    FUZZ_CHECK(sluice_rtmp_next(rtmp, chain, &again) == 1);
    FUZZ_CHECK(sluice_rtmp_chunk_begin(&chunking, message, control.value) == 0);
    while (sluice_rtmp_chunk_next(&chunking, &chunk) == 1) {
        sluice_slice part;
        fuzz_append(run, chain, chunk.header, chunk.header_size);
        FUZZ_CHECK(sluice_slice_sub(&message->payload, chunk.offset, chunk.length, &part) == 0);
        FUZZ_CHECK(sluice_chain_append_slice(chain, &part) == 0);
        sluice_slice_release(&part);
    }
    while ((result = sluice_rtmp_next(rtmp, chain, &again)) == MORE)
        ;
    FUZZ_CHECK(result == 1 || message->type <= SLUICE_RTMP_PEER_BANDWIDTH);
    if (result == 1) {
        FUZZ_CHECK(again->type == message->type && again->chunk_stream == message->chunk_stream);
        FUZZ_CHECK(again->stream == message->stream && again->timestamp == message->timestamp);
        FUZZ_CHECK(again->size == message->size && fuzz_hash(&again->payload) == fuzz_hash(&message->payload));
        FUZZ_CHECK(sluice_chain_length(chain) == 0);
    }
    sluice_rtmp_free(rtmp);
    sluice_chain_free(chain);
}

static int next(void *state, sluice_chain *chain, fuzz_run *run) {
    messages *m = state;
    sluice_rtmp_message *message;
    uint32_t sequence;
    int result;
    while ((result = sluice_rtmp_next(m->rtmp, chain, &message)) == MORE)
        ;
    FUZZ_CHECK(result != -ENOBUFS && result != -ENOMEM);
    if (result != 1)
        return result;
    FUZZ_CHECK(message->size == sluice_slice_length(&message->payload));
    FUZZ_CHECK(m->limits.message == 0 || message->size <= m->limits.message);
    fuzz_show(run, "message", message->type);
    fuzz_show(run, "chunk stream", message->chunk_stream);
    fuzz_show(run, "stream", message->stream);
    fuzz_show(run, "at", message->timestamp);
    fuzz_show_slice(run, "payload", &message->payload);
    fuzz_show(run, "acknowledge", sluice_rtmp_must_acknowledge(m->rtmp, &sequence));
    show_views(run, message);
    if (fuzz_random(run, 4) == 0)
        write_anew(run, message);
    fuzz_keep(run, &message->payload);
    return 1;
}

static size_t need(const void *state) {
    return sluice_rtmp_need(((const messages *)state)->rtmp);
}

void fuzz_target(fuzz_run *run) {
    static const sluice_rtmp_limits limits[] = {
        {.size = sizeof(sluice_rtmp_limits)},
        {.size = sizeof(sluice_rtmp_limits), .message = 100, .chunk_streams = 3},
        {.size = sizeof(sluice_rtmp_limits), .copy_below = 1, .work = 3},
        {.size = sizeof(sluice_rtmp_limits), .message = 1000, .gathered = 1000, .pieces = 2},
    };
    messages m = {.limits = limits[run->settings[0] % 4]};
    FUZZ_CHECK(sluice_rtmp_new(&m.limits, &m.rtmp) == 0);
    fuzz_drive(run, &(fuzz_framer){next, need}, &m);
    sluice_rtmp_free(m.rtmp);
}
