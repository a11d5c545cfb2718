/*
 * Users of the library: each has a connection, sends and receives patterns on it, and uses every
 * call of conn.h by chance. The peer is simulated.
 */
#ifndef SLUICE_TESTS_SIM_USER_H
#define SLUICE_TESTS_SIM_USER_H

#include <sluice/loop.h>

#include "sim/kernel.h"

enum { USERS_PORT = 7000 };

struct user;

/* A peer that connects to USERS_PORT; how it goes on follows from chance. NULL where nobody
 * listens. */
struct user *user_new(sluice_loop *loop);

/* Its connection has been accepted: takes the descriptor. */
void user_accepted(struct user *user, int fd);

/* It was gone before that. */
void user_refused(struct user *user);
uint16_t user_port(const struct user *user);

/* No more chances: it consumes what comes, to the end. */
void user_settle(struct user *user);

/* After a while in which nothing has gone wrong: all that was sent has come, or the connection has
 * ended. */
void user_judge(const struct user *user);
void user_close(struct user *user);
void user_check(const struct user *user);

/* Before the loop goes, and after. */
void user_end(struct user *user);
void user_free(struct user *user);

#endif
