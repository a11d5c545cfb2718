#include "daemon/config/config_file.h"

#include <errno.h>
#include <libconfig.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/base/secret_file.h"

struct reading {
    const char *path;
    const char *folder; /* in which included files are */
    void (*call)(const struct config_value *value, void *user);
    void *user;
    struct config_errors *errors;
};

/*
 * The path of the file that a setting is in. The first one, which was open already, has no name;
 * included ones are called as they were written, or, by newer versions of libconfig, with the
 * folder.
 */
static void path_of(const struct reading *reading, const char *file, char path[PATH_MAX]) {
    size_t folder = strlen(reading->folder);
    bool is_whole = file && (*file == '/' || (strncmp(file, reading->folder, folder) == 0 && file[folder] == '/'));
    if (!file)
        snprintf(path, PATH_MAX, "%s", reading->path);
    else
        snprintf(path, PATH_MAX, "%s%s%s", is_whole ? "" : reading->folder, is_whole ? "" : "/", file);
}

static bool is_private(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && secret_file_is_private(path, &status);
}

/* As the command line would have it. False where it is no value. */
static bool value_text(const config_setting_t *value, char *number, size_t size, const char **ret_text) {
    *ret_text = number;
    switch (config_setting_type(value)) {
    case CONFIG_TYPE_STRING:
        *ret_text = config_setting_get_string(value);
        return true;
    case CONFIG_TYPE_BOOL:
        *ret_text = config_setting_get_bool(value) ? "true" : "false";
        return true;
    case CONFIG_TYPE_INT:
        snprintf(number, size, "%d", config_setting_get_int(value));
        return true;
    case CONFIG_TYPE_INT64:
        snprintf(number, size, "%lld", config_setting_get_int64(value));
        return true;
    case CONFIG_TYPE_FLOAT:
        snprintf(number, size, "%.10g", config_setting_get_float(value));
        return true;
    default:
        return false;
    }
}

/* The last line with that text, of those from one to the other; 0: none has it. */
static unsigned find_line(const char *file, unsigned first, unsigned last, const char *text) {
    unsigned found = 0, number = 0;
    char *line = NULL;
    size_t size = 0;
    FILE *lines = fopen(file, "re");
    while (lines && ++number <= last && getline(&line, &size, lines) >= 0)
        if (number >= first && strstr(line, text))
            found = number;
    free(line);
    if (lines)
        fclose(lines);
    return found;
}

/* The value as libconfig parsed it, for messages. */
static void read_value(const struct reading *reading, const struct setting *setting, const config_setting_t *value,
                       const config_setting_t *entry) {
    char *where, number[64], file[PATH_MAX];
    const char *text = NULL;
    path_of(reading, config_setting_source_file(entry), file);
    unsigned first = config_setting_source_line(entry), line = first;
    bool is_value = value && value_text(value, number, sizeof number, &text);
    bool too_large = false;
    if (is_value) {
        /*
         * libconfig has read on by then, because consecutive strings are joined, and may be on
         * another line. Of numbers over 31 bits it returns the lower ones, which are not the text
         * in the file.
         */
        unsigned last = config_setting_source_line(value);
        unsigned found = find_line(file, first, last > first ? last : first, text);
        line = found ? found : last > first ? last : first;
        too_large = !found && config_setting_type(value) == CONFIG_TYPE_INT;
    }
    if (asprintf(&where, "%s:%u: %s", file, line, setting->name) < 0) {
        config_errors_add(reading->errors, "%s: out of memory", file);
        return;
    }
    char buffer[SETTING_TEXT];
    const char *expected = setting_expected(setting, buffer);
    if (too_large) {
        config_errors_add(reading->errors, "%s: expected %s; numbers over 2147483647 in quotes", where, expected);
    } else if (value && !is_value) {
        config_errors_add(reading->errors, "%s: expected %s, got a %s", where, expected,
                          config_setting_is_group(value) ? "group" : "list");
    } else {
        const struct config_value found = {setting, where, text, is_private(file)};
        reading->call(&found, reading->user);
    }
    free(where);
}

static void read_setting(const struct reading *reading, const config_setting_t *entry) {
    const char *name = config_setting_name(entry);
    const struct setting *setting = setting_find(name, strlen(name), false);
    if (!setting) {
        char file[PATH_MAX];
        path_of(reading, config_setting_source_file(entry), file);
        const char *like = setting_suggest(name, false);
        config_errors_add(reading->errors, "%s:%u: %s: unknown setting%s%s", file, config_setting_source_line(entry),
                          name, like ? ", did you mean " : "", like ? like : "");
        return;
    }
    if (!(setting->repeats || setting->by_stream) ||
        !(config_setting_is_list(entry) || config_setting_is_array(entry))) {
        read_value(reading, setting, entry, entry);
        return;
    }
    int count = config_setting_length(entry);
    if (count == 0)
        read_value(reading, setting, NULL, entry);
    for (int i = 0; i < count; i++)
        read_value(reading, setting, config_setting_get_elem(entry, (unsigned)i), entry);
}

static bool parse(const struct reading *reading, config_t *config, FILE *file) {
    config_set_include_dir(config, reading->folder);
    if (config_read(config, file) == CONFIG_TRUE)
        return true;
    char path[PATH_MAX];
    const char *text = config_error_text(config);
    path_of(reading, config_error_file(config), path);
    return config_errors_add(reading->errors,
                             "%s:%d: %s; expected NAME = VALUE; with strings in quotes, and lists in []", path,
                             config_error_line(config), text ? text : "cannot be read");
}

bool config_file_read(const char *path, void (*call)(const struct config_value *value, void *user), void *user,
                      struct config_errors *errors) {
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    const struct reading reading = {path, dirname(copy), call, user, errors};
    struct stat status;
    FILE *file = fopen(path, "re");
    if (!file || fstat(fileno(file), &status) < 0 || !S_ISREG(status.st_mode)) {
        config_errors_add(errors, "%s: %s", path, file ? "not a file" : strerror(errno));
        if (file)
            fclose(file);
        return false;
    }
    config_t config;
    config_init(&config);
    bool is_read = parse(&reading, &config, file);
    if (is_read) {
        const config_setting_t *root = config_root_setting(&config);
        for (int i = 0; i < config_setting_length(root); i++)
            read_setting(&reading, config_setting_get_elem(root, (unsigned)i));
    }
    config_destroy(&config);
    fclose(file);
    return is_read;
}
