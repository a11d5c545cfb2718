#include "daemon/base/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A name in it, without further folders. */
static bool is_credential(const char *path) {
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    size_t length = folder ? strlen(folder) : 0;
    return length > 0 && strncmp(path, folder, length) == 0 && path[length] == '/' && !strchr(path + length + 1, '/');
}

static bool is_ours(const struct stat *status) {
    return status->st_uid == 0 || status->st_uid == geteuid();
}

static bool others_may_read(const char *path, const struct stat *status) {
    mode_t others = status->st_mode & 077;
    return others != 0 && (others != S_IRGRP || status->st_uid != 0 || !is_credential(path));
}

bool secret_file_is_private(const char *path, const struct stat *status) {
    return is_ours(status) && !others_may_read(path, status);
}

int secret_file_read(const char *path, char text[SECRET_FILE_MAX + 1], char error[SECRET_FILE_ERROR]) {
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) < 0) {
        int number = errno;
        snprintf(error, SECRET_FILE_ERROR, "%s: %s", path, strerror(number));
        if (fd >= 0)
            close(fd);
        return -number;
    }
    const char *wrong = !S_ISREG(status.st_mode)           ? "not a file"
                        : !is_ours(&status)                ? "belongs to somebody else"
                        : others_may_read(path, &status)   ? "others may read it: chmod 600"
                        : status.st_size > SECRET_FILE_MAX ? "longer than 64 KiB"
                                                           : NULL;
    ssize_t length = wrong ? 0 : read(fd, text, SECRET_FILE_MAX);
    close(fd);
    if (!wrong && length < 0)
        wrong = "cannot be read";
    if (!wrong && memchr(text, '\0', (size_t)length))
        wrong = "not text";
    if (!wrong) {
        text[length] = '\0';
        return 0;
    }
    snprintf(error, SECRET_FILE_ERROR, "%s: %s", path, wrong);
    return -EINVAL;
}

int secret_file_each_line(const char *path, secret_file_line_fn *call, void *user, char error[SECRET_FILE_ERROR]) {
    char *text = malloc(SECRET_FILE_MAX + 1);
    if (!text) {
        snprintf(error, SECRET_FILE_ERROR, "%s: out of memory", path);
        return -ENOMEM;
    }
    int result = secret_file_read(path, text, error);
    unsigned number = 0;
    for (char *rest = text, *line; result == 0 && (line = strsep(&rest, "\n"));) {
        number++;
        line[strcspn(line, "\r")] = '\0';
        const char *wrong = *line && *line != '#' ? call(line, user) : NULL;
        if (wrong) {
            snprintf(error, SECRET_FILE_ERROR, "%s:%u: %s", path, number, wrong);
            result = -EINVAL;
        }
    }
    explicit_bzero(text, SECRET_FILE_MAX + 1);
    free(text);
    return result;
}
