/*
 * Backups: while a stream has players and no publisher, another stream stands in for it (--backup).
 * A backup lives on its stream's worker. If the other stream is another worker's, that worker is
 * asked for a replica (relay/replica.h).
 */
#ifndef SLUICED_BACKUP_H
#define SLUICED_BACKUP_H

struct server;

/* Adds the backups of the options to each worker, as a component (component.h); before the run. 0,
 * or what server_add_component() says */
int backups_register(struct server *server);

#endif
