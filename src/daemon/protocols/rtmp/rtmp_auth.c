#include "daemon/protocols/rtmp/rtmp_auth.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <sluice/sdp.h>

#include "shared/clock.h"
#include "shared/rtmp_login.h"
#include "shared/rtmp_peer.h"
#include "shared/text.h"

enum {
    NUMBER = 16,           /* digits of a number */
    SIGNED = 2 * NUMBER,   /* the expiry and a random number */
    MAC = 32,              /* digits of the signature */
    OPAQUE = SIGNED + MAC, /* of what the client sends back */
    KEY = 32,
};

/* Of this process: after an upgrade a client begins anew. */
static struct {
    pthread_once_t once;
    bool made;
    uint8_t bytes[KEY];
} key = {.once = PTHREAD_ONCE_INIT};

static void make_key(void) {
    key.made = getrandom(key.bytes, sizeof key.bytes, 0) == (ssize_t)sizeof key.bytes;
}

/* The host is part of it: what one has seen is of no use to another. */
static bool sign(const char *text, const struct cidr_address *peer, char ret_mac[MAC + 1]) {
    uint8_t digest[SLUICE_RTMP_DIGEST_SIZE];
    struct cidr_address host = cidr_host(peer);
    const struct iovec pieces[] = {{(void *)text, SIGNED}, {host.bytes, sizeof host.bytes}};
    (void)pthread_once(&key.once, make_key);
    return key.made && rtmp_hmac(key.bytes, sizeof key.bytes, pieces, 2, digest, NULL) == 0 &&
           sluice_sdp_encode_hex(digest, MAC / 2, ret_mac, MAC + 1) >= 0;
}

static bool make_opaque(const struct cidr_address *peer, char ret_opaque[OPAQUE + 1]) {
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    snprintf(ret_opaque, OPAQUE + 1, "%016" PRIx64 "%016" PRIx64, clock_ms() + RTMP_AUTH_MS, random);
    return sign(ret_opaque, peer, ret_opaque + SIGNED);
}

static bool is_ours(sluice_http_text opaque, const struct cidr_address *peer) {
    char expiry[NUMBER + 1], mac[MAC + 1];
    if (opaque.length != OPAQUE || !sign(opaque.text, peer, mac) || CRYPTO_memcmp(mac, opaque.text + SIGNED, MAC) != 0)
        return false;
    memcpy(expiry, opaque.text, NUMBER);
    expiry[NUMBER] = '\0';
    return clock_ms() < strtoull(expiry, NULL, 16);
}

static sluice_http_text parameter(sluice_http_text query, const char *name) {
    sluice_http_text value;
    return text_parameter(query, name, &value) ? value : text_of("");
}

/* The random number is the salt, too. For an unknown user the work is the same. */
static const struct user *find_responder(const struct authorize *access, sluice_http_text query) {
    static const struct user nobody = {.name = "", .password = ""};
    sluice_http_text name = parameter(query, "user"), opaque = parameter(query, "opaque");
    sluice_http_text response = parameter(query, "response");
    char expected[RTMP_LOGIN_RESPONSE];
    if (!is_ours(opaque, access->peer))
        return NULL;
    const struct user *found = users_find(access->by.users, name.text, name.length);
    const struct user *user = found ? found : &nobody;
    const sluice_http_text salt = {opaque.text + NUMBER, NUMBER};
    if (rtmp_login_response(name, salt, text_of(user->password), opaque, parameter(query, "challenge"), expected) < 0)
        return NULL;
    bool right = response.length == strlen(expected) && CRYPTO_memcmp(response.text, expected, response.length) == 0;
    return right ? found : NULL;
}

/* In the words that clients look for. */
static unsigned challenge(const struct authorize *access, sluice_http_text user,
                          char description[RTMP_AUTH_DESCRIPTION]) {
    char opaque[OPAQUE + 1];
    if (!make_opaque(access->peer, opaque)) {
        snprintf(description, RTMP_AUTH_DESCRIPTION, "no random numbers");
        return 401;
    }
    snprintf(description, RTMP_AUTH_DESCRIPTION,
             "[ AccessManager.Reject ] : [ authmod=adobe ] : "
             "?reason=needauth&user=%.*s&salt=%.*s&challenge=%s&opaque=%s",
             (int)user.length, user.text, NUMBER, opaque + NUMBER, opaque, opaque);
    return 401;
}

static unsigned authenticate(struct rtmp_auth *auth, const struct authorize *access, sluice_http_text query,
                             char description[RTMP_AUTH_DESCRIPTION], bool *ret_failed) {
    sluice_http_text name = parameter(query, "user");
    if (name.length > 0 && name.length <= RTMP_AUTH_NAME && parameter(query, "response").length == 0)
        return challenge(access, name, description);
    const struct user *user = find_responder(access, query);
    if (user && strlen(user->name) <= RTMP_AUTH_NAME) {
        auth->rights = user->rights;
        strcpy(auth->user, user->name);
        return 0;
    }
    *ret_failed = true;
    snprintf(description, RTMP_AUTH_DESCRIPTION, "[ AccessManager.Reject ] : [ authmod=adobe ] : ?reason=authfailed");
    return 401;
}

unsigned rtmp_auth_connect(struct rtmp_auth *auth, const struct authorize *access, sluice_http_text query,
                           char description[RTMP_AUTH_DESCRIPTION], bool *ret_failed) {
    if (access->by.users && text_is(parameter(query, "authmod"), "adobe"))
        return authenticate(auth, access, query, description, ret_failed);
    bool shows = parameter(query, "token").length > 0 || parameter(query, "pass").length > 0;
    if (shows || !authorize_wants_user(access))
        return 0;
    snprintf(description, RTMP_AUTH_DESCRIPTION, "[ AccessManager.Reject ] : [ code=403 need auth; authmod=adobe ] : ");
    return 401;
}

static bool has_token(const struct authorize *access, const struct rule *rule, sluice_http_text query) {
    char token[AUTHORIZE_TOKEN];
    bool right = authorize_query_token(query, token) && authorize_token_is_right(access, rule, token);
    explicit_bzero(token, sizeof token);
    return right;
}

/* By "?user=&pass=". */
static unsigned check_password(const struct authorize *access, const struct rule *rule, sluice_http_text query) {
    char name[RTMP_AUTH_NAME + 1], password[RTMP_AUTH_NAME + 1];
    sluice_http_text given = parameter(query, "pass");
    if (given.length == 0 || text_decode(parameter(query, "user"), name, sizeof name) < 0 ||
        text_decode(given, password, sizeof password) < 0)
        return 401;
    const struct user *user = authorize_find_user(access->by.users, text_of(name), text_of(password));
    explicit_bzero(password, sizeof password);
    if (!user)
        return 401;
    return authorize_user_may(access, rule, user->name, user->rights) ? 0 : 403;
}

unsigned rtmp_auth_check(const struct rtmp_auth *auth, const struct authorize *access, sluice_http_text query,
                         bool *ret_shown) {
    const struct rule *rule;
    switch (authorize_client(access, &rule)) {
    case AUTHORIZE_GRANTED:
        return 0;
    case AUTHORIZE_REFUSED:
        return 403;
    case AUTHORIZE_ASK:
        break;
    }
    unsigned status = 401;
    if (has_token(access, rule, query))
        status = 0;
    else if (rule->ways & RULE_USER && auth->rights)
        status = authorize_user_may(access, rule, auth->user, auth->rights) ? 0 : 403;
    else if (rule->ways & RULE_USER)
        status = check_password(access, rule, query);
    *ret_shown = status == 0;
    return status;
}
