/* How the tools verify the servers of URLs with TLS: --tls-ca FILE, --tls-pin SHA256. */
#ifndef TOOLS_TRUST_H
#define TOOLS_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/tls.h>

#include "tools/target.h"

struct trust {
    const char *ca; /* a file of trusted certificates; NULL: the system's store */
    /* Hashes of certificates. If there are any, the server must have one of them, and nothing else
     * of its certificate is verified. */
    uint8_t pins[SLUICE_TLS_PINS_MAX][SLUICE_TLS_HASH];
    size_t pin_count;
};

/* False, with a line on standard error, for a text that is no hash, or one too many. */
bool trust_add_pin(struct trust *trust, const char *text);

/*
 * Makes the target's TLS context, where its URL asks for TLS; free it with trust_release(). Copies
 * of the target borrow it. False, with a line on standard error, if a file cannot be used.
 */
bool trust_prepare(const struct trust *trust, struct target *target);

/* A target that was not prepared may be given. */
void trust_release(struct target *target);

#endif
