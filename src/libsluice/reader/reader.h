/* The inside of a reader, for what is built on one. */
#ifndef SLUICE_READER_READER_H
#define SLUICE_READER_READER_H

#include <sluice/reader.h>

#include "memory/chain.h"

/* The readers over one chain that is not theirs. A reader is in one list at most, and leaves it
 * when reset or freed. */
typedef struct reader_list {
    sluice_reader *first;
} reader_list;

void reader_enlist(sluice_reader *reader, reader_list *list);

/*
 * The chain goes. Its readers are cut off: their marks are dropped, and calls that need bytes end
 * with -ECANCELED until the reader is reset. What skips owe, how far the stream was read, and a
 * view that is out stay.
 */
void readers_cut(reader_list *list);

/*
 * Every call begins here: ends the last view's life, and pays what skips owe. 0, or why that could
 * not be done. What the call waits from here on has one deadline.
 */
int reader_begin(sluice_reader *reader);

/* Has the source bring the chain to @need bytes. 0, or why it holds fewer. */
int reader_want(sluice_reader *reader, size_t need);

sluice_chain *reader_chain(const sluice_reader *reader);

/* The chain, with all that it holds, has come to another place in memory. */
void reader_move(sluice_reader *reader, sluice_chain *chain);

#endif
