/*
 * Preloaded into a program: counts the bytes that it copies by memcpy(3) and its like.
 *
 * What is not seen: copies of a constant, small size, which compilers put in place of the call (a
 * payload's size is not constant); loops that copy byte by byte; those that libc makes itself, such
 * as in stdio; and the kernel's. strcpy(3) and its like end at a zero byte, so nobody copies media
 * with them.
 */
#include "preload.h"

/* Built without builtins and without loops that become calls: else these would call themselves. */

static void *copy(void *to, const void *from, size_t n) {
    count(n);
    char *end = to;
    const char *source = from;
    if (end <= source || end >= source + n) {
        for (size_t i = 0; i < n; i++)
            end[i] = source[i];
    } else {
        while (n-- > 0)
            end[n] = source[n];
    }
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n) {
    return copy(to, from, n);
}

void *memmove(void *to, const void *from, size_t n) {
    return copy(to, from, n);
}

void *mempcpy(void *restrict to, const void *restrict from, size_t n) {
    return (char *)copy(to, from, n) + n;
}

void bcopy(const void *from, void *to, size_t n) {
    copy(to, from, n);
}

/* What _FORTIFY_SOURCE calls in their place. */
void *__memcpy_chk(void *restrict to, const void *restrict from, size_t n, size_t room);
void *__memmove_chk(void *to, const void *from, size_t n, size_t room);
void *__mempcpy_chk(void *restrict to, const void *restrict from, size_t n, size_t room);

void *__memcpy_chk(void *restrict to, const void *restrict from, size_t n, size_t room) {
    if (n > room)
        abort();
    return copy(to, from, n);
}

void *__memmove_chk(void *to, const void *from, size_t n, size_t room) {
    if (n > room)
        abort();
    return copy(to, from, n);
}

void *__mempcpy_chk(void *restrict to, const void *restrict from, size_t n, size_t room) {
    if (n > room)
        abort();
    return (char *)copy(to, from, n) + n;
}
