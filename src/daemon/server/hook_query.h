/*
 * Hook queries: ask the operator's HTTP server whether a client may publish or play. The data plane
 * must not block, so the control plane sends the query (hook_client.h), and the answer returns by a
 * posted call; the session does nothing else meanwhile. Only a 2xx answer grants access.
 */
#ifndef SLUICED_HOOK_QUERY_H
#define SLUICED_HOOK_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/http.h>
#include <sluice/loop.h>

#include "daemon/base/address.h"
#include "daemon/base/cidr.h"
#include "daemon/base/hook_url.h"
#include "daemon/base/stream_name.h"
#include "daemon/recording/record_files.h"

struct session;

typedef void hook_query_done_fn(struct session *session, bool granted);

/* A pending query. It belongs to the control plane until it returns, except the session. */
struct hook_query {
    struct hook_query *next; /* the asker's */
    enum hook_kind event;
    struct hook_url url;
    /* of the answer, by CLOCK_MONOTONIC, milliseconds: however long it waits to be asked */
    uint64_t deadline;
    char stream[STREAM_NAME + 1];
    char peer[ADDRESS_TEXT];
    struct cidr_address host; /* the address that is charged for it in the queue */
    const char *protocol;
    char *query; /* of the client's URL, which may hold a password; NULL: there is none */
    /* of play: not the stream itself, but what was recorded of it: */
    bool of_recording;
    char recording[RECORD_FILE];          /* a file; empty: which there are */
    sluice_loop *loop;                    /* on which it comes back, */
    sluice_call call;                     /* by this, so that it always does */
    void (*done)(struct hook_query *job); /* exactly once */
    bool granted;

    struct session *session; /* NULL: it does not wait any more */
    hook_query_done_fn *answered;
};

/* Takes a question. Any thread. */
typedef void hook_query_fn(void *worker_query, struct hook_query *job);

/* The subject of a query. */
struct hook_query_about {
    enum hook_kind event;
    sluice_http_text stream;
    const char *protocol;
    const char *recording; /* one of the stream, empty: which there are; NULL: the stream itself */
    const char *query;     /* of the client's URL; NULL or empty: there is none */
};

/*
 * Asks, where the options have a hook for that: 1, and @answered will be called unless
 * hook_query_cancel() is; 0: there is nothing to wait for; -ENOMEM; -ESHUTDOWN (after the run)
 */
int hook_query_start(struct session *session, const struct hook_query_about *question, hook_query_done_fn *answered);

/* Of a session that may be asking: refused, when no answer has come in time. */
void hook_query_tick(struct session *session, uint64_t now);

/* The session waits no more. May be called where it does not. */
void hook_query_cancel(struct session *session);

#endif
