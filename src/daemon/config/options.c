#include "daemon/config/options.h"

#include <stdlib.h>
#include <string.h>

struct options *options_new(void) {
    struct options *options = calloc(1, sizeof *options);
    if (options)
        atomic_init(&options->references, 1);
    return options;
}

/* A reference may be taken of what is not changed otherwise. */
static struct options *counted(const struct options *options) {
    return (struct options *)options;
}

const struct options *options_ref(const struct options *options) {
    atomic_fetch_add_explicit(&counted(options)->references, 1, memory_order_relaxed);
    return options;
}

void options_unref(const struct options *options) {
    struct options *mine = counted(options);
    if (!mine || atomic_fetch_sub_explicit(&mine->references, 1, memory_order_acq_rel) > 1)
        return;
    pull_options_clear(&mine->pulls);
    forward_options_free(mine->forwards);
    free(mine->forward_file);
    backup_options_clear(&mine->backups);
    record_options_clear(&mine->record);
    users_free(mine->users);
    users_free(mine->keys);
    rules_clear(&mine->rules);
    cors_clear(&mine->origins);
    tls_options_clear(&mine->tls);
    free(mine->acme_root);
    tls_client_options_clear(&mine->tls_client);
    cluster_options_clear(&mine->cluster);
    free(mine->token_keys);
    stream_policies_clear(&mine->streams);
    free(mine->pull_file);
    free(mine->rtsp_users);
    free(mine);
}

uint32_t options_merge_window(const struct options *options, const char *stream, uint16_t listener_ms) {
    const struct stream_exception *own = stream_policies_exception(&options->streams, stream,
                                                                   offsetof(struct stream_policy, merge_window_ms));
    if (own)
        return (uint32_t)own->value.number;
    return listener_ms != OPTIONS_MERGE_UNSET ? listener_ms : (uint32_t)options->streams.all.merge_window_ms;
}

/* What the text does not show, since it is a secret or in a file of its own. */
static bool has_same_secrets(const struct options *a, const struct options *b, const struct setting *setting) {
    if (setting->kind == SETTING_USERS)
        return users_equal(a->users, b->users);
    if (setting->kind == SETTING_HOOK)
        return hook_url_equal((const struct hook_url *)((const char *)a + setting->field),
                              (const struct hook_url *)((const char *)b + setting->field));
    if (setting->kind == SETTING_KEYS)
        return users_equal(a->keys, b->keys);
    if (setting->kind == SETTING_PULL || setting->kind == SETTING_PULL_FILE)
        return pull_options_equal(&a->pulls, &b->pulls);
    if (setting->kind == SETTING_FORWARD || setting->kind == SETTING_FORWARD_FILE)
        return forward_options_equal(a->forwards, b->forwards);
    if (setting->kind == SETTING_CLUSTER)
        return cluster_options_have_same_secret(&a->cluster, &b->cluster, (enum cluster_setting)setting->detail);
    return true;
}

bool options_each_change(const struct options *from, const struct options *to,
                         void (*call)(const struct setting *setting, const char *from, const char *to, void *user),
                         void *user) {
    const struct setting *setting;
    bool compared = true;
    for (size_t i = 0; (setting = setting_at(i)); i++) {
        if (setting->kind == SETTING_COMMAND)
            continue;
        char *was = options_value(from, setting), *is = options_value(to, setting);
        compared &= was && is;
        if (was && is && (strcmp(was, is) != 0 || !has_same_secrets(from, to, setting)))
            call(setting, was, is, user);
        free(was);
        free(is);
    }
    return compared;
}
