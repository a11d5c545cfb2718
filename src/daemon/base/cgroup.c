#include "daemon/base/cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/text.h"

static const char mount[] = "/sys/fs/cgroup";

/* What fits of a file's front, with a zero behind it. Without the C library's streams: workers read
 * these files while they relay, which takes no memory of the heap. */
static bool read_front(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t length = 0;
    ssize_t n;
    do {
        n = read(fd, text + length, size - 1 - length);
        length += n > 0 ? (size_t)n : 0;
    } while (n > 0 && length < size - 1);
    close(fd);
    text[length] = '\0';
    return n >= 0 && length > 0;
}

/* The first line of a file, without its end. */
static bool read_line(const char *path, char *line, size_t size) {
    if (!read_front(path, line, size))
        return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

/* False for "max", -1 and all else that is no number. */
static bool read_number(const char *text, uint64_t *ret_number) {
    return text_number(text_of(text), UINT64_MAX, ret_number);
}

static bool read_value(const char *folder, const char *name, uint64_t *ret_number) {
    char path[PATH_MAX], line[128];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
           read_line(path, line, sizeof line) && read_number(line, ret_number);
}

static void limit(uint64_t *value, uint64_t most) {
    if (most < *value)
        *value = most;
}

static void limit_cpus(struct cgroup_limits *limits, uint64_t quota, uint64_t period) {
    if (period > 0 && quota < UINT64_MAX / 1000)
        limit(&limits->milli_cpus, quota * 1000 / period);
}

/* "QUOTA PERIOD" in microseconds, or "max PERIOD" */
static void read_cpu_max(const char *folder, struct cgroup_limits *limits) {
    char path[PATH_MAX], line[128];
    uint64_t quota, period = 100000;
    if (snprintf(path, sizeof path, "%s/cpu.max", folder) >= (int)sizeof path || !read_line(path, line, sizeof line))
        return;
    char *space = strchr(line, ' ');
    if (space)
        *space++ = '\0';
    if (read_number(line, &quota) && (!space || read_number(space, &period)))
        limit_cpus(limits, quota, period);
}

static void read_group(const char *folder, bool is_v2, struct cgroup_limits *limits) {
    uint64_t value, period;
    if (is_v2) {
        read_cpu_max(folder, limits);
        if (read_value(folder, "memory.max", &value))
            limit(&limits->memory, value);
        if (read_value(folder, "memory.high", &value))
            limit(&limits->memory, value);
        return;
    }
    if (read_value(folder, "cpu.cfs_quota_us", &value) && read_value(folder, "cpu.cfs_period_us", &period))
        limit_cpus(limits, value, period);
    if (read_value(folder, "memory.limit_in_bytes", &value))
        limit(&limits->memory, value);
}

/* A group's folder and those above it: each may have less than the one below. */
static void read_groups(const char *base, const char *path, bool is_v2, struct cgroup_limits *limits) {
    char folder[PATH_MAX];
    size_t length = strlen(base);
    /* Of a group that lies outside of what this namespace shows, only the root is to be seen. */
    if (strstr(path, "..") || snprintf(folder, sizeof folder, "%s%s", base, path) >= (int)sizeof folder)
        snprintf(folder, sizeof folder, "%s", base);
    for (;;) {
        read_group(folder, is_v2, limits);
        char *slash = strrchr(folder, '/');
        if (strlen(folder) <= length || !slash || slash < folder + length)
            break;
        *slash = '\0';
    }
}

/* Whether a list with commas has the word. */
static bool has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (; *list; list += strcspn(list, ",") + (list[strcspn(list, ",")] == ','))
        if (strcspn(list, ",") == length && memcmp(list, word, length) == 0)
            return true;
    return false;
}

/* "0::PATH" of version 2, "NUMBER:CONTROLLERS:PATH" of version 1. */
static void read_membership(const char *root, char *line, struct cgroup_limits *limits) {
    char base[PATH_MAX];
    char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return;
    *path++ = '\0';
    controllers++;
    if (!*controllers) {
        if (snprintf(base, sizeof base, "%s%s", root, mount) < (int)sizeof base)
            read_groups(base, path, true, limits);
        /* Where both versions are in use. */
        if (snprintf(base, sizeof base, "%s%s/unified", root, mount) < (int)sizeof base)
            read_groups(base, path, true, limits);
        return;
    }
    static const char *const used[] = {"cpu", "memory"};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        if (has_word(controllers, used[i]) &&
            snprintf(base, sizeof base, "%s%s/%s", root, mount, used[i]) < (int)sizeof base)
            read_groups(base, path, false, limits);
}

void cgroup_read(const char *root, struct cgroup_limits *ret_limits) {
    struct cgroup_limits limits = {UINT64_MAX, UINT64_MAX};
    char path[PATH_MAX], text[2 * PATH_MAX];
    bool read = snprintf(path, sizeof path, "%s/proc/self/cgroup", root) < (int)sizeof path &&
                read_front(path, text, sizeof text);
    for (char *line = text, *end; read && *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = '\0';
        read_membership(root, line, &limits);
    }
    *ret_limits = limits;
}
