/* A command's arguments on their way to a writer. */
#ifndef SLUICE_RESP_ARGS_H
#define SLUICE_RESP_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/resp_client.h>
#include <sluice/writer.h>

/* Whether it is this word, in whatever case. */
bool resp_args_is(const sluice_resp_client_arg *arg, const char *word);

/* Whether the writer takes the command whole, so that no part of it is queued without the rest. 0,
 * -EMSGSIZE (never), -EAGAIN (not now) */
int resp_args_admit(const sluice_writer *writer, const sluice_resp_client_arg *args, size_t count);

/*
 * Queues it. @lent: counts the arguments that the kernel may still read, up here and down when they
 * are returned; it does not move. 0, or the writer's error: a part of it may be queued
 */
int resp_args_queue(sluice_writer *writer, const sluice_resp_client_arg *args, size_t count, uint32_t *lent);

#endif
