/*
 * A stream that every call of a reader reads a part of, one after the other; to be read by way of
 * every source, and to be cut at every place.
 */
#ifndef SLUICE_TESTS_SUPPORT_READER_CALLS_H
#define SLUICE_TESTS_SUPPORT_READER_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/headers.h>
#include <sluice/reader.h>

/* A reader on its way through the stream. */
typedef struct reading {
    sluice_reader *reader;
    sluice_headers *headers;
    size_t part; /* of a call that is streaming: what has been read of it */
    bool owes;   /* a skip has been called, and owes bytes */
    uint8_t seen[64];
} reading;

/* A call: fails the test where what it returns or leaves behind is not as it must be. */
typedef struct reader_call {
    const char *name;
    int (*read)(reading *r, const struct reader_call *call);
    const char *bytes;
    size_t length;
    bool streaming; /* consumes what is there, also when it fails */
} reader_call;

enum { READER_CALLS = 16, READER_STREAM = 99 };

extern const reader_call reader_calls[READER_CALLS];

/* The stream. */
extern uint8_t reader_stream[READER_STREAM];

/* For cmocka's group: makes the stream. */
int reader_stream_make(void **state);

void reading_open(reading *r, sluice_reader *reader);
void reading_close(reading *r);

/* For ranges: sees a view. */
bool reading_see(const uint8_t *view, size_t length, void *user);

/* Makes the calls from the @from-th on until one fails: which one, with its place in the stream,
 * and why. */
int reading_go_on(reading *r, int from, size_t *place, int *ret_error);

/* The call that needs the byte at @place, and where it begins. */
int reader_call_at(size_t place, size_t *ret_begin);

#endif
