/* What a tool is pointed at: a file, standard input, or a server by its URL. */
#ifndef TOOLS_TARGET_H
#define TOOLS_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/tls.h>

#include "shared/rtmp_url.h"
#include "shared/rtsp_login.h"
#include "shared/rtsp_url.h"

enum { TARGET_HOST = 255, TARGET_PATH = 1024 };

enum target_kind { TARGET_FILE, TARGET_INPUT, TARGET_FLV, TARGET_HTTP, TARGET_RTSP, TARGET_RTMP };

struct target {
    enum target_kind kind;
    bool secure;                /* by TLS */
    sluice_tls_context *tls;    /* set by trust_prepare() for secure ones; NULL before */
    char host[TARGET_HOST + 1]; /* without brackets */
    uint16_t port;
    /* decoded; empty where there are none */
    char user[RTSP_LOGIN_USER + 1], password[RTSP_LOGIN_USER + 1];
    /* with the query; "/" where there is none */
    char path[TARGET_PATH + 1];
};

/*
 * Reads "-", a URL (flv://, http://, rtsp://, rtmp://, and by TLS flvs://, https://, rtsps://,
 * rtmps://), or else the name of a file. 0, -EPROTO (malformed, or a scheme that is not known),
 * -EMSGSIZE (too long)
 */
int target_read(const char *text, struct target *ret_target);

/* HOST:PORT, an IPv6 address in brackets. */
void target_place(const struct target *target, char *text, size_t size);

/*
 * A request's head by HTTP/1.1, with name and password where there are any. @headers: further
 * lines, each with its end. Bytes, -EMSGSIZE
 */
int target_http_head(const struct target *target, const char *method, const char *headers, char *head, size_t size);

/* The URL without name and password. 0, -EMSGSIZE */
int target_url(const struct target *target, char url[RTSP_URL + 1]);

/* What an RTMP client names: app and name of the path. 0, -EPROTO (it has no app and name),
 * -EMSGSIZE */
int target_rtmp_url(const struct target *target, struct rtmp_url *ret_url);

/*
 * Puts a number where "%d" is in the path. Without one, and with @always, "-N" comes behind the
 * name, before ".flv". 0, -EMSGSIZE
 */
int target_number(struct target *target, unsigned number, int always);

#endif
