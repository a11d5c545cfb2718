/*
 * The handshake. Both ends send a version byte and a block of 1536 bytes (C0 C1, S0 S1), and then
 * answer the peer's block with another (C2, S2): its echo, or, with digests, random bytes and a
 * digest that shows that the peer's has been read.
 */
#include <sluice/rtmp.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "abi/sized.h"
#include "memory/chain.h"
#include "reader/cursor.h"

enum {
    VERSION = 3,
    LAST_VERSION = 31, /* the specification: what follows is text of another protocol */
    BLOCK = 1536,
    VERSION_AT = 4, /* in the block: zero without digests */
    RANDOM_AT = 8,
    EARLY_AT = 8, /* four bytes whose sum says where the digest is */
    LATE_AT = 772,
    OFFSET_SIZE = 4,
    OFFSETS = 728, /* the sum is taken modulo this */
    SIGNED = BLOCK - SLUICE_RTMP_DIGEST_SIZE,

    PLAYER_NAME = 30, /* bytes of the key that sign the first block; all of it the second */
    PLAYER_KEY = 62,
    SERVER_NAME = 36,
    SERVER_KEY = 68,
};

/* Public constants: they protect nothing. */
static const uint8_t player_key[PLAYER_KEY] = "Genuine Adobe Flash Player 001"
                                              "\xF0\xEE\xC2\x4A\x80\x68\xBE\xE8\x2E\x00\xD0\xD1\x02\x9E\x7E\x57"
                                              "\x6E\xEC\x5D\x2D\x29\x80\x6F\xAB\x93\xB8\xE6\x36\xCF\xEB\x31\xAE";
static const uint8_t server_key[SERVER_KEY] = "Genuine Adobe Flash Media Server 001"
                                              "\xF0\xEE\xC2\x4A\x80\x68\xBE\xE8\x2E\x00\xD0\xD1\x02\x9E\x7E\x57"
                                              "\x6E\xEC\x5D\x2D\x29\x80\x6F\xAB\x93\xB8\xE6\x36\xCF\xEB\x31\xAE";

/* What peers take for versions that know digests. */
static const uint8_t player_version[] = {9, 0, 124, 2};
static const uint8_t server_version[] = {4, 5, 0, 1};

enum handshake_state {
    HANDSHAKE_FIRST,  /* the peer's version and first block; set by sluice_rtmp_handshake_new() */
    HANDSHAKE_SECOND, /* its answer to ours; set by read_first() */
    HANDSHAKE_DONE,   /* set by sluice_rtmp_handshake_next() behind that */
    HANDSHAKE_FAILED, /* for good; set by fail() */
};

struct sluice_rtmp_handshake {
    enum handshake_state state;
    sluice_rtmp_role role;
    int error;
    size_t need;
    sluice_rtmp_hmac_fn *hmac;
    void *user;
    sluice_rtmp_schema schema; /* the peer's */
    size_t out_begin, out_end;
    uint8_t random[SLUICE_RTMP_RANDOM_SIZE];
    uint8_t peer[BLOCK];            /* its first block */
    uint8_t out[1 + BLOCK + BLOCK]; /* version, our first block, the answer to the peer's */
};

/* ---- Bytes, written one by one: a handshake is made once ---- */

static void put(uint8_t *to, const uint8_t *from, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] = from[i];
}

static bool is_same(const uint8_t *a, const uint8_t *b, size_t n) {
    return memcmp(a, b, n) == 0;
}

/* ---- Digests ---- */

static size_t digest_at(const uint8_t block[BLOCK], sluice_rtmp_schema schema) {
    size_t at = schema == SLUICE_RTMP_EARLY ? EARLY_AT : LATE_AT, sum = 0;
    for (size_t i = 0; i < OFFSET_SIZE; i++)
        sum += block[at + i];
    return at + OFFSET_SIZE + sum % OFFSETS;
}

/* Of a first block: of all but the digest's own place. */
static int digest_of(const sluice_rtmp_handshake *hs, const uint8_t block[BLOCK], size_t at, bool by_server,
                     uint8_t ret_digest[SLUICE_RTMP_DIGEST_SIZE]) {
    const struct iovec pieces[] = {
        {(void *)block, at},
        {(void *)(block + at + SLUICE_RTMP_DIGEST_SIZE), SIGNED - at},
    };
    return hs->hmac(by_server ? server_key : player_key, by_server ? SERVER_NAME : PLAYER_NAME, pieces, 2, ret_digest,
                    hs->user);
}

static int sign_block(const sluice_rtmp_handshake *hs, uint8_t block[BLOCK], sluice_rtmp_schema schema) {
    size_t at = digest_at(block, schema);
    uint8_t digest[SLUICE_RTMP_DIGEST_SIZE];
    int error = digest_of(hs, block, at, hs->role == SLUICE_RTMP_SERVER, digest);
    if (!error)
        put(block + at, digest, sizeof digest);
    return error;
}

/* The answer: the last bytes are signed by a key that is made of the digest in the peer's block. */
static int sign_answer(const sluice_rtmp_handshake *hs, uint8_t answer[BLOCK]) {
    bool by_server = hs->role == SLUICE_RTMP_SERVER;
    uint8_t key[SLUICE_RTMP_DIGEST_SIZE], digest[SLUICE_RTMP_DIGEST_SIZE];
    const struct iovec peers = {(void *)(hs->peer + digest_at(hs->peer, hs->schema)), SLUICE_RTMP_DIGEST_SIZE};
    const struct iovec own = {answer, SIGNED};
    int error = hs->hmac(by_server ? server_key : player_key, by_server ? SERVER_KEY : PLAYER_KEY, &peers, 1, key,
                         hs->user);
    if (!error)
        error = hs->hmac(key, sizeof key, &own, 1, digest, hs->user);
    if (!error)
        put(answer + SIGNED, digest, sizeof digest);
    return error;
}

/* Where the peer's digest is, if it is one. A version of zero says that there is none. */
static int find_schema(sluice_rtmp_handshake *hs) {
    static const uint8_t none[sizeof player_version];
    static const sluice_rtmp_schema schemas[] = {SLUICE_RTMP_EARLY, SLUICE_RTMP_LATE};
    uint8_t digest[SLUICE_RTMP_DIGEST_SIZE];
    if (!hs->hmac || is_same(hs->peer + VERSION_AT, none, sizeof none))
        return 0;
    for (size_t i = 0; i < 2; i++) {
        size_t at = digest_at(hs->peer, schemas[i]);
        int error = digest_of(hs, hs->peer, at, hs->role == SLUICE_RTMP_CLIENT, digest);
        if (error)
            return error;
        if (is_same(digest, hs->peer + at, sizeof digest)) {
            hs->schema = schemas[i];
            return 0;
        }
    }
    return 0;
}

/* ---- What is sent ---- */

/* The version and the first block. Its time is 0: the beginning of this end's clock. */
static int write_first(sluice_rtmp_handshake *hs, sluice_rtmp_schema schema) {
    uint8_t *block = hs->out + 1;
    hs->out[0] = VERSION;
    put(block + RANDOM_AT, hs->random, sizeof hs->random);
    hs->out_end = 1 + BLOCK;
    if (schema == SLUICE_RTMP_SIMPLE)
        return 0;
    put(block + VERSION_AT, hs->role == SLUICE_RTMP_SERVER ? server_version : player_version, sizeof server_version);
    return sign_block(hs, block, schema);
}

/* The answer to the peer's first block. */
static int write_second(sluice_rtmp_handshake *hs) {
    uint8_t *answer = hs->out + 1 + BLOCK;
    hs->out_end = sizeof hs->out;
    if (hs->schema == SLUICE_RTMP_SIMPLE) {
        put(answer, hs->peer, BLOCK);
        return 0;
    }
    put(answer, hs->random, SIGNED);
    return sign_answer(hs, answer);
}

int sluice_rtmp_handshake_new(sluice_rtmp_role role, const sluice_rtmp_handshake_options *options,
                              sluice_rtmp_handshake **ret_handshake) {
    sluice_rtmp_handshake_options o;
    int error = SIZED_READ(&o, options);
    if (error)
        return error;
    if (!o.random || (role != SLUICE_RTMP_SERVER && role != SLUICE_RTMP_CLIENT))
        return -EINVAL;
    if ((unsigned)o.schema > SLUICE_RTMP_LATE || (o.schema != SLUICE_RTMP_SIMPLE && !o.hmac))
        return -EINVAL;
    sluice_rtmp_handshake *hs = calloc(1, sizeof *hs);
    if (!hs)
        return -ENOMEM;
    hs->role = role;
    hs->need = 1;
    hs->hmac = o.hmac;
    hs->user = o.user;
    put(hs->random, o.random, sizeof hs->random);
    if (role == SLUICE_RTMP_CLIENT)
        error = write_first(hs, o.schema);
    if (error) {
        free(hs);
        return error;
    }
    *ret_handshake = hs;
    return 0;
}

void sluice_rtmp_handshake_free(sluice_rtmp_handshake *hs) {
    free(hs);
}

size_t sluice_rtmp_handshake_need(const sluice_rtmp_handshake *hs) {
    return hs->need;
}

sluice_rtmp_schema sluice_rtmp_handshake_schema(const sluice_rtmp_handshake *hs) {
    return hs->schema;
}

size_t sluice_rtmp_handshake_output(const sluice_rtmp_handshake *hs, const uint8_t **ret_bytes) {
    *ret_bytes = hs->out + hs->out_begin;
    return hs->out_end - hs->out_begin;
}

void sluice_rtmp_handshake_sent(sluice_rtmp_handshake *hs, size_t n) {
    size_t left = hs->out_end - hs->out_begin;
    hs->out_begin += n < left ? n : left;
}

static int fail(sluice_rtmp_handshake *hs, int error) {
    hs->state = HANDSHAKE_FAILED;
    hs->error = error;
    hs->need = SIZE_MAX;
    hs->out_begin = hs->out_end;
    return error;
}

/* The version, as soon as it is there: another protocol is refused at once. Then the block. */
static int read_first(sluice_rtmp_handshake *hs, sluice_chain *chain) {
    sluice_cursor cursor = cursor_of_chain(chain);
    uint8_t version = cursor_byte(&cursor);
    if (version != VERSION)
        return fail(hs, version > LAST_VERSION ? -EPROTO : -EPROTONOSUPPORT);
    hs->need = 1 + BLOCK;
    if (chain_length(chain) < hs->need)
        return 0;
    for (size_t i = 0; i < BLOCK; i++)
        hs->peer[i] = cursor_byte(&cursor);
    chain_skip(chain, 1 + BLOCK);
    int error = find_schema(hs);
    if (!error && hs->role == SLUICE_RTMP_SERVER)
        error = write_first(hs, hs->schema);
    if (!error)
        error = write_second(hs);
    if (error)
        return fail(hs, error);
    hs->state = HANDSHAKE_SECOND;
    hs->need = BLOCK;
    return 0;
}

int sluice_rtmp_handshake_next(sluice_rtmp_handshake *hs, sluice_chain *chain) {
    while (hs->state != HANDSHAKE_DONE && chain_length(chain) >= hs->need) {
        int error = 0;
        if (hs->state == HANDSHAKE_FIRST) {
            error = read_first(hs, chain);
        } else {
            chain_skip(chain, BLOCK);
            hs->state = HANDSHAKE_DONE;
            hs->need = 1;
        }
        if (error)
            return error;
    }
    return hs->state == HANDSHAKE_DONE ? 1 : hs->error;
}
