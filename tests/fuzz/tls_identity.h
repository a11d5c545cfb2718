/* A certificate and a key of nobody, and contexts with them. */
#ifndef SLUICE_TESTS_FUZZ_TLS_IDENTITY_H
#define SLUICE_TESTS_FUZZ_TLS_IDENTITY_H

#include <sluice/tls.h>

#include "fuzz/fuzz.h"

static const char tls_identity_chain[] = "-----BEGIN CERTIFICATE-----\n"
                                         "MIIBdTCCARugAwIBAgIUfCwIs1tmuppZvtMNmuech33lSg8wCgYIKoZIzj0EAwIw\n"
                                         "DzENMAsGA1UEAwwEZnV6ejAgFw0yNjExMjYwMDAwMDZaGA8yMTI2MTEwMjAwMDAw\n"
                                         "NlowDzENMAsGA1UEAwwEZnV6ejBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABHsA\n"
                                         "dV/zHC6f9eDLgeD7aOWNlnWD6rgqqXMqSFDTYYsRgvUz7Byc9HnywnlVljxHx4yu\n"
                                         "BSxtzNJIOk/SFt0JvtajUzBRMB0GA1UdDgQWBBRhA1IA5D6mO1uKAfa6qqOvzxdl\n"
                                         "iDAfBgNVHSMEGDAWgBRhA1IA5D6mO1uKAfa6qqOvzxdliDAPBgNVHRMBAf8EBTAD\n"
                                         "AQH/MAoGCCqGSM49BAMCA0gAMEUCIQCBMTSNyxONM2dTCvLYkDERbTjEhFh6IReP\n"
                                         "NRJYt27ouwIgJoKL1xsSJQRdac62kHgIN0zS0kifCa+l0ZXiJ3dBB3k=\n"
                                         "-----END CERTIFICATE-----\n";

static const char tls_identity_key[] = "-----BEGIN PRIVATE KEY-----\n"
                                       "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgKv7y1dAA8HMyiJYF\n"
                                       "lcldOfRDzApbk8wNQrNifUXnnBehRANCAAR7AHVf8xwun/Xgy4Hg+2jljZZ1g+q4\n"
                                       "KqlzKkhQ02GLEYL1M+wcnPR58sJ5VZY8R8eMrgUsbczSSDpP0hbdCb7W\n"
                                       "-----END PRIVATE KEY-----\n";

/* Of a server (0) or of a client (1), which verifies nothing. Keys are replaced after 3 records. */
static sluice_tls_context *tls_identity_context(int role, sluice_tls_version version) {
    sluice_tls_context *context;
    const sluice_tls_context_options options = {.size = sizeof options,
                                                .role = role ? SLUICE_TLS_CLIENT : SLUICE_TLS_SERVER,
                                                .verify = SLUICE_TLS_VERIFY_NONE,
                                                .max_version = version,
                                                .rekey_records = version == SLUICE_TLS_1_3 ? 3 : 0};
    const sluice_tls_certificate certificate = {.size = sizeof certificate,
                                                .chain = tls_identity_chain,
                                                .chain_length = sizeof tls_identity_chain - 1,
                                                .key = tls_identity_key,
                                                .key_length = sizeof tls_identity_key - 1};
    FUZZ_CHECK(sluice_tls_context_new(&options, &context) == 0);
    FUZZ_CHECK(role || sluice_tls_context_add_certificate(context, &certificate) == 0);
    return context;
}

#endif
