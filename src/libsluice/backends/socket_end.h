/* Whether the peer has finished, without receiving anything. */
#ifndef SLUICE_BACKENDS_SOCKET_END_H
#define SLUICE_BACKENDS_SOCKET_END_H

#include <stdbool.h>

/*
 * Whether everything that the peer has sent is in the socket, with the end or a reset behind it.
 * False for what is no socket.
 */
bool socket_end_has_come(int fd);

#endif
