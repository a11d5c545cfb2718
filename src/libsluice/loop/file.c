/* Files: reading ahead of the consumer, several reads at once, the bytes in order, and never beyond
 * the window. */
#include <sluice/file.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/sized.h"
#include "loop/loop.h"
#include "memory/clock.h"
#include "memory/pool.h"

enum {
    READS = 8,              /* under way, at most */
    READ_BYTES = 64 << 10,  /* of one read, where the window holds several of that size */
    READ_AHEAD = 256 << 10, /* default */
    STARVED_MS = 5000,      /* as a connection that waits for blocks */
};

/* How far a read is. */
enum read_state {
    READ_ASKED, /* with the backend; set by files_prepare() */
    /* came back with less than was asked for, and is to be asked again; set by the backend's
     * read_done() */
    READ_SHORT,
    READ_DONE, /* waits for those before it; set by the backend's read_done() */
};

typedef struct file_read {
    io_read read; /* first: the backend names it */
    enum read_state state;
    bool unwanted; /* the file has ended before its place, or has been read from elsewhere since */
    int error;     /* of READ_DONE */
} file_read;

/* What the user is still to be told. */
enum file_end {
    END_NONE,     /* nothing; set at the start, by a seek, and by dispatch when it has told */
    END_FINISHED, /* the end was reached */
    END_FAILED,
};

struct sluice_file {
    sluice_io io; /* first: the backend's events name it */
    sluice_loop *loop;
    const sluice_file_events *events;
    void *user;

    uint64_t next;  /* offset of the next read */
    uint64_t limit; /* offset to stop at */
    uint64_t size;  /* where the end seems to be */
    size_t window;
    uint32_t most; /* bytes of one read */
    size_t need;

    file_read reads[READS]; /* a ring, in the order of their places */
    unsigned first, count;
    size_t reading; /* bytes of those that are wanted */

    uint64_t starved_since; /* milliseconds; 0 while there are blocks or the file needs none */
    enum file_end end;
    int error;  /* what reading ended with; 0: the end of the file or of the length */
    bool ended; /* nothing more is read */
    bool closing;
    bool *gone; /* set when the file is freed, for a fill that is waiting */
    loop_list open, due, ready;
};

static const sluice_file_events no_events = {.size = sizeof no_events};

static sluice_file *file_of(sluice_io *io) {
    return (sluice_file *)io;
}

static file_read *read_at(sluice_file *file, unsigned place) {
    return &file->reads[(file->first + place) % READS];
}

static sluice_pool *pool_of(const sluice_file *file) {
    return file->io.chain.pool;
}

/* There may be something to start. */
static void look_again(sluice_file *file) {
    loop_list_add(&file->loop->files.due, &file->due);
    loop_touched(file->loop);
}

static void block_consumed(sluice_chain *chain) {
    look_again((sluice_file *)(void *)((char *)chain - offsetof(sluice_io, chain)));
}

/* What comes back from now on belongs nowhere. */
static void forget_reads(sluice_file *file) {
    for (unsigned i = 0; i < file->count; i++)
        read_at(file, i)->unwanted = true;
    file->reading = 0;
}

static void end_reading(sluice_file *file, int error) {
    forget_reads(file);
    file->ended = true;
    file->error = error;
    file->end = error ? END_FAILED : END_FINISHED;
    loop_list_add(&file->loop->files.ready, &file->ready);
}

static void release_blocks(sluice_block *block) {
    sluice_block *next;
    for (; block; block = next) {
        next = block->next;
        sluice_block_release(block);
    }
}

/* Reading ahead */

/*
 * Bytes for the next read. One more than the file seems to have, so that the read that comes back
 * short has found the end too.
 */
static size_t next_length(const sluice_file *file) {
    const uint64_t block = pool_block_size(pool_of(file));
    uint64_t length = file->limit - file->next;
    if (length > file->most)
        length = file->most;
    if (file->next < file->size) {
        uint64_t rest = (file->size - file->next) / block * block + block;
        if (length > rest)
            length = rest;
    }
    return (size_t)length;
}

/*
 * Bytes available after the chain's first block has been consumed. Consumption within a block is
 * not reported, so its bytes do not count.
 */
static size_t ahead(const sluice_file *file) {
    return file->io.chain.behind + file->reading;
}

/* Bytes that the consumer waits for, or soon may, and that are not on their way. */
static size_t lacking(const sluice_file *file) {
    size_t wanted = file->need > 1 ? file->need : 1;
    return wanted > ahead(file) ? wanted - ahead(file) : 0;
}

/* Bytes in those free blocks that are more than half of the pool: others need the rest when the
 * pool is pressed. */
static size_t spare(sluice_pool *pool) {
    uint32_t available = sluice_pool_available(pool), half = pool_reach(pool) / 2;
    return available > half ? (size_t)(available - half) * pool_block_size(pool) : 0;
}

/*
 * Bytes to read now; 0: nothing before something has been consumed. What the consumer waits for is
 * read in any case; more than that is a guess, and has to fit into the window and into blocks that
 * can be spared.
 */
static size_t plan(const sluice_file *file) {
    const size_t block = pool_block_size(pool_of(file));
    size_t lack = lacking(file), length = next_length(file), most = spare(pool_of(file));
    if (lack == 0 && ahead(file) + length > file->window)
        return 0;
    if (lack >= length || most >= length)
        return length;
    size_t least = (lack + block - 1) / block * block;
    most = most > least ? most : least;
    return length < most ? length : most;
}

/* Blocks for up to @length bytes, as far as there are any. */
static size_t take_blocks(sluice_pool *pool, size_t length, sluice_block **ret_first) {
    sluice_block *first = NULL, **end = &first;
    size_t room = 0;
    while (room < length) {
        sluice_block *block = pool_take(pool);
        if (!block)
            break;
        *end = block;
        end = &block->next;
        room += block->capacity;
    }
    *ret_first = first;
    return room < length ? room : length;
}

static bool ask(sluice_file *file, file_read *read) {
    sluice_backend *backend = file->loop->backend;
    if (!backend->operations->read(backend, &read->read))
        return false;
    read->state = READ_ASKED;
    return true;
}

/*
 * There is no block. Files that only read ahead, or have pending reads, are checked again in any
 * case.
 */
static void starve(sluice_file *file) {
    uint64_t now = loop_clock();
    if (lacking(file) == 0 || file->reading > 0)
        return;
    size_t length = chain_length(&file->io.chain);
    if (file->starved_since == 0 || (length > 0 && length >= file->need))
        file->starved_since = now;
    if (now - file->starved_since >= STARVED_MS)
        end_reading(file, -ENOBUFS);
    else
        loop_list_add(&file->loop->files.starving, &file->due);
}

/* False when there is nothing more to start now. */
static bool start_read(sluice_file *file, size_t length) {
    sluice_block *blocks;
    length = take_blocks(pool_of(file), length, &blocks);
    if (length == 0) {
        starve(file);
        return false;
    }
    file->starved_since = 0;
    file_read *read = read_at(file, file->count);
    *read = (file_read){
        .read = {.io = &file->io, .blocks = blocks, .offset = file->next, .length = (uint32_t)length},
    };
    if (!ask(file, read)) {
        release_blocks(blocks);
        look_again(file);
        return false;
    }
    file->count++;
    file->reading += length;
    file->next += length;
    return true;
}

/* Asks for the rest of what came back short. False when there is no room to submit it. */
static bool ask_again(sluice_file *file) {
    for (unsigned i = 0; i < file->count; i++)
        if (read_at(file, i)->state == READ_SHORT && !ask(file, read_at(file, i)))
            return false;
    return true;
}

static void prepare(sluice_file *file) {
    if (!ask_again(file)) {
        look_again(file);
        return;
    }
    while (!file->ended && file->count < READS && file->next < file->limit) {
        /* From where the end seems to be, one read after the other: most of them would find
         * nothing. */
        if (file->next >= file->size && file->reading > 0)
            return;
        size_t length = plan(file);
        if (length == 0 || !start_read(file, length))
            break;
    }
    if (!file->ended && file->io.chain.first)
        file->io.chain.on_consumed = block_consumed;
}

/*
 * Whether a release of a block will wake the loop; false if another thread has released one
 * meanwhile.
 */
static bool want_release(const loop_list *starving) {
    for (loop_list *link = starving->next; link != starving; link = link->next)
        if (!pool_want_release(pool_of(LIST_ITEM(link, sluice_file, due))))
            return false;
    return true;
}

void files_prepare(sluice_loop *loop) {
    loop_list files, *link;
    loop_list_init(&files);
    loop_list_join(&files, &loop->files.starving);
    loop_list_join(&files, &loop->files.due);
    while ((link = loop_list_pop(&files)))
        prepare(LIST_ITEM(link, sluice_file, due));
    if (!want_release(&loop->files.starving))
        loop_list_join(&loop->files.due, &loop->files.starving);
}

/* What comes back */

/* The bytes go to the chain, blocks that they did not reach back to the pool. */
static void append(sluice_file *file, const io_read *read) {
    uint32_t left = read->filled;
    sluice_block *next;
    for (sluice_block *block = read->blocks; block; block = next) {
        next = block->next;
        block->next = NULL;
        block->length = left < block->capacity ? left : block->capacity;
        left -= block->length;
        sluice_chain_append(&file->io.chain, block);
    }
}

static void deliver(sluice_file *file, const file_read *read) {
    const io_read *done = &read->read;
    file->reading -= done->length;
    append(file, done);
    if (read->error || done->filled < done->length) {
        file->next = done->offset + done->filled;
        end_reading(file, read->error);
    } else if (done->offset + done->length == file->limit) {
        end_reading(file, 0);
    }
}

/* In the order of their places, as far as they are done. */
static void deliver_all(sluice_file *file) {
    while (file->count > 0 && read_at(file, 0)->state == READ_DONE) {
        file_read *read = read_at(file, 0);
        file->first = (file->first + 1) % READS;
        file->count--;
        if (read->unwanted)
            release_blocks(read->read.blocks);
        else
            deliver(file, read);
    }
}

static enum read_state state_after(const sluice_file *file, const file_read *read, int result) {
    uint64_t place = read->read.offset + read->read.filled;
    if (read->unwanted || read->read.filled == read->read.length || (result > 0 && place == file->size))
        return READ_DONE;
    return result > 0 || result == -EINTR ? READ_SHORT : READ_DONE;
}

static void io_read_done(sluice_io *io, io_read *done, int result) {
    sluice_file *file = file_of(io);
    file_read *read = (file_read *)done;
    if (result > 0)
        done->filled += (uint32_t)result;
    read->state = state_after(file, read, result);
    read->error = result < 0 ? result : 0;
    size_t before = chain_length(&io->chain);
    deliver_all(file);
    if (chain_length(&io->chain) > before && chain_length(&io->chain) >= file->need)
        loop_list_add(&file->loop->files.ready, &file->ready);
    look_again(file);
}

static void io_idle(sluice_io *io) {
    sluice_file *file = file_of(io);
    loop_list_remove(&file->open);
    close(io->fd);
    io->chain.on_consumed = NULL;
    chain_clear(&io->chain);
    for (unsigned i = 0; i < file->count; i++)
        release_blocks(read_at(file, i)->read.blocks);
    if (file->gone)
        *file->gone = true;
    if (file->events->on_closed)
        file->events->on_closed(file, file->user);
    free(file);
}

static const struct io_events file_io_events = {
    .read_done = io_read_done,
    .idle = io_idle,
};

static void tell(sluice_file *file) {
    size_t length = chain_length(&file->io.chain);
    bool enough = length > 0 && (length >= file->need || file->ended);
    if (enough && file->events->on_data)
        file->events->on_data(file, file->user);
    if (file->closing || file->end == END_NONE)
        return;
    file->end = END_NONE;
    if (file->events->on_end)
        file->events->on_end(file, file->error, file->user);
}

void files_dispatch(sluice_loop *loop) {
    loop_list *link;
    while ((link = loop_list_pop(&loop->files.ready)))
        tell(LIST_ITEM(link, sluice_file, ready));
}

/* The user's side */

/* 0, or why the descriptor cannot be read from. */
static int look_at_file(int fd, uint64_t *ret_size) {
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    if (S_ISDIR(status.st_mode))
        return -EISDIR;
    if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode))
        return -ESPIPE;
    *ret_size = (uint64_t)status.st_size;
    return 0;
}

/* Reads from @offset on. 0, or why that cannot be; then nothing has changed. */
static int set_place(sluice_file *file, uint64_t offset, uint64_t length) {
    if (offset >= INT64_MAX)
        return -EINVAL;
    int error = look_at_file(file->io.fd, &file->size);
    if (error)
        return error;
    file->next = offset;
    file->limit = length > 0 && length < INT64_MAX - offset ? offset + length : INT64_MAX;
    return 0;
}

static void set_window(sluice_file *file, uint32_t read_ahead) {
    size_t block = pool_block_size(pool_of(file));
    size_t most = READ_BYTES;
    file->window = read_ahead ? read_ahead : READ_AHEAD;
    if (file->window < block)
        file->window = block;
    /* Two reads at least, so that one is under way while the other is consumed. */
    if (most > file->window / 2)
        most = file->window / 2;
    if (most > IO_READ_BLOCKS * block)
        most = IO_READ_BLOCKS * block;
    file->most = (uint32_t)(most < block ? block : most / block * block);
}

int sluice_file_new(sluice_loop *loop, int fd, const sluice_file_options *options, const sluice_file_events *events,
                    void *user, sluice_file **ret_file) {
    sluice_file_options o;
    int error = SIZED_READ(&o, options);
    if (!error && events)
        error = SIZED_CHECK(events);
    if (error)
        return error;
    sluice_file *file = calloc(1, sizeof *file);
    if (!file)
        return -ENOMEM;
    sluice_pool *pool = loop->pool;
    error = o.block_size > 0 ? sluice_pool_class(pool, o.block_size, &pool) : 0;
    file->io.fd = fd;
    file->io.events = &file_io_events;
    chain_init(&file->io.chain, pool);
    file->loop = loop;
    file->events = events ? events : &no_events;
    file->user = user;
    set_window(file, o.read_ahead);
    if (!error)
        error = set_place(file, o.offset, o.length);
    if (error) {
        free(file);
        return error;
    }
    loop_list_add(&loop->files.open, &file->open);
    look_again(file);
    *ret_file = file;
    return 0;
}

void sluice_file_close(sluice_file *file) {
    if (!file || file->closing)
        return;
    file->closing = true;
    loop_list_remove(&file->due);
    loop_list_remove(&file->ready);
    file->io.chain.on_consumed = NULL;
    file->loop->backend->operations->cancel(file->loop->backend, &file->io);
    loop_touched(file->loop);
}

void files_close_all(sluice_loop *loop) {
    for (loop_list *link = loop->files.open.next; link != &loop->files.open; link = link->next)
        sluice_file_close(LIST_ITEM(link, sluice_file, open));
}

sluice_chain *sluice_file_chain(sluice_file *file) {
    return &file->io.chain;
}

size_t sluice_file_footprint(const sluice_file *file) {
    const size_t block = pool_block_size(pool_of(file));
    size_t bytes = sluice_chain_footprint(&file->io.chain);
    for (unsigned i = 0; i < file->count; i++) {
        size_t length = file->reads[(file->first + i) % READS].read.length;
        bytes += (length + block - 1) / block * block;
    }
    return bytes;
}

sluice_loop *sluice_file_loop(const sluice_file *file) {
    return file->loop;
}

void *sluice_file_user(const sluice_file *file) {
    return file->user;
}

int sluice_file_fd(const sluice_file *file) {
    return file->io.fd;
}

uint64_t sluice_file_offset(const sluice_file *file) {
    return file->next - file->reading - chain_length(&file->io.chain);
}

void sluice_file_set_need(sluice_file *file, size_t bytes) {
    size_t length = chain_length(&file->io.chain), old_need = file->need;
    file->need = bytes;
    if (file->closing)
        return;
    /* The window may be full, so that no read completes and triggers the callback. */
    if (length < old_need && length >= bytes)
        loop_list_add(&file->loop->files.ready, &file->ready);
    look_again(file);
}

int sluice_file_seek(sluice_file *file, uint64_t offset, uint64_t length) {
    if (file->closing)
        return -EBADF;
    int error = set_place(file, offset, length);
    if (error)
        return error;
    forget_reads(file);
    chain_clear(&file->io.chain);
    file->ended = false;
    file->end = END_NONE;
    file->starved_since = 0;
    look_again(file);
    return 0;
}

/* Milliseconds to wait, rounded up; negative: for any length. */
static int until(uint64_t deadline) {
    if (deadline == UINT64_MAX)
        return -1;
    uint64_t now = clock_ns();
    if (now >= deadline)
        return 0;
    uint64_t wait = (deadline - now - 1) / 1000000 + 1;
    return wait < INT32_MAX ? (int)wait : INT32_MAX;
}

/* Turns until the chain holds @goal bytes or reading has ended. 0, -ETIMEDOUT, -EINTR, -ECANCELED,
 * or a turn's. */
static int wait_for(sluice_file *file, size_t goal, uint64_t deadline) {
    bool gone = false, in_time = true;
    int error = 0;
    file->gone = &gone;
    while (!error && in_time && chain_length(&file->io.chain) < goal && !file->ended) {
        if (loop_obey_stop(file->loop)) {
            error = -EINTR;
            break;
        }
        int wait = until(deadline);
        in_time = wait != 0;
        error = sluice_loop_turn(file->loop, wait);
        if (gone)
            return -ECANCELED;
        if (!error && file->closing)
            error = -ECANCELED;
    }
    file->gone = NULL;
    return !error && !in_time ? -ETIMEDOUT : error;
}

/* The result for a reader at the end. */
static int reading_end(const sluice_file *file) {
    return file->error ? file->error : -ENODATA;
}

int sluice_file_fill(sluice_file *file, size_t need, uint64_t deadline) {
    size_t before = chain_length(&file->io.chain);
    size_t goal = need > before ? need : before + 1;
    if (file->closing)
        return -ECANCELED;
    if (file->loop->turning)
        return file->ended ? reading_end(file) : -EAGAIN;
    size_t old_need = file->need;
    sluice_file_set_need(file, goal);
    int error = wait_for(file, goal, deadline);
    if (error == -ECANCELED)
        return error;
    file->need = old_need;
    if (chain_length(&file->io.chain) > before) {
        /* The stop is left for the next call. */
        if (error == -EINTR)
            sluice_loop_stop(file->loop);
        return 0;
    }
    return error ? error : reading_end(file);
}

static int reader_fill(void *user, size_t need, uint64_t deadline) {
    return sluice_file_fill(user, need, deadline);
}

void sluice_file_attach_reader(sluice_file *file, sluice_reader *reader) {
    static const sluice_reader_source source = {.size = sizeof source, .fill = reader_fill};
    sluice_reader_reset(reader, &file->io.chain);
    sluice_reader_set_source(reader, &source, file);
}
