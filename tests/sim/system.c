/* System calls and allocations of the program under test, by the linker's --wrap; what is not
 * simulated is real. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/thread_time.h"
#include "memory/poison.h"
#include "sim/kernel.h"
#include "sim/world.h"

enum { BEGAN = 1000 /* seconds on the clock when the world begins */, BEGAN_AT = 1700000000, MAPPINGS = 64 };

enum { SPOILT = 0xdb, SPOILT_MOST = 512 /* bytes */ };

static int result_of(int result) {
    if (result >= 0)
        return result;
    errno = -result;
    return -1;
}

/* Time */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now) {
    uint64_t now = world_now();
    *ret_now = (struct timespec){
        .tv_sec = (time_t)(now / 1000000) + (clock == CLOCK_REALTIME ? BEGAN_AT : BEGAN),
        .tv_nsec = (long)(now % 1000000) * 1000,
    };
    return 0;
}

/* Descriptors are a million and more here, and never run out. */
int __wrap_getrlimit(int resource, struct rlimit *ret_limit);
int __wrap_getrlimit(int resource, struct rlimit *ret_limit) {
    (void)resource;
    *ret_limit = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
    return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *ret_left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *ret_left) {
    uint64_t until = world_now() + (uint64_t)time->tv_sec * 1000000 + (uint64_t)time->tv_nsec / 1000;
    (void)ret_left;
    kernel_sleep();
    while (world_now() < until && world_advance(until))
        continue;
    return 0;
}

/* In this world work takes no time. */
struct thread_time __wrap_thread_time_now(void);
struct thread_time __wrap_thread_time_now(void) {
    return (struct thread_time){0};
}

int __wrap_getrusage(int of, struct rusage *ret_usage);
int __wrap_getrusage(int of, struct rusage *ret_usage) {
    (void)of;
    *ret_usage = (struct rusage){.ru_nvcsw = (long)kernel_sleeps()};
    return 0;
}

ssize_t __wrap_getrandom(void *bytes, size_t n, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t n, unsigned flags) {
    (void)flags;
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)world_random(256);
    return (ssize_t)n;
}

/* Descriptors */

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) {
    return kernel_is_fd(fd) ? result_of(kernel_close(fd)) : __real_close(fd);
}

int __wrap_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags) {
    struct file *file = kernel_file_new(FILE_EVENT);
    (void)flags;
    file->count = count;
    return result_of(kernel_open(file));
}

ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n) {
    struct file *file = kernel_file(fd);
    uint64_t count;
    if (!kernel_is_fd(fd))
        return __real_write(fd, bytes, n);
    WORLD_CHECK(file, "write(%d): not open", fd);
    if (file->kind == FILE_EVENT) {
        memcpy(&count, bytes, sizeof count);
        file->count += count;
        rings_touch(file);
        return (ssize_t)n;
    }
    WORLD_CHECK(file->kind == FILE_STREAM && file->pair, "write() to a file of kind %d", (int)file->kind);
    file_put_received(file->pair, bytes, n);
    return (ssize_t)n;
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (!kernel_is_fd(fd))
        return __real_fcntl(fd, command, argument);
    return kernel_file(fd) ? 0 : result_of(-EBADF);
}

off_t __real_lseek(int fd, off_t offset, int from);
off_t __wrap_lseek(int fd, off_t offset, int from);
off_t __wrap_lseek(int fd, off_t offset, int from) {
    struct file *file = kernel_file(fd);
    if (!kernel_is_fd(fd))
        return __real_lseek(fd, offset, from);
    return file && file->kind == FILE_DISK ? 0 : result_of(-ESPIPE);
}

int __real_fstat(int fd, struct stat *ret_status);
int __wrap_fstat(int fd, struct stat *ret_status);
int __wrap_fstat(int fd, struct stat *ret_status) {
    const struct file *file = kernel_file(fd);
    if (!kernel_is_fd(fd))
        return __real_fstat(fd, ret_status);
    WORLD_CHECK(file && file->kind == FILE_DISK, "fstat(%d): no file", fd);
    *ret_status = (struct stat){.st_mode = S_IFREG | 0600, .st_size = (off_t)file->disk->size};
    return 0;
}

/* Sockets */

int __wrap_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol) {
    (void)domain, (void)type, (void)protocol;
    return result_of(kernel_open(kernel_file_new(FILE_LISTENER)));
}

int __wrap_socketpair(int domain, int type, int protocol, int ret_fds[2]);
int __wrap_socketpair(int domain, int type, int protocol, int ret_fds[2]) {
    struct file *one = kernel_file_new(FILE_STREAM), *other = kernel_file_new(FILE_STREAM);
    (void)domain, (void)type, (void)protocol;
    one->pair = other;
    other->pair = one;
    ret_fds[0] = kernel_open(one);
    ret_fds[1] = kernel_open(other);
    return 0;
}

int __wrap_probe_socket_open(const void *bytes, size_t n, size_t stop, int *ret_fd);
int __wrap_probe_socket_open(const void *bytes, size_t n, size_t stop, int *ret_fd) {
    struct file *file = kernel_file_new(FILE_STREAM);
    int fd = kernel_open(file);
    if (fd < 0)
        return fd;
    file_put_received(file, bytes, n);
    file->stop = stop;
    *ret_fd = fd;
    return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length) {
    struct file *file = kernel_file(fd);
    int number = 0;
    WORLD_CHECK(file, "setsockopt(%d): not open", fd);
    if (level == SOL_SOCKET && name == SO_RCVLOWAT && length == sizeof number) {
        memcpy(&number, value, sizeof number);
        file->low_water = number > 0 ? (uint32_t)number : 1;
        /* The kernel enlarges the buffer where it is too small for that. */
        if (file->window < 2 * (size_t)file->low_water)
            file->window = 2 * (size_t)file->low_water;
        rings_touch(file);
        world_trace("low-water mark", file->id, file->low_water, (int64_t)file->received_length);
    }
    if (level == IPPROTO_TCP && name == TCP_INQ && length == sizeof number) {
        memcpy(&number, value, sizeof number);
        file->tells_rest = number != 0;
    }
    return 0;
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length) {
    struct sockaddr_in in = {0};
    memcpy(&in, address, length < sizeof in ? length : sizeof in);
    kernel_file(fd)->port = ntohs(in.sin_port);
    return 0;
}

int __wrap_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog) {
    (void)fd, (void)backlog;
    return 0;
}

static int give_address(uint16_t port, struct sockaddr *ret_address, socklen_t *length) {
    const struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    memcpy(ret_address, &in, *length < sizeof in ? *length : sizeof in);
    *length = sizeof in;
    return 0;
}

int __wrap_getsockname(int fd, struct sockaddr *ret_address, socklen_t *length);
int __wrap_getsockname(int fd, struct sockaddr *ret_address, socklen_t *length) {
    return give_address((uint16_t)kernel_file(fd)->port, ret_address, length);
}

int __wrap_getpeername(int fd, struct sockaddr *ret_address, socklen_t *length);
int __wrap_getpeername(int fd, struct sockaddr *ret_address, socklen_t *length) {
    const struct file *file = kernel_file(fd);
    if (file->dead)
        return result_of(-ENOTCONN);
    return give_address(file->peer_port, ret_address, length);
}

/* No peer sends an urgent byte. */
int __wrap_sockatmark(int fd);
int __wrap_sockatmark(int fd) {
    (void)kernel_file(fd);
    return 0;
}

bool __wrap_socket_end_has_come(int fd);
bool __wrap_socket_end_has_come(int fd) {
    const struct file *file = kernel_file(fd);
    WORLD_CHECK(file, "poll(%d): not open", fd);
    return file->dead || file->peer_finished;
}

int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how) {
    struct file *file = kernel_file(fd);
    WORLD_CHECK(file && how == SHUT_WR, "shutdown(%d, %d)", fd, how);
    file->finished = true;
    peer_wake(file);
    return file->dead ? result_of(-ENOTCONN) : 0;
}

/* Memory. What is allocated is counted, and must be freed. */

static int64_t allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
int __real_posix_memalign(void **ret_memory, size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t n);
void __real_free(void *memory);
void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *memory, size_t size);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_reallocarray(void *memory, size_t count, size_t size);
int __wrap_posix_memalign(void **ret_memory, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t n);
void __wrap_free(void *memory);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *memory, size_t size);

int64_t world_allocations(void) {
    return allocations;
}

static bool refuses(void) {
    if (!world_has(FAULT_MEMORY))
        return false;
    world_trace("no memory", 0, 0, 0);
    errno = ENOMEM;
    return true;
}

/* What is used before it is written, or after it was freed, is not what was there. */
static void spoil(void *memory, size_t size) {
    if (memory)
        memset(memory, SPOILT, size < SPOILT_MOST ? size : SPOILT_MOST);
}

static void *counted(void *memory) {
    allocations += memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t size) {
    if (refuses())
        return NULL;
    void *memory = counted(__real_malloc(size));
    spoil(memory, size);
    return memory;
}

/* Always to another place. */
static void *move(void *memory, size_t size) {
    void *moved = counted(__real_malloc(size));
    if (!moved || !memory)
        return moved;
    size_t old = malloc_usable_size(memory);
    memcpy(moved, memory, old < size ? old : size);
    __wrap_free(memory);
    return moved;
}

void *__wrap_calloc(size_t count, size_t size) {
    return refuses() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *memory, size_t size) {
    if (refuses())
        return NULL;
    return move(memory, size);
}

void *__wrap_reallocarray(void *memory, size_t count, size_t size) {
    if (refuses())
        return NULL;
    return move(memory, count * size);
}

int __wrap_posix_memalign(void **ret_memory, size_t alignment, size_t size) {
    int error = refuses() ? ENOMEM : __real_posix_memalign(ret_memory, alignment, size);
    if (!error)
        spoil(counted(*ret_memory), size);
    return error;
}

char *__wrap_strdup(const char *text) {
    return refuses() ? NULL : counted(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t n) {
    return refuses() ? NULL : counted(__real_strndup(text, n));
}

void __wrap_free(void *memory) {
    allocations -= memory != NULL;
    spoil(memory, memory ? malloc_usable_size(memory) : 0);
    __real_free(memory);
}

/* Mappings are kept for the next that is about as large: fresh pages are a good part of what a
 * world costs. */
static struct mapping {
    void *memory;
    size_t room;
    bool is_used;
} mappings[MAPPINGS];

static struct mapping *find_mapping(const void *memory) {
    size_t i = 0;
    while (i < MAPPINGS && mappings[i].memory != memory)
        i++;
    return i < MAPPINGS ? &mappings[i] : NULL;
}

static struct mapping *find_unused(size_t room) {
    size_t i = 0;
    while (i < MAPPINGS && (mappings[i].is_used || mappings[i].room != room))
        i++;
    return i < MAPPINGS ? &mappings[i] : NULL;
}

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    if (world_has(FAULT_MAP) || (flags & MAP_HUGETLB)) {
        world_trace("no mapping", 0, 0, 0);
        errno = ENOMEM;
        return MAP_FAILED;
    }
    size_t room = 4096;
    while (room < size)
        room *= 2;
    struct mapping *kept = find_unused(room);
    if (kept) {
        kept->is_used = true;
        unpoison_memory(kept->memory, size);
        return memset(kept->memory, 0, size);
    }
    kept = find_mapping(NULL);
    void *memory = __real_mmap(at, kept ? room : size, protection, flags, fd, offset);
    if (kept && memory != MAP_FAILED)
        *kept = (struct mapping){memory, room, true};
    return memory;
}

int __wrap_munmap(void *memory, size_t size) {
    struct mapping *kept = find_mapping(memory);
    if (!kept)
        return __real_munmap(memory, size);
    kept->is_used = false;
    poison_memory(memory, size);
    return 0;
}
