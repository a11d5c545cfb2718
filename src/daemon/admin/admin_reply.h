/* Answers of the administration: documents, problems (RFC 9457), files that are part of the
 * program. */
#ifndef SLUICED_ADMIN_REPLY_H
#define SLUICED_ADMIN_REPLY_H

#include <stddef.h>

struct exchange;
struct json;

/* 200, with a text that is freed once it is sent. */
void admin_reply_text(struct exchange *exchange, const char *type, char *text, size_t size);

/* 200, with a document, whose text is freed; 503, if it is not whole for want of memory. */
void admin_reply_document(struct exchange *exchange, struct json *json);

/* 201, likewise. @location: the path of what has been made */
void admin_reply_created(struct exchange *exchange, const char *location, char *text, size_t size);

/* 200, with bytes that stay. @policy: Content-Security-Policy, or NULL */
void admin_reply_file(struct exchange *exchange, const char *type, const void *bytes, size_t size, const char *policy);

/* 204 */
void admin_reply_done(struct exchange *exchange);

void admin_reply_problem(struct exchange *exchange, unsigned status, const char *detail);

/* 405. @allow: the methods that there are */
void admin_reply_wrong_method(struct exchange *exchange, const char *allow);

#endif
