/* Files with passwords: read completely, and rejected if other users can read them. */
#ifndef SLUICED_SECRET_FILE_H
#define SLUICED_SECRET_FILE_H

#include <stdbool.h>

struct stat;

enum { SECRET_FILE_MAX = 65536, SECRET_FILE_ERROR = 256 };

/*
 * Whether only this user and root may read it. systemd (LoadCredential=) gives a service files of
 * root by an access control list, whose mask appears as the group's permission; so in
 * $CREDENTIALS_DIRECTORY a file of root may have that.
 */
bool secret_file_is_private(const char *path, const struct stat *status);

/* The file's text, with a NUL behind it. 0, or -errno with a text that says what is wrong. */
int secret_file_read(const char *path, char text[SECRET_FILE_MAX + 1], char error[SECRET_FILE_ERROR]);

/*
 * Calls for each line of the file; empty ones and those that begin with "#" are stepped over.
 * @call: NULL, or what is wrong with the line, which ends it. 0, or -errno with a text that says
 * what is wrong, and where, with nothing of the line
 */
typedef const char *secret_file_line_fn(const char *line, void *user);
int secret_file_each_line(const char *path, secret_file_line_fn *call, void *user, char error[SECRET_FILE_ERROR]);

#endif
