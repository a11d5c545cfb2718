#include "daemon/base/fd_limit.h"

#include <limits.h>
#include <sys/resource.h>

#include "daemon/base/log.h"

enum { SPARE_MOST = 256, SPARE_PART = 8 }; /* of the descriptors; an eighth where there are few */

static rlim_t spare_of(rlim_t limit) {
    return limit / SPARE_PART < SPARE_MOST ? limit / SPARE_PART : SPARE_MOST;
}

void fd_limit_check(uint64_t connections) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > INT_MAX)
        return;
    if (limit.rlim_cur < connections + spare_of(limit.rlim_cur))
        LOG(LOG_WARNING, "open file limit is below --max-connections",
            {"open_files", log_unsigned(limit.rlim_cur).text}, {"hint", "ulimit -n, or LimitNOFILE= of the unit"});
}

int fd_limit_raise(uint64_t connections) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return INT_MAX;
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (limit.rlim_cur != before && setrlimit(RLIMIT_NOFILE, &limit) < 0)
        limit.rlim_cur = before;
    fd_limit_check(connections);
    return limit.rlim_cur > INT_MAX ? INT_MAX : (int)(limit.rlim_cur - spare_of(limit.rlim_cur));
}
