#include "sim/user.h"

#include <errno.h>
#include <stdlib.h>

#include <sluice/conn.h>
#include <sluice/slice.h>

#include "sim/invariants.h"
#include "sim/pattern.h"
#include "sim/world.h"

enum { SLICES = 8, PIECE = 16384, TO_PEER = 1 << 16 };

struct user {
    sluice_loop *loop;
    sluice_conn *conn;            /* NULL before, between loops, and after */
    struct file *file;            /* as the peer has it */
    uint32_t stream;              /* of bytes to the program; the other way it is one more */
    uint64_t total, sent_by_peer; /* bytes to the program */
    uint64_t place;               /* of the next byte that the program consumes */
    bool peer_ended;              /* finished or reset */
    bool resets;
    /* for the program to have all the bytes before it sends more, or finishes: nothing else brings
     * them */
    bool waits;

    uint8_t *memory; /* a receive into it is under way */
    size_t memory_size;
    sluice_slice held[SLICES];
    uint64_t held_place[SLICES];
    sluice_timer *timer;
    bool settled, was_told_end, failed, closing, closed, leaving;

    uint8_t *answer; /* what is sent to the peer: a window of the pattern */
    uint64_t answer_total, answered, answer_seen;
    uint32_t gathered;
    uint64_t deaf_to; /* the peer takes nothing before */
};

static void act(struct user *user);

/* The peer */

static void hear(void *at) {
    const struct user *user = at;
    peer_wake(user->file);
}

static void peer_work(void *at) {
    static uint8_t bytes[PIECE];
    struct user *user = at;
    size_t n = peer_receive(user->file, bytes, world_now() < user->deaf_to ? 0 : world_between(1, PIECE));
    bool works = n > 0;
    WORLD_CHECK(pattern_check(user->stream + 1, user->answer_seen, bytes, n) == n,
                "peer %u was sent a wrong byte behind %llu", user->stream, (unsigned long long)user->answer_seen);
    user->answer_seen += n;
    uint64_t left = user->total - user->sent_by_peer;
    bool goes_on = !user->waits || user->place == user->sent_by_peer;
    if (goes_on && left > 0) {
        n = world_between(1, world_one_in(3) ? 10 : PIECE);
        n = n < left ? n : left;
        pattern_write(user->stream, user->sent_by_peer, bytes, n);
        n = peer_send(user->file, bytes, n);
        user->sent_by_peer += n;
        works |= n > 0;
    } else if (goes_on && !user->peer_ended) {
        user->peer_ended = true;
        if (user->resets)
            peer_reset(user->file);
        else
            peer_finish(user->file);
    }
    if (user->file->dead || peer_is_ended(user->file))
        return;
    uint32_t most = world_one_in(4) ? 20000 : 2000;
    if (works)
        world_after(world_between(1, most), peer_work, user);
    else
        peer_watch(user->file, most, peer_work, user);
}

struct user *user_new(sluice_loop *loop) {
    struct file *file = peer_connect(USERS_PORT);
    if (!file)
        return NULL;
    struct user *user = world_allocate(sizeof *user);
    user->loop = loop;
    user->file = file;
    user->stream = 2 * file->id;
    user->total = world_between(0, world_one_in(3) ? 400000 : 20000);
    user->answer_total = world_one_in(2) ? 0 : world_between(1, 100000);
    user->resets = world_one_in(5);
    user->waits = world_one_in(3);
    user->deaf_to = world_now() + (world_one_in(2) ? world_random(2000000) : 0);
    user->answer = world_allocate(TO_PEER);
    pattern_write(user->stream + 1, 0, user->answer, TO_PEER);
    world_after(world_random(10000), peer_work, user);
    world_after(user->deaf_to - world_now(), hear, user);
    return user;
}

uint16_t user_port(const struct user *user) {
    return user->file->peer_port;
}

/* What the program consumes */

static void check_bytes(const struct user *user, uint64_t place, const uint8_t *bytes, size_t n) {
    size_t same = pattern_check(user->stream, place, bytes, n);
    WORLD_CHECK(same == n, "user %u: byte %llu is wrong", user->stream, (unsigned long long)(place + same));
}

static void check_slice(const struct user *user, const sluice_slice *slice, uint64_t place) {
    struct iovec pieces[64];
    size_t length = sluice_slice_length(slice);
    for (size_t done = 0; done < length;) {
        size_t count = sluice_slice_iov(slice, done, pieces, 64);
        for (size_t i = 0; i < count && i < 64; i++) {
            check_bytes(user, place + done, pieces[i].iov_base, pieces[i].iov_len);
            done += pieces[i].iov_len;
        }
    }
}

static void release(struct user *user, size_t at) {
    check_slice(user, &user->held[at], user->held_place[at]);
    sluice_slice_release(&user->held[at]);
}

static void advance(struct user *user, size_t n) {
    user->place += n;
    if (user->place == user->sent_by_peer)
        peer_wake(user->file);
}

/* Takes some; keeps them or not. */
static void consume(struct user *user, size_t n) {
    sluice_chain *chain = sluice_conn_chain(user->conn);
    size_t at = world_random(SLICES);
    sluice_slice slice;
    WORLD_CHECK(sluice_chain_consumed(chain) == user->place, "user %u: consumed %llu, but %llu are counted",
                user->stream, (unsigned long long)user->place, (unsigned long long)sluice_chain_consumed(chain));
    if (n == 0 || sluice_chain_take(chain, n, &slice) < 0)
        return;
    check_slice(user, &slice, user->place);
    release(user, at);
    user->held[at] = slice;
    user->held_place[at] = user->place;
    advance(user, n);
    if (user->settled || world_one_in(2))
        release(user, at);
}

static void received_into(sluice_conn *conn, int error, size_t done, void *at) {
    struct user *user = at;
    (void)conn;
    world_trace("received into", user->stream, error, (int64_t)done);
    WORLD_CHECK(done <= user->memory_size && (error || done == user->memory_size),
                "user %u: %zu of %zu bytes received into memory, with %d", user->stream, done, user->memory_size,
                error);
    check_bytes(user, user->place, user->memory, done);
    advance(user, done);
    /* Nobody may write to it any more. */
    world_free(user->memory);
    user->memory = NULL;
    if (!user->closing)
        act(user);
}

static void receive_into(struct user *user) {
    user->memory_size = world_between(1, world_one_in(3) ? 100000 : 5000);
    user->memory = world_allocate(user->memory_size);
    int result = sluice_conn_receive_into(user->conn, user->memory, user->memory_size, received_into, user);
    WORLD_CHECK(result == 0 || result == 1, "user %u: receive_into() says %d", user->stream, result);
    if (result == 0)
        return;
    check_bytes(user, user->place, user->memory, user->memory_size);
    advance(user, user->memory_size);
    world_free(user->memory);
    user->memory = NULL;
}

/* Chance */

static const sluice_conn_events events;

static void detached(const sluice_conn_handover *handover, void *at) {
    struct user *user = at;
    sluice_conn_handover taken = *handover;
    user->conn = NULL;
    user->leaving = false;
    world_trace("detached", user->stream, handover->error, handover->ended);
    if (world_one_in(8) || sluice_conn_adopt(user->loop, &taken, &events, user, &user->conn) < 0) {
        sluice_conn_handover_discard(&taken);
        user->closing = user->closed = true;
        return;
    }
    sluice_conn_want_send(user->conn);
}

static void change(struct user *user) {
    static const uint32_t sizes[] = {0, 512, 4096, 16384};
    switch (world_random(9)) {
    case 0:
        sluice_conn_set_need(user->conn, world_random(world_one_in(2) ? 3000 : 20));
        break;
    case 1:
        sluice_conn_set_read_ahead(user->conn, world_one_in(2));
        break;
    case 2:
        (void)sluice_conn_set_block_size(user->conn, sizes[world_random(4)]);
        break;
    case 3:
        sluice_conn_pause(user->conn);
        break;
    case 4:
        sluice_conn_resume(user->conn);
        break;
    case 5:
        (void)sluice_conn_set_timeout(user->conn, world_one_in(2) ? 0 : world_between(1, 50));
        break;
    case 6:
        if (!user->memory && world_one_in(4) && sluice_conn_detach(user->conn, detached, user) == 0)
            user->leaving = true;
        break;
    case 7:
        if (world_one_in(30))
            user_close(user);
        break;
    case 8:
        (void)sluice_conn_set_receive_interval(user->conn, world_one_in(2) ? 0 : world_between(1, 100));
        break;
    }
}

/* What it does with what it has. */
static void act(struct user *user) {
    if (!user->conn || user->closing || user->leaving)
        return;
    if (user->memory) {
        if (world_one_in(6))
            sluice_conn_receive_cancel(user->conn);
        return;
    }
    size_t length = sluice_chain_length(sluice_conn_chain(user->conn));
    if (user->settled) {
        consume(user, length);
        return;
    }
    consume(user, world_one_in(3) ? length : length > 0 ? world_random((uint32_t)length + 1) : 0);
    user_check(user);
    if (world_one_in(6))
        change(user);
    else if (world_one_in(6) && !user->failed)
        receive_into(user);
}

static void on_time(sluice_timer *timer, void *at) {
    struct user *user = at;
    act(user);
    if (!user->settled && !user->closed)
        sluice_timer_start(timer, world_between(1, 30));
}

static void on_data(sluice_conn *conn, void *at) {
    (void)conn;
    act(at);
}

static void on_end(sluice_conn *conn, int error, void *at) {
    struct user *user = at;
    world_trace("end", user->stream, error, 0);
    if (error == -ETIMEDOUT) {
        if (user->settled || world_one_in(2))
            sluice_conn_resume(conn);
        return;
    }
    user->was_told_end = true;
    user->failed |= error != 0;
    if (error)
        user_close(user);
    else
        act(user);
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *at) {
    struct user *user = at;
    uint64_t left = user->answer_total - user->answered;
    size_t count = 0, done = 0;
    (void)conn;
    /* The window of the pattern is not as long as that: one byte at a place of it is the same at
     * another. */
    left = user->answered + left > TO_PEER ? (user->answered < TO_PEER ? TO_PEER - user->answered : 0) : left;
    while (count < max && count < 5 && done < left) {
        size_t n = world_between(1, 4000);
        n = n < left - done ? n : left - done;
        iov[count++] = (struct iovec){user->answer + user->answered + done, n};
        done += n;
    }
    user->gathered = (uint32_t)done;
    return count;
}

static void on_sent(sluice_conn *conn, size_t bytes, void *at) {
    struct user *user = at;
    (void)conn;
    WORLD_CHECK(bytes <= user->gathered, "user %u: %zu bytes sent of %u", user->stream, bytes, user->gathered);
    user->answered += bytes;
}

static void on_closed(sluice_conn *conn, void *at) {
    struct user *user = at;
    (void)conn;
    WORLD_CHECK(!user->memory, "user %u: closed, and its memory was not given back", user->stream);
    WORLD_CHECK(!user->closed, "user %u: closed twice", user->stream);
    user->conn = NULL;
    user->closed = true;
}

static const sluice_conn_events events = {.size = sizeof events,
                                          .on_data = on_data,
                                          .on_end = on_end,
                                          .on_gather = on_gather,
                                          .on_sent = on_sent,
                                          .on_closed = on_closed};

void user_accepted(struct user *user, int fd) {
    if (sluice_timer_new(user->loop, on_time, user, &user->timer) < 0 ||
        sluice_conn_new(user->loop, fd, &events, user, &user->conn) < 0) {
        user->closing = user->closed = true;
        kernel_close(fd);
        return;
    }
    sluice_timer_start(user->timer, world_between(1, 30));
    sluice_conn_want_send(user->conn);
}

void user_refused(struct user *user) {
    user->closing = user->closed = true;
}

void user_settle(struct user *user) {
    user->settled = true;
    /* Also of those that have closed: what is kept is missing where others wait. */
    for (size_t i = 0; i < SLICES; i++)
        release(user, i);
    if (!user->conn || user->closing)
        return;
    sluice_conn_receive_cancel(user->conn);
    sluice_conn_set_need(user->conn, 0);
    (void)sluice_conn_set_timeout(user->conn, 0);
    sluice_conn_resume(user->conn);
    sluice_conn_want_send(user->conn);
    act(user);
}

void user_judge(const struct user *user) {
    if (user->closing || user->closed || user->resets)
        return;
    WORLD_CHECK(user->conn, "user %u was never accepted", user->stream);
    WORLD_CHECK(!user->memory && !user->leaving, "user %u still waits for what it has asked for", user->stream);
    WORLD_CHECK(user->sent_by_peer == user->total && user->place == user->total,
                "user %u: of %llu bytes %llu were sent and %llu came", user->stream, (unsigned long long)user->total,
                (unsigned long long)user->sent_by_peer, (unsigned long long)user->place);
    WORLD_CHECK(user->was_told_end, "user %u was not told of the end", user->stream);
}

void user_close(struct user *user) {
    if (!user->conn || user->closing)
        return;
    user->closing = true;
    sluice_conn_close(user->conn);
}

void user_check(const struct user *user) {
    if (!user->conn)
        return;
    check_chain(sluice_conn_chain(user->conn));
    check_receive(user->loop, user->conn);
}

void user_end(struct user *user) {
    for (size_t i = 0; i < SLICES; i++)
        release(user, i);
    sluice_timer_free(user->timer);
    user->timer = NULL;
    user_close(user);
}

void user_free(struct user *user) {
    world_free(user->memory);
    world_free(user->answer);
    kernel_file_unref(user->file);
    world_free(user);
}
