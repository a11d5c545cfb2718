/**
 * @file amf.h
 * AMF 0 and AMF 3: the values in the commands and data messages of RTMP and in FLV script tags.
 *
 * Sources: Adobe's "Action Message Format - AMF 0" (2007) and "AMF 3" (2013).
 *
 * A payload is not made into a tree: a reader goes over its values in their order, and their text
 * is borrowed from the payload's blocks. Nothing is allocated, nothing recurses, and what a peer
 * announces is checked before it is used. A writer encodes into the caller's memory.
 *
 * Threads: any, one at a time for each reader, while the payload's bytes are held.
 */
#ifndef SLUICE_AMF_H
#define SLUICE_AMF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SLUICE_AMF_DEFAULT_BYTES = 64 << 10, /**< Longest payload unless set otherwise, bytes. */
    SLUICE_AMF_DEFAULT_VALUES = 4096,    /**< Most values of a payload unless set otherwise. */
    SLUICE_AMF_MAX_DEPTH = 16,           /**< Most containers inside each other. */
    /** AMF 3: strings of a payload that later ones may refer to, from the first on. */
    SLUICE_AMF_MAX_STRINGS = 64,
    SLUICE_AMF_MAX_TRAITS = 16, /**< AMF 3: the same for descriptions of classes. */
};

/** Encodings. */
typedef enum sluice_amf_version {
    SLUICE_AMF0 = 0, /**< May contain single values in AMF 3. */
    SLUICE_AMF3 = 3,
} sluice_amf_version;

/** Types of values. Containers are followed by their members. */
typedef enum sluice_amf_type {
    SLUICE_AMF_NUMBER = 1,  /**< A double. */
    SLUICE_AMF_INTEGER,     /**< AMF 3: 29 bits, signed. */
    SLUICE_AMF_BOOLEAN,     /**< True or false. */
    SLUICE_AMF_STRING,      /**< UTF-8 as the peer claims; not checked. */
    SLUICE_AMF_NULL,        /**< Null. */
    SLUICE_AMF_UNDEFINED,   /**< Undefined. */
    SLUICE_AMF_UNSUPPORTED, /**< A value that the peer could not encode. */
    SLUICE_AMF_REFERENCE,   /**< The same as an earlier container; not resolved. */
    SLUICE_AMF_DATE,        /**< Milliseconds since 1970, UTC. */
    SLUICE_AMF_XML,         /**< A document as text. */
    SLUICE_AMF_BYTES,       /**< AMF 3: a byte array. */
    SLUICE_AMF_INTS,        /**< AMF 3: a vector of 32-bit integers, big endian, as bytes. */
    SLUICE_AMF_UINTS,       /**< AMF 3: the same, unsigned. */
    SLUICE_AMF_DOUBLES,     /**< AMF 3: a vector of doubles, big endian, as bytes. */
    SLUICE_AMF_OBJECT,      /**< Container: members with names; perhaps of a class. */
    SLUICE_AMF_ECMA_ARRAY,  /**< AMF 0 container: members with names. */
    /** Container: @c count members without names; in AMF 3 behind any number with names. */
    SLUICE_AMF_ARRAY,
    SLUICE_AMF_VECTOR, /**< AMF 3 container: @c count members without names, of a class. */
    /** AMF 3 container: @c count members without names, keys and values by turns. */
    SLUICE_AMF_DICTIONARY,
} sluice_amf_type;

/** One value. The fields that its type does not mention are 0. All slices are borrowed. */
typedef struct sluice_amf_value {
    sluice_amf_type type; /**< Says which of the fields below count. */
    bool boolean;         /**< BOOLEAN. */
    uint8_t depth;        /**< Containers around it. */
    int32_t integer;      /**< INTEGER. */
    /**
     * ARRAY, VECTOR, DICTIONARY: members without names, never more than the payload has bytes.
     * INTS, UINTS, DOUBLES: elements. ECMA_ARRAY: the number that the peer wrote; it means nothing.
     */
    uint32_t count;
    uint32_t reference; /**< REFERENCE: which container, counted by the peer. */
    double number;      /**< NUMBER, DATE; INTEGER: the same number. */
    sluice_slice name;  /**< The member's name, where it has one. Borrowed. */
    /**
     * STRING, XML, BYTES, INTS, UINTS, DOUBLES: the contents. OBJECT, VECTOR: the class, perhaps
     * empty. Borrowed: valid while the payload is held, never to be released;
     * sluice_slice_ref() makes a slice that may be kept.
     */
    sluice_slice text;
} sluice_amf_value;

/** What a reader accepts. Zero in any field means its default. */
typedef struct sluice_amf_limits {
    size_t size;     /**< sizeof(sluice_amf_limits). */
    uint32_t bytes;  /**< Longest payload. Default SLUICE_AMF_DEFAULT_BYTES. */
    uint32_t values; /**< Most values, with containers. Default SLUICE_AMF_DEFAULT_VALUES. */
    /** Most containers inside each other: up to SLUICE_AMF_MAX_DEPTH, the default. */
    uint32_t depth;
} sluice_amf_limits;

/** A container that is being read. The fields are the library's. */
typedef struct sluice_amf_level {
    uint8_t kind;      /**< Form of its members. */
    uint8_t dynamic;   /**< AMF 3: named members follow those of the class. */
    uint32_t left;     /**< Members still to come, where they are counted. */
    uint32_t names_at; /**< AMF 3: place of the next member's name. */
} sluice_amf_level;

/** A string that may be referred to. The fields are the library's. */
typedef struct sluice_amf_string {
    uint32_t at;     /**< Place in the payload. */
    uint32_t length; /**< Bytes. */
} sluice_amf_string;

/** The description of a class, which may be referred to. The fields are the library's. */
typedef struct sluice_amf_traits {
    sluice_amf_string name; /**< The class. */
    uint32_t names_at;      /**< Place of the first member's name. */
    uint32_t count;         /**< Members. */
    uint8_t dynamic;        /**< Further members with names follow. */
} sluice_amf_traits;

/**
 * A place among the values of a payload; a value without resources, which may be copied to go over
 * the same values again. The fields are the library's.
 */
typedef struct sluice_amf_reader {
    sluice_slice bytes; /**< The payload, borrowed. */
    sluice_slice rest;  /**< What has not been read. */
    int error;          /**< What every further call returns. */
    uint8_t version;    /**< Encoding. */
    uint8_t height;     /**< Containers that are open. */
    uint8_t depth;      /**< Most of them. */
    bool entered;       /**< The last value was a container. */
    uint32_t values;    /**< Values that may still come. */
    uint32_t strings;   /**< AMF 3: strings seen. */
    uint32_t classes;   /**< AMF 3: traits seen. */
    uint32_t objects;   /**< AMF 3: values seen that can be referred to. */

    sluice_amf_level levels[SLUICE_AMF_MAX_DEPTH];   /**< The open containers. */
    sluice_amf_string known[SLUICE_AMF_MAX_STRINGS]; /**< The first strings. */
    sluice_amf_traits traits[SLUICE_AMF_MAX_TRAITS]; /**< The first traits. */
} sluice_amf_reader;

/**
 * Begins to read a payload, which the caller holds for as long as the reader and its values are
 * used.
 * @param limits what to accept, or NULL for the defaults
 * @return 0, -EINVAL (a limit out of range, no such version), -EMSGSIZE (the payload is too long);
 *         on failure the reader cannot be used
 */
SLUICE_API int sluice_amf_read(sluice_amf_reader *reader, const sluice_slice *payload, sluice_amf_version version,
                               const sluice_amf_limits *limits);

/**
 * The next value. A container is followed by its members, theirs before the next one; each value
 * says how many containers are around it. The members of the last container may be passed over by
 * sluice_amf_skip().
 * @param ret_value untouched unless 1 is returned
 * @return 1 (a value), 0 (the payload's end), or for good: -EPROTO (malformed, or it ends within a
 *         value), -EMSGSIZE (too many values or containers; a reference to a string or to traits
 *         behind the first SLUICE_AMF_MAX_...), -EOPNOTSUPP (a type whose length only its class
 *         knows, or a reserved one)
 */
SLUICE_API int sluice_amf_next(sluice_amf_reader *reader, sluice_amf_value *ret_value);

/**
 * Passes over the members of the container that the reader gave last, and all that is in them;
 * otherwise does nothing. @return 0, or the errors of sluice_amf_next()
 */
SLUICE_API int sluice_amf_skip(sluice_amf_reader *reader);

/**
 * Looks for a member by its name, among those of the container that the reader gave last. If it is
 * found, the reader is behind it, and its own members, if it is a container, are next. Copy the
 * reader before, to look for several.
 * @param ret_value the first member of that name; untouched unless 1 is returned
 * @return 1, 0 (there is none; the reader has not moved), or the errors of sluice_amf_next(), where
 *         the payload is malformed before the member; the reader has not moved
 */
SLUICE_API int sluice_amf_find(sluice_amf_reader *reader, const char *name, sluice_amf_value *ret_value);

/** Whether a name or a text is @p text, byte for byte. */
SLUICE_API bool sluice_amf_equals(const sluice_slice *slice, const char *text);

/**
 * Writes a name or a text into the caller's memory, with a NUL behind it. It does not count as
 * copied payload.
 * @param size bytes of @p buffer, above 0
 * @return length without the NUL; -EMSGSIZE (it does not fit), -EILSEQ (it contains a NUL); on
 *         failure the buffer holds an empty text
 */
SLUICE_API int sluice_amf_get_text(const sluice_slice *slice, char *buffer, size_t size);

/**
 * Writes values one after another into the caller's memory. An error stays until
 * sluice_amf_write_end() returns it; further calls then write nothing. The fields are the
 * library's.
 */
typedef struct sluice_amf_writer {
    uint8_t *begin;  /**< The caller's memory. */
    size_t size;     /**< Of that, bytes. */
    size_t used;     /**< Bytes written. */
    uint32_t open;   /**< Containers that need an end. */
    uint8_t version; /**< Encoding. */
    int error;       /**< The first error. */
} sluice_amf_writer;

/** Begins to write. The memory is the caller's, and stays in use until sluice_amf_write_end(). */
SLUICE_API void sluice_amf_write_begin(sluice_amf_writer *writer, void *buffer, size_t size,
                                       sluice_amf_version version);

/** Writes a number, as a double. */
SLUICE_API void sluice_amf_write_number(sluice_amf_writer *writer, double number);

/** Writes true or false. */
SLUICE_API void sluice_amf_write_boolean(sluice_amf_writer *writer, bool boolean);

/** Writes a string ended by NUL. */
SLUICE_API void sluice_amf_write_string(sluice_amf_writer *writer, const char *text);

/** Writes a string of @p length bytes; of over 65,535 bytes, a long string. */
SLUICE_API void sluice_amf_write_text(sluice_amf_writer *writer, const char *text, size_t length);

/** Writes null. */
SLUICE_API void sluice_amf_write_null(sluice_amf_writer *writer);

/** Writes undefined. */
SLUICE_API void sluice_amf_write_undefined(sluice_amf_writer *writer);

/** Writes a date. @param milliseconds since 1970, UTC */
SLUICE_API void sluice_amf_write_date(sluice_amf_writer *writer, double milliseconds);

/**
 * Begins an object without a class. Each member is a sluice_amf_write_name() and a value; then
 * sluice_amf_write_object_end().
 */
SLUICE_API void sluice_amf_write_object(sluice_amf_writer *writer);

/**
 * Begins an array with names (AMF 0: an ECMA array). Members and end as of an object.
 * @param count members; readers do not rely on it
 */
SLUICE_API void sluice_amf_write_ecma_array(sluice_amf_writer *writer, uint32_t count);

/** Begins an array without names: @p count values follow, and no end. */
SLUICE_API void sluice_amf_write_array(sluice_amf_writer *writer, uint32_t count);

/** Writes a member's name, not empty and of at most 65,535 bytes; else -EINVAL. */
SLUICE_API void sluice_amf_write_name(sluice_amf_writer *writer, const char *name);

/** Ends the object or the array with names that was begun last; without one, -EINVAL. */
SLUICE_API void sluice_amf_write_object_end(sluice_amf_writer *writer);

/**
 * Ends the writing.
 * @param ret_length bytes written; untouched on failure
 * @return 0, -EMSGSIZE (the memory is too small, or a string too long for the encoding), -EINVAL
 *         (a name that cannot be, an object that has no end or an end without an object)
 */
SLUICE_API int sluice_amf_write_end(const sluice_amf_writer *writer, size_t *ret_length);

#ifdef __cplusplus
}
#endif

#endif
