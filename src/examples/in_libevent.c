/*
 * example: a loop inside libevent
 *
 * in_libevent counts the bytes that arrive on one port, and answers HTTP requests on another with
 * the count. The connections are Sluice's, the HTTP server and the signals are libevent's, and all
 * of it is one thread.
 */
#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <signal.h>
#include <sluice/libevent.h>
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>

struct program {
    struct event_base *base;
    struct event *interrupt;
    struct event *terminate;
    struct evhttp *http;
    sluice_pool *pool;
    sluice_loop *loop;
    sluice_libevent *place; /* of the loop in the base */
    uint64_t bytes;
};

static void on_data(sluice_conn *conn, void *user) {
    struct program *program = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    program->bytes += sluice_chain_skip(chain, sluice_chain_length(chain));
}
static void on_end(sluice_conn *conn, int error, void *user) {
    sluice_conn_close(conn);
}
static const sluice_conn_events events = {.size = sizeof events, .on_data = on_data, .on_end = on_end};

static void on_accepted(sluice_listener *listener, int fd, void *user) {
    struct program *program = user;
    sluice_conn *conn;
    if (sluice_conn_new(program->loop, fd, &events, program, &conn) < 0)
        evutil_closesocket(fd);
}

static void on_request(struct evhttp_request *request, void *user) {
    const struct program *program = user;
    struct evbuffer *text = evbuffer_new();
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(program->loop, &stats);
    if (text && evbuffer_add_printf(text, "%llu bytes, %u connections, by %s\n", (unsigned long long)program->bytes,
                                    stats.connections, stats.backend) > 0)
        evhttp_send_reply(request, HTTP_OK, "OK", text);
    else
        evhttp_send_error(request, HTTP_SERVUNAVAIL, NULL);
    if (text)
        evbuffer_free(text);
}

static void on_signal(evutil_socket_t number, short what, void *user) {
    event_base_loopbreak(user);
}

static int open_ports(struct program *program) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage input;
    sluice_listener *listener;
    if (sluice_listener_new(program->loop, (struct sockaddr *)&address, sizeof address, on_accepted, program,
                            &listener) < 0 ||
        sluice_listener_address(listener, &input) < 0)
        return -1;
    struct evhttp_bound_socket *bound = evhttp_bind_socket_with_handle(program->http, "127.0.0.1", 0);
    socklen_t length = sizeof address;
    if (!bound || getsockname(evhttp_bound_socket_get_fd(bound), (struct sockaddr *)&address, &length) < 0)
        return -1;
    evhttp_set_gencb(program->http, on_request, program);
    printf("counting on 127.0.0.1:%u, http://127.0.0.1:%u/\n", ntohs(((struct sockaddr_in *)&input)->sin_port),
           ntohs(address.sin_port));
    fflush(stdout);
    return 0;
}

int main(void) {
    struct program program = {.base = event_base_new()};
    if (!program.base || sluice_pool_new(NULL, &program.pool) < 0 ||
        sluice_loop_new(program.pool, NULL, &program.loop) < 0 ||
        sluice_libevent_attach(program.loop, program.base, &program.place) < 0)
        return EXIT_FAILURE;
    program.http = evhttp_new(program.base);
    program.interrupt = evsignal_new(program.base, SIGINT, on_signal, program.base);
    program.terminate = evsignal_new(program.base, SIGTERM, on_signal, program.base);
    if (!program.http || !program.interrupt || !program.terminate || event_add(program.interrupt, NULL) < 0 ||
        event_add(program.terminate, NULL) < 0 || open_ports(&program) < 0)
        return EXIT_FAILURE;
    int result = event_base_dispatch(program.base);
    sluice_libevent_free(program.place); /* before the loop and the base */
    sluice_loop_free(program.loop);      /* takes its listener and connections with it */
    sluice_pool_free(program.pool);
    evhttp_free(program.http);
    event_free(program.interrupt);
    event_free(program.terminate);
    event_base_free(program.base);
    return result < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
