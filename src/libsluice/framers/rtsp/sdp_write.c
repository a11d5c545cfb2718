#include <sluice/sdp.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

#include "framers/http/http_text.h"
#include "framers/text/base64.h"
#include "framers/text/text_format.h"

/* Appends formatted text; the error is for sluice_sdp_write_end(). */
static void append_list(sluice_sdp_writer *writer, const char *format, va_list arguments) {
    if (!writer->error)
        writer->error = text_format(writer->buffer, writer->size, &writer->length, format, arguments);
}

__attribute__((format(printf, 2, 3))) static void append(sluice_sdp_writer *writer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    append_list(writer, format, arguments);
    va_end(arguments);
}

/* What is put into lines must not end them, and a word must be one. */
static void check_text(sluice_sdp_writer *writer, const char *text, bool blanks) {
    bool fine = *text != '\0';
    for (; *text; text++)
        fine &= (uint8_t)*text >= ' ' && *text != 0x7F && (blanks || *text != ' ');
    if (!fine && !writer->error)
        writer->error = -EINVAL;
}

void sluice_sdp_write_session(sluice_sdp_writer *writer, char *buffer, size_t size, uint64_t session_id,
                              uint64_t version, const char *address, const char *name, const char *tool) {
    *writer = (sluice_sdp_writer){.buffer = buffer, .size = size};
    const char *family = strchr(address, ':') ? "IP6" : "IP4";
    check_text(writer, address, false);
    check_text(writer, name, true);
    append(writer, "v=0\r\no=- %" PRIu64 " %" PRIu64 " IN %s %s\r\ns=%s\r\n", session_id, version, family, address,
           name);
    /* Where media go is said by RTSP (RFC 2326, C.1.7). */
    append(writer, "c=IN %s %s\r\nt=0 0\r\n", family, family[2] == '6' ? "::" : "0.0.0.0");
    if (tool)
        sluice_sdp_write_attribute(writer, "tool", "%s", tool);
}

void sluice_sdp_write_attribute(sluice_sdp_writer *writer, const char *name, const char *format, ...) {
    check_text(writer, name, false);
    append(writer, "a=%s", name);
    if (format) {
        append(writer, ":");
        size_t begin = writer->length;
        va_list arguments;
        va_start(arguments, format);
        append_list(writer, format, arguments);
        va_end(arguments);
        if (!writer->error)
            check_text(writer, writer->buffer + begin, true);
    }
    append(writer, "\r\n");
}

void sluice_sdp_write_media(sluice_sdp_writer *writer, const char *type, uint8_t payload_type, const char *encoding,
                            uint32_t clock_rate, uint32_t channels) {
    check_text(writer, type, false);
    check_text(writer, encoding, false);
    if (payload_type > 127 && !writer->error)
        writer->error = -EINVAL;
    append(writer, "m=%s 0 RTP/AVP %u\r\na=rtpmap:%u %s/%" PRIu32, type, payload_type, payload_type, encoding,
           clock_rate);
    if (channels > 1)
        append(writer, "/%" PRIu32, channels);
    append(writer, "\r\n");
}

int sluice_sdp_write_end(sluice_sdp_writer *writer) {
    return writer->error ? writer->error : (int)writer->length;
}

ssize_t sluice_sdp_encode_base64(const uint8_t *bytes, size_t n, char *text, size_t size) {
    size_t length = BASE64_SIZE(n);
    if (n > SIZE_MAX / 2 || length >= size)
        return -EMSGSIZE;
    base64_encode(bytes, n, text);
    text[length] = '\0';
    return (ssize_t)length;
}

ssize_t sluice_sdp_encode_hex(const uint8_t *bytes, size_t n, char *text, size_t size) {
    static const char digits[] = "0123456789ABCDEF";
    if (n > SIZE_MAX / 4 || 2 * n >= size)
        return -EMSGSIZE;
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * n] = '\0';
    return (ssize_t)(2 * n);
}
