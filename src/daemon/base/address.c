#include "daemon/base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "daemon/base/cidr.h"

static int parse_port(const char *text, in_port_t *ret_port) {
    char *end;
    if (*text < '0' || *text > '9')
        return -EINVAL;
    unsigned long port = strtoul(text, &end, 10);
    if (*end || port > 65535)
        return -EINVAL;
    *ret_port = htons((uint16_t)port);
    return 0;
}

int address_parse(const char *text, size_t length, struct sockaddr_storage *ret_address) {
    struct sockaddr_storage address = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address;
    char copy[ADDRESS_TEXT];
    if (length >= sizeof copy)
        return -EINVAL;
    memcpy(copy, text, length);
    copy[length] = '\0';

    char *colon = strrchr(copy, ':');
    if (!colon)
        return -EINVAL;
    *colon = '\0';
    char *end = colon - 1;
    if (copy[0] == '[' && end > copy && *end == ']') {
        *end = '\0';
        v6->sin6_family = AF_INET6;
        if (inet_pton(AF_INET6, copy + 1, &v6->sin6_addr) != 1 || parse_port(colon + 1, &v6->sin6_port) < 0)
            return -EINVAL;
    } else {
        v4->sin_family = AF_INET;
        if (inet_pton(AF_INET, copy, &v4->sin_addr) != 1 || parse_port(colon + 1, &v4->sin_port) < 0)
            return -EINVAL;
    }
    *ret_address = address;
    return 0;
}

int address_parse_host(const char *text, size_t length, struct sockaddr_storage *ret_address) {
    char with_port[ADDRESS_TEXT];
    if (length + sizeof ":80" > sizeof with_port)
        return -EINVAL;
    int size = snprintf(with_port, sizeof with_port, "%.*s:80", (int)length, text);
    return address_parse(with_port, (size_t)size, ret_address);
}

bool address_is_localhost(const char *text, size_t length) {
    static const char name[] = "localhost";
    const size_t size = sizeof name - 1;
    return length >= size && strncasecmp(text, name, size) == 0 && (length == size || text[size] == ':');
}

void address_format(const struct sockaddr_storage *address, char text[ADDRESS_TEXT]) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    char host[INET6_ADDRSTRLEN] = "";
    if (address->ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(text, ADDRESS_TEXT, "[%s]:%u", host, ntohs(v6->sin6_port));
    } else if (address->ss_family == AF_INET) {
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(text, ADDRESS_TEXT, "%s:%u", host, ntohs(v4->sin_port));
    } else {
        snprintf(text, ADDRESS_TEXT, "unknown");
    }
}

void address_format_host(const struct sockaddr_storage *address, char text[ADDRESS_TEXT]) {
    const void *host = address->ss_family == AF_INET6 ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                                                      : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
    if (!inet_ntop(address->ss_family, host, text, ADDRESS_TEXT))
        snprintf(text, ADDRESS_TEXT, "0.0.0.0");
}

socklen_t address_length(const struct sockaddr_storage *address) {
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

bool address_is_any(const struct sockaddr_storage *address) {
    if (address->ss_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return ((const struct sockaddr_in *)address)->sin_addr.s_addr == htonl(INADDR_ANY);
}

bool address_is_loopback(const struct sockaddr_storage *address) {
    if (address->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
}

uint16_t address_port(const struct sockaddr_storage *address) {
    if (address->ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
    return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

void address_host(const char *text, char ret_host[ADDRESS_TEXT]) {
    struct sockaddr_storage address;
    char network[INET6_ADDRSTRLEN];
    const char *colon = strrchr(text, ':');
    snprintf(ret_host, ADDRESS_TEXT, "%.*s", (int)(colon ? (size_t)(colon - text) : strlen(text)), text);
    if (*text != '[' || address_parse(text, strlen(text), &address) < 0)
        return;
    const struct cidr_address whole = cidr_address(&address), host = cidr_host(&whole);
    if (cidr_is_v4(&host) && inet_ntop(AF_INET, host.bytes + 12, network, sizeof network))
        snprintf(ret_host, ADDRESS_TEXT, "%s", network);
    else if (inet_ntop(AF_INET6, host.bytes, network, sizeof network))
        snprintf(ret_host, ADDRESS_TEXT, "[%s]", network);
}

bool address_is_same_host(const char *text, const char *other) {
    char host[ADDRESS_TEXT], other_host[ADDRESS_TEXT];
    address_host(text, host);
    address_host(other, other_host);
    return strcmp(host, other_host) == 0;
}
