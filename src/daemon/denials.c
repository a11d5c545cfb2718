#include "daemon/denials.h"

#include "daemon/log.h"

void denials_tick(struct denials *denials, uint64_t now) {
    if (denials->count == 0 || now - denials->since < DENIALS_MS)
        return;
    if (denials->count > DENIALS_LOGGED)
        LOG(LOG_WARNING, "requests refused, not logged", {"count", log_unsigned(denials->count - DENIALS_LOGGED).text});
    denials->count = 0;
}

void denials_log(struct denials *denials, uint64_t now, const char *protocol, const char *peer, unsigned status) {
    denials_tick(denials, now);
    if (denials->count == 0)
        denials->since = now;
    if (denials->count++ >= DENIALS_LOGGED)
        return;
    LOG(LOG_WARNING, "request refused", {"proto", protocol}, {"peer", peer}, {"status", log_unsigned(status).text},
        {"reason", status == 401 ? "no credentials, or wrong ones" : "no right to do that"});
}
