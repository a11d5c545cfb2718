/* Whether the kernel encrypts what listeners send (kTLS), in the log. */
#ifndef SLUICED_TLS_KERNEL_H
#define SLUICED_TLS_KERNEL_H

#include <sluice/tls.h>

/* A line about a context that is to use it, unless the previous one's was the same. Both may be
 * NULL. */
void tls_kernel_log(const sluice_tls_context *context, const sluice_tls_context *previous);

#endif
