#include "daemon/recording/record_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    FOLDERS = 4,       /* of a stream's name, one in the other */
    DAMAGED_MOST = 99, /* damaged parts of one name */
};

static const char suffix[] = RECORD_PART;

void record_file_name(uint64_t time_ms, char ret_name[RECORD_FILE]) {
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    size_t at = strftime(ret_name, RECORD_FILE, "%Y-%m-%dT%H-%M-%S", &parts);
    snprintf(ret_name + at, RECORD_FILE - at, ".%03uZ.flv", (unsigned)(time_ms % 1000));
}

bool record_file_name_is_valid(const char *name, size_t length) {
    static const char form[] = "dddd-dd-ddTdd-dd-dd.dddZ.flv";
    if (length != sizeof form - 1)
        return false;
    for (size_t i = 0; i < length; i++)
        if (form[i] == 'd' ? name[i] < '0' || name[i] > '9' : name[i] != form[i])
            return false;
    return true;
}

int record_root_open(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/*
 * What openat2() does below, one folder after the other. It is refused where system calls are
 * filtered by their flags, which lie in memory there: systemd's RestrictSUIDSGID= does that.
 */
static int open_by_steps(int root, const char *path, int flags) {
    int folder = root, fd = -EXDEV;
    for (bool ended = false; !ended;) {
        char name[NAME_MAX + 1];
        size_t length = strcspn(path, "/");
        snprintf(name, sizeof name, "%.*s", (int)length, path);
        bool is_last = !path[length];
        fd = length == 0 || length > NAME_MAX || strcmp(name, "..") == 0 ? -EXDEV
             : is_last ? openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
                       : openat(folder, name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        fd = fd == -1 ? -errno : fd;
        if (folder != root)
            close(folder);
        folder = fd;
        path += length + 1;
        ended = is_last || fd < 0;
    }
    return fd;
}

int record_open(int root, const char *path, int flags) {
    const struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, root, path, &how, sizeof how);
    if (fd < 0 && errno == ENOSYS)
        return open_by_steps(root, path, flags);
    return fd < 0 ? -errno : (int)fd;
}

/* The folder that a path lies in, made where it is missing. A descriptor, or -errno. */
static int open_folder(int root, const char *path) {
    char folder[RECORD_PATH];
    int fd = -EINVAL;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        if (mkdirat(root, folder, RECORD_FOLDER_MODE) < 0 && errno != EEXIST)
            return -errno;
        if (strchr(slash + 1, '/'))
            continue;
        fd = record_open(root, folder, O_RDONLY | O_DIRECTORY);
    }
    return fd;
}

/*
 * Locks a part that is new. Until then a recovery, of this process or another, may find it, lock
 * it, and remove it as empty: then what is written to it would be lost. On a file system without
 * locks, parts are not identified by them. 0, -EAGAIN
 */
static int own_part(int folder, const char *part, int fd) {
    struct stat own, named;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : 0;
    if (fstat(fd, &own) < 0 || fstatat(folder, part, &named, AT_SYMLINK_NOFOLLOW) < 0)
        return -EAGAIN;
    return own.st_nlink > 0 && own.st_ino == named.st_ino && own.st_dev == named.st_dev ? 0 : -EAGAIN;
}

static int create_in(int folder, const char *name) {
    char part[RECORD_FILE + sizeof suffix];
    snprintf(part, sizeof part, "%s%s", name, suffix);
    if (faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return -EEXIST;
    int fd = openat(folder, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, RECORD_FILE_MODE);
    if (fd < 0)
        return -errno;
    int error = own_part(folder, part, fd);
    if (error)
        close(fd);
    return error ? error : fd;
}

int record_part_create(int root, const char *path) {
    int folder = open_folder(root, path);
    if (folder < 0)
        return folder;
    int fd = create_in(folder, strrchr(path, '/') + 1);
    close(folder);
    return fd;
}

/*
 * Renames without replacing, also on a file system that cannot guarantee it: these names have no
 * other users.
 */
static int rename_new(int root, const char *from, const char *to) {
    if (renameat2(root, from, root, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL)
        return -errno;
    if (faccessat(root, to, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return -EEXIST;
    return renameat(root, from, root, to) < 0 ? -errno : 0;
}

static void add_suffix(char ret_path[RECORD_PATH], const char *path, const char *end) {
    snprintf(ret_path, RECORD_PATH, "%s%s", path, end);
}

int record_part_keep(int root, const char *path) {
    char part[RECORD_PATH];
    add_suffix(part, path, suffix);
    return rename_new(root, part, path);
}

int record_part_keep_damaged(int root, const char *path, char ret_path[RECORD_PATH]) {
    char part[RECORD_PATH], name[RECORD_PATH];
    int error = -EEXIST;
    add_suffix(part, path, suffix);
    for (unsigned number = 1; error == -EEXIST && number <= DAMAGED_MOST; number++) {
        char end[16] = ".damaged";
        if (number > 1)
            snprintf(end, sizeof end, ".damaged.%u", number);
        add_suffix(name, path, end);
        error = rename_new(root, part, name);
    }
    if (!error)
        memcpy(ret_path, name, sizeof name);
    return error;
}

int record_salvage_create(int root, const char *path) {
    char name[RECORD_PATH];
    /* What a process that was killed has left: a copy of what is still there. */
    int error = record_salvage_remove(root, path);
    if (error && error != -ENOENT)
        return error;
    add_suffix(name, path, RECORD_SALVAGE);
    const char *slash = strrchr(name, '/');
    int folder = slash ? open_folder(root, path) : root;
    if (folder < 0)
        return folder;
    int fd = openat(folder, slash ? slash + 1 : name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                    RECORD_FILE_MODE);
    error = fd < 0 ? -errno : 0;
    if (folder != root)
        close(folder);
    return error ? error : fd;
}

int record_salvage_keep(int root, const char *path) {
    char name[RECORD_PATH];
    add_suffix(name, path, RECORD_SALVAGE);
    return rename_new(root, name, path);
}

int record_salvage_remove(int root, const char *path) {
    char name[RECORD_PATH];
    add_suffix(name, path, RECORD_SALVAGE);
    return unlinkat(root, name, 0) < 0 ? -errno : 0;
}

struct walk {
    int root;
    bool (*call)(int root, const char *path, void *user);
    void *user;
    bool ended;
};

static bool is_part(const char *name) {
    size_t length = strlen(name), end = sizeof suffix - 1;
    return length > end && strcmp(name + length - end, suffix) == 0 && record_file_name_is_valid(name, length - end);
}

static void walk_folder(struct walk *walk, const char *folder, unsigned depth) {
    int fd = record_open(walk->root, *folder ? folder : ".", O_RDONLY | O_DIRECTORY);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (!entries) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *entry; !walk->ended && (entry = readdir(entries));) {
        char path[RECORD_PATH];
        int length = snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", entry->d_name);
        if (entry->d_name[0] == '.' || length < 0 || (size_t)length >= sizeof path)
            continue;
        if (*folder && is_part(entry->d_name))
            walk->ended = !walk->call(walk->root, path, walk->user);
        else if (depth < FOLDERS && (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN))
            walk_folder(walk, path, depth + 1);
    }
    closedir(entries);
}

void record_parts_each(int root, bool (*call)(int root, const char *path, void *user), void *user) {
    struct walk walk = {.root = root, .call = call, .user = user};
    walk_folder(&walk, "", 0);
}

/*
 * Keeps the first names in order, one more than the page has, which shows whether there is another
 * page.
 */
static void keep_first(struct record_page *page, const char *name, size_t root) {
    size_t low = 0, high = page->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(page->entries[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > page->limit || (low < page->count && strcmp(page->entries[low].name, name) == 0))
        return;
    size_t behind = page->count - low - (page->count > page->limit);
    memmove(&page->entries[low + 1], &page->entries[low], behind * sizeof *page->entries);
    page->entries[low] = (struct record_entry){.root = root};
    strcpy(page->entries[low].name, name);
    page->count += page->count <= page->limit;
}

/* A stream's folder below a directory. 0 or -errno. */
static int open_entries(int root, const char *stream, DIR **ret_entries) {
    int fd = record_open(root, stream, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return fd;
    DIR *entries = fdopendir(fd);
    if (!entries) {
        int error = -errno;
        close(fd);
        return error;
    }
    *ret_entries = entries;
    return 0;
}

/* Adds what one directory has. 0 or -errno. */
static int read_names(const struct record_root *roots, size_t root, const char *stream, struct record_page *page) {
    DIR *entries = NULL;
    int error = open_entries(roots[root].fd, stream, &entries);
    if (error)
        return error;
    for (struct dirent *entry; (entry = readdir(entries));)
        if (record_file_name_is_valid(entry->d_name, strlen(entry->d_name)) && strcmp(entry->d_name, page->after) > 0)
            keep_first(page, entry->d_name, root);
    closedir(entries);
    return 0;
}

static bool has_any(const struct record_page *page, size_t root) {
    for (size_t i = 0; i < page->count; i++)
        if (page->entries[i].root == root)
            return true;
    return false;
}

/* Of those that one directory has. Its folder is opened again: one for each of them would be too
 * many descriptors. */
static void read_sizes(const struct record_root *roots, size_t root, const char *stream, struct record_page *page) {
    int folder = has_any(page, root) ? record_open(roots[root].fd, stream, O_RDONLY | O_DIRECTORY) : -ENOENT;
    if (folder < 0)
        return;
    for (size_t i = 0; i < page->count; i++) {
        struct stat status;
        struct record_entry *entry = &page->entries[i];
        if (entry->root != root || fstatat(folder, entry->name, &status, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        entry->is_file = S_ISREG(status.st_mode);
        entry->bytes = (uint64_t)status.st_size;
        entry->modified = status.st_mtim.tv_sec;
    }
    close(folder);
}

/* What has gone meanwhile, or is no file, is left out; so a page may have fewer entries than were
 * asked for. */
static void drop_others(struct record_page *page) {
    size_t kept = 0;
    for (size_t i = 0; i < page->count; i++)
        if (page->entries[i].is_file)
            page->entries[kept++] = page->entries[i];
    page->count = kept;
}

int record_list(const struct record_root *roots, size_t count, const char *stream, struct record_page *page) {
    int error = -ENOENT;
    page->count = 0;
    page->entries = calloc(page->limit + 1, sizeof *page->entries);
    if (!page->entries)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        int result = read_names(roots, i, stream, page);
        bool is_missing = result == -ENOENT || result == -ENOTDIR || result == -ELOOP;
        error = error && !is_missing ? result : error;
    }
    if (page->count > page->limit) {
        page->count = page->limit;
        strcpy(page->next, page->entries[page->limit - 1].name);
    }
    for (size_t i = 0; i < count && !error; i++)
        read_sizes(roots, i, stream, page);
    drop_others(page);
    return error;
}
