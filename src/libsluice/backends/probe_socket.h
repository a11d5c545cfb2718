/*
 * What receive bundles are probed with: a TCP connection over loopback, of a socket with itself, so
 * that no other process can have a part in it, and nothing is left of it when it is closed.
 */
#ifndef SLUICE_BACKENDS_PROBE_SOCKET_H
#define SLUICE_BACKENDS_PROBE_SOCKET_H

#include <stddef.h>

/*
 * A socket that has received all @n bytes, and of which a receive takes the first @stop and no
 * more, although others are there: the byte behind them is urgent, and in line. 0 < @stop < @n. 0,
 * or -errno: no loopback, or no TCP.
 */
int probe_socket_open(const void *bytes, size_t n, size_t stop, int *ret_fd);

#endif
