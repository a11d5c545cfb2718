/* Certificates of the TLS listeners: tls-certificate = [NAME=]CHAIN,KEY. */
#ifndef SLUICED_TLS_OPTION_H
#define SLUICED_TLS_OPTION_H

#include <stddef.h>
#include <stdint.h>

enum { TLS_OPTION_CERTIFICATES = 1024 };

struct tls_certificate_option {
    char *said;        /* as it was written */
    char *where;       /* it was read, as messages call it */
    char *text;        /* that the texts below lie in */
    const char *name;  /* a server's name, or "*.example.org"; NULL: the names of the certificate */
    const char *chain; /* file of the certificate and intermediates, in PEM */
    const char *key;   /* file of the private key; may be the same */
};

struct tls_options {
    struct tls_certificate_option *certificates;
    size_t certificate_count;
    char *client_ca;                 /* a file's name, or NULL: no client certificates */
    int min_version;                 /* sluice_tls_version */
    int kernel;                      /* sluice_tls_kernel */
    uint64_t handshakes;             /* at a time, of all listeners together */
    uint64_t handshakes_per_address; /* at a time; 0: no limit of its own */
};

/* NULL, or what is expected in a few words. */
const char *tls_options_add(struct tls_options *options, const char *text, const char *where);

void tls_options_clear(struct tls_options *options);

#endif
