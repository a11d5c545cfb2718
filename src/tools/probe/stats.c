#include "tools/probe/stats.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void stats_add(struct stats *stats, bool is_error, const char *what, int64_t offset, const char *format, ...) {
    if (is_error)
        stats->errors++;
    else
        stats->warnings++;
    if (stats->fault_count == STATS_FAULTS)
        return;
    struct stats_fault *fault = &stats->faults[stats->fault_count++];
    fault->is_error = is_error;
    fault->offset = offset;
    fault->what = what;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->text, sizeof fault->text, format, arguments);
    va_end(arguments);
}

const char *stats_kind(const sluice_flv_tag *tag) {
    static const char *const names[] = {
        [SLUICE_FLV_FRAME] = "frame",       [SLUICE_FLV_SEQUENCE_HEADER] = "header", [SLUICE_FLV_SEQUENCE_END] = "end",
        [SLUICE_FLV_METADATA] = "metadata", [SLUICE_FLV_COMMAND] = "command",        [SLUICE_FLV_OTHER] = "other",
    };
    return tag->type == SLUICE_FLV_SCRIPT ? "script" : names[tag->view.packet];
}

uint32_t stats_size(const sluice_flv_tag *tag) {
    if (tag->type == SLUICE_FLV_SCRIPT || tag->view.header_size > tag->size)
        return tag->size;
    return tag->size - tag->view.header_size;
}

static const char *track_name(const struct stats *stats, const struct stats_track *track) {
    return track < stats->tracks[STATS_AUDIO] ? "video" : "audio";
}

/* The track that has this id; NULL: there are too many. */
static struct stats_track *find_track(struct stats *stats, int kind, uint8_t id) {
    for (int i = 0; i < STATS_MOST; i++) {
        struct stats_track *track = &stats->tracks[kind][i];
        if (track->seen && track->id != id)
            continue;
        track->id = id;
        return track;
    }
    return NULL;
}

static void take_header(struct stats *stats, struct stats_track *track, const sluice_flv_tag *tag, int64_t offset) {
    track->headers++;
    codec_profile(tag, track->profile, track->level);
    if (sluice_codec_rtp_format(tag->view.codec) < 0)
        return;
    int error = sluice_codec_read_record(&track->config, tag->view.codec, &tag->payload, tag->view.header_size);
    track->has_config = error == 0;
    if (error)
        stats_add(stats, true, "header", offset, "malformed sequence header of %s", track_name(stats, track));
}

static bool needs_header(uint32_t codec) {
    return codec == SLUICE_CODEC_H264 || codec == SLUICE_CODEC_HEVC || codec == SLUICE_CODEC_AAC;
}

static void take_time(struct stats *stats, struct stats_track *track, int64_t time, int64_t offset) {
    if (!track->has_times) {
        track->has_times = true;
        track->first = track->last = time;
        return;
    }
    int64_t step = time - track->last;
    const char *name = track_name(stats, track);
    if (step < 0) {
        track->back++;
        stats_add(stats, true, "back", offset, "%s goes back by %lld ms, to %lld ms", name, (long long)-step,
                  (long long)time);
    } else if (step >= STATS_JUMP_MS) {
        track->jumps++;
        stats_add(stats, false, "jump", offset, "%s jumps by %lld ms, to %lld ms", name, (long long)step,
                  (long long)time);
    } else if (step >= STATS_GAP_MS) {
        track->gaps++;
        stats_add(stats, false, "gap", offset, "%s has a gap of %lld ms, before %lld ms", name, (long long)step,
                  (long long)time);
    }
    track->step = step;
    track->last = time;
}

static void take_key(struct stats_track *track, int64_t time) {
    int64_t interval = time - track->last_key;
    if (track->key_frames++ == 0) {
        track->first_key = track->last_key = time;
        return;
    }
    if (track->key_frames == 2 || interval < track->least_key)
        track->least_key = interval;
    if (track->key_frames == 2 || interval > track->most_key)
        track->most_key = interval;
    track->last_key = time;
}

static void take_media(struct stats *stats, int kind, const sluice_flv_tag *tag, int64_t offset) {
    struct stats_track *track = find_track(stats, kind, tag->view.track);
    if (!track) {
        if (!stats->has_more)
            stats_add(stats, false, "tracks", offset, "more than %d %s tracks", STATS_MOST,
                      kind == STATS_VIDEO ? "video" : "audio");
        stats->has_more = true;
        return;
    }
    if (track->seen && track->codec != tag->view.codec && tag->view.codec != SLUICE_CODEC_NONE)
        stats_add(stats, false, "codec", offset, "%s changes its codec", track_name(stats, track));
    track->seen = true;
    if (tag->view.codec != SLUICE_CODEC_NONE)
        track->codec = tag->view.codec;
    track->legacy_rate = tag->view.sample_rate;
    track->legacy_channels = tag->view.channels;
    if (tag->view.packet == SLUICE_FLV_SEQUENCE_HEADER)
        take_header(stats, track, tag, offset);
    if (tag->view.packet == SLUICE_FLV_OTHER)
        stats_add(stats, false, "payload", offset, "%s payload that cannot be read", track_name(stats, track));
    if (tag->view.packet != SLUICE_FLV_FRAME)
        return;
    if (track->headers == 0 && needs_header(tag->view.codec) && !track->before_header) {
        track->before_header = true;
        stats_add(stats, true, "header", offset, "%s begins without a sequence header", track_name(stats, track));
    }
    uint32_t size = stats_size(tag);
    track->frames++;
    track->bytes += size;
    if (size > track->largest)
        track->largest = size;
    take_time(stats, track, tag->timestamp, offset);
    if (tag->type == SLUICE_FLV_VIDEO && tag->view.key_frame)
        take_key(track, tag->timestamp);
}

/* Each track of a tag that holds many, as a tag of its own would be. */
static void take_parts(struct stats *stats, int kind, const sluice_flv_tag *tag, int64_t offset) {
    sluice_flv_tracks place = {0};
    sluice_flv_track track;
    int result;
    while ((result = sluice_flv_next_track(&place, tag->type, &tag->payload, &track)) == 1) {
        const sluice_flv_tag part = {.type = tag->type,
                                     .timestamp = tag->timestamp,
                                     .size = (uint32_t)sluice_slice_length(&track.slice),
                                     .view = {.codec = track.codec,
                                              .packet = track.packet,
                                              .key_frame = track.key_frame,
                                              .track = track.id,
                                              .composition_time = track.composition_time,
                                              .header_size = track.header_size},
                                     .payload = track.slice};
        take_media(stats, kind, &part, offset);
        sluice_slice_release(&track.slice);
    }
    if (result < 0)
        stats_add(stats, true, "payload", offset, "a tag of many tracks ends within one");
}

static void take_script(struct stats *stats, const sluice_flv_tag *tag, int64_t offset) {
    int error = sluice_flv_read_metadata(&tag->payload, &stats->metadata);
    if (!error)
        stats->has_metadata = true;
    if (error == -EMSGSIZE)
        stats_add(stats, false, "metadata", offset, "onMetaData is too large to be read");
}

void stats_take(struct stats *stats, const sluice_flv_tag *tag, int64_t offset) {
    int kind = tag->type == SLUICE_FLV_VIDEO ? STATS_VIDEO : STATS_AUDIO;
    stats->tags++;
    stats->bytes += tag->size;
    if (tag->type != SLUICE_FLV_SCRIPT && tag->view.many_tracks && tag->view.packet != SLUICE_FLV_OTHER)
        take_parts(stats, kind, tag, offset);
    else if (tag->type != SLUICE_FLV_SCRIPT)
        take_media(stats, kind, tag, offset);
    else
        take_script(stats, tag, offset);
}

int64_t stats_track_duration(const struct stats_track *track) {
    return track->has_times ? track->last - track->first + track->step : 0;
}

int64_t stats_duration(const struct stats *stats) {
    int64_t begin = 0, end = 0;
    bool any = false;
    for (int i = 0; i < STATS_TRACKS * STATS_MOST; i++) {
        const struct stats_track *track = &stats->tracks[i / STATS_MOST][i % STATS_MOST];
        if (!track->has_times)
            continue;
        if (!any || track->first < begin)
            begin = track->first;
        if (!any || track->last + track->step > end)
            end = track->last + track->step;
        any = true;
    }
    return end - begin;
}

double stats_bit_rate(const struct stats_track *track) {
    int64_t duration = stats_track_duration(track);
    return duration > 0 ? (double)track->bytes * 8000 / (double)duration : 0;
}

double stats_frame_rate(const struct stats_track *track) {
    return track->frames > 1 && track->last > track->first
               ? (double)(track->frames - 1) * 1000 / (double)(track->last - track->first)
               : 0;
}
