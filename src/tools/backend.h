/* The tools' --backend. */
#ifndef TOOLS_BACKEND_H
#define TOOLS_BACKEND_H

#include <stdbool.h>

#include <sluice/loop.h>

/* "auto", "uring" or "epoll". False, with a line on standard error, for others. */
bool backend_read(const char *text, sluice_backend_choice *ret_backend);

#endif
