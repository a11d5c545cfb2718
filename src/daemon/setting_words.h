/* The words that a choice may be. */
#ifndef SLUICED_SETTING_WORDS_H
#define SLUICED_SETTING_WORDS_H

#include "daemon/setting.h"

/* -1 where the word is none of them. */
int setting_word_value(const struct setting *setting, const char *word);

const char *setting_word(const struct setting *setting, int value);

#endif
