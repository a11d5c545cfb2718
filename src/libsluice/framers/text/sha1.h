/*
 * SHA-1 (FIPS 180-4), for Sec-WebSocket-Accept, which is not a secret and protects nothing. Do not
 * use it for security.
 */
#ifndef SLUICE_FRAMERS_SHA1_H
#define SLUICE_FRAMERS_SHA1_H

#include <stddef.h>
#include <stdint.h>

enum { SHA1_SIZE = 20 };

void sha1(const uint8_t *bytes, size_t n, uint8_t ret_digest[SHA1_SIZE]);

#endif
