/*
 * A lingering close. Bytes that arrive at a closed socket are answered with a reset, with which a
 * client that still sends fails before it reads the last answer or alert. So a duplicate of the
 * socket stays for a while, in a session of its own: it sends no more, drops what comes, and closes
 * when the client does, or at the latest after LINGER_MS or LINGER_MOST bytes.
 */
#ifndef SLUICED_LINGER_H
#define SLUICED_LINGER_H

#include <stdbool.h>

struct session;

enum {
    LINGER_MS = 2000,
    LINGER_MOST = 256 * 1024, /* bytes that are dropped */
};

/*
 * To be called when the kernel has taken the last bytes, and before the session is closed. The
 * client's address, if it is counted, is counted for the new session from now on, and so is a slot
 * of the TLS handshakes: @has_slot: the session has one. False: there was no memory or descriptor,
 * or the worker drains; nothing has changed, and the close is a plain one.
 */
bool linger_begin(struct session *session, bool has_slot);

#endif
