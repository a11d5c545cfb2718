#include "daemon/recording/record_queue.h"

#include <errno.h>
#include <stddef.h>

int record_queue_enter(struct record_queue *turns, struct record_queue_slot *turn) {
    if (!turns->taken) {
        turns->taken = true;
        TAILQ_INIT(&turns->slots);
        return 1;
    }
    if (turns->waiting == RECORD_QUEUE_MOST)
        return -EBUSY;
    turn->waits = true;
    TAILQ_INSERT_TAIL(&turns->slots, turn, link);
    turns->waiting++;
    return 0;
}

bool record_queue_leave(struct record_queue *turns, struct record_queue_slot *turn) {
    if (!turn->waits)
        return false;
    TAILQ_REMOVE(&turns->slots, turn, link);
    turn->waits = false;
    turns->waiting--;
    return true;
}

struct record_queue_slot *record_queue_next(struct record_queue *turns) {
    struct record_queue_slot *next = TAILQ_FIRST(&turns->slots);
    turns->taken = next != NULL;
    if (next)
        (void)record_queue_leave(turns, next);
    return next;
}
