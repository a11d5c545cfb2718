#include "daemon/record_repair.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <sluice/chain.h>
#include <sluice/flv.h>
#include <sluice/pool.h>

#include "daemon/log.h"
#include "daemon/record_files.h"
#include "daemon/record_index.h"

enum {
    BLOCK = 65536,
    PATIENCE_MS = 2000, /* in all, for parts of a process that was killed */
    PAUSE_MS = 20,
    BLOCKS = 512, /* for a tag of the largest size and what is read beyond it */
};

struct job {
    struct job *next;
    const struct record_root *root;
    char path[]; /* empty: all parts */
};

struct record_repairs {
    pthread_t thread;
    bool started;
    atomic_bool ending;
    int patience_ms; /* the thread's: what is left of it */
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct job *first, *last;
    record_done_fn *done; /* or NULL */
    void *done_user;
    const struct record_root *root; /* of the job that is done */
};

/* One part that is being read. */
struct scan {
    int fd;
    sluice_chain *chain;
    sluice_flv *flv;
    struct record_index index;
    uint64_t end;    /* of the last whole tag */
    size_t metadata; /* bytes of the payload of the first tag, where that is onMetaData */
    uint64_t read;   /* bytes */
    atomic_bool *ending;
};

static const uint64_t METADATA_PLACE = SLUICE_FLV_HEADER_SIZE + SLUICE_FLV_TAG_HEADER_SIZE;

static int enter_metadata(struct scan *scan, const sluice_flv_tag *tag) {
    sluice_flv_metadata metadata;
    if (tag->type != SLUICE_FLV_SCRIPT || sluice_flv_read_metadata(&tag->payload, &metadata) < 0)
        return -EPROTO;
    size_t room = record_index_room(tag->size);
    scan->metadata = tag->size;
    int error = record_index_init(&scan->index, room > 0 ? room : 1);
    scan->index.width = metadata.width;
    scan->index.height = metadata.height;
    scan->index.frame_rate = metadata.frame_rate;
    return error;
}

/* All whole tags that have been read. 0, or why nothing more can be had. */
static int take_tags(struct scan *scan) {
    sluice_flv_tag *tag;
    int result;
    while ((result = sluice_flv_next(scan->flv, scan->chain, &tag)) > 0) {
        uint64_t end = sluice_chain_consumed(scan->chain);
        uint64_t place = end - SLUICE_FLV_TAG_HEADER_SIZE - tag->size - SLUICE_FLV_TRAILER_SIZE;
        /* What we write has no gaps, and says behind each tag how long it was. */
        if (!tag->trailer_ok || place != (scan->end ? scan->end : SLUICE_FLV_HEADER_SIZE))
            return -EPROTO;
        if (scan->metadata == 0) {
            int error = enter_metadata(scan, tag);
            if (error)
                return error;
        }
        record_index_add(&scan->index, tag->type, &tag->view, tag->timestamp, place);
        scan->end = end;
    }
    return result;
}

/* 1: there is more, 0: the end, or -errno */
static int read_more(struct scan *scan) {
    struct iovec room;
    int count = sluice_chain_reserve(scan->chain, BLOCK, &room, 1);
    if (count < 0)
        return count;
    ssize_t n = pread(scan->fd, room.iov_base, room.iov_len, (off_t)scan->read);
    if (n < 0)
        return -errno;
    scan->read += (uint64_t)n;
    int error = sluice_chain_commit(scan->chain, (size_t)n);
    return error ? error : n > 0;
}

/* Reads to the end, or to what is no tag of ours. 0, or why it could not be read. */
static int read_all(struct scan *scan, sluice_pool *pool) {
    int more = sluice_chain_new(pool, &scan->chain);
    if (more == 0)
        more = sluice_flv_new(SLUICE_FLV_MAX_PAYLOAD, &scan->flv);
    if (more == 0)
        more = 1;
    bool broken = false;
    while (more > 0 && !broken && !atomic_load(scan->ending)) {
        more = read_more(scan);
        if (more > 0)
            broken = take_tags(scan) < 0;
    }
    if (atomic_load(scan->ending))
        return -ECANCELED;
    return more < 0 ? more : 0;
}

static int rewrite(const struct scan *scan) {
    uint8_t *payload = malloc(scan->metadata);
    if (!payload)
        return -ENOMEM;
    int error = 0;
    if (ftruncate(scan->fd, (off_t)scan->end) < 0)
        error = -errno;
    if (!error && record_index_room(scan->metadata) > 0) {
        record_index_write(&scan->index, scan->end, payload, scan->metadata);
        ssize_t n = pwrite(scan->fd, payload, scan->metadata, (off_t)METADATA_PLACE);
        error = n == (ssize_t)scan->metadata ? 0 : n < 0 ? -errno : -EIO;
    }
    if (!error && fdatasync(scan->fd) < 0)
        error = -errno;
    free(payload);
    return error;
}

static void tell(const struct record_repairs *repairs, const struct scan *scan, const char *path) {
    const struct record_done done = {
        .directory = repairs->root->path,
        .path = path,
        .bytes = scan->end,
        .frames = scan->index.frames,
        .duration_ms = record_index_duration(&scan->index),
        .repaired = true,
    };
    LOG(LOG_INFO, "recording repaired", {"file", path}, {"bytes", log_unsigned(done.bytes).text},
        {"bytes_cut", log_unsigned(scan->read > scan->end ? scan->read - scan->end : 0).text},
        {"frames", log_unsigned(done.frames).text}, {"milliseconds", log_unsigned(done.duration_ms).text});
    if (repairs->done)
        repairs->done(&done, repairs->done_user);
}

/* @path: that the part is to have. */
static int settle(const struct record_repairs *repairs, const struct scan *scan, const char *path, const char *part) {
    int root = repairs->root->fd;
    if (scan->index.frames == 0) {
        LOG(LOG_INFO, "recording without a frame removed", {"file", path});
        return unlinkat(root, part, 0) < 0 ? -errno : 0;
    }
    int error = rewrite(scan);
    if (!error)
        error = record_part_keep(root, path);
    if (!error)
        tell(repairs, scan, path);
    return error;
}

static int read_and_settle(const struct record_repairs *repairs, struct scan *scan, const char *path,
                           const char *part) {
    static const sluice_pool_options options = {.block_size = BLOCK, .slab_blocks = 8, .max_blocks = BLOCKS};
    sluice_pool *pool;
    int error = sluice_pool_new(&options, &pool);
    if (error)
        return error;
    error = read_all(scan, pool);
    sluice_flv_free(scan->flv);
    sluice_chain_free(scan->chain);
    sluice_pool_free(pool);
    if (!error)
        error = settle(repairs, scan, path, part);
    record_index_clear(&scan->index);
    return error;
}

/*
 * The kernel closes the files of an io_uring ring some time after the process that was killed is gone. So at the start
 * a part that somebody writes is waited for, a little.
 */
static int lock(struct record_repairs *repairs, int fd) {
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK || repairs->patience_ms <= 0 || atomic_load(&repairs->ending))
            return -errno;
        (void)nanosleep(&pause, NULL);
        repairs->patience_ms -= PAUSE_MS;
    }
    return 0;
}

/* @part: the path with its suffix. */
static void repair(struct record_repairs *repairs, const char *part) {
    char path[RECORD_PATH];
    size_t length = strlen(part) - strlen(RECORD_PART);
    memcpy(path, part, length);
    path[length] = '\0';
    struct scan scan = {.fd = record_open(repairs->root->fd, part, O_RDWR), .ending = &repairs->ending};
    int error = scan.fd < 0 ? scan.fd : 0;
    if (!error)
        error = lock(repairs, scan.fd);
    if (!error)
        error = read_and_settle(repairs, &scan, path, part);
    if (scan.fd >= 0)
        close(scan.fd);
    if (error && error != -EWOULDBLOCK && error != -ECANCELED && error != -ENOENT)
        LOG(LOG_ERROR, "cannot repair a recording", {"file", part}, {"reason", strerror(-error)});
}

static bool repair_found(int root, const char *part, void *user) {
    struct record_repairs *repairs = user;
    (void)root;
    repair(repairs, part);
    return !atomic_load(&repairs->ending);
}

static void do_job(struct record_repairs *repairs, const struct job *job) {
    char part[RECORD_PATH];
    repairs->root = job->root;
    if (!*job->path) {
        record_parts_each(job->root->fd, repair_found, repairs);
        return;
    }
    size_t length = strlen(job->path);
    memcpy(part, job->path, length);
    strcpy(part + length, RECORD_PART);
    repair(repairs, part);
}

static void *run(void *user) {
    struct record_repairs *repairs = user;
    pthread_mutex_lock(&repairs->lock);
    while (!atomic_load(&repairs->ending)) {
        struct job *job = repairs->first;
        if (!job) {
            pthread_cond_wait(&repairs->news, &repairs->lock);
            continue;
        }
        repairs->first = job->next;
        pthread_mutex_unlock(&repairs->lock);
        do_job(repairs, job);
        free(job);
        pthread_mutex_lock(&repairs->lock);
    }
    pthread_mutex_unlock(&repairs->lock);
    return NULL;
}

int record_repairs_new(struct record_repairs **ret_repairs) {
    struct record_repairs *repairs = calloc(1, sizeof *repairs);
    sigset_t all, before;
    if (!repairs)
        return -ENOMEM;
    repairs->patience_ms = PATIENCE_MS;
    pthread_mutex_init(&repairs->lock, NULL);
    pthread_cond_init(&repairs->news, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = -pthread_create(&repairs->thread, NULL, run, repairs);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    repairs->started = !error;
    if (error) {
        record_repairs_free(repairs);
        return error;
    }
    *ret_repairs = repairs;
    return 0;
}

void record_repairs_free(struct record_repairs *repairs) {
    if (!repairs)
        return;
    pthread_mutex_lock(&repairs->lock);
    atomic_store(&repairs->ending, true);
    pthread_cond_signal(&repairs->news);
    pthread_mutex_unlock(&repairs->lock);
    if (repairs->started)
        pthread_join(repairs->thread, NULL);
    while (repairs->first) {
        struct job *job = repairs->first;
        repairs->first = job->next;
        free(job);
    }
    pthread_cond_destroy(&repairs->news);
    pthread_mutex_destroy(&repairs->lock);
    free(repairs);
}

void record_repairs_tell(struct record_repairs *repairs, record_done_fn *done, void *user) {
    repairs->done = done;
    repairs->done_user = user;
}

int record_repairs_add(struct record_repairs *repairs, const struct record_root *root, const char *path) {
    size_t length = path ? strlen(path) : 0;
    struct job *job = malloc(sizeof *job + length + 1);
    if (!job)
        return -ENOMEM;
    *job = (struct job){.root = root};
    memcpy(job->path, path ? path : "", length + 1);
    pthread_mutex_lock(&repairs->lock);
    if (repairs->first)
        repairs->last->next = job;
    else
        repairs->first = job;
    repairs->last = job;
    pthread_cond_signal(&repairs->news);
    pthread_mutex_unlock(&repairs->lock);
    return 0;
}
