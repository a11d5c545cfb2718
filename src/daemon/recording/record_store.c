#include "daemon/recording/record_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/stream_name.h"
#include "daemon/recording/record_files.h"

const char *record_options_add(struct record_options *options, const char *text) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return "PATTERN=DIRECTORY, such as 'live/*=/var/lib/sluice'";
    if (!stream_pattern_is_valid(text, (size_t)(equals - text)))
        return "a stream's name before \"=\", in which * stands for any characters, and nothing else for others";
    if (options->rule_count == RECORD_STORE_MOST_RULES)
        return "at most 256 rules";
    char *copy = strdup(text);
    if (!copy)
        return "less: memory is short";
    size_t length = (size_t)(equals - text);
    options->rules[options->rule_count++] = (struct record_rule){
        .text = copy, .pattern_length = length, .directory = copy + length + 1};
    return NULL;
}

void record_options_clear(struct record_options *options) {
    for (size_t i = 0; i < options->rule_count; i++)
        free(options->rules[i].text);
    options->rule_count = 0;
}

static int open_root(struct record_store *records, const char *path, size_t *ret_root) {
    for (size_t i = 0; i < records->root_count; i++) {
        if (strcmp(records->roots[i].path, path) == 0) {
            *ret_root = i;
            return 0;
        }
    }
    int fd = record_root_open(path);
    if (fd >= 0 && faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0) {
        int error = -errno;
        close(fd);
        fd = error;
    }
    if (fd < 0) {
        LOG(LOG_ERROR, "cannot record", {"directory", path}, {"reason", strerror(-fd)});
        return fd;
    }
    *ret_root = records->root_count;
    records->roots[records->root_count++] = (struct record_root){path, fd};
    return 0;
}

static int add_rule(struct record_store *records, size_t at) {
    const struct record_rule *rule = &records->options->rules[at];
    records->patterns[at] = strndup(rule->text, rule->pattern_length);
    if (!records->patterns[at])
        return -ENOMEM;
    return open_root(records, rule->directory, &records->roots_by_rule[at]);
}

int record_store_new(const struct record_options *options, struct record_store **ret_records) {
    if (options->rule_count == 0) {
        *ret_records = NULL;
        return 0;
    }
    struct record_store *records = calloc(1, sizeof *records);
    if (!records)
        return -ENOMEM;
    records->options = options;
    int error = 0;
    for (size_t i = 0; i < options->rule_count && !error; i++)
        error = add_rule(records, i);
    if (!error)
        error = recovery_new(&records->repairs);
    if (error) {
        record_store_free(records);
        return error;
    }
    *ret_records = records;
    return 0;
}

int record_store_begin(struct record_store *records, record_done_fn *done, void *user) {
    records->done = done;
    records->done_user = user;
    recovery_tell(records->repairs, done, user);
    return record_store_repair(records);
}

int record_store_repair(struct record_store *records) {
    int error = 0;
    for (size_t i = 0; i < records->root_count && !error; i++)
        error = recovery_add(records->repairs, &records->roots[i], NULL);
    return error;
}

void record_store_free(struct record_store *records) {
    if (!records)
        return;
    recovery_free(records->repairs);
    for (size_t i = 0; i < records->root_count; i++)
        close(records->roots[i].fd);
    for (size_t i = 0; i < records->options->rule_count; i++)
        free(records->patterns[i]);
    free(records);
}

const struct record_root *record_store_find(const struct record_store *records, const char *stream) {
    for (size_t i = 0; i < records->options->rule_count; i++)
        if (stream_pattern_fits(records->patterns[i], stream, strlen(stream)))
            return &records->roots[records->roots_by_rule[i]];
    return NULL;
}

const struct record_root *record_store_default(const struct record_store *records) {
    return &records->roots[records->roots_by_rule[0]];
}
