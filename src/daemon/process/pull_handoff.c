#include "daemon/process/pull_handoff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/process/state_lines.h"

static void write_pull(const struct pull_option *option, uint64_t ttl_ms, void *user) {
    char text[PULL_OPTION_TEXT];
    pull_option_format(option, text);
    state_lines_add(user, "%llu %s\n", (unsigned long long)ttl_ms, text);
    explicit_bzero(text, sizeof text);
}

void pull_handoff_write(struct server *server, struct state_lines *lines) {
    pulls_each_requested(server, write_pull, lines);
}

static int add(struct server *server, const struct pull_option *option, uint64_t ttl_ms) {
    struct pull *pull;
    int error = pull_new(option, ttl_ms, &pull);
    if (error)
        return error;
    error = pulls_add(server_owner(server, option->name, strlen(option->name)), pull);
    if (error)
        pull_free(pull);
    return error;
}

void pull_handoff_read(const char *line, struct server *server) {
    struct pull_options options = {0};
    char *text;
    unsigned long long ttl_ms = strtoull(line, &text, 10);
    const char *wrong = *text == ' ' ? pull_options_add(&options, text + 1) : "malformed";
    int error = wrong ? 0 : add(server, &options.list[0], ttl_ms);
    if (error == -EEXIST)
        wrong = "the configuration has a pull of that stream";
    else if (error)
        wrong = strerror(-error);
    if (wrong)
        LOG(LOG_WARNING, "pull not taken over", {"stream", options.count > 0 ? options.list[0].name : "-"},
            {"reason", wrong});
    pull_options_clear(&options);
}
