/* Names of a cluster's nodes: 1 to 63 characters of [A-Za-z0-9._-]. */
#ifndef SLUICED_NODE_NAME_H
#define SLUICED_NODE_NAME_H

#include <stdbool.h>
#include <stddef.h>

enum { NODE_NAME = 63 };

bool node_name_is_valid(const char *name, size_t length);

/* The name of the host: characters that names do not have become "-", what is too long is cut. */
void node_name_of_host(char ret_name[NODE_NAME + 1]);

#endif
