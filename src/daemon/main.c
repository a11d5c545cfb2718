#include <stdlib.h>
#include <string.h>

#include <sluice/version.h>

#include "daemon/control.h"
#include "daemon/log.h"
#include "daemon/options.h"
#include "daemon/server.h"

enum { EXIT_USAGE = 2 };

int main(int argc, char **argv) {
    static struct options options;
    switch (options_parse(argc, argv, &options)) {
    case OPTIONS_DONE:
        return EXIT_SUCCESS;
    case OPTIONS_WRONG:
        return EXIT_USAGE;
    case OPTIONS_RUN:
        break;
    }
    log_set_level((enum log_level)options.log_level);
    log_set_format(options.log_format);
    log_set_rate((uint32_t)options.log_rate);
    control_prepare();

    struct server *server;
    if (server_new(&options, &server) < 0)
        return EXIT_FAILURE;
    LOG(LOG_INFO, "ready", {"version", SLUICE_VERSION});
    int error = control_run(server, options.status);
    server_free(server);
    pull_options_clear(&options.pulls);
    log_flush();
    if (error) {
        LOG(LOG_ERROR, "ended by an error", {"reason", strerror(-error)});
        return EXIT_FAILURE;
    }
    log_write(LOG_INFO, "stopped", NULL, 0);
    return EXIT_SUCCESS;
}
