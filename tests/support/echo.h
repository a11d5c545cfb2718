/*
 * A server on a loop that sends back what it receives, and clients on the same loop that check what
 * comes back: both directions of many connections in one thread, whoever runs the loop.
 */
#ifndef SLUICE_TESTS_SUPPORT_ECHO_H
#define SLUICE_TESTS_SUPPORT_ECHO_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/conn.h>
#include <sluice/loop.h>

typedef struct echo_server {
    sluice_loop *loop;
    sluice_listener *listener;
    unsigned open, served;
} echo_server;

/* Listens on loopback. */
void echo_server_open(echo_server *server, sluice_loop *loop);

/* Sends @total pattern bytes, says that it has finished, and closes at the end of what comes
 * back. */
typedef struct echo_client {
    sluice_conn *conn;
    uint32_t seed;
    uint64_t total;
    uint64_t sent;
    uint64_t place; /* received */
    bool differs;   /* what came back, from what was sent */
    bool ended;     /* without an error */
    unsigned closed;
    uint8_t bytes[65536]; /* with the kernel while it sends */
} echo_client;

/* Connects over TCP. With a total of 0 it stays open, and idle. */
void echo_client_open(echo_client *client, const echo_server *server, uint32_t seed, uint64_t total);

/* All came back as it was sent. */
void echo_client_check(const echo_client *client);

#endif
