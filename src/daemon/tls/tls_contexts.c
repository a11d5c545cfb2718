#include "daemon/tls/tls_contexts.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* A client that offers other protocols alone is rejected: RTMP and RTSP use no ALPN. */
static const char alpn[] = "http/1.1";

/* Bytes of the handshake of a client without a certificate. */
enum { HANDSHAKE_MOST = 16384 };

/* Whether users outside of the file's group may read it. */
static bool others_may_read(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && status.st_mode & S_IROTH;
}

static const char *reason_of(int error) {
    switch (error) {
    case -EPROTO:
        return "no certificate and key in PEM";
    case -EKEYREJECTED:
        return "the key does not belong to the certificate, or one of them is too weak";
    case -EACCES:
        return "permission denied, or the key has a password";
    case -EEXIST:
        return "a second certificate of this key type for the name";
    default:
        return strerror(-error);
    }
}

/* The file that cannot be opened is named. */
static bool add_wrong(const struct tls_certificate_option *option, int error, struct config_errors *errors) {
    const char *const files[] = {option->chain, option->key};
    struct stat status;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (stat(files[i], &status) < 0)
            return config_errors_add(errors, "%s: %s: %s", option->where, files[i], strerror(errno));
    return config_errors_add(errors, "%s: %s, got \"%s\"", option->where, reason_of(error), option->said);
}

static bool add_certificate(sluice_tls_context *context, const struct tls_certificate_option *option,
                            struct config_errors *errors) {
    const sluice_tls_certificate certificate = {
        .size = sizeof certificate, .name = option->name, .chain_path = option->chain, .key_path = option->key};
    if (others_may_read(option->key))
        return config_errors_add(errors, "%s: %s: others may read the key: chmod 640", option->where, option->key);
    int error = sluice_tls_context_add_certificate(context, &certificate);
    return !error || add_wrong(option, error, errors);
}

static bool make(const struct tls_options *tls, sluice_tls_context *previous, struct config_errors *errors,
                 sluice_tls_context **ret_context) {
    const sluice_tls_context_options options = {
        .size = sizeof options,
        .role = SLUICE_TLS_SERVER,
        .verify = tls->client_ca ? SLUICE_TLS_VERIFY_OPTIONAL : SLUICE_TLS_VERIFY_NONE,
        .ca_path = tls->client_ca,
        .alpn = alpn,
        .min_version = (sluice_tls_version)tls->min_version,
        .ticket_source = previous,
        .kernel = (sluice_tls_kernel)tls->kernel,
        .handshake_limit = tls->client_ca ? 0 : HANDSHAKE_MOST,
    };
    int error = sluice_tls_context_new(&options, ret_context);
    if (!error)
        return true;
    if (!tls->client_ca || error == -ENOMEM)
        return config_errors_add(errors, "tls-certificate: %s", strerror(-error));
    return config_errors_add(errors, "tls-client-ca: %s: %s", tls->client_ca,
                             error == -EPROTO ? "no certificate in PEM" : strerror(-error));
}

bool tls_contexts_load(const struct options *options, sluice_tls_context *previous, struct config_errors *errors,
                       sluice_tls_context **ret_context) {
    const struct tls_options *tls = &options->tls;
    sluice_tls_context *context = NULL;
    if (tls->certificate_count == 0) {
        *ret_context = NULL;
        return true;
    }
    bool good = make(tls, previous, errors, &context);
    for (size_t i = 0; context && i < tls->certificate_count; i++)
        good &= add_certificate(context, &tls->certificates[i], errors);
    if (good)
        *ret_context = context;
    else
        sluice_tls_context_unref(context);
    return good;
}
