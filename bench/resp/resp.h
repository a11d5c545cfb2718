/* A client of a Redis server that gives one command after the other: the same done in different
 * ways. */
#ifndef BENCH_RESP_RESP_H
#define BENCH_RESP_RESP_H

#include <stddef.h>
#include <stdint.h>

enum { RESP_KEYS = 4, RESP_MOST_KEY = 16 };

/* What is to be done: so many GETs, or SETs, of the keys in turn. */
typedef struct resp_work {
    int fd;      /* connected to the server, blocking */
    size_t size; /* of each value */
    uint64_t commands;
    char keys[RESP_KEYS][RESP_MOST_KEY];
    const uint8_t *values[RESP_KEYS];
    uint8_t *memory; /* where GETs put the value, with room for what stands around it */
} resp_work;

enum { RESP_AROUND = 64 }; /* bytes that a string's head and end may take, at most */

/* A way to do it. The descriptor is the variant's from the call on. */
typedef struct resp_variant {
    const char *name;
    void (*get)(resp_work *work);
    void (*set)(resp_work *work);
} resp_variant;

extern const resp_variant resp_uring;
extern const resp_variant resp_epoll_pool;
extern const resp_variant resp_hiredis;
extern const resp_variant resp_raw;

/* The value of a GET is there. The first commands make everything warm; the counting begins behind
 * them. */
void resp_got(const resp_work *work, const uint8_t *value, size_t size);

/* A SET was answered. @param answer what the server has said */
void resp_was_set(const char *answer, size_t length);

/* Commands that are done: the number of the one to give now. */
uint64_t resp_done(void);

static inline const char *resp_key(const resp_work *work, uint64_t command) {
    return work->keys[command % RESP_KEYS];
}

static inline const uint8_t *resp_value(const resp_work *work, uint64_t command) {
    return work->values[command % RESP_KEYS];
}

#endif
