#include "tls/kernel.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <linux/tls.h>
#include <netinet/in.h>

#include <openssl/crypto.h>

#ifndef SOL_TLS
#define SOL_TLS 282
#endif

static const struct tls_kernel_cipher ciphers[] = {
    {0x1301, TLS_CIPHER_AES_GCM_128, TLS_CIPHER_AES_GCM_128_KEY_SIZE, TLS_CIPHER_AES_GCM_128_SALT_SIZE},
    {0x1302, TLS_CIPHER_AES_GCM_256, TLS_CIPHER_AES_GCM_256_KEY_SIZE, TLS_CIPHER_AES_GCM_256_SALT_SIZE},
    {0x1303, TLS_CIPHER_CHACHA20_POLY1305, TLS_CIPHER_CHACHA20_POLY1305_KEY_SIZE, 0},
};

/* Each of the kernel's structs has these one after the other: vector, key, salt, sequence. */
struct crypto {
    struct tls_crypto_info info;
    uint8_t bytes[TLS_KERNEL_IV + TLS_KERNEL_KEY_MAX + sizeof(uint64_t)];
};

_Static_assert(sizeof(struct tls12_crypto_info_aes_gcm_256) == sizeof(struct crypto), "no padding");
_Static_assert(sizeof(struct tls12_crypto_info_chacha20_poly1305) == sizeof(struct crypto), "no padding");

const struct tls_kernel_cipher *tls_kernel_cipher_of(uint16_t suite) {
    for (size_t i = 0; i < sizeof ciphers / sizeof *ciphers; i++)
        if (ciphers[i].suite == suite)
            return &ciphers[i];
    return NULL;
}

static socklen_t crypto_size(const struct tls_kernel_cipher *cipher) {
    return (socklen_t)(sizeof(struct tls_crypto_info) + TLS_KERNEL_IV + cipher->key + sizeof(uint64_t));
}

int tls_kernel_prepare(int fd) {
    static const char name[] = "tls";
    return setsockopt(fd, IPPROTO_TCP, TCP_ULP, name, sizeof name) == 0 ? 0 : -errno;
}

int tls_kernel_set_key(int fd, const struct tls_kernel_key *key) {
    const struct tls_kernel_cipher *cipher = key->cipher;
    struct crypto crypto = {.info = {.version = TLS_1_3_VERSION, .cipher_type = cipher->type}};
    uint8_t *at = crypto.bytes;
    memcpy(at, key->iv + cipher->salt, TLS_KERNEL_IV - cipher->salt);
    at += TLS_KERNEL_IV - cipher->salt;
    memcpy(at, key->key, cipher->key);
    at += cipher->key;
    memcpy(at, key->iv, cipher->salt);
    at += cipher->salt;
    for (size_t i = 0; i < sizeof key->sequence; i++)
        at[i] = (uint8_t)(key->sequence >> (56 - 8 * i));
    int error = setsockopt(fd, SOL_TLS, TLS_TX, &crypto, crypto_size(cipher)) == 0 ? 0 : -errno;
    OPENSSL_cleanse(&crypto, sizeof crypto);
    return error;
}

int tls_kernel_sequence(int fd, const struct tls_kernel_cipher *cipher, uint64_t *ret_sequence) {
    struct crypto crypto = {0};
    socklen_t size = crypto_size(cipher);
    uint64_t sequence = 0;
    if (getsockopt(fd, SOL_TLS, TLS_TX, &crypto, &size) < 0)
        return -errno;
    const uint8_t *at = (const uint8_t *)&crypto + crypto_size(cipher) - sizeof sequence;
    for (size_t i = 0; i < sizeof sequence; i++)
        sequence = sequence << 8 | at[i];
    OPENSSL_cleanse(&crypto, sizeof crypto);
    *ret_sequence = sequence;
    return 0;
}

int tls_kernel_send(int fd, uint8_t type, const void *bytes, size_t n) {
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(uint8_t))];
    } control = {0};
    struct iovec piece = {(void *)bytes, n};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_TLS;
    header->cmsg_type = TLS_SET_RECORD_TYPE;
    header->cmsg_len = CMSG_LEN(sizeof type);
    *CMSG_DATA(header) = type;
    ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EINTR ? -EAGAIN : -errno;
    return (size_t)sent == n ? 0 : -EIO; /* a few bytes are taken whole */
}

int tls_kernel_given(int fd, uint64_t *ret_bytes) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    int unacknowledged;
    /* In this order: what is acknowledged in between makes it fewer, not more. */
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0 || ioctl(fd, SIOCOUTQ, &unacknowledged) < 0)
        return -errno;
    *ret_bytes = info.tcpi_bytes_acked + (uint64_t)unacknowledged;
    return 0;
}
