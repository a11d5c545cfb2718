#include "daemon/config/pull_option.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shared/text.h"

static const char bad_name[] = "expected a stream's name such as live/cam";
static const char too_long[] = "the URL, the host, the user's name or the password is too long";

static const char *read_url(const char *url, size_t length, struct pull_option *option) {
    sluice_http_text user = {0};
    option->type = pull_type_find(url, length);
    int error = option->type ? option->type->parse(url, length, &option->target, &user) : -EPROTO;
    if (error)
        return error == -EMSGSIZE ? too_long : pull_type_expected_url();
    option->has_user = user.length > 0;
    return option->has_user ? pull_target_read_user(user, option->user, option->password) : NULL;
}

const char *pull_option_read(struct pull_option *ret_option, const char *url, size_t url_length, const char *name,
                             size_t name_length, bool on_demand) {
    *ret_option = (struct pull_option){.on_demand = on_demand};
    if (!stream_name_is_valid(name, name_length))
        return bad_name;
    memcpy(ret_option->name, name, name_length);
    const char *wrong = read_url(url, url_length, ret_option);
    if (wrong)
        explicit_bzero(ret_option, sizeof *ret_option);
    return wrong;
}

static const char *read_option(const char *text, struct pull_option *option) {
    static const char on_demand[] = ",on-demand";
    size_t length = strlen(text);
    bool has_word = length > strlen(on_demand) && strcmp(text + length - strlen(on_demand), on_demand) == 0;
    if (has_word)
        length -= strlen(on_demand);
    const char *equals = memrchr(text, '=', length);
    if (!equals)
        return pull_type_expected_option();
    size_t url = (size_t)(equals - text);
    while (url > 0 && (text[url - 1] == ' ' || text[url - 1] == '\t'))
        url--;
    const char *wrong = pull_option_read(option, text, url, equals + 1, (size_t)(text + length - equals) - 1, has_word);
    return wrong == pull_type_expected_url() ? pull_type_expected_option()
           : wrong == bad_name               ? "expected a stream's name such as live/cam behind the last \"=\""
                                             : wrong;
}

static int make_room(struct pull_options *options) {
    if (options->count < options->capacity)
        return 0;
    /* Not realloc(), which leaves passwords behind. */
    size_t capacity = options->capacity ? 2 * options->capacity : 4;
    struct pull_option *list = calloc(capacity, sizeof *list);
    if (!list)
        return -ENOMEM;
    if (options->count > 0) {
        memcpy(list, options->list, options->count * sizeof *list);
        explicit_bzero(options->list, options->count * sizeof *list);
    }
    free(options->list);
    options->list = list;
    options->capacity = capacity;
    return 0;
}

const char *pull_options_add(struct pull_options *options, const char *text) {
    if (options->count == PULLS_MAX)
        return "more than 1000 pulls";
    if (make_room(options) < 0)
        return "out of memory";
    struct pull_option *option = &options->list[options->count];
    const char *wrong = read_option(text, option);
    for (size_t i = 0; i < options->count && !wrong; i++)
        if (strcmp(options->list[i].name, option->name) == 0)
            wrong = "a second pull of that name";
    if (wrong)
        explicit_bzero(option, sizeof *option);
    else
        options->count++;
    return wrong;
}

/* Returns where the next byte goes. */
static char *encode(const char *text, char *to) {
    for (; *text; text++) {
        if (isalnum((unsigned char)*text) || strchr("-._~", *text))
            *to++ = *text;
        else
            to += sprintf(to, "%%%02X", (unsigned)(unsigned char)*text);
    }
    return to;
}

void pull_option_format(const struct pull_option *option, char text[PULL_OPTION_TEXT]) {
    const char *url = option->target.url, *rest = strstr(url, "://") + 3;
    char *at = text + sprintf(text, "%.*s", (int)(rest - url), url);
    if (option->has_user) {
        at = encode(option->user, at);
        *at++ = ':';
        at = encode(option->password, at);
        *at++ = '@';
    }
    sprintf(at, "%s=%s%s", rest, option->name, option->on_demand ? ",on-demand" : "");
}

bool pull_option_equal(const struct pull_option *a, const struct pull_option *b) {
    return strcmp(a->name, b->name) == 0 && strcmp(a->target.url, b->target.url) == 0 &&
           strcmp(a->target.place, b->target.place) == 0 && a->has_user == b->has_user &&
           strcmp(a->user, b->user) == 0 && strcmp(a->password, b->password) == 0 && a->on_demand == b->on_demand;
}

bool pull_options_equal(const struct pull_options *a, const struct pull_options *b) {
    for (size_t i = 0; i < a->count && i < b->count; i++)
        if (!pull_option_equal(&a->list[i], &b->list[i]))
            return false;
    return a->count == b->count;
}

static const char *add_line(const char *line, void *user) {
    struct pull_options *options = user;
    const char *wrong = pull_options_add(options, line);
    if (!wrong)
        options->list[options->count - 1].from_file = true;
    return wrong;
}

int pull_options_load(struct pull_options *options, const char *path, char error[SECRET_FILE_ERROR]) {
    return secret_file_each_line(path, add_line, options, error);
}

void pull_options_clear(struct pull_options *options) {
    if (options->list)
        explicit_bzero(options->list, options->capacity * sizeof *options->list);
    free(options->list);
    *options = (struct pull_options){0};
}
