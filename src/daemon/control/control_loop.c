#include "daemon/control/control_loop.h"

#include <errno.h>
#include <stdlib.h>

#include <sluice/libevent.h>
#include <sluice/pool.h>

enum {
    BLOCK_BYTES = 4096,
    SLAB_BLOCKS = 32,
    BLOCKS_MOST = 1024,
};

struct control_loop {
    struct event_base *base;
    sluice_pool *pool;
    sluice_loop *loop; /* NULL: it has not been needed yet, or is closed */
    sluice_libevent *place;
};

int control_loop_new(struct event_base *base, struct control_loop **ret_loop) {
    struct control_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return -ENOMEM;
    loop->base = base;
    *ret_loop = loop;
    return 0;
}

/* The other backend would lock memory and make a ring for a few requests a minute. */
int control_loop_open(struct control_loop *loop, sluice_loop **ret_loop) {
    const sluice_loop_options options = {.size = sizeof options, .backend = SLUICE_BACKEND_EPOLL};
    const sluice_pool_options blocks = {
        .size = sizeof blocks, .block_size = BLOCK_BYTES, .slab_blocks = SLAB_BLOCKS, .max_blocks = BLOCKS_MOST};
    if (loop->loop) {
        *ret_loop = loop->loop;
        return 0;
    }
    int error = loop->pool ? 0 : sluice_pool_new(&blocks, &loop->pool);
    if (!error)
        error = sluice_loop_new(loop->pool, &options, &loop->loop);
    if (!error)
        error = sluice_libevent_attach(loop->loop, loop->base, &loop->place);
    if (error) {
        sluice_loop_free(loop->loop);
        loop->loop = NULL;
        return error;
    }
    *ret_loop = loop->loop;
    return 0;
}

int control_loop_error(const struct control_loop *loop) {
    return loop->place ? sluice_libevent_error(loop->place) : 0;
}

void control_loop_close(struct control_loop *loop) {
    if (!loop)
        return;
    sluice_libevent_free(loop->place);
    loop->place = NULL;
    sluice_loop_free(loop->loop);
    loop->loop = NULL;
}

void control_loop_free(struct control_loop *loop) {
    if (!loop)
        return;
    control_loop_close(loop);
    sluice_pool_free(loop->pool);
    free(loop);
}
