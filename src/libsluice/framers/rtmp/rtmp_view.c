/* What messages say: control messages, commands, the parts of aggregates. */
#include <sluice/rtmp.h>

#include <errno.h>

#include "framers/amf/amf_read.h"
#include "reader/cursor.h"

/* A user control message: an event, and what belongs to it, which is left out of unknown ones. */
static int read_event(sluice_cursor *cursor, sluice_rtmp_control *control) {
    if (!cursor_be16(cursor, &control->event))
        return -EPROTO;
    cursor_be32(cursor, &control->value);
    if (control->event == SLUICE_RTMP_SET_BUFFER)
        cursor_be32(cursor, &control->second);
    return 0;
}

int sluice_rtmp_read_control(const sluice_rtmp_message *message, sluice_rtmp_control *ret_control) {
    sluice_rtmp_control control = {.type = message->type};
    sluice_cursor cursor = cursor_of_slice(&message->payload);
    int error = 0;
    switch (message->type) {
    case SLUICE_RTMP_USER_CONTROL:
        error = read_event(&cursor, &control);
        break;
    case SLUICE_RTMP_SET_CHUNK_SIZE:
    case SLUICE_RTMP_ABORT:
    case SLUICE_RTMP_ACKNOWLEDGEMENT:
    case SLUICE_RTMP_WINDOW_SIZE:
    case SLUICE_RTMP_PEER_BANDWIDTH:
        error = cursor_be32(&cursor, &control.value) ? 0 : -EPROTO;
        break;
    default:
        return -ENOMSG;
    }
    if (message->type == SLUICE_RTMP_SET_CHUNK_SIZE) {
        control.value &= SLUICE_RTMP_MAX_CHUNK;
        error = control.value > 0 ? error : -EPROTO;
    }
    if (message->type == SLUICE_RTMP_PEER_BANDWIDTH)
        cursor_u8(&cursor, &control.limit);
    if (!error)
        *ret_control = control;
    return error;
}

/* The types that may be in AMF 3 begin with a byte of 0, and go on in AMF 0, in which single values
 * are marked as AMF 3. Without the byte they are AMF 0: some clients leave it out. */
static bool begins_with_format(const sluice_rtmp_message *message, sluice_cursor cursor) {
    uint8_t first;
    if (message->type != SLUICE_RTMP_COMMAND3 && message->type != SLUICE_RTMP_DATA3)
        return false;
    return cursor_u8(&cursor, &first) && first == 0;
}

int sluice_rtmp_read_values(const sluice_rtmp_message *message, const sluice_amf_limits *limits,
                            sluice_amf_reader *ret_reader) {
    uint8_t type = message->type;
    if (type != SLUICE_RTMP_COMMAND && type != SLUICE_RTMP_COMMAND3 && type != SLUICE_RTMP_DATA &&
        type != SLUICE_RTMP_DATA3)
        return -ENOMSG;
    sluice_cursor cursor = cursor_of_slice(&message->payload);
    if (begins_with_format(message, cursor))
        cursor_skip(&cursor, 1);
    sluice_slice values = amf_borrow(&cursor, cursor_left(&cursor));
    return sluice_amf_read(ret_reader, &values, SLUICE_AMF0, limits);
}

int sluice_rtmp_read_command(const sluice_rtmp_message *message, const sluice_amf_limits *limits,
                             sluice_rtmp_command *ret_command) {
    sluice_rtmp_command command;
    sluice_amf_value name, transaction;
    if (message->type != SLUICE_RTMP_COMMAND && message->type != SLUICE_RTMP_COMMAND3)
        return -ENOMSG;
    int error = sluice_rtmp_read_values(message, limits, &command.values);
    if (error)
        return error;
    int result = sluice_amf_next(&command.values, &name);
    if (result == 1)
        result = name.type == SLUICE_AMF_STRING ? sluice_amf_next(&command.values, &transaction) : -EPROTO;
    if (result != 1)
        return result < 0 ? result : -EPROTO;
    if (transaction.type != SLUICE_AMF_NUMBER && transaction.type != SLUICE_AMF_INTEGER)
        return -EPROTO;
    command.name = name.text;
    command.transaction = transaction.number;
    *ret_command = command;
    return 0;
}

/* As an FLV tag: type, size, timestamp, its high byte, message stream; behind the payload a size,
 * with a value that is not needed. */
static int read_part(sluice_rtmp_parts *place, sluice_cursor *cursor, const sluice_rtmp_message *message,
                     sluice_rtmp_message *part, sluice_slice *ret_payload) {
    enum { HEADER = 11, STREAM = 3, TRAILER = 4 };
    uint32_t timestamp = 0;
    if (cursor_left(cursor) < HEADER)
        return -EPROTO;
    part->type = cursor_byte(cursor);
    cursor_be24(cursor, &part->size);
    cursor_be24(cursor, &timestamp);
    timestamp |= (uint32_t)cursor_byte(cursor) << 24;
    cursor_skip(cursor, STREAM);
    if (part->type == SLUICE_RTMP_AGGREGATE || cursor_left(cursor) < (size_t)part->size + TRAILER)
        return -EPROTO;
    *ret_payload = amf_borrow(cursor, part->size);
    cursor_skip(cursor, TRAILER);
    if (!place->begun)
        place->first = timestamp;
    place->begun = true;
    part->timestamp = message->timestamp + (timestamp - place->first);
    return 1;
}

int sluice_rtmp_next_part(sluice_rtmp_parts *place, const sluice_rtmp_message *message, sluice_rtmp_message *ret_part) {
    sluice_slice payload;
    if (message->type != SLUICE_RTMP_AGGREGATE)
        return -ENOMSG;
    const sluice_slice *rest = place->begun ? &place->rest : &message->payload;
    sluice_cursor cursor = cursor_of_slice(rest);
    if (cursor_left(&cursor) == 0)
        return 0;
    sluice_rtmp_message part = {.chunk_stream = message->chunk_stream, .stream = message->stream};
    int result = read_part(place, &cursor, message, &part, &payload);
    if (result < 0)
        return result;
    place->rest = amf_borrow(&cursor, cursor_left(&cursor));
    sluice_slice_ref(&payload, &part.payload);
    *ret_part = part;
    return 1;
}
