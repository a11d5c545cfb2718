/* SANITIZED: a sanitizer has the allocator, and keeps watch over memory of its own. */
#ifndef SLUICE_TESTS_SUPPORT_SANITIZED_H
#define SLUICE_TESTS_SUPPORT_SANITIZED_H

#include "memory/poison.h"

#if defined(SLUICE_POISONS) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#endif
