/*
 * The publishing end of a connection: hands tags to a stream; those of a chain of FLV, or those that the session has
 * made of something else. It knows no sockets; the session that owns it feeds it.
 */
#ifndef SLUICED_PUBLISHER_H
#define SLUICED_PUBLISHER_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/chain.h>

#include "daemon/stream.h"

struct publisher;

/* What has become of a claim: 0, or the error with which the session is to end the publisher. */
typedef void publisher_claimed_fn(struct session *session, int error);

/*
 * @stream: the reference goes to the publisher on success. @claimed: where it had to wait for the stream's name
 * 0, -ENOMEM, -EINVAL
 */
int publisher_new(struct stream *stream, const struct stream_source *source, publisher_claimed_fn *claimed,
                  struct publisher **ret_publisher);

/*
 * Takes the stream: now, or by itself with the first tag. 0; 1: it waits for the name, and @claimed will be called; or
 * as of claim_stream().
 */
int publisher_attach(struct publisher *publisher);

/* Whether the stream is its own. */
bool publisher_is_attached(const struct publisher *publisher);

/* Whether it waits for the stream's name. Nothing is read from the chain meanwhile. */
bool publisher_is_waiting(const struct publisher *publisher);

/*
 * Publishes what is whole in the chain of FLV, unless it waits, as long as the session's budget lasts. 0, or the error
 * that ended it: see publisher_error_text().
 */
int publisher_feed(struct publisher *publisher, struct sluice_chain *chain);

/*
 * Publishes one tag, by reference. @flags: of the tracks that there are, as an FLV file header has them. 0, -EMSGSIZE
 * (it is larger than the stream's tags may be, and not published)
 */
int publisher_publish(struct publisher *publisher, sluice_flv_tag *tag, uint8_t flags);

/* A frame is lost for want of memory before it was a tag: see stream_lose(). */
void publisher_lose(struct publisher *publisher);

/*
 * Its first frame is waited for from now on: as at the beginning, and as by itself when the stream is its own. For who
 * has been kept waiting otherwise.
 */
void publisher_expect(struct publisher *publisher, uint64_t now);

/* Whether its first frame has not come by the time that its stream has for it. Not while it waits. */
bool publisher_is_late(const struct publisher *publisher, uint64_t now);

/* How long it may send nothing, milliseconds. */
uint64_t publisher_idle_ms(const struct publisher *publisher);

/* Bytes that the chain must hold before feeding it again can do anything. */
size_t publisher_need(const struct publisher *publisher);

/*
 * Bytes of blocks that it holds besides the chain: a first tag that waits for the name, and what the stream has pinned.
 * NULL: none
 */
size_t publisher_held(const struct publisher *publisher);

/*
 * Ends and frees the publisher. @error: 0 for an end by the peer; @left: bytes of a tag that was cut short. Logs one
 * line: information after a regular end, a warning otherwise. NULL is allowed.
 * The error; where that was 0 also -EPIPE (a tag was cut short) and -ENODATA (there was none).
 */
int publisher_end(struct publisher *publisher, int error, size_t left, uint64_t now);

const char *publisher_stream_name(const struct publisher *publisher);
struct session *publisher_session(const struct publisher *publisher);
const char *publisher_peer(const struct publisher *publisher);

/* What went wrong, in a few words. */
const char *publisher_error_text(int error);

#endif
