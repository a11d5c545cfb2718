/* Files with passwords: read whole, and refused where somebody else could have read them. */
#ifndef SLUICED_PRIVATE_FILE_H
#define SLUICED_PRIVATE_FILE_H

enum { PRIVATE_FILE_MAX = 65536, PRIVATE_FILE_ERROR = 256 };

/* The file's text, with a NUL behind it. 0, or -errno with a text that says what is wrong. */
int private_file_read(const char *path, char text[PRIVATE_FILE_MAX + 1], char error[PRIVATE_FILE_ERROR]);

#endif
