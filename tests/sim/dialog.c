#include "sim/dialog.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/rtp.h"
#include "sim/world.h"

enum { TEXT = 8192 };

__attribute__((format(printf, 2, 3))) static void add(struct dialog *dialog, const char *format, ...) {
    va_list arguments;
    size_t room = sizeof dialog->out - dialog->out_length;
    va_start(arguments, format);
    size_t n = (size_t)vsnprintf(dialog->out + dialog->out_length, room, format, arguments);
    va_end(arguments);
    WORLD_CHECK(n < room, "%s: a request is too long", dialog->who);
    dialog->out_length += n;
}

void dialog_ask(struct dialog *dialog, const char *method, const char *behind, const char *headers, const char *body) {
    add(dialog, "%s rtsp://127.0.0.1:8554/live/%u%s RTSP/1.0\r\nCSeq: %u\r\n", method, dialog->stream, behind,
        ++dialog->asked);
    if (*dialog->session)
        add(dialog, "Session: %s\r\n", dialog->session);
    if (*body)
        add(dialog, "Content-Type: application/sdp\r\nContent-Length: %zu\r\n", strlen(body));
    add(dialog, "%s\r\n%s", headers, body);
}

bool dialog_is_answered(const struct dialog *dialog) {
    return dialog->answered == dialog->asked;
}

static void see_reply(struct dialog *dialog, const char *reply) {
    const char *number = strcasestr(reply, "\r\nCSeq:"), *session = strcasestr(reply, "\r\nSession:");
    WORLD_CHECK(strncmp(reply, "RTSP/1.0 ", 9) == 0, "%s: no RTSP answer", dialog->who);
    unsigned status = (unsigned)atoi(reply + 9);
    if (status != 200) {
        dialog->is_over = true;
        dialog->events->refused(dialog->user, status);
        return;
    }
    WORLD_CHECK(number && strtoul(number + 7, NULL, 10) == ++dialog->answered && dialog->answered <= dialog->asked,
                "%s: an answer that is not to request %u", dialog->who, dialog->answered);
    if (session && !*dialog->session)
        sscanf(session + strlen("\r\nSession:"), " %63[^;\r\n]", dialog->session);
    dialog->events->granted(dialog->user, reply);
}

/* What is whole at the front: an answer or a packet. Its bytes, or 0. */
static size_t take_one(struct dialog *dialog, const uint8_t *bytes, size_t n) {
    char text[TEXT];
    if (bytes[0] == '$') {
        if (n < DIALOG_INTERLEAVED || n < DIALOG_INTERLEAVED + get16(bytes + 2))
            return 0;
        dialog->events->packet(dialog->user, bytes[1], bytes + DIALOG_INTERLEAVED, get16(bytes + 2));
        return DIALOG_INTERLEAVED + get16(bytes + 2);
    }
    const uint8_t *end = memmem(bytes, n, "\r\n\r\n", 4);
    WORLD_CHECK(end || n < sizeof text, "%s: neither an answer nor a packet", dialog->who);
    if (!end)
        return 0;
    size_t size = (size_t)(end - bytes) + 4;
    WORLD_CHECK(size < sizeof text, "%s: an answer is too long", dialog->who);
    memcpy(text, bytes, size);
    text[size] = '\0';
    const char *body = strcasestr(text, "\r\nContent-Length:");
    size += body ? strtoul(body + strlen("\r\nContent-Length:"), NULL, 10) : 0;
    WORLD_CHECK(size < sizeof text, "%s: an answer's body is too long", dialog->who);
    if (size > n)
        return 0;
    memcpy(text, bytes, size);
    text[size] = '\0';
    see_reply(dialog, text);
    return size;
}

void dialog_take(struct dialog *dialog, const uint8_t *bytes, size_t n) {
    size_t done = 0, size;
    if (n == 0)
        return;
    world_append(&dialog->in, &dialog->in_length, &dialog->in_room, bytes, n);
    while (done < dialog->in_length && !dialog->is_over &&
           (size = take_one(dialog, dialog->in + done, dialog->in_length - done)) > 0)
        done += size;
    memmove(dialog->in, dialog->in + done, dialog->in_length - done);
    dialog->in_length -= done;
}

void dialog_clear(struct dialog *dialog) {
    world_free(dialog->in);
}
