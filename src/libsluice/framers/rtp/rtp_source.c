/* Sequence numbers, clocks and receiver statistics: RFC 3550, sections 6.4 and A.1 to A.8. */
#include <sluice/rtp.h>

enum {
    MAX_DROPOUT = 3000,
    MAX_MISORDER = 100,
    WINDOW = 128, /* numbers of which it is known whether they came; more than MAX_MISORDER */
    WRAP = 1 << 16,
    JITTER_SHIFT = 4,
};

/* Moves the window so that bit 0 is @by numbers ahead. */
static void shift_window(uint64_t window[2], uint64_t by) {
    if (by >= WINDOW) {
        window[0] = window[1] = 0;
    } else if (by >= 64) {
        window[1] = window[0] << (by - 64);
        window[0] = 0;
    } else if (by > 0) {
        window[1] = window[1] << by | window[0] >> (64 - by);
        window[0] <<= by;
    }
}

static void begin(sluice_rtp_source *source, uint64_t sequence) {
    source->begun = true;
    source->has_suspect = false;
    source->has_transit = false;
    source->highest = source->base = sequence;
    source->since = 1;
    source->window[0] = 1;
    source->window[1] = 0;
    source->received++;
    source->reported_expected = 0;
    source->reported_received = 0;
}

static sluice_rtp_arrival advance(sluice_rtp_source *source, uint16_t by, uint64_t *ret_sequence) {
    source->highest += by;
    source->lost += by - 1U;
    source->received++;
    source->since++;
    source->has_suspect = false;
    shift_window(source->window, by);
    source->window[0] |= 1;
    *ret_sequence = source->highest;
    return SLUICE_RTP_IN_ORDER;
}

/* A number that is not above the highest. What is below the first one was never missed. */
static sluice_rtp_arrival look_back(sluice_rtp_source *source, uint16_t by, uint64_t *ret_sequence) {
    uint64_t *word = &source->window[by / 64], bit = (uint64_t)1 << by % 64;
    *ret_sequence = source->highest - by;
    if (*word & bit) {
        source->duplicates++;
        return SLUICE_RTP_DUPLICATE;
    }
    *word |= bit;
    source->received++;
    source->reordered++;
    if (*ret_sequence > source->base) {
        source->since++;
        source->lost--;
    }
    return SLUICE_RTP_REORDERED;
}

sluice_rtp_arrival sluice_rtp_note(sluice_rtp_source *source, uint16_t sequence, uint64_t *ret_sequence) {
    if (!source->begun) {
        begin(source, (uint64_t)WRAP + sequence);
        *ret_sequence = source->highest;
        return SLUICE_RTP_IN_ORDER;
    }
    uint16_t ahead = (uint16_t)(sequence - (uint16_t)source->highest);
    uint16_t behind = (uint16_t)-ahead;
    if (ahead > 0 && ahead < MAX_DROPOUT)
        return advance(source, ahead, ret_sequence);
    if (behind <= MAX_MISORDER)
        return look_back(source, behind, ret_sequence);
    if (!source->has_suspect || sequence != source->suspect) {
        source->has_suspect = true;
        source->suspect = (uint16_t)(sequence + 1);
        return SLUICE_RTP_SUSPECT;
    }
    source->restarts++;
    begin(source, (source->highest / WRAP + 2) * WRAP + sequence);
    *ret_sequence = source->highest;
    return SLUICE_RTP_RESTARTED;
}

void sluice_rtp_note_time(sluice_rtp_source *source, uint32_t timestamp, uint32_t arrival) {
    uint32_t transit = arrival - timestamp;
    if (source->has_transit) {
        int32_t difference = (int32_t)(transit - source->transit);
        uint32_t size = difference < 0 ? -(uint32_t)difference : (uint32_t)difference;
        source->jitter += size - ((source->jitter + 8) >> JITTER_SHIFT);
    }
    source->has_transit = true;
    source->transit = transit;
}

/* In 256ths; 0 where duplicates or late packets outweigh the loss. */
static uint8_t fraction(int64_t lost, uint64_t expected) {
    if (lost <= 0)
        return 0;
    uint64_t part = (uint64_t)lost * 256 / expected;
    return (uint8_t)(part > 255 ? 255 : part);
}

static int32_t clamp_lost(int64_t lost) {
    const int64_t most = 0x7FFFFF;
    return (int32_t)(lost > most ? most : lost < -most - 1 ? -most - 1 : lost);
}

void sluice_rtp_report(sluice_rtp_source *source, uint32_t ssrc, uint64_t last_sr, uint64_t last_sr_arrival,
                       uint64_t now, sluice_rtcp_report *ret_report) {
    uint64_t expected = source->begun ? source->highest - source->base + 1 : 0;
    uint64_t interval = expected - source->reported_expected;
    int64_t lost = (int64_t)(interval - (source->since - source->reported_received));
    *ret_report = (sluice_rtcp_report){
        .ssrc = ssrc,
        .fraction_lost = fraction(lost, interval),
        .lost = clamp_lost((int64_t)(expected - source->since)),
        .highest = (uint32_t)(source->highest - WRAP),
        .jitter = (uint32_t)(source->jitter >> JITTER_SHIFT),
        .last_sr = (uint32_t)(last_sr >> 16),
        .delay = last_sr ? (uint32_t)((now - last_sr_arrival) >> 16) : 0,
    };
    source->reported_expected = expected;
    source->reported_received = source->since;
}

int64_t sluice_rtp_unwrap(sluice_rtp_clock *clock, uint32_t timestamp) {
    if (!clock->begun)
        clock->last = timestamp;
    else
        clock->last += (int32_t)(timestamp - (uint32_t)clock->last);
    clock->begun = true;
    return clock->last;
}

/* Wide enough for any difference of clocks times 2^32. */
__extension__ typedef __int128 wide;

/* Rounded to the nearest, halves up; the divisor is positive. */
static int64_t divide(wide value, wide by) {
    value += by / 2;
    wide quotient = value / by;
    return (int64_t)(quotient - (value % by < 0));
}

uint64_t sluice_rtp_to_ntp(const sluice_rtp_mapping *mapping, int64_t timestamp) {
    wide difference = (wide)timestamp - mapping->timestamp;
    return mapping->ntp + (uint64_t)divide(difference * ((wide)1 << 32), mapping->rate);
}

int64_t sluice_rtp_from_ntp(const sluice_rtp_mapping *mapping, uint64_t ntp) {
    wide difference = (int64_t)(ntp - mapping->ntp);
    wide timestamp = (wide)mapping->timestamp + divide(difference * mapping->rate, (wide)1 << 32);
    return (int64_t)(timestamp > INT64_MAX ? INT64_MAX : timestamp < INT64_MIN ? INT64_MIN : timestamp);
}

enum { NANOSECONDS = 1000000000 };
static const uint64_t ntp_1970 = 2208988800; /* seconds from 1900 */

uint64_t sluice_rtp_ntp_from_unix(uint64_t nanoseconds) {
    uint64_t seconds = nanoseconds / NANOSECONDS + ntp_1970;
    return seconds << 32 | ((nanoseconds % NANOSECONDS) << 32) / NANOSECONDS;
}

uint64_t sluice_rtp_ntp_to_unix(uint64_t ntp) {
    uint64_t seconds = ntp >> 32;
    seconds += seconds < ntp_1970 ? ((uint64_t)1 << 32) - ntp_1970 : -ntp_1970;
    return seconds * NANOSECONDS + (((ntp & UINT32_MAX) * NANOSECONDS + UINT32_MAX) >> 32);
}
