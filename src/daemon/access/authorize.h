/*
 * Whether a client may do what it requests, by the rules and the client's credentials. The rules
 * are the same for all protocols; the way to send credentials is not, and raw FLV has none.
 */
#ifndef SLUICED_AUTHORIZE_H
#define SLUICED_AUTHORIZE_H

#include <sluice/http.h>

#include "daemon/access/rule.h"
#include "daemon/access/users.h"

enum { AUTHORIZE_TOKEN = 256 };

/* What credentials are checked against. */
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
    const char *certificate; /* name of the client's verified certificate; NULL: there is none */
};

/* What is to be done before anything that the client shows is looked at. */
enum authorize_verdict {
    AUTHORIZE_GRANTED,
    AUTHORIZE_REFUSED, /* 403: whatever the client shows */
    AUTHORIZE_ASK,     /* the rule says what it has to show */
};

/* A certificate that the rule names is enough. @ret_rule: for AUTHORIZE_ASK */
enum authorize_verdict authorize_client(const struct authorize *access, const struct rule **ret_rule);

/*
 * Whether a client has to show a user's name and password for whatever stream, where only the path
 * is known that its name begins with: that of @access. False where a rule that may decide grants
 * access, or accepts something else.
 */
bool authorize_wants_user(const struct authorize *access);

/* The value of "token" in a query, percent-decoded. False where there is none, or one that is too
 * long. */
bool authorize_query_token(sluice_http_text query, char ret_token[AUTHORIZE_TOKEN]);

/*
 * Whether the token is one that the rule accepts. The time does not depend on how much of it is
 * right.
 */
bool authorize_token_is_right(const struct authorize *access, const struct rule *rule, const char *token);

/* Whether the rule, and the user's own rights, let that user do it. */
bool authorize_user_may(const struct authorize *access, const struct rule *rule, const char *name, unsigned rights);

/*
 * The user with this name and password. NULL: there is none, which takes the same time.
 * @password: of @length bytes
 */
const struct user *authorize_find_user(const struct users *users, sluice_http_text name, sluice_http_text password);

/*
 * Whether a listener on a public address grants nothing without credentials, except to the
 * addresses that rules name. Ranges that together cover all public addresses of a family, in
 * whatever rules they are, count as no restriction.
 */
bool authorize_is_guarded(const struct credentials *by);

#endif
