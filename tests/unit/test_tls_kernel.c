/*
 * The kernel encrypts what a stage sends, where it can: the same bytes arrive, keys change or their
 * limit ends the connection, and the end is whole. Where it cannot, OpenSSL encrypts, and nobody
 * sees a difference: each test runs on every kernel, and expects what a socket of its own has
 * shown.
 */
#include <sluice/tls.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/tls.h>

#include <cmocka.h>

#include <sluice/loop.h>

#include "support/tls/peer.h"
#include "support/tls/rig.h"

#ifndef SOL_TLS
#define SOL_TLS 282
#endif

enum { GUARD = 120, SEED = 19, TOTAL = 1 << 20, SMALL_RECORDS = 40, PIECE = 3000 };

/* What the kernel says to whoever asks it by hand. */
typedef struct kernel_answer {
    int ulp, first, second; /* 0, or the negative errno, of each step */
} kernel_answer;

static kernel_answer ask_kernel(void) {
    struct tls12_crypto_info_aes_gcm_128 key = {
        .info = {.version = TLS_1_3_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_128}};
    kernel_answer answer = {.first = -ENOPROTOOPT, .second = -ENOPROTOOPT};
    int fds[2];
    sockets_tcp_pair(fds);
    answer.ulp = setsockopt(fds[0], IPPROTO_TCP, TCP_ULP, "tls", sizeof "tls") == 0 ? 0 : -errno;
    if (!answer.ulp)
        answer.first = setsockopt(fds[0], SOL_TLS, TLS_TX, &key, sizeof key) == 0 ? 0 : -errno;
    if (!answer.first)
        answer.second = setsockopt(fds[0], SOL_TLS, TLS_TX, &key, sizeof key) == 0 ? 0 : -errno;
    close(fds[0]);
    close(fds[1]);
    return answer;
}

static sluice_tls_kernel_info info_of(const sluice_tls_context *context) {
    sluice_tls_kernel_info info = {.size = sizeof info};
    assert_int_equal(sluice_tls_context_get_kernel(context, &info), 0);
    return info;
}

static void is_found_out_by_trying(void **state) {
    (void)state;
    kernel_answer answer = ask_kernel();
    for (sluice_tls_kernel wanted = SLUICE_TLS_KERNEL_AUTO; wanted <= SLUICE_TLS_KERNEL_ANY; wanted++) {
        const sluice_tls_context_options options = {.size = sizeof options, .kernel = wanted};
        sluice_tls_context *context;
        assert_int_equal(sluice_tls_context_new(&options, &context), 0);
        sluice_tls_kernel_info info = info_of(context);
        assert_int_equal(info.sends, answer.first == 0);
        assert_int_equal(info.changes_keys, answer.second == 0);
        assert_int_equal(info.is_used, wanted == SLUICE_TLS_KERNEL_ANY ? info.sends : info.changes_keys);
        assert_int_equal(info.error, answer.ulp ? answer.ulp : answer.first ? answer.first : answer.second);
        if (answer.ulp)
            assert_string_equal(info.step, "TCP_ULP");
        print_message("sends: %d, changes keys: %d, %s: %s\n", info.sends, info.changes_keys,
                      info.step ? info.step : "-", strerror(-info.error));
        sluice_tls_context_unref(context);
    }
    sluice_tls_context_options options = {.size = sizeof options};
    sluice_tls_kernel_info info = {.size = sizeof info};
    sluice_tls_context *context;
    assert_int_equal(sluice_tls_context_new(&options, &context), 0);
    assert_int_equal(sluice_tls_context_get_kernel(context, &info), -ENOENT);
    sluice_tls_context_unref(context);
    options.kernel = (sluice_tls_kernel)(SLUICE_TLS_KERNEL_ANY + 1);
    assert_int_equal(sluice_tls_context_new(&options, &context), -EINVAL);
}

/* A stage that sends, by either way, and OpenSSL at the other side. */
typedef struct sender {
    loop_rig rig;
    tls_pki pki;
    tls_end end;
    tls_peer peer;
    bool is_used;      /* the kernel is expected to encrypt */
    bool changes_keys; /* and to change keys */
    sluice_conn_handover handover;
    bool left;
    /* Of what is passed: */
    uint8_t memory[PIECE];
    size_t gathered; /* bytes of it */
    uint64_t passed; /* bytes that the kernel has taken */
    bool is_passing;
    bool has_passed; /* at least once */
} sender;

static size_t pass(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    sender *s = (sender *)((char *)user - offsetof(sender, end));
    (void)conn;
    s->is_passing = s->end.sent < s->end.total && sluice_tls_may_pass(s->end.tls);
    if (!s->is_passing)
        return sluice_tls_gather(s->end.tls, iov, max);
    s->has_passed = true;
    size_t n = s->end.total - s->end.sent < PIECE ? (size_t)(s->end.total - s->end.sent) : PIECE;
    pattern_fill(SEED, s->end.sent, s->memory, n);
    iov[0] = (struct iovec){s->memory, n / 2};
    iov[1] = (struct iovec){s->memory + n / 2, n - n / 2};
    s->gathered = n;
    return 2;
}

static void passed(sluice_conn *conn, size_t bytes, void *user) {
    sender *s = (sender *)((char *)user - offsetof(sender, end));
    bool was = s->is_passing;
    s->is_passing = false;
    if (!was) {
        tls_end_events.on_sent(conn, bytes, user);
        return;
    }
    assert_true(bytes <= s->gathered);
    memset(s->memory, 0, sizeof s->memory); /* it is the user's again */
    sluice_tls_sent(s->end.tls, bytes);
    s->end.sent += bytes;
    s->passed += bytes;
    if (s->end.sent == s->end.total && s->end.finishes) {
        s->end.finishes = false;
        assert_int_equal(sluice_tls_finish(s->end.tls), 0);
    }
}

static sluice_conn_events passing_events;

static void sender_open_at(sender *s, const char *suites, int version, uint32_t rekey_records, bool passes,
                           bool is_narrow) {
    const sluice_tls_context_options options = {
        .size = sizeof options, .kernel = SLUICE_TLS_KERNEL_ANY, .rekey_records = rekey_records};
    int fds[2];
    *s = (sender){.end.seed = SEED};
    loop_rig_open(&s->rig, NULL, NULL, GUARD);
    tls_pki_open(&s->pki, &options, NULL);
    sockets_tcp_pair(fds);
    if (is_narrow)
        sockets_hold_little(fds[0], fds[1]);
    passing_events = tls_end_events;
    passing_events.on_gather = pass;
    passing_events.on_sent = passed;
    assert_int_equal(
        sluice_conn_new(s->rig.loop, fds[0], passes ? &passing_events : &tls_end_events, &s->end, &s->end.conn), 0);
    assert_int_equal(sluice_tls_new(s->pki.server, s->end.conn, NULL, &s->end.tls), 0);
    tls_peer_open(&s->peer, s->rig.loop, fds[1], false);
    SSL_set_max_proto_version(s->peer.ssl, version);
    if (suites)
        assert_int_equal(SSL_set_ciphersuites(s->peer.ssl, suites), 1);
    assert_int_equal(tls_peer_handshake(&s->peer), 1);
    tls_end_until_open(&s->end, s->rig.loop);
    sluice_tls_kernel_info info = info_of(s->pki.server);
    s->is_used = info.sends && version == TLS1_3_VERSION;
    s->changes_keys = info.changes_keys;
}

static void sender_open(sender *s, uint32_t rekey_records, bool passes) {
    sender_open_at(s, NULL, TLS1_3_VERSION, rekey_records, passes, false);
}

static void sender_close(sender *s) {
    tls_end_close(&s->end, s->rig.loop);
    close(s->peer.fd);
    tls_peer_close(&s->peer);
    tls_pki_close(&s->pki);
    loop_rig_close(&s->rig);
}

static bool kernel_sends(const sender *s) {
    sluice_tls_info info = {.size = sizeof info};
    assert_int_equal(sluice_tls_get_info(s->end.tls, &info), 0);
    return info.kernel_sends;
}

/* The stage sends so many bytes more, which the peer reads. */
static void transfer(sender *s, size_t n) {
    static uint8_t bytes[TOTAL];
    uint64_t before = s->end.total;
    assert_true(n <= sizeof bytes);
    s->end.total += n;
    tls_end_pump(&s->end);
    tls_peer_read(&s->peer, bytes, n);
    assert_true(pattern_matches(SEED, before, bytes, n));
}

/* Past the bytes that OpenSSL encrypts at first. */
static void begin(sender *s) {
    transfer(s, SLUICE_TLS_KERNEL_AFTER + PIECE);
    transfer(s, PIECE);
    assert_int_equal(kernel_sends(s), s->is_used);
}

static void every_cipher_arrives(void **state) {
    (void)state;
    static const char *const suites[] = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384",
                                         "TLS_CHACHA20_POLY1305_SHA256"};
    for (size_t i = 0; i < 3; i++) {
        sender s;
        sender_open_at(&s, suites[i], TLS1_3_VERSION, 0, false, false);
        begin(&s);
        transfer(&s, TOTAL);
        s.end.finishes = true;
        tls_end_pump(&s.end);
        assert_true(tls_peer_read_end(&s.peer));
        bool is_used = s.is_used;
        sender_close(&s);
        const sluice_tls_stats *stats = &s.end.stats;
        /* close_notify is not data. */
        assert_int_equal(stats->plain_out + stats->kernel_out, TOTAL + SLUICE_TLS_KERNEL_AFTER + 2 * PIECE);
        assert_int_equal(stats->kernel_copied, stats->kernel_out);
        assert_int_equal(stats->kernel_out > 0, is_used);
        assert_true(stats->records_out >= TOTAL / SLUICE_TLS_RECORD);
    }
}

static void pieces_are_sent_where_they_are(void **state) {
    (void)state;
    for (int narrow = 0; narrow < 2; narrow++) {
        sender s;
        sender_open_at(&s, NULL, TLS1_3_VERSION, 0, true, narrow);
        s.end.total = SLUICE_TLS_KERNEL_AFTER;
        tls_end_pump(&s.end); /* by sluice_tls_send() */
        static uint8_t bytes[TOTAL];
        tls_peer_read(&s.peer, bytes, SLUICE_TLS_KERNEL_AFTER);
        s.end.total += TOTAL;
        s.end.finishes = true;
        if (s.is_used)
            sluice_conn_want_send(s.end.conn);
        else
            tls_end_pump(&s.end);
        if (narrow) /* as much as the sockets hold, and a peer that does not read for a while */
            turn_through(s.rig.loop, 50);
        tls_peer_read(&s.peer, bytes, TOTAL);
        assert_true(pattern_matches(SEED, SLUICE_TLS_KERNEL_AFTER, bytes, TOTAL));
        assert_true(tls_peer_read_end(&s.peer));
        assert_int_equal(s.has_passed, s.is_used);
        uint64_t passed_bytes = s.passed;
        sender_close(&s);
        assert_int_equal(passed_bytes, s.end.stats.kernel_out);
        assert_int_equal(s.end.stats.kernel_copied, 0);
        assert_int_equal(s.end.stats.plain_out + passed_bytes, SLUICE_TLS_KERNEL_AFTER + TOTAL);
    }
}

static void slices_are_not_copied(void **state) {
    (void)state;
    sender s;
    sender_open(&s, 0, false);
    begin(&s);
    uint8_t bytes[PIECE], back[PIECE - 10];
    sluice_chain *chain;
    sluice_slice slice;
    pattern_fill(1, 0, bytes, sizeof bytes);
    assert_int_equal(sluice_chain_new(s.rig.pool, &chain), 0);
    for (size_t done = 0; done < sizeof bytes;) {
        struct iovec room;
        assert_int_equal(sluice_chain_reserve(chain, sizeof bytes - done, &room, 1), 1);
        size_t n = room.iov_len < sizeof bytes - done ? room.iov_len : sizeof bytes - done;
        memcpy(room.iov_base, bytes + done, n);
        assert_int_equal(sluice_chain_commit(chain, n), 0);
        done += n;
    }
    assert_int_equal(sluice_chain_take(chain, sizeof bytes, &slice), 0);
    sluice_tls_stats before = {.size = sizeof before}, after = before;
    sluice_tls_get_stats(s.end.tls, &before);
    size_t done;
    assert_int_equal(sluice_tls_send_slice(s.end.tls, &slice, 10, &done), 0);
    assert_int_equal(done, sizeof back);
    sluice_slice_release(&slice);
    sluice_chain_free(chain);
    tls_peer_read(&s.peer, back, sizeof back);
    assert_memory_equal(back, bytes + 10, sizeof back);
    sluice_tls_get_stats(s.end.tls, &after);
    assert_int_equal(after.kernel_copied, before.kernel_copied);
    assert_int_equal(after.plain_out - before.plain_out, s.is_used ? 0 : sizeof back);
    sender_close(&s);
}

/* The peer requests new keys, at once and between data. */
static void requested_keys_change(void **state) {
    (void)state;
    sender s;
    sender_open(&s, 0, false);
    begin(&s);
    bool ends = s.is_used && !s.changes_keys;
    for (int i = 0; i < 5 && !ends; i++) {
        assert_int_equal(SSL_key_update(s.peer.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        assert_int_equal(SSL_do_handshake(s.peer.ssl), 1);
        if (i == 3) /* two requests at once */
            continue;
        tls_peer_flush(&s.peer);
        turn_through(s.rig.loop, 3);
        transfer(&s, 5 * (size_t)SLUICE_TLS_RECORD);
    }
    if (ends) {
        assert_int_equal(SSL_key_update(s.peer.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        assert_int_equal(SSL_do_handshake(s.peer.ssl), 1);
        tls_peer_flush(&s.peer);
        turn_until(s.rig.loop, &s.end.closed);
        assert_true(tls_peer_read_end(&s.peer)); /* with close_notify */
    }
    sender_close(&s);
    assert_int_equal(s.end.error, ends ? -EKEYEXPIRED : 0);
    assert_int_equal(s.end.detail, ends ? SLUICE_TLS_DETAIL_KEY_LIMIT : SLUICE_TLS_DETAIL_NONE);
    if (!ends)
        assert_true(s.end.stats.key_updates_out >= 4 && s.end.stats.key_updates_out <= 5);
}

/* Records of some bytes, whose number the kernel knows. */
static void sent_keys_have_a_limit(void **state) {
    (void)state;
    sender s;
    int error = 0;
    sender_open(&s, SMALL_RECORDS, false);
    begin(&s); /* with a key update or two of OpenSSL's, perhaps */
    bool ends = s.is_used && !s.changes_keys;
    unsigned sent = 0;
    for (; sent < 10 * SMALL_RECORDS && !error; sent++) {
        uint8_t byte, back;
        pattern_fill(SEED, s.end.sent, &byte, 1);
        error = sluice_tls_send(s.end.tls, &(struct iovec){&byte, 1}, 1, NULL);
        if (error)
            break;
        s.end.sent = ++s.end.total;
        tls_peer_read(&s.peer, &back, 1);
        assert_int_equal(back, byte);
    }
    assert_int_equal(error, ends ? -EKEYEXPIRED : 0);
    if (ends) {
        assert_true(sent > 0 && sent <= SMALL_RECORDS);
        assert_true(tls_peer_read_end(&s.peer));
    }
    sluice_tls_stats stats = {.size = sizeof stats};
    if (!ends) {
        assert_int_equal(sluice_tls_get_stats(s.end.tls, &stats), 0);
        assert_true(stats.records_out >= sent);
    }
    sender_close(&s);
    if (!ends)
        assert_true(s.end.stats.key_updates_out >= 9);
}

/* The peer has sent as much as its key allows: it is asked for another one, and so is the
 * kernel. */
static void received_keys_have_a_limit(void **state) {
    (void)state;
    sender s;
    sender_open(&s, SMALL_RECORDS * 10, false);
    begin(&s);
    bool ends = s.is_used && !s.changes_keys;
    for (uint64_t place = 0; place < 4000 && !s.end.closed; place++) {
        uint8_t byte, none;
        pattern_fill(SEED, place, &byte, 1);
        if (SSL_write(s.peer.ssl, &byte, 1) != 1)
            break;
        tls_peer_flush(&s.peer);
        tls_peer_fill(&s.peer);
        if (SSL_read(s.peer.ssl, &none, 1) == 0)
            break;
    }
    if (!ends) {
        tls_end_until_received(&s.end, s.rig.loop, 4000);
        transfer(&s, TOTAL / 2);
    }
    sender_close(&s);
    assert_int_equal(s.end.error, ends ? -EKEYEXPIRED : 0);
    if (!ends)
        assert_true(s.end.stats.key_updates_in >= 5);
}

/* A forged record: the alert is the kernel's to send, behind the data. */
static void alerts_arrive(void **state) {
    (void)state;
    static const uint8_t forged[] = {23, 3,  3,  0,  20, 1,  2,  3,  4,  5,  6,  7, 8,
                                     9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
    sender s;
    uint8_t byte;
    sender_open(&s, 0, false);
    begin(&s);
    sockets_write(s.peer.fd, forged, sizeof forged);
    turn_until(s.rig.loop, &s.end.closed);
    int got, error = SSL_ERROR_WANT_READ;
    while (error == SSL_ERROR_WANT_READ) {
        tls_peer_fill(&s.peer);
        got = SSL_read(s.peer.ssl, &byte, 1);
        assert_true(got <= 0);
        error = SSL_get_error(s.peer.ssl, got);
    }
    assert_int_equal(error, SSL_ERROR_SSL);
    assert_int_equal(s.end.error, -EPROTO);
    sender_close(&s);
}

static void earlier_versions_are_openssls(void **state) {
    (void)state;
    sender s;
    sender_open_at(&s, NULL, TLS1_2_VERSION, 0, false, false);
    begin(&s);
    assert_false(kernel_sends(&s));
    transfer(&s, TOTAL);
    sender_close(&s);
    assert_int_equal(s.end.stats.kernel_out, 0);
}

static void detached(const sluice_conn_handover *handover, void *user) {
    sender *s = user;
    s->handover = *handover;
    assert_int_equal(sluice_tls_detach(s->end.tls), 0);
    s->left = true;
}

/* To another loop and back: the key is in the socket. */
static void loops_are_changed(void **state) {
    (void)state;
    sender s;
    loop_rig other;
    sender_open(&s, 0, false);
    loop_rig_open(&other, NULL, NULL, GUARD);
    begin(&s);
    for (int i = 0; i < 4; i++) {
        sluice_loop *from = s.peer.loop, *to = from == other.loop ? s.rig.loop : other.loop;
        while (sluice_tls_queued(s.end.tls) > 0)
            turn(from);
        while (sluice_conn_detach(s.end.conn, detached, &s) == -EBUSY)
            turn(from);
        turn_until(from, &s.left);
        s.left = false;
        s.peer.loop = to;
        assert_int_equal(sluice_conn_adopt(to, &s.handover, &tls_end_events, &s.end, &s.end.conn), 0);
        assert_int_equal(sluice_tls_attach(s.end.tls, s.end.conn), 0);
        transfer(&s, TOTAL / 4);
        assert_int_equal(kernel_sends(&s), s.is_used);
    }
    sender_close(&s);
    loop_rig_close(&other);
}

/* A socket that cannot have it: the connection continues without. */
static void refusals_are_not_noticed(void **state) {
    (void)state;
    const sluice_tls_context_options options = {.size = sizeof options, .kernel = SLUICE_TLS_KERNEL_ANY};
    int fds[2];
    sender s = {.end.seed = SEED};
    loop_rig_open(&s.rig, NULL, NULL, GUARD);
    tls_pki_open(&s.pki, &options, NULL);
    sockets_unix_pair(fds);
    tls_end_open(&s.end, s.rig.loop, fds[0], s.pki.server, NULL);
    tls_peer_open(&s.peer, s.rig.loop, fds[1], false);
    assert_int_equal(tls_peer_handshake(&s.peer), 1);
    tls_end_until_open(&s.end, s.rig.loop);
    begin(&s);
    assert_false(kernel_sends(&s));
    transfer(&s, TOTAL);
    sender_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_found_out_by_trying),
        cmocka_unit_test(every_cipher_arrives),
        cmocka_unit_test(pieces_are_sent_where_they_are),
        cmocka_unit_test(slices_are_not_copied),
        cmocka_unit_test(requested_keys_change),
        cmocka_unit_test(sent_keys_have_a_limit),
        cmocka_unit_test(received_keys_have_a_limit),
        cmocka_unit_test(alerts_arrive),
        cmocka_unit_test(earlier_versions_are_openssls),
        cmocka_unit_test(refusals_are_not_noticed),
        cmocka_unit_test(loops_are_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
