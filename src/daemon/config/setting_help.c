/* The text of --help, which fits a terminal of 80 columns. */
#include <stdarg.h>
#include <string.h>

#include "daemon/config/setting.h"
#include "daemon/config/setting_words.h"

enum { COLUMN = 30, WIDTH = 80 };

static const char values[] = "[STREAM=]VALUE sets a value for the streams of that name only; * matches any characters. "
                             "Such an option may be repeated; the first match applies. "
                             "SIZE is in bytes, or with K, M or G for powers of 1024. See sluiced(8) for more.";

/* Words from a column on, with a line's end. */
static void wrap(FILE *out, const char *text, size_t indent) {
    size_t column = indent;
    for (const char *word = text; *word;) {
        size_t length = strcspn(word, " ");
        if (word > text && column + 1 + length > WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (word > text) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)length, word);
        column += length;
        word += length + (word[length] == ' ');
    }
    fputc('\n', out);
}

/* The range of a number, or the words of a choice; an empty text for other kinds. */
static void format_range(const struct setting *setting, char text[SETTING_TEXT]) {
    char from[SETTING_TEXT], to[SETTING_TEXT];
    *text = '\0';
    if (setting->kind == SETTING_CHOICE) {
        setting_words_text(setting, text);
    } else if (setting->kind >= SETTING_SIZE && setting->kind != SETTING_FLAG) {
        setting_format_number(setting, setting->least, from);
        setting_format_number(setting, setting->most, to);
        snprintf(text, SETTING_TEXT, "%.32s%s%.32s to %.32s", setting->word ? setting->word : "",
                 setting->word ? ", or " : "", from, to);
    }
}

struct line {
    char text[512];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line->text + line->length, sizeof line->text - line->length, format, arguments);
    va_end(arguments);
    if (length > 0 && line->length + (size_t)length < sizeof line->text)
        line->length += (size_t)length;
}

/* " (RANGE; 0: MEANING; default PRESET)", each part where there is one. */
static void add_facts(struct line *line, const struct setting *setting) {
    char range[SETTING_TEXT];
    const char *preset = setting->kind == SETTING_FLAG ? NULL : setting->preset, *before = " (";
    format_range(setting, range);
    if (*range) {
        add(line, "%s%s", before, range);
        before = "; ";
    }
    if (setting->zero) {
        add(line, "%s0: %s", before, setting->zero);
        before = "; ";
    }
    if (preset || setting->preset_text) {
        add(line, "%sdefault%s %s", before, preset ? "" : ":", preset ? preset : setting->preset_text);
        before = "; ";
    }
    if (*before == ';')
        add(line, ")");
}

static void help_setting(FILE *out, const struct setting *setting) {
    struct line line = {.length = 0};
    int length = fprintf(out, "  --%s%s%s%s", setting->name, setting->value ? " " : "",
                         setting->by_stream ? "[STREAM=]" : "", setting->value ? setting->value : "");
    add(&line, "%s", setting->help);
    add_facts(&line, setting);
    if (length + 1 < COLUMN)
        fprintf(out, "%*s", COLUMN - length, "");
    else
        fprintf(out, "\n%*s", COLUMN, "");
    wrap(out, line.text, COLUMN);
}

static void help_heading(FILE *out, const struct setting_group *group) {
    char text[256];
    snprintf(text, sizeof text, "%s%s%s%s:", group->name, group->note ? " (" : "", group->note ? group->note : "",
             group->note ? ")" : "");
    fputc('\n', out);
    wrap(out, text, 0);
}

void settings_help(FILE *out) {
    const struct setting *setting;
    fputs("Usage: sluiced [OPTION]...\n", out);
    wrap(out, "Relay live streams, received as FLV over TCP or HTTP and by RTSP, to HTTP and RTSP players.", 0);
    fputc('\n', out);
    wrap(out, values, 0);
    for (size_t i = 0; (setting = setting_at(i)); i++) {
        if (i == 0 || setting->group != setting_at(i - 1)->group)
            help_heading(out, &setting_groups[setting->group]);
        help_setting(out, setting);
    }
}
