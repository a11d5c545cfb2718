/*
 * Counts what a receiver receives, and measures what that costs.
 *
 * The measured span begins when all connections are there, each has sent what it opens with, and
 * as many bytes have come as are to come before it. It ends with the last byte of the last one,
 * while all are still open. Setting up and tearing down are not in it.
 */
#ifndef BENCH_RECEIVE_METER_H
#define BENCH_RECEIVE_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/checksum.h"

typedef struct meter {
    uint64_t bytes;     /* received so far, in all; where they are sent back, sent back so far */
    uint64_t next_mark; /* at so many bytes there is something to do */
    uint64_t packets;
    uint64_t checksum;
    bool done;            /* everything has been received: the receiver returns */
    void (*finish)(void); /* what is left to do behind the span; or NULL */
} meter;

extern meter the_meter;

/* What is to come. @param opening bytes of each connection before it begins @param unmeasured bytes
 * of all behind those and ahead of the span @param bytes of all, those included */
void meter_expect(uint32_t connections, uint32_t opening, uint64_t unmeasured, uint64_t bytes);

/* Takes note of the memory in use; call it when the receiver is ready for connections. */
void meter_listening(void);

/* A mark has been reached. */
void meter_reach(void);

/* Prints the figures, as JSON fields without the braces around them. */
void meter_print(void);

/* So many more bytes have been received, and dealt with as far as they go. */
static inline void meter_received(uint64_t bytes) {
    the_meter.bytes += bytes;
    if (the_meter.bytes >= the_meter.next_mark)
        meter_reach();
}

/* A packet is whole. @param first its first bytes @param index its place in its stream, from 0 */
static inline void meter_packet(const uint8_t first[CHECKSUM_BYTES], uint32_t size, uint64_t index) {
    the_meter.packets++;
    the_meter.checksum += packet_checksum(first, size, index);
}

#endif
