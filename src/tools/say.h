/*
 * What a tool has to say to its user: a line on standard error behind the tool's name, with nothing
 * in it that drives the terminal.
 */
#ifndef TOOLS_SAY_H
#define TOOLS_SAY_H

__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

#endif
