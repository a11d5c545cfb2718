#include "daemon/control_lookup.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control_wake.h"

struct lookup {
    struct lookups *lookups;
    struct lookup *next;
    char *host;
    uint16_t port;
    void *user;
    struct addrinfo *addresses;
};

/* Shared by the owner and the threads, of which one may outlive it: freed by who lets go last. */
struct lookups {
    pthread_mutex_t lock; /* of all fields */
    uint32_t references;
    bool closed;
    const struct wake *wake;
    struct lookup *answers;
};

static struct addrinfo *look_up(const char *host, uint16_t port, int flags) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *addresses;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    return getaddrinfo(host, service, &hints, &addresses) == 0 ? addresses : NULL;
}

struct addrinfo *lookup_numeric(const char *host, uint16_t port) {
    return look_up(host, port, AI_NUMERICHOST | AI_NUMERICSERV);
}

static void free_lookup(struct lookup *lookup) {
    if (lookup->addresses)
        freeaddrinfo(lookup->addresses);
    free(lookup->host);
    free(lookup);
}

/* Lets go, with the lock held. */
static void unref(struct lookups *lookups) {
    bool last = --lookups->references == 0;
    pthread_mutex_unlock(&lookups->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&lookups->lock);
    free(lookups);
}

static void *run(void *user) {
    struct lookup *lookup = user;
    struct lookups *lookups = lookup->lookups;
    lookup->addresses = look_up(lookup->host, lookup->port, AI_NUMERICSERV);
    pthread_mutex_lock(&lookups->lock);
    if (lookups->closed) {
        free_lookup(lookup);
    } else {
        lookup->next = lookups->answers;
        lookups->answers = lookup;
        wake_up(lookups->wake);
    }
    unref(lookups);
    return NULL;
}

int lookups_new(const struct wake *wake, struct lookups **ret_lookups) {
    struct lookups *lookups = calloc(1, sizeof *lookups);
    if (!lookups)
        return -ENOMEM;
    *lookups = (struct lookups){.lock = PTHREAD_MUTEX_INITIALIZER, .references = 1, .wake = wake};
    *ret_lookups = lookups;
    return 0;
}

void lookups_close(struct lookups *lookups) {
    if (!lookups)
        return;
    pthread_mutex_lock(&lookups->lock);
    lookups->closed = true;
    while (lookups->answers) {
        struct lookup *lookup = lookups->answers;
        lookups->answers = lookup->next;
        free_lookup(lookup);
    }
    unref(lookups);
}

/* Detached, since nobody can wait for it, and without signals, which are the control plane's. */
static int start_thread(struct lookup *lookup) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int error = pthread_attr_init(&attributes);
    if (error)
        return -error;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    error = pthread_create(&thread, &attributes, run, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return -error;
}

int lookups_start(struct lookups *lookups, const char *host, uint16_t port, void *user) {
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return -ENOMEM;
    *lookup = (struct lookup){.lookups = lookups, .host = strdup(host), .port = port, .user = user};
    pthread_mutex_lock(&lookups->lock);
    lookups->references++;
    pthread_mutex_unlock(&lookups->lock);
    int error = lookup->host ? start_thread(lookup) : -ENOMEM;
    if (!error)
        return 0;
    free_lookup(lookup);
    pthread_mutex_lock(&lookups->lock);
    unref(lookups);
    return error;
}

bool lookups_next(struct lookups *lookups, void **ret_user, struct addrinfo **ret_addresses) {
    pthread_mutex_lock(&lookups->lock);
    struct lookup *lookup = lookups->answers;
    if (lookup)
        lookups->answers = lookup->next;
    pthread_mutex_unlock(&lookups->lock);
    if (!lookup)
        return false;
    *ret_user = lookup->user;
    *ret_addresses = lookup->addresses;
    lookup->addresses = NULL;
    free_lookup(lookup);
    return true;
}
