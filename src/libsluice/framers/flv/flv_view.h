/* Parsing the first bytes of a tag's payload. */
#ifndef SLUICE_FRAMERS_FLV_VIEW_H
#define SLUICE_FRAMERS_FLV_VIEW_H

#include <sluice/flv.h>

#include "reader/cursor.h"

/*
 * Reads the header of a payload. Never fails: a payload that is too short for its own header, or
 * has too many modifiers in it, is SLUICE_FLV_OTHER, all header, with what could be read.
 */
void flv_view(sluice_flv_type type, const sluice_slice *payload, sluice_flv_view *ret_view);

#endif
