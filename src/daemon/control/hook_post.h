/*
 * POSTs to hooks' servers, by HTTP or HTTPS, on the control plane's loop. The control plane's
 * thread.
 */
#ifndef SLUICED_HOOK_POST_H
#define SLUICED_HOOK_POST_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/hook_url.h"

struct connector;
struct control_loop;
struct event_base;
struct hook_post;
struct hook_poster;

enum { HOOK_POST_REASON = 128 };

/*
 * Makes what all of them share. @loop: is opened with the first of them; @connector: makes the
 * connections; both are the caller's. @node: of a cluster, which each body names in its member
 * node; stays; NULL: there is none. 0, -ENOMEM
 */
int hook_poster_new(struct event_base *base, struct control_loop *loop, struct connector *connector, const char *node,
                    struct hook_poster **ret_poster);

/* After the connector, when the loop has been closed, and no call is under way. NULL is allowed. */
void hook_poster_free(struct hook_poster *poster);

/* @status: of the answer; 0: there is none, or it is none of HTTP, or it is too long. @reason: why
 * there is none, in a few words, without anything of the request. The call is gone. */
typedef void hook_posted_fn(unsigned status, const char *reason, void *user);

/*
 * @done is called once, unless the call is freed before; never before this has returned. The body
 * is a JSON object with members, copied. @timeout_ms: for all of it. 0, -ENOMEM, -EMFILE (@done is
 * not called)
 */
int hook_post_start(struct hook_poster *poster, const struct hook_url *url, uint64_t timeout_ms, const char *body,
                    size_t length, hook_posted_fn *done, void *user, struct hook_post **ret_call);

/* One that is under way is given up. Not after its end. NULL is allowed. */
void hook_post_free(struct hook_post *call);

#endif
