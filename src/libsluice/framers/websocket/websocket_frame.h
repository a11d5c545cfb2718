/* Constants of a WebSocket frame's header (RFC 6455, section 5.2), for reading and writing. */
#ifndef SLUICE_FRAMERS_WEBSOCKET_FRAME_H
#define SLUICE_FRAMERS_WEBSOCKET_FRAME_H

#include <stdbool.h>

#include <sluice/websocket.h>

enum {
    WEBSOCKET_LAST = 0x80,     /* first byte: the message ends with this frame */
    WEBSOCKET_RESERVED = 0x70, /* extensions' bits, of which there are none */
    WEBSOCKET_OPCODE = 0x0F,
    WEBSOCKET_MASKED = 0x80, /* second byte */
    WEBSOCKET_LENGTH = 0x7F,
    WEBSOCKET_LENGTH_16 = 126, /* instead of a length: it follows in two bytes */
    WEBSOCKET_LENGTH_64 = 127, /* in eight */
    WEBSOCKET_CODE_SIZE = 2,   /* of a close frame's code, bytes */
};

static inline bool websocket_is_control(unsigned opcode) {
    return opcode >= SLUICE_WEBSOCKET_CLOSE;
}

static inline bool websocket_is_opcode(unsigned opcode) {
    return opcode <= SLUICE_WEBSOCKET_BINARY || (opcode >= SLUICE_WEBSOCKET_CLOSE && opcode <= SLUICE_WEBSOCKET_PONG);
}

#endif
