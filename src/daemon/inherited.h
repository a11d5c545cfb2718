/*
 * Listening sockets that whoever started the daemon has opened: a service manager, by the protocol of
 * sd_listen_fds(3), or the daemon that this one replaces (control_upgrade.h), by the same one.
 */
#ifndef SLUICED_INHERITED_H
#define SLUICED_INHERITED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "daemon/address.h"
#include "daemon/problems.h"

enum { INHERITED_MOST = 72, INHERITED_NAME = 64, INHERITED_TEXT = 128 };

struct inherited_socket {
    int fd;                          /* 0: a listener has it, since the start */
    bool is_wanted;                  /* by the options: a listener takes it */
    char name[INHERITED_NAME];       /* of LISTEN_FDNAMES: "flv", "http", "rtsp", "admin", or anything else */
    bool is_lent;                    /* by the daemon before: one that is not configured any more is closed */
    struct sockaddr_storage address; /* where it listens; of a Unix socket a sockaddr_un */
};

struct inherited {
    struct inherited_socket list[INHERITED_MOST];
    size_t count;
    int channel; /* to the daemon that this one replaces; 0: there is none */
};

/* What the names begin with that the daemon gives to the one that replaces it, of sockets that it has made itself. */
#define INHERITED_LENT "lent-"

/* The environment variable by which it tells of the channel and of itself: FD:PID. */
#define INHERITED_CHANNEL "SLUICED_UPGRADE"

/*
 * Takes what is there, once, and hides it from programs that are started later. False where something is no listening
 * stream socket, or there are too many: which has been said.
 */
bool inherited_take(struct inherited *ret_inherited, struct problems *problems);

/*
 * Closes what no listener has taken. Those of a service manager stay known, since a reload must not forget them; those
 * that were lent do not, since from now on the configuration says where to listen. Once everything listens.
 */
void inherited_settle(struct inherited *inherited);

/* "127.0.0.1:80", or "unix:PATH". */
void inherited_format(const struct inherited_socket *socket, char text[INHERITED_TEXT]);

#endif
