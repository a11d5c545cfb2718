#include <sluice/writer.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "abi/sized.h"
#include "loop/loop.h"
#include "memory/pool.h"
#include "memory/slice.h"

/*
 * Zero-copy sends (IORING_OP_SEND_ZC, SENDMSG_ZC) are not used: to 50 players over loopback they
 * cost the sender 1.05 to 1.20 times the processor time of plain sendmsg(2), which copies from
 * memory that is warm from receiving, and they hold every block until the peer has acknowledged it.
 * They would go into start_send() of the io_uring backend; here bytes would then be done with at
 * the notification, after sluice_writer_sent().
 */

enum {
    FIRST_ITEMS = 4,
    /* bytes of memory: a reply now and then needs no more, and it is kept for the next */
    FIRST_CHUNK = 1024,
    CHUNK = 4096,
    FLUSH_PIECES = 64,
};

/* Memory for copies. The kernel reads from it, so it never moves; the items may. */
typedef struct text_chunk {
    struct text_chunk *next; /* in the spare ones */
    uint32_t items;          /* that lie here */
    uint32_t used, size;     /* bytes */
    uint8_t bytes[];
} text_chunk;

enum item_kind {
    ITEM_COPIED,
    ITEM_SLICE,
    ITEM_LENT,
};

typedef struct queue_item {
    enum item_kind kind;
    size_t left;       /* bytes that the kernel has not taken */
    const uint8_t *at; /* the first of them, unless in a slice */
    union {
        text_chunk *chunk;
        sluice_slice slice; /* of what is left */
        struct {
            const void *data;
            size_t size;
            sluice_writer_released_fn *released;
            void *user;
        } lent;
    };
} queue_item;

struct sluice_writer {
    conn_watcher watcher; /* first: the connection names it */
    sluice_conn *conn;    /* NULL when it has gone */
    queue_item *items;    /* a ring; a power of two */
    size_t capacity, first, count;
    size_t limit, queued;
    size_t gathered;     /* bytes that were given for sending and are not accounted for */
    text_chunk *current; /* with room for more, or NULL */
    text_chunk *spare;
    uint64_t sent_bytes, sent_items;
    bool settling; /* inside calls of released() */
    bool orphaned; /* freed by its owner; goes with the connection */
};

static queue_item *at(const sluice_writer *writer, size_t index) {
    return &writer->items[(writer->first + index) & (writer->capacity - 1)];
}

static void spare_chunk(sluice_writer *writer, text_chunk *chunk) {
    chunk->used = 0;
    if (chunk == writer->current)
        return;
    chunk->next = writer->spare;
    writer->spare = chunk;
}

/* Releases the first item's memory. The item is removed before the callback runs. */
static void pop(sluice_writer *writer) {
    queue_item gone = *at(writer, 0);
    writer->first = (writer->first + 1) & (writer->capacity - 1);
    writer->count--;
    switch (gone.kind) {
    case ITEM_COPIED:
        if (--gone.chunk->items == 0)
            spare_chunk(writer, gone.chunk);
        break;
    case ITEM_SLICE:
        sluice_slice_release(&gone.slice);
        break;
    case ITEM_LENT:
        if (gone.lent.released)
            gone.lent.released(gone.lent.data, gone.lent.size, gone.lent.user);
        break;
    }
}

static void clear(sluice_writer *writer) {
    writer->settling = true;
    writer->gathered = 0;
    while (writer->count > 0) {
        writer->queued -= at(writer, 0)->left;
        pop(writer);
    }
    writer->settling = false;
}

static void discard(sluice_writer *writer) {
    free(writer->current);
    while (writer->spare) {
        text_chunk *next = writer->spare->next;
        free(writer->spare);
        writer->spare = next;
    }
    free(writer->items);
    free(writer);
}

/* The kernel is done with everything. */
static void conn_gone(conn_watcher *watcher) {
    sluice_writer *writer = (sluice_writer *)watcher;
    writer->conn = NULL;
    clear(writer);
    if (writer->orphaned)
        discard(writer);
}

static bool can_send(const sluice_writer *writer) {
    return writer->conn && conn_can_send(writer->conn);
}

int sluice_writer_new(sluice_conn *conn, size_t limit, sluice_writer **ret_writer) {
    if (!conn || limit == 0)
        return -EINVAL;
    if (!conn_can_send(conn))
        return -EPIPE;
    sluice_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return -ENOMEM;
    writer->watcher.gone = conn_gone;
    writer->conn = conn;
    writer->limit = limit;
    conn_watch(conn, &writer->watcher);
    *ret_writer = writer;
    return 0;
}

void sluice_writer_free(sluice_writer *writer) {
    if (!writer)
        return;
    if (writer->conn && writer->gathered > 0) {
        writer->orphaned = true;
        sluice_conn_close(writer->conn);
        return;
    }
    if (writer->conn)
        conn_unwatch(writer->conn, &writer->watcher);
    writer->conn = NULL;
    clear(writer);
    discard(writer);
}

/* Room for so many more items. */
static int reserve(sluice_writer *writer, size_t more) {
    if (more > SLUICE_WRITER_ITEMS_MAX - writer->count)
        return -EAGAIN;
    if (writer->count + more <= writer->capacity)
        return 0;
    size_t capacity = writer->capacity ? 2 * writer->capacity : FIRST_ITEMS;
    queue_item *items = malloc(capacity * sizeof *items);
    if (!items)
        return -ENOMEM;
    for (size_t i = 0; i < writer->count; i++)
        items[i] = *at(writer, i);
    free(writer->items);
    writer->items = items;
    writer->capacity = capacity;
    writer->first = 0;
    return 0;
}

/* Whether so many bytes may be queued. */
static int admit(const sluice_writer *writer, size_t size) {
    if (!can_send(writer))
        return -EPIPE;
    if (size > writer->limit)
        return -EMSGSIZE;
    return size > writer->limit - writer->queued ? -EAGAIN : 0;
}

/* Puts an item for which there is room at the end. */
static void push(sluice_writer *writer, queue_item item) {
    *at(writer, writer->count++) = item;
    writer->queued += item.left;
    sluice_conn_want_send(writer->conn);
}

/* Whether the last item ends where the current chunk's free room begins. */
static bool last_goes_on(const sluice_writer *writer) {
    if (writer->count == 0)
        return false;
    const queue_item *last = at(writer, writer->count - 1);
    return last->kind == ITEM_COPIED && last->chunk == writer->current;
}

static size_t current_room(const sluice_writer *writer) {
    return writer->current ? writer->current->size - writer->current->used : 0;
}

/* A chunk for @n bytes: the first one that a writer needs may be small. */
static int take_chunk(sluice_writer *writer, size_t n, text_chunk **ret_chunk) {
    text_chunk **link = &writer->spare;
    while (*link && (*link)->size < n)
        link = &(*link)->next;
    text_chunk *chunk = *link;
    if (chunk) {
        *link = chunk->next;
    } else {
        bool small = !writer->current && n <= FIRST_CHUNK - sizeof *chunk;
        uint32_t bytes = small ? FIRST_CHUNK : CHUNK;
        chunk = malloc(bytes);
        if (!chunk)
            return -ENOMEM;
        *chunk = (text_chunk){.size = bytes - (uint32_t)sizeof *chunk};
    }
    *ret_chunk = chunk;
    return 0;
}

/* What fits into the current chunk. Behind a copied item that is being sent too: the kernel has its
 * length. */
static void append(sluice_writer *writer, const uint8_t *data, size_t size) {
    text_chunk *chunk = writer->current;
    uint8_t *to = chunk->bytes + chunk->used;
    memcpy(to, data, size);
    if (last_goes_on(writer)) {
        at(writer, writer->count - 1)->left += size;
        writer->queued += size;
    } else {
        push(writer, (queue_item){.kind = ITEM_COPIED, .left = size, .at = to, .chunk = chunk});
        chunk->items++;
    }
    chunk->used += (uint32_t)size;
}

int sluice_writer_copy(sluice_writer *writer, const void *data, size_t size) {
    int error = size > SLUICE_WRITER_COPY_MAX ? -EMSGSIZE : admit(writer, size);
    if (error || size == 0)
        return error;
    text_chunk *fresh = NULL;
    size_t here = current_room(writer);
    if (here > size)
        here = size;
    error = reserve(writer, (size_t)(here > 0 && !last_goes_on(writer)) + (here < size));
    if (!error && here < size)
        error = take_chunk(writer, size - here, &fresh);
    if (error)
        return error;
    if (here > 0)
        append(writer, data, here);
    if (here < size) {
        writer->current = fresh;
        append(writer, (const uint8_t *)data + here, size - here);
    }
    return 0;
}

int sluice_writer_slice(sluice_writer *writer, const sluice_slice *slice) {
    size_t length = sluice_slice_length(slice);
    int error = admit(writer, length);
    if (error || length == 0)
        return error;
    error = reserve(writer, 1);
    if (error)
        return error;
    queue_item added = {.kind = ITEM_SLICE, .left = length};
    sluice_slice_ref(slice, &added.slice);
    push(writer, added);
    return 0;
}

int sluice_writer_borrow(sluice_writer *writer, const void *data, size_t size, sluice_writer_released_fn *released,
                         void *user) {
    int error = admit(writer, size);
    if (!error)
        error = reserve(writer, 1);
    if (error)
        return error;
    push(writer, (queue_item){.kind = ITEM_LENT, .left = size, .at = data, .lent = {data, size, released, user}});
    return 0;
}

/* The pieces of a slice, as far as there is room. */
static size_t slice_pieces(const queue_item *item, struct iovec *iov, size_t max, size_t *bytes) {
    size_t count = 0;
    slice_walk walk = slice_walk_at(&item->slice, 0);
    while (walk.left > 0 && count < max) {
        size_t here = slice_walk_span(&walk);
        iov[count++] = (struct iovec){walk.block->data + walk.offset, here};
        *bytes += here;
        slice_walk_next(&walk);
    }
    return count;
}

/* The kernel has taken the first bytes of a slice, but not all: the blocks before the rest go
 * now. */
static void slice_drop(sluice_slice *slice, size_t bytes) {
    dead_list dead = {0};
    sluice_pool *pool = slice->first->pool;
    slice->length -= bytes;
    while (slice->first != slice->last && bytes >= slice->first->length - slice->offset) {
        sluice_block *next = slice->first->next;
        bytes -= slice->first->length - slice->offset;
        block_release_to(slice->first, &dead);
        slice->first = next;
        slice->offset = 0;
    }
    slice->offset += (uint32_t)bytes;
    dead_list_put(&dead, pool);
}

static void advance(queue_item *item, size_t bytes) {
    item->left -= bytes;
    if (item->kind == ITEM_SLICE)
        slice_drop(&item->slice, bytes);
    else
        item->at += bytes;
}

/*
 * Removes sent bytes from the front, and items without bytes there. A callback may queue more
 * items; these are handled later, even if they have no bytes.
 */
static void settle(sluice_writer *writer, size_t bytes) {
    writer->settling = true;
    writer->queued -= bytes;
    writer->sent_bytes += bytes;
    for (size_t most = writer->count; most > 0 && at(writer, 0)->left <= bytes; most--) {
        bytes -= at(writer, 0)->left;
        writer->sent_items++;
        pop(writer);
    }
    if (bytes > 0)
        advance(at(writer, 0), bytes);
    writer->settling = false;
}

size_t sluice_writer_gather(sluice_writer *writer, struct iovec *iov, size_t max) {
    size_t count = 0, bytes = 0;
    settle(writer, 0);
    for (size_t i = 0; i < writer->count && count < max; i++) {
        const queue_item *item = at(writer, i);
        if (item->kind == ITEM_SLICE) {
            count += slice_pieces(item, iov + count, max - count, &bytes);
        } else if (item->left > 0) {
            iov[count++] = (struct iovec){(void *)item->at, item->left};
            bytes += item->left;
        }
    }
    writer->gathered = bytes;
    return count;
}

void sluice_writer_sent(sluice_writer *writer, size_t bytes) {
    if (bytes > writer->gathered)
        bytes = writer->gathered;
    writer->gathered = 0;
    settle(writer, bytes);
}

int sluice_writer_flush(sluice_writer *writer) {
    struct iovec iov[FLUSH_PIECES];
    bool all = true;
    if (!can_send(writer))
        return -EPIPE;
    if (writer->settling || writer->gathered > 0 || sluice_conn_is_sending(writer->conn))
        return 0;
    /* A release callback may close the connection. */
    while (all && can_send(writer)) {
        struct msghdr message = {.msg_iov = iov, .msg_iovlen = sluice_writer_gather(writer, iov, FLUSH_PIECES)};
        if (message.msg_iovlen == 0)
            break;
        ssize_t sent = sendmsg(sluice_conn_fd(writer->conn), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        /* An error is met again by the loop's send, which reports it. */
        all = sent >= 0 && (size_t)sent == writer->gathered;
        conn_count_sent(writer->conn, sent > 0 ? (size_t)sent : 0);
        sluice_writer_sent(writer, sent > 0 ? (size_t)sent : 0);
    }
    return 0;
}

size_t sluice_writer_queued(const sluice_writer *writer) {
    return writer->queued;
}

size_t sluice_writer_room(const sluice_writer *writer) {
    return writer->count < SLUICE_WRITER_ITEMS_MAX ? writer->limit - writer->queued : 0;
}

int sluice_writer_get_stats(const sluice_writer *writer, sluice_writer_stats *ret_stats) {
    const sluice_writer_stats stats = {
        .limit = writer->limit,
        .queued_bytes = writer->queued,
        .queued_items = writer->count,
        .sent_bytes = writer->sent_bytes,
        .sent_items = writer->sent_items,
    };
    return SIZED_WRITE(ret_stats, &stats);
}
