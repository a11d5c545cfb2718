/* Two ends of RTMP on one loop, for what has no sockets of its own. */
#ifndef SLUICE_TESTS_SUPPORT_RTMP_RIG_H
#define SLUICE_TESTS_SUPPORT_RTMP_RIG_H

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <sluice/conn.h>
#include <sluice/loop.h>
#include <sluice/rtmp.h>
#include <sluice/writer.h>

#include "support/sockets.h"

/* One end of a connection: what it queues reaches the other one's chain. */
struct rtmp_end {
    sluice_conn *conn;
    sluice_writer *writer;
    unsigned closed;
};

struct rtmp_rig {
    loop_rig loop;
    struct rtmp_end ends[2];
};

static inline void rtmp_rig_on_data(sluice_conn *conn, void *user) {
    (void)conn, (void)user;
}

static inline size_t rtmp_rig_on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    (void)conn;
    return sluice_writer_gather(((struct rtmp_end *)user)->writer, iov, max);
}

static inline void rtmp_rig_on_sent(sluice_conn *conn, size_t bytes, void *user) {
    (void)conn;
    sluice_writer_sent(((struct rtmp_end *)user)->writer, bytes);
}

static inline void rtmp_rig_on_closed(sluice_conn *conn, void *user) {
    (void)conn;
    ((struct rtmp_end *)user)->closed++;
}

static const sluice_conn_events rtmp_rig_events = {.size = sizeof rtmp_rig_events,
                                                   .on_data = rtmp_rig_on_data,
                                                   .on_gather = rtmp_rig_on_gather,
                                                   .on_sent = rtmp_rig_on_sent,
                                                   .on_closed = rtmp_rig_on_closed};

/* Each end's writer holds @limit bytes. */
static inline void rtmp_rig_open(struct rtmp_rig *rig, size_t limit) {
    int fds[2];
    *rig = (struct rtmp_rig){0};
    loop_rig_open(&rig->loop, NULL, NULL, 60);
    sockets_unix_pair(fds);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sluice_conn_new(rig->loop.loop, fds[i], &rtmp_rig_events, &rig->ends[i], &rig->ends[i].conn),
                         0);
        assert_int_equal(sluice_writer_new(rig->ends[i].conn, limit, &rig->ends[i].writer), 0);
    }
}

static inline void rtmp_rig_close(struct rtmp_rig *rig) {
    for (int i = 0; i < 2; i++) {
        sluice_conn_close(rig->ends[i].conn);
        turn_until_count(rig->loop.loop, &rig->ends[i].closed, 1);
        sluice_writer_free(rig->ends[i].writer);
    }
    loop_rig_close(&rig->loop);
}

/* The next message of the first end that arrives at the second one. */
static inline sluice_rtmp_message *rtmp_rig_receive(struct rtmp_rig *rig, sluice_rtmp *framer) {
    sluice_rtmp_message *message = NULL;
    int result;
    while ((result = sluice_rtmp_next(framer, sluice_conn_chain(rig->ends[1].conn), &message)) == 0)
        turn(rig->loop.loop);
    assert_int_equal(result, 1);
    return message;
}

#endif
