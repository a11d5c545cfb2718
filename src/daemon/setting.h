/*
 * The settings of the daemon: one table, from which the command line, the configuration file, --help, --check,
 * --print-config and a reload come, so that none of them can know a setting that another one does not.
 */
#ifndef SLUICED_SETTING_H
#define SLUICED_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { SETTINGS_MOST = 256, SETTING_LABEL = 320 };

enum setting_kind {
    SETTING_COMMAND,      /* what to do instead of running; on the command line alone */
    SETTING_LISTENER,     /* ADDR:PORT and more; detail: enum listener_protocol */
    SETTING_ADMIN,        /* ADDR:PORT, or unix:PATH */
    SETTING_ADMIN_TOKEN,  /* a file */
    SETTING_RECORD,       /* PATTERN=DIR */
    SETTING_PULL,         /* URL=NAME */
    SETTING_PULL_FILE,    /* a file of them */
    SETTING_USERS,        /* a file of names and passwords */
    SETTING_KEYS,         /* a file of names and keys */
    SETTING_RULE,         /* see rule.h */
    SETTING_HOOK,         /* see hook_url.h */
    SETTING_ORIGIN,       /* see origin.h */
    SETTING_PROXIES,      /* see proxies.h */
    SETTING_SIZE,         /* bytes, or with K, M, G; stored as bytes */
    SETTING_COUNT,        /* a whole number */
    SETTING_SECONDS,      /* fractions allowed; stored as milliseconds */
    SETTING_MILLISECONDS, /* fractions allowed; stored as microseconds */
    SETTING_FLAG,
    SETTING_CHOICE, /* one of some words; stored as an int; detail: enum setting_words */
};

enum setting_words { SETTING_BACKENDS, SETTING_LOG_LEVELS, SETTING_LOG_FORMATS, SETTING_SAME_NAMES };

/* When a change of it takes effect. */
enum setting_effect {
    SETTING_NOW,     /* with the reload */
    SETTING_LATER,   /* with the reload, for those who come after it */
    SETTING_RESTART, /* not before the next start: a reload keeps the old value */
};

struct setting {
    const char *name; /* "gop-size": --gop-size, and gop-size in the file */
    enum setting_kind kind;
    bool repeats;       /* has several values: given several times, or a list in the file */
    int detail;         /* as the kind says */
    size_t field;       /* of struct options: a uint64_t for numbers, an int for choices, a bool for flags; of those by
                             stream, in its streams.all */
    bool by_stream;     /* STREAM=VALUE is another value for some streams; so it may have several, too */
    double least, most; /* of numbers, as written */
    const char *preset; /* the default, as written; NULL: none, or one that depends on others */
    const char *value;  /* what the help calls the value; NULL without one */
    const char *expected; /* what a message says that a value is to be */
    enum setting_effect effect;
    const char *section; /* the heading before it in the help; NULL: that of the one before */
    const char *help;
};

/* What to do; the detail of SETTING_COMMAND. */
enum setting_command {
    COMMAND_RUN,
    COMMAND_CONFIG,
    COMMAND_CHECK,
    COMMAND_PRINT,
    COMMAND_SIGN,
    COMMAND_HELP,
    COMMAND_VERSION
};

extern const struct setting settings[];
extern const size_t settings_count;

/* NULL when there is none of that name. Commands are found with @commands only. */
const struct setting *setting_find(const char *name, size_t length, bool commands);

/* The name that is most like that one; NULL when none is. */
const char *setting_suggest(const char *name, bool commands);

/* The text of --help. */
void settings_help(FILE *out);

#endif
