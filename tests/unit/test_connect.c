/* Connecting: what comes of it is told once, however it ends, and no socket is left over. */
#include <sluice/connect.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/sockets.h"

enum { GUARD = 60, MANY = 1500 };

/* A client of one connection. */
struct client {
    loop_rig *rig;
    sluice_connector *connector;
    sluice_conn *conn;
    unsigned told; /* calls of on_connected() */
    int error;
    bool closes; /* as soon as it is connected */
    size_t received;
    bool closed;
};

/* A server, whose sockets wait in the backlog. */
struct server {
    int fd;
    socklen_t length;
    struct sockaddr_storage address;
};

static void server_open(struct server *server, int family, int backlog) {
    server->length = family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    server->address = (struct sockaddr_storage){.ss_family = (sa_family_t)family};
    if (family == AF_INET6)
        ((struct sockaddr_in6 *)&server->address)->sin6_addr = in6addr_loopback;
    else
        ((struct sockaddr_in *)&server->address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (family == AF_UNIX) { /* a name that the kernel chooses */
        server->address = (struct sockaddr_storage){.ss_family = AF_UNIX};
        server->length = sizeof(sa_family_t);
    }
    server->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(server->fd >= 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&server->address, server->length), 0);
    assert_int_equal(listen(server->fd, backlog), 0);
    server->length = sizeof server->address;
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)&server->address, &server->length), 0);
}

static sluice_connect_options to(const struct server *server) {
    return (sluice_connect_options){
        .size = sizeof(sluice_connect_options),
        .address = (const struct sockaddr *)&server->address,
        .length = server->length,
    };
}

static unsigned open_descriptors(void) {
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void on_data(sluice_conn *conn, void *user) {
    struct client *client = user;
    client->received = sluice_chain_length(sluice_conn_chain(conn));
}

static void on_closed(sluice_conn *conn, void *user) {
    struct client *client = user;
    assert_ptr_equal(conn, client->conn);
    client->closed = true;
}

static const sluice_conn_events events = {.size = sizeof events, .on_data = on_data, .on_closed = on_closed};

static void on_connected(sluice_conn *conn, int error, void *user) {
    struct client *client = user;
    assert_int_equal(conn == NULL, error != 0);
    client->told++;
    client->error = error;
    client->conn = conn;
    if (client->closes)
        sluice_conn_close(conn);
}

static void begin(struct client *client, loop_rig *rig, const sluice_connect_options *options) {
    client->rig = rig;
    assert_int_equal(sluice_connect(rig->loop, options, &events, on_connected, client, &client->connector), 0);
    assert_int_equal(client->told, 0);
}

static void close_conn(struct client *client) {
    sluice_conn_close(client->conn);
    turn_until(client->rig->loop, &client->closed);
}

static void it_connects_and_receives(void **state) {
    (void)state;
    static const int families[] = {AF_INET, AF_INET6, AF_UNIX};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        unsigned before = open_descriptors();
        loop_rig rig;
        struct server server;
        struct client client = {0};
        server_open(&server, families[i], 16);
        loop_rig_open(&rig, NULL, NULL, GUARD);
        sluice_connect_options options = to(&server);
        options.timeout_ms = 60000;
        begin(&client, &rig, &options);
        turn_until_count(rig.loop, &client.told, 1);
        assert_int_equal(client.error, 0);
        /* As those that are accepted. */
        assert_false(fcntl(sluice_conn_fd(client.conn), F_GETFL) & O_NONBLOCK);
        assert_true(fcntl(sluice_conn_fd(client.conn), F_GETFD) & FD_CLOEXEC);

        int peer = accept(server.fd, NULL, NULL);
        sockets_write(peer, "hello", 5);
        turn_until_size(rig.loop, &client.received, 5);
        close_conn(&client);
        close(peer);
        close(server.fd);
        loop_rig_close(&rig);
        assert_int_equal(open_descriptors(), before);
    }
}

static void it_says_why_not(void **state) {
    (void)state;
    loop_rig rig;
    struct server server;
    struct client tcp = {0}, unix_gone = {0}, out_of_reach = {0};
    loop_rig_open(&rig, NULL, NULL, GUARD);
    unsigned before = open_descriptors();

    /* Bound and not listening: nobody else gets the port. */
    server_open(&server, AF_INET, 1);
    int bound = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    assert_int_equal(bind(bound, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(bound, (struct sockaddr *)&address, &length), 0);
    sluice_connect_options options = to(&server);
    options.address = (struct sockaddr *)&address;
    options.length = length;
    begin(&tcp, &rig, &options);
    turn_until_count(rig.loop, &tcp.told, 1);
    assert_int_equal(tcp.error, -ECONNREFUSED);
    close(bound);

    struct sockaddr_un path = {.sun_family = AF_UNIX, .sun_path = "/nonexistent/socket"};
    options.address = (struct sockaddr *)&path;
    options.length = sizeof path;
    begin(&unix_gone, &rig, &options);
    turn_until_count(rig.loop, &unix_gone.told, 1);
    assert_int_equal(unix_gone.error, -ENOENT);

    /* An address of nobody's network: connect(2) refuses it at once. */
    address.sin_addr.s_addr = htonl(INADDR_BROADCAST);
    options.address = (struct sockaddr *)&address;
    options.length = length;
    begin(&out_of_reach, &rig, &options);
    turn_until_count(rig.loop, &out_of_reach.told, 1);
    assert_true(out_of_reach.error == -ENETUNREACH || out_of_reach.error == -EACCES);

    turn_through(rig.loop, 3);
    assert_int_equal(tcp.told + unix_gone.told + out_of_reach.told, 3);
    close(server.fd);
    assert_true(open_descriptors() <= before);
    loop_rig_close(&rig);
}

/* With its backlog full a socket answers no further SYN: connecting to it goes on. */
static int fill(const struct server *server) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&server->address, server->length), 0);
    sockets_wait_queued(server->fd, 1);
    return fd;
}

static void it_ends_in_time(void **state) {
    (void)state;
    loop_rig rig;
    struct server server;
    struct client client = {0};
    server_open(&server, AF_INET, 0);
    int first = fill(&server);
    loop_rig_open(&rig, NULL, NULL, GUARD);
    unsigned before = open_descriptors();
    sluice_connect_options options = to(&server);
    options.timeout_ms = 30;
    uint64_t began = clock_now();
    begin(&client, &rig, &options);
    turn_until_count(rig.loop, &client.told, 1);
    assert_int_equal(client.error, -ETIMEDOUT);
    assert_true(clock_now() - began >= 30);
    turn_through(rig.loop, 3);
    assert_int_equal(client.told, 1);
    assert_int_equal(open_descriptors(), before);
    loop_rig_close(&rig);
    close(first);
    close(server.fd);
}

static void a_cancelled_one_is_not_told(void **state) {
    (void)state;
    loop_rig rig;
    struct server open, full;
    server_open(&open, AF_INET, 16);
    server_open(&full, AF_INET, 0);
    int first = fill(&full);
    loop_rig_open(&rig, NULL, NULL, GUARD);
    turn_through(rig.loop, 1);
    unsigned before = open_descriptors();
    for (unsigned turns = 0; turns < 6; turns++) {
        struct client clients[2] = {0};
        sluice_connect_options options[2] = {to(&full), to(&open)};
        options[0].timeout_ms = 60000;
        for (int i = 0; i < 2; i++)
            begin(&clients[i], &rig, &options[i]);
        turn_through(rig.loop, turns);
        for (int i = 0; i < 2; i++)
            if (clients[i].told == 0)
                sluice_connect_cancel(clients[i].connector);
        turn_through(rig.loop, 20);
        assert_int_equal(clients[0].told, 0);
        if (clients[1].told == 1)
            close_conn(&clients[1]);
        turn_through(rig.loop, 20);
        assert_int_equal(open_descriptors(), before);
    }
    sluice_connect_cancel(NULL);
    loop_rig_close(&rig);
    close(first);
    close(open.fd);
    close(full.fd);
}

static void a_loop_that_goes_tells_it(void **state) {
    (void)state;
    for (unsigned turns = 0; turns < 3; turns++) {
        loop_rig rig;
        struct server server;
        struct client waits = {0}, local = {0};
        unsigned before = open_descriptors();
        server_open(&server, AF_INET, 0);
        int first = fill(&server);
        loop_rig_open(&rig, NULL, NULL, GUARD);
        sluice_connect_options options = to(&server);
        begin(&waits, &rig, &options);
        begin(&local, &rig, &options);
        turn_through(rig.loop, turns);
        assert_int_equal(waits.told, 0);
        loop_rig_close(&rig);
        assert_int_equal(waits.told, 1);
        assert_int_equal(waits.error, -ECANCELED);
        assert_int_equal(local.error, -ECANCELED);
        close(first);
        close(server.fd);
        assert_int_equal(open_descriptors(), before);
    }
}

static void it_comes_from_where_it_is_to(void **state) {
    (void)state;
    loop_rig rig;
    struct server server;
    struct client client = {0};
    server_open(&server, AF_INET, 16);
    loop_rig_open(&rig, NULL, NULL, GUARD);
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)}, seen;
    socklen_t length = sizeof seen;
    sluice_connect_options options = to(&server);
    options.local = (struct sockaddr *)&local;
    options.local_length = sizeof local;
    begin(&client, &rig, &options);
    turn_until_count(rig.loop, &client.told, 1);
    assert_int_equal(client.error, 0);
    int peer = accept(server.fd, (struct sockaddr *)&seen, &length);
    assert_int_equal(ntohl(seen.sin_addr.s_addr), INADDR_LOOPBACK + 1);
    close_conn(&client);

    /* An address that is not this machine's. */
    local.sin_addr.s_addr = htonl(0xC6336401);
    assert_int_equal(sluice_connect(rig.loop, &options, &events, on_connected, &client, NULL), -EADDRNOTAVAIL);
    close(peer);
    close(server.fd);
    loop_rig_close(&rig);
}

/* The next one is begun where the last one is told, as with the addresses of a name. */
struct addresses {
    loop_rig *rig;
    sluice_connect_options next;
    int first_error;
    unsigned told;
    sluice_conn *conn;
};

static const sluice_conn_events silent = {.size = sizeof silent};

static void try_next(sluice_conn *conn, int error, void *user) {
    struct addresses *addresses = user;
    if (addresses->told++ == 0) {
        addresses->first_error = error;
        assert_int_equal(sluice_connect(addresses->rig->loop, &addresses->next, &silent, try_next, user, NULL), 0);
    }
    addresses->conn = conn;
}

static void the_next_address_follows(void **state) {
    (void)state;
    loop_rig rig;
    struct server server;
    server_open(&server, AF_INET, 16);
    loop_rig_open(&rig, NULL, NULL, GUARD);
    struct sockaddr_un nobody = {.sun_family = AF_UNIX, .sun_path = "/nonexistent/socket"};
    struct addresses addresses = {.rig = &rig, .next = to(&server)};
    sluice_connect_options first = {
        .size = sizeof first, .address = (struct sockaddr *)&nobody, .length = sizeof nobody};
    assert_int_equal(sluice_connect(rig.loop, &first, &silent, try_next, &addresses, NULL), 0);
    turn_until_count(rig.loop, &addresses.told, 2);
    assert_int_equal(addresses.first_error, -ENOENT);
    assert_non_null(addresses.conn);
    close(server.fd);
    loop_rig_close(&rig);
}

/* More than there is room for before the first turn; each is closed as soon as it is there. */
static void many_at_once(void **state) {
    (void)state;
    static struct client clients[MANY];
    loop_rig rig;
    struct server server;
    assert_true(sockets_allow(2 * MANY + 100));
    server_open(&server, AF_INET, 4096);
    loop_rig_open(&rig, NULL, NULL, GUARD);
    sluice_connect_options options = to(&server);
    for (unsigned i = 0; i < MANY; i++) {
        clients[i] = (struct client){.closes = true};
        begin(&clients[i], &rig, &options);
    }
    for (unsigned i = 0; i < MANY; i++) {
        turn_until_count(rig.loop, &clients[i].told, 1);
        assert_int_equal(clients[i].error, 0);
        turn_until(rig.loop, &clients[i].closed);
        assert_int_equal(clients[i].told, 1);
    }
    close(server.fd);
    loop_rig_close(&rig);
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    loop_rig rig;
    struct server server;
    struct client client = {0};
    server_open(&server, AF_INET, 16);
    loop_rig_open(&rig, NULL, NULL, GUARD);
    unsigned before = open_descriptors();
    const sluice_connect_options good = to(&server);
    sluice_connect_options bad[] = {good, good, good, good, good};
    bad[0].size = 0;
    bad[1].address = NULL;
    bad[2].length = 1;
    bad[3].length = sizeof(struct sockaddr_storage) + 1;
    bad[4].local = good.address;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(sluice_connect(rig.loop, &bad[i], &events, on_connected, &client, NULL), -EINVAL);
    assert_int_equal(sluice_connect(rig.loop, NULL, &events, on_connected, &client, NULL), -EINVAL);
    assert_int_equal(sluice_connect(rig.loop, &good, NULL, on_connected, &client, NULL), -EINVAL);
    assert_int_equal(sluice_connect(rig.loop, &good, &events, NULL, &client, NULL), -EINVAL);
    struct sockaddr unknown = {.sa_family = AF_MAX};
    sluice_connect_options strange = {.size = sizeof strange, .address = &unknown, .length = sizeof unknown};
    assert_int_equal(sluice_connect(rig.loop, &strange, &events, on_connected, &client, NULL), -EAFNOSUPPORT);
    turn_through(rig.loop, 3);
    assert_int_equal(client.told, 0);
    assert_int_equal(open_descriptors(), before);
    close(server.fd);
    loop_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_connects_and_receives),
        cmocka_unit_test(it_says_why_not),
        cmocka_unit_test(it_ends_in_time),
        cmocka_unit_test(a_cancelled_one_is_not_told),
        cmocka_unit_test(a_loop_that_goes_tells_it),
        cmocka_unit_test(it_comes_from_where_it_is_to),
        cmocka_unit_test(the_next_address_follows),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests_name("connect", tests, NULL, NULL);
}
