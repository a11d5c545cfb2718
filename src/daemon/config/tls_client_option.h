/*
 * How the servers of pulls, forwards and hooks are verified, and what they are shown: tls-ca =
 * FILE|system, tls-pin = HOST[:PORT]=SHA256, tls-client-certificate = CHAIN,KEY.
 */
#ifndef SLUICED_TLS_CLIENT_OPTION_H
#define SLUICED_TLS_CLIENT_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/tls.h>

#include "daemon/config/pull_target.h"

enum {
    TLS_CLIENT_CA_FILES = 16,
    TLS_CLIENT_PINS = 256,
    TLS_CLIENT_PIN_TEXT = PULL_HOST + 16 + 2 * SLUICE_TLS_HASH,
};

struct tls_pin {
    char host[PULL_HOST + 1]; /* without brackets */
    uint16_t port;            /* 0: any */
    uint8_t hash[SLUICE_TLS_HASH];
};

struct tls_client_options {
    char *ca[TLS_CLIENT_CA_FILES]; /* files of trusted certificates */
    size_t ca_count;
    bool ca_system; /* the system's store, which is trusted if there is no file, too */
    struct tls_pin *pins;
    size_t pin_count;
    char *certificate; /* of this client: a file; or NULL */
    char *key;         /* likewise; may be the same file */
};

/* One value of each setting. NULL, or what is expected in a few words. */
const char *tls_client_options_add_ca(struct tls_client_options *options, const char *text);
const char *tls_client_options_add_pin(struct tls_client_options *options, const char *text);
const char *tls_client_options_set_certificate(struct tls_client_options *options, const char *text);

/* A pin as it may be written. */
void tls_pin_format(const struct tls_pin *pin, char text[TLS_CLIENT_PIN_TEXT]);

/* Whether it is about that server. */
bool tls_pin_fits(const struct tls_pin *pin, const char *host, uint16_t port);

void tls_client_options_clear(struct tls_client_options *options);

#endif
