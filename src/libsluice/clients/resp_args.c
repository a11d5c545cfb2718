#include "clients/resp_args.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

enum {
    CRLF_SIZE = 2,
    /* of the writer: what is copied in a row may lie in two chunks */
    ITEMS_PER_COPY = 2,
    ITEMS_PER_REFERENCE = 1 + ITEMS_PER_COPY, /* with the framing behind it */
};

static size_t arg_length(const sluice_resp_client_arg *arg) {
    return arg->slice ? sluice_slice_length(arg->slice) : arg->length;
}

bool resp_args_is(const sluice_resp_client_arg *arg, const char *word) {
    return !arg->slice && arg->length == strlen(word) && strncasecmp(arg->data, word, arg->length) == 0;
}

int resp_args_admit(const sluice_writer *writer, const sluice_resp_client_arg *args, size_t count) {
    char header[SLUICE_RESP_HEADER_SIZE];
    sluice_writer_stats stats = {.size = sizeof stats};
    sluice_writer_get_stats(writer, &stats);
    size_t copied = sluice_resp_write_header(header, SLUICE_RESP_ARRAY, count);
    size_t referenced = 0, items = ITEMS_PER_COPY;
    for (size_t i = 0; i < count; i++) {
        size_t length = arg_length(&args[i]);
        bool is_copied = !args[i].slice && !args[i].is_lent;
        copied += sluice_resp_write_header(header, SLUICE_RESP_BULK, length) + CRLF_SIZE;
        if (length > stats.limit || copied + referenced > stats.limit - length)
            return -EMSGSIZE;
        *(is_copied ? &copied : &referenced) += length;
        items += is_copied ? 0 : ITEMS_PER_REFERENCE;
    }
    items += copied / SLUICE_WRITER_COPY_MAX;
    if (items > SLUICE_WRITER_ITEMS_MAX)
        return -EMSGSIZE;
    bool has_room = copied + referenced <= stats.limit - stats.queued_bytes &&
                    items <= SLUICE_WRITER_ITEMS_MAX - stats.queued_items;
    return has_room ? 0 : -EAGAIN;
}

static void given_back(const void *data, size_t size, void *user) {
    uint32_t *lent = user;
    (void)data;
    (void)size;
    --*lent;
}

static int queue_arg(sluice_writer *writer, const sluice_resp_client_arg *arg, uint32_t *lent) {
    if (arg->slice)
        return sluice_writer_slice(writer, arg->slice);
    if (arg->is_lent) {
        int error = sluice_writer_borrow(writer, arg->data, arg->length, given_back, lent);
        *lent += error == 0;
        return error;
    }
    int error = 0;
    for (size_t done = 0; done < arg->length && !error;) {
        size_t here = arg->length - done < SLUICE_WRITER_COPY_MAX ? arg->length - done : SLUICE_WRITER_COPY_MAX;
        error = sluice_writer_copy(writer, (const char *)arg->data + done, here);
        done += here;
    }
    return error;
}

int resp_args_queue(sluice_writer *writer, const sluice_resp_client_arg *args, size_t count, uint32_t *lent) {
    char text[2 * SLUICE_RESP_HEADER_SIZE]; /* what lies between two arguments' bytes */
    size_t size = sluice_resp_write_header(text, SLUICE_RESP_ARRAY, count);
    for (size_t i = 0; i < count; i++) {
        size += sluice_resp_write_header(text + size, SLUICE_RESP_BULK, arg_length(&args[i]));
        int error = sluice_writer_copy(writer, text, size);
        if (!error)
            error = queue_arg(writer, &args[i], lent);
        if (error)
            return error;
        text[0] = '\r';
        text[1] = '\n';
        size = CRLF_SIZE;
    }
    return sluice_writer_copy(writer, text, size);
}
