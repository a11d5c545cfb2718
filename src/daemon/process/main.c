#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sluice/version.h>

#include "daemon/base/log.h"
#include "daemon/config/command_line.h"
#include "daemon/config/listen_fds.h"
#include "daemon/config/options_load.h"
#include "daemon/config/sign.h"
#include "daemon/process/cluster_setup.h"
#include "daemon/process/control.h"
#include "daemon/server/server.h"
#include "daemon/tls/tls_client.h"
#include "daemon/tls/tls_contexts.h"
#include "daemon/tls/tls_expiry.h"
#include "daemon/tls/tls_kernel.h"

enum { EXIT_USAGE = 2 };

static void complain(const char *line, void *user) {
    (void)user;
    fprintf(stderr, "sluiced: %s\n", line);
}

/* One line says why: that of what has failed, or else, as for want of memory, this one. */
static int cannot_start(int error) {
    if (!log_has_error())
        LOG(LOG_ERROR, "cannot start", {"reason", strerror(-error)});
    return EXIT_FAILURE;
}

/* What the options' files of certificates become. */
struct tls {
    sluice_tls_context *server; /* NULL: there is none */
    struct tls_client *client;
};

/* @ret_freed: false: file operations that do not return use what would be freed. */
static int run(const struct command_line *line, const struct options *options, const struct tls *tls, bool *ret_freed) {
    struct server *server;
    control_prepare();
    int error = log_start();
    if (error)
        return cannot_start(error);
    error = server_new(options, &server);
    if (error)
        return cannot_start(error);
    server_set_tls_context(server, tls->server);
    tls_expiry_log(tls->server, NULL);
    tls_kernel_log(tls->server, NULL, "listeners");
    struct control *control;
    struct cluster_setup *cluster;
    error = cluster_setup_new(options, server, &cluster);
    if (!error)
        error = control_new(server, line, options, tls->client, cluster, &control);
    if (!error && (error = control_start(control)) < 0)
        control_free(control);
    if (error) {
        server_free(server);
        cluster_setup_free(cluster);
        return cannot_start(error);
    }
    if (line->listen_fds) {
        listen_fds_settle(line->listen_fds);
        if (line->listen_fds->channel > 0)
            control_take_over(control, line->listen_fds->channel);
    }
    error = control_run(control);
    control_free(control);
    *ret_freed = server_free(server);
    cluster_setup_free(cluster);
    /* The last line is the last. */
    log_flush();
    if (error) {
        LOG(LOG_ERROR, "stopped on error", {"reason", strerror(-error)});
        return EXIT_FAILURE;
    }
    log_write(LOG_INFO, "stopped", NULL, 0);
    return EXIT_SUCCESS;
}

static int serve(const struct command_line *line, const struct options *options, const struct tls *tls) {
    log_set_level((enum log_level)options->log_level);
    log_set_format((enum log_format)options->log_format);
    log_set_rate((uint32_t)options->log_rate);
    bool freed = true;
    int status = run(line, options, tls, &freed);
    log_stop();
    /* Threads and memory that are left are the kernel's to end and free. exit(3) would run the ends
     * of libraries beside those threads. */
    if (!freed)
        _exit(status);
    return status;
}

static void warn_shadowed(const struct rule *rule, const struct rule *earlier, void *user) {
    (void)user;
    fprintf(stderr, "sluiced: warning: %s: \"%s\" never decides: \"%s\" (%s) comes first\n", rule->where, rule->said,
            earlier->said, earlier->where);
}

/* The certificates, too. NULL where something is wrong. */
static const struct options *load_all(const struct command_line *line, struct config_errors *errors,
                                      struct tls *ret_tls) {
    const struct options *options = options_load(line, NULL, NULL, NULL, errors);
    if (!options)
        return NULL;
    if (tls_client_new(&ret_tls->client) < 0)
        (void)config_errors_add(errors, "out of memory");
    else if (tls_contexts_load(options, NULL, errors, &ret_tls->server) &&
             tls_client_load(ret_tls->client, options, errors))
        return options;
    options_unref(options);
    return NULL;
}

/* What the command line says, where that is not to run. */
static int obey(struct command_line *line, struct config_errors *errors) {
    struct listen_fds listen_fds;
    const struct options *options = NULL;
    struct tls tls = {0};
    int status = EXIT_SUCCESS;
    switch (line->command) {
    case COMMAND_HELP:
        settings_help(stdout);
        break;
    case COMMAND_VERSION:
        puts("sluiced " SLUICE_VERSION);
        break;
    case COMMAND_PRINT:
        (void)options_print(line, stdout, errors);
        break;
    case COMMAND_SIGN:
        options = options_load(line, NULL, NULL, NULL, errors);
        if (options)
            (void)sign_print(options, line->sign, stdout, errors);
        break;
    case COMMAND_CHECK:
        options = load_all(line, errors, &tls);
        if (options) {
            rules_each_shadowed(&options->rules, warn_shadowed, NULL);
            puts("OK");
        }
        break;
    default:
        if (!listen_fds_take(&listen_fds, errors))
            break;
        line->listen_fds = &listen_fds;
        options = load_all(line, errors, &tls);
        if (options)
            status = serve(line, options, &tls);
    }
    sluice_tls_context_unref(tls.server);
    tls_client_free(tls.client);
    options_unref(options);
    return errors->count > 0 ? EXIT_USAGE : status;
}

int main(int argc, char **argv) {
    struct config_errors errors = {0};
    struct command_line line;
    bool good = command_line_parse(argc, argv, &errors, &line);
    /* --help is printed regardless of other errors. */
    int status = good || line.command == COMMAND_HELP ? 0 : EXIT_USAGE;
    if (!status) {
        if (!good)
            config_errors_clear(&errors);
        status = obey(&line, &errors);
    }
    config_errors_each(&errors, complain, NULL);
    config_errors_clear(&errors);
    command_line_clear(&line);
    return status;
}
