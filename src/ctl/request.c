#include "ctl/request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/connection.h"

enum {
    /* for an answer to what changes something: an upgrade waits for another process */
    CHANGE_S = 75,
    ANSWER_MOST = 256 << 20,
    READ_AT_ONCE = 65536,
};

static int fail(char error[CTL_ERROR], const char *address, const char *what) {
    snprintf(error, CTL_ERROR, "%s: %s", address, what);
    return -1;
}

/* What the server calls itself: without the scheme. */
static const char *host_of(const char *address) {
    static const char secure[] = "https://";
    if (strncmp(address, "unix:", 5) == 0)
        return "localhost";
    return strncmp(address, secure, sizeof secure - 1) == 0 ? address + sizeof secure - 1 : address;
}

static int send_request(struct ctl_connection *connection, const struct ctl_server *server, const char *method,
                        const char *path, const char *body, char reason[CTL_CONNECTION_ERROR]) {
    char *text;
    /* Of HTTP/1.0: the answer ends with the connection, and has no chunks. */
    int size = asprintf(&text, "%s %s HTTP/1.0\r\nHost: %s\r\n%sContent-Length: %zu\r\n%s%s%s\r\n%s", method, path,
                        host_of(server->address), body ? "Content-Type: application/json\r\n" : "",
                        body ? strlen(body) : 0, server->token ? "Authorization: Bearer " : "",
                        server->token ? server->token : "", server->token ? "\r\n" : "", body ? body : "");
    if (size < 0) {
        snprintf(reason, CTL_CONNECTION_ERROR, "%s", strerror(ENOMEM));
        return -1;
    }
    int result = ctl_connection_send(connection, text, (size_t)size, reason);
    explicit_bzero(text, (size_t)size);
    free(text);
    return result;
}

/* All that comes, with a NUL behind it. NULL, with the reason, when it does not. */
static char *read_all(struct ctl_connection *connection, char reason[CTL_CONNECTION_ERROR]) {
    size_t size = 0, capacity = 0;
    char *text = NULL;
    for (;;) {
        if (capacity - size < READ_AT_ONCE) {
            capacity = 2 * capacity + 2 * READ_AT_ONCE;
            char *grown = capacity <= ANSWER_MOST ? realloc(text, capacity) : NULL;
            if (!grown) {
                free(text);
                snprintf(reason, CTL_CONNECTION_ERROR, "%s", strerror(ENOMEM));
                return NULL;
            }
            text = grown;
        }
        ssize_t got = ctl_connection_receive(connection, text + size, READ_AT_ONCE - 1, reason);
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
    char reason[CTL_CONNECTION_ERROR];
    struct ctl_connection *connection = ctl_connection_open(server->address, server->ca, reason);
    if (!connection)
        return fail(error, server->address, reason);
    if (strcmp(method, "GET") != 0)
        ctl_connection_set_patience(connection, CHANGE_S);
    char *text = send_request(connection, server, method, path, body, reason) == 0 ? read_all(connection, reason)
                                                                                   : NULL;
    int result = 0;
    if (!text)
        result = fail(error, server->address, reason);
    else if (take_answer(text, ret_answer) < 0)
        result = fail(error, server->address, "what answers is no sluiced's administration");
    free(text);
    ctl_connection_close(connection);
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
