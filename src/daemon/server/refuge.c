#include "daemon/server/refuge.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/address.h"
#include "daemon/server/server.h"

struct refuge {
    struct refuge_place own;
    pthread_mutex_t lock; /* of the fields below */
    struct refuge_place list[REFUGE_MOST];
    size_t count, next;
};

int refuge_new(const char *own, struct refuge **ret_refuge) {
    struct refuge *refuge = calloc(1, sizeof *refuge);
    if (!refuge)
        return -ENOMEM;
    snprintf(refuge->own.address, sizeof refuge->own.address, "%s", own);
    pthread_mutex_init(&refuge->lock, NULL);
    *ret_refuge = refuge;
    return 0;
}

void refuge_free(struct refuge *refuge) {
    if (!refuge)
        return;
    pthread_mutex_destroy(&refuge->lock);
    free(refuge);
}

void refuge_set(struct refuge *refuge, const struct refuge_place *list, size_t count) {
    pthread_mutex_lock(&refuge->lock);
    refuge->count = count < REFUGE_MOST ? count : REFUGE_MOST;
    memcpy(refuge->list, list, refuge->count * sizeof *list);
    pthread_mutex_unlock(&refuge->lock);
}

static size_t host_length(const struct refuge_place *place) {
    const char *colon = strrchr(place->address, ':');
    return colon ? (size_t)(colon - place->address) : 0;
}

static bool is_same_host(const struct refuge_place *a, const struct refuge_place *b) {
    const size_t length = host_length(a);
    return length == host_length(b) && memcmp(a->address, b->address, length) == 0;
}

/* The next one, but for those that the client cannot be sent to. */
static bool take(struct refuge *refuge, bool needs_tls, bool needs_host, struct refuge_place *ret_place) {
    bool found = false;
    pthread_mutex_lock(&refuge->lock);
    for (size_t i = 0; i < refuge->count && !found; i++) {
        const struct refuge_place *place = &refuge->list[refuge->next++ % refuge->count];
        found = (!needs_tls || place->is_secure) && (!needs_host || !is_same_host(place, &refuge->own));
        if (found)
            *ret_place = *place;
    }
    pthread_mutex_unlock(&refuge->lock);
    return found;
}

bool refuge_next(struct refuge *refuge, bool needs_tls, struct refuge_place *ret_place) {
    return take(refuge, needs_tls, false, ret_place);
}

bool refuge_url(const struct session *session, const char *scheme, char url[REFUGE_URL]) {
    const struct cluster_self *self = server_cluster_self(session->worker->server);
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    struct refuge_place place;
    if (!self || !self->refuge || !take(self->refuge, false, true, &place) ||
        getsockname(sluice_conn_fd(session->conn), (struct sockaddr *)&address, &size) < 0)
        return false;
    snprintf(url, REFUGE_URL, "%s%s://%.*s:%u", scheme, session->tls ? "s" : "", (int)host_length(&place),
             place.address, address_port(&address));
    return true;
}
