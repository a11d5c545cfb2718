/**
 * @file visibility.h
 * Marks what the shared library exports; everything else is hidden.
 */
#ifndef SLUICE_VISIBILITY_H
#define SLUICE_VISIBILITY_H

/** A symbol that the shared library exports. */
#define SLUICE_API __attribute__((visibility("default")))

#endif
