#include "daemon/protocols/rtmp/rtmp_target.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "shared/text.h"

/* A path, and what is behind its question mark. */
struct part {
    sluice_http_text path, query;
};

static bool is_around(char c) {
    return c == ' ' || c == '"' || c == '\'';
}

static sluice_http_text trimmed(sluice_http_text text, bool (*is_in)(char c)) {
    while (text.length > 0 && is_in(*text.text))
        text = (sluice_http_text){text.text + 1, text.length - 1};
    while (text.length > 0 && is_in(text.text[text.length - 1]))
        text.length--;
    return text;
}

static bool is_slash(char c) {
    return c == '/';
}

static struct part split(sluice_http_text text) {
    struct part part = {.query = trimmed(text, is_around)};
    part.path = trimmed(text_split(&part.query, '?'), is_slash);
    return part;
}

/* Behind the host; empty where there is no URL. */
static struct part split_url(const char *url) {
    sluice_http_text text = trimmed(text_of(url), is_around);
    const char *scheme = memmem(text.text, text.length, "://", 3);
    const char *end = text.text + text.length;
    const char *host = scheme ? scheme + 3 : end;
    const char *path = memchr(host, '/', (size_t)(end - host));
    return split(path ? (sluice_http_text){path, (size_t)(end - path)} : text_of(""));
}

/* Of players of Flash: the kind of a file. */
static sluice_http_text without_kind(sluice_http_text name) {
    static const char *const kinds[] = {"mp4:", "flv:", "mp3:"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (name.length > 4 && strncasecmp(name.text, kinds[i], 4) == 0)
            return (sluice_http_text){name.text + 4, name.length - 4};
    return name;
}

/* Behind @separator, unless it is the first one or empty. */
static int append(char *to, size_t size, char separator, sluice_http_text text) {
    size_t at = strlen(to);
    if (text.length == 0)
        return 0;
    if (at + (at > 0) + text.length >= size)
        return -EMSGSIZE;
    if (at > 0)
        to[at++] = separator;
    memcpy(to + at, text.text, text.length);
    to[at + text.length] = '\0';
    return 0;
}

static bool is_same(sluice_http_text a, sluice_http_text b) {
    return a.length == b.length && memcmp(a.text, b.text, a.length) == 0;
}

static int read(const char *app, const char *url, sluice_http_text name, struct rtmp_target *ret_target) {
    struct rtmp_target target = {0};
    struct part whole = split_url(url), first = split(text_of(app)), last = split(name);
    if (first.path.length == 0)
        first.path = whole.path;
    /* Clients repeat the app in the URL. */
    if (is_same(whole.query, first.query))
        whole.query.length = 0;
    if (append(target.name, sizeof target.name, '/', first.path) < 0 ||
        append(target.name, sizeof target.name, '/', without_kind(last.path)) < 0)
        return -EINVAL;
    if (append(target.query, sizeof target.query, '&', last.query) < 0 ||
        append(target.query, sizeof target.query, '&', first.query) < 0 ||
        append(target.query, sizeof target.query, '&', whole.query) < 0)
        return -EMSGSIZE;
    *ret_target = target;
    return 0;
}

int rtmp_target_read(const char *app, const char *url, const char *name, struct rtmp_target *ret_target) {
    struct rtmp_target target;
    int error = read(app, url, text_of(name), &target);
    if (!error && !stream_name_is_valid(target.name, strlen(target.name)))
        error = -EINVAL;
    if (!error)
        *ret_target = target;
    return error;
}

int rtmp_target_read_app(const char *app, const char *url, struct rtmp_target *ret_target) {
    return read(app, url, text_of(""), ret_target);
}
