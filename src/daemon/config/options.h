/*
 * The daemon's options, from the command line and the configuration file. They are immutable: a
 * reload makes new ones, and users of the old ones keep a reference.
 */
#ifndef SLUICED_OPTIONS_H
#define SLUICED_OPTIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include <sluice/loop.h>

#include "daemon/access/authorize.h"
#include "daemon/access/cors.h"
#include "daemon/access/proxies.h"
#include "daemon/access/rule.h"
#include "daemon/access/users.h"
#include "daemon/base/config_errors.h"
#include "daemon/base/hook_url.h"
#include "daemon/base/stream_name.h"
#include "daemon/config/admin_option.h"
#include "daemon/config/backup_option.h"
#include "daemon/config/cluster_option.h"
#include "daemon/config/forward_option.h"
#include "daemon/config/pull_option.h"
#include "daemon/config/setting.h"
#include "daemon/config/tls_client_option.h"
#include "daemon/config/tls_option.h"
#include "daemon/recording/record_store.h"
#include "daemon/relay/stream_policy.h"

enum {
    OPTIONS_MAX_LISTENERS = 64,
    OPTIONS_MAX_WORKERS = 256,
    OPTIONS_MERGE_UNSET = UINT16_MAX,
};

struct protocol;

struct listener_option {
    const struct protocol *protocol;
    struct sockaddr_storage address;
    /* of publishers that cannot name it; empty: the protocol names it */
    char stream[STREAM_NAME + 1];
    /* of its players: may be COALESCE_WINDOW_AUTO; or OPTIONS_MERGE_UNSET */
    uint16_t merge_window_ms;
    bool tls;        /* its connections begin with a TLS handshake */
    int fd;          /* at the start: a socket that listens there already; 0: none */
    bool is_managed; /* the socket is the service manager's */
};

struct options {
    atomic_uint references;
    struct listener_option listeners[OPTIONS_MAX_LISTENERS];
    size_t listener_count;
    struct pull_options pulls; /* of pull and of pull-file */
    char *pull_file;           /* or NULL */
    struct backup_options backups;
    struct forward_options *forwards; /* of forward and of forward-file; NULL: there are none */
    char *forward_file;               /* or NULL */
    char *rtsp_users;                 /* a file's name, or NULL */
    struct users *users;              /* what was in it, or NULL */
    struct admin_options admin;
    struct tls_options tls;
    char *acme_root; /* a directory, or NULL */
    struct rules rules;
    char *token_keys;   /* a file's name, or NULL */
    struct users *keys; /* what was in it: names and keys; or NULL */
    struct record_options record;
    struct cors_origins origins;
    struct proxies proxies;
    struct hook_url hooks[HOOK_KINDS];
    struct tls_client_options tls_client; /* of pulls, forwards, hooks and the cluster */
    struct cluster_options cluster;
    uint64_t hook_ms;
    bool allow_remote;
    uint64_t obs_tracks;      /* of video, in a configuration for OBS */
    uint64_t obs_bitrate;     /* likewise: kbit/s of all of them */
    uint64_t workers;         /* threads */
    uint64_t memory;          /* bytes, of all workers together */
    uint64_t max_connections; /* at a time */
    uint64_t max_per_address; /* connections of one address; 0: no limit of its own */
    uint64_t max_streams;     /* of all workers together; 0: no limit */
    /* players of a stream that its worker serves before others do; 0: all */
    uint64_t spread;
    struct stream_policies streams; /* what may be otherwise for some */
    uint64_t merge_window_most;     /* of automatic ones, milliseconds; 0: they are none */
    uint64_t batch_us;
    uint64_t unwatched_ms; /* see relay/unwatched.h; 0: as bytes come */
    uint64_t drain_ms;
    int backend; /* sluice_backend_choice */
    bool status;
    int log_level;     /* enum log_level */
    int log_format;    /* enum log_format */
    uint64_t log_rate; /* lines of the same message a second; 0: no limit */
};

/* Any thread. The last one to let go frees it, and forgets the passwords. NULL is allowed. */
const struct options *options_ref(const struct options *options);
void options_unref(const struct options *options);

/* By what clients are authorized; as long as the options. */
static inline struct credentials options_credentials(const struct options *options) {
    return (struct credentials){&options->rules, options->users, options->keys};
}

/*
 * The merge window of a player, milliseconds or COALESCE_WINDOW_AUTO: its stream's, or else its
 * listener's, or else everybody's. @listener_ms: OPTIONS_MERGE_UNSET where the listener has none
 */
uint32_t options_merge_window(const struct options *options, const char *stream, uint16_t listener_ms);

/* A value as the file has it, without passwords. Freed by the caller; NULL without memory. */
char *options_value(const struct options *options, const struct setting *setting);

/* The same as JSON: sizes in bytes, and a list where there may be several values. */
char *options_value_json(const struct options *options, const struct setting *setting);

/* Calls for each setting that is not the same in both. False where there was no memory to compare
 * some. */
bool options_each_change(const struct options *from, const struct options *to,
                         void (*call)(const struct setting *setting, const char *from, const char *to, void *user),
                         void *user);

/* For the code that makes options: all zero except the one reference. NULL without memory */
struct options *options_new(void);

/*
 * For the code that makes options: a value of a setting. @where: its source, for messages;
 * @is_private: no other user can have read it there. Returns false if it is invalid, after adding
 * an error.
 */
struct setting_reader {
    struct options *options;
    struct config_errors *errors;
    const char *where;
    bool is_private;
};
bool options_set(const struct setting_reader *reader, const struct setting *setting, const char *text);

#endif
