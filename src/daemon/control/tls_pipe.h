/*
 * TLS for a client of the library that takes a socket: one end of a socket pair is the client's,
 * and what goes through is encrypted for the server, which is verified before the first byte is
 * sent. For few and small messages: they are copied. The control plane's thread.
 */
#ifndef SLUICED_TLS_PIPE_H
#define SLUICED_TLS_PIPE_H

#include <sluice/loop.h>
#include <sluice/tls.h>

struct tls_pipe;

enum { TLS_PIPE_REASON = 128 };

/* The connection has failed, and the client's end ends next. At most once, and never within a call.
 * @reason: in a few words */
typedef void tls_pipe_failed_fn(const char *reason, void *user);

/*
 * @fd: connected to the server; taken over, also on failure. @host: that its certificate must have;
 * copied. @ret_fd: for the client. 0, -errno
 */
int tls_pipe_new(sluice_loop *loop, int fd, sluice_tls_context *context, const char *host, tls_pipe_failed_fn *failed,
                 void *user, struct tls_pipe **ret_pipe, int *ret_fd);

/* Nothing is called any more. It goes when both ends have. NULL is allowed. */
void tls_pipe_free(struct tls_pipe *pipe);

#endif
