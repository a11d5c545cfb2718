#include "daemon/protocols/proxy/proxy_header.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/cidr.h"

static const char v1_begin[] = "PROXY ";
static const uint8_t v2_begin[] = {'\r', '\n', '\r', '\n', 0, '\r', '\n', 'Q', 'U', 'I', 'T', '\n'};

enum {
    V1_BEGIN = sizeof v1_begin - 1,
    V2_HEAD = 16,
    LOCAL = 0,
    PROXY = 1,
    TLV_CRC32C = 0x03,
    TLV_HEAD = 3,
    CRC_BYTES = 4,
    WORDS = 6, /* of version 1: PROXY TCP4 SOURCE DESTINATION PORT PORT */
};

/* By the high four bits of the 14th byte. */
enum family { FAMILY_UNKNOWN, FAMILY_V4, FAMILY_V6, FAMILY_UNIX, FAMILIES };
static const size_t address_sizes[FAMILIES] = {[FAMILY_V4] = 12, [FAMILY_V6] = 36, [FAMILY_UNIX] = 216};

static unsigned be16(const uint8_t *bytes) {
    return (unsigned)bytes[0] << 8 | bytes[1];
}

static uint32_t be32(const uint8_t *bytes) {
    return (uint32_t)be16(bytes) << 16 | be16(bytes + 2);
}

static bool is_v2(const struct proxy_header *header) {
    return header->bytes[0] == v2_begin[0];
}

/* Digits without a leading zero: a port has one way to be written. */
static bool read_port(const char *text, uint16_t *ret_port) {
    unsigned port = 0;
    size_t length = strlen(text);
    if (length == 0 || length > 5 || strspn(text, "0123456789") != length || (length > 1 && *text == '0'))
        return false;
    for (; *text; text++)
        port = port * 10 + (unsigned)(*text - '0');
    *ret_port = (uint16_t)port;
    return port <= UINT16_MAX;
}

static void set_v4(struct sockaddr_storage *to, const uint8_t address[4], uint16_t port) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    memcpy(&v4.sin_addr, address, 4);
    *to = (struct sockaddr_storage){0};
    memcpy(to, &v4, sizeof v4);
}

/* Rules and logs know an IPv4 address as one, however a proxy with one socket for both writes
 * it. */
static void set_v6(struct sockaddr_storage *to, const uint8_t address[16], uint16_t port) {
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct cidr_address same;
    memcpy(same.bytes, address, sizeof same.bytes);
    if (cidr_is_v4(&same)) {
        set_v4(to, address + 12, port);
        return;
    }
    memcpy(&v6.sin6_addr, address, sizeof same.bytes);
    *to = (struct sockaddr_storage){0};
    memcpy(to, &v6, sizeof v6);
}

/* The line without its end, as words between single blanks. False where it has not so many. */
static bool split(char *line, char *words[WORDS]) {
    size_t count = 0;
    for (char *word; (word = strsep(&line, " ")); words[count++] = word)
        if (count == WORDS)
            return false;
    return count == WORDS;
}

/* 1: with an address; 0: of an unknown client, of which nothing is looked at; -EPROTO */
static int read_v1(const struct proxy_header *header, struct sockaddr_storage *ret_client) {
    static const char unknown[] = "PROXY UNKNOWN";
    char line[PROXY_V1_MOST], *words[WORDS];
    uint8_t source[16], destination[16];
    uint16_t port, other;
    const size_t length = header->count - 2;
    memcpy(line, header->bytes, length);
    line[length] = '\0';
    if (strncmp(line, unknown, sizeof unknown - 1) == 0 &&
        (!line[sizeof unknown - 1] || line[sizeof unknown - 1] == ' '))
        return 0;
    if (!split(line, words))
        return -EPROTO;
    bool is_v4 = strcmp(words[1], "TCP4") == 0;
    int family = is_v4 ? AF_INET : AF_INET6;
    if ((!is_v4 && strcmp(words[1], "TCP6") != 0) || inet_pton(family, words[2], source) != 1 ||
        inet_pton(family, words[3], destination) != 1 || !read_port(words[4], &port) || !read_port(words[5], &other))
        return -EPROTO;
    if (is_v4)
        set_v4(ret_client, source, port);
    else
        set_v6(ret_client, source, port);
    return 1;
}

static int add_v1(struct proxy_header *header) {
    struct sockaddr_storage client;
    const size_t at = header->count - 1;
    const uint8_t byte = header->bytes[at];
    if (at < V1_BEGIN)
        return byte == (uint8_t)v1_begin[at] ? 0 : -EPROTO;
    if (header->bytes[at - 1] == '\r')
        return byte == '\n' && read_v1(header, &client) >= 0 ? 1 : -EPROTO;
    bool is_text = byte == '\r' || (byte >= ' ' && byte < 0x7F);
    return is_text && header->count < PROXY_V1_MOST ? 0 : -EPROTO;
}

static uint32_t crc32c(uint32_t crc, const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (unsigned bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return crc;
}

/* Of the whole header, in which the checksum itself counts as zeros. */
static bool is_right(const struct proxy_header *header, size_t at) {
    static const uint8_t zeros[CRC_BYTES];
    uint32_t crc = crc32c(UINT32_MAX, header->bytes, at);
    crc = crc32c(crc, zeros, sizeof zeros);
    crc = crc32c(crc, header->bytes + at + CRC_BYTES, header->count - at - CRC_BYTES);
    return ~crc == be32(header->bytes + at);
}

/* What follows the addresses. Their contents are not looked at, but for the checksum's. */
static bool check_tlvs(const struct proxy_header *header, size_t at) {
    while (at < header->count) {
        if (header->count - at < TLV_HEAD)
            return false;
        const uint8_t type = header->bytes[at];
        const size_t length = be16(header->bytes + at + 1);
        at += TLV_HEAD;
        if (length > header->count - at)
            return false;
        if (type == TLV_CRC32C && (length != CRC_BYTES || !is_right(header, at)))
            return false;
        at += length;
    }
    return true;
}

static unsigned command_of(const struct proxy_header *header) {
    return header->bytes[12] & 0x0F;
}

static unsigned family_of(const struct proxy_header *header) {
    return header->bytes[13] >> 4;
}

static int check_v2_head(const struct proxy_header *header) {
    const unsigned family = family_of(header), transport = header->bytes[13] & 0x0F;
    const size_t length = be16(header->bytes + 14);
    if (header->bytes[12] >> 4 != 2 || command_of(header) > PROXY || length > PROXY_V2_MOST - V2_HEAD)
        return -EPROTO;
    if (family >= FAMILIES || transport > 2)
        return -EPROTO;
    return command_of(header) == PROXY && length < address_sizes[family] ? -EPROTO : 0;
}

static int add_v2(struct proxy_header *header) {
    const size_t at = header->count - 1;
    if (at < sizeof v2_begin)
        return header->bytes[at] == v2_begin[at] ? 0 : -EPROTO;
    if (header->count == V2_HEAD && check_v2_head(header) < 0)
        return -EPROTO;
    if (header->count < V2_HEAD || header->count < V2_HEAD + be16(header->bytes + 14))
        return 0;
    /* What a proxy says of a connection of its own is to be passed over, however it looks. */
    if (command_of(header) == LOCAL)
        return 1;
    return check_tlvs(header, V2_HEAD + address_sizes[family_of(header)]) ? 1 : -EPROTO;
}

int proxy_header_add(struct proxy_header *header, uint8_t byte) {
    header->bytes[header->count++] = byte;
    return is_v2(header) ? add_v2(header) : add_v1(header);
}

bool proxy_header_client(const struct proxy_header *header, struct sockaddr_storage *ret_client) {
    const uint8_t *addresses = header->bytes + V2_HEAD;
    if (!is_v2(header))
        return read_v1(header, ret_client) > 0;
    if (command_of(header) == LOCAL || (header->bytes[13] & 0x0F) != 1)
        return false;
    if (family_of(header) == FAMILY_V4)
        set_v4(ret_client, addresses, (uint16_t)be16(addresses + 8));
    else if (family_of(header) == FAMILY_V6)
        set_v6(ret_client, addresses, (uint16_t)be16(addresses + 32));
    else
        return false;
    return true;
}
