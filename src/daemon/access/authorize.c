#include "daemon/access/authorize.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/access/token.h"
#include "daemon/base/stream_name.h"
#include "shared/text.h"

static bool shows_certificate(const struct authorize *access, const struct rule *rule) {
    return access->certificate && rule_names_certificate(rule, access->certificate);
}

enum authorize_verdict authorize_client(const struct authorize *access, const struct rule **ret_rule) {
    /* With users and without rules: each may do what the file of users says. */
    static const struct rule any_user = {.actions = RULE_PUBLISH | RULE_PLAY,
                                         .pattern = "*",
                                         .ways = RULE_USER,
                                         .way = {{.way = RULE_USER}},
                                         .way_count = 1};
    const struct rules *rules = access->by.rules;
    if (rules->count == 0 && !access->by.users)
        return AUTHORIZE_GRANTED;
    if (rules->count == 0) {
        *ret_rule = &any_user;
        return AUTHORIZE_ASK;
    }
    const struct rule *rule = rules_find(rules, access->action, access->stream.text, access->stream.length,
                                         access->peer);
    if (!rule)
        return AUTHORIZE_REFUSED;
    if (rule->ways & RULE_ALLOW || shows_certificate(access, rule))
        return AUTHORIZE_GRANTED;
    /* There is no challenge for a certificate: the connection has one or not. */
    if (rule->ways & RULE_DENY || rule->ways == RULE_CERT)
        return AUTHORIZE_REFUSED;
    *ret_rule = rule;
    return AUTHORIZE_ASK;
}

bool authorize_wants_user(const struct authorize *access) {
    const struct rules *rules = access->by.rules;
    const struct rule *rule = NULL;
    bool wants = false, certain = false;
    if (!access->by.users)
        return false;
    if (rules->count == 0)
        return true;
    while (!certain && (rule = rules_find_below(rules, rule, access->action, access->stream.text, access->stream.length,
                                                access->peer, &certain))) {
        if (rule->ways & ~(unsigned)(RULE_USER | RULE_DENY | RULE_CERT) || shows_certificate(access, rule))
            return false;
        wants |= rule->ways & RULE_USER;
        rule++;
    }
    return wants;
}

bool authorize_query_token(sluice_http_text query, char ret_token[AUTHORIZE_TOKEN]) {
    sluice_http_text value;
    return text_parameter(query, "token", &value) && value.length > 0 &&
           text_decode(value, ret_token, AUTHORIZE_TOKEN) == 0;
}

static const char *action_name(enum rule_action action) {
    return action == RULE_PUBLISH ? "publish" : "play";
}

bool authorize_token_is_right(const struct authorize *access, const struct rule *rule, const char *token) {
    char stream[STREAM_NAME + 1];
    bool right = false;
    if (access->stream.length >= sizeof stream)
        return false;
    memcpy(stream, access->stream.text, access->stream.length);
    stream[access->stream.length] = '\0';
    for (size_t i = 0; i < rule->way_count; i++) {
        const char *name = rule->way[i].name;
        const struct user *key = rule->way[i].way & (RULE_TOKEN | RULE_SECRET) && access->by.keys
                                     ? users_find(access->by.keys, name, strlen(name))
                                     : NULL;
        if (!key)
            continue;
        if (rule->way[i].way == RULE_TOKEN)
            right |= token_is_valid(token, key->password, action_name(access->action), stream, (uint64_t)time(NULL));
        else
            right |= strlen(token) == strlen(key->password) && CRYPTO_memcmp(token, key->password, strlen(token)) == 0;
    }
    return right;
}

bool authorize_user_may(const struct authorize *access, const struct rule *rule, const char *name, unsigned rights) {
    unsigned needed = access->action == RULE_PUBLISH ? USER_MAY_PUBLISH : USER_MAY_PLAY;
    return (rights & needed) && rule_names_user(rule, name);
}

const struct user *authorize_find_user(const struct users *users, sluice_http_text name, sluice_http_text password) {
    static const struct user nobody = {.name = "", .password = ""};
    const struct user *found = users ? users_find(users, name.text, name.length) : NULL;
    const struct user *user = found ? found : &nobody;
    bool right = password.length == strlen(user->password) &&
                 CRYPTO_memcmp(password.text, user->password, password.length) == 0;
    return right ? found : NULL;
}

bool authorize_is_guarded(const struct credentials *by) {
    const struct rules *rules = by->rules;
    if (rules->count == 0)
        return by->users;
    struct cidr *allowed = calloc(rules->count, RULE_RANGES * sizeof *allowed);
    size_t count = 0;
    bool everyone = !allowed;
    for (size_t i = 0; i < rules->count && !everyone; i++) {
        const struct rule *rule = &rules->list[i];
        if (!(rule->ways & RULE_ALLOW))
            continue;
        everyone = rule->range_count == 0;
        memcpy(allowed + count, rule->ranges, rule->range_count * sizeof *allowed);
        count += rule->range_count;
    }
    everyone = everyone || cidr_are_public(allowed, count);
    free(allowed);
    return !everyone;
}
