#include "daemon/record_turn.h"

#include <errno.h>
#include <stddef.h>

int record_turns_ask(struct record_turns *turns, struct record_turn *turn) {
    if (!turns->taken) {
        turns->taken = true;
        return 1;
    }
    if (turns->waiting == RECORD_TURNS_WAITING)
        return -EBUSY;
    *turn = (struct record_turn){.prev = turns->last, .waits = true};
    if (turn->prev)
        turn->prev->next = turn;
    else
        turns->first = turn;
    turns->last = turn;
    turns->waiting++;
    return 0;
}

bool record_turns_leave(struct record_turns *turns, struct record_turn *turn) {
    if (!turn->waits)
        return false;
    if (turn->prev)
        turn->prev->next = turn->next;
    else
        turns->first = turn->next;
    if (turn->next)
        turn->next->prev = turn->prev;
    else
        turns->last = turn->prev;
    *turn = (struct record_turn){.waits = false};
    turns->waiting--;
    return true;
}

struct record_turn *record_turns_next(struct record_turns *turns) {
    struct record_turn *next = turns->first;
    turns->taken = next != NULL;
    if (next)
        (void)record_turns_leave(turns, next);
    return next;
}
