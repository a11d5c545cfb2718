#include "receive/tag.h"

#include <stdlib.h>
#include <string.h>

#include "common/checksum.h"
#include "common/process.h"

enum { MOST_PAYLOAD = 8 << 20, NOT_TYPE = 0xE0, AUDIO = 8, VIDEO = 9, SCRIPT = 18 };

void tag_check_file_header(const uint8_t header[TAG_FILE_HEADER]) {
    if (memcmp(header, "FLV\1", 4) != 0)
        fail(EXIT_FAILURE, "a stream that is not FLV");
}

uint32_t tag_payload_size(const uint8_t header[TAG_HEADER]) {
    uint32_t size = (uint32_t)header[1] << 16 | (uint32_t)header[2] << 8 | header[3];
    uint8_t type = header[0];
    if (type & NOT_TYPE || (type != VIDEO && type != AUDIO && type != SCRIPT) || size < CHECKSUM_BYTES ||
        size > MOST_PAYLOAD)
        fail(EXIT_FAILURE, "a tag of type %u with %u bytes", type, size);
    return size;
}
