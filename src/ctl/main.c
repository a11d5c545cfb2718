/* sluicectl: looks at a running sluiced, and has it do things. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/version.h>

#include "ctl/print.h"
#include "ctl/print_cluster.h"
#include "ctl/request.h"
#include "ctl/top.h"
#include "shared/foreign_text.h"

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2, EXIT_NO_SERVER = 3 };

static const char help[] = "Usage: sluicectl [OPTION]... [COMMAND]\n"
                           "Inspect and control a running sluiced through its administration.\n"
                           "\n"
                           "Commands:\n"
                           "  status                     Show the totals of everything (the default)\n"
                           "  streams, players, publishers, pulls, forwards, recordings, bans, certificates\n"
                           "                             List them with their ids\n"
                           "  stream NAME                Show one stream and its players\n"
                           "  kick player ID             Disconnect a player\n"
                           "  kick publisher ID          Disconnect a publisher; players wait for the next\n"
                           "  kick stream NAME           Disconnect a stream's publisher and all its players\n"
                           "  unban NAME                 Let all hosts publish a stream again\n"
                           "  record NAME on|off|rule    Record a stream, do not record it, or follow the\n"
                           "                             rules again\n"
                           "  pull URL NAME              Fetch a stream; with - the URL is read from\n"
                           "                             standard input\n"
                           "  unpull NAME                End a pull that was started by pull\n"
                           "  reload                     Reload the configuration file\n"
                           "  upgrade                    Replace the server by the program now installed\n"
                           "  config, version, workers   Print them as JSON\n"
                           "  cluster                    Show this node, the engine and all nodes\n"
                           "  cluster pulls              List the streams that come from other nodes\n"
                           "  cluster streams [TEXT]     List where streams are; those with TEXT in the name\n"
                           "  locate NAME                Show which node has a stream\n"
                           "  top                        Show everything on the full screen; q quits\n"
                           "\n"
                           "Options:\n"
                           "  --admin [https://]ADDR:PORT|unix:PATH\n"
                           "                             Set the address of the administration (default:\n"
                           "                             environment SLUICED_ADMIN, or 127.0.0.1:8081)\n"
                           "  --tls-ca FILE              With https: trust the certificates in FILE instead\n"
                           "                             of the system's\n"
                           "  --token-file FILE          Send the token in the first line of FILE\n"
                           "  --to URL                   With kick: ask RTMP clients to connect there\n"
                           "  --ban SECONDS              With kick: ban the publisher's host from the stream\n"
                           "  --ttl SECONDS              With pull: end it after this time\n"
                           "  --on-demand                With pull: connect while there are players only\n"
                           "  --slow                     With players: list slow players only\n"
                           "  --interval SECONDS         With top: set the time between updates (default 1)\n"
                           "  --count N                  With top: quit after N updates\n"
                           "  --cluster                  With top: show all nodes, by load\n"
                           "  --json                     Print the server's response unchanged\n"
                           "  --help                     Print this help and exit\n"
                           "  --version                  Print the version and exit\n"
                           "\n"
                           "Exit status: 0 success; 1 the server rejects the request, a worker does not\n"
                           "respond (status), or output cannot be written; 2 wrong usage; 3 no server\n"
                           "responds.\n";

struct command_line {
    struct ctl_server server;
    const char *ban, *to;
    unsigned ttl; /* seconds; 0: none */
    bool on_demand, slow, json, cluster;
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

/*
 * Asks; where that went well, @ret_document is the caller's (NULL where there is none). @body: or
 * NULL. An exit status.
 */
static int ask_with(const struct command_line *line, const char *method, const char *path, const char *body,
                    json_t **ret_document) {
    struct ctl_answer answer;
    char error[CTL_ERROR];
    if (ctl_ask(&line->server, method, path, body, &answer, error) < 0) {
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

static int ask(const struct command_line *line, const char *method, const char *path, json_t **ret_document) {
    return ask_with(line, method, path, NULL, ret_document);
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

/* Of a list that has an end. */
static void print_more(const json_t *list, double total) {
    if (total > (double)json_array_size(list))
        printf("and %.0f more\n", total - (double)json_array_size(list));
}

static void print_location(const json_t *stream) {
    json_t *list = json_array();
    json_array_append(list, (json_t *)stream);
    ctl_print_locations(stdout, list);
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
    } else if (strcmp(command, "forwards") == 0) {
        ctl_print_forwards(stdout, ctl_member(document, "forwards"));
    } else if (strcmp(command, "recordings") == 0) {
        ctl_print_recordings(stdout, ctl_member(document, "recordings"));
    } else if (strcmp(command, "certificates") == 0) {
        ctl_print_certificates(stdout, ctl_member(document, "certificates"));
    } else if (strcmp(command, "cluster") == 0) {
        ctl_print_cluster(stdout, document, ctl_member(document, "nodes"), 0);
    } else if (strcmp(command, "bans") == 0) {
        ctl_print_bans(stdout, ctl_member(document, "bans"));
    } else if (strcmp(command, "cluster pulls") == 0) {
        ctl_print_cluster_pulls(stdout, ctl_member(document, "pulls"));
        print_more(ctl_member(document, "pulls"), ctl_number(document, "total"));
    } else if (strcmp(command, "cluster streams") == 0) {
        ctl_print_locations(stdout, ctl_member(document, "streams"));
        print_more(ctl_member(document, "streams"), ctl_number(document, "matching"));
    } else if (strcmp(command, "locate") == 0) {
        print_location(document);
    } else {
        print_stream(document);
    }
}

/* A worker that hangs is as bad as a dead daemon for its streams. */
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
    if (status == EXIT_SUCCESS && json_is_false(ctl_member(document, "enabled"))) {
        fputs("sluicectl: this node is in no cluster\n", stderr);
        status = EXIT_REFUSED;
    }
    if (status == EXIT_SUCCESS)
        print(line, command, document);
    if (status == EXIT_SUCCESS && json_is_true(ctl_member(document, "partial")))
        fputs("sluicectl: a worker has not answered: what it has is missing\n", stderr);
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
        status = strcmp(method, "GET") == 0 ? run_get(line, line->words[0], path) : ask(line, method, path, &document);
    json_decref(document);
    free(path);
    free(encoded);
    return status;
}

static int run_kick(const struct command_line *line) {
    static const struct {
        const char *word, *folder;
    } kinds[] = {{"player", "players"}, {"publisher", "publishers"}, {"stream", "streams"}};
    char ban[64] = "", *query = NULL;
    const char *folder = NULL;
    int status = EXIT_NO_SERVER;
    if (line->word_count != 3)
        return wrong("kick: expected \"player ID\", \"publisher ID\" or \"stream NAME\"");
    if (line->ban && (strlen(line->ban) > 10 || strspn(line->ban, "0123456789") != strlen(line->ban)))
        return wrong("--ban: expected seconds, got \"%s\"", line->ban);
    if (line->ban)
        snprintf(ban, sizeof ban, "?ban=%s", line->ban);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(line->words[1], kinds[i].word) == 0)
            folder = kinds[i].folder;
    if (!folder)
        return wrong("kick: expected player, publisher or stream, got \"%s\"", line->words[1]);
    if (!line->to)
        return run_named(line, "DELETE", folder, line->words[2], ban);
    char *to = encode(line->to);
    if (to && asprintf(&query, "%s%cto=%s", ban, *ban ? '&' : '?', to) >= 0)
        status = run_named(line, "DELETE", folder, line->words[2], query);
    free(query);
    free(to);
    return status;
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

static int post_pull(const struct command_line *line, const char *url) {
    json_t *created = NULL;
    json_t *request = json_pack("{s:s, s:s, s:b}", "url", url, "stream", line->words[2], "on_demand", line->on_demand);
    if (request && line->ttl > 0)
        json_object_set_new(request, "ttl", json_integer(line->ttl));
    char *body = request ? json_dumps(request, JSON_COMPACT) : NULL;
    json_decref(request);
    if (!body)
        return wrong("pull: the URL or the name is no UTF-8 text");
    int status = ask_with(line, "POST", "/api/v1/pulls", body, &created);
    if (status == EXIT_SUCCESS && line->json && created)
        ctl_print_json(stdout, created);
    json_decref(created);
    explicit_bzero(body, strlen(body));
    free(body);
    return status;
}

static int run_pull(const struct command_line *line) {
    char error[CTL_ERROR], *url = NULL;
    if (line->word_count != 3)
        return wrong("pull: expected \"URL NAME\"");
    if (strcmp(line->words[1], "-") != 0)
        return post_pull(line, line->words[1]);
    if (ctl_read_line("-", &url, error) < 0) {
        fprintf(stderr, "sluicectl: %s\n", error);
        return EXIT_USAGE;
    }
    int status = post_pull(line, url);
    explicit_bzero(url, strlen(url));
    free(url);
    return status;
}

static int run_unpull(const struct command_line *line) {
    json_t *document = NULL, *pull;
    char id[32] = "";
    size_t index;
    if (line->word_count != 2)
        return wrong("unpull: expected a stream's name");
    int status = ask(line, "GET", "/api/v1/pulls", &document);
    if (status != EXIT_SUCCESS)
        return status;
    json_array_foreach(ctl_member(document, "pulls"), index, pull) {
        if (strcmp(ctl_text(pull, "stream"), line->words[1]) == 0)
            snprintf(id, sizeof id, "%lld", (long long)json_integer_value(ctl_member(pull, "id")));
    }
    json_decref(document);
    if (*id)
        return run_named(line, "DELETE", "pulls", id, "");
    fputs("sluicectl: there is no pull of that stream\n", stderr);
    return EXIT_REFUSED;
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

static int run_cluster(const struct command_line *line) {
    char *text = line->word_count > 2 ? encode(line->words[2]) : NULL, *path = NULL;
    const char *what = line->word_count > 1 ? line->words[1] : "";
    int status = EXIT_NO_SERVER;
    if (line->word_count == 1)
        status = run_get(line, "cluster", "/api/v1/cluster");
    else if (line->word_count == 2 && strcmp(what, "pulls") == 0)
        status = run_get(line, "cluster pulls", "/api/v1/cluster/pulls?limit=500");
    else if (line->word_count > 3 || strcmp(what, "streams") != 0)
        status = wrong("cluster: expected nothing more, \"pulls\" or \"streams [TEXT]\"");
    else if (asprintf(&path, "/api/v1/cluster/streams?limit=500%s%s", text ? "&search=" : "", text ? text : "") >= 0)
        status = run_get(line, "cluster streams", path);
    free(path);
    free(text);
    return status;
}

static int run_top(const struct command_line *line) {
    const struct ctl_top_options options = {.interval_ms = (unsigned)(line->interval * 1000),
                                            .count = line->count,
                                            .is_cluster = line->cluster,
                                            .is_json = line->json};
    char error[CTL_ERROR];
    int result = ctl_top(&line->server, &options, error);
    if (result == 0)
        return EXIT_SUCCESS;
    fprintf(stderr, "sluicectl: %s\n", error);
    return result == -EACCES ? EXIT_REFUSED : EXIT_NO_SERVER;
}

static int run(const struct command_line *line) {
    static const struct {
        const char *word, *path;
    } documents[] = {
        {"status", "/api/v1/snapshot"},       {"streams", "/api/v1/streams"},
        {"players", "/api/v1/players"},       {"publishers", "/api/v1/publishers"},
        {"pulls", "/api/v1/pulls"},           {"config", "/api/v1/config"},
        {"version", "/api/v1/version"},       {"workers", "/api/v1/workers"},
        {"recordings", "/api/v1/recordings"}, {"bans", "/api/v1/bans"},
        {"forwards", "/api/v1/forwards"},     {"certificates", "/api/v1/certificates"},
    };
    const char *command = line->word_count > 0 ? line->words[0] : "status";
    if (strcmp(command, "kick") == 0)
        return run_kick(line);
    if (strcmp(command, "unban") == 0)
        return line->word_count == 2 ? run_named(line, "DELETE", "bans", line->words[1], "")
                                     : wrong("unban: expected a stream's name");
    if (strcmp(command, "record") == 0)
        return run_record(line);
    if (strcmp(command, "pull") == 0)
        return run_pull(line);
    if (strcmp(command, "unpull") == 0)
        return run_unpull(line);
    if (strcmp(command, "stream") == 0)
        return line->word_count == 2 ? run_named(line, "GET", "streams", line->words[1], "")
                                     : wrong("stream: expected a name");
    if (strcmp(command, "locate") == 0)
        return line->word_count == 2 ? run_named(line, "GET", "cluster/streams", line->words[1], "")
                                     : wrong("locate: expected a stream's name");
    if (strcmp(command, "cluster") == 0)
        return run_cluster(line);
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

enum option_id {
    ADMIN = 256,
    TLS_CA,
    TOKEN_FILE,
    BAN,
    TO,
    TTL,
    ON_DEMAND,
    SLOW,
    INTERVAL,
    COUNT,
    CLUSTER,
    JSON,
    HELP,
    VERSION
};

static const struct option long_options[] = {
    {"admin", required_argument, NULL, ADMIN},
    {"tls-ca", required_argument, NULL, TLS_CA},
    {"token-file", required_argument, NULL, TOKEN_FILE},
    {"ban", required_argument, NULL, BAN},
    {"to", required_argument, NULL, TO},
    {"ttl", required_argument, NULL, TTL},
    {"on-demand", no_argument, NULL, ON_DEMAND},
    {"slow", no_argument, NULL, SLOW},
    {"interval", required_argument, NULL, INTERVAL},
    {"count", required_argument, NULL, COUNT},
    {"cluster", no_argument, NULL, CLUSTER},
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
    case TLS_CA:
        line->server.ca = value;
        return 0;
    case TOKEN_FILE:
        if (ctl_read_line(value, &line->server.token, error) == 0)
            return 0;
        fprintf(stderr, "sluicectl: %s\n", error);
        return EXIT_USAGE;
    case BAN:
        line->ban = value;
        return *value && strspn(value, "0123456789") == strlen(value) ? 0 : wrong("--ban: expected seconds");
    case TO:
        line->to = value;
        return strncmp(value, "rtmp://", 7) == 0 || strncmp(value, "rtmps://", 8) == 0
                   ? 0
                   : wrong("--to: expected rtmp://HOST/APP or rtmps://HOST/APP");
    case TTL:
        line->ttl = (unsigned)strtoul(value, &end, 10);
        return *end || strspn(value, "0123456789") > 9 || line->ttl == 0 || !strchr("123456789", *value)
                   ? wrong("--ttl: expected seconds from 1")
                   : 0;
    case ON_DEMAND:
        line->on_demand = true;
        return 0;
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
    case CLUSTER:
        line->cluster = true;
        return 0;
    default:
        line->json = true;
        return 0;
    }
}

/* Output that could not be written is a failure. */
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
