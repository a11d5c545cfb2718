/* The values of settings that are a choice of words. */
#ifndef SLUICED_SETTING_WORDS_H
#define SLUICED_SETTING_WORDS_H

#include "daemon/config/setting.h"

/* -1 where the word is none of them. */
int setting_word_value(const struct setting *setting, const char *word);

const char *setting_word(const struct setting *setting, int value);

/* The word with that number, from 0 on; NULL: there are no more. */
const char *setting_word_at(const struct setting *setting, size_t number);

/* All of them: "a, b or c". */
const char *setting_words_text(const struct setting *setting, char buffer[SETTING_TEXT]);

#endif
