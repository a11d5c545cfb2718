/* WebSocket for the baselines: as little as it takes to send short messages back. */
#ifndef BENCH_RECEIVE_ECHO_H
#define BENCH_RECEIVE_ECHO_H

#include <stddef.h>
#include <stdint.h>

enum {
    ECHO_HEADER = 6, /* of a masked frame */
    ECHO_ANSWER = 2, /* of one that is not */
    ECHO_MOST = 125,
    ECHO_FRAME = ECHO_ANSWER + ECHO_MOST,
};

/* Bytes of the payload; ends the process when the frame is no whole message, or not masked, or too
 * long. */
size_t echo_size(const uint8_t header[ECHO_HEADER]);

/* Writes the frame that sends a payload back: masked it comes, unmasked it goes. @return bytes of
 * it */
size_t echo_answer(uint8_t answer[ECHO_FRAME], const uint8_t header[ECHO_HEADER], const uint8_t *payload);

#endif
