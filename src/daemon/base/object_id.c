#include "daemon/base/object_id.h"

#include <stdatomic.h>

static _Atomic uint64_t last_id;

uint64_t object_id_new(void) {
    return atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
}
