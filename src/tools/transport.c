#include "tools/transport.h"

#include <stdio.h>
#include <string.h>

#include "shared/tls_link.h"

int transport_begin(struct transport *transport, sluice_conn *conn, const struct target *target,
                    const sluice_conn_events *events, void *user) {
    struct transport begun = {.conn = conn};
    if (!target->secure) {
        sluice_conn_set_events(conn, events, user);
        *transport = begun;
        return 0;
    }
    int error = tls_link_new(events, user, &begun.link);
    if (error)
        return error;
    sluice_conn_set_events(conn, &tls_link_events, begun.link);
    tls_link_begin(begun.link, conn, target->tls, target->host);
    *transport = begun;
    return 0;
}

sluice_chain *transport_chain(const struct transport *transport) {
    return transport->link ? tls_link_chain(transport->link) : sluice_conn_chain(transport->conn);
}

void transport_set_need(const struct transport *transport, size_t bytes) {
    if (transport->link)
        tls_link_set_need(transport->link, bytes);
    else
        sluice_conn_set_need(transport->conn, bytes);
}

int transport_finish(const struct transport *transport) {
    return transport->link ? tls_link_finish(transport->link) : sluice_conn_finish(transport->conn);
}

void transport_close(const struct transport *transport) {
    if (transport->link)
        tls_link_close(transport->link);
    else
        sluice_conn_close(transport->conn);
}

uint64_t transport_received(const struct transport *transport) {
    const sluice_chain *chain = transport_chain(transport);
    return sluice_chain_consumed(chain) + sluice_chain_length(chain);
}

const char *transport_reason(const struct transport *transport, int error, char text[TRANSPORT_REASON]) {
    const char *reason = transport->link ? tls_link_reason(transport->link) : NULL;
    if (!reason)
        return strerror(-error);
    snprintf(text, TRANSPORT_REASON, "TLS: %s", reason);
    return text;
}
