/* What a WebSocket player reads and says: messages of whole tags, and control frames between
 * them. */
#ifndef SLUICE_TESTS_SIM_MESSAGES_H
#define SLUICE_TESTS_SIM_MESSAGES_H

#include "sim/kernel.h"
#include "sim/viewer.h"

enum { MESSAGES_HEAD = 10, MESSAGES_CONTROL = 125, MESSAGES_OUT = 8192 };

struct messages {
    struct viewer *viewer;
    uint8_t head[MESSAGES_HEAD]; /* of the frame that is read */
    size_t head_length;
    uint64_t left; /* bytes of it */
    bool is_reading;
    uint8_t control[MESSAGES_CONTROL];
    size_t control_length;
    bool is_closed; /* by the server: nothing may follow */

    uint8_t out[MESSAGES_OUT];
    size_t out_length, out_sent;
    bool has_left;             /* has said so, or something that nobody may say */
    uint32_t pings, last_pong; /* sent; the number of the last that was answered */
};

/* Reads what the server has sent. */
void messages_take(struct messages *messages, const uint8_t *bytes, size_t n);

/* Says something, or nothing; sends what has been said. Nothing that ends it while the world is
 * calm. */
void messages_say(struct messages *messages, struct file *file);

/* The last ping has been answered. */
bool messages_is_answered(const struct messages *messages);

#endif
