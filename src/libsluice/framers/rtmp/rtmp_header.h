/* Headers of chunks. */
#ifndef SLUICE_FRAMERS_RTMP_HEADER_H
#define SLUICE_FRAMERS_RTMP_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/chain.h>

enum {
    RTMP_EXTENDED = 0xFFFFFF, /* a timestamp that says that four bytes more follow */
    RTMP_EXTENDED_SIZE = 4,
    RTMP_CONTROL_STREAM = 2, /* the chunk stream of control messages; those below are not ids */
};

/* What the headers of a chunk stream have said, from which later ones leave things out. */
struct rtmp_previous {
    uint32_t id;
    uint8_t type;
    bool is_extended; /* the last timestamp or delta had four bytes more */
    uint32_t size;
    uint32_t stream;
    uint32_t timestamp; /* of the message */
    uint32_t field;     /* timestamp or delta, as the last header had it */
    uint32_t step;      /* from this message to the next one, if that has a header of type 3 */
};

/* A header that has been read. */
struct rtmp_header {
    uint32_t length; /* bytes; while it is not there, how many have to be */
    struct rtmp_previous next;
};

/* The chunk stream. 0, or how many bytes there must be. */
size_t rtmp_read_id(const sluice_chain *chain, uint32_t *ret_id);

/*
 * Reads the header at the chain's front. @previous: of its chunk stream, NULL for a new one; @left:
 * bytes of the message under way, 0 for none.
 * 1, 0 (more bytes are needed), -EPROTO
 */
int rtmp_read_header(const sluice_chain *chain, const struct rtmp_previous *previous, uint32_t left,
                     struct rtmp_header *ret_header);

#endif
