/*
 * Preloaded into the daemon: a folder that is looked into takes as long as the test wants. Where
 * SLUICE_TEST_HOLD names a FIFO, fdopendir(3) waits until somebody has opened it for writing, and
 * then until nobody has any more.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

DIR *fdopendir(int folder) {
    DIR *(*real)(int) = (DIR * (*)(int)) dlsym(RTLD_NEXT, "fdopendir");
    const char *path = getenv("SLUICE_TEST_HOLD");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char byte;
    if (fd >= 0) {
        while (read(fd, &byte, 1) > 0)
            continue;
        close(fd);
    }
    return real(folder);
}
