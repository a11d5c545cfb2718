#include "shared/rtmp_peer.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/random.h>

#include "shared/writer_text.h"

static bool find(const sluice_amf_reader *members, const char *name, sluice_amf_value *ret_value) {
    sluice_amf_reader reader = *members;
    return sluice_amf_find(&reader, name, ret_value) > 0;
}

unsigned rtmp_read_capabilities(const sluice_amf_reader *members) {
    static const char *const lists[] = {"fourCcList", "videoFourCcInfoMap", "audioFourCcInfoMap"};
    unsigned capabilities = 0;
    sluice_amf_value value;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        capabilities |= find(members, lists[i], &value) ? RTMP_IS_ENHANCED : 0;
    if (find(members, "capsEx", &value) && value.type == SLUICE_AMF_NUMBER && value.number >= 0 &&
        value.number <= UINT32_MAX)
        capabilities |= ((unsigned)value.number & (RTMP_IS_ENHANCED - 1)) | RTMP_IS_ENHANCED;
    return capabilities;
}

int rtmp_hmac(const void *key, size_t key_size, const struct iovec *pieces, size_t count,
              uint8_t ret_digest[SLUICE_RTMP_DIGEST_SIZE], void *user) {
    char name[] = "SHA256";
    const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
                                     OSSL_PARAM_construct_end()};
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
    uint8_t digest[SLUICE_RTMP_DIGEST_SIZE];
    size_t size = 0;
    (void)user;
    bool done = context && EVP_MAC_init(context, key, key_size, parameters) == 1;
    for (size_t i = 0; i < count && done; i++)
        done = EVP_MAC_update(context, pieces[i].iov_base, pieces[i].iov_len) == 1;
    done = done && EVP_MAC_final(context, digest, &size, sizeof digest) == 1 && size == sizeof digest;
    EVP_MAC_CTX_free(context);
    EVP_MAC_free(hmac);
    if (!done)
        return -EIO;
    memcpy(ret_digest, digest, sizeof digest);
    return 0;
}

/* As many random bytes as asked for. The kernel gives up to 256 at once, and more unless a signal
 * comes. */
static int fill_random(uint8_t *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = getrandom(bytes + done, size - done, 0);
        if (n < 0 && errno != EINTR)
            return -EIO;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int rtmp_handshake_begin(sluice_rtmp_role role, sluice_rtmp_schema schema, sluice_rtmp_handshake **ret_handshake) {
    uint8_t random[SLUICE_RTMP_RANDOM_SIZE];
    const sluice_rtmp_handshake_options options = {
        .size = sizeof options, .random = random, .hmac = rtmp_hmac, .schema = schema};
    int error = fill_random(random, sizeof random);
    return error ? error : sluice_rtmp_handshake_new(role, &options, ret_handshake);
}

int rtmp_handshake_send(sluice_rtmp_handshake *handshake, sluice_writer *writer) {
    const uint8_t *bytes;
    size_t size = sluice_rtmp_handshake_output(handshake, &bytes);
    int error = size > 0 ? writer_text(writer, (const char *)bytes, size) : 0;
    if (!error && size > 0)
        sluice_rtmp_handshake_sent(handshake, size);
    return error;
}

int rtmp_send_control(sluice_writer *writer, const sluice_rtmp_control *control) {
    uint8_t bytes[SLUICE_RTMP_CONTROL_SIZE];
    int size = sluice_rtmp_write_control(bytes, control);
    return size < 0 ? size : sluice_writer_copy(writer, bytes, (size_t)size);
}

static void begin(struct rtmp_command *command, uint8_t type, const char *name) {
    command->type = type;
    sluice_amf_write_begin(&command->values, command->bytes, sizeof command->bytes, SLUICE_AMF0);
    sluice_amf_write_string(&command->values, name);
}

void rtmp_command_begin(struct rtmp_command *command, const char *name, double transaction) {
    begin(command, SLUICE_RTMP_COMMAND, name);
    sluice_amf_write_number(&command->values, transaction);
}

void rtmp_data_begin(struct rtmp_command *command, const char *name) {
    begin(command, SLUICE_RTMP_DATA, name);
}

void rtmp_command_text(struct rtmp_command *command, const char *name, const char *text) {
    sluice_amf_write_name(&command->values, name);
    sluice_amf_write_string(&command->values, text);
}

void rtmp_command_number(struct rtmp_command *command, const char *name, double number) {
    sluice_amf_write_name(&command->values, name);
    sluice_amf_write_number(&command->values, number);
}

/* Header and range of each chunk. The writer has room for all of them. */
static int queue(const struct rtmp_command *command, sluice_rtmp_chunking *chunking, sluice_writer *writer) {
    sluice_rtmp_chunk chunk;
    int error = 0;
    while (!error && sluice_rtmp_chunk_next(chunking, &chunk) > 0) {
        error = sluice_writer_copy(writer, chunk.header, chunk.header_size);
        if (!error)
            error = writer_text(writer, (const char *)command->bytes + chunk.offset, chunk.length);
    }
    return error;
}

int rtmp_command_send(struct rtmp_command *command, uint32_t stream, uint32_t chunk_size, sluice_writer *writer) {
    size_t size;
    sluice_rtmp_chunking chunking;
    int error = sluice_amf_write_end(&command->values, &size);
    if (!error) {
        const sluice_rtmp_message message = {.type = command->type,
                                             .chunk_stream = stream ? RTMP_STREAM_CHANNEL : RTMP_COMMAND_CHANNEL,
                                             .stream = stream,
                                             .size = (uint32_t)size};
        error = sluice_rtmp_chunk_begin(&chunking, &message, chunk_size);
    }
    /* No chunk is left behind half sent: all of them fit, or none is queued. */
    if (!error && sluice_writer_room(writer) < size + SLUICE_RTMP_MAX_HEADER * (size / chunk_size + 1))
        error = -EAGAIN;
    if (!error)
        error = queue(command, &chunking, writer);
    explicit_bzero(command->bytes, sizeof command->bytes);
    return error;
}
