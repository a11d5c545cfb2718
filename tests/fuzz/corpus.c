/*
 * Runs a target without libFuzzer, on whatever compiler: each file that is named, and each file of
 * each folder, in many more ways than while fuzzing. FUZZ_WAYS says in how many.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz/fuzz.h"

enum { WAYS = 16 };

static unsigned run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    long size;
    if (!file || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    uint8_t *bytes = (uint8_t *)fuzz_copy("", 0);
    if (size > 0) {
        free(bytes);
        bytes = malloc((size_t)size);
        FUZZ_CHECK(bytes && fread(bytes, 1, (size_t)size, file) == (size_t)size);
    }
    fclose(file);
    /* What ends the process says which input it was. */
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(bytes, (size_t)size);
    free(bytes);
    return 1;
}

static unsigned run_path(const char *path) {
    struct dirent **entries;
    struct stat about;
    unsigned files = 0;
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode))
        return run_file(path);
    int count = scandir(path, &entries, NULL, alphasort);
    FUZZ_CHECK(count >= 0);
    for (int i = 0; i < count; i++) {
        char name[4096];
        if (entries[i]->d_name[0] != '.') {
            snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
            files += run_path(name);
        }
        free(entries[i]);
    }
    free(entries);
    return files;
}

int main(int argc, char **argv) {
    unsigned files = 0;
    fuzz_ways = WAYS;
    LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++)
        files += run_path(argv[i]);
    printf("%u inputs, each whole and in %u other ways\n", files, fuzz_ways);
    return files == 0;
}
