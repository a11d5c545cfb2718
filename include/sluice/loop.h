/**
 * @file loop.h
 * The loop: waits for completions, runs timers and posted calls, sends what is due. One thread runs
 * it.
 *
 * Threads: everything that belongs to a loop (connections, listeners, timers, its pool) is used on
 * the thread that runs the loop, and before the first turn on the thread that made it.
 * sluice_loop_post(), sluice_loop_post_call() and sluice_loop_stop() may be called on any thread.
 *
 * Processes: a loop works in the process that made it. After fork(2) the kernel's side of it is
 * still the parent's: in the child turns, and calls that run turns, fail with -ECHILD; nothing that
 * belongs to the loop can be used; and sluice_loop_free() does nothing. The child may make pools
 * and loops of its own, and execve(2) closes all descriptors of the library. A daemon that forks
 * into the background does so before it makes its loops.
 */
#ifndef SLUICE_LOOP_H
#define SLUICE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/pool.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A loop; opaque. */
typedef struct sluice_loop sluice_loop;

/** What a loop waits with. */
typedef enum sluice_backend_choice {
    /** io_uring; where it cannot be had, epoll: see sluice_loop_stats.fallback_error. */
    SLUICE_BACKEND_AUTO,
    SLUICE_BACKEND_URING, /**< io_uring, or nothing. */
    /** epoll, which every Linux has. The same behaviour, with more system calls. */
    SLUICE_BACKEND_EPOLL,
} sluice_backend_choice;

/** Settings of a loop. Zero in any field means its default. */
typedef struct sluice_loop_options {
    size_t size; /**< sizeof(sluice_loop_options). */
    /**
     * Batching window, microseconds, 0 to 100,000: while traffic flows, completions are collected
     * for so long before they are handled. Fewer wake-ups, more latency; a first event after
     * silence is never delayed, and the work of a turn is within the window. Default 0: no window.
     */
    uint32_t batch_us;
    /**
     * io_uring: memory kept with the kernel for receiving, bytes, at most half of the pool; so much
     * for each block size in use. Default 524,288: about what stays in a core's cache; with
     * batch_us twice that, for what a window brings. Counted by what is filled: where small packets
     * fill blocks to a part only, blocks of up to four times the bytes (of 524,288, where this is
     * 0) are kept.
     */
    uint32_t stock_bytes;
    /**
     * io_uring: do not register slabs of the pool as fixed buffers. Only reads of files use such
     * (sluice_file_new()), where one brings a single piece of memory. A slab is registered at the
     * first read that could name it, which pins all of it, within RLIMIT_MEMLOCK, and takes
     * milliseconds. Receiving never does.
     */
    bool no_fixed;
    /**
     * Do not let the kernel hold back what is less than a connection needs: see
     * sluice_conn_set_need().
     */
    bool no_low_water;
    sluice_backend_choice backend; /**< Default SLUICE_BACKEND_AUTO. */
} sluice_loop_options;

/** What a loop has done since it was made. */
typedef struct sluice_loop_stats {
    size_t size;         /**< sizeof(sluice_loop_stats), set by the caller. */
    const char *backend; /**< Name of the backend: "io_uring" or "epoll". */
    /**
     * What of it is in use, words separated by spaces; "fixed-buffers" once a slab is registered.
     * The loop's.
     */
    const char *features;
    uint64_t turns;       /**< Turns. */
    uint64_t enters;      /**< System calls to wait; on io_uring they submit as well. */
    uint64_t completions; /**< Completions handled; on epoll events, and sends that are done. */
    uint64_t starved;     /**< Receives that found no block and had to wait for one. */
    /**
     * Receives into the free end of a block: under memory pressure, and for connections that send a
     * few bytes at a time.
     */
    uint64_t aimed;
    uint64_t direct;      /**< Bytes that the kernel has written straight into memory of the user's:
                               sluice_conn_receive_into(). */
    uint64_t overflows;   /**< Times that the completion queue was found overflown. */
    uint32_t connections; /**< Open now. */
    uint32_t waiting;     /**< Connections that wait for a block now. */
    /**
     * Bytes of blocks that the connections' chains keep (sluice_chain_footprint()): of messages
     * that are not whole, and of what their users have not consumed. As of each connection's last
     * arrival or on_data.
     */
    uint64_t footprint;
    /**
     * Why SLUICE_BACKEND_AUTO did not take io_uring: an error of sluice_loop_new(); 0 when it did,
     * or was not chosen.
     */
    int fallback_error;
} sluice_loop_stats;

/**
 * Makes a loop on io_uring, with the features that the kernel has (they are tried, not assumed), or
 * on epoll.
 *
 * SLUICE_BACKEND_AUTO turns to epoll whatever it is that keeps io_uring from being set up; a wrong
 * setting, or a pool in use, is refused by both. sluice_loop_stats.fallback_error says why, for the
 * user to log. The other choices never turn to anything else.
 * @param pool    the blocks to receive into; stays the caller's, must outlive the loop, serves one
 *                loop at a time
 * @param options settings, or NULL for the defaults
 * @return 0, -EINVAL (a setting out of range), -EBUSY (the pool serves another loop), -ENOMEM,
 *         -EMFILE, -ENFILE (no descriptors left); on SLUICE_BACKEND_URING also -ENOSYS (a kernel
 *         without io_uring), -EPERM or -EACCES (it is forbidden: see the sysctl
 *         kernel.io_uring_disabled, and container seccomp profiles), -EOPNOTSUPP (older than Linux
 *         5.19: no provided buffer rings), -ENOMEM (not enough locked memory: RLIMIT_MEMLOCK), or
 *         another error of io_uring_setup(2)
 */
SLUICE_API int sluice_loop_new(sluice_pool *pool, const sluice_loop_options *options, sluice_loop **ret_loop);

/**
 * Closes what is still open (each connection gets its on_closed), waits for the kernel to be done
 * with every block, and frees the loop. NULL is allowed. On the loop's thread, not from inside one
 * of its calls. In a child of the process that made the loop it does nothing.
 */
SLUICE_API void sluice_loop_free(sluice_loop *loop);

/**
 * Runs turns until sluice_loop_stop().
 * @return 0, -EBUSY (inside one of the loop's calls), -ECHILD (in a child of the process that made
 *         the loop), or the error that made going on impossible
 */
SLUICE_API int sluice_loop_run(sluice_loop *loop);

/**
 * One turn: submits what is queued, waits up to @p timeout_ms (0: not at all; negative: for any
 * length) for something to happen, and handles it.
 * @return 0, -EBUSY (inside one of the loop's calls; nothing is done), -ECHILD (in a child of the
 *         process that made the loop; nothing is done), or the error of io_uring_enter(2) or
 *         epoll_wait(2) that made it impossible
 */
SLUICE_API int sluice_loop_turn(sluice_loop *loop, int timeout_ms);

/**
 * The descriptor by which another event loop, the host, runs this one in place of
 * sluice_loop_run(). The host watches it for reading, level-triggered, and:
 *
 *     struct pollfd watched = {.fd = sluice_loop_fd(loop), .events = POLLIN};
 *     poll(&watched, 1, sluice_loop_timeout(loop));
 *     sluice_loop_turn(loop, 0);
 *
 * It is readable when there is something for a turn to do: completions, posted calls, and what was
 * asked for between turns (to send, close, accept, start a timer and so on). It stays readable
 * until a turn. What a turn itself leaves to be done does not show here but in
 * sluice_loop_timeout(): ask that after every turn. A turn too many does no harm.
 *
 * The first call makes it; until then a loop does nothing for a host. Only poll it: neither read,
 * write nor close it. Valid until sluice_loop_free(); stop watching it before. sluice_loop_run()
 * and turns that wait go on working. sluice_loop_stop() has no effect on the host. For libevent
 * there is <sluice/libevent.h>.
 * @return the descriptor, -EMFILE, -ENFILE, -ENOMEM, or the error of io_uring_register(2)
 */
SLUICE_API int sluice_loop_fd(sluice_loop *loop);

/**
 * How long the host may sleep now, unless the descriptor becomes readable: until the next timer is
 * due, and not at all when the last turn has left something to do. Calls that shorten it between
 * turns make the descriptor readable, so a host that asks after each turn only misses nothing.
 * @return milliseconds; 0: run a turn now; -1: for any length
 */
SLUICE_API int sluice_loop_timeout(const sluice_loop *loop);

/**
 * Makes sluice_loop_run() return after its current turn; where a call of a stream
 * (<sluice/stream.h>) is what runs the loop, or the next to do so, makes that return -EINTR. Any
 * thread.
 */
SLUICE_API void sluice_loop_stop(sluice_loop *loop);

/** What sluice_loop_post() calls. */
typedef void sluice_loop_fn(void *user);

/**
 * Has a function called on the loop's thread, in the order of the posts. Any thread. Calls not yet
 * made when the loop is freed are made by sluice_loop_free().
 * @return 0, -ENOMEM
 */
SLUICE_API int sluice_loop_post(sluice_loop *loop, sluice_loop_fn *call, void *user);

/**
 * A call to be posted whose memory is the poster's own; see sluice_loop_post_call(). The fields are
 * the library's.
 */
typedef struct sluice_call {
    struct sluice_call *next; /**< Of the calls that are posted. */
    sluice_loop_fn *call;     /**< What is called. */
    void *user;               /**< With this. */
    bool allocated;           /**< By sluice_loop_post(). */
} sluice_call;

/**
 * As sluice_loop_post(), with memory that the caller has had before, so that it cannot fail: for
 * messages between loops that must not get lost. Any thread.
 * @param posted the loop's until @p call is called, which may post it again, or free it
 */
SLUICE_API void sluice_loop_post_call(sluice_loop *loop, sluice_call *posted, sluice_loop_fn *call, void *user);

/** Something that a loop has been asked to have done; opaque. */
typedef struct sluice_work sluice_work;

/**
 * Has something done that may block, such as looking into a folder: @p run on a thread of the
 * loop's, then @p done on the loop's own. There is one such thread, made when it is first needed;
 * it takes no signals, and does one thing after another, in the order in which it was asked. What
 * file writers do does not wait for it, but runs beside it. How much waits is not bounded: that is
 * up to who asks, who may also cancel. Where no thread can be made, @p run is called on the loop's
 * thread, just before @p done. Both calls are made in any case, unless the work is cancelled: by
 * sluice_loop_free() at the latest, which waits for them. On the loop's thread.
 * @param run       must not use the loop
 * @param done      called from a turn, never from inside this call
 * @param ret_work  to cancel it; valid until @p done is called. NULL is allowed.
 * @return 0, -ENOMEM: neither is called
 */
SLUICE_API int sluice_loop_work(sluice_loop *loop, sluice_loop_fn *run, sluice_loop_fn *done, void *user,
                                sluice_work **ret_work);

/**
 * Nobody wants what the work would find any more. Work that has not begun is not begun: its done is
 * called without its run, from one of the next turns, however much waits or runs before it. Never
 * waits. Asking twice does no harm. On the loop's thread, before the work's done is called.
 * @return 0: run has not been called, and will not be; -EBUSY: it has begun, or is over, and
 *         everything goes on as if this had not been asked. In both cases done is called, and @p
 *         work is valid until then.
 */
SLUICE_API int sluice_work_cancel(sluice_work *work);

/**
 * Milliseconds of CLOCK_MONOTONIC at the beginning of this turn's handling. In a listener's call,
 * which comes before that, at its beginning.
 */
SLUICE_API uint64_t sluice_loop_now(const sluice_loop *loop);

/**
 * Has a function called at the end of each turn in which the pool has fewer blocks to receive into
 * than @p blocks (sluice_pool_available(), of the loop's own block size). By then what came has
 * been told, so what the connections' chains hold is waiting for more: the moment to close one, or
 * to give up what is kept. From a turn, outside of every other call; it may do all that those may.
 * NULL: no more.
 */
SLUICE_API void sluice_loop_on_shortage(sluice_loop *loop, uint32_t blocks, sluice_loop_fn *call, void *user);

/** Gives the loop a pointer of the user's, which sluice_loop_user() returns. NULL at first. */
SLUICE_API void sluice_loop_set_user(sluice_loop *loop, void *user);

/** What sluice_loop_set_user() has set. */
SLUICE_API void *sluice_loop_user(const sluice_loop *loop);

/** The loop's pool. */
SLUICE_API sluice_pool *sluice_loop_pool(const sluice_loop *loop);

/** Reads the counters. @return 0, -EINVAL (a size that was not set; nothing is written) */
SLUICE_API int sluice_loop_get_stats(const sluice_loop *loop, sluice_loop_stats *ret_stats);

/** A timer of a loop; opaque. */
typedef struct sluice_timer sluice_timer;

/** What a timer calls; it may start, stop or free the timer. */
typedef void sluice_timer_fn(sluice_timer *timer, void *user);

/** Makes a stopped timer. The caller owns it, and frees it before the loop. @return 0, -ENOMEM */
SLUICE_API int sluice_timer_new(sluice_loop *loop, sluice_timer_fn *call, void *user, sluice_timer **ret_timer);

/**
 * Calls once, @p ms milliseconds from now: not before, and soon after. A timer that runs starts
 * anew.
 */
SLUICE_API void sluice_timer_start(sluice_timer *timer, uint64_t ms);

/** Stops a timer; one that is stopped stays so. */
SLUICE_API void sluice_timer_stop(sluice_timer *timer);

/** The pointer that the timer's callback gets. */
SLUICE_API void *sluice_timer_user(const sluice_timer *timer);

/** Stops and frees a timer. NULL is allowed. */
SLUICE_API void sluice_timer_free(sluice_timer *timer);

#ifdef __cplusplus
}
#endif

#endif
