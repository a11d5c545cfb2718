#include "daemon/config/cluster_option.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/address.h"
#include "shared/text.h"

static const char engine_form[] =
    "redis[s]://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/PREFIX], such as redis://127.0.0.1:6379";

/* HOST:PORT. @port: of one without; 0: it must have one */
static bool read_place(sluice_http_text text, unsigned port, struct cluster_place *ret_place) {
    char url[HOOK_HOST + 32];
    struct hook_url read;
    if (text.length == 0 || text.length > HOOK_HOST + 8 || memchr(text.text, '/', text.length))
        return false;
    const bool has_port = text.text[text.length - 1] != ']' && memchr(text.text, ':', text.length);
    if (has_port)
        snprintf(url, sizeof url, "http://%.*s/", (int)text.length, text.text);
    else
        snprintf(url, sizeof url, "http://%.*s:%u/", (int)text.length, text.text, port);
    if ((!has_port && port == 0) || hook_url_parse(url, &read) < 0)
        return false;
    *ret_place = (struct cluster_place){.port = read.port};
    memcpy(ret_place->host, read.host, sizeof read.host);
    return true;
}

bool cluster_place_make(const char *host, unsigned port, struct cluster_place *ret_place) {
    char text[HOOK_HOST + 16];
    const bool is_v6 = strchr(host, ':');
    if (port == 0 || port > UINT16_MAX || strlen(host) > HOOK_HOST)
        return false;
    snprintf(text, sizeof text, "%s%s%s:%u", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
    return read_place(text_of(text), 0, ret_place);
}

bool cluster_place_equal(const struct cluster_place *a, const struct cluster_place *b) {
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

static bool is_prefix(sluice_http_text text) {
    static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:";
    for (size_t i = 0; i < text.length; i++)
        if (!text.text[i] || !strchr(characters, text.text[i]))
            return false;
    return text.length > 0 && text.length <= CLUSTER_OPTION_PREFIX;
}

/* [USER]:PASSWORD, percent-encoded. NULL, or what is wrong */
static const char *read_login(sluice_http_text text, struct cluster_engine_option *engine) {
    const char *colon = memchr(text.text, ':', text.length);
    if (!colon)
        return "USER:PASSWORD, or :PASSWORD, before \"@\"";
    const sluice_http_text user = {text.text, (size_t)(colon - text.text)};
    const sluice_http_text password = {colon + 1, text.length - user.length - 1};
    int error = text_decode(user, engine->user, sizeof engine->user);
    if (!error)
        error = text_decode(password, engine->password, sizeof engine->password);
    engine->has_login = true;
    return error ? "a user and a password of at most 255 bytes without control bytes" : NULL;
}

static const char *read_hosts(sluice_http_text text, struct cluster_engine_option *engine) {
    if (text.length > 0 && text.text[text.length - 1] == ',')
        return engine_form;
    do {
        if (engine->host_count == CLUSTER_OPTION_HOSTS)
            return "at most 16 hosts";
        if (!read_place(text_split(&text, ','), CLUSTER_OPTION_PORT, &engine->hosts[engine->host_count++]))
            return engine_form;
    } while (text.length > 0);
    return NULL;
}

static const char *read_engine(const char *text, struct cluster_engine_option *engine) {
    static const char plain[] = "redis://", secure[] = "rediss://";
    engine->is_secure = strncmp(text, secure, sizeof secure - 1) == 0;
    if (!engine->is_secure && strncmp(text, plain, sizeof plain - 1) != 0)
        return engine_form;
    sluice_http_text rest = text_of(text + (engine->is_secure ? sizeof secure : sizeof plain) - 1);
    const char *at = memrchr(rest.text, '@', rest.length);
    if (at) {
        const sluice_http_text login = {rest.text, (size_t)(at - rest.text)};
        const char *expected = read_login(login, engine);
        if (expected)
            return expected;
        rest = text_of(at + 1);
    }
    const bool has_path = memchr(rest.text, '/', rest.length);
    const char *expected = read_hosts(text_split(&rest, '/'), engine);
    if (expected)
        return expected;
    sluice_http_text prefix = has_path && rest.length > 0 ? rest : text_of("sluice");
    if (!is_prefix(prefix))
        return "a prefix of at most 63 characters of [A-Za-z0-9._:-] behind the hosts";
    memcpy(engine->prefix, prefix.text, prefix.length);
    return NULL;
}

static const char *set_engine(struct cluster_options *options, const char *text) {
    struct cluster_engine_option engine = {.host_count = 0};
    const char *expected = read_engine(text, &engine);
    if (!expected)
        options->engine = engine;
    explicit_bzero(&engine, sizeof engine);
    return expected;
}

static const char *set_name(char *field, const char *text) {
    if (!node_name_is_valid(text, strlen(text)))
        return "a name of at most 63 characters of [A-Za-z0-9._-]";
    strcpy(field, text);
    return NULL;
}

static bool is_wildcard(const struct cluster_place *place) {
    return strcmp(place->host, "0.0.0.0") == 0 || strcmp(place->host, "::") == 0;
}

static const char *set_advertise(struct cluster_options *options, const char *text) {
    static const char expected[] = "ADDR:PORT or ADDR:PORT,tls that other nodes can connect to, such as 10.0.0.1:8080";
    struct cluster_place place;
    sluice_http_text rest = text_of(text);
    const sluice_http_text address = text_split(&rest, ',');
    const bool is_secure = rest.length > 0;
    if ((is_secure && !text_is(rest, "tls")) || (!is_secure && address.length < strlen(text)) ||
        !read_place(address, 0, &place) || is_wildcard(&place))
        return expected;
    options->advertise = place;
    options->advertise_secure = is_secure;
    return NULL;
}

static const char *add_parents(struct cluster_options *options, const char *text) {
    sluice_http_text rest = text_of(text);
    if (rest.length > 0 && rest.text[rest.length - 1] == ',')
        return "names of nodes, separated by commas";
    do {
        const sluice_http_text name = text_split(&rest, ',');
        if (!node_name_is_valid(name.text, name.length))
            return "names of nodes, separated by commas";
        if (options->parent_count == CLUSTER_OPTION_PARENTS)
            return "at most 16 parents";
        char *parent = options->parents[options->parent_count++];
        memcpy(parent, name.text, name.length);
        parent[name.length] = '\0';
    } while (rest.length > 0);
    return NULL;
}

const char *cluster_options_set(struct cluster_options *options, enum cluster_setting setting, const char *text) {
    switch (setting) {
    case CLUSTER_SETTING_ENGINE:
        return set_engine(options, text);
    case CLUSTER_SETTING_SENTINEL:
        return set_name(options->sentinel, text);
    case CLUSTER_SETTING_NODE:
        return set_name(options->node, text);
    case CLUSTER_SETTING_ADVERTISE:
        return set_advertise(options, text);
    case CLUSTER_SETTING_PARENTS:
        return add_parents(options, text);
    case CLUSTER_SETTING_SECRET_FILE:
        break;
    }
    return "a file name";
}

/* For the lines of the file. */
static const char *take_secret(const char *line, void *user) {
    struct cluster_options *options = user;
    const size_t length = strlen(line);
    if (*options->secret)
        return "expected one line";
    if (length < CLUSTER_OPTION_SECRET_LEAST || length > CLUSTER_OPTION_SECRET_MOST)
        return "expected a secret of 32 to 64 characters, such as openssl rand -hex 32 prints";
    for (size_t i = 0; i < length; i++)
        if (line[i] <= ' ' || line[i] > '~')
            return "expected a secret without blanks, of ASCII";
    memcpy(options->secret, line, length + 1);
    return NULL;
}

int cluster_options_load_secret(struct cluster_options *options, const char *path, char error[SECRET_FILE_ERROR]) {
    if (!*path || strlen(path) >= sizeof options->secret_file) {
        snprintf(error, SECRET_FILE_ERROR, "expected a file name");
        return -EINVAL;
    }
    explicit_bzero(options->secret, sizeof options->secret);
    int result = secret_file_each_line(path, take_secret, options, error);
    if (result < 0)
        return result;
    if (!*options->secret) {
        snprintf(error, SECRET_FILE_ERROR, "%s: expected a secret of 32 to 64 characters", path);
        return -EINVAL;
    }
    strcpy(options->secret_file, path);
    return 0;
}

void cluster_place_format(const struct cluster_place *place, char *text, size_t size) {
    const bool is_v6 = strchr(place->host, ':');
    snprintf(text, size, "%s%s%s:%u", is_v6 ? "[" : "", place->host, is_v6 ? "]" : "", place->port);
}

bool cluster_place_is_loopback(const struct cluster_place *place) {
    struct sockaddr_storage address;
    char text[HOOK_HOST + 16];
    cluster_place_format(place, text, sizeof text);
    if (address_parse(text, strlen(text), &address) < 0)
        return address_is_localhost(place->host, strlen(place->host));
    return address_is_loopback(&address);
}

static void format_engine(const struct cluster_engine_option *engine, char text[CLUSTER_OPTION_TEXT]) {
    size_t length = (size_t)sprintf(text, "redis%s://", engine->is_secure ? "s" : "");
    for (size_t i = 0; i < engine->host_count; i++) {
        if (i > 0)
            text[length++] = ',';
        cluster_place_format(&engine->hosts[i], text + length, CLUSTER_OPTION_TEXT - length);
        length += strlen(text + length);
    }
    snprintf(text + length, CLUSTER_OPTION_TEXT - length, "/%s", engine->prefix);
}

void cluster_options_format(const struct cluster_options *options, enum cluster_setting setting,
                            char text[CLUSTER_OPTION_TEXT]) {
    *text = '\0';
    if (setting == CLUSTER_SETTING_ENGINE && options->engine.host_count > 0)
        format_engine(&options->engine, text);
    else if (setting == CLUSTER_SETTING_SENTINEL)
        strcpy(text, options->sentinel);
    else if (setting == CLUSTER_SETTING_NODE)
        strcpy(text, options->node);
    else if (setting == CLUSTER_SETTING_SECRET_FILE)
        strcpy(text, options->secret_file);
    else if (setting == CLUSTER_SETTING_ADVERTISE && *options->advertise.host) {
        cluster_place_format(&options->advertise, text, CLUSTER_OPTION_TEXT);
        strcat(text, options->advertise_secure ? ",tls" : "");
    }
}

void cluster_options_copy(struct cluster_options *to, const struct cluster_options *from,
                          enum cluster_setting setting) {
    switch (setting) {
    case CLUSTER_SETTING_ENGINE:
        to->engine = from->engine;
        break;
    case CLUSTER_SETTING_SENTINEL:
        memcpy(to->sentinel, from->sentinel, sizeof to->sentinel);
        break;
    case CLUSTER_SETTING_NODE:
        memcpy(to->node, from->node, sizeof to->node);
        break;
    case CLUSTER_SETTING_ADVERTISE:
        to->advertise = from->advertise;
        to->advertise_secure = from->advertise_secure;
        break;
    case CLUSTER_SETTING_SECRET_FILE:
        memcpy(to->secret_file, from->secret_file, sizeof to->secret_file);
        memcpy(to->secret, from->secret, sizeof to->secret);
        break;
    case CLUSTER_SETTING_PARENTS:
        memcpy(to->parents, from->parents, sizeof to->parents);
        to->parent_count = from->parent_count;
        break;
    }
}

bool cluster_options_have_same_secret(const struct cluster_options *a, const struct cluster_options *b,
                                      enum cluster_setting setting) {
    if (setting == CLUSTER_SETTING_SECRET_FILE)
        return strcmp(a->secret, b->secret) == 0;
    return setting != CLUSTER_SETTING_ENGINE ||
           (a->engine.has_login == b->engine.has_login && strcmp(a->engine.user, b->engine.user) == 0 &&
            strcmp(a->engine.password, b->engine.password) == 0);
}

void cluster_options_clear(struct cluster_options *options) {
    explicit_bzero(options, sizeof *options);
}
