#include "daemon/setting.h"

#include <string.h>

#include <sluice/flv.h>

#include "daemon/merge.h"
#include "daemon/options.h"

#define FIELD(name) .field = offsetof(struct options, name)
#define BY_STREAM(name) .by_stream = true, FIELD(streams.all.name)

/* In the order of the help and of the sample file. A new setting is a row here, and a paragraph in sluiced.conf. */
const struct setting settings[] = {
    {"flv", SETTING_LISTENER, true, LISTENER_FLV, .preset = "127.0.0.1:9000", .value = "ADDR:PORT[=STREAM]",
     .expected = "ADDR:PORT or ADDR:PORT=STREAM, such as 127.0.0.1:9000 or [::1]:9000=live/cam",
     .section = "Listeners (each may be given several times; ADDR is numeric, such as 127.0.0.1 or [::1], PORT 0 lets "
                "the system "
                "choose; the defaults hold when none of them is given)",
     .help = "raw FLV over TCP; publishers are called STREAM, or live/flv-PEERPORT"},
    {"http", SETTING_LISTENER, true, LISTENER_HTTP, .preset = "127.0.0.1:8080", .value = "ADDR:PORT[,merge-window=MS]",
     .expected = "ADDR:PORT, such as 127.0.0.1:8080 or [::1]:8080",
     .help = "publish (POST /NAME.flv), play (GET /NAME.flv)"},
    {"rtsp", SETTING_LISTENER, true, LISTENER_RTSP, .preset = "127.0.0.1:8554", .value = "ADDR:PORT[,merge-window=MS]",
     .expected = "ADDR:PORT, such as 127.0.0.1:8554 or [::1]:8554",
     .help = "publish and play rtsp://HOST:PORT/NAME, interleaved on the connection"},
    {"admin", SETTING_ADMIN, true, .preset = "127.0.0.1:8081", .value = "ADDR:PORT|unix:PATH",
     .expected = "ADDR:PORT such as 127.0.0.1:8081, or unix:PATH", .effect = SETTING_RESTART,
     .help = "API (/api/v1), metrics (/metrics) and console for operators; a Unix socket is its owner's alone"},
    {"admin-token-file", SETTING_ADMIN_TOKEN, .value = "FILE", .expected = "a file's name", .effect = SETTING_RESTART,
     .help =
         "ask who comes to --admin by TCP for the token in FILE, which nobody else may read; addresses that are not "
         "loopback need it"},
    {"pull", SETTING_PULL, true, .value = "URL=NAME[,on-demand]", .expected = "URL=NAME",
     .help = "fetch rtsp://[USER:PASSWORD@]HOST[:PORT]/PATH by RTSP over TCP and publish it as NAME; with on-demand "
             "only while there are players. The last \"=\" ends the URL; on the command line it may be a word of its "
             "own: URL =NAME. What fails is tried again, after 1 to 30 seconds"},
    {"pull-file", SETTING_PULL_FILE, FIELD(pull_file), .value = "FILE", .expected = "a file's name",
     .help = "the same, a pull in each line, where ps does not show passwords; nobody else may read it"},

    {"rule", SETTING_RULE, true, .value = "RULE", .expected = "ACTIONS STREAM [from RANGES] WAYS",
     .effect = SETTING_LATER,
     .section = "Rights (without a rule, everybody may do everything, or else the users of --rtsp-users alone)",
     .help = "ACTIONS STREAM [from RANGES] WAYS: the first rule that fits decides, and where none fits, nobody may. "
             "ACTIONS: publish, play, both with a comma, or all. STREAM: a name, * for any characters. RANGES: "
             "10.0.0.0/8,fd00::/8. WAYS: allow, deny; or one of several with commas: user (of --rtsp-users, by HTTP, "
             "too), user=NAME, token=KEY, secret=KEY (?token= in the URL)"},
    {"token-keys", SETTING_KEYS, FIELD(token_keys), .value = "FILE", .expected = "a file's name",
     .effect = SETTING_LATER, .help = "the keys of tokens: a line NAME:KEY for each; nobody else may read it"},
    {"rtsp-users", SETTING_USERS, FIELD(rtsp_users), .value = "FILE", .expected = "a file's name",
     .help =
         "ask clients who they are; FILE has a line NAME:PASSWORD for each user, or \"publish NAME:PASSWORD\", \"play "
         "NAME:PASSWORD\", and nobody else may read it; without rules these users alone may do anything"},
    {"hook-publish", SETTING_HOOK, FIELD(hooks[HOOK_PUBLISH]), .value = "URL",
     .expected = "http://ADDR[:PORT]/PATH, such as http://127.0.0.1:8000/publish", .effect = SETTING_LATER,
     .help =
         "ask there who may publish: POST with JSON, once the rules allow it; any answer but 2xx is a refusal, and so "
         "is none"},
    {"hook-play", SETTING_HOOK, FIELD(hooks[HOOK_PLAY]), .value = "URL",
     .expected = "http://ADDR[:PORT]/PATH, such as http://127.0.0.1:8000/play", .effect = SETTING_LATER,
     .help = "the same for players, and for recordings that are played"},
    {"hook-unpublish", SETTING_HOOK, FIELD(hooks[HOOK_UNPUBLISH]), .value = "URL",
     .expected = "http://ADDR[:PORT]/PATH, such as http://127.0.0.1:8000/unpublish", .effect = SETTING_LATER,
     .help = "tell there that a publisher has ended: POST with JSON, for which nobody waits, and which is tried four "
             "times"},
    {"hook-stop", SETTING_HOOK, FIELD(hooks[HOOK_STOP]), .value = "URL",
     .expected = "http://ADDR[:PORT]/PATH, such as http://127.0.0.1:8000/stop", .effect = SETTING_LATER,
     .help = "the same of players"},
    {"hook-record", SETTING_HOOK, FIELD(hooks[HOOK_RECORD]), .value = "URL",
     .expected = "http://ADDR[:PORT]/PATH, such as http://127.0.0.1:8000/record", .effect = SETTING_LATER,
     .help = "the same of recordings that are whole"},
    {"hook-timeout", SETTING_SECONDS, FIELD(hook_ms), .least = 0.1, .most = 60, .preset = "5", .value = "SECONDS",
     .expected = "seconds from 0.1 to 60", .effect = SETTING_LATER,
     .help = "how long a hook's answer is waited for, while others are asked included"},
    {"allow-origin", SETTING_ORIGIN, true, .value = "ORIGIN",
     .expected = "*, or an origin such as https://player.example.com", .effect = SETTING_LATER,
     .help = "let pages of ORIGIN read streams and recordings by HTTP, play by WebSocket, and publish: "
             "http[s]://HOST[:PORT], where HOST may begin with \"*.\", or * for all pages; those of the host by which "
             "they reach sluiced may anyway, where that is an address or localhost"},
    {"proxy-from", SETTING_PROXIES, true, .value = "RANGES",
     .expected = "addresses or ranges such as 10.0.0.2,fd00::/64", .effect = SETTING_LATER,
     .help = "expect the PROXY protocol, version 1 or 2, from these addresses, such as 10.0.0.2,fd00::/64: rules, "
             "bans, limits and logs then see the client's address. Without the header such a connection is rejected; "
             "from other addresses it is not read. For --flv, --http and --rtsp"},
    {"allow-remote", SETTING_FLAG, FIELD(allow_remote), .preset = "false",
     .help =
         "listen at addresses that are not loopback also where no credentials are asked for: without rules, or with "
         "one that allows all addresses. Anyone who reaches them may publish and play"},

    {"same-name", SETTING_CHOICE, .detail = SETTING_SAME_NAMES, BY_STREAM(same_name), .preset = "refuse",
     .value = "[STREAM=]POLICY", .expected = "refuse, take-over or resume",
     .section =
         "Publishers (of [STREAM=], here and below: for the streams of that name alone, in which * stands for any "
         "characters; each may be given several times, and the first that fits holds)",
     .help = "what becomes of a publisher that asks for the name of a stream that has one: it is refused; or takes it "
             "over, and the other one is ended; or is refused, and a stream is kept for a publisher that has gone"},
    {"resume", SETTING_SECONDS, BY_STREAM(resume_ms), .least = 1, .most = 86400, .preset = "15",
     .value = "[STREAM=]SECONDS", .expected = "seconds from 1 to 86400",
     .help = "how long, with --same-name resume: its players wait at least so long, and nobody from another host gets "
             "the name meanwhile"},
    {"first-data", SETTING_SECONDS, BY_STREAM(first_data_ms), .least = 1, .most = 86400, .preset = "20",
     .value = "[STREAM=]SECONDS", .expected = "seconds from 1 to 86400",
     .help = "a publisher whose first frame has not come by then is ended"},
    {"time-jump", SETTING_SECONDS, BY_STREAM(jump_ms), .most = 86400, .preset = "3", .value = "[STREAM=]SECONDS",
     .expected = "seconds from 0 to 86400",
     .help =
         "timestamps that jump by more than that, forward or back, are repaired: players are told times that go on; "
         "0: never"},

    {"record", SETTING_RECORD, true, .value = "PATTERN=DIR",
     .expected = "PATTERN=DIRECTORY, such as live/*=/var/lib/sluice", .effect = SETTING_RESTART, .section = "Recording",
     .help =
         "record the streams that match PATTERN, such as live/*, to DIR/STREAM/TIME.flv (repeatable, the first that "
         "matches holds), and play what is there by HTTP at /recordings/STREAM/TIME.flv, listed at "
         "/recordings/STREAM"},
    {"record-segment", SETTING_SECONDS, FIELD(record.segment_ms), .most = 604800, .preset = "3600", .value = "SECONDS",
     .expected = "seconds from 0 to 604800", .effect = SETTING_RESTART,
     .help = "begin a new file at the first key frame after so long; 0: never"},
    {"record-size", SETTING_SIZE, FIELD(record.segment_bytes), .most = 1099511627776.0, .preset = "0", .value = "SIZE",
     .expected = "a size up to 1024G", .effect = SETTING_RESTART, .help = "or when a file has this size; 0: never"},

    {"workers", SETTING_COUNT, FIELD(workers), .least = 1, .most = OPTIONS_MAX_WORKERS, .value = "N",
     .expected = "a number from 1 to 256", .effect = SETTING_RESTART,
     .section = "Limits (SIZE in bytes, or with K, M, G for powers of 1024)",
     .help = "threads that share the work; a stream is one worker's, and the memory is divided (default: the cores "
             "that sluiced may use, within its control groups)"},
    {"spread", SETTING_COUNT, FIELD(spread), .most = 1000000, .preset = "0", .value = "N",
     .expected = "a number up to 1000000", .effect = SETTING_LATER,
     .help = "players of a stream that its own worker serves before further ones are spread over all workers; 0: all"},
    {"memory", SETTING_SIZE, FIELD(memory), .least = 4194304.0, .most = 68719476736.0, .value = "SIZE",
     .expected = "a size from 4M to 64G", .effect = SETTING_RESTART,
     .help = "most memory for streams: received blocks, and an eighth of it for what describes them; at least 1M for "
             "each worker (default 256M, or 64M for each worker where that is more; at most half of what its control "
             "groups "
             "allow)"},
    {"gop-size", SETTING_SIZE, BY_STREAM(gop_size), .most = 1073741824.0, .value = "[STREAM=]SIZE",
     .expected = "a size up to 1G",
     .help = "most block memory for one stream's cached group of pictures; at most --player-buffer (default 8M, or "
             "that)"},
    {"player-buffer", SETTING_SIZE, BY_STREAM(player_buffer), .least = 65536.0, .most = 1073741824.0, .preset = "16M",
     .value = "[STREAM=]SIZE", .expected = "a size from 64K to 1G",
     .help = "most payload queued for one player before it loses frames up to a key frame"},
    {"frame-limit", SETTING_SIZE, BY_STREAM(frame_limit), .least = 1024.0, .most = SLUICE_FLV_MAX_PAYLOAD,
     .value = "[STREAM=]SIZE", .expected = "a size from 1K to 16777215", .effect = SETTING_LATER,
     .help = "largest tag payload; at most --player-buffer and half of a worker's share of --memory (default 8M, or "
             "that)"},
    {"max-connections", SETTING_COUNT, FIELD(max_connections), .least = 1, .most = 1000000, .preset = "10000",
     .value = "N", .expected = "a number from 1 to 1000000", .help = "most connections at a time"},
    {"max-connections-per-address", SETTING_COUNT, FIELD(max_per_address), .most = 1000000, .preset = "0", .value = "N",
     .expected = "a number up to 1000000", .effect = SETTING_LATER,
     .help = "most connections of one address, of IPv6 a network of 64 bits; 0: no limit"},
    {"max-streams", SETTING_COUNT, FIELD(max_streams), .most = 1000000, .preset = "0", .value = "N",
     .expected = "a number up to 1000000", .effect = SETTING_LATER,
     .help = "most streams, those that players wait for included; 0: no limit"},
    {"max-players", SETTING_COUNT, BY_STREAM(max_players), .most = 1000000, .preset = "0", .value = "[STREAM=]N",
     .expected = "a number up to 1000000", .effect = SETTING_LATER, .help = "most players of one stream; 0: no limit"},

    {"batch", SETTING_MILLISECONDS, FIELD(batch_us), .most = 100, .preset = "2", .value = "MS",
     .expected = "milliseconds from 0 to 100", .effect = SETTING_RESTART, .section = "Time",
     .help = "batching window of the loop, fractions allowed"},
    {"merge-window", SETTING_COUNT, true, BY_STREAM(merge_window_ms), .most = MERGE_WINDOW_MOST, .preset = "0",
     .value = "[STREAM=]MS", .expected = "milliseconds from 0 to 350",
     .help = "gather what is due to a player for so long and send it at once: far less CPU for many players, and up "
             "to so much latency. Of a STREAM, or else of a listener, or else of all"},
    {"wait", SETTING_SECONDS, BY_STREAM(wait_ms), .most = 86400, .preset = "30", .value = "[STREAM=]SECONDS",
     .expected = "seconds from 0 to 86400", .help = "how long a player waits for a publisher"},
    {"idle", SETTING_SECONDS, BY_STREAM(idle_ms), .least = 1, .most = 86400, .preset = "15",
     .value = "[STREAM=]SECONDS", .expected = "seconds from 1 to 86400",
     .help = "a publisher that sends nothing for so long is ended"},
    {"stall", SETTING_SECONDS, BY_STREAM(stall_ms), .least = 1, .most = 86400, .preset = "30",
     .value = "[STREAM=]SECONDS", .expected = "seconds from 1 to 86400",
     .help = "a player that takes nothing for so long is ended"},
    {"behind", SETTING_SECONDS, BY_STREAM(behind_ms), .most = 86400, .preset = "0", .value = "[STREAM=]SECONDS",
     .expected = "seconds from 0 to 86400",
     .help = "a player that has not been sent everything once in so long is ended; 0: never"},
    {"catch-up", SETTING_SECONDS, BY_STREAM(catch_up_ms), .most = 86400, .preset = "10", .value = "[STREAM=]SECONDS",
     .expected = "seconds from 0 to 86400",
     .help = "a player skips what has waited for it so long, up to the newest key frame that is queued; 0: never"},
    {"drain", SETTING_SECONDS, FIELD(drain_ms), .most = 86400, .preset = "20", .value = "SECONDS",
     .expected = "seconds from 0 to 86400",
     .help = "how long connections go on once another process has taken over, by SIGUSR2 (see sluiced(8))"},

    {"backend", SETTING_CHOICE, .detail = SETTING_BACKENDS, FIELD(backend), .preset = "auto", .value = "NAME",
     .expected = "auto, uring or epoll", .effect = SETTING_RESTART, .section = "Other",
     .help = "auto is io_uring, or epoll with a warning where it cannot be had; uring and epoll never turn to the "
             "other"},
    {"status", SETTING_FLAG, FIELD(status), .preset = "false", .effect = SETTING_RESTART,
     .help = "show a status line on standard error each second"},
    {"log-level", SETTING_CHOICE, .detail = SETTING_LOG_LEVELS, FIELD(log_level), .preset = "info", .value = "LEVEL",
     .expected = "error, warning, info or debug", .help = "what is logged"},
    {"log-format", SETTING_CHOICE, .detail = SETTING_LOG_FORMATS, FIELD(log_format), .preset = "text",
     .value = "FORMAT", .expected = "text or json", .effect = SETTING_RESTART,
     .help = "json is an object a line; text is in the form of systemd's journal where that is what takes it"},
    {"log-rate", SETTING_COUNT, FIELD(log_rate), .most = 1000000, .preset = "200", .value = "N",
     .expected = "a number up to 1000000",
     .help = "most lines of the same message a second; what is left out is "
             "counted; 0 for no limit"},

    {"config", SETTING_COMMAND, .detail = COMMAND_CONFIG, .value = "FILE",
     .section = "Configuration file (every setting above, by the same name; the command line wins over it)",
     .help = "read FILE, at the start and when SIGHUP comes"},
    {"check", SETTING_COMMAND, .detail = COMMAND_CHECK,
     .help = "say OK, or each error with its file and line, and exit; listens nowhere and connects to nobody"},
    {"print-config", SETTING_COMMAND, .detail = COMMAND_PRINT,
     .help = "show every setting and where it comes from, without passwords, and exit"},
    {"sign", SETTING_COMMAND, .detail = COMMAND_SIGN, .value = "ACTION,STREAM,SECONDS[,KEY]",
     .help = "make a token for that long, with that key of --token-keys, or the first one; show it, and exit"},
    {"help", SETTING_COMMAND, .detail = COMMAND_HELP, .help = "show this text"},
    {"version", SETTING_COMMAND, .detail = COMMAND_VERSION, .help = "show the version"},
};
const size_t settings_count = sizeof settings / sizeof *settings;
_Static_assert(sizeof settings / sizeof *settings <= SETTINGS_MOST, "more settings than SETTINGS_MOST");

const struct setting *setting_find(const char *name, size_t length, bool commands) {
    for (size_t i = 0; i < settings_count; i++)
        if (strlen(settings[i].name) == length && memcmp(settings[i].name, name, length) == 0)
            return settings[i].kind != SETTING_COMMAND || commands ? &settings[i] : NULL;
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
    const char *best = NULL;
    /* A third of it may be wrong. */
    size_t nearest = (strlen(name) + 2) / 3 + 1;
    for (size_t i = 0; i < settings_count; i++) {
        size_t far = distance(name, settings[i].name);
        if (far < nearest && (settings[i].kind != SETTING_COMMAND || commands)) {
            nearest = far;
            best = settings[i].name;
        }
    }
    return best;
}

enum { HELP_COLUMN = 29, HELP_WIDTH = 116 };

/* Words from a column on, with a line's end. */
static void wrap(FILE *out, const char *text, size_t indent) {
    size_t column = indent;
    for (const char *word = text; *word;) {
        size_t length = strcspn(word, " ");
        if (word > text && column + 1 + length > HELP_WIDTH) {
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

static void help_setting(FILE *out, const struct setting *setting) {
    char text[1024], range[160] = "";
    bool has_range = setting->kind >= SETTING_SIZE && setting->kind != SETTING_FLAG;
    if (has_range && setting->preset)
        snprintf(range, sizeof range, " (%s; default %s)", setting->expected, setting->preset);
    else if (has_range)
        snprintf(range, sizeof range, " (%s)", setting->expected);
    else if (setting->preset && setting->kind != SETTING_FLAG)
        snprintf(range, sizeof range, " (default %s)", setting->preset);
    snprintf(text, sizeof text, "%s%s", setting->help, range);
    int length = fprintf(out, "  --%s%s%s", setting->name, setting->value ? " " : "",
                         setting->value ? setting->value : "");
    if (length + 1 < HELP_COLUMN)
        fprintf(out, "%*s", HELP_COLUMN - length, "");
    else
        fprintf(out, "\n%*s", HELP_COLUMN, "");
    wrap(out, text, HELP_COLUMN);
}

void settings_help(FILE *out) {
    fputs("Usage: sluiced [OPTION]...\n", out);
    wrap(out,
         "Takes live streams in FLV over TCP and HTTP, and by RTSP, and relays them to HTTP and RTSP players without "
         "copying.",
         0);
    for (size_t i = 0; i < settings_count; i++) {
        if (settings[i].section) {
            char heading[256];
            snprintf(heading, sizeof heading, "%s:", settings[i].section);
            fputc('\n', out);
            wrap(out, heading, 0);
        }
        help_setting(out, &settings[i]);
    }
}
