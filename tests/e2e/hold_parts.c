/*
 * Preloaded into the daemon: a disk that does not answer. Where SLUICE_TEST_HOLD names a FIFO, the
 * opening of a part below the FIFO's directory waits until somebody has opened the FIFO for
 * writing, and then until nobody has any more.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int openat_fn(int folder, const char *name, int flags, ...);

static bool is_held(int folder, const char *name, const char *gate) {
    char link[64], path[PATH_MAX];
    size_t length = strlen(name), root = (size_t)(strrchr(gate, '/') + 1 - gate);
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t n = readlink(link, path, sizeof path);
    return length > 5 && strcmp(name + length - 5, ".part") == 0 && n > (ssize_t)root && strncmp(path, gate, root) == 0;
}

static int hold_and_open(openat_fn *real, int folder, const char *name, int flags, mode_t mode) {
    const char *gate = getenv("SLUICE_TEST_HOLD");
    char byte;
    if (gate && is_held(folder, name, gate)) {
        int fd = open(gate, O_RDONLY | O_CLOEXEC);
        while (fd >= 0 && read(fd, &byte, 1) > 0)
            continue;
        close(fd);
    }
    return real(folder, name, flags, mode);
}

int openat(int folder, const char *name, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return hold_and_open((openat_fn *)dlsym(RTLD_NEXT, "openat"), folder, name, flags, mode);
}

int openat64(int folder, const char *name, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return hold_and_open((openat_fn *)dlsym(RTLD_NEXT, "openat64"), folder, name, flags, mode);
}
