#include "daemon/config/forward_option.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char too_long[] = "the URL, the host, the user's name or the password is too long";

/* Where path and query begin. */
static const char *path_of(const char *url) {
    const char *host = strstr(url, "://") + 3;
    return host + strcspn(host, "/?");
}

static size_t count_stars(const char *text) {
    size_t count = 0;
    for (; *text; text++)
        count += *text == '*';
    return count;
}

static bool is_valid(const struct forward_option *option, const struct pull_target *target) {
    return !option->type->is_valid || option->type->is_valid(target->url);
}

static const char *const tracks_texts[] = {
    [FORWARD_TRACKS_KNOWN] = "",
    [FORWARD_TRACKS_ALL] = "?tracks=all",
    [FORWARD_TRACKS_DEFAULT] = "?tracks=default",
};

const char *forward_option_tracks_text(const struct forward_option *option) {
    return tracks_texts[option->tracks];
}

/* The "=" before the URL, with what is between the pattern and it. NULL: neither choice */
static const char *read_tracks(const char *query, enum forward_tracks *ret_tracks) {
    for (size_t i = FORWARD_TRACKS_ALL; i < sizeof tracks_texts / sizeof *tracks_texts; i++) {
        const size_t length = strlen(tracks_texts[i]);
        if (strncmp(query, tracks_texts[i], length) == 0 && query[length] == '=') {
            *ret_tracks = (enum forward_tracks)i;
            return query + length;
        }
    }
    return NULL;
}

static const char *read_option(struct forward_option *option, const char *text) {
    const char *end = text + strcspn(text, "?="), *equals = end, *url;
    sluice_http_text user = {0};
    if (!*end || !stream_pattern_is_valid(text, (size_t)(end - text)))
        return "expected a stream's name before \"=\", such as live/cam or live/*";
    memcpy(option->pattern, text, (size_t)(end - text));
    if (*end == '?')
        equals = read_tracks(end, &option->tracks);
    if (!equals)
        return "expected \"tracks=all\" or \"tracks=default\" behind \"?\"";
    url = equals + 1;
    option->type = forward_type_find(url, strlen(url));
    int error = !option->type ? -EPROTO
                              : pull_target_read(&option->type->scheme, url, strlen(url), &option->target, &user);
    if (!error && (option->target.port == 0 || !is_valid(option, &option->target)))
        error = -EPROTO;
    if (error)
        return error == -EMSGSIZE ? too_long : forward_type_expected();
    size_t stars = count_stars(option->target.url);
    if (count_stars(path_of(option->target.url)) != stars)
        return "\"*\" in the host of the URL: it may be in the path and the query";
    if (stars > 0 && count_stars(option->pattern) != 1)
        return "\"*\" in the URL, but not once in the stream's name";
    option->has_user = user.length > 0;
    return option->has_user ? pull_target_read_user(user, option->user, option->password) : NULL;
}

const char *forward_options_add(struct forward_options **options, const char *text) {
    if (!*options)
        *options = calloc(1, sizeof **options);
    if (!*options)
        return "out of memory";
    if ((*options)->count == FORWARD_OPTIONS_MAX)
        return "more than 64 forwards";
    struct forward_option *option = &(*options)->list[(*options)->count];
    const char *wrong = read_option(option, text);
    for (size_t i = 0; i < (*options)->count && !wrong; i++)
        if (forward_option_equal(&(*options)->list[i], option))
            wrong = "the same forward twice";
    if (wrong)
        explicit_bzero(option, sizeof *option);
    else
        (*options)->count++;
    return wrong;
}

static const char *add_line(const char *line, void *user) {
    struct forward_options **options = user;
    const char *wrong = forward_options_add(options, line);
    if (!wrong)
        (*options)->list[(*options)->count - 1].from_file = true;
    return wrong;
}

int forward_options_load(struct forward_options **options, const char *path, char error[SECRET_FILE_ERROR]) {
    return secret_file_each_line(path, add_line, options, error);
}

/* The part of the name that the only "*" of the pattern, which it matches, stands for. */
static sluice_http_text starred(const struct forward_option *option, const char *stream) {
    const char *star = strchr(option->pattern, '*');
    size_t front = (size_t)(star - option->pattern), back = strlen(star + 1);
    return (sluice_http_text){stream + front, strlen(stream) - front - back};
}

int forward_option_target(const struct forward_option *option, const char *stream, struct pull_target *ret_target) {
    if (!stream_pattern_fits(option->pattern, stream, strlen(stream)))
        return -ENOENT;
    struct pull_target target = option->target;
    const char *from = option->target.url;
    size_t at = 0;
    sluice_http_text text = strchr(from, '*') ? starred(option, stream) : (sluice_http_text){"", 0};
    if (text.length > 0 && *text.text == '.')
        return -EINVAL;
    for (; *from; from++) {
        const sluice_http_text piece = *from == '*' ? text : (sluice_http_text){from, 1};
        if (piece.length > PULL_URL - at)
            return -EMSGSIZE;
        memcpy(target.url + at, piece.text, piece.length);
        at += piece.length;
    }
    target.url[at] = '\0';
    if (!is_valid(option, &target))
        return -EINVAL;
    *ret_target = target;
    return 0;
}

bool forward_option_equal(const struct forward_option *a, const struct forward_option *b) {
    return strcmp(a->pattern, b->pattern) == 0 && a->tracks == b->tracks && strcmp(a->target.url, b->target.url) == 0 &&
           a->has_user == b->has_user && strcmp(a->user, b->user) == 0 && strcmp(a->password, b->password) == 0;
}

bool forward_options_equal(const struct forward_options *a, const struct forward_options *b) {
    size_t count = forward_options_count(a);
    if (count != forward_options_count(b))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!forward_option_equal(&a->list[i], &b->list[i]))
            return false;
    return true;
}

void forward_options_free(struct forward_options *options) {
    if (options)
        explicit_bzero(options, sizeof *options);
    free(options);
}
