#include "tls/kernel_probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tls/kernel.h"

enum {
    HEADER = 5,
    TAG = 16,
    PATIENCE_MS = 1000, /* over loopback there is no wait */
    FIRST_SEQUENCE = 5, /* of the first key: not what the kernel would begin with */
    SUITE = 0x1301,     /* AES-128-GCM, which every client has */
    TEXT = 32,          /* bytes of a record of the probe, at most */
};

struct pair {
    int sender, receiver;
};

static int listen_locally(struct sockaddr_in *ret_address) {
    socklen_t size = sizeof *ret_address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *ret_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd >= 0 && bind(fd, (struct sockaddr *)ret_address, size) == 0 && listen(fd, 1) == 0 &&
        getsockname(fd, (struct sockaddr *)ret_address, &size) == 0)
        return fd;
    int error = -errno;
    if (fd >= 0)
        close(fd);
    return error;
}

static void close_pair(const struct pair *pair) {
    if (pair->sender >= 0)
        close(pair->sender);
    if (pair->receiver >= 0)
        close(pair->receiver);
}

/* A socket of anyone else's that connects meanwhile is not taken for ours. */
static bool is_ours(const struct pair *pair) {
    struct sockaddr_in local = {0}, peer = {0};
    socklen_t local_size = sizeof local, peer_size = sizeof peer;
    return getsockname(pair->receiver, (struct sockaddr *)&local, &local_size) == 0 &&
           getpeername(pair->sender, (struct sockaddr *)&peer, &peer_size) == 0 && local.sin_port == peer.sin_port &&
           local.sin_addr.s_addr == peer.sin_addr.s_addr;
}

static int open_pair(struct pair *ret_pair) {
    struct sockaddr_in address;
    struct pair pair = {-1, -1};
    int listener = listen_locally(&address);
    if (listener < 0)
        return listener;
    pair.receiver = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (pair.receiver < 0 || connect(pair.receiver, (struct sockaddr *)&address, sizeof address) < 0 ||
        (pair.sender = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0) {
        int error = -errno;
        close_pair(&pair);
        close(listener);
        return error;
    }
    close(listener);
    if (!is_ours(&pair)) {
        close_pair(&pair);
        return -EAGAIN;
    }
    *ret_pair = pair;
    return 0;
}

/* All @n bytes. 0, or an error */
static int read_all(int fd, uint8_t *bytes, size_t n) {
    for (size_t done = 0; done < n;) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        if (poll(&poller, 1, PATIENCE_MS) <= 0)
            return -ETIMEDOUT;
        ssize_t here = recv(fd, bytes + done, n - done, MSG_DONTWAIT);
        if (here <= 0)
            return -EPROTO;
        done += (size_t)here;
    }
    return 0;
}

/* The record's number is xored into the vector (RFC 8446, 5.3). False: it is forged. */
static bool decrypt(const struct tls_kernel_key *key, uint64_t sequence, const uint8_t *record, size_t n,
                    uint8_t *plain) {
    uint8_t vector[TLS_KERNEL_IV];
    int length = 0, rest = 0;
    memcpy(vector, key->iv, sizeof vector);
    for (size_t i = 0; i < sizeof sequence; i++)
        vector[sizeof vector - 1 - i] ^= (uint8_t)(sequence >> (8 * i));
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    bool good = context && EVP_DecryptInit_ex2(context, EVP_aes_128_gcm(), key->key, vector, NULL) == 1 &&
                EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, TAG, (void *)(record + HEADER + n)) == 1 &&
                EVP_DecryptUpdate(context, NULL, &length, record, HEADER) == 1 &&
                EVP_DecryptUpdate(context, plain, &length, record + HEADER, (int)n) == 1 &&
                EVP_DecryptFinal_ex(context, plain + length, &rest) == 1;
    EVP_CIPHER_CTX_free(context);
    return good;
}

/* Whether the next record is this one. 0, or an error */
static int expect(int fd, const struct tls_kernel_key *key, uint64_t sequence, uint8_t type, const char *text) {
    uint8_t record[HEADER + TEXT + 1 + TAG], plain[TEXT + 1];
    size_t n = strlen(text) + 1; /* with its type */
    const uint8_t header[HEADER] = {TLS_KERNEL_DATA, 3, 3, 0, (uint8_t)(n + TAG)};
    int error = read_all(fd, record, HEADER + n + TAG);
    if (error)
        return error;
    bool same = memcmp(record, header, HEADER) == 0 && decrypt(key, sequence, record, n, plain) &&
                memcmp(plain, text, n - 1) == 0 && plain[n - 1] == type;
    return same ? 0 : -EPROTO;
}

/* Data, and a record of another type behind it, under a key that the socket has. */
static int try_records(const struct pair *pair, const struct tls_kernel_key *key) {
    static const char data[] = "data", handshake[] = "handshake";
    uint64_t before, after, sequence = key->sequence;
    int error = tls_kernel_given(pair->sender, &before);
    if (!error && send(pair->sender, data, strlen(data), MSG_NOSIGNAL) != (ssize_t)strlen(data))
        error = -EIO;
    if (!error)
        error = tls_kernel_send(pair->sender, TLS_KERNEL_HANDSHAKE, handshake, strlen(handshake));
    if (!error)
        error = expect(pair->receiver, key, sequence, TLS_KERNEL_DATA, data);
    if (!error)
        error = expect(pair->receiver, key, sequence + 1, TLS_KERNEL_HANDSHAKE, handshake);
    if (!error)
        error = tls_kernel_given(pair->sender, &after);
    if (!error && after - before != strlen(data) + strlen(handshake) + 2 * (size_t)TLS_KERNEL_OVERHEAD)
        error = -EPROTO;
    if (!error)
        error = tls_kernel_sequence(pair->sender, key->cipher, &sequence);
    return error ? error : sequence == key->sequence + 2 ? 0 : -EPROTO;
}

static void try_all(const struct pair *pair, sluice_tls_kernel_info *info) {
    struct tls_kernel_key key = {.cipher = tls_kernel_cipher_of(SUITE), .sequence = FIRST_SEQUENCE};
    memset(key.key, 0x5A, sizeof key.key);
    memset(key.iv, 0xA5, sizeof key.iv);
    info->step = "TCP_ULP";
    info->error = tls_kernel_prepare(pair->sender);
    if (info->error)
        return;
    info->step = "TLS_TX";
    info->error = tls_kernel_set_key(pair->sender, &key);
    if (info->error)
        return;
    info->step = "records";
    info->error = try_records(pair, &key);
    if (info->error)
        return;
    info->sends = true;
    key.sequence = 0;
    memset(key.key, 0x3C, sizeof key.key);
    info->step = "key change";
    info->error = tls_kernel_set_key(pair->sender, &key);
    if (!info->error)
        info->error = try_records(pair, &key);
    info->changes_keys = !info->error;
}

void tls_kernel_probe(sluice_tls_kernel_info *ret_info) {
    struct pair pair;
    *ret_info = (sluice_tls_kernel_info){.step = "loopback connection"};
    ret_info->error = open_pair(&pair);
    if (ret_info->error)
        return;
    try_all(&pair, ret_info);
    close_pair(&pair);
    if (!ret_info->error)
        ret_info->step = NULL;
}
