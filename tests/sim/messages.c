#include "sim/messages.h"

#include <string.h>

#include "sim/pattern.h"
#include "sim/world.h"

enum { FINAL = 0x80, MASKED = 0x80, TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10, RESERVED = 11 };
enum { MASK = 4, SHORT = 125, WORD = 126, LONG = 127, TOO_LONG = 5000 /* for the daemon */ };

/* A ping says which it is. Those that come before one is answered need no answers of their own. */
static void see_pong(struct messages *messages) {
    uint32_t number = 0;
    WORLD_CHECK(messages->control_length >= sizeof number, "%s: a pong that answers nothing", messages->viewer->who);
    memcpy(&number, messages->control, sizeof number);
    size_t n = messages->control_length - sizeof number;
    WORLD_CHECK(number > messages->last_pong && number <= messages->pings &&
                    pattern_check(number, 0, messages->control + sizeof number, n) == n,
                "%s: a pong to ping %u, the last was to %u", messages->viewer->who, number, messages->last_pong);
    messages->last_pong = number;
}

static void see_end(struct messages *messages) {
    messages->is_reading = false;
    messages->head_length = 0;
    switch (messages->head[0] & 15) {
    case BINARY:
        WORLD_CHECK(viewer_left(messages->viewer) == 0, "%s: a message is not a tag", messages->viewer->who);
        break;
    case PONG:
        see_pong(messages);
        break;
    case CLOSE:
        messages->is_closed = true;
        break;
    }
    messages->control_length = 0;
}

static size_t head_size(uint8_t length) {
    return length == LONG ? 10 : length == WORD ? 4 : 2;
}

static void take_head(struct messages *messages, uint8_t byte) {
    const uint8_t *head = messages->head;
    messages->head[messages->head_length++] = byte;
    if (messages->head_length < 2 || messages->head_length < head_size(head[1]))
        return;
    uint8_t opcode = head[0] & 15;
    messages->left = head[1];
    if (head[1] >= WORD)
        messages->left = 0;
    for (size_t i = 2; i < messages->head_length; i++)
        messages->left = messages->left << 8 | head[i];
    WORLD_CHECK(head[0] == (FINAL | opcode) && head[1] <= LONG, "%s: a frame that begins with %02x %02x",
                messages->viewer->who, head[0], head[1]);
    WORLD_CHECK(opcode == BINARY || ((opcode == CLOSE || opcode == PING || opcode == PONG) && messages->left <= SHORT),
                "%s: a frame of %llu bytes with opcode %u", messages->viewer->who, (unsigned long long)messages->left,
                opcode);
    messages->is_reading = true;
    if (messages->left == 0)
        see_end(messages);
}

void messages_take(struct messages *messages, const uint8_t *bytes, size_t n) {
    for (size_t done = 0; done < n;) {
        WORLD_CHECK(!messages->is_closed, "%s: bytes behind the close frame", messages->viewer->who);
        if (!messages->is_reading) {
            take_head(messages, bytes[done++]);
            continue;
        }
        size_t here = n - done < messages->left ? n - done : (size_t)messages->left;
        if ((messages->head[0] & 15) == BINARY) {
            viewer_feed(messages->viewer, bytes + done, here);
        } else {
            memcpy(messages->control + messages->control_length, bytes + done, here);
            messages->control_length += here;
        }
        done += here;
        messages->left -= here;
        if (messages->left == 0)
            see_end(messages);
    }
}

/* A frame of the player's. What is not masked, or not allowed otherwise, is said on purpose. */
static void put(struct messages *messages, uint8_t first, bool is_masked, const uint8_t *bytes, size_t n) {
    uint8_t *out = messages->out + messages->out_length;
    uint8_t mask[MASK] = {0};
    size_t at = 0;
    out[at++] = first;
    out[at++] = (uint8_t)((is_masked ? MASKED : 0) | (n <= SHORT ? n : WORD));
    if (n > SHORT) {
        out[at++] = (uint8_t)(n >> 8);
        out[at++] = (uint8_t)n;
    }
    for (size_t i = 0; is_masked && i < MASK; i++)
        out[at++] = mask[i] = (uint8_t)world_random(256);
    for (size_t i = 0; i < n; i++)
        out[at++] = bytes[i] ^ mask[i % MASK];
    messages->out_length += at;
}

static void put_ping(struct messages *messages) {
    uint8_t bytes[SHORT];
    uint32_t number = ++messages->pings, n = world_between(sizeof number, SHORT);
    memcpy(bytes, &number, sizeof number);
    pattern_write(number, 0, bytes + sizeof number, n - sizeof number);
    put(messages, FINAL | PING, true, bytes, n);
}

/* What ends the connection: a goodbye, or what nobody may say. */
static void leave(struct messages *messages) {
    static const uint8_t bytes[TOO_LONG], normal[] = {0x03, 0xe8};
    messages->has_left = true;
    switch (world_random(4)) {
    case 0:
        put(messages, FINAL | CLOSE, true, normal, sizeof normal);
        break;
    case 1:
        put(messages, FINAL | TEXT, false, bytes, 3);
        break;
    case 2:
        put(messages, FINAL | RESERVED, true, bytes, world_random(SHORT));
        break;
    case 3:
        put(messages, FINAL | BINARY, true, bytes, sizeof bytes);
        break;
    }
}

static void choose(struct messages *messages) {
    static const uint8_t text[] = "what nobody reads, but must be read";
    if (!world_is_calm() && world_one_in(40)) {
        leave(messages);
    } else if (world_one_in(8)) {
        put_ping(messages);
    } else if (world_one_in(8)) {
        /* In two pieces, between which a ping may come. */
        put(messages, TEXT, true, text, world_random(sizeof text));
        if (world_one_in(2))
            put_ping(messages);
        put(messages, FINAL, true, text, world_random(sizeof text));
    } else if (world_one_in(8)) {
        put(messages, FINAL | PONG, true, text, world_random(sizeof text));
    }
}

void messages_say(struct messages *messages, struct file *file) {
    if (messages->out_sent == messages->out_length) {
        messages->out_sent = messages->out_length = 0;
        if (!messages->has_left && !messages->is_closed)
            choose(messages);
    }
    size_t left = messages->out_length - messages->out_sent;
    if (left > 0)
        messages->out_sent += peer_send(file, messages->out + messages->out_sent, world_between(1, (uint32_t)left));
}

bool messages_is_answered(const struct messages *messages) {
    return messages->last_pong == messages->pings;
}
