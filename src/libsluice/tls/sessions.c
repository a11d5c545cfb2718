#include "tls/sessions.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <time.h>

#include "tls/verify.h"

/* Servers send two tickets of TLS 1.3 for each connection: more are of no use to one client. */
enum { OF_A_SERVER = 2 };

struct entry {
    TAILQ_ENTRY(entry) link;
    struct tls_session_key key;
    SSL_SESSION *session;
};

struct tls_sessions {
    pthread_mutex_t lock;
    size_t count, most;
    TAILQ_HEAD(entries, entry) entries; /* the newest first */
};

static bool is_same(const struct tls_session_key *a, const struct tls_session_key *b) {
    return a->port == b->port && strcasecmp(a->name, b->name) == 0;
}

/* Whether the server may still know it, and its certificates would still be accepted. */
static bool is_valid(SSL_SESSION *session) {
    int64_t age = (int64_t)time(NULL) - SSL_SESSION_get_time(session);
    int64_t hint = (int64_t)SSL_SESSION_get_ticket_lifetime_hint(session); /* 0: none */
    return SSL_SESSION_is_resumable(session) && age >= 0 && age < SSL_SESSION_get_timeout(session) &&
           (hint == 0 || age < hint) && !tls_verify_has_expired(session);
}

/* With the lock, as the ones below. */
static void unlink_entry(tls_sessions *sessions, struct entry *entry) {
    TAILQ_REMOVE(&sessions->entries, entry, link);
    sessions->count--;
    SSL_SESSION_free(entry->session);
    free(entry);
}

/* Leaves so many of a server's. */
static void leave(tls_sessions *sessions, const struct tls_session_key *key, size_t left) {
    struct entry *entry = TAILQ_FIRST(&sessions->entries);
    while (entry) {
        struct entry *next = TAILQ_NEXT(entry, link);
        if (is_same(&entry->key, key)) {
            if (left == 0)
                unlink_entry(sessions, entry);
            else
                left--;
        }
        entry = next;
    }
}

int tls_sessions_new(size_t most, tls_sessions **ret_sessions) {
    tls_sessions *sessions = calloc(1, sizeof *sessions);
    if (!sessions)
        return -ENOMEM;
    int error = -pthread_mutex_init(&sessions->lock, NULL);
    if (error) {
        free(sessions);
        return error;
    }
    sessions->most = most;
    TAILQ_INIT(&sessions->entries);
    *ret_sessions = sessions;
    return 0;
}

void tls_sessions_free(tls_sessions *sessions) {
    if (!sessions)
        return;
    while (!TAILQ_EMPTY(&sessions->entries))
        unlink_entry(sessions, TAILQ_FIRST(&sessions->entries));
    pthread_mutex_destroy(&sessions->lock);
    free(sessions);
}

void tls_sessions_put(tls_sessions *sessions, const struct tls_session_key *key, SSL_SESSION *session) {
    struct entry *entry = *key->name && is_valid(session) ? malloc(sizeof *entry) : NULL;
    /* OpenSSL spoils that of a connection that is closed without close_notify, which says nothing
     * of the session since TLS 1.1. */
    SSL_SESSION *own = entry ? SSL_SESSION_dup(session) : NULL;
    if (!own) {
        free(entry);
        return;
    }
    *entry = (struct entry){.key = *key, .session = own};
    pthread_mutex_lock(&sessions->lock);
    leave(sessions, key, OF_A_SERVER - 1);
    TAILQ_INSERT_HEAD(&sessions->entries, entry, link);
    if (++sessions->count > sessions->most)
        unlink_entry(sessions, TAILQ_LAST(&sessions->entries, entries));
    pthread_mutex_unlock(&sessions->lock);
}

static SSL_SESSION *find(tls_sessions *sessions, const struct tls_session_key *key) {
    struct entry *entry, *next;
    for (entry = TAILQ_FIRST(&sessions->entries); entry; entry = next) {
        next = TAILQ_NEXT(entry, link);
        if (!is_same(&entry->key, key))
            continue;
        SSL_SESSION *session = is_valid(entry->session) ? SSL_SESSION_dup(entry->session) : NULL;
        if (!session || SSL_SESSION_get_protocol_version(session) >= TLS1_3_VERSION)
            unlink_entry(sessions, entry);
        if (session)
            return session;
    }
    return NULL;
}

SSL_SESSION *tls_sessions_take(tls_sessions *sessions, const struct tls_session_key *key) {
    if (!*key->name)
        return NULL;
    pthread_mutex_lock(&sessions->lock);
    SSL_SESSION *session = find(sessions, key);
    pthread_mutex_unlock(&sessions->lock);
    return session;
}

void tls_sessions_drop(tls_sessions *sessions, const struct tls_session_key *key) {
    pthread_mutex_lock(&sessions->lock);
    leave(sessions, key, 0);
    pthread_mutex_unlock(&sessions->lock);
}
