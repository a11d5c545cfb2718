/**
 * @file connect.h
 * Connects to a server from a loop.
 *
 * The caller resolves names, because resolvers block or need an event loop of their own. If a name
 * has several addresses, call sluice_connect() for the next one from the callback of the previous
 * one.
 *
 * Threads: the loop's.
 */
#ifndef SLUICE_CONNECT_H
#define SLUICE_CONNECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <sluice/conn.h>
#include <sluice/loop.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A pending connection attempt; opaque. */
typedef struct sluice_connector sluice_connector;

/** Options of a connection attempt. Zero in any field means its default. */
typedef struct sluice_connect_options {
    size_t size; /**< sizeof(sluice_connect_options). */
    /** The server's: IPv4, IPv6 or Unix. Read only during the call. No default. */
    const struct sockaddr *address;
    socklen_t length; /**< Size of @c address, bytes. */
    /** Local address; port 0 lets the system choose the port. Default: the system chooses both. */
    const struct sockaddr *local;
    socklen_t local_length; /**< Size of @c local, bytes. */
    /** Time limit, milliseconds. Default: the kernel's, about two minutes for TCP. */
    uint32_t timeout_ms;
} sluice_connect_options;

/**
 * The result of sluice_connect(). Called once, from a turn: never within sluice_connect(), and not
 * after sluice_connect_cancel(). The connector no longer exists. Any call is allowed, including
 * another sluice_connect().
 * @param conn  the connection, which belongs to the callee and is receiving; NULL unless @p error
 *              is 0
 * @param error 0; -ETIMEDOUT (timeout_ms has passed, or the kernel stopped trying); -ECANCELED
 *              (sluice_loop_free()); -ENOMEM; else an error of connect(2), such as -ECONNREFUSED,
 *              -EHOSTUNREACH, -ENETUNREACH; for a Unix socket -ENOENT (it does not exist) or
 *              -EAGAIN (its backlog is full)
 */
typedef void sluice_connected_fn(sluice_conn *conn, int error, void *user);

/**
 * Starts to connect a stream socket (blocking mode, close-on-exec). The call never blocks: with
 * io_uring the kernel connects, with epoll the loop waits until the socket is writable. @p
 * connected receives the result. sluice_loop_free() cancels connectors that are still pending.
 * @param events        of the connection; they must outlive it. See sluice_conn_set_events()
 * @param user          for @p connected, and for the connection's events
 * @param ret_connector for sluice_connect_cancel(); valid until @p connected is called. NULL is
 *   allowed.
 * @return 0, -EINVAL (size, no address or one of a wrong length, no events, no callback), -ENOMEM,
 *         or the errno of socket(2) or bind(2), such as -EMFILE, -EAFNOSUPPORT, -EADDRNOTAVAIL: @p
 *         connected is not called
 */
SLUICE_API int sluice_connect(sluice_loop *loop, const sluice_connect_options *options,
                              const sluice_conn_events *events, sluice_connected_fn *connected, void *user,
                              sluice_connector **ret_connector);

/**
 * Cancels the attempt and closes the socket; the callback is not called. Not allowed once the
 * callback has been called. NULL is allowed.
 */
SLUICE_API void sluice_connect_cancel(sluice_connector *connector);

#ifdef __cplusplus
}
#endif

#endif
