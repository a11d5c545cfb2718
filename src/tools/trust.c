#include "tools/trust.h"

#include <errno.h>
#include <string.h>

#include "shared/tls_hash.h"
#include "tools/say.h"

bool trust_add_pin(struct trust *trust, const char *text) {
    if (trust->pin_count == SLUICE_TLS_PINS_MAX) {
        say("--tls-pin: at most %d", SLUICE_TLS_PINS_MAX);
        return false;
    }
    if (!tls_hash_read(text, trust->pins[trust->pin_count])) {
        say("--tls-pin wants 64 hexadecimal digits, the SHA-256 of the server's certificate, not \"%s\"", text);
        return false;
    }
    trust->pin_count++;
    return true;
}

bool trust_prepare(const struct trust *trust, struct target *target) {
    const sluice_tls_context_options options = {
        .size = sizeof options,
        .role = SLUICE_TLS_CLIENT,
        .ca_path = trust->ca,
        .pins = trust->pin_count > 0 ? trust->pins[0] : NULL,
        .pin_count = trust->pin_count,
        .alpn = target->kind == TARGET_HTTP ? "http/1.1" : NULL,
    };
    int error = target->secure ? sluice_tls_context_new(&options, &target->tls) : 0;
    if (!error)
        return true;
    say("%s: %s", trust->ca ? trust->ca : "the system's certificates",
        error == -EPROTO ? "no certificate in PEM" : strerror(-error));
    return false;
}

void trust_release(struct target *target) {
    sluice_tls_context_unref(target->tls);
    target->tls = NULL;
}
