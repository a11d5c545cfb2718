/* A live view of the whole screen, until q or an interrupt. */
#ifndef CTL_TOP_H
#define CTL_TOP_H

#include "ctl/request.h"

struct ctl_top_options {
    unsigned interval_ms; /* between two looks */
    unsigned count;       /* looks; 0: until it is ended */
    bool is_cluster;      /* the nodes, by their load; else this one's streams and players */
    bool is_json;         /* each answer as it is, and not on the full screen */
};

/*
 * 0; or, with a text, -ENOTCONN when there is no answer, -EACCES when the server refuses, or is in
 * no cluster.
 */
int ctl_top(const struct ctl_server *server, const struct ctl_top_options *options, char error[CTL_ERROR]);

#endif
