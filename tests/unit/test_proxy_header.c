/* The header of the PROXY protocol: both versions, at every length, and what is none. */
#include "daemon/protocols/proxy/proxy_header.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/access/proxies.h"
#include "daemon/base/address.h"

/* Gives bytes one by one: the last result; @ret_used: how many were taken until there was one. */
static int feed(struct proxy_header *header, const void *bytes, size_t size, size_t *ret_used) {
    int result = 0;
    size_t at = 0;
    *header = (struct proxy_header){0};
    while (at < size && result == 0)
        result = proxy_header_add(header, ((const uint8_t *)bytes)[at++]);
    *ret_used = at;
    return result;
}

/* Takes exactly these bytes, with others behind them, and says that client: NULL for the socket's
 * own address. */
static void expect(const void *bytes, size_t size, const char *client) {
    struct proxy_header header;
    struct sockaddr_storage address;
    char text[ADDRESS_TEXT];
    uint8_t more[PROXY_V2_MOST + 1];
    size_t used;
    memcpy(more, bytes, size);
    more[size] = 'G';
    assert_int_equal(feed(&header, more, size + 1, &used), 1);
    assert_int_equal(used, size);
    assert_int_equal(proxy_header_client(&header, &address), client != NULL);
    if (client) {
        address_format(&address, text);
        assert_string_equal(text, client);
    }
    /* A part of it is never enough. */
    for (size_t part = 0; part < size; part++)
        assert_int_equal(feed(&header, bytes, part, &used), 0);
}

static void refuse(const void *bytes, size_t size) {
    struct proxy_header header;
    size_t used;
    assert_int_equal(feed(&header, bytes, size, &used), -EPROTO);
}

static void version_1(void **state) {
    static const char *const good[][2] = {
        {"PROXY TCP4 10.1.2.3 10.0.0.1 56324 443\r\n", "10.1.2.3:56324"},
        {"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255:65535"},
        {"PROXY TCP4 10.1.2.3 10.0.0.1 0 0\r\n", "10.1.2.3:0"},
        {"PROXY TCP6 2001:db8::1 fd00::1 1 2\r\n", "[2001:db8::1]:1"},
        {"PROXY TCP6 ::ffff:10.1.2.3 ::ffff:10.0.0.1 1 2\r\n", "10.1.2.3:1"},
        {"PROXY UNKNOWN\r\n", NULL},
        {"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", NULL},
    };
    static const char *const bad[] = {
        "GET / HTTP/1.1\r\n",
        "proxy TCP4 10.1.2.3 10.0.0.1 1 2\r\n",
        "PROXY TCP4 10.1.2.3 10.0.0.1 1 2\n",
        "PROXY TCP4 10.1.2.3 10.0.0.1 1 2\rX",
        "PROXY  TCP4 10.1.2.3 10.0.0.1 1 2\r\n",
        "PROXY TCP4 10.1.2.3  10.0.0.1 1 2\r\n",
        "PROXY TCP4 10.1.2.3 10.0.0.1 1 2 \r\n",
        "PROXY TCP4 10.1.2.3 10.0.0.1 1 2 3\r\n",
        "PROXY TCP4 10.1.2.3 10.0.0.1 1\r\n",
        "PROXY TCP4 10.1.2.256 10.0.0.1 1 2\r\n",
        "PROXY TCP4 10.1.2.3 fd00::1 1 2\r\n",
        "PROXY TCP6 10.1.2.3 10.0.0.1 1 2\r\n",
        "PROXY TCP4 10.1.2.3 10.0.0.1 65536 2\r\n",
        "PROXY TCP4 10.1.2.3 10.0.0.1 01 2\r\n",
        "PROXY TCP4 10.1.2.3 10.0.0.1 +1 2\r\n",
        "PROXY TCP4 10.1.2.3 10.0.0.1 1 -2\r\n",
        "PROXY TCP4 10.1.2.3\t10.0.0.1 1 2\r\n",
        "PROXY TCP5 10.1.2.3 10.0.0.1 1 2\r\n",
        "PROXY UDP4 10.1.2.3 10.0.0.1 1 2\r\n",
        "PROXY UNKNOWNX\r\n",
        "PROXY \r\n",
    };
    char line[PROXY_V1_MOST + 2];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        expect(good[i][0], strlen(good[i][0]), good[i][1]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse(bad[i], strlen(bad[i]));
    refuse("PROXY TCP4 10.1.2.3\0", 20);
    /* The longest, and one byte more. */
    memset(line, 'x', sizeof line);
    memcpy(line, "PROXY UNKNOWN ", 14);
    memcpy(line + PROXY_V1_MOST - 2, "\r\n", 2);
    expect(line, PROXY_V1_MOST, NULL);
    memcpy(line + PROXY_V1_MOST - 2, "x\r\n", 3);
    refuse(line, PROXY_V1_MOST + 1);
}

/* The head of version 2, with the length of what follows. */
static size_t head(uint8_t *to, uint8_t command, uint8_t family, size_t length) {
    static const uint8_t begin[] = {'\r', '\n', '\r', '\n', 0, '\r', '\n', 'Q', 'U', 'I', 'T', '\n'};
    memcpy(to, begin, sizeof begin);
    to[12] = command;
    to[13] = family;
    to[14] = (uint8_t)(length >> 8);
    to[15] = (uint8_t)length;
    memset(to + 16, 0, length);
    return 16 + length;
}

static const uint8_t v4[] = {10, 1, 2, 3, 10, 0, 0, 1, 0xDC, 0x04, 0x01, 0xBB};
static const uint8_t v6[36] = {0x20, 0x01, 0x0D, 0xB8, [15] = 1, [16] = 0xFD, [31] = 1, [32] = 0xDC, 0x04, 0x01, 0xBB};

static void version_2(void **state) {
    uint8_t bytes[2 * PROXY_V2_MOST];
    (void)state;
    size_t size = head(bytes, 0x21, 0x11, sizeof v4);
    memcpy(bytes + 16, v4, sizeof v4);
    expect(bytes, size, "10.1.2.3:56324");
    bytes[13] = 0x12; /* UDP over a stream: the socket counts */
    expect(bytes, size, NULL);
    bytes[12] = 0x20; /* LOCAL */
    expect(bytes, size, NULL);
    size = head(bytes, 0x21, 0x21, sizeof v6);
    memcpy(bytes + 16, v6, sizeof v6);
    expect(bytes, size, "[2001:db8::1]:56324");
    memcpy(bytes + 16, (const uint8_t[16]){[10] = 0xFF, 0xFF, 10, 1, 2, 3}, 16);
    expect(bytes, size, "10.1.2.3:56324");
    expect(bytes, head(bytes, 0x20, 0x00, 0), NULL);
    expect(bytes, head(bytes, 0x21, 0x00, 0), NULL);
    expect(bytes, head(bytes, 0x20, 0x11, 3), NULL);
    expect(bytes, head(bytes, 0x21, 0x31, 216), NULL);
    /* The longest, and one byte more. */
    size = head(bytes, 0x20, 0x00, PROXY_V2_MOST - 16);
    expect(bytes, size, NULL);
    refuse(bytes, head(bytes, 0x20, 0x00, PROXY_V2_MOST - 15));
    refuse(bytes, head(bytes, 0x20, 0x00, 1024));
    /* Versions, commands, families, transports that there are not; and addresses that are cut. */
    refuse(bytes, head(bytes, 0x11, 0x11, sizeof v4));
    refuse(bytes, head(bytes, 0x22, 0x11, sizeof v4));
    refuse(bytes, head(bytes, 0x21, 0x41, sizeof v4));
    refuse(bytes, head(bytes, 0x21, 0x13, sizeof v4));
    refuse(bytes, head(bytes, 0x21, 0x11, sizeof v4 - 1));
    refuse(bytes, head(bytes, 0x21, 0x21, sizeof v6 - 1));
    refuse(bytes, head(bytes, 0x21, 0x31, 215));
}

/* TCP4 with these TLVs behind the addresses. */
static size_t with(uint8_t *to, const uint8_t *tlvs, size_t n) {
    size_t size = head(to, 0x21, 0x11, sizeof v4 + n);
    memcpy(to + 16, v4, sizeof v4);
    memcpy(to + 16 + sizeof v4, tlvs, n);
    return size;
}

/* A name, and a checksum that is to be filled in. */
static const uint8_t checked[] = {0x02, 0, 4, 'h', 'o', 's', 't', 0x03, 0, 4, 0, 0, 0, 0};

static uint32_t crc32c(const uint8_t *bytes, size_t n) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++)
        for (unsigned bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (((crc ^ bytes[i] >> bit) & 1) ? 0x82F63B78u : 0);
    return ~crc;
}

static void tlvs(void **state) {
    uint8_t bytes[PROXY_V2_MOST];
    (void)state;
    expect(bytes, with(bytes, (const uint8_t[]){0x02, 0, 1, 'h', 0xEE, 0, 0}, 7), "10.1.2.3:56324");
    refuse(bytes, with(bytes, (const uint8_t[]){0x02}, 1));
    refuse(bytes, with(bytes, (const uint8_t[]){0x02, 0}, 2));
    refuse(bytes, with(bytes, (const uint8_t[]){0x02, 0, 1}, 3));
    refuse(bytes, with(bytes, (const uint8_t[]){0x02, 0xFF, 0xFF, 'x'}, 4));
    refuse(bytes, with(bytes, (const uint8_t[]){0x03, 0, 3, 0, 0, 0}, 6));
    refuse(bytes, with(bytes, (const uint8_t[]){0x03, 0, 4, 0, 0, 0, 0}, 7));
}

static void a_flipped_bit_is_seen_by_the_checksum(void **state) {
    uint8_t bytes[PROXY_V2_MOST];
    struct proxy_header header;
    size_t used, size = with(bytes, checked, sizeof checked);
    (void)state;
    /* The check value of CRC-32C. */
    assert_int_equal(crc32c((const uint8_t *)"123456789", 9), 0xE3069283u);
    const uint32_t crc = crc32c(bytes, size);
    for (size_t i = 0; i < 4; i++)
        bytes[size - 4 + i] = (uint8_t)(crc >> (24 - 8 * i));
    expect(bytes, size, "10.1.2.3:56324");
    for (size_t at = 0; at < size * 8; at++) {
        /* LOCAL is passed over, whatever it says; a type that is no checksum's any more is another
         * TLV. */
        const bool is_local = at / 8 == 12 && at % 8 == 0, is_type = at / 8 == 16 + sizeof v4 + 7;
        bytes[at / 8] ^= (uint8_t)(1u << at % 8);
        if (!is_local && !is_type)
            assert_int_not_equal(feed(&header, bytes, size, &used), 1);
        bytes[at / 8] ^= (uint8_t)(1u << at % 8);
    }
}

/* Whatever comes, it ends within its limit, and what it takes has an address or none. */
static void anything(void **state) {
    struct sockaddr_storage client;
    uint8_t bytes[2 * PROXY_V2_MOST];
    (void)state;
    srand(1);
    for (unsigned round = 0; round < 20000; round++) {
        struct proxy_header header;
        size_t used, n = with(bytes, checked, sizeof checked);
        if (rand() % 2)
            n = (size_t)snprintf((char *)bytes, sizeof bytes, "PROXY TCP%c 10.1.2.3 ::1 1 2\r\n", "46"[rand() % 2]);
        for (size_t i = n; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)rand();
        for (int changes = rand() % 4; changes > 0; changes--)
            bytes[(size_t)rand() % n] = (uint8_t)rand();
        int result = feed(&header, bytes, sizeof bytes, &used);
        assert_int_not_equal(result, 0);
        assert_true(used <= PROXY_V2_MOST);
        if (result > 0)
            (void)proxy_header_client(&header, &client);
    }
}

static void ranges(void **state) {
    struct proxies proxies = {0};
    struct sockaddr_storage address;
    (void)state;
    assert_null(proxies_add(&proxies, "10.0.0.2,192.168.0.0/16,fd00::/64"));
    assert_non_null(proxies_add(&proxies, ""));
    assert_non_null(proxies_add(&proxies, "10.0.0.3,"));
    assert_non_null(proxies_add(&proxies, "10.0.0.3,x"));
    assert_non_null(proxies_add(&proxies, "10.0.0.3/8"));
    assert_non_null(proxies_add(&proxies, "0.0.0.0/0"));
    assert_non_null(proxies_add(&proxies, "::/0"));
    assert_int_equal(proxies.count, 3);
    static const struct {
        const char *address;
        bool is_in;
    } rows[] = {{"10.0.0.2:1", true},  {"10.0.0.3:1", false},       {"192.168.7.7:1", true},
                {"[fd00::7]:1", true}, {"[fd00:0:0:1::]:1", false}, {"[::ffff:10.0.0.2]:1", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(address_parse(rows[i].address, strlen(rows[i].address), &address), 0);
        const struct cidr_address host = cidr_address(&address);
        assert_int_equal(proxies_has(&proxies, &host), rows[i].is_in);
    }
    for (unsigned i = 3; i < PROXIES_MOST; i++)
        assert_null(proxies_add(&proxies, "10.0.0.4"));
    assert_non_null(proxies_add(&proxies, "10.0.0.4"));
}

/* A byte of the signature that is another one is the last that is taken. */
static void the_signature_is_checked_byte_by_byte(void **state) {
    static const uint8_t local[] = "\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    (void)state;
    expect(local, sizeof local - 1, NULL);
    for (size_t i = 0; i < 12; i++) {
        struct proxy_header header;
        uint8_t bytes[sizeof local];
        size_t used;
        memcpy(bytes, local, sizeof local);
        bytes[i] ^= 1;
        assert_int_equal(feed(&header, bytes, sizeof local - 1, &used), -EPROTO);
        assert_int_equal(used, i + 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_1),
        cmocka_unit_test(version_2),
        cmocka_unit_test(tlvs),
        cmocka_unit_test(a_flipped_bit_is_seen_by_the_checksum),
        cmocka_unit_test(anything),
        cmocka_unit_test(ranges),
        cmocka_unit_test(the_signature_is_checked_byte_by_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
