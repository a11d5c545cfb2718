/* One POST to a hook's server, by libevent's HTTP client. The control plane's thread. */
#ifndef SLUICED_CONTROL_HOOK_CALL_H
#define SLUICED_CONTROL_HOOK_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/hook_url.h"

struct event_base;
struct hook_call;

/* @status: of the answer; 0: there is none, or it is none of HTTP, or it is too long. The call is gone. */
typedef void hook_called_fn(unsigned status, void *user);

/*
 * @done is called once, unless the call is freed before; never before this has returned. The body is JSON, copied.
 * @timeout_ms: for all of it. 0, -ENOMEM (or the connection cannot be made; @done is not called)
 */
int hook_call_start(struct event_base *base, const struct hook_url *url, uint64_t timeout_ms, const char *body,
                    size_t length, hook_called_fn *done, void *user, struct hook_call **ret_call);

/* One that is under way is given up. Not after its end. NULL is allowed. */
void hook_call_free(struct hook_call *call);

#endif
