/*
 * The socket with which receive bundles are probed: a TCP connection over loopback from a socket to
 * itself. No other process can take part, and nothing remains after the close.
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
