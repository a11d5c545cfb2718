#include "ctl/print.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/print_cluster.h"
#include "shared/foreign_text.h"

const json_t *ctl_member(const json_t *object, const char *name) {
    return json_object_get(object, name);
}

double ctl_number(const json_t *object, const char *name) {
    return json_number_value(ctl_member(object, name));
}

const char *ctl_text(const json_t *object, const char *name) {
    const char *text = json_string_value(ctl_member(object, name));
    return text ? text : "-";
}

json_t *ctl_sorted(const json_t *array, int (*compare)(const void *, const void *)) {
    size_t count = json_array_size(array);
    json_t *result = json_array(), **list = calloc(count ? count : 1, sizeof *list);
    for (size_t i = 0; list && i < count; i++)
        list[i] = json_array_get(array, i);
    if (list && count > 1)
        qsort(list, count, sizeof(json_t *), compare);
    for (size_t i = 0; list && i < count; i++)
        json_array_append(result, list[i]);
    free(list);
    return result;
}

static void make_text_shown(json_t *text) {
    char *shown = foreign_shown(json_string_value(text));
    /* Without memory for it nothing is shown. */
    (void)json_string_set(text, shown ? shown : "");
    free(shown);
}

void ctl_make_shown(json_t *document) {
    const char *key;
    size_t index;
    json_t *value;
    json_object_foreach(document, key, value) ctl_make_shown(value);
    json_array_foreach(document, index, value) ctl_make_shown(value);
    if (json_is_string(document))
        make_text_shown(document);
}

void ctl_print_json(FILE *out, const json_t *document) {
    char *text = json_dumps(document, JSON_INDENT(1) | JSON_REAL_PRECISION(10));
    for (const char *at = text; at && *at;) {
        uint32_t code;
        size_t size = foreign_character(at, &code);
        /* C0 has been escaped already where it is not the document's own. */
        if (*at != '\n' && foreign_is_control(code))
            fprintf(out, "\\u%04x", (unsigned)code);
        else
            fwrite(at, 1, size, out);
        at += size;
    }
    fputc('\n', out);
    free(text);
}

void ctl_bits(double per_second, char text[CTL_WORDS]) {
    if (per_second >= 1e6)
        snprintf(text, CTL_WORDS, "%.2f Mbit/s", per_second / 1e6);
    else
        snprintf(text, CTL_WORDS, "%.0f kbit/s", per_second / 1e3);
}

void ctl_bytes(double count, char text[CTL_WORDS]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    for (; count >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        count /= 1024;
    snprintf(text, CTL_WORDS, unit ? "%.1f %s" : "%.0f %s", count, units[unit]);
}

void ctl_duration(double seconds, char text[CTL_WORDS]) {
    /* Of what is no daemon it may be any number. */
    unsigned long long whole = seconds >= 0 && seconds < 1e15 ? (unsigned long long)seconds : 0;
    if (whole < 60)
        snprintf(text, CTL_WORDS, "%llu s", whole);
    else if (whole < 3600)
        snprintf(text, CTL_WORDS, "%llu min", whole / 60);
    else if (whole < 86400)
        snprintf(text, CTL_WORDS, "%llu h %llu min", whole / 3600, whole / 60 % 60);
    else
        snprintf(text, CTL_WORDS, "%llu d %llu h", whole / 86400, whole / 3600 % 24);
}

/* Where something was: what a setting limits. */
static void print_refused(FILE *out, const json_t *refused) {
    static const char *const causes[][2] = {{"max_connections", "connections"},
                                            {"max_connections_per_address", "connections of an address"},
                                            {"max_streams", "streams"},
                                            {"max_players", "players"},
                                            {"memory", "connections for want of memory"}};
    const char *before = "refused   ";
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        double count = ctl_number(refused, causes[i][0]);
        if (count > 0) {
            fprintf(out, "%s%.0f %s", before, count, causes[i][1]);
            before = ", ";
        }
    }
    if (*before == ',')
        fputc('\n', out);
}

/* The name that it is used for, or else its subject. */
static const char *certificate_name(const json_t *certificate) {
    return json_is_string(ctl_member(certificate, "name")) ? ctl_text(certificate, "name")
                                                           : ctl_text(certificate, "subject");
}

/* A line for each certificate that will expire soon, or has. */
static void print_expiring(FILE *out, const json_t *certificates) {
    const json_t *certificate;
    size_t index;
    json_array_foreach(certificates, index, certificate) {
        const char *state = ctl_text(certificate, "state");
        if (strcmp(state, "expired") == 0)
            fprintf(out, "warning   certificate of %s has expired\n", certificate_name(certificate));
        else if (strcmp(state, "valid") != 0)
            fprintf(out, "warning   certificate of %s expires in %.0f days\n", certificate_name(certificate),
                    ctl_number(certificate, "days"));
    }
}

/* Nothing without a connection that has TLS, and without --ktls. */
static void print_tls(FILE *out, const json_t *tls) {
    const json_t *ktls = ctl_member(tls, "ktls");
    const bool is_asked = ktls && strcmp(ctl_text(ktls, "setting"), "off") != 0;
    const double count = ctl_number(tls, "connections");
    if (count > 0 || is_asked)
        fprintf(out, "tls       %.0f connections, %.0f encrypted by the kernel\n", count,
                ctl_number(tls, "ktls_connections"));
    if (is_asked && !json_is_true(ctl_member(ktls, "used")) && json_is_string(ctl_member(ktls, "failed")))
        fprintf(out, "warning   kTLS is not used: %s: %s\n", ctl_text(ktls, "failed"), ctl_text(ktls, "reason"));
}

void ctl_print_status(FILE *out, const json_t *snapshot) {
    const json_t *pool = ctl_member(snapshot, "pool"), *one;
    size_t index, live = 0, waiting = 0, slow = 0, silent_workers = 0;
    double rate = 0;
    char text[CTL_WORDS], most[CTL_WORDS];
    json_array_foreach(ctl_member(snapshot, "streams"), index, one) {
        bool is_live = strcmp(ctl_text(one, "state"), "live") == 0;
        live += is_live;
        waiting += !is_live;
        rate += ctl_number(one, "bits_per_second");
    }
    json_array_foreach(ctl_member(snapshot, "players"), index, one) slow += json_is_true(ctl_member(one, "slow"));
    json_array_foreach(ctl_member(snapshot, "workers"), index, one)
        silent_workers += !json_is_true(ctl_member(one, "answers"));
    ctl_duration(ctl_number(snapshot, "uptime_seconds"), text);
    fprintf(out, "sluiced %s, up %s\n", ctl_text(snapshot, "version"), text);
    ctl_bits(rate, text);
    fprintf(out, "streams   %zu live, %zu waiting, %s in\n", live, waiting, text);
    fprintf(out, "players   %zu, %zu slow\n", json_array_size(ctl_member(snapshot, "players")), slow);
    ctl_bytes(ctl_number(pool, "bytes_held"), text);
    ctl_bytes(ctl_number(pool, "bytes_max"), most);
    fprintf(out, "memory    %s of %s held\n", text, most);
    fprintf(out, "workers   %zu", json_array_size(ctl_member(snapshot, "workers")));
    if (silent_workers > 0)
        fprintf(out, ", %zu not answering", silent_workers);
    fputc('\n', out);
    print_tls(out, ctl_member(snapshot, "tls"));
    ctl_print_cluster_summary(out, ctl_member(snapshot, "cluster"));
    print_expiring(out, ctl_member(snapshot, "certificates"));
    print_refused(out, ctl_member(snapshot, "refused"));
}

void ctl_print_streams(FILE *out, const json_t *streams, size_t most) {
    const json_t *stream;
    size_t index;
    fprintf(out, "%-28s %-8s %-10s %-22s %14s %8s %6s %6s\n", "STREAM", "STATE", "BY", "PUBLISHER", "IN", "PLAYERS",
            "LOST", "WORKER");
    json_array_foreach(streams, index, stream) {
        const json_t *publisher = ctl_member(stream, "publisher");
        char rate[CTL_WORDS];
        if (most > 0 && index == most)
            break;
        ctl_bits(ctl_number(stream, "bits_per_second"), rate);
        fprintf(out, "%-28s %-8s %-10s %-22s %14s %8.0f %6.0f %6.0f\n", ctl_text(stream, "name"),
                ctl_text(stream, "state"), ctl_text(publisher, "protocol"), ctl_text(publisher, "address"), rate,
                ctl_number(stream, "subscribers"), ctl_number(stream, "frames_dropped"), ctl_number(stream, "worker"));
    }
}

void ctl_print_players(FILE *out, const json_t *players, bool slow_only, size_t most) {
    const json_t *player;
    size_t index, shown = 0;
    fprintf(out, "%8s %-28s %-22s %-10s %-9s %5s %12s %10s %9s %8s %6s\n", "ID", "STREAM", "ADDRESS", "BY", "STATE",
            "SLOW", "QUEUED", "", "STALLED", "DROPPED", "WORKER");
    json_array_foreach(players, index, player) {
        bool slow = json_is_true(ctl_member(player, "slow"));
        char queued[CTL_WORDS];
        if (slow_only && !slow)
            continue;
        if (most > 0 && shown++ == most)
            break;
        ctl_bytes(ctl_number(player, "queued_bytes"), queued);
        fprintf(out, "%8.0f %-28s %-22s %-10s %-9s %5s %12s %8.1f s %7.1f s %8.0f %6.0f\n", ctl_number(player, "id"),
                ctl_text(player, "stream"), ctl_text(player, "address"), ctl_text(player, "protocol"),
                ctl_text(player, "state"), slow ? "slow" : "", queued, ctl_number(player, "queued_ms") / 1000,
                ctl_number(player, "stalled_ms") / 1000, ctl_number(player, "frames_dropped"),
                ctl_number(player, "worker"));
    }
}

void ctl_print_publishers(FILE *out, const json_t *publishers) {
    const json_t *publisher;
    size_t index;
    fprintf(out, "%8s %-28s %-22s %-10s %14s %12s %12s\n", "ID", "STREAM", "ADDRESS", "BY", "IN", "CONNECTED",
            "SILENT");
    json_array_foreach(publishers, index, publisher) {
        char rate[CTL_WORDS], connected[CTL_WORDS], silent[CTL_WORDS];
        ctl_bits(ctl_number(publisher, "bits_per_second"), rate);
        ctl_duration(ctl_number(publisher, "connected_seconds"), connected);
        ctl_duration(ctl_number(publisher, "silent_seconds"), silent);
        fprintf(out, "%8.0f %-28s %-22s %-10s %14s %12s %12s\n", ctl_number(publisher, "id"),
                ctl_text(publisher, "stream"), ctl_text(publisher, "address"), ctl_text(publisher, "protocol"), rate,
                connected, silent);
    }
}

/* A number of seconds in words; "-" where there is none. */
static void optional_duration(const json_t *object, const char *name, char words[CTL_WORDS]) {
    if (json_is_number(ctl_member(object, name)))
        ctl_duration(ctl_number(object, name), words);
    else
        strcpy(words, "-");
}

void ctl_print_pulls(FILE *out, const json_t *pulls) {
    const json_t *pull;
    size_t index;
    fprintf(out, "%-28s %-6s %-32s %-12s %-13s %10s %8s %10s  %s\n", "STREAM", "TYPE", "FROM", "STATE", "SOURCE", "TTL",
            "FAILURES", "RETRY", "REASON");
    json_array_foreach(pulls, index, pull) {
        char ttl[CTL_WORDS], retry[CTL_WORDS];
        optional_duration(pull, "ttl_seconds", ttl);
        optional_duration(pull, "retry_seconds", retry);
        fprintf(out, "%-28s %-6s %-32s %-12s %-13s %10s %8.0f %10s  %s\n", ctl_text(pull, "stream"),
                ctl_text(pull, "type"), ctl_text(pull, "from"), ctl_text(pull, "state"), ctl_text(pull, "source"), ttl,
                ctl_number(pull, "failures"), retry, ctl_text(pull, "reason"));
    }
}

void ctl_print_forwards(FILE *out, const json_t *forwards) {
    const json_t *forward;
    size_t index;
    fprintf(out, "%-28s %-6s %-32s %-12s %12s %10s %8s %10s  %s\n", "STREAM", "TYPE", "TO", "STATE", "SENT", "DROPPED",
            "FAILURES", "RETRY", "REASON");
    json_array_foreach(forwards, index, forward) {
        char sent[CTL_WORDS], retry[CTL_WORDS];
        ctl_bytes(ctl_number(forward, "bytes_sent"), sent);
        optional_duration(forward, "retry_seconds", retry);
        fprintf(out, "%-28s %-6s %-32s %-12s %12s %10.0f %8.0f %10s  %s\n", ctl_text(forward, "stream"),
                ctl_text(forward, "type"), ctl_text(forward, "to"), ctl_text(forward, "state"), sent,
                ctl_number(forward, "frames_dropped"), ctl_number(forward, "failures"), retry,
                ctl_text(forward, "reason"));
    }
}

void ctl_print_recordings(FILE *out, const json_t *recordings) {
    const json_t *one;
    size_t index;
    fprintf(out, "%-28s %-6s %-10s %6s %12s %8s  %s\n", "STREAM", "RECORD", "STATE", "FILES", "WRITTEN", "DROPPED",
            "FILE");
    json_array_foreach(recordings, index, one) {
        const json_t *recording = ctl_member(one, "recording");
        char written[CTL_WORDS];
        ctl_bytes(ctl_number(recording, "bytes"), written);
        fprintf(out, "%-28s %-6s %-10s %6.0f %12s %8.0f  %s\n", ctl_text(one, "stream"), ctl_text(one, "record"),
                ctl_text(recording, "state"), ctl_number(recording, "files"), written,
                ctl_number(recording, "frames_dropped"), ctl_text(recording, "file"));
    }
}

void ctl_print_certificates(FILE *out, const json_t *certificates) {
    const json_t *certificate;
    size_t index;
    fprintf(out, "%-28s %-9s %6s %-20s %-16s  %s\n", "NAME", "STATE", "DAYS", "EXPIRES", "SHA-256", "SUBJECT");
    json_array_foreach(certificates, index, certificate)
        fprintf(out, "%-28s %-9s %6.0f %-20s %.16s  %s\n", ctl_text(certificate, "name"),
                ctl_text(certificate, "state"), ctl_number(certificate, "days"), ctl_text(certificate, "expires"),
                ctl_text(certificate, "sha256"), ctl_text(certificate, "subject"));
}

void ctl_print_bans(FILE *out, const json_t *bans) {
    const json_t *ban;
    size_t index;
    fprintf(out, "%-28s %-40s %-8s %-10s %10s %12s  %s\n", "STREAM", "HOST", "SCOPE", "REASON", "AGE", "ENDS IN",
            "NODE");
    json_array_foreach(bans, index, ban) {
        char age[CTL_WORDS], left[CTL_WORDS];
        optional_duration(ban, "age_seconds", age);
        ctl_duration(ctl_number(ban, "ends_in_seconds"), left);
        fprintf(out, "%-28s %-40s %-8s %-10s %10s %12s  %s\n", ctl_text(ban, "stream"), ctl_text(ban, "host"),
                ctl_text(ban, "scope"), ctl_text(ban, "reason"), age, left, ctl_text(ban, "node"));
    }
}
