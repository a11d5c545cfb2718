#include "daemon/recording/recovery.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sluice/flv.h>

#include "daemon/base/log.h"
#include "daemon/recording/flv_index.h"
#include "daemon/recording/record_files.h"
#include "daemon/recording/record_salvage.h"
#include "daemon/recording/record_scan.h"

/*
 * The kernel closes the files of an io_uring ring some time after its process was killed. So a part
 * that is locked is tried again, after twice the time each time: 10 s in all.
 */
enum {
    PAUSE_MS = 20,
    PAUSE_MOST_MS = 5120,
    END_S = 2, /* for what is under way to be left when the process ends */
};

TAILQ_HEAD(jobs, job);

struct job {
    TAILQ_ENTRY(job) link;
    const struct record_root *root;
    uint64_t not_before; /* milliseconds, monotonic */
    unsigned pause_ms;   /* until the next try, where it is locked */
    char path[];         /* empty: all parts */
};

struct recovery {
    pthread_t thread;
    bool started;
    bool ended; /* the thread does nothing more; with the lock */
    atomic_bool ending;
    pthread_mutex_t lock;
    pthread_cond_t news; /* a job, the ending or the end */
    struct jobs jobs;
    record_done_fn *done; /* or NULL */
    void *done_user;
    const struct record_root *root; /* of the job that is done, the thread's */
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

/* 0, -EWOULDBLOCK, -ENOENT (its writer has completed it since it was opened), or -errno */
static int lock(const struct recovery *repairs, int fd, const char *name) {
    struct stat opened, named;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &opened) < 0 ||
        fstatat(repairs->root->fd, name, &named, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return opened.st_dev == named.st_dev && opened.st_ino == named.st_ino ? 0 : -ENOENT;
}

/* @name: the path with its suffix. Whether it was locked. */
static bool repair(struct recovery *repairs, const char *name) {
    char path[RECORD_PATH];
    size_t length = strlen(name) - strlen(RECORD_PART);
    memcpy(path, name, length);
    path[length] = '\0';
    struct part part = {.fd = record_open(repairs->root->fd, name, O_RDWR), .path = path};
    int error = part.fd < 0 ? part.fd : 0;
    if (!error)
        error = lock(repairs, part.fd, name);
    if (!error)
        error = look_and_settle(repairs, &part, name);
    if (part.fd >= 0)
        close(part.fd);
    if (error && error != -EWOULDBLOCK && error != -ECANCELED && error != -ENOENT)
        LOG(LOG_ERROR, "cannot repair recording", {"file", name}, {"reason", strerror(-error)});
    return error == -EWOULDBLOCK;
}

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* @path: of @length characters. @pause_ms: of the try that it is for. 0, -ENOMEM */
static int add(struct recovery *repairs, const struct record_root *root, const char *path, size_t length,
               unsigned pause_ms) {
    struct job *job = calloc(1, sizeof *job + length + 1);
    if (!job)
        return -ENOMEM;
    job->root = root;
    job->not_before = now_ms() + pause_ms;
    job->pause_ms = pause_ms > 0 ? 2 * pause_ms : PAUSE_MS;
    memcpy(job->path, path, length);
    pthread_mutex_lock(&repairs->lock);
    TAILQ_INSERT_TAIL(&repairs->jobs, job, link);
    pthread_cond_signal(&repairs->news);
    pthread_mutex_unlock(&repairs->lock);
    return 0;
}

static bool repair_found(int root, const char *part, void *user) {
    struct recovery *repairs = user;
    (void)root;
    if (repair(repairs, part))
        (void)add(repairs, repairs->root, part, strlen(part) - strlen(RECORD_PART), PAUSE_MS);
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
    if (repair(repairs, part) && job->pause_ms <= PAUSE_MOST_MS)
        (void)add(repairs, job->root, job->path, length, job->pause_ms);
}

/* That is to be done first, if there is one. */
static struct job *first_job(const struct recovery *repairs) {
    struct job *first = TAILQ_FIRST(&repairs->jobs), *job;
    TAILQ_FOREACH(job, &repairs->jobs, link)
    if (job->not_before < first->not_before)
        first = job;
    return first;
}

static void await(struct recovery *repairs, const struct job *job) {
    if (job) {
        const struct timespec until = {.tv_sec = (time_t)(job->not_before / 1000),
                                       .tv_nsec = (long)(job->not_before % 1000 * 1000000)};
        (void)pthread_cond_timedwait(&repairs->news, &repairs->lock, &until);
    } else {
        (void)pthread_cond_wait(&repairs->news, &repairs->lock);
    }
}

static void *run(void *user) {
    struct recovery *repairs = user;
    pthread_mutex_lock(&repairs->lock);
    while (!atomic_load(&repairs->ending)) {
        struct job *job = first_job(repairs);
        if (!job || job->not_before > now_ms()) {
            await(repairs, job);
            continue;
        }
        TAILQ_REMOVE(&repairs->jobs, job, link);
        pthread_mutex_unlock(&repairs->lock);
        do_job(repairs, job);
        free(job);
        pthread_mutex_lock(&repairs->lock);
    }
    repairs->ended = true;
    pthread_cond_broadcast(&repairs->news);
    pthread_mutex_unlock(&repairs->lock);
    return NULL;
}

static int init_news(pthread_cond_t *news) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int error = -pthread_cond_init(news, &attributes);
    pthread_condattr_destroy(&attributes);
    return error;
}

int recovery_new(struct recovery **ret_repairs) {
    struct recovery *repairs = calloc(1, sizeof *repairs);
    sigset_t all, before;
    if (!repairs)
        return -ENOMEM;
    TAILQ_INIT(&repairs->jobs);
    pthread_mutex_init(&repairs->lock, NULL);
    int error = init_news(&repairs->news);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    if (!error)
        error = -pthread_create(&repairs->thread, NULL, run, repairs);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    repairs->started = !error;
    if (error) {
        recovery_free(repairs);
        return error;
    }
    *ret_repairs = repairs;
    return 0;
}

bool recovery_end(struct recovery *repairs) {
    struct timespec until;
    int error = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += END_S;
    pthread_mutex_lock(&repairs->lock);
    atomic_store(&repairs->ending, true);
    pthread_cond_broadcast(&repairs->news);
    while (!repairs->ended && !error)
        error = pthread_cond_timedwait(&repairs->news, &repairs->lock, &until);
    bool ended = repairs->ended;
    pthread_mutex_unlock(&repairs->lock);
    if (!ended)
        LOG(LOG_WARNING, "file operations abandoned", {"reason", "the disk does not answer"}, {"action", "repair"});
    return ended;
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
    for (struct job *job; (job = TAILQ_FIRST(&repairs->jobs));) {
        TAILQ_REMOVE(&repairs->jobs, job, link);
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
    return add(repairs, root, path ? path : "", path ? strlen(path) : 0, 0);
}
