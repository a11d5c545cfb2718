#include "daemon/base/stream_name.h"

#include <string.h>

enum { MAX_SEGMENTS = 4, MAX_SEGMENT = 64 };

static bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

bool stream_name_is_valid(const char *name, size_t length) {
    size_t segments = 1, segment = 0;
    if (length >= 3 && memcmp(name, "api", 3) == 0 && (length == 3 || name[3] == '/'))
        return false;
    for (size_t i = 0; i < length; i++) {
        if (name[i] == '/') {
            if (segment == 0)
                return false;
            segments++;
            segment = 0;
        } else {
            if (!is_name_character(name[i]) || (segment == 0 && name[i] == '.'))
                return false;
            segment++;
        }
        if (segments > MAX_SEGMENTS || segment > MAX_SEGMENT)
            return false;
    }
    return segment > 0;
}

/* FNV-1a, with MurmurHash3's last step, since its high bits hardly know of short names' last
 * characters. */
uint32_t stream_name_hash(const char *name, size_t length) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    hash = (hash ^ hash >> 16) * 0x85ebca6bu;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
    return hash ^ hash >> 16;
}

bool stream_pattern_is_valid(const char *pattern, size_t length) {
    if (!memchr(pattern, '*', length))
        return stream_name_is_valid(pattern, length);
    for (size_t i = 0; i < length; i++)
        if (!is_name_character(pattern[i]) && pattern[i] != '/' && pattern[i] != '*')
            return false;
    return length <= STREAM_NAME;
}

/* In a time that grows with the product of both lengths at most: of the stars, only the last one is
 * tried again. */
bool stream_pattern_fits(const char *pattern, const char *name, size_t length) {
    const char *star = NULL;
    size_t at = 0, again = 0;
    while (at < length) {
        if (*pattern == '*') {
            star = pattern++;
            again = at;
        } else if (*pattern == name[at]) {
            pattern++;
            at++;
        } else if (star) {
            pattern = star + 1;
            at = ++again;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}
