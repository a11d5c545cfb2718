/*
 * Recordings that were not ended, whatever their bytes have become: they are repaired to whole tags
 * of what was there, which another repair leaves as they are; what is damaged elsewhere is kept
 * byte for byte; and nothing is removed in which there is a whole tag of audio or video that is a
 * frame.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* For what its thread does: whether that is done cannot be seen from outside. */
#include "daemon/recording/recovery.c" // NOLINT(bugprone-suspicious-include)

#include "fuzz/daemon.h"
#include "fuzz/fuzz.h"

#define NAME "2026-11-21T20-15-03.123Z.flv"
#define PART NAME RECORD_PART

enum { MOST = 1 << 17 };

static char folder_path[] = "/tmp/sluice-fuzz-XXXXXX";

static void remove_folder(void) {
    rmdir(folder_path);
}

static int folder(void) {
    static int fd = -1;
    if (fd < 0) {
        FUZZ_CHECK(mkdtemp(folder_path) && atexit(remove_folder) == 0);
        fd = open(folder_path, O_DIRECTORY | O_CLOEXEC);
        FUZZ_CHECK(fd >= 0);
    }
    return fd;
}

static void write_part(const uint8_t *bytes, size_t n) {
    int fd = openat(folder(), PART, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    FUZZ_CHECK(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    close(fd);
}

/* What is there now; SIZE_MAX: nothing. */
static size_t read_back(const char *name, uint8_t bytes[MOST]) {
    int fd = openat(folder(), name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return SIZE_MAX;
    ssize_t n = read(fd, bytes, MOST);
    FUZZ_CHECK(n >= 0 && n < MOST);
    close(fd);
    unlinkat(folder(), name, 0);
    return (size_t)n;
}

/* Bytes of the first tag, which is written anew. */
static size_t metadata_end(const uint8_t *bytes) {
    return SLUICE_FLV_HEADER_SIZE + SLUICE_FLV_TAG_HEADER_SIZE +
           ((size_t)bytes[SLUICE_FLV_HEADER_SIZE + 1] << 16 | (size_t)bytes[SLUICE_FLV_HEADER_SIZE + 2] << 8 |
            bytes[SLUICE_FLV_HEADER_SIZE + 3]);
}

static void check_tags(fuzz_run *run, const uint8_t *bytes, size_t n) {
    sluice_chain *chain;
    sluice_flv *flv;
    sluice_flv_tag *tag;
    int result;
    FUZZ_CHECK(sluice_chain_new(run->pool, &chain) == 0 && sluice_flv_new(SLUICE_FLV_MAX_PAYLOAD, &flv) == 0);
    fuzz_append(run, chain, bytes, n);
    while ((result = sluice_flv_next(flv, chain, &tag)) == 1)
        FUZZ_CHECK(tag->trailer_ok);
    FUZZ_CHECK(result == 0 && sluice_chain_length(chain) == 0);
    sluice_flv_free(flv);
    sluice_chain_free(chain);
}

/* Whether a whole tag lies anywhere that has a frame by the simplest of looks: legacy video that is
 * H.263. */
static bool has_frame(const uint8_t *bytes, size_t n) {
    for (size_t at = 0; at + RECORD_TAG_AROUND < n; at++) {
        const uint8_t *tag = bytes + at;
        size_t size = (size_t)tag[1] << 16 | (size_t)tag[2] << 8 | tag[3];
        if (tag[0] != SLUICE_FLV_VIDEO || size == 0 || n - at < size + RECORD_TAG_AROUND || tag[8] || tag[9] || tag[10])
            continue;
        uint8_t trailer[SLUICE_FLV_TRAILER_SIZE];
        sluice_flv_write_trailer(trailer, (uint32_t)size);
        if (memcmp(tag + SLUICE_FLV_TAG_HEADER_SIZE + size, trailer, sizeof trailer) == 0 && tag[11] == 0x12)
            return true;
    }
    return false;
}

void fuzz_target(fuzz_run *run) {
    static uint8_t once[MOST], twice[MOST];
    const struct record_root root = {.fd = folder()};
    struct recovery repairs = {.root = &root};
    if (!run->whole || run->size >= MOST / 2)
        return;
    daemon_watch_log();
    write_part(run->bytes, run->size);
    repair(&repairs, PART);
    size_t n = read_back(NAME, once);
    size_t damaged = read_back(NAME ".damaged", twice);
    FUZZ_CHECK(damaged == SIZE_MAX || (damaged == run->size && memcmp(twice, run->bytes, damaged) == 0));
    FUZZ_CHECK(read_back(NAME RECORD_SALVAGE, twice) == SIZE_MAX);
    bool left = read_back(PART, twice) != SIZE_MAX;
    /* What could not be repaired is left as it is. */
    FUZZ_CHECK(!left || (n == SIZE_MAX && damaged == SIZE_MAX));
    if (n == SIZE_MAX) {
        FUZZ_CHECK(left || damaged != SIZE_MAX || !has_frame(run->bytes, run->size));
        return;
    }
    size_t metadata = metadata_end(once);
    FUZZ_CHECK(metadata <= n);
    if (damaged == SIZE_MAX)
        FUZZ_CHECK(n <= run->size && memcmp(once + metadata, run->bytes + metadata, n - metadata) == 0);
    check_tags(run, once, n);
    write_part(once, n);
    repair(&repairs, PART);
    FUZZ_CHECK(read_back(NAME, twice) == n && memcmp(once, twice, n) == 0);
}
