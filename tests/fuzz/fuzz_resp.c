/* RESP: replies and walks over them, bulk strings that are opened, commands that are written. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/resp.h>

#include "fuzz/fuzz.h"

typedef struct replies {
    sluice_resp *resp;
    bool opens;  /* bulk strings are opened before they are asked for */
    bool drops;  /* and then skipped */
    bool opened; /* one is open */
} replies;

static void show_value(fuzz_run *run, const sluice_resp_value *value);

/* Steps over some of the aggregates, by what their count is: the same in each run. */
static void show_walk(fuzz_run *run, sluice_resp_walk walk, bool skips) {
    sluice_resp_value value;
    while (sluice_resp_walk_next(&walk, &value)) {
        show_value(run, &value);
        if (skips && value.count % 2 == 1)
            sluice_resp_walk_skip(&walk);
    }
    FUZZ_CHECK(!sluice_resp_walk_next(&walk, &value));
    FUZZ_CHECK(walk.left == 0);
}

static void show_value(fuzz_run *run, const sluice_resp_value *value) {
    fuzz_show(run, "value", value->type);
    fuzz_show(run, "boolean", value->boolean);
    fuzz_show(run, "count", value->count);
    fuzz_show(run, "integer", value->integer);
    fuzz_show_bytes(run, "format", value->format, sizeof value->format);
    fuzz_show_bytes(run, "double", &value->number, sizeof value->number);
    fuzz_show_slice(run, "text", &value->text);
    fuzz_show(run, "is OK", sluice_resp_equals(value, "OK"));
    fuzz_show(run, "attributes", (int64_t)value->attributes.left);
    sluice_slice kept;
    if (fuzz_random(run, 4) == 0 && sluice_resp_keep(value, &kept) == 0) {
        FUZZ_CHECK(fuzz_hash(&kept) == fuzz_hash(&value->text));
        fuzz_keep(run, &kept);
        sluice_slice_release(&kept);
    }
}

static void show_reply(fuzz_run *run, sluice_resp_reply *reply) {
    show_value(run, &reply->value);
    show_walk(run, reply->value.attributes, false);
    show_walk(run, reply->elements, false);
    show_walk(run, reply->elements, true);
    fuzz_show_slice(run, "bytes", &reply->bytes);
    fuzz_keep(run, &reply->bytes);
}

/* What is there of an open body: taken, or told to have been got by other means. */
static int take_body(replies *r, sluice_chain *chain, fuzz_run *run) {
    sluice_slice slice;
    while (sluice_resp_bulk_left(r->resp) > 0 && !r->drops) {
        size_t there = sluice_chain_length(chain), most = 1 + fuzz_random(run, 600);
        if (fuzz_random(run, 2)) {
            if (sluice_resp_bulk_take(r->resp, chain, most, &slice) == 0)
                break;
        } else {
            if (most > there)
                most = there;
            if (most > sluice_resp_bulk_left(r->resp))
                most = (size_t)sluice_resp_bulk_left(r->resp);
            if (most == 0)
                break;
            FUZZ_CHECK(sluice_chain_take(chain, most, &slice) == 0);
            FUZZ_CHECK(sluice_resp_bulk_advance(r->resp, most) == 0);
        }
        fuzz_gather(run, &slice);
        fuzz_keep(run, &slice);
        sluice_slice_release(&slice);
    }
    int result = sluice_resp_bulk_close(r->resp, chain);
    if (result == -EBUSY) { /* neither taken nor dropped */
        FUZZ_CHECK(sluice_resp_bulk_left(r->resp) > 0 && sluice_chain_length(chain) == 0);
        return 0;
    }
    if (result != 0) {
        fuzz_show_gathered(run, "body");
        r->opened = false;
    }
    return result;
}

static int next(void *state, sluice_chain *chain, fuzz_run *run) {
    replies *r = state;
    sluice_resp_reply *reply;
    uint64_t length;
    int result;
    if (r->opened)
        return take_body(r, chain, run);
    if (r->opens && (result = sluice_resp_bulk_open(r->resp, chain, &length)) != -ENOMSG) {
        if (result != 1)
            return result;
        fuzz_show(run, "bulk", (int64_t)length);
        FUZZ_CHECK(sluice_resp_bulk_left(r->resp) == length);
        r->opened = true;
        if (r->drops)
            FUZZ_CHECK(sluice_resp_bulk_skip(r->resp) == 0);
        return 1;
    }
    result = sluice_resp_next(r->resp, chain, &reply);
    if (result == 1)
        show_reply(run, reply);
    return result;
}

static size_t need(const void *state) {
    return sluice_resp_need(((const replies *)state)->resp);
}

/* The input as the arguments of a command: what is written is a reply to a framer, with the same
 * arguments. */
static void write_command(fuzz_run *run) {
    enum { MOST = 8 };
    sluice_resp_arg args[MOST];
    sluice_resp_reply *reply;
    sluice_resp_value value;
    size_t count = 1 + run->settings[1] % MOST, each = run->size / count, length;
    for (size_t i = 0; i < count; i++)
        args[i] = (sluice_resp_arg){run->bytes + i * each, each};
    size_t size = sluice_resp_command_size(args, count);
    char *buffer = fuzz_copy("", 0);
    FUZZ_CHECK(sluice_resp_write_command(buffer, 0, args, count, &length) == -EMSGSIZE);
    free(buffer);
    buffer = malloc(size);
    FUZZ_CHECK(buffer && sluice_resp_write_command(buffer, size, args, count, &length) == 0 && length == size);
    sluice_resp *resp;
    sluice_chain *chain;
    FUZZ_CHECK(sluice_resp_new(NULL, &resp) == 0 && sluice_chain_new(run->pool, &chain) == 0);
    fuzz_append(run, chain, buffer, size);
    FUZZ_CHECK(sluice_resp_next(resp, chain, &reply) == 1 && reply->value.count == count);
    for (size_t i = 0; i < count; i++) {
        FUZZ_CHECK(sluice_resp_walk_next(&reply->elements, &value) && value.type == SLUICE_RESP_BULK);
        sluice_slice slice = fuzz_slice(run, args[i].data, each);
        FUZZ_CHECK(fuzz_hash(&value.text) == fuzz_hash(&slice));
        sluice_slice_release(&slice);
    }
    sluice_chain_free(chain);
    sluice_resp_free(resp);
    free(buffer);
}

void fuzz_target(fuzz_run *run) {
    static const sluice_resp_limits limits[] = {
        {.size = sizeof(sluice_resp_limits)},
        {.size = sizeof(sluice_resp_limits), .bulk = 20, .line = 10, .elements = 5, .depth = 2},
        {.size = sizeof(sluice_resp_limits), .reply = 60},
        {.size = sizeof(sluice_resp_limits), .depth = SLUICE_RESP_MAX_DEPTH, .elements = 100},
    };
    uint8_t how = run->settings[0];
    replies r = {.opens = how & 4, .drops = how & 8};
    FUZZ_CHECK(sluice_resp_new(&limits[how % 4], &r.resp) == 0);
    fuzz_drive(run, &(fuzz_framer){next, need}, &r);
    if (r.opened && !r.drops)
        fuzz_show_gathered(run, "begun");
    sluice_resp_free(r.resp);
    if (how & 16)
        write_command(run);
}
