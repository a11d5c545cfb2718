#include "daemon/session.h"

void session_init(struct session *session, const struct session_type *type, struct worker *worker,
                  const struct sockaddr_storage *peer) {
    *session = (struct session){
        .type = type, .worker = worker, .peer_address = cidr_address(peer), .peer_port = address_port(peer)};
    address_format(peer, session->peer);
}
