/*
 * Who asks for what was recorded: lists, page by page, and files or parts of them, over a
 * connection that is kept; or leaves while it is asked for.
 */
#ifndef SLUICE_TESTS_SIM_VISITOR_H
#define SLUICE_TESTS_SIM_VISITOR_H

#include <stdbool.h>
#include <stdint.h>

enum visitor_manner { VISITOR_READS, VISITOR_READS_SLOWLY, VISITOR_LEAVES, VISITOR_MANNERS };

struct visitor_plan {
    uint8_t stream;
    enum visitor_manner manner;
    uint32_t requests;
    bool is_served; /* nothing is refused, and no answer ends early */
};

struct sim_visitor;

/* NULL where nobody listens. */
struct sim_visitor *sim_visitor_new(const struct visitor_plan *plan);

/* All has been asked and answered. */
bool sim_visitor_is_done(const struct sim_visitor *visitor);
void sim_visitor_free(struct sim_visitor *visitor);

#endif
