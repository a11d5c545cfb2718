#include "sim/kernel.h"

#include <errno.h>
#include <string.h>

#include "sim/world.h"

static struct {
    struct file *files[KERNEL_FDS];
    int top; /* no descriptor is open from here on */
    uint32_t open_count;
    uint32_t files_made;
    uint32_t files_left;
    uint16_t next_port;
    uint64_t sleeps;
} kernel;

uint64_t kernel_sleeps(void) {
    return kernel.sleeps;
}

void kernel_sleep(void) {
    kernel.sleeps++;
}

struct file *kernel_file_new(enum file_kind kind) {
    struct file *file = world_allocate(sizeof *file);
    file->kind = kind;
    file->references = 1;
    file->id = ++kernel.files_made;
    file->low_water = 1;
    file->window = 65536;
    file->buffer = 65536;
    loop_list_init(&file->ops);
    kernel.files_left++;
    return file;
}

struct file *kernel_file_ref(struct file *file) {
    file->references++;
    return file;
}

void kernel_file_unref(struct file *file) {
    WORLD_CHECK(file->references > 0, "a file has too few references");
    if (--file->references > 0)
        return;
    for (size_t i = 0; i < file->arrival_count; i++) {
        file->arrivals[i]->dead = true;
        peer_wake(file->arrivals[i]);
        kernel_file_unref(file->arrivals[i]);
    }
    world_free(file->received);
    world_free(file->sent);
    world_free(file);
    kernel.files_left--;
}

int kernel_open(struct file *file) {
    for (int i = 0; i < KERNEL_FDS; i++) {
        if (kernel.files[i])
            continue;
        kernel.files[i] = file;
        kernel.open_count++;
        if (i >= kernel.top)
            kernel.top = i + 1;
        return KERNEL_FIRST_FD + i;
    }
    kernel_file_unref(file);
    return -EMFILE;
}

bool kernel_is_fd(int fd) {
    return fd >= KERNEL_FIRST_FD && fd < KERNEL_FIRST_FD + KERNEL_FDS;
}

struct file *kernel_file(int fd) {
    return kernel_is_fd(fd) ? kernel.files[fd - KERNEL_FIRST_FD] : NULL;
}

/* What the peer sees: an end, or a reset where bytes were left that nobody has taken. */
static void hang_up(struct file *file) {
    file->closed = true;
    file->finished = true;
    file->was_reset = file->received_length > 0;
    if (file->pair) {
        file->pair->peer_finished = true;
        file->pair->came++;
        rings_touch(file->pair);
        file->pair->pair = NULL;
    }
    peer_wake(file);
}

int kernel_close(int fd) {
    struct file *file = kernel_file(fd);
    WORLD_CHECK(file, "close(%d): not open", fd);
    world_trace("close", fd - KERNEL_FIRST_FD, file->id, 0);
    kernel.files[fd - KERNEL_FIRST_FD] = NULL;
    kernel.open_count--;
    hang_up(file);
    kernel_file_unref(file);
    return 0;
}

uint32_t kernel_open_count(void) {
    return kernel.open_count;
}

void kernel_begin(void) {
    memset(&kernel, 0, sizeof kernel);
    kernel.next_port = 40000;
}

void kernel_end(void) {
    WORLD_CHECK(kernel.open_count == 0, "%u descriptors are left open", kernel.open_count);
    WORLD_CHECK(kernel.files_left == 0, "%u files are still in use, though closed", kernel.files_left);
}

/* Peers */

static struct file *find_listener(uint16_t port) {
    for (int i = 0; i < kernel.top; i++)
        if (kernel.files[i] && kernel.files[i]->kind == FILE_LISTENER && kernel.files[i]->port == port)
            return kernel.files[i];
    return NULL;
}

struct file *peer_connect(uint16_t port) {
    struct file *listener = find_listener(port);
    if (!listener || listener->arrival_count == KERNEL_BACKLOG)
        return NULL;
    struct file *file = kernel_file_new(FILE_STREAM);
    file->peer_port = kernel.next_port++;
    file->window = world_between(1, 32) * 4096;
    file->buffer = world_between(1, 32) * 4096;
    listener->arrivals[listener->arrival_count++] = kernel_file_ref(file);
    rings_touch(listener);
    world_trace("connect", file->id, port, 0);
    return file;
}

static void make_room(uint8_t **memory, size_t *room, size_t needed) {
    if (needed <= *room)
        return;
    *room = needed < 4096 ? 4096 : 2 * needed;
    *memory = world_grow(*memory, *room);
}

/* Room for @n bytes behind those that there are, which go to the front when the end is reached. */
static uint8_t *room_behind(uint8_t **memory, size_t *first, size_t length, size_t *room, size_t n) {
    if (*first > 0 && *first + length + n > *room) {
        memmove(*memory, *memory + *first, length);
        *first = 0;
    }
    make_room(memory, room, *first + length + n);
    return *memory + *first + length;
}

void file_put_received(struct file *file, const void *bytes, size_t n) {
    if (n == 0)
        return;
    memcpy(room_behind(&file->received, &file->received_first, file->received_length, &file->received_room, n), bytes,
           n);
    file->received_length += n;
    file->came++;
    rings_touch(file);
}

void file_take_received(struct file *file, void *memory, size_t n) {
    WORLD_CHECK(n <= file->received_length, "more is taken than there is");
    memcpy(memory, file->received + file->received_first, n);
    file->received_first += n;
    file->received_length -= n;
    file->stop -= n < file->stop ? n : file->stop;
    if (file->received_length == 0)
        file->received_first = 0;
    peer_wake(file);
}

size_t file_put_sent(struct file *file, const struct iovec *pieces, size_t count, size_t most) {
    size_t done = 0;
    uint8_t *to = room_behind(&file->sent, &file->sent_first, file->sent_length, &file->sent_room, most);
    for (size_t i = 0; i < count && done < most; i++) {
        size_t n = pieces[i].iov_len < most - done ? pieces[i].iov_len : most - done;
        memcpy(to + done, pieces[i].iov_base, n);
        done += n;
    }
    file->sent_length += done;
    file->sent_in_all += done;
    if (done > 0)
        peer_wake(file);
    return done;
}

size_t peer_send(struct file *file, const void *bytes, size_t n) {
    size_t room = file->window > file->received_length ? file->window - file->received_length : 0;
    if (file->dead || file->peer_finished || file->closed)
        return file->closed ? n : 0;
    if (n > room)
        n = room;
    file_put_received(file, bytes, n);
    if (n > 0)
        world_trace("peer sends", file->id, (int64_t)n, 0);
    return n;
}

void peer_finish(struct file *file) {
    if (!file->peer_finished)
        world_trace("peer finishes", file->id, 0, 0);
    file->peer_finished = true;
    file->came++;
    rings_touch(file);
}

void peer_reset(struct file *file) {
    if (file->dead)
        return;
    world_trace("peer resets", file->id, 0, 0);
    file->dead = true;
    file->came++;
    file->error = -ECONNRESET;
    file->sent_length = 0;
    rings_touch(file);
}

size_t peer_receive(struct file *file, void *bytes, size_t n) {
    if (n > file->sent_length)
        n = file->sent_length;
    if (n == 0)
        return 0;
    memcpy(bytes, file->sent + file->sent_first, n);
    file->sent_length -= n;
    file->sent_first = file->sent_length > 0 ? file->sent_first + n : 0;
    rings_touch(file);
    world_trace("peer receives", file->id, (int64_t)n, 0);
    return n;
}

bool peer_is_ended(const struct file *file) {
    return file->dead || (file->finished && file->sent_length == 0);
}

void peer_watch(struct file *file, uint32_t most_us, world_fn *call, void *user) {
    file->watch = call;
    file->watch_user = user;
    file->watch_most = most_us;
}

void peer_wake(struct file *file) {
    if (!file->watch)
        return;
    world_after(world_between(1, file->watch_most), file->watch, file->watch_user);
    file->watch = NULL;
}
