/*
 * Whether a client may do what it asks for: the rules of the options, and what the client shows. It is the same for all
 * protocols, which differ in how a client says who it is: raw FLV cannot say anything.
 */
#ifndef SLUICED_ACCESS_H
#define SLUICED_ACCESS_H

#include <sluice/http.h>

#include "daemon/options.h"

enum { ACCESS_TOKEN = 256 };

struct access {
    const struct options *options;
    enum rule_action action;
    sluice_http_text stream;
    const struct cidr_address *peer;
};

/* What is to be done before anything that the client shows is looked at. */
enum access_verdict {
    ACCESS_GRANTED,
    ACCESS_REFUSED, /* 403: whatever the client shows */
    ACCESS_ASK,     /* the rule says what it has to show */
};

/* @ret_rule: for ACCESS_ASK */
enum access_verdict access_judge(const struct access *access, const struct rule **ret_rule);

/* The value of "token" in a query, percent-decoded. False where there is none, or one that is too long. */
bool access_query_token(sluice_http_text query, char ret_token[ACCESS_TOKEN]);

/* Whether the token is one that the rule asks for. In a time that does not tell how much of it is right. */
bool access_token_is_right(const struct access *access, const struct rule *rule, const char *token);

/* Whether the rule, and the user's own rights, let that user do it. */
bool access_user_may(const struct access *access, const struct rule *rule, const char *name, unsigned rights);

/*
 * The user whose name and password are so; NULL where there is none, which takes as long.
 * @password: of @length bytes
 */
const struct user *access_find_user(const struct options *options, sluice_http_text name, sluice_http_text password);

/*
 * Whether a listener that anyone may reach lets nobody do anything without credentials, but from addresses that are
 * named. Ranges that are all public addresses of a family together name everyone, in whatever rules they are.
 */
bool access_is_guarded(const struct options *options);

#endif
