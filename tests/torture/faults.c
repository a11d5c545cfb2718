#include "torture/faults.h"

#include <dirent.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <execinfo.h>
#include <fcntl.h>
#include <liburing.h>
#include <link.h>
#include <netdb.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Only called by renamed objects: nobody declares them. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

static struct faults own;
struct faults *faults = &own;

static int note_base(struct dl_phdr_info *info, size_t size, void *user) {
    (void)size;
    (void)user;
    faults->base = info->dlpi_addr; /* the program comes first */
    return 1;
}

/* Before main(): with SLUICE_FAULTS, a file that who started the process has mapped, the state is
 * there. */
__attribute__((constructor)) static void faults_open(void) {
    void *frames[2];
    const char *path = getenv("SLUICE_FAULTS");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *map = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map != MAP_FAILED)
            faults = map;
        close(fd);
    }
    (void)backtrace(frames, 2); /* loads what it needs, now */
    (void)dl_iterate_phdr(note_base, NULL);
}

static void note(const char *name, int error) {
    void *frames[FAULTS_FRAMES + 2];
    int count = backtrace(frames, FAULTS_FRAMES + 2);
    faults->error = (uint64_t)error;
    strncpy(faults->name, name, sizeof faults->name - 1);
    for (int i = 0; i < FAULTS_FRAMES; i++)
        faults->frames[i] = i + 2 < count ? (uint64_t)(uintptr_t)frames[i + 2] : 0;
}

/*
 * Counts a call; the error with which it is to fail, or 0. @lasting errors may be there for good,
 * the @passing ones behind them only once. A call without lasting errors does not count where calls
 * fail from some time on.
 */
static int fault(unsigned kind, const char *name, const int *errors, size_t lasting, size_t passing) {
    bool forever = atomic_load(&faults->forever);
    size_t choice = forever ? lasting : lasting + passing;
    if (!(atomic_load(&faults->kinds) & kind) || choice == 0)
        return 0;
    uint64_t call = atomic_fetch_add(&faults->calls, 1) + 1, at = atomic_load(&faults->fail_at);
    if (at == 0 || call < at || (call > at && !forever))
        return 0;
    int error = errors[(call + atomic_load(&faults->variant)) % choice];
    if (call == at)
        note(name, error);
    atomic_fetch_add(&faults->failed, 1);
    return error;
}

#define LIST(...) ((const int[]){__VA_ARGS__})
#define COUNT(...) (sizeof LIST(__VA_ARGS__) / sizeof(int))

/* Whether to fail for want of memory, with errno. */
static bool refused(const char *name) {
    int error = fault(FAULTS_ALLOCATIONS, name, LIST(ENOMEM), 1, 0);
    if (error)
        errno = error;
    return error;
}

/* ---- Memory ---- */

static void *counted(void *memory) {
    if (memory)
        atomic_fetch_add(&faults->live, 1);
    return memory;
}

void *fault_malloc(size_t size) {
    return refused("malloc") ? NULL : counted(malloc(size));
}

void *fault_calloc(size_t count, size_t size) {
    return refused("calloc") ? NULL : counted(calloc(count, size));
}

void *fault_realloc(void *memory, size_t size) {
    if (refused("realloc"))
        return NULL;
    void *moved = realloc(memory, size);
    return memory ? moved : counted(moved);
}

void *fault_reallocarray(void *memory, size_t count, size_t size) {
    if (refused("reallocarray"))
        return NULL;
    void *moved = reallocarray(memory, count, size);
    return memory ? moved : counted(moved);
}

void *fault_aligned_alloc(size_t alignment, size_t size) {
    return refused("aligned_alloc") ? NULL : counted(aligned_alloc(alignment, size));
}

int fault_posix_memalign(void **ret_memory, size_t alignment, size_t size) {
    int error = refused("posix_memalign") ? ENOMEM : posix_memalign(ret_memory, alignment, size);
    if (!error)
        counted(*ret_memory);
    return error;
}

void fault_free(void *memory) {
    if (memory)
        atomic_fetch_sub(&faults->live, 1);
    free(memory);
}

char *fault_strdup(const char *text) {
    return refused("strdup") ? NULL : counted(strdup(text));
}

char *fault_strndup(const char *text, size_t n) {
    return refused("strndup") ? NULL : counted(strndup(text, n));
}

static int print(char **ret_text, const char *format, va_list arguments) {
    if (refused("vasprintf")) {
        *ret_text = NULL;
        return -1;
    }
    int length = vasprintf(ret_text, format, arguments);
    if (length >= 0)
        counted(*ret_text);
    return length;
}

int fault_vasprintf(char **ret_text, const char *format, va_list arguments) {
    return print(ret_text, format, arguments);
}

int fault_vasprintf_chk(char **ret_text, int flag, const char *format, va_list arguments) {
    (void)flag;
    return print(ret_text, format, arguments);
}

int fault_asprintf(char **ret_text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = print(ret_text, format, arguments);
    va_end(arguments);
    return length;
}

int fault_asprintf_chk(char **ret_text, int flag, const char *format, ...) {
    va_list arguments;
    (void)flag;
    va_start(arguments, format);
    int length = print(ret_text, format, arguments);
    va_end(arguments);
    return length;
}

FILE *fault_open_memstream(char **buffer, size_t *size) {
    return refused("open_memstream") ? NULL : open_memstream(buffer, size);
}

ssize_t fault_getdelim(char **line, size_t *size, int delimiter, FILE *file) {
    return refused("getdelim") ? -1 : getdelim(line, size, delimiter, file);
}

ssize_t fault_getline(char **line, size_t *size, FILE *file) {
    return fault_getdelim(line, size, '\n', file);
}

/* Threads want memory, too. */

int fault_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *user) {
    int error = fault(FAULTS_ALLOCATIONS, "pthread_create", LIST(EAGAIN), 1, 0);
    return error ? error : pthread_create(thread, attributes, run, user);
}

int fault_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes) {
    return refused("pthread_mutex_init") ? ENOMEM : pthread_mutex_init(mutex, attributes);
}

int fault_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes) {
    return refused("pthread_cond_init") ? ENOMEM : pthread_cond_init(condition, attributes);
}

/* What libraries answer where they have no memory. Inside them nothing fails: they have tests of
 * their own. */

struct event_base *fault_event_base_new(void) {
    return refused("event_base_new") ? NULL : event_base_new();
}

struct event *fault_event_new(struct event_base *base, evutil_socket_t fd, short events, event_callback_fn callback,
                              void *user) {
    return refused("event_new") ? NULL : event_new(base, fd, events, callback, user);
}

int fault_event_add(struct event *event, const struct timeval *timeout) {
    return refused("event_add") ? -1 : event_add(event, timeout);
}

struct evbuffer *fault_evbuffer_new(void) {
    return refused("evbuffer_new") ? NULL : evbuffer_new();
}

int fault_evbuffer_add(struct evbuffer *buffer, const void *data, size_t n) {
    return refused("evbuffer_add") ? -1 : evbuffer_add(buffer, data, n);
}

int fault_evbuffer_add_reference(struct evbuffer *buffer, const void *data, size_t n, evbuffer_ref_cleanup_cb cleanup,
                                 void *user) {
    return refused("evbuffer_add_reference") ? -1 : evbuffer_add_reference(buffer, data, n, cleanup, user);
}

struct evhttp *fault_evhttp_new(struct event_base *base) {
    return refused("evhttp_new") ? NULL : evhttp_new(base);
}

int fault_evhttp_accept_socket(struct evhttp *http, evutil_socket_t fd) {
    return refused("evhttp_accept_socket") ? -1 : evhttp_accept_socket(http, fd);
}

int fault_evhttp_add_header(struct evkeyvalq *headers, const char *name, const char *value) {
    return refused("evhttp_add_header") ? -1 : evhttp_add_header(headers, name, value);
}

struct evhttp_request *fault_evhttp_request_new(void (*callback)(struct evhttp_request *, void *), void *user) {
    return refused("evhttp_request_new") ? NULL : evhttp_request_new(callback, user);
}

struct evhttp_connection *fault_evhttp_connection_base_new(struct event_base *base, struct evdns_base *names,
                                                           const char *host, unsigned short port) {
    return refused("evhttp_connection_base_new") ? NULL : evhttp_connection_base_new(base, names, host, port);
}

/* Takes the request in any case. */
int fault_evhttp_make_request(struct evhttp_connection *connection, struct evhttp_request *request,
                              enum evhttp_cmd_type command, const char *uri) {
    if (refused("evhttp_make_request")) {
        evhttp_request_free(request);
        return -1;
    }
    return evhttp_make_request(connection, request, command, uri);
}

char *fault_evhttp_uridecode(const char *uri, int plus, size_t *ret_size) {
    return refused("evhttp_uridecode") ? NULL : counted(evhttp_uridecode(uri, plus, ret_size));
}

int fault_evhttp_parse_query_str(const char *query, struct evkeyvalq *ret_headers) {
    return refused("evhttp_parse_query_str") ? -1 : evhttp_parse_query_str(query, ret_headers);
}

unsigned char *fault_HMAC(const EVP_MD *hash, const void *key, int key_size, const unsigned char *data, size_t n,
                          unsigned char *digest, unsigned *digest_size) {
    return refused("HMAC") ? NULL : HMAC(hash, key, key_size, data, n, digest, digest_size);
}

int fault_EVP_Digest(const void *data, size_t n, unsigned char *digest, unsigned *digest_size, const EVP_MD *hash,
                     ENGINE *engine) {
    return refused("EVP_Digest") ? 0 : EVP_Digest(data, n, digest, digest_size, hash, engine);
}

int fault_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                      struct addrinfo **ret_addresses) {
    int error = fault(FAULTS_SYSTEM, "getaddrinfo", LIST(EAI_MEMORY, EAI_AGAIN, EAI_FAIL), 3, 0);
    return error ? error : getaddrinfo(node, service, hints, ret_addresses);
}

/* ---- System calls ---- */

#define LASTING(...) __VA_ARGS__
#define PASSING(...) __VA_ARGS__

/* Fails with -1 and errno. */
#define FAILS(name, lasting, passing)                                                                                  \
    do {                                                                                                               \
        int error_ = fault(FAULTS_SYSTEM, name, LIST(lasting, passing), COUNT(lasting), COUNT(passing));               \
        if (error_) {                                                                                                  \
            errno = error_;                                                                                            \
            return -1;                                                                                                 \
        }                                                                                                              \
    } while (0)
#define FAILS_FOR_GOOD(name, lasting)                                                                                  \
    do {                                                                                                               \
        int error_ = fault(FAULTS_SYSTEM, name, LIST(lasting), COUNT(lasting), 0);                                     \
        if (error_) {                                                                                                  \
            errno = error_;                                                                                            \
            return -1;                                                                                                 \
        }                                                                                                              \
    } while (0)
#define FAILS_ONCE(name, passing)                                                                                      \
    do {                                                                                                               \
        int error_ = fault(FAULTS_SYSTEM, name, LIST(passing), 0, COUNT(passing));                                     \
        if (error_) {                                                                                                  \
            errno = error_;                                                                                            \
            return -1;                                                                                                 \
        }                                                                                                              \
    } while (0)
/* liburing's: returns the error. */
#define FAILS_NEGATIVE(name, lasting, passing)                                                                         \
    do {                                                                                                               \
        int error_ = fault(FAULTS_SYSTEM, name, LIST(lasting, passing), COUNT(lasting), COUNT(passing));               \
        if (error_)                                                                                                    \
            return -error_;                                                                                            \
    } while (0)

#define FAILS_NEGATIVE_ONCE(name, passing)                                                                             \
    do {                                                                                                               \
        int error_ = fault(FAULTS_SYSTEM, name, LIST(passing), 0, COUNT(passing));                                     \
        if (error_)                                                                                                    \
            return -error_;                                                                                            \
    } while (0)

#define NO_DESCRIPTORS EMFILE, ENFILE, ENOMEM

int fault_socket(int domain, int type, int protocol) {
    FAILS_FOR_GOOD("socket", LASTING(NO_DESCRIPTORS, ENOBUFS));
    return socket(domain, type, protocol);
}

int fault_socketpair(int domain, int type, int protocol, int pair[2]) {
    FAILS_FOR_GOOD("socketpair", LASTING(NO_DESCRIPTORS));
    return socketpair(domain, type, protocol, pair);
}

int fault_bind(int fd, const struct sockaddr *address, socklen_t length) {
    FAILS_FOR_GOOD("bind", LASTING(EADDRINUSE, EADDRNOTAVAIL, EACCES));
    return bind(fd, address, length);
}

int fault_listen(int fd, int backlog) {
    FAILS_FOR_GOOD("listen", LASTING(EADDRINUSE));
    return listen(fd, backlog);
}

int fault_connect(int fd, const struct sockaddr *address, socklen_t length) {
    FAILS("connect", LASTING(ECONNREFUSED, ENETUNREACH, EADDRNOTAVAIL), PASSING(EAGAIN));
    return connect(fd, address, length);
}

int fault_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags) {
    FAILS("accept4", LASTING(NO_DESCRIPTORS, ENOBUFS), PASSING(ECONNABORTED, EINTR, EAGAIN));
    return accept4(fd, address, length, flags);
}

int fault_getsockname(int fd, struct sockaddr *address, socklen_t *length) {
    FAILS_FOR_GOOD("getsockname", LASTING(ENOBUFS));
    return getsockname(fd, address, length);
}

int fault_getpeername(int fd, struct sockaddr *address, socklen_t *length) {
    FAILS_FOR_GOOD("getpeername", LASTING(ENOTCONN, ENOBUFS));
    return getpeername(fd, address, length);
}

int fault_getsockopt(int fd, int level, int name, void *value, socklen_t *length) {
    FAILS_FOR_GOOD("getsockopt", LASTING(ENOBUFS));
    return getsockopt(fd, level, name, value, length);
}

int fault_setsockopt(int fd, int level, int name, const void *value, socklen_t length) {
    FAILS_FOR_GOOD("setsockopt", LASTING(ENOMEM, ENOBUFS));
    return setsockopt(fd, level, name, value, length);
}

ssize_t fault_recv(int fd, void *memory, size_t n, int flags) {
    FAILS("recv", LASTING(ENOMEM, ECONNRESET), PASSING(EINTR, EAGAIN));
    return recv(fd, memory, n, flags);
}

ssize_t fault_recvmsg(int fd, struct msghdr *message, int flags) {
    FAILS("recvmsg", LASTING(ENOMEM, ECONNRESET), PASSING(EINTR, EAGAIN));
    return recvmsg(fd, message, flags);
}

ssize_t fault_sendmsg(int fd, const struct msghdr *message, int flags) {
    FAILS("sendmsg", LASTING(ENOBUFS, ENOMEM, EPIPE, ECONNRESET), PASSING(EINTR, EAGAIN));
    return sendmsg(fd, message, flags);
}

int fault_epoll_create1(int flags) {
    FAILS_FOR_GOOD("epoll_create1", LASTING(NO_DESCRIPTORS));
    return epoll_create1(flags);
}

int fault_epoll_ctl(int fd, int operation, int target, struct epoll_event *event) {
    if (operation == EPOLL_CTL_ADD)
        FAILS_FOR_GOOD("epoll_ctl", LASTING(ENOMEM, ENOSPC));
    return epoll_ctl(fd, operation, target, event);
}

int fault_epoll_wait(int fd, struct epoll_event *events, int most, int timeout) {
    FAILS_ONCE("epoll_wait", PASSING(EINTR));
    return epoll_wait(fd, events, most, timeout);
}

/* Descriptors of events, of which reading and writing do not fail. */
static _Atomic bool is_event[1024];

static void note_event(int fd, bool event) {
    if (fd >= 0 && fd < (int)(sizeof is_event / sizeof *is_event))
        is_event[fd] = event;
}

static bool cannot_fail(int fd) {
    return fd >= 0 && fd < (int)(sizeof is_event / sizeof *is_event) && is_event[fd];
}

int fault_eventfd(unsigned value, int flags) {
    FAILS_FOR_GOOD("eventfd", LASTING(NO_DESCRIPTORS));
    int fd = eventfd(value, flags);
    note_event(fd, true);
    return fd;
}

void *fault_mmap(void *address, size_t n, int protection, int flags, int fd, off_t offset) {
    int error = fault(FAULTS_SYSTEM, "mmap", LIST(ENOMEM), 1, 0);
    if (error) {
        errno = error;
        return MAP_FAILED;
    }
    return mmap(address, n, protection, flags, fd, offset);
}

int fault_madvise(void *address, size_t n, int advice) {
    FAILS_FOR_GOOD("madvise", LASTING(ENOMEM, EAGAIN));
    return madvise(address, n, advice);
}

ssize_t fault_getrandom(void *memory, size_t n, unsigned flags) {
    FAILS("getrandom", LASTING(ENOSYS), PASSING(EINTR));
    return getrandom(memory, n, flags);
}

/* Files */

static mode_t open_mode(int flags, va_list arguments) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

int fault_open(const char *path, int flags, ...) {
    FAILS("open", LASTING(NO_DESCRIPTORS, EIO, EACCES), PASSING(EINTR));
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = open_mode(flags, arguments);
    va_end(arguments);
    return open(path, flags, mode);
}

int fault_openat(int directory, const char *path, int flags, ...) {
    FAILS("openat", LASTING(NO_DESCRIPTORS, ENOSPC, EDQUOT, EIO), PASSING(EINTR));
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = open_mode(flags, arguments);
    va_end(arguments);
    return openat(directory, path, flags, mode);
}

/* openat2() and others without a wrapper. */
long fault_syscall(long number, long a, long b, long c, long d, long e, long f) {
    if (number == SYS_openat2)
        FAILS("openat2", LASTING(NO_DESCRIPTORS, ENOSPC, EDQUOT, EIO), PASSING(EINTR, EAGAIN));
    return syscall(number, a, b, c, d, e, f);
}

FILE *fault_fopen(const char *path, const char *mode) {
    int error = fault(FAULTS_SYSTEM, "fopen", LIST(NO_DESCRIPTORS, EACCES), 4, 0);
    if (error) {
        errno = error;
        return NULL;
    }
    return fopen(path, mode);
}

DIR *fault_fdopendir(int fd) {
    int error = fault(FAULTS_SYSTEM, "fdopendir", LIST(ENOMEM), 1, 0);
    if (error) {
        errno = error;
        return NULL;
    }
    return fdopendir(fd);
}

/* An error and not the end, which only errno tells. */
struct dirent *fault_readdir(DIR *directory) {
    int error = fault(FAULTS_SYSTEM, "readdir", LIST(EIO), 1, 0);
    if (error) {
        errno = error;
        return NULL;
    }
    return readdir(directory);
}

int fault_fcntl(int fd, int command, void *argument) {
    if (command == F_DUPFD_CLOEXEC || command == F_DUPFD)
        FAILS_FOR_GOOD("fcntl", LASTING(EMFILE));
    return fcntl(fd, command, argument);
}

int fault_flock(int fd, int operation) {
    FAILS("flock", LASTING(ENOLCK), PASSING(EINTR));
    return flock(fd, operation);
}

int fault_fstat(int fd, struct stat *ret_about) {
    FAILS_FOR_GOOD("fstat", LASTING(ENOMEM, EIO));
    return fstat(fd, ret_about);
}

int fault_stat(const char *path, struct stat *ret_about) {
    FAILS_FOR_GOOD("stat", LASTING(ENOMEM, EACCES, EIO));
    return stat(path, ret_about);
}

int fault_lstat(const char *path, struct stat *ret_about) {
    FAILS_FOR_GOOD("lstat", LASTING(ENOMEM, EACCES, EIO));
    return lstat(path, ret_about);
}

int fault_fstatat(int directory, const char *path, struct stat *ret_about, int flags) {
    FAILS_FOR_GOOD("fstatat", LASTING(ENOMEM, EACCES, EIO));
    return fstatat(directory, path, ret_about, flags);
}

int fault_faccessat(int directory, const char *path, int mode, int flags) {
    FAILS_FOR_GOOD("faccessat", LASTING(EROFS, EACCES, ENOMEM));
    return faccessat(directory, path, mode, flags);
}

int fault_mkdirat(int directory, const char *path, mode_t mode) {
    FAILS_FOR_GOOD("mkdirat", LASTING(ENOSPC, EDQUOT, EACCES, EROFS));
    return mkdirat(directory, path, mode);
}

int fault_renameat(int from_directory, const char *from, int to_directory, const char *to) {
    FAILS_FOR_GOOD("renameat", LASTING(ENOSPC, EIO, EDQUOT));
    return renameat(from_directory, from, to_directory, to);
}

int fault_renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags) {
    FAILS_FOR_GOOD("renameat2", LASTING(ENOSPC, EIO, EDQUOT));
    return renameat2(from_directory, from, to_directory, to, flags);
}

int fault_unlinkat(int directory, const char *path, int flags) {
    FAILS_FOR_GOOD("unlinkat", LASTING(EIO, EACCES, EROFS));
    return unlinkat(directory, path, flags);
}

int fault_unlink(const char *path) {
    FAILS_FOR_GOOD("unlink", LASTING(EIO, EACCES, EROFS));
    return unlink(path);
}

int fault_ftruncate(int fd, off_t length) {
    FAILS("ftruncate", LASTING(EIO), PASSING(EINTR));
    return ftruncate(fd, length);
}

int fault_fdatasync(int fd) {
    FAILS_FOR_GOOD("fdatasync", LASTING(EIO, ENOSPC, EDQUOT));
    return fdatasync(fd);
}

ssize_t fault_read(int fd, void *memory, size_t n) {
    if (!cannot_fail(fd))
        FAILS("read", LASTING(EIO), PASSING(EINTR));
    return read(fd, memory, n);
}

ssize_t fault_pread(int fd, void *memory, size_t n, off_t offset) {
    FAILS("pread", LASTING(EIO), PASSING(EINTR));
    return pread(fd, memory, n, offset);
}

ssize_t fault_preadv(int fd, const struct iovec *iov, int count, off_t offset) {
    FAILS("preadv", LASTING(EIO, ENOMEM), PASSING(EINTR));
    return preadv(fd, iov, count, offset);
}

/* What is logged may get lost where that cannot be written, but then nobody sees how the daemon
 * does. */
ssize_t fault_write(int fd, const void *memory, size_t n) {
    if (fd == STDERR_FILENO)
        FAILS_ONCE("write", PASSING(EINTR));
    else if (!cannot_fail(fd))
        FAILS("write", LASTING(ENOSPC, EIO), PASSING(EINTR, EAGAIN));
    return write(fd, memory, n);
}

ssize_t fault_writev(int fd, const struct iovec *iov, int count) {
    FAILS("writev", LASTING(ENOSPC, EIO), PASSING(EINTR, EAGAIN));
    return writev(fd, iov, count);
}

ssize_t fault_pwrite(int fd, const void *memory, size_t n, off_t offset) {
    FAILS("pwrite", LASTING(ENOSPC, EIO, EDQUOT), PASSING(EINTR));
    return pwrite(fd, memory, n, offset);
}

ssize_t fault_pwritev(int fd, const struct iovec *iov, int count, off_t offset) {
    FAILS("pwritev", LASTING(ENOSPC, EIO, EDQUOT), PASSING(EINTR));
    return pwritev(fd, iov, count, offset);
}

/* Has closed, whatever it says. */
int fault_close(int fd) {
    note_event(fd, false);
    int result = close(fd);
    FAILS_FOR_GOOD("close", LASTING(EIO, ENOSPC));
    return result;
}

/* io_uring */

int fault_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags) {
    FAILS_NEGATIVE("io_uring_queue_init", LASTING(NO_DESCRIPTORS, EPERM, ENOSYS), PASSING(EAGAIN));
    return io_uring_queue_init(entries, ring, flags);
}

int fault_io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *params) {
    FAILS_NEGATIVE("io_uring_queue_init_params", LASTING(NO_DESCRIPTORS, EPERM, ENOSYS), PASSING(EAGAIN));
    return io_uring_queue_init_params(entries, ring, params);
}

int fault_io_uring_register_buf_ring(struct io_uring *ring, struct io_uring_buf_reg *about, unsigned flags) {
    FAILS_NEGATIVE("io_uring_register_buf_ring", LASTING(ENOMEM), PASSING(EINTR));
    return io_uring_register_buf_ring(ring, about, flags);
}

int fault_io_uring_register_buffers_sparse(struct io_uring *ring, unsigned count) {
    FAILS_NEGATIVE("io_uring_register_buffers_sparse", LASTING(ENOMEM), PASSING(EINTR));
    return io_uring_register_buffers_sparse(ring, count);
}

int fault_io_uring_register_buffers_update_tag(struct io_uring *ring, unsigned offset, const struct iovec *iov,
                                               const __u64 *tags, unsigned count) {
    FAILS_NEGATIVE("io_uring_register_buffers_update_tag", LASTING(ENOMEM), PASSING(EINTR));
    return io_uring_register_buffers_update_tag(ring, offset, iov, tags, count);
}

int fault_io_uring_register_eventfd(struct io_uring *ring, int fd) {
    FAILS_NEGATIVE("io_uring_register_eventfd", LASTING(ENOMEM), PASSING(EINTR));
    return io_uring_register_eventfd(ring, fd);
}

/* Without memory for a request, it says EAGAIN. */

int fault_io_uring_submit(struct io_uring *ring) {
    FAILS_NEGATIVE_ONCE("io_uring_submit", PASSING(EAGAIN, EBUSY, EINTR));
    return io_uring_submit(ring);
}

int fault_io_uring_submit_and_get_events(struct io_uring *ring) {
    FAILS_NEGATIVE_ONCE("io_uring_submit_and_get_events", PASSING(EAGAIN, EBUSY, EINTR));
    return io_uring_submit_and_get_events(ring);
}

int fault_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **ret_cqe, unsigned wait,
                                           struct __kernel_timespec *timeout, sigset_t *mask) {
    FAILS_NEGATIVE_ONCE("io_uring_submit_and_wait_timeout", PASSING(EAGAIN, EBUSY, EINTR));
    return io_uring_submit_and_wait_timeout(ring, ret_cqe, wait, timeout, mask);
}
