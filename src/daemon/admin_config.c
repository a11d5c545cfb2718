/* The settings that hold, as the API shows them: those of the command line, by its names, and no secrets. */
#include <string.h>

#include "daemon/address.h"
#include "daemon/admin_api.h"
#include "daemon/listeners.h"
#include "daemon/setting_words.h"

/* Where the first worker that answers listens, or else where it was told to. */
static void find_address(const struct admin_view *view, size_t listener, char text[ADDRESS_TEXT]) {
    address_format(&view->options->listeners[listener].address, text);
    for (size_t i = view->snapshots.count; i > 0; i--)
        if (view->snapshots.list[i - 1])
            memcpy(text, view->snapshots.list[i - 1]->listeners[listener], ADDRESS_TEXT);
}

static void add_listeners(const struct admin_view *view, struct json *json) {
    const struct options *options = view->options;
    json_open(json, "listeners", '[');
    for (size_t i = 0; i < options->listener_count; i++) {
        const struct listener_option *listener = &options->listeners[i];
        char address[ADDRESS_TEXT];
        find_address(view, i, address);
        json_open(json, NULL, '{');
        json_string(json, "protocol", listeners_protocol(listener->protocol));
        json_string(json, "address", address);
        if (*listener->stream)
            json_string(json, "stream", listener->stream);
        else
            json_null(json, "stream");
        if (listener->merge_window_ms != OPTIONS_MERGE_UNSET)
            json_unsigned(json, "merge_window_ms", listener->merge_window_ms);
        else
            json_null(json, "merge_window_ms");
        json_close(json, '}');
    }
    json_close(json, ']');
}

static const char *word_of(const char *setting, int value) {
    return setting_word(setting_find(setting, strlen(setting), false), value);
}

void admin_config(const struct admin_view *view, struct json *json) {
    const struct options *options = view->options;
    json_open(json, NULL, '{');
    add_listeners(view, json);
    json_unsigned(json, "pulls", options->pulls.count);
    json_bool(json, "allow_remote", options->allow_remote);
    json_bool(json, "rtsp_users", options->rtsp_users != NULL);
    json_unsigned(json, "memory_bytes", options->memory);
    json_unsigned(json, "gop_size_bytes", options->gop_size);
    json_unsigned(json, "player_buffer_bytes", options->player_buffer);
    json_unsigned(json, "frame_limit_bytes", options->frame_limit);
    json_unsigned(json, "max_connections", options->max_connections);
    json_string(json, "backend", word_of("backend", options->backend));
    json_real(json, "batch_ms", (double)options->batch_us / 1000);
    json_unsigned(json, "merge_window_ms", options->merge_window_ms);
    json_real(json, "wait_seconds", (double)options->wait_ms / 1000);
    json_string(json, "same_name", word_of("same-name", options->same_name));
    json_real(json, "resume_seconds", (double)options->resume_ms / 1000);
    json_real(json, "first_data_seconds", (double)options->first_data_ms / 1000);
    json_real(json, "time_jump_seconds", (double)options->jump_ms / 1000);
    json_real(json, "idle_seconds", (double)options->idle_ms / 1000);
    json_real(json, "stall_seconds", (double)options->stall_ms / 1000);
    json_string(json, "log_level", word_of("log-level", options->log_level));
    json_close(json, '}');
}
