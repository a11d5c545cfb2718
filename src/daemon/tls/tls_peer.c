#include "daemon/tls/tls_peer.h"

const char *tls_peer_name(const sluice_tls *tls) {
    sluice_tls_info info = {.size = sizeof info};
    return tls && sluice_tls_get_info(tls, &info) == 0 && info.peer_verified ? info.peer_name : NULL;
}
