/* The loop under our own variants. */
#ifndef BENCH_RECEIVE_ON_LOOP_H
#define BENCH_RECEIVE_ON_LOOP_H

#include <sluice/conn.h>
#include <sluice/loop.h>

#include "receive/receive.h"

/* Ends the process for a negative errno. */
void on_loop_check(const char *what, int error);

/* Listens, and runs until it is stopped; then says what the loop has done. @param accepted takes
 * each descriptor */
void on_loop_run(sluice_backend_choice backend, const receive_options *options,
                 void (*accepted)(sluice_loop *loop, int fd));
void on_loop_stop(void);

/* For sluice_conn_events: no stream may end before everything has been measured. */
void on_loop_ended(sluice_conn *conn, int error, void *user);

#endif
