/* The name by which rules know a client with a certificate. */
#ifndef SLUICED_TLS_PEER_H
#define SLUICED_TLS_PEER_H

#include <sluice/tls.h>

/* Of the verified certificate; NULL: there is none, or no stage. Valid like the stage. */
const char *tls_peer_name(const sluice_tls *tls);

#endif
