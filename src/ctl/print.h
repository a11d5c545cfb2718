/* The API's documents as tables for people. */
#ifndef CTL_PRINT_H
#define CTL_PRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

/* Members of an object; NULL, 0 or "-" where they are missing. */
const json_t *ctl_member(const json_t *object, const char *name);
double ctl_number(const json_t *object, const char *name);
const char *ctl_text(const json_t *object, const char *name);

/* The same elements in another order; to be freed. */
json_t *ctl_sorted(const json_t *array, int (*compare)(const void *, const void *));

/*
 * Makes all texts in a document ones that may be shown: names and reasons in it come from whoever
 * publishes, plays or is pulled from, and none of them may drive the operator's terminal.
 */
void ctl_make_shown(json_t *document);

/* The document as it is, but for characters of its texts that would drive a terminal, which are
 * escaped. */
void ctl_print_json(FILE *out, const json_t *document);

/* "1.25 Mbit/s", "3.4 MiB", "2 h 5 min" */
enum { CTL_WORDS = 32 };
void ctl_bits(double per_second, char text[CTL_WORDS]);
void ctl_bytes(double count, char text[CTL_WORDS]);
void ctl_duration(double seconds, char text[CTL_WORDS]);

/* @most: rows; 0: all */
void ctl_print_status(FILE *out, const json_t *snapshot);
void ctl_print_streams(FILE *out, const json_t *streams, size_t most);
void ctl_print_players(FILE *out, const json_t *players, bool slow_only, size_t most);
void ctl_print_publishers(FILE *out, const json_t *publishers);
void ctl_print_pulls(FILE *out, const json_t *pulls);
void ctl_print_forwards(FILE *out, const json_t *forwards);
void ctl_print_recordings(FILE *out, const json_t *recordings);

void ctl_print_bans(FILE *out, const json_t *bans);
void ctl_print_certificates(FILE *out, const json_t *certificates);

#endif
