/**
 * @file loop.h
 * The event loop: waits for completions, runs timers and posted calls, and sends queued data. One
 * thread runs it.
 *
 * Threads: everything that belongs to a loop (connections, listeners, timers, its pool) is used on
 * the thread that runs the loop; before the first turn, on the thread that made it.
 * sluice_loop_post(), sluice_loop_post_call() and sluice_loop_stop() may be called on any thread.
 *
 * Processes: a loop works only in the process that made it. After fork(2) the kernel's side of the
 * loop still belongs to the parent. In the child, turns and calls that run turns fail with -ECHILD,
 * nothing that belongs to the loop may be used, and sluice_loop_free() does nothing. The child may
 * make pools and loops of its own. execve(2) closes all descriptors of the library. A daemon that
 * forks into the background must fork before it makes its loops.
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

/** Choice of backend. */
typedef enum sluice_backend_choice {
    /**
     * io_uring where it works and costs no more than epoll, else epoll. io_uring costs more where
     * the kernel has no receive bundles (Linux before 6.10, and 6.13.11 to 6.14.8) and the loop has
     * no batching window (sluice_loop_options.batch_us). sluice_loop_stats.reason has the result.
     */
    SLUICE_BACKEND_AUTO,
    /** io_uring only, whatever it costs: also reads of files that never wait for the disk. */
    SLUICE_BACKEND_URING,
    /**
     * epoll, available on every Linux. Same behaviour, more system calls; files are read on the
     * loop's thread.
     */
    SLUICE_BACKEND_EPOLL,
} sluice_backend_choice;

/** Why a loop uses its backend. All but the first are with SLUICE_BACKEND_AUTO. */
typedef enum sluice_backend_reason {
    SLUICE_REASON_REQUESTED,   /**< sluice_loop_options.backend names it. */
    SLUICE_REASON_URING_WORKS, /**< io_uring works, and costs no more than epoll. */
    /** epoll: io_uring works, but without receive bundles and a window it costs more. */
    SLUICE_REASON_EPOLL_CHEAPER,
    /** epoll: io_uring failed, see sluice_loop_stats.fallback_error. */
    SLUICE_REASON_URING_FAILED,
} sluice_backend_reason;

/** Settings of a loop. Zero in any field means its default. */
typedef struct sluice_loop_options {
    size_t size; /**< sizeof(sluice_loop_options). */
    /**
     * Batching window, microseconds, 0 to 100,000. While traffic flows, the loop waits for this
     * long before it handles what has come: fewer wake-ups, more latency. The first event after a
     * quiet period is not delayed, nor is what comes while the loop is busy. Windows are used only
     * as far as they save wake-ups. Default 0: no window.
     */
    uint32_t batch_us;
    /**
     * io_uring: memory published to the kernel for receiving, bytes, per block size in use; at most
     * half of the pool. Default 524,288, which fits the cache of a core; twice that if batch_us is
     * set. Counted by filled bytes: if small packets fill blocks only partly, blocks of up to four
     * times this many bytes (up to 4 x 524,288 if this is 0) are published.
     */
    uint32_t stock_bytes;
    /**
     * io_uring: do not register slabs of the pool as fixed buffers. Only file reads
     * (sluice_file_new()) into a single piece of memory use fixed buffers; receiving does not. A
     * slab is registered at the first read that can use it. This pins the slab, counts against
     * RLIMIT_MEMLOCK, and takes milliseconds.
     */
    bool no_fixed;
    /**
     * Do not set SO_RCVLOWAT from the number of bytes that a connection needs: see
     * sluice_conn_set_need().
     */
    bool no_low_water;
    sluice_backend_choice backend; /**< Default SLUICE_BACKEND_AUTO. */
} sluice_loop_options;

/** Counters of a loop since it was made. */
typedef struct sluice_loop_stats {
    size_t size;         /**< sizeof(sluice_loop_stats), set by the caller. */
    const char *backend; /**< "io_uring" or "epoll". */
    /**
     * Features in use, words separated by spaces; "fixed-buffers" appears once a slab is
     * registered, "eventfd-rearm" once sluice_loop_fd() was called on a kernel whose eventfds of
     * io_uring fire once only (some 6.12: they are registered again each turn), and
     * "bundle-rejected" says that the kernel offers receive bundles that did not pass the test.
     * Owned by the loop.
     */
    const char *features;
    uint64_t turns;       /**< Turns run. */
    uint64_t enters;      /**< System calls that wait; on io_uring they also submit. */
    uint64_t completions; /**< Completions handled; on epoll, events and completed sends. */
    uint64_t starved;     /**< Receives that had to wait for a free block. */
    /**
     * Receives into the free end of a partly filled block: under memory pressure, and for
     * connections that send a few bytes at a time.
     */
    uint64_t aimed;
    /** Bytes that the kernel wrote directly into the user's memory: sluice_conn_receive_into(). */
    uint64_t direct;
    uint64_t overflows;   /**< Times that the completion queue had overflowed. */
    uint32_t connections; /**< Open now. */
    uint32_t waiting;     /**< Connections waiting for a block now. */
    /**
     * Pool memory kept by the connections' chains (sluice_chain_footprint()), bytes: incomplete
     * messages and unconsumed data. As of each connection's last received data or on_data.
     */
    uint64_t footprint;
    /**
     * With SLUICE_REASON_URING_FAILED the error of sluice_loop_new() with which io_uring failed;
     * else 0.
     */
    int fallback_error;
    sluice_backend_reason reason; /**< Why the loop uses this backend. */
} sluice_loop_stats;

/**
 * Makes a loop on io_uring, with the features that the kernel supports (detected by trying them),
 * or on epoll.
 *
 * SLUICE_BACKEND_AUTO uses epoll where io_uring would cost more, and falls back to it whatever
 * prevents the setup of io_uring; an invalid setting or a pool in use fails in both cases.
 * sluice_loop_stats.reason and fallback_error say why, for the user's log. The other choices never
 * fall back. Of several loops made with SLUICE_BACKEND_AUTO one may get another backend than the
 * rest, if its own probe fails; connections can still move between them.
 * @param pool    blocks to receive into; owned by the caller. It must outlive the loop and serves
 *                one loop at a time
 * @param options settings, or NULL for the defaults
 * @return 0, -EINVAL (a setting is out of range), -EBUSY (the pool serves another loop), -ENOMEM,
 *         -EMFILE, -ENFILE (no descriptors left); with SLUICE_BACKEND_URING also -ENOSYS (the
 *         kernel lacks io_uring), -EPERM or -EACCES (io_uring is forbidden: see the sysctl
 *         kernel.io_uring_disabled, and container seccomp profiles), -EOPNOTSUPP (older than Linux
 *         5.19: no provided buffer rings), -ENOMEM (not enough locked memory: RLIMIT_MEMLOCK), or
 *         another error of io_uring_setup(2)
 */
SLUICE_API int sluice_loop_new(sluice_pool *pool, const sluice_loop_options *options, sluice_loop **ret_loop);

/**
 * Closes everything that is open (each connection gets its on_closed), makes the calls that are
 * posted, and returns when the kernel has returned every block and nothing is left. The loop may be
 * used again afterwards. For a thread that ends while another one frees the loop: with io_uring the
 * kernel completes a loop's operations on the thread that runs it and on no other. On the loop's
 * thread.
 * @return 0, -EBUSY (inside one of the loop's callbacks), -ECHILD (in a child of the process that
 *         made the loop), -EINVAL (no loop), or the error of a failed turn, with things left
 */
SLUICE_API int sluice_loop_close(sluice_loop *loop);

/**
 * Does what sluice_loop_close() does, but waits at most @p timeout_ms for operations that have
 * begun (0: makes one turn; negative: no limit), up to 10 ms more than that, and as long as work
 * takes that has got no thread. An operation on a file may never return: the server of a network
 * file system may be gone.
 *
 * After -ETIMEDOUT the loop begins nothing new; what is queued for its threads behind such an
 * operation begins when that returns. The kernel and the threads still use what is left: the loop,
 * its pool, and all memory and descriptors that file writers, files and work have been given must
 * stay. Another call, or sluice_loop_free(), waits for the
 * rest. A program that is about to end need not: it leaves all of that to the end of the process,
 * by _exit(2), and does not wait for the end of the loop's thread either, which the kernel may
 * delay until these operations return.
 * @return as sluice_loop_close(), or -ETIMEDOUT (something has not returned)
 */
SLUICE_API int sluice_loop_close_within(sluice_loop *loop, int timeout_ms);

/**
 * Does what sluice_loop_close() does, and frees the loop. NULL is allowed. Call it on the loop's
 * thread, not inside one of the loop's callbacks; or, after sluice_loop_close(), on any one thread
 * when the loop's has made its last call. Does nothing in a child of the process that made the
 * loop.
 */
SLUICE_API void sluice_loop_free(sluice_loop *loop);

/**
 * Runs turns until sluice_loop_stop().
 * @return 0, -EBUSY (inside one of the loop's callbacks), -ECHILD (in a child of the process that
 *         made the loop), or the error of a failed turn
 */
SLUICE_API int sluice_loop_run(sluice_loop *loop);

/**
 * Runs one turn: submits queued operations, waits up to @p timeout_ms for events (0: does not wait;
 * negative: no limit), and handles them.
 * @return 0, -EBUSY (inside one of the loop's callbacks; nothing is done), -ECHILD (in a child of
 *         the process that made the loop; nothing is done), or an error of io_uring_enter(2) or
 *         epoll_wait(2)
 */
SLUICE_API int sluice_loop_turn(sluice_loop *loop, int timeout_ms);

/**
 * Returns a descriptor with which another event loop, the host, runs this loop in place of
 * sluice_loop_run(). The host watches it for reading, level-triggered, and:
 *
 *     struct pollfd watched = {.fd = sluice_loop_fd(loop), .events = POLLIN};
 *     poll(&watched, 1, sluice_loop_timeout(loop));
 *     sluice_loop_turn(loop, 0);
 *
 * The descriptor is readable if a turn has work to do: completions, posted calls, and operations
 * requested between turns (sends, closes, accepts, timer starts and so on). It stays readable until
 * a turn runs. Work that a turn itself leaves over does not make the descriptor readable;
 * sluice_loop_timeout() reports it, so call that after every turn. An unnecessary turn does no
 * harm.
 *
 * The first call makes the descriptor; before it, the loop cannot be run by a host. Only poll the
 * descriptor: do not read, write or close it. It is valid until sluice_loop_free(); stop watching
 * it before. sluice_loop_run() and turns that wait continue to work. sluice_loop_stop() does not
 * affect the host. For libevent, use <sluice/libevent.h>.
 * @return the descriptor, -EMFILE, -ENFILE, -ENOMEM, or an error of io_uring_register(2)
 */
SLUICE_API int sluice_loop_fd(sluice_loop *loop);

/**
 * Returns how long the host may sleep if the descriptor does not become readable: until the next
 * timer expires, or 0 if the last turn left work over. Calls between turns that shorten this time
 * make the descriptor readable, so it is enough to call this after each turn.
 * @return milliseconds; 0: run a turn now; -1: no limit
 */
SLUICE_API int sluice_loop_timeout(const sluice_loop *loop);

/**
 * Makes sluice_loop_run() return after its current turn. If a call of a stream (<sluice/stream.h>)
 * runs the loop, now or next, that call returns -EINTR instead. Any thread.
 */
SLUICE_API void sluice_loop_stop(sluice_loop *loop);

/** A function passed to sluice_loop_post(). */
typedef void sluice_loop_fn(void *user);

/**
 * Queues a call for the loop's thread. Posted calls run in order. Any thread. sluice_loop_free()
 * runs the calls that are still queued.
 * @return 0, -ENOMEM
 */
SLUICE_API int sluice_loop_post(sluice_loop *loop, sluice_loop_fn *call, void *user);

/**
 * Memory for one posted call, provided by the caller: see sluice_loop_post_call(). Fields are
 * private to the library.
 */
typedef struct sluice_call {
    struct sluice_call *next; /**< Next posted call. */
    sluice_loop_fn *call;     /**< The function. */
    void *user;               /**< Its argument. */
    bool allocated;           /**< Allocated by sluice_loop_post(). */
} sluice_call;

/**
 * Like sluice_loop_post(), in memory that the caller provides, so it cannot fail: for messages
 * between loops that must not be lost. Any thread.
 * @param posted belongs to the loop until @p call runs; @p call may post it again or free it
 */
SLUICE_API void sluice_loop_post_call(sluice_loop *loop, sluice_call *posted, sluice_loop_fn *call, void *user);

/** Work queued by sluice_loop_work(); opaque. */
typedef struct sluice_work sluice_work;

/**
 * Queues work that may block, such as reading a directory: @p run is called on a thread of the
 * loop, then @p done on the loop's thread. A loop has one such thread, created at first use; it
 * receives no signals and runs the work in order. File writers do not use this queue and are not
 * delayed by it. The queue is unbounded; limit it yourself, and cancel work that is no longer
 * needed. If the thread cannot be created, @p run is called on the loop's thread, just before @p
 * done. Both calls are always made unless the work is cancelled; at the latest by
 * sluice_loop_free(), which waits for them. On the loop's thread.
 * @param run      must not use the loop
 * @param done     called from a turn, never inside this call
 * @param ret_work for sluice_work_cancel(); valid until @p done is called. NULL is allowed.
 * @return 0, -ENOMEM: neither is called
 */
SLUICE_API int sluice_loop_work(sluice_loop *loop, sluice_loop_fn *run, sluice_loop_fn *done, void *user,
                                sluice_work **ret_work);

/**
 * Cancels work that has not started: its done is called without its run, in one of the next turns,
 * independent of other queued or running work. Never waits. Repeated calls have no effect. On the
 * loop's thread, before the work's done is called.
 * @return 0: run has not been called and will not be called; -EBUSY: the work has started or
 *         finished, and the call has no effect. In both cases done is called, and @p work is valid
 *         until then.
 */
SLUICE_API int sluice_work_cancel(sluice_work *work);

/**
 * CLOCK_MONOTONIC in milliseconds, as of the start of this turn's event handling. In a listener's
 * callback, as of the start of that callback.
 */
SLUICE_API uint64_t sluice_loop_now(const sluice_loop *loop);

/**
 * Sets a function that is called at the end of each turn in which the pool has fewer than @p blocks
 * blocks of the loop's own size available for receiving (sluice_pool_available()). All received
 * data has been reported by then, so what the connections' chains still hold is incomplete: the
 * function can close connections or release retained data. It is called from a turn, outside of
 * every other callback, and may make the same calls. NULL removes it.
 */
SLUICE_API void sluice_loop_on_shortage(sluice_loop *loop, uint32_t blocks, sluice_loop_fn *call, void *user);

/**
 * Changes the batching window (sluice_loop_options.batch_us), from the next wait on. Only a loop
 * that was made with a window has one to change. On the loop's thread.
 *
 * @param batch_us microseconds, 1 to 100,000; 0 for a loop without a window, which stays so
 * @return 0, or -EINVAL: out of range, or a window where there is none, or none where there is one
 */
SLUICE_API int sluice_loop_set_batch(sluice_loop *loop, uint32_t batch_us);

/** Stores a pointer for sluice_loop_user(). Initially NULL. */
SLUICE_API void sluice_loop_set_user(sluice_loop *loop, void *user);

/** The pointer stored by sluice_loop_set_user(). */
SLUICE_API void *sluice_loop_user(const sluice_loop *loop);

/** The loop's pool. */
SLUICE_API sluice_pool *sluice_loop_pool(const sluice_loop *loop);

/** Reads the counters. @return 0, -EINVAL (ret_stats->size is not set; nothing is written) */
SLUICE_API int sluice_loop_get_stats(const sluice_loop *loop, sluice_loop_stats *ret_stats);

/** A timer of a loop; opaque. */
typedef struct sluice_timer sluice_timer;

/** A timer's callback. It may start, stop or free the timer. */
typedef void sluice_timer_fn(sluice_timer *timer, void *user);

/** Makes a stopped timer. The caller owns it and frees it before the loop. @return 0, -ENOMEM */
SLUICE_API int sluice_timer_new(sluice_loop *loop, sluice_timer_fn *call, void *user, sluice_timer **ret_timer);

/**
 * Starts the timer: it fires once, @p ms milliseconds from now or slightly later. A running timer
 * restarts.
 */
SLUICE_API void sluice_timer_start(sluice_timer *timer, uint64_t ms);

/** Stops the timer. No effect on a stopped timer. */
SLUICE_API void sluice_timer_stop(sluice_timer *timer);

/** The user pointer passed to the timer's callback. */
SLUICE_API void *sluice_timer_user(const sluice_timer *timer);

/** Stops and frees a timer. NULL is allowed. */
SLUICE_API void sluice_timer_free(sluice_timer *timer);

#ifdef __cplusplus
}
#endif

#endif
