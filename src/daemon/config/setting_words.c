#include "daemon/config/setting_words.h"

#include <string.h>

#include <sluice/loop.h>
#include <sluice/tls.h>

#include "daemon/base/log.h"
#include "daemon/config/cluster_option.h"
#include "daemon/relay/publish_lock.h"

static const struct {
    int words;
    const char *word;
    int value;
} all[] = {
    {SETTING_BACKENDS, "auto", SLUICE_BACKEND_AUTO},
    {SETTING_BACKENDS, "uring", SLUICE_BACKEND_URING},
    {SETTING_BACKENDS, "epoll", SLUICE_BACKEND_EPOLL},
    {SETTING_LOG_LEVELS, "error", LOG_ERROR},
    {SETTING_LOG_LEVELS, "warning", LOG_WARNING},
    {SETTING_LOG_LEVELS, "info", LOG_INFO},
    {SETTING_LOG_LEVELS, "debug", LOG_DEBUG},
    {SETTING_LOG_FORMATS, "text", LOG_TEXT},
    {SETTING_LOG_FORMATS, "json", LOG_JSON},
    {SETTING_SAME_NAMES, "refuse", SAME_NAME_REFUSE},
    {SETTING_SAME_NAMES, "take-over", SAME_NAME_TAKE_OVER},
    {SETTING_SAME_NAMES, "resume", SAME_NAME_RESUME},
    {SETTING_TLS_VERSIONS, "1.2", SLUICE_TLS_1_2},
    {SETTING_TLS_VERSIONS, "1.3", SLUICE_TLS_1_3},
    {SETTING_KTLS, "off", SLUICE_TLS_KERNEL_OFF},
    {SETTING_KTLS, "auto", SLUICE_TLS_KERNEL_AUTO},
    {SETTING_KTLS, "always", SLUICE_TLS_KERNEL_ANY},
    {SETTING_CLUSTER_DOWN, "accept", CLUSTER_DOWN_ACCEPT},
    {SETTING_CLUSTER_DOWN, "refuse", CLUSTER_DOWN_REFUSE},
};

int setting_word_value(const struct setting *setting, const char *word) {
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].words == setting->detail && strcmp(all[i].word, word) == 0)
            return all[i].value;
    return -1;
}

const char *setting_word(const struct setting *setting, int value) {
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].words == setting->detail && all[i].value == value)
            return all[i].word;
    return "";
}

const char *setting_word_at(const struct setting *setting, size_t number) {
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].words == setting->detail && number-- == 0)
            return all[i].word;
    return NULL;
}

const char *setting_words_text(const struct setting *setting, char buffer[SETTING_TEXT]) {
    size_t length = 0;
    const char *word;
    buffer[0] = '\0';
    for (size_t i = 0; (word = setting_word_at(setting, i)); i++) {
        const char *before = i == 0 ? "" : setting_word_at(setting, i + 1) ? ", " : " or ";
        length += (size_t)snprintf(buffer + length, SETTING_TEXT - length, "%s%s", before, word);
    }
    return buffer;
}
