/* The command line: the action to perform, and settings. */
#ifndef SLUICED_COMMAND_LINE_H
#define SLUICED_COMMAND_LINE_H

#include "daemon/base/config_errors.h"
#include "daemon/config/listen_fds.h"
#include "daemon/config/setting.h"

struct command_line_value {
    const struct setting *setting;
    char *text;
};

struct command_line {
    enum setting_command command; /* the last one but --config; COMMAND_RUN without any */
    const char *config;           /* the file's name, or NULL */
    const char *sign;             /* what is to be signed, or NULL */
    struct command_line_value *values;
    size_t count;
    char **words;                  /* argv: what to start in this one's place */
    struct listen_fds *listen_fds; /* sockets that came with it; NULL: none are looked at */
};

/* False where something is wrong, which has been added to the problems. To be cleared in any
 * case. */
bool command_line_parse(int argc, char **argv, struct config_errors *errors, struct command_line *ret_line);

/* Forgets the passwords, too. */
void command_line_clear(struct command_line *line);

#endif
