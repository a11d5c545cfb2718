/* Whether the kernel encrypts what listeners and forwards send (kTLS): in the log, and for what
 * shows it. */
#ifndef SLUICED_TLS_KERNEL_H
#define SLUICED_TLS_KERNEL_H

#include <stdbool.h>

#include <sluice/tls.h>

/* What the context has found out. NULL: there is none. False: it does not ask for it; @ret_info
 * says that nothing is used, and has no failure. */
bool tls_kernel_get(const sluice_tls_context *context, sluice_tls_kernel_info *ret_info);

/* A line about a context that is to use it, unless the previous one's was the same. Both may be
 * NULL. @user: "listeners" or "forwards" */
void tls_kernel_log(const sluice_tls_context *context, const sluice_tls_context *previous, const char *user);

#endif
