/* Where the administration listens. */
#ifndef SLUICED_ADMIN_OPTION_H
#define SLUICED_ADMIN_OPTION_H

#include <limits.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { ADMIN_MAX_LISTENERS = 8 };

struct admin_listener_option {
    bool is_unix;
    bool tls;                                               /* of TCP */
    struct sockaddr_storage address;                        /* of TCP */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* of a Unix socket */
    /* at the start: it listens there already; 0: none */
    int fd;
    bool is_managed; /* the socket is the service manager's, and so is its file */
    bool is_open;    /* a Unix socket that other users may open: the token is required */
};

struct admin_options {
    struct admin_listener_option listeners[ADMIN_MAX_LISTENERS];
    unsigned count;
    char token_file[PATH_MAX]; /* empty: not required */
};

/* "ADDR:PORT[,tls]", or "unix:PATH". 0, -EINVAL, -ENOSPC (too many) */
int admin_options_add(struct admin_options *options, const char *text);

#endif
