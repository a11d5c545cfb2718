/* HTTP requests at an RTSP port: most are tunnels (x-sessioncookie), and are answered in their own
 * protocol. */
#include <stdio.h>
#include <string.h>

#include <sluice/reader.h>

#include "daemon/base/http_status.h"
#include "daemon/base/log.h"
#include "daemon/protocols/rtsp/rtsp_session_internal.h"
#include "daemon/protocols/rtsp_advice.h"
#include "shared/writer_text.h"

enum { LINE_MOST = 8192 };

static const char advice[] = RTSP_ADVICE "\n";

/* Whether the first line that is there is that of HTTP's GET or POST, by which tunnels begin. It is
 * consumed. */
static bool is_http(sluice_chain *chain) {
    static const char version[] = " HTTP/1.";
    const size_t size = sizeof version - 1;
    sluice_reader *reader;
    char scratch[LINE_MOST];
    const char *line;
    size_t length;
    if (sluice_reader_new(chain, &reader) < 0)
        return false;
    bool found = sluice_reader_line(reader, scratch, sizeof scratch, &line, &length) == 0 && length > size + 5 &&
                 (memcmp(line, "GET ", 4) == 0 || memcmp(line, "POST ", 5) == 0) &&
                 memcmp(line + length - size - 1, version, size) == 0;
    sluice_reader_free(reader);
    return found;
}

bool rtsp_refuse_http(struct rtsp_session *session) {
    char text[512];
    if (session->state != RTSP_INIT || !is_http(session_chain(&session->base)))
        return false;
    LOG(LOG_WARNING, "request refused", {"proto", "rtsp"}, {"peer", session->base.peer}, {"status", "501"},
        {"reason", "HTTP on an RTSP port: RTSP over HTTP is not supported"});
    int length = snprintf(text, sizeof text,
                          "HTTP/1.1 501 %s\r\nServer: sluiced\r\nContent-Type: text/plain; charset=utf-8\r\n"
                          "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                          http_status_text(501), sizeof advice - 1, advice);
    if (rtsp_need_writer(session) < 0 || writer_text(session->writer, text, (size_t)length) < 0)
        rtsp_close(session);
    else
        rtsp_end(session);
    return true;
}
