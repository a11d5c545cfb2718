/* Credentials of an HTTP client: Basic (RFC 7617), a token as Bearer (RFC 6750) or in the query. */
#include <string.h>
#include <strings.h>

#include <sluice/rtsp.h>

#include "daemon/access/authorize.h"
#include "daemon/protocols/http/http_session_internal.h"

enum { MAX_BASIC = 1024 };

/* What is behind the scheme's name; empty where it is another. */
static sluice_http_text credentials_of(const sluice_http_header *header, const char *scheme) {
    size_t length = strlen(scheme);
    sluice_http_text value = header ? header->value : (sluice_http_text){"", 0};
    if (value.length <= length || strncasecmp(value.text, scheme, length) != 0 || value.text[length] != ' ')
        return (sluice_http_text){"", 0};
    while (length < value.length && value.text[length] == ' ')
        length++;
    return (sluice_http_text){value.text + length, value.length - length};
}

static bool has_token(const struct authorize *access, const struct rule *rule, const sluice_http_request *request) {
    char token[AUTHORIZE_TOKEN];
    sluice_http_text bearer = credentials_of(sluice_http_find(request, "Authorization"), "Bearer");
    bool given = authorize_query_token(request->query, token);
    if (!given && bearer.length > 0 && bearer.length < sizeof token) {
        memcpy(token, bearer.text, bearer.length);
        token[bearer.length] = '\0';
        given = true;
    }
    bool right = given && authorize_token_is_right(access, rule, token);
    explicit_bzero(token, sizeof token);
    return right;
}

/* 0, or the status to refuse with. */
static unsigned check_user(const struct authorize *access, const struct rule *rule,
                           const sluice_http_request *request) {
    sluice_http_text given = credentials_of(sluice_http_find(request, "Authorization"), "Basic");
    char text[MAX_BASIC];
    size_t length, name;
    if (given.length == 0 || sluice_rtsp_decode_basic(given, text, sizeof text, &length, &name) < 0)
        return 401;
    const struct user *user = authorize_find_user(access->by.users, (sluice_http_text){text, name},
                                                  (sluice_http_text){text + name + 1, length - name - 1});
    explicit_bzero(text, sizeof text);
    if (!user)
        return 401;
    return authorize_user_may(access, rule, user->name, user->rights) ? 0 : 403;
}

/* @ret_asked: whether the client had to show something */
static unsigned check(const struct authorize *access, const sluice_http_request *request, bool *ret_asked,
                      const char **ret_challenge) {
    const struct rule *rule;
    switch (authorize_client(access, &rule)) {
    case AUTHORIZE_GRANTED:
        return 0;
    case AUTHORIZE_REFUSED:
        return 403;
    case AUTHORIZE_ASK:
        break;
    }
    *ret_asked = true;
    if (has_token(access, rule, request))
        return 0;
    *ret_challenge = rule->ways & RULE_USER ? "Basic realm=\"sluiced\", charset=\"UTF-8\"" : "Bearer realm=\"sluiced\"";
    return rule->ways & RULE_USER ? check_user(access, rule, request) : 401;
}

bool http_authorize(struct http_session *session, const sluice_http_request *request, enum rule_action action,
                    sluice_http_text stream) {
    const struct options *options = session->base.worker->options;
    const struct authorize access = {.by = options_credentials(options),
                                     .action = action,
                                     .stream = stream,
                                     .peer = &session->base.peer_address,
                                     .certificate = session_peer_certificate(&session->base)};
    const char *challenge = NULL;
    bool asked = false;
    unsigned status = check(&access, request, &asked, &challenge);
    if (status == 0 && asked)
        session_authorize(&session->base);
    if (status == 0)
        return true;
    session_log_refusal(&session->base, status, NULL);
    const struct http_reply reply = {
        .status = status,
        .reason = status == 401 ? "credentials required" : "not authorized",
        .challenge = status == 401 ? challenge : NULL,
    };
    http_respond(session, &reply);
    return false;
}
