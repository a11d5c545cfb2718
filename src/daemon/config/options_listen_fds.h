/* Sockets that listen already become listeners: those of the options that listen there, or others
 * by their names. */
#ifndef SLUICED_OPTIONS_LISTEN_FDS_H
#define SLUICED_OPTIONS_LISTEN_FDS_H

#include "daemon/config/listen_fds.h"
#include "daemon/config/options.h"

/* Whether a name says that one of them is for streams: then there are listeners besides those of
 * the settings. */
bool options_inherit_streams(const struct listen_fds *listen_fds);

/*
 * Gives each socket to the listener of its address. Those of a service manager that have none
 * become listeners, of the kind that their name says, where that is one. A socket that was lent
 * goes by its kind and host where the port was to be the system's choice. False where a socket has
 * no use, which has been said.
 */
bool options_inherit(struct options *options, struct listen_fds *listen_fds, struct config_errors *errors);

#endif
