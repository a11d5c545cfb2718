#include "framers/convert/rtp_time.h"

enum {
    MICROSECONDS = 1000000,
    NANOSECONDS_PER = 1000, /* in a microsecond */
    FIRST_TIME = 1000 * 1000,
    MAX_GAP = 10 * MICROSECONDS,
    MAX_BACK = 2 * MICROSECONDS, /* pictures in their order of decoding */
    /* seconds between the reports of two tracks that belong together */
    MAX_APART = 3600,
    MAX_SKEW = 10 * MICROSECONDS, /* reports that say more are wrong, or of another clock */
    LEAST_SKEW = 2000,            /* less is how exact reports are */
    LEAST_STEP = 1000,            /* after a jump */
    SLEW = 4,                     /* a part of the time that has passed */
    DEFAULT_DURATION = 40000,
};

/* Microseconds of a difference of timestamps; differences are bounded by the rate times the life of
 * a stream. */
static int64_t to_us(const struct rtp_track_time *time, int64_t units) {
    int64_t seconds = units / time->rate, rest = units % time->rate;
    int64_t scaled = rest * MICROSECONDS;
    int64_t half = scaled < 0 ? -(int64_t)(time->rate / 2) : time->rate / 2;
    return seconds * MICROSECONDS + (scaled + half) / time->rate;
}

static int64_t place(const struct rtp_track_time *time, int64_t timestamp) {
    return time->anchor + to_us(time, timestamp - time->base);
}

static int64_t clamp(int64_t value, int64_t least, int64_t most) {
    return value < least ? least : value > most ? most : value;
}

/* How much later on the line the track would lie if it went by its reports and the first track's;
 * false without. */
static bool measure(const struct rtp_line *line, const struct rtp_track_time *time, int64_t *ret_skew) {
    const struct rtp_track_time *first = line->first;
    if (!first || first == time || !first->begun || !first->mapping.valid || !time->mapping.valid)
        return false;
    /* The peer says what it likes: before anything is made of it. */
    int64_t apart = (int64_t)(time->mapping.ntp - first->mapping.ntp) / ((int64_t)1 << 32);
    if (apart >= MAX_APART || apart <= -MAX_APART)
        return false;
    /* The first track's timestamp, and place, at the moment of this track's report. */
    int64_t there = sluice_rtp_from_ntp(&first->mapping, time->mapping.ntp);
    *ret_skew = place(first, there) - place(time, time->mapping.timestamp);
    return true;
}

static void begin(struct rtp_line *line, struct rtp_track_time *time, int64_t timestamp, uint64_t now) {
    const struct rtp_track_time *first = line->first;
    int64_t skew;
    time->begun = true;
    time->base = timestamp;
    time->skew = 0;
    if (!first) {
        line->first = time;
        time->anchor = FIRST_TIME;
        return;
    }
    /* Where the first track would be by now. */
    time->anchor = place(first, first->last) + clamp((int64_t)(now - first->arrival) / NANOSECONDS_PER, 0, MAX_GAP);
    if (measure(line, time, &skew) && skew >= -MAX_SKEW && skew <= MAX_SKEW)
        time->anchor += skew;
    if (time->anchor < 0)
        time->anchor = 0;
}

/* The sender's clock has jumped: the elapsed time is taken from the arrival times. */
static void jump(struct rtp_track_time *time, int64_t timestamp, uint64_t now) {
    time->jumps++;
    time->base = timestamp;
    time->anchor = time->furthest + clamp((int64_t)(now - time->arrival) / NANOSECONDS_PER, LEAST_STEP, MAX_GAP);
    time->skew = 0;
    time->mapping.valid = false;
}

/* Corrects the track by what its reports have said, never faster than time goes. */
static void slew(struct rtp_track_time *time, int64_t passed) {
    int64_t most = passed > 0 ? passed / SLEW : 0;
    int64_t step = clamp(time->skew, -most, most);
    time->anchor += step;
    time->skew -= step;
}

int64_t rtp_time_of(struct rtp_line *line, struct rtp_track_time *time, uint32_t timestamp, uint64_t now,
                    bool *ret_jumped) {
    sluice_rtp_clock clock = time->clock;
    int64_t unwrapped = sluice_rtp_unwrap(&time->clock, timestamp);
    *ret_jumped = false;
    if (!time->begun) {
        begin(line, time, unwrapped, now);
        time->furthest = time->anchor;
    } else {
        int64_t passed = to_us(time, unwrapped - clock.last);
        if (passed > MAX_GAP || passed < -MAX_BACK) {
            jump(time, unwrapped, now);
            *ret_jumped = true;
        } else {
            slew(time, passed);
        }
    }
    int64_t at = place(time, unwrapped);
    time->last = unwrapped;
    time->arrival = now;
    time->furthest = at > time->furthest ? at : time->furthest;
    return at;
}

void rtp_time_correct(const struct rtp_line *line, struct rtp_track_time *time) {
    int64_t skew;
    if (!time->begun || !measure(line, time, &skew))
        return;
    bool counts = (skew >= LEAST_SKEW || skew <= -LEAST_SKEW) && skew >= -MAX_SKEW && skew <= MAX_SKEW;
    time->skew = counts ? skew : 0;
}

void rtp_time_report(struct rtp_track_time *time, uint64_t ntp, uint32_t timestamp) {
    /* The report's moment is near the packets', and must not change their clock. */
    sluice_rtp_clock clock = time->clock;
    time->mapping = (sluice_rtp_mapping){
        .valid = true, .ntp = ntp, .timestamp = sluice_rtp_unwrap(&clock, timestamp), .rate = time->rate};
    if (!time->clock.begun)
        time->clock = clock;
}

void rtp_decode_configure(struct rtp_decode_order *order, const sluice_codec_config *config) {
    int64_t duration = (int64_t)config->frame_duration * MICROSECONDS / config->clock_rate;
    uint8_t depth = config->reorder_known ? config->reorder : 0;
    order->depth = depth < SLUICE_CODEC_MAX_REORDER ? depth : SLUICE_CODEC_MAX_REORDER;
    order->duration = duration ? duration : DEFAULT_DURATION;
}

/*
 * Pictures are decoded in order of the decoding times, and those times are the times of
 * presentation, sorted, and put off by as many pictures as can be decoded too early: so the time of
 * this one is the (depth + 1)th latest. Of the first ones there are not yet so many; the earliest
 * stands for them, less their durations.
 */
int64_t rtp_decode_time(struct rtp_decode_order *order, int64_t shown) {
    enum { MOST = SLUICE_CODEC_MAX_REORDER + 1 };
    size_t later = 0;
    while (later < order->count && order->shown[order->count - 1 - later] > shown)
        later++;
    /* What the SPS has not said shows itself. */
    if (later > order->depth)
        order->depth = (uint8_t)(later < SLUICE_CODEC_MAX_REORDER ? later : SLUICE_CODEC_MAX_REORDER);
    size_t at = order->count - later;
    if (order->count == MOST) {
        for (size_t i = 1; i < at; i++)
            order->shown[i - 1] = order->shown[i];
        if (at > 0)
            order->shown[at - 1] = shown;
    } else {
        for (size_t i = order->count++; i > at; i--)
            order->shown[i] = order->shown[i - 1];
        order->shown[at] = shown;
    }
    if (order->count > order->depth)
        return order->shown[order->count - 1 - order->depth];
    return order->shown[0] - (int64_t)(order->depth + 1U - order->count) * order->duration;
}
