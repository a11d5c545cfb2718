#include "daemon/admin/admin_pull.h"

#include <errno.h>
#include <string.h>

#include "shared/json_read.h"

/* The strings lie in the body. */
struct request {
    struct json_member url, stream, on_demand, ttl;
    const char *wrong;
};

static struct json_member *find(struct request *request, const char *key) {
    struct {
        const char *key;
        struct json_member *member;
    } members[] = {{"url", &request->url},
                   {"stream", &request->stream},
                   {"on_demand", &request->on_demand},
                   {"ttl", &request->ttl}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (strcmp(members[i].key, key) == 0)
            return members[i].member;
    return NULL;
}

static int take(const struct json_member *member, void *user) {
    struct request *request = user;
    struct json_member *to = find(request, member->key);
    if (!to || to->key) {
        request->wrong = "expected the members url, stream, on_demand and ttl, each once, and no others";
        return -EINVAL;
    }
    *to = *member;
    return 0;
}

/* NULL, or what is wrong. A member that is missing is null. */
static const char *check(const struct request *request) {
    const struct json_member *ttl = &request->ttl;
    if (request->url.kind != JSON_KIND_STRING || request->stream.kind != JSON_KIND_STRING)
        return "url and stream: expected strings";
    if (request->on_demand.kind != JSON_KIND_TRUE && request->on_demand.kind != JSON_KIND_FALSE &&
        request->on_demand.kind != JSON_KIND_NULL)
        return "on_demand: expected true or false";
    if (ttl->kind != JSON_KIND_NULL &&
        (ttl->kind != JSON_KIND_INTEGER || ttl->integer < 1 || ttl->integer > ADMIN_PULL_TTL_MAX_S))
        return "ttl: expected seconds from 1 to 31536000, or null";
    return NULL;
}

int admin_pull_read(char *text, size_t size, struct pull **ret_pull, const char **ret_wrong) {
    const struct json_member none = {.kind = JSON_KIND_NULL};
    struct request request = {none, none, none, none, "expected a JSON object of plain values"};
    struct pull_option option;
    int error = json_read_object(text, size, take, &request);
    const char *wrong = error ? request.wrong : check(&request);
    if (!wrong)
        wrong = pull_option_read(&option, request.url.text, request.url.length, request.stream.text,
                                 request.stream.length, request.on_demand.kind == JSON_KIND_TRUE);
    if (wrong) {
        *ret_wrong = wrong;
        return -EINVAL;
    }
    uint64_t ttl_ms = request.ttl.kind == JSON_KIND_INTEGER ? (uint64_t)request.ttl.integer * 1000 : 0;
    error = pull_new(&option, ttl_ms, ret_pull);
    explicit_bzero(&option, sizeof option);
    return error;
}
