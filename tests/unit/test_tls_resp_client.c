/*
 * The RESP client behind a stage, TLS, with OpenSSL as the server: replies at any cut, values of
 * many blocks in both directions, the end at any point of the handshake and of a reply, and servers
 * that are not the one that is wanted.
 */
#include <sluice/resp_client.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/tls.h>

#include "support/tls/peer.h"
#include "support/tls/rig.h"

enum { GUARD = 100, SEED = 5, BLOCK = 4096, BLOCKS = 256, LARGE = 3 << 20, MOST = 8, TEXT = 64, PIECE = 16000 };

typedef struct entry {
    int error;
    uint64_t length;
    char text[TEXT];
} entry;

typedef struct session {
    loop_rig rig;
    tls_pki pki;
    tls_peer peer;
    sluice_resp_client *client;
    entry log[MOST];
    unsigned entries, closed;
    int error;              /* of on_closed */
    sluice_tls_detail last; /* of the stage at that time */
    bool closes;            /* in the first reply's callback */
} session;

static entry *next_entry(session *s, int error) {
    assert_true(s->entries < MOST);
    assert_int_equal(s->closed, 0);
    entry *e = &s->log[s->entries++];
    *e = (entry){.error = error};
    if (s->closes)
        sluice_resp_client_close(s->client);
    return e;
}

static void replied(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    entry *e = next_entry(user, error);
    (void)client;
    assert_int_equal(reply == NULL, error != 0);
    if (reply)
        e->text[sluice_slice_copy(&reply->value.text, 0, e->text, sizeof e->text - 1)] = '\0';
}

static void got(sluice_resp_client *client, int error, uint64_t length, sluice_resp_reply *reply, void *user) {
    (void)client;
    assert_null(reply);
    next_entry(user, error)->length = length;
}

static void on_closed(sluice_resp_client *client, int error, void *user) {
    session *s = user;
    const sluice_tls *tls = sluice_resp_client_stage(client);
    assert_non_null(tls);
    s->last = sluice_tls_get_detail(tls);
    s->error = error;
    s->closed++;
}

static const sluice_resp_client_events events = {.size = sizeof events, .on_closed = on_closed};

static void on_plain_closed(sluice_resp_client *client, int error, void *user) {
    session *s = user;
    (void)client;
    s->error = error;
    s->closed++;
}

static const sluice_resp_client_events plain_events = {.size = sizeof plain_events, .on_closed = on_plain_closed};

/* ---- A session ---- */

static void set_up(session *s) {
    *s = (session){.peer.fd = -1};
    loop_rig_open_small(&s->rig, BLOCK, BLOCKS, 1, GUARD);
    tls_pki_open(&s->pki, NULL, NULL);
}

static void tear_down(session *s) {
    tls_pki_close(&s->pki);
    loop_rig_close(&s->rig);
}

/* The server has a certificate for localhost. */
static void open_client_for(session *s, sluice_tls_context *context, const char *name) {
    const sluice_tls_stage_options tls = {.size = sizeof tls, .context = context, .name = name};
    const sluice_resp_client_options options = {
        .size = sizeof options, .stage = sluice_tls_conn_stage(), .stage_options = &tls};
    int fds[2];
    s->entries = s->closed = 0;
    s->closes = false;
    sockets_tcp_pair(fds);
    sockets_hold_little(fds[0], fds[1]);
    tls_peer_open(&s->peer, s->rig.loop, fds[1], true);
    assert_int_equal(SSL_use_certificate(s->peer.ssl, s->pki.leaf.x509), 1);
    assert_int_equal(SSL_use_PrivateKey(s->peer.ssl, s->pki.leaf.key), 1);
    assert_int_equal(sluice_resp_client_new(s->rig.loop, fds[0], &options, &events, s, &s->client), 0);
    assert_non_null(sluice_resp_client_stage(s->client));
}

static void open_client(session *s) {
    open_client_for(s, s->pki.client, "localhost");
}

static void close_client(session *s) {
    sluice_resp_client_close(s->client);
    turn_until_count(s->rig.loop, &s->closed, 1);
    assert_null(sluice_resp_client_stage(s->client));
    sluice_resp_client_free(s->client);
    if (s->peer.fd >= 0)
        close(s->peer.fd);
    tls_peer_close(&s->peer);
    assert_int_equal(s->closed, 1);
}

static int give(session *s, const char *word) {
    const sluice_resp_client_arg arg = {.data = word, .length = strlen(word)};
    return sluice_resp_client_command(s->client, &arg, 1, replied, s);
}

static const sluice_resp_arg key = {"key", 3};

static void hear(session *s, const char *expected) {
    char bytes[256];
    tls_peer_read(&s->peer, bytes, strlen(expected));
    assert_memory_equal(bytes, expected, strlen(expected));
}

static void say(session *s, const char *text) {
    tls_peer_write(&s->peer, text, strlen(text));
}

static void turn_until_told(session *s, unsigned entries) {
    turn_until_count(s->rig.loop, &s->entries, entries);
    assert_int_equal(s->entries, entries);
}

static void assert_told(const session *s, unsigned index, int error, const char *text) {
    assert_true(index < s->entries);
    assert_int_equal(s->log[index].error, error);
    assert_string_equal(s->log[index].text, text);
}

/* A value of pattern bytes, behind its header. */
static void say_value(session *s, size_t size) {
    char header[32];
    uint8_t bytes[PIECE];
    snprintf(header, sizeof header, "$%zu\r\n", size);
    say(s, header);
    for (size_t done = 0; done < size;) {
        size_t n = size - done < sizeof bytes ? size - done : sizeof bytes;
        pattern_fill(SEED, done, bytes, n);
        tls_peer_write(&s->peer, bytes, n);
        done += n;
    }
    say(s, "\r\n");
}

/* ---- The tests ---- */

static void commands_wait_for_the_handshake(void **state) {
    (void)state;
    session s;
    set_up(&s);
    for (size_t piece = 0; piece < 2; piece++) { /* as it comes; a byte at a time */
        uint8_t memory[100];
        open_client(&s);
        s.peer.piece = piece;
        assert_int_equal(give(&s, "PING"), 0);
        assert_int_equal(sluice_resp_client_get_into(s.client, &key, memory, sizeof memory, got, &s), 0);
        assert_int_equal(give(&s, "ECHO"), 0);
        assert_int_equal(tls_peer_handshake(&s.peer), 1);
        hear(&s, "*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*1\r\n$4\r\nECHO\r\n");
        say(&s, "+PONG\r\n");
        say_value(&s, sizeof memory);
        say(&s, "$3\r\nabc\r\n");
        turn_until_told(&s, 3);
        assert_told(&s, 0, 0, "PONG");
        assert_told(&s, 1, 0, "");
        assert_int_equal(s.log[1].length, sizeof memory);
        assert_true(pattern_matches(SEED, 0, memory, sizeof memory));
        assert_told(&s, 2, 0, "abc");
        close_client(&s);
        assert_int_equal(s.error, 0);
    }
    tear_down(&s);
}

/* The closing of a client is announced to its server. */
static void a_close_is_notified(void **state) {
    (void)state;
    session s;
    set_up(&s);
    open_client(&s);
    assert_int_equal(tls_peer_handshake(&s.peer), 1);
    turn_through(s.rig.loop, 3);
    sluice_resp_client_close(s.client);
    assert_int_equal(give(&s, "PING"), -EPIPE);
    assert_true(tls_peer_read_end(&s.peer));
    close_client(&s);
    tear_down(&s);
}

static void read_value(session *s, size_t size) {
    uint8_t bytes[PIECE];
    for (size_t done = 0; done < size;) {
        size_t n = size - done < sizeof bytes ? size - done : sizeof bytes;
        tls_peer_read(&s->peer, bytes, n);
        assert_true(pattern_matches(SEED, done, bytes, n));
        done += n;
    }
}

/* Larger than the pool, and at the borders of records and blocks. */
static void values_of_any_size(void **state) {
    static const size_t sizes[] = {0, 1, BLOCK - 1, BLOCK, 16383, 16384, 16385, 65535, 65536, 65537, 300000, LARGE};
    (void)state;
    session s;
    uint8_t *sent = malloc(LARGE + 1), *memory = malloc(LARGE + 1);
    assert_true(sent && memory);
    pattern_fill(SEED, 0, sent, LARGE + 1);
    set_up(&s);
    open_client(&s);
    assert_int_equal(tls_peer_handshake(&s.peer), 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const sluice_resp_arg value = {sent, sizes[i]};
        char header[64];
        s.entries = 0;
        memset(memory, 0xee, sizes[i] + 1);
        assert_int_equal(sluice_resp_client_set(s.client, &key, &value, replied, &s), 0);
        assert_int_equal(sluice_resp_client_get_into(s.client, &key, memory, sizes[i], got, &s), 0);
        snprintf(header, sizeof header, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$%zu\r\n", sizes[i]);
        hear(&s, header);
        read_value(&s, sizes[i]);
        hear(&s, "\r\n*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
        say(&s, "+OK\r\n");
        say_value(&s, sizes[i]);
        turn_until_told(&s, 2);
        assert_told(&s, 0, 0, "OK");
        assert_told(&s, 1, 0, "");
        assert_int_equal(s.log[1].length, sizes[i]);
        assert_true(pattern_matches(SEED, 0, memory, sizes[i]));
        assert_int_equal(memory[sizes[i]], 0xee);
    }
    close_client(&s);
    tear_down(&s);
    free(sent);
    free(memory);
}

/* It is dropped as it comes, and the next reply begins behind it. */
static void a_value_over_its_memory(void **state) {
    (void)state;
    session s;
    uint8_t byte = 0xee;
    set_up(&s);
    open_client(&s);
    assert_int_equal(tls_peer_handshake(&s.peer), 1);
    for (size_t over = 0; over < 2; over++) {
        s.entries = 0;
        assert_int_equal(sluice_resp_client_get_into(s.client, &key, &byte, 1 - over, got, &s), 0);
        assert_int_equal(give(&s, "PING"), 0);
        say_value(&s, over ? LARGE : 1);
        say(&s, "+next\r\n");
        turn_until_told(&s, 2);
        assert_told(&s, 0, over ? -EFBIG : 0, "");
        assert_int_equal(s.log[0].length, over ? LARGE : 1);
        assert_told(&s, 1, 0, "next");
    }
    close_client(&s);
    tear_down(&s);
}

/* The answer is told when the stage has taken all of what was lent. */
static void an_answer_before_all_is_sent(void **state) {
    (void)state;
    session s;
    uint8_t *bytes = malloc(LARGE);
    assert_non_null(bytes);
    pattern_fill(SEED, 0, bytes, LARGE);
    set_up(&s);
    for (int keys = 0; keys < 2; keys++) { /* with a new key of the server's, asked for in return */
        open_client(&s);
        assert_int_equal(tls_peer_handshake(&s.peer), 1);
        const sluice_resp_arg value = {bytes, LARGE};
        assert_int_equal(sluice_resp_client_set(s.client, &key, &value, replied, &s), 0);
        assert_int_equal(give(&s, "PING"), 0);
        turn_through(s.rig.loop, 20);
        if (keys)
            assert_int_equal(SSL_key_update(s.peer.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        say(&s, "-too large\r\n+PONG\r\n");
        turn_through(s.rig.loop, 20);
        assert_int_equal(s.entries, 0);
        hear(&s, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$3145728\r\n");
        read_value(&s, LARGE);
        turn_until_told(&s, 2);
        assert_told(&s, 0, 0, "too large");
        assert_told(&s, 1, 0, "PONG");
        hear(&s, "\r\n*1\r\n$4\r\nPING\r\n");
        close_client(&s);
    }
    tear_down(&s);
    free(bytes);
}

/* What OpenSSL has written so far, up to a byte. Its length */
static size_t send_part(session *s, size_t n) {
    char *bytes;
    size_t length = (size_t)BIO_get_mem_data(s->peer.out, &bytes);
    sockets_write(s->peer.fd, bytes, n < length ? n : length);
    return length;
}

static void cut(session *s) {
    shutdown(s->peer.fd, SHUT_WR);
    turn_until_count(s->rig.loop, &s->closed, 1);
}

/* Replies that are whole are told; the others get the error, once each and in their order. */
static void the_end_at_any_byte_of_replies(void **state) {
    (void)state;
    session s;
    size_t length = 1;
    unsigned both = 0;
    set_up(&s);
    for (size_t at = 0; at <= length; at++) {
        uint8_t memory[20];
        open_client(&s);
        assert_int_equal(tls_peer_handshake(&s.peer), 1);
        assert_int_equal(give(&s, "PING"), 0);
        assert_int_equal(sluice_resp_client_get_into(s.client, &key, memory, sizeof memory, got, &s), 0);
        turn_through(s.rig.loop, 3);
        assert_int_equal(SSL_write(s.peer.ssl, "+PONG\r\n$5\r\n", 11), 11);
        assert_int_equal(SSL_write(s.peer.ssl, "abcde\r\n", 7), 7);
        SSL_shutdown(s.peer.ssl);
        length = send_part(&s, at);
        cut(&s);
        assert_int_equal(s.entries, 2);
        /* Behind close_notify it is the server's wish. */
        const int error = at == length ? -EPIPE : -ECONNRESET;
        assert_int_equal(s.error, error);
        assert_int_equal(s.last, at == length ? SLUICE_TLS_DETAIL_NONE : SLUICE_TLS_DETAIL_TRUNCATED);
        assert_told(&s, 0, s.log[0].error == 0 ? 0 : error, s.log[0].error == 0 ? "PONG" : "");
        assert_int_equal(s.log[1].error, s.log[1].error == 0 ? 0 : error);
        assert_true(s.log[0].error <= s.log[1].error || s.log[1].error == error);
        both += s.log[1].error == 0;
        close_client(&s);
    }
    assert_true(both > 1); /* also before the last byte: close_notify is a record of its own */
    tear_down(&s);
}

static void the_end_at_any_byte_of_the_handshake(void **state) {
    enum { STEP = 23 };
    (void)state;
    session s;
    size_t length = 1;
    set_up(&s);
    for (size_t at = 0; at < length; at += STEP) {
        open_client(&s);
        assert_int_equal(give(&s, "PING"), 0);
        turn_through(s.rig.loop, 3);
        tls_peer_fill(&s.peer);
        (void)SSL_do_handshake(s.peer.ssl);
        length = send_part(&s, at);
        assert_true(length > 0);
        cut(&s);
        assert_int_equal(s.entries, 1);
        assert_told(&s, 0, -ECONNRESET, "");
        assert_int_equal(s.last, SLUICE_TLS_DETAIL_TRUNCATED);
        close_client(&s);
    }
    tear_down(&s);
}

/* Of this side, in every turn from the first one on; and in a reply's callback. */
static void the_client_closes_at_any_point(void **state) {
    (void)state;
    session s;
    set_up(&s);
    for (unsigned turns = 0; turns < 12; turns++) {
        open_client(&s);
        assert_int_equal(give(&s, "PING"), 0);
        for (unsigned i = 0; i < turns; i++) {
            tls_peer_fill(&s.peer);
            (void)SSL_do_handshake(s.peer.ssl);
            send_part(&s, SIZE_MAX);
            (void)BIO_reset(s.peer.out);
            turn_through(s.rig.loop, 1);
        }
        close_client(&s);
        assert_int_equal(s.entries, 1);
        assert_told(&s, 0, -ECANCELED, "");
        assert_int_equal(s.error, 0);
    }
    open_client(&s);
    assert_int_equal(give(&s, "PING"), 0);
    assert_int_equal(give(&s, "PING"), 0);
    assert_int_equal(tls_peer_handshake(&s.peer), 1);
    s.closes = true;
    say(&s, "+one\r\n+two\r\n");
    turn_until_count(s.rig.loop, &s.closed, 1);
    assert_told(&s, 0, 0, "one");
    assert_told(&s, 1, -ECANCELED, "");
    close_client(&s);
    tear_down(&s);
}

/* Nothing of a command reaches a server that is not the one. */
static void another_server_is_refused(void **state) {
    (void)state;
    session s;
    set_up(&s);
    made_certificate other = certificate_make(&(certificate_form){.name = "Another CA", .is_ca = true});
    const sluice_tls_context_options options = tls_client_options(&other);
    sluice_tls_context *stranger;
    assert_int_equal(sluice_tls_context_new(&options, &stranger), 0);
    for (int how = 0; how < 2; how++) {
        open_client_for(&s, how ? stranger : s.pki.client, how ? "localhost" : "other.example");
        assert_int_equal(give(&s, "AUTH"), 0);
        assert_true(tls_peer_handshake(&s.peer) < 0);
        turn_until_count(s.rig.loop, &s.closed, 1);
        assert_told(&s, 0, -EKEYREJECTED, "");
        assert_int_equal(s.error, -EKEYREJECTED);
        assert_int_equal(s.last, how ? SLUICE_TLS_DETAIL_UNTRUSTED : SLUICE_TLS_DETAIL_NAME);
        close_client(&s);
    }
    /* And none that does not speak TLS. */
    open_client(&s);
    assert_int_equal(give(&s, "AUTH"), 0);
    sockets_write(s.peer.fd, "-ERR Protocol error\r\n", 21);
    turn_until_count(s.rig.loop, &s.closed, 1);
    assert_told(&s, 0, -EPROTO, "");
    close_client(&s);
    sluice_tls_context_unref(stranger);
    certificate_free(&other);
    tear_down(&s);
}

/* Replies of pieces of forged records are none. */
static void a_forged_reply_is_a_failure(void **state) {
    (void)state;
    session s;
    set_up(&s);
    open_client(&s);
    assert_int_equal(tls_peer_handshake(&s.peer), 1);
    assert_int_equal(give(&s, "PING"), 0);
    assert_int_equal(SSL_write(s.peer.ssl, "+PONG\r\n", 7), 7);
    char *bytes;
    size_t length = (size_t)BIO_get_mem_data(s.peer.out, &bytes);
    bytes[length - 1] ^= 1;
    send_part(&s, SIZE_MAX);
    turn_until_count(s.rig.loop, &s.closed, 1);
    assert_told(&s, 0, -EPROTO, "");
    assert_int_equal(s.last, SLUICE_TLS_DETAIL_PROTOCOL);
    close_client(&s);
    tear_down(&s);
}

/* A stage that changes nothing. After some calls the client's own pieces go. */
typedef struct plain_stage {
    sluice_conn *conn;
    uint8_t bytes[2048];
    size_t length;
    unsigned sends, refused, ends;
    uint64_t passed;
    bool may_pass, passes, is_finished;
} plain_stage;

static plain_stage plain;

static int plain_begin(sluice_conn *conn, const void *options, void **ret_stage) {
    (void)options;
    plain = (plain_stage){.conn = conn};
    *ret_stage = &plain;
    return 0;
}

static void plain_release(void *stage) {
    ((plain_stage *)stage)->conn = NULL;
}

static int plain_receive(void *stage) {
    const plain_stage *p = stage;
    return sluice_chain_length(sluice_conn_chain(p->conn)) > 0;
}

/* It has something left, for which it asks to be called. */
static int plain_end(void *stage) {
    plain_stage *p = stage;
    if (p->ends++ > 0)
        return 0;
    sluice_conn_again(p->conn);
    return -EAGAIN;
}

static sluice_chain *plain_chain(void *stage) {
    return sluice_conn_chain(((plain_stage *)stage)->conn);
}

/* Takes a part; each other time it has no block, and looks for one in the next turn. */
static int plain_send(void *stage, const struct iovec *pieces, size_t count, size_t *ret_done) {
    plain_stage *p = stage;
    size_t total = 0;
    assert_true(count > 0 && p->length == 0);
    for (size_t i = 0; i < count; i++)
        total += pieces[i].iov_len;
    assert_true(total <= 64 << 10);
    *ret_done = 0;
    if (p->sends++ % 2 == 0) {
        p->refused++;
        sluice_conn_again(p->conn);
        return -ENOBUFS;
    }
    p->length = pieces[0].iov_len < sizeof p->bytes ? pieces[0].iov_len : sizeof p->bytes;
    memcpy(p->bytes, pieces[0].iov_base, p->length);
    *ret_done = p->length;
    return 0;
}

static size_t plain_queued(const void *stage) {
    return ((const plain_stage *)stage)->length;
}

static size_t plain_gather(void *stage, struct iovec *iov, size_t max) {
    plain_stage *p = stage;
    if (p->length == 0 || max == 0)
        return 0;
    iov[0] = (struct iovec){p->bytes, p->length};
    return 1;
}

static void plain_sent(void *stage, size_t bytes) {
    plain_stage *p = stage;
    if (p->passes)
        p->passed += bytes;
    else
        memmove(p->bytes, p->bytes + bytes, p->length -= bytes);
}

static bool plain_may_pass(void *stage) {
    plain_stage *p = stage;
    p->passes = p->may_pass && p->sends >= 6 && p->length == 0;
    return p->passes;
}

static void plain_finish(void *stage) {
    ((plain_stage *)stage)->is_finished = true;
}

static const sluice_conn_stage plain_calls = {.size = sizeof plain_calls,
                                              .begin = plain_begin,
                                              .release = plain_release,
                                              .receive = plain_receive,
                                              .end = plain_end,
                                              .chain = plain_chain,
                                              .send = plain_send,
                                              .queued = plain_queued,
                                              .gather = plain_gather,
                                              .sent = plain_sent,
                                              .may_pass = plain_may_pass,
                                              .finish = plain_finish};

/* A SET whose answer comes before the server has read it. */
static void set_early(session *s, int peer, const uint8_t *bytes) {
    static const char header[] = "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$3145728\r\n";
    const size_t most = sizeof header - 1 + LARGE + 2;
    const sluice_resp_arg value = {bytes, LARGE};
    uint8_t *heard = malloc(most);
    assert_non_null(heard);
    assert_int_equal(sluice_resp_client_set(s->client, &key, &value, replied, s), 0);
    turn_through(s->rig.loop, 30);
    sockets_write(peer, "-too large\r\n", 12);
    turn_through(s->rig.loop, 10);
    assert_int_equal(s->entries, 0);
    for (size_t done = 0; done < most;) {
        ssize_t n = recv(peer, heard + done, most - done, MSG_DONTWAIT);
        done += n > 0 ? (size_t)n : 0;
        turn_through(s->rig.loop, 1);
    }
    turn_until_told(s, 1);
    assert_told(s, 0, 0, "too large");
    assert_memory_equal(heard, header, sizeof header - 1);
    assert_true(pattern_matches(SEED, 0, heard + sizeof header - 1, LARGE));
    free(heard);
}

/* Where the kernel encrypts, the client's own pieces go; what is lent returns when it is sent. */
static void pieces_of_stage_or_client(void **state) {
    const sluice_resp_client_options options = {.size = sizeof options, .stage = &plain_calls};
    (void)state;
    session s;
    uint8_t *bytes = malloc(LARGE), memory[1000];
    assert_non_null(bytes);
    pattern_fill(SEED, 0, bytes, LARGE);
    set_up(&s);
    for (int passes = 0; passes < 2; passes++) {
        int fds[2];
        s.entries = s.closed = 0;
        sockets_tcp_pair(fds);
        sockets_hold_little(fds[0], fds[1]);
        assert_int_equal(sluice_resp_client_new(s.rig.loop, fds[0], &options, &plain_events, &s, &s.client), 0);
        plain.may_pass = passes;
        set_early(&s, fds[1], bytes);
        assert_true(plain.refused > 1);
        assert_int_equal(plain.passed > LARGE - (64 << 10), passes);
        /* And back: the value lies in the connection's chain. */
        assert_int_equal(sluice_resp_client_get_into(s.client, &key, memory, sizeof memory, got, &s), 0);
        sockets_write(fds[1], "$1000\r\n", 7);
        sockets_write(fds[1], bytes, sizeof memory);
        sockets_write(fds[1], "\r\n", 2);
        turn_until_told(&s, 2);
        assert_int_equal(s.log[1].length, sizeof memory);
        assert_true(pattern_matches(SEED, 0, memory, sizeof memory));
        shutdown(fds[1], SHUT_WR);
        turn_until_count(s.rig.loop, &s.closed, 1);
        assert_int_equal(s.error, -EPIPE);
        assert_int_equal(plain.ends, 2);
        assert_true(plain.is_finished);
        assert_null(plain.conn);
        sluice_resp_client_free(s.client);
        close(fds[1]);
    }
    tear_down(&s);
    free(bytes);
}

static void invalid_stages(void **state) {
    (void)state;
    session s;
    set_up(&s);
    const sluice_conn_stage unset = {.size = 0};
    const sluice_tls_stage_options none = {.size = sizeof none},
                                   nameless = {.size = sizeof none, .context = s.pki.client};
    const struct {
        const sluice_conn_stage *stage;
        const void *options;
    } cases[] = {{&unset, &nameless}, {sluice_tls_conn_stage(), &none}, {sluice_tls_conn_stage(), &nameless}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sluice_resp_client_options options = {
            .size = sizeof options, .stage = cases[i].stage, .stage_options = cases[i].options, .resp3 = true};
        int fds[2];
        char byte;
        sockets_unix_pair(fds);
        s.client = NULL;
        assert_int_equal(sluice_resp_client_new(s.rig.loop, fds[0], &options, &events, &s, &s.client), -EINVAL);
        assert_null(s.client);
        turn_through(s.rig.loop, 3);
        sockets_set_blocking(fds[1], true);
        assert_int_equal(recv(fds[1], &byte, 1, 0), 0);
        close(fds[1]);
    }
    assert_int_equal(s.closed, 0);
    tear_down(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_wait_for_the_handshake),
        cmocka_unit_test(a_close_is_notified),
        cmocka_unit_test(values_of_any_size),
        cmocka_unit_test(a_value_over_its_memory),
        cmocka_unit_test(an_answer_before_all_is_sent),
        cmocka_unit_test(the_end_at_any_byte_of_replies),
        cmocka_unit_test(the_end_at_any_byte_of_the_handshake),
        cmocka_unit_test(the_client_closes_at_any_point),
        cmocka_unit_test(another_server_is_refused),
        cmocka_unit_test(a_forged_reply_is_a_failure),
        cmocka_unit_test(pieces_of_stage_or_client),
        cmocka_unit_test(invalid_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
