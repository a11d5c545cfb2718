/*
 * The engine's side of the cluster: the scripts that it runs, and the conversion of commands into
 * RESP, and of replies and events from it. Knows no connection. How a connection is used:
 *
 *     after each connect   SUBSCRIBE cluster_script_channel(); on the connection that sends the
 *                          commands (RESP 3), so that events and replies keep their order; then
 *                          cluster_script_load() for each of cluster_script_count() scripts, and
 *                          cluster_script_loaded() with the reply; then cluster_node_connected()
 *     send() of the node   cluster_script_write(); @verb, @count and @tag are kept for the reply
 *     a reply              cluster_script_read(), cluster_node_replied(), cluster_reply_clear().
 *                          -ENOEXEC: the engine has lost the scripts: load all, and write the
 *                          command anew, or report cluster_node_disconnected() and connect again
 *     a push               cluster_script_read_push(), cluster_node_heard()
 */
#ifndef SLUICED_CLUSTER_SCRIPT_H
#define SLUICED_CLUSTER_SCRIPT_H

#include <sluice/resp.h>
#include <sluice/resp_client.h>

#include "daemon/cluster/cluster_command.h"
#include "daemon/cluster/cluster_event.h"

enum {
    CLUSTER_PREFIX = 63,            /* characters of the prefix: [A-Za-z0-9._-], and ":" */
    CLUSTER_REPLY_SIZE = 256 << 10, /* that the engine's connection accepts */
    CLUSTER_REPLY_ELEMENTS = 4096,
};

struct cluster_script;

/* @prefix: of all keys. 0, -EINVAL (the prefix), -ENOMEM */
int cluster_script_new(const char *prefix, struct cluster_script **ret_script);

/* NULL is allowed. */
void cluster_script_free(struct cluster_script *script);

/* The channel of events. As long as the script. */
const char *cluster_script_channel(const struct cluster_script *script);

/* How many scripts there are. */
size_t cluster_script_count(void);

/* The SCRIPT LOAD of one of them. The arguments are the script's, until its next call. */
const sluice_resp_client_arg *cluster_script_load(struct cluster_script *script, size_t index, size_t *ret_count);

/* What the engine has answered to it. 0; as cluster_script_read() */
int cluster_script_loaded(struct cluster_script *script, size_t index, const sluice_resp_reply *resp);

/*
 * A command's arguments, which are the script's until its next call, or the command's own. 0;
 * -ENOEXEC (its script has not been loaded), -EINVAL (more items than CLUSTER_BATCH, or none),
 * -EMSGSIZE (an event that is too long)
 */
int cluster_script_write(struct cluster_script *script, const struct cluster_command *command,
                         const sluice_resp_client_arg **ret_args, size_t *ret_count);

/*
 * Reads the reply to a command of that verb, with so many items. Of what is not valid, nothing is
 * used. 0: @ret_reply is to be cleared; else it is untouched: -EPROTO (it is no answer to that
 * command), -ENOMEM; or the engine has reported an error: -ENOEXEC (it does not have the script),
 * -EROFS (it is not the master any more, or not ready: connect again), -EACCES (credentials or
 * rights), -EOPNOTSUPP (it is a Redis Cluster, or lacks a command), -ENOSPC (its memory or disk is
 * full), -EEXIST (a key is of another type, so another program's), -EREMOTEIO (another one)
 */
int cluster_script_read(enum cluster_verb verb, size_t count, const sluice_resp_reply *resp,
                        struct cluster_reply *ret_reply);

/* Frees what a reply points to, and nothing of one that is all zero. */
void cluster_reply_clear(struct cluster_reply *reply);

/*
 * Reads a push: a message on the channel (RESP 3; or the array of RESP 2). 0; -ENOMSG (another kind
 * of push, such as the confirmation of a subscription), -EPROTO (a message that is not valid: to be
 * counted)
 */
int cluster_script_read_push(const struct cluster_script *script, const sluice_resp_reply *push,
                             struct cluster_event *ret_event);

#endif
