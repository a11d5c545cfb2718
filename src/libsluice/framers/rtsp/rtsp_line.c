#include "framers/rtsp/rtsp_line.h"

#include <errno.h>

#include "framers/http/http_text.h"

/* In the order of their bits. */
static const char *const methods[] = {
    "OPTIONS", "DESCRIBE", "ANNOUNCE",      "SETUP",         "PLAY",     "PAUSE",
    "RECORD",  "TEARDOWN", "GET_PARAMETER", "SET_PARAMETER", "REDIRECT",
};
enum { METHODS = sizeof methods / sizeof *methods };

_Static_assert(SLUICE_RTSP_REDIRECT == 1 << (METHODS - 1), "each method is a bit");

sluice_rtsp_method rtsp_method(sluice_http_text name) {
    for (int i = 0; i < METHODS; i++)
        if (text_equals(name, methods[i]))
            return (sluice_rtsp_method)(1 << i);
    return SLUICE_RTSP_OTHER;
}

enum rtsp_begins rtsp_begins(const char *bytes, size_t n) {
    for (int i = -1; i < METHODS; i++) {
        const char *word = i < 0 ? "RTSP" : methods[i];
        size_t length = strlen(word);
        if (memcmp(bytes, word, n < length ? n : length) != 0)
            continue;
        if (n <= length)
            return RTSP_BEGINS_MAYBE;
        if (bytes[length] == (i < 0 ? '/' : ' '))
            return RTSP_BEGINS_TEXT;
    }
    return RTSP_BEGINS_NOTHING;
}

static int parse_version(sluice_http_text version, sluice_rtsp_message *message) {
    if (version.length != 8 || memcmp(version.text, "RTSP/", 5) != 0 || version.text[6] != '.' ||
        !http_is_digit((uint8_t)version.text[5]) || !http_is_digit((uint8_t)version.text[7]))
        return -EPROTO;
    message->version_major = (uint8_t)(version.text[5] - '0');
    message->version_minor = (uint8_t)(version.text[7] - '0');
    bool known = (message->version_major == 1 || message->version_major == 2) && message->version_minor == 0;
    return known ? 0 : -EPROTONOSUPPORT;
}

static int parse_status_line(sluice_http_text line, sluice_rtsp_message *message) {
    message->kind = SLUICE_RTSP_REPLY;
    int error = parse_version(text_split(&line, ' '), message);
    if (error)
        return error;
    sluice_http_text status = text_split(&line, ' ');
    if (status.length != 3 || status.text[0] == '0')
        return -EPROTO;
    for (size_t i = 0; i < 3; i++) {
        if (!http_is_digit((uint8_t)status.text[i]))
            return -EPROTO;
        message->status = (uint16_t)(message->status * 10 + (status.text[i] - '0'));
    }
    for (size_t i = 0; i < line.length; i++)
        if (!http_is_value_byte((uint8_t)line.text[i]))
            return -EPROTO;
    message->reason = line;
    return 0;
}

int rtsp_parse_start_line(sluice_http_text line, uint32_t max_url, sluice_rtsp_message *message) {
    if (line.length >= 5 && memcmp(line.text, "RTSP/", 5) == 0)
        return parse_status_line(line, message);
    message->kind = SLUICE_RTSP_REQUEST;
    message->method = text_split(&line, ' ');
    if (message->method.length == 0 || message->method.length > SLUICE_RTSP_MAX_METHOD)
        return -EPROTO;
    for (size_t i = 0; i < message->method.length; i++)
        if (!http_is_token_char((uint8_t)message->method.text[i]))
            return -EPROTO;
    message->method_id = rtsp_method(message->method);
    message->url = text_split(&line, ' ');
    /* Cameras put names into their URLs as they are, so bytes beyond ASCII are let through. */
    for (size_t i = 0; i < message->url.length; i++)
        if ((uint8_t)message->url.text[i] <= ' ' || message->url.text[i] == 0x7F)
            return -EPROTO;
    if (message->url.length > max_url)
        return -ENAMETOOLONG;
    return message->url.length > 0 ? parse_version(line, message) : -EPROTO;
}
