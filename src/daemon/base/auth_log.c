#include "daemon/base/auth_log.h"

#include <string.h>

#include "daemon/base/log.h"

void auth_log_tick(struct auth_log *auth_log, uint64_t now) {
    if (auth_log->host_count == 0 || now - auth_log->since < AUTH_LOG_MS)
        return;
    if (auth_log->not_logged > 0)
        LOG(LOG_WARNING, "refusals not logged", {"count", log_unsigned(auth_log->not_logged).text});
    *auth_log = (struct auth_log){.since = 0};
}

/* That of the address, an IPv6 network counting as one. */
static uint32_t *find_count(struct auth_log *auth_log, const struct cidr_address *address) {
    const struct cidr_address host = cidr_host(address);
    uint32_t at = 0;
    while (at < auth_log->host_count && memcmp(&auth_log->hosts[at], &host, sizeof host) != 0)
        at++;
    if (at == auth_log->host_count && at < AUTH_LOG_HOSTS)
        auth_log->hosts[auth_log->host_count++] = host;
    return &auth_log->counts[at];
}

void auth_log_write(struct auth_log *auth_log, uint64_t now, const char *protocol, const char *peer,
                    const struct cidr_address *address, unsigned status, const char *reason) {
    auth_log_tick(auth_log, now);
    if (auth_log->host_count == 0)
        auth_log->since = now;
    uint32_t *count = find_count(auth_log, address);
    if (*count >= AUTH_LOG_LOGGED) {
        auth_log->not_logged++;
        return;
    }
    ++*count;
    const log_number number = log_unsigned(status);
    const log_field fields[] = {
        {"proto", protocol},
        {"peer", peer},
        {"status", number.text},
        {"reason", reason          ? reason
                   : status == 401 ? "missing or wrong credentials"
                                   : "not authorized"},
    };
    /* --log-rate counts other refused requests, which anybody can cause: they would hide these. */
    log_write_uncounted(LOG_WARNING, "request refused", fields, sizeof fields / sizeof *fields);
}
