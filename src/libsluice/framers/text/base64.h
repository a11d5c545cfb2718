/* Base64 of RFC 4648, section 4. */
#ifndef SLUICE_FRAMERS_BASE64_H
#define SLUICE_FRAMERS_BASE64_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Characters that n bytes become. */
#define BASE64_SIZE(n) (((n) + 2) / 3 * 4)

/* Writes BASE64_SIZE(n) characters, no NUL. */
void base64_encode(const uint8_t *bytes, size_t n, char *text);

/*
 * Decodes into at most @length / 4 * 3 + 2 bytes. Missing padding is tolerated, since encoders
 * leave it out. The bytes written, or -EPROTO.
 */
ssize_t base64_decode(const char *text, size_t length, uint8_t *bytes);

#endif
