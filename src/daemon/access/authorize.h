/*
 * Whether a client may do what it asks for: the rules, and what the client shows. It is the same
 * for all protocols, which differ in how a client says who it is: raw FLV cannot say anything.
 */
#ifndef SLUICED_AUTHORIZE_H
#define SLUICED_AUTHORIZE_H

#include <sluice/http.h>

#include "daemon/access/rule.h"
#include "daemon/access/users.h"

enum { AUTHORIZE_TOKEN = 256 };

/* What is asked for, and of whom. */
struct credentials {
    const struct rules *rules;
    const struct users *users; /* NULL: there are none */
    const struct users *keys;  /* of tokens; likewise */
};

struct authorize {
    struct credentials by;
    enum rule_action action;
    sluice_http_text stream;
    const struct cidr_address *peer;
};

/* What is to be done before anything that the client shows is looked at. */
enum authorize_verdict {
    AUTHORIZE_GRANTED,
    AUTHORIZE_REFUSED, /* 403: whatever the client shows */
    AUTHORIZE_ASK,     /* the rule says what it has to show */
};

/* @ret_rule: for AUTHORIZE_ASK */
enum authorize_verdict authorize_client(const struct authorize *access, const struct rule **ret_rule);

/* The value of "token" in a query, percent-decoded. False where there is none, or one that is too
 * long. */
bool authorize_query_token(sluice_http_text query, char ret_token[AUTHORIZE_TOKEN]);

/* Whether the token is one that the rule asks for. In a time that does not tell how much of it is
 * right. */
bool authorize_token_is_right(const struct authorize *access, const struct rule *rule, const char *token);

/* Whether the rule, and the user's own rights, let that user do it. */
bool authorize_user_may(const struct authorize *access, const struct rule *rule, const char *name, unsigned rights);

/*
 * The user whose name and password are so; NULL where there is none, which takes as long.
 * @password: of @length bytes
 */
const struct user *authorize_find_user(const struct users *users, sluice_http_text name, sluice_http_text password);

/*
 * Whether a listener that anyone may reach lets nobody do anything without credentials, but from
 * addresses that are named. Ranges that are all public addresses of a family together name
 * everyone, in whatever rules they are.
 */
bool authorize_is_guarded(const struct credentials *by);

#endif
