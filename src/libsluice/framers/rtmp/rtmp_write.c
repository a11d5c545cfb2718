/* Chunks to send. The first header of a message is full, so that it depends on no other message. */
#include <sluice/rtmp.h>

#include <errno.h>

#include "framers/rtmp/rtmp_header.h"

enum {
    FULL = 0x00,
    CONTINUES = 0xC0,
    ONE_BYTE_IDS = 64,       /* below this; an id of two bytes counts from here */
    TWO_BYTE_IDS = 64 + 256, /* below this */
};

/* n bytes, most significant first; what is behind them. */
static uint8_t *put(uint8_t *at, unsigned n, uint32_t value) {
    while (n-- > 0)
        *at++ = (uint8_t)(value >> (8 * n));
    return at;
}

static uint8_t *put_id(uint8_t *at, uint8_t format, uint32_t id) {
    if (id < ONE_BYTE_IDS)
        return put(at, 1, format | id);
    id -= ONE_BYTE_IDS;
    if (id < TWO_BYTE_IDS - ONE_BYTE_IDS)
        return put(put(at, 1, format), 1, id);
    return put(put(put(at, 1, format | 1), 1, id & 0xFF), 1, id >> 8);
}

static uint8_t *put_header(uint8_t *at, const sluice_rtmp_message *message) {
    uint32_t timestamp = message->timestamp < RTMP_EXTENDED ? message->timestamp : RTMP_EXTENDED;
    at = put_id(at, FULL, message->chunk_stream);
    at = put(at, 3, timestamp);
    at = put(at, 3, message->size);
    at = put(at, 1, message->type);
    for (unsigned i = 0; i < 4; i++)
        at = put(at, 1, message->stream >> (8 * i) & 0xFF);
    return at;
}

int sluice_rtmp_chunk_begin(sluice_rtmp_chunking *chunking, const sluice_rtmp_message *message, uint32_t chunk_size) {
    if (message->chunk_stream < RTMP_CONTROL_STREAM || message->chunk_stream > SLUICE_RTMP_MAX_CHUNK_STREAM ||
        message->size > SLUICE_RTMP_MAX_MESSAGE || chunk_size == 0 || chunk_size > SLUICE_RTMP_MAX_CHUNK)
        return -EINVAL;
    *chunking = (sluice_rtmp_chunking){.message = *message, .chunk_size = chunk_size};
    chunking->message.payload = (sluice_slice){0};
    return 0;
}

int sluice_rtmp_chunk_next(sluice_rtmp_chunking *chunking, sluice_rtmp_chunk *ret_chunk) {
    const sluice_rtmp_message *message = &chunking->message;
    uint32_t left = message->size - chunking->done;
    if (chunking->begun && left == 0)
        return 0;
    uint8_t *begin = ret_chunk->header;
    uint8_t *end = chunking->begun ? put_id(begin, CONTINUES, message->chunk_stream) : put_header(begin, message);
    if (message->timestamp >= RTMP_EXTENDED)
        end = put(end, RTMP_EXTENDED_SIZE, message->timestamp);
    ret_chunk->header_size = (uint8_t)(end - begin);
    ret_chunk->offset = chunking->done;
    ret_chunk->length = left < chunking->chunk_size ? left : chunking->chunk_size;
    chunking->done += ret_chunk->length;
    chunking->begun = true;
    return 1;
}

/* The payload; what is behind it, or NULL. */
static uint8_t *put_control(uint8_t *at, const sluice_rtmp_control *control) {
    switch (control->type) {
    case SLUICE_RTMP_SET_CHUNK_SIZE:
        if (control->value == 0 || control->value > SLUICE_RTMP_MAX_CHUNK)
            return NULL;
        return put(at, 4, control->value);
    case SLUICE_RTMP_ABORT:
    case SLUICE_RTMP_ACKNOWLEDGEMENT:
    case SLUICE_RTMP_WINDOW_SIZE:
        return put(at, 4, control->value);
    case SLUICE_RTMP_PEER_BANDWIDTH:
        return put(put(at, 4, control->value), 1, control->limit);
    case SLUICE_RTMP_USER_CONTROL:
        at = put(put(at, 2, control->event), 4, control->value);
        return control->event == SLUICE_RTMP_SET_BUFFER ? put(at, 4, control->second) : at;
    default:
        return NULL;
    }
}

int sluice_rtmp_write_control(uint8_t buffer[SLUICE_RTMP_CONTROL_SIZE], const sluice_rtmp_control *control) {
    uint8_t payload[SLUICE_RTMP_CONTROL_SIZE];
    const uint8_t *end = put_control(payload, control);
    if (!end)
        return -EINVAL;
    sluice_rtmp_message message = {
        .type = control->type,
        .chunk_stream = RTMP_CONTROL_STREAM,
        .size = (uint32_t)(end - payload),
    };
    uint8_t *at = put_header(buffer, &message);
    for (uint32_t i = 0; i < message.size; i++)
        *at++ = payload[i];
    return (int)(at - buffer);
}
