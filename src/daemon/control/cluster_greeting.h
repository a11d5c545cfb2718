/*
 * What a server says of itself when the cluster's engine is looked for: replies to HELLO, ROLE and
 * those of Sentinels. No connection, no state.
 */
#ifndef SLUICED_CLUSTER_GREETING_H
#define SLUICED_CLUSTER_GREETING_H

#include <stdbool.h>

#include <sluice/resp.h>

#include "daemon/config/cluster_option.h"

enum { CLUSTER_GREETING_WORD = 31 };

enum cluster_server_mode {
    CLUSTER_SERVER_SINGLE,
    CLUSTER_SERVER_SENTINEL,
    CLUSTER_SERVER_CLUSTER, /* Redis Cluster */
};

struct cluster_greeting {
    /* "redis", "valkey", and so on; other characters than [A-Za-z0-9._-] are "?" */
    char server[CLUSTER_GREETING_WORD + 1];
    char version[CLUSTER_GREETING_WORD + 1];
    enum cluster_server_mode mode;
    bool is_master;
};

/*
 * The reply to HELLO. 0; -EACCES (a login is missing or wrong), -EPERM (the server takes only
 * clients of its own host: Redis's protected mode), -EPROTONOSUPPORT (it knows no HELLO, or not
 * this version), -EAGAIN (it is loading its data, or busy), -EREMOTEIO (another error), -EPROTO (no
 * reply to HELLO)
 */
int cluster_greeting_read(const sluice_resp_reply *reply, struct cluster_greeting *ret_greeting);

/* The reply of a replica to ROLE: its master. 0, -ENOENT (it knows none), -EPROTO, or the error. */
int cluster_greeting_read_role(const sluice_resp_reply *reply, struct cluster_place *ret_master);

/* The reply of a Sentinel to SENTINEL MASTERS: the name of the only one. 0, -ENOENT (it knows
 * none), -E2BIG (several), -EPROTO, or the error. */
int cluster_greeting_read_masters(const sluice_resp_reply *reply, char ret_name[CLUSTER_OPTION_SENTINEL + 1]);

/* The reply to SENTINEL GET-MASTER-ADDR-BY-NAME. 0, -ENOENT (it does not know the name), -EPROTO,
 * or the error. */
int cluster_greeting_read_master(const sluice_resp_reply *reply, struct cluster_place *ret_master);

#endif
