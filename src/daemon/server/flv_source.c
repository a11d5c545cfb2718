#include "daemon/server/flv_source.h"

#include <errno.h>

#include "daemon/server/session.h"

int flv_source_begin(struct flv_source *source, struct stream *stream, const struct stream_source *from,
                     publisher_claimed_fn *claimed) {
    struct flv_source made = {0};
    int error = sluice_flv_new((uint32_t)stream->policy.frame_limit, &made.flv);
    if (!error)
        error = publisher_new(stream, from, claimed, &made.publisher);
    if (error) {
        sluice_flv_free(made.flv);
        return error;
    }
    *source = made;
    return 0;
}

/* A tag that has to wait for the stream stays with the framer, which is not called before it has
 * been published. */
int flv_source_feed(struct flv_source *source, sluice_chain *chain) {
    struct publisher *publisher = source->publisher;
    const struct budget *budget = &publisher_session(publisher)->budget;
    sluice_flv_tag *tag = source->first;
    int result = 1;
    if (publisher_is_waiting(publisher) || budget_is_spent(budget))
        return 0;
    source->first = NULL;
    while (tag || (result = sluice_flv_next(source->flv, chain, &tag)) > 0) {
        int error = publisher_is_attached(publisher) ? 0 : publisher_attach(publisher);
        if (error > 0)
            source->first = tag;
        if (!error)
            error = publisher_publish(publisher, tag, sluice_flv_flags(source->flv));
        if (error)
            return error > 0 ? 0 : error;
        tag = NULL;
        if (budget_is_spent(budget))
            return 0;
    }
    return result;
}

size_t flv_source_need(const struct flv_source *source) {
    return sluice_flv_need(source->flv);
}

size_t flv_source_held(const struct flv_source *source) {
    size_t first = source->first ? sluice_slice_length(&source->first->payload) : 0;
    return first + publisher_held(source->publisher);
}

int flv_source_end(struct flv_source *source, int error, size_t left, uint64_t now) {
    if (source->publisher)
        error = publisher_end(source->publisher, !error && left > 0 ? -EPIPE : error, now);
    sluice_flv_free(source->flv);
    *source = (struct flv_source){0};
    return error;
}
