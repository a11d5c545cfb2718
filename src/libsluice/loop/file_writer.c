/* Writing files: a queue that is worked off in order, one call of the backend at a time. */
#include <sluice/file_writer.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/sized.h"
#include "loop/loop.h"
#include "memory/chain.h"

enum {
    LIMIT = 8 << 20, /* default */
    PIECES = 256,    /* of one write */
    /* bytes of one write, as a rule: what lies behind them waits no longer than for this */
    WRITE_MOST = 1 << 20,
    ITEMS_LEAST = 16,
    /* a slice of more pieces than this is not begun when there is not room for so many */
    SLICE_PIECES = 64,
};

enum item_kind { ITEM_SLICE, ITEM_BYTES, ITEM_SEEK, ITEM_SYNC, ITEM_RENAME, ITEM_RUN };

typedef struct item {
    enum item_kind kind;
    uint8_t size; /* ITEM_BYTES */
    union {
        sluice_slice slice;
        uint8_t bytes[SLUICE_FILE_WRITER_COPY_MAX];
        uint64_t offset;
        struct {
            int directory;
            char *names; /* one behind the other */
        } rename;
        struct {
            sluice_file_writer_run_fn *run;
            void *user;
        } run;
    };
} item;

/* The items, a power of two. When it grows during a write, the kernel may still read bytes in the
 * old one. */
typedef struct item_ring {
    struct item_ring *outgrown;
    size_t capacity;
    item items[];
} item_ring;

struct sluice_file_writer {
    sluice_io io; /* first: the backend's events name it */
    sluice_loop *loop;
    const sluice_file_writer_events *events;
    void *user;

    item_ring *ring;
    size_t first, count;
    size_t done_of_first; /* bytes of the first item that are in the file */
    size_t queued;        /* bytes, less those */
    size_t limit, gather;
    uint64_t offset;
    bool has_places; /* false for a pipe */

    io_call call;
    bool calling; /* it is with the backend */
    item run;     /* the ITEM_RUN that is being made */
    int opened;   /* by it: the descriptor, while the io does not have it; or negative */
    struct iovec pieces[PIECES];

    bool flushing; /* what is queued is due; until the queue is empty */
    bool finishing, finished, closing;
    bool progressed; /* to be told */
    int error;       /* of the first item: nothing is done until a retry */
    bool failed;     /* which is to be told */
    loop_list open, due, ready;
};

static const sluice_file_writer_events no_events = {.size = sizeof no_events};

static sluice_file_writer *writer_of(sluice_io *io) {
    return (sluice_file_writer *)io;
}

static item *item_at(const sluice_file_writer *writer, size_t place) {
    return &writer->ring->items[(writer->first + place) & (writer->ring->capacity - 1)];
}

static bool has_bytes(const item *at) {
    return at->kind == ITEM_SLICE || at->kind == ITEM_BYTES;
}

static size_t length_of(const item *at) {
    if (at->kind == ITEM_SLICE)
        return sluice_slice_length(&at->slice);
    return at->kind == ITEM_BYTES ? at->size : 0;
}

static void drop_outgrown(sluice_file_writer *writer) {
    while (writer->ring && writer->ring->outgrown) {
        item_ring *outgrown = writer->ring->outgrown;
        writer->ring->outgrown = outgrown->outgrown;
        free(outgrown);
    }
}

/* There may be something to do. */
static void look_again(sluice_file_writer *writer) {
    if (writer->closing)
        return;
    loop_list_add(&writer->loop->file_writers.due, &writer->due);
    loop_touched(writer->loop);
}

static void tell_later(sluice_file_writer *writer) {
    loop_list_add(&writer->loop->file_writers.ready, &writer->ready);
}

static void drop_item(item *dropped) {
    if (dropped->kind == ITEM_SLICE)
        sluice_slice_release(&dropped->slice);
    else if (dropped->kind == ITEM_RENAME)
        free(dropped->rename.names);
}

static void pop(sluice_file_writer *writer) {
    drop_item(item_at(writer, 0));
    writer->first = (writer->first + 1) & (writer->ring->capacity - 1);
    writer->count--;
    writer->done_of_first = 0;
    if (writer->count == 0)
        writer->flushing = false;
}

/* What is to be done */

static size_t item_pieces(const item *at, size_t done, struct iovec *iov, size_t max) {
    if (at->kind == ITEM_SLICE)
        return sluice_slice_iov(&at->slice, done, iov, max);
    if (max > 0)
        iov[0] = (struct iovec){(void *)(at->bytes + done), at->size - done};
    return 1;
}

/* The bytes at the front of the queue, as far as one call takes them. Pieces. */
static uint32_t collect(sluice_file_writer *writer) {
    size_t count = 0, bytes = 0, done = writer->done_of_first;
    for (size_t i = 0; i < writer->count && bytes < WRITE_MOST && count < PIECES; i++, done = 0) {
        const item *at = item_at(writer, i);
        if (!has_bytes(at) || (count + SLICE_PIECES > PIECES && at->kind == ITEM_SLICE))
            break;
        if (length_of(at) == done)
            continue;
        size_t pieces = item_pieces(at, done, writer->pieces + count, PIECES - count);
        count = pieces < PIECES - count ? count + pieces : PIECES;
        bytes += length_of(at) - done;
    }
    return (uint32_t)count;
}

/* Whether bytes at the front wait for more to come behind them. */
static bool waits(const sluice_file_writer *writer) {
    return !writer->flushing && !writer->finishing && writer->queued < writer->gather;
}

static void fill_rename(io_call *call, const item *at) {
    call->kind = IO_RENAME;
    call->flags = RENAME_NOREPLACE;
    call->directory = at->rename.directory;
    call->from = at->rename.names;
    call->to = at->rename.names + strlen(at->rename.names) + 1;
}

/* On the thread. The opened descriptor must be stored even if the writer is closed. */
static int run_item(int fd, void *user) {
    sluice_file_writer *writer = user;
    int result = writer->run.run.run(fd, writer->run.run.user);
    if (fd < 0)
        writer->opened = result;
    return result;
}

/* Makes the call for what is at the front. False when there is nothing to be done now. */
static bool plan(sluice_file_writer *writer) {
    io_call *call = &writer->call;
    *call = (io_call){.io = &writer->io, .fd = writer->io.fd};
    while (writer->count > 0 && item_at(writer, 0)->kind == ITEM_SEEK) {
        writer->offset = item_at(writer, 0)->offset;
        pop(writer);
    }
    if (writer->count == 0) {
        call->kind = IO_CLOSE;
        return writer->finishing && !writer->finished;
    }
    const item *front = item_at(writer, 0);
    switch (front->kind) {
    case ITEM_SLICE:
    case ITEM_BYTES:
        call->kind = IO_WRITE;
        if (waits(writer))
            return false;
        call->pieces = writer->pieces;
        call->count = collect(writer);
        call->offset = writer->has_places ? writer->offset : IO_NO_PLACE;
        break;
    case ITEM_SYNC:
    case ITEM_SEEK:
        call->kind = IO_SYNC;
        break;
    case ITEM_RENAME:
        fill_rename(call, front);
        break;
    case ITEM_RUN:
        call->kind = IO_RUN;
        writer->run = *front;
        call->run = run_item;
        call->user = writer;
        break;
    }
    return true;
}

static void prepare(sluice_file_writer *writer) {
    const struct backend_operations *operations = writer->loop->backend->operations;
    if (writer->calling || writer->error || writer->finished || !plan(writer))
        return;
    if (writer->call.kind == IO_CLOSE && writer->io.fd < 0) {
        writer->finished = true;
        tell_later(writer);
        return;
    }
    writer->calling = operations->call(writer->loop->backend, &writer->call);
    if (!writer->calling)
        look_again(writer);
    else if (writer->call.kind == IO_CLOSE)
        /* It is closed, whatever close(2) returns, and even if the writer is gone. */
        writer->io.fd = -1;
}

void file_writers_prepare(sluice_loop *loop) {
    loop_list writers, *link;
    loop_list_init(&writers);
    loop_list_join(&writers, &loop->file_writers.due);
    while ((link = loop_list_pop(&writers)))
        prepare(LIST_ITEM(link, sluice_file_writer, due));
}

/* What has been done */

static void written(sluice_file_writer *writer, size_t bytes) {
    writer->offset += bytes;
    writer->queued -= bytes;
    writer->done_of_first += bytes;
    while (writer->count > 0 && has_bytes(item_at(writer, 0))) {
        size_t length = length_of(item_at(writer, 0)), done = writer->done_of_first;
        if (done < length)
            break;
        pop(writer);
        writer->done_of_first = done - length;
    }
}

static bool find_places(int fd) {
    return lseek(fd, 0, SEEK_CUR) >= 0;
}

/* 0, or why it has failed. */
static int settle(sluice_file_writer *writer, int result) {
    const enum io_call_kind kind = writer->call.kind;
    if (kind == IO_CLOSE) {
        writer->finished = true;
        return result < 0 && result != -EINTR ? result : 0;
    }
    if (kind == IO_SYNC && (result == -EINVAL || result == -EROFS))
        result = 0; /* there is nothing behind it that could be synced */
    if (result < 0)
        return result;
    if (kind == IO_WRITE) {
        /* No bytes and no reason: there is no room. */
        if (result == 0)
            return -ENOSPC;
        written(writer, (size_t)result);
        return 0;
    }
    if (kind == IO_RUN && writer->io.fd < 0) {
        writer->io.fd = result;
        writer->opened = -1;
        writer->has_places = find_places(result);
    }
    pop(writer);
    return 0;
}

static bool tries_again(sluice_file_writer *writer, int result) {
    io_call *call = &writer->call;
    if (result == -EINTR)
        return call->kind != IO_CLOSE && call->kind != IO_RUN;
    if (call->kind == IO_RENAME && result == -EINVAL && call->flags) {
        call->flags = 0; /* a file system that cannot promise not to replace */
        return true;
    }
    return false;
}

static void io_call_done(sluice_io *io, io_call *call, int result) {
    sluice_file_writer *writer = writer_of(io);
    sluice_loop *loop = writer->loop;
    writer->calling = false;
    if (tries_again(writer, result)) {
        writer->calling = loop->backend->operations->call(loop->backend, call);
        if (!writer->calling)
            look_again(writer);
        return;
    }
    /* Not before: what is tried again may be bytes in there. */
    drop_outgrown(writer);
    int error = settle(writer, result);
    writer->error = error;
    writer->failed = error != 0;
    writer->progressed |= !error;
    if (!error)
        look_again(writer);
    tell_later(writer);
}

static void io_idle(sluice_io *io) {
    sluice_file_writer *writer = writer_of(io);
    bool done = writer->finished && !writer->error && writer->count == 0;
    loop_list_remove(&writer->open);
    while (writer->count > 0)
        pop(writer);
    if (io->fd >= 0)
        close(io->fd);
    if (writer->opened >= 0)
        close(writer->opened);
    if (writer->events->on_closed)
        writer->events->on_closed(writer, done ? 0 : -ECANCELED, writer->user);
    drop_outgrown(writer);
    free(writer->ring);
    free(writer);
}

static const struct io_events writer_io_events = {.call_done = io_call_done, .idle = io_idle};

static void tell(sluice_file_writer *writer) {
    bool progressed = writer->progressed;
    writer->progressed = false;
    if (progressed && writer->events->on_progress)
        writer->events->on_progress(writer, writer->user);
    if (writer->closing)
        return;
    bool failed = writer->failed;
    writer->failed = false;
    if (failed && writer->events->on_error)
        writer->events->on_error(writer, writer->error, writer->user);
    else if (failed || writer->finished)
        sluice_file_writer_close(writer);
    /* A close that has failed has nothing that could be tried again. */
    if (failed && writer->finished)
        sluice_file_writer_close(writer);
}

void file_writers_dispatch(sluice_loop *loop) {
    loop_list *link;
    while ((link = loop_list_pop(&loop->file_writers.ready)))
        tell(LIST_ITEM(link, sluice_file_writer, ready));
}

/* The user's side */

int sluice_file_writer_new(sluice_loop *loop, int fd, const sluice_file_writer_options *options,
                           const sluice_file_writer_events *events, void *user, sluice_file_writer **ret_writer) {
    sluice_file_writer_options o;
    int error = SIZED_READ(&o, options);
    if (!error && events)
        error = SIZED_CHECK(events);
    if (error)
        return error;
    if (o.offset >= INT64_MAX)
        return -EINVAL;
    if (fd >= 0 && fcntl(fd, F_GETFD) < 0)
        return -errno;
    sluice_file_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return -ENOMEM;
    writer->io.fd = fd;
    writer->opened = -1;
    writer->io.events = &writer_io_events;
    chain_init(&writer->io.chain, loop->pool);
    writer->loop = loop;
    writer->events = events ? events : &no_events;
    writer->user = user;
    writer->offset = o.offset;
    writer->limit = o.limit ? o.limit : LIMIT;
    writer->gather = o.gather < writer->limit / 2 ? o.gather : writer->limit / 2;
    writer->has_places = fd >= 0 && find_places(fd);
    loop_list_add(&loop->file_writers.open, &writer->open);
    *ret_writer = writer;
    return 0;
}

static int grow(sluice_file_writer *writer) {
    size_t capacity = writer->ring ? 2 * writer->ring->capacity : ITEMS_LEAST;
    if (capacity > SLUICE_FILE_WRITER_ITEMS_MAX)
        return -EAGAIN;
    item_ring *ring = malloc(sizeof *ring + capacity * sizeof *ring->items);
    if (!ring)
        return -ENOMEM;
    ring->capacity = capacity;
    ring->outgrown = writer->ring;
    for (size_t i = 0; i < writer->count; i++)
        ring->items[i] = *item_at(writer, i);
    writer->ring = ring;
    writer->first = 0;
    if (!writer->calling)
        drop_outgrown(writer);
    return 0;
}

/* Room for one item more, with so many bytes. 0, or why it cannot be queued. */
static int make_room(sluice_file_writer *writer, size_t bytes) {
    if (writer->closing || writer->finishing)
        return -EPIPE;
    if (bytes > writer->limit)
        return -EMSGSIZE;
    if (bytes > writer->limit - writer->queued)
        return -EAGAIN;
    return writer->ring && writer->count < writer->ring->capacity ? 0 : grow(writer);
}

static void put(sluice_file_writer *writer, const item *put) {
    *item_at(writer, writer->count++) = *put;
    writer->queued += length_of(put);
    if (!has_bytes(put))
        writer->flushing = true;
    if (!waits(writer))
        look_again(writer);
}

int sluice_file_writer_slice(sluice_file_writer *writer, sluice_slice *slice) {
    int error = make_room(writer, sluice_slice_length(slice));
    if (error)
        return error;
    if (sluice_slice_length(slice) > 0)
        put(writer, &(item){.kind = ITEM_SLICE, .slice = *slice});
    *slice = (sluice_slice){0};
    return 0;
}

/* Where copied bytes can go on; NULL when a new item must begin. */
static item *last_bytes(const sluice_file_writer *writer, size_t size) {
    item *last = writer->count > 0 ? item_at(writer, writer->count - 1) : NULL;
    return last && last->kind == ITEM_BYTES && last->size + size <= sizeof last->bytes ? last : NULL;
}

int sluice_file_writer_copy(sluice_file_writer *writer, const void *data, size_t size) {
    if (size > SLUICE_FILE_WRITER_COPY_MAX)
        return -EMSGSIZE;
    int error = make_room(writer, size);
    if (error || size == 0)
        return error;
    /* The kernel may be reading the existing bytes; bytes after them do not affect it. */
    item *last = last_bytes(writer, size);
    if (!last) {
        put(writer, &(item){.kind = ITEM_BYTES});
        last = item_at(writer, writer->count - 1);
    }
    memcpy(last->bytes + last->size, data, size);
    last->size = (uint8_t)(last->size + size);
    writer->queued += size;
    if (!waits(writer))
        look_again(writer);
    return 0;
}

static int put_plain(sluice_file_writer *writer, const item *plain) {
    int error = make_room(writer, 0);
    if (!error)
        put(writer, plain);
    return error;
}

int sluice_file_writer_seek(sluice_file_writer *writer, uint64_t offset) {
    if (offset >= INT64_MAX)
        return -EINVAL;
    return put_plain(writer, &(item){.kind = ITEM_SEEK, .offset = offset});
}

int sluice_file_writer_sync(sluice_file_writer *writer) {
    return put_plain(writer, &(item){.kind = ITEM_SYNC});
}

int sluice_file_writer_run(sluice_file_writer *writer, sluice_file_writer_run_fn *run, void *user) {
    return put_plain(writer, &(item){.kind = ITEM_RUN, .run = {run, user}});
}

int sluice_file_writer_rename(sluice_file_writer *writer, int directory, const char *from, const char *to) {
    item rename = {.kind = ITEM_RENAME, .rename.directory = directory};
    size_t length = strlen(from) + 1;
    rename.rename.names = malloc(length + strlen(to) + 1);
    if (!rename.rename.names)
        return -ENOMEM;
    strcpy(rename.rename.names, from);
    strcpy(rename.rename.names + length, to);
    int error = put_plain(writer, &rename);
    if (error)
        free(rename.rename.names);
    return error;
}

void sluice_file_writer_flush(sluice_file_writer *writer) {
    if (writer->count == 0 || writer->flushing)
        return;
    writer->flushing = true;
    look_again(writer);
}

void sluice_file_writer_retry(sluice_file_writer *writer) {
    if (writer->finished)
        return;
    writer->error = 0;
    writer->failed = false;
    look_again(writer);
}

void sluice_file_writer_finish(sluice_file_writer *writer) {
    if (writer->finishing)
        return;
    writer->finishing = true;
    look_again(writer);
}

void sluice_file_writer_close(sluice_file_writer *writer) {
    if (!writer || writer->closing)
        return;
    writer->closing = true;
    loop_list_remove(&writer->due);
    loop_list_remove(&writer->ready);
    writer->loop->backend->operations->cancel(writer->loop->backend, &writer->io);
    loop_touched(writer->loop);
}

void file_writers_close_all(sluice_loop *loop) {
    for (loop_list *link = loop->file_writers.open.next; link != &loop->file_writers.open; link = link->next)
        sluice_file_writer_close(LIST_ITEM(link, sluice_file_writer, open));
}

size_t sluice_file_writer_queued(const sluice_file_writer *writer) {
    return writer->queued;
}

size_t sluice_file_writer_room(const sluice_file_writer *writer) {
    if (writer->closing || writer->finishing || writer->count + ITEMS_LEAST > SLUICE_FILE_WRITER_ITEMS_MAX)
        return 0;
    return writer->limit - writer->queued;
}

uint64_t sluice_file_writer_offset(const sluice_file_writer *writer) {
    return writer->offset;
}
