#include "daemon/server/listeners.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/config/protocol.h"
#include "daemon/server/worker.h"

enum {
    PATIENCE_MS = 1000, /* for an address that another process is giving up */
    PAUSE_MS = 10,
};

struct listening {
    struct listening *next;
    struct listeners *listeners;
    struct listener_option option; /* a copy: options come and go */
    sluice_listener *listener;
    char address[ADDRESS_TEXT]; /* as it is bound: the port may be the system's choice */
    bool is_wanted;             /* by the options that are being set */
};

struct listeners {
    struct worker *worker;
    listeners_accepted_fn *accepted;
    struct listening *list;
    bool started;             /* the loop may run: nothing may be waited for */
    void (*left)(void *user); /* NULL: they do not leave, or have left */
    void *left_user;
};

int listeners_new(struct worker *worker, listeners_accepted_fn *accepted, struct listeners **ret_listeners) {
    struct listeners *listeners = calloc(1, sizeof *listeners);
    if (!listeners)
        return -ENOMEM;
    *listeners = (struct listeners){.worker = worker, .accepted = accepted};
    *ret_listeners = listeners;
    return 0;
}

static void on_accepted(sluice_listener *listener, int fd, void *user) {
    struct listening *listening = user;
    (void)listener;
    listening->listeners->accepted(listening->listeners->worker, &listening->option, fd);
}

static void log_change(const struct listening *listening, const char *message) {
    const log_field fields[] = {
        {"proto", listening->option.protocol->option.name}, {"address", listening->address}, {"tls", "yes"}};
    log_write(LOG_INFO, message, fields, listening->option.tls ? 3 : 2);
}

static int adopt(struct listening *listening) {
    return sluice_listener_adopt(listening->listeners->worker->loop, listening->option.fd, on_accepted, listening,
                                 &listening->listener);
}

/*
 * The kernel closes the sockets of an io_uring ring some time after the process that was killed is
 * gone. So at the start an address that is taken is waited for.
 */
static int listen_at(struct listening *listening) {
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    const struct listeners *listeners = listening->listeners;
    const struct sockaddr *address = (const struct sockaddr *)&listening->option.address;
    socklen_t length = address_length(&listening->option.address);
    int error, left_ms = listeners->started ? 0 : PATIENCE_MS;
    while ((error = sluice_listener_new(listeners->worker->loop, address, length, on_accepted, listening,
                                        &listening->listener)) == -EADDRINUSE &&
           left_ms > 0) {
        (void)nanosleep(&pause, NULL);
        left_ms -= PAUSE_MS;
    }
    return error;
}

/* At the list's end, so that they are logged in the given order. */
static int open_one(struct listeners *listeners, const struct listener_option *option, char reason[LISTENERS_ERROR]) {
    struct listening *listening = calloc(1, sizeof *listening), **link = &listeners->list;
    struct sockaddr_storage bound;
    char text[ADDRESS_TEXT];
    int error = listening ? 0 : -ENOMEM;
    if (!error) {
        *listening = (struct listening){.listeners = listeners, .option = *option, .is_wanted = true};
        error = option->fd ? adopt(listening) : listen_at(listening);
    }
    address_format(&option->address, text);
    if (error) {
        LOG(LOG_ERROR, "cannot listen", {"proto", option->protocol->option.name}, {"address", text},
            {"reason", strerror(-error)});
        snprintf(reason, LISTENERS_ERROR, "cannot listen at %s: %s", text, strerror(-error));
        free(listening);
        return error;
    }
    while (*link)
        link = &(*link)->next;
    *link = listening;
    bool is_bound = sluice_listener_address(listening->listener, &bound) == 0;
    address_format(is_bound ? &bound : &option->address, listening->address);
    log_change(listening, "listening");
    return 0;
}

static bool is_for_the_same(const struct listener_option *a, const struct listener_option *b) {
    return a->protocol == b->protocol && a->tls == b->tls;
}

/* One that may become this one. Where the system has chosen the port, the port is one protocol's,
 * with TLS or without. */
static bool may_become(const struct listening *listening, const struct listener_option *option) {
    return !listening->is_wanted && memcmp(&listening->option.address, &option->address, sizeof option->address) == 0 &&
           (address_port(&option->address) != 0 || is_for_the_same(&listening->option, option));
}

static struct listening *find(const struct listeners *listeners, const struct listener_option *option) {
    struct listening *found = listeners->list;
    while (found && !may_become(found, option))
        found = found->next;
    return found;
}

/* Those that are wanted or those that are not. */
static void close_all(struct listeners *listeners, const struct listening *from, bool wanted) {
    bool counts = !from;
    for (struct listening **link = &listeners->list; *link;) {
        struct listening *listening = *link;
        counts = counts || listening == from;
        if (!counts || listening->is_wanted != wanted) {
            link = &listening->next;
            continue;
        }
        log_change(listening, "listener closed");
        *link = listening->next;
        sluice_listener_free(listening->listener);
        free(listening);
    }
}

/* Once, when none of them is there any more. */
static void tell_left(struct listeners *listeners) {
    void (*left)(void *user) = listeners->left;
    if (listeners->list || !left)
        return;
    listeners->left = NULL;
    left(listeners->left_user);
}

static void on_stopped(void *user) {
    struct listening *listening = user;
    struct listeners *listeners = listening->listeners;
    struct listening **link = &listeners->list;
    while (*link != listening)
        link = &(*link)->next;
    *link = listening->next;
    free(listening);
    tell_left(listeners);
}

void listeners_leave(struct listeners *listeners, void (*left)(void *user), void *user) {
    listeners->left = left;
    listeners->left_user = user;
    for (struct listening *listening = listeners->list; listening; listening = listening->next)
        (void)sluice_listener_stop(listening->listener, on_stopped);
    tell_left(listeners);
}

int listeners_return(struct listeners *listeners, const struct listeners_socket *list, size_t count) {
    char reason[LISTENERS_ERROR];
    int result = 0;
    for (size_t i = 0; i < count; i++) {
        struct listener_option option = list[i].option;
        option.fd = list[i].fd;
        int error = open_one(listeners, &option, reason);
        if (!error)
            continue;
        close(list[i].fd);
        result = error;
    }
    return result;
}

int listeners_lend(const struct listeners *listeners, struct listeners_socket *ret_list, size_t *ret_count) {
    size_t count = 0;
    for (const struct listening *one = listeners->list; one && count < OPTIONS_MAX_LISTENERS; one = one->next) {
        int fd = fcntl(sluice_listener_fd(one->listener), F_DUPFD_CLOEXEC, 0);
        if (fd < 0) {
            int error = -errno;
            while (count > 0)
                close(ret_list[--count].fd);
            return error;
        }
        ret_list[count++] = (struct listeners_socket){fd, one->option};
    }
    *ret_count = count;
    return 0;
}

void listeners_free(struct listeners *listeners) {
    if (!listeners)
        return;
    for (struct listening *listening = listeners->list, *next; listening; listening = next) {
        next = listening->next;
        sluice_listener_free(listening->listener);
        free(listening);
    }
    listeners->list = NULL;
    tell_left(listeners);
    free(listeners);
}

static void change(struct listening *listening, const struct listener_option *option) {
    bool is_other = !is_for_the_same(&listening->option, option);
    bool is_managed = listening->option.is_managed;
    listening->option = *option;
    listening->option.is_managed |= is_managed;
    if (is_other)
        log_change(listening, "listening");
}

int listeners_set(struct listeners *listeners, const struct options *options, char reason[LISTENERS_ERROR]) {
    struct listening *kept[OPTIONS_MAX_LISTENERS] = {NULL}, *last = listeners->list;
    int error = 0;
    while (last && last->next)
        last = last->next;
    for (struct listening *listening = listeners->list; listening; listening = listening->next)
        listening->is_wanted = false;
    for (size_t i = 0; i < options->listener_count; i++)
        if ((kept[i] = find(listeners, &options->listeners[i])))
            kept[i]->is_wanted = true;
    for (size_t i = 0; i < options->listener_count && !error; i++)
        if (!kept[i])
            error = open_one(listeners, &options->listeners[i], reason);
    listeners->started = true;
    if (error) {
        const struct listening *opened = last ? last->next : listeners->list;
        if (opened)
            close_all(listeners, opened, true);
        return error;
    }
    close_all(listeners, NULL, false);
    for (size_t i = 0; i < options->listener_count; i++)
        if (kept[i])
            change(kept[i], &options->listeners[i]);
    return 0;
}

void listeners_addresses(struct listeners *listeners, const struct options *options,
                         char ret_texts[OPTIONS_MAX_LISTENERS][ADDRESS_TEXT]) {
    for (struct listening *listening = listeners->list; listening; listening = listening->next)
        listening->is_wanted = false;
    for (size_t i = 0; i < options->listener_count; i++) {
        struct listening *found = find(listeners, &options->listeners[i]);
        ret_texts[i][0] = '\0';
        if (!found)
            continue;
        found->is_wanted = true;
        memcpy(ret_texts[i], found->address, ADDRESS_TEXT);
    }
}
