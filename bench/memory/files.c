/* A file of 10 MiB read to its end again and again, so many bytes at a time: with a buffer and
 * without. */
#include "memory/work.h"

#include <sluice/reader.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/content.h"
#include "common/process.h"

enum { FILE_SIZE = 10 << 20, MOST_PIECE = 64 << 10, FILL = 64 << 10, SEED = 1 };

/* In memory, so that no disk is measured. */
static int make_file(void) {
    static uint64_t words[MOST_PIECE / 8];
    uint64_t random = SEED;
    int fd = memfd_create("bench", MFD_CLOEXEC);
    for (size_t at = 0; fd >= 0 && at < FILE_SIZE; at += sizeof words) {
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            words[i] = content_random(&random);
        if (write(fd, words, sizeof words) != sizeof words)
            break;
    }
    if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0)
        fail(EXIT_FAILURE, "file: %s", strerror(errno));
    return fd;
}

/* Each piece at its place. The multiplications do not wait for each other: a byte does not cost
 * what the sum does. */
static uint64_t add(uint64_t sum, uint64_t place, uint8_t byte) {
    return sum + place * byte;
}

/* The file is endless: its end is its beginning. */
static size_t read_some(int fd, void *buffer, size_t size) {
    ssize_t n = read(fd, buffer, size);
    if (n == 0 && lseek(fd, 0, SEEK_SET) == 0)
        n = read(fd, buffer, size);
    if (n <= 0)
        fail(EXIT_FAILURE, "read: %s", strerror(errno));
    return (size_t)n;
}

static void run_read(const bench_work *work, uint64_t operations) {
    static uint8_t buffer[MOST_PIECE];
    int fd = make_file();
    uint64_t sum = 0;
    work_begin();
    for (uint64_t i = 0; i < operations; i++) {
        read_some(fd, buffer, work->most);
        sum = add(sum, i, buffer[0]);
    }
    work_end(operations, operations * work->most, sum);
    close(fd);
}

static FILE *open_stdio(void) {
    static char stdio_buffer[FILL];
    FILE *file = fdopen(make_file(), "r");
    if (!file)
        fail(EXIT_FAILURE, "file: %s", strerror(errno));
    setvbuf(file, stdio_buffer, _IOFBF, sizeof stdio_buffer);
    return file;
}

static void run_stdio_bytes(const bench_work *work, uint64_t operations) {
    FILE *file = open_stdio();
    uint64_t sum = 0;
    (void)work;
    work_begin();
    for (uint64_t i = 0; i < operations; i++) {
        int byte;
        while ((byte = getc_unlocked(file)) == EOF)
            rewind(file);
        sum = add(sum, i, (uint8_t)byte);
    }
    work_end(operations, operations, sum);
    fclose(file);
}

static void run_stdio(const bench_work *work, uint64_t operations) {
    static uint8_t buffer[MOST_PIECE];
    FILE *file = open_stdio();
    uint64_t sum = 0;
    work_begin();
    for (uint64_t i = 0; i < operations; i++) {
        while (fread(buffer, work->most, 1, file) == 0)
            rewind(file);
        sum = add(sum, i, buffer[0]);
    }
    work_end(operations, operations * work->most, sum);
    fclose(file);
}

typedef struct buffered_file {
    int fd;
    sluice_pool *pool;
    sluice_chain *chain;
    sluice_reader *reader;
} buffered_file;

static void open_library(buffered_file *file) {
    const sluice_pool_options options = {
        .size = sizeof options, .block_size = FILL, .slab_blocks = 8, .max_blocks = 64};
    file->fd = make_file();
    work_check("pool", sluice_pool_new(&options, &file->pool));
    work_check("chain", sluice_chain_new(file->pool, &file->chain));
    work_check("reader", sluice_reader_new(file->chain, &file->reader));
}

static void close_library(buffered_file *file) {
    sluice_reader_free(file->reader);
    sluice_chain_free(file->chain);
    sluice_pool_free(file->pool);
    close(file->fd);
}

/* One block more. */
static void fill(buffered_file *file) {
    struct iovec room;
    work_check("room", sluice_chain_reserve(file->chain, FILL, &room, 1));
    work_check("commit", sluice_chain_commit(file->chain, read_some(file->fd, room.iov_base, room.iov_len)));
}

/* By a window, which is what the header says for many bytes one after the other. */
static void run_library_bytes(const bench_work *work, uint64_t operations) {
    buffered_file file;
    uint64_t sum = 0;
    (void)work;
    open_library(&file);
    sluice_reader *reader = file.reader;
    sluice_reader_window window = {0};
    work_begin();
    for (uint64_t i = 0; i < operations; i++) {
        uint8_t byte;
        while (sluice_reader_window_u8(reader, &window, &byte) < 0)
            fill(&file);
        sum = add(sum, i, byte);
    }
    sluice_reader_close_window(reader, &window);
    work_end(operations, operations, sum);
    close_library(&file);
}

/* By a call for each byte by itself, with nothing kept between. */
static void run_library_alone(const bench_work *work, uint64_t operations) {
    buffered_file file;
    uint64_t sum = 0;
    (void)work;
    open_library(&file);
    sluice_reader *reader = file.reader;
    work_begin();
    for (uint64_t i = 0; i < operations; i++) {
        uint8_t byte;
        while (sluice_reader_u8(reader, &byte) < 0)
            fill(&file);
        sum = add(sum, i, byte);
    }
    work_end(operations, operations, sum);
    close_library(&file);
}

static void run_library(const bench_work *work, uint64_t operations) {
    buffered_file file;
    uint64_t sum = 0;
    open_library(&file);
    work_begin();
    for (uint64_t i = 0; i < operations; i++) {
        sluice_slice slice;
        struct iovec piece;
        while (sluice_reader_slice(file.reader, work->most, &slice) < 0)
            fill(&file);
        sluice_slice_iov(&slice, 0, &piece, 1);
        sum = add(sum, i, *(const uint8_t *)piece.iov_base);
        sluice_slice_release(&slice);
    }
    work_end(operations, operations * work->most, sum);
    close_library(&file);
}

/* clang-format off */
#define IN_ALL_VARIANTS(name, size, piece)                \
    {name, "library", run_library##piece, size, size, 0}, \
    {name, "stdio", run_stdio##piece, size, size, 0},     \
    {name, "read", run_read, size, size, 0}

const bench_work file_work[] = {
    IN_ALL_VARIANTS("file-1", 1, _bytes),
    {"file-1", "library-alone", run_library_alone, 1, 1, 0},
    IN_ALL_VARIANTS("file-4096", 4096, ),
    IN_ALL_VARIANTS("file-65536", 65536, ),
    {0},
};
