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

static int write_pull(int fd, const struct snapshot_pull *pull, const struct pull_option *option) {
    char text[PULL_OPTION_TEXT], line[LINE];
    pull_option_format(option, text);
    /* 0 means no time to live: one that has expired gets 1 ms, and ends in the other process. */
    unsigned long long ttl = pull->expires ? pull->ttl_ms > 0 ? pull->ttl_ms : 1 : 0;
    int length = snprintf(line, sizeof line, "%llu %s\n", ttl, text);
    ssize_t written = write(fd, line, (size_t)length);
    explicit_bzero(text, sizeof text);
    explicit_bzero(line, sizeof line);
    return written == length ? 0 : -EIO;
}

static int write_pulls(int fd, const struct snapshot *snapshot, size_t *count) {
    int error = 0;
    for (size_t i = 0; i < snapshot->pull_count && !error; i++) {
        if (snapshot->pulls[i].source != PULL_REQUESTED)
            continue;
        error = write_pull(fd, &snapshot->pulls[i], &snapshot->pull_options[i]);
        ++*count;
    }
    return error;
}

int pull_handoff_write(const struct snapshots *snapshots, int *ret_fd) {
    size_t count = 0;
    int fd = memfd_create("pulls", MFD_CLOEXEC);
    int error = fd < 0 ? -errno : 0;
    for (size_t at = 0; at < snapshots->count && !error; at++)
        if (snapshots->list[at])
            error = write_pulls(fd, snapshots->list[at], &count);
    if (fd >= 0 && (error || count == 0)) {
        close(fd);
        fd = -1;
    }
    if (!error)
        *ret_fd = fd;
    return error;
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
