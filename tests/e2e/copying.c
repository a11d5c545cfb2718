/*
 * Linked into a daemon that is as it should not be: each payload is copied once, on its way to its
 * packet (--wrap=packet_new), and so are the bytes that a connection brings from another worker
 * (--wrap=sluice_conn_adopt). The test that counts copies must find this out.
 */
#include <string.h>

#include <sluice/conn.h>

#include "daemon/relay/packet.h"

enum { PIECES = 64, SCRATCH = 1 << 20 };

static void copy_slice(const sluice_slice *slice) {
    static _Thread_local unsigned char scratch[SCRATCH];
    struct iovec pieces[PIECES];
    for (size_t place = 0; place < sluice_slice_length(slice);) {
        size_t count = sluice_slice_iov(slice, place, pieces, PIECES);
        for (size_t i = 0; i < count && i < PIECES; i++) {
            memcpy(scratch, pieces[i].iov_base, pieces[i].iov_len < SCRATCH ? pieces[i].iov_len : SCRATCH);
            /* Somebody may look at it, as far as the compiler knows. */
            __asm__ volatile("" : : "r"(scratch) : "memory");
            place += pieces[i].iov_len;
        }
    }
}

struct packet *__real_packet_new(struct packet_pool *pool, const sluice_flv_tag *tag, enum packet_role role,
                                 uint32_t timestamp, sluice_slice *payload);
struct packet *__wrap_packet_new(struct packet_pool *pool, const sluice_flv_tag *tag, enum packet_role role,
                                 uint32_t timestamp, sluice_slice *payload);

struct packet *__wrap_packet_new(struct packet_pool *pool, const sluice_flv_tag *tag, enum packet_role role,
                                 uint32_t timestamp, sluice_slice *payload) {
    copy_slice(payload);
    return __real_packet_new(pool, tag, role, timestamp, payload);
}

int __real_sluice_conn_adopt(sluice_loop *loop, sluice_conn_handover *handover, const sluice_conn_events *events,
                             void *user, sluice_conn **ret_conn);
int __wrap_sluice_conn_adopt(sluice_loop *loop, sluice_conn_handover *handover, const sluice_conn_events *events,
                             void *user, sluice_conn **ret_conn);

int __wrap_sluice_conn_adopt(sluice_loop *loop, sluice_conn_handover *handover, const sluice_conn_events *events,
                             void *user, sluice_conn **ret_conn) {
    copy_slice(&handover->received);
    return __real_sluice_conn_adopt(loop, handover, events, user, ret_conn);
}
