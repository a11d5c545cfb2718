#include "daemon/admin/admin.h"

#include <errno.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/admin/admin_api.h"
#include "daemon/admin/admin_asset.h"
#include "daemon/admin/admin_cluster.h"
#include "daemon/admin/admin_guard.h"
#include "daemon/admin/admin_listen.h"
#include "daemon/admin/admin_metrics.h"
#include "daemon/admin/admin_pull.h"
#include "daemon/admin/admin_query.h"
#include "daemon/admin/admin_reply.h"
#include "daemon/admin/admin_server.h"
#include "daemon/base/log.h"
#include "daemon/control/hook_delivery.h"
#include "daemon/control/spawn.h"
#include "shared/text.h"

enum {
    BAN_MOST_S = 86400,
    TOKEN_LEAST = 16,       /* characters */
    PAGE_STREAMS = 50,      /* of a page, if the request does not say */
    OVERVIEW_PLAYERS = 100, /* of the overview */
    METHODS_CHANGE = ADMIN_POST | ADMIN_PUT | ADMIN_DELETE | ADMIN_PATCH,
};

struct admin_listener {
    struct admin *admin;
    struct admin_guard guard;
    struct admin_socket *socket;
};

struct admin {
    const struct server *data_plane;
    struct worker_query *worker_query;
    struct reload *reload;
    struct hook_delivery *hook_delivery;
    const struct history *history;
    struct cluster_client *cluster; /* NULL: there is none */
    admin_upgrade_fn *upgrade;
    void *upgrader;
    struct admin_server *server;
    bool serves;  /* the run has begun */
    bool leaving; /* another process is the server */
    bool drains;
    char *token;
    struct admin_listener listeners[ADMIN_MAX_LISTENERS];
    size_t count;
};

/* What a path offers. One that ends with "/" has a name or an id behind it. */
struct route {
    const char *path;
    const char *allow;
    unsigned parts;                   /* that GET wants to know */
    admin_document *document;         /* of GET; of paths with a name or an id, finish() knows */
    enum worker_command_kind command; /* of methods that change something */
    bool says_partial;                /* GET: what all workers have, not by worker */
};

static const char list_path[] = "/api/v1/streams", overview_path[] = "/api/v1/overview",
                  health_path[] = "/api/v1/health", history_path[] = "/api/v1/history",
                  streams_path[] = "/api/v1/streams/", players_path[] = "/api/v1/players/",
                  publishers_path[] = "/api/v1/publishers/", metrics_path[] = "/metrics",
                  reload_path[] = "/api/v1/reload", recordings_path[] = "/api/v1/recordings/",
                  upgrade_path[] = "/api/v1/upgrade", bans_path[] = "/api/v1/bans", ban_path[] = "/api/v1/bans/",
                  pulls_path[] = "/api/v1/pulls", pull_path[] = "/api/v1/pulls/", forwards_path[] = "/api/v1/forwards",
                  cluster_pulls_path[] = "/api/v1/cluster/pulls", cluster_list_path[] = "/api/v1/cluster/streams",
                  cluster_stream_path[] = "/api/v1/cluster/streams/";

static const struct route routes[] = {
    {list_path, "GET, HEAD", SNAPSHOT_STREAMS, admin_streams, 0, true},
    {overview_path, "GET, HEAD", SNAPSHOT_STREAMS | SNAPSHOT_PLAYERS | SNAPSHOT_SUMS, admin_overview, 0, false},
    {history_path, "GET, HEAD", 0, NULL, 0, false},
    {"/api/v1/players", "GET, HEAD", SNAPSHOT_PLAYERS, admin_players, 0, true},
    {"/api/v1/publishers", "GET, HEAD", SNAPSHOT_STREAMS, admin_publishers, 0, true},
    {pulls_path, "GET, HEAD, POST", SNAPSHOT_PULLS, admin_pulls, COMMAND_PULL_ADD, true},
    {pull_path, "GET, HEAD, DELETE", SNAPSHOT_PULLS, NULL, COMMAND_PULL_REMOVE, false},
    {forwards_path, "GET, HEAD", SNAPSHOT_FORWARDS, admin_forwards, 0, true},
    {"/api/v1/cluster", "GET, HEAD", SNAPSHOT_EDGES, admin_cluster, 0, true},
    {cluster_pulls_path, "GET, HEAD", SNAPSHOT_EDGES, admin_cluster_pulls, 0, true},
    {cluster_list_path, "GET, HEAD", 0, NULL, 0, false},
    {cluster_stream_path, "GET, HEAD", 0, NULL, 0, false},
    {"/api/v1/pool", "GET, HEAD", 0, admin_pool, 0, true},
    {"/api/v1/workers", "GET, HEAD", SNAPSHOT_TLS, admin_workers, 0, false},
    {"/api/v1/config", "GET, HEAD", 0, admin_config, 0, false},
    {"/api/v1/certificates", "GET, HEAD", 0, admin_certificates, 0, false},
    {"/api/v1/tls", "GET, HEAD", SNAPSHOT_TLS, admin_tls, 0, true},
    {health_path, "GET, HEAD", 0, admin_health, 0, false},
    {"/api/v1/version", "GET, HEAD", 0, admin_version, 0, false},
    {"/api/v1/snapshot", "GET, HEAD", SNAPSHOT_ALL | SNAPSHOT_TLS, admin_snapshot, 0, false},
    {"/api/v1/recordings", "GET, HEAD", SNAPSHOT_STREAMS | SNAPSHOT_OVERRIDES, admin_recordings, 0, true},
    {streams_path, "GET, HEAD, DELETE", SNAPSHOT_STREAMS | SNAPSHOT_PLAYERS | SNAPSHOT_FRAMES, NULL,
     COMMAND_KICK_STREAM, false},
    {players_path, "GET, HEAD, DELETE", SNAPSHOT_PLAYERS, NULL, COMMAND_KICK_PLAYER, false},
    {publishers_path, "GET, HEAD, DELETE", SNAPSHOT_STREAMS, NULL, COMMAND_KICK_PUBLISHER, false},
    {bans_path, "GET, HEAD", SNAPSHOT_BANS, admin_bans, 0, true},
    {ban_path, "DELETE", 0, NULL, COMMAND_UNBAN, false},
    {recordings_path, "POST, DELETE", 0, NULL, COMMAND_RECORD, false},
    {metrics_path, "GET, HEAD", SNAPSHOT_ALL | SNAPSHOT_TLS | SNAPSHOT_EDGES, NULL, 0, false},
    {reload_path, "POST", 0, NULL, 0, false},
    {upgrade_path, "POST", 0, NULL, 0, false},
};

/* A request that waits for the workers. */
struct pending {
    struct admin *admin;
    struct exchange *exchange;
    const struct route *route;
    struct worker_command command; /* of GET: the requested object, in the same fields */
    struct stream_page page;       /* of GET, if has_page */
    bool has_page;
    uint32_t most_players, most_outgoing; /* of GET; 0: all */
};

static bool ends_with_slash(const char *path) {
    return path[strlen(path) - 1] == '/';
}

static const struct route *find_route(const char *path) {
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        size_t length = strlen(routes[i].path);
        if (ends_with_slash(routes[i].path) ? strncmp(path, routes[i].path, length) == 0 && path[length]
                                            : strcmp(path, routes[i].path) == 0)
            return &routes[i];
    }
    return NULL;
}

static bool allows(const struct route *route, enum admin_method method) {
    switch (method) {
    case ADMIN_GET:
    case ADMIN_HEAD:
        return strncmp(route->allow, "GET", 3) == 0;
    case ADMIN_DELETE:
        return strstr(route->allow, "DELETE");
    case ADMIN_POST:
        return strstr(route->allow, "POST");
    default:
        return false;
    }
}

static bool has_name(const struct route *route) {
    return route->command == COMMAND_KICK_STREAM || route->command == COMMAND_UNBAN ||
           route->command == COMMAND_RECORD || route->path == cluster_stream_path;
}

/* What a path has behind its route. False when it can be nothing that exists. */
static bool read_object(const struct route *route, const char *path, struct worker_command *command) {
    size_t size;
    char *object = evhttp_uridecode(path + strlen(route->path), 0, &size);
    bool good = object && strlen(object) == size;
    command->kind = route->command;
    if (good && has_name(route))
        good = stream_name_is_valid(object, size);
    else if (good)
        good = text_number(text_of(object), UINT64_MAX, &command->id);
    if (good && has_name(route))
        memcpy(command->stream, object, size + 1);
    free(object);
    return good;
}

/* Where clients are to connect instead: rtmp://HOST/APP, or rtmps. */
static bool read_target(const char *url, struct worker_command *command) {
    size_t length = strlen(url), scheme = strncmp(url, "rtmps://", 8) == 0 ? 8 : 7;
    if ((scheme == 7 && strncmp(url, "rtmp://", 7) != 0) || length == scheme || length > COMMAND_URL)
        return false;
    for (const char *at = url; *at; at++)
        if (*at <= ' ' || *at > '~')
            return false;
    memcpy(command->to, url, length + 1);
    return true;
}

/* One of a query. False where the command knows no such. */
static bool read_parameter(const struct evkeyval *one, struct worker_command *command) {
    uint64_t seconds;
    if (command->kind == COMMAND_RECORD) {
        bool by_rule = command->record == RECORD_ON && strcmp(one->key, "by") == 0 && strcmp(one->value, "rule") == 0;
        command->record = by_rule ? RECORD_BY_RULE : command->record;
        return by_rule;
    }
    bool may_ban = command->kind == COMMAND_KICK_PUBLISHER || command->kind == COMMAND_KICK_STREAM;
    bool may_redirect = may_ban || command->kind == COMMAND_KICK_PLAYER;
    if (may_redirect && strcmp(one->key, "to") == 0)
        return read_target(one->value, command);
    if (!may_ban || strcmp(one->key, "ban") != 0 || !text_number(text_of(one->value), BAN_MOST_S, &seconds))
        return false;
    command->ban_ms = seconds * 1000;
    return true;
}

/* ?ban=SECONDS, ?to=URL, ?by=rule. False when the query is something else. */
static bool read_query(const char *query, struct worker_command *command) {
    struct evkeyvalq parameters;
    bool good = true;
    if (!query)
        return true;
    if (evhttp_parse_query_str(query, &parameters) < 0)
        return false;
    for (const struct evkeyval *one = parameters.tqh_first; one; one = one->next.tqe_next)
        good &= read_parameter(one, command);
    evhttp_clear_headers(&parameters);
    return good;
}

static void write_document(const struct route *route, const struct admin_view *view, struct json *json) {
    json_open(json, NULL, '{');
    if (route->says_partial)
        json_put_bool(json, "partial", !snapshots_are_whole(&view->snapshots));
    route->document(view, json);
    json_close(json, '}');
}

static void send_metrics(const struct pending *pending, const struct admin_view *view) {
    size_t size;
    char *text = admin_metrics(view, &size);
    if (text)
        admin_reply_text(pending->exchange, METRICS_TYPE, text, size);
    else
        admin_reply_problem(pending->exchange, 503, "out of memory");
}

static void answer_get(const struct worker_answer *answer, void *user) {
    struct pending *pending = user;
    struct admin_view view = {
        .snapshots = answer->snapshots,
        .totals = answer->totals,
        .server = pending->admin->data_plane,
        .page = pending->has_page ? &pending->page : NULL,
        .most_players = pending->most_players,
        .most_outgoing = pending->most_outgoing,
        .options = reload_options(pending->admin->reload),
        .tls = reload_tls(pending->admin->reload),
        .tls_kernel = reload_tls_kernel(pending->admin->reload),
        .log_lost = log_lost(),
        .cluster = admin_cluster_of(pending->admin->cluster),
    };
    const struct route *route = pending->route;
    struct json json = {0};
    bool found = true;
    hook_delivery_get_counts(pending->admin->hook_delivery, view.notices, &view.notices_waiting);
    if (answer->answered == 0) {
        admin_reply_problem(pending->exchange, 503, "the workers do not answer");
    } else if (route->path == metrics_path) {
        send_metrics(pending, &view);
    } else {
        if (route->document)
            write_document(route, &view, &json);
        else if (route->command == COMMAND_KICK_STREAM)
            found = admin_stream(&view, pending->command.stream, &json);
        else if (route->command == COMMAND_KICK_PUBLISHER)
            found = admin_publisher(&view, pending->command.id, &json);
        else if (route->command == COMMAND_PULL_REMOVE)
            found = admin_pull(&view, pending->command.id, &json);
        else
            found = admin_player(&view, pending->command.id, &json);
        if (found)
            admin_reply_document(pending->exchange, &json);
        else if (worker_answer_is_whole(answer))
            admin_reply_problem(pending->exchange, 404, "there is no such object, or not any more");
        else
            admin_reply_problem(pending->exchange, 503, "not all workers have answered: it may be there");
    }
    free(pending);
}

/* 201 with the pull's id. */
static void answer_created(struct exchange *exchange, const struct worker_command *command) {
    struct json json = {0};
    char location[sizeof pull_path + 20];
    snprintf(location, sizeof location, "%s%llu", pull_path, (unsigned long long)command->id);
    json_open(&json, NULL, '{');
    json_put_unsigned(&json, "id", command->id);
    json_put_string(&json, "stream", command->stream);
    json_close(&json, '}');
    if (!json.failed) {
        admin_reply_created(exchange, location, json.text, json.length);
        return;
    }
    free(json.text);
    admin_reply_problem(exchange, 503, "the pull is there, but memory for the answer is not");
}

/* Why a command has failed, where all workers have answered. */
static void answer_failure(struct exchange *exchange, const struct worker_command *command, int error) {
    switch (error) {
    case -EOPNOTSUPP:
        admin_reply_problem(exchange, 409, "there is no directory to record to: see --record");
        break;
    case -EEXIST:
        admin_reply_problem(exchange, 409, "there is a pull of that stream");
        break;
    case -EPERM:
        admin_reply_problem(exchange, 409, "the configuration has this pull: remove it there, and reload");
        break;
    case -ENOSPC:
        admin_reply_problem(exchange, 503,
                            command->kind == COMMAND_PULL_ADD ? "there are 1000 pulls that the API has made"
                                                              : "too many streams are recorded, or not, against the "
                                                                "rules");
        break;
    case -ESHUTDOWN:
        admin_reply_problem(exchange, 503, "the server stops, or another process takes over");
        break;
    case -ENOENT:
        admin_reply_problem(exchange, 404, "there is no such object, or not any more");
        break;
    default:
        admin_reply_problem(exchange, 503,
                            command->kind == COMMAND_RECORD ? "out of memory"
                                                            : "it is done, but for the ban: out of memory");
    }
}

static void answer_command(const struct worker_answer *answer, void *user) {
    struct pending *pending = user;
    const bool is_whole = answer->answered == answer->snapshots.count;
    if (answer->error == 0 && pending->command.kind == COMMAND_PULL_ADD)
        answer_created(pending->exchange, &pending->command);
    else if (answer->error == 0)
        admin_reply_done(pending->exchange);
    else if (answer->error == -ENOENT && !is_whole)
        admin_reply_problem(pending->exchange, 503, "not all workers have answered: it may yet be done");
    else
        answer_failure(pending->exchange, &pending->command, answer->error);
    free(pending);
}

static void answer_asked(struct exchange *exchange, struct pending *pending, int error) {
    if (!error)
        return;
    free(pending);
    admin_reply_problem(exchange, 503, error == -EAGAIN ? "too many requests at a time" : "out of memory");
}

static void run_command(struct admin *admin, struct exchange *exchange, const struct route *route,
                        const struct worker_command *command) {
    struct pending *pending = malloc(sizeof *pending);
    int error = -ENOMEM;
    if (pending) {
        *pending = (struct pending){.admin = admin, .exchange = exchange, .route = route, .command = *command};
        error = worker_query_command(admin->worker_query, command, answer_command, pending);
    }
    if (error)
        pull_free(command->pull);
    answer_asked(exchange, pending, error);
}

/* The part of the streams and players that a request is about. False: its query is wrong. */
static bool read_part(const struct admin_call *call, struct pending *pending) {
    const struct route *route = pending->route;
    pending->page.limit = PAGE_STREAMS;
    pending->has_page = route->path == overview_path || (route->path == list_path && call->query);
    if (route->path == overview_path)
        pending->most_players = OVERVIEW_PLAYERS;
    if (route->path == streams_path)
        return admin_query_players(call->query, &pending->most_players);
    if (route->path == cluster_pulls_path)
        pending->most_outgoing = PAGE_STREAMS;
    if (route->path == pulls_path || route->path == forwards_path || route->path == cluster_pulls_path)
        return admin_query_limit(call->query, &pending->most_outgoing);
    return !pending->has_page || admin_query_page(call->query, &pending->page);
}

static void ask(struct admin *admin, struct exchange *exchange, const struct admin_call *call,
                const struct route *route, const struct worker_command *command) {
    struct pending *pending = malloc(sizeof *pending);
    struct snapshot_request request = {.parts = route->parts};
    int error = -ENOMEM;
    if (pending) {
        *pending = (struct pending){.admin = admin, .exchange = exchange, .route = route, .command = *command};
        if (!read_part(call, pending)) {
            admin_reply_problem(exchange, 400,
                                "of a query, search, sort, order, offset and limit are known for lists of streams, "
                                "limit=1 to 500 for pulls and forwards, and players=1 to 500 for a stream");
            free(pending);
            return;
        }
        if (route->path == streams_path)
            memcpy(request.stream, command->stream, sizeof request.stream);
        request.page = pending->has_page ? &pending->page : NULL;
        request.most_players = pending->most_players;
        request.most_edges = route->path == cluster_pulls_path ? pending->most_outgoing : 0;
        error = worker_query_request(admin->worker_query, &request, answer_get, pending);
    }
    answer_asked(exchange, pending, error);
}

static void answer_history(const struct admin *admin, struct exchange *exchange) {
    struct json json = {0};
    admin_history(admin->history, &json);
    admin_reply_document(exchange, &json);
}

static void answer_locations(struct admin *admin, struct exchange *exchange, const char *query) {
    struct cluster_stream_page page = {.limit = PAGE_STREAMS};
    if (admin_query_locations(query, &page))
        admin_cluster_streams(admin_cluster_of(admin->cluster), &page, exchange);
    else
        admin_reply_problem(exchange, 400, "of a query, search, node, offset and limit=1 to 500 are known");
}

static void answer_reload(const struct reload_result *result, void *user) {
    struct exchange *exchange = user;
    struct json json = {0};
    if (result->error) {
        admin_reply_problem(exchange, result->error == -EINVAL ? 422 : 503, result->text);
        return;
    }
    json_open(&json, NULL, '{');
    json_open(&json, "changes", '[');
    for (const char *line = result->text; *line;) {
        size_t length = strcspn(line, "\n");
        char *copy = strndup(line, length);
        json_put_string(&json, NULL, copy ? copy : "");
        free(copy);
        line += length + (line[length] == '\n');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    admin_reply_document(exchange, &json);
}

static void reload(struct admin *admin, struct exchange *exchange) {
    int error = reload_start(admin->reload, answer_reload, exchange);
    if (error)
        admin_reply_problem(exchange, error == -EBUSY ? 409 : 503,
                            error == -EBUSY ? "reload or upgrade in progress" : "out of memory");
}

static void answer_upgrade(int error, const char *reason, pid_t pid, void *user) {
    struct exchange *exchange = user;
    struct json json = {0};
    if (error) {
        admin_reply_problem(exchange, 503, reason);
        return;
    }
    json_open(&json, NULL, '{');
    json_put_unsigned(&json, "pid", (uint64_t)pid);
    json_close(&json, '}');
    exchange_close(exchange);
    admin_reply_document(exchange, &json);
}

static void upgrade(struct admin *admin, struct exchange *exchange) {
    int error = admin->upgrade(answer_upgrade, exchange, admin->upgrader);
    if (error)
        admin_reply_problem(exchange, error == -EBUSY ? 409 : 503,
                            error == -EBUSY       ? "reload or upgrade in progress"
                            : error == -ESHUTDOWN ? "server shutting down"
                                                  : "out of memory");
}

/* A header's value as a string, which the caller frees. NULL where there is none, or no memory. */
static char *copy_header(const sluice_http_request *request, const char *name) {
    const sluice_http_header *header = sluice_http_find(request, name);
    return header ? strndup(header->value.text, header->value.length) : NULL;
}

/* True when the request may go on; it has been answered otherwise. */
static bool is_let_in(const struct admin_listener *listener, struct exchange *exchange, const struct admin_call *call,
                      bool is_static) {
    char *host = copy_header(call->request, "Host"), *origin = copy_header(call->request, "Origin");
    char *fetch_site = copy_header(call->request, "Sec-Fetch-Site");
    char *authorization = copy_header(call->request, "Authorization");
    const struct admin_request seen = {
        .host = host,
        .origin = origin,
        .fetch_site = fetch_site,
        .authorization = authorization,
        .changes = call->method & METHODS_CHANGE,
        .is_static = is_static,
    };
    const char *reason = "";
    unsigned status = admin_guard_check(&listener->guard, &seen, &reason);
    /* A page could not be told from another one by a header that was lost. */
    if (!status && ((!origin && sluice_http_find(call->request, "Origin")) ||
                    (!fetch_site && sluice_http_find(call->request, "Sec-Fetch-Site")))) {
        status = 503;
        reason = "out of memory";
    }
    free(host);
    free(origin);
    free(fetch_site);
    if (authorization)
        explicit_bzero(authorization, strlen(authorization));
    free(authorization);
    if (!status)
        return true;
    exchange_log_refusal(exchange, status, reason);
    admin_reply_problem(exchange, status, reason);
    return false;
}

static void answer_asset(struct exchange *exchange, enum admin_method method, const struct admin_asset *asset) {
    if (method != ADMIN_GET && method != ADMIN_HEAD)
        admin_reply_wrong_method(exchange, "GET, HEAD");
    else if (!asset->bytes)
        admin_reply_problem(exchange, 404, "this build is without it");
    else
        admin_reply_file(exchange, asset->type, asset->bytes, asset->size, asset->policy);
}

/* The media type of a header, without its parameters. */
static bool is_json(const sluice_http_request *request) {
    const sluice_http_header *header = sluice_http_find(request, "Content-Type");
    sluice_http_text value = header ? header->value : text_of("");
    return text_folds_to(text_trimmed(text_split(&value, ';')), "application/json");
}

static void create_pull(struct admin *admin, struct exchange *exchange, const struct admin_call *call,
                        const struct route *route) {
    struct worker_command command = {.kind = COMMAND_PULL_ADD};
    const char *wrong = "";
    if (call->query) {
        admin_reply_problem(exchange, 400, "no query is known here");
    } else if (!is_json(call->request)) {
        admin_reply_problem(exchange, 415, "expected Content-Type: application/json");
    } else if (call->content_size > 0 && !call->content) {
        admin_reply_problem(exchange, 413, "no request needs a body of that length");
    } else {
        int error = admin_pull_read(call->content, call->content_size, &command.pull, &wrong);
        if (error) {
            admin_reply_problem(exchange, error == -EINVAL ? 400 : 503, error == -EINVAL ? wrong : "out of memory");
            return;
        }
        command.id = command.pull->id;
        memcpy(command.stream, command.pull->option.name, sizeof command.stream);
        run_command(admin, exchange, route, &command);
    }
}

static void answer_route(struct admin *admin, struct exchange *exchange, const struct admin_call *call,
                         const struct route *route) {
    struct worker_command command = {.record = call->method == ADMIN_POST ? RECORD_ON : RECORD_OFF};
    if (!allows(route, call->method)) {
        admin_reply_wrong_method(exchange, route->allow);
    } else if (route->path == reload_path) {
        reload(admin, exchange);
    } else if (route->path == upgrade_path) {
        upgrade(admin, exchange);
    } else if (route->path == pulls_path && call->method == ADMIN_POST) {
        create_pull(admin, exchange, call, route);
    } else if (ends_with_slash(route->path) && !read_object(route, call->path, &command)) {
        admin_reply_problem(exchange, 404, "not a stream's name, or not an id");
    } else if (route->path == health_path && admin->drains) {
        admin_reply_problem(exchange, 503, "the node is drained: it ends when its clients have gone");
    } else if (route->path == history_path) {
        answer_history(admin, exchange);
    } else if (route->path == cluster_list_path) {
        answer_locations(admin, exchange, call->query);
    } else if (route->path == cluster_stream_path) {
        admin_cluster_stream(admin->cluster, command.stream, exchange);
    } else if (!(call->method & METHODS_CHANGE)) {
        ask(admin, exchange, call, route, &command);
    } else if (!read_query(call->query, &command)) {
        admin_reply_problem(
            exchange, 400,
            "of a query, only ban=SECONDS from 0 to 86400 is known, for publishers and streams, and by=rule "
            "for recording");
    } else {
        run_command(admin, exchange, route, &command);
    }
}

static void on_request(struct exchange *exchange, const struct admin_call *call, void *user) {
    struct admin_listener *listener = user;
    const struct admin_asset *asset = admin_asset_find(call->path);
    if (listener->admin->leaving)
        exchange_close(exchange);
    if (!is_let_in(listener, exchange, call, asset != NULL))
        return;
    const struct route *route = find_route(call->path);
    if (asset)
        answer_asset(exchange, call->method, asset);
    else if (route)
        answer_route(listener->admin, exchange, call, route);
    else
        admin_reply_problem(exchange, 404, "nothing here; see /api/v1/openapi.json");
}

/* Reads the line of a file that only its owner may read. */
static int load_token(const char *path, char **ret_token) {
    char *text = malloc(SECRET_FILE_MAX + 1);
    char error[SECRET_FILE_ERROR];
    if (!text)
        return -ENOMEM;
    int result = secret_file_read(path, text, error);
    if (!result) {
        text[strcspn(text, "\r\n")] = '\0';
        if (strlen(text) < TOKEN_LEAST || strspn(text, " \t") > 0) {
            snprintf(error, sizeof error, "%s: expected a token of at least %d characters in the first line", path,
                     TOKEN_LEAST);
            result = -EINVAL;
        }
    }
    if (!result) {
        *ret_token = text;
        return 0;
    }
    LOG(LOG_ERROR, "cannot read token", {"error", error});
    explicit_bzero(text, SECRET_FILE_MAX);
    free(text);
    return result;
}

/* The file of a socket that was lent is the other process's until this one serves, and then not any
 * more. */
static void remove_file(const struct admin *admin, const struct admin_listener_option *option) {
    if (!admin->leaving && (admin->serves || !option->fd))
        admin_unlisten(option);
}

static sluice_tls_context *context_of(void *user) {
    const struct admin_listener *listener = user;
    return reload_tls(listener->admin->reload);
}

static int open_listener(struct admin *admin, const struct admin_listener_option *option) {
    struct admin_listener *listener = &admin->listeners[admin->count];
    int fd = admin_listen(option);
    if (fd < 0)
        return fd;
    *listener = (struct admin_listener){.admin = admin, .guard = {option, admin->token}};
    int error = admin_server_listen(admin->server, fd, on_request, option->tls ? context_of : NULL, listener,
                                    &listener->socket);
    if (error) {
        close(fd);
        remove_file(admin, option);
        return error;
    }
    admin->count++;
    return 0;
}

int admin_new(struct event_base *base, struct server *server, const struct options *options,
              struct worker_query *worker_query, struct reload *reload, struct hook_delivery *hook_delivery,
              const struct history *history, struct admin **ret_admin) {
    struct admin *admin = calloc(1, sizeof *admin);
    if (!admin)
        return -ENOMEM;
    admin->data_plane = server;
    admin->worker_query = worker_query;
    admin->reload = reload;
    admin->hook_delivery = hook_delivery;
    admin->history = history;
    admin_pull_init();
    int error = admin_server_new(base, server, &admin->server);
    if (!error && *options->admin.token_file)
        error = load_token(options->admin.token_file, &admin->token);
    for (unsigned i = 0; i < options->admin.count && !error; i++)
        error = open_listener(admin, &options->admin.listeners[i]);
    if (error) {
        admin_free(admin);
        return error;
    }
    *ret_admin = admin;
    return 0;
}

void admin_free(struct admin *admin) {
    if (!admin)
        return;
    admin_server_free(admin->server);
    for (size_t i = 0; i < admin->count; i++)
        remove_file(admin, admin->listeners[i].guard.listener);
    if (admin->token)
        explicit_bzero(admin->token, strlen(admin->token));
    free(admin->token);
    free(admin);
}

int admin_error(const struct admin *admin) {
    return admin_server_error(admin->server);
}

void admin_set_upgrade(struct admin *admin, admin_upgrade_fn *start, void *upgrader) {
    admin->upgrade = start;
    admin->upgrader = upgrader;
}

void admin_set_cluster(struct admin *admin, struct cluster_client *cluster) {
    admin->cluster = cluster;
}

void admin_begin(struct admin *admin) {
    admin->serves = true;
}

int admin_lend(const struct admin *admin, struct spawn_sockets *sockets) {
    int error = 0;
    for (size_t i = 0; i < admin->count && !error; i++) {
        const struct admin_listener *listener = &admin->listeners[i];
        int fd = fcntl(admin_server_fd(listener->socket), F_DUPFD_CLOEXEC, 0);
        error = fd < 0 ? -errno
                       : spawn_sockets_add(sockets, fd, "admin", listener->guard.listener->tls,
                                           listener->guard.listener->is_managed);
    }
    return error;
}

void admin_drain(struct admin *admin) {
    admin->drains = true;
}

void admin_leave(struct admin *admin) {
    admin->leaving = true;
    admin_server_leave(admin->server);
}
