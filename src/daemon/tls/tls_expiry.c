#include "daemon/tls/tls_expiry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/base/log.h"

enum { DAY = 86400 };

int64_t tls_expiry_days(int64_t expires, int64_t now) {
    int64_t seconds = expires - now;
    return seconds / DAY - (seconds % DAY < 0);
}

const char *tls_expiry_state(int64_t expires, int64_t now) {
    return expires <= now ? "expired" : tls_expiry_days(expires, now) <= TLS_EXPIRY_WARNING_DAYS ? "expiring" : "valid";
}

void tls_expiry_format_time(int64_t expires, char text[TLS_EXPIRY_TIME]) {
    const time_t time = (time_t)expires;
    struct tm parts;
    if (!gmtime_r(&time, &parts) || strftime(text, TLS_EXPIRY_TIME, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        text[0] = '\0';
}

void tls_expiry_format_hash(const uint8_t hash[SLUICE_TLS_HASH], char text[TLS_EXPIRY_HASH]) {
    for (size_t i = 0; i < SLUICE_TLS_HASH; i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
}

/* False behind the last one. */
static bool get(const sluice_tls_context *context, size_t index, sluice_tls_certificate_info *ret_info) {
    ret_info->size = sizeof *ret_info;
    return context && sluice_tls_context_get_certificate(context, index, ret_info) == 0;
}

static bool has(const sluice_tls_context *context, const uint8_t hash[SLUICE_TLS_HASH]) {
    sluice_tls_certificate_info info;
    for (size_t i = 0; get(context, i, &info); i++)
        if (memcmp(info.hash, hash, SLUICE_TLS_HASH) == 0)
            return true;
    return false;
}

static void log_certificate(enum log_level level, const char *message, const sluice_tls_certificate_info *info,
                            int64_t now) {
    char days[24], time[TLS_EXPIRY_TIME], hash[TLS_EXPIRY_HASH];
    snprintf(days, sizeof days, "%" PRId64, tls_expiry_days(info->expires, now));
    tls_expiry_format_time(info->expires, time);
    tls_expiry_format_hash(info->hash, hash);
    LOG(level, message, {"name", info->name ? info->name : ""}, {"subject", info->subject}, {"expires", time},
        {"days", days}, {"hash", hash});
}

void tls_expiry_log(const sluice_tls_context *context, const sluice_tls_context *previous) {
    const int64_t now = time(NULL);
    sluice_tls_certificate_info info;
    for (size_t i = 0; get(context, i, &info); i++)
        if (!has(previous, info.hash))
            log_certificate(LOG_INFO, "certificate loaded", &info, now);
    tls_expiry_warn(context);
}

void tls_expiry_warn(const sluice_tls_context *context) {
    const int64_t now = time(NULL);
    sluice_tls_certificate_info info;
    for (size_t i = 0; get(context, i, &info); i++) {
        const char *state = tls_expiry_state(info.expires, now);
        if (strcmp(state, "valid") != 0)
            log_certificate(LOG_WARNING, info.expires <= now ? "certificate expired" : "certificate expires soon",
                            &info, now);
    }
}
