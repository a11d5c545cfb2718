/* What the programs send and receive with: plain sockets, or TLS on each of them. */
#ifndef BENCH_RTSP_SECURE_H
#define BENCH_RTSP_SECURE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* From now on connections are by TLS, by TLS 1.3 with this cipher suite alone, so that all servers
 * use the same. The server is not verified. Ends the process on failure. */
void secure_use(const char *suite);

/* A socket that is connected and does not block. Ends the process on failure. */
void secure_start(int fd);

/* A step of the handshake. @return POLLIN or POLLOUT, which it waits for; 0: it is over, or TLS is
 * not used. Ends the process on failure. */
short secure_shake(int fd);

/*
 * As send() and recv() on that socket. By TLS: all that the socket takes, and all records that are
 * there as far as there is room; MSG_TRUNC without memory means what it does for recv(). A call
 * whose rest was not sent is followed by one that begins with that rest.
 */
ssize_t secure_send(int fd, const void *bytes, size_t size, int flags);
ssize_t secure_recv(int fd, void *memory, size_t room, int flags);

#endif
