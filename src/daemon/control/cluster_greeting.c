#include "daemon/control/cluster_greeting.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/slice.h>

/* A text; cut if it is longer. False: it is none. */
static bool copy_text(const sluice_resp_value *value, char *text, size_t size) {
    const size_t length = sluice_slice_length(&value->text);
    if (value->type != SLUICE_RESP_BULK && value->type != SLUICE_RESP_SIMPLE && value->type != SLUICE_RESP_VERBATIM)
        return false;
    const size_t copied = length < size - 1 ? length : size - 1;
    sluice_slice_copy(&value->text, 0, text, copied);
    text[copied] = '\0';
    return true;
}

static bool copy_word(const sluice_resp_value *value, char text[CLUSTER_GREETING_WORD + 1]) {
    if (!copy_text(value, text, CLUSTER_GREETING_WORD + 1))
        return false;
    for (char *c = text; *c; c++)
        if (!node_name_is_valid(c, 1))
            *c = '?';
    return true;
}

static bool is_error(const sluice_resp_reply *reply) {
    return reply->value.type == SLUICE_RESP_ERROR || reply->value.type == SLUICE_RESP_BULK_ERROR;
}

/* Its first word says which it is; what follows may contain what was sent. */
static int error_of(const sluice_resp_reply *reply) {
    static const struct {
        const char *word;
        int error;
    } errors[] = {
        {"WRONGPASS", -EACCES}, {"NOAUTH", -EACCES},  {"NOPERM", -EACCES},     {"NOPROTO", -EPROTONOSUPPORT},
        {"LOADING", -EAGAIN},   {"BUSY", -EAGAIN},    {"MASTERDOWN", -EAGAIN}, {"TRYAGAIN", -EAGAIN},
        {"DENIED", -EPERM},     {"INVALID", -EACCES},
    };
    static const char unknown[] = "ERR unknown command";
    char text[sizeof unknown];
    const size_t length = sluice_slice_length(&reply->value.text);
    const size_t copied = length < sizeof text - 1 ? length : sizeof text - 1;
    sluice_slice_copy(&reply->value.text, 0, text, copied);
    text[copied] = '\0';
    if (strcmp(text, unknown) == 0)
        return -EPROTONOSUPPORT;
    text[strcspn(text, " ")] = '\0';
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strcmp(text, errors[i].word) == 0)
            return errors[i].error;
    return -EREMOTEIO;
}

static void read_field(const sluice_resp_value *key, const sluice_resp_value *value,
                       struct cluster_greeting *greeting) {
    if (sluice_resp_equals(key, "server"))
        (void)copy_word(value, greeting->server);
    else if (sluice_resp_equals(key, "version"))
        (void)copy_word(value, greeting->version);
    else if (sluice_resp_equals(key, "mode"))
        greeting->mode = sluice_resp_equals(value, "sentinel")  ? CLUSTER_SERVER_SENTINEL
                         : sluice_resp_equals(value, "cluster") ? CLUSTER_SERVER_CLUSTER
                                                                : CLUSTER_SERVER_SINGLE;
    else if (sluice_resp_equals(key, "role"))
        greeting->is_master = sluice_resp_equals(value, "master");
}

int cluster_greeting_read(const sluice_resp_reply *reply, struct cluster_greeting *ret_greeting) {
    struct cluster_greeting greeting = {.server = "?", .version = "?"};
    sluice_resp_walk walk = reply->elements;
    sluice_resp_value key, value;
    if (is_error(reply))
        return error_of(reply);
    if (reply->value.type != SLUICE_RESP_MAP)
        return -EPROTO;
    while (sluice_resp_walk_next(&walk, &key)) {
        sluice_resp_walk_skip(&walk);
        if (!sluice_resp_walk_next(&walk, &value))
            return -EPROTO;
        sluice_resp_walk_skip(&walk);
        read_field(&key, &value, &greeting);
    }
    *ret_greeting = greeting;
    return 0;
}

/* A port, as a text or as a number; 0: it is none. */
static unsigned port_of(const sluice_resp_value *value) {
    char text[8];
    if (value->type == SLUICE_RESP_INTEGER)
        return value->integer > 0 && value->integer <= UINT16_MAX ? (unsigned)value->integer : 0;
    if (!copy_text(value, text, sizeof text) || !*text || strspn(text, "0123456789") != strlen(text))
        return 0;
    const unsigned long port = strtoul(text, NULL, 10);
    return port <= UINT16_MAX ? (unsigned)port : 0;
}

/* The next two elements: a host and its port. 0, -EPROTO */
static int read_place(sluice_resp_walk *walk, struct cluster_place *ret_place) {
    sluice_resp_value host, port;
    char text[HOOK_HOST + 2];
    if (!sluice_resp_walk_next(walk, &host) || !copy_text(&host, text, sizeof text) ||
        !sluice_resp_walk_next(walk, &port) || !cluster_place_make(text, port_of(&port), ret_place))
        return -EPROTO;
    return 0;
}

int cluster_greeting_read_role(const sluice_resp_reply *reply, struct cluster_place *ret_master) {
    sluice_resp_walk walk = reply->elements;
    sluice_resp_value role;
    if (is_error(reply))
        return error_of(reply);
    if (reply->value.type != SLUICE_RESP_ARRAY || !sluice_resp_walk_next(&walk, &role))
        return -EPROTO;
    return sluice_resp_equals(&role, "slave") ? read_place(&walk, ret_master) : -ENOENT;
}

/* The name among the fields of a master: a map, or an array of RESP 2. */
static bool read_name(sluice_resp_walk *walk, uint32_t fields, char ret_name[CLUSTER_OPTION_SENTINEL + 1]) {
    char name[CLUSTER_OPTION_SENTINEL + 2];
    sluice_resp_value key, value;
    bool is_found = false;
    for (uint32_t i = 0; i + 1 < fields; i += 2) {
        if (!sluice_resp_walk_next(walk, &key))
            return false;
        sluice_resp_walk_skip(walk);
        if (!sluice_resp_walk_next(walk, &value))
            return false;
        sluice_resp_walk_skip(walk);
        if (!sluice_resp_equals(&key, "name") || !copy_text(&value, name, sizeof name) ||
            !node_name_is_valid(name, strlen(name)))
            continue;
        strcpy(ret_name, name);
        is_found = true;
    }
    return is_found;
}

int cluster_greeting_read_masters(const sluice_resp_reply *reply, char ret_name[CLUSTER_OPTION_SENTINEL + 1]) {
    sluice_resp_walk walk = reply->elements;
    sluice_resp_value master;
    char name[CLUSTER_OPTION_SENTINEL + 1];
    if (is_error(reply))
        return error_of(reply);
    if (reply->value.type != SLUICE_RESP_ARRAY)
        return -EPROTO;
    if (reply->value.count != 1)
        return reply->value.count == 0 ? -ENOENT : -E2BIG;
    if (!sluice_resp_walk_next(&walk, &master) ||
        (master.type != SLUICE_RESP_MAP && master.type != SLUICE_RESP_ARRAY) || !read_name(&walk, master.count, name))
        return -EPROTO;
    strcpy(ret_name, name);
    return 0;
}

int cluster_greeting_read_master(const sluice_resp_reply *reply, struct cluster_place *ret_master) {
    sluice_resp_walk walk = reply->elements;
    if (is_error(reply))
        return error_of(reply);
    if (reply->value.type == SLUICE_RESP_NULL)
        return -ENOENT;
    return reply->value.type == SLUICE_RESP_ARRAY ? read_place(&walk, ret_master) : -EPROTO;
}
