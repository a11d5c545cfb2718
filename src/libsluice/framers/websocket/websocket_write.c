#include <sluice/websocket.h>

#include <errno.h>
#include <string.h>

#include "framers/text/utf8.h"
#include "framers/text/word.h"
#include "framers/websocket/websocket_frame.h"
#include "reader/cursor.h"

/* Only the bytes that are named are written to: others, in the same block, may be read by others
 * meanwhile. */
void sluice_websocket_mask(void *bytes, size_t n, const uint8_t mask[SLUICE_WEBSOCKET_MASK_SIZE], uint64_t offset) {
    uint8_t turned[sizeof(byte_word)];
    for (unsigned i = 0; i < sizeof turned; i++)
        turned[i] = mask[(offset + i) % SLUICE_WEBSOCKET_MASK_SIZE];
    const byte_word word = *(const byte_word *)turned;

    uint8_t *at = bytes;
    for (; n >= sizeof word; n -= sizeof word, at += sizeof word)
        *(byte_word *)at ^= word;
    for (size_t i = 0; i < n; i++)
        at[i] ^= turned[i];
}

bool sluice_websocket_is_close_code(unsigned code) {
    /* 1004 is reserved; 1005, 1006 and 1015 stand for what was not said in a close frame. */
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

int sluice_websocket_write_header(uint8_t buffer[SLUICE_WEBSOCKET_MAX_HEADER], sluice_websocket_opcode opcode,
                                  bool last, uint64_t length, const uint8_t *mask) {
    if (!websocket_is_opcode(opcode) || length > INT64_MAX)
        return -EINVAL;
    if (websocket_is_control(opcode) && (!last || length > SLUICE_WEBSOCKET_MAX_CONTROL))
        return -EINVAL;

    unsigned extended = length > UINT16_MAX ? 8 : length > SLUICE_WEBSOCKET_MAX_CONTROL ? 2 : 0;
    uint8_t code = extended == 8 ? WEBSOCKET_LENGTH_64 : extended == 2 ? WEBSOCKET_LENGTH_16 : (uint8_t)length;
    int size = 0;
    buffer[size++] = (uint8_t)((last ? WEBSOCKET_LAST : 0) | opcode);
    buffer[size++] = (uint8_t)((mask ? WEBSOCKET_MASKED : 0) | code);
    while (extended > 0)
        buffer[size++] = (uint8_t)(length >> (8 * --extended));
    for (int i = 0; mask && i < SLUICE_WEBSOCKET_MASK_SIZE; i++)
        buffer[size++] = mask[i];
    return size;
}

/* A whole control frame. */
static int write_control(uint8_t *buffer, sluice_websocket_opcode opcode, const uint8_t *payload, size_t length,
                         const uint8_t *mask) {
    int size = sluice_websocket_write_header(buffer, opcode, true, length, mask);
    if (size < 0)
        return size;
    for (size_t i = 0; i < length; i++)
        buffer[(size_t)size + i] = payload[i];
    if (mask)
        sluice_websocket_mask(buffer + size, length, mask, 0);
    return size + (int)length;
}

int sluice_websocket_write_ping(uint8_t buffer[SLUICE_WEBSOCKET_CONTROL_SIZE], const void *payload, size_t length,
                                const uint8_t *mask) {
    return write_control(buffer, SLUICE_WEBSOCKET_PING, payload, length, mask);
}

int sluice_websocket_write_pong(uint8_t buffer[SLUICE_WEBSOCKET_CONTROL_SIZE], const sluice_websocket_message *ping,
                                const uint8_t *mask) {
    uint8_t payload[SLUICE_WEBSOCKET_MAX_CONTROL];
    size_t length = sluice_slice_length(&ping->payload);
    if (ping->opcode != SLUICE_WEBSOCKET_PING || length > sizeof payload)
        return -EINVAL;
    sluice_cursor cursor = cursor_of_slice(&ping->payload);
    for (size_t i = 0; i < length; i++)
        payload[i] = cursor_byte(&cursor);
    return write_control(buffer, SLUICE_WEBSOCKET_PONG, payload, length, mask);
}

int sluice_websocket_write_close(uint8_t buffer[SLUICE_WEBSOCKET_CONTROL_SIZE], uint16_t code, const char *reason,
                                 const uint8_t *mask) {
    uint8_t payload[SLUICE_WEBSOCKET_MAX_CONTROL] = {(uint8_t)(code >> 8), (uint8_t)code};
    size_t length = reason ? strnlen(reason, SLUICE_WEBSOCKET_MAX_REASON + 1) : 0;
    if (code == SLUICE_WEBSOCKET_NO_STATUS && length == 0)
        return write_control(buffer, SLUICE_WEBSOCKET_CLOSE, NULL, 0, mask);
    if (!sluice_websocket_is_close_code(code) || length > SLUICE_WEBSOCKET_MAX_REASON)
        return -EINVAL;
    utf8_state text = {0};
    for (size_t i = 0; i < length; i++)
        payload[WEBSOCKET_CODE_SIZE + i] = (uint8_t)reason[i];
    if (!utf8_check(&text, payload + WEBSOCKET_CODE_SIZE, length) || !utf8_is_complete(&text))
        return -EINVAL;
    return write_control(buffer, SLUICE_WEBSOCKET_CLOSE, payload, WEBSOCKET_CODE_SIZE + length, mask);
}
