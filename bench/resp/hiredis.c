/* hiredis as it is used most: redisCommand(), which waits for the answer and gives it in memory of
 * its own. */
#include "resp/resp.h"

#include <hiredis/hiredis.h>

#include <stdlib.h>
#include <string.h>

#include "common/process.h"

static redisContext *connection(const resp_work *work) {
    redisContext *context = redisConnectFd(work->fd);
    if (!context || context->err)
        fail(EXIT_FAILURE, "hiredis: %s", context ? context->errstr : "no memory");
    return context;
}

static redisReply *expect(const redisContext *context, void *reply, int type) {
    redisReply *answer = reply;
    if (!answer || answer->type != type)
        fail(EXIT_FAILURE, "hiredis: %s", answer ? "another answer" : context->errstr);
    return answer;
}

static void get(resp_work *work) {
    redisContext *context = connection(work);
    for (uint64_t i = 0; i < work->commands; i++) {
        redisReply *reply = expect(context, redisCommand(context, "GET %s", resp_key(work, i)), REDIS_REPLY_STRING);
        resp_got(work, (const uint8_t *)reply->str, (size_t)reply->len);
        freeReplyObject(reply);
    }
}

static void set(resp_work *work) {
    redisContext *context = connection(work);
    for (uint64_t i = 0; i < work->commands; i++) {
        redisReply *reply = expect(
            context, redisCommand(context, "SET %s %b", resp_key(work, i), resp_value(work, i), work->size),
            REDIS_REPLY_STATUS);
        resp_was_set(reply->str, (size_t)reply->len);
        freeReplyObject(reply);
    }
}

const resp_variant resp_hiredis = {"hiredis", get, set};
