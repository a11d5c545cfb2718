#include "daemon/denials.h"

#include <string.h>

#include "daemon/log.h"

void denials_tick(struct denials *denials, uint64_t now) {
    if (denials->host_count == 0 || now - denials->since < DENIALS_MS)
        return;
    if (denials->not_logged > 0)
        LOG(LOG_WARNING, "requests refused, not logged", {"count", log_unsigned(denials->not_logged).text});
    *denials = (struct denials){.since = 0};
}

/* That of the address, an IPv6 network counting as one. */
static uint32_t *find_count(struct denials *denials, const struct cidr_address *address) {
    const struct cidr_address host = cidr_host(address);
    uint32_t at = 0;
    while (at < denials->host_count && memcmp(&denials->hosts[at], &host, sizeof host) != 0)
        at++;
    if (at == denials->host_count && at < DENIALS_HOSTS)
        denials->hosts[denials->host_count++] = host;
    return &denials->counts[at];
}

void denials_log_reason(struct denials *denials, uint64_t now, const char *protocol, const char *peer,
                        const struct cidr_address *address, unsigned status, const char *reason) {
    denials_tick(denials, now);
    if (denials->host_count == 0)
        denials->since = now;
    uint32_t *count = find_count(denials, address);
    if (*count >= DENIALS_LOGGED) {
        denials->not_logged++;
        return;
    }
    ++*count;
    LOG(LOG_WARNING, "request refused", {"proto", protocol}, {"peer", peer}, {"status", log_unsigned(status).text},
        {"reason", reason});
}

void denials_log(struct denials *denials, uint64_t now, const char *protocol, const char *peer,
                 const struct cidr_address *address, unsigned status) {
    denials_log_reason(denials, now, protocol, peer, address, status,
                       status == 401 ? "no credentials, or wrong ones" : "no right to do that");
}
