/* From a setting to text. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/address.h"
#include "daemon/config/options.h"
#include "daemon/config/protocol.h"
#include "daemon/config/setting_words.h"
#include "daemon/relay/coalesce.h"
#include "shared/json.h"

/* libconfig and JSON write all but two things alike: strings, and sizes, which are bytes in
 * JSON. */
struct text {
    FILE *out;
    bool is_json;
};

static void put_string(const struct text *to, const char *text) {
    if (to->is_json) {
        json_print_string(to->out, text);
        return;
    }
    fputc('"', to->out);
    for (; *text; text++) {
        if (strchr("\"\\", *text))
            fprintf(to->out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(to->out, "\\x%02x", (unsigned char)*text);
        else
            fputc(*text, to->out);
    }
    fputc('"', to->out);
}

/* The next one of a list. */
static void put_item(const struct text *to, size_t *count, const char *text) {
    fputs((*count)++ > 0 ? ", " : "[", to->out);
    put_string(to, text);
}

static void end_list(const struct text *to, size_t count) {
    fputs(count > 0 ? "]" : "[]", to->out);
}

static void put_listeners(const struct text *to, const struct options *options, const struct setting *setting) {
    size_t count = 0;
    for (size_t i = 0; i < options->listener_count; i++) {
        const struct listener_option *listener = &options->listeners[i];
        char address[ADDRESS_TEXT], text[ADDRESS_TEXT + STREAM_NAME + 32];
        if (&listener->protocol->option != setting)
            continue;
        const char *tls = listener->tls ? ",tls" : "";
        address_format(&listener->address, address);
        if (*listener->stream)
            snprintf(text, sizeof text, "%s%s=%s", address, tls, listener->stream);
        else if (listener->merge_window_ms == COALESCE_WINDOW_AUTO)
            snprintf(text, sizeof text, "%s%s,merge-window=auto", address, tls);
        else if (listener->merge_window_ms != OPTIONS_MERGE_UNSET)
            snprintf(text, sizeof text, "%s%s,merge-window=%u", address, tls, listener->merge_window_ms);
        else
            snprintf(text, sizeof text, "%s%s", address, tls);
        put_item(to, &count, text);
    }
    end_list(to, count);
}

static void put_admin(const struct text *to, const struct admin_options *admin) {
    size_t count = 0;
    for (size_t i = 0; i < admin->count; i++) {
        const struct admin_listener_option *listener = &admin->listeners[i];
        char address[ADDRESS_TEXT], text[ADDRESS_TEXT + sizeof listener->path];
        if (listener->is_unix) {
            snprintf(text, sizeof text, "unix:%s", listener->path);
        } else {
            address_format(&listener->address, address);
            snprintf(text, sizeof text, "%s%s", address, listener->tls ? ",tls" : "");
        }
        put_item(to, &count, text);
    }
    end_list(to, count);
}

static void put_certificates(const struct text *to, const struct tls_options *tls) {
    size_t count = 0;
    for (size_t i = 0; i < tls->certificate_count; i++)
        put_item(to, &count, tls->certificates[i].said);
    end_list(to, count);
}

static void put_records(const struct text *to, const struct record_options *record) {
    size_t count = 0;
    for (size_t i = 0; i < record->rule_count; i++)
        put_item(to, &count, record->rules[i].text);
    end_list(to, count);
}

/* Host and port alone: cameras take passwords in paths, too. */
static void put_pulls(const struct text *to, const struct options *options) {
    size_t count = 0;
    for (size_t i = 0; i < options->pulls.count; i++) {
        const struct pull_option *pull = &options->pulls.list[i];
        char text[PULL_PLACE + STREAM_NAME + 32];
        if (pull->from_file)
            continue;
        snprintf(text, sizeof text, "%s/...=%s%s", pull->target.place, pull->name, pull->on_demand ? ",on-demand" : "");
        put_item(to, &count, text);
    }
    end_list(to, count);
}

/* Host and port alone: the path of a platform's URL is a key. */
static void put_forwards(const struct text *to, const struct options *options) {
    size_t count = 0;
    for (size_t i = 0; i < forward_options_count(options->forwards); i++) {
        const struct forward_option *forward = &options->forwards->list[i];
        char text[PULL_PLACE + STREAM_NAME + 32];
        if (forward->from_file)
            continue;
        snprintf(text, sizeof text, "%s%s=%s/...", forward->pattern, forward_option_tracks_text(forward),
                 forward->target.place);
        put_item(to, &count, text);
    }
    end_list(to, count);
}

static void put_backups(const struct text *to, const struct backup_options *backups) {
    size_t count = 0;
    for (size_t i = 0; i < backups->count; i++) {
        char text[2 * STREAM_NAME + 2];
        snprintf(text, sizeof text, "%s=%s", backups->list[i].name, backups->list[i].other);
        put_item(to, &count, text);
    }
    end_list(to, count);
}

/* Without the path: it may hold a password. */
static void put_hook(const struct text *to, const struct hook_url *url) {
    bool is_v6 = strchr(url->host, ':');
    if (*url->host)
        fprintf(to->out, "\"http%s://%s%s%s:%u/...\"", url->is_secure ? "s" : "", is_v6 ? "[" : "", url->host,
                is_v6 ? "]" : "", url->port);
    else
        fputs("\"\"", to->out);
}

static void put_rules(const struct text *to, const struct options *options) {
    size_t count = 0;
    for (size_t i = 0; i < options->rules.count; i++)
        put_item(to, &count, options->rules.list[i].said);
    end_list(to, count);
}

static void put_origins(const struct text *to, const struct cors_origins *origins) {
    size_t count = 0;
    for (size_t i = 0; i < origins->count; i++)
        put_item(to, &count, origins->list[i]);
    end_list(to, count);
}

static void put_proxies(const struct text *to, const struct proxies *proxies) {
    size_t count = 0;
    for (size_t i = 0; i < proxies->count; i++)
        put_item(to, &count, proxies->texts[i]);
    end_list(to, count);
}

static void put_tls_ca(const struct text *to, const struct tls_client_options *tls) {
    size_t count = 0;
    if (tls->ca_system)
        put_item(to, &count, "system");
    for (size_t i = 0; i < tls->ca_count; i++)
        put_item(to, &count, tls->ca[i]);
    end_list(to, count);
}

static void put_tls_pins(const struct text *to, const struct tls_client_options *tls) {
    size_t count = 0;
    for (size_t i = 0; i < tls->pin_count; i++) {
        char text[TLS_CLIENT_PIN_TEXT];
        tls_pin_format(&tls->pins[i], text);
        put_item(to, &count, text);
    }
    end_list(to, count);
}

static void put_tls_certificate(const struct text *to, const struct tls_client_options *tls) {
    char text[2 * PATH_MAX];
    snprintf(text, sizeof text, "%s%s%s", tls->certificate ? tls->certificate : "", tls->certificate ? "," : "",
             tls->key ? tls->key : "");
    put_string(to, text);
}

static void put_cluster(const struct text *to, const struct cluster_options *cluster, enum cluster_setting setting) {
    char text[CLUSTER_OPTION_TEXT];
    size_t count = 0;
    if (setting == CLUSTER_SETTING_PARENTS) {
        for (size_t i = 0; i < cluster->parent_count; i++)
            put_item(to, &count, cluster->parents[i]);
        end_list(to, count);
        return;
    }
    cluster_options_format(cluster, setting, text);
    put_string(to, text);
}

/* A number or a choice, as it is written. */
static void format_field(const struct setting *setting, const void *field, char text[SETTING_TEXT]) {
    bool is_time = setting->kind == SETTING_SECONDS || setting->kind == SETTING_MILLISECONDS;
    if (setting->kind == SETTING_CHOICE)
        snprintf(text, SETTING_TEXT, "%s", setting_word(setting, *(const int *)field));
    else
        setting_format_number(setting, (double)*(const uint64_t *)field / (is_time ? 1000 : 1), text);
}

static void put_field(const struct text *to, const struct setting *setting, const void *field) {
    char text[SETTING_TEXT];
    format_field(setting, field, text);
    if (setting->kind == SETTING_SIZE && to->is_json)
        fprintf(to->out, "%llu", (unsigned long long)*(const uint64_t *)field);
    else if (setting->kind != SETTING_CHOICE && strspn(text, "0123456789.") == strlen(text))
        fputs(text, to->out);
    else
        put_string(to, text);
}

/* What holds for all streams, and then the exceptions. */
static void put_by_stream(const struct text *to, const struct stream_policies *streams, const struct setting *setting,
                          const void *field) {
    const size_t place = (size_t)((const char *)field - (const char *)&streams->all);
    char text[SETTING_TEXT], item[STREAM_NAME + 1 + SETTING_TEXT];
    size_t count = 0;
    format_field(setting, field, text);
    put_item(to, &count, text);
    for (size_t i = 0; i < streams->count; i++) {
        if (streams->list[i].field != place)
            continue;
        format_field(setting, &streams->list[i].value, text);
        snprintf(item, sizeof item, "%s=%s", streams->list[i].pattern, text);
        put_item(to, &count, item);
    }
    end_list(to, count);
}

static bool has_exception(const struct stream_policies *streams, const void *field) {
    const size_t place = (size_t)((const char *)field - (const char *)&streams->all);
    for (size_t i = 0; i < streams->count; i++)
        if (streams->list[i].field == place)
            return true;
    return false;
}

static void put_value(const struct text *to, const struct options *options, const struct setting *setting) {
    const void *field = (const char *)options + setting->field;
    switch (setting->kind) {
    case SETTING_COMMAND:
        break;
    case SETTING_LISTENER:
        put_listeners(to, options, setting);
        break;
    case SETTING_ADMIN:
        put_admin(to, &options->admin);
        break;
    case SETTING_ADMIN_TOKEN:
        put_string(to, options->admin.token_file);
        break;
    case SETTING_RECORD:
        put_records(to, &options->record);
        break;
    case SETTING_PULL:
        put_pulls(to, options);
        break;
    case SETTING_FORWARD:
        put_forwards(to, options);
        break;
    case SETTING_BACKUP:
        put_backups(to, &options->backups);
        break;
    case SETTING_CERTIFICATE:
        put_certificates(to, &options->tls);
        break;
    case SETTING_FILE:
    case SETTING_PULL_FILE:
    case SETTING_FORWARD_FILE:
    case SETTING_KEYS:
    case SETTING_USERS:
        put_string(to, *(char *const *)field ? *(char *const *)field : "");
        break;
    case SETTING_HOOK:
        put_hook(to, field);
        break;
    case SETTING_PROXIES:
        put_proxies(to, &options->proxies);
        break;
    case SETTING_TLS_CA:
        put_tls_ca(to, &options->tls_client);
        break;
    case SETTING_TLS_PIN:
        put_tls_pins(to, &options->tls_client);
        break;
    case SETTING_TLS_CLIENT_CERTIFICATE:
        put_tls_certificate(to, &options->tls_client);
        break;
    case SETTING_CLUSTER:
        put_cluster(to, &options->cluster, (enum cluster_setting)setting->detail);
        break;
    case SETTING_ORIGIN:
        put_origins(to, &options->origins);
        break;
    case SETTING_RULE:
        put_rules(to, options);
        break;
    case SETTING_FLAG:
        fputs(*(const bool *)field ? "true" : "false", to->out);
        break;
    default:
        if (setting->by_stream && (setting->repeats || has_exception(&options->streams, field)))
            put_by_stream(to, &options->streams, setting, field);
        else
            put_field(to, setting, field);
    }
}

static char *make(const struct options *options, const struct setting *setting, bool is_json) {
    char *text = NULL;
    size_t size;
    const struct text to = {.out = open_memstream(&text, &size), .is_json = is_json};
    if (!to.out)
        return NULL;
    put_value(&to, options, setting);
    bool failed = ferror(to.out);
    if (fclose(to.out) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

char *options_value(const struct options *options, const struct setting *setting) {
    return make(options, setting, false);
}

char *options_value_json(const struct options *options, const struct setting *setting) {
    return make(options, setting, true);
}
