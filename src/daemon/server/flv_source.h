/*
 * A publisher, and the chain of FLV from which its tags are read. The owning session fills the
 * chain.
 */
#ifndef SLUICED_FLV_SOURCE_H
#define SLUICED_FLV_SOURCE_H

#include <sluice/chain.h>
#include <sluice/flv.h>

#include "daemon/server/publisher.h"

/* All zero: there is none. */
struct flv_source {
    struct publisher *publisher; /* or NULL */
    sluice_flv *flv;
    sluice_flv_tag *first; /* the framer's, that waits for the stream's name; or NULL */
};

/* As publisher_new(). 0, -ENOMEM, -EINVAL */
int flv_source_begin(struct flv_source *source, struct stream *stream, const struct stream_source *from,
                     publisher_claimed_fn *claimed);

/*
 * Publishes what is whole in the chain, as long as the session's budget lasts; with the first tag
 * it takes the stream. While it waits for the name, nothing is read. 0, or the error that ends it:
 * see publisher_error_text().
 */
int flv_source_feed(struct flv_source *source, sluice_chain *chain);

/* Bytes that the chain must hold before feeding it again can do anything. */
size_t flv_source_need(const struct flv_source *source);

/* Bytes of blocks held besides the chain: a first tag that waits for the name, and what the stream
 * has pinned. */
size_t flv_source_held(const struct flv_source *source);

/*
 * Ends it, as publisher_end(). @left: bytes of a tag that was cut short, which is -EPIPE where
 * @error is 0. Without a publisher nothing happens.
 */
int flv_source_end(struct flv_source *source, int error, size_t left, uint64_t now);

#endif
