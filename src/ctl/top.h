/* A live view of the whole screen, until q or an interrupt. */
#ifndef CTL_TOP_H
#define CTL_TOP_H

#include "ctl/request.h"

/*
 * @interval_ms: between two looks; @count: looks, 0: until it is ended.
 * 0; or, with a text, -ENOTCONN when there is no answer, -EACCES when the server refuses.
 */
int ctl_top(const struct ctl_server *server, unsigned interval_ms, unsigned count, char error[CTL_ERROR]);

#endif
