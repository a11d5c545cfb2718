/* SHA-1 (FIPS 180-4), for Sec-WebSocket-Accept, which is no secret and protects nothing. Not for
 * anything that is. */
#ifndef SLUICE_FRAMERS_SHA1_H
#define SLUICE_FRAMERS_SHA1_H

#include <stddef.h>
#include <stdint.h>

enum { SHA1_SIZE = 20 };

void sha1(const uint8_t *bytes, size_t n, uint8_t ret_digest[SHA1_SIZE]);

#endif
