#include "daemon/cluster/cluster_event.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shared/text.h"

static const char *const verbs[CLUSTER_EVENTS] = {
    [CLUSTER_EVENT_CLAIM] = "claim", [CLUSTER_EVENT_RELEASE] = "release", [CLUSTER_EVENT_LEAVE] = "leave",
    [CLUSTER_EVENT_ASK] = "ask",     [CLUSTER_EVENT_KICK] = "kick",       [CLUSTER_EVENT_BAN] = "ban",
    [CLUSTER_EVENT_UNBAN] = "unban",
};

static bool is_word_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

bool cluster_node_name_is_valid(const char *name, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!is_word_character(name[i]))
            return false;
    return length > 0 && length <= CLUSTER_NODE;
}

/* What is in the brackets: an IPv6 address; the connector reads it precisely. */
static bool is_v6(const char *text, size_t length) {
    size_t colons = 0;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        colons += c == ':';
        if (!((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || (c >= '0' && c <= '9') || c == ':' || c == '.'))
            return false;
    }
    return colons >= 2 && length <= 45;
}

bool cluster_address_is_valid(const char *address, size_t length) {
    const char *colon = memrchr(address, ':', length);
    uint64_t port = 0;
    if (!colon || length > CLUSTER_ADDRESS)
        return false;
    size_t host = (size_t)(colon - address);
    if (!cluster_read_number(colon + 1, length - host - 1, UINT16_MAX, &port) || port == 0)
        return false;
    if (host > 2 && address[0] == '[' && address[host - 1] == ']')
        return is_v6(address + 1, host - 2);
    for (size_t i = 0; i < host; i++)
        if (!is_word_character(address[i]))
            return false;
    return host > 0;
}

bool cluster_read_number(const char *text, size_t length, uint64_t most, uint64_t *ret_number) {
    return text_number((sluice_http_text){text, length}, most, ret_number);
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool cluster_read_incarnation(const char *text, size_t length, uint64_t *ret_incarnation) {
    uint64_t incarnation = 0;
    if (length != CLUSTER_INCARNATION_TEXT)
        return false;
    for (size_t i = 0; i < length; i++) {
        int digit = digit_of(text[i]);
        if (digit < 0)
            return false;
        incarnation = incarnation << 4 | (uint64_t)digit;
    }
    if (incarnation)
        *ret_incarnation = incarnation;
    return incarnation != 0;
}

bool cluster_read_scheme(const char *text, size_t length, bool *ret_is_secure) {
    bool is_secure = length == 5 && memcmp(text, "https", 5) == 0;
    if (!is_secure && (length != 4 || memcmp(text, "http", 4) != 0))
        return false;
    *ret_is_secure = is_secure;
    return true;
}

void cluster_write_host(const struct cidr_address *host, char text[CLUSTER_HOST_TEXT + 1]) {
    for (size_t i = 0; i < sizeof host->bytes; i++)
        sprintf(text + 2 * i, "%02x", host->bytes[i]);
}

bool cluster_read_host(const char *text, size_t length, struct cidr_address *ret_host) {
    struct cidr_address host;
    if (length != CLUSTER_HOST_TEXT)
        return false;
    for (size_t i = 0; i < sizeof host.bytes; i++) {
        int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        host.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *ret_host = host;
    return true;
}

/* @to: of a size that fits each valid text */
static void copy(sluice_http_text text, char *to) {
    memcpy(to, text.text, text.length);
    to[text.length] = '\0';
}

static bool read_stream(sluice_http_text *rest, struct cluster_event *event) {
    sluice_http_text word = text_split(rest, ' ');
    if (!stream_name_is_valid(word.text, word.length) || word.length > STREAM_NAME)
        return false;
    copy(word, event->stream);
    return true;
}

static bool read_node(sluice_http_text *rest, struct cluster_location *location) {
    sluice_http_text word = text_split(rest, ' ');
    if (!cluster_node_name_is_valid(word.text, word.length))
        return false;
    copy(word, location->node);
    return true;
}

static bool read_incarnation(sluice_http_text *rest, struct cluster_location *location) {
    sluice_http_text word = text_split(rest, ' ');
    return cluster_read_incarnation(word.text, word.length, &location->incarnation);
}

static bool read_epoch(sluice_http_text *rest, struct cluster_location *location) {
    sluice_http_text word = text_split(rest, ' ');
    return cluster_read_number(word.text, word.length, CLUSTER_EPOCH_MAX, &location->epoch);
}

static bool read_address(sluice_http_text *rest, struct cluster_location *location) {
    sluice_http_text scheme = text_split(rest, ' '), address = text_split(rest, ' ');
    if (!cluster_read_scheme(scheme.text, scheme.length, &location->is_secure) ||
        !cluster_address_is_valid(address.text, address.length))
        return false;
    copy(address, location->address);
    return true;
}

static bool read_ms(sluice_http_text *rest, struct cluster_event *event) {
    sluice_http_text word = text_split(rest, ' ');
    return cluster_read_number(word.text, word.length, CLUSTER_BAN_MS, &event->ms);
}

static bool read_kick(sluice_http_text *rest, struct cluster_event *event) {
    if (!read_ms(rest, event))
        return false;
    const sluice_http_text word = text_split(rest, ' ');
    event->is_whole = word.length == 6 && memcmp(word.text, "stream", 6) == 0;
    return event->is_whole || (word.length == 9 && memcmp(word.text, "publisher", 9) == 0);
}

static bool read_ban(sluice_http_text *rest, struct cluster_event *event) {
    const sluice_http_text word = text_split(rest, ' ');
    return cluster_read_host(word.text, word.length, &event->host) && read_ms(rest, event) && event->ms > 0;
}

static bool read_rest(sluice_http_text *rest, struct cluster_event *event) {
    struct cluster_location *location = &event->location;
    if (event->verb != CLUSTER_EVENT_LEAVE && !read_stream(rest, event))
        return false;
    if (!read_node(rest, location) || !read_incarnation(rest, location))
        return false;
    switch (event->verb) {
    case CLUSTER_EVENT_CLAIM:
        return read_epoch(rest, location) && read_address(rest, location);
    case CLUSTER_EVENT_RELEASE:
    case CLUSTER_EVENT_ASK:
        return read_epoch(rest, location);
    case CLUSTER_EVENT_LEAVE:
    case CLUSTER_EVENT_UNBAN:
        return true;
    case CLUSTER_EVENT_KICK:
        return read_kick(rest, event);
    case CLUSTER_EVENT_BAN:
        return read_ban(rest, event);
    case CLUSTER_EVENTS:
        break;
    }
    return false;
}

int cluster_event_parse(const char *text, size_t length, struct cluster_event *ret_event) {
    sluice_http_text rest = {text, length};
    struct cluster_event event = {0};
    /* Texts with a NUL are longer than they look to those that read them. */
    if (length == 0 || length >= CLUSTER_EVENT_TEXT || text[length - 1] == ' ' || memchr(text, '\0', length))
        return -EPROTO;
    sluice_http_text verb = text_split(&rest, ' ');
    for (int i = 0; i < CLUSTER_EVENTS; i++) {
        if (strlen(verbs[i]) != verb.length || memcmp(verbs[i], verb.text, verb.length) != 0)
            continue;
        event.verb = (enum cluster_event_verb)i;
        if (!read_rest(&rest, &event) || rest.length > 0)
            return -EPROTO;
        *ret_event = event;
        return 0;
    }
    return -EPROTO;
}

int cluster_event_format(const struct cluster_event *event, char text[CLUSTER_EVENT_TEXT]) {
    const char *stream = event->stream, *node = event->location.node;
    if (event->verb != CLUSTER_EVENT_KICK || !stream_name_is_valid(stream, strlen(stream)) ||
        !cluster_node_name_is_valid(node, strlen(node)) || event->location.incarnation == 0 ||
        event->ms > CLUSTER_BAN_MS)
        return -EINVAL;
    snprintf(text, CLUSTER_EVENT_TEXT, "kick %s %s %016" PRIx64 " %" PRIu64 " %s", stream, node,
             event->location.incarnation, event->ms, event->is_whole ? "stream" : "publisher");
    return 0;
}
