/* sluicectl: looks at a running sluiced, and has it do things. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/version.h>

#include "ctl/print.h"
#include "ctl/request.h"
#include "ctl/top.h"
#include "shared/foreign_text.h"

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2, EXIT_NO_SERVER = 3 };

static const char help[] =
    "Usage: sluicectl [OPTION]... COMMAND\n"
    "Looks at a running sluiced, and has it do things, by its administration.\n"
    "\n"
    "Commands:\n"
    "  status                     how much there is of everything (the default)\n"
    "  streams, players, publishers, pulls, recordings\n"
    "                             what there is; ids are in the lists\n"
    "  stream NAME                one stream and its players\n"
    "  kick player ID             send a player away\n"
    "  kick publisher ID          send a publisher away; players wait for the next one\n"
    "  kick stream NAME           send a stream's publisher and all of its players away\n"
    "  record NAME on|off|rule    record a stream or do not, whatever the rules say; or as they do, again\n"
    "  reload                     read the configuration file again\n"
    "  upgrade                    have the program that is installed now take over from the one that runs\n"
    "  config, version, workers   as JSON\n"
    "  top                        all of it on the whole screen, each second; q ends it\n"
    "\n"
    "Options:\n"
    "  --admin ADDR:PORT|unix:PATH\n"
    "                             where the administration listens (default: the environment's SLUICED_ADMIN, or\n"
    "                             127.0.0.1:8081)\n"
    "  --token-file FILE          what is in the first line lets us in, where the server asks for a token\n"
    "  --ban SECONDS              with kick: for so long the publisher's host may not publish the stream again\n"
    "  --slow                     with players: only those who are slow\n"
    "  --interval SECONDS         with top: between two looks (default 1)\n"
    "  --count N                  with top: end after N looks\n"
    "  --json                     what the server says, as it is\n"
    "  --help                     show this text\n"
    "  --version                  show the version\n"
    "\n"
    "Exit status: 0; 1 when the server refuses, of status when a worker does not answer, or when what it says cannot\n"
    "be written; 2 for a wrong command line; 3 when no server answers.\n";

struct command_line {
    struct ctl_server server;
    const char *ban;
    bool slow, json;
    double interval;
    unsigned count;
    char **words;
    int word_count;
};

__attribute__((format(printf, 1, 2))) static int wrong(const char *format, ...) {
    va_list arguments;
    fputs("sluicectl: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs("; see sluicectl --help\n", stderr);
    return EXIT_USAGE;
}

static int refused(const struct ctl_answer *answer) {
    const char *detail = json_string_value(ctl_member(answer->document, "detail"));
    char *text = strdup(detail ? detail : "the server refuses"), *rest = text;
    fprintf(stderr, "sluicectl: %u: ", answer->status);
    /* What is wrong with a configuration is a line each. */
    for (char *line; rest && (line = strsep(&rest, "\n"));) {
        foreign_print(stderr, line);
        fputs(rest && *rest ? "\n" : "", stderr);
    }
    fputc('\n', stderr);
    free(text);
    return EXIT_REFUSED;
}

/* Asks; where that went well, @ret_document is the caller's (NULL where there is none). An exit status. */
static int ask(const struct command_line *line, const char *method, const char *path, json_t **ret_document) {
    struct ctl_answer answer;
    char error[CTL_ERROR];
    if (ctl_ask(&line->server, method, path, &answer, error) < 0) {
        fprintf(stderr, "sluicectl: %s\n", error);
        return EXIT_NO_SERVER;
    }
    if (answer.status / 100 == 2) {
        *ret_document = answer.document;
        return EXIT_SUCCESS;
    }
    int status = refused(&answer);
    json_decref(answer.document);
    return status;
}

/* A name as a part of a path. NULL when memory is short. */
static char *encode(const char *name) {
    char *text = malloc(3 * strlen(name) + 1), *at = text;
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    for (; text && *name; name++) {
        if (strchr(plain, *name))
            *at++ = *name;
        else
            at += sprintf(at, "%%%02X", (unsigned)(unsigned char)*name);
    }
    if (text)
        *at = '\0';
    return text;
}

static void print_stream(const json_t *stream) {
    json_t *list = json_array();
    json_array_append(list, (json_t *)stream);
    ctl_print_streams(stdout, list, 0);
    fputc('\n', stdout);
    ctl_print_players(stdout, ctl_member(stream, "players"), false, 0);
    json_decref(list);
}

static void print(const struct command_line *line, const char *command, json_t *document) {
    bool as_is = line->json || strcmp(command, "config") == 0 || strcmp(command, "version") == 0 ||
                 strcmp(command, "workers") == 0;
    if (as_is) {
        ctl_print_json(stdout, document);
        return;
    }
    ctl_make_shown(document);
    if (strcmp(command, "status") == 0) {
        ctl_print_status(stdout, document);
    } else if (strcmp(command, "streams") == 0) {
        ctl_print_streams(stdout, ctl_member(document, "streams"), 0);
    } else if (strcmp(command, "players") == 0) {
        ctl_print_players(stdout, ctl_member(document, "players"), line->slow, 0);
    } else if (strcmp(command, "publishers") == 0) {
        ctl_print_publishers(stdout, ctl_member(document, "publishers"));
    } else if (strcmp(command, "pulls") == 0) {
        ctl_print_pulls(stdout, ctl_member(document, "pulls"));
    } else if (strcmp(command, "recordings") == 0) {
        ctl_print_recordings(stdout, ctl_member(document, "recordings"));
    } else {
        print_stream(document);
    }
}

/* One that hangs is as good as a dead daemon to whoever's streams it has. */
static bool all_workers_answer(const json_t *snapshot) {
    const json_t *one;
    size_t index;
    json_array_foreach(ctl_member(snapshot, "workers"), index, one) {
        if (!json_is_true(ctl_member(one, "answers")))
            return false;
    }
    return true;
}

/* What is shown, and where it is. */
static int run_get(const struct command_line *line, const char *command, const char *path) {
    json_t *document = NULL;
    int status = ask(line, "GET", path, &document);
    if (status == EXIT_SUCCESS && !document) {
        fputs("sluicectl: what answers is no sluiced's administration\n", stderr);
        return EXIT_NO_SERVER;
    }
    if (status == EXIT_SUCCESS)
        print(line, command, document);
    if (status == EXIT_SUCCESS && strcmp(command, "status") == 0 && !all_workers_answer(document))
        status = EXIT_REFUSED;
    json_decref(document);
    return status;
}

/* @query: with its question mark, or empty */
static int run_named(const struct command_line *line, const char *method, const char *folder, const char *name,
                     const char *query) {
    json_t *document = NULL;
    char *encoded = encode(name), *path = NULL;
    int status = EXIT_NO_SERVER;
    if (encoded && asprintf(&path, "/api/v1/%s/%s%s", folder, encoded, query) >= 0)
        status = strcmp(method, "GET") == 0 ? run_get(line, "stream", path) : ask(line, method, path, &document);
    json_decref(document);
    free(path);
    free(encoded);
    return status;
}

static int run_kick(const struct command_line *line) {
    static const struct {
        const char *word, *folder;
    } kinds[] = {{"player", "players"}, {"publisher", "publishers"}, {"stream", "streams"}};
    char ban[64] = "";
    if (line->word_count != 3)
        return wrong("kick: expected \"player ID\", \"publisher ID\" or \"stream NAME\"");
    if (line->ban && (strlen(line->ban) > 10 || strspn(line->ban, "0123456789") != strlen(line->ban)))
        return wrong("--ban: expected seconds, got \"%s\"", line->ban);
    if (line->ban)
        snprintf(ban, sizeof ban, "?ban=%s", line->ban);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(line->words[1], kinds[i].word) == 0)
            return run_named(line, "DELETE", kinds[i].folder, line->words[2], ban);
    return wrong("kick: expected player, publisher or stream, got \"%s\"", line->words[1]);
}

static int run_record(const struct command_line *line) {
    static const struct {
        const char *word, *method, *query;
    } wishes[] = {{"on", "POST", ""}, {"off", "DELETE", ""}, {"rule", "POST", "?by=rule"}};
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes && line->word_count == 3; i++)
        if (strcmp(line->words[2], wishes[i].word) == 0)
            return run_named(line, wishes[i].method, "recordings", line->words[1], wishes[i].query);
    return wrong("record: expected \"NAME on\", \"NAME off\" or \"NAME rule\"");
}

static int run_reload(const struct command_line *line) {
    json_t *document = NULL, *change;
    size_t index;
    int status = ask(line, "POST", "/api/v1/reload", &document);
    if (status == EXIT_SUCCESS && line->json && document)
        ctl_print_json(stdout, document);
    else
        ctl_make_shown(document);
    json_array_foreach(line->json ? NULL : ctl_member(document, "changes"), index, change)
        puts(json_is_string(change) ? json_string_value(change) : "-");
    json_decref(document);
    return status;
}

static int run_upgrade(const struct command_line *line) {
    json_t *document = NULL;
    int status = ask(line, "POST", "/api/v1/upgrade", &document);
    if (status == EXIT_SUCCESS && line->json && document)
        ctl_print_json(stdout, document);
    else if (status == EXIT_SUCCESS)
        printf("process %lld has taken over\n", (long long)json_integer_value(ctl_member(document, "pid")));
    json_decref(document);
    return status;
}

static int run_top(const struct command_line *line) {
    char error[CTL_ERROR];
    int result = ctl_top(&line->server, (unsigned)(line->interval * 1000), line->count, error);
    if (result == 0)
        return EXIT_SUCCESS;
    fprintf(stderr, "sluicectl: %s\n", error);
    return result == -EACCES ? EXIT_REFUSED : EXIT_NO_SERVER;
}

static int run(const struct command_line *line) {
    static const struct {
        const char *word, *path;
    } documents[] = {
        {"status", "/api/v1/snapshot"},       {"streams", "/api/v1/streams"}, {"players", "/api/v1/players"},
        {"publishers", "/api/v1/publishers"}, {"pulls", "/api/v1/pulls"},     {"config", "/api/v1/config"},
        {"version", "/api/v1/version"},       {"workers", "/api/v1/workers"}, {"recordings", "/api/v1/recordings"},
    };
    const char *command = line->word_count > 0 ? line->words[0] : "status";
    if (strcmp(command, "kick") == 0)
        return run_kick(line);
    if (strcmp(command, "record") == 0)
        return run_record(line);
    if (strcmp(command, "stream") == 0)
        return line->word_count == 2 ? run_named(line, "GET", "streams", line->words[1], "")
                                     : wrong("stream: expected a name");
    if (line->word_count > 1)
        return wrong("%s: unexpected argument \"%s\"", command, line->words[1]);
    if (strcmp(command, "reload") == 0)
        return run_reload(line);
    if (strcmp(command, "upgrade") == 0)
        return run_upgrade(line);
    if (strcmp(command, "top") == 0)
        return run_top(line);
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++)
        if (strcmp(command, documents[i].word) == 0)
            return run_get(line, command, documents[i].path);
    return wrong("%s: no such command", command);
}

enum option_id { ADMIN = 256, TOKEN_FILE, BAN, SLOW, INTERVAL, COUNT, JSON, HELP, VERSION };

static const struct option long_options[] = {
    {"admin", required_argument, NULL, ADMIN},
    {"token-file", required_argument, NULL, TOKEN_FILE},
    {"ban", required_argument, NULL, BAN},
    {"slow", no_argument, NULL, SLOW},
    {"interval", required_argument, NULL, INTERVAL},
    {"count", required_argument, NULL, COUNT},
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},
    {NULL, 0, NULL, 0},
};

/* 0, or an exit status. */
static int set(struct command_line *line, int id, const char *value) {
    char error[CTL_ERROR], *end;
    switch (id) {
    case ADMIN:
        line->server.address = value;
        return 0;
    case TOKEN_FILE:
        if (ctl_read_token(value, &line->server.token, error) == 0)
            return 0;
        fprintf(stderr, "sluicectl: %s\n", error);
        return EXIT_USAGE;
    case BAN:
        line->ban = value;
        return *value && strspn(value, "0123456789") == strlen(value) ? 0 : wrong("--ban: expected seconds");
    case SLOW:
        line->slow = true;
        return 0;
    case INTERVAL:
        line->interval = strtod(value, &end);
        return *end || !(line->interval >= 0.1 && line->interval <= 3600)
                   ? wrong("--interval: expected seconds from 0.1")
                   : 0;
    case COUNT:
        line->count = (unsigned)strtoul(value, &end, 10);
        return *end || *value == '-' || line->count == 0 ? wrong("--count: expected a number from 1") : 0;
    default:
        line->json = true;
        return 0;
    }
}

/* What nobody could read is no success. */
static int finish(int status) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "sluicectl: cannot write to standard output%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return status ? status : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    const char *address = getenv("SLUICED_ADMIN");
    struct command_line line = {.server.address = address ? address : "127.0.0.1:8081", .interval = 1};
    int id, status = 0;
    opterr = 0;
    while (!status && (id = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
        if (id == '?' || id == ':') {
            status = wrong("%s: %s", argv[optind - 1], id == ':' ? "a value is missing" : "unknown option");
        } else if (id == HELP || id == VERSION) {
            fputs(id == HELP ? help : "sluicectl " SLUICE_VERSION "\n", stdout);
            return finish(EXIT_SUCCESS);
        } else {
            status = set(&line, id, optarg);
        }
    }
    line.words = argv + optind;
    line.word_count = argc - optind;
    if (!status)
        status = run(&line);
    if (line.server.token)
        explicit_bzero(line.server.token, strlen(line.server.token));
    free(line.server.token);
    return finish(status);
}
