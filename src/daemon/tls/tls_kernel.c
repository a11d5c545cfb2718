#include "daemon/tls/tls_kernel.h"

#include <string.h>

#include "daemon/base/log.h"

bool tls_kernel_get(const sluice_tls_context *context, sluice_tls_kernel_info *ret_info) {
    *ret_info = (sluice_tls_kernel_info){.size = sizeof *ret_info};
    return context && sluice_tls_context_get_kernel(context, ret_info) == 0;
}

void tls_kernel_log(const sluice_tls_context *context, const sluice_tls_context *previous, const char *user) {
    sluice_tls_kernel_info info, before;
    if (!tls_kernel_get(context, &info))
        return;
    if (tls_kernel_get(previous, &before) && before.is_used == info.is_used && before.error == info.error)
        return;
    LOG(LOG_INFO, "ktls", {"for", user}, {"used", info.is_used ? "yes" : "no"}, {"sends", info.sends ? "yes" : "no"},
        {"changes_keys", info.changes_keys ? "yes" : "no"}, {"failed", info.step ? info.step : "none"},
        {"reason", info.error ? strerror(-info.error) : "none"});
}
