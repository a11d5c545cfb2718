/* A connection to the administration: TCP or a Unix socket, in plaintext or by TLS. */
#ifndef CTL_CONNECTION_H
#define CTL_CONNECTION_H

#include <stddef.h>
#include <sys/types.h>

struct ctl_connection;

enum { CTL_CONNECTION_ERROR = 160 };

/*
 * @address: [https://]HOST:PORT, or unix:PATH. By https the server's certificate must be for the
 * host, and issued by one of the system's store, or else of the file @ca, if that is not NULL. NULL
 * with a text that says what went wrong
 */
struct ctl_connection *ctl_connection_open(const char *address, const char *ca, char error[CTL_CONNECTION_ERROR]);

/* NULL is allowed. */
void ctl_connection_close(struct ctl_connection *connection);

/* Sets the seconds for each of the calls below; at first they are CTL_CONNECTION_S. */
enum { CTL_CONNECTION_S = 10 };
void ctl_connection_set_patience(struct ctl_connection *connection, unsigned seconds);

/* Sends all of it. 0, or -1 with a text */
int ctl_connection_send(struct ctl_connection *connection, const char *text, size_t size,
                        char error[CTL_CONNECTION_ERROR]);

/* Bytes that have come, at most @size; 0: the server has ended; or -1 with a text */
ssize_t ctl_connection_receive(struct ctl_connection *connection, char *buffer, size_t size,
                               char error[CTL_CONNECTION_ERROR]);

#endif
