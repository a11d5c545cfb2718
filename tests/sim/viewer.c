#include "sim/viewer.h"

#include <string.h>

#include "sim/world.h"

/* Frames are missing before this one: decoding must be able to go on with it. Headers are not sent
 * twice. */
static void judge_gap(struct viewer *viewer, const struct media_tag *tag) {
    bool goes_on = tag->kind == (viewer->has_video ? MEDIA_KEY_FRAME : MEDIA_AUDIO);
    viewer->gaps++;
    if (viewer->takes_gaps)
        return;
    /* At the beginning, video is held back until a key frame, and audio is not. */
    if (viewer->has_video && !viewer->has_key && tag->kind != MEDIA_VIDEO)
        return;
    WORLD_CHECK(goes_on, "%s: frames %u to %u of publisher %u are missing, and frame %u is no mark of that",
                viewer->who, viewer->number + 1, tag->number - 1, tag->generation, tag->number);
}

static void see_frame(struct viewer *viewer, const struct media_tag *tag) {
    bool is_new = !viewer->has_frame || tag->generation != viewer->generation;
    WORLD_CHECK(!is_new || !(viewer->seen >> (tag->generation & 63) & 1), "%s: publisher %u comes back", viewer->who,
                tag->generation);
    viewer->seen |= UINT64_C(1) << (tag->generation & 63);
    WORLD_CHECK(is_new || tag->number > viewer->number, "%s: frame %u comes after %u", viewer->who, tag->number,
                viewer->number);
    if (!is_new && tag->number != viewer->number + 1)
        judge_gap(viewer, tag);
    if (tag->kind == MEDIA_VIDEO && !viewer->takes_any_start)
        WORLD_CHECK(viewer->has_key, "%s: frame %u comes before any key frame", viewer->who, tag->number);
    viewer->has_key = (viewer->has_key && !is_new) || tag->kind == MEDIA_KEY_FRAME;
    viewer->generation = tag->generation;
    viewer->number = tag->number;
    viewer->timestamp = tag->timestamp;
    viewer->has_frame = true;
    viewer->frames++;
}

void viewer_see(struct viewer *viewer, const struct media_tag *tag) {
    WORLD_CHECK(tag->stream == viewer->stream, "%s: a frame of stream %u", viewer->who, tag->stream);
    if (!media_is_header(tag)) {
        see_frame(viewer, tag);
        return;
    }
    /* A header says the number of the frame behind it: a publisher's headers all differ, and none
     * comes again. */
    WORLD_CHECK(viewer->takes_any_start || tag->generation != viewer->header_generation[tag->kind] ||
                    tag->number > viewer->header_number[tag->kind],
                "%s: the header %u of publisher %u comes again", viewer->who, tag->number, tag->generation);
    viewer->header_generation[tag->kind] = tag->generation;
    viewer->header_number[tag->kind] = tag->number;
}

/* A script is the daemon's own. */
static size_t read_script(const uint8_t *bytes, size_t n) {
    if (n < MEDIA_AROUND || bytes[0] != 18)
        return 0;
    size_t size = ((size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3]) + MEDIA_AROUND;
    return size <= n ? size : 0;
}

void viewer_feed(struct viewer *viewer, const uint8_t *bytes, size_t n) {
    size_t done = 0, size;
    struct media_tag tag;
    world_append(&viewer->bytes, &viewer->count, &viewer->room, bytes, n);
    if (!viewer->has_file_header && viewer->count >= MEDIA_HEADER) {
        WORLD_CHECK(memcmp(viewer->bytes, "FLV\1", 4) == 0, "%s: not FLV", viewer->who);
        viewer->has_file_header = true;
        done = MEDIA_HEADER;
    }
    if (viewer->has_file_header && viewer->frames == 0)
        done += read_script(viewer->bytes + done, viewer->count - done);
    while (viewer->has_file_header && !(viewer->count > done && viewer->bytes[done] == 18) &&
           (size = media_read_tag(viewer->bytes + done, viewer->count - done, viewer->who, &tag)) > 0) {
        viewer_see(viewer, &tag);
        done += size;
    }
    if (done > 0)
        memmove(viewer->bytes, viewer->bytes + done, viewer->count - done);
    viewer->count -= done;
}

size_t viewer_left(const struct viewer *viewer) {
    return viewer->count;
}

void viewer_clear(struct viewer *viewer) {
    world_free(viewer->bytes);
    viewer->bytes = NULL;
    viewer->count = viewer->room = 0;
}
