/**
 * @file sdp.h
 * Session descriptions, as RTSP carries them: read in place, and written.
 *
 * Source: RFC 8866 (SDP); RFC 2326, appendix C, for its use by RTSP; RFC 3551 for the payload types
 * that need no rtpmap. What is read may be sloppy, as cameras are; what is written is not.
 *
 * Threads: none of the calls has a state.
 */
#ifndef SLUICE_SDP_H
#define SLUICE_SDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <sluice/http.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SLUICE_SDP_MAX_SIZE = 65536, /**< Longest description, bytes. */
    /** Longest line without its end, bytes: parameter sets come in one line. */
    SLUICE_SDP_MAX_LINE = 8192,
    SLUICE_SDP_MAX_LINES = 1024, /**< Most lines. */
    SLUICE_SDP_MAX_MEDIA = 16,   /**< Most media. */
    /** Formats of a media that are kept; further ones are stepped over. */
    SLUICE_SDP_MAX_FORMATS = 8,
};

/** Which way media go, as seen by who describes them. */
typedef enum sluice_sdp_direction {
    SLUICE_SDP_SENDRECV, /**< Both ways; also where nothing is said. */
    SLUICE_SDP_RECVONLY,
    SLUICE_SDP_SENDONLY,
    SLUICE_SDP_INACTIVE,
} sluice_sdp_direction;

/** A format of a media: of RTP, a payload type. */
typedef struct sluice_sdp_format {
    sluice_http_text name; /**< As the media line has it: "96". */
    int16_t payload_type;  /**< 0 to 127; -1 where the name is no such number. */
    /** "H264": by rtpmap, or by RFC 3551; compare without case. Empty: not known. */
    sluice_http_text encoding;
    uint32_t clock_rate;   /**< Timestamp units in a second; 0: not known. */
    uint32_t channels;     /**< Audio: 1 where it is not said. Video: 0. */
    sluice_http_text fmtp; /**< The parameters: see sluice_sdp_parameter(). Empty without. */
} sluice_sdp_format;

/** One media description. */
typedef struct sluice_sdp_media {
    sluice_http_text type;     /**< "video", "audio", "application"... */
    uint16_t port;             /**< 0 is usual in RTSP. */
    sluice_http_text protocol; /**< "RTP/AVP". */
    /** In the order of preference; each name once. */
    sluice_sdp_format formats[SLUICE_SDP_MAX_FORMATS];
    size_t format_count; /**< At least 1. */
    /** The "c=" line's value; the session's where the media has none. */
    sluice_http_text connection;
    sluice_sdp_direction direction; /**< The session's where the media says none. */
    sluice_http_text control;       /**< URL, absolute or relative; empty where it is not said. */
    sluice_http_text range;         /**< As "npt=0-"; the session's where the media has none. */
    double frame_rate;              /**< Frames per second; 0 where it is not said. */
    /** All its lines behind the media line: see sluice_sdp_next_attribute(). */
    sluice_http_text lines;
} sluice_sdp_media;

/** A session description. All texts are parts of what was read. */
typedef struct sluice_sdp {
    sluice_http_text origin;        /**< The "o=" line's value; empty where it is missing. */
    sluice_http_text name;          /**< The "s=" line's value; likewise. */
    sluice_http_text information;   /**< The "i=" line's value; likewise. */
    sluice_http_text connection;    /**< The "c=" line's value; likewise. */
    sluice_http_text tool;          /**< What made it; likewise. */
    sluice_http_text control;       /**< The URL to control all media with; likewise. */
    sluice_http_text range;         /**< As "npt=0-"; likewise. */
    sluice_sdp_direction direction; /**< For media that say nothing themselves. */
    /** All lines before the first media: see sluice_sdp_next_attribute(). */
    sluice_http_text lines;
    /** In order: two of the same kind are two media. */
    sluice_sdp_media media[SLUICE_SDP_MAX_MEDIA];
    size_t media_count; /**< Media; 0 is a description all the same. */
} sluice_sdp;

/**
 * Reads a description in place. Lines may end with CRLF, LF or CR, the last one with nothing; empty
 * lines and lines of other types are stepped over. "v=0" must come before anything else, and once.
 * Other lines of the standard may be missing; of those that may come once the first counts. An
 * attribute that is malformed is as if it were not there, so are rtpmap and fmtp of formats that
 * the media line does not have; a media line that is malformed is an error.
 *
 * @param text    the description; a NUL byte at its end is taken off. All texts of the result lie
 *                in it
 * @param ret_sdp about 10 KiB; untouched on failure
 * @return 0, -EPROTO (no description: no "v=" first, a line without "x=", a malformed media line, a
 *         NUL byte), -EPROTONOSUPPORT (a version other than 0), -EMSGSIZE (over a limit)
 */
SLUICE_API int sluice_sdp_read(const char *text, size_t length, sluice_sdp *ret_sdp);

/**
 * Steps to the next attribute line.
 * @param rest      the session's or a media's @c lines, then what is left of them
 * @param ret_name  "rtpmap"; case counts
 * @param ret_value what is behind the colon; empty without
 * @return 1, 0 (there are no more)
 */
SLUICE_API int sluice_sdp_next_attribute(sluice_http_text *rest, sluice_http_text *ret_name,
                                         sluice_http_text *ret_value);

/**
 * A parameter of a format: "name=value" in a list with semicolons. Case of the name does not count;
 * the value is without the blanks around it, and may itself hold "=".
 * @return true and its value (empty for a name alone); the first of that name counts
 */
SLUICE_API bool sluice_sdp_parameter(const sluice_sdp_format *format, const char *name, sluice_http_text *ret_value);

/** A parameter that is a decimal number. @return true where there is one, and up to @p most */
SLUICE_API bool sluice_sdp_number(const sluice_sdp_format *format, const char *name, uint32_t most,
                                  uint32_t *ret_number);

/**
 * Decodes one base64 text, such as one of sprop-parameter-sets, which are separated by commas.
 * @param buffer room for @p size bytes
 * @return bytes written; -EPROTO (not base64), -EMSGSIZE (longer than the buffer)
 */
SLUICE_API ssize_t sluice_sdp_decode_base64(sluice_http_text text, uint8_t *buffer, size_t size);

/** Decodes hexadecimal digits, such as AAC's config. @return as sluice_sdp_decode_base64() */
SLUICE_API ssize_t sluice_sdp_decode_hex(sluice_http_text text, uint8_t *buffer, size_t size);

/** Text that is being written into memory of the caller's. The fields are the library's. */
typedef struct sluice_sdp_writer {
    char *buffer;  /**< The caller's. */
    size_t size;   /**< Bytes of it. */
    size_t length; /**< Bytes written. */
    int error;     /**< The first error. */
} sluice_sdp_writer;

/**
 * Begins a description of something live: version, origin, name, connection, time and tool. What
 * goes wrong with this or a later call is said by sluice_sdp_write_end(), once.
 * @param session_id  a number that tells sessions of this host apart
 * @param version     of the description; larger when it has changed
 * @param address     the host's, numeric: "192.0.2.1" or "2001:db8::1"
 * @param name        one line; "-" where there is none
 * @param tool        what makes the description, or NULL
 */
SLUICE_API void sluice_sdp_write_session(sluice_sdp_writer *writer, char *buffer, size_t size, uint64_t session_id,
                                         uint64_t version, const char *address, const char *name, const char *tool);

/**
 * Writes a line "a=name:value" of the session or the last media; the value as by printf(3), or NULL
 * for none.
 */
SLUICE_API void sluice_sdp_write_attribute(sluice_sdp_writer *writer, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/**
 * Begins a media with port 0, protocol RTP/AVP and one format, and writes its rtpmap.
 * @param type     "video", "audio"
 * @param channels written where it is more than 1
 */
SLUICE_API void sluice_sdp_write_media(sluice_sdp_writer *writer, const char *type, uint8_t payload_type,
                                       const char *encoding, uint32_t clock_rate, uint32_t channels);

/**
 * Writes bytes in base64, or as hexadecimal digits, to @p text, with a NUL. @return characters, or
 * -EMSGSIZE
 */
SLUICE_API ssize_t sluice_sdp_encode_base64(const uint8_t *bytes, size_t n, char *text, size_t size);

/** The same as hexadecimal digits. @return characters, or -EMSGSIZE */
SLUICE_API ssize_t sluice_sdp_encode_hex(const uint8_t *bytes, size_t n, char *text, size_t size);

/**
 * Ends the description.
 * @return its bytes, which are not terminated by NUL; -EMSGSIZE (the buffer is too small), -EINVAL
 *         (a control byte, a blank in a name, type, encoding or address, a payload type over 127)
 */
SLUICE_API int sluice_sdp_write_end(sluice_sdp_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
