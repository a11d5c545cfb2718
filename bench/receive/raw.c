/* The floor: every byte out of the kernel into one buffer, and nothing done with it. */
#include "receive/meter.h"
#include "receive/ready.h"
#include "receive/receive.h"

static void readable(ready_stream *stream, const receive_options *options) {
    static uint8_t buffer[READY_BYTES];
    (void)options;
    meter_received(ready_read(stream, buffer, sizeof buffer));
}

static void run(const receive_options *options) {
    ready_run(options, &(ready_handler){sizeof(ready_stream), readable});
}

const receive_variant raw_variant = {"raw", "batch", false, run};
