#include "daemon/process/cluster_setup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/config/protocol.h"
#include "daemon/server/listeners.h"
#include "daemon/server/refuge.h"
#include "daemon/server/server.h"

_Static_assert((int)CLUSTER_NODE == (int)NODE_NAME, "a node's name is one that settings take");

/* The only listener of HTTP, as options_load() has found: the system may have chosen its port. */
static int find_listener(struct cluster_setup *setup, struct server *server) {
    char texts[OPTIONS_MAX_LISTENERS][ADDRESS_TEXT];
    listeners_addresses(server_worker(server, 0)->listeners, setup->options, texts);
    for (size_t i = 0; i < setup->options->listener_count; i++) {
        const struct listener_option *listener = &setup->options->listeners[i];
        if (listener->protocol != protocol_find("http") || !*texts[i])
            continue;
        strcpy(setup->address, texts[i]);
        setup->is_secure = listener->tls;
        return 0;
    }
    LOG(LOG_ERROR, "no cluster", {"reason", "no listener of HTTP"});
    return -EADDRNOTAVAIL;
}

static int fill(struct cluster_setup *setup, struct server *server) {
    const struct cluster_options *options = &setup->options->cluster;
    struct cluster_self *self = &setup->self;
    memcpy(self->node, options->node, sizeof self->node);
    self->secret_size = strlen(options->secret);
    memcpy(self->secret, options->secret, self->secret_size);
    atomic_init(&self->engine_offset_ms, INT64_MIN);
    setup->is_secure = options->advertise_secure;
    if (*options->advertise.host)
        cluster_place_format(&options->advertise, setup->address, sizeof setup->address);
    const int error = *options->advertise.host ? 0 : find_listener(setup, server);
    return error ? error : refuge_new(setup->address, &self->refuge);
}

int cluster_setup_new(const struct options *options, struct server *server, struct cluster_setup **ret_setup) {
    *ret_setup = NULL;
    if (!cluster_options_is_on(&options->cluster))
        return 0;
    struct cluster_setup *setup = calloc(1, sizeof *setup);
    if (!setup)
        return -ENOMEM;
    setup->options = options_ref(options);
    int error = fill(setup, server);
    if (error) {
        cluster_setup_free(setup);
        return error;
    }
    *ret_setup = setup;
    return 0;
}

void cluster_setup_free(struct cluster_setup *setup) {
    if (!setup)
        return;
    options_unref(setup->options);
    refuge_free(setup->self.refuge);
    explicit_bzero(&setup->self.secret, sizeof setup->self.secret);
    free(setup);
}
