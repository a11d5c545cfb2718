#include "daemon/cluster/cluster_sign.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "daemon/cluster/cluster_event.h"
#include "shared/text.h"

enum {
    MAC = 32,
    HEX = CLUSTER_SIGNATURE,
    SIGNED = 2048, /* bytes: method, path and value; of paths a stream's name is the longest */
};

_Static_assert(HEX == 2 * MAC, "two digits for each byte");

static const char signature_key[] = "; signature=";

bool cluster_via_has(const char *via, const char *node) {
    sluice_http_text rest = text_of(via);
    while (rest.length > 0)
        if (text_is(text_split(&rest, ','), node))
            return true;
    return false;
}

static size_t count_nodes(const char *via) {
    size_t count = *via != '\0';
    for (const char *comma = via; (comma = strchr(comma, ',')); comma++)
        count++;
    return count;
}

int cluster_via_add(char via[CLUSTER_VIA], const char *node) {
    const size_t length = strlen(via), size = strlen(node), comma = length > 0;
    if (cluster_via_has(via, node))
        return 0;
    if (count_nodes(via) >= CLUSTER_VIA_MOST || length + comma + size >= CLUSTER_VIA)
        return -ENOSPC;
    if (comma)
        via[length] = ',';
    memcpy(via + length + comma, node, size + 1);
    return 0;
}

/* @value: all before the signature. 0, -EMSGSIZE, -EIO */
static int make_mac(const struct cluster_signing *signing, sluice_http_text value, uint8_t mac[EVP_MAX_MD_SIZE]) {
    char text[SIGNED];
    unsigned size = 0;
    const int length = snprintf(text, sizeof text, "%.*s\n%.*s\n%.*s", (int)signing->method.length,
                                signing->method.text, (int)signing->path.length, signing->path.text, (int)value.length,
                                value.text);
    if (length < 0 || (size_t)length >= sizeof text)
        return -EMSGSIZE;
    const bool is_made = HMAC(EVP_sha256(), signing->secret, (int)signing->secret_size, (const uint8_t *)text,
                              (size_t)length, mac, &size);
    return is_made && size == MAC ? 0 : -EIO;
}

static int write_mac(const struct cluster_signing *signing, sluice_http_text value, char text[HEX + 1]) {
    uint8_t mac[EVP_MAX_MD_SIZE];
    if (make_mac(signing, value, mac) < 0)
        return -EIO;
    for (size_t i = 0; i < MAC; i++)
        snprintf(text + 2 * i, 3, "%02x", mac[i]);
    return 0;
}

int cluster_sign_write(const struct cluster_fetch *fetch, const struct cluster_signing *signing,
                       char ret_value[CLUSTER_FIELD]) {
    char value[CLUSTER_FIELD], digits[HEX + 1];
    int length = snprintf(value, sizeof value,
                          "from=%s; to=%s; epoch=%" PRIu64 "; expires=%" PRIu64 "; via=%s; mode=%s", fetch->from,
                          fetch->to, fetch->epoch, fetch->expires_ms, fetch->via,
                          fetch->mode == CLUSTER_FROM_PARENT ? "parent" : "origin");
    if (length < 0 || (size_t)length + sizeof signature_key + HEX > sizeof value)
        return -EIO;
    if (signing->secret_size > 0) {
        if (write_mac(signing, (sluice_http_text){value, (size_t)length}, digits) < 0)
            return -EIO;
        length += snprintf(value + length, sizeof value - (size_t)length, "%s%s", signature_key, digits);
    }
    memcpy(ret_value, value, (size_t)length + 1);
    return 0;
}

/* The parts of a value, as they are written: in this order, once each. */

/* What is behind the key, up to the next "; ". False: another key is there. */
static bool take(sluice_http_text *rest, const char *key, sluice_http_text *ret_part) {
    const size_t length = strlen(key);
    if (rest->length < length || memcmp(rest->text, key, length) != 0)
        return false;
    *rest = (sluice_http_text){rest->text + length, rest->length - length};
    *ret_part = text_split(rest, ';');
    /* Behind the last one is nothing. */
    if (rest->length > 0 && *rest->text == ' ')
        *rest = (sluice_http_text){rest->text + 1, rest->length - 1};
    return true;
}

static bool take_node(sluice_http_text *rest, const char *key, char node[CLUSTER_NODE + 1]) {
    sluice_http_text part;
    if (!take(rest, key, &part) || !cluster_node_name_is_valid(part.text, part.length))
        return false;
    memcpy(node, part.text, part.length);
    node[part.length] = '\0';
    return true;
}

static bool take_number(sluice_http_text *rest, const char *key, uint64_t most, uint64_t *ret_number) {
    sluice_http_text part;
    return take(rest, key, &part) && text_number(part, most, ret_number);
}

static bool take_via(sluice_http_text *rest, char via[CLUSTER_VIA]) {
    sluice_http_text part;
    if (!take(rest, "via=", &part) || part.length >= CLUSTER_VIA)
        return false;
    memcpy(via, part.text, part.length);
    via[part.length] = '\0';
    if (part.length == 0)
        return true;
    if (part.text[part.length - 1] == ',' || count_nodes(via) > CLUSTER_VIA_MOST)
        return false;
    while (part.length > 0) {
        const sluice_http_text node = text_split(&part, ',');
        if (!cluster_node_name_is_valid(node.text, node.length))
            return false;
    }
    return true;
}

static bool take_mode(sluice_http_text *rest, enum cluster_mode *ret_mode) {
    sluice_http_text part;
    if (!take(rest, "mode=", &part) || !(text_is(part, "origin") || text_is(part, "parent")))
        return false;
    *ret_mode = text_is(part, "parent") ? CLUSTER_FROM_PARENT : CLUSTER_FROM_ORIGIN;
    return true;
}

/* The same text again: one with zeros before a number, or without a blank, is none of ours. */
static bool is_canonical(sluice_http_text value, const struct cluster_fetch *fetch) {
    static const struct cluster_signing none;
    char again[CLUSTER_FIELD];
    return cluster_sign_write(fetch, &none, again) == 0 && text_is(value, again);
}

static int read_parts(sluice_http_text value, struct cluster_fetch *fetch) {
    sluice_http_text rest = value;
    const bool is_good = take_node(&rest, "from=", fetch->from) && take_node(&rest, "to=", fetch->to) &&
                         take_number(&rest, "epoch=", CLUSTER_EPOCH_MAX, &fetch->epoch) &&
                         take_number(&rest, "expires=", INT64_MAX, &fetch->expires_ms) && take_via(&rest, fetch->via) &&
                         take_mode(&rest, &fetch->mode) && rest.length == 0 && is_canonical(value, fetch);
    return is_good ? 0 : -EPROTO;
}

/* Cuts the signature off. NULL: there is none */
static const char *cut_signature(sluice_http_text *value) {
    const size_t length = sizeof signature_key - 1 + HEX;
    const char *signature = value->text + value->length - (value->length < length ? value->length : length);
    if (value->length < length || memcmp(signature, signature_key, sizeof signature_key - 1) != 0)
        return NULL;
    value->length -= length;
    return signature + sizeof signature_key - 1;
}

/* The digits are compared, in a time that tells nothing of them. */
static int check_signature(const char *signature, const struct cluster_signing *signing, sluice_http_text value) {
    char expected[HEX + 1];
    if (write_mac(signing, value, expected) < 0)
        return -EKEYREJECTED;
    return CRYPTO_memcmp(signature, expected, HEX) == 0 ? 0 : -EKEYREJECTED;
}

int cluster_sign_read(sluice_http_text value, const struct cluster_signing *signing, uint64_t now_ms,
                      struct cluster_fetch *ret_fetch) {
    struct cluster_fetch fetch = {.epoch = 0};
    const char *signature = cut_signature(&value);
    int error = read_parts(value, &fetch);
    if (error)
        return error;
    if (!signature != (signing->secret_size == 0))
        return -EKEYREJECTED;
    error = signature ? check_signature(signature, signing, value) : 0;
    if (error)
        return error;
    if (now_ms >= fetch.expires_ms)
        return -EKEYEXPIRED;
    if (signature)
        memcpy(fetch.signature, signature, HEX);
    *ret_fetch = fetch;
    return 0;
}

bool cluster_sign_may_be_epoch(uint64_t epoch, uint64_t now_ms) {
    return epoch / 1000 <= now_ms + CLUSTER_SIGN_AHEAD_MS;
}

void cluster_sign_get(const char *value, char ret_signature[CLUSTER_SIGNATURE + 1]) {
    sluice_http_text text = text_of(value);
    const char *signature = cut_signature(&text);
    memcpy(ret_signature, signature ? signature : "", signature ? HEX + 1 : 1);
}

/* Of what no request has as its method. */
static struct cluster_signing of_response(const struct cluster_signing *signing, const char *request) {
    return (struct cluster_signing){text_of("response"), text_of(request), signing->secret, signing->secret_size};
}

int cluster_sign_response(const struct cluster_signing *signing, const char *request, uint64_t epoch,
                          char ret_signature[CLUSTER_SIGNATURE + 1]) {
    const struct cluster_signing response = of_response(signing, request);
    char value[32];
    snprintf(value, sizeof value, "epoch=%" PRIu64, epoch);
    return write_mac(&response, text_of(value), ret_signature);
}

bool cluster_sign_check_response(const struct cluster_signing *signing, const char *request, uint64_t epoch,
                                 sluice_http_text signature) {
    char expected[HEX + 1];
    return signature.length == HEX && cluster_sign_response(signing, request, epoch, expected) == 0 &&
           CRYPTO_memcmp(signature.text, expected, HEX) == 0;
}
