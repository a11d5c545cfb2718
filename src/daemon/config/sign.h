/* --sign: makes a token. */
#ifndef SLUICED_SIGN_H
#define SLUICED_SIGN_H

#include "daemon/config/options.h"

/* @what: ACTION,STREAM,SECONDS[,KEY]. False where something is wrong, which has been added to the
 * problems. */
bool sign_print(const struct options *options, const char *what, FILE *out, struct config_errors *errors);

#endif
