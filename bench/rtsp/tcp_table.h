/* The kernel's table of TCP over IPv4, /proc/net/tcp: listeners come first. */
#ifndef BENCH_RTSP_TCP_TABLE_H
#define BENCH_RTSP_TCP_TABLE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct tcp_row {
    unsigned own_port, other_port;
    bool listens;
    /* bytes that its program has not read; of a listener, connections that it has not accepted */
    unsigned unread;
} tcp_row;

/* What is wrong ends the process. fclose() follows. */
FILE *tcp_table_open(void);

/* False at the end. */
bool tcp_table_next(FILE *table, tcp_row *ret_row);

#endif
