/* Text of any length for a writer, which copies no more than SLUICE_WRITER_COPY_MAX at once. */
#ifndef SHARED_WRITER_TEXT_H
#define SHARED_WRITER_TEXT_H

#include <stddef.h>

#include <sluice/writer.h>

/* Queues a copy, in pieces. 0; -EAGAIN: nothing is queued, since there is no room for all; else as
 * the copies say. */
int writer_text(sluice_writer *writer, const char *bytes, size_t size);

#endif
