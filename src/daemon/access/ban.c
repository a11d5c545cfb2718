#include "daemon/access/ban.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void forget_ended(struct bans *bans, uint64_t now) {
    for (size_t i = 0; i < bans->count;) {
        if (bans->list[i].until <= now)
            bans->list[i] = bans->list[--bans->count];
        else
            i++;
    }
}

static struct ban *find(const struct bans *bans, const char *stream, const char *host) {
    for (size_t i = 0; i < bans->count; i++)
        if (strcmp(bans->list[i].stream, stream) == 0 && strcmp(bans->list[i].host, host) == 0)
            return &bans->list[i];
    return NULL;
}

static struct ban *first_to_end(const struct bans *bans) {
    struct ban *first = &bans->list[0];
    for (size_t i = 1; i < bans->count; i++)
        if (bans->list[i].until < first->until)
            first = &bans->list[i];
    return first;
}

/* The place of a new one. */
static struct ban *add(struct bans *bans, const char *stream, const char *host) {
    struct ban *ban = bans->count < BAN_MOST ? &bans->list[bans->count++] : first_to_end(bans);
    *ban = (struct ban){0};
    snprintf(ban->stream, sizeof ban->stream, "%s", stream);
    memcpy(ban->host, host, sizeof ban->host);
    return ban;
}

int bans_add(struct bans *bans, const char *stream, const char *peer, uint64_t now, uint64_t ban_ms,
             const struct ban_origin *origin) {
    char host[ADDRESS_TEXT];
    address_host(peer, host);
    forget_ended(bans, now);
    if (!bans->list)
        bans->list = malloc(BAN_MOST * sizeof *bans->list);
    if (!bans->list)
        return -ENOMEM;
    struct ban *ban = find(bans, stream, host);
    if (!ban)
        ban = add(bans, stream, host);
    ban->until = now + ban_ms;
    if (!origin->is_listed)
        ban->since = origin->age_ms < now ? now - origin->age_ms : now;
    if (origin->node)
        snprintf(ban->node, sizeof ban->node, "%s", origin->node);
    ban->is_shared = origin->is_shared;
    ban->is_doubted = false;
    return 0;
}

void bans_share(struct bans *bans, const char *stream, const char *peer, uint64_t now) {
    char host[ADDRESS_TEXT];
    forget_ended(bans, now);
    address_host(peer, host);
    struct ban *ban = find(bans, stream, host);
    if (ban)
        ban->is_shared = true;
}

void bans_doubt(struct bans *bans) {
    for (size_t i = 0; i < bans->count; i++)
        bans->list[i].is_doubted = bans->list[i].is_shared;
}

size_t bans_end_doubted(struct bans *bans) {
    const size_t before = bans->count;
    for (size_t i = 0; i < bans->count;) {
        if (bans->list[i].is_doubted)
            bans->list[i] = bans->list[--bans->count];
        else
            i++;
    }
    return before - bans->count;
}

const struct ban *bans_list(struct bans *bans, uint64_t now, size_t *ret_count) {
    forget_ended(bans, now);
    *ret_count = bans->count;
    return bans->list;
}

bool bans_hold(struct bans *bans, const char *stream, const char *peer, uint64_t now) {
    char host[ADDRESS_TEXT];
    if (bans->count == 0)
        return false;
    forget_ended(bans, now);
    address_host(peer, host);
    return find(bans, stream, host) != NULL;
}

bool bans_lift(struct bans *bans, const char *stream, uint64_t now) {
    size_t before;
    forget_ended(bans, now);
    before = bans->count;
    for (size_t i = 0; i < bans->count;) {
        if (strcmp(bans->list[i].stream, stream) == 0)
            bans->list[i] = bans->list[--bans->count];
        else
            i++;
    }
    return bans->count < before;
}

void bans_clear(struct bans *bans) {
    free(bans->list);
    *bans = (struct bans){0};
}
