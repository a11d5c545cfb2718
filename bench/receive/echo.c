#include "receive/echo.h"

#include <sluice/websocket.h>

#include <stdlib.h>
#include <string.h>

#include "common/process.h"

enum { LAST = 0x80, MASKED = 0x80 };

size_t echo_size(const uint8_t header[ECHO_HEADER]) {
    unsigned opcode = header[0] & ~LAST, size = header[1] & ~MASKED;
    if (!(header[0] & LAST) || (opcode != SLUICE_WEBSOCKET_TEXT && opcode != SLUICE_WEBSOCKET_BINARY) ||
        !(header[1] & MASKED) || size > ECHO_MOST)
        fail(EXIT_FAILURE, "a frame that begins with %02x %02x", header[0], header[1]);
    return size;
}

size_t echo_answer(uint8_t answer[ECHO_FRAME], const uint8_t header[ECHO_HEADER], const uint8_t *payload) {
    size_t size = echo_size(header);
    answer[0] = header[0];
    answer[1] = (uint8_t)size;
    memcpy(answer + ECHO_ANSWER, payload, size);
    sluice_websocket_mask(answer + ECHO_ANSWER, size, header + 2, 0);
    return ECHO_ANSWER + size;
}
