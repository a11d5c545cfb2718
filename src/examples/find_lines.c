/*
 * example: a file, line by line
 *
 * find_lines WORD FILE prints the lines that contain WORD. The file is read ahead while lines are
 * compared. A line that lies in one block is compared in place; only one that straddles blocks is
 * copied, to the scratch memory.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_LINE = 65536 };

static void show(const char *line, size_t length, const char *word) {
    if (memmem(line, length, word, strlen(word)))
        printf("%.*s\n", (int)length, line);
}

static int find(sluice_reader *reader, const char *word) {
    static char scratch[LONGEST_LINE];
    const char *line;
    size_t length;
    int error;
    while ((error = sluice_reader_line(reader, scratch, sizeof scratch, &line, &length)) == 0)
        show(line, length, word);
    if (error != -ENODATA)
        return error;
    /* What follows the last line end is not a line for the reader. */
    if (sluice_reader_buffered(reader) > 0)
        show(scratch, sluice_reader_copy(reader, scratch, sizeof scratch), word);
    return 0;
}

static int find_in_file(sluice_loop *loop, int fd, const char *word) {
    sluice_file *file;
    sluice_reader *reader;
    int error = sluice_file_new(loop, fd, NULL, NULL, NULL, &file);
    if (error) {
        close(fd); /* still ours */
        return error;
    }
    error = sluice_reader_new(sluice_file_chain(file), &reader);
    if (!error) {
        sluice_file_attach_reader(file, reader); /* from now on its calls wait for the file */
        error = find(reader, word);
        sluice_reader_free(reader);
    }
    sluice_file_close(file);
    return error;
}

int main(int argc, char **argv) {
    sluice_pool *pool = NULL;
    sluice_loop *loop = NULL;
    if (argc != 3) {
        fprintf(stderr, "Usage: find_lines WORD FILE\n");
        return 2;
    }
    int fd = open(argv[2], O_RDONLY | O_CLOEXEC);
    int error = fd < 0 ? -errno : sluice_pool_new(NULL, &pool);
    if (!error)
        error = sluice_loop_new(pool, NULL, &loop);
    if (!error)
        error = find_in_file(loop, fd, argv[1]);
    if (error)
        fprintf(stderr, "find_lines: %s: %s\n", argv[2], strerror(-error));
    sluice_loop_free(loop);
    sluice_pool_free(pool);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
