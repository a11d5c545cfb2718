/**
 * @file sdp.h
 * Session descriptions as carried by RTSP: reading in place, and writing.
 *
 * Source: RFC 8866 (SDP); RFC 2326, appendix C, for its use by RTSP; RFC 3551 for the payload types
 * that need no rtpmap. Reading tolerates the common mistakes of cameras; writing is strict.
 *
 * Threads: the calls have no state.
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
    SLUICE_SDP_MAX_SIZE = 65536, /**< Maximum size of a description, bytes. */
    /** Maximum length of a line without its end, bytes: parameter sets are in one line. */
    SLUICE_SDP_MAX_LINE = 8192,
    SLUICE_SDP_MAX_LINES = 1024, /**< Maximum number of lines. */
    SLUICE_SDP_MAX_MEDIA = 16,   /**< Maximum number of media. */
    /** Maximum number of formats kept per media; further ones are skipped. */
    SLUICE_SDP_MAX_FORMATS = 8,
};

/** Direction of the media, as seen by the describing side. */
typedef enum sluice_sdp_direction {
    SLUICE_SDP_SENDRECV, /**< Both ways, the default. */
    SLUICE_SDP_RECVONLY,
    SLUICE_SDP_SENDONLY,
    SLUICE_SDP_INACTIVE,
} sluice_sdp_direction;

/** A format of a media: for RTP, a payload type. */
typedef struct sluice_sdp_format {
    sluice_http_text name; /**< As in the media line: "96". */
    int16_t payload_type;  /**< 0 to 127; -1 if the name is not such a number. */
    /** "H264": from rtpmap or RFC 3551; compare without regard to case. Empty: unknown. */
    sluice_http_text encoding;
    uint32_t clock_rate;   /**< Timestamp units per second; 0: unknown. */
    uint32_t channels;     /**< Audio: default 1. Video: 0. */
    sluice_http_text fmtp; /**< The parameters: see sluice_sdp_parameter(). Empty if missing. */
} sluice_sdp_format;

/** One media description. */
typedef struct sluice_sdp_media {
    sluice_http_text type;     /**< "video", "audio", "application"... */
    uint16_t port;             /**< 0 is common in RTSP. */
    sluice_http_text protocol; /**< "RTP/AVP". */
    /** In the order of preference; each name once. */
    sluice_sdp_format formats[SLUICE_SDP_MAX_FORMATS];
    size_t format_count; /**< At least 1. */
    /** Value of the "c=" line; that of the session if missing. */
    sluice_http_text connection;
    sluice_sdp_direction direction; /**< That of the session if missing. */
    sluice_http_text control;       /**< URL, absolute or relative; empty if missing. */
    sluice_http_text range;         /**< Such as "npt=0-"; that of the session if missing. */
    double frame_rate;              /**< Frames per second; 0 if missing. */
    /** All its lines after the media line: see sluice_sdp_next_attribute(). */
    sluice_http_text lines;
} sluice_sdp_media;

/** A session description. All texts point into the text that was read. */
typedef struct sluice_sdp {
    sluice_http_text origin;        /**< Value of the "o=" line; empty if missing. */
    sluice_http_text name;          /**< Value of the "s=" line; likewise. */
    sluice_http_text information;   /**< Value of the "i=" line; likewise. */
    sluice_http_text connection;    /**< Value of the "c=" line; likewise. */
    sluice_http_text tool;          /**< Software that made it; likewise. */
    sluice_http_text control;       /**< URL to control all media; likewise. */
    sluice_http_text range;         /**< Such as "npt=0-"; likewise. */
    sluice_sdp_direction direction; /**< Default for the media. */
    /** All lines before the first media: see sluice_sdp_next_attribute(). */
    sluice_http_text lines;
    /** In order; several may have the same type. */
    sluice_sdp_media media[SLUICE_SDP_MAX_MEDIA];
    size_t media_count; /**< Number of media; 0 is valid. */
} sluice_sdp;

/**
 * Reads a description in place. Lines may end with CRLF, LF or CR, and the last one without; empty
 * lines and lines of unknown types are skipped. "v=0" must come first, and once. Other lines
 * required by the standard may be missing; if a line that may occur once is repeated, the first is
 * used. Malformed attributes are ignored, as are rtpmap and fmtp of formats that are not in the
 * media line; a malformed media line is an error.
 *
 * @param text    the description; a NUL at its end is removed. All texts of the result point into
 *                it
 * @param ret_sdp about 10 KiB; untouched on failure
 * @return 0, -EPROTO (not a description: no "v=" first, a line without "x=", a malformed media
 *         line, a NUL), -EPROTONOSUPPORT (a version other than 0), -EMSGSIZE (over a limit)
 */
SLUICE_API int sluice_sdp_read(const char *text, size_t length, sluice_sdp *ret_sdp);

/**
 * Returns the next attribute line.
 * @param rest      the @c lines of the session or of a media; updated to the remaining lines
 * @param ret_name  "rtpmap"; case-sensitive
 * @param ret_value text after the colon; empty if there is none
 * @return 1, 0 (there are no more)
 */
SLUICE_API int sluice_sdp_next_attribute(sluice_http_text *rest, sluice_http_text *ret_name,
                                         sluice_http_text *ret_value);

/**
 * Finds a parameter of a format: "name=value" in a list separated by semicolons. The name is
 * compared without regard to case; the value excludes surrounding blanks and may contain "=". If
 * the name occurs several times, the first is used.
 * @return true if found, with its value (empty for a name without a value)
 */
SLUICE_API bool sluice_sdp_parameter(const sluice_sdp_format *format, const char *name, sluice_http_text *ret_value);

/** Reads a parameter that is a decimal number. @return true if it exists and is at most @p most */
SLUICE_API bool sluice_sdp_number(const sluice_sdp_format *format, const char *name, uint32_t most,
                                  uint32_t *ret_number);

/**
 * Decodes one base64 text, such as one element of the comma-separated sprop-parameter-sets.
 * @param buffer room for @p size bytes
 * @return bytes written; -EPROTO (not base64), -EMSGSIZE (longer than the buffer)
 */
SLUICE_API ssize_t sluice_sdp_decode_base64(sluice_http_text text, uint8_t *buffer, size_t size);

/** Decodes hexadecimal digits, such as AAC's config. @return as sluice_sdp_decode_base64() */
SLUICE_API ssize_t sluice_sdp_decode_hex(sluice_http_text text, uint8_t *buffer, size_t size);

/** State of writing a description into the caller's memory. Fields are private to the library. */
typedef struct sluice_sdp_writer {
    char *buffer;  /**< Owned by the caller. */
    size_t size;   /**< Its size, bytes. */
    size_t length; /**< Bytes written. */
    int error;     /**< The first error. */
} sluice_sdp_writer;

/**
 * Starts a description of a live session: version, origin, name, connection, time and tool. Errors
 * of this and later calls are reported by sluice_sdp_write_end().
 * @param session_id unique among the sessions of this host
 * @param version    of the description; increase it with each change
 * @param address    the host's, numeric: "192.0.2.1" or "2001:db8::1"
 * @param name       one line; "-" if there is none
 * @param tool       software that makes the description, or NULL
 */
SLUICE_API void sluice_sdp_write_session(sluice_sdp_writer *writer, char *buffer, size_t size, uint64_t session_id,
                                         uint64_t version, const char *address, const char *name, const char *tool);

/**
 * Writes a line "a=name:value" for the session or the last media; the value is formatted as by
 * printf(3), or NULL for none.
 */
SLUICE_API void sluice_sdp_write_attribute(sluice_sdp_writer *writer, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/**
 * Starts a media with port 0, protocol RTP/AVP and one format, and writes its rtpmap.
 * @param type     "video", "audio"
 * @param channels written if greater than 1
 */
SLUICE_API void sluice_sdp_write_media(sluice_sdp_writer *writer, const char *type, uint8_t payload_type,
                                       const char *encoding, uint32_t clock_rate, uint32_t channels);

/** Writes bytes as base64 text to @p text, NUL-terminated. @return characters, or -EMSGSIZE */
SLUICE_API ssize_t sluice_sdp_encode_base64(const uint8_t *bytes, size_t n, char *text, size_t size);

/** Writes bytes as hexadecimal digits, likewise. @return characters, or -EMSGSIZE */
SLUICE_API ssize_t sluice_sdp_encode_hex(const uint8_t *bytes, size_t n, char *text, size_t size);

/**
 * Ends the description.
 * @return its size in bytes, not NUL-terminated; -EMSGSIZE (the buffer is too small), -EINVAL (a
 *         control character, a blank in a name, type, encoding or address, or a payload type over
 *         127)
 */
SLUICE_API int sluice_sdp_write_end(sluice_sdp_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
