#include "daemon/cluster/cluster_script.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/slice.h>

#include "daemon/cluster/cluster_lua.h"
#include "daemon/cluster/cluster_node.h"
#include "shared/text.h"

enum {
    STREAM_LIFE_MS = 60 * 60 * 1000,
    EPOCH_LIFE_MS = 24 * 60 * 60 * 1000,
    PAGE_LIFE_MS = 60 * 1000, /* of what nobody asks for any more */
    SHA = 40,
    ARGS = 12 + CLUSTER_BATCH * CLUSTER_LUA_TAKE_ARGS,
    TEXTS = 2048 + CLUSTER_BATCH * 128, /* bytes of what is not the command's own text */
    CHANNEL = CLUSTER_PREFIX + 16,
    WORD = 512, /* bytes, more than any that is valid */
    ERROR_TEXT = 256,
};

struct cluster_script {
    char prefix[CLUSTER_PREFIX + 1];
    char channel[CHANNEL];
    char shas[CLUSTER_LUAS][SHA + 1]; /* empty: not loaded */
    sluice_resp_client_arg args[ARGS];
    size_t count;
    char texts[TEXTS];
    size_t used;
};

static bool prefix_is_valid(const char *prefix) {
    size_t length = strlen(prefix);
    for (size_t i = 0; i < length; i++)
        if (prefix[i] != ':' && !cluster_node_name_is_valid(prefix + i, 1))
            return false;
    return length > 0 && length <= CLUSTER_PREFIX;
}

int cluster_script_new(const char *prefix, struct cluster_script **ret_script) {
    if (!prefix_is_valid(prefix))
        return -EINVAL;
    struct cluster_script *script = calloc(1, sizeof *script);
    if (!script)
        return -ENOMEM;
    strcpy(script->prefix, prefix);
    snprintf(script->channel, sizeof script->channel, "%s:events", prefix);
    *ret_script = script;
    return 0;
}

void cluster_script_free(struct cluster_script *script) {
    free(script);
}

const char *cluster_script_channel(const struct cluster_script *script) {
    return script->channel;
}

size_t cluster_script_count(void) {
    return CLUSTER_LUAS;
}

static void add(struct cluster_script *script, const char *text) {
    script->args[script->count++] = (sluice_resp_client_arg){.data = text, .length = strlen(text)};
}

__attribute__((format(printf, 2, 3))) static void add_format(struct cluster_script *script, const char *format, ...) {
    char *text = script->texts + script->used;
    va_list values;
    va_start(values, format);
    script->used += (size_t)vsnprintf(text, sizeof script->texts - script->used, format, values) + 1;
    va_end(values);
    add(script, text);
}

static void add_number(struct cluster_script *script, uint64_t number) {
    add_format(script, "%" PRIu64, number);
}

static void add_incarnation(struct cluster_script *script, uint64_t incarnation) {
    add_format(script, "%016" PRIx64, incarnation);
}

static void add_host(struct cluster_script *script, const struct cidr_address *host) {
    char text[CLUSTER_HOST_TEXT + 1];
    cluster_write_host(host, text);
    add_format(script, "%s", text);
}

const sluice_resp_client_arg *cluster_script_load(struct cluster_script *script, size_t index, size_t *ret_count) {
    script->count = script->used = 0;
    add(script, "SCRIPT");
    add(script, "LOAD");
    add(script, cluster_lua_text((enum cluster_lua)index));
    *ret_count = script->count;
    return script->args;
}

static void begin(struct cluster_script *script, enum cluster_lua lua, const struct cluster_command *command) {
    add(script, "EVALSHA");
    add(script, script->shas[lua]);
    add(script, "0");
    add(script, script->prefix);
    add(script, command->node);
    add_incarnation(script, command->incarnation);
}

static void write_renew(struct cluster_script *script, const struct cluster_command *command) {
    const struct cluster_load *load = &command->load;
    begin(script, CLUSTER_LUA_RENEW, command);
    add_format(script, "%03x", (unsigned)(command->random & 0x3ff));
    add_number(script, command->beat);
    add_format(script, "%s %s %" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu32, command->is_secure ? "https" : "http",
               command->address, load->streams, load->players, load->bits_per_second, load->cpu_permille);
    add_number(script, CLUSTER_LEASE_MS);
    add_number(script, CLUSTER_NODES_MAX);
}

static void write_take(struct cluster_script *script, const struct cluster_command *command) {
    static const char *const ways[] = {
        [CLUSTER_TAKE_FREE] = "free",
        [CLUSTER_TAKE_OVER] = "over",
        [CLUSTER_TAKE_FROM_HOST] = "host",
        [CLUSTER_TAKE_ASSERT] = "assert",
    };
    begin(script, CLUSTER_LUA_TAKE, command);
    add(script, command->is_secure ? "https" : "http");
    add(script, command->address);
    add_number(script, STREAM_LIFE_MS);
    for (size_t i = 0; i < command->count; i++) {
        const struct cluster_item *item = &command->items[i];
        add(script, item->stream);
        add(script, ways[item->take]);
        add_host(script, &item->host);
        add_number(script, item->epoch);
        add_number(script, item->floor);
        add_incarnation(script, item->dead_incarnation);
        add_number(script, item->dead_beat);
        add(script, item->asks ? "1" : "0");
    }
}

static void write_drop(struct cluster_script *script, const struct cluster_command *command) {
    begin(script, CLUSTER_LUA_DROP, command);
    add_number(script, EPOCH_LIFE_MS);
    for (size_t i = 0; i < command->count; i++) {
        const struct cluster_item *item = &command->items[i];
        add(script, item->stream);
        add_number(script, item->epoch);
        add_number(script, item->keep_ms);
        add_host(script, &item->host);
    }
}

static void write_find(struct cluster_script *script, const struct cluster_command *command) {
    begin(script, CLUSTER_LUA_FIND, command);
    for (size_t i = 0; i < command->count; i++)
        add(script, command->items[i].stream);
}

static void write_list(struct cluster_script *script, const struct cluster_command *command) {
    begin(script, CLUSTER_LUA_LIST, command);
    add_number(script, command->cursor);
    add_number(script, CLUSTER_NODES_PAGE);
    add_number(script, CLUSTER_PAGE_MS);
    add_number(script, PAGE_LIFE_MS);
}

static int write_notify(struct cluster_script *script, const struct cluster_command *command) {
    char text[CLUSTER_EVENT_TEXT];
    int error = cluster_event_format(command->event, text);
    if (error)
        return error;
    add(script, "PUBLISH");
    add(script, script->channel);
    add_format(script, "%s", text);
    return 0;
}

static int write_ban(struct cluster_script *script, const struct cluster_command *command) {
    const struct cluster_event *event = command->event;
    const bool lifts = event->verb == CLUSTER_EVENT_UNBAN;
    if ((!lifts && event->verb != CLUSTER_EVENT_BAN) || !stream_name_is_valid(event->stream, strlen(event->stream)) ||
        (!lifts && event->ms == 0) || event->ms > CLUSTER_BAN_MS)
        return -EINVAL;
    begin(script, CLUSTER_LUA_BAN, command);
    add(script, event->stream);
    add_host(script, &event->host);
    add_number(script, lifts ? 0 : event->ms);
    add_number(script, CLUSTER_BANS);
    add_number(script, CLUSTER_BAN_MS);
    return 0;
}

static void write_list_bans(struct cluster_script *script, const struct cluster_command *command) {
    begin(script, CLUSTER_LUA_BANS, command);
    add_number(script, CLUSTER_BANS);
    add_number(script, CLUSTER_BAN_MS);
}

static bool has_items(enum cluster_verb verb) {
    return verb == CLUSTER_TAKE || verb == CLUSTER_DROP || verb == CLUSTER_FIND;
}

/* CLUSTER_LUAS: it needs none. */
static enum cluster_lua lua_of(enum cluster_verb verb) {
    static const enum cluster_lua luas[CLUSTER_VERBS] = {
        [CLUSTER_RENEW] = CLUSTER_LUA_RENEW, [CLUSTER_TAKE] = CLUSTER_LUA_TAKE, [CLUSTER_DROP] = CLUSTER_LUA_DROP,
        [CLUSTER_FIND] = CLUSTER_LUA_FIND,   [CLUSTER_LIST] = CLUSTER_LUA_LIST, [CLUSTER_LEAVE] = CLUSTER_LUA_LEAVE,
        [CLUSTER_NOTIFY] = CLUSTER_LUAS,     [CLUSTER_BAN] = CLUSTER_LUA_BAN,   [CLUSTER_LIST_BANS] = CLUSTER_LUA_BANS,
    };
    return luas[verb];
}

int cluster_script_write(struct cluster_script *script, const struct cluster_command *command,
                         const sluice_resp_client_arg **ret_args, size_t *ret_count) {
    int error = 0;
    if (has_items(command->verb) && (command->count == 0 || command->count > CLUSTER_BATCH))
        return -EINVAL;
    if (command->verb != CLUSTER_NOTIFY && !script->shas[lua_of(command->verb)][0])
        return -ENOEXEC;
    script->count = script->used = 0;
    switch (command->verb) {
    case CLUSTER_RENEW:
        write_renew(script, command);
        break;
    case CLUSTER_TAKE:
        write_take(script, command);
        break;
    case CLUSTER_DROP:
        write_drop(script, command);
        break;
    case CLUSTER_FIND:
        write_find(script, command);
        break;
    case CLUSTER_LIST:
        write_list(script, command);
        break;
    case CLUSTER_LEAVE:
        begin(script, CLUSTER_LUA_LEAVE, command);
        break;
    case CLUSTER_NOTIFY:
        error = write_notify(script, command);
        break;
    case CLUSTER_BAN:
        error = write_ban(script, command);
        break;
    case CLUSTER_LIST_BANS:
        write_list_bans(script, command);
        break;
    case CLUSTER_VERBS:
        return -EINVAL;
    }
    if (error)
        return error;
    *ret_args = script->args;
    *ret_count = script->count;
    return 0;
}

/* A word of a reply. */
struct word {
    char text[WORD];
    size_t length;
};

static bool is_text(const sluice_resp_value *value) {
    return value->type == SLUICE_RESP_BULK || value->type == SLUICE_RESP_SIMPLE;
}

static bool text_of_value(const sluice_resp_value *value, struct word *ret_word) {
    if (!is_text(value) || value->text.length >= sizeof ret_word->text)
        return false;
    ret_word->length = sluice_slice_copy(&value->text, 0, ret_word->text, value->text.length);
    ret_word->text[ret_word->length] = '\0';
    return !memchr(ret_word->text, '\0', ret_word->length);
}

static bool next_word(sluice_resp_walk *walk, struct word *ret_word) {
    sluice_resp_value value;
    return sluice_resp_walk_next(walk, &value) && text_of_value(&value, ret_word);
}

static bool next_number(sluice_resp_walk *walk, uint64_t most, uint64_t *ret_number) {
    struct word word;
    return next_word(walk, &word) && cluster_read_number(word.text, word.length, most, ret_number);
}

/* 0 for an empty word. */
static bool next_incarnation(sluice_resp_walk *walk, uint64_t *ret_incarnation) {
    struct word word;
    return next_word(walk, &word) &&
           (word.length == 0 || cluster_read_incarnation(word.text, word.length, ret_incarnation));
}

static bool next_result(sluice_resp_walk *walk, int most, int *ret_result) {
    sluice_resp_value value;
    if (!sluice_resp_walk_next(walk, &value) || value.type != SLUICE_RESP_INTEGER || value.integer < 0 ||
        value.integer > most)
        return false;
    *ret_result = (int)value.integer;
    return true;
}

/* The node of a location, with all that it needs to be asked; or nothing of it. */
static bool next_place(sluice_resp_walk *walk, struct cluster_location *location) {
    struct word name, scheme, address;
    if (!next_word(walk, &name) || !next_incarnation(walk, &location->incarnation) || !next_word(walk, &scheme) ||
        !next_word(walk, &address))
        return false;
    if (name.length == 0)
        return location->incarnation == 0 && scheme.length == 0 && address.length == 0;
    if (!cluster_node_name_is_valid(name.text, name.length) || location->incarnation == 0 ||
        !cluster_read_scheme(scheme.text, scheme.length, &location->is_secure) ||
        !cluster_address_is_valid(address.text, address.length))
        return false;
    strcpy(location->node, name.text);
    strcpy(location->address, address.text);
    return true;
}

static bool next_item(sluice_resp_walk *walk, int most, struct cluster_item_reply *item) {
    sluice_resp_value value;
    int result = 0;
    if (!sluice_resp_walk_next(walk, &value) || value.type != SLUICE_RESP_ARRAY || value.count != CLUSTER_LUA_FIELDS)
        return false;
    if (!next_result(walk, most, &result) || !next_place(walk, &item->location) ||
        !next_number(walk, CLUSTER_EPOCH_MAX, &item->location.epoch) ||
        !next_incarnation(walk, &item->lease_incarnation) || !next_number(walk, CLUSTER_EPOCH_MAX, &item->lease_beat))
        return false;
    item->result = (enum cluster_result)result;
    /* Another node that holds it is named. */
    return item->result != CLUSTER_HELD || item->location.node[0];
}

static int read_items(sluice_resp_walk *walk, int most, size_t count, struct cluster_reply *reply) {
    reply->items = calloc(count, sizeof *reply->items);
    if (!reply->items)
        return -ENOMEM;
    reply->count = count;
    for (size_t i = 0; i < count; i++)
        if (!next_item(walk, most, &reply->items[i]))
            return -EPROTO;
    return 0;
}

static int read_renew(const sluice_resp_reply *resp, struct cluster_reply *reply) {
    sluice_resp_walk walk = resp->elements;
    int result = 0;
    if (resp->value.count != 4 || !next_result(&walk, CLUSTER_LEASE_FULL, &result) || result == CLUSTER_LEASE_NONE ||
        !next_number(&walk, CLUSTER_EPOCH_MAX, &reply->engine_us) || !next_incarnation(&walk, &reply->incarnation) ||
        !next_number(&walk, CLUSTER_EPOCH_MAX, &reply->last_beat))
        return -EPROTO;
    reply->lease = (enum cluster_lease)result;
    return (reply->incarnation != 0) == (reply->lease != CLUSTER_LEASE_FULL) ? 0 : -EPROTO;
}

static int read_take(const sluice_resp_reply *resp, size_t count, struct cluster_reply *reply) {
    sluice_resp_walk walk = resp->elements;
    int result = 0;
    if (resp->value.count < 2 || !next_result(&walk, CLUSTER_LEASE_ANOTHER, &result) ||
        !next_incarnation(&walk, &reply->incarnation))
        return -EPROTO;
    reply->lease = (enum cluster_lease)result;
    if (reply->lease != CLUSTER_LEASE_OURS)
        return resp->value.count == 2 ? 0 : -EPROTO;
    return resp->value.count == 2 + count ? read_items(&walk, CLUSTER_RESERVED, count, reply) : -EPROTO;
}

static int read_find(const sluice_resp_reply *resp, size_t count, struct cluster_reply *reply) {
    sluice_resp_walk walk = resp->elements;
    return resp->value.count == count ? read_items(&walk, CLUSTER_GRANTED, count, reply) : -EPROTO;
}

/* A line of a list: name, incarnation, beat, scheme, address, streams, players, bits, CPU. */
static bool read_node(sluice_http_text rest, struct cluster_node_reply *node) {
    sluice_http_text words[9];
    uint64_t streams = 0, players = 0, cpu = 0;
    for (size_t i = 0; i < 9; i++)
        words[i] = text_split(&rest, ' ');
    if (rest.length > 0 || !cluster_node_name_is_valid(words[0].text, words[0].length) ||
        !cluster_read_incarnation(words[1].text, words[1].length, &node->incarnation) ||
        !text_number(words[2], CLUSTER_EPOCH_MAX, &node->beat) ||
        !cluster_read_scheme(words[3].text, words[3].length, &node->is_secure) ||
        !cluster_address_is_valid(words[4].text, words[4].length) || !text_number(words[5], UINT32_MAX, &streams) ||
        !text_number(words[6], UINT32_MAX, &players) ||
        !text_number(words[7], UINT64_MAX, &node->load.bits_per_second) || !text_number(words[8], UINT32_MAX, &cpu))
        return false;
    memcpy(node->name, words[0].text, words[0].length);
    memcpy(node->address, words[4].text, words[4].length);
    node->load.streams = (uint32_t)streams;
    node->load.players = (uint32_t)players;
    node->load.cpu_permille = (uint32_t)cpu;
    return true;
}

/* Time and cursor, and a line for each node. */
static int read_page(sluice_http_text page, struct cluster_reply *reply) {
    sluice_http_text first = text_split(&page, '\n');
    const sluice_http_text time = text_split(&first, ' ');
    uint64_t engine_us;
    size_t count = page.length > 0;
    for (size_t i = 0; i < page.length; i++)
        count += page.text[i] == '\n';
    if (count > CLUSTER_NODES_REPLY || !text_number(time, CLUSTER_EPOCH_MAX, &engine_us) ||
        !text_number(first, UINT64_MAX, &reply->cursor))
        return -EPROTO;
    reply->nodes = calloc(count ? count : 1, sizeof *reply->nodes);
    if (!reply->nodes)
        return -ENOMEM;
    reply->node_count = count;
    for (size_t i = 0; i < count; i++)
        if (!read_node(text_split(&page, '\n'), &reply->nodes[i]))
            return -EPROTO;
    return 0;
}

static int read_list(const sluice_resp_reply *resp, struct cluster_reply *reply) {
    const size_t length = resp->value.text.length;
    if (!is_text(&resp->value))
        return -EPROTO;
    char *text = malloc(length + 1);
    if (!text)
        return -ENOMEM;
    sluice_slice_copy(&resp->value.text, 0, text, length);
    int error = read_page((sluice_http_text){text, length}, reply);
    free(text);
    return error;
}

/* Stream and host, and what is left of its time. */
static bool next_ban(sluice_resp_walk *walk, struct cluster_ban *ban) {
    struct word word;
    if (!next_word(walk, &word) || !next_number(walk, CLUSTER_BAN_MS, &ban->ms) || ban->ms == 0)
        return false;
    sluice_http_text host = {word.text, word.length};
    const sluice_http_text stream = text_split(&host, ' ');
    if (!stream_name_is_valid(stream.text, stream.length) || stream.length > STREAM_NAME ||
        !cluster_read_host(host.text, host.length, &ban->host))
        return false;
    memcpy(ban->stream, stream.text, stream.length);
    ban->stream[stream.length] = '\0';
    return true;
}

static int read_bans(const sluice_resp_reply *resp, struct cluster_reply *reply) {
    sluice_resp_walk walk = resp->elements;
    const size_t count = resp->value.count / 2;
    if (resp->value.count % 2 != 1 || count > CLUSTER_BANS || !next_number(&walk, UINT64_MAX, &reply->bans_since))
        return -EPROTO;
    reply->bans = calloc(count ? count : 1, sizeof *reply->bans);
    if (!reply->bans)
        return -ENOMEM;
    reply->ban_count = count;
    for (size_t i = 0; i < count; i++)
        if (!next_ban(&walk, &reply->bans[i]))
            return -EPROTO;
    return 0;
}

/* A number that says nothing to the node: how many were released, or have been told. */
static int read_count(const sluice_resp_reply *resp) {
    return resp->value.type == SLUICE_RESP_INTEGER && resp->value.integer >= 0 ? 0 : -EPROTO;
}

static int error_of(const sluice_resp_value *value) {
    static const struct {
        const char *word;
        int error;
    } errors[] = {
        {"NOSCRIPT", -ENOEXEC},    {"READONLY", -EROFS},         {"MASTERDOWN", -EROFS}, {"LOADING", -EROFS},
        {"NOREPLICAS", -EROFS},    {"UNBLOCKED", -EROFS},        {"NOAUTH", -EACCES},    {"NOPERM", -EACCES},
        {"WRONGPASS", -EACCES},    {"MOVED", -EOPNOTSUPP},       {"ASK", -EOPNOTSUPP},   {"CROSSSLOT", -EOPNOTSUPP},
        {"TRYAGAIN", -EOPNOTSUPP}, {"CLUSTERDOWN", -EOPNOTSUPP}, {"OOM", -ENOSPC},       {"MISCONF", -ENOSPC},
        {"WRONGTYPE", -EEXIST},
    };
    char text[ERROR_TEXT];
    size_t length = sluice_slice_copy(&value->text, 0, text, sizeof text - 1);
    text[length] = '\0';
    if (strstr(text, "non local key") || strstr(text, "unknown command") || strstr(text, "Unknown Redis command"))
        return -EOPNOTSUPP;
    if (strstr(text, "user executing the script can't") || strstr(text, "ACL failure in script"))
        return -EACCES;
    text[strcspn(text, " ")] = '\0';
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (strcmp(text, errors[i].word) == 0)
            return errors[i].error;
    return -EREMOTEIO;
}

static bool is_error(const sluice_resp_reply *resp) {
    return resp->value.type == SLUICE_RESP_ERROR || resp->value.type == SLUICE_RESP_BULK_ERROR;
}

int cluster_script_loaded(struct cluster_script *script, size_t index, const sluice_resp_reply *resp) {
    struct word word;
    if (is_error(resp))
        return error_of(&resp->value);
    if (!text_of_value(&resp->value, &word) || word.length != SHA ||
        strspn(word.text, "0123456789abcdef") != word.length)
        return -EPROTO;
    strcpy(script->shas[index], word.text);
    return 0;
}

static int read_verb(enum cluster_verb verb, size_t count, const sluice_resp_reply *resp, struct cluster_reply *reply) {
    bool is_count = verb == CLUSTER_DROP || verb == CLUSTER_LEAVE || verb == CLUSTER_NOTIFY || verb == CLUSTER_BAN;
    if (is_count)
        return read_count(resp);
    if (verb == CLUSTER_LIST)
        return read_list(resp, reply);
    if (resp->value.type != SLUICE_RESP_ARRAY)
        return -EPROTO;
    switch (verb) {
    case CLUSTER_RENEW:
        return read_renew(resp, reply);
    case CLUSTER_TAKE:
        return read_take(resp, count, reply);
    case CLUSTER_FIND:
        return read_find(resp, count, reply);
    case CLUSTER_LIST_BANS:
        return read_bans(resp, reply);
    default:
        return -EPROTO;
    }
}

int cluster_script_read(enum cluster_verb verb, size_t count, const sluice_resp_reply *resp,
                        struct cluster_reply *ret_reply) {
    struct cluster_reply reply = {0};
    if (is_error(resp))
        return error_of(&resp->value);
    int error = has_items(verb) && (count == 0 || count > CLUSTER_BATCH) ? -EPROTO
                                                                         : read_verb(verb, count, resp, &reply);
    if (error) {
        cluster_reply_clear(&reply);
        return error;
    }
    *ret_reply = reply;
    return 0;
}

void cluster_reply_clear(struct cluster_reply *reply) {
    free(reply->items);
    free(reply->nodes);
    free(reply->bans);
    *reply = (struct cluster_reply){0};
}

int cluster_script_read_push(const struct cluster_script *script, const sluice_resp_reply *push,
                             struct cluster_event *ret_event) {
    sluice_resp_walk walk = push->elements;
    sluice_resp_value value;
    char text[CLUSTER_EVENT_TEXT];
    if ((push->value.type != SLUICE_RESP_PUSH && push->value.type != SLUICE_RESP_ARRAY) ||
        !sluice_resp_walk_next(&walk, &value) || !sluice_resp_equals(&value, "message"))
        return -ENOMSG;
    if (push->value.count != 3 || !sluice_resp_walk_next(&walk, &value) || !is_text(&value) ||
        !sluice_resp_equals(&value, script->channel) || !sluice_resp_walk_next(&walk, &value) || !is_text(&value) ||
        value.text.length >= sizeof text)
        return -EPROTO;
    size_t length = sluice_slice_copy(&value.text, 0, text, value.text.length);
    return cluster_event_parse(text, length, ret_event);
}
