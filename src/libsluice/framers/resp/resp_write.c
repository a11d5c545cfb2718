#include <sluice/resp.h>

#include <errno.h>
#include <string.h>

#include "framers/resp/resp_line.h"

enum { MAX_DIGITS = 20 }; /* of 64 bits */

static size_t count_digits(uint64_t n) {
    size_t count = 1;
    for (; n >= 10; n /= 10)
        count++;
    return count;
}

static size_t header_size(uint64_t n) {
    return 1 + count_digits(n) + RESP_CRLF_SIZE;
}

static size_t write_header(char *to, sluice_resp_type type, uint64_t n) {
    size_t digits = count_digits(n);
    to[0] = (char)type;
    for (size_t i = digits; i > 0; i--, n /= 10)
        to[i] = (char)('0' + n % 10);
    to[1 + digits] = '\r';
    to[2 + digits] = '\n';
    return 1 + digits + RESP_CRLF_SIZE;
}

size_t sluice_resp_write_header(char buffer[SLUICE_RESP_HEADER_SIZE], sluice_resp_type type, uint64_t n) {
    return write_header(buffer, type, n);
}

_Static_assert(SLUICE_RESP_HEADER_SIZE == 1 + MAX_DIGITS + RESP_CRLF_SIZE, "a header line holds any 64-bit number");

/* Adds without wrapping round: what does not fit becomes a size that no buffer has. */
static size_t add(size_t a, size_t b) {
    return a < SIZE_MAX - b ? a + b : SIZE_MAX;
}

/* The array's line, and each argument. */
static size_t args_size(const sluice_resp_arg *args, size_t count, size_t announced) {
    size_t size = header_size(announced);
    for (size_t i = 0; i < count; i++)
        size = add(size, add(args[i].length, header_size(args[i].length) + RESP_CRLF_SIZE));
    return size;
}

size_t sluice_resp_command_size(const sluice_resp_arg *args, size_t count) {
    return args_size(args, count, count);
}

size_t sluice_resp_command_header_size(const sluice_resp_arg *args, size_t count, uint64_t payload) {
    return add(args_size(args, count, count + 1), header_size(payload));
}

static char *write_args(char *to, const sluice_resp_arg *args, size_t count, size_t announced) {
    to += write_header(to, SLUICE_RESP_ARRAY, announced);
    for (size_t i = 0; i < count; i++) {
        to += write_header(to, SLUICE_RESP_BULK, args[i].length);
        if (args[i].length > 0)
            memcpy(to, args[i].data, args[i].length);
        to += args[i].length;
        *to++ = '\r';
        *to++ = '\n';
    }
    return to;
}

int sluice_resp_write_command(void *buffer, size_t size, const sluice_resp_arg *args, size_t count,
                              size_t *ret_length) {
    if (count == 0)
        return -EINVAL;
    size_t length = sluice_resp_command_size(args, count);
    if (length > size || length == SIZE_MAX)
        return -EMSGSIZE;
    write_args(buffer, args, count, count);
    *ret_length = length;
    return 0;
}

int sluice_resp_write_command_header(void *buffer, size_t size, const sluice_resp_arg *args, size_t count,
                                     uint64_t payload, size_t *ret_length) {
    if (count == 0)
        return -EINVAL;
    size_t length = sluice_resp_command_header_size(args, count, payload);
    if (length > size || length == SIZE_MAX)
        return -EMSGSIZE;
    char *to = write_args(buffer, args, count, count + 1);
    write_header(to, SLUICE_RESP_BULK, payload);
    *ret_length = length;
    return 0;
}
