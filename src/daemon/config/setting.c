#include "daemon/config/setting.h"

#include <string.h>

#include "daemon/config/setting_words.h"

const struct setting *setting_find(const char *name, size_t length, bool commands) {
    const struct setting *setting;
    for (size_t i = 0; (setting = setting_at(i)); i++)
        if (strlen(setting->name) == length && memcmp(setting->name, name, length) == 0)
            return setting->kind != SETTING_COMMAND || commands ? setting : NULL;
    return NULL;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Levenshtein's distance: how many characters to change, add or take away. */
static size_t distance(const char *a, const char *b) {
    enum { MOST = 64 };
    size_t row[MOST + 1], length = strlen(b);
    if (length > MOST)
        return SIZE_MAX;
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < length; j++) {
            size_t above = row[j + 1];
            row[j + 1] = least(least(above, row[j]) + 1, corner + (a[i] != b[j]));
            corner = above;
        }
    }
    return row[length];
}

const char *setting_suggest(const char *name, bool commands) {
    const struct setting *setting;
    const char *best = NULL;
    /* A third of it may be wrong. */
    size_t nearest = (strlen(name) + 2) / 3 + 1;
    for (size_t i = 0; (setting = setting_at(i)); i++) {
        size_t far = distance(name, setting->name);
        if (far < nearest && (setting->kind != SETTING_COMMAND || commands)) {
            nearest = far;
            best = setting->name;
        }
    }
    return best;
}

void setting_format_number(const struct setting *setting, double number, char text[SETTING_TEXT]) {
    static const char *const units[] = {"", "K", "M", "G"};
    unsigned unit = 0;
    if (setting->word && number == (double)setting->word_value) {
        snprintf(text, SETTING_TEXT, "%s", setting->word);
        return;
    }
    if (setting->kind == SETTING_SIZE)
        for (; unit < 3 && number > 0 && number / 1024 == (double)(uint64_t)(number / 1024); unit++)
            number /= 1024;
    snprintf(text, SETTING_TEXT, "%.15g%s", number, units[unit]);
}

const char *setting_unit(const struct setting *setting) {
    if (setting->unit)
        return setting->unit;
    return setting->kind == SETTING_SIZE           ? "a size"
           : setting->kind == SETTING_SECONDS      ? "seconds"
           : setting->kind == SETTING_MILLISECONDS ? "milliseconds"
                                                   : "a number";
}

static const char *expected_number(const struct setting *setting, char buffer[SETTING_TEXT]) {
    char from[SETTING_TEXT], to[SETTING_TEXT];
    const char *unit = setting_unit(setting);
    if (setting->word) {
        snprintf(buffer, SETTING_TEXT, "%s, or %s from %.15g to %.15g", setting->word, unit, setting->least,
                 setting->most);
        return buffer;
    }
    setting_format_number(setting, setting->least, from);
    setting_format_number(setting, setting->most, to);
    if (setting->least > 0 || strncmp(unit, "a ", 2) != 0)
        snprintf(buffer, SETTING_TEXT, "%s from %.32s to %.32s", unit, from, to);
    else
        snprintf(buffer, SETTING_TEXT, "%s up to %.32s", unit, to);
    return buffer;
}

const char *setting_expected(const struct setting *setting, char buffer[SETTING_TEXT]) {
    if (setting->expected)
        return setting->expected;
    if (setting->kind == SETTING_FLAG)
        return "true or false";
    if (setting->kind == SETTING_CHOICE)
        return setting_words_text(setting, buffer);
    return expected_number(setting, buffer);
}
