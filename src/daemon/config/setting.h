/*
 * The settings of the daemon: a table used by the command line, the configuration file, --help,
 * --check, --print-config and reloads, so that all of them know the same settings.
 * tools/settings-docs generates the sample file, the options of the man page and the completions
 * from it.
 */
#ifndef SLUICED_SETTING_H
#define SLUICED_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { SETTINGS_MOST = 256, SETTING_LABEL = 320, SETTING_TEXT = 128 };

enum setting_kind {
    SETTING_COMMAND,      /* what to do instead of running; on the command line alone */
    SETTING_LISTENER,     /* ADDR:PORT and more: a protocol's, see protocol.h */
    SETTING_ADMIN,        /* ADDR:PORT, or unix:PATH */
    SETTING_ADMIN_TOKEN,  /* a file */
    SETTING_RECORD,       /* PATTERN=DIR */
    SETTING_PULL,         /* URL=NAME */
    SETTING_PULL_FILE,    /* a file of them */
    SETTING_FORWARD,      /* STREAM=URL */
    SETTING_FORWARD_FILE, /* a file of them */
    SETTING_BACKUP,       /* NAME=OTHER */
    SETTING_USERS,        /* a file of names and passwords */
    SETTING_KEYS,         /* a file of names and keys */
    SETTING_RULE,         /* see rule.h */
    SETTING_HOOK,         /* see hook_url.h */
    SETTING_ORIGIN,       /* see cors.h */
    SETTING_PROXIES,      /* see proxies.h */
    SETTING_FILE,         /* a file's name */
    SETTING_CERTIFICATE,  /* see tls_option.h */
    SETTING_TLS_CA,       /* see tls_client_option.h, as the next two */
    SETTING_TLS_PIN,
    SETTING_TLS_CLIENT_CERTIFICATE,
    SETTING_CLUSTER,      /* see cluster_option.h; detail: enum cluster_setting */
    SETTING_SIZE,         /* bytes, or with K, M, G; stored as bytes */
    SETTING_COUNT,        /* a whole number */
    SETTING_SECONDS,      /* fractions allowed; stored as milliseconds */
    SETTING_MILLISECONDS, /* fractions allowed; stored as microseconds */
    SETTING_FLAG,
    SETTING_CHOICE, /* one of some words; stored as an int; detail: enum setting_words */
};

enum setting_words {
    SETTING_BACKENDS,
    SETTING_LOG_LEVELS,
    SETTING_LOG_FORMATS,
    SETTING_SAME_NAMES,
    SETTING_TLS_VERSIONS,
    SETTING_KTLS,
    SETTING_CLUSTER_DOWN
};

/* When a change of it takes effect. */
enum setting_effect {
    SETTING_NOW,     /* with the reload */
    SETTING_LATER,   /* with the reload, for new connections */
    SETTING_RESTART, /* not before the next start: a reload keeps the old value */
};

/* Headings of the help and of the documents. */
enum setting_group_id {
    GROUP_LISTENERS,
    GROUP_TLS,
    GROUP_PULLS,
    GROUP_FORWARDS,
    GROUP_CLUSTER,
    GROUP_ACCESS,
    GROUP_HOOKS,
    GROUP_TLS_CLIENT,
    GROUP_PUBLISHERS,
    GROUP_PLAYERS,
    GROUP_RECORDING,
    GROUP_LIMITS,
    GROUP_PROCESS,
    GROUP_LOG,
    GROUP_COMMANDS,
    SETTING_GROUPS
};

/* The texts of groups and settings are in the form that tools/settings-docs describes. NULL: there
 * is none. */
struct setting_group {
    const char *name;
    const char *note; /* behind the heading of the help */
    const char *text; /* below the heading of the documents */
};

enum { SETTING_EXAMPLES = 3 };

struct setting {
    const char *name; /* "gop-size": --gop-size, and gop-size in the file */
    enum setting_kind kind;
    bool repeats; /* has several values: given several times, or a list in the file */
    int detail;   /* as the kind says */
    /* of struct options: a uint64_t for numbers, an int for choices, a bool for flags; of those by
     * stream, in its streams.all */
    size_t field;
    /* STREAM=VALUE is another value for some streams; so it may have several, too */
    bool by_stream;
    double least, most; /* of numbers, as written */
    /* of SETTING_COUNT: a word in place of a number, and the number it is stored as; or NULL */
    const char *word;
    uint64_t word_value;
    const char *preset; /* the default, as written; NULL: none, or one that depends on others */
    enum setting_effect effect;
    /* what a message calls a right value; NULL: as setting_expected() makes it from the rest */
    const char *expected;
    /* What the documents say of it. */
    enum setting_group_id group;
    const char *value;       /* the form of the value, without [STREAM=]; NULL: takes no value */
    const char *unit;        /* of a number that is not a plain count */
    const char *zero;        /* what 0 means, where it is no quantity */
    const char *preset_text; /* the default, if it depends on others */
    const char *sample;      /* the value in the sample file, if there is no preset */
    const char *help;        /* one line: a verb first, no full stop */
    const char *text;        /* what else is to be said: for the man page and the sample file */
    const char *examples[SETTING_EXAMPLES];
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

extern const struct setting_group setting_groups[SETTING_GROUPS];
/* All, from 0 on; NULL behind the last. Those of the protocols come first. */
const struct setting *setting_at(size_t number);

/* NULL when there is none of that name. Commands are found with @commands only. */
const struct setting *setting_find(const char *name, size_t length, bool commands);

/* The name that is most like that one; NULL when none is. */
const char *setting_suggest(const char *name, bool commands);

/* A number as it is written: sizes with K, M, G where they are whole. */
void setting_format_number(const struct setting *setting, double number, char text[SETTING_TEXT]);

/* "seconds", "milliseconds", "a size" or "a number". */
const char *setting_unit(const struct setting *setting);

/* What a message calls a right value, such as "seconds from 1 to 86400". */
const char *setting_expected(const struct setting *setting, char buffer[SETTING_TEXT]);

/* The text of --help. */
void settings_help(FILE *out);

#endif
