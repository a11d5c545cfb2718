/* Answers of the administration: documents, problems (RFC 9457), files that are part of the program. */
#ifndef SLUICED_CONTROL_REPLY_H
#define SLUICED_CONTROL_REPLY_H

#include <stddef.h>

struct exchange;

/* 200, with a text that is freed once it is sent. */
void reply_text(struct exchange *exchange, const char *type, char *text, size_t size);

/* 200, with bytes that stay. @policy: Content-Security-Policy, or NULL */
void reply_file(struct exchange *exchange, const char *type, const void *bytes, size_t size, const char *policy);

/* 204 */
void reply_done(struct exchange *exchange);

void reply_problem(struct exchange *exchange, unsigned status, const char *detail);

/* 405. @allow: the methods that there are */
void reply_wrong_method(struct exchange *exchange, const char *allow);

#endif
