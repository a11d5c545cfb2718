/* Publishing to a stream of the daemon without a connection: what is fed into a chain, and read
 * from it as FLV. */
#ifndef SLUICE_TESTS_SUPPORT_PUBLISHING_H
#define SLUICE_TESTS_SUPPORT_PUBLISHING_H

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "daemon/relay/stream.h"
#include "support/feed.h"

/* Takes the stream, for video; the chain begins with FLV's header. Both are the caller's to
 * free. */
static inline void publishing_begin(struct stream *stream, sluice_pool *pool, sluice_chain **ret_chain,
                                    sluice_flv **ret_flv) {
    static const struct stream_source source = {.peer = "test", .protocol = "test"};
    uint8_t header[SLUICE_FLV_HEADER_SIZE];
    assert_int_equal(stream_attach(stream, &source), 0);
    assert_int_equal(sluice_chain_new(pool, ret_chain), 0);
    assert_int_equal(sluice_flv_new(0, ret_flv), 0);
    sluice_flv_write_header(header, SLUICE_FLV_HAS_VIDEO);
    feed(*ret_chain, pool, header, sizeof header, 0);
}

#endif
