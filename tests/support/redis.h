/* A real redis-server for the tests: on loopback, on a free port, without files, gone with the
 * test. */
#ifndef SLUICE_TESTS_SUPPORT_REDIS_H
#define SLUICE_TESTS_SUPPORT_REDIS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct redis_server {
    pid_t pid;
    uint16_t port;
    int log; /* what it writes */
    char directory[32];
} redis_server;

/* Whether there is one to start; says so when there is none. */
bool redis_is_installed(void);

/* Starts it and waits until it listens; false when it does not. */
bool redis_start(redis_server *server);

/* Ends it by this signal, and waits until it is gone. */
void redis_stop(redis_server *server, int signal_number);

/* A connected socket: blocking, without delay. */
int redis_connect(const redis_server *server);

#endif
