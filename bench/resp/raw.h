/* GET and SET on a socket that waits; for the floor, and to prepare and check what all variants
 * work on. */
#ifndef BENCH_RESP_RAW_H
#define BENCH_RESP_RAW_H

#include "resp/resp.h"

/* @return where in the memory the value lies */
const uint8_t *raw_get(int fd, const char *key, uint8_t *memory, size_t room, size_t *ret_size);

/* @return bytes of the answer, "+OK", without its line end */
size_t raw_set(int fd, const char *key, const uint8_t *value, size_t size, char answer[RESP_AROUND]);

#endif
