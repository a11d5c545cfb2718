/* The keys of session tickets (RFC 5077, RFC 8446 4.6.1), which rotate and exist in memory only. */
#ifndef SLUICE_TLS_TICKETS_H
#define SLUICE_TLS_TICKETS_H

#include <stdint.h>

#include <openssl/ssl.h>

typedef struct tls_tickets tls_tickets;

/* With a first key and one reference. 0, -ENOMEM */
int tls_tickets_new(uint32_t seconds, tls_tickets **ret_tickets);
tls_tickets *tls_tickets_ref(tls_tickets *tickets);
void tls_tickets_unref(tls_tickets *tickets);

/* A new key; the previous one still decrypts. Any thread. 0, -ENOMEM (no random numbers) */
int tls_tickets_rotate(tls_tickets *tickets);

/* OpenSSL's question for a key. 1: it is set, 2: and the ticket is to be renewed, 0: there is none,
 * -1: failure */
int tls_tickets_key(tls_tickets *tickets, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                    EVP_MAC_CTX *mac, int encrypt);

#endif
