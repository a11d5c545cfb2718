#include "daemon/control/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FIRST_FD = 3,
    /* behind all that the other process gets: so none is in another's place */
    AWAY = FIRST_FD + LISTEN_FDS_MOST + 1,
};

int spawn_sockets_add(struct spawn_sockets *sockets, int fd, const char *name, bool tls, bool is_managed) {
    size_t length = strlen(sockets->names);
    int away = sockets->count < LISTEN_FDS_MOST ? fcntl(fd, F_DUPFD_CLOEXEC, AWAY) : -E2BIG;
    int error = away == -1 ? -errno : away < 0 ? away : 0;
    close(fd);
    /* Where the limit is below AWAY, there is no such number. */
    if (error)
        return error == -EINVAL ? -EMFILE : error;
    snprintf(sockets->names + length, sizeof sockets->names - length, "%s%s%s%s", length > 0 ? ":" : "",
             is_managed ? "" : LISTEN_FDS_LENT, name, tls ? LISTEN_FDS_TLS : "");
    sockets->fds[sockets->count++] = away;
    return 0;
}

void spawn_sockets_close(struct spawn_sockets *sockets) {
    for (size_t i = 0; i < sockets->count; i++)
        close(sockets->fds[i]);
    *sockets = (struct spawn_sockets){.count = 0};
}

static bool is_ours(const char *variable) {
    static const char *const names[] = {"LISTEN_FDS=", "LISTEN_PID=", "LISTEN_FDNAMES=", LISTEN_FDS_CHANNEL "="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/*
 * The environment, with variables that describe the sockets to the other process. In one
 * allocation; NULL without memory.
 */
static char **make_environment(const struct spawn_sockets *sockets) {
    enum { ROOM = sizeof sockets->names + 128 };
    size_t count = 0, taken = 0;
    while (environ[count])
        count++;
    char **list = calloc(1, (count + 4) * sizeof *list + ROOM);
    if (!list)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (!is_ours(environ[i]))
            list[taken++] = environ[i];
    char *text = (char *)(list + count + 4), *end = text + ROOM;
    list[taken++] = text;
    text += snprintf(text, (size_t)(end - text), "LISTEN_FDS=%zu", sockets->count) + 1;
    list[taken++] = text;
    text += snprintf(text, (size_t)(end - text), "LISTEN_FDNAMES=%s", sockets->names) + 1;
    list[taken++] = text;
    /*
     * The process id for LISTEN_PID is not known yet; the parent's id identifies the process as
     * well.
     */
    snprintf(text, (size_t)(end - text), LISTEN_FDS_CHANNEL "=%zu:%ld", FIRST_FD + sockets->count, (long)getpid());
    return list;
}

/* As it was called, so that a link may point to another version by now; found by PATH, it is where
 * it was found. */
static const char *find_program(const char *word, char path[PATH_MAX]) {
    static const char deleted[] = " (deleted)";
    if (strchr(word, '/'))
        return word;
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length < 0)
        return word;
    path[length] = '\0';
    char *end = path + length - (sizeof deleted - 1);
    if (end > path && strcmp(end, deleted) == 0)
        *end = '\0';
    return path;
}

static int place_descriptors(posix_spawn_file_actions_t *actions, const struct spawn_sockets *sockets, int channel) {
    int error = 0, next = FIRST_FD;
    for (size_t i = 0; i < sockets->count && !error; i++)
        error = posix_spawn_file_actions_adddup2(actions, sockets->fds[i], next++);
    if (!error)
        error = posix_spawn_file_actions_adddup2(actions, channel, next++);
    return error;
}

/* It begins with no signal blocked or ignored. */
static int clear_signals(posix_spawnattr_t *attributes) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawnattr_setsigmask(attributes, &none);
    error = error ? error : posix_spawnattr_setsigdefault(attributes, &all);
    return error ? error : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

int spawn_successor(char **words, const struct spawn_sockets *sockets, int channel, pid_t *ret_pid) {
    char path[PATH_MAX];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int away = fcntl(channel, F_DUPFD_CLOEXEC, AWAY);
    char **environment = make_environment(sockets);
    int error = away < 0 ? errno : environment ? 0 : ENOMEM;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    error = error ? error : place_descriptors(&actions, sockets, away);
    error = error ? error : clear_signals(&attributes);
    if (!error)
        error = posix_spawn(ret_pid, find_program(words[0], path), &actions, &attributes, words, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    free(environment);
    if (away >= 0)
        close(away);
    return -error;
}
