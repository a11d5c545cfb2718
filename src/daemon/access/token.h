/*
 * Tokens that expire: the right to publish or play one stream, signed with a key shared by the
 * daemon and the issuer of tokens. They are checked at the start only: a player continues after its
 * token expires.
 *
 *     TOKEN = "v1." EXPIRY "." MAC
 *     EXPIRY: seconds since 1970, decimal
 *     MAC:    HMAC-SHA256, keyed with the key's text, of "v1\n" ACTION "\n" STREAM "\n" EXPIRY, as
 *             64 lower-case hexadecimal digits; ACTION is "publish" or "play", STREAM the stream's
 *             name, such as live/cam
 */
#ifndef SLUICED_TOKEN_H
#define SLUICED_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TOKEN_TEXT = 96 };

/* 0, -EMSGSIZE, -EIO (the crypto library refuses) */
int token_sign(const char *key, const char *action, const char *stream, uint64_t expiry, char ret_token[TOKEN_TEXT]);

/*
 * Whether a token is signed with that key for that action and stream, and has not expired. The time
 * does not depend on the MAC.
 */
bool token_is_valid(const char *token, const char *key, const char *action, const char *stream, uint64_t now);

#endif
