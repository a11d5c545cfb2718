#include "daemon/tls/tls_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "daemon/tls/tls_kernel.h"

enum {
    FILE_MOST = 4 << 20,
    SESSIONS = 256, /* of earlier connections, of each context: up to two of a server */
};

/* A context that has been needed. The fields before it tell it apart. */
struct made {
    SLIST_ENTRY(made) link;
    bool pins[TLS_CLIENT_PINS]; /* that are about the server; none: issuers are trusted */
    const char *alpn;
    sluice_tls_kernel kernel;
    sluice_tls_context *context;
};

struct text {
    char *bytes; /* NULL: none */
    size_t length;
};

/* What one load has read. It is not read again: all contexts of a load are of the same files. */
struct loaded {
    const struct options *options; /* a reference; NULL: the defaults */
    struct text ca, chain, key;
    SLIST_HEAD(, made) made;
};

struct tls_client {
    struct loaded *loaded, *previous; /* in force, and before the last load or NULL */
    sluice_tls_context *logged;       /* the last that is to use the kernel; NULL: none yet */
};

static void clear_text(struct text *text) {
    if (text->bytes)
        explicit_bzero(text->bytes, text->length);
    free(text->bytes);
    *text = (struct text){0};
}

static void free_loaded(struct loaded *loaded) {
    if (!loaded)
        return;
    while (!SLIST_EMPTY(&loaded->made)) {
        struct made *made = SLIST_FIRST(&loaded->made);
        SLIST_REMOVE_HEAD(&loaded->made, link);
        sluice_tls_context_unref(made->context);
        free(made);
    }
    clear_text(&loaded->ca);
    clear_text(&loaded->chain);
    clear_text(&loaded->key);
    options_unref(loaded->options);
    free(loaded);
}

/* ---- Files ---- */

/* Puts a file's content behind the text. 0, -errno; -EFBIG: it is longer than makes sense */
static int append_file(struct text *text, const char *path) {
    struct stat status;
    FILE *file = fopen(path, "re");
    if (!file)
        return -errno;
    int error = fstat(fileno(file), &status) < 0 ? -errno : 0;
    if (!error && !S_ISREG(status.st_mode))
        error = -EINVAL;
    if (!error && status.st_size > FILE_MOST)
        error = -EFBIG;
    /* Not realloc(), which leaves keys behind. */
    char *bytes = error ? NULL : malloc(text->length + (size_t)status.st_size + 2);
    if (!error && !bytes)
        error = -ENOMEM;
    if (!error) {
        size_t length = text->length;
        if (length > 0)
            memcpy(bytes, text->bytes, length);
        length += fread(bytes + length, 1, (size_t)status.st_size, file);
        bytes[length++] = '\n';
        clear_text(text);
        *text = (struct text){bytes, length};
    }
    fclose(file);
    return error;
}

static bool cannot_read(struct config_errors *errors, const char *setting, const char *path, int error) {
    return config_errors_add(errors, "%s: %s: %s", setting, path,
                             error == -EPROTO   ? "no certificate in PEM"
                             : error == -EINVAL ? "not a file"
                                                : strerror(-error));
}

/* Each file is tried out, so that the message can name it. */
static bool read_ca(struct loaded *loaded, const char *path, struct config_errors *errors) {
    sluice_tls_context *context;
    int error = append_file(&loaded->ca, path);
    const sluice_tls_context_options options = {.size = sizeof options, .role = SLUICE_TLS_CLIENT, .ca_path = path};
    if (!error)
        error = sluice_tls_context_new(&options, &context);
    if (error)
        return cannot_read(errors, "tls-ca", path, error);
    sluice_tls_context_unref(context);
    return true;
}

static int add_certificate(const struct loaded *loaded, sluice_tls_context *context) {
    const sluice_tls_certificate certificate = {.size = sizeof certificate,
                                                .chain = loaded->chain.bytes,
                                                .chain_length = loaded->chain.length,
                                                .key = loaded->key.bytes,
                                                .key_length = loaded->key.length};
    return loaded->chain.bytes ? sluice_tls_context_add_certificate(context, &certificate) : 0;
}

static bool try_certificate(const struct loaded *loaded, struct config_errors *errors) {
    static const char name[] = "tls-client-certificate";
    const sluice_tls_context_options options = {
        .size = sizeof options, .role = SLUICE_TLS_CLIENT, .verify = SLUICE_TLS_VERIFY_NONE};
    sluice_tls_context *context;
    int error = sluice_tls_context_new(&options, &context);
    if (error)
        return config_errors_add(errors, "%s: %s", name, strerror(-error));
    error = add_certificate(loaded, context);
    sluice_tls_context_unref(context);
    return !error || config_errors_add(errors, "%s: %s", name,
                                       error == -EPROTO ? "no certificate and key in PEM"
                                       : error == -EKEYREJECTED
                                           ? "the key does not belong to the certificate, or one of them is too weak"
                                       : error == -EACCES ? "the key has a password"
                                                          : strerror(-error));
}

static bool read_certificate(struct loaded *loaded, const struct tls_client_options *tls,
                             struct config_errors *errors) {
    static const char name[] = "tls-client-certificate";
    struct stat status;
    int error = append_file(&loaded->chain, tls->certificate);
    if (error)
        return cannot_read(errors, name, tls->certificate, error);
    error = append_file(&loaded->key, tls->key);
    if (error)
        return cannot_read(errors, name, tls->key, error);
    if (stat(tls->key, &status) == 0 && status.st_mode & S_IROTH)
        return config_errors_add(errors, "%s: %s: others may read the key: chmod 640", name, tls->key);
    return try_certificate(loaded, errors);
}

static bool read_files(struct loaded *loaded, struct config_errors *errors) {
    const struct tls_client_options *tls = &loaded->options->tls_client;
    bool good = true;
    for (size_t i = 0; i < tls->ca_count; i++)
        good &= read_ca(loaded, tls->ca[i], errors);
    if (tls->certificate)
        good &= read_certificate(loaded, tls, errors);
    return good;
}

/* ---- What is in force ---- */

int tls_client_new(struct tls_client **ret_client) {
    struct tls_client *client = calloc(1, sizeof *client);
    struct loaded *loaded = client ? calloc(1, sizeof *loaded) : NULL;
    if (!loaded) {
        free(client);
        return -ENOMEM;
    }
    client->loaded = loaded;
    *ret_client = client;
    return 0;
}

void tls_client_free(struct tls_client *client) {
    if (!client)
        return;
    free_loaded(client->previous);
    free_loaded(client->loaded);
    sluice_tls_context_unref(client->logged);
    free(client);
}

bool tls_client_load(struct tls_client *client, const struct options *options, struct config_errors *errors) {
    struct loaded *loaded = calloc(1, sizeof *loaded);
    if (!loaded)
        return config_errors_add(errors, "out of memory");
    loaded->options = options_ref(options);
    if (!read_files(loaded, errors)) {
        free_loaded(loaded);
        return false;
    }
    free_loaded(client->previous);
    client->previous = client->loaded;
    client->loaded = loaded;
    return true;
}

void tls_client_revert(struct tls_client *client) {
    if (!client->previous)
        return;
    free_loaded(client->loaded);
    client->loaded = client->previous;
    client->previous = NULL;
}

/* ---- Contexts ---- */

static bool is_same(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static int make_context(const struct loaded *loaded, const struct made *made, sluice_tls_context **ret_context) {
    const struct tls_client_options *tls = loaded->options ? &loaded->options->tls_client : NULL;
    uint8_t pins[SLUICE_TLS_PINS_MAX][SLUICE_TLS_HASH];
    sluice_tls_context_options options = {.size = sizeof options,
                                          .role = SLUICE_TLS_CLIENT,
                                          .ca = loaded->ca.bytes,
                                          .ca_length = loaded->ca.length,
                                          .ca_system = tls && tls->ca_system,
                                          .alpn = made->alpn,
                                          .pins = pins[0],
                                          .kernel = made->kernel,
                                          .sessions = SESSIONS};
    sluice_tls_context *context;
    for (size_t i = 0; tls && i < tls->pin_count && options.pin_count < SLUICE_TLS_PINS_MAX; i++)
        if (made->pins[i])
            memcpy(pins[options.pin_count++], tls->pins[i].hash, sizeof pins[0]);
    if (options.pin_count == 0)
        options.pins = NULL;
    int error = sluice_tls_context_new(&options, &context);
    if (error)
        return error;
    error = add_certificate(loaded, context);
    if (error)
        sluice_tls_context_unref(context);
    else
        *ret_context = context;
    return error;
}

static bool is_like(const struct made *made, const struct made *wanted) {
    return is_same(made->alpn, wanted->alpn) && made->kernel == wanted->kernel &&
           memcmp(made->pins, wanted->pins, sizeof made->pins) == 0;
}

/* The kernel is tried by each context; what was found out is logged if it is news. */
static void log_kernel(struct tls_client *client, const struct made *made) {
    if (made->kernel == SLUICE_TLS_KERNEL_OFF)
        return;
    tls_kernel_log(made->context, client->logged, "forwards");
    sluice_tls_context_unref(client->logged);
    client->logged = sluice_tls_context_ref(made->context);
}

int tls_client_find(struct tls_client *client, const struct tls_client_target *target,
                    sluice_tls_context **ret_context) {
    struct loaded *loaded = client->loaded;
    const struct options *options = loaded->options;
    const struct tls_client_options *tls = options ? &options->tls_client : NULL;
    struct made *made, *wanted = calloc(1, sizeof *wanted);
    if (!wanted)
        return -ENOMEM;
    wanted->alpn = target->alpn;
    if (options && target->sends_media)
        wanted->kernel = (sluice_tls_kernel)options->tls.kernel;
    for (size_t i = 0; tls && i < tls->pin_count; i++)
        wanted->pins[i] = tls_pin_fits(&tls->pins[i], target->host, target->port);
    SLIST_FOREACH(made, &loaded->made, link) {
        if (is_like(made, wanted)) {
            free(wanted);
            *ret_context = sluice_tls_context_ref(made->context);
            return 0;
        }
    }
    /* What was loaded has been tried: only memory can be missing. */
    if (make_context(loaded, wanted, &wanted->context) < 0) {
        free(wanted);
        return -ENOMEM;
    }
    SLIST_INSERT_HEAD(&loaded->made, wanted, link);
    log_kernel(client, wanted);
    *ret_context = sluice_tls_context_ref(wanted->context);
    return 0;
}

const sluice_tls_context *tls_client_kernel(const struct tls_client *client) {
    const struct made *made;
    SLIST_FOREACH(made, &client->loaded->made, link) {
        if (made->kernel != SLUICE_TLS_KERNEL_OFF)
            return made->context;
    }
    return NULL;
}
