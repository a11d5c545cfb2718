/*
 * A connection goes to the worker whose stream it asks for, and its session with it: the descriptor, the bytes that
 * have been read and not consumed, and all that the session knows.
 */
#ifndef SLUICED_MOVE_H
#define SLUICED_MOVE_H

#include "daemon/session.h"

/*
 * Begins to move. Everything that was to be sent must have gone. The session hears nothing more of its connection but
 * on_closed, should it be closed meanwhile, until its type's moved() on the other worker's thread; so it must hold
 * nothing that is its worker's. Where it finds no memory there, it is discarded, with a line in the log.
 * 0; or -ENOMEM, -EBUSY (something is being sent): it stays
 */
int session_move(struct session *session, struct worker *to);

#endif
