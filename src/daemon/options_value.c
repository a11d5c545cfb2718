/* From a setting to text. */
#include <stdlib.h>
#include <string.h>

#include "daemon/address.h"
#include "daemon/options.h"
#include "daemon/setting_words.h"

/* As libconfig reads it. */
static void put_string(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++) {
        if (strchr("\"\\", *text))
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(out, "\\x%02x", (unsigned char)*text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

/* The next one of a list. */
static void put_item(FILE *out, size_t *count, const char *text) {
    fputs((*count)++ > 0 ? ", " : "[", out);
    put_string(out, text);
}

static void end_list(FILE *out, size_t count) {
    fputs(count > 0 ? "]" : "[]", out);
}

static void put_listeners(FILE *out, const struct options *options, int protocol) {
    size_t count = 0;
    for (size_t i = 0; i < options->listener_count; i++) {
        const struct listener_option *listener = &options->listeners[i];
        char address[ADDRESS_TEXT], text[ADDRESS_TEXT + STREAM_NAME + 32];
        if ((int)listener->protocol != protocol)
            continue;
        address_format(&listener->address, address);
        if (*listener->stream)
            snprintf(text, sizeof text, "%s=%s", address, listener->stream);
        else if (listener->merge_window_ms != OPTIONS_MERGE_UNSET)
            snprintf(text, sizeof text, "%s,merge-window=%u", address, listener->merge_window_ms);
        else
            snprintf(text, sizeof text, "%s", address);
        put_item(out, &count, text);
    }
    end_list(out, count);
}

static void put_admin(FILE *out, const struct admin_options *admin) {
    size_t count = 0;
    for (size_t i = 0; i < admin->count; i++) {
        const struct admin_listener_option *listener = &admin->listeners[i];
        char text[ADDRESS_TEXT + sizeof listener->path];
        if (listener->is_unix)
            snprintf(text, sizeof text, "unix:%s", listener->path);
        else
            address_format(&listener->address, text);
        put_item(out, &count, text);
    }
    end_list(out, count);
}

static void put_records(FILE *out, const struct record_options *record) {
    size_t count = 0;
    for (size_t i = 0; i < record->rule_count; i++)
        put_item(out, &count, record->rules[i].text);
    end_list(out, count);
}

/* Host and port alone: cameras take passwords in paths, too. */
static void put_pulls(FILE *out, const struct options *options) {
    size_t count = 0;
    for (size_t i = 0; i < options->pulls.count; i++) {
        const struct pull_option *pull = &options->pulls.list[i];
        char text[PULL_PLACE + STREAM_NAME + 32];
        if (pull->from_file)
            continue;
        snprintf(text, sizeof text, "%s/...=%s%s", pull->target.place, pull->name, pull->on_demand ? ",on-demand" : "");
        put_item(out, &count, text);
    }
    end_list(out, count);
}

static void put_merges(FILE *out, const struct options *options) {
    char text[STREAM_NAME + 32];
    size_t count = 0;
    snprintf(text, sizeof text, "%u", options->merge_window_ms);
    put_item(out, &count, text);
    for (size_t i = 0; i < options->merge_count; i++) {
        snprintf(text, sizeof text, "%s=%u", options->merges[i].stream, options->merges[i].window_ms);
        put_item(out, &count, text);
    }
    end_list(out, count);
}

/* Without the path: it may hold a password. */
static void put_hook(FILE *out, const struct hook_url *url) {
    bool is_v6 = strchr(url->host, ':');
    if (*url->host)
        fprintf(out, "\"http://%s%s%s:%u/...\"", is_v6 ? "[" : "", url->host, is_v6 ? "]" : "", url->port);
    else
        fputs("\"\"", out);
}

static void put_rules(FILE *out, const struct options *options) {
    size_t count = 0;
    for (size_t i = 0; i < options->rules.count; i++)
        put_item(out, &count, options->rules.list[i].said);
    end_list(out, count);
}

static void put_size(FILE *out, uint64_t size) {
    static const char units[] = {0, 'K', 'M', 'G'};
    int unit = 0;
    while (unit < 3 && size > 0 && size % 1024 == 0) {
        size /= 1024;
        unit++;
    }
    if (unit > 0)
        fprintf(out, "\"%llu%c\"", (unsigned long long)size, units[unit]);
    else
        fprintf(out, "%llu", (unsigned long long)size);
}

static void put_value(FILE *out, const struct options *options, const struct setting *setting) {
    const void *field = (const char *)options + setting->field;
    switch (setting->kind) {
    case SETTING_COMMAND:
        break;
    case SETTING_LISTENER:
        put_listeners(out, options, setting->detail);
        break;
    case SETTING_ADMIN:
        put_admin(out, &options->admin);
        break;
    case SETTING_ADMIN_TOKEN:
        put_string(out, options->admin.token_file);
        break;
    case SETTING_RECORD:
        put_records(out, &options->record);
        break;
    case SETTING_PULL:
        put_pulls(out, options);
        break;
    case SETTING_PULL_FILE:
    case SETTING_KEYS:
    case SETTING_USERS:
        put_string(out, *(char *const *)field ? *(char *const *)field : "");
        break;
    case SETTING_HOOK:
        put_hook(out, field);
        break;
    case SETTING_RULE:
        put_rules(out, options);
        break;
    case SETTING_MERGE_WINDOW:
        put_merges(out, options);
        break;
    case SETTING_SIZE:
        put_size(out, *(const uint64_t *)field);
        break;
    case SETTING_COUNT:
        fprintf(out, "%llu", (unsigned long long)*(const uint64_t *)field);
        break;
    case SETTING_SECONDS:
    case SETTING_MILLISECONDS:
        fprintf(out, "%.10g", (double)*(const uint64_t *)field / 1000);
        break;
    case SETTING_FLAG:
        fputs(*(const bool *)field ? "true" : "false", out);
        break;
    case SETTING_CHOICE:
        put_string(out, setting_word(setting, *(const int *)field));
        break;
    }
}

char *options_value(const struct options *options, const struct setting *setting) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    put_value(out, options, setting);
    bool failed = ferror(out);
    if (fclose(out) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}
