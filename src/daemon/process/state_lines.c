#include "daemon/process/state_lines.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 1024 };

void state_lines_init(struct state_lines *lines, size_t most) {
    *lines = (struct state_lines){.most = most};
    pthread_mutex_init(&lines->lock, NULL);
}

/* Not by realloc(), which leaves a copy of what may be a password. */
static bool make_room(struct state_lines *lines, size_t size) {
    size_t capacity = lines->capacity ? lines->capacity : FIRST_CAPACITY;
    if (size <= lines->capacity)
        return true;
    while (capacity < size)
        capacity *= 2;
    char *text = malloc(capacity);
    if (!text)
        return false;
    if (lines->size > 0)
        memcpy(text, lines->text, lines->size);
    if (lines->text)
        explicit_bzero(lines->text, lines->capacity);
    free(lines->text);
    lines->text = text;
    lines->capacity = capacity;
    return true;
}

void state_lines_add(struct state_lines *lines, const char *format, ...) {
    va_list words;
    va_start(words, format);
    const int length = vsnprintf(NULL, 0, format, words);
    va_end(words);
    pthread_mutex_lock(&lines->lock);
    const size_t size = lines->size + (length > 0 ? (size_t)length : 0);
    /* The zero at the end takes a byte of the capacity, and none of the text. */
    if (length <= 0 || size > lines->most || !make_room(lines, size + 1)) {
        lines->dropped++;
    } else {
        va_start(words, format);
        (void)vsnprintf(lines->text + lines->size, (size_t)length + 1, format, words);
        va_end(words);
        lines->size = size;
    }
    pthread_mutex_unlock(&lines->lock);
}

void state_lines_cut(struct state_lines *lines, size_t most) {
    pthread_mutex_lock(&lines->lock);
    size_t end = lines->size < most ? lines->size : most;
    while (end > 0 && lines->text[end - 1] != '\n')
        end--;
    for (size_t i = end; i < lines->size; i++)
        lines->dropped += lines->text[i] == '\n';
    lines->size = end;
    pthread_mutex_unlock(&lines->lock);
}

void state_lines_empty(struct state_lines *lines) {
    pthread_mutex_lock(&lines->lock);
    if (lines->text)
        explicit_bzero(lines->text, lines->capacity);
    free(lines->text);
    lines->text = NULL;
    lines->size = lines->capacity = 0;
    lines->dropped = 0;
    pthread_mutex_unlock(&lines->lock);
}

void state_lines_clear(struct state_lines *lines) {
    state_lines_empty(lines);
    pthread_mutex_destroy(&lines->lock);
}
