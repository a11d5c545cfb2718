#include <sluice/resp_client.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sluice/conn.h>
#include <sluice/pool.h>
#include <sluice/writer.h>

#include "abi/sized.h"
#include "clients/resp_args.h"

enum {
    NS_PER_MS = 1000000,
    /* bytes of memory for a value that are worth a receive of their own */
    LARGE = 16 << 10,
    STAGE_BATCH = 64 << 10, /* bytes that the stage is given at once */
};

enum command_kind {
    COMMAND_PLAIN,
    COMMAND_INTO,         /* its answer goes into the caller's memory */
    COMMAND_SUBSCRIPTION, /* each channel is confirmed */
    COMMAND_HELLO,        /* the answer says which protocol follows */
    COMMAND_GREETING,     /* the same, asked for by the options */
    COMMAND_RESET,        /* back to the beginning: RESP2, no channels */
    COMMAND_REFUSED,      /* not answered once each; never waits */
};

/* How a message begins that came by itself, or that confirms: also the names of the commands. */
static const char *const words[] = {"subscribe",    "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe",
                                    "sunsubscribe", "message",    "pmessage",   "smessage"};
enum {
    CONFIRMATIONS = 6, /* words that confirm */
    WORDS = sizeof words / sizeof *words,
    NO_WORD = WORDS,
};

/* A command that waits for its answer. It does not move: the writer names it. */
struct command {
    enum command_kind kind;
    uint8_t word;           /* of a subscription */
    uint32_t lent;          /* arguments that the kernel may still read */
    uint32_t confirmations; /* of a subscription, still to come */
    uint64_t since;         /* nanoseconds, monotonic; 0 without a timeout */
    union {
        sluice_resp_reply_fn *reply_fn;
        sluice_resp_into_fn *into_fn;
    };
    void *user;
    void *memory; /* COMMAND_INTO */
    size_t size;
};

/* What became of a command. */
struct outcome {
    int error;
    uint64_t length;
    sluice_resp_reply *reply;
};

struct sluice_resp_client {
    sluice_conn *conn;              /* NULL when it has gone */
    const sluice_conn_stage *calls; /* of the stage; NULL: there is none */
    void *stage;                    /* NULL: none, or it has gone */
    sluice_writer *writer;
    sluice_resp *resp;
    sluice_timer *timer; /* NULL without a timeout */
    sluice_loop *loop;
    const sluice_resp_client_events *events;
    void *user;
    uint32_t max, timeout_ms;
    int error; /* why it was closed; 0: it was asked for */
    bool is_closing;
    bool is_freed;  /* by its owner; goes when nothing of it is running */
    bool is_timing; /* the timer runs */
    uint32_t uses;  /* calls of the loop and of the user that are under way */

    /* The first command's string: its header is consumed, and so are the bytes when not
     * is_filling. */
    bool is_open;
    bool is_filling; /* the connection receives into the memory, or the stage's bytes are copied */
    uint64_t length;
    uint64_t filled; /* of a copy */

    /* With a stage: */
    bool is_starved; /* it could not take what is to be sent, and on_data repeats that */
    bool is_unasked; /* data has come that it was not asked for */
    bool passes;     /* the writer's own pieces are being sent */
    bool is_over;    /* the connection has ended, and the stage has bytes left */

    /* The first command has its answer, but the kernel still reads what it has lent. */
    bool is_held;
    struct outcome held;

    /* What the server holds of this connection. */
    uint8_t version;
    bool is_greeting;
    bool has_channels[2]; /* channels and patterns; shard channels */

    uint32_t first, count, capacity; /* of the ring */
    /* commands in it with replies into user memory of many bytes */
    uint32_t large;
    struct command ring[];
};

static const sluice_resp_client_events no_events = {.size = sizeof no_events};

static struct command *at(sluice_resp_client *client, uint32_t index) {
    return &client->ring[(client->first + index) % client->capacity];
}

static struct command *head(sluice_resp_client *client) {
    return client->count > 0 ? at(client, 0) : NULL;
}

static uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * NS_PER_MS + (uint64_t)now.tv_nsec;
}

/* ---- Ends ---- */

static void discard(sluice_resp_client *client) {
    sluice_resp_free(client->resp);
    free(client);
}

static void enter(sluice_resp_client *client) {
    client->uses++;
}

/* The client may be gone afterwards. */
static void leave(sluice_resp_client *client) {
    if (--client->uses == 0 && client->is_freed && !client->conn)
        discard(client);
}

/* The commands' callbacks are called when the kernel no longer uses any memory: closed(). */
static void fail(sluice_resp_client *client, int error) {
    if (client->is_closing)
        return;
    client->is_closing = true;
    client->error = error;
    if (client->stage)
        client->calls->finish(client->stage);
    sluice_conn_close(client->conn);
}

/* The bytes of replies. */
static sluice_chain *chain_of(const sluice_resp_client *client) {
    return client->stage ? client->calls->chain(client->stage) : sluice_conn_chain(client->conn);
}

static bool is_large(const struct command *command) {
    return command->kind == COMMAND_INTO && command->size >= LARGE;
}

/* The first command is done, and nothing of it is with the kernel. */
static void tell(sluice_resp_client *client, struct outcome outcome) {
    struct command command = *head(client);
    client->first = (client->first + 1) % client->capacity;
    client->count--;
    client->large -= is_large(&command);
    if (command.kind == COMMAND_INTO)
        command.into_fn(client, outcome.error, outcome.length, outcome.reply, command.user);
    else if (command.reply_fn)
        command.reply_fn(client, outcome.error, outcome.reply, command.user);
}

static void tell_held(sluice_resp_client *client) {
    client->is_held = false;
    tell(client, client->held);
}

/*
 * The first command has its answer. Should the server not have waited for the whole command (it
 * refuses a length by the header alone), what follows the answer stays where it is until the kernel
 * is done with what was lent.
 */
static void finish(sluice_resp_client *client, struct outcome outcome) {
    if (head(client)->lent == 0) {
        tell(client, outcome);
        return;
    }
    client->held = outcome;
    client->is_held = true;
    sluice_conn_pause(client->conn);
}

/* ---- Answers ---- */

static uint8_t word_of(const sluice_resp_value *value) {
    uint8_t word = 0;
    while (word < WORDS && !sluice_resp_equals(value, words[word]))
        word++;
    return word;
}

/* Reads the three elements of a message or of a confirmation, as far as they matter. */
static uint8_t read_message(const sluice_resp_reply *reply, int64_t *ret_channels) {
    sluice_resp_walk walk = reply->elements;
    sluice_resp_value value;
    if (!sluice_resp_walk_next(&walk, &value))
        return NO_WORD;
    uint8_t word = word_of(&value);
    if (word >= CONFIRMATIONS)
        return word;
    bool is_confirmation = sluice_resp_walk_next(&walk, &value) && sluice_resp_walk_next(&walk, &value) &&
                           value.type == SLUICE_RESP_INTEGER;
    *ret_channels = value.integer;
    return is_confirmation ? word : NO_WORD;
}

/* What comes between the answers: with RESP2 a message is an array like any, but then there are few
 * other answers. */
static bool take_message(sluice_resp_client *client, sluice_resp_reply *reply) {
    struct command *command = head(client);
    bool is_push = reply->value.type == SLUICE_RESP_PUSH;
    bool is_subscribing = command && command->kind == COMMAND_SUBSCRIPTION;
    bool has_channels = client->version == 2 && (client->has_channels[0] || client->has_channels[1]);
    if (!is_push && (reply->value.type != SLUICE_RESP_ARRAY || !(is_subscribing || has_channels)))
        return false;
    int64_t channels = 0;
    uint8_t word = read_message(reply, &channels);
    if (word < CONFIRMATIONS) {
        client->has_channels[word % 3 == 2] = channels > 0;
        if (is_subscribing && word == command->word) {
            if (--command->confirmations == 0)
                finish(client, (struct outcome){.reply = reply});
            return true;
        }
    }
    if (!is_push && word == NO_WORD)
        return false;
    if (client->events->on_push)
        client->events->on_push(client, reply, client->user);
    return true;
}

/* A string that was framed whole, since it has attributes. */
static struct outcome copy_into(const struct command *command, sluice_resp_reply *reply) {
    const sluice_slice *text = &reply->value.text;
    size_t length = sluice_slice_length(text);
    if (length > command->size)
        return (struct outcome){.error = -EFBIG, .length = length};
    sluice_slice_copy(text, 0, command->memory, length);
    return (struct outcome){.length = length};
}

static int take_answer(sluice_resp_client *client, sluice_resp_reply *reply) {
    struct command *command = head(client);
    struct outcome outcome = {.reply = reply};
    sluice_resp_type type = reply->value.type;
    if (!command)
        return -EPROTO;
    switch (command->kind) {
    case COMMAND_INTO:
        if (type == SLUICE_RESP_BULK)
            outcome = copy_into(command, reply);
        break;
    case COMMAND_GREETING:
        client->is_greeting = false;
        if (type != SLUICE_RESP_MAP)
            return type == SLUICE_RESP_ERROR ? -EPROTONOSUPPORT : -EPROTO;
        client->version = 3;
        break;
    case COMMAND_HELLO:
        if (type == SLUICE_RESP_MAP || type == SLUICE_RESP_ARRAY)
            client->version = type == SLUICE_RESP_MAP ? 3 : 2;
        break;
    case COMMAND_RESET:
        if (type == SLUICE_RESP_SIMPLE) {
            client->version = 2;
            client->has_channels[0] = client->has_channels[1] = false;
        }
        break;
    case COMMAND_PLAIN:
    case COMMAND_SUBSCRIPTION:
    case COMMAND_REFUSED:
        break;
    }
    finish(client, outcome);
    return 1;
}

/* The next reply or push, whole. The steps say 1 (go on), 0 (wait for more), or what is wrong. */
static int take_reply(sluice_resp_client *client) {
    sluice_resp_reply *reply;
    int result = sluice_resp_next(client->resp, chain_of(client), &reply);
    if (result <= 0 || take_message(client, reply))
        return result;
    return take_answer(client, reply);
}

static void received(sluice_conn *conn, int error, size_t done, void *user);

/* The first command's string, as far as the stage has it. 1: it is whole; 0: it is not */
static int copy_string(sluice_resp_client *client) {
    sluice_chain *chain = chain_of(client);
    const size_t length = sluice_chain_length(chain);
    const uint64_t left = client->length - client->filled;
    const size_t n = length < left ? length : (size_t)left;
    sluice_slice slice;
    if (n > 0 && sluice_chain_take(chain, n, &slice) == 0) {
        client->filled += sluice_slice_copy(&slice, 0, (char *)head(client)->memory + client->filled, n);
        sluice_slice_release(&slice);
    }
    return client->filled == client->length;
}

/* Into the memory, of which the kernel writes what has not come yet. As copy_string() */
static int fill_string(sluice_resp_client *client) {
    client->filled = 0;
    if (client->stage)
        return copy_string(client);
    return sluice_conn_receive_into(client->conn, head(client)->memory, (size_t)client->length, received, client);
}

/* The header of the first command's string, and as much of the string as is there. */
static int open_string(sluice_resp_client *client) {
    struct command *command = head(client);
    uint64_t length;
    int result = sluice_resp_bulk_open(client->resp, chain_of(client), &length);
    if (result == -ENOMSG)
        return take_reply(client);
    if (result <= 0)
        return result;
    if (length > command->size) {
        sluice_resp_bulk_skip(client->resp);
        finish(client, (struct outcome){.error = -EFBIG, .length = length});
        return 1;
    }
    client->is_open = true;
    client->length = length;
    if (length == 0)
        return 1;
    result = fill_string(client);
    client->is_filling = result == 0;
    if (result == 1)
        sluice_resp_bulk_advance(client->resp, length);
    return result;
}

/* The line end behind a string that lies in the caller's memory. */
static int close_string(sluice_resp_client *client) {
    int result = sluice_resp_bulk_close(client->resp, chain_of(client));
    if (result <= 0)
        return result;
    client->is_open = false;
    finish(client, (struct outcome){.length = client->length});
    return 1;
}

static int step(sluice_resp_client *client) {
    struct command *command = head(client);
    if (client->is_open)
        return close_string(client);
    return command && command->kind == COMMAND_INTO ? open_string(client) : take_reply(client);
}

/* Processes the received replies, as far as they are complete. */
static void take_all(sluice_resp_client *client) {
    int result = 1;
    while (result > 0 && !client->is_closing && !client->is_held && !client->is_filling)
        result = step(client);
    if (result < 0)
        fail(client, result);
    else if (!client->is_closing && !client->stage)
        sluice_conn_set_need(client->conn, sluice_resp_need(client->resp));
}

static void received(sluice_conn *conn, int error, size_t done, void *user) {
    sluice_resp_client *client = user;
    (void)conn;
    (void)done;
    enter(client);
    client->is_filling = false;
    if (error == -ECANCELED) {
        fail(client, 0); /* closed, by the client or by the end of the loop */
    } else if (error) {
        fail(client, error == -ENODATA ? -EPIPE : error);
    } else {
        sluice_resp_bulk_advance(client->resp, client->length);
        take_all(client);
    }
    leave(client);
}

/* Bytes of commands have been taken, by the kernel or by the stage. */
static void taken(sluice_resp_client *client, size_t bytes) {
    sluice_writer_sent(client->writer, bytes);
    if (!client->is_held || head(client)->lent > 0)
        return;
    sluice_conn_resume(client->conn);
    tell_held(client);
    take_all(client);
    if (client->stage && !client->is_closing)
        sluice_conn_again(client->conn); /* it has not been asked meanwhile */
}

/* ---- A stage ---- */

/* The connection has ended, with all that the stage has received. */
static void end_staged(sluice_resp_client *client) {
    int error = client->calls->end(client->stage);
    client->is_over = error == -EAGAIN;
    if (!client->is_over)
        fail(client, error ? error : -EPIPE);
}

/*
 * While an answer is held, nothing is received, as without a stage; but the stage may have to
 * receive before it can send.
 */
static void receive_staged(sluice_resp_client *client) {
    client->is_unasked = client->is_held && !client->is_starved;
    if (client->is_unasked)
        return;
    int result = client->calls->receive(client->stage);
    if (client->is_filling && copy_string(client) == 1) {
        client->is_filling = false;
        sluice_resp_bulk_advance(client->resp, client->length);
    }
    take_all(client);
    if (client->is_closing)
        return;
    if (result < 0 && !(result == -ENODATA && client->is_held))
        fail(client, result == -ENODATA ? -EPIPE : result);
    else if (client->is_over)
        end_staged(client);
    if (client->is_starved && !client->is_closing)
        sluice_conn_want_send(client->conn);
    client->is_starved = false;
}

/* Shortens the pieces to STAGE_BATCH, so that a server that does not read holds no more. */
static size_t cut(struct iovec *iov, size_t count) {
    size_t left = STAGE_BATCH;
    for (size_t i = 0; i < count; i++) {
        if (iov[i].iov_len >= left) {
            iov[i].iov_len = left;
            return i + 1;
        }
        left -= iov[i].iov_len;
    }
    return count;
}

/* The stage takes the next bytes of commands. */
static void send_staged(sluice_resp_client *client, struct iovec *iov, size_t max) {
    size_t done = 0, count = sluice_writer_gather(client->writer, iov, max);
    if (count == 0)
        return;
    int error = client->calls->send(client->stage, iov, cut(iov, count), &done);
    taken(client, done);
    if (client->is_closing)
        return;
    client->is_starved = error != 0;
    if (client->is_held && error)
        sluice_conn_resume(client->conn);
    else if (client->is_held)
        sluice_conn_pause(client->conn);
    /* A failure is reported there, too. */
    if (error && (client->is_unasked || (error != -EAGAIN && error != -ENOBUFS)))
        sluice_conn_again(client->conn);
}

static size_t gather_staged(sluice_resp_client *client, struct iovec *iov, size_t max) {
    if (client->calls->may_pass(client->stage)) {
        size_t count = sluice_writer_gather(client->writer, iov, max);
        client->passes = count > 0;
        return count;
    }
    if (client->calls->queued(client->stage) == 0)
        send_staged(client, iov, max);
    return client->is_closing ? 0 : client->calls->gather(client->stage, iov, max);
}

/* ---- Callbacks of the connection ---- */

static void on_data(sluice_conn *conn, void *user) {
    sluice_resp_client *client = user;
    (void)conn;
    enter(client);
    if (client->stage)
        receive_staged(client);
    else
        take_all(client);
    leave(client);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    sluice_resp_client *client = user;
    (void)conn;
    if (client->stage && !error)
        end_staged(client);
    else
        fail(client, error ? error : -EPIPE);
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    sluice_resp_client *client = user;
    (void)conn;
    enter(client);
    size_t count = client->stage ? gather_staged(client, iov, max) : sluice_writer_gather(client->writer, iov, max);
    leave(client);
    return count;
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    sluice_resp_client *client = user;
    const bool is_commands = !client->stage || client->passes;
    (void)conn;
    enter(client);
    client->passes = false;
    if (client->stage)
        client->calls->sent(client->stage, bytes);
    if (is_commands)
        taken(client, bytes);
    leave(client);
}

static void on_closed(sluice_conn *conn, void *user) {
    sluice_resp_client *client = user;
    (void)conn;
    enter(client);
    client->is_closing = true;
    client->conn = NULL;
    sluice_writer_free(client->writer);
    client->writer = NULL;
    sluice_timer_free(client->timer);
    client->timer = NULL;
    if (client->is_held)
        tell_held(client);
    while (client->count > 0)
        tell(client, (struct outcome){.error = client->error ? client->error : -ECANCELED});
    if (client->events->on_closed)
        client->events->on_closed(client, client->error, client->user);
    if (client->stage)
        client->calls->release(client->stage);
    client->stage = NULL;
    leave(client);
}

static const sluice_conn_events conn_events = {
    .size = sizeof conn_events,
    .on_data = on_data,
    .on_end = on_end,
    .on_gather = on_gather,
    .on_sent = on_sent,
    .on_closed = on_closed,
};

/* Runs while commands wait, and is due no later than the first of them; one that has been answered
 * it outlasts. */
static void on_timer(sluice_timer *timer, void *user) {
    sluice_resp_client *client = user;
    const struct command *command = head(client);
    client->is_timing = command && !client->is_closing;
    if (!client->is_timing)
        return;
    uint64_t due = command->since + (uint64_t)client->timeout_ms * NS_PER_MS, now = clock_ns();
    if (due > now)
        sluice_timer_start(timer, (due - now + NS_PER_MS - 1) / NS_PER_MS);
    else
        fail(client, -ETIMEDOUT);
}

/* ---- Commands ---- */

static bool is_command(const sluice_resp_client_arg *args, size_t count) {
    return count > 0 && count <= INT32_MAX && !args[0].slice;
}

static enum command_kind kind_of(const sluice_resp_client_arg *args, size_t count) {
    static const struct {
        const char *name;
        enum command_kind kind;
    } names[] = {
        {"HELLO", COMMAND_HELLO},   {"RESET", COMMAND_RESET},  {"MONITOR", COMMAND_REFUSED},
        {"PSYNC", COMMAND_REFUSED}, {"SYNC", COMMAND_REFUSED},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (resp_args_is(&args[0], names[i].name))
            return names[i].kind;
    for (uint8_t word = 0; word < CONFIRMATIONS; word++)
        if (resp_args_is(&args[0], words[word]))
            return COMMAND_SUBSCRIPTION;
    bool is_refused = count > 1 && resp_args_is(&args[0], "CLIENT") && resp_args_is(&args[1], "REPLY");
    return is_refused ? COMMAND_REFUSED : COMMAND_PLAIN;
}

static void start_timeout(sluice_resp_client *client, struct command *command) {
    if (client->timeout_ms == 0)
        return;
    command->since = clock_ns();
    if (client->is_timing)
        return;
    client->is_timing = true;
    sluice_timer_start(client->timer, client->timeout_ms);
}

static int give(sluice_resp_client *client, const sluice_resp_client_arg *args, size_t count, struct command given) {
    if (client->is_closing)
        return -EPIPE;
    if (client->count == client->max + client->is_greeting)
        return -EAGAIN;
    int error = resp_args_admit(client->writer, args, count);
    if (error)
        return error;
    struct command *command = at(client, client->count);
    size_t queued = sluice_writer_queued(client->writer);
    *command = given;
    error = resp_args_queue(client->writer, args, count, &command->lent);
    if (error && sluice_writer_queued(client->writer) == queued)
        return error;
    client->count++;
    client->large += is_large(command);
    /* What comes with a large value's head is copied. Left as it is between commands: often they
     * are all alike. */
    if (!client->stage)
        sluice_conn_set_read_ahead(client->conn, client->large == 0);
    start_timeout(client, command);
    /* A part of it is queued, and memory may be lent: it fails like the others. */
    if (error)
        fail(client, error);
    return 0;
}

int sluice_resp_client_command(sluice_resp_client *client, const sluice_resp_client_arg *args, size_t count,
                               sluice_resp_reply_fn *fn, void *user) {
    if (!is_command(args, count))
        return -EINVAL;
    struct command command = {.kind = kind_of(args, count), .reply_fn = fn, .user = user};
    if (command.kind == COMMAND_REFUSED || command.kind == COMMAND_SUBSCRIPTION)
        return -EINVAL;
    return give(client, args, count, command);
}

int sluice_resp_client_command_into(sluice_resp_client *client, const sluice_resp_client_arg *args, size_t count,
                                    void *memory, size_t size, sluice_resp_into_fn *fn, void *user) {
    if (!is_command(args, count) || kind_of(args, count) != COMMAND_PLAIN || !fn)
        return -EINVAL;
    struct command command = {.kind = COMMAND_INTO, .into_fn = fn, .user = user, .memory = memory, .size = size};
    return give(client, args, count, command);
}

int sluice_resp_client_subscribe(sluice_resp_client *client, const sluice_resp_client_arg *args, size_t count,
                                 sluice_resp_reply_fn *fn, void *user) {
    if (!is_command(args, count) || kind_of(args, count) != COMMAND_SUBSCRIPTION || count < 2)
        return -EINVAL;
    struct command command = {.kind = COMMAND_SUBSCRIPTION, .reply_fn = fn, .user = user};
    while (!resp_args_is(&args[0], words[command.word]))
        command.word++;
    command.confirmations = (uint32_t)count - 1;
    return give(client, args, count, command);
}

int sluice_resp_client_set(sluice_resp_client *client, const sluice_resp_arg *key, const sluice_resp_arg *value,
                           sluice_resp_reply_fn *fn, void *user) {
    const sluice_resp_client_arg args[] = {{.data = "SET", .length = 3},
                                           {.data = key->data, .length = key->length},
                                           {.data = value->data, .length = value->length, .is_lent = true}};
    return sluice_resp_client_command(client, args, 3, fn, user);
}

int sluice_resp_client_set_slice(sluice_resp_client *client, const sluice_resp_arg *key, const sluice_slice *value,
                                 sluice_resp_reply_fn *fn, void *user) {
    const sluice_resp_client_arg args[] = {
        {.data = "SET", .length = 3}, {.data = key->data, .length = key->length}, {.slice = value}};
    return sluice_resp_client_command(client, args, 3, fn, user);
}

int sluice_resp_client_get_into(sluice_resp_client *client, const sluice_resp_arg *key, void *memory, size_t size,
                                sluice_resp_into_fn *fn, void *user) {
    const sluice_resp_client_arg args[] = {{.data = "GET", .length = 3}, {.data = key->data, .length = key->length}};
    return sluice_resp_client_command_into(client, args, 2, memory, size, fn, user);
}

void *sluice_resp_client_stage(const sluice_resp_client *client) {
    return client->stage;
}

size_t sluice_resp_client_waiting(const sluice_resp_client *client) {
    return client->count;
}

/* ---- The client ---- */

/* A reply lies in the pool's blocks until it is whole: one that does not fit would be waited for in
 * vain. */
static int set_limits(sluice_resp_limits *limits, sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    (void)sluice_pool_get_stats(pool, &stats);
    size_t bytes = (size_t)stats.max * stats.block_size;
    size_t most = limits->bulk > SLUICE_RESP_DEFAULT_BULK ? 2 * limits->bulk : 2 * (size_t)SLUICE_RESP_DEFAULT_BULK;
    if (limits->reply == 0)
        limits->reply = most < bytes / 2 ? most : bytes / 2;
    return limits->reply > bytes ? -EINVAL : 0;
}

static int create(sluice_loop *loop, const sluice_resp_client_options *options, sluice_resp_client **ret_client) {
    sluice_resp_limits limits;
    uint32_t max = options->max_commands ? options->max_commands : SLUICE_RESP_CLIENT_DEFAULT_COMMANDS;
    int error = max > SLUICE_RESP_CLIENT_MAX_COMMANDS ? -EINVAL : SIZED_READ(&limits, options->limits);
    limits.size = sizeof limits;
    if (!error)
        error = set_limits(&limits, sluice_loop_pool(loop));
    if (error)
        return error;
    uint32_t capacity = max + options->resp3;
    sluice_resp_client *client = calloc(1, sizeof *client + capacity * sizeof *client->ring);
    if (!client)
        return -ENOMEM;
    client->loop = loop;
    client->max = max;
    client->capacity = capacity;
    client->timeout_ms = options->timeout_ms;
    client->version = 2;
    error = sluice_resp_new(&limits, &client->resp);
    if (!error && client->timeout_ms > 0)
        error = sluice_timer_new(loop, on_timer, client, &client->timer);
    if (error) {
        discard(client);
        return error;
    }
    *ret_client = client;
    return 0;
}

static int greet(sluice_resp_client *client) {
    const sluice_resp_client_arg args[] = {{.data = "HELLO", .length = 5}, {.data = "3", .length = 1}};
    client->is_greeting = true;
    return give(client, args, 2, (struct command){.kind = COMMAND_GREETING});
}

/* What a client has of its connection, which it owns from now on. */
static int connect_client(sluice_resp_client *client, const sluice_resp_client_options *o) {
    const size_t queued = o->max_queued ? o->max_queued : SLUICE_RESP_CLIENT_DEFAULT_QUEUED;
    int error = sluice_writer_new(client->conn, queued, &client->writer);
    if (!error && o->stage)
        error = o->stage->begin(client->conn, o->stage_options, &client->stage);
    client->calls = o->stage;
    return !error && o->resp3 ? greet(client) : error;
}

/* One whose connection has not been used. */
static void disconnect_client(sluice_resp_client *client) {
    static const sluice_conn_events deaf = {.size = sizeof deaf};
    sluice_writer_free(client->writer);
    if (client->stage)
        client->calls->release(client->stage);
    if (client->conn)
        (void)sluice_conn_set_events(client->conn, &deaf, NULL);
    sluice_conn_close(client->conn);
    sluice_timer_free(client->timer);
    discard(client);
}

int sluice_resp_client_new(sluice_loop *loop, int fd, const sluice_resp_client_options *options,
                           const sluice_resp_client_events *events, void *user, sluice_resp_client **ret_client) {
    sluice_resp_client *client = NULL;
    sluice_resp_client_options o;
    if (fd < 0)
        return -EINVAL;
    int error = SIZED_READ(&o, options);
    if (!error && events)
        error = SIZED_CHECK(events);
    if (!error && o.stage)
        error = SIZED_CHECK(o.stage);
    if (!error)
        error = create(loop, &o, &client);
    if (error) {
        close(fd);
        return error;
    }
    client->events = events ? events : &no_events;
    client->user = user;
    error = sluice_conn_new(loop, fd, &conn_events, client, &client->conn);
    if (error)
        close(fd);
    else
        error = connect_client(client, &o);
    if (error) {
        disconnect_client(client);
        return error;
    }
    *ret_client = client;
    return 0;
}

void sluice_resp_client_close(sluice_resp_client *client) {
    if (client)
        fail(client, 0);
}

void sluice_resp_client_free(sluice_resp_client *client) {
    if (!client)
        return;
    enter(client);
    client->is_freed = true;
    fail(client, 0);
    leave(client);
}

static int left_ms(uint64_t end) {
    uint64_t now = clock_ns();
    if (end == UINT64_MAX)
        return -1;
    uint64_t left = end > now ? (end - now + NS_PER_MS - 1) / NS_PER_MS : 0;
    return left < INT32_MAX ? (int)left : INT32_MAX;
}

int sluice_resp_client_wait(sluice_resp_client *client, int timeout_ms) {
    uint64_t end = timeout_ms < 0 ? UINT64_MAX : clock_ns() + (uint64_t)timeout_ms * NS_PER_MS;
    int error = 0;
    if (client->is_closing && client->count == 0)
        return -EPIPE;
    enter(client);
    while (client->count > 0 && !error) {
        int left = left_ms(end);
        error = sluice_loop_turn(client->loop, left);
        if (!error && left == 0 && client->count > 0)
            error = -ETIMEDOUT;
    }
    if (!error && !client->conn)
        error = client->error ? client->error : -ECANCELED;
    leave(client);
    return error;
}
