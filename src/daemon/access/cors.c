#include "daemon/access/cors.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "daemon/base/address.h"

static const char host_characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

static bool is_port(const char *text) {
    size_t length = strlen(text);
    return length > 0 && length <= 5 && strspn(text, "0123456789") == length;
}

/* HOST[:PORT], with brackets round an IPv6 address. */
static bool is_authority(const char *text) {
    size_t length = *text == '[' ? 1 + strspn(text + 1, "0123456789abcdefABCDEF:.") : strspn(text, host_characters);
    if (*text == '[' && (length == 1 || text[length++] != ']'))
        return false;
    return length > 0 && *text != '.' && (text[length] == '\0' || (text[length] == ':' && is_port(text + length + 1)));
}

const char *cors_add(struct cors_origins *origins, const char *text) {
    const char *host = strstr(text, "://");
    bool is_any = strcmp(text, "*") == 0;
    if (host)
        host += strlen("://") + (strncmp(host, "://*.", 5) == 0 ? 2 : 0);
    if (!is_any && (!host || (strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0) ||
                    strlen(text) > CORS_ORIGIN || !is_authority(host)))
        return "*, or an origin such as https://player.example.com, https://*.example.com or http://10.0.0.1:3000";
    if (origins->count == CORS_MOST)
        return "at most 64 origins";
    char *copy = strdup(text);
    if (!copy)
        return "less: memory is short";
    origins->list[origins->count++] = copy;
    return NULL;
}

void cors_clear(struct cors_origins *origins) {
    for (size_t i = 0; i < origins->count; i++)
        free(origins->list[i]);
    origins->count = 0;
}

static bool equals(sluice_http_text text, const char *word, size_t length) {
    return text.length == length && strncasecmp(text.text, word, length) == 0;
}

/* The star stands for one or more labels, which hold nothing that would end a host. */
static bool matches(const char *pattern, sluice_http_text origin) {
    const char *star = strchr(pattern, '*');
    if (!star)
        return equals(origin, pattern, strlen(pattern));
    size_t before = (size_t)(star - pattern), behind = strlen(star + 1);
    if (origin.length <= before + behind)
        return false;
    const sluice_http_text end = {origin.text + origin.length - behind, behind};
    if (strncasecmp(origin.text, pattern, before) != 0 || !equals(end, star + 1, behind))
        return false;
    for (size_t i = before; i < origin.length - behind; i++)
        if (!memchr(host_characters, origin.text[i], sizeof host_characters - 1))
            return false;
    return true;
}

/* Without its port. */
static sluice_http_text host_of(sluice_http_text authority) {
    const char *end = memrchr(authority.text, ':', authority.length);
    bool is_bracketed = authority.length > 0 && authority.text[authority.length - 1] == ']';
    if (end && !is_bracketed)
        authority.length = (size_t)(end - authority.text);
    return authority;
}

/*
 * Host says where the browser believes to be, which may be a name of another site that its owner
 * has resolved to this host's address (DNS rebinding). So only what no name server gives away
 * counts.
 */
static bool is_sure(sluice_http_text host) {
    struct sockaddr_storage address;
    return address_is_localhost(host.text, host.length) || address_parse_host(host.text, host.length, &address) == 0;
}

static bool is_own_host(sluice_http_text origin, sluice_http_text host) {
    size_t scheme = origin.length > 8 && strncasecmp(origin.text, "https://", 8) == 0  ? 8
                    : origin.length > 7 && strncasecmp(origin.text, "http://", 7) == 0 ? 7
                                                                                       : 0;
    if (scheme == 0)
        return false;
    const sluice_http_text its = host_of((sluice_http_text){origin.text + scheme, origin.length - scheme});
    const sluice_http_text ours = host_of(host);
    return equals(its, ours.text, ours.length) && is_sure(its);
}

enum cors_grant cors_judge(const struct cors_origins *origins, sluice_http_text origin, sluice_http_text host) {
    enum cors_grant grant = CORS_OTHER;
    for (size_t i = 0; i < origins->count; i++) {
        if (strcmp(origins->list[i], "*") == 0)
            return CORS_ANY;
        if (origin.length <= CORS_ORIGIN && matches(origins->list[i], origin))
            grant = CORS_NAMED;
    }
    if (origin.length == 0)
        return CORS_UNKNOWN;
    if (grant == CORS_OTHER && origin.length <= CORS_ORIGIN && is_own_host(origin, host))
        grant = CORS_OWN_HOST;
    return grant;
}
