/* example: FLV tags from a socket */
#include <arpa/inet.h>
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>

static sluice_pool *pool;
static sluice_loop *loop;
static sluice_flv *flv;

static const char *name_of(sluice_flv_type type) {
    return type == SLUICE_FLV_VIDEO ? "video" : type == SLUICE_FLV_AUDIO ? "audio" : "script";
}
static void on_data(sluice_conn *conn, void *user) {
    sluice_flv_tag *tag;
    int result;
    while ((result = sluice_flv_next(flv, sluice_conn_chain(conn), &tag)) > 0)
        printf("%s %u ms, %u bytes in %zu blocks\n", name_of(tag->type), tag->timestamp, tag->size,
               sluice_slice_blocks(&tag->payload));
    sluice_conn_set_need(conn, sluice_flv_need(flv)); /* no call for less than a whole tag */
    if (result < 0)
        sluice_conn_close(conn); /* not FLV */
}
static void on_end(sluice_conn *conn, int error, void *user) {
    sluice_conn_close(conn);
}
static void on_closed(sluice_conn *conn, void *user) {
    sluice_loop_stop(loop);
}
static const sluice_conn_events events = {
    .size = sizeof events, .on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static void accepted(sluice_listener *listener, int fd, void *user) {
    sluice_conn *conn;
    if (sluice_conn_new(loop, fd, &events, NULL, &conn) < 0)
        exit(EXIT_FAILURE);
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 9000))};
    struct sockaddr_storage bound;
    sluice_listener *listener;
    if (sluice_pool_new(NULL, &pool) < 0 || sluice_loop_new(pool, NULL, &loop) < 0 || sluice_flv_new(0, &flv) < 0 ||
        sluice_listener_new(loop, (struct sockaddr *)&address, sizeof address, accepted, NULL, &listener) < 0 ||
        sluice_listener_address(listener, &bound) < 0)
        return EXIT_FAILURE;
    printf("listening on 127.0.0.1:%u\n", ntohs(((struct sockaddr_in *)&bound)->sin_port));
    fflush(stdout);
    int error = sluice_loop_run(loop);
    sluice_loop_free(loop); /* takes the listener with it */
    sluice_flv_free(flv);
    sluice_pool_free(pool);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
