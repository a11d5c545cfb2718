#include "daemon/base/pace.h"

#include "daemon/base/min_rate.h"

bool pace_is_late(struct pace *pace, const struct pace_look *look, uint64_t now) {
    if (!look->is_open || pace->deadline == 0 || look->mark != pace->mark) {
        *pace = (struct pace){look->mark, look->received, now + look->most_ms};
        return false;
    }
    if (look->earns)
        pace->deadline = min_rate_extend(pace->deadline, now, look->received - pace->received, look->most_ms);
    pace->received = look->received;
    return now >= pace->deadline;
}
