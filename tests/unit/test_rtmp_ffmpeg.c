/*
 * ffmpeg publishes to a small server made of the library, and plays from it: the handshake with
 * digests, the commands, and every tag, which is as ffmpeg writes it to a file.
 */
#include <sluice/rtmp.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include <sluice/flv.h>
#include <sluice/pool.h>

#include "support/feed.h"
#include "support/slices.h"

enum {
    GUARD = 120,
    CANNOT_RUN = 77,
    MOST_TAGS = 1000,
    MORE = 2,
    FRAME = 1 << 20,
};

/* A tag of a file, or a message. */
typedef struct media {
    uint8_t type;
    uint32_t timestamp;
    uint32_t size;
    uint8_t *payload;
} media;

/* All of a file or a stream, without what describes it. */
typedef struct recording {
    media all[MOST_TAGS];
    size_t count;
} recording;

/* The server's side of one connection. */
typedef struct server {
    sluice_pool *pool;
    sluice_chain *chain;
    sluice_rtmp *rtmp;
    int socket;
    uint32_t chunk_size; /* that is announced; 0: none is */
    bool digests;
    bool plays; /* the client has asked for a stream */
    bool ended;
    char names[200]; /* of the commands that came */
    char app[20], stream[40];
    recording got;
} server;

static char folder[] = "/tmp/sluice-rtmp-XXXXXX";

/* ---- ffmpeg ---- */

static pid_t start(const char *arguments) {
    char command[600];
    snprintf(command, sizeof command, "exec ffmpeg -nostdin -loglevel error -y %s", arguments);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (chdir(folder) == 0)
            execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return child;
}

static void finish(pid_t child) {
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void add(recording *r, uint8_t type, uint32_t timestamp, const sluice_slice *payload) {
    media *m = &r->all[r->count++];
    assert_true(r->count <= MOST_TAGS && payload->length <= FRAME);
    *m = (media){type, timestamp, (uint32_t)payload->length, malloc(payload->length + 1)};
    assert_non_null(m->payload);
    assert_int_equal(slice_bytes(payload, m->payload, FRAME), payload->length);
}

static void forget(recording *r) {
    while (r->count > 0)
        free(r->all[--r->count].payload);
}

static void read_file(sluice_pool *pool, const char *name, recording *r) {
    static uint8_t bytes[4 << 20];
    char path[100];
    sluice_flv *flv;
    sluice_flv_tag *tag;
    sluice_chain *chain = http_feed_chain(pool);
    int result;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_in_range(n, 1, sizeof bytes - 1);
    feed(chain, pool, bytes, n, 0);
    assert_int_equal(sluice_flv_new(0, &flv), 0);
    while ((result = sluice_flv_next(flv, chain, &tag)) == 1)
        if (tag->type != SLUICE_FLV_SCRIPT)
            add(r, (uint8_t)tag->type, tag->timestamp, &tag->payload);
    assert_int_equal(result, 0);
    sluice_flv_free(flv);
    sluice_chain_free(chain);
}

static void compare(const recording *a, const recording *b) {
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        assert_int_equal(a->all[i].type, b->all[i].type);
        assert_int_equal(a->all[i].timestamp, b->all[i].timestamp);
        assert_int_equal(a->all[i].size, b->all[i].size);
        assert_memory_equal(a->all[i].payload, b->all[i].payload, a->all[i].size);
    }
}

/* ---- The server ---- */

static int hmac(const void *key, size_t key_size, const struct iovec *pieces, size_t count,
                uint8_t ret_digest[SLUICE_RTMP_DIGEST_SIZE], void *user) {
    (void)user;
    EVP_PKEY *pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, key, key_size);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t size = SLUICE_RTMP_DIGEST_SIZE;
    int ok = pkey && context && EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, pkey) == 1;
    for (size_t i = 0; ok && i < count; i++)
        ok = EVP_DigestSignUpdate(context, pieces[i].iov_base, pieces[i].iov_len) == 1;
    ok = ok && EVP_DigestSignFinal(context, ret_digest, &size) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(pkey);
    return ok ? 0 : -EIO;
}

static void send_all(server *s, const void *bytes, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t sent = send(s->socket, (const char *)bytes + done, n - done, MSG_NOSIGNAL);
        assert_true(sent > 0);
        done += (size_t)sent;
    }
}

/* False at the end. */
static bool receive(server *s) {
    struct iovec room;
    assert_int_equal(sluice_chain_reserve(s->chain, 1, &room, 1), 1);
    ssize_t n = recv(s->socket, room.iov_base, room.iov_len, 0);
    assert_int_equal(sluice_chain_commit(s->chain, n > 0 ? (size_t)n : 0), 0);
    return n > 0;
}

static void shake_hands(server *s) {
    uint8_t random[SLUICE_RTMP_RANDOM_SIZE];
    sluice_rtmp_handshake *hs;
    const uint8_t *bytes;
    int result;
    for (size_t i = 0; i < sizeof random; i++)
        random[i] = (uint8_t)(i * 77 >> 3);
    const sluice_rtmp_handshake_options options = {
        .size = sizeof options, .random = random, .hmac = s->digests ? hmac : NULL};
    assert_int_equal(sluice_rtmp_handshake_new(SLUICE_RTMP_SERVER, &options, &hs), 0);
    while ((result = sluice_rtmp_handshake_next(hs, s->chain)) == 0) {
        size_t n = sluice_rtmp_handshake_output(hs, &bytes);
        send_all(s, bytes, n);
        sluice_rtmp_handshake_sent(hs, n);
        assert_true(receive(s));
    }
    assert_int_equal(result, 1);
    assert_int_equal(sluice_rtmp_handshake_schema(hs), s->digests ? SLUICE_RTMP_EARLY : SLUICE_RTMP_SIMPLE);
    sluice_rtmp_handshake_free(hs);
}

static void send_message(server *s, uint8_t type, uint32_t stream, uint32_t timestamp, const void *payload, size_t n) {
    const sluice_rtmp_message message = {type, type < 10 ? 6 : 3, stream, timestamp, (uint32_t)n, {0}};
    sluice_rtmp_chunking chunking;
    sluice_rtmp_chunk chunk;
    uint32_t size = s->chunk_size ? s->chunk_size : SLUICE_RTMP_DEFAULT_CHUNK;
    assert_int_equal(sluice_rtmp_chunk_begin(&chunking, &message, size), 0);
    while (sluice_rtmp_chunk_next(&chunking, &chunk) == 1) {
        send_all(s, chunk.header, chunk.header_size);
        send_all(s, (const uint8_t *)payload + chunk.offset, chunk.length);
    }
}

static void send_control(server *s, const sluice_rtmp_control *control) {
    uint8_t bytes[SLUICE_RTMP_CONTROL_SIZE];
    int n = sluice_rtmp_write_control(bytes, control);
    assert_true(n > 0);
    send_all(s, bytes, (size_t)n);
}

/* _result or onStatus: with a code, or with the number of a stream. */
static void reply(server *s, const char *name, double transaction, const char *code, uint32_t stream) {
    uint8_t bytes[300];
    size_t n;
    sluice_amf_writer w;
    sluice_amf_write_begin(&w, bytes, sizeof bytes, SLUICE_AMF0);
    sluice_amf_write_string(&w, name);
    sluice_amf_write_number(&w, transaction);
    sluice_amf_write_null(&w);
    if (code) {
        sluice_amf_write_object(&w);
        sluice_amf_write_name(&w, "level");
        sluice_amf_write_string(&w, "status");
        sluice_amf_write_name(&w, "code");
        sluice_amf_write_string(&w, code);
        sluice_amf_write_object_end(&w);
    } else {
        sluice_amf_write_number(&w, 1);
    }
    assert_int_equal(sluice_amf_write_end(&w, &n), 0);
    send_message(s, SLUICE_RTMP_COMMAND, stream, 0, bytes, n);
}

/* A text of the command: of its object under a name, or its first argument. */
static void take_text(const sluice_rtmp_command *command, const char *name, char *to, size_t size) {
    sluice_amf_reader values = command->values;
    sluice_amf_value value;
    assert_int_equal(sluice_amf_next(&values, &value), 1);
    assert_int_equal(name ? sluice_amf_find(&values, name, &value) : sluice_amf_next(&values, &value), 1);
    assert_int_equal(value.type, SLUICE_AMF_STRING);
    assert_true(sluice_amf_get_text(&value.text, to, size) > 0);
}

static void do_command(server *s, const sluice_rtmp_message *message) {
    sluice_rtmp_command command;
    char name[40];
    assert_int_equal(sluice_rtmp_read_command(message, NULL, &command), 0);
    assert_true(sluice_amf_get_text(&command.name, name, sizeof name) > 0);
    snprintf(s->names + strlen(s->names), sizeof s->names - strlen(s->names), "%s ", name);
    if (strcmp(name, "connect") == 0) {
        take_text(&command, "app", s->app, sizeof s->app);
        send_control(s, &(sluice_rtmp_control){.type = SLUICE_RTMP_WINDOW_SIZE, .value = 2500000});
        send_control(s, &(sluice_rtmp_control){.type = SLUICE_RTMP_PEER_BANDWIDTH, .value = 2500000, .limit = 2});
        if (s->chunk_size)
            send_control(s, &(sluice_rtmp_control){.type = SLUICE_RTMP_SET_CHUNK_SIZE, .value = s->chunk_size});
        reply(s, "_result", command.transaction, "NetConnection.Connect.Success", 0);
    } else if (strcmp(name, "createStream") == 0) {
        reply(s, "_result", command.transaction, NULL, 0);
    } else if (strcmp(name, "publish") == 0) {
        take_text(&command, NULL, s->stream, sizeof s->stream);
        reply(s, "onStatus", 0, "NetStream.Publish.Start", 1);
    } else if (strcmp(name, "play") == 0) {
        take_text(&command, NULL, s->stream, sizeof s->stream);
        send_control(
            s, &(sluice_rtmp_control){.type = SLUICE_RTMP_USER_CONTROL, .event = SLUICE_RTMP_STREAM_BEGIN, .value = 1});
        reply(s, "onStatus", 0, "NetStream.Play.Start", 1);
        s->plays = true;
    } else if (strcmp(name, "deleteStream") == 0) {
        s->ended = true;
    }
}

/* The messages of one connection, until it ends, or asks for a stream. */
static void serve(server *s) {
    sluice_rtmp_message *message;
    uint32_t sequence;
    int result = 0;
    shake_hands(s);
    do {
        while ((result = sluice_rtmp_next(s->rtmp, s->chain, &message)) > 0) {
            if (result == MORE)
                continue;
            if (message->type == SLUICE_RTMP_COMMAND)
                do_command(s, message);
            else if (message->type == SLUICE_RTMP_AUDIO || message->type == SLUICE_RTMP_VIDEO)
                add(&s->got, message->type, message->timestamp, &message->payload);
        }
        assert_int_equal(result, 0);
        if (sluice_rtmp_must_acknowledge(s->rtmp, &sequence))
            send_control(s, &(sluice_rtmp_control){.type = SLUICE_RTMP_ACKNOWLEDGEMENT, .value = sequence});
    } while (!s->plays && !s->ended && receive(s));
}

static int listen_on(char *url, size_t size, const char *name) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    snprintf(url, size, "rtmp://127.0.0.1:%u/live/%s", ntohs(address.sin_port), name);
    return listener;
}

static void open_server(server *s, sluice_pool *pool, int listener, uint32_t chunk_size, bool digests) {
    *s = (server){.pool = pool, .chunk_size = chunk_size, .digests = digests};
    s->socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(s->socket >= 0);
    assert_int_equal(sluice_rtmp_new(NULL, &s->rtmp), 0);
    s->chain = http_feed_chain(pool);
}

static void close_server(server *s) {
    close(s->socket);
    sluice_rtmp_free(s->rtmp);
    sluice_chain_free(s->chain);
    forget(&s->got);
}

/* ---- Tests ---- */

static uint64_t copied(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    return stats.bytes_copied;
}

static int set_up(void **state) {
    const sluice_pool_options options = {.size = sizeof options, .no_huge_pages = true};
    sluice_pool *pool = NULL;
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    *state = pool;
    alarm(GUARD);
    return 0;
}

static int tear_down(void **state) {
    feed_assert_returned(*state);
    sluice_pool_free(*state);
    return 0;
}

/* What a client sends arrives tag by tag as the same command writes it to a file. */
static void ffmpeg_publishes(void **state) {
    static server s;
    static recording file;
    static const uint32_t chunk_sizes[] = {65536, 4096, 0};
    read_file(*state, "copy.flv", &file);
    assert_true(file.count > 20);
    for (int i = 0; i < 3; i++) {
        char url[100], arguments[300];
        int listener = listen_on(url, sizeof url, "door?token=a.b");
        uint64_t before = copied(*state);
        snprintf(arguments, sizeof arguments, "-i source.flv -c copy -f flv '%s'", url);
        pid_t child = start(arguments);
        open_server(&s, *state, listener, chunk_sizes[i], i != 1);
        serve(&s);
        compare(&s.got, &file);
        assert_string_equal(s.app, "live");
        assert_string_equal(s.stream, "door?token=a.b");
        assert_non_null(strstr(s.names, "connect "));
        assert_non_null(strstr(s.names, "createStream "));
        assert_non_null(strstr(s.names, "publish "));
        if (chunk_sizes[i] > 0)
            assert_int_equal(copied(*state) - before, 0);
        close_server(&s);
        close(listener);
        finish(child);
    }
    forget(&file);
}

static void ffmpeg_plays(void **state) {
    static server s;
    static recording file, played;
    static const uint32_t chunk_sizes[] = {SLUICE_RTMP_MAX_CHUNK, 4096, 0};
    read_file(*state, "copy.flv", &file);
    for (int i = 0; i < 3; i++) {
        char url[100], arguments[300];
        int listener = listen_on(url, sizeof url, "door");
        snprintf(arguments, sizeof arguments, "-i '%s' -c copy -f flv played.flv", url);
        pid_t child = start(arguments);
        open_server(&s, *state, listener, chunk_sizes[i], i != 1);
        serve(&s);
        assert_true(s.plays);
        assert_string_equal(s.stream, "door");
        for (size_t tag = 0; tag < file.count; tag++)
            send_message(&s, file.all[tag].type, 1, file.all[tag].timestamp, file.all[tag].payload, file.all[tag].size);
        reply(&s, "onStatus", 0, "NetStream.Play.UnpublishNotify", 1);
        shutdown(s.socket, SHUT_WR);
        while (receive(&s))
            ;
        close_server(&s);
        close(listener);
        finish(child);
        read_file(*state, "played.flv", &played);
        compare(&played, &file);
        forget(&played);
    }
    forget(&file);
}

/* Frames of more than 64 KiB, and small ones of audio. */
static int make_media(void **state) {
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    finish(
        start("-f lavfi -i testsrc2=size=640x480:rate=10:duration=2 -f lavfi -i sine=duration=2 -c:v flv -q:v 1 -g 5 "
              "-c:a aac -b:a 64k -flags +bitexact -fflags +bitexact -f flv source.flv"));
    finish(start("-i source.flv -c copy -f flv copy.flv"));
    return 0;
}

static int remove_media(void **state) {
    (void)state;
    static const char *const names[] = {"source.flv", "copy.flv", "played.flv"};
    char path[100];
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

int main(void) {
    if (system("command -v ffmpeg >/dev/null") != 0) {
        fprintf(stderr, "test_rtmp_ffmpeg: needs ffmpeg\n");
        return CANNOT_RUN;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ffmpeg_publishes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ffmpeg_plays, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, make_media, remove_media);
}
