#include "daemon/control/connector.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/control/resolver.h"
#include "daemon/control/wakeup.h"
#include "daemon/tls/tls_client.h"
#include "shared/clock.h"

enum { ADDRESS_MS = 3000, RETRY_MS = 100 };

/* A job in progress: taken -> looked up -> one address tried after the other -> returned. */
struct attempt {
    struct connector *connector;
    struct attempt *next;
    struct connect_job *job;
    struct addrinfo *addresses, *at; /* all, and the one that is tried next */
    struct event *event;             /* of the socket; NULL before the first */
    int fd;                          /* that is connecting; or -1 */
    int error;                       /* of the last address */
    uint64_t deadline;               /* milliseconds */
};

struct connector {
    struct event_base *base;
    struct tls_client *tls;
    struct wakeup wakeup;
    struct resolver *resolver;
    struct attempt *attempts; /* the control plane's: all that are on their way */

    pthread_mutex_t lock; /* of the field below */
    struct attempt *taken;
};

static void try_next(struct attempt *attempt);

static void free_attempt(struct attempt *attempt) {
    if (attempt->event)
        event_free(attempt->event);
    if (attempt->fd >= 0)
        close(attempt->fd);
    if (attempt->addresses)
        freeaddrinfo(attempt->addresses);
    free(attempt);
}

static void remove_attempt(struct attempt *attempt) {
    struct attempt **link = &attempt->connector->attempts;
    while (*link != attempt)
        link = &(*link)->next;
    *link = attempt->next;
    free_attempt(attempt);
}

static void come_back(void *user) {
    struct connect_job *job = user;
    job->done(job);
}

static void on_event(evutil_socket_t fd, short what, void *user);

/* A new event for the attempt. False without memory. */
static bool watch(struct attempt *attempt, short what, long ms) {
    const struct timeval time = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    if (attempt->event)
        event_free(attempt->event);
    attempt->event = event_new(attempt->connector->base, attempt->fd, what, on_event, attempt);
    return attempt->event && event_add(attempt->event, &time) == 0;
}

/* The job goes back, with the socket or the error. Without memory for that it is tried again, as
 * long as it takes. */
static void give_back(struct attempt *attempt) {
    struct connect_job *job = attempt->job;
    if (attempt->error && attempt->fd >= 0)
        close(attempt->fd);
    job->fd = attempt->error ? -1 : attempt->fd;
    job->error = attempt->error;
    attempt->fd = -1;
    /* Once it is posted, job and socket are the data plane's. */
    if (sluice_loop_post(job->loop, come_back, job) == 0) {
        remove_attempt(attempt);
        return;
    }
    if (job->fd >= 0)
        close(job->fd);
    sluice_tls_context_unref(job->context);
    job->context = NULL;
    attempt->error = attempt->error ? attempt->error : -ENOMEM;
    (void)watch(attempt, EV_TIMEOUT, RETRY_MS);
}

static long milliseconds_left(const struct attempt *attempt) {
    uint64_t now = clock_ms();
    return now < attempt->deadline ? (long)(attempt->deadline - now) : 0;
}

static void connected(struct attempt *attempt) {
    struct connect_job *job = attempt->job;
    const struct tls_client_target target = {
        .host = job->host, .port = job->port, .alpn = job->alpn, .sends_media = job->sends_media};
    int flags = fcntl(attempt->fd, F_GETFL);
    attempt->error = flags < 0 || fcntl(attempt->fd, F_SETFL, flags & ~O_NONBLOCK) < 0 ? -errno : 0;
    if (!attempt->error && job->is_secure)
        attempt->error = tls_client_find(attempt->connector->tls, &target, &job->context);
    give_back(attempt);
}

/* The socket has connected, or failed, or the address's time is over; or the job could not be given
 * back before. */
static void on_event(evutil_socket_t fd, short what, void *user) {
    struct attempt *attempt = user;
    int error = ETIMEDOUT;
    socklen_t size = sizeof error;
    if (fd < 0) {
        give_back(attempt);
        return;
    }
    if (what & EV_WRITE && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (!error) {
        connected(attempt);
        return;
    }
    attempt->error = -error;
    try_next(attempt);
}

/* The next address, one at a time, in the order that the resolver prefers. */
static void try_next(struct attempt *attempt) {
    if (attempt->event)
        event_free(attempt->event);
    attempt->event = NULL;
    for (;;) {
        if (attempt->fd >= 0)
            close(attempt->fd);
        attempt->fd = -1;
        const struct addrinfo *address = attempt->at;
        long left = milliseconds_left(attempt);
        if (!address || left == 0) {
            give_back(attempt);
            return;
        }
        attempt->at = address->ai_next;
        attempt->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (attempt->fd < 0) {
            attempt->error = -errno;
            continue;
        }
        memcpy(&attempt->job->address, address->ai_addr, address->ai_addrlen);
        if (connect(attempt->fd, address->ai_addr, address->ai_addrlen) == 0) {
            connected(attempt);
            return;
        }
        attempt->error = errno == EINPROGRESS ? 0 : -errno;
        bool last = !attempt->at;
        if (!attempt->error && watch(attempt, EV_WRITE, last || left < ADDRESS_MS ? left : ADDRESS_MS))
            return;
        if (!attempt->error)
            attempt->error = -ENOMEM;
    }
}

static void try_all(struct attempt *attempt, struct addrinfo *addresses) {
    attempt->addresses = attempt->at = addresses;
    attempt->error = addresses ? -ETIMEDOUT : -ENOENT;
    try_next(attempt);
}

static void begin(struct attempt *attempt) {
    struct connector *connector = attempt->connector;
    attempt->next = connector->attempts;
    connector->attempts = attempt;
    struct addrinfo *numeric = resolver_numeric(attempt->job->host, attempt->job->port);
    if (numeric) {
        try_all(attempt, numeric);
        return;
    }
    attempt->error = resolver_start(connector->resolver, attempt->job->host, attempt->job->port, attempt);
    if (attempt->error)
        give_back(attempt);
}

static void on_wake(void *user) {
    struct connector *connector = user;
    pthread_mutex_lock(&connector->lock);
    struct attempt *taken = connector->taken;
    connector->taken = NULL;
    pthread_mutex_unlock(&connector->lock);
    while (taken) {
        struct attempt *attempt = taken;
        taken = attempt->next;
        begin(attempt);
    }
    void *of;
    struct addrinfo *addresses;
    while (resolver_next(connector->resolver, &of, &addresses))
        try_all(of, addresses);
}

void connector_take(void *user, struct connect_job *job) {
    struct connector *connector = user;
    struct attempt *attempt = calloc(1, sizeof *attempt);
    job->fd = -1;
    job->context = NULL;
    if (!attempt) {
        job->error = -ENOMEM;
        job->done(job);
        return;
    }
    *attempt = (struct attempt){.connector = connector, .job = job, .fd = -1, .deadline = clock_ms() + CONNECT_MS};
    pthread_mutex_lock(&connector->lock);
    attempt->next = connector->taken;
    connector->taken = attempt;
    pthread_mutex_unlock(&connector->lock);
    wakeup_notify(&connector->wakeup);
}

int connector_new(struct event_base *base, struct tls_client *tls, struct connector **ret_connector) {
    struct connector *connector = calloc(1, sizeof *connector);
    if (!connector)
        return -ENOMEM;
    *connector = (struct connector){.base = base, .tls = tls, .lock = PTHREAD_MUTEX_INITIALIZER};
    int error = wakeup_init(&connector->wakeup, base, on_wake, connector);
    if (!error)
        error = resolver_new(&connector->wakeup, &connector->resolver);
    if (error) {
        connector_free(connector);
        return error;
    }
    *ret_connector = connector;
    return 0;
}

static void free_attempts(struct attempt *attempts) {
    while (attempts) {
        struct attempt *attempt = attempts;
        attempts = attempt->next;
        free_attempt(attempt);
    }
}

void connector_free(struct connector *connector) {
    if (!connector)
        return;
    resolver_close(connector->resolver);
    free_attempts(connector->taken);
    free_attempts(connector->attempts);
    wakeup_clear(&connector->wakeup);
    pthread_mutex_destroy(&connector->lock);
    free(connector);
}
