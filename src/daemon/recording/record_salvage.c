#include "daemon/recording/record_salvage.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/recording/record_scan.h"
#include "daemon/relay/video_size.h"

enum { COPY = 65536 }; /* bytes that are copied at a time */

/* What is known of a track at a place of the file. */
struct salvage_track {
    bool configured; /* its decoder's configuration has been copied */
    bool behind_gap; /* video: what follows refers to what was lost */
};

struct salvage {
    int from, to;
    const atomic_bool *ending;
    struct flv_index *index;
    size_t metadata;       /* bytes of the payload of its first tag */
    uint64_t place;        /* in the file that is written */
    uint64_t run, run_end; /* of the other one: tags that are yet to be copied together */
    struct salvage_track video, audio;
};

static int write_at(int fd, const void *bytes, size_t n, uint64_t place) {
    for (size_t done = 0; done < n;) {
        ssize_t result = pwrite(fd, (const uint8_t *)bytes + done, n - done, (off_t)(place + done));
        if (result < 0 && errno == EINTR)
            continue;
        if (result <= 0)
            return result < 0 ? -errno : -EIO;
        done += (size_t)result;
    }
    return 0;
}

static int copy_run(struct salvage *salvage) {
    uint8_t bytes[COPY];
    while (salvage->run < salvage->run_end) {
        uint64_t left = salvage->run_end - salvage->run;
        if (atomic_load(salvage->ending))
            return -ECANCELED;
        ssize_t n = pread(salvage->from, bytes, left < COPY ? (size_t)left : COPY, (off_t)salvage->run);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        uint64_t place = salvage->place - left;
        int error = write_at(salvage->to, bytes, (size_t)n, place);
        if (error)
            return error;
        salvage->run += (uint64_t)n;
    }
    return 0;
}

static bool needs_configuration(const sluice_flv_view *view) {
    return view->codec == SLUICE_CODEC_H264 || view->codec == SLUICE_CODEC_HEVC || view->codec == SLUICE_CODEC_VVC ||
           view->codec == SLUICE_CODEC_AAC;
}

/* Whether a tag can be used after the tags copied before it. */
static bool is_of_use(struct salvage *salvage, const struct record_tag *tag) {
    sluice_flv_metadata metadata;
    /* Scripts but for the index, which is made anew. */
    if (tag->type == SLUICE_FLV_SCRIPT)
        return sluice_flv_read_metadata(tag->payload, &metadata) < 0;
    bool is_video = tag->type == SLUICE_FLV_VIDEO;
    struct salvage_track *track = is_video ? &salvage->video : &salvage->audio;
    if (tag->view.packet == SLUICE_FLV_SEQUENCE_HEADER)
        track->configured = true;
    if (tag->view.packet != SLUICE_FLV_FRAME)
        return true;
    if (!track->configured && needs_configuration(&tag->view))
        return false;
    if (is_video && tag->view.key_frame)
        track->behind_gap = false;
    return !track->behind_gap;
}

static void describe(struct salvage *salvage, const struct record_tag *tag) {
    sluice_flv_metadata metadata;
    if (tag->type == SLUICE_FLV_SCRIPT && sluice_flv_read_metadata(tag->payload, &metadata) == 0)
        flv_index_describe(salvage->index, &metadata);
    if (tag->type == SLUICE_FLV_VIDEO && tag->view.packet == SLUICE_FLV_SEQUENCE_HEADER && salvage->index->width == 0)
        video_size_of_header(tag->payload, tag->view.codec, tag->view.header_size, &salvage->index->width,
                             &salvage->index->height);
}

static int take(struct salvage *salvage, const struct record_tag *tag) {
    if (tag->after_gap)
        salvage->video.behind_gap = true;
    describe(salvage, tag);
    if (!is_of_use(salvage, tag))
        return 0;
    int error = tag->place == salvage->run_end ? 0 : copy_run(salvage);
    if (error)
        return error;
    if (tag->place != salvage->run_end)
        salvage->run = tag->place;
    flv_index_add(salvage->index, tag->type, &tag->view, tag->timestamp, salvage->place);
    salvage->run_end = tag->place + tag->size + RECORD_TAG_AROUND;
    salvage->place += tag->size + RECORD_TAG_AROUND;
    return 0;
}

static int put_beginning(const struct salvage *salvage) {
    const struct flv_index *index = salvage->index;
    const size_t size = SLUICE_FLV_HEADER_SIZE + RECORD_TAG_AROUND + salvage->metadata;
    uint8_t flags = (uint8_t)((index->video.present ? SLUICE_FLV_HAS_VIDEO : 0) |
                              (index->audio.present ? SLUICE_FLV_HAS_AUDIO : 0));
    uint8_t *bytes = malloc(size);
    if (!bytes)
        return -ENOMEM;
    sluice_flv_write_header(bytes, flags);
    uint8_t *tag = bytes + SLUICE_FLV_HEADER_SIZE;
    sluice_flv_write_tag_header(tag, SLUICE_FLV_SCRIPT, (uint32_t)salvage->metadata, 0);
    flv_index_write(index, salvage->place, tag + SLUICE_FLV_TAG_HEADER_SIZE, salvage->metadata);
    sluice_flv_write_trailer(bytes + size - SLUICE_FLV_TRAILER_SIZE, (uint32_t)salvage->metadata);
    int error = write_at(salvage->to, bytes, size, 0);
    free(bytes);
    if (!error && fdatasync(salvage->to) < 0)
        error = -errno;
    return error;
}

int record_salvage(int from, int to, const atomic_bool *ending, struct flv_index *ret_index, uint64_t *ret_bytes) {
    struct record_scan *scan;
    struct record_tag tag;
    struct salvage salvage = {
        .from = from, .to = to, .ending = ending, .index = ret_index, .metadata = flv_index_size(FLV_INDEX_MOST)};
    salvage.place = SLUICE_FLV_HEADER_SIZE + RECORD_TAG_AROUND + salvage.metadata;
    int result = flv_index_init(ret_index, FLV_INDEX_MOST);
    if (!result)
        result = record_scan_new(from, ending, &scan);
    if (result)
        return result;
    while ((result = record_scan_next(scan, &tag)) > 0) {
        result = take(&salvage, &tag);
        if (result)
            break;
    }
    record_scan_free(scan);
    if (!result)
        result = copy_run(&salvage);
    if (!result && ret_index->frames > 0)
        result = put_beginning(&salvage);
    if (!result)
        *ret_bytes = salvage.place;
    return result;
}
