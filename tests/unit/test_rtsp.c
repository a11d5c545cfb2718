/* RTSP messages: what is taken, what is refused, and that neither depends on how the bytes come. */
#include <sluice/rtsp.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "support/feed.h"
#include "support/http_feed.h"
#include "support/vectors.h"

enum { MAX_SAID = 1 << 20 };

/* All that came out of a stream, said in one text, so that two can be compared. */
struct outcome {
    int result; /* of the last next() */
    uint64_t consumed;
    size_t count;
    size_t length;
    char text[MAX_SAID];
};

static struct outcome whole, other;

static void say(struct outcome *outcome, const char *label, const void *bytes, size_t n) {
    assert_true(outcome->length + strlen(label) + n + 2 < sizeof outcome->text);
    outcome->length += (size_t)sprintf(outcome->text + outcome->length, "%s=", label);
    if (n > 0)
        memcpy(outcome->text + outcome->length, bytes, n);
    outcome->length += n;
    outcome->text[outcome->length++] = '\n';
    outcome->text[outcome->length] = '\0';
}

static void say_text(struct outcome *outcome, const char *label, sluice_http_text text) {
    say(outcome, label, text.text, text.length);
}

static void say_number(struct outcome *outcome, const char *label, int64_t number) {
    char digits[24];
    say(outcome, label, digits, (size_t)sprintf(digits, "%lld", (long long)number));
}

static void say_message(struct outcome *outcome, const sluice_rtsp_message *message) {
    static uint8_t payload[1 << 18];
    outcome->count++;
    say_number(outcome, "kind", message->kind);
    say_number(outcome, "skipped", (int64_t)message->skipped);
    say_number(outcome, "channel", message->channel);
    say_number(outcome, "method-id", message->method_id);
    say_text(outcome, "method", message->method);
    say_text(outcome, "url", message->url);
    say_number(outcome, "status", message->status);
    say_text(outcome, "reason", message->reason);
    say_number(outcome, "version", message->version_major * 10 + message->version_minor);
    say_number(outcome, "cseq", message->cseq);
    for (size_t i = 0; i < message->header_count; i++) {
        say_text(outcome, "name", message->headers[i].name);
        say_text(outcome, "value", message->headers[i].value);
    }
    struct iovec pieces[1024];
    size_t count = sluice_slice_iov(&message->payload, 0, pieces, 1024), n = 0;
    assert_true(count <= 1024 && sluice_slice_length(&message->payload) <= sizeof payload);
    for (size_t i = 0; i < count; n += pieces[i++].iov_len)
        memcpy(payload + n, pieces[i].iov_base, pieces[i].iov_len);
    say(outcome, "payload", payload, n);
}

static void begin(struct outcome *outcome) {
    outcome->result = 0;
    outcome->count = 0;
    outcome->length = 0;
    outcome->text[0] = '\0';
}

/* Takes what is there. */
static void take_all(sluice_rtsp *rtsp, sluice_chain *chain, struct outcome *outcome) {
    sluice_rtsp_message *message = NULL;
    while ((outcome->result = sluice_rtsp_next(rtsp, chain, &message)) == 1) {
        say_message(outcome, message);
        message = NULL;
    }
    assert_null(message);
}

/* Feeds the bytes in pieces; an error must outlast what comes behind it. */
static void run_pieces(sluice_pool *pool, const sluice_rtsp_options *options, const void *bytes, size_t length,
                       const http_feed_cuts *cuts, struct outcome *outcome) {
    sluice_rtsp *rtsp;
    sluice_chain *chain = http_feed_chain(pool);
    size_t done = 0;
    begin(outcome);
    assert_int_equal(sluice_rtsp_new(options, &rtsp), 0);
    for (size_t piece = 0; done < length; piece++) {
        size_t end = http_feed_piece_end(cuts, piece, length);
        http_feed_bytes(pool, chain, (const uint8_t *)bytes + done, end - done);
        done = end;
        take_all(rtsp, chain, outcome);
        if (outcome->result < 0)
            break;
        /* One byte less than is needed gives nothing; at the need there is something new. */
        assert_true(sluice_rtsp_need(rtsp) > sluice_chain_length(chain));
    }
    outcome->consumed = sluice_chain_consumed(chain);
    if (outcome->result < 0) {
        http_feed_bytes(pool, chain, (const uint8_t *)bytes + done, length - done);
        http_feed_bytes(pool, chain, "OPTIONS * RTSP/1.0\r\n\r\n", 22);
        sluice_rtsp_message *message = NULL;
        assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), outcome->result);
        assert_null(message);
        assert_int_equal(sluice_chain_consumed(chain), outcome->consumed);
    }
    assert_true(chain_is_sound(chain));
    sluice_rtsp_free(rtsp);
    sluice_chain_free(chain);
}

static void assert_same(const void *bytes, size_t length) {
    if (other.result == whole.result && other.consumed == whole.consumed && other.length == whole.length &&
        memcmp(other.text, whole.text, whole.length) == 0)
        return;
    fail_msg("of %.*s\nwhole: %d at %llu\n%s\nin pieces: %d at %llu\n%s", (int)length, (const char *)bytes,
             whole.result, (unsigned long long)whole.consumed, whole.text, other.result,
             (unsigned long long)other.consumed, other.text);
}

/* The result for these bytes, whole and byte by byte. */
static int result_of(const sluice_rtsp_options *options, const char *text) {
    sluice_pool *pool = http_feed_pool(512, 8192);
    run_pieces(pool, options, text, strlen(text), &HTTP_FEED_WHOLE, &whole);
    run_pieces(pool, options, text, strlen(text), &HTTP_FEED_BYTEWISE, &other);
    assert_same(text, strlen(text));
    http_feed_pool_done(pool);
    return whole.result;
}

/* Frames of odd sizes around messages of all kinds; folding, bodies, line ends of both sorts. */
#define FRAME_0 "$\0\0\0"
#define FRAME_5 "$\1\0\5he$lo"
#define FRAME_TEXT "$\2\0\22RTSP/1.0 200 OK\r\n\r"
static const char mixed[] = FRAME_5 "ANNOUNCE rtsp://h/live/a RTSP/1.0\r\n"
                                    "CSeq: 2\r\nContent-Type: application/sdp\r\nContent-Length: 11\r\n"
                                    "X-Fold: one\r\n two\r\n\tthree\r\n\r\nv=0\r\n$\0\0\1s\n" FRAME_0 FRAME_TEXT
                                    "\r\nRTSP/1.0 200 OK\r\nCSeq:3\r\nSession: 12345678;timeout=60\r\n\r\n" FRAME_5
                                    "OPTIONS * RTSP/2.0\ncseq: 4294967295\n\n" FRAME_0
                                    "RTSP/1.0 461 \r\nCSeq: 4294967296\r\nContent-Length: 0\r\n\r\n" FRAME_5 FRAME_5
                                    "X-OWN rtsp://h/\xc3\xa4 RTSP/1.0\r\n\r\n" FRAME_0;
enum { MIXED = sizeof mixed - 1 };

static void assert_mixed(const struct outcome *outcome) {
    assert_int_equal(outcome->result, 0);
    assert_int_equal(outcome->count, 13);
    assert_int_equal(outcome->consumed, MIXED);
}

static void messages_of_all_kinds(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(4096, 64);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_rtsp *rtsp;
    sluice_rtsp_message *message;
    sluice_slice kept;
    char body[16];
    http_feed_bytes(pool, chain, mixed, MIXED);
    assert_int_equal(sluice_rtsp_new(NULL, &rtsp), 0);

    assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 1);
    assert_int_equal(message->kind, SLUICE_RTSP_INTERLEAVED);
    assert_int_equal(message->channel, 1);
    assert_int_equal(sluice_slice_length(&message->payload), 5);

    assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 1);
    assert_int_equal(message->kind, SLUICE_RTSP_REQUEST);
    assert_int_equal(message->method_id, SLUICE_RTSP_ANNOUNCE);
    assert_int_equal(message->cseq, 2);
    assert_int_equal(message->header_count, 4);
    const sluice_http_header *fold = sluice_rtsp_find(message, "x-FOLD");
    assert_non_null(fold);
    assert_int_equal(fold->value.length, 17);
    assert_memory_equal(fold->value.text, "one   two  \tthree", 17);
    assert_null(sluice_rtsp_find(message, "Session"));
    assert_int_equal(sluice_slice_length(&message->payload), 11);
    assert_int_equal(sluice_slice_take(&message->payload, &kept), 0);

    for (int i = 0; i < 2; i++)
        assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 1);
    assert_int_equal(message->channel, 2);
    assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 1);
    assert_int_equal(message->kind, SLUICE_RTSP_REPLY);
    assert_int_equal(message->status, 200);
    assert_int_equal(message->reason.length, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 1);
    assert_int_equal(message->version_major, 2);
    assert_int_equal(message->cseq, UINT32_MAX);
    for (int i = 0; i < 2; i++)
        assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 1);
    assert_int_equal(message->status, 461);
    assert_int_equal(message->reason.length, 0);
    assert_int_equal(message->cseq, -1);
    sluice_rtsp_free(rtsp);
    sluice_chain_free(chain);

    assert_int_equal(sluice_slice_copy(&kept, 0, body, sizeof body), 11);
    assert_memory_equal(body, "v=0\r\n$\0\0\1s\n", 11);
    sluice_slice_release(&kept);
    feed_assert_returned(pool);
    sluice_pool_free(pool);
}

static void every_cut_and_pair_of_cuts(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(4096, 1024);
    feed_guarded *guarded = feed_guarded_new(mixed, MIXED);
    run_pieces(pool, NULL, mixed, MIXED, &HTTP_FEED_WHOLE, &whole);
    assert_mixed(&whole);
    for (size_t a = 0; a <= MIXED; a++)
        for (size_t b = a; b <= MIXED; b++) {
            const size_t ends[] = {a, b, MIXED};
            sluice_chain *chain = http_feed_chain(pool);
            sluice_rtsp *rtsp;
            begin(&other);
            assert_int_equal(sluice_rtsp_new(NULL, &rtsp), 0);
            for (size_t i = 0, done = 0; i < 3; done = ends[i++]) {
                feed_guarded_range(guarded, chain, done, ends[i]);
                take_all(rtsp, chain, &other);
            }
            other.consumed = sluice_chain_consumed(chain);
            assert_same(mixed, MIXED);
            sluice_rtsp_free(rtsp);
            sluice_chain_free(chain);
        }
    run_pieces(pool, NULL, mixed, MIXED, &HTTP_FEED_BYTEWISE, &other);
    assert_same(mixed, MIXED);
    feed_guarded_free(guarded);
    http_feed_pool_done(pool);
}

/* A frame is put in at every place between messages, and at every place inside one, where it is no
 * frame. */
static void frames_between_and_inside_messages(void **state) {
    (void)state;
    static const char messages[] =
        "RTSP/1.0 200 OK\r\nCSeq: 1\r\nContent-Length: 4\r\n\r\nbodyOPTIONS * RTSP/1.0\r\n\r\n";
    static const size_t borders[] = {0, 51, sizeof messages - 1};
    const size_t length = sizeof messages - 1;
    sluice_pool *pool = http_feed_pool(4096, 1024);
    for (size_t at = 0; at <= length; at++) {
        char bytes[256];
        memcpy(bytes, messages, at);
        memcpy(bytes + at, FRAME_5, 9);
        memcpy(bytes + at + 9, messages + at, length - at);
        bool is_border = at == borders[0] || at == borders[1] || at == borders[2];
        run_pieces(pool, NULL, bytes, length + 9, &HTTP_FEED_WHOLE, &whole);
        bool is_frame = strstr(whole.text, "kind=2") != NULL;
        /* Inside a body the message only ends elsewhere, and the rest is no longer RTSP, or a
         * frame. */
        if (at < 47 || is_border)
            assert_int_equal(is_frame, is_border);
        if (is_border)
            assert_int_equal(whole.count, 3);
        for (size_t cut = 0; cut <= length + 9; cut++) {
            http_feed_cuts cuts = {1, {cut}};
            run_pieces(pool, NULL, bytes, length + 9, &cuts, &other);
            assert_same(bytes, length + 9);
        }
    }
    http_feed_pool_done(pool);
}

/* What ffmpeg publishes, and what a listening ffmpeg answers. */
static void sessions_of_ffmpeg(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t requests, replies;
    } sessions[] = {
        {"h264-aac.publish", 6, 0}, {"h264-aac.listen", 0, 6}, {"pcmu.publish", 5, 0}, {"pcma.listen", 0, 5}};
    uint64_t seed = 0x2545F4914F6CDD1D;
    sluice_pool *pool = http_feed_pool(512, 512);
    for (size_t i = 0; i < sizeof sessions / sizeof *sessions; i++) {
        size_t size, requests = 0, replies = 0, frames = 0;
        uint8_t *bytes = vector_read(sessions[i].name, &size);
        run_pieces(pool, NULL, bytes, size, &HTTP_FEED_WHOLE, &whole);
        assert_int_equal(whole.result, 0);
        assert_int_equal(whole.consumed, size);
        const char *end = whole.text + whole.length;
        for (const char *at = whole.text; (at = memmem(at, (size_t)(end - at), "kind=", 5)); at += 5) {
            requests += at[5] == '0';
            replies += at[5] == '1';
            frames += at[5] == '2';
        }
        assert_int_equal(requests, sessions[i].requests);
        assert_int_equal(replies, sessions[i].replies);
        assert_true(sessions[i].requests == 0 || frames > 5);
        for (int round = 0; round < 200; round++) {
            http_feed_cuts cuts = http_feed_random_cuts(&seed, size);
            run_pieces(pool, NULL, bytes, size, &cuts, &other);
            assert_same(sessions[i].name, strlen(sessions[i].name));
        }
        free(bytes);
    }
    http_feed_pool_done(pool);
}

/* Every length that the header can say, in blocks of several sizes; nothing is copied, and nothing
 * is taken early. */
static void interleaved_lengths(void **state) {
    (void)state;
    static uint8_t frame[SLUICE_RTSP_INTERLEAVED_SIZE + UINT16_MAX + 1];
    static const uint32_t block_sizes[] = {512, 4096, 65536};
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = (uint8_t)(i * 31);
    for (size_t i = 0; i < 3; i++) {
        sluice_pool *pool = http_feed_pool(block_sizes[i], 1024);
        sluice_chain *chain = http_feed_chain(pool);
        sluice_rtsp *rtsp;
        assert_int_equal(sluice_rtsp_new(NULL, &rtsp), 0);
        for (size_t length = 0; length <= UINT16_MAX; length++) {
            sluice_rtsp_message *message = NULL;
            size_t size = SLUICE_RTSP_INTERLEAVED_SIZE + length;
            sluice_rtsp_write_interleaved(frame, (uint8_t)length, (uint16_t)length);
            /* All but the last byte, the last byte together with the next frame's first. */
            http_feed_bytes(pool, chain, frame, size - 1);
            assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 0);
            assert_int_equal(sluice_rtsp_need(rtsp), size);
            uint8_t last[2] = {frame[size - 1], '$'};
            http_feed_bytes(pool, chain, last, 2);
            assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 1);
            assert_int_equal(message->channel, (uint8_t)length);
            assert_int_equal(message->payload.length, length);
            struct iovec ends[200];
            size_t count = sluice_slice_iov(&message->payload, 0, ends, 200);
            assert_true(count <= 200);
            if (length > 0) {
                assert_int_equal(*(uint8_t *)ends[0].iov_base, frame[4]);
                assert_int_equal(((uint8_t *)ends[count - 1].iov_base)[ends[count - 1].iov_len - 1], last[0]);
            }
            assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 0);
            assert_int_equal(sluice_chain_skip(chain, 10), 1);
        }
        sluice_rtsp_free(rtsp);
        sluice_chain_free(chain);
        http_feed_pool_done(pool);
    }
}

static void what_is_malformed_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int result;
    } cases[] = {
        {"\x16\x03\x01", -EPROTO},
        {" OPTIONS * RTSP/1.0\r\n", -EPROTO},
        {"v=0\r\n", -EPROTO},
        {"OPTIONS\r\n", -EPROTO},
        {"OPTIONS *\r\n", -EPROTO},
        {"OPTIONS  RTSP/1.0\r\n", -EPROTO},
        {"OPTIONS * RTSP/1.0 \r\n", -EPROTO},
        {"OPTIONS * rtsp/1.0\r\n", -EPROTO},
        {"OPTIONS * HTTP/1.1\r\n", -EPROTO},
        {"OPTIONS * RTSP/1.00\r\n", -EPROTO},
        {"OPTIONS * RTSP/1.1\r\n", -EPROTONOSUPPORT},
        {"OPTIONS * RTSP/3.0\r\n", -EPROTONOSUPPORT},
        {"OPT(ONS * RTSP/1.0\r\n", -EPROTO},
        {"PLAY a\x01 RTSP/1.0\r\n", -EPROTO},
        {"PLAY a\x7f RTSP/1.0\r\n", -EPROTO},
        {"RTSP/1.0\r\n", -EPROTO},
        {"RTSP/1.0 20 OK\r\n", -EPROTO},
        {"RTSP/1.0 2000 OK\r\n", -EPROTO},
        {"RTSP/1.0 099 OK\r\n", -EPROTO},
        {"RTSP/1.0 2x0 OK\r\n", -EPROTO},
        {"RTSP/1.0 200 O\x02K\r\n", -EPROTO},
        {"RTSP/4.0 200 OK\r\n", -EPROTONOSUPPORT},
        {"OPTIONS * RTSP/1.0\r\n folded\r\n\r\n", -EPROTO},
        {"OPTIONS * RTSP/1.0\r\nCSeq\r\n\r\n", -EPROTO},
        {"OPTIONS * RTSP/1.0\r\nCSeq : 1\r\n\r\n", -EPROTO},
        {"OPTIONS * RTSP/1.0\r\n: 1\r\n\r\n", -EPROTO},
        {"OPTIONS * RTSP/1.0\r\nA: 1\rB: 2\r\n\r\n", -EPROTO},
        {"OPTIONS * RTSP/1.0\r\nA: \x01\r\n\r\n", -EPROTO},
        {"OPTIONS * RTSP/1.0\r\nContent-Length: -1\r\n\r\n", -EPROTO},
        {"OPTIONS * RTSP/1.0\r\nContent-Length: 1x\r\n\r\n", -EPROTO},
        {"OPTIONS * RTSP/1.0\r\nContent-Length:\r\n\r\n", -EPROTO},
        {"OPTIONS * RTSP/1.0\r\nContent-Length: 1\r\ncontent-length: 2\r\n\r\n", -EPROTO},
        {"OPTIONS * RTSP/1.0\r\nContent-Length: 9223372036854775808\r\n\r\n", -EPROTO},
        {"OPTIONS * RTSP/1.0\r\nContent-Length: 9223372036854775807\r\n\r\n", -EFBIG},
        {"OPTIONS * RTSP/1.0\r\nContent-Length: 131073\r\n\r\n", -EFBIG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (result_of(NULL, cases[i].text) != cases[i].result)
            fail_msg("%s: %d", cases[i].text, whole.result);
    assert_int_equal(result_of(NULL, "PLAY * RTSP/1.0\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab"), 0);
    assert_int_equal(whole.count, 1);
    assert_int_equal(result_of(NULL, "PLAY * RTSP/1.0\r\nContent-Length: 131072\r\n\r\n"), 0);
    assert_int_equal(whole.count, 0);

    static const struct {
        int error;
        unsigned status;
    } answers[] = {{-EPROTO, 400},       {-EMSGSIZE, 400},        {-EFBIG, 413},
                   {-ENAMETOOLONG, 414}, {-EPROTONOSUPPORT, 505}, {-ENOMEM, 503}};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        assert_int_equal(sluice_rtsp_error_status(answers[i].error), answers[i].status);
}

/* Every limit is reached and exceeded by one. */
static void limits_are_exact(void **state) {
    (void)state;
    static const char text[] = "PLAY abcdef RTSP/1.0\r\nAbc: 1 \r\n 34\r\nContent-Length: 3\r\n\r\nxyz";
    const uint32_t head = sizeof text - 4;
    const struct {
        sluice_rtsp_options limits;
        int result;
    } cases[] = {
        {{sizeof(sluice_rtsp_options), head, 6, 3, 14, 7, 3, 0, 0}, 0},
        {{sizeof(sluice_rtsp_options), head - 1, 6, 3, 14, 7, 3, 0, 0}, -EMSGSIZE},
        {{sizeof(sluice_rtsp_options), head, 5, 3, 14, 7, 3, 0, 0}, -ENAMETOOLONG},
        {{sizeof(sluice_rtsp_options), head, 6, 2, 14, 7, 3, 0, 0}, -EMSGSIZE},
        {{sizeof(sluice_rtsp_options), head, 6, 3, 13, 7, 3, 0, 0}, -EMSGSIZE},
        {{sizeof(sluice_rtsp_options), head, 6, 3, 14, 6, 3, 0, 0}, -EMSGSIZE},
        {{sizeof(sluice_rtsp_options), head, 6, 3, 14, 7, 2, 0, 0}, -EFBIG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (result_of(&cases[i].limits, text) != cases[i].result)
            fail_msg("case %zu: %d", i, whole.result);
        assert_int_equal(whole.count, cases[i].result == 0);
    }

    /* A method and a line without an end. */
    char line[4096];
    memset(line, 'M', sizeof line);
    strcpy(line + SLUICE_RTSP_MAX_METHOD, " * RTSP/1.0\r\n\r\n");
    assert_int_equal(result_of(NULL, line), 0);
    assert_int_equal(whole.count, 1);
    strcpy(line + SLUICE_RTSP_MAX_METHOD, "M * RTSP/1.0\r\n\r\n");
    assert_int_equal(result_of(NULL, line), -EPROTO);
    const size_t most = SLUICE_RTSP_MAX_METHOD + 2048 + 12;
    memset(line, 'M', sizeof line);
    line[most] = '\0';
    assert_int_equal(result_of(NULL, line), -ENAMETOOLONG);
    line[most - 1] = '\0';
    assert_int_equal(result_of(NULL, line), 0);

    sluice_rtsp *rtsp = NULL;
    assert_int_equal(
        sluice_rtsp_new(&(sluice_rtsp_options){.size = sizeof(sluice_rtsp_options), .max_head = (1 << 20) + 1}, &rtsp),
        -EINVAL);
    assert_int_equal(
        sluice_rtsp_new(&(sluice_rtsp_options){.size = sizeof(sluice_rtsp_options), .max_url = (1 << 20) + 1}, &rtsp),
        -EINVAL);
    assert_int_equal(
        sluice_rtsp_new(&(sluice_rtsp_options){.size = sizeof(sluice_rtsp_options), .max_headers = 10001}, &rtsp),
        -EINVAL);
    assert_null(rtsp);
    sluice_rtsp_free(NULL);
}

/* Whether a body is accepted can be decided when the head has come; one that is not is never
 * held. */
static void a_head_comes_before_its_body(void **state) {
    (void)state;
    static const char head[] = "ANNOUNCE rtsp://h/a RTSP/1.0\r\nCSeq: 7\r\nContent-Length: 9000\r\n\r\n";
    static const char next[] = "OPTIONS * RTSP/1.0\r\nCSeq: 8\r\n\r\n";
    const size_t body = 9000;
    char bytes[9000];
    memset(bytes, '$', sizeof bytes);
    sluice_pool *pool = http_feed_pool(512, 512);
    for (int wanted = 0; wanted < 2; wanted++) {
        sluice_chain *chain = http_feed_chain(pool);
        sluice_rtsp *rtsp;
        sluice_rtsp_message *message;
        assert_int_equal(sluice_rtsp_new(NULL, &rtsp), 0);
        http_feed_bytes(pool, chain, head, sizeof head - 2);
        assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 0);
        assert_null(sluice_rtsp_head(rtsp));
        sluice_rtsp_drop_body(rtsp);
        http_feed_bytes(pool, chain, head + sizeof head - 2, 1);
        assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 0);
        const sluice_rtsp_message *seen = sluice_rtsp_head(rtsp);
        assert_non_null(seen);
        assert_int_equal(seen->method_id, SLUICE_RTSP_ANNOUNCE);
        assert_int_equal(seen->cseq, 7);
        assert_int_equal(seen->body_length, body);
        assert_int_equal(sluice_slice_length(&seen->payload), 0);
        assert_memory_equal(seen->url.text, "rtsp://h/a", seen->url.length);
        if (!wanted)
            sluice_rtsp_drop_body(rtsp);
        for (size_t done = 0; done < body; done += 100) {
            http_feed_bytes(pool, chain, bytes, 100);
            /* Less than is needed: it is held, or dropped at once. */
            bool last = done + 100 == body;
            assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), wanted && last);
            if (!wanted)
                assert_int_equal(sluice_chain_length(chain), 0);
        }
        assert_null(sluice_rtsp_head(rtsp));
        if (wanted) {
            assert_int_equal(message->cseq, 7);
            assert_int_equal(message->body_length, body);
            assert_int_equal(sluice_slice_length(&message->payload), body);
        }
        http_feed_bytes(pool, chain, next, sizeof next - 1);
        assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 1);
        assert_int_equal(message->cseq, 8);
        assert_int_equal(message->body_length, 0);
        assert_int_equal(message->skipped, 0);
        sluice_rtsp_free(rtsp);
        sluice_chain_free(chain);
    }
    http_feed_pool_done(pool);
}

/* One that is answered much later holds no block until then; a payload that was kept is its
 * keeper's. */
static void a_message_is_given_back(void **state) {
    (void)state;
    static const char head[] = "ANNOUNCE rtsp://h/a RTSP/1.0\r\nCSeq: 7\r\nContent-Length: 900\r\n\r\n";
    char bytes[900];
    memset(bytes, 'v', sizeof bytes);
    sluice_pool *pool = http_feed_pool(512, 64);
    sluice_pool_stats stats = {.size = sizeof stats};
    for (int kept = 0; kept < 2; kept++) {
        sluice_chain *chain = http_feed_chain(pool);
        sluice_rtsp *rtsp;
        sluice_rtsp_message *message;
        sluice_slice payload = {0};
        assert_int_equal(sluice_rtsp_new(NULL, &rtsp), 0);
        sluice_rtsp_release(rtsp);
        http_feed_bytes(pool, chain, head, sizeof head - 1);
        http_feed_bytes(pool, chain, bytes, sizeof bytes);
        assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 1);
        sluice_pool_get_stats(pool, &stats);
        assert_int_equal(stats.held, 3);
        if (kept)
            assert_int_equal(sluice_slice_take(&message->payload, &payload), 0);
        sluice_rtsp_release(rtsp);
        sluice_rtsp_release(rtsp);
        sluice_pool_get_stats(pool, &stats);
        assert_int_equal(stats.held, kept ? 2 : 0);
        /* In the middle of a message it changes nothing. */
        http_feed_bytes(pool, chain, head, sizeof head - 1);
        assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 0);
        sluice_rtsp_release(rtsp);
        assert_non_null(sluice_rtsp_head(rtsp));
        http_feed_bytes(pool, chain, bytes, sizeof bytes);
        assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 1);
        assert_int_equal(message->cseq, 7);
        assert_int_equal(sluice_slice_length(&message->payload), sizeof bytes);
        sluice_slice_release(&payload);
        sluice_rtsp_free(rtsp);
        sluice_chain_free(chain);
    }
    http_feed_pool_done(pool);
}

static void stray_line_ends(void **state) {
    (void)state;
    char text[256];
    for (int n = 0; n <= SLUICE_RTSP_MAX_EMPTY + 1; n++) {
        memset(text, '\n', (size_t)n);
        for (int i = 0; i < n; i += 2)
            text[i] = '\r';
        strcpy(text + n, "OPTIONS * RTSP/1.0\r\n\r\n");
        assert_int_equal(result_of(NULL, text), n <= SLUICE_RTSP_MAX_EMPTY ? 0 : -EPROTO);
        assert_int_equal(whole.count, n <= SLUICE_RTSP_MAX_EMPTY);
        if (whole.count > 0)
            assert_non_null(strstr(whole.text, "skipped=0\n"));
    }
}

/*
 * Bytes that belong to no message. Without a limit for them they are an error; with one they are
 * skipped, and said: up to the "$" that begins a frame (0x24, not "36", nor any other byte), or a
 * start line.
 */
static void rtsp_resync_looks_for_the_right_byte(void **state) {
    (void)state;
    const sluice_rtsp_options skipping = {.size = sizeof skipping, .max_skip = 1000, .channels = 2};
    char bytes[1024];
    size_t n = 0;
    for (int c = 0; c < 256; c++)
        if (c != '$')
            bytes[n++] = (char)c;
    memcpy(bytes + n, "36$36$$24", 9);
    n += 9;
    const size_t garbage = n;
    const struct {
        const char *message;
        size_t length;
        const char *said;
    } cases[] = {
        {"$\1\0\2\x80\x60$", 7, "kind=2\n"},
        {"$\0\0\1\x80OPTIONS", 12, "kind=2\n"},
        {"$\1\0\3\x81\xc8\xff\r\n", 9, "kind=2\n"},
        {"RTSP/1.0 200 OK\r\n\r\n", 19, "kind=1\n"},
        {"GET_PARAMETER * RTSP/1.0\r\n\r\n", 28, "kind=0\n"},
    };
    sluice_pool *pool = http_feed_pool(4096, 512);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(bytes + garbage, cases[i].message, cases[i].length);
        n = garbage + cases[i].length;
        run_pieces(pool, NULL, bytes, n, &HTTP_FEED_WHOLE, &whole);
        assert_int_equal(whole.result, -EPROTO);
        assert_int_equal(whole.count, 0);
        run_pieces(pool, &skipping, bytes, n, &HTTP_FEED_WHOLE, &whole);
        char said[64];
        snprintf(said, sizeof said, "%sskipped=%zu\n", cases[i].said, garbage);
        assert_int_equal(whole.result, 0);
        assert_int_equal(whole.count, 1);
        assert_memory_equal(whole.text, said, strlen(said));
        for (size_t cut = 0; cut <= n; cut++) {
            run_pieces(pool, &skipping, bytes, n, &(http_feed_cuts){1, {cut}}, &other);
            assert_same(bytes, n);
        }
        run_pieces(pool, &skipping, bytes, n, &HTTP_FEED_BYTEWISE, &other);
        assert_same(bytes, n);
        /* The limit is exact. */
        const sluice_rtsp_options exact = {.size = sizeof exact, .max_skip = (uint32_t)garbage, .channels = 2};
        run_pieces(pool, &exact, bytes, n, &HTTP_FEED_BYTEWISE, &whole);
        assert_int_equal(whole.count, 1);
        const sluice_rtsp_options less = {.size = sizeof less, .max_skip = (uint32_t)garbage - 1, .channels = 2};
        run_pieces(pool, &less, bytes, n, &HTTP_FEED_BYTEWISE, &whole);
        assert_int_equal(whole.result, -EPROTO);
        assert_int_equal(whole.count, 0);
    }
    http_feed_pool_done(pool);
}

/* What only looks like a frame or a start line is not taken for one. */
static void resync_is_not_deceived(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        size_t skipped;
    } cases[] = {
        /* a channel that nobody has set up */
        {"\1$\2\0\1\x80$", 7, 0},
        {"\1$\0\0\1\x40$", 7, 0}, /* no RTP */
        /* an empty frame proves nothing */
        {"\1$\0\0\0$\0\0\1\x80$", 11, 5},
        /* nothing begins behind it */
        {"\1$\0\0\1\x80x$\0\0\1\x80$", 13, 7},
        /* a line that does not end */
        {"\1PLAY RTSP/1.0 x$\0\0\1\x80\r", 22, 0},
        {"\1PLAY x\r\nRTSP/1.0 x\r\n$\0\0\1\x80\r", 27, 21},            /* lines that are none */
        {"\1RTSP/7.0 200 OK\r\n$\0\0\1\x80\r", 24, 18},                 /* another version */
        {"PLAY x RTSP/1.0\r\nCamera says\r\n\r\n$\0\0\1\x80$", 38, 32}, /* a head that is none */
    };
    const sluice_rtsp_options skipping = {.size = sizeof skipping, .max_skip = 1000, .channels = 2};
    sluice_pool *pool = http_feed_pool(4096, 512);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_pieces(pool, &skipping, cases[i].bytes, cases[i].length, &HTTP_FEED_WHOLE, &whole);
        char said[64];
        snprintf(said, sizeof said, "kind=2\nskipped=%zu\n", cases[i].skipped);
        if (whole.result != 0 || whole.count != (cases[i].skipped > 0) ||
            strncmp(whole.text, whole.count > 0 ? said : "", whole.count > 0 ? strlen(said) : 0) != 0)
            fail_msg("case %zu: %d, %zu messages\n%s", i, whole.result, whole.count, whole.text);
        run_pieces(pool, &skipping, cases[i].bytes, cases[i].length, &HTTP_FEED_BYTEWISE, &other);
        assert_same(cases[i].bytes, cases[i].length);
    }
    /* Only so many looks: each of these frames is looked at as far as its end. */
    char many[(SLUICE_RTSP_MAX_REFUSED + 1) * 6 + 1];
    for (size_t i = 0; i <= SLUICE_RTSP_MAX_REFUSED; i++)
        memcpy(many + i * 6, "$\0\0\1\x80x", 6);
    char bytes[sizeof many + 1] = "\1";
    memcpy(bytes + 1, many, sizeof many - 1);
    run_pieces(pool, &skipping, bytes, sizeof many, &HTTP_FEED_WHOLE, &whole);
    assert_int_equal(whole.result, -EPROTO);
    run_pieces(pool, &skipping, bytes, sizeof many - 6, &HTTP_FEED_WHOLE, &whole);
    assert_int_equal(whole.result, 0);
    http_feed_pool_done(pool);
}

/* Where nothing is said of channels, all 256 of them may be what bytes are skipped up to. */
static void channels_that_frames_are_believed_of(void **state) {
    (void)state;
    static const char last[] = "\1$\xFF\0\1\x80$\0\0\1\x80$";
    const sluice_rtsp_options all = {.size = sizeof all, .max_skip = 100},
                              fewer = {.size = sizeof fewer, .max_skip = 100, .channels = 255};
    const size_t n = sizeof last - 1;
    sluice_pool *pool = http_feed_pool(4096, 512);
    run_pieces(pool, &all, last, n, &HTTP_FEED_WHOLE, &whole);
    assert_int_equal(whole.count, 2);
    assert_memory_equal(whole.text, "kind=2\nskipped=1\n", 17);
    run_pieces(pool, &fewer, last, n, &HTTP_FEED_WHOLE, &whole);
    assert_int_equal(whole.count, 1);
    assert_memory_equal(whole.text, "kind=2\nskipped=6\n", 17);
    http_feed_pool_done(pool);
}

/* A URL over its limit ends a stream; among bytes to skip it is but one more of them. */
static void a_long_start_line_while_skipping_is_skipped(void **state) {
    (void)state;
    static const char bytes[] = "\1PLAY 0123456789012345 RTSP/1.0\r\n$\0\0\1\x80\r";
    const sluice_rtsp_options skipping = {.size = sizeof skipping, .max_skip = 1000, .channels = 2, .max_url = 10};
    const size_t n = sizeof bytes - 1;
    sluice_pool *pool = http_feed_pool(4096, 512);
    run_pieces(pool, &skipping, bytes, n, &HTTP_FEED_WHOLE, &whole);
    assert_int_equal(whole.result, 0);
    assert_int_equal(whole.count, 1);
    assert_memory_equal(whole.text, "kind=2\nskipped=33\n", 18);
    run_pieces(pool, &skipping, bytes, n, &HTTP_FEED_BYTEWISE, &other);
    assert_same(bytes, n);
    run_pieces(pool, &skipping, bytes + 1, n - 1, &HTTP_FEED_WHOLE, &whole);
    assert_int_equal(whole.result, -ENAMETOOLONG);
    http_feed_pool_done(pool);
}

/* A head in one block is read there; nothing is copied, and the block is given back by the next
 * call. */
static void heads_are_read_in_place(void **state) {
    (void)state;
    static const char head[] = "PLAY rtsp://h/a RTSP/1.0\r\nCSeq: 7\r\n\r\n";
    sluice_pool *pool = http_feed_pool(512, 16);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_rtsp *rtsp;
    sluice_rtsp_message *message;
    sluice_pool_stats stats = {.size = sizeof stats};
    assert_int_equal(sluice_rtsp_new(NULL, &rtsp), 0);
    uint8_t *data = sluice_block_data(http_feed_bytes(pool, chain, head, sizeof head - 1));
    assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 1);
    assert_ptr_equal(message->url.text, data + 5);
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.held, 1);
    http_feed_bytes(pool, chain, head, 9);
    http_feed_bytes(pool, chain, head + 9, sizeof head - 10);
    assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 1);
    assert_memory_equal(message->url.text, "rtsp://h/a", 10);
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.held, 0);
    assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 0);
    sluice_rtsp_free(rtsp);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
}

/* Bytes that the search has gone over are not looked at again until the head is whole. */
static void search_is_linear(void **state) {
    (void)state;
    enum { PAGE = 4096, PART = 2000 };
    static char head[PART * 4];
    sluice_pool *pool = http_feed_pool(PAGE, 16);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_rtsp *rtsp;
    sluice_rtsp_message *message;
    uint8_t *sealed[3];
    memset(head, 'x', sizeof head);
    memcpy(head, "PLAY * RTSP/1.0\r\nA: ", 20);
    memcpy(head + sizeof head - 4, "\r\n\r\n", 4);
    assert_int_equal(
        sluice_rtsp_new(&(sluice_rtsp_options){.size = sizeof(sluice_rtsp_options), .max_value = sizeof head}, &rtsp),
        0);
    for (int i = 0; i < 3; i++) {
        sealed[i] = sluice_block_data(http_feed_bytes(pool, chain, head + PART * i, PART));
        assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 0);
        assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 0);
        assert_int_equal(mprotect(sealed[i], PAGE, PROT_NONE), 0);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(mprotect(sealed[i], PAGE, PROT_READ | PROT_WRITE), 0);
    http_feed_bytes(pool, chain, head + PART * 3, PART);
    assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 1);
    assert_int_equal(message->headers[0].value.length, sizeof head - 24);
    sluice_rtsp_free(rtsp);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
}

/* Whoever takes bytes of an unfinished message away makes the search begin again. */
static void the_search_follows_the_chain(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(512, 16);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_rtsp *rtsp;
    sluice_rtsp_message *message;
    assert_int_equal(sluice_rtsp_new(NULL, &rtsp), 0);
    http_feed_bytes(pool, chain, "PLAY * RTSP/1.0\r\nContent-Length: 4\r\n\r\nab", 40);
    assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 0);
    sluice_chain_skip(chain, 38);
    http_feed_bytes(pool, chain, "C * RTSP/1.0\r\n\r\n", 16);
    assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 1);
    assert_int_equal(message->method.length, 3);
    assert_memory_equal(message->method.text, "abC", 3);
    sluice_rtsp_free(rtsp);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
}

/* One change: a byte that matters put over, put in before, or left out; or a run again. */
static size_t mutate(uint64_t *seed, char *bytes, size_t length) {
    static const char telling[] = "$\r\n\0 \t:/?*,;=-5\x7F\x80\xff\1RPO";
    size_t at = http_feed_random(seed) % length;
    char byte = telling[http_feed_random(seed) % (sizeof telling - 1)];
    size_t run;
    switch (http_feed_random(seed) % 4) {
    case 0:
        bytes[at] = byte;
        return length;
    case 1:
        memmove(bytes + at + 1, bytes + at, length - at);
        bytes[at] = byte;
        return length + 1;
    case 2:
        memmove(bytes + at, bytes + at + 1, length - at - 1);
        return length - 1;
    default:
        run = 1 + http_feed_random(seed) % 24;
        run = run < length - at ? run : length - at;
        memmove(bytes + at + run, bytes + at, length - at);
        return length + run;
    }
}

/* Damaged streams give in pieces what they give in one, whether bytes are skipped or not. */
static void damage(void **state) {
    (void)state;
    const sluice_rtsp_options skipping = {.size = sizeof skipping, .max_skip = 300, .channels = 3};
    sluice_pool *pool = http_feed_pool(512, 1024);
    uint64_t seed = 0x9E3779B97F4A7C15;
    size_t refused = 0, skipped = 0;
    char bytes[2048];
    for (int round = 0; round < 20000; round++) {
        size_t length = MIXED;
        memcpy(bytes, mixed, MIXED);
        for (uint64_t i = 1 + http_feed_random(&seed) % 4; i > 0; i--)
            length = mutate(&seed, bytes, length);
        const sluice_rtsp_options *options = round % 2 ? &skipping : NULL;
        run_pieces(pool, options, bytes, length, &HTTP_FEED_WHOLE, &whole);
        http_feed_cuts cuts = http_feed_random_cuts(&seed, length);
        run_pieces(pool, options, bytes, length, &cuts, &other);
        assert_same(bytes, length);
        refused += whole.result < 0;
        for (const char *at = whole.text; (at = strstr(at, "\nskipped=")); at += 9)
            skipped += at[9] != '0';
    }
    assert_true(refused > 2000 && skipped > 2000);
    http_feed_pool_done(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_all_kinds),
        cmocka_unit_test(every_cut_and_pair_of_cuts),
        cmocka_unit_test(frames_between_and_inside_messages),
        cmocka_unit_test(sessions_of_ffmpeg),
        cmocka_unit_test(interleaved_lengths),
        cmocka_unit_test(what_is_malformed_is_refused),
        cmocka_unit_test(limits_are_exact),
        cmocka_unit_test(a_head_comes_before_its_body),
        cmocka_unit_test(a_message_is_given_back),
        cmocka_unit_test(stray_line_ends),
        cmocka_unit_test(rtsp_resync_looks_for_the_right_byte),
        cmocka_unit_test(resync_is_not_deceived),
        cmocka_unit_test(channels_that_frames_are_believed_of),
        cmocka_unit_test(a_long_start_line_while_skipping_is_skipped),
        cmocka_unit_test(heads_are_read_in_place),
        cmocka_unit_test(search_is_linear),
        cmocka_unit_test(the_search_follows_the_chain),
        cmocka_unit_test(damage),
    };
    return cmocka_run_group_tests_name("rtsp", tests, NULL, NULL);
}
