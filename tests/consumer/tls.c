/* A program that makes the context of a TLS client. */
#include <stdio.h>

#include <sluice/sluice.h>
#include <sluice/tls.h>

int main(void) {
    sluice_tls_context *context;
    const sluice_tls_context_options options = {.size = sizeof options, .role = SLUICE_TLS_CLIENT};
    if (sluice_tls_context_new(&options, &context) < 0)
        return 1;
    sluice_tls_context_unref(context);
    printf("a context for TLS\n");
    return 0;
}
