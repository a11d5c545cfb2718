/*
 * The cluster that this process is a node of: cluster = redis[s]://[USER:PASSWORD@]HOST[:PORT]
 * [,HOST[:PORT]...][/PREFIX], and the settings around it. All of it is in the struct, so that a
 * copy is complete; it holds secrets, which cluster_options_clear() forgets.
 */
#ifndef SLUICED_CLUSTER_OPTION_H
#define SLUICED_CLUSTER_OPTION_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/hook_url.h"
#include "daemon/base/node_name.h"
#include "daemon/base/secret_file.h"

enum {
    CLUSTER_OPTION_HOSTS = 16,
    CLUSTER_OPTION_LOGIN = 255,
    CLUSTER_OPTION_PREFIX = 63,
    CLUSTER_OPTION_SENTINEL = 63,
    CLUSTER_OPTION_PARENTS = 16,
    CLUSTER_OPTION_SECRET_LEAST = 32,
    CLUSTER_OPTION_SECRET_MOST = 64,
    CLUSTER_OPTION_PORT = 6379,
    CLUSTER_OPTION_TEXT = 2 * PATH_MAX, /* of any of the values as it is shown */
};

/* The detail of SETTING_CLUSTER. */
enum cluster_setting {
    CLUSTER_SETTING_ENGINE,
    CLUSTER_SETTING_SENTINEL,
    CLUSTER_SETTING_NODE,
    CLUSTER_SETTING_ADVERTISE,
    CLUSTER_SETTING_SECRET_FILE,
    CLUSTER_SETTING_PARENTS,
};

enum cluster_down {
    CLUSTER_DOWN_ACCEPT, /* new publishers are accepted without the engine, */
    CLUSTER_DOWN_REFUSE, /* or are not */
};

struct cluster_place {
    char host[HOOK_HOST + 1]; /* a name or an address without brackets; empty: there is none */
    uint16_t port;
};

/* The servers that know which node has which stream. */
struct cluster_engine_option {
    /* of one master, its replicas and Sentinels */
    struct cluster_place hosts[CLUSTER_OPTION_HOSTS];
    size_t host_count; /* 0: there is no cluster */
    bool is_secure;    /* rediss: by TLS */
    bool has_login;
    char user[CLUSTER_OPTION_LOGIN + 1]; /* empty: the server's default one */
    char password[CLUSTER_OPTION_LOGIN + 1];
    char prefix[CLUSTER_OPTION_PREFIX + 1];
};

struct cluster_options {
    struct cluster_engine_option engine;
    char sentinel[CLUSTER_OPTION_SENTINEL + 1]; /* the master's name; empty: that of the only one */
    char node[NODE_NAME + 1];                   /* empty: the host's name is to be taken */
    struct cluster_place advertise;             /* none: the only listener of HTTP */
    bool advertise_secure;                      /* it speaks TLS */
    char secret_file[PATH_MAX];                 /* empty: there is none */
    char secret[CLUSTER_OPTION_SECRET_MOST + 1];
    int down; /* enum cluster_down */
    uint64_t linger_ms;
    uint64_t batch_us; /* of workers that fetch most of their streams */
    char parents[CLUSTER_OPTION_PARENTS][NODE_NAME + 1];
    size_t parent_count;
};

static inline bool cluster_options_is_on(const struct cluster_options *options) {
    return options->engine.host_count > 0;
}

/*
 * One value. Of parents, one or several, which are added to those that are there. NULL, or what is
 * expected in a few words, without any of the text. Not of the file of the secret
 */
const char *cluster_options_set(struct cluster_options *options, enum cluster_setting setting, const char *text);

/* Reads the secret: the only line of the file, of 32 to 64 characters. 0, or -errno with the
 * error's text, which has nothing of the secret */
int cluster_options_load_secret(struct cluster_options *options, const char *path, char error[SECRET_FILE_ERROR]);

/* A value as it may be written, without user and password; empty: there is none. Not of parents. */
void cluster_options_format(const struct cluster_options *options, enum cluster_setting setting,
                            char text[CLUSTER_OPTION_TEXT]);

/* Takes over what a setting has set. */
void cluster_options_copy(struct cluster_options *to, const struct cluster_options *from, enum cluster_setting setting);

/* Whether what cluster_options_format() does not show of it is the same. */
bool cluster_options_have_same_secret(const struct cluster_options *a, const struct cluster_options *b,
                                      enum cluster_setting setting);

/* Of a name or an address without brackets. False: it is none, or the port is 0 or too large. */
bool cluster_place_make(const char *host, unsigned port, struct cluster_place *ret_place);

bool cluster_place_equal(const struct cluster_place *a, const struct cluster_place *b);

/* HOST:PORT; [HOST]:PORT of IPv6 */
void cluster_place_format(const struct cluster_place *place, char *text, size_t size);

/* An address of this host, or "localhost". */
bool cluster_place_is_loopback(const struct cluster_place *place);

void cluster_options_clear(struct cluster_options *options);

#endif
