/*
 * Rules that decide which clients may publish and play: the first rule that matches the action, the
 * stream and the address decides; if none matches, access is denied. A rule is written
 *
 *     ACTIONS STREAM [from RANGES] WAYS
 *
 * ACTIONS: publish, play, both with a comma, or all
 * STREAM:  a name, in which "*" stands for any characters
 * RANGES:  addresses and ranges such as 10.0.0.0/8 or fd00::/8, with commas
 * WAYS:    allow, deny; or what the client has to show, one of several with commas: user (anyone of
 *          the file of users), user=NAME, token=KEY (a token signed with that key), secret=KEY (the
 *          key itself), cert=NAME (a certificate of that name, by TLS)
 */
#ifndef SLUICED_RULE_H
#define SLUICED_RULE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/cidr.h"
#include "daemon/base/config_errors.h"

enum { RULES_MAX = 1000, RULE_RANGES = 16, RULE_WAYS = 16 };

enum rule_action { RULE_PUBLISH = 1, RULE_PLAY = 2 };

enum rule_way { RULE_ALLOW = 1, RULE_DENY = 2, RULE_USER = 4, RULE_TOKEN = 8, RULE_SECRET = 16, RULE_CERT = 32 };

struct rule {
    char *said;  /* as it was written */
    char *where; /* it was read, as messages call it */
    char *text;  /* that the texts below lie in */
    unsigned actions;
    const char *pattern;
    struct cidr ranges[RULE_RANGES];
    size_t range_count; /* 0: everywhere */
    unsigned ways;      /* all of them, together */
    struct {
        enum rule_way way;
        const char *name; /* of the user, the key or the certificate; NULL: any user */
    } way[RULE_WAYS];
    size_t way_count;
};

struct rules {
    struct rule *list;
    size_t count;
};

/* NULL, or what is wrong in a few words. */
const char *rules_add(struct rules *rules, const char *text, const char *where);
void rules_clear(struct rules *rules);

/* The one that decides; NULL: none fits. @stream: of so many characters */
const struct rule *rules_find(const struct rules *rules, enum rule_action action, const char *stream, size_t length,
                              const struct cidr_address *peer);

/*
 * The same before the name is known: the first rule that may decide for a stream below @path, from
 * @from on. @ret_certain: it decides for all of them that no earlier rule has. NULL: none fits
 */
const struct rule *rules_find_below(const struct rules *rules, const struct rule *from, enum rule_action action,
                                    const char *path, size_t length, const struct cidr_address *peer,
                                    bool *ret_certain);

/*
 * The rules that never decide, since for each action an earlier one fits whatever they fit: calls
 * for each, with the earlier rule of one of its actions.
 */
typedef void rule_shadowed_fn(const struct rule *rule, const struct rule *earlier, void *user);
void rules_each_shadowed(const struct rules *rules, rule_shadowed_fn *call, void *user);

/* Whether that user's name, or that of any user, is among the ways. */
bool rule_names_user(const struct rule *rule, const char *name);

/* Whether a certificate of that name is among the ways. */
bool rule_names_certificate(const struct rule *rule, const char *name);

#endif
