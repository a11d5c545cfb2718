#include "daemon/recording/recovery.h"

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

#include <sluice/flv.h>

#include "daemon/base/log.h"
#include "daemon/recording/flv_index.h"
#include "daemon/recording/record_files.h"
#include "daemon/recording/record_salvage.h"
#include "daemon/recording/record_scan.h"

enum {
    PATIENCE_MS = 2000, /* in all, for parts of a process that was killed */
    PAUSE_MS = 20,
};

struct job {
    struct job *next;
    const struct record_root *root;
    char path[]; /* empty: all parts */
};

struct recovery {
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
    atomic_uint_fast64_t counts[RECOVERY_RESULTS];
};

/* One part that is being repaired. */
struct part {
    int fd;
    const char *path; /* that the recording is to have */
    struct flv_index index;
    uint64_t size, end; /* of the file, and of its last whole tag */
    /* bytes of the payload of the first tag, where that is onMetaData; else 0 */
    size_t metadata;
};

static const uint64_t METADATA_PLACE = SLUICE_FLV_HEADER_SIZE + SLUICE_FLV_TAG_HEADER_SIZE;

static int enter_metadata(struct part *part, const struct record_tag *tag) {
    sluice_flv_metadata metadata;
    if (tag->type != SLUICE_FLV_SCRIPT || sluice_flv_read_metadata(tag->payload, &metadata) < 0)
        return 0;
    size_t room = flv_index_room(tag->size);
    part->metadata = tag->size;
    int error = flv_index_init(&part->index, room > 0 ? room : 1);
    flv_index_describe(&part->index, &metadata);
    return error;
}

/* All tags, as long as they are what we write: a part that is damaged is not read to its end. 0 or
 * -errno. */
static int read_tags(struct part *part, struct record_scan *scan) {
    struct record_tag tag;
    int result;
    bool first = true;
    while ((result = record_scan_next(scan, &tag)) > 0 && record_scan_is_sound(scan)) {
        int error = first ? enter_metadata(part, &tag) : 0;
        if (error || part->metadata == 0)
            return error;
        first = false;
        flv_index_add(&part->index, tag.type, &tag.view, tag.timestamp, tag.place);
    }
    return result < 0 ? result : 0;
}

enum verdict {
    PART_EMPTY,   /* there is not a byte of media in it */
    PART_WHOLE,   /* it is whole up to a tag that was being written */
    PART_DAMAGED, /* anything else */
};

static enum verdict judge(const struct part *part, const struct record_scan *scan, enum record_tail tail) {
    bool sound = record_scan_is_sound(scan) && tail != RECORD_TAIL_UNKNOWN;
    bool has_tags = record_scan_end(scan) > SLUICE_FLV_HEADER_SIZE;
    if (sound && part->metadata > 0 && part->index.frames > 0)
        return PART_WHOLE;
    /* One that is shorter than what lies before the first media, or of zeros, need not be sound. */
    if ((sound || !has_tags) && tail < RECORD_TAIL_FRAME && part->index.frames == 0 &&
        (part->metadata > 0 || !has_tags))
        return PART_EMPTY;
    return PART_DAMAGED;
}

/* 0, -ECANCELED, -ENOMEM, or why it could not be read */
static int look(struct recovery *repairs, struct part *part, enum verdict *ret_verdict) {
    struct record_scan *scan;
    enum record_tail tail = RECORD_TAIL_NONE;
    int error = record_scan_new(part->fd, &repairs->ending, &scan);
    if (error)
        return error;
    error = read_tags(part, scan);
    if (!error)
        error = record_scan_tail(scan, &tail);
    part->size = record_scan_size(scan);
    part->end = record_scan_end(scan);
    if (!error)
        *ret_verdict = judge(part, scan, tail);
    record_scan_free(scan);
    return error;
}

static int rewrite(const struct part *part) {
    uint8_t *payload = malloc(part->metadata);
    if (!payload)
        return -ENOMEM;
    int error = 0;
    if (ftruncate(part->fd, (off_t)part->end) < 0)
        error = -errno;
    if (!error && flv_index_room(part->metadata) > 0) {
        flv_index_write(&part->index, part->end, payload, part->metadata);
        ssize_t n = pwrite(part->fd, payload, part->metadata, (off_t)METADATA_PLACE);
        error = n == (ssize_t)part->metadata ? 0 : n < 0 ? -errno : -EIO;
    }
    if (!error && fdatasync(part->fd) < 0)
        error = -errno;
    free(payload);
    return error;
}

static void tell(struct recovery *repairs, const char *path, const struct flv_index *index, uint64_t bytes,
                 uint64_t bytes_cut) {
    const struct record_done done = {
        .directory = repairs->root->path,
        .path = path,
        .bytes = bytes,
        .frames = index->frames,
        .duration_ms = flv_index_duration(index),
        .repaired = true,
    };
    atomic_fetch_add(&repairs->counts[RECOVERY_REPAIRED], 1);
    LOG(LOG_INFO, "recording repaired", {"file", path}, {"bytes", log_unsigned(bytes).text},
        {"bytes_cut", log_unsigned(bytes_cut).text}, {"frames", log_unsigned(done.frames).text},
        {"milliseconds", log_unsigned(done.duration_ms).text});
    if (repairs->done)
        repairs->done(&done, repairs->done_user);
}

static int keep_whole(struct recovery *repairs, const struct part *part) {
    int error = rewrite(part);
    if (!error)
        error = record_part_keep(repairs->root->fd, part->path);
    if (!error)
        tell(repairs, part->path, &part->index, part->end, part->size - part->end);
    return error;
}

/* What can be played of a damaged part becomes the recording, where there is any. @ret_frames: of
 * it */
static int salvage(struct recovery *repairs, const struct part *part, uint64_t *ret_frames) {
    struct flv_index index = {0};
    uint64_t bytes = 0;
    int root = repairs->root->fd;
    int to = record_salvage_create(root, part->path);
    if (to < 0)
        return to;
    int error = record_salvage(part->fd, to, &repairs->ending, &index, &bytes);
    close(to);
    bool kept = !error && index.frames > 0;
    if (kept)
        error = record_salvage_keep(root, part->path);
    if (error || !kept)
        (void)record_salvage_remove(root, part->path);
    if (kept && !error) {
        *ret_frames = index.frames;
        tell(repairs, part->path, &index, bytes, part->size > bytes ? part->size - bytes : 0);
    }
    flv_index_clear(&index);
    /* An earlier start has done it, and ended before the part was renamed. */
    return error == -EEXIST ? 0 : error;
}

/* The part itself stays as it is, but for its name: more may be had of it by others than by us. */
static int keep_damaged(struct recovery *repairs, const struct part *part) {
    char kept[RECORD_PATH];
    uint64_t frames = 0;
    int error = salvage(repairs, part, &frames);
    if (!error)
        error = record_part_keep_damaged(repairs->root->fd, part->path, kept);
    if (error)
        return error;
    atomic_fetch_add(&repairs->counts[RECOVERY_DAMAGED], 1);
    LOG(LOG_WARNING, "recording damaged", {"file", part->path}, {"kept_as", kept},
        {"bytes", log_unsigned(part->size).text}, {"frames_salvaged", log_unsigned(frames).text});
    return 0;
}

static int remove_empty(struct recovery *repairs, const struct part *part, const char *name) {
    if (unlinkat(repairs->root->fd, name, 0) < 0)
        return -errno;
    atomic_fetch_add(&repairs->counts[RECOVERY_EMPTY], 1);
    LOG(LOG_INFO, "empty recording removed", {"file", part->path});
    return 0;
}

/* @name: of the part's file. */
static int look_and_settle(struct recovery *repairs, struct part *part, const char *name) {
    enum verdict verdict;
    int error = look(repairs, part, &verdict);
    if (!error)
        error = verdict == PART_WHOLE   ? keep_whole(repairs, part)
                : verdict == PART_EMPTY ? remove_empty(repairs, part, name)
                                        : keep_damaged(repairs, part);
    flv_index_clear(&part->index);
    return error;
}

/*
 * The kernel closes the files of an io_uring ring some time after its process was killed. So at the
 * start, the lock of a part is awaited for a short time.
 */
static int lock(struct recovery *repairs, int fd) {
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK || repairs->patience_ms <= 0 || atomic_load(&repairs->ending))
            return -errno;
        (void)nanosleep(&pause, NULL);
        repairs->patience_ms -= PAUSE_MS;
    }
    return 0;
}

/* @name: the path with its suffix. */
static void repair(struct recovery *repairs, const char *name) {
    char path[RECORD_PATH];
    size_t length = strlen(name) - strlen(RECORD_PART);
    memcpy(path, name, length);
    path[length] = '\0';
    struct part part = {.fd = record_open(repairs->root->fd, name, O_RDWR), .path = path};
    int error = part.fd < 0 ? part.fd : 0;
    if (!error)
        error = lock(repairs, part.fd);
    if (!error)
        error = look_and_settle(repairs, &part, name);
    if (part.fd >= 0)
        close(part.fd);
    if (error && error != -EWOULDBLOCK && error != -ECANCELED && error != -ENOENT)
        LOG(LOG_ERROR, "cannot repair recording", {"file", name}, {"reason", strerror(-error)});
}

static bool repair_found(int root, const char *part, void *user) {
    struct recovery *repairs = user;
    (void)root;
    repair(repairs, part);
    return !atomic_load(&repairs->ending);
}

static void do_job(struct recovery *repairs, const struct job *job) {
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
    struct recovery *repairs = user;
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

int recovery_new(struct recovery **ret_repairs) {
    struct recovery *repairs = calloc(1, sizeof *repairs);
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
        recovery_free(repairs);
        return error;
    }
    *ret_repairs = repairs;
    return 0;
}

void recovery_free(struct recovery *repairs) {
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

void recovery_tell(struct recovery *repairs, record_done_fn *done, void *user) {
    repairs->done = done;
    repairs->done_user = user;
}

const char *recovery_result_name(enum recovery_result result) {
    static const char *const names[] = {
        [RECOVERY_REPAIRED] = "repaired", [RECOVERY_DAMAGED] = "damaged", [RECOVERY_EMPTY] = "empty"};
    return names[result];
}

uint64_t recovery_count(struct recovery *repairs, enum recovery_result result) {
    return atomic_load(&repairs->counts[result]);
}

int recovery_add(struct recovery *repairs, const struct record_root *root, const char *path) {
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
