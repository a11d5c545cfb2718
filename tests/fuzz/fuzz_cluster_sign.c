/* What one node tells another that it fetches a stream from: each record of the input is a value,
 * with a path behind a newline. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster_event.h"
#include "daemon/cluster/cluster_sign.h"
#include "fuzz/fuzz.h"

static const uint8_t secret[] = "a secret that the input does not know";

static void check_fetch(const struct cluster_fetch *fetch, uint64_t now) {
    FUZZ_CHECK(cluster_node_name_is_valid(fetch->from, strlen(fetch->from)));
    FUZZ_CHECK(cluster_node_name_is_valid(fetch->to, strlen(fetch->to)));
    FUZZ_CHECK(fetch->epoch >> 53 == 0 && fetch->expires_ms > now);
    FUZZ_CHECK(strspn(fetch->via, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-,") ==
               strlen(fetch->via));
}

/* Signed, it is read as the same; and with any of its characters changed it is not. */
static void check_signed(const struct cluster_fetch *fetch, const struct cluster_signing *signing, uint64_t now,
                         uint8_t place) {
    struct cluster_fetch again;
    char value[CLUSTER_FIELD];
    if (cluster_sign_write(fetch, signing, value) < 0)
        return;
    const size_t length = strlen(value);
    FUZZ_CHECK(cluster_sign_read((sluice_http_text){value, length}, signing, now, &again) == 0);
    FUZZ_CHECK(memcmp(fetch->via, again.via, strlen(again.via) + 1) == 0 && fetch->epoch == again.epoch &&
               strcmp(fetch->from, again.from) == 0 && strcmp(fetch->to, again.to) == 0 && fetch->mode == again.mode);
    value[place * length / 256] ^= 1;
    FUZZ_CHECK(cluster_sign_read((sluice_http_text){value, length}, signing, now, &again) < 0);
}

static void read_one(const char *text, size_t size, uint8_t place) {
    const char *newline = memchr(text, '\n', size);
    const sluice_http_text value = {text, newline ? (size_t)(newline - text) : size};
    struct cluster_signing signing = {
        {"GET", 3}, {newline ? newline + 1 : "", newline ? size - value.length - 1 : 0}, secret, 0};
    struct cluster_fetch fetch;
    const uint64_t now = 1000;
    const int result = cluster_sign_read(value, &signing, now, &fetch);
    FUZZ_CHECK(result == 0 || result == -EPROTO || result == -EKEYREJECTED || result == -EKEYEXPIRED);
    signing.secret_size = sizeof secret - 1;
    if (result == 0) {
        check_fetch(&fetch, now);
        check_signed(&fetch, &signing, now, place);
    }
    /* Nobody else can sign. */
    FUZZ_CHECK(cluster_sign_read(value, &signing, now, &fetch) < 0);
}

void fuzz_target(fuzz_run *run) {
    uint8_t kind;
    const uint8_t *bytes;
    size_t size;
    if (!run->whole)
        return;
    while (fuzz_record(run, &kind, &bytes, &size)) {
        char *text = fuzz_copy(bytes, size);
        read_one(text, size, kind);
        free(text);
    }
}
