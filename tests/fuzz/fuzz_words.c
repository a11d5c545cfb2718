/*
 * The small texts that the daemon reads: rules, tokens, addresses, URLs, names, ranges. Each record
 * of the input is one of them. What is read is compared with another way to read it, where there is
 * one.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/access/authorize.h"
#include "daemon/access/token.h"
#include "daemon/admin/admin_pull.h"
#include "daemon/base/address.h"
#include "daemon/base/cidr.h"
#include "daemon/base/hook_url.h"
#include "daemon/base/log.h"
#include "daemon/config/admin_option.h"
#include "daemon/config/pull_option.h"
#include "daemon/protocols/http/http_range.h"
#include "daemon/recording/record_files.h"
#include "fuzz/daemon.h"
#include "fuzz/fuzz.h"
#include "shared/rtsp_url.h"

/* A text of the input's, up to its first NUL: as long as it is, and not a byte more. */
typedef struct word {
    char *text;
    size_t length;
} word;

/* What is before the first comma, and what is behind it. */
static char *split(const word *w) {
    char *comma = strchr(w->text, ';');
    if (!comma)
        return w->text + w->length;
    *comma = '\0';
    return comma + 1;
}

static bool matches(const char *pattern, const char *name) {
    return fnmatch(pattern, name, 0) == 0;
}

/* "RULE;STREAM" */
static void read_rule(const word *w) {
    struct rules rules = {0};
    const char *stream = split(w);
    const struct sockaddr_in peer = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0A010203)};
    struct sockaddr_storage address = {0};
    memcpy(&address, &peer, sizeof peer);
    const struct cidr_address from = cidr_address(&address);
    if (!rules_add(&rules, w->text, "here")) {
        const struct rule *rule = &rules.list[0];
        bool fits = rule->range_count == 0;
        for (size_t i = 0; i < rule->range_count; i++)
            fits |= cidr_has(&rule->ranges[i], &from);
        fits = fits && rule->actions & RULE_PLAY && matches(rule->pattern, stream);
        FUZZ_CHECK(rule->actions && rule->ways && rule->way_count > 0);
        FUZZ_CHECK(rules_find(&rules, RULE_PLAY, stream, strlen(stream), &from) == (fits ? rule : NULL));
    }
    rules_clear(&rules);
}

/* "STREAM;TOKEN": nobody can sign but who has the key, for another stream, or for longer. */
static void read_token(const word *w) {
    static const char key[] = "key";
    const char *token = split(w);
    char good[TOKEN_TEXT], copy[512];
    FUZZ_CHECK(!token_is_valid(token, "another key, which nobody knows", "play", w->text, 1000));
    if (token_sign(key, "play", w->text, 2000, good) < 0)
        return;
    FUZZ_CHECK(token_is_valid(good, key, "play", w->text, 1999));
    FUZZ_CHECK(!token_is_valid(good, key, "play", w->text, 2000));
    FUZZ_CHECK(!token_is_valid(good, key, "publish", w->text, 1999));
    snprintf(copy, sizeof copy, "%sx", w->text);
    FUZZ_CHECK(!token_is_valid(good, key, "play", copy, 1999));
    snprintf(copy, sizeof copy, "%s", good);
    copy[w->length % strlen(copy)] ^= 1;
    FUZZ_CHECK(!token_is_valid(copy, key, "play", w->text, 1999));
}

static bool is_in(const struct cidr *range, const struct cidr_address *address) {
    for (unsigned i = 0; i < range->bits; i++)
        if ((range->address.bytes[i / 8] ^ address->bytes[i / 8]) >> (7 - i % 8) & 1)
            return false;
    return true;
}

/* "RANGE;ADDRESS" */
static void read_range(const word *w) {
    struct cidr range, address;
    const char *other = split(w);
    if (cidr_parse(w->text, &range) < 0)
        return;
    FUZZ_CHECK(range.bits <= 128 && cidr_has(&range, &range.address));
    if (cidr_parse(other, &address) < 0 || address.bits < 128)
        return;
    bool v4 = strchr(other, '.') && !strchr(other, ':'), v4_range = strchr(w->text, '.') && !strchr(w->text, ':');
    if (v4 == v4_range)
        FUZZ_CHECK(cidr_has(&range, &address.address) == is_in(&range, &address.address));
    else if (v4)
        FUZZ_CHECK(!cidr_has(&range, &address.address) || strchr(w->text, '.') || strcasestr(w->text, "::ffff:"));
}

static void check_printable(const char *text) {
    for (; *text; text++)
        FUZZ_CHECK((unsigned char)*text > ' ' && *text != 0x7F);
}

static void read_hook(const word *w) {
    struct hook_url url;
    struct in6_addr address;
    if (hook_url_parse(w->text, &url) < 0)
        return;
    FUZZ_CHECK(url.port > 0 && *url.path == '/');
    FUZZ_CHECK(inet_pton(strchr(url.host, ':') ? AF_INET6 : AF_INET, url.host, &address) == 1 ||
               (!strpbrk(url.host, ":/@[]%") && strcspn(url.host, "abcdefghijklmnopqrstuvwxyz"
                                                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") < strlen(url.host)));
    check_printable(url.host);
    check_printable(url.path);
    FUZZ_CHECK(strstr(w->text, url.path));
}

/* "RANGE;IF-RANGE": a part lies in what there is. */
static void read_part(const word *w) {
    static const uint64_t sizes[] = {0, 1, 1000, 1ull << 40};
    struct http_conditions conditions = {0};
    const char *other = split(w);
    snprintf(conditions.range, sizeof conditions.range, "%s", w->text);
    snprintf(conditions.if_range, sizeof conditions.if_range, "%s", other);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct http_resource resource;
        http_resource_describe(&resource, sizes[i], 1795000000, 5);
        const struct http_part part = http_part_of(&resource, &conditions);
        FUZZ_CHECK(part.first <= sizes[i] && part.length <= sizes[i] - part.first);
        FUZZ_CHECK(part.status != 206 || part.length > 0);
        FUZZ_CHECK(part.status != 200 || part.length == sizes[i]);
        FUZZ_CHECK(part.status == 200 || part.status == 206 || part.status == 416);
    }
}

/* No name leaves a directory, is hidden in one, or is an option of anything. */
static void read_name(const word *w) {
    if (!stream_name_is_valid(w->text, w->length))
        return;
    FUZZ_CHECK(w->length <= STREAM_NAME && *w->text != '/' && *w->text != '.' && !strstr(w->text, "/."));
    FUZZ_CHECK(!strstr(w->text, "//") && w->text[w->length - 1] != '/');
    for (size_t i = 0; i < w->length; i++)
        FUZZ_CHECK(isalnum((unsigned char)w->text[i]) || strchr("._-/", w->text[i]));
}

/* What is written is read as the same pull. */
static void check_written(const struct pull_option *pull) {
    struct pull_options again = {0};
    char text[PULL_OPTION_TEXT];
    pull_option_format(pull, text);
    FUZZ_CHECK(!pull_options_add(&again, text));
    FUZZ_CHECK(pull_option_equal(&again.list[0], pull));
    pull_options_clear(&again);
}

/* A body of the API. */
static void read_pull_request(const word *w) {
    struct pull *pull = NULL;
    const char *wrong = NULL;
    int error = admin_pull_read(w->text, w->length, &pull, &wrong);
    FUZZ_CHECK((error == 0) == (pull != NULL) && (error == -EINVAL) == (wrong != NULL));
    if (pull)
        check_written(&pull->option);
    pull_free(pull);
}

static void read_pull(const word *w) {
    if (*w->text == '{') {
        read_pull_request(w);
        return;
    }
    struct pull_options pulls = {0};
    const char *wrong = pull_options_add(&pulls, w->text);
    FUZZ_CHECK((wrong == NULL) == (pulls.count == 1));
    if (!wrong) {
        const struct pull_option *pull = &pulls.list[0];
        check_printable(pull->target.url);
        const char *name = pull->target.is_secure ? pull->type->scheme.secure_name : pull->type->scheme.name;
        const size_t scheme = strlen(name);
        FUZZ_CHECK(strncmp(pull->target.url, name, scheme) == 0 && strncmp(pull->target.url + scheme, "://", 3) == 0 &&
                   stream_name_is_valid(pull->name, strlen(pull->name)));
        FUZZ_CHECK(!pull->has_user || !strpbrk(pull->user, ":\"\\\r\n"));
        FUZZ_CHECK(!strpbrk(pull->password, "\r\n"));
        check_written(pull);
    }
    pull_options_clear(&pulls);
}

/* "BASE;CONTROL" */
static void read_control(const word *w) {
    static const struct pull_scheme scheme = {"rtsp", 554, "rtsps", 322, NULL};
    char url[RTSP_URL + 1];
    const char *control = split(w);
    struct pull_target target;
    int result = rtsp_control_url(w->text, (sluice_http_text){control, strlen(control)}, url);
    FUZZ_CHECK(result == 0 || result == -EMSGSIZE);
    if (result == 0)
        FUZZ_CHECK(strlen(url) <= RTSP_URL);
    if (pull_target_read(&scheme, w->text, strlen(w->text), &target, NULL) == 0)
        check_printable(target.url);
}

static void read_address(const word *w) {
    struct sockaddr_storage address, again;
    struct admin_options admin = {0};
    char text[ADDRESS_TEXT];
    if (address_parse(w->text, w->length, &address) == 0) {
        address_format(&address, text);
        FUZZ_CHECK(address_parse(text, strlen(text), &again) == 0);
        FUZZ_CHECK(memcmp(&address, &again, sizeof address) == 0);
    }
    int result = admin_options_add(&admin, w->text);
    FUZZ_CHECK((result == 0) == (admin.count == 1));
}

static void read_query(const word *w) {
    char token[AUTHORIZE_TOKEN];
    if (authorize_query_token((sluice_http_text){w->text, w->length}, token))
        FUZZ_CHECK(*token && strlen(token) < AUTHORIZE_TOKEN && strlen(token) <= w->length);
    if (record_file_name_is_valid(w->text, w->length))
        FUZZ_CHECK(!strchr(w->text, '/') && *w->text != '.' && w->length < RECORD_FILE);
}

/* Whatever is logged is one line of ASCII: see daemon_watch_log(). */
static void log_word(const word *w) {
    LOG(LOG_INFO, "a word", {"word", w->text}, {"again", w->text});
}

void fuzz_target(fuzz_run *run) {
    static void (*const readers[])(const word *w) = {read_rule,    read_token, read_range, read_hook,
                                                     read_part,    read_name,  read_pull,  read_control,
                                                     read_address, read_query, log_word};
    uint8_t kind;
    const uint8_t *bytes;
    size_t size;
    if (!run->whole)
        return;
    daemon_watch_log();
    log_set_format(run->settings[0] & 1 ? LOG_JSON : LOG_TEXT);
    while (fuzz_record(run, &kind, &bytes, &size)) {
        word w = {.text = strndup((const char *)bytes, size)};
        FUZZ_CHECK(w.text);
        w.length = strlen(w.text);
        readers[kind % (sizeof readers / sizeof *readers)](&w);
        free(w.text);
    }
}
