#include "daemon/server/component.h"

#include <errno.h>

int components_add(struct components *components, const struct component_type *type, void *user, struct worker *worker,
                   const struct options *options) {
    void *state, *prepared;
    if (components->count == COMPONENTS_MAX)
        return -ENOSPC;
    int error = type->open(worker, user, &state);
    if (error)
        return error;
    error = type->prepare(state, options, &prepared);
    if (error) {
        type->close(state);
        return error;
    }
    type->commit(state, options, prepared);
    components->list[components->count].type = type;
    components->list[components->count++].state = state;
    return 0;
}

void *components_find(const struct components *components, const struct component_type *type) {
    for (size_t i = 0; i < components->count; i++)
        if (components->list[i].type == type)
            return components->list[i].state;
    return NULL;
}

int components_prepare(const struct components *components, const struct options *options,
                       struct components_prepared *ret_prepared) {
    struct components_prepared prepared = {0};
    for (size_t i = 0; i < components->count; i++) {
        const struct component_type *type = components->list[i].type;
        int error = type->prepare(components->list[i].state, options, &prepared.list[i].made);
        if (error) {
            components_discard(&prepared);
            return error;
        }
        prepared.list[i].type = type;
        prepared.count++;
    }
    *ret_prepared = prepared;
    return 0;
}

void components_commit(const struct components *components, const struct options *options,
                       const struct components_prepared *prepared) {
    for (size_t i = 0; i < components->count; i++)
        components->list[i].type->commit(components->list[i].state, options, prepared->list[i].made);
}

void components_discard(const struct components_prepared *prepared) {
    for (size_t i = 0; i < prepared->count; i++)
        prepared->list[i].type->discard(prepared->list[i].made);
}

void components_wanted(const struct components *components, const struct stream *stream) {
    for (size_t i = 0; i < components->count; i++)
        if (components->list[i].type->wanted)
            components->list[i].type->wanted(components->list[i].state, stream);
}

void components_needed(const struct components *components, const char *name) {
    for (size_t i = 0; i < components->count; i++)
        if (components->list[i].type->needed)
            components->list[i].type->needed(components->list[i].state, name);
}

void components_asked(const struct components *components, struct stream *stream, uint64_t epoch) {
    for (size_t i = 0; i < components->count; i++)
        if (components->list[i].type->asked)
            components->list[i].type->asked(components->list[i].state, stream, epoch);
}

void components_opened(const struct components *components, struct stream *stream) {
    for (size_t i = 0; i < components->count; i++)
        if (components->list[i].type->opened)
            components->list[i].type->opened(components->list[i].state, stream);
}

void components_left(const struct components *components, const struct stream *stream) {
    for (size_t i = 0; i < components->count; i++)
        if (components->list[i].type->left)
            components->list[i].type->left(components->list[i].state, stream);
}

void components_tick(const struct components *components, uint64_t now) {
    for (size_t i = 0; i < components->count; i++)
        components->list[i].type->tick(components->list[i].state, now);
}

void components_stop(const struct components *components) {
    for (size_t i = 0; i < components->count; i++)
        components->list[i].type->stop(components->list[i].state);
}

void components_resume(const struct components *components) {
    for (size_t i = 0; i < components->count; i++)
        components->list[i].type->resume(components->list[i].state);
}

void components_close(struct components *components) {
    while (components->count > 0) {
        components->count--;
        components->list[components->count].type->close(components->list[components->count].state);
    }
}
