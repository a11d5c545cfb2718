/* RTMP's handshake, at both ends; what is behind it stays where it is. */
#include <string.h>

#include <sluice/rtmp.h>

#include "fuzz/fuzz.h"

enum { BLOCK = 1536 };

/* No HMAC, but a function of all bytes, by which both ends can agree. What is signed by inputs is
 * signed by it, too (make_seeds.py). */
static int digest(const void *key, size_t key_size, const struct iovec *pieces, size_t count,
                  uint8_t ret_digest[SLUICE_RTMP_DIGEST_SIZE], void *user) {
    uint32_t sum = 0;
    (void)user;
    for (size_t i = 0; i < key_size; i++)
        sum = sum * 31 + ((const uint8_t *)key)[i];
    for (size_t i = 0; i < count; i++)
        for (size_t at = 0; at < pieces[i].iov_len; at++)
            sum = sum * 31 + ((const uint8_t *)pieces[i].iov_base)[at];
    for (size_t i = 0; i < SLUICE_RTMP_DIGEST_SIZE; i++)
        ret_digest[i] = (uint8_t)(sum >> (i % 4 * 8));
    return 0;
}

static int next(void *state, sluice_chain *chain, fuzz_run *run) {
    sluice_rtmp_handshake *hs = state;
    const uint8_t *bytes;
    int result = sluice_rtmp_handshake_next(hs, chain);
    size_t n = sluice_rtmp_handshake_output(hs, &bytes);
    FUZZ_CHECK(n <= 1 + 2 * BLOCK);
    if (result == 0) {
        FUZZ_CHECK(sluice_rtmp_handshake_need(hs) > sluice_chain_length(chain));
        return 0;
    }
    fuzz_show(run, "schema", sluice_rtmp_handshake_schema(hs));
    fuzz_show_bytes(run, "output", bytes, n);
    sluice_rtmp_handshake_sent(hs, fuzz_random(run, 5000));
    FUZZ_CHECK(sluice_rtmp_handshake_output(hs, &bytes) <= n);
    if (result == 1)
        FUZZ_CHECK(sluice_rtmp_handshake_next(hs, chain) == 1);
    return result;
}

void fuzz_target(fuzz_run *run) {
    uint8_t random[SLUICE_RTMP_RANDOM_SIZE];
    uint8_t how = run->settings[0];
    for (size_t i = 0; i < sizeof random; i++)
        random[i] = (uint8_t)(i * 7 + run->settings[1]);
    const sluice_rtmp_handshake_options options = {
        .size = sizeof options,
        .random = random,
        .hmac = how & 2 ? digest : NULL,
        .schema = how & 2 ? (sluice_rtmp_schema)((how >> 2) % 3) : SLUICE_RTMP_SIMPLE,
    };
    sluice_rtmp_handshake *hs;
    sluice_chain *chain;
    int result = 0;
    FUZZ_CHECK(sluice_rtmp_handshake_new((sluice_rtmp_role)(how & 1), &options, &hs) == 0);
    FUZZ_CHECK(sluice_chain_new(run->pool, &chain) == 0);
    while (result == 0 && fuzz_feed(run, chain))
        result = next(hs, chain, run);
    while (fuzz_feed(run, chain))
        ;
    fuzz_show(run, "result", result);
    if (result == 1) /* what is behind the handshake */
        fuzz_show(run, "left", (int64_t)sluice_chain_length(chain));
    sluice_chain_free(chain);
    sluice_rtmp_handshake_free(hs);
}
