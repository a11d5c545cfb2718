/* Reason phrases of HTTP (RFC 9110, section 15). */
#ifndef SLUICED_HTTP_STATUS_H
#define SLUICED_HTTP_STATUS_H

/* Of a status that the daemon answers with; "Service Unavailable" for any other. */
const char *http_status_text(unsigned status);

#endif
