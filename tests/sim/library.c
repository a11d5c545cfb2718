/*
 * Users of the library's connections and files, each of whom makes any call at any time, while
 * everything goes wrong. Then nothing goes wrong any more, and everybody must get what is left.
 */
#include <arpa/inet.h>
#include <string.h>

#include <sluice/conn.h>

#include "sim/invariants.h"
#include "sim/reading.h"
#include "sim/scenario.h"
#include "sim/user.h"
#include "sim/world.h"

enum { USERS = 160, FEW = 16, READINGS = 4, POSTS = 8, SECOND = 1000000 };

/* A call from another thread, which wakes the loop up. */
struct post {
    sluice_call call;
    bool is_done;
};

static struct library {
    sluice_pool *pool;
    sluice_loop *loop;
    struct user *users[USERS];
    size_t user_count;
    struct reading *readings[READINGS];
    size_t reading_count;
    struct post posts[POSTS];
} library;

static void accepted(sluice_listener *listener, int fd, void *user) {
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    (void)listener, (void)user;
    if (getpeername(fd, (struct sockaddr *)&peer, &length) < 0) {
        for (size_t i = 0; i < library.user_count; i++)
            if (user_port(library.users[i]) == kernel_file(fd)->peer_port)
                user_refused(library.users[i]);
        kernel_close(fd);
        return;
    }
    for (size_t i = 0; i < library.user_count; i++)
        if (user_port(library.users[i]) == ntohs(peer.sin_port))
            user_accepted(library.users[i], fd);
}

static void start_user(void *at) {
    struct user *user = user_new(library.loop);
    (void)at;
    if (user)
        library.users[library.user_count++] = user;
}

/* On the loop's thread, as all calls of a loop's files are. */
static void start_reading(void *at) {
    struct reading *reading = reading_new(library.loop);
    (void)at;
    if (reading)
        library.readings[library.reading_count++] = reading;
}

static void posted(void *at) {
    struct post *post = at;
    post->is_done = true;
}

static void check_post(void *at) {
    const struct post *post = at;
    WORLD_CHECK(post->is_done, "a second has passed, and what was posted has not been called");
}

static void start_post(void *at) {
    struct post *post = at;
    world_trace("post", post - library.posts, 0, 0);
    sluice_loop_post_call(library.loop, &post->call, posted, post);
    world_after(SECOND, check_post, post);
}

static void settle(sluice_timer *timer, void *at) {
    (void)timer, (void)at;
    world_calm(true);
    for (size_t i = 0; i < library.user_count; i++)
        user_settle(library.users[i]);
    for (size_t i = 0; i < library.reading_count; i++)
        reading_settle(library.readings[i]);
}

static void judge(sluice_timer *timer, void *at) {
    (void)timer, (void)at;
    for (size_t i = 0; i < library.user_count; i++)
        user_judge(library.users[i]);
    for (size_t i = 0; i < library.reading_count; i++)
        reading_judge(library.readings[i]);
    sluice_loop_stop(library.loop);
}

static void check_step(void) {
    check_blocks(library.loop);
    if (!check_is_thorough())
        return;
    check_receive_queues(library.loop);
    for (size_t i = 0; i < library.user_count; i++)
        user_check(library.users[i]);
}

static void make_pool(void) {
    static const uint32_t sizes[] = {512, 1024, 4096};
    uint32_t block_size = sizes[world_random(3)], slab_blocks = 65536 / block_size;
    const sluice_pool_options options = {
        .size = sizeof options,
        .block_size = block_size,
        .slab_blocks = slab_blocks,
        .max_blocks = slab_blocks * world_between(1, 8),
        .no_huge_pages = true,
        .class_sizes = {512, 4096, 16384},
    };
    WORLD_CHECK(sluice_pool_new(&options, &library.pool) == 0, "no pool");
}

static void make_loop(void) {
    const sluice_loop_options options = {
        .size = sizeof options,
        .batch_us = world_one_in(2) ? 0 : world_between(100, 5000),
        .stock_bytes = world_one_in(2) ? 0 : world_between(1, 65536),
        .no_fixed = world_one_in(3),
        .no_low_water = world_one_in(3),
        .backend = SLUICE_BACKEND_URING,
    };
    WORLD_CHECK(sluice_loop_new(library.pool, &options, &library.loop) == 0, "no loop");
}

static sluice_timer *timer_at(sluice_timer_fn *call, uint64_t ms) {
    sluice_timer *timer;
    WORLD_CHECK(sluice_timer_new(library.loop, call, NULL, &timer) == 0, "no timer");
    sluice_timer_start(timer, ms);
    return timer;
}

void scenario_library(void) {
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(USERS_PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sluice_listener *listener;
    library = (struct library){0};
    make_pool();
    make_loop();
    WORLD_CHECK(sluice_listener_new(library.loop, (const struct sockaddr *)&address, sizeof address, accepted, NULL,
                                    &listener) == 0,
                "cannot listen");
    /* A crowd comes at once, and wants more at a time than the submission queue has room for. */
    bool crowd = world_one_in(8);
    uint32_t users = crowd ? world_between(FEW, USERS) : world_between(1, FEW), readings = world_random(READINGS + 1);
    for (uint32_t i = 0; i < users; i++)
        world_after(world_random(crowd ? 100 : 2 * SECOND), start_user, NULL);
    for (uint32_t i = 0; i < readings; i++)
        start_reading(NULL);
    /* Most of them while no timer runs, which would hide a wake-up that is lost. */
    for (uint32_t i = world_random(POSTS + 1); i > 0; i--)
        world_after(world_random(30 * SECOND), start_post, &library.posts[i - 1]);
    sluice_timer *timers[] = {timer_at(settle, 4000), timer_at(judge, 34000)};
    rings_on_step(check_step);
    world_calm(false);
    int error = sluice_loop_run(library.loop);
    WORLD_CHECK(!error, "the loop's run ends with %s", strerror(-error));
    rings_on_step(NULL);
    for (size_t i = 0; i < library.user_count; i++)
        user_end(library.users[i]);
    for (size_t i = 0; i < library.reading_count; i++)
        reading_end(library.readings[i]);
    sluice_timer_free(timers[0]);
    sluice_timer_free(timers[1]);
    sluice_loop_free(library.loop);
    sluice_pool_free(library.pool);
    for (size_t i = 0; i < library.user_count; i++)
        user_free(library.users[i]);
    for (size_t i = 0; i < library.reading_count; i++)
        reading_free(library.readings[i]);
}
