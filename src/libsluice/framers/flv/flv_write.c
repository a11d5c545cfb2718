#include <sluice/flv.h>

static void put_be(uint8_t *buffer, unsigned n, uint32_t value) {
    for (unsigned i = n; i-- > 0; value >>= 8)
        buffer[i] = (uint8_t)value;
}

void sluice_flv_write_header(uint8_t buffer[SLUICE_FLV_HEADER_SIZE], uint8_t flags) {
    const uint32_t previous_tag_size = 0;
    buffer[0] = 'F';
    buffer[1] = 'L';
    buffer[2] = 'V';
    buffer[3] = 1;
    buffer[4] = flags;
    put_be(buffer + 5, 4, SLUICE_FLV_HEADER_SIZE - SLUICE_FLV_TRAILER_SIZE);
    put_be(buffer + 9, 4, previous_tag_size);
}

void sluice_flv_write_tag_header(uint8_t buffer[SLUICE_FLV_TAG_HEADER_SIZE], sluice_flv_type type, uint32_t size,
                                 uint32_t timestamp) {
    const uint32_t stream_id = 0;
    buffer[0] = (uint8_t)type;
    put_be(buffer + 1, 3, size);
    put_be(buffer + 4, 3, timestamp);
    buffer[7] = (uint8_t)(timestamp >> 24);
    put_be(buffer + 8, 3, stream_id);
}

void sluice_flv_write_trailer(uint8_t buffer[SLUICE_FLV_TRAILER_SIZE], uint32_t size) {
    put_be(buffer, 4, SLUICE_FLV_TAG_HEADER_SIZE + size);
}
