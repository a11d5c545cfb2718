/* WebSocket: messages or their pieces, at both ends, and the answers to control frames. */
#include <string.h>

#include <sluice/websocket.h>

#include "fuzz/fuzz.h"

static const uint8_t mask[SLUICE_WEBSOCKET_MASK_SIZE] = {1, 0x80, 0x7F, 0xFF};

typedef struct end {
    sluice_websocket *websocket;
    bool pieces;
    bool open; /* a message, of which there were pieces */
} end;

/* What is written to answer a control frame is a frame itself, for the other end. */
static void show_answer(fuzz_run *run, const sluice_websocket_message *message) {
    uint8_t buffer[SLUICE_WEBSOCKET_CONTROL_SIZE];
    int size = sluice_websocket_write_pong(buffer, message, run->settings[1] & 1 ? mask : NULL);
    FUZZ_CHECK((size > 0) == (message->opcode == SLUICE_WEBSOCKET_PING));
    fuzz_show(run, "pong", size);
    if (size > 0)
        fuzz_show_bytes(run, "pong", buffer, (size_t)size);
    if (message->opcode != SLUICE_WEBSOCKET_CLOSE)
        return;
    FUZZ_CHECK(message->close_code == SLUICE_WEBSOCKET_NO_STATUS ||
               sluice_websocket_is_close_code(message->close_code));
    char reason[SLUICE_WEBSOCKET_MAX_REASON + 1] = {0};
    size_t length = sluice_slice_copy(&message->payload, 0, reason, sizeof reason - 1);
    FUZZ_CHECK(length == sluice_slice_length(&message->payload));
    bool coded = message->close_code != SLUICE_WEBSOCKET_NO_STATUS;
    FUZZ_CHECK(coded || length == 0);
    FUZZ_CHECK(sluice_websocket_write_close(buffer, message->close_code, coded ? reason : NULL, NULL) >= 2);
}

static int next(void *state, sluice_chain *chain, fuzz_run *run) {
    end *e = state;
    sluice_websocket_message *message;
    int result = sluice_websocket_next(e->websocket, chain, &message);
    if (result < 0) {
        /* How much of the message was delivered before it turned out to be broken is a matter of
         * the cuts. */
        e->open = false;
        fuzz_show(run, "close code", sluice_websocket_close_code(e->websocket));
    }
    if (result != 1)
        return result;
    if (e->pieces && message->opcode < SLUICE_WEBSOCKET_CLOSE) {
        FUZZ_CHECK(message->first != e->open);
        e->open = !message->last;
        fuzz_gather(run, &message->payload);
        if (message->last) {
            fuzz_show(run, "message", message->opcode);
            fuzz_show_gathered(run, "payload");
        }
    } else {
        FUZZ_CHECK(message->first && message->last);
        fuzz_show(run, "message", message->opcode);
        fuzz_show(run, "code", message->close_code);
        fuzz_show_slice(run, "payload", &message->payload);
        show_answer(run, message);
    }
    fuzz_keep(run, &message->payload);
    return 1;
}

static size_t need(const void *state) {
    return sluice_websocket_need(((const end *)state)->websocket);
}

void fuzz_target(fuzz_run *run) {
    static const uint64_t limits[] = {0, 0, 10, 300};
    uint8_t how = run->settings[0];
    end e = {.pieces = how & 2};
    const sluice_websocket_options options = {.size = sizeof options,
                                              .max_frame = limits[how >> 2 & 3],
                                              .max_message = limits[how >> 4 & 3],
                                              .pieces = e.pieces};
    FUZZ_CHECK(
        sluice_websocket_new(how & 1 ? SLUICE_WEBSOCKET_CLIENT : SLUICE_WEBSOCKET_SERVER, &options, &e.websocket) == 0);
    fuzz_drive(run, &(fuzz_framer){next, need}, &e);
    if (e.open)
        fuzz_show_gathered(run, "begun");
    sluice_websocket_free(e.websocket);
}
