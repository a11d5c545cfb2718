/* A program of libevent that embeds a loop. */
#include <stdio.h>

#include <event2/event.h>
#include <sluice/libevent.h>
#include <sluice/sluice.h>

static void leave(void *base) {
    printf("a turn in libevent\n");
    event_base_loopbreak(base);
}

int main(void) {
    sluice_pool *pool;
    sluice_loop *loop;
    sluice_libevent *place;
    struct event_base *base = event_base_new();
    if (!base || sluice_pool_new(NULL, &pool) < 0 || sluice_loop_new(pool, NULL, &loop) < 0 ||
        sluice_libevent_attach(loop, base, &place) < 0 || sluice_loop_post(loop, leave, base) < 0)
        return 1;
    int result = event_base_dispatch(base);
    sluice_libevent_free(place);
    sluice_loop_free(loop);
    sluice_pool_free(pool);
    event_base_free(base);
    return result;
}
