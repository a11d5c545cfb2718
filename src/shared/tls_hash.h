/* The hash of a certificate, as users write it. */
#ifndef SHARED_TLS_HASH_H
#define SHARED_TLS_HASH_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/tls.h>

/*
 * A SHA-256 in hexadecimal digits, with or without colons between the bytes, as "openssl x509
 * -fingerprint" prints it. False for others; @ret_hash is untouched then.
 */
bool tls_hash_read(const char *text, uint8_t ret_hash[SLUICE_TLS_HASH]);

#endif
