#include "daemon/relay/video_size.h"

#include <sluice/codec.h>

#include "daemon/relay/stream.h"

void video_size_of_header(const sluice_slice *payload, uint32_t codec, size_t offset, double *ret_width,
                          double *ret_height) {
    sluice_codec_config config;
    bool known = sluice_codec_read_record(&config, codec, payload, offset) == 0 && config.width && config.height;
    *ret_width = known ? config.width : 0;
    *ret_height = known ? config.height : 0;
}

void video_size(const struct stream *stream, double *ret_width, double *ret_height) {
    const struct packet *header = stream_headers_get(&stream->headers, PACKET_VIDEO_HEADER, stream->video.main);
    *ret_width = stream->metadata.width;
    *ret_height = stream->metadata.height;
    if ((*ret_width > 0 && *ret_height > 0) || !header)
        return;
    double width, height;
    sluice_flv_view view = packet_view(header);
    video_size_of_header(&header->payload, view.codec, view.header_size, &width, &height);
    if (width > 0) {
        *ret_width = width;
        *ret_height = height;
    }
}
