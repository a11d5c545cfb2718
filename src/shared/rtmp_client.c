#include "shared/rtmp_client.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/rtmp_peer.h"

enum {
    /* transactions; the answers to the other commands are not waited for */
    CONNECT = 1,
    RELEASE,
    FC_PUBLISH,
    CREATE,
    START,
    FC_UNPUBLISH,
    DELETE,

    AUDIO_CHANNEL = 4,
    VIDEO_CHANNEL = 6,
    PLAY_CHUNK = 4096, /* a player sends commands alone */
    PLAY_BUFFER_MS = 3000,
    CODE = 64,                           /* bytes of a status code */
    COMMANDS = 65536,                    /* longest message that a publisher gets */
    WORK_MOST = 4 * RTMP_CLIENT_COMMAND, /* of one rtmp_client_feed(), besides tags */
    CHUNKS_A_MESSAGE = 4,                /* that cost as much as one */
};

struct rtmp_client {
    enum rtmp_client_mode mode;
    enum rtmp_client_state state;
    struct rtmp_url url;
    struct rtmp_login *login;
    sluice_writer *writer;
    size_t writer_limit;
    uint32_t max_message;
    const struct rtmp_client_events *events;
    void *user;

    sluice_rtmp_handshake *handshake; /* NULL behind it */
    sluice_rtmp *framer;              /* NULL before that */
    uint64_t now, since;              /* of the last call, and of the state */
    uint32_t chunk_size;              /* announced to the server */
    uint32_t window;                  /* announced likewise; 0: none */
    uint32_t stream;                  /* the server's number of the message stream */
    unsigned capabilities;            /* of the server: RTMP_CAN_... */
    uint32_t work;                    /* of the last rtmp_client_feed(): see rtmp_client_work() */
    int error;                        /* in RTMP_CLIENT_ENDED */
    char reason[RTMP_CLIENT_REASON];

    sluice_rtmp_message *message; /* the framer's, while its tag or parts are under way; or NULL */
    sluice_rtmp_message part;     /* of an aggregate, while its tag is under way */
    sluice_rtmp_parts parts;      /* place in an aggregate */
    sluice_slice stripped;        /* the payload without a first byte */
    sluice_slice *payload;        /* where the tag's is; NULL: no tag is under way */
    sluice_flv_tag tag;
};

/* ---- Its end ---- */

static int fail(struct rtmp_client *client, int error, const char *reason, const char *code) {
    if (client->state == RTMP_CLIENT_ENDED)
        return client->error;
    client->state = RTMP_CLIENT_ENDED;
    client->error = error;
    snprintf(client->reason, sizeof client->reason, "%s%s%s", reason, *code ? ": " : "", code);
    return error;
}

/* Of a framer, a reader or the writer. */
static const char *text_of_error(int error) {
    switch (error) {
    case -EPROTO:
        return "not valid RTMP";
    case -EMSGSIZE:
        return "a message is too long";
    case -EPROTONOSUPPORT:
        return "another version of RTMP";
    case -EAGAIN:
        return "the server reads no replies";
    case -ENOBUFS:
    case -ENOMEM:
        return "out of memory";
    case -EPIPE:
        return "the connection is closed";
    default:
        return "failed";
    }
}

static int fail_by(struct rtmp_client *client, int error) {
    return fail(client, error == -EAGAIN ? -ENOBUFS : error, text_of_error(error), "");
}

static void enter(struct rtmp_client *client, enum rtmp_client_state state) {
    client->state = state;
    client->since = client->now;
}

/* ---- What is sent ---- */

static int send_control(struct rtmp_client *client, const sluice_rtmp_control *control) {
    return rtmp_send_control(client->writer, control);
}

static int send_command(struct rtmp_client *client, struct rtmp_command *command, uint32_t stream) {
    return rtmp_command_send(command, stream, client->chunk_size, client->writer);
}

/* A command with null, and a text if it has one. */
static int send_simple(struct rtmp_client *client, const char *name, int transaction, uint32_t stream, const char *text,
                       const char *second) {
    struct rtmp_command command;
    rtmp_command_begin(&command, name, transaction);
    sluice_amf_write_null(&command.values);
    if (text)
        sluice_amf_write_string(&command.values, text);
    if (second)
        sluice_amf_write_string(&command.values, second);
    return send_command(client, &command, stream);
}

/* Enhanced RTMP: what it can pass on, whatever its codec. It decodes nothing itself. */
static void write_capabilities(struct rtmp_command *command) {
    enum { CAN_FORWARD = 4 };
    static const char *const codecs[] = {"*",    "avc1", "hvc1", "av01", "vp09", "vp08",
                                         "mp4a", "Opus", "fLaC", "ac-3", "ec-3", ".mp3"};
    static const char *const maps[] = {"videoFourCcInfoMap", "audioFourCcInfoMap"};
    enum { CODECS = sizeof codecs / sizeof *codecs };
    sluice_amf_write_name(&command->values, "fourCcList");
    sluice_amf_write_array(&command->values, CODECS);
    for (size_t i = 0; i < CODECS; i++)
        sluice_amf_write_string(&command->values, codecs[i]);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        sluice_amf_write_name(&command->values, maps[i]);
        sluice_amf_write_object(&command->values);
        rtmp_command_number(command, "*", CAN_FORWARD);
        sluice_amf_write_object_end(&command->values);
    }
    rtmp_command_number(command, "capsEx", RTMP_CAN_MULTITRACK | RTMP_CAN_MODEX | RTMP_CAN_NANOSECONDS);
}

static void write_with_login(struct rtmp_client *client, struct rtmp_command *command, const char *name,
                             const char *text) {
    char all[RTMP_URL_TC + RTMP_LOGIN_QUERY + 1];
    snprintf(all, sizeof all, "%s%s", text, client->login->query);
    rtmp_command_text(command, name, all);
    explicit_bzero(all, sizeof all);
}

/* connect comes first: ffmpeg as a server expects nothing else. */
static int send_connect(struct rtmp_client *client) {
    enum { AUDIO_CODECS = 4071, VIDEO_CODECS = 252 }; /* all of the old numbers, as others send */
    const sluice_rtmp_control chunk_size = {.type = SLUICE_RTMP_SET_CHUNK_SIZE,
                                            .value = client->mode == RTMP_CLIENT_PLAY ? PLAY_CHUNK : RTMP_CLIENT_CHUNK};
    struct rtmp_command command;
    rtmp_command_begin(&command, "connect", CONNECT);
    sluice_amf_write_object(&command.values);
    write_with_login(client, &command, "app", client->url.app);
    if (client->mode == RTMP_CLIENT_PUBLISH)
        rtmp_command_text(&command, "type", "nonprivate");
    rtmp_command_text(&command, "flashVer", "FMLE/3.0 (compatible; Sluice)");
    write_with_login(client, &command, "tcUrl", client->url.tc_url);
    if (client->mode == RTMP_CLIENT_PLAY) {
        sluice_amf_write_name(&command.values, "fpad");
        sluice_amf_write_boolean(&command.values, false);
        rtmp_command_number(&command, "capabilities", 15);
        rtmp_command_number(&command, "audioCodecs", AUDIO_CODECS);
        rtmp_command_number(&command, "videoCodecs", VIDEO_CODECS);
        rtmp_command_number(&command, "videoFunction", 1);
    }
    write_capabilities(&command);
    sluice_amf_write_object_end(&command.values);
    int error = send_command(client, &command, 0);
    if (!error)
        error = send_control(client, &chunk_size);
    if (!error)
        client->chunk_size = chunk_size.value;
    return error;
}

static int send_start(struct rtmp_client *client) {
    const sluice_rtmp_control buffer = {.type = SLUICE_RTMP_USER_CONTROL,
                                        .event = SLUICE_RTMP_SET_BUFFER,
                                        .value = client->stream,
                                        .second = PLAY_BUFFER_MS};
    struct rtmp_command command;
    if (client->mode == RTMP_CLIENT_PUBLISH)
        return send_simple(client, "publish", START, client->stream, client->url.name, "live");
    rtmp_command_begin(&command, "play", START);
    sluice_amf_write_null(&command.values);
    sluice_amf_write_string(&command.values, client->url.name);
    sluice_amf_write_number(&command.values, -2000); /* a live stream, or else a recorded one */
    int error = send_command(client, &command, client->stream);
    return error ? error : send_control(client, &buffer);
}

/* ---- Its steps ---- */

/* The name without the query, which is not part of it for these two. */
static void write_name(const struct rtmp_client *client, char name[RTMP_URL_NAME + 1]) {
    snprintf(name, RTMP_URL_NAME + 1, "%.*s", (int)strcspn(client->url.name, "?"), client->url.name);
}

/* Of the properties or, from some servers, of the information behind them. What cannot be read
 * announces nothing. */
static void take_capabilities(struct rtmp_client *client, const sluice_rtmp_command *command) {
    sluice_amf_reader values = command->values;
    sluice_amf_value value;
    client->capabilities = 0;
    while (sluice_amf_next(&values, &value) == 1) {
        if (value.type != SLUICE_AMF_OBJECT && value.type != SLUICE_AMF_ECMA_ARRAY)
            continue;
        const sluice_amf_reader members = values;
        if (sluice_amf_skip(&values) < 0)
            break;
        client->capabilities |= rtmp_read_capabilities(&members);
    }
}

static int on_connected(struct rtmp_client *client, const sluice_rtmp_command *command) {
    char name[RTMP_URL_NAME + 1];
    int error = 0;
    take_capabilities(client, command);
    write_name(client, name);
    if (client->mode == RTMP_CLIENT_PUBLISH) {
        error = send_simple(client, "releaseStream", RELEASE, 0, name, NULL);
        if (!error)
            error = send_simple(client, "FCPublish", FC_PUBLISH, 0, name, NULL);
    }
    if (!error)
        error = send_simple(client, "createStream", CREATE, 0, NULL, NULL);
    enter(client, RTMP_CLIENT_CREATING);
    return error;
}

static int on_created(struct rtmp_client *client, sluice_rtmp_command *command) {
    sluice_amf_value value;
    for (int i = 0; i < 2; i++)
        if (sluice_amf_next(&command->values, &value) != 1)
            return -EPROTO;
    if (value.type != SLUICE_AMF_NUMBER || !(value.number >= 0 && value.number <= UINT32_MAX))
        return -EPROTO;
    client->stream = (uint32_t)value.number;
    int error = send_start(client);
    enter(client, RTMP_CLIENT_STARTING);
    return error;
}

static void run(struct rtmp_client *client) {
    if (client->state != RTMP_CLIENT_STARTING)
        return;
    enter(client, RTMP_CLIENT_RUNNING);
    client->events->running(client->user);
}

/* Codes are words with dots. What is none may be anything, such as a part of the URL. */
static void read_code(const sluice_slice *text, char code[CODE]) {
    if (sluice_amf_get_text(text, code, CODE) < 0)
        *code = '\0';
    for (const char *c = code; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '.')
            *code = '\0';
    if (strncmp(code, "Net", strlen("Net")) != 0)
        *code = '\0';
}

/* The members of an information object that count. The texts are empty where there are none. */
struct status {
    char code[CODE];
    bool is_error;
    char description[RTMP_LOGIN_DESCRIPTION + 1];
};

/* The object is behind null, or is the only one. */
static int read_status(const sluice_rtmp_command *command, struct status *status) {
    sluice_amf_reader values = command->values, members;
    sluice_amf_value value;
    int result;
    *status = (struct status){0};
    while ((result = sluice_amf_next(&values, &value)) == 1) {
        if (value.type != SLUICE_AMF_OBJECT && value.type != SLUICE_AMF_ECMA_ARRAY)
            continue;
        members = values;
        if (sluice_amf_find(&members, "code", &value) == 1 && value.type == SLUICE_AMF_STRING)
            read_code(&value.text, status->code);
        members = values;
        if (sluice_amf_find(&members, "level", &value) == 1 && value.type == SLUICE_AMF_STRING)
            status->is_error = sluice_amf_equals(&value.text, "error");
        members = values;
        if (sluice_amf_find(&members, "description", &value) == 1 && value.type == SLUICE_AMF_STRING)
            (void)sluice_amf_get_text(&value.text, status->description, sizeof status->description);
        result = sluice_amf_skip(&values);
        if (result < 0)
            break;
    }
    return result;
}

static int refuse(struct rtmp_client *client, const struct status *status, const char *reason) {
    bool missing = strcmp(status->code, "NetStream.Play.StreamNotFound") == 0;
    return fail(client, missing ? -ENOENT : -ECONNREFUSED, missing ? "no such stream" : reason, status->code);
}

/* connect is refused: perhaps for a login. */
static int on_connect_refused(struct rtmp_client *client, const struct status *status) {
    int error = rtmp_login_take(client->login, (sluice_http_text){status->description, strlen(status->description)});
    switch (error) {
    case 0:
        return fail(client, -ERESTART, "the server wants a login", "");
    case -ENOMSG:
        return refuse(client, status, "connect refused");
    case -ENOKEY:
        return fail(client, error, "a user and a password are required", "");
    case -EACCES:
        return fail(client, error, "the user or the password is wrong", "");
    case -EOPNOTSUPP:
        return fail(client, error, "unknown kind of authentication", "");
    default:
        return fail(client, error, "malformed challenge", "");
    }
}

static int on_status(struct rtmp_client *client, const sluice_rtmp_command *command) {
    struct status status;
    int error = read_status(command, &status);
    if (error < 0)
        return error;
    if (status.is_error)
        return refuse(client, &status, client->mode == RTMP_CLIENT_PUBLISH ? "publish refused" : "play refused");
    if (strcmp(status.code, "NetStream.Publish.Start") == 0 || strcmp(status.code, "NetStream.Play.Start") == 0)
        run(client);
    else if (client->mode == RTMP_CLIENT_PLAY &&
             (strcmp(status.code, "NetStream.Play.Stop") == 0 || strcmp(status.code, "NetStream.Play.Complete") == 0 ||
              strcmp(status.code, "NetStream.Play.UnpublishNotify") == 0))
        return fail(client, -ENODATA, "the server has ended the stream", "");
    return 0;
}

static int on_error(struct rtmp_client *client, const sluice_rtmp_command *command) {
    struct status status;
    int error = read_status(command, &status);
    if (error < 0)
        return error;
    if (command->transaction == CONNECT && client->state == RTMP_CLIENT_CONNECTING)
        return on_connect_refused(client, &status);
    if (command->transaction == CREATE && client->state == RTMP_CLIENT_CREATING)
        return refuse(client, &status, "createStream refused");
    if (command->transaction == START && client->state == RTMP_CLIENT_STARTING)
        return refuse(client, &status, client->mode == RTMP_CLIENT_PUBLISH ? "publish refused" : "play refused");
    /* releaseStream and FCPublish are not known to all servers. */
    return 0;
}

static int on_command(struct rtmp_client *client, const sluice_rtmp_message *message) {
    sluice_rtmp_command command;
    /* What cannot be read is no answer, and no reason to end: ffmpeg's onFCPublish is a name
     * alone. */
    if (sluice_rtmp_read_command(message, NULL, &command) < 0)
        return 0;
    if (sluice_amf_equals(&command.name, "onStatus"))
        return on_status(client, &command);
    if (sluice_amf_equals(&command.name, "_error"))
        return on_error(client, &command);
    if (sluice_amf_equals(&command.name, "close"))
        return fail(client, -ENODATA, "the server has ended the stream", "");
    if (!sluice_amf_equals(&command.name, "_result"))
        return 0;
    if (command.transaction == CONNECT && client->state == RTMP_CLIENT_CONNECTING)
        return on_connected(client, &command);
    if (command.transaction == CREATE && client->state == RTMP_CLIENT_CREATING)
        return on_created(client, &command);
    return 0;
}

/* ---- Messages ---- */

static int on_control(struct rtmp_client *client, const sluice_rtmp_message *message) {
    sluice_rtmp_control control;
    int error = sluice_rtmp_read_control(message, &control);
    if (error)
        return error;
    if (control.type == SLUICE_RTMP_USER_CONTROL && control.event == SLUICE_RTMP_PING_REQUEST)
        return send_control(client, &(sluice_rtmp_control){.type = SLUICE_RTMP_USER_CONTROL,
                                                           .event = SLUICE_RTMP_PING_RESPONSE,
                                                           .value = control.value});
    if (control.type != SLUICE_RTMP_PEER_BANDWIDTH || control.value == client->window || control.value == 0)
        return 0;
    client->window = control.value;
    return send_control(client, &(sluice_rtmp_control){.type = SLUICE_RTMP_WINDOW_SIZE, .value = control.value});
}

/* Data that is about the connection, not part of the stream. */
static bool is_about_connection(const sluice_rtmp_message *message) {
    sluice_amf_reader values;
    sluice_amf_value name;
    return sluice_rtmp_read_values(message, NULL, &values) < 0 || sluice_amf_next(&values, &name) != 1 ||
           name.type != SLUICE_AMF_STRING || sluice_amf_equals(&name.text, "onStatus") ||
           sluice_amf_equals(&name.text, "|RtmpSampleAccess");
}

/* Without the byte in front of values that may be in AMF 3: a script tag has none. */
static int strip(struct rtmp_client *client, const sluice_rtmp_message *message) {
    uint8_t first = 0;
    struct iovec piece;
    if (sluice_slice_iov(&message->payload, 0, &piece, 1) > 0)
        first = *(const uint8_t *)piece.iov_base;
    size_t skip = message->type == SLUICE_RTMP_DATA3 && first == 0 ? 1 : 0;
    return sluice_slice_sub(&message->payload, skip, sluice_slice_length(&message->payload) - skip, &client->stripped);
}

/* Makes the tag that deliver() gives. */
static int begin_tag(struct rtmp_client *client, sluice_rtmp_message *message) {
    sluice_flv_type type = SLUICE_FLV_SCRIPT;
    if (message->type == SLUICE_RTMP_AUDIO || message->type == SLUICE_RTMP_VIDEO)
        type = message->type == SLUICE_RTMP_AUDIO ? SLUICE_FLV_AUDIO : SLUICE_FLV_VIDEO;
    else if ((message->type != SLUICE_RTMP_DATA && message->type != SLUICE_RTMP_DATA3) || is_about_connection(message))
        return 0;
    if (message->size == 0)
        return 0;
    client->payload = &message->payload;
    if (message->type == SLUICE_RTMP_DATA3) {
        int error = strip(client, message);
        if (error)
            return error;
        client->payload = &client->stripped;
    }
    client->tag = (sluice_flv_tag){.type = type,
                                   .timestamp = message->timestamp,
                                   .size = (uint32_t)sluice_slice_length(client->payload),
                                   .trailer_ok = true,
                                   .payload = *client->payload};
    sluice_flv_read_view(type, client->payload, &client->tag.view);
    return 0;
}

/* The tag's payload goes back to where it is released, unless it has been taken. */
static int deliver(struct rtmp_client *client) {
    int result = client->events->tag(&client->tag, client->user);
    if (result == RTMP_CLIENT_AGAIN)
        return result;
    *client->payload = client->tag.payload;
    client->payload = NULL;
    client->tag.payload = (sluice_slice){0};
    sluice_slice_release(&client->stripped);
    sluice_slice_release(&client->part.payload);
    return result;
}

/* The next part of an aggregate, if one is under way. */
static int next_part(struct rtmp_client *client) {
    int result = sluice_rtmp_next_part(&client->parts, client->message, &client->part);
    if (result == 1) {
        result = begin_tag(client, &client->part);
        if (!client->payload)
            sluice_slice_release(&client->part.payload);
        return result;
    }
    client->message = NULL;
    return result;
}

static int take(struct rtmp_client *client, sluice_rtmp_message *message) {
    bool plays = client->mode == RTMP_CLIENT_PLAY;
    uint32_t sequence;
    int error = 0;
    if (sluice_rtmp_must_acknowledge(client->framer, &sequence))
        error = send_control(client, &(sluice_rtmp_control){.type = SLUICE_RTMP_ACKNOWLEDGEMENT, .value = sequence});
    if (error)
        return error;
    switch (message->type) {
    case SLUICE_RTMP_USER_CONTROL:
    case SLUICE_RTMP_PEER_BANDWIDTH:
        return on_control(client, message);
    case SLUICE_RTMP_COMMAND:
    case SLUICE_RTMP_COMMAND3:
        return on_command(client, message);
    case SLUICE_RTMP_AUDIO:
    case SLUICE_RTMP_VIDEO:
    case SLUICE_RTMP_DATA:
    case SLUICE_RTMP_DATA3:
    case SLUICE_RTMP_AGGREGATE:
        break;
    default:
        return 0;
    }
    /* Some servers send media without a word before. */
    if (plays && message->type != SLUICE_RTMP_DATA && message->type != SLUICE_RTMP_DATA3)
        run(client);
    if (!plays || client->state != RTMP_CLIENT_RUNNING)
        return 0;
    if (message->type != SLUICE_RTMP_AGGREGATE)
        return begin_tag(client, message);
    client->message = message;
    client->parts = (sluice_rtmp_parts){0};
    return 0;
}

/* What a message or a part has cost. A tag is its user's to count. */
static void add_work(struct rtmp_client *client, uint8_t type) {
    const bool is_command = type == SLUICE_RTMP_COMMAND || type == SLUICE_RTMP_COMMAND3;
    if (!client->payload)
        client->work += is_command ? RTMP_CLIENT_COMMAND : 1;
}

/* One step: a tag, a part, or a message. 1: there may be more; 0: more bytes are needed. */
static int step(struct rtmp_client *client, sluice_chain *chain, bool *rests) {
    sluice_rtmp_message *message;
    int result;
    if (client->payload) {
        result = deliver(client);
        *rests = result == RTMP_CLIENT_REST || result == RTMP_CLIENT_AGAIN;
        /* The user's error is the user's to name. */
        return result < 0 ? fail(client, result, "stopped", "") : 1;
    }
    if (client->message) {
        result = next_part(client);
        add_work(client, SLUICE_RTMP_AGGREGATE);
        return result < 0 ? fail_by(client, result) : 1;
    }
    result = sluice_rtmp_next(client->framer, chain, &message);
    client->work += sluice_rtmp_chunks(client->framer) / CHUNKS_A_MESSAGE;
    if (result == 1) {
        result = take(client, message);
        add_work(client, message->type);
        return result < 0 ? fail_by(client, result) : 1;
    }
    *rests = result == 2;
    return result < 0 ? fail_by(client, result) : result > 0;
}

/* 1: the handshake is complete. */
static int shake(struct rtmp_client *client, sluice_chain *chain) {
    /* To a publisher, a server sends commands alone. */
    const sluice_rtmp_limits limits = {.size = sizeof limits,
                                       .message = client->mode == RTMP_CLIENT_PLAY ? client->max_message : COMMANDS};
    int result = sluice_rtmp_handshake_next(client->handshake, chain);
    int error = result < 0 ? result : rtmp_handshake_send(client->handshake, client->writer);
    if (!error && result == 1) {
        sluice_rtmp_handshake_free(client->handshake);
        client->handshake = NULL;
        error = sluice_rtmp_new(&limits, &client->framer);
        if (!error)
            error = send_connect(client);
        enter(client, RTMP_CLIENT_CONNECTING);
    }
    return error ? fail_by(client, error) : result;
}

/* ---- Its user's calls ---- */

int rtmp_client_new(const struct rtmp_client_options *options, struct rtmp_client **ret_client) {
    sluice_writer_stats stats = {.size = sizeof stats};
    struct rtmp_client *client = calloc(1, sizeof *client);
    if (!client)
        return -ENOMEM;
    client->mode = options->mode;
    client->url = *options->url;
    client->login = options->login;
    client->writer = options->writer;
    client->max_message = options->max_message;
    client->events = options->events;
    client->user = options->user;
    client->now = client->since = options->now;
    client->chunk_size = SLUICE_RTMP_DEFAULT_CHUNK;
    (void)sluice_writer_get_stats(client->writer, &stats);
    client->writer_limit = stats.limit;
    int error = rtmp_handshake_begin(SLUICE_RTMP_CLIENT, SLUICE_RTMP_EARLY, &client->handshake);
    if (!error)
        error = rtmp_handshake_send(client->handshake, client->writer);
    if (error) {
        rtmp_client_free(client);
        return error;
    }
    *ret_client = client;
    return 0;
}

void rtmp_client_free(struct rtmp_client *client) {
    if (!client)
        return;
    if (client->payload)
        *client->payload = client->tag.payload;
    sluice_slice_release(&client->stripped);
    sluice_slice_release(&client->part.payload);
    sluice_rtmp_handshake_free(client->handshake);
    sluice_rtmp_free(client->framer);
    explicit_bzero(client, sizeof *client);
    free(client);
}

int rtmp_client_feed(struct rtmp_client *client, sluice_chain *chain, uint64_t now) {
    bool rests = false;
    int result = 1;
    client->work = 0;
    if (client->state == RTMP_CLIENT_ENDED)
        return client->error;
    client->now = now;
    if (client->handshake)
        result = shake(client, chain);
    while (result > 0 && !rests && client->work < WORK_MOST)
        result = step(client, chain, &rests);
    return result;
}

uint32_t rtmp_client_work(const struct rtmp_client *client) {
    return client->work;
}

size_t rtmp_client_need(const struct rtmp_client *client) {
    if (client->payload || client->message)
        return 1;
    return client->handshake ? sluice_rtmp_handshake_need(client->handshake)
           : client->framer  ? sluice_rtmp_need(client->framer)
                             : 1;
}

int rtmp_client_check(struct rtmp_client *client, uint64_t now) {
    if (client->state == RTMP_CLIENT_ENDED)
        return client->error;
    if (client->state < RTMP_CLIENT_RUNNING && now - client->since >= RTMP_CLIENT_STEP_MS)
        return fail(client, -ETIMEDOUT, "the server does not answer", "");
    return 0;
}

/* Header and part of each chunk. A part that is queued cannot be taken back. */
static int queue(struct rtmp_client *client, sluice_rtmp_chunking *chunking, const char *front, size_t front_size,
                 const sluice_slice *payload) {
    sluice_rtmp_chunk chunk;
    int error = 0;
    while (!error && sluice_rtmp_chunk_next(chunking, &chunk) > 0) {
        size_t at = chunk.offset, left = chunk.length;
        sluice_slice part;
        error = sluice_writer_copy(client->writer, chunk.header, chunk.header_size);
        if (!error && at < front_size) {
            size_t size = front_size - at < left ? front_size - at : left;
            error = sluice_writer_copy(client->writer, front + at, size);
            at += size;
            left -= size;
        }
        if (error || left == 0)
            continue;
        error = sluice_slice_sub(payload, at - front_size, left, &part);
        if (!error)
            error = sluice_writer_slice(client->writer, &part);
        sluice_slice_release(&part);
    }
    return error;
}

int rtmp_client_send(struct rtmp_client *client, sluice_flv_type type, uint32_t timestamp,
                     const sluice_slice *payload) {
    static const char keep[] = "\x02\x00\x0d@setDataFrame";
    size_t front = type == SLUICE_FLV_SCRIPT ? sizeof keep - 1 : 0;
    size_t size = front + sluice_slice_length(payload);
    sluice_rtmp_chunking chunking;
    if (client->state == RTMP_CLIENT_ENDED)
        return client->error;
    if (client->state != RTMP_CLIENT_RUNNING)
        return -EAGAIN;
    size_t needed = size + SLUICE_RTMP_MAX_HEADER * (size / client->chunk_size + 1) + RTMP_CLIENT_RESERVE;
    if (size > SLUICE_RTMP_MAX_MESSAGE || needed > client->writer_limit)
        return -EMSGSIZE;
    if (sluice_writer_room(client->writer) < needed)
        return -EAGAIN;
    const sluice_rtmp_message message = {.type = (uint8_t)type,
                                         .chunk_stream = type == SLUICE_FLV_AUDIO   ? AUDIO_CHANNEL
                                                         : type == SLUICE_FLV_VIDEO ? VIDEO_CHANNEL
                                                                                    : RTMP_STREAM_CHANNEL,
                                         .stream = client->stream,
                                         .timestamp = timestamp,
                                         .size = (uint32_t)size};
    int error = sluice_rtmp_chunk_begin(&chunking, &message, client->chunk_size);
    if (!error)
        error = queue(client, &chunking, keep, front, payload);
    return error ? fail_by(client, error) : 0;
}

int rtmp_client_finish(struct rtmp_client *client) {
    char name[RTMP_URL_NAME + 1];
    struct rtmp_command command;
    int error = 0;
    if (client->state == RTMP_CLIENT_ENDED)
        return client->error;
    if (client->state == RTMP_CLIENT_RUNNING && client->mode == RTMP_CLIENT_PUBLISH) {
        write_name(client, name);
        error = send_simple(client, "FCUnpublish", FC_UNPUBLISH, 0, name, NULL);
    }
    if (!error && client->state == RTMP_CLIENT_RUNNING) {
        rtmp_command_begin(&command, "deleteStream", DELETE);
        sluice_amf_write_null(&command.values);
        sluice_amf_write_number(&command.values, client->stream);
        error = send_command(client, &command, 0);
    }
    enter(client, RTMP_CLIENT_FINISHING);
    return error ? fail_by(client, error) : 0;
}

enum rtmp_client_state rtmp_client_get_state(const struct rtmp_client *client) {
    return client->state;
}

uint32_t rtmp_client_stream(const struct rtmp_client *client) {
    return client->stream;
}

unsigned rtmp_client_capabilities(const struct rtmp_client *client) {
    return client->capabilities;
}

const char *rtmp_client_step(const struct rtmp_client *client) {
    switch (client->state) {
    case RTMP_CLIENT_SHAKING:
        return "handshake";
    case RTMP_CLIENT_CONNECTING:
        return "connect";
    case RTMP_CLIENT_CREATING:
        return "createStream";
    default:
        return client->mode == RTMP_CLIENT_PUBLISH ? "publish" : "play";
    }
}

const char *rtmp_client_reason(const struct rtmp_client *client) {
    return client->reason;
}

size_t rtmp_client_footprint(const struct rtmp_client *client) {
    return client->framer ? sluice_rtmp_footprint(client->framer) : 0;
}
