/* From text to a setting. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/address.h"
#include "daemon/base/log.h"
#include "daemon/config/options.h"
#include "daemon/config/protocol.h"
#include "daemon/config/setting_words.h"

static const uint64_t KIB = 1024, MIB = 1024 * 1024, GIB = 1024 * 1024 * 1024;

static bool wrong(const struct setting_reader *reader, const char *text, const char *expected) {
    return config_errors_add(reader->errors, "%s: expected %s, got \"%s\"", reader->where, expected, text);
}

static bool wrong_value(const struct setting_reader *reader, const struct setting *setting, const char *text) {
    char buffer[SETTING_TEXT];
    return wrong(reader, text, setting_expected(setting, buffer));
}

static bool parse_number(const struct setting *setting, const char *text, uint64_t *ret_value) {
    bool fractions = setting->kind == SETTING_SECONDS || setting->kind == SETTING_MILLISECONDS;
    char *end;
    if (setting->word && strcmp(text, setting->word) == 0) {
        *ret_value = setting->word_value;
        return true;
    }
    if (*text < '0' || *text > '9')
        return false;
    double value = fractions ? strtod(text, &end) : (double)strtoull(text, &end, 10);
    if (setting->kind == SETTING_SIZE && *end) {
        const char *suffix = strchr("KMG", *end);
        if (!suffix || end[1])
            return false;
        value *= (double)(*suffix == 'K' ? KIB : *suffix == 'M' ? MIB : GIB);
        end++;
    }
    if (*end || !(value >= setting->least && value <= setting->most))
        return false;
    *ret_value = (uint64_t)(value * (fractions ? 1000 : 1) + 0.5);
    return true;
}

static void *field_of(const struct setting_reader *reader, const struct setting *setting) {
    return (char *)reader->options + setting->field;
}

static bool set_flag(const struct setting_reader *reader, const struct setting *setting, const char *text) {
    bool *flag = field_of(reader, setting);
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        return wrong_value(reader, setting, text);
    *flag = *text == 't';
    return true;
}

/* A number or a choice, as a field has it. */
static bool parse_field(const struct setting *setting, const char *text, void *ret_value) {
    if (setting->kind != SETTING_CHOICE)
        return parse_number(setting, text, ret_value);
    int value = setting_word_value(setting, text);
    if (value < 0)
        return false;
    *(int *)ret_value = value;
    return true;
}

static bool set_field(const struct setting_reader *reader, const struct setting *setting, const char *text) {
    return parse_field(setting, text, field_of(reader, setting)) || wrong_value(reader, setting, text);
}

/* STREAM=VALUE */
static bool set_by_stream(const struct setting_reader *reader, const struct setting *setting, const char *text,
                          const char *equals) {
    union {
        uint64_t number;
        int choice;
    } value;
    size_t length = (size_t)(equals - text), size = setting->kind == SETTING_CHOICE ? sizeof(int) : sizeof(uint64_t);
    if (!stream_pattern_is_valid(text, length))
        return wrong(reader, text, "a stream's name before \"=\", such as live/cam or live/*");
    if (!parse_field(setting, equals + 1, &value))
        return wrong_value(reader, setting, text);
    int error = stream_policies_add(&reader->options->streams, text, length,
                                    setting->field - offsetof(struct options, streams.all), &value, size);
    if (error == -ENOSPC)
        return wrong(reader, text, "at most 1024 values for streams");
    return !error || config_errors_add(reader->errors, "%s: out of memory", reader->where);
}

static bool set_file(const struct setting_reader *reader, const struct setting *setting, const char *text) {
    if (!*text)
        return wrong_value(reader, setting, text);
    char **field = field_of(reader, setting), *copy = strdup(text);
    if (!copy)
        return config_errors_add(reader->errors, "%s: out of memory", reader->where);
    free(*field);
    *field = copy;
    return true;
}

static bool set_users(const struct setting_reader *reader, const struct setting *setting, const char *text) {
    struct users **place = setting->kind == SETTING_KEYS ? &reader->options->keys : &reader->options->users;
    char error[USERS_ERROR];
    struct users *users;
    if (!set_file(reader, setting, text))
        return false;
    if (users_load(text, &users, error) < 0)
        return config_errors_add(reader->errors, "%s: %s", reader->where, error);
    users_free(*place);
    *place = users;
    return true;
}

static bool set_hook(const struct setting_reader *reader, const struct setting *setting, const char *text) {
    /* The text is not shown: it may hold a password. */
    return hook_url_parse(text, field_of(reader, setting)) == 0 ||
           config_errors_add(reader->errors, "%s: expected %s", reader->where, setting->expected);
}

static bool add_rule(const struct setting_reader *reader, const char *text) {
    const char *error = rules_add(&reader->options->rules, text, reader->where);
    return !error || config_errors_add(reader->errors, "%s: %s, got \"%s\"", reader->where, error, text);
}

static bool set_pull_file(const struct setting_reader *reader, const struct setting *setting, const char *text) {
    struct options *options = reader->options;
    char error[SECRET_FILE_ERROR];
    if (!set_file(reader, setting, text))
        return false;
    if (pull_options_load(&options->pulls, text, error) < 0)
        return config_errors_add(reader->errors, "%s: %s", reader->where, error);
    return true;
}

/* Nothing of what is wrong is shown: it may hold a password. */
static bool add_pull(const struct setting_reader *reader, const char *text) {
    struct pull_options *pulls = &reader->options->pulls;
    const char *error = pull_options_add(pulls, text);
    if (!error && pulls->list[pulls->count - 1].has_user && !reader->is_private)
        error = "a password in a file that others may read: chmod 600, or put it into a pull-file";
    return !error || config_errors_add(reader->errors, "%s: %s", reader->where, error);
}

static bool set_forward_file(const struct setting_reader *reader, const struct setting *setting, const char *text) {
    char error[SECRET_FILE_ERROR];
    if (!set_file(reader, setting, text))
        return false;
    return forward_options_load(&reader->options->forwards, text, error) == 0 ||
           config_errors_add(reader->errors, "%s: %s", reader->where, error);
}

/* Nothing of what is wrong is shown: it may hold a password or a key. */
static bool add_forward(const struct setting_reader *reader, const char *text) {
    struct forward_options **forwards = &reader->options->forwards;
    const char *error = forward_options_add(forwards, text);
    if (!error && (*forwards)->list[(*forwards)->count - 1].has_user && !reader->is_private)
        error = "a password in a file that others may read: chmod 600, or put it into a forward-file";
    return !error || config_errors_add(reader->errors, "%s: %s", reader->where, error);
}

/* Nothing of what is wrong with the engine's URL is shown: it may hold a password. */
static bool set_cluster(const struct setting_reader *reader, const struct setting *setting, const char *text) {
    struct cluster_options *cluster = &reader->options->cluster;
    const enum cluster_setting which = (enum cluster_setting)setting->detail;
    char error[SECRET_FILE_ERROR];
    if (which == CLUSTER_SETTING_SECRET_FILE)
        return cluster_options_load_secret(cluster, text, error) == 0 ||
               config_errors_add(reader->errors, "%s: %s", reader->where, error);
    const char *expected = cluster_options_set(cluster, which, text);
    if (expected && which != CLUSTER_SETTING_ENGINE)
        return wrong(reader, text, expected);
    if (expected)
        return config_errors_add(reader->errors, "%s: expected %s", reader->where, expected);
    return which != CLUSTER_SETTING_ENGINE || !cluster->engine.has_login || reader->is_private ||
           config_errors_add(reader->errors, "%s: a password in a file that others may read: chmod 600", reader->where);
}

static bool add_backup(const struct setting_reader *reader, const char *text) {
    const char *error = backup_options_add(&reader->options->backups, text);
    return !error || config_errors_add(reader->errors, "%s: %s, got \"%s\"", reader->where, error, text);
}

/* A listener's is what the setting of that name takes. */
static bool parse_merge_window(const char *text, uint16_t *ret_window_ms) {
    static const char name[] = "merge-window";
    uint64_t value;
    if (!parse_number(setting_find(name, sizeof name - 1, false), text, &value))
        return false;
    *ret_window_ms = (uint16_t)value;
    return true;
}

/* What comes behind a comma behind the address of a listener. */
static bool set_property(const struct setting_reader *reader, struct listener_option *listener, const char *text,
                         const char *property, size_t length) {
    static const char tls[] = "tls", merge[] = "merge-window=";
    char value[SETTING_TEXT];
    if (length == sizeof tls - 1 && memcmp(property, tls, length) == 0) {
        listener->tls = true;
        return true;
    }
    if (!listener->protocol->serves_players)
        return wrong(reader, text, "\"tls\" behind \",\"");
    if (length < sizeof merge || length >= sizeof value || memcmp(property, merge, sizeof merge - 1) != 0)
        return wrong(reader, text, "\"tls\" or \"merge-window=MS\" behind \",\"");
    snprintf(value, sizeof value, "%.*s", (int)(length - (sizeof merge - 1)), property + sizeof merge - 1);
    return parse_merge_window(value, &listener->merge_window_ms) ||
           wrong(reader, text, "auto, or milliseconds from 0 to 350, behind \"merge-window=\"");
}

static bool add_listener(const struct setting_reader *reader, const struct setting *setting, const char *text) {
    struct options *options = reader->options;
    const struct protocol *protocol = protocol_find(setting->name);
    const char *const ends = protocol->names_stream ? ",=" : ",";
    if (options->listener_count == OPTIONS_MAX_LISTENERS)
        return wrong(reader, text, "at most 64 listeners");
    struct listener_option *listener = &options->listeners[options->listener_count];
    size_t length = strcspn(text, ends);
    const char *more = text + length;
    *listener = (struct listener_option){.protocol = protocol, .merge_window_ms = OPTIONS_MERGE_UNSET};
    if (address_parse(text, length, &listener->address) < 0)
        return wrong_value(reader, setting, text);
    for (; *more == ','; more += length) {
        length = strcspn(++more, ends);
        if (!set_property(reader, listener, text, more, length))
            return false;
    }
    if (*more) {
        if (!stream_name_is_valid(more + 1, strlen(more + 1)))
            return wrong(reader, text, "a stream name such as live/cam behind \"=\"");
        strcpy(listener->stream, more + 1);
    }
    options->listener_count++;
    return true;
}

static bool add_admin(const struct setting_reader *reader, const struct setting *setting, const char *text) {
    int error = admin_options_add(&reader->options->admin, text);
    if (error == -ENOSPC)
        return wrong(reader, text, "at most 8 listeners");
    return !error || wrong_value(reader, setting, text);
}

static bool set_admin_token(const struct setting_reader *reader, const struct setting *setting, const char *text) {
    struct admin_options *admin = &reader->options->admin;
    size_t length = strlen(text);
    if (length == 0 || length >= sizeof admin->token_file)
        return wrong_value(reader, setting, text);
    memcpy(admin->token_file, text, length + 1);
    return true;
}

static bool add_record(const struct setting_reader *reader, const char *text) {
    const char *expected = record_options_add(&reader->options->record, text);
    return !expected || wrong(reader, text, expected);
}

static bool add_certificate(const struct setting_reader *reader, const char *text) {
    const char *expected = tls_options_add(&reader->options->tls, text, reader->where);
    return !expected || wrong(reader, text, expected);
}

static bool add_origin(const struct setting_reader *reader, const char *text) {
    const char *expected = cors_add(&reader->options->origins, text);
    return !expected || wrong(reader, text, expected);
}

static bool add_proxies(const struct setting_reader *reader, const char *text) {
    const char *expected = proxies_add(&reader->options->proxies, text);
    return !expected || wrong(reader, text, expected);
}

/* @expected: NULL: it is right */
static bool check(const struct setting_reader *reader, const char *text, const char *expected) {
    return !expected || wrong(reader, text, expected);
}

bool options_set(const struct setting_reader *reader, const struct setting *setting, const char *text) {
    const char *equals = setting->by_stream ? strchr(text, '=') : NULL;
    if (equals)
        return set_by_stream(reader, setting, text, equals);
    switch (setting->kind) {
    case SETTING_COMMAND:
        return false;
    case SETTING_LISTENER:
        return add_listener(reader, setting, text);
    case SETTING_ADMIN:
        return add_admin(reader, setting, text);
    case SETTING_ADMIN_TOKEN:
        return set_admin_token(reader, setting, text);
    case SETTING_RECORD:
        return add_record(reader, text);
    case SETTING_PULL:
        return add_pull(reader, text);
    case SETTING_BACKUP:
        return add_backup(reader, text);
    case SETTING_PULL_FILE:
        return set_pull_file(reader, setting, text);
    case SETTING_FORWARD:
        return add_forward(reader, text);
    case SETTING_FORWARD_FILE:
        return set_forward_file(reader, setting, text);
    case SETTING_HOOK:
        return set_hook(reader, setting, text);
    case SETTING_ORIGIN:
        return add_origin(reader, text);
    case SETTING_PROXIES:
        return add_proxies(reader, text);
    case SETTING_TLS_CA:
        return check(reader, text, tls_client_options_add_ca(&reader->options->tls_client, text));
    case SETTING_TLS_PIN:
        return check(reader, text, tls_client_options_add_pin(&reader->options->tls_client, text));
    case SETTING_TLS_CLIENT_CERTIFICATE:
        return check(reader, text, tls_client_options_set_certificate(&reader->options->tls_client, text));
    case SETTING_CLUSTER:
        return set_cluster(reader, setting, text);
    case SETTING_RULE:
        return add_rule(reader, text);
    case SETTING_FILE:
        return set_file(reader, setting, text);
    case SETTING_CERTIFICATE:
        return add_certificate(reader, text);
    case SETTING_KEYS:
    case SETTING_USERS:
        return set_users(reader, setting, text);
    case SETTING_FLAG:
        return set_flag(reader, setting, text);
    default:
        return set_field(reader, setting, text);
    }
}
