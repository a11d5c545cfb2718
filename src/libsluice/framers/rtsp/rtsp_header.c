/* What the values of RTSP's headers say. */
#include <sluice/rtsp.h>

#include <errno.h>

#include "framers/http/http_header.h"
#include "framers/http/http_text.h"
#include "framers/rtsp/rtsp_line.h"
#include "framers/text/base64.h"

unsigned sluice_rtsp_public(const sluice_rtsp_message *message) {
    unsigned methods = 0;
    for (size_t i = 0; i < message->header_count; i++) {
        if (!text_folds_to(message->headers[i].name, "Public"))
            continue;
        for (sluice_http_text rest = message->headers[i].value; rest.length > 0;)
            methods |= rtsp_method(text_trimmed(text_split(&rest, ',')));
    }
    return methods;
}

int sluice_rtsp_read_session(const sluice_rtsp_message *message, sluice_rtsp_session *ret_session) {
    const sluice_http_header *header = sluice_rtsp_find(message, "Session");
    if (!header)
        return -ENOENT;
    sluice_http_text rest = header->value;
    sluice_rtsp_session session = {text_trimmed(text_split(&rest, ';')), SLUICE_RTSP_DEFAULT_TIMEOUT};
    if (session.id.length == 0)
        return -EPROTO;
    for (size_t i = 0; i < session.id.length; i++)
        if (!http_is_visible((uint8_t)session.id.text[i]))
            return -EPROTO;
    while (rest.length > 0) {
        sluice_http_text value = text_trimmed(text_split(&rest, ';'));
        sluice_http_text name = text_trimmed(text_split(&value, '='));
        uint64_t seconds;
        if (!text_folds_to(name, "timeout"))
            continue;
        if (http_parse_number(text_trimmed(value), UINT32_MAX, &seconds))
            return -EPROTO;
        session.timeout = (uint32_t)seconds;
    }
    *ret_session = session;
    return 0;
}

/* "4" or "4-5". */
static int read_pair(sluice_http_text text, uint64_t most, sluice_rtsp_pair *ret_pair) {
    uint64_t first, second;
    bool has_second = text.length > 0 && memchr(text.text, '-', text.length);
    if (http_parse_number(text_split(&text, '-'), most, &first))
        return -EPROTO;
    if (has_second && http_parse_number(text, most, &second))
        return -EPROTO;
    *ret_pair = (sluice_rtsp_pair){(int32_t)first, has_second ? (int32_t)second : -1};
    return 0;
}

static int read_ssrc(sluice_http_text value, sluice_rtsp_transport *transport) {
    uint32_t ssrc = 0;
    if (value.length == 0 || value.length > 8)
        return -EPROTO;
    for (size_t i = 0; i < value.length; i++) {
        int digit = http_hex_value((uint8_t)value.text[i]);
        if (digit < 0)
            return -EPROTO;
        ssrc = ssrc << 4 | (uint32_t)digit;
    }
    transport->has_ssrc = true;
    transport->ssrc = ssrc;
    return 0;
}

static sluice_http_text without_quotes(sluice_http_text text) {
    if (text.length >= 2 && text.text[0] == '"' && text.text[text.length - 1] == '"')
        return (sluice_http_text){text.text + 1, text.length - 2};
    return text;
}

static int read_transport_parameter(sluice_http_text value, sluice_rtsp_transport *transport) {
    sluice_http_text name = text_trimmed(text_split(&value, '='));
    value = without_quotes(text_trimmed(value));
    if (text_folds_to(name, "multicast"))
        transport->multicast = true;
    else if (text_folds_to(name, "unicast"))
        transport->multicast = false;
    else if (text_folds_to(name, "mode"))
        transport->record = text_folds_to(value, "record") || text_folds_to(value, "receive");
    else if (text_folds_to(name, "interleaved"))
        return read_pair(value, UINT8_MAX, &transport->interleaved);
    else if (text_folds_to(name, "client_port"))
        return read_pair(value, UINT16_MAX, &transport->client_port);
    else if (text_folds_to(name, "server_port"))
        return read_pair(value, UINT16_MAX, &transport->server_port);
    else if (text_folds_to(name, "ssrc"))
        return read_ssrc(value, transport);
    return 0;
}

/* RTP/AVP, RTP/AVP/UDP, RTP/AVP/TCP. */
static int read_profile(sluice_http_text spec, sluice_rtsp_transport *transport) {
    const char *begin = spec.text;
    sluice_http_text protocol = text_split(&spec, '/');
    sluice_http_text profile = text_split(&spec, '/');
    if (protocol.length == 0 || profile.length == 0)
        return -EPROTO;
    transport->profile = (sluice_http_text){begin, (size_t)(profile.text + profile.length - begin)};
    transport->tcp = text_folds_to(spec, "TCP");
    return spec.length == 0 || transport->tcp || text_folds_to(spec, "UDP") ? 0 : -EPROTO;
}

static int read_transport(sluice_http_text text, sluice_rtsp_transport *transport) {
    *transport = (sluice_rtsp_transport){
        .text = text, .interleaved = {-1, -1}, .client_port = {-1, -1}, .server_port = {-1, -1}};
    int error = read_profile(text_trimmed(text_split(&text, ';')), transport);
    while (!error && text.length > 0)
        error = read_transport_parameter(text_trimmed(text_split(&text, ';')), transport);
    return error;
}

/* What precedes the first comma outside of quotes; @text becomes what is behind it. */
static sluice_http_text split_list(sluice_http_text *text) {
    bool quoted = false;
    for (size_t i = 0; i < text->length; i++) {
        if (text->text[i] == '"')
            quoted = !quoted;
        if (text->text[i] != ',' || quoted)
            continue;
        sluice_http_text front = {text->text, i};
        *text = (sluice_http_text){text->text + i + 1, text->length - i - 1};
        return front;
    }
    sluice_http_text front = *text;
    *text = (sluice_http_text){front.text + front.length, 0};
    return front;
}

int sluice_rtsp_next_transport(const sluice_rtsp_message *message, sluice_rtsp_transport_walk *walk,
                               sluice_rtsp_transport *ret_transport) {
    for (;;) {
        while (walk->rest.length > 0) {
            sluice_rtsp_transport transport;
            sluice_http_text text = text_trimmed(split_list(&walk->rest));
            if (text.length == 0)
                continue;
            int error = read_transport(text, &transport);
            if (error)
                return error;
            *ret_transport = transport;
            return 1;
        }
        while (walk->header < message->header_count && !text_folds_to(message->headers[walk->header].name, "Transport"))
            walk->header++;
        if (walk->header == message->header_count)
            return 0;
        walk->rest = message->headers[walk->header++].value;
    }
}

/* Seconds with a fraction, as milliseconds; what is beyond a millisecond is cut off. */
static bool read_seconds(sluice_http_text text, uint64_t most, int64_t *ret_ms) {
    uint64_t seconds;
    bool has_point = text.length > 0 && memchr(text.text, '.', text.length);
    if (http_parse_number(text_split(&text, '.'), most, &seconds) || (has_point && text.length == 0))
        return false;
    int64_t ms = 0, unit = 100;
    for (size_t i = 0; i < text.length; i++, unit /= 10) {
        if (!http_is_digit((uint8_t)text.text[i]))
            return false;
        ms += (text.text[i] - '0') * unit;
    }
    *ret_ms = (int64_t)seconds * 1000 + ms;
    return true;
}

/* npt-sec or npt-hhmmss of RFC 2326, section 3.6. */
static bool read_npt(sluice_http_text text, int64_t *ret_ms) {
    enum { MOST_HOURS = 1 << 20, MOST_SECONDS = INT32_MAX };
    uint64_t hours, minutes;
    if (!memchr(text.text, ':', text.length))
        return read_seconds(text, MOST_SECONDS, ret_ms);
    if (http_parse_number(text_split(&text, ':'), MOST_HOURS, &hours) ||
        http_parse_number(text_split(&text, ':'), 59, &minutes))
        return false;
    int64_t ms;
    if (!read_seconds(text, 59, &ms))
        return false;
    *ret_ms = (int64_t)(hours * 3600 + minutes * 60) * 1000 + ms;
    return true;
}

int sluice_rtsp_read_range(const sluice_rtsp_message *message, sluice_rtsp_range *ret_range) {
    const sluice_http_header *header = sluice_rtsp_find(message, "Range");
    if (!header)
        return -ENOENT;
    sluice_http_text rest = header->value;
    sluice_http_text value = text_trimmed(text_split(&rest, ';'));
    sluice_http_text unit = text_trimmed(text_split(&value, '='));
    if (!text_folds_to(unit, "npt"))
        return text_folds_to(unit, "clock") || text_starts(unit, "smpte") ? -EOPNOTSUPP : -EPROTO;
    sluice_rtsp_range range = {.end = -1};
    bool has_dash = value.length > 0 && memchr(value.text, '-', value.length);
    sluice_http_text start = text_trimmed(text_split(&value, '-')), end = text_trimmed(value);
    range.now = text_folds_to(start, "now");
    if (!has_dash || (start.length == 0 && end.length == 0))
        return -EPROTO;
    if (start.length > 0 && !range.now && !read_npt(start, &range.start))
        return -EPROTO;
    if (end.length > 0 && !read_npt(end, &range.end))
        return -EPROTO;
    *ret_range = range;
    return 0;
}

/* Authentication: scheme, then token68 or a list of parameters, and perhaps the next scheme. */

static void skip_blanks(sluice_http_text *text) {
    while (text->length > 0 && (http_is_blank((uint8_t)text->text[0]) || text->text[0] == ',')) {
        text->text++;
        text->length--;
    }
}

static sluice_http_text take(sluice_http_text *text, size_t n) {
    sluice_http_text front = {text->text, n};
    text->text += n;
    text->length -= n;
    return front;
}

static sluice_http_text take_token(sluice_http_text *text) {
    size_t n = 0;
    while (n < text->length && http_is_token_char((uint8_t)text->text[n]))
        n++;
    return take(text, n);
}

/* token68 of RFC 7235, section 2.1, with its padding. */
static sluice_http_text take_credentials(sluice_http_text *text) {
    size_t n = 0;
    while (n < text->length && !http_is_blank((uint8_t)text->text[n]) && text->text[n] != ',')
        n++;
    return take(text, n);
}

/* A token or a quoted text, without its quotes: 0, -EPROTO (the quotes do not end). */
static int take_value(sluice_http_text *text, sluice_http_text *ret_value) {
    if (text->length == 0 || text->text[0] != '"') {
        *ret_value = take_credentials(text);
        return 0;
    }
    take(text, 1);
    for (size_t n = 0; n < text->length; n++) {
        if (text->text[n] == '\\')
            n++;
        else if (text->text[n] == '"') {
            *ret_value = take(text, n);
            take(text, 1);
            return 0;
        }
    }
    return -EPROTO;
}

static int note_parameter(sluice_http_text name, sluice_http_text value, unsigned *seen, sluice_rtsp_auth *auth) {
    static const char *const names[] = {"realm",    "nonce", "opaque",   "algorithm", "qop",
                                        "username", "uri",   "response", "cnonce",    "nc"};
    sluice_http_text *const fields[] = {&auth->realm,    &auth->nonce, &auth->opaque,   &auth->algorithm, &auth->qop,
                                        &auth->username, &auth->uri,   &auth->response, &auth->cnonce,    &auth->nc};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (!text_folds_to(name, names[i]))
            continue;
        if (*seen & 1U << i)
            return -EPROTO;
        *seen |= 1U << i;
        *fields[i] = value;
    }
    if (text_folds_to(name, "stale"))
        auth->stale = text_folds_to(value, "true");
    return 0;
}

/* Parameters up to the end, or up to a token without "=", which is the next scheme. */
static int read_parameters(sluice_http_text *rest, sluice_rtsp_auth *auth) {
    unsigned seen = 0;
    for (;;) {
        skip_blanks(rest);
        sluice_http_text after = *rest;
        sluice_http_text name = take_token(&after);
        if (rest->length == 0)
            return 0;
        if (name.length == 0)
            return -EPROTO;
        while (after.length > 0 && http_is_blank((uint8_t)after.text[0]))
            take(&after, 1);
        if (after.length == 0 || after.text[0] != '=')
            return 0;
        take(&after, 1);
        while (after.length > 0 && http_is_blank((uint8_t)after.text[0]))
            take(&after, 1);
        sluice_http_text value;
        int error = take_value(&after, &value);
        if (!error)
            error = note_parameter(name, value, &seen, auth);
        if (error)
            return error;
        *rest = after;
    }
}

int sluice_rtsp_next_auth(sluice_http_text *rest, sluice_rtsp_auth *ret_auth) {
    skip_blanks(rest);
    if (rest->length == 0)
        return 0;
    const sluice_http_text none = {rest->text + rest->length, 0};
    sluice_rtsp_auth auth = {none, none, none, none, none, none, none, none, none, none, none, none, false};
    auth.scheme = take_token(rest);
    bool is_basic = text_folds_to(auth.scheme, "Basic");
    skip_blanks(rest);
    int error = auth.scheme.length == 0 ? -EPROTO : 0;
    /* "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==" is no parameter, though it holds "=". */
    if (!error && is_basic && !text_starts(*rest, "realm") && rest->length > 0)
        auth.credentials = take_credentials(rest);
    else if (!error)
        error = read_parameters(rest, &auth);
    if (error) {
        *rest = none;
        return error;
    }
    *ret_auth = auth;
    return 1;
}

int sluice_rtsp_decode_basic(sluice_http_text credentials, char *buffer, size_t size, size_t *ret_length,
                             size_t *ret_user) {
    if (credentials.length / 4 * 3 + 2 > size)
        return -EMSGSIZE;
    ssize_t length = base64_decode(credentials.text, credentials.length, (uint8_t *)buffer);
    const char *colon = length > 0 ? memchr(buffer, ':', (size_t)length) : NULL;
    if (!colon)
        return -EPROTO;
    *ret_length = (size_t)length;
    *ret_user = (size_t)(colon - buffer);
    return 0;
}

/* URLs. */

static int read_authority(sluice_http_text text, sluice_rtsp_url *url) {
    const char *at = text.length > 0 ? memrchr(text.text, '@', text.length) : NULL;
    if (at) {
        url->user = (sluice_http_text){text.text, (size_t)(at - text.text)};
        take(&text, url->user.length + 1);
    }
    if (text.length > 0 && text.text[0] == '[') {
        const char *end = memchr(text.text, ']', text.length);
        if (!end)
            return -EPROTO;
        url->host = take(&text, (size_t)(end - text.text) + 1);
    } else {
        size_t n = 0;
        while (n < text.length && text.text[n] != ':')
            n++;
        url->host = take(&text, n);
    }
    uint64_t port;
    if (url->host.length == 0 || (text.length > 0 && text.text[0] != ':'))
        return -EPROTO;
    if (text.length <= 1)
        return 0;
    take(&text, 1);
    if (http_parse_number(text, UINT16_MAX, &port))
        return -EPROTO;
    url->port = (uint16_t)port;
    return 0;
}

int sluice_rtsp_split_url(sluice_http_text text, sluice_rtsp_url *ret_url) {
    static const char *const schemes[] = {"rtsp://", "rtsps://", "rtspu://"};
    const sluice_http_text none = {text.text + text.length, 0};
    sluice_rtsp_url url = {none, none, none, 554, none, none};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t length = strlen(schemes[i]);
        if (!text_starts(text, schemes[i]))
            continue;
        url.scheme = (sluice_http_text){text.text, length - 3};
        url.port = i == 1 ? 322 : 554;
        take(&text, length);
        size_t n = 0;
        while (n < text.length && text.text[n] != '/' && text.text[n] != '?')
            n++;
        int error = read_authority(take(&text, n), &url);
        if (error)
            return error;
        break;
    }
    if (url.scheme.length == 0 && (text.length == 0 || text.text[0] != '/'))
        return -EPROTO;
    url.path = text_split(&text, '?');
    url.query = text;
    *ret_url = url;
    return 0;
}
