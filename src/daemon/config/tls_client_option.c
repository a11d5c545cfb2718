#include "daemon/config/tls_client_option.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shared/tls_hash.h"

static const char memory[] = "less: out of memory";

const char *tls_client_options_add_ca(struct tls_client_options *options, const char *text) {
    if (strcmp(text, "system") == 0) {
        options->ca_system = true;
        return NULL;
    }
    if (!*text)
        return "a file name, or system";
    if (options->ca_count == TLS_CLIENT_CA_FILES)
        return "at most 16 files";
    options->ca[options->ca_count] = strdup(text);
    if (!options->ca[options->ca_count])
        return memory;
    options->ca_count++;
    return NULL;
}

/* HOST, [ADDRESS] or either with a port. */
static bool read_host(const char *text, size_t length, struct tls_pin *pin) {
    const char *end = text + length, *host = text, *host_end;
    unsigned long port = 0;
    if (length > 0 && *text == '[') {
        host++;
        host_end = memchr(host, ']', length - 1);
        text = host_end ? host_end + 1 : end;
    } else {
        const char *colon = memchr(text, ':', length);
        host_end = text = colon ? colon : end;
    }
    if (!host_end || host_end == host || host_end - host > PULL_HOST)
        return false;
    if (text < end) {
        char *behind;
        port = *text == ':' && isdigit((unsigned char)text[1]) ? strtoul(text + 1, &behind, 10) : 0;
        if (port == 0 || port > UINT16_MAX || behind != end)
            return false;
    }
    memcpy(pin->host, host, (size_t)(host_end - host));
    pin->port = (uint16_t)port;
    return true;
}

static size_t count_of(const struct tls_client_options *options, const char *host) {
    size_t count = 0;
    for (size_t i = 0; i < options->pin_count; i++)
        count += strcasecmp(options->pins[i].host, host) == 0;
    return count;
}

const char *tls_client_options_add_pin(struct tls_client_options *options, const char *text) {
    const char *equals = strchr(text, '=');
    struct tls_pin pin = {0};
    if (!equals || !read_host(text, (size_t)(equals - text), &pin))
        return "HOST[:PORT]=SHA256";
    if (!tls_hash_read(equals + 1, pin.hash))
        return "64 hexadecimal digits behind \"=\": the SHA-256 of the server's certificate";
    if (options->pin_count == TLS_CLIENT_PINS || count_of(options, pin.host) == SLUICE_TLS_PINS_MAX)
        return "at most 256 pins, and 64 of one host";
    struct tls_pin *pins = reallocarray(options->pins, options->pin_count + 1, sizeof *pins);
    if (!pins)
        return memory;
    options->pins = pins;
    pins[options->pin_count++] = pin;
    return NULL;
}

const char *tls_client_options_set_certificate(struct tls_client_options *options, const char *text) {
    const char *comma = strchr(text, ',');
    if (!comma || comma == text || !comma[1] || strchr(comma + 1, ','))
        return "CHAIN,KEY: files in PEM";
    char *certificate = strndup(text, (size_t)(comma - text)), *key = strdup(comma + 1);
    if (!certificate || !key) {
        free(certificate);
        free(key);
        return memory;
    }
    free(options->certificate);
    free(options->key);
    options->certificate = certificate;
    options->key = key;
    return NULL;
}

void tls_pin_format(const struct tls_pin *pin, char text[TLS_CLIENT_PIN_TEXT]) {
    const bool is_v6 = strchr(pin->host, ':');
    char *at = text + sprintf(text, "%s%s%s", is_v6 ? "[" : "", pin->host, is_v6 ? "]" : "");
    if (pin->port > 0)
        at += sprintf(at, ":%u", pin->port);
    *at++ = '=';
    for (size_t i = 0; i < sizeof pin->hash; i++)
        at += sprintf(at, "%02x", pin->hash[i]);
}

bool tls_pin_fits(const struct tls_pin *pin, const char *host, uint16_t port) {
    return (pin->port == 0 || pin->port == port) && strcasecmp(pin->host, host) == 0;
}

void tls_client_options_clear(struct tls_client_options *options) {
    for (size_t i = 0; i < options->ca_count; i++)
        free(options->ca[i]);
    free(options->pins);
    free(options->certificate);
    free(options->key);
    *options = (struct tls_client_options){0};
}
