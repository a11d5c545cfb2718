/*
 * The header of the PROXY protocol, in which a proxy sends the address of the client of a forwarded
 * connection: version 1 (a line of text) and version 2 (binary; a CRC-32C is verified). It is read
 * byte by byte, so nothing after it is consumed. No sockets.
 */
#ifndef SLUICED_PROXY_HEADER_H
#define SLUICED_PROXY_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    PROXY_V1_MOST = 107, /* bytes, with CR LF: as the protocol has it */
    PROXY_V2_MOST = 536, /* bytes: addresses, and room for a proxy's TLVs */
};

struct proxy_header {
    uint8_t bytes[PROXY_V2_MOST]; /* all zero at the beginning, as is the rest */
    size_t count;
};

/*
 * The next byte of the connection. 1: the header is whole; 0: it goes on; -EPROTO: it is none, or
 * malformed, or longer than it may be. Nothing may follow but 0.
 */
int proxy_header_add(struct proxy_header *header, uint8_t byte);

/*
 * Of a whole header: the client's address. False where the connection is the proxy's own (LOCAL,
 * such as a health check), or of a family without IP addresses: then the address of the socket
 * counts. An IPv4-mapped IPv6 address becomes an IPv4 address.
 */
bool proxy_header_client(const struct proxy_header *header, struct sockaddr_storage *ret_client);

#endif
