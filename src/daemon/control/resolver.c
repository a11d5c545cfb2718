#include "daemon/control/resolver.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control/wakeup.h"

struct lookup {
    struct resolver *resolver;
    struct lookup *next;
    char *host;
    uint16_t port;
    void *user;
    struct addrinfo *addresses;
};

/*
 * Shared by the owner and the threads; a thread may outlive the owner, so the last holder frees it.
 */
struct resolver {
    pthread_mutex_t lock; /* of all fields */
    uint32_t references;
    bool closed;
    const struct wakeup *wakeup;
    struct lookup *answers;
};

static struct addrinfo *look_up(const char *host, uint16_t port, int flags) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *addresses;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    return getaddrinfo(host, service, &hints, &addresses) == 0 ? addresses : NULL;
}

struct addrinfo *resolver_numeric(const char *host, uint16_t port) {
    return look_up(host, port, AI_NUMERICHOST | AI_NUMERICSERV);
}

static void free_lookup(struct lookup *lookup) {
    if (lookup->addresses)
        freeaddrinfo(lookup->addresses);
    free(lookup->host);
    free(lookup);
}

/* Lets go, with the lock held. */
static void unref(struct resolver *resolver) {
    bool last = --resolver->references == 0;
    pthread_mutex_unlock(&resolver->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&resolver->lock);
    free(resolver);
}

static void *run(void *user) {
    struct lookup *lookup = user;
    struct resolver *resolver = lookup->resolver;
    lookup->addresses = look_up(lookup->host, lookup->port, AI_NUMERICSERV);
    pthread_mutex_lock(&resolver->lock);
    if (resolver->closed) {
        free_lookup(lookup);
    } else {
        lookup->next = resolver->answers;
        resolver->answers = lookup;
        wakeup_notify(resolver->wakeup);
    }
    unref(resolver);
    return NULL;
}

int resolver_new(const struct wakeup *wakeup, struct resolver **ret_lookups) {
    struct resolver *resolver = calloc(1, sizeof *resolver);
    if (!resolver)
        return -ENOMEM;
    *resolver = (struct resolver){.lock = PTHREAD_MUTEX_INITIALIZER, .references = 1, .wakeup = wakeup};
    *ret_lookups = resolver;
    return 0;
}

void resolver_close(struct resolver *resolver) {
    if (!resolver)
        return;
    pthread_mutex_lock(&resolver->lock);
    resolver->closed = true;
    while (resolver->answers) {
        struct lookup *lookup = resolver->answers;
        resolver->answers = lookup->next;
        free_lookup(lookup);
    }
    unref(resolver);
}

/*
 * Detached, because nothing can wait for it, and without signals, which belong to the control
 * plane.
 */
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

int resolver_start(struct resolver *resolver, const char *host, uint16_t port, void *user) {
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return -ENOMEM;
    *lookup = (struct lookup){.resolver = resolver, .host = strdup(host), .port = port, .user = user};
    pthread_mutex_lock(&resolver->lock);
    resolver->references++;
    pthread_mutex_unlock(&resolver->lock);
    int error = lookup->host ? start_thread(lookup) : -ENOMEM;
    if (!error)
        return 0;
    free_lookup(lookup);
    pthread_mutex_lock(&resolver->lock);
    unref(resolver);
    return error;
}

bool resolver_next(struct resolver *resolver, void **ret_user, struct addrinfo **ret_addresses) {
    pthread_mutex_lock(&resolver->lock);
    struct lookup *lookup = resolver->answers;
    if (lookup)
        resolver->answers = lookup->next;
    pthread_mutex_unlock(&resolver->lock);
    if (!lookup)
        return false;
    *ret_user = lookup->user;
    *ret_addresses = lookup->addresses;
    lookup->addresses = NULL;
    free_lookup(lookup);
    return true;
}
