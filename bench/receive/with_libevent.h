/* The loop under the variants on libevent: a bufferevent for each connection. */
#ifndef BENCH_RECEIVE_WITH_LIBEVENT_H
#define BENCH_RECEIVE_WITH_LIBEVENT_H

#include <event2/bufferevent.h>

/* Listens and runs until it is stopped. @param prepare gives each new connection its callbacks */
void with_libevent_run(void (*prepare)(struct bufferevent *event));
void with_libevent_stop(void);

/* For bufferevent_setcb(): ends the process, as no stream may end before everything has been
 * measured. */
void with_libevent_ended(struct bufferevent *event, short what, void *context);

#endif
