/*
 * What the fuzz targets have in common. A target is a file fuzz_NAME.c with one function,
 * fuzz_target(), which gives an input to the library and shows all that comes out of it. The
 * harness calls it several times for each input: first with the bytes in one piece, then in pieces
 * of other lengths, in blocks of other sizes, some of the payloads kept for a while. What is shown
 * must be the same every time, bytes that are kept must not change, and nothing may stay held.
 *
 * How an input is cut follows from the input, so an input that fails does so whenever it is run.
 */
#ifndef SLUICE_TESTS_FUZZ_FUZZ_H
#define SLUICE_TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/chain.h>
#include <sluice/http.h>
#include <sluice/pool.h>
#include <sluice/slice.h>

enum {
    FUZZ_SETTINGS = 2, /* the first bytes of an input choose limits, roles and the like */
    FUZZ_HELD = 8,     /* most slices that are kept at a time */
};

/* A slice that is kept, and what its bytes were. */
typedef struct fuzz_held {
    sluice_slice slice;
    uint64_t hash;
} fuzz_held;

/* One way through an input. */
typedef struct fuzz_run {
    sluice_pool *pool;
    uint8_t settings[FUZZ_SETTINGS]; /* the same in each run */
    const uint8_t *bytes;            /* the input behind them */
    size_t size;
    size_t done;          /* bytes that have been fed, or read as records */
    bool whole;           /* the run to which the others are compared */
    bool lazy;            /* ask a framer only when it has as much as it needs */
    unsigned keep;        /* of 256 slices so many are kept */
    unsigned mean;        /* bytes of a piece, about; 0: no cuts */
    uint64_t random;      /* the state of fuzz_random() */
    uint64_t digest;      /* of what has been shown */
    uint64_t gathered;    /* of pieces */
    uint64_t gathered_at; /* their bytes */
    fuzz_held held[FUZZ_HELD];
} fuzz_run;

/* The target. */
void fuzz_target(fuzz_run *run);

/* What libFuzzer and the plain driver call. The first lets FUZZ_WAYS say in how many ways each
 * input goes. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* How many ways each input goes besides the whole one. */
extern unsigned fuzz_ways;

/* Ends the process, saying what is wrong, unless it is true. */
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_fail(#condition, __FILE__, __LINE__))
_Noreturn void fuzz_fail(const char *text, const char *file, int line);

/* Numbers that follow from the input and the run; below @n. */
uint32_t fuzz_random(fuzz_run *run, uint32_t n);

/* ---- What goes in ---- */

/* The length of the next piece of @n bytes that there are: at least 1, and all of them in the whole
 * run. */
size_t fuzz_piece(fuzz_run *run, size_t n);

/* Appends the next piece of the input to the chain; false, and nothing is done, at its end. */
bool fuzz_feed(fuzz_run *run, sluice_chain *chain);

/* Appends these bytes, cut as this run cuts. */
void fuzz_append(fuzz_run *run, sluice_chain *chain, const void *bytes, size_t n);

/* The bytes as a slice, cut as this run cuts; the caller's. */
sluice_slice fuzz_slice(fuzz_run *run, const void *bytes, size_t n);

/* A copy behind which memory traps, to be freed: for what is read from one piece. */
char *fuzz_copy(const void *bytes, size_t n);

/*
 * The next record of the input: a byte, a length in two bytes and so many bytes, or as many as
 * there are. False at its end.
 */
bool fuzz_record(fuzz_run *run, uint8_t *ret_kind, const uint8_t **ret_bytes, size_t *ret_size);

/* ---- What comes out ---- */

void fuzz_show(fuzz_run *run, const char *what, int64_t value);
void fuzz_show_bytes(fuzz_run *run, const char *what, const void *bytes, size_t n);
void fuzz_show_text(fuzz_run *run, const char *what, sluice_http_text text);
void fuzz_show_slice(fuzz_run *run, const char *what, const sluice_slice *slice);

/* For what may be told in pieces that depend on the cuts: only all of them together are shown, by
 * the second call. */
void fuzz_gather(fuzz_run *run, const sluice_slice *slice);
void fuzz_show_gathered(fuzz_run *run, const char *what);

/* A hash of a slice's bytes. */
uint64_t fuzz_hash(const sluice_slice *slice);

/* Keeps a frame's slice, by chance; it is released later, in any order. */
void fuzz_keep(fuzz_run *run, sluice_slice *slice);

/* ---- Framers ---- */

/* What a framer has in common with the others. */
typedef struct fuzz_framer {
    /* shows the frame when it returns 1 */
    int (*next)(void *framer, sluice_chain *chain, fuzz_run *run);
    size_t (*need)(const void *framer); /* may be NULL */
} fuzz_framer;

/*
 * Feeds the input to a framer until its end or an error, which is shown, and must stay. Checks that
 * a framer that needs more says nothing before it has come.
 */
void fuzz_drive(fuzz_run *run, const fuzz_framer *framer, void *state);

#endif
