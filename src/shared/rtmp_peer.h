/*
 * What both ends of RTMP need besides the library: a handshake with cryptography and random bytes,
 * and messages of the control channel for a writer. No sockets. The loop's thread only.
 *
 * A message is queued whole or not at all; only after -ENOMEM a part of it may have been queued,
 * and the connection has to end. Its size is bounded by RTMP_COMMAND_MAX, and what waits in the
 * writer by the writer's limit.
 */
#ifndef SHARED_RTMP_PEER_H
#define SHARED_RTMP_PEER_H

#include <stdint.h>

#include <sluice/amf.h>
#include <sluice/rtmp.h>
#include <sluice/writer.h>

enum {
    RTMP_COMMAND_MAX = 4096,  /* bytes of a command or of data that rtmp_command_... write */
    RTMP_COMMAND_CHANNEL = 3, /* chunk stream of commands about the connection */
    RTMP_STREAM_CHANNEL = 5,  /* chunk stream of commands and data about a message stream */
};

/* Of "capsEx" in Enhanced RTMP, and what follows from it. */
enum {
    RTMP_CAN_RECONNECT = 1,
    RTMP_CAN_MULTITRACK = 2,
    RTMP_CAN_MODEX = 4,
    RTMP_CAN_NANOSECONDS = 8,
    RTMP_IS_ENHANCED = 16, /* not on the wire: the peer has announced something */
};

/* What a peer announces in the object of connect, or of its result: RTMP_CAN_..., RTMP_IS_ENHANCED.
 * @members: those of the object, which can be read whole; it is not advanced */
unsigned rtmp_read_capabilities(const sluice_amf_reader *members);

/* An HMAC-SHA-256 by OpenSSL: a sluice_rtmp_hmac_fn. 0, -EIO (OpenSSL refuses) */
int rtmp_hmac(const void *key, size_t key_size, const struct iovec *pieces, size_t count,
              uint8_t ret_digest[SLUICE_RTMP_DIGEST_SIZE], void *user);

/*
 * Begins a handshake with random bytes of the kernel and rtmp_hmac(). @schema: of a client; a
 * server answers as the client began. 0, -EIO (no random bytes), or as sluice_rtmp_handshake_new()
 */
int rtmp_handshake_begin(sluice_rtmp_role role, sluice_rtmp_schema schema, sluice_rtmp_handshake **ret_handshake);

/* Queues what the handshake has to send. 0, or as writer_text(); then nothing has been reported as
 * sent. */
int rtmp_handshake_send(sluice_rtmp_handshake *handshake, sluice_writer *writer);

/* Queues a control message. 0, -EINVAL (not one), -EAGAIN (no room), -EPIPE, -ENOMEM */
int rtmp_send_control(sluice_writer *writer, const sluice_rtmp_control *control);

/* A command or data message that is being written, in AMF 0. */
struct rtmp_command {
    sluice_amf_writer values; /* for further values */
    uint8_t type;             /* SLUICE_RTMP_COMMAND or _DATA */
    uint8_t bytes[RTMP_COMMAND_MAX];
};

/*
 * Begins a command: its name and transaction are written, and the caller writes its command object,
 * or null, and the arguments to @values. An error stays until rtmp_command_send().
 */
void rtmp_command_begin(struct rtmp_command *command, const char *name, double transaction);

/* Begins a data message: only its name is written. */
void rtmp_data_begin(struct rtmp_command *command, const char *name);

/* Members of an object that has been begun. */
void rtmp_command_text(struct rtmp_command *command, const char *name, const char *text);
void rtmp_command_number(struct rtmp_command *command, const char *name, double number);

/*
 * Queues it, in one chunk if @chunk_size allows. @stream: the message stream; 0 is the connection
 * itself. @chunk_size: what was sent last in Set Chunk Size. Its bytes are forgotten: they may have
 * held a password. 0, -EMSGSIZE (over RTMP_COMMAND_MAX), -EINVAL (not valid AMF, or no chunk size),
 * -EAGAIN (no room), -EPIPE, -ENOMEM
 */
int rtmp_command_send(struct rtmp_command *command, uint32_t stream, uint32_t chunk_size, sluice_writer *writer);

#endif
