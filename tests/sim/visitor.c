#include "sim/visitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/recording/record_files.h"
#include "sim/kernel.h"
#include "sim/peers.h"
#include "sim/world.h"

enum { HEAD = 2048, PIECE = 65536, PAGE_MOST = 8, OUT = 512 };

struct sim_visitor {
    struct visitor_plan plan;
    char who[32];
    struct file *file;
    bool is_over, has_left;
    uint32_t asked, answered;
    char out[OUT];
    size_t out_length, out_sent;

    /* What is asked for now: */
    char path[RECORD_PATH]; /* of a file; empty: a list */
    bool head_only, has_range;
    uint64_t first, last;
    size_t limit, least; /* entries that there were then, up to the limit */
    char after[RECORD_FILE];

    /* The answer: */
    char head[HEAD];
    size_t head_length;
    unsigned status;
    uint64_t length; /* of its body */
    uint8_t *body;
    uint64_t body_length, body_room;

    char next[RECORD_FILE]; /* where the last list goes on; empty: it does not */
};

/* What there is: complete recordings of the stream behind a name. */
static bool is_listed(const struct sim_visitor *visitor, const struct disk_file *file, const char *after) {
    char folder[16];
    size_t length = (size_t)snprintf(folder, sizeof folder, "live/%u/", visitor->plan.stream);
    const char *name = file->path + length;
    return strncmp(file->path, folder, length) == 0 && record_file_name_is_valid(name, strlen(name)) &&
           strcmp(name, after) > 0;
}

static size_t count_files(const struct sim_visitor *visitor, const char *after) {
    size_t count = 0;
    for (const struct disk_file *file = disk_first(); file; file = file->next)
        count += is_listed(visitor, file, after);
    return count;
}

/* Requests */

static void ask_for_list(struct sim_visitor *visitor, char *query, size_t room) {
    *visitor->path = '\0';
    visitor->limit = world_between(1, PAGE_MOST);
    snprintf(visitor->after, sizeof visitor->after, "%s", visitor->next);
    size_t there = count_files(visitor, visitor->after);
    visitor->least = there < visitor->limit ? there : visitor->limit;
    snprintf(query, room, "?limit=%zu%s%s", visitor->limit, *visitor->after ? "&after=" : "", visitor->after);
}

/* One of those that there are; NULL for none. */
static const struct disk_file *choose_file(const struct sim_visitor *visitor) {
    size_t count = count_files(visitor, "");
    size_t left = count > 0 ? world_random((uint32_t)count) : 0;
    const struct disk_file *file = disk_first();
    while (file && (!is_listed(visitor, file, "") || left-- > 0))
        file = file->next;
    return file;
}

static void ask_for_file(struct sim_visitor *visitor, char *range, size_t room) {
    const struct disk_file *file = world_one_in(10) ? NULL : choose_file(visitor);
    if (file)
        snprintf(visitor->path, sizeof visitor->path, "%s", file->path);
    else
        snprintf(visitor->path, sizeof visitor->path, "live/%u/2001-01-01T00-00-00.000Z.flv", visitor->plan.stream);
    visitor->has_range = world_one_in(2);
    if (!visitor->has_range)
        return;
    uint32_t size = file ? (uint32_t)file->size : 100;
    visitor->first = world_random(size + 10);
    visitor->last = visitor->first + world_random(size);
    snprintf(range, room, "Range: bytes=%llu-%llu\r\n", (unsigned long long)visitor->first,
             (unsigned long long)visitor->last);
}

static void ask(struct sim_visitor *visitor) {
    char query[96] = "", range[64] = "";
    visitor->has_range = false;
    if (world_one_in(2))
        ask_for_list(visitor, query, sizeof query);
    else
        ask_for_file(visitor, range, sizeof range);
    visitor->head_only = *visitor->path && world_one_in(8);
    char name[RECORD_PATH];
    snprintf(name, sizeof name, "live/%u", visitor->plan.stream);
    visitor->out_length = (size_t)snprintf(
        visitor->out, sizeof visitor->out, "%s /recordings/%s%s HTTP/1.1\r\nHost: here\r\n%s\r\n",
        visitor->head_only ? "HEAD" : "GET", *visitor->path ? visitor->path : name, query, range);
    WORLD_CHECK(visitor->out_length < sizeof visitor->out, "%s: a request is too long", visitor->who);
    visitor->out_sent = 0;
    visitor->head_length = 0;
    visitor->body_length = 0;
    visitor->asked++;
    world_trace("visitor asks", visitor->file->id, *visitor->path != '\0', visitor->has_range);
}

/* Answers */

/* The text of a member of an object, up to whose end there is one; false without. */
static bool read_name(const char *at, const char *member, char ret_name[RECORD_FILE]) {
    const char *value = strstr(at, member);
    value = value ? value + strlen(member) : NULL;
    return value && sscanf(value, " : \"%28[^\"]\"", ret_name) == 1;
}

static void check_entry(const struct sim_visitor *visitor, const char *at, const char *name) {
    char path[RECORD_PATH];
    const char *bytes = strstr(at, "\"bytes\"");
    unsigned long long size = 0;
    snprintf(path, sizeof path, "live/%u/%s", visitor->plan.stream, name);
    const struct disk_file *file = disk_find(path);
    WORLD_CHECK(file && bytes && sscanf(bytes, "\"bytes\" : %llu", &size) == 1 && size == file->size,
                "%s: %s is listed with %llu bytes", visitor->who, path, size);
}

static void see_list(struct sim_visitor *visitor) {
    char before[RECORD_FILE], name[RECORD_FILE];
    size_t count = 0;
    const char *text = (const char *)visitor->body;
    snprintf(before, sizeof before, "%s", visitor->after);
    for (const char *at = text; (at = strstr(at, "\"file\"")); at++, count++) {
        WORLD_CHECK(read_name(at, "\"file\"", name) && strcmp(name, before) > 0, "%s: %s is listed behind %s",
                    visitor->who, name, before);
        check_entry(visitor, at, name);
        snprintf(before, sizeof before, "%s", name);
    }
    WORLD_CHECK(count >= visitor->least && count <= visitor->limit, "%s: of %zu files %zu are listed, of at most %zu",
                visitor->who, visitor->least, count, visitor->limit);
    bool goes_on = read_name(text, "\"next\"", visitor->next);
    if (!goes_on)
        *visitor->next = '\0';
    WORLD_CHECK(!goes_on || (count == visitor->limit && strcmp(visitor->next, before) == 0),
                "%s: a list of %zu goes on behind %s", visitor->who, count, visitor->next);
    WORLD_CHECK(goes_on || count_files(visitor, before) <= count_files(visitor, visitor->after) - visitor->least,
                "%s: a list ends with %s, though there are more", visitor->who, before);
}

static void see_file(struct sim_visitor *visitor) {
    const struct disk_file *file = disk_find(visitor->path);
    uint64_t first = visitor->has_range ? visitor->first : 0, size = file ? file->size : 0;
    uint64_t behind = visitor->has_range && visitor->last + 1 < size ? visitor->last + 1 : size;
    bool has_part = visitor->has_range && !visitor->head_only;
    unsigned expected = !file ? 404 : has_part && first >= size ? 416 : has_part ? 206 : 200;
    WORLD_CHECK(visitor->status == expected, "%s: status %u for %s, which has %llu bytes, from %llu on", visitor->who,
                visitor->status, visitor->path, (unsigned long long)size, (unsigned long long)first);
    if (!file || expected == 416)
        return;
    if (visitor->head_only) {
        WORLD_CHECK(visitor->length == size, "%s: %s is said to have %llu bytes", visitor->who, visitor->path,
                    (unsigned long long)visitor->length);
        return;
    }
    WORLD_CHECK(visitor->length == behind - first && memcmp(visitor->body, file->bytes + first, behind - first) == 0,
                "%s: %s is not as it was recorded", visitor->who, visitor->path);
}

static void see_answer(struct sim_visitor *visitor) {
    world_trace("visitor is answered", visitor->file->id, visitor->status, (int64_t)visitor->body_length);
    visitor->answered++;
    visitor->body[visitor->body_length] = '\0';
    WORLD_CHECK(visitor->status != 503 || !visitor->plan.is_served, "%s: %s", visitor->who, visitor->head);
    if (visitor->status == 503)
        visitor->is_over = true;
    else if (*visitor->path)
        see_file(visitor);
    else if (visitor->status == 200)
        see_list(visitor);
    else
        WORLD_CHECK(visitor->status == 404, "%s: status %u for a list", visitor->who, visitor->status);
    if (strcasestr(visitor->head, "\r\nConnection: close"))
        visitor->is_over = true;
}

static void see_head(struct sim_visitor *visitor) {
    const char *length = strcasestr(visitor->head, "\r\nContent-Length:");
    WORLD_CHECK(sscanf(visitor->head, "HTTP/1.1 %u ", &visitor->status) == 1 && length, "%s: no HTTP answer: %s",
                visitor->who, visitor->head);
    visitor->length = strtoull(length + strlen("\r\nContent-Length:"), NULL, 10);
    if (visitor->length + 1 > visitor->body_room) {
        visitor->body_room = visitor->length + 1;
        visitor->body = world_grow(visitor->body, visitor->body_room);
    }
}

static bool has_head(const struct sim_visitor *visitor) {
    return visitor->head_length >= 4 && strcmp(visitor->head + visitor->head_length - 4, "\r\n\r\n") == 0;
}

/* Nothing follows the head of an answer to HEAD, unless the server refuses the connection before it
 * has read the request. */
static uint64_t body_length(const struct sim_visitor *visitor) {
    bool is_unread = visitor->status == 503 && visitor->out_sent < visitor->out_length;
    return visitor->head_only && !is_unread ? 0 : visitor->length;
}

static void take(struct sim_visitor *visitor, const uint8_t *bytes, size_t n) {
    for (size_t done = 0; done < n;) {
        WORLD_CHECK(visitor->answered < visitor->asked, "%s: an answer that nobody has asked for", visitor->who);
        if (!has_head(visitor)) {
            WORLD_CHECK(visitor->head_length + 1 < HEAD, "%s: the head is too long", visitor->who);
            visitor->head[visitor->head_length++] = (char)bytes[done++];
            visitor->head[visitor->head_length] = '\0';
            if (!has_head(visitor))
                continue;
            see_head(visitor);
        }
        uint64_t left = body_length(visitor) - visitor->body_length;
        size_t here = n - done < left ? n - done : (size_t)left;
        memcpy(visitor->body + visitor->body_length, bytes + done, here);
        visitor->body_length += here;
        done += here;
        if (here == left)
            see_answer(visitor);
    }
}

static void leave(struct sim_visitor *visitor) {
    visitor->has_left = true;
    if (!world_one_in(4))
        peer_reset(visitor->file);
    else
        peer_finish(visitor->file);
}

static void say(struct sim_visitor *visitor) {
    if (visitor->answered == visitor->asked && visitor->asked < visitor->plan.requests)
        ask(visitor);
    size_t left = visitor->out_length - visitor->out_sent;
    if (left > 0)
        visitor->out_sent += peer_send(visitor->file, visitor->out + visitor->out_sent,
                                       world_between(1, (uint32_t)left));
}

static void work(void *user) {
    static uint8_t bytes[PIECE];
    struct sim_visitor *visitor = user;
    if (visitor->has_left)
        return;
    uint32_t most = visitor->plan.manner == VISITOR_READS_SLOWLY ? world_between(1, 3000) : PIECE;
    size_t n = peer_receive(visitor->file, bytes, most);
    take(visitor, bytes, n);
    if (peer_is_ended(visitor->file)) {
        WORLD_CHECK(visitor->answered == visitor->asked || !visitor->plan.is_served,
                    "%s: the connection ends within an answer", visitor->who);
        visitor->is_over = true;
    }
    if (visitor->plan.manner == VISITOR_LEAVES && visitor->asked > 0 && world_one_in(4)) {
        leave(visitor);
        return;
    }
    if (visitor->is_over || sim_visitor_is_done(visitor)) {
        visitor->has_left = true;
        peer_finish(visitor->file);
        return;
    }
    say(visitor);
    uint32_t wait = world_between(1, 2000);
    if (visitor->file->sent_length == 0 && visitor->out_sent == visitor->out_length &&
        visitor->plan.manner != VISITOR_LEAVES)
        peer_watch(visitor->file, wait, work, visitor);
    else
        world_after(wait, work, visitor);
}

struct sim_visitor *sim_visitor_new(const struct visitor_plan *plan) {
    struct file *file = peer_connect(PEERS_HTTP_PORT);
    if (!file)
        return NULL;
    struct sim_visitor *visitor = world_allocate(sizeof *visitor);
    visitor->plan = *plan;
    visitor->file = file;
    snprintf(visitor->who, sizeof visitor->who, "visitor %u", file->id);
    world_trace("visitor", plan->stream, plan->manner, file->id);
    world_after(1, work, visitor);
    return visitor;
}

bool sim_visitor_is_done(const struct sim_visitor *visitor) {
    return visitor->answered == visitor->plan.requests;
}

void sim_visitor_free(struct sim_visitor *visitor) {
    if (!visitor)
        return;
    kernel_file_unref(visitor->file);
    world_free(visitor->body);
    world_free(visitor);
}
