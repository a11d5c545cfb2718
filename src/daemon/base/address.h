/* Socket addresses as text: 127.0.0.1:9000, [::1]:9000. */
#ifndef SLUICED_ADDRESS_H
#define SLUICED_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { ADDRESS_TEXT = 64 };

/* A numeric address and port. 0, or -EINVAL. */
int address_parse(const char *text, size_t length, struct sockaddr_storage *ret_address);

/* The same without a port, as HTTP has it of port 80. 0, or -EINVAL. */
int address_parse_host(const char *text, size_t length, struct sockaddr_storage *ret_address);

/* Of HOST or HOST:PORT: whether it is "localhost", which no name server gives to another site. */
bool address_is_localhost(const char *text, size_t length);

/* Without the port, and without brackets. */
void address_format_host(const struct sockaddr_storage *address, char text[ADDRESS_TEXT]);
void address_format(const struct sockaddr_storage *address, char text[ADDRESS_TEXT]);
socklen_t address_length(const struct sockaddr_storage *address);
/* 0.0.0.0 or [::]. */
bool address_is_any(const struct sockaddr_storage *address);
bool address_is_loopback(const struct sockaddr_storage *address);
uint16_t address_port(const struct sockaddr_storage *address);

/*
 * Of a text of address_format(): what counts as one host, as cidr_host() has it: an IPv4 address,
 * or an IPv6 network of 64 bits. And whether two of them are of the same.
 */
void address_host(const char *text, char ret_host[ADDRESS_TEXT]);
bool address_is_same_host(const char *text, const char *other);

#endif
