/*
 * input.h - a text file, line by line, from any byte on; and the fields of a line.
 */
#ifndef WN_IMPORT_INPUT_H
#define WN_IMPORT_INPUT_H

#include <stddef.h>
#include <stdint.h>

#define INPUT_BUFFER_BYTES 65536            /* longer than the longest line (13 KB) */

struct input {
    int fd;                                 /* -1: there is no such file */
    uint64_t file_bytes;
    uint64_t offset;                        /* in the file, of buffer[start] */
    size_t start, end;                      /* buffer[start..end) is read and not yet used */
    char *buffer;
};

/* Part of a line. A field that is missing or malformed sets bad; the fields after it are 0. */
struct fields {
    const char *at, *end;
    int bad;
};

/* Find NAME in the folder, or in its wordnet/ or dict/. 0, -ENOENT, -ENOMEM or another error. */
int input_open(struct input *in, const char *folder, const char *name);
void input_close(struct input *in);

/* The next line begins at offset. Costs nothing when it does so anyway. */
int input_seek(struct input *in, uint64_t offset);

/* The next line without its end, good until the next call. 1, 0 at the end, or -errno. */
int input_line(struct input *in, struct fields *line);

uint32_t field_decimal(struct fields *line);
uint32_t field_hex(struct fields *line, int digits);    /* digits 0: up to the blank */
const char *field_text(struct fields *line, size_t *bytes);
void field_skip(struct fields *line);

#endif
