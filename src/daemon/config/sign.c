#include "daemon/config/sign.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/access/token.h"

static const uint64_t LONGEST_S = 10ull * 365 * 86400;

static bool wrong(struct config_errors *errors, const char *expected) {
    return config_errors_add(errors, "--sign: expected %s", expected);
}

static bool sign(const struct options *options, char *text, FILE *out, struct config_errors *errors) {
    char *action = strsep(&text, ","), *stream = strsep(&text, ","), *seconds = strsep(&text, ","), *end;
    if (!seconds || (strcmp(action, "publish") != 0 && strcmp(action, "play") != 0))
        return wrong(errors, "publish,STREAM,SECONDS or play,STREAM,SECONDS, such as play,live/cam,3600");
    if (!stream_name_is_valid(stream, strlen(stream)))
        return wrong(errors, "a stream's name such as live/cam");
    uint64_t valid_s = *seconds >= '0' && *seconds <= '9' ? strtoull(seconds, &end, 10) : 0;
    if (valid_s == 0 || *end || valid_s > LONGEST_S)
        return wrong(errors, "seconds from 1 to 315360000");
    if (!options->keys)
        return wrong(errors, "a file of keys (token-keys)");
    const struct user *key = text ? users_find(options->keys, text, strlen(text)) : users_first(options->keys);
    if (!key)
        return wrong(errors, "the name of a key of token-keys");
    char token[TOKEN_TEXT];
    if (token_sign(key->password, action, stream, (uint64_t)time(NULL) + valid_s, token) < 0)
        return config_errors_add(errors, "--sign: the crypto library refuses");
    fprintf(out, "%s\n", token);
    return true;
}

bool sign_print(const struct options *options, const char *what, FILE *out, struct config_errors *errors) {
    char *text = strdup(what);
    bool done = text ? sign(options, text, out, errors) : config_errors_add(errors, "out of memory");
    free(text);
    return done;
}
