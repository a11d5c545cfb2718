/*
 * Payloads of single tracks: of a tag with several tracks, or without the id for players that do
 * not support tracks. A few bytes of header, and the track's bytes by reference. Its worker's
 * thread only.
 */
#ifndef SLUICED_TRACK_PAYLOAD_H
#define SLUICED_TRACK_PAYLOAD_H

#include <sluice/chain.h>
#include <sluice/flv.h>

#include "daemon/relay/packet.h"

struct track_payloads {
    sluice_chain *headers; /* of which the last byte stays, so that headers share blocks */
    sluice_chain *parts;
};

/* 0, -ENOMEM; then nothing is to be cleared */
int track_payloads_init(struct track_payloads *payloads, sluice_pool *pool);
void track_payloads_clear(struct track_payloads *payloads);

/* Gives back what is left of the last block of headers. */
void track_payloads_rest(struct track_payloads *payloads);

/*
 * The payload of that track by itself; @alone: without its id. Its view is in @ret_view. 0, or
 * -ENOBUFS, -ENOMEM: then nothing is written.
 */
int track_payload_make(struct track_payloads *payloads, sluice_flv_type type, const sluice_flv_track *track, bool alone,
                       sluice_slice *ret_payload, sluice_flv_view *ret_view);

/* Makes that form, unless it is there. Without memory there is none. */
void track_payload_make_alone(struct track_payloads *payloads, struct packet *packet);

#endif
