#include "tls/tickets.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

enum { NAME = 16, SECRET = 32 };

struct key {
    unsigned char name[NAME];
    unsigned char cipher[SECRET];
    unsigned char mac[SECRET];
    uint64_t made; /* seconds */
    bool exists;
};

struct tls_tickets {
    atomic_uint refs;
    uint32_t seconds;
    pthread_mutex_t lock; /* of the keys: a handshake holds it while it copies one */
    struct key current, previous;
};

/* Time asleep counts: a key does not get older than it may. */
static uint64_t seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec;
}

static int make_key(struct key *ret_key) {
    struct key key = {.made = seconds_now(), .exists = true};
    if (RAND_bytes(key.name, sizeof key.name) != 1 || RAND_priv_bytes(key.cipher, sizeof key.cipher) != 1 ||
        RAND_priv_bytes(key.mac, sizeof key.mac) != 1)
        return -ENOMEM;
    *ret_key = key;
    OPENSSL_cleanse(&key, sizeof key);
    return 0;
}

int tls_tickets_new(uint32_t seconds, tls_tickets **ret_tickets) {
    tls_tickets *tickets = calloc(1, sizeof *tickets);
    if (!tickets)
        return -ENOMEM;
    tickets->seconds = seconds;
    atomic_init(&tickets->refs, 1);
    int error = make_key(&tickets->current);
    if (!error)
        error = -pthread_mutex_init(&tickets->lock, NULL);
    if (error) {
        free(tickets);
        return error;
    }
    *ret_tickets = tickets;
    return 0;
}

tls_tickets *tls_tickets_ref(tls_tickets *tickets) {
    atomic_fetch_add_explicit(&tickets->refs, 1, memory_order_relaxed);
    return tickets;
}

void tls_tickets_unref(tls_tickets *tickets) {
    if (!tickets || atomic_fetch_sub_explicit(&tickets->refs, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&tickets->lock);
    OPENSSL_cleanse(tickets, sizeof *tickets);
    free(tickets);
}

/* With the lock. */
static int rotate(tls_tickets *tickets) {
    struct key key;
    int error = make_key(&key);
    if (error)
        return error;
    tickets->previous = tickets->current;
    tickets->current = key;
    OPENSSL_cleanse(&key, sizeof key);
    return 0;
}

int tls_tickets_rotate(tls_tickets *tickets) {
    pthread_mutex_lock(&tickets->lock);
    int error = rotate(tickets);
    pthread_mutex_unlock(&tickets->lock);
    return error;
}

/* With the lock: keys that are too old go. */
static void expire(tls_tickets *tickets) {
    uint64_t now = seconds_now();
    if (now - tickets->current.made >= tickets->seconds && rotate(tickets) < 0)
        return; /* the next handshake tries again */
    if (tickets->previous.exists && now - tickets->previous.made >= 2 * (uint64_t)tickets->seconds) {
        OPENSSL_cleanse(&tickets->previous, sizeof tickets->previous);
        tickets->previous.exists = false;
    }
}

/* A copy of the key that encrypts, or that a ticket names. 1, 2: the previous one, 0: none */
static int find(tls_tickets *tickets, const unsigned char *name, struct key *ret_key) {
    int found = 0;
    pthread_mutex_lock(&tickets->lock);
    expire(tickets);
    if (!name || memcmp(name, tickets->current.name, NAME) == 0) {
        *ret_key = tickets->current;
        found = 1;
    } else if (tickets->previous.exists && memcmp(name, tickets->previous.name, NAME) == 0) {
        *ret_key = tickets->previous;
        found = 2;
    }
    pthread_mutex_unlock(&tickets->lock);
    return found;
}

static bool set_mac(EVP_MAC_CTX *mac, struct key *key) {
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key->mac, sizeof key->mac),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    return EVP_MAC_CTX_set_params(mac, params) == 1;
}

/* AES-256-CBC with HMAC-SHA-256, as RFC 5077 recommends; OpenSSL appends and verifies the MAC. */
int tls_tickets_key(tls_tickets *tickets, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                    EVP_MAC_CTX *mac, int encrypt) {
    struct key key;
    const EVP_CIPHER *aes = EVP_aes_256_cbc();
    int found = find(tickets, encrypt ? NULL : name, &key);
    if (found == 0)
        return 0;
    bool set = false;
    if (encrypt) {
        memcpy(name, key.name, NAME);
        set = RAND_bytes(iv, EVP_CIPHER_get_iv_length(aes)) == 1 &&
              EVP_EncryptInit_ex(cipher, aes, NULL, key.cipher, iv) == 1;
    } else {
        set = EVP_DecryptInit_ex(cipher, aes, NULL, key.cipher, iv) == 1;
    }
    set = set && set_mac(mac, &key);
    OPENSSL_cleanse(&key, sizeof key);
    return set ? found : -1;
}
