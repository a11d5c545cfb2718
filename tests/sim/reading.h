/* A file of the simulated disk that is read through the library, by any of its calls. */
#ifndef SLUICE_TESTS_SIM_READING_H
#define SLUICE_TESTS_SIM_READING_H

#include <sluice/loop.h>

struct reading;

/* NULL where that is refused. */
struct reading *reading_new(sluice_loop *loop);

/* Reads the whole file from now on; after a while in which nothing has gone wrong, it has. */
void reading_settle(struct reading *reading);
void reading_judge(const struct reading *reading);
void reading_end(struct reading *reading);
void reading_free(struct reading *reading);

#endif
