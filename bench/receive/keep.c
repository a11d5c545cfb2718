#include "receive/keep.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/process.h"
#include "receive/meter.h"

enum { SECOND = 1000000000 };

keep_how keep_asked;

/* A ring. The receiving thread adds at head; tail is moved by whoever gives frames up. */
static struct {
    bool begun;
    keep_kind kind;
    kept_frame frames[KEEP_MOST_FRAMES];
    _Alignas(64) _Atomic uint64_t head;
    uint64_t bytes_in; /* receiving thread */
    _Alignas(64) _Atomic uint64_t tail;
    _Atomic uint64_t bytes_out;
    uint64_t packets, checksum; /* of those given up; by whoever gives up */
    /* Only for sleeping and waking: */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_bool idle;   /* the thread sleeps until there is a frame, or the end */
    atomic_bool full;   /* the receiver sleeps until half of the ring is free */
    atomic_bool ending; /* no frame will be added */
} held = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static const uint8_t *look_at_memory(kept_frame *frame, uint8_t room[CHECKSUM_BYTES]) {
    (void)room;
    return frame->payload;
}

static void release_memory(kept_frame *frame) {
    free(frame->of.memory);
}

static uint64_t count(void) {
    return atomic_load(&held.head) - atomic_load(&held.tail);
}

static uint64_t most_frames(void) {
    return keep_asked == KEEP_THREAD ? KEEP_MOST_QUEUED : KEEP_MOST_FRAMES;
}

static bool is_full(uint64_t frames) {
    return count() >= frames || held.bytes_in - atomic_load(&held.bytes_out) >= KEEP_MOST_BYTES;
}

static void give_up_oldest(void) {
    uint64_t tail = atomic_load_explicit(&held.tail, memory_order_relaxed);
    kept_frame *frame = &held.frames[tail % KEEP_MOST_FRAMES];
    uint8_t room[CHECKSUM_BYTES];
    held.packets++;
    held.checksum += packet_checksum(held.kind.look(frame, room), frame->size, frame->index);
    atomic_store_explicit(&held.bytes_out, atomic_load_explicit(&held.bytes_out, memory_order_relaxed) + frame->size,
                          memory_order_relaxed);
    held.kind.release(frame);
    atomic_store(&held.tail, tail + 1);
}

static void wake(void) {
    pthread_mutex_lock(&held.lock);
    pthread_cond_broadcast(&held.changed);
    pthread_mutex_unlock(&held.lock);
}

static void *give_up_all(void *unused) {
    (void)unused;
    for (;;) {
        while (count() > 0) {
            give_up_oldest();
            if (atomic_load(&held.full) && count() <= most_frames() / 2)
                wake();
        }
        pthread_mutex_lock(&held.lock);
        atomic_store(&held.idle, true);
        pthread_cond_broadcast(&held.changed);
        while (count() == 0 && !atomic_load(&held.ending))
            pthread_cond_wait(&held.changed, &held.lock);
        atomic_store(&held.idle, false);
        pthread_mutex_unlock(&held.lock);
        if (count() == 0)
            return NULL;
    }
}

/* Until the thread has given up at least one frame, and half of what is allowed. */
static void wait_for_thread(uint64_t tail) {
    pthread_mutex_lock(&held.lock);
    atomic_store(&held.full, true);
    while (atomic_load(&held.tail) == tail || is_full(most_frames() / 2 + 1))
        pthread_cond_wait(&held.changed, &held.lock);
    atomic_store(&held.full, false);
    pthread_mutex_unlock(&held.lock);
}

void keep_less(void) {
    /* The thread may have given up all since memory ran out: then it is there now. */
    static uint64_t none_at = UINT64_MAX;
    uint64_t tail = atomic_load(&held.tail);
    bool none = count() == 0;
    if (!none && keep_asked == KEEP_THREAD)
        wait_for_thread(tail);
    else if (!none)
        give_up_oldest();
    else if (keep_asked == KEEP_THREAD && none_at != tail)
        none_at = tail;
    else
        fail(EXIT_FAILURE, "no memory, although no frame is held");
}

/* Behind the measured span: as much was held when that began. */
static void finish(void) {
    if (keep_asked == KEEP_THREAD) {
        atomic_store(&held.ending, true);
        wake();
        pthread_join(held.thread, NULL);
    }
    while (count() > 0)
        give_up_oldest();
    the_meter.packets = held.packets;
    the_meter.checksum = held.checksum;
}

void keep_begin(const keep_kind *kind) {
    held.kind = *kind;
    held.begun = true;
    the_meter.finish = finish;
    if (keep_asked == KEEP_THREAD && pthread_create(&held.thread, NULL, give_up_all, NULL) != 0)
        fail(EXIT_FAILURE, "no thread");
}

void keep_frame(const kept_frame *frame) {
    struct timespec now = {0};
    if (keep_asked == KEEP_SECOND) {
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        uint64_t ns = (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
        while (count() > 0 && held.frames[atomic_load(&held.tail) % KEEP_MOST_FRAMES].until <= ns)
            give_up_oldest();
        now.tv_sec++;
    }
    while (is_full(most_frames()))
        keep_less();
    uint64_t head = atomic_load_explicit(&held.head, memory_order_relaxed);
    kept_frame *added = &held.frames[head % KEEP_MOST_FRAMES];
    *added = *frame;
    added->until = (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
    held.bytes_in += frame->size;
    atomic_store(&held.head, head + 1);
    if (atomic_load(&held.idle))
        wake();
}

void keep_memory(uint8_t *memory, const uint8_t *payload, uint32_t size, uint64_t index) {
    if (!held.begun)
        keep_begin(&(keep_kind){look_at_memory, release_memory});
    keep_frame(&(kept_frame){.of.memory = memory, .payload = payload, .size = size, .index = index});
}

void keep_copy(const uint8_t *payload, uint32_t size, uint64_t index) {
    uint8_t *memory = malloc(size);
    if (!memory)
        fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
    memcpy(memory, payload, size);
    keep_memory(memory, memory, size, index);
}
