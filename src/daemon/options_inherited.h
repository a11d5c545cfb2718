/* Sockets that listen already become listeners: those of the options that listen there, or others by their names. */
#ifndef SLUICED_OPTIONS_INHERITED_H
#define SLUICED_OPTIONS_INHERITED_H

#include "daemon/inherited.h"
#include "daemon/options.h"

/* Whether a name says that one of them is for streams: then there are listeners besides those of the settings. */
bool options_inherit_streams(const struct inherited *inherited);

/*
 * Gives each socket to the listener of its address. Those of a service manager that have none become listeners, of the
 * kind that their name says, where that is one. A socket that was lent goes by its kind and host where the port was to
 * be the system's choice. False where a socket has no use, which has been said.
 */
bool options_inherit(struct options *options, struct inherited *inherited, struct problems *problems);

#endif
