/* What the daemon has besides its data plane, and what the disk is made of: told to the simulated
 * world. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/pool.h>

#include "daemon/base/log.h"
#include "daemon/recording/record_files.h"
#include "daemon/recording/recovery.h"
#include "sim/invariants.h"
#include "sim/kernel.h"
#include "sim/world.h"

void __wrap_log_write(enum log_level level, const char *message, const log_field *fields, size_t count);
void __wrap_log_write(enum log_level level, const char *message, const log_field *fields, size_t count) {
    (void)fields, (void)count;
    world_trace(message, level, 0, 0);
}

/* Before a pool goes, everything must have come back. */
void __real_sluice_pool_free(sluice_pool *pool);
void __wrap_sluice_pool_free(sluice_pool *pool);
void __wrap_sluice_pool_free(sluice_pool *pool) {
    if (pool)
        check_nothing_held(pool);
    __real_sluice_pool_free(pool);
}

/* Recordings. */

int __wrap_record_root_open(const char *path);
int __wrap_record_root_open(const char *path) {
    (void)path;
    return kernel_open(kernel_file_new(FILE_FOLDER));
}

int __wrap_record_part_create(int root, const char *path);
int __wrap_record_part_create(int root, const char *path) {
    char part[RECORD_PATH + sizeof RECORD_PART];
    (void)root;
    snprintf(part, sizeof part, "%s%s", path, RECORD_PART);
    if (disk_find(path))
        return -EEXIST;
    return disk_open(part, true);
}

int __wrap_record_open(int root, const char *path, int flags);
int __wrap_record_open(int root, const char *path, int flags) {
    (void)root, (void)flags;
    return disk_open(path, false);
}

/* The file's name, where it is a recording of the stream that the page may have. */
static const char *name_in(const struct disk_file *file, const char *stream, const struct record_page *page) {
    size_t length = strlen(stream);
    const char *name = file->path + length + 1;
    bool is_there = strncmp(file->path, stream, length) == 0 && file->path[length] == '/' &&
                    record_file_name_is_valid(name, strlen(name)) && strcmp(name, page->after) > 0;
    return is_there ? name : NULL;
}

static int compare_entries(const void *one, const void *other) {
    return strcmp(((const struct record_entry *)one)->name, ((const struct record_entry *)other)->name);
}

int __wrap_record_list(const struct record_root *roots, size_t count, const char *stream, struct record_page *page);
int __wrap_record_list(const struct record_root *roots, size_t count, const char *stream, struct record_page *page) {
    size_t all = 0;
    (void)roots, (void)count;
    if (world_has(FAULT_DISK_ERROR))
        return -EIO;
    for (const struct disk_file *file = disk_first(); file; file = file->next)
        all += name_in(file, stream, page) != NULL;
    page->entries = calloc(all + 1, sizeof *page->entries);
    if (!page->entries)
        return -ENOMEM;
    page->count = 0;
    for (const struct disk_file *file = disk_first(); file; file = file->next) {
        const char *name = name_in(file, stream, page);
        if (!name)
            continue;
        struct record_entry *entry = &page->entries[page->count++];
        snprintf(entry->name, sizeof entry->name, "%s", name);
        entry->bytes = file->size;
    }
    qsort(page->entries, page->count, sizeof *page->entries, compare_entries);
    if (page->count > page->limit) {
        page->count = page->limit;
        strcpy(page->next, page->entries[page->limit - 1].name);
    }
    return 0;
}

int __real_faccessat(int folder, const char *path, int mode, int flags);
int __wrap_faccessat(int folder, const char *path, int mode, int flags);
int __wrap_faccessat(int folder, const char *path, int mode, int flags) {
    return kernel_is_fd(folder) ? 0 : __real_faccessat(folder, path, mode, flags);
}

/* What is left behind stays as it is, and is looked at in the end. */

int __wrap_recovery_new(struct recovery **ret_repairs);
int __wrap_recovery_new(struct recovery **ret_repairs) {
    *ret_repairs = NULL;
    return 0;
}

void __wrap_recovery_free(struct recovery *repairs);
void __wrap_recovery_free(struct recovery *repairs) {
    (void)repairs;
}

bool __wrap_recovery_end(struct recovery *repairs);
bool __wrap_recovery_end(struct recovery *repairs) {
    (void)repairs;
    return true;
}

void __wrap_recovery_tell(struct recovery *repairs, record_done_fn *done, void *user);
void __wrap_recovery_tell(struct recovery *repairs, record_done_fn *done, void *user) {
    (void)repairs;
    (void)done;
    (void)user;
}

int __wrap_recovery_add(struct recovery *repairs, const struct record_root *root, const char *path);
int __wrap_recovery_add(struct recovery *repairs, const struct record_root *root, const char *path) {
    (void)repairs, (void)root;
    if (path)
        world_trace("to be repaired", 0, 0, 0);
    return 0;
}
