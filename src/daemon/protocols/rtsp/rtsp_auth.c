#include "daemon/protocols/rtsp/rtsp_auth.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <sluice/sdp.h>

#include "shared/rtsp_digest.h"
#include "shared/text.h"

enum { MAX_BASIC = 1024 };

static const char realm[] = "sluiced";

/* The time does not depend on how much of it is right. */
static bool is_secret(sluice_http_text given, const char *secret) {
    return given.length == strlen(secret) && CRYPTO_memcmp(given.text, secret, given.length) == 0;
}

/* For an unknown user the work is the same, so that the time does not reveal names. */
static const struct user *find(const struct users *users, sluice_http_text name, bool *ret_found) {
    static const struct user nobody = {.name = "", .password = ""};
    const struct user *user = users_find(users, name.text, name.length);
    *ret_found = user != NULL;
    return user ? user : &nobody;
}

static unsigned check_basic(const struct users *users, sluice_http_text credentials, const struct user **ret_user) {
    char text[MAX_BASIC];
    size_t length, name;
    bool found;
    if (sluice_rtsp_decode_basic(credentials, text, sizeof text, &length, &name) < 0)
        return 400;
    const struct user *user = find(users, (sluice_http_text){text, name}, &found);
    bool right = is_secret((sluice_http_text){text + name + 1, length - name - 1}, user->password);
    explicit_bzero(text, sizeof text);
    if (!right || !found)
        return 401;
    *ret_user = user;
    return 0;
}

/* The path and what is behind it. */
static sluice_http_text target_of(const sluice_rtsp_url *url) {
    sluice_http_text target = url->path;
    if (url->query.length > 0)
        target.length = (size_t)(url->query.text + url->query.length - target.text);
    return target;
}

/* Whether credentials are for this request: for its URL, with or without the host, or for one that
 * its begins with. */
static bool is_for(sluice_http_text uri, sluice_http_text url) {
    sluice_rtsp_url given, asked;
    if (sluice_rtsp_split_url(uri, &given) < 0 || sluice_rtsp_split_url(url, &asked) < 0)
        return false;
    sluice_http_text part = target_of(&given), whole = target_of(&asked);
    if (part.length < 2 || part.length > whole.length || memcmp(part.text, whole.text, part.length) != 0)
        return false;
    return part.length == whole.length || whole.text[part.length] == '/' || part.text[part.length - 1] == '/';
}

static unsigned check_digest(const struct rtsp_auth *auth, const struct users *users, const sluice_rtsp_auth *given,
                             const sluice_rtsp_message *request, const struct user **ret_user) {
    char expected[RTSP_DIGEST_TEXT], response[RTSP_DIGEST_TEXT];
    bool found, sha256;
    if (!rtsp_digest_algorithm(given->algorithm, &sha256))
        return 401;
    if (given->uri.length == 0 || given->response.length == 0 || given->response.length >= sizeof response)
        return 400;
    if (given->qop.length > 0 || !text_folds_to(given->realm, realm) || !*auth->nonce ||
        !is_secret(given->nonce, auth->nonce))
        return 401;
    if (!is_for(given->uri, request->url))
        return 400;
    for (size_t i = 0; i < given->response.length; i++)
        response[i] = (char)(given->response.text[i] | (given->response.text[i] >= 'A' ? 0x20 : 0));
    const struct user *user = find(users, given->username, &found);
    const struct rtsp_digest digest = {
        .sha256 = sha256,
        .user = {user->name, strlen(user->name)},
        .realm = {realm, strlen(realm)},
        .password = {user->password, strlen(user->password)},
        .nonce = {auth->nonce, strlen(auth->nonce)},
        .method = request->method,
        .uri = given->uri,
    };
    bool right = rtsp_digest(&digest, expected) &&
                 is_secret((sluice_http_text){response, given->response.length}, expected);
    if (!right || !found)
        return 401;
    *ret_user = user;
    return 0;
}

static unsigned check(const struct rtsp_auth *auth, const struct users *users, const sluice_rtsp_message *request,
                      const struct user **ret_user) {
    const sluice_http_header *header = sluice_rtsp_find(request, "Authorization");
    sluice_rtsp_auth given;
    if (!header)
        return 401;
    sluice_http_text rest = header->value;
    if (sluice_rtsp_next_auth(&rest, &given) <= 0)
        return 400;
    if (text_folds_to(given.scheme, "Basic"))
        return check_basic(users, given.credentials, ret_user);
    if (text_folds_to(given.scheme, "Digest"))
        return check_digest(auth, users, &given, request, ret_user);
    return 401;
}

/* The password itself is not kept with each connection. */
static bool prove(const struct user *user, uint8_t ret_proof[RTSP_PROOF]) {
    unsigned size = 0;
    return EVP_Digest(user->password, strlen(user->password), ret_proof, &size, EVP_sha256(), NULL) == 1 &&
           size == RTSP_PROOF;
}

/* A reload may have removed the user since, or changed its password or its rights. */
static void look_again(struct rtsp_auth *auth, const struct users *users) {
    uint8_t proof[RTSP_PROOF];
    const struct user *user = users ? users_find(users, auth->user, strlen(auth->user)) : NULL;
    auth->is_known = user && prove(user, proof) && CRYPTO_memcmp(proof, auth->proof, sizeof proof) == 0;
    if (auth->is_known)
        auth->rights = user->rights;
}

/* Authenticates the client, unless that has been done. */
static unsigned identify(struct rtsp_auth *auth, const struct users *users, const sluice_rtsp_message *request) {
    const struct user *user;
    if (auth->is_known)
        look_again(auth, users);
    if (auth->is_known)
        return 0;
    unsigned status = check(auth, users, request, &user);
    if (!status && strlen(user->name) > RTSP_USER)
        status = 403;
    auth->failures += status == 400 || (status == 401 && sluice_rtsp_find(request, "Authorization"));
    if (status)
        return status;
    free(auth->user);
    auth->user = strdup(user->name);
    if (!auth->user || !prove(user, auth->proof))
        return 503;
    auth->is_known = true;
    auth->rights = user->rights;
    return 0;
}

static bool is_granted(const struct rtsp_auth *auth, const struct authorize *access) {
    return auth->actions & access->action && text_is(access->stream, auth->stream);
}

/* 0, or 503: what it shows now it may not show again. */
static unsigned grant(struct rtsp_auth *auth, const struct authorize *access) {
    if (access->stream.length == 0 || access->stream.length > STREAM_NAME)
        return 0;
    char *stream = strndup(access->stream.text, access->stream.length);
    if (!stream)
        return 503;
    free(auth->stream);
    auth->stream = stream;
    auth->actions = access->action;
    return 0;
}

static bool has_token(struct rtsp_auth *auth, const struct authorize *access, const struct rule *rule,
                      const sluice_rtsp_message *request) {
    char token[AUTHORIZE_TOKEN];
    sluice_rtsp_url url;
    if (sluice_rtsp_split_url(request->url, &url) < 0 || !authorize_query_token(url.query, token))
        return false;
    /* A track's name may have been put behind the query. */
    bool right = authorize_token_is_right(access, rule, token);
    if (!right && strchr(token, '/')) {
        *strrchr(token, '/') = '\0';
        right = authorize_token_is_right(access, rule, token);
    }
    explicit_bzero(token, sizeof token);
    auth->failures += !right;
    return right;
}

static unsigned ask(struct rtsp_auth *auth, const struct authorize *access, const struct rule *rule,
                    const sluice_rtsp_message *request) {
    auth->wants_user = rule->ways & RULE_USER;
    auth->wants_token = rule->ways & (RULE_TOKEN | RULE_SECRET);
    if (auth->wants_token && has_token(auth, access, rule, request))
        return 0;
    if (!auth->wants_user)
        return 401;
    unsigned status = identify(auth, access->by.users, request);
    return status ? status : authorize_user_may(access, rule, auth->user, auth->rights) ? 0 : 403;
}

unsigned rtsp_authorize(struct rtsp_auth *auth, const struct authorize *access, const sluice_rtsp_message *request) {
    const struct rule *rule;
    unsigned status = 0;
    if (is_granted(auth, access))
        return 0;
    switch (authorize_client(access, &rule)) {
    case AUTHORIZE_GRANTED:
        break;
    case AUTHORIZE_REFUSED:
        return 403;
    case AUTHORIZE_ASK:
        status = ask(auth, access, rule, request);
        auth->has_shown |= !status;
        break;
    }
    return status ? status : grant(auth, access);
}

void rtsp_auth_clear(struct rtsp_auth *auth) {
    free(auth->user);
    free(auth->stream);
    auth->user = auth->stream = NULL;
}

int rtsp_write_challenges(struct rtsp_auth *auth, sluice_rtsp_writer *reply) {
    uint8_t random[RTSP_NONCE / 2];
    if (!*auth->nonce) {
        if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random ||
            sluice_sdp_encode_hex(random, sizeof random, auth->nonce, sizeof auth->nonce) < 0)
            return -EIO;
    }
    /* The strongest first, as RFC 7616 has it; FFmpeg takes the last Digest, and knows MD5 only. */
    static const char *const algorithms[] = {"SHA-256", "MD5"};
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms && auth->wants_user; i++)
        sluice_rtsp_write_header(reply, "WWW-Authenticate", "Digest realm=\"%s\", nonce=\"%s\", algorithm=%s", realm,
                                 auth->nonce, algorithms[i]);
    if (auth->wants_user)
        sluice_rtsp_write_header(reply, "WWW-Authenticate", "Basic realm=\"%s\"", realm);
    else
        sluice_rtsp_write_header(reply, "WWW-Authenticate", "Bearer realm=\"%s\"", realm);
    return 0;
}
