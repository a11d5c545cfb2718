/* The floor: send(2) and recv(2), which wait, and a value that stays where it was received. */
#include "resp/raw.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "common/process.h"

enum { LINE_END = 2 };

static void send_all(int fd, struct iovec *pieces, size_t count) {
    while (count > 0) {
        struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
        ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            fail(EXIT_FAILURE, "send: %s", strerror(errno));
        size_t sent = (size_t)n;
        for (; count > 0 && sent >= pieces->iov_len; pieces++, count--)
            sent -= pieces->iov_len;
        if (count > 0)
            *pieces = (struct iovec){(uint8_t *)pieces->iov_base + sent, pieces->iov_len - sent};
    }
}

static size_t receive_some(int fd, void *memory, size_t room) {
    ssize_t n;
    do
        n = recv(fd, memory, room, 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        fail(EXIT_FAILURE, "the server has gone: %s", n < 0 ? strerror(errno) : "");
    return (size_t)n;
}

/* A line, and perhaps more behind it. @return the line's bytes, its end included */
static size_t receive_line(int fd, uint8_t *memory, size_t room, size_t *ret_have) {
    size_t have = 0;
    uint8_t *end = NULL;
    while (!end) {
        have += receive_some(fd, memory + have, room - have);
        end = memchr(memory, '\n', have);
    }
    *ret_have = have;
    return (size_t)(end + 1 - memory);
}

const uint8_t *raw_get(int fd, const char *key, uint8_t *memory, size_t room, size_t *ret_size) {
    char command[RESP_AROUND];
    int length = snprintf(command, sizeof command, "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n", strlen(key), key);
    send_all(fd, &(struct iovec){command, (size_t)length}, 1);
    size_t have, line = receive_line(fd, memory, room, &have);
    size_t size = memory[0] == '$' ? strtoul((char *)memory + 1, NULL, 10) : SIZE_MAX;
    if (size > room - line - LINE_END)
        fail(EXIT_FAILURE, "the server has answered '%.*s'", (int)line, (char *)memory);
    while (have < line + size + LINE_END)
        have += receive_some(fd, memory + have, line + size + LINE_END - have);
    *ret_size = size;
    return memory + line;
}

size_t raw_set(int fd, const char *key, const uint8_t *value, size_t size, char answer[RESP_AROUND]) {
    char command[RESP_AROUND * 2], end[] = "\r\n";
    int length = snprintf(command, sizeof command, "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n", strlen(key), key, size);
    struct iovec pieces[] = {{command, (size_t)length}, {(void *)(uintptr_t)value, size}, {end, LINE_END}};
    send_all(fd, pieces, 3);
    size_t have;
    return receive_line(fd, (uint8_t *)answer, RESP_AROUND, &have) - LINE_END;
}

static void get(resp_work *work) {
    for (uint64_t i = 0; i < work->commands; i++) {
        size_t size;
        const uint8_t *value = raw_get(work->fd, resp_key(work, i), work->memory, work->size + RESP_AROUND, &size);
        resp_got(work, value, size);
    }
}

static void set(resp_work *work) {
    char answer[RESP_AROUND];
    for (uint64_t i = 0; i < work->commands; i++) {
        size_t length = raw_set(work->fd, resp_key(work, i), resp_value(work, i), work->size, answer);
        resp_was_set(answer + 1, length - 1); /* without what says its type */
    }
}

const resp_variant resp_raw = {"raw", get, set};
