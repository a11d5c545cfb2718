/*
 * Components of a worker that the server does not know: the process registers their types, and each
 * worker has an instance of each, called on the worker's thread, such as pulls.
 */
#ifndef SLUICED_COMPONENT_H
#define SLUICED_COMPONENT_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/config/options.h"

enum { COMPONENTS_MAX = 8, COMPONENT_NEEDED_MS = 2000 };

struct stream;
struct worker;

struct component_type {
    /* Makes the instance of a worker. @user: as registered. 0, -ENOMEM */
    int (*open)(struct worker *worker, void *user, void **ret_component);

    /*
     * Other options, in two steps, of which only the first can fail. What prepare() makes goes to
     * commit() with the same options, or to discard(), on any thread. 0, -ENOMEM
     */
    int (*prepare)(void *component, const struct options *options, void **ret_prepared);
    void (*commit)(void *component, const struct options *options, void *prepared);
    void (*discard)(void *prepared);

    /* A player has come to a stream without a publisher. NULL: that is of no interest */
    void (*wanted)(void *component, const struct stream *stream);

    /* A stream of that name is needed for another one, and will be for a while: it is called again
     * at least every COMPONENT_NEEDED_MS. NULL likewise */
    void (*needed)(void *component, const char *name);

    /*
     * A client asks whether there is a stream that has no publisher of this node, and hears of it
     * by stream_set_search(); or another node asks for it. @epoch: the least that it takes; 0: any.
     * What comes with a lower one ends. NULL likewise
     */
    void (*asked)(void *component, struct stream *stream, uint64_t epoch);

    /* The tracks of a stream, not of a replica, are known; it may add players and sinks. NULL
     * likewise */
    void (*opened)(void *component, struct stream *stream);

    /* A stream has no publisher any more; none may be attached. NULL: it does not matter */
    void (*left)(void *component, const struct stream *stream);

    /* Twice a second. */
    void (*tick)(void *component, uint64_t now);

    /* The server ends, or another process takes over; and it does not after all. */
    void (*stop)(void *component);
    void (*resume)(void *component);

    /* When the loop is gone. */
    void (*close)(void *component);
};

/* Those of one worker. All zero: there is none. */
struct components {
    struct {
        const struct component_type *type;
        void *state;
    } list[COMPONENTS_MAX];
    size_t count;
};

/* What prepare() of each has made. It may outlive the components. All zero: nothing. */
struct components_prepared {
    struct {
        const struct component_type *type;
        void *made;
    } list[COMPONENTS_MAX];
    size_t count;
};

/* Opens one for these options. 0, -ENOMEM, -ENOSPC (there are COMPONENTS_MAX) */
int components_add(struct components *components, const struct component_type *type, void *user, struct worker *worker,
                   const struct options *options);

/* NULL: there is none of that type. */
void *components_find(const struct components *components, const struct component_type *type);

/* 0, -ENOMEM: nothing is left to be discarded then. */
int components_prepare(const struct components *components, const struct options *options,
                       struct components_prepared *ret_prepared);
void components_commit(const struct components *components, const struct options *options,
                       const struct components_prepared *prepared);
void components_discard(const struct components_prepared *prepared);

void components_wanted(const struct components *components, const struct stream *stream);
void components_needed(const struct components *components, const char *name);
void components_asked(const struct components *components, struct stream *stream, uint64_t epoch);
void components_opened(const struct components *components, struct stream *stream);
void components_left(const struct components *components, const struct stream *stream);
void components_tick(const struct components *components, uint64_t now);
void components_stop(const struct components *components);
void components_resume(const struct components *components);
void components_close(struct components *components);

#endif
