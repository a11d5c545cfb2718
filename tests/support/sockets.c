#include "support/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/feed.h"

static void hang(int signal_number) {
    static const char text[] = "hang: a loop waits for what does not come\n";
    (void)signal_number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

/*
 * The time is the clock's, and a busy machine may have none for this process: so it is not much
 * less than ctest gives, and what a test asks for counts where it is more.
 */
enum { HANG_S = 270 };

void hang_guard(unsigned seconds) {
    const char *slower = getenv("SLUICE_TEST_SLOWER");
    signal(SIGALRM, hang);
    if (seconds > 0 && seconds < HANG_S)
        seconds = HANG_S;
    alarm(slower ? seconds * (unsigned)atoi(slower) : seconds);
}

static sluice_backend_choice backend_of_environment(void) {
    const char *name = getenv("SLUICE_TEST_BACKEND");
    if (!name || !*name)
        return SLUICE_BACKEND_AUTO;
    if (strcmp(name, "epoll") == 0)
        return SLUICE_BACKEND_EPOLL;
    assert_string_equal(name, "uring");
    return SLUICE_BACKEND_URING;
}

void loop_rig_open(loop_rig *rig, const sluice_pool_options *pool, const sluice_loop_options *loop, unsigned seconds) {
    sluice_loop_options options = {.size = sizeof options};
    if (loop)
        options = *loop;
    if (options.backend == SLUICE_BACKEND_AUTO)
        options.backend = backend_of_environment();
    hang_guard(seconds);
    assert_int_equal(sluice_pool_new(pool, &rig->pool), 0);
    /* Where the machine supports io_uring it is tested, also if epoll costs less there. */
    if (options.backend == SLUICE_BACKEND_AUTO) {
        options.backend = SLUICE_BACKEND_URING;
        if (sluice_loop_new(rig->pool, &options, &rig->loop) == 0)
            return;
        options.backend = SLUICE_BACKEND_EPOLL;
    }
    assert_int_equal(sluice_loop_new(rig->pool, &options, &rig->loop), 0);
}

void loop_rig_open_small(loop_rig *rig, uint32_t block_size, uint32_t blocks, uint32_t reserve, unsigned seconds) {
    const sluice_pool_options pool = {.size = sizeof pool,
                                      .block_size = block_size,
                                      .slab_blocks = blocks / 8,
                                      .max_blocks = blocks,
                                      .reserve_blocks = reserve,
                                      .no_huge_pages = true};
    const sluice_loop_options loop = {.size = sizeof loop, .stock_bytes = 8 * block_size};
    loop_rig_open(rig, &pool, &loop, seconds);
}

bool loop_rig_is_uring(const loop_rig *rig) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(rig->loop, &stats);
    return strcmp(stats.backend, "io_uring") == 0;
}

uint32_t loop_rig_waiting(const loop_rig *rig) {
    sluice_loop_stats stats = {.size = sizeof stats};
    assert_int_equal(sluice_loop_get_stats(rig->loop, &stats), 0);
    return stats.waiting;
}

void pool_close(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    feed_assert_returned(pool);
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.kernel, 0);
    assert_int_equal(stats.free, stats.total);
    sluice_pool_free(pool);
}

void loop_rig_close(loop_rig *rig) {
    sluice_loop_free(rig->loop);
    pool_close(rig->pool);
    hang_guard(0);
}

void turn(sluice_loop *loop) {
    assert_int_equal(sluice_loop_turn(loop, -1), 0);
}

void turn_through(sluice_loop *loop, unsigned turns) {
    for (unsigned i = 0; i < turns; i++)
        assert_int_equal(sluice_loop_turn(loop, 1), 0);
}

void turn_until(sluice_loop *loop, const bool *flag) {
    while (!*flag)
        turn(loop);
}

void turn_until_size(sluice_loop *loop, const size_t *size, size_t goal) {
    while (*size < goal)
        turn(loop);
}

void turn_until_count(sluice_loop *loop, const unsigned *count, unsigned goal) {
    while (*count < goal)
        turn(loop);
}

void turn_until_buffered(sluice_loop *loop, sluice_conn *conn, size_t n) {
    while (sluice_chain_length(sluice_conn_chain(conn)) < n)
        turn(loop);
}

/* Whether there will be more room by itself: of TCP, once what is under way is acknowledged, which
 * may be later. */
static bool makes_room(int fd) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_unacked > 0;
}

void turn_until_blocked(sluice_loop *loop, const sluice_conn *conn) {
    for (int turns = 0; turns < 5;
         turns = sluice_conn_is_sending(conn) && !makes_room(sluice_conn_fd(conn)) ? turns + 1 : 0)
        turn_through(loop, 1);
}

void sockets_hold_little(int sender, int peer) {
    /* What is received has room for a packet of the loopback device: with less, each has to wait
     * for a timer. */
    const int unsent = 8 << 10, unread = 64 << 10;
    assert_int_equal(setsockopt(sender, SOL_SOCKET, SO_SNDBUF, &unsent, sizeof unsent), 0);
    assert_int_equal(setsockopt(peer, SOL_SOCKET, SO_RCVBUF, &unread, sizeof unread), 0);
}

uint64_t clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void sockets_tcp_pair(int ret_fds[2]) {
    const int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    ret_fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(ret_fds[1] >= 0);
    assert_int_equal(connect(ret_fds[1], (struct sockaddr *)&address, length), 0);
    ret_fds[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(ret_fds[0] >= 0);
    assert_int_equal(close(listener), 0);
    /* Small writes travel one by one. */
    for (int i = 0; i < 2; i++)
        assert_int_equal(setsockopt(ret_fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
}

void sockets_unix_pair(int ret_fds[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret_fds), 0);
}

void sockets_reset_on_close(int fd) {
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
}

void sockets_set_blocking(int fd, bool blocking) {
    int flags = fcntl(fd, F_GETFL);
    assert_true(flags >= 0);
    assert_int_equal(fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK), 0);
}

bool sockets_allow(unsigned descriptors) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur >= descriptors)
        return true;
    if (limit.rlim_max < descriptors)
        return false;
    limit.rlim_cur = descriptors;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

void sockets_write(int fd, const void *bytes, size_t n) {
    const uint8_t *from = bytes;
    while (n > 0) {
        ssize_t sent = send(fd, from, n, MSG_NOSIGNAL);
        assert_true(sent > 0);
        from += sent;
        n -= (size_t)sent;
    }
}

void sockets_wait_delivered(int fd) {
    int under_way = 1;
    while (under_way > 0) {
        assert_int_equal(ioctl(fd, SIOCOUTQ, &under_way), 0);
        poll(NULL, 0, under_way > 0);
    }
}

static struct tcp_info tcp_info_of(int fd) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    return info;
}

void sockets_wait_received(int fd, uint64_t bytes) {
    while (tcp_info_of(fd).tcpi_bytes_received < bytes)
        poll(NULL, 0, 1);
}

void sockets_wait_queued(int fd, unsigned connections) {
    while (tcp_info_of(fd).tcpi_unacked < connections)
        poll(NULL, 0, 1);
}

void sockets_wait_readable(int fd) {
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    while (poll(&watched, 1, -1) != 1)
        assert_int_equal(errno, EINTR);
}

/* Eight bytes of a stream at once (the finalizer of splitmix64). */
static uint64_t pattern_word(uint32_t seed, uint64_t index) {
    uint64_t x = index * 0x9E3779B97F4A7C15u + ((uint64_t)seed << 32 | seed);
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static uint8_t pattern_byte(uint32_t seed, uint64_t place) {
    uint64_t word = pattern_word(seed, place / 8);
    uint8_t bytes[8];
    memcpy(bytes, &word, 8);
    return bytes[place % 8];
}

void pattern_fill(uint32_t seed, uint64_t place, void *bytes, size_t n) {
    uint8_t *to = bytes;
    for (; n > 0 && place % 8 != 0; n--)
        *to++ = pattern_byte(seed, place++);
    for (; n >= 8; n -= 8, to += 8, place += 8) {
        uint64_t word = pattern_word(seed, place / 8);
        memcpy(to, &word, 8);
    }
    for (; n > 0; n--)
        *to++ = pattern_byte(seed, place++);
}

bool pattern_matches(uint32_t seed, uint64_t place, const void *bytes, size_t n) {
    const uint8_t *from = bytes;
    uint8_t expected[512];
    while (n > 0) {
        size_t here = n < sizeof expected ? n : sizeof expected;
        pattern_fill(seed, place, expected, here);
        if (memcmp(from, expected, here) != 0)
            return false;
        from += here;
        place += here;
        n -= here;
    }
    return true;
}

void pattern_write(int fd, uint32_t seed, uint64_t place, size_t n) {
    uint8_t bytes[4096];
    while (n > 0) {
        size_t here = n < sizeof bytes ? n : sizeof bytes;
        pattern_fill(seed, place, bytes, here);
        sockets_write(fd, bytes, here);
        place += here;
        n -= here;
    }
}

bool pattern_slice_matches(uint32_t seed, uint64_t place, const sluice_slice *slice) {
    struct iovec pieces[64];
    size_t done = 0;
    while (done < sluice_slice_length(slice)) {
        size_t count = sluice_slice_iov(slice, done, pieces, 64);
        if (count == 0)
            return false;
        for (size_t i = 0; i < count && i < 64; i++) {
            if (!pattern_matches(seed, place + done, pieces[i].iov_base, pieces[i].iov_len))
                return false;
            done += pieces[i].iov_len;
        }
    }
    return done == sluice_slice_length(slice);
}

bool pattern_consume(sluice_chain *chain, size_t n, uint32_t seed, uint64_t *place) {
    sluice_slice slice;
    if (sluice_chain_take(chain, n, &slice) < 0)
        return false;
    bool matches = pattern_slice_matches(seed, *place, &slice);
    *place += n;
    sluice_slice_release(&slice);
    return matches;
}

uint32_t random_next(uint64_t *state) {
    return (uint32_t)(pattern_word(0x51CE, ++*state) >> 16);
}

uint32_t random_between(uint64_t *state, uint32_t least, uint32_t most) {
    return least + random_next(state) % (most - least + 1);
}

/* In the threads nothing asserts: cmocka's failures belong to the test's own thread. */
static void *write_pattern(void *user) {
    socket_writer *writer = user;
    uint64_t state = writer->seed, place = 0;
    uint8_t *bytes = malloc(writer->most);
    while (bytes && place < writer->total) {
        uint64_t n = random_between(&state, writer->least, writer->most);
        if (n > writer->total - place)
            n = writer->total - place;
        pattern_fill(writer->seed, place, bytes, n);
        ssize_t sent = send(writer->fd, bytes, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            break;
        place += (uint64_t)sent;
    }
    writer->broken = place < writer->total;
    free(bytes);
    shutdown(writer->fd, SHUT_WR);
    return NULL;
}

void socket_writer_start(socket_writer *writer, int fd, uint32_t seed, uint64_t total, uint32_t least, uint32_t most) {
    *writer = (socket_writer){.fd = fd, .seed = seed, .total = total, .least = least, .most = most};
    assert_int_equal(pthread_create(&writer->thread, NULL, write_pattern, writer), 0);
}

void socket_writer_join(socket_writer *writer) {
    assert_int_equal(pthread_join(writer->thread, NULL), 0);
}

static void *read_pattern(void *user) {
    socket_reader *reader = user;
    uint8_t *bytes = malloc(reader->most);
    reader->matches = bytes != NULL;
    while (reader->matches) {
        ssize_t got = recv(reader->fd, bytes, reader->most, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            reader->error = errno;
        if (got <= 0)
            break;
        for (size_t done = 0; done < (size_t)got && reader->matches;) {
            uint64_t place = reader->round ? reader->total % reader->round : reader->total;
            size_t here = (size_t)got - done;
            if (reader->round && here > reader->round - place)
                here = reader->round - place;
            reader->matches = pattern_matches(reader->seed, place, bytes + done, here);
            reader->total += here;
            done += here;
        }
    }
    free(bytes);
    return NULL;
}

void socket_reader_start(socket_reader *reader, int fd, uint32_t seed, uint32_t most, uint64_t round) {
    *reader = (socket_reader){.fd = fd, .seed = seed, .most = most, .round = round};
    assert_int_equal(pthread_create(&reader->thread, NULL, read_pattern, reader), 0);
}

void socket_reader_join(socket_reader *reader) {
    assert_int_equal(pthread_join(reader->thread, NULL), 0);
}
