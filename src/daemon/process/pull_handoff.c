#include "daemon/process/pull_handoff.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/pull/pull.h"

/* A line is "TTL_MS URL=NAME[,on-demand]", where 0 means no time to live. */
enum { LINE = PULL_OPTION_TEXT + 32, FILE_MAX = PULLS_REQUESTED_MAX * LINE };

struct writing {
    int fd, error;
};

static void write_pull(const struct pull_option *option, uint64_t ttl_ms, void *user) {
    struct writing *writing = user;
    char text[PULL_OPTION_TEXT], line[LINE];
    if (writing->error)
        return;
    if (writing->fd < 0)
        writing->fd = memfd_create("pulls", MFD_CLOEXEC);
    if (writing->fd < 0) {
        writing->error = -errno;
        return;
    }
    pull_option_format(option, text);
    int length = snprintf(line, sizeof line, "%llu %s\n", (unsigned long long)ttl_ms, text);
    ssize_t written = write(writing->fd, line, (size_t)length);
    explicit_bzero(text, sizeof text);
    explicit_bzero(line, sizeof line);
    writing->error = written == length ? 0 : -EIO;
}

int pull_handoff_write(struct server *server, int *ret_fd) {
    struct writing writing = {.fd = -1};
    pulls_each_requested(server, write_pull, &writing);
    if (writing.error && writing.fd >= 0)
        close(writing.fd);
    if (!writing.error)
        *ret_fd = writing.fd;
    return writing.error;
}

static int add(struct server *server, const struct pull_option *option, uint64_t ttl_ms) {
    struct pull *pull;
    int error = pull_new(option, ttl_ms, &pull);
    if (error)
        return error;
    error = pulls_add(server_owner(server, option->name, strlen(option->name)), pull);
    if (error)
        pull_free(pull);
    return error;
}

static void read_pull(char *line, struct server *server) {
    struct pull_options options = {0};
    char *text;
    unsigned long long ttl_ms = strtoull(line, &text, 10);
    const char *wrong = *text == ' ' ? pull_options_add(&options, text + 1) : "malformed";
    int error = wrong ? 0 : add(server, &options.list[0], ttl_ms);
    if (error == -EEXIST)
        wrong = "the configuration has a pull of that stream";
    else if (error)
        wrong = strerror(-error);
    if (wrong)
        LOG(LOG_WARNING, "pull not taken over", {"stream", options.count > 0 ? options.list[0].name : "-"},
            {"reason", wrong});
    pull_options_clear(&options);
}

void pull_handoff_read(int fd, struct server *server) {
    struct stat status;
    const bool is_good = fstat(fd, &status) == 0 && status.st_size > 0 && status.st_size <= FILE_MAX;
    const size_t size = is_good ? (size_t)status.st_size : 0;
    char *text = calloc(1, size + 1);
    if (!text || pread(fd, text, size, 0) != (ssize_t)size)
        LOG(LOG_ERROR, "pulls not taken over", {"reason", text ? "cannot read them" : strerror(ENOMEM)});
    else
        for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
            if (*line)
                read_pull(line, server);
    if (text)
        explicit_bzero(text, size);
    free(text);
    close(fd);
}
