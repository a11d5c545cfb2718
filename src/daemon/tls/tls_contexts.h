/*
 * The TLS context of the listeners, with the certificates of the options. Each reload makes another
 * one for new connections; running ones keep theirs.
 */
#ifndef SLUICED_TLS_CONTEXTS_H
#define SLUICED_TLS_CONTEXTS_H

#include <stdbool.h>

#include <sluice/tls.h>

#include "daemon/base/config_errors.h"
#include "daemon/config/options.h"

/*
 * Reads the files of certificates and keys, which may block. False if something is wrong, after
 * adding an error for each certificate that cannot be used. @previous: tickets that it has issued
 * stay valid; NULL: there is none. @ret_context: one reference; NULL if there are no certificates
 */
bool tls_contexts_load(const struct options *options, sluice_tls_context *previous, struct config_errors *errors,
                       sluice_tls_context **ret_context);

#endif
