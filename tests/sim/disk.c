/* A disk: files by their paths, that is slow, full or broken at times. */
#include <errno.h>
#include <linux/fs.h>
#include <string.h>

#include "sim/kernel.h"
#include "sim/world.h"

static struct {
    struct disk_file *first;
    uint64_t full_to;
    uint32_t files_made;
} disk;

void disk_begin(void) {
    memset(&disk, 0, sizeof disk);
}

void disk_remove(struct disk_file *file) {
    struct disk_file **link = &disk.first;
    while (*link != file)
        link = &(*link)->next;
    *link = file->next;
    world_free(file->bytes);
    world_free(file);
}

void disk_end(void) {
    while (disk.first)
        disk_remove(disk.first);
}

struct disk_file *disk_first(void) {
    return disk.first;
}

struct disk_file *disk_find(const char *path) {
    struct disk_file *found = disk.first;
    while (found && strcmp(found->path, path) != 0)
        found = found->next;
    return found;
}

static bool is_full(void) {
    if (world_has(FAULT_DISK_FULL))
        disk.full_to = world_now() + world_between(1, 20) * 1000000;
    return !world_is_calm() && world_now() < disk.full_to;
}

int disk_open(const char *path, bool create) {
    struct disk_file *found = disk_find(path);
    if (create && found)
        return -EEXIST;
    if (!create && !found)
        return -ENOENT;
    if (world_has(FAULT_DISK_ERROR))
        return -EIO;
    if (create && is_full())
        return -ENOSPC;
    if (!found) {
        found = world_allocate(sizeof *found);
        WORLD_CHECK(strlen(path) < sizeof found->path, "a path of %zu bytes", strlen(path));
        strcpy(found->path, path);
        found->number = ++disk.files_made;
        world_trace("disk file", found->number, 0, 0);
        found->next = disk.first;
        disk.first = found;
    }
    struct file *file = kernel_file_new(FILE_DISK);
    file->disk = found;
    return kernel_open(file);
}

void disk_put(struct disk_file *file, const void *bytes, size_t n) {
    world_append(&file->bytes, &file->size, &file->room, bytes, n);
}

static size_t length_of(const struct iovec *pieces, size_t count) {
    size_t length = 0;
    for (size_t i = 0; i < count; i++)
        length += pieces[i].iov_len;
    return length;
}

int disk_write(struct disk_file *file, const struct iovec *pieces, size_t count, uint64_t offset) {
    size_t length = length_of(pieces, count), done = 0;
    world_trace("disk write", file->number, (int64_t)offset, (int64_t)length);
    if (world_has(FAULT_DISK_ERROR))
        return -EIO;
    if (world_has(FAULT_INTERRUPT))
        return -EINTR;
    if (is_full())
        return -ENOSPC;
    if (length > 1 && world_has(FAULT_DISK_SHORT))
        length = world_between(1, (uint32_t)length - 1);
    if (offset + length > file->room) {
        file->room = 2 * (offset + length);
        file->bytes = world_grow(file->bytes, file->room);
    }
    if (offset > file->size)
        memset(file->bytes + file->size, 0, offset - file->size);
    for (size_t i = 0; i < count && done < length; i++) {
        size_t n = pieces[i].iov_len < length - done ? pieces[i].iov_len : length - done;
        memcpy(file->bytes + offset + done, pieces[i].iov_base, n);
        done += n;
    }
    if (offset + done > file->size)
        file->size = offset + done;
    return (int)done;
}

int disk_read(struct disk_file *file, const struct iovec *pieces, size_t count, uint64_t offset) {
    size_t length = length_of(pieces, count), done = 0;
    size_t left = offset < file->size ? file->size - offset : 0;
    if (world_has(FAULT_DISK_ERROR))
        return -EIO;
    if (world_has(FAULT_INTERRUPT))
        return -EINTR;
    if (length > left)
        length = left;
    if (length > 1 && world_has(FAULT_DISK_SHORT))
        length = world_between(1, (uint32_t)length - 1);
    for (size_t i = 0; i < count && done < length; i++) {
        size_t n = pieces[i].iov_len < length - done ? pieces[i].iov_len : length - done;
        memcpy(pieces[i].iov_base, file->bytes + offset + done, n);
        done += n;
    }
    return (int)done;
}

int disk_rename(const char *from, const char *to, unsigned flags) {
    struct disk_file *file = disk_find(from), *there = disk_find(to);
    if (!file)
        return -ENOENT;
    if (world_has(FAULT_DISK_ERROR))
        return -EIO;
    if (there && (flags & RENAME_NOREPLACE))
        return -EEXIST;
    if (there)
        disk_remove(there);
    strcpy(file->path, to);
    return 0;
}

uint64_t disk_delay(void) {
    return world_has(FAULT_DISK_SLOW) ? world_between(1000, 3000000) : world_between(10, 500);
}
