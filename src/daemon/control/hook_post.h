/* One POST to a hook's server, by libevent's HTTP client. The control plane's thread. */
#ifndef SLUICED_HOOK_POST_H
#define SLUICED_HOOK_POST_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/hook_url.h"

struct event_base;
struct hook_post;

/* @status: of the answer; 0: there is none, or it is none of HTTP, or it is too long. The call is
 * gone. */
typedef void hook_posted_fn(unsigned status, void *user);

/*
 * @done is called once, unless the call is freed before; never before this has returned. The body
 * is JSON, copied. @timeout_ms: for all of it. 0, -ENOMEM (or the connection cannot be made; @done
 * is not called)
 */
int hook_post_start(struct event_base *base, const struct hook_url *url, uint64_t timeout_ms, const char *body,
                    size_t length, hook_posted_fn *done, void *user, struct hook_post **ret_call);

/* One that is under way is given up. Not after its end. NULL is allowed. */
void hook_post_free(struct hook_post *call);

#endif
