/* The queues of the simulated io_uring, in place of liburing: submission, completion, overflow, the
 * wait. */
#include "sim/ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/uring_abi.h"
#include "sim/world.h"

enum { STORM = 500, SPIN = 500000 };

static struct {
    struct ring *first;
    uint32_t ops_made;
    uint32_t starved; /* waits in a row that have brought nothing but -ENOBUFS */
    uint32_t steps, waits;
    uint32_t useful; /* completions since the last wait that were something else */
    enum kernel_age age;
    unsigned most_entries; /* more need too much locked memory */
    unsigned most_completions;
    void (*on_step)(void);
} rings;

void rings_begin(void) {
    static const unsigned entries[] = {64, 256, 1024};
    memset(&rings, 0, sizeof rings);
    rings.age = world_random(KERNEL_AGES);
    rings.most_entries = entries[world_random(3)];
    rings.most_completions = world_one_in(3) ? world_between(2, 32) : 4096;
}

void rings_end(void) {
    WORLD_CHECK(!rings.first, "a ring is left open");
}

void rings_on_step(void (*call)(void)) {
    rings.on_step = call;
}

uint32_t rings_steps(void) {
    return rings.steps;
}

void rings_set_age(enum kernel_age age) {
    rings.age = age;
    rings.most_entries = 1024;
    rings.most_completions = 4096;
}

static bool has_bundles(void) {
    return rings.age == KERNEL_BUNDLES || rings.age == KERNEL_GAPS || rings.age == KERNEL_LEAST_WAIT;
}

enum kernel_age ring_kernel_age(void) {
    return rings.age;
}

static struct ring *ring_of(const struct io_uring *user) {
    return user->sq.ring_ptr;
}

static void nothing(void *user) {
    (void)user;
}

/* Has the world stop there, so that the rings look at the time. */
static void wake_after(uint64_t microseconds) {
    world_after(microseconds, nothing, NULL);
}

/* With deferred task work the program can see that there is some. */
static void make_ready(struct op *op) {
    if (!op->ready.next)
        loop_list_add(&op->ring->ready, &op->ready);
    if (op->ring->user->flags & IORING_SETUP_TASKRUN_FLAG)
        op->ring->sq_flags |= IORING_SQ_TASKRUN;
}

void rings_touch(struct file *file) {
    for (loop_list *link = file->ops.next; link != &file->ops; link = link->next)
        make_ready((struct op *)((char *)link - offsetof(struct op, of_file)));
}

void ring_delay(struct op *op, uint64_t microseconds) {
    op->due = world_now() + microseconds;
    loop_list_add(&op->ring->delayed_ops, &op->delayed);
    wake_after(microseconds);
}

/* Completions */

static void add(struct completions *completions, const struct completion *completion) {
    if (completions->count == completions->room) {
        completions->room = completions->room ? 2 * completions->room : 64;
        completions->list = world_grow(completions->list, completions->room * sizeof *completions->list);
    }
    completions->list[completions->count++] = *completion;
}

static unsigned ready(const struct ring *ring) {
    return ring->cq_tail - ring->cq_head;
}

static bool is_full(const struct ring *ring) {
    return ring->overflow.count > 0 || ready(ring) >= ring->most;
}

/* Who asks again at once where there are no buffers is sent back at once, without end. */
static void judge_wait(const struct ring *ring) {
    /* Who cannot know that they are gone, since their completion is late, may ask until it is
     * there. */
    bool starved = ready(ring) > 0 && rings.useful == 0 && ring->delayed.count == 0 && ring->overflow.count == 0;
    rings.useful = 0;
    rings.starved = starved ? rings.starved + 1 : 0;
    WORLD_CHECK(++rings.waits < SPIN, "the loop has waited %u times: it spins", rings.waits);
    WORLD_CHECK(rings.starved < STORM, "%u waits in a row have brought nothing but -ENOBUFS", rings.starved);
}

static void put(struct ring *ring, const struct completion *completion) {
    unsigned place = ring->cq_tail & ring->user->cq.ring_mask;
    ring->cqes[place].user_data = completion->data;
    ring->cqes[place].res = completion->result;
    ring->cqes[place].flags = completion->flags;
    ring->records[place] = *completion;
    ring->cq_tail++;
}

static void post(struct ring *ring, const struct completion *completion) {
    world_trace("completion", (int64_t)(completion->data & 7), completion->result, completion->flags);
    rings.useful += completion->result != -ENOBUFS && completion->data > 0;
    if (is_full(ring)) {
        add(&ring->overflow, completion);
        ring->sq_flags |= IORING_SQ_CQ_OVERFLOW;
        world_trace("overflow", (int64_t)ring->overflow.count, 0, 0);
    } else {
        put(ring, completion);
    }
}

static void flush_overflow(struct ring *ring) {
    size_t moved = 0;
    while (moved < ring->overflow.count && ready(ring) < ring->most)
        put(ring, &ring->overflow.list[moved++]);
    ring->overflow.count -= moved;
    if (moved > 0)
        memmove(ring->overflow.list, ring->overflow.list + moved, ring->overflow.count * sizeof *ring->overflow.list);
    if (ring->overflow.count == 0)
        ring->sq_flags &= ~IORING_SQ_CQ_OVERFLOW;
}

static void post_delayed(struct ring *ring) {
    size_t kept = 0;
    for (size_t i = 0; i < ring->delayed.count; i++) {
        struct completion completion = ring->delayed.list[i];
        if (completion.due > world_now())
            ring->delayed.list[kept++] = completion;
        else
            post(ring, &completion);
    }
    ring->delayed.count = kept;
}

void ring_post(struct ring *ring, uint64_t data, int result) {
    post(ring, &(struct completion){.data = data, .result = result});
}

static void remove_op(struct ring *ring, struct op *op) {
    if (op->prev)
        op->prev->next = op->next;
    else
        ring->first = op->next;
    if (op->next)
        op->next->prev = op->prev;
    else
        ring->last = op->prev;
    loop_list_remove(&op->of_file);
    loop_list_remove(&op->ready);
    loop_list_remove(&op->delayed);
    if (op->file)
        kernel_file_unref(op->file);
    world_free(op->pieces);
    world_free(op);
}

/* An error that carries no buffer may say that it does. */
static uint32_t spoil(const struct op *op, int result, uint32_t flags) {
    if (result >= 0 || (flags & IORING_CQE_F_BUFFER) || !(op->sqe.flags & IOSQE_BUFFER_SELECT) ||
        !world_has(FAULT_SPURIOUS_FLAG))
        return flags;
    return flags | IORING_CQE_F_BUFFER | world_random(64) << IORING_CQE_BUFFER_SHIFT;
}

void ring_finish(struct ring *ring, struct op *op, int result, uint32_t flags, uint32_t buffers) {
    struct completion completion = {
        .data = op->sqe.user_data,
        .result = result,
        .flags = spoil(op, result, flags),
        .buffers = buffers,
        .group = op->sqe.buf_group,
    };
    world_trace("done", op->id, result, completion.flags);
    remove_op(ring, op);
    if (!world_has(FAULT_LATE_COMPLETION)) {
        post(ring, &completion);
        return;
    }
    uint64_t delay = world_between(1, 20000);
    completion.due = world_now() + delay;
    wake_after(delay);
    add(&ring->delayed, &completion);
}

bool ring_post_more(struct ring *ring, struct op *op, int result, uint32_t flags, uint32_t buffers) {
    if (is_full(ring))
        return false;
    op->is_late = op->is_fresh = false;
    const struct completion completion = {
        .data = op->sqe.user_data,
        .result = result,
        .flags = flags | IORING_CQE_F_MORE,
        .buffers = buffers,
        .group = op->sqe.buf_group,
    };
    post(ring, &completion);
    make_ready(op);
    return true;
}

uint32_t rings_published(const struct io_uring *user, uint32_t group) {
    return group_count(&ring_of(user)->groups[group]);
}

static uint32_t returned(const struct completion *completion, uint32_t group) {
    return completion->group == group ? completion->buffers : 0;
}

uint32_t rings_returned(const struct io_uring *user, uint32_t group) {
    const struct ring *ring = ring_of(user);
    uint32_t count = 0;
    for (unsigned at = ring->cq_head; at != ring->cq_tail; at++)
        count += returned(&ring->records[at & user->cq.ring_mask], group);
    for (size_t i = 0; i < ring->overflow.count; i++)
        count += returned(&ring->overflow.list[i], group);
    for (size_t i = 0; i < ring->delayed.count; i++)
        count += returned(&ring->delayed.list[i], group);
    return count;
}

/* Operations */

struct op *ring_add(struct ring *ring, const struct io_uring_sqe *sqe) {
    struct op *op = world_allocate(sizeof *op);
    op->id = ++rings.ops_made;
    op->ring = ring;
    op->sqe = *sqe;
    op->is_fresh = true;
    op->prev = ring->last;
    if (ring->last)
        ring->last->next = op;
    else
        ring->first = op;
    ring->last = op;
    return op;
}

static struct op *op_of_ready(loop_list *link) {
    return (struct op *)((char *)link - offsetof(struct op, ready));
}

static void end_delays(struct ring *ring) {
    for (loop_list *link = ring->delayed_ops.next, *next; link != &ring->delayed_ops; link = next) {
        struct op *op = (struct op *)((char *)link - offsetof(struct op, delayed));
        next = link->next;
        if (op->due > world_now())
            continue;
        loop_list_remove(link);
        make_ready(op);
    }
}

/* From one of them on, chosen by chance. What an operation does may end it, but no other. */
static void run_round(struct ring *ring) {
    uint32_t count = 0;
    loop_list now, *link;
    loop_list_init(&now);
    loop_list_join(&now, &ring->ready);
    for (link = now.next; link != &now; link = link->next)
        count++;
    for (uint32_t skip = world_is_calm() || count < 2 ? 0 : world_random(count); skip > 0; skip--)
        loop_list_add(&now, now.next);
    while ((link = loop_list_pop(&now))) {
        struct op *op = op_of_ready(link);
        if (op->due <= world_now())
            (void)ring_try_op(ring, op);
    }
}

static void run(struct ring *ring) {
    post_delayed(ring);
    end_delays(ring);
    /* As much as the program has asked for is worked off; what comes then is for the next time. */
    for (uint32_t round = 0; round < 64 && !loop_list_is_empty(&ring->ready); round++)
        run_round(ring);
    if (loop_list_is_empty(&ring->ready))
        ring->sq_flags &= ~IORING_SQ_TASKRUN;
}

/* liburing's calls */

static int submit(struct ring *ring) {
    struct io_uring_sq *sq = &ring->user->sq;
    unsigned left = sq->sqe_tail - ring->sq_head, done = 0;
    WORLD_CHECK(ring->enabled, "submitted to a ring that is not enabled");
    if (left > 0 && world_has(FAULT_SUBMIT)) {
        left = world_random(left);
        world_trace("submits only", left, 0, 0);
        if (left == 0)
            return -EAGAIN;
    }
    for (; done < left; done++)
        ring_begin_op(ring, &ring->sqes[ring->sq_head++ & sq->ring_mask]);
    sq->sqe_head = ring->sq_head;
    return (int)done;
}

/* liburing asks for events where it sees that there are some to be worked on. */
int io_uring_submit(struct io_uring *user) {
    struct ring *ring = ring_of(user);
    bool asks = ring->sq_flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW);
    world_pass(1);
    int submitted = submit(ring);
    if (asks && submitted >= 0) {
        flush_overflow(ring);
        run(ring);
    }
    return submitted;
}

static void look(struct ring *ring) {
    for (size_t i = 0; i < RING_GROUPS; i++)
        if (ring->groups[i].ring)
            group_look(&ring->groups[i], ring);
}

/* Enters the kernel for events: a step has been made. What submit() says; what was deferred has
 * been worked on. */
static int enter(struct ring *ring) {
    world_pass(world_is_calm() ? 1 : world_between(1, 20));
    look(ring);
    rings.steps++;
    if (rings.on_step)
        rings.on_step();
    unsigned asked = ring->user->sq.sqe_tail - ring->sq_head;
    int submitted = submit(ring);
    /* Who gets rid of only some does not wait: that is io_uring_enter()'s way to say that it has
     * taken no more. */
    if (submitted < 0 || (unsigned)submitted < asked)
        return submitted < 0 ? submitted : -EAGAIN;
    flush_overflow(ring);
    run(ring);
    return submitted;
}

int io_uring_submit_and_get_events(struct io_uring *user) {
    struct ring *ring = ring_of(user);
    int submitted = enter(ring);
    if (submitted >= 0)
        judge_wait(ring);
    return submitted;
}

/* Until there are so many completions, or that time has come. */
static void sleep_until(struct ring *ring, unsigned wait_count, uint64_t deadline) {
    while (ready(ring) < wait_count && world_now() < deadline) {
        if (!world_advance(deadline))
            world_fail("the loop waits for ever");
        flush_overflow(ring);
        run(ring);
    }
}

static uint64_t deadline_after(const struct __kernel_timespec *timeout) {
    if (!timeout)
        return UINT64_MAX;
    return world_now() + (uint64_t)timeout->tv_sec * 1000000 + (uint64_t)timeout->tv_nsec / 1000;
}

int io_uring_submit_and_wait_timeout(struct io_uring *user, struct io_uring_cqe **ret_cqe, unsigned wait_count,
                                     struct __kernel_timespec *timeout, sigset_t *signals) {
    struct ring *ring = ring_of(user);
    (void)ret_cqe, (void)signals;
    /* As liburing does: with so many there it submits alone, and nothing that was deferred is
     * worked on. */
    if (ready(ring) >= wait_count)
        return io_uring_submit(user);
    int submitted = enter(ring);
    if (submitted < 0)
        return submitted;
    if (world_has(FAULT_INTERRUPT))
        return -EINTR;
    uint64_t deadline = deadline_after(timeout);
    if (ready(ring) < wait_count && world_now() < deadline)
        kernel_sleep();
    sleep_until(ring, wait_count, deadline);
    judge_wait(ring);
    return ready(ring) > 0 ? submitted : -ETIME;
}

static struct ring *ring_at(unsigned fd) {
    for (struct ring *ring = rings.first; ring; ring = ring->next)
        if (ring->fd == (int)fd)
            return ring;
    world_fail("descriptor %u is no ring", fd);
}

/* A wait with a least time: until then for so many completions, and then for one. */
int io_uring_enter2(unsigned fd, unsigned submit_count, unsigned wait_count, unsigned flags, sigset_t *argument,
                    size_t size) {
    struct ring *ring = ring_at(fd);
    const uring_wait_arg *arg = (const uring_wait_arg *)(const void *)argument;
    WORLD_CHECK(rings.age == KERNEL_LEAST_WAIT, "this kernel has no wait with a least time");
    WORLD_CHECK(submit_count == 0 && ring->user->sq.sqe_tail == ring->sq_head, "something is to be submitted");
    WORLD_CHECK(flags == (IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG) && size == sizeof *arg, "flags %u", flags);
    uint64_t deadline = deadline_after((const struct __kernel_timespec *)(uintptr_t)arg->limit);
    uint64_t least = world_now() + arg->least_us < deadline ? world_now() + arg->least_us : deadline;
    WORLD_CHECK(arg->limit != 0, "without a limit the wait ends with the least time");
    (void)enter(ring);
    if (world_has(FAULT_INTERRUPT))
        return -EINTR;
    if (ready(ring) < wait_count && world_now() < deadline)
        kernel_sleep();
    sleep_until(ring, wait_count, least);
    sleep_until(ring, 1, deadline);
    judge_wait(ring);
    return ready(ring) > 0 ? 0 : -ETIME;
}

int __io_uring_get_cqe(struct io_uring *user, struct io_uring_cqe **ret_cqe, unsigned submit_count, unsigned wait_count,
                       sigset_t *signals);
int __io_uring_get_cqe(struct io_uring *user, struct io_uring_cqe **ret_cqe, unsigned submit_count, unsigned wait_count,
                       sigset_t *signals) {
    (void)user, (void)submit_count, (void)wait_count, (void)signals;
    *ret_cqe = NULL;
    return -EAGAIN;
}

static unsigned power_of_two(unsigned n) {
    unsigned power = 1;
    while (power < n)
        power *= 2;
    return power;
}

static void give_queues(struct ring *ring, unsigned entries, unsigned completions, unsigned flags) {
    struct io_uring *user = ring->user;
    ring->sqes = world_allocate(entries * sizeof *ring->sqes);
    ring->cqes = world_allocate(completions * sizeof *ring->cqes);
    ring->records = world_allocate(completions * sizeof *ring->records);
    ring->most = completions < rings.most_completions ? completions : rings.most_completions;
    *user = (struct io_uring){.flags = flags, .ring_fd = ring->fd, .enter_ring_fd = ring->fd};
    user->sq = (struct io_uring_sq){
        .khead = &ring->sq_head,
        .ktail = &ring->sq_tail,
        .kflags = &ring->sq_flags,
        .sqes = ring->sqes,
        .ring_ptr = ring,
        .ring_mask = entries - 1,
        .ring_entries = entries,
    };
    user->cq = (struct io_uring_cq){
        .khead = &ring->cq_head,
        .ktail = &ring->cq_tail,
        .cqes = ring->cqes,
        .ring_ptr = ring,
        .ring_mask = completions - 1,
        .ring_entries = completions,
    };
}

int io_uring_queue_init_params(unsigned entries, struct io_uring *user, struct io_uring_params *params) {
    unsigned completions = params->flags & IORING_SETUP_CQSIZE ? params->cq_entries : 2 * entries;
    if (entries > rings.most_entries)
        return -ENOMEM;
    bool bundles = has_bundles();
    if (!bundles && (params->flags & IORING_SETUP_DEFER_TASKRUN))
        return -EINVAL;
    struct file *file = kernel_file_new(FILE_RING);
    int fd = kernel_open(file);
    if (fd < 0)
        return fd;
    struct ring *ring = world_allocate(sizeof *ring);
    ring->user = user;
    ring->fd = fd;
    loop_list_init(&ring->ready);
    loop_list_init(&ring->delayed_ops);
    ring->enabled = !(params->flags & IORING_SETUP_R_DISABLED);
    give_queues(ring, power_of_two(entries), power_of_two(completions), params->flags);
    params->features = (bundles ? IORING_FEAT_RECVSEND_BUNDLE : 0) |
                       (rings.age == KERNEL_LEAST_WAIT ? IORING_FEAT_MIN_TIMEOUT : 0);
    user->features = params->features;
    ring->next = rings.first;
    rings.first = ring;
    return 0;
}

int io_uring_queue_init(unsigned entries, struct io_uring *user, unsigned flags) {
    struct io_uring_params params = {.flags = flags};
    return io_uring_queue_init_params(entries, user, &params);
}

void io_uring_queue_exit(struct io_uring *user) {
    struct ring *ring = ring_of(user), **link = &rings.first;
    while (*link != ring)
        link = &(*link)->next;
    *link = ring->next;
    while (ring->first) {
        /* The wake-up's read is always there; and so is the probe's receive. */
        WORLD_CHECK(ring->first->sqe.user_data < 8, "a ring is closed while operation %u is under way",
                    ring->first->id);
        remove_op(ring, ring->first);
    }
    for (size_t i = 0; i < RING_GROUPS; i++)
        group_forget(&ring->groups[i]);
    kernel_close(ring->fd);
    world_free(ring->overflow.list);
    world_free(ring->delayed.list);
    world_free(ring->records);
    world_free(ring->cqes);
    world_free(ring->sqes);
    world_free(ring);
}

int io_uring_register(unsigned fd, unsigned opcode, const void *argument, unsigned count) {
    (void)argument, (void)count;
    for (struct ring *ring = rings.first; ring; ring = ring->next) {
        if (ring->fd != (int)fd || opcode != IORING_REGISTER_ENABLE_RINGS)
            continue;
        ring->enabled = true;
        return 0;
    }
    return -EINVAL;
}

int io_uring_register_eventfd(struct io_uring *user, int fd) {
    (void)user, (void)fd;
    return -EINVAL;
}

int io_uring_unregister_eventfd(struct io_uring *user) {
    (void)user;
    return -EINVAL;
}

int io_uring_register_buf_ring(struct io_uring *user, struct io_uring_buf_reg *registration, unsigned flags) {
    struct ring *ring = ring_of(user);
    (void)flags;
    WORLD_CHECK(registration->bgid < RING_GROUPS, "buffer group %u", registration->bgid);
    struct group *group = &ring->groups[registration->bgid];
    if (group->ring)
        return -EEXIST;
    *group = (struct group){
        .ring = (struct io_uring_buf_ring *)(uintptr_t)registration->ring_addr,
        .entries = registration->ring_entries,
    };
    WORLD_CHECK((group->entries & (group->entries - 1)) == 0, "%u buffers in a ring", group->entries);
    group->addresses = world_allocate(group->entries * sizeof *group->addresses);
    return 0;
}

int io_uring_register_buffers_sparse(struct io_uring *user, unsigned count) {
    struct ring *ring = ring_of(user);
    if (count > RING_BUFFERS || world_one_in(3))
        return -ENOMEM;
    ring->fixed_count = count;
    return 0;
}

int io_uring_register_buffers_update_tag(struct io_uring *user, unsigned at, const struct iovec *buffers,
                                         const __u64 *tags, unsigned count) {
    struct ring *ring = ring_of(user);
    (void)tags;
    WORLD_CHECK(at < ring->fixed_count && count == 1, "fixed buffer %u of %u", at, ring->fixed_count);
    if (world_one_in(8))
        return -ENOMEM;
    ring->fixed[at] = *buffers;
    return 1;
}
