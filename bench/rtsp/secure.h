/* What the programs send and receive with: plain sockets, or TLS on each of them. */
#ifndef BENCH_RTSP_SECURE_H
#define BENCH_RTSP_SECURE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* From now on connect_to() makes TLS connections, by TLS 1.3 with this cipher suite alone, so that
 * all servers use the same. The server is not verified. Ends the process on failure. */
void secure_use(const char *suite);

/* A socket that is connected: a handshake, if TLS is used. Ends the process on failure. */
void secure_start(int fd);

/*
 * As send() and recv(). By TLS: all that the socket takes, and all records that are there as far as
 * there is room; MSG_DONTWAIT, and MSG_TRUNC without memory, mean what they do for recv(). A call
 * whose rest was not sent is followed by one that begins with that rest.
 */
ssize_t secure_send(int fd, const void *bytes, size_t size, int flags);
ssize_t secure_recv(int fd, void *memory, size_t room, int flags);

#endif
