#include "ctl/request.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    LOOK_S = 10, /* for an answer */
    /* for one to what changes something: an upgrade waits for another process to become ready */
    CHANGE_S = 75,
    ANSWER_MOST = 256 << 20,
    READ_AT_ONCE = 65536,
};

static int fail(char error[CTL_ERROR], const char *address, const char *what) {
    snprintf(error, CTL_ERROR, "%s: %s", address, what);
    return -1;
}

/* Of each step, connecting included. A descriptor or -1, with errno. */
static int open_socket(int family, int type, int protocol) {
    const struct timeval timeout = {.tv_sec = LOOK_S};
    int fd = socket(family, type | SOCK_CLOEXEC, protocol);
    if (fd >= 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    }
    return fd;
}

static const char *reason_of(int error) {
    return error == EAGAIN || error == EINPROGRESS ? "no answer in time" : strerror(error);
}

static int connect_unix(const char *address, const char *path, char error[CTL_ERROR]) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof to.sun_path)
        return fail(error, address, "the path is too long");
    strcpy(to.sun_path, path);
    int fd = open_socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    fail(error, address, reason_of(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* "HOST:PORT", "[HOST]:PORT": the host, without brackets, and the port. */
static bool split(const char *address, char host[256], char port[16]) {
    const char *colon = strrchr(address, ':');
    if (!colon || colon == address || strlen(colon + 1) > 5 || !colon[1])
        return false;
    size_t length = (size_t)(colon - address);
    if (*address == '[' && colon[-1] == ']') {
        address++;
        length -= 2;
    }
    if (length == 0 || length >= 256)
        return false;
    snprintf(host, 256, "%.*s", (int)length, address);
    snprintf(port, 16, "%s", colon + 1);
    return true;
}

static int connect_tcp(const char *address, char error[CTL_ERROR]) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    char host[256], port[16];
    struct addrinfo *found;
    if (!split(address, host, port))
        return fail(error, address, "expected ADDR:PORT or unix:PATH");
    int result = getaddrinfo(host, port, &hints, &found);
    if (result != 0)
        return fail(error, address, gai_strerror(result));
    int fd = -1;
    for (const struct addrinfo *one = found; one && fd < 0; one = one->ai_next) {
        fd = open_socket(one->ai_family, one->ai_socktype, one->ai_protocol);
        if (fd >= 0 && connect(fd, one->ai_addr, one->ai_addrlen) == 0)
            break;
        fail(error, address, reason_of(errno));
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

/*
 * With a time-out, the calls below are interrupted where the process is stopped for a while, though
 * no signal is handled: Ctrl-Z and fg.
 */
static int send_all(int fd, const char *text, size_t size) {
    while (size > 0) {
        ssize_t sent = send(fd, text, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return -1;
        text += sent;
        size -= (size_t)sent;
    }
    return 0;
}

static int send_request(int fd, const struct ctl_server *server, const char *method, const char *path,
                        const char *body) {
    char *text;
    bool is_unix = strncmp(server->address, "unix:", 5) == 0;
    /* Of HTTP/1.0: the answer ends with the connection, and has no chunks. */
    int size = asprintf(&text, "%s %s HTTP/1.0\r\nHost: %s\r\n%sContent-Length: %zu\r\n%s%s%s\r\n%s", method, path,
                        is_unix ? "localhost" : server->address, body ? "Content-Type: application/json\r\n" : "",
                        body ? strlen(body) : 0, server->token ? "Authorization: Bearer " : "",
                        server->token ? server->token : "", server->token ? "\r\n" : "", body ? body : "");
    if (size < 0)
        return -1;
    int result = send_all(fd, text, (size_t)size);
    explicit_bzero(text, (size_t)size);
    free(text);
    return result;
}

/* All that comes, with a NUL behind it. NULL, with errno, when it does not. */
static char *read_all(int fd) {
    size_t size = 0, capacity = 0;
    char *text = NULL;
    for (;;) {
        if (capacity - size < READ_AT_ONCE) {
            capacity = 2 * capacity + 2 * READ_AT_ONCE;
            char *grown = capacity <= ANSWER_MOST ? realloc(text, capacity) : NULL;
            if (!grown) {
                free(text);
                errno = ENOMEM;
                return NULL;
            }
            text = grown;
        }
        ssize_t got = recv(fd, text + size, READ_AT_ONCE - 1, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(text);
            return NULL;
        }
        size += (size_t)got;
        text[size] = '\0';
        if (got == 0)
            return text;
    }
}

static int take_answer(const char *text, struct ctl_answer *ret_answer) {
    const char *body = strstr(text, "\r\n\r\n");
    unsigned status;
    if (sscanf(text, "HTTP/1.%*1[01] %3u", &status) != 1 || !body)
        return -1;
    *ret_answer = (struct ctl_answer){.status = status, .document = json_loads(body + 4, 0, NULL)};
    return 0;
}

int ctl_ask(const struct ctl_server *server, const char *method, const char *path, const char *body,
            struct ctl_answer *ret_answer, char error[CTL_ERROR]) {
    static const char prefix[] = "unix:";
    const struct timeval patience = {.tv_sec = CHANGE_S};
    const char *address = server->address;
    int fd = strncmp(address, prefix, sizeof prefix - 1) == 0
                 ? connect_unix(address, address + sizeof prefix - 1, error)
                 : connect_tcp(address, error);
    if (fd < 0)
        return -1;
    if (strcmp(method, "GET") != 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char *text = send_request(fd, server, method, path, body) == 0 ? read_all(fd) : NULL;
    int result = 0;
    if (!text)
        result = fail(error, address, reason_of(errno));
    else if (take_answer(text, ret_answer) < 0)
        result = fail(error, address, "what answers is no sluiced's administration");
    free(text);
    close(fd);
    return result;
}

int ctl_read_line(const char *path, char **ret_line, char error[CTL_ERROR]) {
    char *line = NULL;
    size_t size = 0;
    const bool is_input = strcmp(path, "-") == 0;
    FILE *file = is_input ? stdin : fopen(path, "re");
    bool good = file && getline(&line, &size, file) >= 0;
    if (!good) {
        fail(error, is_input ? "standard input" : path, file ? "no line to be read" : strerror(errno));
        free(line);
    }
    if (file && !is_input)
        fclose(file);
    if (!good)
        return -1;
    line[strcspn(line, "\r\n")] = '\0';
    *ret_line = line;
    return 0;
}
