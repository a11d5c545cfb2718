#include "tools/media.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 65536, SLAB = 16, SPARE = 32, FRAME_MS = 40 };

static int make_pool(int fd, struct media *media) {
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    if (S_ISDIR(status.st_mode))
        return -EISDIR;
    if (status.st_size / BLOCK > (1 << 22) - SPARE)
        return -EFBIG;
    const sluice_pool_options options = {
        .size = sizeof options,
        .block_size = BLOCK,
        .slab_blocks = SLAB,
        .max_blocks = (uint32_t)(status.st_size / BLOCK) + SPARE,
    };
    return sluice_pool_new(&options, &media->pool);
}

static bool is_frame(const sluice_flv_tag *tag) {
    return tag->type != SLUICE_FLV_SCRIPT && tag->view.packet == SLUICE_FLV_FRAME;
}

static void note_track(struct media *media, const sluice_flv_tag *tag) {
    enum media_track track = tag->type == SLUICE_FLV_VIDEO ? MEDIA_VIDEO : MEDIA_AUDIO;
    uint32_t codec = tag->view.codec;
    /* RTSP is sent track 0 alone. */
    if (tag->type == SLUICE_FLV_SCRIPT || tag->view.track > 0 || tag->view.many_tracks ||
        sluice_codec_rtp_format(codec) < 0 || media->has_config[track])
        return;
    if (tag->view.packet == SLUICE_FLV_SEQUENCE_HEADER)
        media->has_config[track] = sluice_codec_read_record(&media->config[track], codec, &tag->payload,
                                                            tag->view.header_size) == 0;
    else if (codec == SLUICE_CODEC_PCMA || codec == SLUICE_CODEC_PCMU || codec == SLUICE_CODEC_OPUS)
        media->has_config[track] = sluice_codec_init(&media->config[track], codec, 0, tag->view.channels) == 0;
}

static int add_tag(struct media *media, const sluice_flv_tag *tag) {
    if (media->count % 1024 == 0) {
        struct media_tag *grown = realloc(media->tags, (media->count + 1024) * sizeof *grown);
        if (!grown)
            return -ENOMEM;
        media->tags = grown;
    }
    struct media_tag *added = &media->tags[media->count++];
    *added = (struct media_tag){
        .type = tag->type,
        .frame = is_frame(tag),
        .key = tag->type == SLUICE_FLV_VIDEO && is_frame(tag) && tag->view.key_frame,
        .time = tag->timestamp,
        .show = tag->type == SLUICE_FLV_VIDEO ? tag->view.composition_time : 0,
        .size = tag->size - (tag->view.header_size < tag->size ? tag->view.header_size : 0),
    };
    sluice_slice_ref(&tag->payload, &added->payload);
    media->bytes += tag->size;
    if (is_frame(tag))
        media->has[tag->type == SLUICE_FLV_VIDEO ? MEDIA_VIDEO : MEDIA_AUDIO] = true;
    note_track(media, tag);
    return 0;
}

static int read_tags(int fd, struct media *media, sluice_chain *chain, sluice_flv *flv) {
    for (;;) {
        sluice_flv_tag *tag;
        struct iovec room;
        int result = sluice_chain_reserve(chain, BLOCK, &room, 1);
        if (result < 0)
            return result;
        ssize_t n = read(fd, room.iov_base, room.iov_len);
        int error = n < 0 ? -errno : sluice_chain_commit(chain, (size_t)n);
        while (!error && (error = sluice_flv_next(flv, chain, &tag)) > 0)
            error = add_tag(media, tag);
        if (error || n <= 0)
            return error ? error : sluice_chain_length(chain) > 0 ? -EPROTO : 0;
    }
}

/* Times from the first frame on, and how long the file lasts. */
static int settle_times(struct media *media) {
    uint32_t first = UINT32_MAX, begin[2] = {0}, end[2] = {0};
    uint64_t frames[2] = {0};
    for (size_t i = 0; i < media->count; i++)
        if (media->tags[i].frame && media->tags[i].time < first)
            first = media->tags[i].time;
    if (first == UINT32_MAX)
        return -ENODATA;
    for (size_t i = 0; i < media->count; i++) {
        struct media_tag *tag = &media->tags[i];
        int track = tag->type == SLUICE_FLV_AUDIO;
        tag->time = tag->time > first ? tag->time - first : 0;
        tag->due = i > 0 && tag[-1].due > tag->time ? tag[-1].due : tag->time;
        if (!tag->frame)
            continue;
        if (frames[track]++ == 0)
            begin[track] = tag->time;
        if (tag->time > end[track])
            end[track] = tag->time;
    }
    for (int i = 0; i < 2; i++) {
        uint32_t step = frames[i] > 1 ? (uint32_t)((end[i] - begin[i] + frames[i] / 2) / (frames[i] - 1)) : FRAME_MS;
        uint64_t last = (uint64_t)end[i] + (step ? step : 1);
        if (frames[i] > 0 && last > media->duration)
            media->duration = last < UINT32_MAX ? (uint32_t)last : UINT32_MAX;
    }
    return 0;
}

int media_read(const char *path, struct media **ret_media) {
    struct media *media = calloc(1, sizeof *media);
    sluice_chain *chain = NULL;
    sluice_flv *flv = NULL;
    if (!media)
        return -ENOMEM;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int error = fd < 0 ? -errno : make_pool(fd, media);
    if (!error)
        error = sluice_chain_new(media->pool, &chain);
    if (!error)
        error = sluice_flv_new(SLUICE_FLV_MAX_PAYLOAD, &flv);
    if (!error)
        error = read_tags(fd, media, chain, flv);
    if (!error)
        error = settle_times(media);
    sluice_flv_free(flv);
    sluice_chain_free(chain);
    if (fd >= 0)
        close(fd);
    if (error) {
        media_free(media);
        return error;
    }
    *ret_media = media;
    return 0;
}

void media_free(struct media *media) {
    if (!media)
        return;
    for (size_t i = 0; i < media->count; i++)
        sluice_slice_release(&media->tags[i].payload);
    free(media->tags);
    sluice_pool_free(media->pool);
    free(media);
}

uint64_t media_find(const struct media *media, uint64_t time) {
    uint64_t number = time / media->duration * media->count;
    uint32_t within = (uint32_t)(time % media->duration);
    size_t least = 0, most = media->count;
    while (least < most) {
        size_t middle = least + (most - least) / 2;
        if (media->tags[middle].due < within)
            least = middle + 1;
        else
            most = middle;
    }
    return number + least;
}
