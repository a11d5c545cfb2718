#include "daemon/config/tls_option.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char form[] = "[NAME=]CHAIN,KEY: files in PEM";

/* The longest name of DNS. */
enum { NAME_MOST = 253 };

/* A host name, or "*." before one. */
static bool is_name(const char *text, size_t length) {
    static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    if (length > 2 && text[0] == '*' && text[1] == '.') {
        text += 2;
        length -= 2;
    }
    return length > 0 && length <= NAME_MOST && text[0] != '.' && strspn(text, characters) >= length;
}

/* Behind a slash, "=" is a part of a file's name. */
static const char *read_certificate(struct tls_certificate_option *certificate) {
    char *rest = certificate->text, *equals = strchr(rest, '=');
    if (equals && !memchr(rest, '/', (size_t)(equals - rest))) {
        if (!is_name(rest, (size_t)(equals - rest)))
            return "a server's name such as example.org or *.example.org before \"=\"";
        *equals = '\0';
        certificate->name = rest;
        rest = equals + 1;
    }
    char *comma = strchr(rest, ',');
    if (!comma || comma == rest || !comma[1] || strchr(comma + 1, ','))
        return form;
    *comma = '\0';
    certificate->chain = rest;
    certificate->key = comma + 1;
    return NULL;
}

static void clear(struct tls_certificate_option *certificate) {
    free(certificate->said);
    free(certificate->where);
    free(certificate->text);
}

const char *tls_options_add(struct tls_options *options, const char *text, const char *where) {
    if (options->certificate_count == TLS_OPTION_CERTIFICATES)
        return "at most 1024 certificates";
    struct tls_certificate_option *list = reallocarray(options->certificates, options->certificate_count + 1,
                                                       sizeof *list);
    if (!list)
        return "memory";
    options->certificates = list;
    struct tls_certificate_option *certificate = &list[options->certificate_count];
    *certificate = (struct tls_certificate_option){.said = strdup(text), .where = strdup(where), .text = strdup(text)};
    const char *expected = certificate->said && certificate->where && certificate->text ? read_certificate(certificate)
                                                                                        : "memory";
    if (expected)
        clear(certificate);
    else
        options->certificate_count++;
    return expected;
}

void tls_options_clear(struct tls_options *options) {
    for (size_t i = 0; i < options->certificate_count; i++)
        clear(&options->certificates[i]);
    free(options->certificates);
    free(options->client_ca);
    *options = (struct tls_options){0};
}
