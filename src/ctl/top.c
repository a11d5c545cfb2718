#include "ctl/top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "ctl/print.h"
#include "ctl/print_cluster.h"

/* ECMA-48: the alternate screen, without a cursor; and home, and the rest of the screen cleared. */
#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"
#define HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_REST "\033[J"

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
    (void)number;
    interrupted = 1;
}

static int by_rate(const void *a, const void *b) {
    double one = ctl_number(*(json_t *const *)a, "bits_per_second");
    double other = ctl_number(*(json_t *const *)b, "bits_per_second");
    return one < other ? 1 : one > other ? -1 : 0;
}

/* The slow ones first, then those with most in their queues. */
static int by_trouble(const void *a, const void *b) {
    const json_t *one = *(json_t *const *)a, *other = *(json_t *const *)b;
    int slow = json_is_true(ctl_member(other, "slow")) - json_is_true(ctl_member(one, "slow"));
    double queued = ctl_number(other, "queued_bytes") - ctl_number(one, "queued_bytes");
    return slow ? slow : queued > 0 ? 1 : queued < 0 ? -1 : 0;
}

static void screen_size(unsigned *rows, unsigned *columns) {
    struct winsize size = {0};
    *rows = 24;
    *columns = 80;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
        *rows = size.ws_row;
        *columns = size.ws_col;
    }
}

/* The text's lines, as far as the screen goes. */
static void show(const char *text, unsigned rows, unsigned columns) {
    fputs(HOME, stdout);
    for (unsigned row = 0; row < rows && *text; row++) {
        size_t length = strcspn(text, "\n");
        bool reverse = strncmp(text, "STREAM ", 7) == 0 || strncmp(text, "NODE ", 5) == 0 ||
                       strncmp(text, "      ID ", 9) == 0;
        printf("%s%.*s%s" CLEAR_LINE "%s", reverse ? "\033[7m" : "", (int)(length < columns ? length : columns), text,
               reverse ? "\033[0m" : "", row + 1 < rows ? "\r\n" : "");
        text += length + (text[length] != '\0');
    }
    fputs(CLEAR_REST, stdout);
    fflush(stdout);
}

/* What the screen has, in so many rows. */
static void print_everything(FILE *out, const json_t *snapshot, unsigned rows) {
    json_t *streams = ctl_sorted(ctl_member(snapshot, "streams"), by_rate);
    json_t *players = ctl_sorted(ctl_member(snapshot, "players"), by_trouble);
    size_t room = rows > 12 ? rows - 9 : 4;
    size_t shown = json_array_size(streams) < room / 2 ? json_array_size(streams) : room / 2;
    ctl_print_status(out, snapshot);
    fputc('\n', out);
    ctl_print_streams(out, streams, shown > 0 ? shown : 1);
    fputc('\n', out);
    ctl_print_players(out, players, false, room - shown);
    json_decref(streams);
    json_decref(players);
}

static void print_nodes(FILE *out, const json_t *cluster, unsigned rows) {
    json_t *nodes = ctl_by_load(ctl_member(cluster, "nodes"));
    ctl_print_cluster(out, cluster, nodes, rows > 12 ? rows - 7 : 5);
    json_decref(nodes);
}

static void show_answer(const struct ctl_top_options *options, json_t *document) {
    unsigned rows, columns;
    char *text = NULL;
    size_t size;
    ctl_make_shown(document);
    screen_size(&rows, &columns);
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return;
    (options->is_cluster ? print_nodes : print_everything)(out, document, rows);
    fclose(out);
    show(text, rows, columns);
    free(text);
}

static int look(const struct ctl_server *server, const struct ctl_top_options *options, char error[CTL_ERROR]) {
    struct ctl_answer answer;
    const char *path = options->is_cluster ? "/api/v1/cluster" : "/api/v1/snapshot";
    int result = 0;
    if (ctl_ask(server, "GET", path, NULL, &answer, error) < 0)
        return -ENOTCONN;
    if (answer.status != 200) {
        ctl_make_shown(answer.document);
        snprintf(error, CTL_ERROR, "%u: %s", answer.status, ctl_text(answer.document, "detail"));
        result = -EACCES;
    } else if (options->is_cluster && !json_is_true(ctl_member(answer.document, "enabled"))) {
        snprintf(error, CTL_ERROR, "this node is in no cluster");
        result = -EACCES;
    } else if (options->is_json) {
        ctl_print_json(stdout, answer.document);
        fflush(stdout);
    } else {
        show_answer(options, answer.document);
    }
    json_decref(answer.document);
    return result;
}

/* True when the user wants to leave. */
static bool wait_key(unsigned interval_ms) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char key;
    if (poll(&input, 1, (int)interval_ms) <= 0)
        return false;
    ssize_t got = read(STDIN_FILENO, &key, 1);
    /* A terminal that has gone; a file that has ended is no reason to leave. */
    if (got <= 0) {
        (void)poll(NULL, 0, (int)interval_ms);
        return false;
    }
    return key == 'q' || key == 'Q' || key == 3;
}

int ctl_top(const struct ctl_server *server, const struct ctl_top_options *options, char error[CTL_ERROR]) {
    const struct sigaction action = {.sa_handler = on_signal};
    const unsigned count = options->count;
    struct termios before, raw;
    bool is_terminal = tcgetattr(STDIN_FILENO, &before) == 0;
    int result = 0;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    if (is_terminal) {
        raw = before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    fputs(options->is_json ? "" : ENTER, stdout);
    for (unsigned looks = 0; !interrupted && result == 0 && (count == 0 || looks < count);) {
        result = look(server, options, error);
        looks++;
        if (result == 0 && (count == 0 || looks < count) && wait_key(options->interval_ms))
            break;
    }
    fputs(options->is_json ? "" : LEAVE, stdout);
    fflush(stdout);
    if (is_terminal)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    /* The signal may have interrupted a request or the output. */
    if (interrupted)
        clearerr(stdout);
    return interrupted ? 0 : result;
}
