/**
 * @file libevent.h
 * Runs a loop inside libevent: one call, and the loop's connections, timers and posted calls live
 * in the thread that runs the event base, beside the base's own events. A library of its own,
 * libsluice-libevent (pkg-config: sluice-libevent, CMake: sluice::libevent), because it needs
 * libevent_core; libevent 2.0 or newer.
 *
 * Threads: the one that runs the event base, which is the loop's thread; before the base is first
 * run, the one that made both. sluice_loop_post() may be called on any thread, and the base need
 * not be set up for threads for it.
 */
#ifndef SLUICE_LIBEVENT_H
#define SLUICE_LIBEVENT_H

#include <sluice/loop.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct event_base;

/** A loop's place in an event base; opaque. */
typedef struct sluice_libevent sluice_libevent;

/**
 * Has an event base run a loop, with one event for the loop's descriptor and one for its timers, at
 * the priority in the middle. Between two turns of the loop the base sees to its other events,
 * however much traffic there is. The two events count as pending, so event_base_dispatch() does not
 * return for lack of events while a loop is attached.
 *
 * Do not run the loop by sluice_loop_run() meanwhile, and attach it once. When a turn fails, which
 * nothing can put right, the base's run is ended as by event_base_loopbreak(), and
 * sluice_libevent_error() tells why.
 *
 * @param loop         stays the caller's, as does @p base
 * @param ret_libevent the place, to be freed before either of them; untouched on failure
 * @return 0, -ENOMEM, -EINVAL (@p loop or @p base is NULL), or an error of sluice_loop_fd()
 */
SLUICE_API int sluice_libevent_attach(sluice_loop *loop, struct event_base *base, sluice_libevent **ret_libevent);

/** Why the last turn failed. @return 0 (it did not), or the error of sluice_loop_turn() */
SLUICE_API int sluice_libevent_error(const sluice_libevent *libevent);

/**
 * Takes the loop out of the event base. Both stay, and what the loop has open stays open; it may be
 * attached again, here or elsewhere on this thread, or be run by itself. Free this first, then the
 * loop and the base in either order. May be called by what the loop or the base calls: the turn
 * that is under way is completed. NULL is allowed.
 */
SLUICE_API void sluice_libevent_free(sluice_libevent *libevent);

#ifdef __cplusplus
}
#endif

#endif
