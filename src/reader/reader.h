/* The inside of a reader, for what is built on one. */
#ifndef SLUICE_READER_READER_H
#define SLUICE_READER_READER_H

#include <sluice/reader.h>

/* Ends the last view's life and pays what skips owe. The chain, or NULL while they owe more. */
sluice_chain *reader_chain(sluice_reader *reader);

#endif
