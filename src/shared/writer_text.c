#include "shared/writer_text.h"

#include <errno.h>

int writer_text(sluice_writer *writer, const char *bytes, size_t size) {
    if (sluice_writer_room(writer) < size)
        return -EAGAIN;
    int error = 0;
    for (size_t done = 0; done < size && !error;) {
        size_t part = size - done < SLUICE_WRITER_COPY_MAX ? size - done : SLUICE_WRITER_COPY_MAX;
        error = sluice_writer_copy(writer, bytes + done, part);
        done += part;
    }
    return error;
}
