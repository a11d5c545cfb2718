#include "daemon/server/budget.h"

#include "daemon/server/session.h"
#include "daemon/server/worker.h"
#include "shared/clock.h"

static const uint64_t ns_per_us = 1000;

static void set_has_more(struct budget *budget, struct budget_turn *turn, bool has_more) {
    turn->waiting += has_more;
    turn->waiting -= budget->has_more;
    budget->has_more = has_more;
}

static void forget(struct budget *budget, uint64_t now) {
    uint64_t forgotten = now > budget->since ? (now - budget->since) * BUDGET_PER_MS : 0;
    budget->lately = budget->lately > forgotten ? budget->lately - (uint32_t)forgotten : 0;
    budget->since = now;
}

static void remember(struct budget *budget, uint32_t pieces) {
    uint32_t lately = budget->lately + pieces;
    budget->lately = lately < BUDGET_LATELY ? lately : BUDGET_LATELY;
}

/* What has been used since the last call, or since the beginning of the share: a session that ends
 * in the middle of its share calls budget_rest() twice. */
static void remember_used(struct budget *budget) {
    remember(budget, budget->used - budget->began);
    budget->began = budget->used;
}

/*
 * Pieces that it may handle now. What has work left has waited for this call, and the loop bounds
 * such calls of a turn together.
 */
static uint32_t pieces(const struct budget *budget, const struct budget_turn *turn, uint64_t ns) {
    if (budget->has_more)
        return BUDGET_PIECES;
    if (turn->waiting > 0 && budget->lately >= BUDGET_AHEAD)
        return 0;
    return ns < turn->until ? BUDGET_PIECES : BUDGET_LEAST;
}

void budget_begin(struct session *session) {
    struct budget *budget = &session->budget;
    struct budget_turn *turn = &session->worker->turn;
    uint64_t now = worker_now(session->worker), ns = clock_ns();
    if (turn->at != now) {
        turn->at = now;
        turn->until = ns + BUDGET_SLICE_US * ns_per_us;
    }
    forget(budget, now);
    uint32_t most = pieces(budget, turn, ns);
    budget->until = ns + BUDGET_US * ns_per_us;
    if (!budget->has_more && ns < turn->until && turn->until < budget->until)
        budget->until = turn->until;
    budget->began = budget->used = BUDGET_PIECES - most;
    budget->spent = most == 0;
}

bool budget_is_over(const struct budget *budget) {
    return budget->until > 0 && clock_ns() >= budget->until;
}

void budget_rest(struct session *session) {
    struct budget *budget = &session->budget;
    remember_used(budget);
    set_has_more(budget, &session->worker->turn, false);
    if (!budget->is_paused)
        return;
    budget->is_paused = false;
    sluice_conn_resume(session->conn);
}

bool budget_end(struct session *session, const sluice_chain *backlog) {
    struct budget *budget = &session->budget;
    struct budget_turn *turn = &session->worker->turn;
    if (!budget->spent) {
        budget_rest(session);
        return false;
    }
    remember_used(budget);
    set_has_more(budget, turn, true);
    session_again(session);
    /* What it sends meanwhile is left to the kernel, and in the end to the peer. */
    if (sluice_chain_length(backlog) > BUDGET_BACKLOG || turn->waiting > 1) {
        budget->is_paused = true;
        sluice_conn_pause(session->conn);
    }
    return true;
}

bool budget_admits_request(struct session *session) {
    struct budget *budget = &session->budget;
    budget_begin(session);
    if (budget->spent)
        return !budget_end(session, session_chain(session));
    budget_rest(session);
    remember(budget, BUDGET_LOOKS);
    return true;
}

bool budget_has_more(const struct session *session) {
    return session->budget.has_more;
}

void budget_leave(struct session *session, struct worker *worker) {
    set_has_more(&session->budget, &worker->turn, false);
    session->budget = (struct budget){.lately = session->budget.lately, .since = session->budget.since};
}
