#include <sluice/rtsp.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

#include "framers/http/http_text.h"
#include "framers/text/text_format.h"

/* Appends formatted text; the error is for sluice_rtsp_write_end(). */
static void append_list(sluice_rtsp_writer *writer, const char *format, va_list arguments) {
    if (!writer->error)
        writer->error = text_format(writer->buffer, writer->size, &writer->length, format, arguments);
}

__attribute__((format(printf, 2, 3))) static void append(sluice_rtsp_writer *writer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    append_list(writer, format, arguments);
    va_end(arguments);
}

/* What is put into lines must not end them. */
static void check_text(sluice_rtsp_writer *writer, const char *text, bool blanks) {
    for (; *text; text++)
        if (!http_is_value_byte((uint8_t)*text) || (!blanks && http_is_blank((uint8_t)*text)))
            writer->error = writer->error ? writer->error : -EINVAL;
}

static void append_cseq(sluice_rtsp_writer *writer, int64_t cseq) {
    if (cseq >= 0)
        append(writer, "CSeq: %" PRId64 "\r\n", cseq);
}

void sluice_rtsp_write_request(sluice_rtsp_writer *writer, char *buffer, size_t size, const char *method,
                               const char *url, uint32_t cseq) {
    *writer = (sluice_rtsp_writer){.buffer = buffer, .size = size};
    check_text(writer, method, false);
    check_text(writer, url, false);
    append(writer, "%s %s RTSP/1.0\r\n", method, url);
    append_cseq(writer, cseq);
}

void sluice_rtsp_write_status(sluice_rtsp_writer *writer, char *buffer, size_t size, unsigned status,
                              const char *reason, int64_t cseq) {
    *writer = (sluice_rtsp_writer){.buffer = buffer, .size = size};
    if (status < 100 || status > 999)
        writer->error = -EINVAL;
    check_text(writer, reason, true);
    append(writer, "RTSP/1.0 %u %s\r\n", status, reason);
    append_cseq(writer, cseq);
}

void sluice_rtsp_write_reply(sluice_rtsp_writer *writer, char *buffer, size_t size, unsigned status, int64_t cseq) {
    sluice_rtsp_write_status(writer, buffer, size, status, sluice_rtsp_reason(status), cseq);
}

void sluice_rtsp_write_header(sluice_rtsp_writer *writer, const char *name, const char *format, ...) {
    check_text(writer, name, false);
    append(writer, "%s: ", name);
    size_t begin = writer->length;
    va_list arguments;
    va_start(arguments, format);
    append_list(writer, format, arguments);
    va_end(arguments);
    if (!writer->error)
        check_text(writer, writer->buffer + begin, true);
    append(writer, "\r\n");
}

static void append_pair(sluice_rtsp_writer *writer, const char *name, sluice_rtsp_pair pair) {
    if (pair.first < 0)
        return;
    append(writer, ";%s=%" PRId32, name, pair.first);
    if (pair.second >= 0)
        append(writer, "-%" PRId32, pair.second);
}

void sluice_rtsp_write_transport(sluice_rtsp_writer *writer, const sluice_rtsp_transport *transport) {
    append(writer, "Transport: RTP/AVP%s;%s", transport->tcp ? "/TCP" : "",
           transport->multicast ? "multicast" : "unicast");
    append_pair(writer, "interleaved", transport->interleaved);
    append_pair(writer, "client_port", transport->client_port);
    append_pair(writer, "server_port", transport->server_port);
    if (transport->has_ssrc)
        append(writer, ";ssrc=%08" PRIX32, transport->ssrc);
    if (transport->record)
        append(writer, ";mode=record");
    append(writer, "\r\n");
}

int sluice_rtsp_write_end(sluice_rtsp_writer *writer, const char *type, size_t content_length) {
    if (type) {
        check_text(writer, type, true);
        append(writer, "Content-Type: %s\r\nContent-Length: %zu\r\n", type, content_length);
    }
    append(writer, "\r\n");
    return writer->error ? writer->error : (int)writer->length;
}

void sluice_rtsp_write_interleaved(uint8_t buffer[SLUICE_RTSP_INTERLEAVED_SIZE], uint8_t channel, uint16_t length) {
    buffer[0] = '$';
    buffer[1] = channel;
    buffer[2] = (uint8_t)(length >> 8);
    buffer[3] = (uint8_t)length;
}

/* RFC 2326, section 7.1.1. */
const char *sluice_rtsp_reason(unsigned status) {
    static const struct {
        unsigned status;
        const char *reason;
    } reasons[] = {
        {100, "Continue"},
        {200, "OK"},
        {201, "Created"},
        {250, "Low on Storage Space"},
        {300, "Multiple Choices"},
        {301, "Moved Permanently"},
        {302, "Moved Temporarily"},
        {303, "See Other"},
        {304, "Not Modified"},
        {305, "Use Proxy"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {407, "Proxy Authentication Required"},
        {408, "Request Time-out"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Request Entity Too Large"},
        {414, "Request-URI Too Large"},
        {415, "Unsupported Media Type"},
        {451, "Parameter Not Understood"},
        {452, "Conference Not Found"},
        {453, "Not Enough Bandwidth"},
        {454, "Session Not Found"},
        {455, "Method Not Valid in This State"},
        {456, "Header Field Not Valid for Resource"},
        {457, "Invalid Range"},
        {458, "Parameter Is Read-Only"},
        {459, "Aggregate operation not allowed"},
        {460, "Only aggregate operation allowed"},
        {461, "Unsupported transport"},
        {462, "Destination unreachable"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Time-out"},
        {505, "RTSP Version not supported"},
        {551, "Option not supported"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}
