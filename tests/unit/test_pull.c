/* The daemon's pulls without sockets: when they do what, what operators may write, how challenges
 * are answered. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/config/pull_option.h"
#include "daemon/pull/pull_http.h"
#include "daemon/pull/pull_rtmp.h"
#include "daemon/pull/pull_rtsp.h"
#include "daemon/server/outgoing.h"
#include "shared/http_login.h"
#include "shared/rtsp_login.h"
#include "support/http_feed.h"

enum { START = 1000000 };

static void play(struct outgoing *machine, uint64_t now) {
    outgoing_connected(machine, now);
    outgoing_started(machine, now);
}

static void steps_in_order(void **state) {
    (void)state;
    struct outgoing machine;
    outgoing_init(&machine, false, START);
    assert_int_equal(machine.state, OUTGOING_IDLE);
    assert_int_equal(outgoing_tick(&machine, START, false), OUTGOING_CONNECT);
    outgoing_connected(&machine, START);
    assert_int_equal(machine.state, OUTGOING_NEGOTIATING);
    assert_int_equal(outgoing_tick(&machine, START, false), OUTGOING_NOTHING);
    outgoing_started(&machine, START);
    assert_int_equal(machine.state, OUTGOING_ACTIVE);
    assert_int_equal(outgoing_tick(&machine, START, false), OUTGOING_NOTHING);
}

/* Each step alone may take so long, of the connection and of as many as the protocol has. */
static void every_step_has_its_time(void **state) {
    (void)state;
    struct outgoing machine;
    uint64_t now = START;
    outgoing_init(&machine, false, now);
    assert_int_equal(outgoing_tick(&machine, now, false), OUTGOING_CONNECT);
    /* What is no step does not begin its time anew. */
    outgoing_step_begun(&machine, now + 1);
    for (unsigned steps = 0; steps < 6; steps++) {
        struct outgoing late = machine;
        assert_int_equal(outgoing_tick(&machine, now + OUTGOING_STEP_MS - 1, false), OUTGOING_NOTHING);
        assert_int_equal(outgoing_tick(&late, now + OUTGOING_STEP_MS, false), OUTGOING_GIVE_UP);
        outgoing_failed(&late, now + OUTGOING_STEP_MS, 0);
        assert_int_equal(late.state, OUTGOING_BACKOFF);
        now += OUTGOING_STEP_MS - 1;
        if (steps == 0)
            outgoing_connected(&machine, now);
        else
            outgoing_step_begun(&machine, now);
        assert_int_equal(machine.state, OUTGOING_NEGOTIATING);
    }
}

static void waits_longer_each_time(void **state) {
    (void)state;
    static const uint64_t least[] = {1000, 2000, 4000, 8000, 16000, 24000, 24000, 24000};
    struct outgoing machine;
    uint64_t now = START;
    outgoing_init(&machine, false, now);
    assert_int_equal(outgoing_tick(&machine, now, false), OUTGOING_CONNECT);
    for (size_t i = 0; i < sizeof least / sizeof *least; i++) {
        struct outgoing other = machine;
        outgoing_failed(&other, now, UINT32_MAX);
        assert_in_range(other.retry_at - now, least[i], least[i] + least[i] / 4);
        outgoing_failed(&machine, now, 0);
        assert_int_equal(machine.retry_at - now, least[i]);
        now = machine.retry_at;
        assert_int_equal(outgoing_tick(&machine, now - 1, false), OUTGOING_NOTHING);
        assert_int_equal(outgoing_tick(&machine, now, false), OUTGOING_CONNECT);
    }
    /* One that plays for a moment only is no better. */
    play(&machine, now);
    outgoing_failed(&machine, now + OUTGOING_STABLE_MS - 1, 0);
    assert_int_equal(machine.retry_at - machine.since, 24000);
    now = machine.retry_at;
    assert_int_equal(outgoing_tick(&machine, now, false), OUTGOING_CONNECT);
    play(&machine, now);
    outgoing_failed(&machine, now + OUTGOING_STABLE_MS, 0);
    assert_int_equal(machine.retry_at - machine.since, 1000);
    assert_int_equal(machine.failures, 1);
}

static void silence_and_keep_alive(void **state) {
    (void)state;
    struct outgoing machine;
    outgoing_init(&machine, false, START);
    outgoing_tick(&machine, START, false);
    outgoing_connected(&machine, START);
    outgoing_set_timeout(&machine, 8);
    outgoing_started(&machine, START);
    assert_int_equal(outgoing_tick(&machine, START + 3999, false), OUTGOING_NOTHING);
    assert_int_equal(outgoing_tick(&machine, START + 4000, false), OUTGOING_KEEP_ALIVE);
    assert_int_equal(outgoing_tick(&machine, START + 7999, false), OUTGOING_NOTHING);
    assert_int_equal(outgoing_tick(&machine, START + 8000, false), OUTGOING_KEEP_ALIVE);
    outgoing_media(&machine, START + 9000);
    /* To be asked is not to be silent; only media count. */
    assert_int_equal(outgoing_tick(&machine, START + 18999, false), OUTGOING_KEEP_ALIVE);
    assert_int_equal(outgoing_tick(&machine, START + 19000, false), OUTGOING_GIVE_UP);
}

/* A peer that has not said how long its sessions last is not asked, however long it plays. */
static void nobody_is_kept_alive_unasked(void **state) {
    (void)state;
    struct outgoing machine;
    outgoing_init(&machine, false, START);
    outgoing_tick(&machine, START, false);
    play(&machine, START);
    for (uint64_t days = 0; days < 200; days++) {
        const uint64_t now = START + days * 86400000;
        outgoing_media(&machine, now);
        assert_int_equal(outgoing_tick(&machine, now, false), OUTGOING_NOTHING);
    }
}

static void on_demand(void **state) {
    (void)state;
    struct outgoing machine;
    outgoing_init(&machine, true, START);
    assert_int_equal(outgoing_tick(&machine, START + 100000, false), OUTGOING_NOTHING);
    uint64_t now = START + 100001;
    assert_int_equal(outgoing_wanted(&machine, now), OUTGOING_CONNECT);
    assert_int_equal(outgoing_wanted(&machine, now), OUTGOING_NOTHING);
    play(&machine, now);
    outgoing_media(&machine, now + OUTGOING_LINGER_MS);
    assert_int_equal(outgoing_tick(&machine, now + OUTGOING_LINGER_MS, true), OUTGOING_NOTHING);
    assert_int_equal(outgoing_tick(&machine, now + 2 * OUTGOING_LINGER_MS - 1, false), OUTGOING_NOTHING);
    assert_int_equal(outgoing_tick(&machine, now + 2 * OUTGOING_LINGER_MS, false), OUTGOING_LEAVE);
    assert_int_equal(machine.state, OUTGOING_IDLE);
    /* Whoever waits makes it try again and again; nobody, and it gives in. */
    now += 3 * OUTGOING_LINGER_MS;
    assert_int_equal(outgoing_tick(&machine, now, true), OUTGOING_CONNECT);
    outgoing_failed(&machine, now, 0);
    assert_int_equal(outgoing_wanted(&machine, now), OUTGOING_NOTHING);
    assert_int_equal(outgoing_tick(&machine, now + 1000, true), OUTGOING_CONNECT);
    outgoing_failed(&machine, now + 1000, 0);
    assert_int_equal(outgoing_tick(&machine, now + 1000 + OUTGOING_LINGER_MS, false), OUTGOING_LEAVE);
    assert_int_equal(machine.failures, 0);
    outgoing_stop(&machine, now);
    assert_int_equal(outgoing_tick(&machine, now + 100000, true), OUTGOING_NOTHING);
    assert_int_equal(outgoing_wanted(&machine, now), OUTGOING_NOTHING);
    /* What was to pull in this one's place does not. */
    outgoing_resume(&machine, now + 100000);
    assert_int_equal(outgoing_tick(&machine, now + 100000, false), OUTGOING_NOTHING);
    assert_int_equal(outgoing_wanted(&machine, now + 100000), OUTGOING_CONNECT);
}

static void redirects_are_bounded(void **state) {
    (void)state;
    struct outgoing machine;
    outgoing_init(&machine, false, START);
    outgoing_tick(&machine, START, false);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < OUTGOING_REDIRECTS; i++) {
            outgoing_connected(&machine, START);
            assert_int_equal(outgoing_redirected(&machine, START), 0);
            assert_int_equal(machine.state, OUTGOING_CONNECTING);
        }
        assert_int_equal(outgoing_redirected(&machine, START), -ELOOP);
        outgoing_failed(&machine, START, 0);
        assert_int_equal(outgoing_tick(&machine, START + 30000, false), OUTGOING_CONNECT);
    }
}

static void options_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text, *url, *host, *place, *user, *password, *name;
        int port;
        bool on_demand;
    } rows[] = {
        {"rtsp://h/a=live/x", "rtsp://h/a", "h", "rtsp://h:554", "", "", "live/x", 554, false},
        {"rtsp://h:8554/a?b=c,d=e=live/x,on-demand", "rtsp://h:8554/a?b=c,d=e", "h", "rtsp://h:8554", "", "", "live/x",
         8554, true},
        {"rtsp://u:p%40%3a%3D@h/a =x", "rtsp://h/a", "h", "rtsp://h:554", "u", "p@:=", "x", 554, false},
        {"rtsp://admin@[::1]:99/a \t=x", "rtsp://[::1]:99/a", "::1", "rtsp://[::1]:99", "admin", "", "x", 99, false},
        {"RTSP://h/user=admin&password=&c=1=x", "rtsp://h/user=admin&password=&c=1", "h", "rtsp://h:554", "", "", "x",
         554, false},
        {"rtsp://h=x", "rtsp://h", "h", "rtsp://h:554", "", "", "x", 554, false},
        {"HTTP://u:p%3Ap@h/a.flv?b=c=live/x,on-demand", "http://h/a.flv?b=c", "h", "http://h:80", "u", "p:p", "live/x",
         80, true},
        {"rtmp://u:p@h/app/a/b?c=d=x", "rtmp://h/app/a/b?c=d", "h", "rtmp://h:1935", "u", "p", "x", 1935, false},
        {"http://[::1]:8080?b=x", "http://[::1]:8080?b", "::1", "http://[::1]:8080", "", "", "x", 8080, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pull_options options = {0};
        assert_null(pull_options_add(&options, rows[i].text));
        const struct pull_option *option = &options.list[0];
        assert_string_equal(option->target.url, rows[i].url);
        assert_string_equal(option->target.host, rows[i].host);
        assert_string_equal(option->target.place, rows[i].place);
        assert_string_equal(option->user, rows[i].user);
        assert_string_equal(option->password, rows[i].password);
        assert_string_equal(option->name, rows[i].name);
        assert_int_equal(option->target.port, rows[i].port);
        assert_int_equal(option->has_user, *rows[i].user != '\0');
        assert_int_equal(option->on_demand, rows[i].on_demand);
        assert_string_equal(pull_options_add(&options, rows[i].text), "a second pull of that name");
        assert_int_equal(options.count, 1);
        pull_options_clear(&options);
    }
}

static void wrong_options_are_refused(void **state) {
    (void)state;
    char long_url[4096], long_user[256];
    snprintf(long_url, sizeof long_url, "rtsp://h/%03000d=x", 0);
    snprintf(long_user, sizeof long_user, "rtsp://%0129d:p@h/a=x", 0);
    const char *const texts[] = {
        "",
        "=",
        "=x",
        "rtsp://h/a",
        "rtsp://h/a=",
        "rtsp://h/a=.x",
        "h/a=x",
        "/a=x",
        "httpss://h/a=x",
        "http:h/a=x",
        "rtmps://h/b=x",
        "rtmp://h/a=x",
        "rtmp://h/a/=x",
        "http://h:70000/a=x",
        "rtspss://h/a=x",
        "rtspu://h/a=x",
        "rtsp://:1/a=x",
        "rtsp://=x",
        ",on-demand",
        "rtsp://h/a b=x",
        "rtsp://h:0x/a=x",
        "rtsp://h:65536/a=x",
        "rtsp://[::1/a=x",
        "rtsp://[::1]1/a=x",
        "rtsp:/h/a=x",
        "rtsp://h/a=api/x",
        "rtsp://u%0a:p@h/a=x",
        "rtsp://u%22:p@h/a=x",
        "rtsp://:p@h/a=x",
        "rtsp://u:%0d@h/a=x",
        "rtsp://h/a=x,always",
        long_url,
        long_user,
    };
    struct pull_options options = {0};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!pull_options_add(&options, texts[i]))
            fail_msg("taken: %s", texts[i]);
    assert_int_equal(options.count, 0);
    char text[64];
    for (int i = 0; i < PULLS_MAX; i++) {
        snprintf(text, sizeof text, "rtsp://h/a=x%d", i);
        assert_null(pull_options_add(&options, text));
    }
    assert_non_null(pull_options_add(&options, "rtsp://h/a=x"));
    assert_string_equal(options.list[PULLS_MAX - 1].name, "x999");
    pull_options_clear(&options);
}

static void files_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text, *wrong;
        mode_t mode;
    } rows[] = {{"# cameras\n\nrtsp://u:secret@h/a =x\r\nrtsp://h/b=y,on-demand", NULL, 0600},
                {"rtsp://u:secret@h/a=x\n", "others may read it", 0640},
                {"rtsp://u:secret@h/a=x\n\nrtsp://u:secret@h/b\n", ":3: expected URL=NAME", 0600}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[] = "/tmp/test_pull.XXXXXX", error[SECRET_FILE_ERROR] = "";
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, rows[i].text, strlen(rows[i].text)), strlen(rows[i].text));
        assert_int_equal(fchmod(fd, rows[i].mode), 0);
        close(fd);
        struct pull_options options = {0};
        int result = pull_options_load(&options, path, error);
        assert_int_equal(result, rows[i].wrong ? -EINVAL : 0);
        if (rows[i].wrong)
            assert_non_null(strstr(error, rows[i].wrong));
        else
            assert_int_equal(options.count, 2);
        assert_null(strstr(error, "secret"));
        pull_options_clear(&options);
        unlink(path);
    }
}

static void control_urls(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"rtsp://h/a", "trackID=0", "rtsp://h/a/trackID=0"},
        {"rtsp://h/a/", "trackID=0", "rtsp://h/a/trackID=0"},
        {"rtsp://h/a", "", "rtsp://h/a"},
        {"rtsp://h/a/", "*", "rtsp://h/a/"},
        {"rtsp://h/a", "/b", "rtsp://h/a/b"},
        {"rtsp://h/a", "RTSP://i/b", "RTSP://i/b"},
        {"rtsp://h/a?b=c", "t", "rtsp://h/a?b=c/t"},
    };
    char url[PULL_URL + 1] = "before", text[PULL_URL + 1];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const sluice_http_text control = {rows[i][1], strlen(rows[i][1])};
        assert_int_equal(rtsp_control_url(rows[i][0], control, url), 0);
        assert_string_equal(url, rows[i][2]);
    }
    memset(text, 'a', sizeof text);
    assert_int_equal(rtsp_control_url("rtsp://h", (sluice_http_text){text, sizeof text}, url), -EMSGSIZE);
    assert_string_equal(url, rows[6][2]);
}

/* What is made of a 401 with these headers; then the Authorization line, where there is one. */
static int challenge(struct rtsp_login *login, const char *lines, char *line, size_t size) {
    sluice_pool *pool = http_feed_pool(4096, 64);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_rtsp *rtsp;
    sluice_rtsp_message *message;
    char text[2048];
    snprintf(text, sizeof text, "RTSP/1.0 401 Unauthorized\r\nCSeq: 1\r\n%s\r\n", lines);
    assert_int_equal(sluice_rtsp_new(NULL, &rtsp), 0);
    http_feed_bytes(pool, chain, text, strlen(text));
    assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 1);
    int result = rtsp_login_take(login, message->headers, message->header_count);
    sluice_rtsp_free(rtsp);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
    line[0] = '\0';
    if (result < 0)
        return result;
    char value[RTSP_LOGIN_VALUE];
    const char url[] = "rtsp://h/a";
    assert_int_equal(rtsp_login_write(login, "DESCRIBE", (sluice_http_text){url, strlen(url)}, value), 0);
    assert_true(snprintf(line, size, "Authorization: %s", value) < (int)size);
    return 0;
}

#define CHALLENGE(lines) challenge(&login, lines, line, sizeof line)

/* The expected hashes are those of Python's hashlib. */
static void challenges_are_answered(void **state) {
    (void)state;
    static const struct {
        const char *lines, *expected;
    } rows[] = {
        {"WWW-Authenticate: Basic realm=\"r\"\r\n", "Authorization: Basic dTpwOnA="},
        {"WWW-Authenticate: Basic realm=\"r\"\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\"\r\n",
         "Authorization: Digest username=\"u\", realm=\"r\", nonce=\"n\", uri=\"rtsp://h/a\", "
         "response=\"550b4246b3befa16acf52d3435a0d97b\""},
        {"WWW-Authenticate: Digest realm=\"r\", nonce=\"n\", algorithm=MD5\r\n"
         "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\", algorithm=SHA-256, opaque=\"o\"\r\n",
         "Authorization: Digest username=\"u\", realm=\"r\", nonce=\"n\", uri=\"rtsp://h/a\", "
         "response=\"61b1b3bdeea7f017f3db8273a5c3f9de1a950b7b08347957f426c7be1f45881f\", algorithm=SHA-256, "
         "opaque=\"o\""},
    };
    /* Whoever offers Digest does not get the password itself, whether that Digest is known or
     * not. */
    static const char *const downgrades[] = {
        "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth-int\", Basic realm=\"r\"\r\n",
        "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\", algorithm=MD5-sess\r\nWWW-Authenticate: Basic realm=x\r\n",
        "WWW-Authenticate: Basic realm=x\r\nWWW-Authenticate: Digest realm=\"r\"\r\n",
    };
    char line[1024];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rtsp_login login = {.user = "u", .password = "p:p"};
        assert_int_equal(CHALLENGE(rows[i].lines), 0);
        assert_string_equal(line, rows[i].expected);
    }
    for (size_t i = 0; i < sizeof downgrades / sizeof *downgrades; i++) {
        struct rtsp_login login = {.user = "u", .password = "p:p"};
        assert_int_equal(CHALLENGE(downgrades[i]), -EPROTO);
        assert_int_equal(CHALLENGE(rows[0].lines), -EPROTO);
        rtsp_login_begin(&login);
        assert_int_equal(CHALLENGE(rows[0].lines), -EPROTO);
        assert_int_equal(CHALLENGE(rows[1].lines), 0);
    }
    struct rtsp_login login = {.user = "u", .password = "p:p"};
    assert_int_equal(CHALLENGE("WWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth-int, auth\"\r\n"), 0);
    assert_non_null(strstr(line, ", qop=auth, nc=00000001, cnonce=\""));
    login = (struct rtsp_login){0};
    assert_int_equal(CHALLENGE(rows[0].lines), -ENOKEY);
}

/* The longest texts of all, and the line around them. */
static void credentials_have_room(void **state) {
    static char url[RTSP_URL + 1], realm[RTSP_LOGIN_REALM + 1], nonce[RTSP_LOGIN_NONCE + 1], user[RTSP_LOGIN_USER + 1];
    char value[RTSP_LOGIN_VALUE], header[HTTP_LOGIN_HEADER];
    (void)state;
    memset(url, 'u', RTSP_URL);
    memset(realm, 'r', RTSP_LOGIN_REALM);
    memset(nonce, 'n', RTSP_LOGIN_NONCE);
    memset(user, 'n', RTSP_LOGIN_USER);
    struct rtsp_login login = {.user = user,
                               .password = user,
                               .scheme = RTSP_LOGIN_DIGEST,
                               .sha256 = true,
                               .has_algorithm = true,
                               .qop = true};
    const sluice_http_text uri = {url, RTSP_URL};
    login.has_opaque = true;
    memcpy(login.realm, realm, sizeof realm);
    memcpy(login.nonce, nonce, sizeof nonce);
    memcpy(login.opaque, nonce, sizeof nonce);
    memset(login.cnonce, 'c', RTSP_LOGIN_CNONCE);
    assert_int_equal(rtsp_login_write(&login, "POST", uri, value), 0);
    assert_non_null(strstr(value, ", nc=00000001, cnonce=\"cccc"));
    assert_int_equal(http_login_write(&login, "POST", uri, header), 0);
    assert_string_equal(header + strlen(header) - 2, "\r\n");
    login.scheme = RTSP_LOGIN_BASIC;
    assert_int_equal(http_login_write(&login, "POST", uri, header), 0);
    login.scheme = RTSP_LOGIN_NONE;
    assert_int_equal(http_login_write(&login, "POST", uri, header), 0);
    assert_string_equal(header, "");
}

static void a_nonce_is_answered_once(void **state) {
    (void)state;
    char line[1024];
    struct rtsp_login login = {.user = "u", .password = "p"};
    assert_int_equal(CHALLENGE("WWW-Authenticate: Digest realm=\"r\", nonce=\"1\"\r\n"), 0);
    assert_int_equal(CHALLENGE("WWW-Authenticate: Digest realm=\"r\", nonce=\"1\"\r\n"), -EACCES);
    assert_int_equal(CHALLENGE("WWW-Authenticate: Digest realm=\"r\", nonce=\"2\"\r\n"), -EACCES);
    assert_int_equal(CHALLENGE("WWW-Authenticate: Digest realm=\"r\", nonce=\"1\", stale=true\r\n"), -EACCES);
    assert_int_equal(CHALLENGE("WWW-Authenticate: Digest realm=\"r\", nonce=\"2\", stale=true\r\n"), 0);
    assert_int_equal(CHALLENGE("WWW-Authenticate: Digest realm=\"r\", nonce=\"3\", stale=true\r\n"), 0);
    assert_int_equal(CHALLENGE("WWW-Authenticate: Digest realm=\"r\", nonce=\"4\", stale=true\r\n"), -EACCES);
    /* The next request may be challenged anew, by servers whose nonces are good for one. */
    rtsp_login_begin(&login);
    assert_int_equal(CHALLENGE("WWW-Authenticate: Digest realm=\"r\", nonce=\"3\"\r\n"), -EACCES);
    assert_int_equal(CHALLENGE("WWW-Authenticate: Digest realm=\"r\", nonce=\"5\"\r\n"), 0);
    assert_int_equal(CHALLENGE("WWW-Authenticate: Basic realm=\"r\"\r\n"), -EPROTO);
    login = (struct rtsp_login){.user = "u", .password = "p"};
    assert_int_equal(CHALLENGE("WWW-Authenticate: Basic realm=\"r\"\r\n"), 0);
    rtsp_login_begin(&login);
    assert_int_equal(CHALLENGE("WWW-Authenticate: Basic realm=\"r\"\r\n"), -EACCES);
    login = (struct rtsp_login){.user = "u", .password = "p"};
    assert_int_equal(CHALLENGE(""), -EOPNOTSUPP);
    assert_int_equal(CHALLENGE("WWW-Authenticate: Bearer realm=\"r\"\r\n"), -EOPNOTSUPP);
    assert_int_equal(CHALLENGE("WWW-Authenticate: Digest realm=\"r\"\r\n"), -EOPNOTSUPP);
    assert_int_equal(CHALLENGE("WWW-Authenticate: Digest nonce=\"n\", algorithm=SHA-1\r\n"), -EOPNOTSUPP);
}

/* What selects a protocol is the scheme, whole and in any case. */
static void types_by_scheme(void **state) {
    (void)state;
    static const struct {
        const char *url;
        const struct pull_type *type;
    } rows[] = {{"rtsp://h/x", &pull_rtsp},  {"RtSp:", &pull_rtsp},
                {"Http:", &pull_http},       {"https://h/x", &pull_http},
                {"rtmps://h/x", &pull_rtmp}, {"RTSPS://h/x", &pull_rtsp},
                {"rtspss://h/x", NULL},      {"rts://h/x", NULL},
                {"rtmp://h/x", &pull_rtmp},  {"://h/x", NULL},
                {"rtsp", &pull_rtsp},        {"", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_ptr_equal(pull_type_find(rows[i].url, strlen(rows[i].url)), rows[i].type);
}

/* TLS has ports and schemes of its own. */
static void secure_targets(void **state) {
    (void)state;
    static const struct {
        const char *text, *url, *place;
        bool is_secure;
    } rows[] = {
        {"rtsps://u:p@h/a=x", "rtsps://h/a", "rtsps://h:322", true},
        {"RTMPS://h/a/b=x", "rtmps://h/a/b", "rtmps://h:443", true},
        {"https://h/a=x", "https://h/a", "https://h:443", true},
        {"https://[::1]:8443/a=x", "https://[::1]:8443/a", "https://[::1]:8443", true},
        {"http://h/a=x", "http://h/a", "http://h:80", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pull_options options = {0};
        assert_null(pull_options_add(&options, rows[i].text));
        assert_string_equal(options.list[0].target.url, rows[i].url);
        assert_string_equal(options.list[0].target.place, rows[i].place);
        assert_int_equal(options.list[0].target.is_secure, rows[i].is_secure);
        pull_options_clear(&options);
    }
}

/* What is written is read as the same pull, whatever the password holds. */
static void written_as_read(void **state) {
    (void)state;
    static const char *const rows[] = {
        "rtsp://h/a=x",
        "RTSP://H:8554=live/x,on-demand",
        "rtsp://[::1]:1/a?b=c,on-demand=x",
        "http://u:p@h/a.flv?b=c&d=x",
        "https://u:p@h/a.flv?b=c&d=x",
        "rtsp://u@h/a=x",
        "rtsp://u:p@h/a?x=y=x,on-demand",
        "rtsp://u%20%40:%3A%40%2F%25%3d%c3%bc%22,on-demand@h/a=x",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pull_options options = {0}, again = {0};
        char text[PULL_OPTION_TEXT];
        assert_null(pull_options_add(&options, rows[i]));
        pull_option_format(&options.list[0], text);
        assert_null(pull_options_add(&again, text));
        assert_true(pull_options_equal(&options, &again));
        pull_options_clear(&options);
        pull_options_clear(&again);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_by_scheme),
        cmocka_unit_test(secure_targets),
        cmocka_unit_test(written_as_read),
        cmocka_unit_test(steps_in_order),
        cmocka_unit_test(every_step_has_its_time),
        cmocka_unit_test(waits_longer_each_time),
        cmocka_unit_test(silence_and_keep_alive),
        cmocka_unit_test(nobody_is_kept_alive_unasked),
        cmocka_unit_test(on_demand),
        cmocka_unit_test(redirects_are_bounded),
        cmocka_unit_test(options_are_read),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(control_urls),
        cmocka_unit_test(challenges_are_answered),
        cmocka_unit_test(credentials_have_room),
        cmocka_unit_test(a_nonce_is_answered_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
