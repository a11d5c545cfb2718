/*
 * What the operator writes: the configuration file, the command line, a reload, and the files of
 * users, keys and pulls. Whoever writes them is trusted; but what is wrong in them is to be said,
 * and what is right is to be kept as it is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/access/users.h"
#include "fuzz/daemon.h"
#include "fuzz/fuzz.h"

enum { MOST_WORDS = 60 };

static void check_line(const char *line, void *user) {
    size_t *count = user;
    FUZZ_CHECK(strlen(line) > 0);
    (*count)++;
}

/* All that is wrong is told; nothing where nothing is. */
static void check_problems(struct config_errors *errors, bool wrong) {
    size_t told = 0;
    FUZZ_CHECK((errors->count > 0) == wrong);
    config_errors_each(errors, check_line, &told);
    FUZZ_CHECK(!wrong || told > 0);
    config_errors_clear(errors);
}

static void kept(const struct setting *setting, const char *from, const char *to, void *user) {
    (void)user;
    FUZZ_CHECK(setting->effect == SETTING_RESTART && strcmp(from, to) != 0);
}

static void changed(const struct setting *setting, const char *from, const char *to, void *user) {
    (void)user;
    FUZZ_CHECK(setting->kind != SETTING_COMMAND && strcmp(from, to) != 0);
}

static const struct options *load(const void *text, size_t n, const struct options *in_force) {
    char path[64];
    struct config_errors errors = {0};
    daemon_file(text, n, path, sizeof path);
    const struct command_line line = {.config = path};
    const struct options *options = options_load(&line, in_force, kept, NULL, &errors);
    check_problems(&errors, !options);
    daemon_file_close(path);
    return options;
}

/* What is shown without passwords is not the whole value. */
static bool is_shown_whole(const struct setting *setting, const char *value) {
    return setting->kind != SETTING_COMMAND && setting->kind != SETTING_PULL && setting->kind != SETTING_HOOK &&
           strcmp(value, "\"\"") != 0;
}

/* --print-config is a configuration file that says the same. */
static void check_printed(const struct options *options) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    FUZZ_CHECK(out);
    const struct setting *setting;
    for (size_t i = 0; (setting = setting_at(i)); i++) {
        char *value = setting->kind == SETTING_COMMAND ? NULL : options_value(options, setting);
        if (value && is_shown_whole(setting, value))
            fprintf(out, "%s = %s;\n", setting->name, value);
        free(value);
    }
    FUZZ_CHECK(fclose(out) == 0);
    const struct options *again = load(text, size, NULL);
    FUZZ_CHECK(again);
    for (size_t i = 0; (setting = setting_at(i)); i++) {
        if (setting->kind == SETTING_COMMAND)
            continue;
        char *value = options_value(options, setting), *other = options_value(again, setting);
        FUZZ_CHECK(value && other && (!is_shown_whole(setting, value) || strcmp(value, other) == 0));
        free(value);
        free(other);
    }
    options_unref(again);
    free(text);
}

static void fuzz_file(const fuzz_run *run) {
    const struct options *options = load(run->bytes, run->size, NULL);
    if (options)
        check_printed(options);
    options_unref(options);
}

/* The second file is loaded while the first one's options are in force. */
static void fuzz_reload(const fuzz_run *run) {
    const uint8_t *cut = run->size > 0 ? memchr(run->bytes, '\0', run->size) : NULL;
    if (!cut)
        return;
    const struct options *before = load(run->bytes, (size_t)(cut - run->bytes), NULL);
    const struct options *after = before ? load(cut + 1, (size_t)(run->bytes + run->size - cut) - 1, before) : NULL;
    if (after)
        options_each_change(before, after, changed, NULL);
    options_unref(after);
    options_unref(before);
}

/* The words of the command line are the input's lines. */
static void fuzz_words(const fuzz_run *run) {
    char *words[MOST_WORDS + 2] = {"sluiced"};
    int count = 1;
    char *text = strndup((const char *)run->bytes, run->size);
    FUZZ_CHECK(text);
    for (char *rest = text, *word; count <= MOST_WORDS && (word = strsep(&rest, "\n"));)
        if (*word)
            words[count++] = word;
    struct config_errors errors = {0};
    struct command_line line;
    bool good = command_line_parse(count, words, &errors, &line);
    check_problems(&errors, !good);
    /* No file of this machine is to be read. */
    line.config = NULL;
    const struct options *options = good ? options_load(&line, NULL, kept, NULL, &errors) : NULL;
    if (good)
        check_problems(&errors, !options);
    options_unref(options);
    command_line_clear(&line);
    free(text);
}

static void fuzz_users(const fuzz_run *run) {
    char path[64], error[USERS_ERROR] = "";
    struct users *users = NULL;
    daemon_file(run->bytes, run->size, path, sizeof path);
    int result = users_load(path, &users, error);
    FUZZ_CHECK((result == 0) == (*error == '\0') && (result == 0) == (users != NULL));
    if (users) {
        const struct user *first = users_first(users);
        FUZZ_CHECK(*first->name && *first->password && first->rights);
        FUZZ_CHECK(users_find(users, first->name, strlen(first->name)) == first && users_equal(users, users));
    }
    users_free(users);
    daemon_file_close(path);
}

static void fuzz_pulls(const fuzz_run *run) {
    char path[64], error[SECRET_FILE_ERROR] = "";
    struct pull_options pulls = {0};
    daemon_file(run->bytes, run->size, path, sizeof path);
    int result = pull_options_load(&pulls, path, error);
    FUZZ_CHECK((result == 0) == (*error == '\0'));
    for (size_t i = 0; i < pulls.count; i++)
        FUZZ_CHECK(stream_name_is_valid(pulls.list[i].name, strlen(pulls.list[i].name)) && *pulls.list[i].target.host);
    FUZZ_CHECK(pull_options_equal(&pulls, &pulls));
    pull_options_clear(&pulls);
    daemon_file_close(path);
}

void fuzz_target(fuzz_run *run) {
    static void (*const ways[])(const fuzz_run *run) = {fuzz_file, fuzz_reload, fuzz_words, fuzz_users, fuzz_pulls};
    /* Nothing here comes in pieces. And no file is to be read that the input names. */
    if (run->whole && !(run->size > 0 && memmem(run->bytes, run->size, "@include", 8)))
        ways[run->settings[0] % 5](run);
}
