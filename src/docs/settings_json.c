/*
 * Prints the table of settings as JSON for tools/settings-docs, which writes the documents from it.
 * It is a program of its own, so that the daemon has no option that only the build uses.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/config/cluster_option.h"
#include "daemon/config/setting.h"
#include "daemon/config/setting_words.h"
#include "shared/json.h"

static const char *const effects[] = {
    [SETTING_NOW] = "now",
    [SETTING_LATER] = "later",
    [SETTING_RESTART] = "restart",
};

/* What the kind is to the documents. */
static const char *kind_of(const struct setting *setting) {
    if (setting->kind == SETTING_CLUSTER && setting->detail == CLUSTER_SETTING_SECRET_FILE)
        return "file";
    switch (setting->kind) {
    case SETTING_COMMAND:
        return "command";
    case SETTING_ADMIN_TOKEN:
    case SETTING_FILE:
    case SETTING_PULL_FILE:
    case SETTING_FORWARD_FILE:
    case SETTING_USERS:
    case SETTING_KEYS:
        return "file";
    case SETTING_SIZE:
        return "size";
    case SETTING_COUNT:
    case SETTING_SECONDS:
    case SETTING_MILLISECONDS:
        return "number";
    case SETTING_FLAG:
        return "flag";
    case SETTING_CHOICE:
        return "choice";
    default:
        return "text";
    }
}

static void optional(struct json *json, const char *key, const char *value) {
    if (value)
        json_put_string(json, key, value);
}

static void put_range(struct json *json, const struct setting *setting) {
    char text[SETTING_TEXT];
    setting_format_number(setting, setting->least, text);
    json_put_string(json, "least", text);
    setting_format_number(setting, setting->most, text);
    json_put_string(json, "most", text);
    json_put_string(json, "unit", setting_unit(setting));
    optional(json, "word", setting->word);
}

static void put_words(struct json *json, const struct setting *setting) {
    const char *word;
    json_open(json, "words", '[');
    for (size_t i = 0; (word = setting_word_at(setting, i)); i++)
        json_put_string(json, NULL, word);
    json_close(json, ']');
}

static void put_setting(struct json *json, const struct setting *setting) {
    const char *kind = kind_of(setting);
    json_open(json, NULL, '{');
    json_put_string(json, "name", setting->name);
    json_put_string(json, "kind", kind);
    json_put_string(json, "group", setting_groups[setting->group].name);
    json_put_bool(json, "repeats", setting->repeats);
    json_put_bool(json, "by_stream", setting->by_stream);
    json_put_string(json, "effect", effects[setting->effect]);
    if (strcmp(kind, "number") == 0 || strcmp(kind, "size") == 0)
        put_range(json, setting);
    if (strcmp(kind, "choice") == 0)
        put_words(json, setting);
    optional(json, "value", setting->value);
    optional(json, "preset", setting->preset);
    optional(json, "preset_text", setting->preset_text);
    optional(json, "zero", setting->zero);
    optional(json, "sample", setting->sample);
    json_put_string(json, "help", setting->help);
    optional(json, "text", setting->text);
    json_open(json, "examples", '[');
    for (size_t i = 0; i < SETTING_EXAMPLES && setting->examples[i]; i++)
        json_put_string(json, NULL, setting->examples[i]);
    json_close(json, ']');
    json_close(json, '}');
}

int main(void) {
    const struct setting *setting;
    struct json json = {0};
    json_open(&json, NULL, '{');
    json_open(&json, "groups", '[');
    for (size_t i = 0; i < SETTING_GROUPS; i++) {
        json_open(&json, NULL, '{');
        json_put_string(&json, "name", setting_groups[i].name);
        optional(&json, "note", setting_groups[i].note);
        optional(&json, "text", setting_groups[i].text);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_open(&json, "settings", '[');
    for (size_t i = 0; (setting = setting_at(i)); i++)
        put_setting(&json, setting);
    json_close(&json, ']');
    json_close(&json, '}');
    if (json.failed || puts(json.text) < 0 || fflush(stdout) != 0)
        return EXIT_FAILURE;
    free(json.text);
    return EXIT_SUCCESS;
}
