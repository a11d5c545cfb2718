#include "daemon/process/upgrade.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/admin/admin.h"
#include "daemon/base/log.h"
#include "daemon/base/systemd.h"
#include "daemon/control/reload.h"
#include "daemon/control/spawn.h"
#include "daemon/control/wakeup.h"
#include "daemon/process/predecessors.h"
#include "daemon/process/state_handoff.h"
#include "daemon/server/handoff.h"

enum {
    /* for the other process to become ready: less than the API's client waits */
    READY_S = 60,
    TURN_MS = 60 * 1000, /* for this one to be told to go on */
    REASON = 128,
};

/*
 * The messages between the processes, in this order. At the end the previous process closes the
 * channel.
 */
static const char ready = 'r', go = 'g', taken = 't';

enum upgrade_state {
    UPGRADE_NONE,
    UPGRADE_LENDING,  /* upgrade_start(): the server is lending its sockets */
    UPGRADE_STARTING, /* on_wake(): the other process is to become ready */
    UPGRADE_LEAVING,  /* on_channel(): the server is to stop accepting */
    /* on_wake(), on_channel(): the other process is to begin, with the state, and to say so */
    UPGRADE_PASSING,
    UPGRADE_OVER,      /* on_channel(): it has */
    UPGRADE_RETURNING, /* go_back(): the server is to accept again */
    UPGRADE_LOST,      /* lose(): it cannot; no process listens any more */
    UPGRADE_CANCELLED, /* upgrade_cancel(): the server stops; no process is started any more */
};

struct upgrade {
    struct event_base *base;
    struct server *server;
    const struct command_line *line;
    struct admin *admin;
    struct reload *reload;
    enum upgrade_state state;
    upgrade_done_fn *done;
    void *user;
    void (*leaving)(void *user); /* or NULL */
    void *leaving_user;
    /* to be given away: duplicates, until the other process has begun */
    struct spawn_sockets sockets;
    pid_t pid;
    int channel; /* to the other process; -1: there is none */
    struct event *channel_event;
    /* seconds that the channel has been; time in which this process stands still is one */
    unsigned silent;
    struct wakeup wakeup;

    pthread_mutex_t lock; /* of the fields below, which a worker writes */
    bool has_come;
    int error;
    struct listeners_socket lent[OPTIONS_MAX_LISTENERS];
    size_t lent_count;

    size_t listener_count; /* of the sockets; the others are the administration's */
    char reason[REASON];   /* why it has failed, while the server returns */
    struct state_handoff state_handoff;
    struct predecessors *predecessors;
};

/* The other process is of no use any more, whatever it does. Its status where it has ended by
 * itself. */
static int end_successor(const struct upgrade *upgrade) {
    int status = 0;
    (void)kill(upgrade->pid, SIGKILL);
    (void)waitpid(upgrade->pid, &status, 0);
    return status;
}

/* One that has not taken over. */
static bool has_successor(const struct upgrade *upgrade) {
    return upgrade->state == UPGRADE_STARTING || upgrade->state == UPGRADE_LEAVING || upgrade->state == UPGRADE_PASSING;
}

static void close_channel(struct upgrade *upgrade) {
    if (upgrade->channel_event)
        event_free(upgrade->channel_event);
    upgrade->channel_event = NULL;
    if (upgrade->channel >= 0)
        close(upgrade->channel);
    upgrade->channel = -1;
}

static void finish(struct upgrade *upgrade, int error, const char *reason) {
    upgrade_done_fn *done = upgrade->done;
    upgrade->done = NULL;
    if (error)
        LOG(LOG_ERROR, "cannot upgrade", {"reason", reason});
    if (done)
        done(error, reason, upgrade->pid, upgrade->user);
}

/* Nothing has changed: everything goes on here. */
static void give_up(struct upgrade *upgrade, int error, const char *reason) {
    spawn_sockets_close(&upgrade->sockets);
    close_channel(upgrade);
    upgrade->state = UPGRADE_NONE;
    reload_hold(upgrade->reload, false);
    finish(upgrade, error, reason);
}

/* On a worker's thread. */
static void on_lent(int error, const struct listeners_socket *list, size_t count, void *user) {
    struct upgrade *upgrade = user;
    pthread_mutex_lock(&upgrade->lock);
    upgrade->has_come = true;
    upgrade->error = error;
    upgrade->lent_count = count;
    for (size_t i = 0; i < count; i++)
        upgrade->lent[i] = list[i];
    pthread_mutex_unlock(&upgrade->lock);
    wakeup_notify(&upgrade->wakeup);
}

/* On a worker's thread. */
static void come(struct upgrade *upgrade, int error) {
    pthread_mutex_lock(&upgrade->lock);
    upgrade->has_come = true;
    upgrade->error = error;
    pthread_mutex_unlock(&upgrade->lock);
    wakeup_notify(&upgrade->wakeup);
}

static void on_left(void *user) {
    come(user, 0);
}

static void on_returned(int error, void *user) {
    come(user, error);
}

/* The other process is ready. It waits until nothing is accepted here any more. */
static void leave(struct upgrade *upgrade) {
    const struct handoff_calls calls = {
        .take = state_handoff_take, .taker = &upgrade->state_handoff, .left = on_left, .user = upgrade};
    state_handoff_begin(&upgrade->state_handoff);
    int error = handoff_leave(upgrade->server, &calls);
    if (error < 0) {
        (void)end_successor(upgrade);
        give_up(upgrade, error, error == -ESHUTDOWN ? "server shutting down" : "out of memory");
        return;
    }
    upgrade->state = UPGRADE_LEAVING;
}

/* @state: a descriptor, or -1 */
static void send_go(const struct upgrade *upgrade, int state) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof state)];
    } control = {0};
    struct iovec byte = {(void *)&go, 1};
    struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1};
    if (state >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof state), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(head), &state, sizeof state);
    }
    (void)!sendmsg(upgrade->channel, &message, MSG_NOSIGNAL);
}

/* The state does not change any more: the other process is to begin, with it. */
static void pass(struct upgrade *upgrade) {
    int state = -1;
    int error = state_handoff_write(&upgrade->state_handoff, upgrade->server, upgrade->predecessors, &state);
    if (error)
        LOG(LOG_ERROR, "state not handed over", {"reason", strerror(-error)});
    send_go(upgrade, state);
    if (state >= 0)
        close(state);
}

static void end(struct upgrade *upgrade) {
    upgrade->state = UPGRADE_OVER;
    spawn_sockets_close(&upgrade->sockets);
    LOG(LOG_INFO, "replaced", {"pid", log_unsigned((uint64_t)upgrade->pid).text});
    /* The manager is to hear of it before the other process speaks, which it does when the channel
     * is closed. */
    systemd_main_pid(upgrade->pid);
    if (upgrade->leaving)
        upgrade->leaving(upgrade->leaving_user);
    close_channel(upgrade);
    admin_leave(upgrade->admin);
    server_replaced(upgrade->server);
    finish(upgrade, 0, "");
}

/* No process accepts: this one ends, and its parent sees that it has failed. */
static void lose(struct upgrade *upgrade) {
    upgrade->state = UPGRADE_LOST;
    spawn_sockets_close(&upgrade->sockets);
    server_replaced(upgrade->server);
    finish(upgrade, -ECHILD, upgrade->reason);
}

/* The first of the sockets are those that the server has lent, in their order. */
static int return_sockets(struct upgrade *upgrade) {
    for (size_t i = 0; i < upgrade->listener_count; i++)
        upgrade->lent[i].fd = upgrade->sockets.fds[i];
    int error = handoff_return(upgrade->server, upgrade->lent, upgrade->listener_count, on_returned, upgrade);
    for (size_t i = error ? upgrade->sockets.count : upgrade->listener_count; i < upgrade->sockets.count; i++)
        close(upgrade->sockets.fds[i]);
    if (!error)
        upgrade->sockets = (struct spawn_sockets){.count = 0};
    return error;
}

/*
 * Nothing is accepted here any more, and the process that was to go on has ended. The sockets are
 * still there, with the connections in their backlogs: the server takes them back.
 */
static void go_back(struct upgrade *upgrade, const char *reason) {
    close_channel(upgrade);
    snprintf(upgrade->reason, sizeof upgrade->reason, "%s", reason);
    upgrade->state = UPGRADE_RETURNING;
    if (return_sockets(upgrade) < 0)
        lose(upgrade);
}

/* The server accepts again, as if there had been no upgrade. One that stops already is left to
 * that. */
static void stay(struct upgrade *upgrade, int error) {
    if (!error || error == -ESHUTDOWN) {
        give_up(upgrade, -ECHILD, upgrade->reason);
        return;
    }
    lose(upgrade);
    server_stop(upgrade->server);
}

/* It will not become ready, or not begin. */
static void reap(struct upgrade *upgrade, bool is_late) {
    char reason[REASON];
    int status = end_successor(upgrade);
    if (is_late)
        snprintf(reason, sizeof reason, "new process not ready: waited %d seconds", READY_S);
    else if (WIFSIGNALED(status))
        snprintf(reason, sizeof reason, "new process failed: signal %d", WTERMSIG(status));
    else
        snprintf(reason, sizeof reason, "new process failed: exit status %d", WEXITSTATUS(status));
    if (upgrade->state == UPGRADE_PASSING)
        go_back(upgrade, reason);
    else
        give_up(upgrade, -ECHILD, reason);
}

static void on_channel(evutil_socket_t fd, short what, void *user) {
    struct upgrade *upgrade = user;
    char byte = 0;
    ssize_t got = what & EV_READ ? recv(fd, &byte, 1, 0) : -1;
    if (got < 0 && what & EV_READ && errno == EAGAIN)
        return;
    if (what & EV_READ)
        upgrade->silent = 0;
    else if (++upgrade->silent < READY_S)
        return;
    if (upgrade->state == UPGRADE_LEAVING) {
        /* on_wake() finds it so: until then there is nothing to be done about it. */
        if (!(what & EV_TIMEOUT))
            close_channel(upgrade);
    } else if (got == 1 && byte == ready && upgrade->state == UPGRADE_STARTING) {
        leave(upgrade);
    } else if (got == 1 && byte == taken && upgrade->state == UPGRADE_PASSING) {
        end(upgrade);
    } else {
        reap(upgrade, what & EV_TIMEOUT);
    }
}

/* 0, or why not all can be given away. */
static int take_lent(struct upgrade *upgrade) {
    pthread_mutex_lock(&upgrade->lock);
    int error = upgrade->error;
    size_t count = error ? 0 : upgrade->lent_count;
    upgrade->lent_count = 0;
    pthread_mutex_unlock(&upgrade->lock);
    for (size_t i = 0; i < count; i++) {
        const struct listeners_socket *lent = &upgrade->lent[i];
        int failed = spawn_sockets_add(&upgrade->sockets, lent->fd, lent->option.protocol->option.name,
                                       lent->option.tls, lent->option.is_managed);
        error = error ? error : failed;
    }
    upgrade->listener_count = upgrade->sockets.count;
    return error ? error : admin_lend(upgrade->admin, &upgrade->sockets);
}

/* 0, or -errno: there is no other process then. */
static int spawn(struct upgrade *upgrade) {
    static const struct timeval second = {.tv_sec = 1};
    int channel[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, channel) < 0)
        return -errno;
    upgrade->channel = channel[0];
    upgrade->silent = 0;
    int error = spawn_successor(upgrade->line->words, &upgrade->sockets, channel[1], &upgrade->pid);
    bool spawned = !error;
    close(channel[1]);
    if (spawned) {
        upgrade->channel_event = event_new(upgrade->base, channel[0], EV_READ | EV_PERSIST, on_channel, upgrade);
        error = upgrade->channel_event && event_add(upgrade->channel_event, &second) == 0 ? 0 : -ENOMEM;
    }
    if (error) {
        if (spawned)
            (void)end_successor(upgrade);
        close_channel(upgrade);
        return error;
    }
    LOG(LOG_INFO, "upgrading", {"pid", log_unsigned((uint64_t)upgrade->pid).text});
    return 0;
}

static void start(struct upgrade *upgrade) {
    int error = take_lent(upgrade);
    if (error) {
        char reason[REASON];
        snprintf(reason, sizeof reason, "socket handoff failed: %s",
                 error == -ESHUTDOWN ? "server shutting down"
                 : error == -E2BIG   ? "too many sockets"
                                     : strerror(-error));
        give_up(upgrade, error, reason);
        return;
    }
    error = spawn(upgrade);
    if (error)
        give_up(upgrade, error, strerror(-error));
    else
        upgrade->state = UPGRADE_STARTING;
}

static void on_wake(void *user) {
    struct upgrade *upgrade = user;
    pthread_mutex_lock(&upgrade->lock);
    bool has_come = upgrade->has_come;
    int error = upgrade->error;
    upgrade->has_come = false;
    pthread_mutex_unlock(&upgrade->lock);
    if (has_come && upgrade->state == UPGRADE_LENDING) {
        start(upgrade);
    } else if (has_come && upgrade->state == UPGRADE_LEAVING) {
        /* Nothing is accepted here any more, so it may begin. */
        upgrade->state = UPGRADE_PASSING;
        if (upgrade->channel >= 0)
            pass(upgrade);
        else
            reap(upgrade, false);
    } else if (has_come && upgrade->state == UPGRADE_RETURNING) {
        stay(upgrade, error);
    }
}

int upgrade_new(struct event_base *base, struct server *server, const struct command_line *line, struct admin *admin,
                struct reload *reload, struct upgrade **ret_upgrade) {
    struct upgrade *upgrade = calloc(1, sizeof *upgrade);
    if (!upgrade)
        return -ENOMEM;
    upgrade->base = base;
    upgrade->server = server;
    upgrade->line = line;
    upgrade->admin = admin;
    upgrade->reload = reload;
    upgrade->channel = -1;
    pthread_mutex_init(&upgrade->lock, NULL);
    state_handoff_init(&upgrade->state_handoff);
    if (wakeup_init(&upgrade->wakeup, base, on_wake, upgrade) < 0 ||
        predecessors_new(base, server, &upgrade->predecessors) < 0) {
        upgrade_free(upgrade);
        return -ENOMEM;
    }
    *ret_upgrade = upgrade;
    return 0;
}

void upgrade_set_leaving(struct upgrade *upgrade, void (*leaving)(void *user), void *user) {
    upgrade->leaving = leaving;
    upgrade->leaving_user = user;
}

void upgrade_free(struct upgrade *upgrade) {
    if (!upgrade)
        return;
    if (has_successor(upgrade))
        (void)end_successor(upgrade);
    close_channel(upgrade);
    spawn_sockets_close(&upgrade->sockets);
    for (size_t i = 0; i < upgrade->lent_count; i++)
        close(upgrade->lent[i].fd);
    wakeup_clear(&upgrade->wakeup);
    predecessors_free(upgrade->predecessors);
    state_handoff_clear(&upgrade->state_handoff);
    pthread_mutex_destroy(&upgrade->lock);
    free(upgrade);
}

int upgrade_start(struct upgrade *upgrade, upgrade_done_fn *done, void *user) {
    if (upgrade->state == UPGRADE_CANCELLED)
        return -ESHUTDOWN;
    if (upgrade->state != UPGRADE_NONE || reload_is_under_way(upgrade->reload))
        return -EBUSY;
    int error = handoff_lend(upgrade->server, on_lent, upgrade);
    if (error)
        return error;
    upgrade->state = UPGRADE_LENDING;
    reload_hold(upgrade->reload, true);
    upgrade->done = done;
    upgrade->user = user;
    return 0;
}

void upgrade_cancel(struct upgrade *upgrade) {
    const enum upgrade_state state = upgrade->state;
    if (state == UPGRADE_OVER || state == UPGRADE_LOST)
        return;
    if (has_successor(upgrade))
        (void)end_successor(upgrade);
    if (state != UPGRADE_NONE && state != UPGRADE_CANCELLED)
        give_up(upgrade, -ESHUTDOWN, "server shutting down");
    /* What the server was asked for may still come, and begins nothing. */
    upgrade->state = UPGRADE_CANCELLED;
}

bool upgrade_is_over(const struct upgrade *upgrade) {
    return upgrade->state == UPGRADE_OVER;
}

bool upgrade_is_lost(const struct upgrade *upgrade) {
    return upgrade->state == UPGRADE_LOST;
}

/* Until the process before says something. False: it has closed the channel, or is gone.
 * @ret_given: a descriptor that it gives with that, or -1 */
static bool await_turn(int fd, int *ret_given) {
    struct pollfd turn = {.fd = fd, .events = POLLIN};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    char byte;
    struct iovec bytes = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    *ret_given = -1;
    while (poll(&turn, 1, TURN_MS) < 0 && errno == EINTR)
        continue;
    if (recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
        return false;
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof *ret_given))
        memcpy(ret_given, CMSG_DATA(head), sizeof *ret_given);
    return true;
}

void upgrade_take_over(struct upgrade *upgrade, int fd) {
    const pid_t parent = getppid();
    int state;
    LOG(LOG_INFO, "taking over", {"from", log_unsigned((uint64_t)parent).text});
    (void)!send(fd, &ready, 1, MSG_NOSIGNAL);
    if (await_turn(fd, &state))
        predecessors_watch(upgrade->predecessors, parent);
    if (state >= 0)
        state_handoff_read(state, upgrade->server, upgrade->predecessors);
    (void)!send(fd, &taken, 1, MSG_NOSIGNAL);
    (void)await_turn(fd, &state);
    close(fd);
}
