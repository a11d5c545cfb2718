#include "daemon/admin/admin_guard.h"

#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>

#include "daemon/base/address.h"

/* "HOST", or "HOST:PORT", of an address in numbers. */
static bool read_address(const char *text, struct sockaddr_storage *ret_address) {
    size_t length = strlen(text);
    return address_parse(text, length, ret_address) == 0 || address_parse_host(text, length, ret_address) == 0;
}

/* By a name that only this host can have: no name server can give it to another site. */
static bool names_this_host(const struct admin_guard *guard, const char *host) {
    struct sockaddr_storage address;
    char named[ADDRESS_TEXT], bound[ADDRESS_TEXT];
    if (!host)
        return false;
    if (address_is_localhost(host, strlen(host)))
        return true;
    if (!read_address(host, &address))
        return false;
    if (address_is_loopback(&address))
        return true;
    address_format_host(&address, named);
    address_format_host(&guard->listener->address, bound);
    return strcmp(named, bound) == 0;
}

/* Whether the page that asks is this server's own, as far as its browser says anything of it. */
static bool is_same_site(const struct admin_request *request) {
    const char *site = request->fetch_site;
    if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
        return false;
    if (!request->origin)
        return true;
    const char *authority = strstr(request->origin, "://");
    return authority && request->host && strcasecmp(authority + strlen("://"), request->host) == 0;
}

/* In a time that says nothing of where they differ. */
static bool has_token(const char *authorization, const char *token) {
    static const char scheme[] = "Bearer ";
    const size_t scheme_length = sizeof scheme - 1;
    if (!authorization || strncasecmp(authorization, scheme, scheme_length) != 0)
        return false;
    const char *given = authorization + scheme_length;
    size_t length = strlen(token);
    return strlen(given) == length && CRYPTO_memcmp(given, token, length) == 0;
}

unsigned admin_guard_check(const struct admin_guard *guard, const struct admin_request *request,
                           const char **ret_reason) {
    if (guard->listener->is_unix && !guard->listener->is_open)
        return 0;
    if (request->changes && !is_same_site(request)) {
        *ret_reason = "cross-site request: only pages of this server may change things";
        return 403;
    }
    if (guard->token && !request->is_static) {
        if (has_token(request->authorization, guard->token))
            return 0;
        *ret_reason = "token required: send Authorization: Bearer TOKEN, with the token of --admin-token-file";
        return 401;
    }
    if (!guard->token && !guard->listener->is_unix && !names_this_host(guard, request->host)) {
        *ret_reason = "invalid Host: it must be localhost or an address of this host";
        return 403;
    }
    return 0;
}
