/* The stage as a table of calls, for clients that make their connection themselves. */
#include <errno.h>

#include <sluice/tls.h>

#include "abi/sized.h"

static int begin(sluice_conn *conn, const void *options, void **ret_stage) {
    sluice_tls_stage_options o;
    sluice_tls *tls;
    int error = SIZED_READ(&o, options);
    if (!error)
        error = sluice_tls_new(o.context, conn, o.name, &tls);
    if (!error)
        *ret_stage = tls;
    return error;
}

static void release(void *stage) {
    sluice_tls_free(stage);
}

static int receive(void *stage) {
    return sluice_tls_receive(stage);
}

static int end(void *stage) {
    return sluice_tls_end(stage);
}

static sluice_chain *chain(void *stage) {
    return sluice_tls_chain(stage);
}

static int send_pieces(void *stage, const struct iovec *pieces, size_t count, size_t *ret_done) {
    return sluice_tls_send(stage, pieces, count, ret_done);
}

static size_t queued(const void *stage) {
    return sluice_tls_queued(stage);
}

static size_t gather(void *stage, struct iovec *iov, size_t max) {
    return sluice_tls_gather(stage, iov, max);
}

static void sent(void *stage, size_t bytes) {
    sluice_tls_sent(stage, bytes);
}

static bool may_pass(void *stage) {
    return sluice_tls_get_state(stage) == SLUICE_TLS_OPEN && sluice_tls_may_pass(stage);
}

static void finish(void *stage) {
    if (sluice_tls_finish(stage) == 0)
        (void)sluice_tls_flush(stage);
}

const sluice_conn_stage *sluice_tls_conn_stage(void) {
    static const sluice_conn_stage stage = {
        .size = sizeof stage,
        .begin = begin,
        .release = release,
        .receive = receive,
        .end = end,
        .chain = chain,
        .send = send_pieces,
        .queued = queued,
        .gather = gather,
        .sent = sent,
        .may_pass = may_pass,
        .finish = finish,
    };
    return &stage;
}
