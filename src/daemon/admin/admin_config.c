/* The settings that hold, as the API shows them, where the listeners are, their certificates, and
 * what the kernel does for TLS. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/admin/admin_api.h"
#include "daemon/base/address.h"
#include "daemon/config/protocol.h"
#include "daemon/config/setting_words.h"
#include "daemon/tls/tls_expiry.h"
#include "daemon/tls/tls_kernel.h"

/* Where the first worker that answers listens, or else where it was told to. */
static void find_address(const struct admin_view *view, size_t listener, char text[ADDRESS_TEXT]) {
    const struct snapshot *first = view->snapshots.count > 0 ? view->snapshots.list[0] : NULL;
    if (first && *first->listeners[listener])
        memcpy(text, first->listeners[listener], ADDRESS_TEXT);
    else
        address_format(&view->options->listeners[listener].address, text);
}

static void add_listeners(const struct admin_view *view, struct json *json) {
    const struct options *options = view->options;
    json_open(json, "listeners", '[');
    for (size_t i = 0; i < options->listener_count; i++) {
        const struct listener_option *listener = &options->listeners[i];
        char address[ADDRESS_TEXT];
        find_address(view, i, address);
        json_open(json, NULL, '{');
        json_put_string(json, "protocol", listener->protocol->option.name);
        json_put_string(json, "address", address);
        json_put_bool(json, "tls", listener->tls);
        json_put_optional(json, "stream", listener->stream);
        bool is_auto = listener->merge_window_ms == COALESCE_WINDOW_AUTO;
        if (listener->merge_window_ms != OPTIONS_MERGE_UNSET && !is_auto)
            json_put_unsigned(json, "merge_window_ms", listener->merge_window_ms);
        else
            json_put_null(json, "merge_window_ms");
        json_put_bool(json, "merge_window_auto", is_auto);
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* Those of the table, so that none can be forgotten; as --print-config has them, without
 * passwords. */
static void add_settings(const struct options *options, struct json *json) {
    json_open(json, "settings", '{');
    const struct setting *setting;
    for (size_t i = 0; (setting = setting_at(i)); i++) {
        if (setting->kind == SETTING_COMMAND)
            continue;
        char *value = options_value_json(options, setting);
        json_put_text(json, setting->name, value);
        free(value);
    }
    json_close(json, '}');
}

void admin_config(const struct admin_view *view, struct json *json) {
    add_listeners(view, json);
    add_settings(view->options, json);
}

static void add_certificate(const sluice_tls_certificate_info *info, int64_t now, struct json *json) {
    char time[TLS_EXPIRY_TIME], hash[TLS_EXPIRY_HASH];
    tls_expiry_format_time(info->expires, time);
    tls_expiry_format_hash(info->hash, hash);
    json_open(json, NULL, '{');
    json_put_optional(json, "name", info->name);
    json_put_string(json, "subject", info->subject);
    json_put_string(json, "expires", time);
    json_put_real(json, "days", (double)tls_expiry_days(info->expires, now));
    json_put_string(json, "state", tls_expiry_state(info->expires, now));
    json_put_string(json, "sha256", hash);
    json_close(json, '}');
}

void admin_certificates(const struct admin_view *view, struct json *json) {
    sluice_tls_certificate_info info = {.size = sizeof info};
    const int64_t now = time(NULL);
    json_open(json, "certificates", '[');
    for (size_t i = 0; view->tls && sluice_tls_context_get_certificate(view->tls, i, &info) == 0; i++)
        add_certificate(&info, now, json);
    json_close(json, ']');
}

static void add_ktls(const struct admin_view *view, struct json *json) {
    const struct setting *setting = setting_find("ktls", strlen("ktls"), false);
    sluice_tls_kernel_info info;
    (void)tls_kernel_get(view->tls_kernel, &info);
    json_open(json, "ktls", '{');
    json_put_string(json, "setting", setting_word(setting, view->options->tls.kernel));
    json_put_bool(json, "used", info.is_used);
    json_put_bool(json, "sends", info.sends);
    json_put_bool(json, "changes_keys", info.changes_keys);
    json_put_optional(json, "failed", info.step);
    json_put_optional(json, "reason", info.error ? strerror(-info.error) : NULL);
    json_close(json, '}');
}

void admin_tls(const struct admin_view *view, struct json *json) {
    uint64_t with_tls = 0, by_kernel = 0;
    for (size_t at = 0; at < view->snapshots.count; at++) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        with_tls += snapshot ? snapshot->tls_connections : 0;
        by_kernel += snapshot ? snapshot->ktls_connections : 0;
    }
    json_put_unsigned(json, "connections", with_tls);
    json_put_unsigned(json, "ktls_connections", by_kernel);
    add_ktls(view, json);
}
