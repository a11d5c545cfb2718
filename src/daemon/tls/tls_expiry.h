/* When the listeners' certificates expire: the days that are left, and what the log says of it. */
#ifndef SLUICED_TLS_EXPIRY_H
#define SLUICED_TLS_EXPIRY_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/tls.h>

enum {
    TLS_EXPIRY_WARNING_DAYS = 21,
    TLS_EXPIRY_TIME = 32,                      /* "2027-01-31T23:59:59Z" */
    TLS_EXPIRY_HASH = 2 * SLUICE_TLS_HASH + 1, /* in hexadecimal digits */
};

/* Whole days that are left, rounded down: negative for one that has expired. Times in seconds since
 * 1970. */
int64_t tls_expiry_days(int64_t expires, int64_t now);

/* "valid", "expiring" (TLS_EXPIRY_WARNING_DAYS or fewer are left) or "expired" */
const char *tls_expiry_state(int64_t expires, int64_t now);

void tls_expiry_format_time(int64_t expires, char text[TLS_EXPIRY_TIME]);
void tls_expiry_format_hash(const uint8_t hash[SLUICE_TLS_HASH], char text[TLS_EXPIRY_HASH]);

/* Logs each certificate that @previous does not have, and warns as below. Both may be NULL. */
void tls_expiry_log(const sluice_tls_context *context, const sluice_tls_context *previous);

/* Logs a warning for each certificate that has expired or will soon. NULL: there are none. */
void tls_expiry_warn(const sluice_tls_context *context);

#endif
