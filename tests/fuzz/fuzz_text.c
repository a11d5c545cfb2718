/* What is done with text byte by byte: UTF-8 in pieces, base64 and hexadecimal digits, and their
 * reverse. */
#include <stdlib.h>
#include <string.h>

#include <sluice/sdp.h>

#include "framers/text/base64.h"
#include "framers/text/utf8.h"
#include "fuzz/fuzz.h"

/* Characters by the table of Unicode, section 3.9: bytes of the first one, 0 when it is none or not
 * whole. */
static size_t character(const uint8_t *at, size_t n) {
    if (at[0] < 0x80)
        return 1;
    size_t size = at[0] >= 0xC2 && at[0] <= 0xDF   ? 2
                  : at[0] >= 0xE0 && at[0] <= 0xEF ? 3
                  : at[0] >= 0xF0 && at[0] <= 0xF4 ? 4
                                                   : 0;
    if (size == 0 || size > n)
        return 0;
    uint32_t code = at[0] & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3F);
    }
    if ((size == 3 && code < 0x800) || (size == 4 && (code < 0x10000 || code > 0x10FFFF)))
        return 0;
    return code >= 0xD800 && code <= 0xDFFF ? 0 : size;
}

static bool is_utf8(const uint8_t *at, size_t n) {
    while (n > 0) {
        size_t size = character(at, n);
        if (size == 0)
            return false;
        at += size;
        n -= size;
    }
    return true;
}

/* Pieces of the input, cut as this run cuts. */
static void check_utf8(fuzz_run *run) {
    sluice_slice slice = fuzz_slice(run, run->bytes, run->size);
    struct iovec piece;
    utf8_state state = {0};
    bool right = true;
    for (size_t at = 0; right && at < run->size; at += piece.iov_len) {
        FUZZ_CHECK(sluice_slice_iov(&slice, at, &piece, 1) > 0);
        right = utf8_check(&state, piece.iov_base, piece.iov_len);
    }
    sluice_slice_release(&slice);
    FUZZ_CHECK((right && utf8_is_complete(&state)) == is_utf8(run->bytes, run->size));
}

typedef ssize_t encode_fn(const uint8_t *bytes, size_t n, char *text, size_t size);
typedef ssize_t decode_fn(sluice_http_text text, uint8_t *buffer, size_t size);

/* Encoded and decoded again; and what it is when it is taken for encoded. */
static void check_code(fuzz_run *run, encode_fn *encode, decode_fn *decode) {
    size_t room = 2 * run->size + 5;
    char *text = malloc(room), *input = fuzz_copy(run->bytes, run->size);
    uint8_t *bytes = malloc(run->size + 1);
    FUZZ_CHECK(text && bytes);
    ssize_t length = encode(run->bytes, run->size, text, room);
    FUZZ_CHECK(length >= 0 && text[length] == '\0');
    char *exact = fuzz_copy(text, (size_t)length);
    ssize_t n = decode((sluice_http_text){exact, (size_t)length}, bytes, run->size);
    FUZZ_CHECK(n == (ssize_t)run->size && memcmp(bytes, run->bytes, run->size) == 0);
    free(exact);
    n = decode((sluice_http_text){input, run->size}, bytes, run->size);
    fuzz_show(run, "decoded", n);
    if (n > 0) {
        FUZZ_CHECK((size_t)n < run->size);
        fuzz_show_bytes(run, "decoded", bytes, (size_t)n);
        exact = malloc((size_t)n);
        FUZZ_CHECK(exact && decode((sluice_http_text){input, run->size}, (uint8_t *)exact, (size_t)n) == n);
        free(exact);
    }
    free(bytes);
    free(text);
    free(input);
}

void fuzz_target(fuzz_run *run) {
    check_utf8(run);
    check_code(run, sluice_sdp_encode_base64, sluice_sdp_decode_base64);
    check_code(run, sluice_sdp_encode_hex, sluice_sdp_decode_hex);
}
