#include <stdlib.h>
#include <string.h>

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
    control_prepare();

    struct server *server;
    if (server_new(&options, &server) < 0)
        return EXIT_FAILURE;
    struct control *control;
    if (control_new(server, &options, &control) < 0) {
        server_free(server);
        return EXIT_FAILURE;
    }
    int error = control_run(control);
    control_free(control);
    server_free(server);
    pull_options_clear(&options.pulls);
    if (error) {
        LOG(LOG_ERROR, "ended by an error", {"reason", strerror(-error)});
        return EXIT_FAILURE;
    }
    log_write(LOG_INFO, "stopped", NULL, 0);
    return EXIT_SUCCESS;
}
