#include "daemon/config/command_line.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 256 }; /* the number of the first setting, for getopt */

static void unknown(struct config_errors *errors, const char *word) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    const char *like = strncmp(name, "--", 2) == 0 ? setting_suggest(name + 2, true) : NULL;
    config_errors_add(errors, "%s: unknown option%s%s; see sluiced --help", name, like ? ", did you mean --" : "",
                      like ? like : "");
}

static bool add(struct command_line *line, const struct setting *setting, const char *text, const char *more) {
    struct command_line_value *value = &line->values[line->count];
    if (asprintf(&value->text, "%s%s", text, more) < 0)
        return false;
    value->setting = setting;
    line->count++;
    return true;
}

/* Of one setting; a pull's name may be a word of its own. */
static bool take(struct command_line *line, const struct setting *setting, int argc, char **argv) {
    if (setting->kind != SETTING_COMMAND) {
        bool has_more = setting->kind == SETTING_PULL && optind < argc && *argv[optind] == '=';
        return add(line, setting, optarg ? optarg : "true", has_more ? argv[optind++] : "");
    }
    if (setting->detail == COMMAND_CONFIG) {
        line->config = optarg;
        return true;
    }
    if (setting->detail == COMMAND_SIGN)
        line->sign = optarg;
    line->command = (enum setting_command)setting->detail;
    return true;
}

static bool takes_value(const struct setting *setting) {
    return setting->value != NULL;
}

bool command_line_parse(int argc, char **argv, struct config_errors *errors, struct command_line *ret_line) {
    struct option options[SETTINGS_MOST + 1] = {{0}};
    const struct setting *setting;
    for (size_t i = 0; i < SETTINGS_MOST && (setting = setting_at(i)); i++)
        options[i] = (struct option){setting->name, takes_value(setting) ? required_argument : no_argument, NULL,
                                     FIRST + (int)i};
    *ret_line = (struct command_line){.values = calloc((size_t)argc, sizeof *ret_line->values), .words = argv};
    if (!ret_line->values)
        return config_errors_add(errors, "out of memory");
    opterr = 0;
    optind = 0;
    int id;
    while ((id = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (id == '?' && optopt >= FIRST)
            config_errors_add(errors, "--%s: expected no value; see sluiced --help",
                              setting_at((size_t)(optopt - FIRST))->name);
        else if (id == '?')
            unknown(errors, argv[optind - 1]);
        else if (id == ':')
            config_errors_add(errors, "%s: a value is missing; see sluiced --help", argv[optind - 1]);
        else if (!take(ret_line, setting_at((size_t)(id - FIRST)), argc, argv))
            config_errors_add(errors, "out of memory");
    }
    /* What an unknown option was to have is no problem of its own. */
    for (int i = optind; i < argc && errors->count == 0; i++)
        config_errors_add(errors, "%s: unexpected argument; see sluiced --help", argv[i]);
    return errors->count == 0;
}

void command_line_clear(struct command_line *line) {
    for (size_t i = 0; i < line->count; i++) {
        explicit_bzero(line->values[i].text, strlen(line->values[i].text));
        free(line->values[i].text);
    }
    free(line->values);
    *line = (struct command_line){0};
}
