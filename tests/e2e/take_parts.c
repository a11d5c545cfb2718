/*
 * Preloaded into the daemon: a recovery that finds a part before the recorder has locked it. With
 * the first flock(2) of a part the part is gone (SLUICE_TEST_TAKE=removed), or somebody else has
 * locked it, and removes it then (SLUICE_TEST_TAKE=locked).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

typedef int flock_fn(int fd, int operation);

static int take(flock_fn *real, const char *part, const char *way, int fd, int operation) {
    int other = open(part, O_RDWR | O_CLOEXEC);
    if (strcmp(way, "removed") == 0)
        unlink(part);
    else
        real(other, LOCK_EX);
    int result = real(fd, operation);
    unlink(part);
    close(other);
    return result;
}

int flock(int fd, int operation) {
    static atomic_flag is_taken = ATOMIC_FLAG_INIT;
    flock_fn *real = (flock_fn *)dlsym(RTLD_NEXT, "flock");
    const char *way = getenv("SLUICE_TEST_TAKE");
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    if (!way || n < 5 || strcmp(path + n - 5, ".part") != 0 || atomic_flag_test_and_set(&is_taken))
        return real(fd, operation);
    return take(real, path, way, fd, operation);
}
