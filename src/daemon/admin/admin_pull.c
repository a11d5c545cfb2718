#include "daemon/admin/admin_pull.h"

#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static void wipe_and_free(void *memory) {
    if (memory)
        explicit_bzero(memory, malloc_usable_size(memory));
    free(memory);
}

void admin_pull_init(void) {
    json_set_alloc_funcs(malloc, wipe_and_free);
}

/* NULL, or what is wrong. @option is valid, with a password, if nothing is. */
static const char *read_members(const json_t *members, struct pull_option *option, uint64_t *ret_ttl_ms) {
    const json_t *url = json_object_get(members, "url"), *stream = json_object_get(members, "stream");
    const json_t *on_demand = json_object_get(members, "on_demand"), *ttl = json_object_get(members, "ttl");
    if (json_object_size(members) != (size_t) !!url + !!stream + !!on_demand + !!ttl)
        return "expected the members url, stream, on_demand and ttl, and no others";
    if (!json_is_string(url) || !json_is_string(stream))
        return "url and stream: expected strings";
    if (on_demand && !json_is_boolean(on_demand) && !json_is_null(on_demand))
        return "on_demand: expected true or false";
    const json_int_t seconds = json_integer_value(ttl);
    if (ttl && !json_is_null(ttl) && (seconds < 1 || seconds > ADMIN_PULL_TTL_MAX_S))
        return "ttl: expected seconds from 1 to 31536000, or null";
    *ret_ttl_ms = (uint64_t)seconds * 1000;
    return pull_option_read(option, json_string_value(url), json_string_length(url), json_string_value(stream),
                            json_string_length(stream), json_is_true(on_demand));
}

int admin_pull_read(const char *text, size_t size, struct pull **ret_pull, const char **ret_wrong) {
    json_error_t reason;
    json_t *members = json_loadb(text ? text : "", size, JSON_REJECT_DUPLICATES, &reason);
    if (!members && json_error_code(&reason) == json_error_out_of_memory)
        return -ENOMEM;
    struct pull_option option = {0};
    uint64_t ttl_ms = 0;
    const char *wrong = "expected a JSON object, each member once";
    if (json_is_object(members))
        wrong = read_members(members, &option, &ttl_ms);
    json_decref(members);
    if (wrong) {
        *ret_wrong = wrong;
        return -EINVAL;
    }
    int error = pull_new(&option, ttl_ms, ret_pull);
    explicit_bzero(&option, sizeof option);
    return error;
}
