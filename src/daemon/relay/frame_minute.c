#include "daemon/relay/frame_minute.h"

void frame_minute_advance(struct frame_minute *minute, uint64_t second) {
    /* The loop's time does not go back; a replica's frames may be of an earlier second. */
    if (second < minute->second)
        return;
    uint64_t gone = second - minute->second;
    for (uint64_t i = 0; i < gone && i < FRAME_MINUTE_SECONDS; i++)
        minute->list[(second - i) % FRAME_MINUTE_SECONDS] = (struct frame_second){0};
    minute->second = second;
}

void frame_minute_get(const struct frame_minute *minute, uint64_t now_ms,
                      struct frame_second ret_seconds[FRAME_MINUTE_SECONDS]) {
    struct frame_minute until_now = *minute;
    frame_minute_advance(&until_now, now_ms / 1000);
    for (uint64_t i = 0; i < FRAME_MINUTE_SECONDS; i++)
        ret_seconds[i] = until_now.list[(until_now.second + 1 + i) % FRAME_MINUTE_SECONDS];
}
