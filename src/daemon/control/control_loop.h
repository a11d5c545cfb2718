/*
 * A loop of the library inside the event base, for connections of the control plane that need TLS
 * and framers. It is made when it is first needed. The control plane's thread.
 */
#ifndef SLUICED_CONTROL_LOOP_H
#define SLUICED_CONTROL_LOOP_H

#include <sluice/loop.h>

struct control_loop;
struct event_base;

/* 0, -ENOMEM */
int control_loop_new(struct event_base *base, struct control_loop **ret_loop);

/* The loop: 0, -ENOMEM or another error of making it. */
int control_loop_open(struct control_loop *loop, sluice_loop **ret_loop);

/* The error of the loop, which has ended the base's run; or 0. */
int control_loop_error(const struct control_loop *loop);

/* Ends its connections: their last callbacks come in here. Before its users are freed, and
 * after the connector is. NULL is allowed. */
void control_loop_close(struct control_loop *loop);

/* After they are freed. NULL is allowed. */
void control_loop_free(struct control_loop *loop);

#endif
