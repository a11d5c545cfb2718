/**
 * @file libevent.h
 * Runs a loop inside libevent. After one call, the loop's connections, timers and posted calls are
 * handled by the thread that runs the event base, together with the base's own events. This is a
 * separate library, libsluice-libevent (pkg-config: sluice-libevent, CMake: sluice::libevent),
 * because it needs libevent_core, version 2.0 or newer.
 *
 * Threads: the thread that runs the event base, which is the loop's thread; before the base is
 * first run, the thread that made both. sluice_loop_post() may be called on any thread, even if the
 * base is not set up for threads.
 */
#ifndef SLUICE_LIBEVENT_H
#define SLUICE_LIBEVENT_H

#include <sluice/loop.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct event_base;

/** The attachment of a loop to an event base; opaque. */
typedef struct sluice_libevent sluice_libevent;

/**
 * Attaches a loop to an event base, with one event for the loop's descriptor and one for its
 * timers, at the middle priority. The base handles its other events between two turns of the loop,
 * whatever the traffic. The two events count as pending, so event_base_dispatch() does not return
 * for lack of events while a loop is attached.
 *
 * Attach a loop only once, and do not call sluice_loop_run() while it is attached. If a turn fails,
 * which is permanent, the base's run ends as with event_base_loopbreak(), and
 * sluice_libevent_error() returns the error.
 *
 * @param loop         owned by the caller, like @p base
 * @param ret_libevent the attachment, to be freed before the loop and the base; untouched on
 *                     failure
 * @return 0, -ENOMEM, -EINVAL (@p loop or @p base is NULL), or an error of sluice_loop_fd()
 */
SLUICE_API int sluice_libevent_attach(sluice_loop *loop, struct event_base *base, sluice_libevent **ret_libevent);

/** The error of the last turn. @return 0 (no error), or an error of sluice_loop_turn() */
SLUICE_API int sluice_libevent_error(const sluice_libevent *libevent);

/**
 * Detaches the loop from the event base. Both remain, and everything open on the loop stays open.
 * The loop may be attached again, to any base of this thread, or run by itself. Free the attachment
 * first, then the loop and the base in either order. May be called in callbacks of the loop or the
 * base: the current turn is completed. NULL is allowed.
 */
SLUICE_API void sluice_libevent_free(sluice_libevent *libevent);

#ifdef __cplusplus
}
#endif

#endif
