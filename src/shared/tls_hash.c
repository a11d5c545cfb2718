#include "shared/tls_hash.h"

#include <ctype.h>
#include <string.h>

static int digit(char c) {
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

bool tls_hash_read(const char *text, uint8_t ret_hash[SLUICE_TLS_HASH]) {
    uint8_t hash[SLUICE_TLS_HASH];
    for (size_t i = 0; i < SLUICE_TLS_HASH; i++) {
        if (i > 0 && *text == ':')
            text++;
        if (digit(text[0]) < 0 || digit(text[1]) < 0)
            return false;
        hash[i] = (uint8_t)(digit(text[0]) << 4 | digit(text[1]));
        text += 2;
    }
    if (*text)
        return false;
    memcpy(ret_hash, hash, sizeof hash);
    return true;
}
