/* Answers of the administration: documents, problems (RFC 9457), files that are part of the program. */
#ifndef SLUICED_CONTROL_REPLY_H
#define SLUICED_CONTROL_REPLY_H

#include <stddef.h>

struct evhttp_request;

/* 200, with a text that is freed once it is sent. */
void reply_text(struct evhttp_request *request, const char *type, char *text, size_t size);

/* 200, with bytes that stay. @policy: Content-Security-Policy, or NULL */
void reply_file(struct evhttp_request *request, const char *type, const void *bytes, size_t size, const char *policy);

/* The connection ends with the answer. Before the answer. */
void reply_close(struct evhttp_request *request);

/* 204 */
void reply_done(struct evhttp_request *request);

void reply_problem(struct evhttp_request *request, unsigned status, const char *detail);

/* The document of a problem, which the caller frees. NULL without memory */
char *reply_problem_text(unsigned status, const char *detail, size_t *ret_size);

/* 405. @allow: the methods that there are */
void reply_wrong_method(struct evhttp_request *request, const char *allow);

#endif
