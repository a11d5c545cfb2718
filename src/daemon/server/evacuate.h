/*
 * A node of a cluster that has others to go to is emptied before it stops: publishers end, so that
 * they come to another node; new clients are sent to one; players stay until their streams end.
 */
#ifndef SLUICED_EVACUATE_H
#define SLUICED_EVACUATE_H

struct server;
struct worker;

/*
 * Begins, when this node has left the cluster and the others are known (refuge.h). The run ends by
 * itself with the last connection, or after the drain time. Any thread. 0; -ENOMEM, -ESHUTDOWN (the
 * run is over): then nothing has begun
 */
int evacuate_start(struct server *server);

#endif
