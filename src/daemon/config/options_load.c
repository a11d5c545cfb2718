#include "daemon/config/options_load.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/flv.h>

#include "daemon/access/authorize.h"
#include "daemon/base/address.h"
#include "daemon/base/cgroup.h"
#include "daemon/base/memory_default.h"
#include "daemon/config/config_file.h"
#include "daemon/config/options_listen_fds.h"
#include "daemon/config/protocol.h"

/* A default that depends on other settings. */
#define DEPENDS UINT64_MAX

#define MIB (1024ull * 1024)

struct loader {
    struct options *options;
    struct config_errors *errors;
    const struct command_line *line;
    /* the last value of each setting was read, as messages call it; NULL: a default */
    char *where[SETTINGS_MOST];
    char *listener_where[OPTIONS_MAX_LISTENERS];
    bool is_general[SETTINGS_MOST]; /* the file has a value of a setting for all streams */
    bool listens;                   /* a listener was given, or a list of none */
};

static size_t number_of(const struct setting *setting) {
    size_t number = 0;
    while (setting_at(number) != setting)
        number++;
    return number;
}

static const struct setting *named(const char *name) {
    return setting_find(name, strlen(name), false);
}

static bool is_given(const struct loader *loader, const struct setting *setting) {
    for (size_t i = 0; i < loader->line->count; i++)
        if (loader->line->values[i].setting == setting)
            return true;
    return false;
}

static void remember(struct loader *loader, char **place, const char *where) {
    char *copy = strdup(where);
    if (!copy) {
        config_errors_add(loader->errors, "%s: out of memory", where);
        return;
    }
    free(*place);
    *place = copy;
}

static void take(struct loader *loader, const struct config_value *value) {
    struct options *options = loader->options;
    const struct setting_reader reader = {options, loader->errors, value->where, value->is_private};
    size_t listeners = options->listener_count;
    loader->listens |= value->setting->kind == SETTING_LISTENER;
    remember(loader, &loader->where[number_of(value->setting)], value->where);
    if (value->text)
        (void)options_set(&reader, value->setting, value->text);
    if (options->listener_count > listeners)
        remember(loader, &loader->listener_where[listeners], value->where);
}

/* In a list of values for streams. On the command line, a later one is another. */
static void check_general(struct loader *loader, const struct config_value *value) {
    bool *is_general = &loader->is_general[number_of(value->setting)];
    if (!value->setting->by_stream || !value->text || strchr(value->text, '='))
        return;
    if (*is_general)
        config_errors_add(loader->errors,
                          "%s: expected one value for all streams, and STREAM=VALUE for some, got \"%s\"", value->where,
                          value->text);
    *is_general = true;
}

/* What the command line gives, the file does not. But it is to be right all the same. */
static void take_from_file(const struct config_value *value, void *user) {
    struct loader *loader = user;
    check_general(loader, value);
    if (!is_given(loader, value->setting)) {
        take(loader, value);
        return;
    }
    struct options *aside = options_new();
    const struct setting_reader reader = {aside, loader->errors, value->where, value->is_private};
    if (!aside)
        config_errors_add(loader->errors, "%s: out of memory", value->where);
    else if (value->text)
        (void)options_set(&reader, value->setting, value->text);
    options_unref(aside);
}

static void take_command_line(struct loader *loader) {
    for (size_t i = 0; i < loader->line->count; i++) {
        const struct command_line_value *given = &loader->line->values[i];
        char where[80];
        snprintf(where, sizeof where, "--%s", given->setting->name);
        const struct config_value value = {given->setting, where, given->text, true};
        take(loader, &value);
    }
}

static void set_preset(struct loader *loader, const struct setting *setting) {
    const struct setting_reader reader = {loader->options, loader->errors, setting->name, true};
    if (setting->preset)
        (void)options_set(&reader, setting, setting->preset);
}

static void set_presets(struct loader *loader, bool listeners) {
    const struct setting *setting;
    for (size_t i = 0; (setting = setting_at(i)); i++)
        if (setting->kind != SETTING_COMMAND && setting->kind != SETTING_ADMIN &&
            (setting->kind == SETTING_LISTENER) == listeners)
            set_preset(loader, setting);
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Where it was said; where it was not, as the help calls it. */
static const char *where_of(const struct loader *loader, const char *name, char *buffer, size_t size) {
    const char *where = loader->where[number_of(named(name))];
    snprintf(buffer, size, "--%s", name);
    return where ? where : buffer;
}

static void check_listeners(struct loader *loader) {
    const struct options *options = loader->options;
    const struct credentials by = options_credentials(options);
    for (size_t i = 0; i < options->listener_count && !options->allow_remote; i++) {
        const struct listener_option *listener = &options->listeners[i];
        const char *where = loader->listener_where[i] ? loader->listener_where[i] : "the service manager's socket";
        char text[ADDRESS_TEXT];
        address_format(&listener->address, text);
        if (!address_is_loopback(&listener->address) && !authorize_is_guarded(&by))
            config_errors_add(
                loader->errors,
                "%s: expected a loopback address, or rules that ask for credentials or name addresses, or "
                "allow-remote, got \"%s\"",
                where, text);
    }
}

/* A TLS listener needs a certificate. */
static void check_tls(struct loader *loader) {
    const struct options *options = loader->options;
    char where[80];
    for (size_t i = 0; i < options->listener_count && options->tls.certificate_count == 0; i++)
        if (options->listeners[i].tls)
            config_errors_add(loader->errors, "%s: expected a certificate (tls-certificate) for a TLS listener",
                              loader->listener_where[i] ? loader->listener_where[i] : "the service manager's socket");
    for (size_t i = 0; i < options->admin.count && options->tls.certificate_count == 0; i++)
        if (options->admin.listeners[i].tls)
            config_errors_add(loader->errors, "%s: expected a certificate (tls-certificate) for a TLS listener",
                              where_of(loader, "admin", where, sizeof where));
}

/* The administration controls everything, so even allow-remote does not open it to all. */
static void check_admin(struct loader *loader) {
    const struct admin_options *admin = &loader->options->admin;
    char where[80], text[ADDRESS_TEXT];
    for (size_t i = 0; i < admin->count && !*admin->token_file; i++) {
        if (admin->listeners[i].is_open)
            config_errors_add(loader->errors,
                              "socket unix:%s of the service manager: expected one that is its owner's alone "
                              "(SocketMode=0600), or admin-token-file: others may write to it, and would do everything",
                              admin->listeners[i].path);
        if (admin->listeners[i].is_unix || address_is_loopback(&admin->listeners[i].address))
            continue;
        address_format(&admin->listeners[i].address, text);
        config_errors_add(loader->errors, "%s: expected a loopback address, or admin-token-file, got \"%s\"",
                          where_of(loader, "admin", where, sizeof where), text);
    }
}

/* What other nodes pull from. Without a secret, whoever reaches it could pull without rights. */
static void check_advertised(struct loader *loader) {
    const struct options *options = loader->options;
    const struct cluster_options *cluster = &options->cluster;
    const struct listener_option *only = NULL;
    bool is_local = !*cluster->advertise.host || cluster_place_is_loopback(&cluster->advertise);
    size_t count = 0;
    char where[80];
    for (size_t i = 0; i < options->listener_count; i++) {
        if (options->listeners[i].protocol != protocol_find("http"))
            continue;
        only = &options->listeners[i];
        is_local &= address_is_loopback(&only->address);
        count++;
    }
    if (count == 0)
        config_errors_add(loader->errors, "%s: expected a listener of HTTP (http), which other nodes pull from",
                          where_of(loader, "cluster", where, sizeof where));
    else if (!*cluster->advertise.host && (count > 1 || address_is_any(&only->address)))
        config_errors_add(loader->errors,
                          "%s: expected the address that other nodes pull from (advertise), since http is not one "
                          "listener with one address",
                          where_of(loader, "cluster", where, sizeof where));
    else if (!is_local && !*cluster->secret)
        config_errors_add(loader->errors,
                          "%s: expected a secret of all nodes (cluster-secret-file), since the advertised address or a "
                          "listener of HTTP is not loopback",
                          where_of(loader, "cluster", where, sizeof where));
}

static void check_cluster(struct loader *loader) {
    const struct cluster_options *cluster = &loader->options->cluster;
    char where[80];
    if (!cluster_options_is_on(cluster))
        return;
    check_advertised(loader);
    for (size_t i = 0; i < cluster->parent_count; i++)
        if (strcmp(cluster->parents[i], cluster->node) == 0)
            config_errors_add(loader->errors, "%s: expected other nodes, got \"%s\", which is this one",
                              where_of(loader, "cluster-parent", where, sizeof where), cluster->node);
}

/* What a rule names is to be there. */
static void check_rule(struct loader *loader, const struct rule *rule) {
    const struct options *options = loader->options;
    for (size_t i = 0; i < rule->way_count; i++) {
        const char *name = rule->way[i].name;
        if (rule->way[i].way == RULE_USER && !options->users)
            config_errors_add(loader->errors, "%s: expected a file of users (rtsp-users), since it asks for one",
                              rule->where);
        else if (rule->way[i].way == RULE_USER && name && !users_find(options->users, name, strlen(name)))
            config_errors_add(loader->errors, "%s: expected a user of %s, got \"%s\"", rule->where, options->rtsp_users,
                              name);
        else if (rule->way[i].way == RULE_CERT && !options->tls.client_ca)
            config_errors_add(loader->errors,
                              "%s: expected issuers of client certificates (tls-client-ca), since it asks for one",
                              rule->where);
        else if (rule->way[i].way & (RULE_TOKEN | RULE_SECRET) && !options->keys)
            config_errors_add(loader->errors, "%s: expected a file of keys (token-keys), since it names one",
                              rule->where);
        else if (rule->way[i].way & (RULE_TOKEN | RULE_SECRET) && !users_find(options->keys, name, strlen(name)))
            config_errors_add(loader->errors, "%s: expected a key of %s, got \"%s\"", rule->where, options->token_keys,
                              name);
    }
}

static void check_rules(struct loader *loader) {
    for (size_t i = 0; i < loader->options->rules.count; i++)
        check_rule(loader, &loader->options->rules.list[i]);
}

static uint64_t most(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* The cores that this process may run on, and no more than its control groups let it use; of a part
 * of one, one. */
static uint64_t usable_cores(void) {
    struct cgroup_limits limits;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) < 0)
        return 1;
    cgroup_read("", &limits);
    uint64_t cores = least((uint64_t)CPU_COUNT(&set), OPTIONS_MAX_WORKERS);
    return most(least(cores, limits.milli_cpus / 1000 + (limits.milli_cpus % 1000 > 0)), 1);
}

static uint64_t default_memory(uint64_t workers) {
    struct cgroup_limits limits;
    cgroup_read("", &limits);
    return memory_default(memory_of_machine(), limits.memory, workers);
}

/* A worker's share of the memory. */
static uint64_t complete_memory(struct loader *loader) {
    struct options *options = loader->options;
    char where[80];
    if (options->memory == DEPENDS)
        options->memory = default_memory(options->workers);
    uint64_t share = options->memory / options->workers;
    if (share < MIB)
        config_errors_add(loader->errors, "%s: expected at least 1M for each of %llu workers, got %llu bytes",
                          where_of(loader, "memory", where, sizeof where), (unsigned long long)options->workers,
                          (unsigned long long)options->memory);
    return share;
}

/* Where all streams have less, some may not have more. */
static void check_frame_limits(struct loader *loader, uint64_t most) {
    const struct stream_policies *streams = &loader->options->streams;
    char where[80];
    for (size_t i = 0; i < streams->count; i++)
        if (streams->list[i].field == offsetof(struct stream_policy, frame_limit) &&
            streams->list[i].value.number > most)
            config_errors_add(loader->errors,
                              "%s: expected at most half of a worker's share of memory (%llu bytes), got %llu for %s",
                              where_of(loader, "frame-limit", where, sizeof where), (unsigned long long)most,
                              (unsigned long long)streams->list[i].value.number, streams->list[i].pattern);
}

/* What only the sizes together can say, or get wrong. Of single streams, what is too large for
 * their player-buffer is less: see stream_policies_find(). */
static void complete_sizes(struct loader *loader) {
    struct stream_policy *all = &loader->options->streams.all;
    char where[80];
    uint64_t share = complete_memory(loader);
    if (share < MIB)
        return;
    if (all->gop_size == DEPENDS)
        all->gop_size = least(8u << 20, all->player_buffer);
    if (all->frame_limit == DEPENDS)
        all->frame_limit = least(SLUICE_FLV_DEFAULT_LIMIT, least(all->player_buffer, share / 2));
    if (all->gop_size > all->player_buffer)
        config_errors_add(loader->errors, "%s: expected at most player-buffer (%llu bytes), got %llu",
                          where_of(loader, "gop-size", where, sizeof where), (unsigned long long)all->player_buffer,
                          (unsigned long long)all->gop_size);
    if (all->frame_limit > all->player_buffer || all->frame_limit > share / 2)
        config_errors_add(loader->errors,
                          "%s: expected at most player-buffer and half of a worker's share of memory, got %llu",
                          where_of(loader, "frame-limit", where, sizeof where), (unsigned long long)all->frame_limit);
    check_frame_limits(loader, share / 2);
}

/* Of numbers, choices and flags, of the administration and the cluster; what has memory of its own
 * is never kept. */
static bool keep_field(struct options *options, const struct options *in_force, const struct setting *setting) {
    if (setting->kind == SETTING_ADMIN || setting->kind == SETTING_ADMIN_TOKEN) {
        options->admin = in_force->admin;
        return true;
    }
    if (setting->kind == SETTING_RECORD) {
        record_options_clear(&options->record);
        for (size_t i = 0; i < in_force->record.rule_count; i++)
            if (record_options_add(&options->record, in_force->record.rules[i].text))
                return false;
        return true;
    }
    if (setting->kind == SETTING_CLUSTER) {
        cluster_options_copy(&options->cluster, &in_force->cluster, (enum cluster_setting)setting->detail);
        return true;
    }
    void *to = (char *)options + setting->field;
    const void *from = (const char *)in_force + setting->field;
    memcpy(to, from,
           setting->kind == SETTING_FLAG     ? sizeof(bool)
           : setting->kind == SETTING_CHOICE ? sizeof(int)
                                             : sizeof(uint64_t));
    return true;
}

struct keeping {
    struct options *options;
    const struct options *in_force;
    options_kept_fn *kept;
    void *user;
    bool failed; /* no memory */
};

static void keep(const struct setting *setting, const char *from, const char *to, void *user) {
    struct keeping *keeping = user;
    if (setting->effect != SETTING_RESTART)
        return;
    keeping->failed |= !keep_field(keeping->options, keeping->in_force, setting);
    keeping->kept(setting, from, to, keeping->user);
}

static void read_all(struct loader *loader) {
    const struct command_line *line = loader->line;
    bool readable = true;
    set_presets(loader, false);
    loader->options->workers = usable_cores();
    loader->options->memory = loader->options->streams.all.gop_size = loader->options->streams.all.frame_limit =
        DEPENDS;
    if (line->config)
        readable = config_file_read(line->config, take_from_file, loader, loader->errors);
    take_command_line(loader);
    loader->listens |= line->listen_fds && options_inherit_streams(line->listen_fds);
    if (!loader->listens)
        set_presets(loader, true);
    if (!*loader->options->cluster.node)
        node_name_of_host(loader->options->cluster.node);
    if (!loader->listens && loader->options->admin.count == 0)
        set_preset(loader, named("admin"));
    if (line->listen_fds)
        (void)options_inherit(loader->options, line->listen_fds, loader->errors);
    if (readable) {
        check_listeners(loader);
        check_admin(loader);
        check_tls(loader);
        check_rules(loader);
        check_cluster(loader);
    }
}

/* Reads and checks; false where something is wrong. */
static bool load(struct loader *loader, struct keeping *keeping) {
    struct options *options = loader->options;
    size_t before = loader->errors->count;
    if (!options)
        return config_errors_add(loader->errors, "out of memory");
    read_all(loader);
    uint64_t gop_size = options->streams.all.gop_size, frame_limit = options->streams.all.frame_limit;
    if (loader->errors->count == before)
        complete_sizes(loader);
    if (loader->errors->count == before && keeping) {
        if (!options_each_change(keeping->in_force, options, keep, keeping) || keeping->failed)
            return config_errors_add(loader->errors, "out of memory");
        options->streams.all.gop_size = gop_size;
        options->streams.all.frame_limit = frame_limit;
        complete_sizes(loader);
        /* The administration's listeners have been kept. */
        check_tls(loader);
    }
    return loader->errors->count == before;
}

static void clear(struct loader *loader) {
    for (size_t i = 0; i < SETTINGS_MOST; i++)
        free(loader->where[i]);
    for (size_t i = 0; i < OPTIONS_MAX_LISTENERS; i++)
        free(loader->listener_where[i]);
}

const struct options *options_load(const struct command_line *line, const struct options *in_force,
                                   options_kept_fn *kept, void *user, struct config_errors *errors) {
    struct loader loader = {.options = options_new(), .errors = errors, .line = line};
    struct keeping keeping = {loader.options, in_force, kept, user, false};
    bool good = load(&loader, in_force ? &keeping : NULL);
    clear(&loader);
    if (good)
        return loader.options;
    options_unref(loader.options);
    return NULL;
}

static bool print(const struct loader *loader, const struct setting *setting, FILE *out) {
    const char *where = loader->where[number_of(setting)];
    char *value = options_value(loader->options, setting);
    if (!value)
        return config_errors_add(loader->errors, "%s: out of memory", setting->name);
    bool is_empty = strcmp(value, "\"\"") == 0;
    /* What messages call the place ends with the setting's name. */
    int length = where ? (int)(strlen(where) - strlen(setting->name) - 2) : 0;
    if (is_given(loader, setting))
        where = "the command line";
    else if (!where)
        where = "default";
    else
        where = NULL;
    fprintf(out, "%s%s = %s; # %.*s\n", is_empty ? "# " : "", setting->name, value, where ? INT_MAX : length,
            where ? where : loader->where[number_of(setting)]);
    free(value);
    return true;
}

bool options_print(const struct command_line *line, FILE *out, struct config_errors *errors) {
    struct loader loader = {.options = options_new(), .errors = errors, .line = line};
    bool good = load(&loader, NULL);
    const struct setting *setting;
    for (size_t i = 0; good && (setting = setting_at(i)); i++)
        if (setting->kind != SETTING_COMMAND)
            good = print(&loader, setting, out);
    clear(&loader);
    options_unref(loader.options);
    return good;
}
