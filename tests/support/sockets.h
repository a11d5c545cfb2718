/*
 * Peers for connections under test: socket pairs, threads that write and read at their other ends,
 * and bytes that can be told at any place of a stream. Functions that say nothing of failure fail
 * the test.
 */
#ifndef SLUICE_TESTS_SUPPORT_SOCKETS_H
#define SLUICE_TESTS_SUPPORT_SOCKETS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/chain.h>
#include <sluice/conn.h>
#include <sluice/loop.h>
#include <sluice/pool.h>
#include <sluice/slice.h>

/* A pool and its loop. */
typedef struct loop_rig {
    sluice_pool *pool;
    sluice_loop *loop;
} loop_rig;

/*
 * Options may be NULL; a backend that they leave open is what SLUICE_TEST_BACKEND names, uring or
 * epoll, and without it io_uring where that works. Ends the process when the test is still at it
 * after @seconds: a loop that waits for ever.
 */
void loop_rig_open(loop_rig *rig, const sluice_pool_options *pool, const sluice_loop_options *loop, unsigned seconds);

/* With a pool of so many blocks and no more, in eight slabs, of which receiving has few at a
 * time. */
void loop_rig_open_small(loop_rig *rig, uint32_t block_size, uint32_t blocks, uint32_t reserve, unsigned seconds);

bool loop_rig_is_uring(const loop_rig *rig);

/* Connections that wait for a block. */
uint32_t loop_rig_waiting(const loop_rig *rig);

/* Frees both; every block must have come back, and nothing been copied. */
void loop_rig_close(loop_rig *rig);

/* The same for a pool without a loop any more: frees it. */
void pool_close(sluice_pool *pool);

/* Ends the process, which says that it hangs, unless called again within @seconds or some minutes;
 * 0 ends the guard. */
void hang_guard(unsigned seconds);

/* One turn without an error, waiting for any length. */
void turn(sluice_loop *loop);

/* Turns that do not wait: what is under way in the kernel comes in. */
void turn_through(sluice_loop *loop, unsigned turns);

/* Turns until the flag is set, or the number is reached. */
void turn_until(sluice_loop *loop, const bool *flag);
void turn_until_size(sluice_loop *loop, const size_t *size, size_t goal);
void turn_until_count(sluice_loop *loop, const unsigned *count, unsigned goal);

/* Turns until the connection's chain holds @n bytes. */
void turn_until_buffered(sluice_loop *loop, sluice_conn *conn, size_t n);

/* Turns until the connection's send stays under way: its peer does not read. The kernel may take
 * many megabytes before that, unless sockets_hold_little() limits it: a send of a known length
 * needs the limit, or it may end. */
void turn_until_blocked(sluice_loop *loop, const sluice_conn *conn);

/* Monotonic milliseconds. */
uint64_t clock_now(void);

/* Limits what the kernel keeps of what @sender sends and @peer does not read, to under 256 KiB.
 * Without it the kernel adapts both buffers, up to the machine's limits. */
void sockets_hold_little(int sender, int peer);

/* Connected sockets: [0] for a connection, [1] for its peer. */
void sockets_tcp_pair(int ret_fds[2]);
void sockets_unix_pair(int ret_fds[2]);

/* Makes the next close() of a TCP socket a reset. */
void sockets_reset_on_close(int fd);

void sockets_set_blocking(int fd, bool blocking);

/* Raises the limit of open descriptors; false when it cannot be so many. */
bool sockets_allow(unsigned descriptors);

/* All bytes, blocking. */
void sockets_write(int fd, const void *bytes, size_t n);

/* Waits until the other end's kernel has all that was written to a TCP socket, which may be later
 * than the write. */
void sockets_wait_delivered(int fd);

/* The same by the other end, which has received so many bytes in all, urgent ones as well. It does
 * not wait for the acknowledgement, which the kernel may put off for 40 ms. */
void sockets_wait_received(int fd, uint64_t bytes);

/* Waits until so many connections of a listening TCP socket wait to be accepted; connect(2) returns
 * a moment before. */
void sockets_wait_queued(int fd, unsigned connections);

/* Waits until a read, or an accept, would not wait. */
void sockets_wait_readable(int fd);

/* A stream's bytes: a function of its seed and the place. */
void pattern_fill(uint32_t seed, uint64_t place, void *bytes, size_t n);
bool pattern_matches(uint32_t seed, uint64_t place, const void *bytes, size_t n);

/* Writes pattern bytes, blocking. */
void pattern_write(int fd, uint32_t seed, uint64_t place, size_t n);

/* Checks slices and chains in place; the chain's first @n bytes are consumed. */
bool pattern_slice_matches(uint32_t seed, uint64_t place, const sluice_slice *slice);
bool pattern_consume(sluice_chain *chain, size_t n, uint32_t seed, uint64_t *place);

/* Pseudo-random numbers from a fixed seed. */
uint32_t random_next(uint64_t *state);
uint32_t random_between(uint64_t *state, uint32_t least, uint32_t most);

/* A thread that writes pattern bytes in pieces of random size, then says that it has finished. */
typedef struct socket_writer {
    int fd;
    uint32_t seed;
    uint64_t total;
    uint32_t least, most; /* bytes a write */
    pthread_t thread;
    bool broken; /* the reading side went away; set by the thread, read after the join */
} socket_writer;

void socket_writer_start(socket_writer *writer, int fd, uint32_t seed, uint64_t total, uint32_t least, uint32_t most);

/* Joins. The descriptor stays open. */
void socket_writer_join(socket_writer *writer);

/*
 * A thread that reads pattern bytes to the end of the stream, at most @most bytes a read. The
 * pattern begins anew after every @round bytes; 0: never.
 */
typedef struct socket_reader {
    int fd;
    uint32_t seed;
    uint32_t most;
    uint64_t round;
    pthread_t thread;
    uint64_t total; /* these are read after the join */
    bool matches;
    int error;
} socket_reader;

void socket_reader_start(socket_reader *reader, int fd, uint32_t seed, uint32_t most, uint64_t round);
void socket_reader_join(socket_reader *reader);

#endif
