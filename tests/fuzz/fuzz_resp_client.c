/*
 * The RESP client: the settings say which commands it gives, the input is what the server sends, in
 * writes that are cut anywhere, before it closes. Each command is told once what became of it, and
 * in the order of the commands.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sluice/resp_client.h>

#include "fuzz/fuzz.h"

enum { COMMANDS = 8, MEMORY = 24, MOST_WRITE = 8000, MOST_TURNS = 1000 };

typedef struct session session;

typedef struct command {
    session *session;
    unsigned number;
    uint8_t memory[MEMORY]; /* for an answer that goes there */
} command;

struct session {
    fuzz_run *run;
    sluice_loop *loop;
    sluice_resp_client *client;
    int peer;
    unsigned told;
    bool closed;
    command commands[COMMANDS];
};

static void show_reply(fuzz_run *run, sluice_resp_reply *reply) {
    sluice_resp_walk walk = reply->elements;
    sluice_resp_value value;
    fuzz_show_slice(run, "reply", &reply->bytes);
    fuzz_show(run, "type", reply->value.type);
    while (sluice_resp_walk_next(&walk, &value))
        fuzz_show_slice(run, "element", &value.text);
    fuzz_keep(run, &reply->bytes);
}

static void tell(command *c, int error, sluice_resp_reply *reply) {
    session *s = c->session;
    FUZZ_CHECK(!s->closed && c->number == s->told);
    s->told++;
    fuzz_show(s->run, "command", c->number);
    fuzz_show(s->run, "error", error);
    if (reply)
        show_reply(s->run, reply);
}

static void replied(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    (void)client;
    FUZZ_CHECK((error == 0) == (reply != NULL));
    tell(user, error, reply);
}

static void got(sluice_resp_client *client, int error, uint64_t length, sluice_resp_reply *reply, void *user) {
    command *c = user;
    (void)client;
    FUZZ_CHECK(!reply || (error == 0 && length == 0));
    FUZZ_CHECK(error != 0 || length <= MEMORY);
    tell(c, error, reply);
    fuzz_show(c->session->run, "length", (int64_t)length);
    if (error == 0)
        fuzz_show_bytes(c->session->run, "memory", c->memory, (size_t)length);
}

static void pushed(sluice_resp_client *client, sluice_resp_reply *reply, void *user) {
    session *s = user;
    FUZZ_CHECK(client == s->client && !s->closed);
    fuzz_show(s->run, "push", s->told);
    show_reply(s->run, reply);
}

static void closed(sluice_resp_client *client, int error, void *user) {
    session *s = user;
    FUZZ_CHECK(client == s->client && !s->closed);
    s->closed = true;
    fuzz_show(s->run, "closed", error);
}

static void turn(session *s, unsigned turns) {
    while (turns-- > 0)
        FUZZ_CHECK(sluice_loop_turn(s->loop, 0) == 0);
}

/* What the client has sent goes nowhere. */
static void hear(session *s) {
    char bytes[4096];
    turn(s, 2);
    while (recv(s->peer, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

static void give_commands(session *s) {
    uint8_t how = s->run->settings[0], into = s->run->settings[1];
    unsigned count = 1 + how / 4 % COMMANDS;
    const sluice_resp_client_arg words[] = {
        {.data = "SUBSCRIBE", .length = 9}, {.data = "a", .length = 1}, {.data = "b", .length = 1}};
    for (unsigned i = 0; i < count; i++) {
        command *c = &s->commands[i];
        int result;
        *c = (command){.session = s, .number = i};
        if (into >> i & 1)
            result = sluice_resp_client_get_into(s->client, &(sluice_resp_arg){"k", 1}, c->memory, MEMORY, got, c);
        else if (i == 2 && how & 2)
            result = sluice_resp_client_subscribe(s->client, words, 3, replied, c);
        else
            result = sluice_resp_client_command(s->client, &words[1], 2, replied, c);
        FUZZ_CHECK(result == 0);
    }
}

/* The server's bytes, in writes; it may be that nobody is there any more. */
static void say(session *s) {
    fuzz_run *run = s->run;
    while (run->done < run->size) {
        size_t n = run->size - run->done;
        if (run->mean > 0 && n > 1 + fuzz_random(run, run->mean * 4))
            n = 1 + fuzz_random(run, (uint32_t)n);
        if (n > MOST_WRITE)
            n = MOST_WRITE;
        ssize_t sent = send(s->peer, run->bytes + run->done, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            break;
        run->done += sent > 0 ? (size_t)sent : 0;
        turn(s, 1 + fuzz_random(run, 2));
    }
}

void fuzz_target(fuzz_run *run) {
    static const sluice_resp_client_events events = {.size = sizeof events, .on_push = pushed, .on_closed = closed};
    static session s;
    s = (session){.run = run};
    int fds[2];
    sluice_resp_client_options options = {
        .size = sizeof options,
        .resp3 = run->settings[0] & 1,
        .max_commands = 16,
        .limits = &(sluice_resp_limits){.size = sizeof(sluice_resp_limits), .reply = 4000}};
    FUZZ_CHECK(
        sluice_loop_new(run->pool,
                        &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = SLUICE_BACKEND_EPOLL},
                        &s.loop) == 0);
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    s.peer = fds[1];
    FUZZ_CHECK(sluice_resp_client_new(s.loop, fds[0], &options, &events, &s, &s.client) == 0);
    give_commands(&s);
    hear(&s);
    say(&s);
    hear(&s);
    shutdown(s.peer, SHUT_WR);
    for (unsigned i = 0; i < MOST_TURNS && !s.closed; i++)
        turn(&s, 1);
    FUZZ_CHECK(s.closed && s.told == 1u + run->settings[0] / 4 % COMMANDS);
    sluice_resp_client_free(s.client);
    sluice_loop_free(s.loop);
    close(s.peer);
}
