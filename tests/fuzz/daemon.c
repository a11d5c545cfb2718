#include "fuzz/daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "fuzz/fuzz.h"

static bool watching;

/* libconfig forgets a string that a file ends in. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libconfig.so\n";
}

void daemon_file(const void *text, size_t n, char *ret_path, size_t size) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && fchmod(fd, 0600) == 0);
    FUZZ_CHECK(n == 0 || pwrite(fd, text, n, 0) == (ssize_t)n);
    FUZZ_CHECK(snprintf(ret_path, size, "/proc/self/fd/%d", fd) < (int)size);
}

void daemon_file_close(const char *path) {
    close(atoi(path + strlen("/proc/self/fd/")));
}

static void show_problem(const char *line, void *user) {
    (void)user;
    fprintf(stderr, "%s\n", line);
}

static void kept(const struct setting *setting, const char *from, const char *to, void *user) {
    (void)setting, (void)from, (void)to, (void)user;
}

const struct options *daemon_options(const char *extra) {
    static const char always[] = "flv = []; http = []; rtsp = []; admin = []; backend = \"epoll\"; batch = 0;\n"
                                 "log-level = \"debug\"; log-rate = 0;\n";
    char *text, path[64];
    struct config_errors errors = {0};
    FUZZ_CHECK(asprintf(&text, "%s%s", always, extra) > 0);
    daemon_file(text, strlen(text), path, sizeof path);
    const struct command_line line = {.config = path};
    const struct options *options = options_load(&line, NULL, kept, NULL, &errors);
    config_errors_each(&errors, show_problem, NULL);
    FUZZ_CHECK(options);
    daemon_file_close(path);
    free(text);
    return options;
}

void daemon_watch_log(void) {
    log_set_level(LOG_DEBUG);
    log_set_rate(0);
    watching = true;
}

/* As the linker calls what is in the place of another symbol. */
ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n) {
    static const char year[] = "2026-";
    const char *text = bytes;
    bool is_line = fd == STDERR_FILENO && watching && n > sizeof year &&
                   (memcmp(text, year, sizeof year - 1) == 0 || memcmp(text, "{\"time\"", 7) == 0);
    if (!is_line)
        return __real_write(fd, bytes, n);
    for (size_t i = 0; i + 1 < n; i++)
        FUZZ_CHECK(text[i] >= ' ' && text[i] < 0x7F);
    FUZZ_CHECK(text[n - 1] == '\n');
    if (getenv("FUZZ_LOG"))
        (void)!__real_write(fd, bytes, n);
    return (ssize_t)n;
}
