/* Makes options from the command line and the configuration file named there. */
#ifndef SLUICED_OPTIONS_LOAD_H
#define SLUICED_OPTIONS_LOAD_H

#include "daemon/config/command_line.h"
#include "daemon/config/options.h"

/* Reports a setting that keeps its value in force, because the new one needs a restart. */
typedef void options_kept_fn(const struct setting *setting, const char *from, const char *to, void *user);

/*
 * Reads and checks everything: NULL where something is wrong, all of which has been added to the
 * problems. @in_force: NULL at the start; at a reload, what is to be replaced: of settings that
 * need a restart its values stay
 */
const struct options *options_load(const struct command_line *line, const struct options *in_force,
                                   options_kept_fn *kept, void *user, struct config_errors *errors);

/* --print-config: every setting as the file has it, and where it comes from. False where something
 * is wrong. */
bool options_print(const struct command_line *line, FILE *out, struct config_errors *errors);

#endif
