/*
 * The text of events on the engine's channel, and of the words in it, which replies have, too. It
 * comes from outside: what is not valid is rejected as a whole.
 *
 *     claim STREAM NODE INCARNATION EPOCH http|https ADDRESS
 *     release STREAM NODE INCARNATION EPOCH
 *     ask STREAM NODE INCARNATION EPOCH
 *     leave NODE INCARNATION
 *     kick STREAM NODE INCARNATION MS publisher|stream
 *     ban STREAM NODE INCARNATION HOST MS
 *     unban STREAM NODE INCARNATION
 */
#ifndef SLUICED_CLUSTER_EVENT_H
#define SLUICED_CLUSTER_EVENT_H

#include "daemon/cluster/cluster_command.h"

enum {
    CLUSTER_EVENT_TEXT = 1024,
    CLUSTER_INCARNATION_TEXT = 16, /* hexadecimal digits, so that texts compare as numbers do */
    CLUSTER_HOST_TEXT = 32,        /* hexadecimal digits */
};

/* 0, -EPROTO */
int cluster_event_parse(const char *text, size_t length, struct cluster_event *ret_event);

/* Of CLUSTER_EVENT_KICK; the scripts write the others. @text: with a NUL. 0, -EINVAL (another verb,
 * a name that is not valid, a time that is too long) */
int cluster_event_format(const struct cluster_event *event, char text[CLUSTER_EVENT_TEXT]);

/* Whether a name of a node, or an address (HOST:PORT, [v6]:PORT), is one. */
bool cluster_node_name_is_valid(const char *name, size_t length);
bool cluster_address_is_valid(const char *address, size_t length);

/* Words of replies and events. False: it is none, and the result is untouched. An incarnation of 0
 * is none. */
bool cluster_read_incarnation(const char *text, size_t length, uint64_t *ret_incarnation);
bool cluster_read_number(const char *text, size_t length, uint64_t most, uint64_t *ret_number);
bool cluster_read_scheme(const char *text, size_t length, bool *ret_is_secure);

/* Of the digits that cluster_write_host() writes, and nothing else. */
bool cluster_read_host(const char *text, size_t length, struct cidr_address *ret_host);
void cluster_write_host(const struct cidr_address *host, char text[CLUSTER_HOST_TEXT + 1]);

#endif
