/*
 * Eight bytes at any address, whatever their type: for processing payload in place, a word at a
 * time.
 */
#ifndef SLUICE_FRAMERS_WORD_H
#define SLUICE_FRAMERS_WORD_H

#include <stdint.h>

typedef uint64_t __attribute__((may_alias, aligned(1))) byte_word;

#endif
