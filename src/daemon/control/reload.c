#include "daemon/control/reload.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fd_limit.h"
#include "daemon/base/log.h"
#include "daemon/base/systemd.h"
#include "daemon/config/options_load.h"
#include "daemon/control/wakeup.h"
#include "daemon/server/server_reload.h"
#include "daemon/tls/tls_client.h"
#include "daemon/tls/tls_contexts.h"
#include "daemon/tls/tls_expiry.h"
#include "daemon/tls/tls_kernel.h"

/* The server's answer, and its receiver, which may have stopped waiting. */
struct worker_answer {
    pthread_mutex_t lock; /* of the fields below */
    unsigned holders;     /* the control plane, and the server during the request */
    bool has_come;
    int error;
    char reason[LISTENERS_ERROR];
    struct wakeup wakeup;
};

struct reload {
    struct server *server;
    struct tls_client *tls_client;
    const struct command_line *line;
    const struct options *options; /* in force */
    sluice_tls_context *tls;       /* in force; NULL: there is none */
    const struct options *next;    /* requested of the server; or NULL */
    sluice_tls_context *next_tls;  /* likewise */
    struct config_errors lines;    /* that the result will have */
    reload_done_fn *done;
    void *user;
    struct worker_answer *answer;
    bool again; /* SIGHUP has come meanwhile */
    bool is_held;
};

static void on_wake(void *user);

static struct worker_answer *make_answer(struct event_base *base, struct reload *reload) {
    struct worker_answer *answer = calloc(1, sizeof *answer);
    if (!answer)
        return NULL;
    if (wakeup_init(&answer->wakeup, base, on_wake, reload) < 0) {
        free(answer);
        return NULL;
    }
    pthread_mutex_init(&answer->lock, NULL);
    answer->holders = 1;
    return answer;
}

static void let_go(struct worker_answer *answer) {
    pthread_mutex_lock(&answer->lock);
    bool last = --answer->holders == 0;
    pthread_mutex_unlock(&answer->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&answer->lock);
    wakeup_clear(&answer->wakeup);
    free(answer);
}

/* On a worker's thread. */
static void reloaded(int error, const char *reason, void *user) {
    struct worker_answer *answer = user;
    pthread_mutex_lock(&answer->lock);
    answer->has_come = true;
    answer->error = error;
    snprintf(answer->reason, sizeof answer->reason, "%s", reason);
    pthread_mutex_unlock(&answer->lock);
    wakeup_notify(&answer->wakeup);
    let_go(answer);
}

static void log_line(const char *line, void *user) {
    const int *error = user;
    if (*error)
        LOG(LOG_ERROR, "configuration refused", {"error", line});
    else
        LOG(LOG_INFO, "setting changed", {"setting", line});
}

static void drop_next(struct reload *reload) {
    options_unref(reload->next);
    reload->next = NULL;
    sluice_tls_context_unref(reload->next_tls);
    reload->next_tls = NULL;
}

/* Reports the result; then the next reload may start. */
static void finish(struct reload *reload, int error) {
    struct config_errors lines = reload->lines;
    reload_done_fn *done = reload->done;
    const struct reload_result result = {error, lines.text ? lines.text : ""};
    reload->lines = (struct config_errors){0};
    reload->done = NULL;
    drop_next(reload);
    config_errors_each(&lines, log_line, &error);
    systemd_ready();
    if (!error)
        LOG(LOG_INFO, "configuration reloaded", {"changes", log_unsigned(lines.count).text});
    if (done)
        done(&result, reload->user);
    config_errors_clear(&lines);
}

static void add_change(const struct setting *setting, const char *from, const char *to, void *user) {
    static const char *const effects[] = {
        [SETTING_NOW] = "now", [SETTING_LATER] = "for those who come", [SETTING_RESTART] = "needs a restart"};
    struct reload *reload = user;
    config_errors_add(&reload->lines, "%s: %s -> %s (%s)", setting->name, from, to, effects[setting->effect]);
}

static void on_wake(void *user) {
    struct reload *reload = user;
    struct worker_answer *answer = reload->answer;
    pthread_mutex_lock(&answer->lock);
    bool has_come = answer->has_come;
    int error = answer->error;
    answer->has_come = false;
    pthread_mutex_unlock(&answer->lock);
    if (!has_come)
        return;
    if (error) {
        tls_client_revert(reload->tls_client);
        config_errors_clear(&reload->lines);
        config_errors_add(&reload->lines, "%s", answer->reason);
    } else {
        if (!options_each_change(reload->options, reload->next, add_change, reload))
            LOG(LOG_WARNING, "changes not logged", {"reason", strerror(ENOMEM)});
        bool other_most = reload->next->max_connections != reload->options->max_connections;
        options_unref(reload->options);
        reload->options = options_ref(reload->next);
        tls_expiry_log(reload->next_tls, reload->tls);
        tls_kernel_log(reload->next_tls, reload->tls, "listeners");
        sluice_tls_context_unref(reload->tls);
        reload->tls = reload->next_tls;
        reload->next_tls = NULL;
        log_set_level((enum log_level)reload->options->log_level);
        log_set_rate((uint32_t)reload->options->log_rate);
        if (other_most)
            fd_limit_check(reload->options->max_connections);
    }
    finish(reload, error);
    if (reload->again) {
        reload->again = false;
        (void)reload_start(reload, NULL, NULL);
    }
}

int reload_new(struct event_base *base, struct server *server, const struct command_line *line,
               const struct options *options, struct tls_client *tls, struct reload **ret_reload) {
    struct reload *reload = calloc(1, sizeof *reload);
    if (!reload)
        return -ENOMEM;
    reload->server = server;
    reload->tls_client = tls;
    reload->line = line;
    reload->options = options_ref(options);
    reload->tls = server_tls_context(server);
    reload->answer = make_answer(base, reload);
    if (!reload->answer) {
        reload_free(reload);
        return -ENOMEM;
    }
    *ret_reload = reload;
    return 0;
}

void reload_free(struct reload *reload) {
    if (!reload)
        return;
    if (reload->answer) {
        wakeup_stop(&reload->answer->wakeup);
        let_go(reload->answer);
    }
    config_errors_clear(&reload->lines);
    drop_next(reload);
    sluice_tls_context_unref(reload->tls);
    options_unref(reload->options);
    free(reload);
}

static int ask_server(struct reload *reload) {
    struct worker_answer *answer = reload->answer;
    pthread_mutex_lock(&answer->lock);
    answer->holders++;
    pthread_mutex_unlock(&answer->lock);
    int error = server_reload(reload->server, reload->next, reload->next_tls, reloaded, answer);
    if (error)
        let_go(answer);
    return error;
}

bool reload_is_under_way(const struct reload *reload) {
    return reload->next != NULL;
}

void reload_hold(struct reload *reload, bool is_held) {
    reload->is_held = is_held;
}

/*
 * What is for the connections of pulls is in force before the pulls are, and reverted if the server
 * refuses the rest.
 */
static bool load_certificates(struct reload *reload, struct config_errors *errors) {
    return tls_contexts_load(reload->next, reload->tls, errors, &reload->next_tls) &&
           tls_client_load(reload->tls_client, reload->next, errors);
}

int reload_start(struct reload *reload, reload_done_fn *done, void *user) {
    if (reload->is_held)
        return -EBUSY;
    if (reload->next) {
        /* Without a callback, it may follow the pending one. */
        reload->again |= !done;
        return done ? -EBUSY : 0;
    }
    struct config_errors errors = {0};
    systemd_reloading();
    reload->done = done;
    reload->user = user;
    reload->next = options_load(reload->line, reload->options, add_change, reload, &errors);
    if (!reload->next || !load_certificates(reload, &errors)) {
        config_errors_clear(&reload->lines);
        reload->lines = errors;
        finish(reload, -EINVAL);
        return 0;
    }
    int error = ask_server(reload);
    if (error) {
        tls_client_revert(reload->tls_client);
        config_errors_clear(&reload->lines);
        drop_next(reload);
        systemd_ready();
    }
    return error;
}

const struct options *reload_options(const struct reload *reload) {
    return reload->options;
}

sluice_tls_context *reload_tls(const struct reload *reload) {
    return reload->tls;
}

const sluice_tls_context *reload_tls_kernel(const struct reload *reload) {
    return reload->tls ? reload->tls : tls_client_kernel(reload->tls_client);
}
