#include "daemon/budget.h"

#include "daemon/session.h"
#include "shared/clock.h"

void budget_begin(struct session *session) {
    struct budget *budget = &session->budget;
    budget->until = clock_ns() + (uint64_t)BUDGET_US * 1000;
    budget->used = 0;
    budget->spent = false;
}

bool budget_is_over(const struct budget *budget) {
    return budget->until > 0 && clock_ns() >= budget->until;
}

bool budget_end(struct session *session, const sluice_chain *backlog) {
    struct budget *budget = &session->budget;
    budget->has_more = budget->spent;
    if (budget->has_more) {
        sluice_conn_again(session->conn);
        /* What it sends meanwhile is left to the kernel, and in the end to the peer. */
        if (sluice_chain_length(backlog) > BUDGET_BACKLOG) {
            budget->is_paused = true;
            sluice_conn_pause(session->conn);
        }
    } else if (budget->is_paused) {
        budget->is_paused = false;
        sluice_conn_resume(session->conn);
    }
    return budget->has_more;
}

bool budget_has_more(const struct session *session) {
    return session->budget.has_more;
}

void budget_reset(struct session *session) {
    session->budget = (struct budget){0};
}
