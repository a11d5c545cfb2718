#include "daemon/process/state_handoff.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/process/ban_handoff.h"
#include "daemon/process/pull_handoff.h"
#include "daemon/process/record_handoff.h"

/* Earlier programs, which know pulls alone, take no larger file. Pulls have the first choice. */
enum { FILE_MOST = PULL_HANDOFF_MOST };

void state_handoff_init(struct state_handoff *state) {
    state_lines_init(&state->own, FILE_MOST);
}

void state_handoff_clear(struct state_handoff *state) {
    state_lines_clear(&state->own);
}

void state_handoff_begin(struct state_handoff *state) {
    state_lines_empty(&state->own);
}

void state_handoff_take(struct worker *worker, void *user) {
    struct state_handoff *state = user;
    ban_handoff_write(worker, &state->own);
    record_handoff_write(worker, &state->own);
}

static int write_lines(int fd, const struct state_lines *lines) {
    size_t done = 0;
    while (done < lines->size) {
        ssize_t n = write(fd, lines->text + done, lines->size - done);
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        done += (size_t)n;
    }
    return 0;
}

int state_handoff_write(struct state_handoff *state, struct server *server, const struct predecessors *predecessors,
                        int *ret_fd) {
    struct state_lines first;
    int fd = -1, error = 0;
    state_lines_init(&first, FILE_MOST);
    pull_handoff_write(server, &first);
    predecessors_write(predecessors, &first);
    state_lines_cut(&state->own, FILE_MOST - first.size);
    if (first.size + state->own.size > 0) {
        fd = memfd_create("state", MFD_CLOEXEC);
        error = fd < 0 ? -errno : write_lines(fd, &first);
        error = error ? error : write_lines(fd, &state->own);
    }
    const unsigned dropped = first.dropped + state->own.dropped;
    state_lines_clear(&first);
    if (dropped > 0)
        LOG(LOG_ERROR, "state not handed over", {"lines", log_unsigned(dropped).text}, {"reason", "too much of it"});
    if (error && fd >= 0)
        close(fd);
    if (!error)
        *ret_fd = fd;
    return error;
}

/* What follows the word that the line begins with, or NULL. */
static const char *behind(const char *line, const char *word) {
    const size_t length = strlen(word);
    return strncmp(line, word, length) == 0 ? line + length : NULL;
}

/* Whether the kind of line is known. */
static bool read_line(const char *line, struct server *server, struct predecessors *predecessors) {
    const char *text;
    if (isdigit((unsigned char)*line))
        pull_handoff_read(line, server);
    else if ((text = behind(line, BAN_HANDOFF_WORD)))
        ban_handoff_read(text, server);
    else if ((text = behind(line, RECORD_HANDOFF_WORD)))
        record_handoff_read(text, server);
    else if ((text = behind(line, PREDECESSORS_WORD)))
        predecessors_read(predecessors, text);
    else
        return false;
    return true;
}

static void read_lines(char *text, struct server *server, struct predecessors *predecessors) {
    unsigned unknown = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
        unknown += *line && !read_line(line, server, predecessors);
    if (unknown > 0)
        LOG(LOG_WARNING, "state not taken over", {"lines", log_unsigned(unknown).text}, {"reason", "unknown kind"});
}

/* A file that is too large, by a newer program: what fits of it, in whole lines. */
static void cut(char *text, size_t *size, uint64_t file_size) {
    while (*size > 0 && text[*size - 1] != '\n')
        (*size)--;
    text[*size] = '\0';
    LOG(LOG_ERROR, "state not taken over", {"bytes", log_unsigned(file_size - *size).text},
        {"reason", "too much of it"});
}

void state_handoff_read(int fd, struct server *server, struct predecessors *predecessors) {
    struct stat status;
    const bool is_good = fstat(fd, &status) == 0 && status.st_size > 0;
    size_t size = !is_good ? 0 : status.st_size > FILE_MOST ? FILE_MOST : (size_t)status.st_size;
    char *text = calloc(1, size + 1);
    const size_t taken = size;
    if (!text || pread(fd, text, size, 0) != (ssize_t)size) {
        LOG(LOG_ERROR, "state not taken over", {"reason", text ? "cannot read it" : strerror(ENOMEM)});
    } else {
        if (is_good && (uint64_t)status.st_size > size)
            cut(text, &size, (uint64_t)status.st_size);
        read_lines(text, server, predecessors);
    }
    if (text)
        explicit_bzero(text, taken);
    free(text);
    close(fd);
}
