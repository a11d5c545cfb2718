/* What the kernel can do with a socket's records, found out by a connection of its own. */
#ifndef SLUICE_TLS_KERNEL_PROBE_H
#define SLUICE_TLS_KERNEL_PROBE_H

#include <sluice/tls.h>

/*
 * Sends records of known keys on a TCP connection over loopback, and decrypts what arrives. Takes a
 * millisecond or two; no version is looked at.
 */
void tls_kernel_probe(sluice_tls_kernel_info *ret_info);

#endif
