/* One exchange with the administration of a running sluiced. */
#ifndef CTL_REQUEST_H
#define CTL_REQUEST_H

#include <stdbool.h>

#include <jansson.h>

/* Where it is, and how to be let in. */
struct ctl_server {
    const char *address; /* [https://]ADDR:PORT, or unix:PATH */
    const char *ca;      /* by https: a file of trusted issuers; NULL: the system's store */
    char *token;         /* or NULL */
};

struct ctl_answer {
    unsigned status;
    json_t *document; /* what came, where it is JSON; or NULL. The caller's: json_decref() */
};

enum { CTL_ERROR = 256 };

/* @body: JSON, or NULL. 0, or -1 with a text that says what went wrong: there has been no answer
 * then. */
int ctl_ask(const struct ctl_server *server, const char *method, const char *path, const char *body,
            struct ctl_answer *ret_answer, char error[CTL_ERROR]);

/* Reads the first line of a file; of "-", that of standard input. 0, or -1 with a text. */
int ctl_read_line(const char *path, char **ret_line, char error[CTL_ERROR]);

#endif
