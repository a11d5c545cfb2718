#include "support/redis.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *program(void) {
    const char *path = getenv("SLUICE_TEST_ENGINE");
    return path && *path ? path : "redis-server";
}

bool redis_is_installed(void) {
    char path[4096];
    if (strchr(program(), '/'))
        return true;
    const char *folders = getenv("PATH");
    while (folders && *folders) {
        size_t length = strcspn(folders, ":");
        snprintf(path, sizeof path, "%.*s/redis-server", (int)length, folders);
        if (access(path, X_OK) == 0)
            return true;
        folders += length + (folders[length] == ':');
    }
    printf("skipped: redis-server is not installed (Debian: apt-get install redis-server)\n");
    return false;
}

static struct sockaddr_in loopback(uint16_t port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* A port that is free now; should another program take it first, the server ends and is started on
 * another. */
static uint16_t free_port(void) {
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static void run(const redis_server *server, int log, bool with_debug) {
    char port[8];
    sprintf(port, "%u", server->port);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    const char *args[] = {program(),
                          "--port",
                          port,
                          "--bind",
                          "127.0.0.1",
                          "--dir",
                          server->directory,
                          "--save",
                          "",
                          "--appendonly",
                          "no",
                          "--daemonize",
                          "no",
                          "--logfile",
                          "",
                          with_debug ? "--enable-debug-command" : NULL,
                          "local",
                          NULL};
    execvp(args[0], (char *const *)args);
    _exit(127);
}

/* Reads the server's log until it says that it listens; false when it ends. */
static bool wait_until_ready(const redis_server *server) {
    static const char ready[] = "eady to accept connections";
    size_t matched = 0;
    char byte;
    while (matched < sizeof ready - 1) {
        if (read(server->log, &byte, 1) != 1)
            return false;
        matched = byte == ready[matched] ? matched + 1 : byte == ready[0];
    }
    return true;
}

static bool start_once(redis_server *server, bool with_debug) {
    int log[2];
    assert_int_equal(pipe(log), 0);
    server->port = free_port();
    server->log = log[0];
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0)
        run(server, log[1], with_debug);
    close(log[1]);
    if (wait_until_ready(server))
        return true;
    close(server->log);
    waitpid(server->pid, NULL, 0);
    return false;
}

bool redis_start(redis_server *server) {
    strcpy(server->directory, "/tmp/test-redis-XXXXXX");
    assert_non_null(mkdtemp(server->directory));
    /* Before version 7 there was no such option. */
    for (int i = 0; i < 6; i++)
        if (start_once(server, i < 3))
            return true;
    rmdir(server->directory);
    return false;
}

void redis_stop(redis_server *server, int signal_number) {
    int status;
    assert_int_equal(kill(server->pid, signal_number), 0);
    assert_int_equal(waitpid(server->pid, &status, 0), server->pid);
    close(server->log);
    assert_int_equal(rmdir(server->directory), 0);
}

int redis_connect(const redis_server *server) {
    const struct sockaddr_in address = loopback(server->port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)), 0);
    return fd;
}
