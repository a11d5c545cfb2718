/*
 * The configuration file, read by libconfig: NAME = VALUE, where the value is the one of the
 * command line as a string, a number, true or false; or a list of these.
 */
#ifndef SLUICED_CONFIG_FILE_H
#define SLUICED_CONFIG_FILE_H

#include "daemon/base/config_errors.h"
#include "daemon/config/setting.h"

struct config_value {
    const struct setting *setting;
    const char *where; /* FILE:LINE: NAME */
    const char *text;  /* NULL: the setting is there, with a list of nothing */
    bool is_private;   /* no other user may read the file */
};

/*
 * Calls with each value, in the file's order. What is wrong is added to the problems. False where
 * the file cannot be read.
 */
bool config_file_read(const char *path, void (*call)(const struct config_value *value, void *user), void *user,
                      struct config_errors *errors);

#endif
