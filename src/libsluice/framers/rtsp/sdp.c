#include <sluice/sdp.h>

#include <errno.h>

#include "framers/http/http_header.h"
#include "framers/http/http_text.h"
#include "framers/text/base64.h"

/* A reading under way. */
struct reading {
    sluice_http_text rest;
    sluice_sdp *sdp;
    sluice_sdp_media *media; /* the current one; NULL before the first */
    bool has_version;
    bool has_direction; /* of the current media */
};

/* What precedes the next line's end; @rest becomes what is behind it. CRLF gives an empty line
 * more, which is none. */
static sluice_http_text next_line(sluice_http_text *rest) {
    size_t length = 0;
    while (length < rest->length && rest->text[length] != '\n' && rest->text[length] != '\r')
        length++;
    sluice_http_text line = {rest->text, length};
    size_t used = length < rest->length ? length + 1 : length;
    rest->text += used;
    rest->length -= used;
    return line;
}

static bool same_text(sluice_http_text a, sluice_http_text b) {
    return a.length == b.length && memcmp(a.text, b.text, a.length) == 0;
}

/* The next word of a line with words separated by one or more blanks. */
static sluice_http_text next_word(sluice_http_text *text) {
    *text = text_trimmed(*text);
    return text_split(text, ' ');
}

static void set_once(sluice_http_text *slot, sluice_http_text value) {
    if (slot->length == 0)
        *slot = value;
}

/* RFC 3551, tables 4 and 5: what a payload type is where there is no rtpmap. */
static void assume_encoding(sluice_sdp_format *format) {
    static const struct {
        int16_t payload_type;
        const char *encoding;
        uint32_t clock_rate, channels;
    } known[] = {
        {0, "PCMU", 8000, 1},   {3, "GSM", 8000, 1},    {4, "G723", 8000, 1},   {5, "DVI4", 8000, 1},
        {6, "DVI4", 16000, 1},  {7, "LPC", 8000, 1},    {8, "PCMA", 8000, 1},   {9, "G722", 8000, 1},
        {10, "L16", 44100, 2},  {11, "L16", 44100, 1},  {12, "QCELP", 8000, 1}, {13, "CN", 8000, 1},
        {14, "MPA", 90000, 1},  {15, "G728", 8000, 1},  {16, "DVI4", 11025, 1}, {17, "DVI4", 22050, 1},
        {18, "G729", 8000, 1},  {25, "CelB", 90000, 0}, {26, "JPEG", 90000, 0}, {28, "nv", 90000, 0},
        {31, "H261", 90000, 0}, {32, "MPV", 90000, 0},  {33, "MP2T", 90000, 0}, {34, "H263", 90000, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].payload_type != format->payload_type)
            continue;
        format->encoding = (sluice_http_text){known[i].encoding, strlen(known[i].encoding)};
        format->clock_rate = known[i].clock_rate;
        format->channels = known[i].channels;
    }
}

static sluice_sdp_format *find_format(sluice_sdp_media *media, sluice_http_text name) {
    for (size_t i = 0; i < media->format_count; i++)
        if (same_text(media->formats[i].name, name))
            return &media->formats[i];
    return NULL;
}

/* The port may have a count behind a slash: layered multicast, which is none of RTSP's. */
static int read_media_line(sluice_http_text line, sluice_sdp_media *media) {
    uint64_t number;
    media->type = next_word(&line);
    sluice_http_text port = next_word(&line);
    media->protocol = next_word(&line);
    if (media->type.length == 0 || media->protocol.length == 0 ||
        http_parse_number(text_split(&port, '/'), 65535, &number))
        return -EPROTO;
    media->port = (uint16_t)number;
    for (sluice_http_text name = next_word(&line); name.length > 0; name = next_word(&line)) {
        if (media->format_count == SLUICE_SDP_MAX_FORMATS || find_format(media, name))
            continue;
        sluice_sdp_format *format = &media->formats[media->format_count++];
        *format = (sluice_sdp_format){.name = name, .payload_type = -1};
        if (!http_parse_number(name, 127, &number))
            format->payload_type = (int16_t)number;
    }
    return media->format_count > 0 ? 0 : -EPROTO;
}

/* "96 MPEG4-GENERIC/44100/2" */
static void read_rtpmap(sluice_sdp_media *media, sluice_http_text value) {
    sluice_sdp_format *format = find_format(media, next_word(&value));
    value = text_trimmed(value);
    sluice_http_text encoding = text_split(&value, '/');
    sluice_http_text rate = text_trimmed(text_split(&value, '/'));
    uint64_t clock_rate, channels = text_folds_to(media->type, "audio") ? 1 : 0;
    if (!format || format->encoding.length > 0 || encoding.length == 0 ||
        http_parse_number(rate, UINT32_MAX, &clock_rate) || clock_rate == 0)
        return;
    value = text_trimmed(value);
    if (value.length > 0 && (http_parse_number(value, 255, &channels) || channels == 0))
        return;
    format->encoding = encoding;
    format->clock_rate = (uint32_t)clock_rate;
    format->channels = (uint32_t)channels;
}

static void read_fmtp(sluice_sdp_media *media, sluice_http_text value) {
    sluice_sdp_format *format = find_format(media, next_word(&value));
    if (format)
        set_once(&format->fmtp, text_trimmed(value));
}

/* "25", "29.97", and as some cameras write it, "30000/1001" is not: then it is not known. */
static double read_frame_rate(sluice_http_text value) {
    double rate = 0, unit = 1;
    bool fraction = false;
    if (value.length == 0 || value.length > 15)
        return 0;
    for (size_t i = 0; i < value.length; i++) {
        char c = value.text[i];
        if (c == '.' && !fraction) {
            fraction = true;
            continue;
        }
        if (!http_is_digit((uint8_t)c))
            return 0;
        rate = rate * 10 + (c - '0');
        unit *= fraction ? 10 : 1;
    }
    return rate / unit;
}

static bool read_direction(sluice_http_text name, sluice_sdp_direction *ret_direction) {
    static const char *const names[] = {"sendrecv", "recvonly", "sendonly", "inactive"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (text_equals(name, names[i])) {
            *ret_direction = (sluice_sdp_direction)i;
            return true;
        }
    }
    return false;
}

static void read_session_attribute(struct reading *reading, sluice_http_text name, sluice_http_text value) {
    sluice_sdp *sdp = reading->sdp;
    if (text_equals(name, "control"))
        set_once(&sdp->control, value);
    else if (text_equals(name, "range"))
        set_once(&sdp->range, value);
    else if (text_equals(name, "tool"))
        set_once(&sdp->tool, value);
    else if (!reading->has_direction)
        reading->has_direction = read_direction(name, &sdp->direction);
}

static void read_media_attribute(struct reading *reading, sluice_http_text name, sluice_http_text value) {
    sluice_sdp_media *media = reading->media;
    if (text_equals(name, "rtpmap"))
        read_rtpmap(media, value);
    else if (text_equals(name, "fmtp"))
        read_fmtp(media, value);
    else if (text_equals(name, "control"))
        set_once(&media->control, value);
    else if (text_equals(name, "range"))
        set_once(&media->range, value);
    else if (text_equals(name, "framerate") && media->frame_rate <= 0)
        media->frame_rate = read_frame_rate(value);
    else if (!reading->has_direction)
        reading->has_direction = read_direction(name, &media->direction);
}

static int begin_media(struct reading *reading, sluice_http_text line) {
    sluice_sdp *sdp = reading->sdp;
    if (sdp->media_count == SLUICE_SDP_MAX_MEDIA)
        return -EMSGSIZE;
    sluice_sdp_media *media = &sdp->media[sdp->media_count];
    *media = (sluice_sdp_media){.direction = sdp->direction};
    int error = read_media_line(line, media);
    if (error)
        return error;
    media->lines = (sluice_http_text){reading->rest.text, 0};
    sdp->media_count++;
    reading->media = media;
    reading->has_direction = false;
    return 0;
}

static int read_version(struct reading *reading, sluice_http_text value) {
    if (reading->has_version)
        return -EPROTO;
    reading->has_version = true;
    return text_equals(text_trimmed(value), "0") ? 0 : -EPROTONOSUPPORT;
}

static int read_line(struct reading *reading, char type, sluice_http_text value) {
    sluice_sdp *sdp = reading->sdp;
    if (!reading->has_version && type != 'v')
        return -EPROTO;
    switch (type) {
    case 'v':
        return read_version(reading, value);
    case 'o':
        set_once(&sdp->origin, value);
        return 0;
    case 's':
        set_once(&sdp->name, value);
        return 0;
    case 'i':
        if (!reading->media)
            set_once(&sdp->information, value);
        return 0;
    case 'c':
        set_once(reading->media ? &reading->media->connection : &sdp->connection, text_trimmed(value));
        return 0;
    case 'm':
        return begin_media(reading, value);
    case 'a': {
        sluice_http_text name = text_trimmed(text_split(&value, ':'));
        if (reading->media)
            read_media_attribute(reading, name, text_trimmed(value));
        else
            read_session_attribute(reading, name, text_trimmed(value));
        return 0;
    }
    default:
        return 0;
    }
}

/* What the session says holds for the media that say nothing; and payload types mean what RFC 3551
 * says. */
static void complete(sluice_sdp *sdp) {
    for (size_t i = 0; i < sdp->media_count; i++) {
        sluice_sdp_media *media = &sdp->media[i];
        set_once(&media->connection, sdp->connection);
        set_once(&media->range, sdp->range);
        for (size_t k = 0; k < media->format_count; k++)
            if (media->formats[k].encoding.length == 0)
                assume_encoding(&media->formats[k]);
    }
}

static int read_lines(struct reading *reading) {
    const char *begin = reading->rest.text;
    for (size_t lines = 0; reading->rest.length > 0;) {
        sluice_http_text line = next_line(&reading->rest);
        sluice_http_text *section = reading->media ? &reading->media->lines : &reading->sdp->lines;
        if (line.length == 0)
            continue;
        if (line.length > SLUICE_SDP_MAX_LINE || ++lines > SLUICE_SDP_MAX_LINES)
            return -EMSGSIZE;
        if (line.length < 2 || line.text[1] != '=')
            return -EPROTO;
        const char *from = reading->media ? section->text : begin;
        if (line.text[0] != 'm')
            *section = (sluice_http_text){from, (size_t)(line.text + line.length - from)};
        int error = read_line(reading, line.text[0], (sluice_http_text){line.text + 2, line.length - 2});
        if (error)
            return error;
    }
    return reading->has_version ? 0 : -EPROTO;
}

int sluice_sdp_read(const char *text, size_t length, sluice_sdp *ret_sdp) {
    if (length > 0 && text[length - 1] == '\0')
        length--;
    if (length > SLUICE_SDP_MAX_SIZE)
        return -EMSGSIZE;
    if (length == 0 || memchr(text, '\0', length))
        return -EPROTO;
    sluice_sdp sdp = {0};
    struct reading reading = {.rest = {text, length}, .sdp = &sdp};
    int error = read_lines(&reading);
    if (error)
        return error;
    complete(&sdp);
    *ret_sdp = sdp;
    return 0;
}

int sluice_sdp_next_attribute(sluice_http_text *rest, sluice_http_text *ret_name, sluice_http_text *ret_value) {
    while (rest->length > 0) {
        sluice_http_text line = next_line(rest);
        if (line.length < 2 || line.text[0] != 'a' || line.text[1] != '=')
            continue;
        line = (sluice_http_text){line.text + 2, line.length - 2};
        sluice_http_text name = text_trimmed(text_split(&line, ':'));
        if (name.length == 0)
            continue;
        *ret_name = name;
        *ret_value = text_trimmed(line);
        return 1;
    }
    return 0;
}

bool sluice_sdp_parameter(const sluice_sdp_format *format, const char *name, sluice_http_text *ret_value) {
    for (sluice_http_text rest = format->fmtp; rest.length > 0;) {
        sluice_http_text value = text_split(&rest, ';');
        if (!text_folds_to(text_trimmed(text_split(&value, '=')), name))
            continue;
        *ret_value = text_trimmed(value);
        return true;
    }
    return false;
}

bool sluice_sdp_number(const sluice_sdp_format *format, const char *name, uint32_t most, uint32_t *ret_number) {
    sluice_http_text value;
    uint64_t number;
    if (!sluice_sdp_parameter(format, name, &value) || http_parse_number(value, most, &number))
        return false;
    *ret_number = (uint32_t)number;
    return true;
}

ssize_t sluice_sdp_decode_base64(sluice_http_text text, uint8_t *buffer, size_t size) {
    text = text_trimmed(text);
    size_t padding = 0;
    while (padding < 2 && padding < text.length && text.text[text.length - 1 - padding] == '=')
        padding++;
    if ((text.length - padding) * 3 / 4 > size)
        return -EMSGSIZE;
    return base64_decode(text.text, text.length, buffer);
}

ssize_t sluice_sdp_decode_hex(sluice_http_text text, uint8_t *buffer, size_t size) {
    text = text_trimmed(text);
    if (text.length % 2)
        return -EPROTO;
    if (text.length / 2 > size)
        return -EMSGSIZE;
    for (size_t i = 0; i < text.length; i++)
        if (http_hex_value((uint8_t)text.text[i]) < 0)
            return -EPROTO;
    for (size_t i = 0; i < text.length / 2; i++)
        buffer[i] = (uint8_t)(http_hex_value((uint8_t)text.text[2 * i]) << 4 |
                              http_hex_value((uint8_t)text.text[2 * i + 1]));
    return (ssize_t)(text.length / 2);
}
