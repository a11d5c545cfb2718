/*
 * TLS between a connection and its user: the user is called as by a plain connection, with what it
 * needs, for work that it has left, and once at the end; what it sends waits for a slow peer, and
 * for blocks; and the connection leaves its loop with nothing encrypted left behind.
 */
#include "shared/tls_link.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>

#include "support/tls/peer.h"
#include "support/tls/rig.h"

enum { GUARD = 60, SEED = 11, BLOCKS = 512, FAR = 4 << 20, NEVER = -1000 };

/* A user that reads and sends pattern bytes. */
typedef struct link_user {
    size_t need;       /* set in each call; 0: none is */
    size_t least;      /* does not read fewer */
    size_t most;       /* reads so many in a call, and asks for another; 0: all */
    uint64_t received; /* and consumed */
    uint64_t total;    /* that are to be sent */
    uint64_t sent;
    unsigned calls;    /* of on_data */
    unsigned nothings; /* of on_sent with 0 bytes */
    int end;           /* on_end's error, or NEVER */
    bool differs, ended, closed, closes_in_data, closes_in_sent, finishes;
    struct tls_link *link;
    sluice_conn *conn;
} link_user;

static void check_alive(const link_user *user) {
    assert_non_null(user->conn);
    assert_false(sluice_conn_is_closing(user->conn));
}

static void on_data(sluice_conn *conn, void *pointer) {
    link_user *user = pointer;
    check_alive(user);
    user->calls++;
    sluice_chain *chain = tls_link_chain(user->link);
    size_t length = sluice_chain_length(chain), n = user->most > 0 && user->most < length ? user->most : length;
    if (length < user->least && user->end == NEVER)
        n = 0;
    if (!pattern_consume(chain, n, SEED, &user->received))
        user->differs = true;
    if (user->most > 0 && sluice_chain_length(chain) > 0)
        tls_link_again(user->link);
    if (user->need > 0)
        tls_link_set_need(user->link, user->need);
    if (user->closes_in_data)
        sluice_conn_close(conn);
}

static void on_end(sluice_conn *conn, int error, void *pointer) {
    link_user *user = pointer;
    (void)conn;
    check_alive(user);
    assert_false(user->ended);
    user->ended = true;
    user->end = error;
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *pointer) {
    static uint8_t bytes[3][50000]; /* more than is encrypted at once */
    link_user *user = pointer;
    size_t count = 0;
    uint64_t place = user->sent;
    (void)conn;
    check_alive(user);
    for (; count < max && count < 3 && place < user->total; count++) {
        size_t n = user->total - place < sizeof *bytes ? (size_t)(user->total - place) : sizeof *bytes;
        pattern_fill(SEED, place, bytes[count], n);
        iov[count] = (struct iovec){bytes[count], n};
        place += n;
    }
    return count;
}

static void on_sent(sluice_conn *conn, size_t bytes, void *pointer) {
    link_user *user = pointer;
    check_alive(user);
    user->sent += bytes;
    user->nothings += bytes == 0;
    if (user->closes_in_sent)
        sluice_conn_close(conn);
    else if (user->finishes && user->sent == user->total && bytes > 0)
        assert_int_equal(tls_link_finish(user->link), 0);
}

static void on_closed(sluice_conn *conn, void *pointer) {
    link_user *user = pointer;
    (void)conn;
    user->closed = true;
    user->conn = NULL;
    user->link = NULL;
}

static const sluice_conn_events user_events = {.size = sizeof user_events,
                                               .on_data = on_data,
                                               .on_end = on_end,
                                               .on_gather = on_gather,
                                               .on_sent = on_sent,
                                               .on_closed = on_closed};

/* A link on a loop, and OpenSSL at its other end. */
typedef struct linked {
    loop_rig rig;
    tls_pki pki;
    tls_peer peer;
    link_user user;
} linked;

static void linked_begin(linked *l, bool is_small) {
    int fds[2];
    *l = (linked){.user.end = NEVER};
    if (is_small)
        loop_rig_open_small(&l->rig, 4096, BLOCKS, 1, GUARD);
    else
        loop_rig_open(&l->rig, NULL, NULL, GUARD);
    tls_pki_open(&l->pki, NULL, NULL);
    sockets_tcp_pair(fds);
    sockets_hold_little(fds[0], fds[1]);
    tls_peer_open(&l->peer, l->rig.loop, fds[1], false);
    assert_int_equal(tls_link_new(&user_events, &l->user, &l->user.link), 0);
    assert_int_equal(sluice_conn_new(l->rig.loop, fds[0], &tls_link_events, l->user.link, &l->user.conn), 0);
}

static void linked_open(linked *l, bool is_small) {
    linked_begin(l, is_small);
    tls_link_begin(l->user.link, l->user.conn, l->pki.server, NULL);
    assert_int_equal(tls_peer_handshake(&l->peer), 1);
    while (sluice_tls_get_state(tls_link_stage(l->user.link)) == SLUICE_TLS_HANDSHAKE)
        turn(l->rig.loop);
    turn_through(l->rig.loop, 3);
    assert_int_equal(l->user.calls, 0);
}

static void linked_close(linked *l) {
    if (l->user.conn)
        sluice_conn_close(l->user.conn);
    turn_until(l->rig.loop, &l->user.closed);
    close(l->peer.fd);
    tls_peer_close(&l->peer);
    tls_pki_close(&l->pki);
    loop_rig_close(&l->rig);
    assert_false(l->user.differs);
}

/* Pattern bytes of the peer's, in one record if they fit. */
static void say(linked *l, uint64_t place, size_t n) {
    static uint8_t bytes[1 << 20];
    assert_true(n <= sizeof bytes);
    pattern_fill(SEED, place, bytes, n);
    tls_peer_write(&l->peer, bytes, n);
    turn_through(l->rig.loop, 4);
}

static void hear(linked *l, uint64_t place, size_t n) {
    static uint8_t bytes[65536];
    for (size_t done = 0, part; done < n; done += part) {
        part = n - done < sizeof bytes ? n - done : sizeof bytes;
        tls_peer_read(&l->peer, bytes, part);
        assert_true(pattern_matches(SEED, place + done, bytes, part));
    }
}

/* close_notify, and the socket's end, or one of them. */
static void finish_peer(linked *l, bool notifies, bool ends) {
    if (notifies) {
        SSL_shutdown(l->peer.ssl);
        tls_peer_flush(&l->peer);
    }
    if (ends)
        shutdown(l->peer.fd, SHUT_WR);
}

static void send_all(linked *l, uint64_t total) {
    l->user.total = total;
    sluice_conn_want_send(l->user.conn);
}

/* The peer reads nothing, and the kernel takes no more. */
static void block(linked *l) {
    send_all(l, FAR);
    turn_until_blocked(l->rig.loop, l->user.conn);
    turn_through(l->rig.loop, 10);
    assert_true(l->user.sent < FAR);
    assert_true(tls_link_is_flushing(l->user.link));
}

static void no_call_for_less_than_is_needed(void **state) {
    (void)state;
    linked l;
    linked_open(&l, false);
    l.user.need = l.user.least = 1000;
    say(&l, 0, 1);
    assert_int_equal(l.user.calls, 1); /* without a need at first */
    say(&l, 1, 500);
    say(&l, 501, 498);
    assert_int_equal(l.user.calls, 1);
    say(&l, 999, 1);
    assert_int_equal(l.user.calls, 2);
    assert_int_equal(l.user.received, 1000);
    /* A need that falls below what is there is a reason for a call. */
    say(&l, 1000, 700);
    assert_int_equal(l.user.calls, 2);
    l.user.least = 1;
    tls_link_set_need(l.user.link, 600);
    turn_through(l.rig.loop, 3);
    assert_int_equal(l.user.calls, 3);
    assert_int_equal(l.user.received, 1700);
    /* At the end, what is there is all. */
    say(&l, 1700, 300);
    assert_int_equal(l.user.calls, 3);
    finish_peer(&l, true, true);
    turn_until(l.rig.loop, &l.user.ended);
    assert_int_equal(l.user.received, 2000);
    assert_int_equal(l.user.end, 0);
    linked_close(&l);
}

static void work_that_is_left_comes_before_the_end(void **state) {
    (void)state;
    linked l;
    linked_open(&l, false);
    l.user.most = 100;
    say(&l, 0, 5000);
    finish_peer(&l, true, true);
    turn_until(l.rig.loop, &l.user.ended);
    assert_int_equal(l.user.received, 5000);
    assert_int_equal(l.user.calls, 50);
    assert_int_equal(l.user.end, 0);
    linked_close(&l);
}

static void the_end_without_notice_is_a_loss(void **state) {
    (void)state;
    for (int ends = 0; ends < 2; ends++) {
        linked l;
        linked_open(&l, false);
        say(&l, 0, 5000);
        finish_peer(&l, !ends, ends);
        turn_until(l.rig.loop, &l.user.ended);
        assert_int_equal(l.user.received, 5000);
        assert_int_equal(l.user.end, ends ? -ECONNRESET : 0);
        assert_int_equal(tls_link_reason(l.user.link) != NULL, ends);
        assert_int_equal(tls_link_was_cut(l.user.link), ends);
        /* What comes behind is nobody's. */
        finish_peer(&l, ends, !ends);
        turn_through(l.rig.loop, 5);
        linked_close(&l);
    }
}

static void a_forged_record_is_the_end(void **state) {
    (void)state;
    linked l;
    linked_open(&l, false);
    uint8_t bytes[3000];
    pattern_fill(SEED, 0, bytes, sizeof bytes);
    assert_int_equal(SSL_write(l.peer.ssl, bytes, 2000), 2000);
    assert_int_equal(SSL_write(l.peer.ssl, bytes + 2000, 1000), 1000);
    uint8_t *records;
    long n = BIO_get_mem_data(l.peer.out, (char **)&records);
    records[n - 1] ^= 1;
    tls_peer_flush(&l.peer);
    turn_until(l.rig.loop, &l.user.ended);
    assert_int_equal(l.user.received, 2000);
    assert_int_equal(l.user.end, -EPROTO);
    assert_non_null(tls_link_reason(l.user.link));
    linked_close(&l);
}

static void a_peer_that_takes_nothing_costs_a_batch(void **state) {
    (void)state;
    linked l;
    linked_open(&l, false);
    block(&l);
    assert_true(tls_link_queued(l.user.link) <= TLS_LINK_BATCH + 1024);
    uint64_t sent = l.user.sent;
    sluice_conn_want_send(l.user.conn);
    turn_through(l.rig.loop, 10);
    assert_int_equal(l.user.sent, sent);
    hear(&l, 0, FAR);
    assert_int_equal(l.user.sent, FAR);
    linked_close(&l);
}

static void what_is_finished_is_sent_first(void **state) {
    (void)state;
    for (int ended = 0; ended < 2; ended++) {
        linked l;
        linked_open(&l, false);
        block(&l);
        /* All that is to be sent is encrypted now. */
        l.user.total = l.user.sent;
        if (ended)
            finish_peer(&l, true, true);
        turn_through(l.rig.loop, 5);
        assert_int_equal(l.user.ended, ended);
        assert_int_equal(tls_link_finish(l.user.link), 0);
        turn_through(l.rig.loop, 5);
        assert_int_equal(l.user.nothings, 0);
        hear(&l, 0, (size_t)l.user.total);
        assert_true(tls_peer_read_end(&l.peer));
        assert_int_equal(l.user.nothings, 1);
        assert_false(tls_link_is_flushing(l.user.link));
        linked_close(&l);
    }
}

static void finishing_in_on_sent(void **state) {
    (void)state;
    linked l;
    linked_open(&l, false);
    l.user.finishes = true;
    send_all(&l, 100000);
    hear(&l, 0, 100000);
    assert_true(tls_peer_read_end(&l.peer));
    assert_int_equal(l.user.nothings, 1);
    /* The other direction goes on. */
    say(&l, 0, 100);
    assert_int_equal(l.user.received, 100);
    linked_close(&l);
}

static void nothing_is_said_behind_a_close(void **state) {
    (void)state;
    for (int in_sent = 0; in_sent < 2; in_sent++) {
        linked l;
        linked_open(&l, false);
        l.user.closes_in_data = !in_sent;
        l.user.closes_in_sent = in_sent;
        l.user.most = 10;
        l.user.total = in_sent ? FAR : 0;
        sluice_conn_want_send(l.user.conn);
        uint8_t bytes[1000];
        pattern_fill(SEED, 0, bytes, sizeof bytes);
        assert_int_equal(SSL_write(l.peer.ssl, bytes, sizeof bytes), sizeof bytes);
        SSL_shutdown(l.peer.ssl);
        tls_peer_flush(&l.peer);
        turn_until(l.rig.loop, &l.user.closed);
        assert_true(l.user.calls <= 1);
        assert_int_equal(l.user.end, NEVER);
        linked_close(&l);
    }
}

/* A connection that is closed says so; behind what the peer does not read it cannot. */
static void a_close_is_notified(void **state) {
    (void)state;
    for (int reads = 1; reads >= 0; reads--) {
        linked l;
        linked_open(&l, false);
        if (!reads)
            block(&l);
        tls_link_close(l.user.link);
        turn_until(l.rig.loop, &l.user.closed);
        assert_int_equal(tls_peer_read_end(&l.peer), reads);
        linked_close(&l);
    }
}

/* What comes is not looked at; what is sent still arrives. */
static void input_is_dropped(void **state) {
    (void)state;
    linked l;
    linked_open(&l, false);
    l.user.least = 2000;
    say(&l, 0, 1000);
    /* A part of a record, which the rest does not fit. */
    uint8_t bytes[3000] = {0};
    assert_int_equal(SSL_write(l.peer.ssl, bytes, sizeof bytes), sizeof bytes);
    l.peer.piece = 500;
    uint8_t part[700];
    assert_int_equal(BIO_read(l.peer.out, part, sizeof part), sizeof part);
    sockets_write(l.peer.fd, part, sizeof part);
    turn_through(l.rig.loop, 3);
    unsigned calls = l.user.calls;
    tls_link_drop(l.user.link);
    tls_peer_flush(&l.peer);
    send_all(&l, 100);
    hear(&l, 0, 100);
    assert_int_equal(l.user.calls, calls);
    assert_int_equal(sluice_chain_length(sluice_conn_chain(l.user.conn)), 0);
    assert_int_equal(tls_link_finish(l.user.link), 0);
    assert_true(tls_peer_read_end(&l.peer));
    finish_peer(&l, true, true);
    turn_until(l.rig.loop, &l.user.ended);
    assert_int_equal(l.user.end, 0);
    linked_close(&l);
}

static void no_stage_is_an_end(void **state) {
    (void)state;
    linked l;
    linked_begin(&l, false);
    tls_link_begin(l.user.link, l.user.conn, l.pki.server, "a name, which is for clients");
    assert_int_equal(tls_link_finish(l.user.link), -EPIPE);
    sluice_conn_want_send(l.user.conn);
    turn_until(l.rig.loop, &l.user.ended);
    assert_int_equal(l.user.end, -EINVAL);
    assert_int_equal(tls_link_footprint(l.user.link), 0);
    assert_int_equal(tls_link_queued(l.user.link), 0);
    linked_close(&l);
}

/* Takes all blocks of a pool that are free. */
typedef struct hoard {
    sluice_block *blocks[BLOCKS];
    unsigned count;
} hoard;

static void hoard_all(hoard *h, sluice_pool *pool) {
    while (h->count < BLOCKS && sluice_block_get(pool, &h->blocks[h->count]) == 0)
        h->count++;
}

static void hoard_release(hoard *h) {
    while (h->count > 0)
        sluice_block_release(h->blocks[--h->count]);
}

static void sending_waits_for_blocks(void **state) {
    (void)state;
    static hoard taken;
    linked l;
    linked_open(&l, true);
    hoard_all(&taken, l.rig.pool);
    send_all(&l, 100000);
    for (int i = 0; i < 3; i++)
        turn(l.rig.loop); /* of the timer */
    assert_int_equal(l.user.sent, 0);
    assert_true(l.user.nothings > 0);
    hoard_release(&taken);
    hear(&l, 0, 100000);
    linked_close(&l);
}

/* What is sent behind that, and the end, wait for blocks as well. */
static void a_last_answer_waits_for_blocks(void **state) {
    (void)state;
    static hoard taken;
    linked l;
    linked_open(&l, true);
    say(&l, 0, 1000);
    hoard_all(&taken, l.rig.pool);
    tls_link_drop(l.user.link);
    l.user.finishes = true;
    send_all(&l, 5000);
    for (int i = 0; i < 3; i++)
        turn(l.rig.loop);
    assert_int_equal(l.user.sent, 0);
    hoard_release(&taken);
    hear(&l, 0, 5000);
    assert_true(tls_peer_read_end(&l.peer));
    linked_close(&l);
}

/* All blocks are taken whenever the link is about to decrypt. */
static struct {
    hoard taken;
    sluice_pool *pool; /* NULL: not any more */
} thief;

static void steal_first(sluice_conn *conn, void *user) {
    if (thief.pool)
        hoard_all(&thief.taken, thief.pool);
    tls_link_events.on_data(conn, user);
}

/* The peer has sent all and ended when there is no block: nothing is lost, and it is no loss. */
static void the_end_waits_for_blocks(void **state) {
    (void)state;
    enum { LENGTH = 300, COUNT = 10 };
    uint8_t bytes[LENGTH * COUNT];
    for (int notifies = 1; notifies >= 0; notifies--) {
        linked l;
        linked_open(&l, true);
        sluice_conn_events events = tls_link_events;
        events.on_data = steal_first;
        assert_int_equal(sluice_conn_set_events(l.user.conn, &events, l.user.link), 0);
        thief.pool = l.rig.pool;
        pattern_fill(SEED, 0, bytes, sizeof bytes);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(SSL_write(l.peer.ssl, bytes + i * LENGTH, LENGTH), LENGTH);
        if (notifies)
            SSL_shutdown(l.peer.ssl);
        char *records;
        long n = BIO_get_mem_data(l.peer.out, &records);
        sockets_write(l.peer.fd, records, (size_t)n);
        shutdown(l.peer.fd, SHUT_WR);
        sluice_tls_stats stats = {.size = sizeof stats};
        for (int i = 0; i < 5 || stats.starved < 5; i++) {
            turn(l.rig.loop);
            sluice_tls_get_stats(tls_link_stage(l.user.link), &stats);
        }
        assert_int_equal(l.user.end, NEVER);
        assert_int_equal(l.user.received, 0);
        thief.pool = NULL;
        hoard_release(&thief.taken);
        turn_until(l.rig.loop, &l.user.ended);
        assert_int_equal(l.user.received, sizeof bytes);
        assert_int_equal(l.user.end, notifies ? 0 : -ECONNRESET);
        linked_close(&l);
    }
}

/* In a handshake both are failures, and close_notify is no cut, also with the end behind it. */
static void a_notice_in_the_handshake_is_no_cut(void **state) {
    static const uint8_t notice[] = {21, 3, 3, 0, 2, 1, 0};
    static const struct {
        bool begins, notifies, ends;
    } cases[] = {{false, false, true}, {true, false, true}, {true, true, false}, {true, true, true}};
    (void)state;
    for (int i = 0; i < 4; i++) {
        linked l;
        linked_begin(&l, false);
        tls_link_begin(l.user.link, l.user.conn, l.pki.server, NULL);
        if (cases[i].begins) {
            (void)SSL_do_handshake(l.peer.ssl); /* the first message */
            tls_peer_flush(&l.peer);
        }
        if (cases[i].notifies)
            sockets_write(l.peer.fd, notice, sizeof notice);
        if (cases[i].ends)
            shutdown(l.peer.fd, SHUT_WR);
        turn_until(l.rig.loop, &l.user.ended);
        assert_int_equal(l.user.end, -ECONNRESET);
        assert_int_equal(tls_link_was_cut(l.user.link), !cases[i].notifies);
        assert_false(tls_link_was_open(l.user.link));
        linked_close(&l);
    }
}

/* A move. */

typedef struct departure {
    bool left;
    sluice_conn_handover handover;
    struct tls_bytes bytes;
} departure;

static void detached(const sluice_conn_handover *handover, void *user) {
    departure *d = user;
    d->handover = *handover;
    d->left = true;
}

static void arrive(linked *l, departure *d, sluice_loop *loop) {
    sluice_tls *tls = tls_link_take(l->user.link, &d->bytes);
    l->peer.loop = loop;
    assert_int_equal(sluice_conn_adopt(loop, &d->handover, &tls_link_events, l->user.link, &l->user.conn), 0);
    tls_link_attach(l->user.link, l->user.conn, tls);
}

/* On another loop; back on the first one, the rig is closed as usual. */
static void it_leaves_when_all_is_sent(void **state) {
    (void)state;
    for (int how = 0; how < 3; how++) { /* the peer goes on, ends meanwhile, ends without notice */
        linked l;
        loop_rig other;
        departure d = {0};
        linked_open(&l, false);
        loop_rig_open(&other, NULL, NULL, GUARD);
        say(&l, 0, 100);
        l.user.need = 500; /* which is of the time before */
        say(&l, 100, 1);
        block(&l);
        uint64_t sent = l.user.sent;
        unsigned calls = l.user.calls;
        assert_int_equal(tls_link_leave(l.user.link, detached, &d), 0);
        say(&l, 101, 300);
        if (how > 0)
            finish_peer(&l, how == 1, true);
        turn_through(l.rig.loop, 20);
        assert_false(d.left);
        assert_int_equal(l.user.calls, calls);
        assert_int_equal(l.user.end, NEVER);
        hear(&l, 0, (size_t)sent);
        turn_until(l.rig.loop, &d.left);
        assert_int_equal(l.user.sent, sent);
        l.user.need = 0;
        loop_rig first = l.rig;
        l.rig = other;
        arrive(&l, &d, l.rig.loop);
        assert_int_equal(d.bytes.encrypted, sent);
        while (l.user.received < 401)
            turn(l.rig.loop);
        for (int times = 0; times < 2; times++) { /* what is counted once is not counted again */
            tls_link_count(l.user.link, &d.bytes);
            assert_int_equal(d.bytes.decrypted, 401);
        }
        if (how > 0) {
            turn_until(l.rig.loop, &l.user.ended);
            assert_int_equal(l.user.end, how == 1 ? 0 : -ECONNRESET);
        } else {
            say(&l, 401, 10);
            assert_int_equal(l.user.received, 411);
        }
        if (how < 2) {
            sluice_conn_want_send(l.user.conn);
            hear(&l, sent, (size_t)(FAR - sent));
        }
        linked_close(&l);
        loop_rig_close(&first);
    }
}

static void what_waits_without_end_is_not_read(void **state) {
    (void)state;
    static uint8_t bytes[16384];
    linked l;
    departure d = {0};
    linked_open(&l, false);
    block(&l);
    assert_int_equal(tls_link_leave(l.user.link, detached, &d), 0);
    for (int i = 0; i < 400; i++) {
        ssize_t sent = send(l.peer.fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)sent;
        turn_through(l.rig.loop, 2);
    }
    assert_true(sluice_chain_length(sluice_conn_chain(l.user.conn)) < 1 << 20);
    /* A failure closes it: there is nobody to be told. */
    sockets_reset_on_close(l.peer.fd);
    close(l.peer.fd);
    l.peer.fd = dup(STDERR_FILENO);
    sluice_conn_close(l.user.conn);
    turn_until(l.rig.loop, &l.user.closed);
    assert_false(d.left);
    linked_close(&l);
}

static void a_reset_of_one_that_leaves_closes_it(void **state) {
    (void)state;
    linked l;
    departure d = {0};
    linked_open(&l, false);
    block(&l);
    assert_int_equal(tls_link_leave(l.user.link, detached, &d), 0);
    sockets_reset_on_close(l.peer.fd);
    close(l.peer.fd);
    l.peer.fd = dup(STDERR_FILENO);
    turn_until(l.rig.loop, &l.user.closed);
    assert_false(d.left);
    assert_int_equal(l.user.end, NEVER);
    linked_close(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_call_for_less_than_is_needed),
        cmocka_unit_test(work_that_is_left_comes_before_the_end),
        cmocka_unit_test(the_end_without_notice_is_a_loss),
        cmocka_unit_test(a_notice_in_the_handshake_is_no_cut),
        cmocka_unit_test(a_forged_record_is_the_end),
        cmocka_unit_test(a_peer_that_takes_nothing_costs_a_batch),
        cmocka_unit_test(what_is_finished_is_sent_first),
        cmocka_unit_test(finishing_in_on_sent),
        cmocka_unit_test(nothing_is_said_behind_a_close),
        cmocka_unit_test(a_close_is_notified),
        cmocka_unit_test(input_is_dropped),
        cmocka_unit_test(no_stage_is_an_end),
        cmocka_unit_test(sending_waits_for_blocks),
        cmocka_unit_test(a_last_answer_waits_for_blocks),
        cmocka_unit_test(the_end_waits_for_blocks),
        cmocka_unit_test(it_leaves_when_all_is_sent),
        cmocka_unit_test(what_waits_without_end_is_not_read),
        cmocka_unit_test(a_reset_of_one_that_leaves_closes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
