#include "daemon/recording/record_scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sluice/chain.h>
#include <sluice/pool.h>

enum {
    WINDOW = 65536, /* bytes of the file that are looked at together */
    BLOCK = 65536,  /* bytes */
    BLOCKS = 512,   /* for a script of the largest size */
    /* bytes of audio and video that are read: more than any decoder's configuration has */
    LOOKED_AT = 16384,
};

struct record_scan {
    int fd;
    const atomic_bool *ending;
    uint64_t size, end;
    bool sound;
    sluice_pool *pool;
    sluice_chain *chain;
    sluice_flv *flv;
    uint64_t window_place;
    size_t window_length;
    uint8_t window[WINDOW];
};

static uint32_t be24(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
}

/* As many bytes as there are, up to n. Their number, or -errno. */
static ssize_t read_at(const struct record_scan *scan, uint64_t place, void *memory, size_t n) {
    size_t done = 0;
    while (done < n) {
        ssize_t result = pread(scan->fd, (uint8_t *)memory + done, n - done, (off_t)(place + done));
        if (result < 0 && errno == EINTR)
            continue;
        if (result < 0)
            return -errno;
        if (result == 0)
            break;
        done += (size_t)result;
    }
    return (ssize_t)done;
}

/* Bytes at a place, until the next call: NULL in *ret_bytes where the file has fewer. 0, -ECANCELED
 * or -errno. */
static int look_at(struct record_scan *scan, uint64_t place, size_t n, const uint8_t **ret_bytes) {
    *ret_bytes = NULL;
    if (place > scan->size || scan->size - place < n)
        return 0;
    if (place < scan->window_place || place + n > scan->window_place + scan->window_length) {
        if (atomic_load(scan->ending))
            return -ECANCELED;
        scan->window_length = 0;
        ssize_t length = read_at(scan, place, scan->window, WINDOW);
        if (length < 0)
            return (int)length;
        scan->window_place = place;
        scan->window_length = (size_t)length;
        if ((size_t)length < n)
            return 0;
    }
    *ret_bytes = scan->window + (place - scan->window_place);
    return 0;
}

/* Hands bytes to the framer. */
static int feed(struct record_scan *scan, const void *bytes, size_t n) {
    struct iovec room;
    for (size_t done = 0; done < n;) {
        int count = sluice_chain_reserve(scan->chain, n - done, &room, 1);
        if (count < 0)
            return count;
        size_t part = room.iov_len < n - done ? room.iov_len : n - done;
        memcpy(room.iov_base, (const uint8_t *)bytes + done, part);
        int error = sluice_chain_commit(scan->chain, part);
        if (error)
            return error;
        done += part;
    }
    return 0;
}

static int feed_from(struct record_scan *scan, uint64_t place, size_t n) {
    for (size_t done = 0; done < n;) {
        const uint8_t *bytes;
        size_t part = n - done < LOOKED_AT ? n - done : LOOKED_AT;
        int error = look_at(scan, place + done, part, &bytes);
        if (!error)
            error = bytes ? feed(scan, bytes, part) : -EIO;
        if (error)
            return error;
        done += part;
    }
    return 0;
}

static int begin(struct record_scan *scan) {
    static const sluice_pool_options pool = {
        .size = sizeof pool, .block_size = BLOCK, .slab_blocks = 8, .max_blocks = BLOCKS};
    uint8_t header[SLUICE_FLV_HEADER_SIZE];
    const uint8_t *found;
    sluice_flv_write_header(header, 0);
    int error = sluice_pool_new(&pool, &scan->pool);
    if (!error)
        error = sluice_chain_new(scan->pool, &scan->chain);
    if (!error)
        error = sluice_flv_new(SLUICE_FLV_MAX_PAYLOAD, &scan->flv);
    if (!error)
        error = feed(scan, header, sizeof header);
    if (!error)
        error = look_at(scan, 0, sizeof header, &found);
    if (error)
        return error;
    /* All but the flags, which are the fifth. A file without a whole header is a beginning. */
    scan->sound = !found || (memcmp(found, header, 4) == 0 && memcmp(found + 5, header + 5, sizeof header - 5) == 0);
    scan->end = found && scan->sound ? sizeof header : 0;
    return 0;
}

int record_scan_new(int fd, const atomic_bool *ending, struct record_scan **ret_scan) {
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    struct record_scan *scan = calloc(1, sizeof *scan);
    if (!scan)
        return -ENOMEM;
    scan->fd = fd;
    scan->ending = ending;
    scan->size = (uint64_t)status.st_size;
    int error = begin(scan);
    if (error) {
        record_scan_free(scan);
        return error;
    }
    *ret_scan = scan;
    return 0;
}

void record_scan_free(struct record_scan *scan) {
    if (!scan)
        return;
    sluice_flv_free(scan->flv);
    sluice_chain_free(scan->chain);
    sluice_pool_free(scan->pool);
    free(scan);
}

/* Whether these are the first bytes of a tag as recordings have them: no empty ones, no flags,
 * stream 0. */
static bool is_tag_header(const uint8_t *bytes) {
    return (bytes[0] == SLUICE_FLV_AUDIO || bytes[0] == SLUICE_FLV_VIDEO || bytes[0] == SLUICE_FLV_SCRIPT) &&
           be24(bytes + 8) == 0 && be24(bytes + 1) > 0;
}

/* 1: a whole tag lies there; 0: none. */
static int find_at(struct record_scan *scan, uint64_t place, struct record_tag *tag) {
    uint8_t trailer[SLUICE_FLV_TRAILER_SIZE], written[SLUICE_FLV_TRAILER_SIZE];
    const uint8_t *bytes;
    int error = look_at(scan, place, SLUICE_FLV_TAG_HEADER_SIZE, &bytes);
    if (error || !bytes || !is_tag_header(bytes))
        return error;
    tag->type = (sluice_flv_type)bytes[0];
    tag->size = be24(bytes + 1);
    tag->timestamp = (uint32_t)bytes[7] << 24 | be24(bytes + 4);
    tag->place = place;
    uint64_t end = place + SLUICE_FLV_TAG_HEADER_SIZE + tag->size;
    if (end + sizeof trailer > scan->size)
        return 0;
    /* Not by the window, which a search would otherwise fill anew for each byte. */
    ssize_t n = read_at(scan, end, trailer, sizeof trailer);
    if (n < 0)
        return (int)n;
    sluice_flv_write_trailer(written, tag->size);
    return n == sizeof trailer && memcmp(trailer, written, sizeof trailer) == 0;
}

/* What the payload is: by the framer, which gets no more of a large one than says that. */
static int view_tag(struct record_scan *scan, struct record_tag *tag) {
    uint8_t header[SLUICE_FLV_TAG_HEADER_SIZE], trailer[SLUICE_FLV_TRAILER_SIZE];
    uint32_t size = tag->type == SLUICE_FLV_SCRIPT || tag->size < LOOKED_AT ? tag->size : LOOKED_AT;
    sluice_flv_tag *shown;
    sluice_flv_write_tag_header(header, tag->type, size, tag->timestamp);
    sluice_flv_write_trailer(trailer, size);
    int result = feed(scan, header, sizeof header);
    if (!result)
        result = feed_from(scan, tag->place + sizeof header, size);
    if (!result)
        result = feed(scan, trailer, sizeof trailer);
    if (!result)
        result = sluice_flv_next(scan->flv, scan->chain, &shown);
    if (result <= 0)
        return result < 0 ? result : -EPROTO;
    tag->view = shown->view;
    tag->payload = &shown->payload;
    return 1;
}

int record_scan_next(struct record_scan *scan, struct record_tag *ret_tag) {
    struct record_tag tag = {0};
    int result = 0;
    for (uint64_t place = scan->end; result == 0; place++) {
        if (place + RECORD_TAG_AROUND >= scan->size)
            return 0;
        result = find_at(scan, place, &tag);
    }
    if (result > 0)
        result = view_tag(scan, &tag);
    if (result <= 0)
        return result;
    tag.after_gap = tag.place != scan->end || !scan->end;
    if (tag.after_gap)
        scan->sound = false;
    scan->end = tag.place + tag.size + RECORD_TAG_AROUND;
    *ret_tag = tag;
    return 1;
}

uint64_t record_scan_end(const struct record_scan *scan) {
    return scan->end;
}

uint64_t record_scan_size(const struct record_scan *scan) {
    return scan->size;
}

bool record_scan_is_sound(const struct record_scan *scan) {
    return scan->sound;
}

/* Behind the last byte that is not zero. */
static int find_last_byte(struct record_scan *scan, uint64_t *ret_end) {
    uint64_t end = scan->end;
    for (uint64_t place = scan->end; place < scan->size;) {
        const uint8_t *bytes;
        size_t n = scan->size - place < WINDOW ? (size_t)(scan->size - place) : WINDOW;
        int error = look_at(scan, place, n, &bytes);
        if (!error && !bytes)
            error = -EIO;
        if (error)
            return error;
        for (size_t i = 0; i < n; i++)
            if (bytes[i])
                end = place + i + 1;
        place += n;
    }
    *ret_end = end;
    return 0;
}

int record_scan_tail(struct record_scan *scan, enum record_tail *ret_tail) {
    const uint8_t *bytes;
    uint64_t last = 0;
    int error = find_last_byte(scan, &last);
    if (!error)
        error = look_at(scan, scan->end, SLUICE_FLV_TAG_HEADER_SIZE, &bytes);
    if (error)
        return error;
    uint64_t tail = last - scan->end;
    /* Media lie behind the file header and a tag's. */
    uint64_t least = (scan->end ? 0 : SLUICE_FLV_HEADER_SIZE) + SLUICE_FLV_TAG_HEADER_SIZE;
    if (tail == 0)
        *ret_tail = RECORD_TAIL_NONE;
    else if (scan->size - scan->end <= least || (scan->end && tail <= least))
        *ret_tail = RECORD_TAIL_CUT;
    else if (!bytes || !is_tag_header(bytes) || scan->end + be24(bytes + 1) + RECORD_TAG_AROUND <= last)
        *ret_tail = RECORD_TAIL_UNKNOWN;
    else
        *ret_tail = bytes[0] == SLUICE_FLV_SCRIPT ? RECORD_TAIL_CUT : RECORD_TAIL_FRAME;
    return 0;
}
