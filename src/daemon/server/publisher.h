/*
 * The publishing side of a connection: reserves a stream name and passes the tags of a source to
 * the stream. The source is FLV in a chain (flv_source.h), or tags made by a session. No sockets,
 * and no framing of tags.
 */
#ifndef SLUICED_PUBLISHER_H
#define SLUICED_PUBLISHER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/relay/registry.h"

struct publisher;

/* Of any session that publishes; publisher_new() enters them in its source. */
extern const struct publish_calls publisher_calls;

/* What has become of a claim: 0, or the error with which the session is to end the publisher. */
typedef void publisher_claimed_fn(struct session *session, int error);

/*
 * @stream: the reference goes to the publisher on success. @claimed: where it had to wait for the
 * stream's name 0, -ENOMEM
 */
int publisher_new(struct stream *stream, const struct stream_source *source, publisher_claimed_fn *claimed,
                  struct publisher **ret_publisher);

/*
 * Takes the stream: in the cluster first, then on this node. 0; 1: it waits for the name, and
 * @claimed will be called; as of publish_lock_acquire(); or of publish_claim_new() and its call. A
 * publisher that the cluster supersedes is kicked (-EREMOTE).
 */
int publisher_attach(struct publisher *publisher);

/* Whether the stream is its own. */
bool publisher_is_attached(const struct publisher *publisher);

/* Whether it waits for the stream's name. It takes no tags meanwhile. */
bool publisher_is_waiting(const struct publisher *publisher);

/*
 * Publishes one tag, by reference. @flags: of the tracks that there are, as an FLV file header has
 * them. 0, -EMSGSIZE (it is larger than the stream's tags may be, and not published), or
 * -ENOBUFS (a decoder's header found no memory: the publisher is to end, and to come again with it)
 */
int publisher_publish(struct publisher *publisher, sluice_flv_tag *tag, uint8_t flags);

/*
 * It is about to end. No session is evicted for the tags that it publishes from now on: what ends
 * it may be another session's call.
 */
void publisher_leave(struct publisher *publisher);

/* A frame is lost for want of memory before it was a tag: see stream_lose(). */
void publisher_lose(struct publisher *publisher);

/*
 * Restarts the wait for the first frame, as at the beginning and when the publisher gets its
 * stream. For a publisher that had to wait for another reason.
 */
void publisher_expect(struct publisher *publisher, uint64_t now);

/* Whether its first frame has not come by the time that its stream has for it. Not while it
 * waits. */
bool publisher_is_late(const struct publisher *publisher, uint64_t now);

/* How long it may send nothing, milliseconds. */
uint64_t publisher_idle_ms(const struct publisher *publisher);

/* Bytes of blocks that the stream has pinned for it. NULL: none */
size_t publisher_held(const struct publisher *publisher);

/*
 * Ends and frees the publisher. @error: 0 for an end by the peer. Logs one line: information after
 * a regular end, a warning otherwise. NULL is allowed. The error; where that was 0 also -ENODATA
 * (there was no tag).
 */
int publisher_end(struct publisher *publisher, int error, uint64_t now);

const char *publisher_stream_name(const struct publisher *publisher);
struct session *publisher_session(const struct publisher *publisher);
const char *publisher_peer(const struct publisher *publisher);

/* What went wrong, in a few words. */
const char *publisher_error_text(int error);

#endif
