#include "rtsp/tcp_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/process.h"

enum { LISTENING = 0x0A, LINE = 256 };

FILE *tcp_table_open(void) {
    char heading[LINE];
    FILE *table = fopen("/proc/net/tcp", "re");
    if (!table || !fgets(heading, sizeof heading, table))
        fail(EXIT_FAILURE, "/proc/net/tcp: %s", strerror(errno));
    return table;
}

bool tcp_table_next(FILE *table, tcp_row *ret_row) {
    char line[LINE];
    unsigned state;
    tcp_row row;
    if (!fgets(line, sizeof line, table) ||
        sscanf(line, "%*u: %*8x:%x %*8x:%x %x %*x:%x", &row.own_port, &row.other_port, &state, &row.unread) != 4)
        return false;
    row.listens = state == LISTENING;
    *ret_row = row;
    return true;
}
