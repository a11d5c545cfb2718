/* The API's documents of a cluster as tables for people. */
#ifndef CTL_PRINT_CLUSTER_H
#define CTL_PRINT_CLUSTER_H

#include <stdio.h>

#include <jansson.h>

/* The same nodes, those with most load first: by CPU, then by what they receive. To be freed. */
json_t *ctl_by_load(const json_t *nodes);

/* This node, the engine, and a table of nodes. @most: of them; 0: all */
void ctl_print_cluster(FILE *out, const json_t *cluster, const json_t *nodes, size_t most);

/* Where streams are: an array of them. */
void ctl_print_locations(FILE *out, const json_t *streams);

void ctl_print_cluster_pulls(FILE *out, const json_t *pulls);

/* A line of status; nothing without a cluster. */
void ctl_print_cluster_summary(FILE *out, const json_t *summary);

#endif
