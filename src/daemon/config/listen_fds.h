/*
 * Listening sockets inherited from the parent process: a service manager, by the protocol of
 * sd_listen_fds(3), or a previous sluiced (upgrade.h), by the same protocol.
 */
#ifndef SLUICED_LISTEN_FDS_H
#define SLUICED_LISTEN_FDS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "daemon/base/address.h"
#include "daemon/base/config_errors.h"

enum { LISTEN_FDS_MOST = 72, LISTEN_FDS_NAME = 64, LISTEN_FDS_TEXT = 128 };

struct listen_fd {
    int fd;         /* 0: a listener has it, since the start */
    bool is_wanted; /* by the options: a listener takes it */
    /* of LISTEN_FDNAMES: a protocol's, "admin", or anything else, without LISTEN_FDS_TLS */
    char name[LISTEN_FDS_NAME];
    bool tls; /* the name ended with that */
    /* by the daemon before: one that is not configured any more is closed */
    bool is_lent;
    struct sockaddr_storage address; /* where it listens; of a Unix socket a sockaddr_un */
};

struct listen_fds {
    struct listen_fd list[LISTEN_FDS_MOST];
    size_t count;
    int channel; /* to the daemon that this one replaces; 0: there is none */
};

/* What the names begin with that the daemon gives to the one that replaces it, of sockets that it
 * has made itself. */
#define LISTEN_FDS_LENT "lent-"

/* What the names end with of sockets for TLS. */
#define LISTEN_FDS_TLS ",tls"

/* Environment variable with the channel and the sender's process: FD:PID. */
#define LISTEN_FDS_CHANNEL "SLUICED_UPGRADE"

/*
 * Takes what is there, once, and hides it from programs that are started later. False where
 * something is no listening stream socket, or there are too many: which has been said.
 */
bool listen_fds_take(struct listen_fds *ret_inherited, struct config_errors *errors);

/*
 * Closes what no listener has taken. Those of a service manager stay known, since a reload must not
 * forget them; those that were lent do not, since from now on the configuration says where to
 * listen. Once everything listens.
 */
void listen_fds_settle(struct listen_fds *listen_fds);

/* "127.0.0.1:80", or "unix:PATH". */
void listen_fds_format(const struct listen_fd *socket, char text[LISTEN_FDS_TEXT]);

#endif
