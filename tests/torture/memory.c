/* Memory, reader and framers: what knows no descriptors. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/bytes.h>
#include <sluice/flv.h>
#include <sluice/flv_rtp.h>
#include <sluice/headers.h>
#include <sluice/http.h>
#include <sluice/reader.h>
#include <sluice/resp.h>
#include <sluice/rtmp.h>
#include <sluice/rtp_flv.h>
#include <sluice/rtsp.h>
#include <sluice/websocket.h>

#include "torture/scenario.h"

/* A pool and two chains. */
typedef struct store {
    sluice_pool *pool;
    sluice_chain *chain, *other;
} store;

static int store_open(store *s) {
    *s = (store){0};
    int error = torture_pool(&s->pool);
    if (!error)
        error = sluice_chain_new(s->pool, &s->chain);
    return error ? error : sluice_chain_new(s->pool, &s->other);
}

static int store_close(store *s, int error) {
    sluice_chain_free(s->chain);
    sluice_chain_free(s->other);
    torture_pool_done(s->pool);
    return error;
}

/* ---- Chains and slices ---- */

static int cut(torture *t, store *s) {
    static const char text[] = "what stands in memory of the user's";
    uint8_t bytes[3000];
    sluice_slice slice = {0}, part = {0}, kept = {0};
    memset(bytes, 'x', sizeof bytes);
    int error = torture_feed(s->pool, s->chain, bytes, sizeof bytes, 300);
    if (!error)
        error = sluice_chain_append_memory(s->chain, text, sizeof text, NULL, NULL);
    if (!error)
        error = sluice_chain_take(s->chain, 1000, &slice);
    if (!error)
        error = sluice_slice_sub(&slice, 100, 700, &part);
    if (!error)
        error = sluice_slice_take(&slice, &kept);
    if (!error)
        error = sluice_chain_append_slice(s->other, &part);
    if (!error)
        error = sluice_chain_move(s->chain, 1234, s->other);
    if (!error) {
        torture_show_slice(t, &kept);
        size_t length = sluice_chain_length(s->other);
        sluice_slice_release(&slice);
        error = sluice_chain_take(s->other, length, &slice);
        torture_show_slice(t, &slice);
    }
    sluice_slice_release(&slice);
    sluice_slice_release(&part);
    sluice_slice_release(&kept);
    return error;
}

static int chains(torture *t) {
    store s;
    int error = store_open(&s);
    return store_close(&s, error ? error : cut(t, &s));
}

/* Blocks of another size take the memory that the first one has left. */
static int classes(torture *t) {
    sluice_block *blocks[64] = {0};
    sluice_pool *pool = NULL, *large;
    int error = torture_pool(&pool);
    if (!error)
        error = sluice_pool_class(pool, 4096, &large);
    for (size_t i = 0; i < 64 && !error; i++)
        error = sluice_block_get(i % 2 ? large : pool, &blocks[i]);
    torture_show(t, &error, sizeof error);
    for (size_t i = 0; i < 64; i++)
        if (blocks[i])
            sluice_block_release(blocks[i]);
    torture_pool_done(pool);
    return error;
}

/* ---- Reader ---- */

static int read_calls(torture *t, sluice_reader *reader, sluice_headers *headers, sluice_bytes *line) {
    uint64_t number = 0;
    char scratch[700];
    const char *text;
    const uint8_t *view;
    size_t length;
    sluice_slice slice = {0};
    int error = sluice_reader_be(reader, 4, &number);
    if (!error)
        error = sluice_reader_mark(reader, 2000);
    if (!error)
        error = sluice_reader_peek(reader, 600, scratch, &view);
    if (!error)
        error = sluice_reader_rewind(reader);
    if (!error)
        error = sluice_reader_line_bytes(reader, line, &text, &length);
    if (!error) {
        torture_show(t, text, length);
        error = sluice_headers_read(headers, reader);
    }
    if (!error) {
        const sluice_header *header = sluice_headers_find(headers, "cseq");
        torture_show(t, header->value, header->value_length);
        error = sluice_reader_slice(reader, 900, &slice);
    }
    torture_show_slice(t, &slice);
    torture_show(t, &number, sizeof number);
    sluice_slice_release(&slice);
    return error;
}

static int reader(torture *t) {
    static const char head[] = "\nCSeq: 12\r\nUser-Agent: one that is torn apart\r\n\r\n";
    char text[2000];
    store s;
    sluice_reader *r = NULL;
    sluice_headers *headers = NULL;
    sluice_bytes line;
    sluice_bytes_init(&line, 1000);
    memset(text, 'l', sizeof text);
    memcpy(text + 600, head, sizeof head - 1);
    int error = store_open(&s);
    if (!error)
        error = sluice_reader_new(s.chain, &r);
    if (!error)
        error = sluice_headers_new(NULL, &headers);
    if (!error)
        error = torture_feed(s.pool, s.chain, text, sizeof text, 7);
    if (!error)
        error = read_calls(t, r, headers, &line);
    sluice_bytes_free(&line);
    sluice_headers_free(headers);
    sluice_reader_free(r);
    return store_close(&s, error);
}

/* ---- Framers ---- */

/* What a connection brings, and a framer that reads it. Frames are shown; the framer is made and
 * freed. */
typedef int frames_fn(torture *t, store *s);

static int through_framer(torture *t, const void *bytes, size_t n, size_t piece, frames_fn *frames) {
    store s;
    int error = store_open(&s);
    if (!error)
        error = torture_feed(s.pool, s.chain, bytes, n, piece);
    return store_close(&s, error ? error : frames(t, &s));
}

static const char http_text[] =
    "POST /live/a.flv HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\nX-Long: "
    "abcdefghijklmnopqrstuvwxyz\r\n"
    "\r\n5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nTrailer: x\r\n\r\nGET /live/a.flv HTTP/1.1\r\nHost: a.example\r\n\r\n";

static int http_frames(torture *t, store *s) {
    sluice_http *http = NULL;
    sluice_http_request request;
    sluice_slice body = {0};
    int result = sluice_http_new(&http);
    if (!result)
        result = sluice_http_next(http, s->chain, &request);
    if (result == 1) {
        sluice_http_body reading;
        torture_show(t, request.target.text, request.target.length);
        sluice_http_body_begin(&reading, &request, false);
        result = sluice_http_body_next(&reading, s->chain, s->other);
    }
    if (result == 1)
        result = sluice_chain_take(s->other, sluice_chain_length(s->other), &body);
    if (result == 0) {
        torture_show_slice(t, &body);
        result = http ? sluice_http_next(http, s->chain, &request) : -EPROTO;
    }
    if (result == 1)
        torture_show(t, request.method.text, request.method.length);
    sluice_slice_release(&body);
    sluice_http_free(http);
    return result == 1 ? 0 : result == 0 ? -EPROTO : result;
}

static int http(torture *t) {
    return through_framer(t, http_text, sizeof http_text - 1, 11, http_frames);
}

static const char rtsp_text[] =
    "ANNOUNCE rtsp://h/live/a RTSP/1.0\r\nCSeq: 1\r\nContent-Type: application/sdp\r\nContent-Length: 40\r\n\r\n"
    "0123456789012345678901234567890123456789$\0\0\x0a"
    "abcdefghij"
    "SETUP rtsp://h/live/a/trackID=0 RTSP/1.0\r\nCSeq: 2\r\nTransport: RTP/AVP/TCP;interleaved=0-1\r\n\r\n";

static int rtsp_frames(torture *t, store *s) {
    const sluice_rtsp_options options = {.size = sizeof options};
    sluice_rtsp *rtsp = NULL;
    sluice_rtsp_message *message;
    int result = sluice_rtsp_new(&options, &rtsp), count = 0;
    while (result >= 0 && (result = sluice_rtsp_next(rtsp, s->chain, &message)) == 1) {
        count++;
        torture_show(t, &message->header_count, sizeof message->header_count);
        torture_show_slice(t, &message->payload);
    }
    sluice_rtsp_free(rtsp);
    return result < 0 ? result : count == 3 ? 0 : -EPROTO;
}

static int rtsp(torture *t) {
    return through_framer(t, rtsp_text, sizeof rtsp_text - 1, 13, rtsp_frames);
}

/* Deep and wide, so that what the framer keeps has to grow. */
static const char resp_text[] =
    "*2\r\n*3\r\n:1\r\n$5\r\nhello\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
    "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n+deep\r\n%1\r\n+k\r\n_\r\n"
    ">2\r\n+message\r\n+x\r\n-ERR no\r\n";

static int resp_frames(torture *t, store *s) {
    sluice_resp *resp = NULL;
    sluice_resp_reply *reply;
    sluice_slice kept = {0};
    int result = sluice_resp_new(NULL, &resp), count = 0;
    while (result >= 0 && (result = sluice_resp_next(resp, s->chain, &reply)) == 1) {
        count++;
        torture_show_slice(t, &reply->bytes);
        if (count == 1)
            result = sluice_slice_take(&reply->bytes, &kept);
    }
    torture_show_slice(t, &kept);
    sluice_slice_release(&kept);
    sluice_resp_free(resp);
    return result < 0 ? result : count == 3 ? 0 : -EPROTO;
}

static int resp(torture *t) {
    return through_framer(t, resp_text, sizeof resp_text - 1, 9, resp_frames);
}

static int websocket_frames(torture *t, store *s) {
    sluice_websocket *websocket = NULL;
    sluice_websocket_message *message;
    int result = sluice_websocket_new(SLUICE_WEBSOCKET_SERVER, NULL, &websocket), count = 0;
    while (result >= 0 && (result = sluice_websocket_next(websocket, s->chain, &message)) == 1) {
        count++;
        torture_show_slice(t, &message->payload);
    }
    sluice_websocket_free(websocket);
    return result < 0 ? result : count == 3 ? 0 : -EPROTO;
}

/* A message in three frames, a ping between them, and another message. */
static int websocket(torture *t) {
    static const uint8_t mask[4] = {1, 2, 3, 4};
    static const struct {
        sluice_websocket_opcode opcode;
        bool last;
        uint32_t length;
    } frames[] = {{SLUICE_WEBSOCKET_TEXT, false, 300},
                  {SLUICE_WEBSOCKET_CONTINUATION, false, 20},
                  {SLUICE_WEBSOCKET_PING, true, 10},
                  {SLUICE_WEBSOCKET_CONTINUATION, true, 5},
                  {SLUICE_WEBSOCKET_BINARY, true, 700}};
    uint8_t bytes[2000];
    size_t n = 0;
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        n += (size_t)sluice_websocket_write_header(bytes + n, frames[i].opcode, frames[i].last, frames[i].length, mask);
        memset(bytes + n, 'a', frames[i].length);
        sluice_websocket_mask(bytes + n, frames[i].length, mask, 0);
        n += frames[i].length;
    }
    return through_framer(t, bytes, n, 40, websocket_frames);
}

/* One end of a handshake sends what it has to send to the other. */
static int shake(torture *t, store *s, sluice_rtmp_handshake *from, sluice_rtmp_handshake *to) {
    const uint8_t *bytes;
    const size_t n = sluice_rtmp_handshake_output(from, &bytes);
    int error = torture_feed(s->pool, s->chain, bytes, n, 700);
    sluice_rtmp_handshake_sent(from, n);
    const int result = error ? error : sluice_rtmp_handshake_next(to, s->chain);
    torture_show(t, &result, sizeof result);
    return result;
}

static int rtmp_handshake(torture *t, store *s) {
    static const uint8_t random[SLUICE_RTMP_RANDOM_SIZE];
    const sluice_rtmp_handshake_options options = {.size = sizeof options, .random = random};
    sluice_rtmp_handshake *client = NULL, *server = NULL;
    int result = sluice_rtmp_handshake_new(SLUICE_RTMP_CLIENT, &options, &client);
    if (!result)
        result = sluice_rtmp_handshake_new(SLUICE_RTMP_SERVER, &options, &server);
    if (!result)
        result = shake(t, s, client, server);
    if (result >= 0)
        result = shake(t, s, server, client);
    if (result >= 0)
        result = shake(t, s, client, server);
    sluice_rtmp_handshake_free(client);
    sluice_rtmp_handshake_free(server);
    return result < 0 ? result : result == 1 ? 0 : -EPROTO;
}

/* Messages on many chunk streams, in chunks of that size: what the framer keeps has to grow. */
static int feed_messages(store *s, uint32_t chunk_size, uint32_t first, uint32_t count) {
    int error = 0;
    for (uint32_t i = 0; i < count && !error; i++) {
        const sluice_rtmp_message message = {.type = i % 2 ? SLUICE_RTMP_AUDIO : SLUICE_RTMP_VIDEO,
                                             .chunk_stream = first + 70 * i,
                                             .stream = 1,
                                             .timestamp = i << 24,
                                             .size = 300 + 400 * i};
        sluice_rtmp_chunking chunking;
        sluice_rtmp_chunk chunk;
        error = sluice_rtmp_chunk_begin(&chunking, &message, chunk_size);
        while (!error && sluice_rtmp_chunk_next(&chunking, &chunk) == 1) {
            uint8_t bytes[SLUICE_RTMP_MAX_HEADER + SLUICE_RTMP_DEFAULT_CHUNK] = {0};
            memcpy(bytes, chunk.header, chunk.header_size);
            error = torture_feed(s->pool, s->chain, bytes, chunk.header_size + chunk.length, 50);
        }
    }
    return error;
}

static int rtmp(torture *t) {
    const sluice_rtmp_limits limits = {.size = sizeof limits, .pieces = 20};
    store s;
    sluice_rtmp *rtmp = NULL;
    sluice_rtmp_message *message;
    sluice_slice kept = {0};
    int result = store_open(&s), count = 0;
    if (!result)
        result = rtmp_handshake(t, &s);
    if (!result)
        result = sluice_rtmp_new(&limits, &rtmp);
    if (!result)
        result = feed_messages(&s, SLUICE_RTMP_DEFAULT_CHUNK, 3, 12);
    while (result >= 0 && (result = sluice_rtmp_next(rtmp, s.chain, &message)) > 0) {
        if (result == 2)
            continue;
        count++;
        torture_show(t, &message->timestamp, sizeof message->timestamp);
        torture_show_slice(t, &message->payload);
        if (count == 1)
            result = sluice_slice_take(&message->payload, &kept);
    }
    torture_show_slice(t, &kept);
    sluice_slice_release(&kept);
    sluice_rtmp_free(rtmp);
    return store_close(&s, result < 0 ? result : count == 12 ? 0 : -EPROTO);
}

/* ---- FLV to RTP and back ---- */

typedef struct relay {
    store s;
    sluice_flv *flv;
    sluice_flv_rtp *tracks[2];
    sluice_rtp_flv *back;
    int numbers[2];
} relay;

static int relay_open(relay *r, const void *bytes, size_t n) {
    static const sluice_flv_rtp_options options[2] = {
        {.size = sizeof(sluice_flv_rtp_options), .type = SLUICE_FLV_VIDEO, .payload_type = 96, .max_packet = 200},
        {.size = sizeof(sluice_flv_rtp_options), .type = SLUICE_FLV_AUDIO, .payload_type = 97}};
    *r = (relay){.numbers = {-1, -1}};
    int error = store_open(&r->s);
    if (!error)
        error = torture_feed(r->s.pool, r->s.chain, bytes, n, 512);
    if (!error)
        error = sluice_flv_new(0, &r->flv);
    for (int i = 0; i < 2 && !error; i++)
        error = sluice_flv_rtp_new(&options[i], &r->tracks[i]);
    return error ? error : sluice_rtp_flv_new(r->s.pool, &r->back);
}

static int take_back(torture *t, relay *r) {
    sluice_flv_tag *tag;
    int result;
    while ((result = sluice_rtp_flv_next(r->back, &tag)) == 1)
        torture_show_slice(t, &tag->payload);
    return result;
}

/* A packet in one piece of the pool's, as it would come over a connection. */
static int send_back(torture *t, relay *r, unsigned track, const sluice_flv_rtp_packet *packet) {
    sluice_slice whole = {0};
    int error = torture_feed(r->s.pool, r->s.other, packet->header, packet->header_size, 512);
    if (!error)
        error = sluice_chain_append_slice(r->s.other, &packet->slice);
    if (!error)
        error = sluice_chain_take(r->s.other, sluice_chain_length(r->s.other), &whole);
    if (!error)
        error = sluice_rtp_flv_push(r->back, track, &whole, 0);
    sluice_slice_release(&whole);
    return error ? error : take_back(t, r);
}

/* Both tracks are added when both are known, as SDP would tell them. */
static int add_tracks(relay *r) {
    for (int i = 0; i < 2; i++)
        if (!sluice_flv_rtp_config(r->tracks[i]))
            return 0;
    for (int i = 0; i < 2; i++) {
        r->numbers[i] = sluice_rtp_flv_add(r->back, sluice_flv_rtp_config(r->tracks[i]), NULL, SLUICE_RTP_FLV_ANY);
        if (r->numbers[i] < 0)
            return r->numbers[i];
    }
    return 0;
}

static int relay_tag(torture *t, relay *r, const sluice_flv_tag *tag) {
    sluice_flv_rtp_packet packet;
    for (unsigned i = 0; i < 2; i++) {
        int result = sluice_flv_rtp_push(r->tracks[i], tag->type, tag->timestamp, &tag->payload);
        while (!result && (result = sluice_flv_rtp_next(r->tracks[i], &packet)) == 1)
            result = r->numbers[i] < 0 ? 0 : send_back(t, r, (unsigned)r->numbers[i], &packet);
        if (result < 0)
            return result;
    }
    return r->numbers[1] < 0 ? add_tracks(r) : 0;
}

static int conversions(torture *t) {
    size_t size;
    uint8_t *bytes = torture_read_file(SLUICE_TEST_VECTORS "/flv-h264-aac.flv", &size);
    relay r;
    sluice_flv_tag *tag;
    int result = relay_open(&r, bytes, size < 40000 ? size : 40000);
    while (result >= 0 && (result = sluice_flv_next(r.flv, r.s.chain, &tag)) == 1)
        result = relay_tag(t, &r, tag);
    if (result == 0) {
        sluice_rtp_flv_flush(r.back);
        result = take_back(t, &r);
    }
    sluice_rtp_flv_free(r.back);
    for (int i = 0; i < 2; i++)
        sluice_flv_rtp_free(r.tracks[i]);
    sluice_flv_free(r.flv);
    free(bytes);
    return store_close(&r.s, result);
}

const scenario scenarios_of_memory[] = {
    {"chains", chains, false},       {"classes", classes, false},
    {"reader", reader, false},       {"http", http, false},
    {"rtsp", rtsp, false},           {"resp", resp, false},
    {"websocket", websocket, false}, {"flv", conversions, false},
    {"rtmp", rtmp, false},           {NULL, NULL, false},
};
