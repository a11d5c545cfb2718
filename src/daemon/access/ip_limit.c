#include "daemon/access/ip_limit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4096 };

struct entry {
    struct entry *next;
    struct cidr_address address;
    uint64_t count;
};

struct ip_limit {
    pthread_mutex_t lock;
    struct entry *buckets[BUCKETS];
};

int ip_limit_new(struct ip_limit **ret_counts) {
    struct ip_limit *counts = calloc(1, sizeof *counts);
    if (!counts)
        return -ENOMEM;
    pthread_mutex_init(&counts->lock, NULL);
    *ret_counts = counts;
    return 0;
}

void ip_limit_free(struct ip_limit *counts) {
    if (!counts)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        while (counts->buckets[i]) {
            struct entry *entry = counts->buckets[i];
            counts->buckets[i] = entry->next;
            free(entry);
        }
    }
    pthread_mutex_destroy(&counts->lock);
    free(counts);
}

/* FNV-1a. Who chooses addresses to meet in one bucket has to have them. */
static struct entry **bucket_of(struct ip_limit *counts, const struct cidr_address *address) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof address->bytes; i++)
        hash = (hash ^ address->bytes[i]) * 16777619u;
    return &counts->buckets[hash % BUCKETS];
}

/* The link to the address's entry, or to the end of its bucket. */
static struct entry **find(struct ip_limit *counts, const struct cidr_address *address) {
    struct entry **link = bucket_of(counts, address);
    while (*link && memcmp((*link)->address.bytes, address->bytes, sizeof address->bytes) != 0)
        link = &(*link)->next;
    return link;
}

static int add(struct ip_limit *counts, const struct cidr_address *address, uint64_t most) {
    struct entry **link = find(counts, address);
    if ((*link ? (*link)->count : 0) >= most)
        return -EUSERS;
    if (!*link) {
        *link = malloc(sizeof **link);
        if (!*link)
            return -ENOMEM;
        **link = (struct entry){.address = *address};
    }
    (*link)->count++;
    return 0;
}

int ip_limit_add(struct ip_limit *counts, const struct cidr_address *address, uint64_t most) {
    const struct cidr_address counted = cidr_host(address);
    pthread_mutex_lock(&counts->lock);
    int error = add(counts, &counted, most);
    pthread_mutex_unlock(&counts->lock);
    return error;
}

void ip_limit_remove(struct ip_limit *counts, const struct cidr_address *address) {
    const struct cidr_address counted = cidr_host(address);
    pthread_mutex_lock(&counts->lock);
    struct entry **link = find(counts, &counted), *entry = *link;
    if (entry && --entry->count == 0) {
        *link = entry->next;
        free(entry);
    }
    pthread_mutex_unlock(&counts->lock);
}
