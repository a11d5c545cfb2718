/* RTSP as a client speaks it: requests, one at a time, and answers with packets between them. */
#ifndef SLUICE_TESTS_SIM_DIALOG_H
#define SLUICE_TESTS_SIM_DIALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIALOG_OUT = 2048, DIALOG_SESSION = 64, DIALOG_INTERLEAVED = 4 };

struct dialog_events {
    void (*granted)(void *user, const char *reply);
    void (*refused)(void *user, unsigned status);
    void (*packet)(void *user, unsigned channel, const uint8_t *bytes, size_t n);
};

struct dialog {
    const char *who;
    uint8_t stream; /* that it is about */
    const struct dialog_events *events;
    void *user;
    uint32_t asked, answered;
    char session[DIALOG_SESSION];
    uint8_t *in; /* not read yet */
    size_t in_length, in_room;
    char out[DIALOG_OUT]; /* the requests to be sent */
    size_t out_length;
    bool is_over; /* nothing more is read */
};

/* Asks; @behind the stream's URL, with whole header lines; a body is SDP. */
void dialog_ask(struct dialog *dialog, const char *method, const char *behind, const char *headers, const char *body);

/* Reads what the server has sent: each answer is to the request that is due, or fails. */
void dialog_take(struct dialog *dialog, const uint8_t *bytes, size_t n);

/* Each request has been answered. */
bool dialog_is_answered(const struct dialog *dialog);
void dialog_clear(struct dialog *dialog);

#endif
