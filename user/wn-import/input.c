/*
 * input.c - reads text files line by line, from any byte on.
 *
 * A transaction that is run again seeks to the byte that the container names, so nothing here
 * needs to be rolled back. Numbers are parsed by hand: sscanf would take most of the import.
 */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int input_open(struct input *in, const char *folder, const char *name)
{
    static const char *const below[] = {"", "wordnet/", "dict/"};
    char path[512];
    struct stat status;

    memset(in, 0, sizeof(*in));
    in->fd = -1;
    for (size_t i = 0; i < sizeof(below) / sizeof(below[0]) && in->fd < 0; i++) {
        snprintf(path, sizeof(path), "%s/%s%s", folder, below[i], name);
        in->fd = open(path, O_RDONLY);
    }
    if (in->fd < 0)
        return -errno;
    in->buffer = malloc(INPUT_BUFFER_BYTES);
    if (in->buffer == NULL || fstat(in->fd, &status) != 0) {
        int error = in->buffer == NULL ? -ENOMEM : -errno;
        input_close(in);
        return error;
    }
    in->file_bytes = (uint64_t)status.st_size;
    return 0;
}

void input_close(struct input *in)
{
    if (in->fd >= 0)
        close(in->fd);
    free(in->buffer);
    in->fd = -1;
    in->buffer = NULL;
}

int input_seek(struct input *in, uint64_t offset)
{
    if (offset >= in->offset && offset - in->offset <= in->end - in->start) {
        in->start += (size_t)(offset - in->offset);
    } else {
        if (lseek(in->fd, (off_t)offset, SEEK_SET) < 0)
            return -errno;
        in->start = in->end = 0;
    }
    in->offset = offset;
    return 0;
}

/* More bytes behind those not yet used. 1, 0 at the end of the file or with a full buffer. */
static int input_fill(struct input *in)
{
    memmove(in->buffer, in->buffer + in->start, in->end - in->start);
    in->end -= in->start;
    in->start = 0;
    if (in->end == INPUT_BUFFER_BYTES)
        return 0;
    ssize_t got = read(in->fd, in->buffer + in->end, INPUT_BUFFER_BYTES - in->end);
    if (got < 0)
        return -errno;
    in->end += (size_t)got;
    return got > 0;
}

int input_line(struct input *in, struct fields *line)
{
    for (;;) {
        const char *text = in->buffer + in->start;
        const char *end = memchr(text, '\n', in->end - in->start);
        if (end != NULL) {
            *line = (struct fields){text, end, 0};
            in->start += (size_t)(end - text) + 1;
            in->offset += (size_t)(end - text) + 1;
            return 1;
        }
        int more = input_fill(in);
        if (more < 0)
            return more;
        if (more == 0)
            return in->end > in->start ? -EINVAL : 0;   /* a line that has no end */
    }
}

const char *field_text(struct fields *line, size_t *bytes)
{
    const char *text = line->at;
    const char *end = memchr(text, ' ', (size_t)(line->end - text));
    if (end == NULL)
        end = line->end;
    *bytes = (size_t)(end - text);
    if (*bytes == 0)
        line->bad = 1;
    line->at = end < line->end ? end + 1 : end;
    return text;
}

void field_skip(struct fields *line)
{
    size_t bytes;
    field_text(line, &bytes);
}

uint32_t field_decimal(struct fields *line)
{
    uint32_t value = 0;
    const char *at = line->at;

    for (; at < line->end && *at >= '0' && *at <= '9'; at++)
        value = value * 10 + (uint32_t)(*at - '0');
    if (at == line->at || (at < line->end && *at != ' '))
        line->bad = 1;
    line->at = at < line->end ? at + 1 : at;
    return value;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

uint32_t field_hex(struct fields *line, int digits)
{
    uint32_t value = 0;
    int count = 0;

    while (line->at < line->end && hex_digit(*line->at) >= 0 && (digits == 0 || count < digits)) {
        value = value * 16 + (uint32_t)hex_digit(*line->at++);
        count++;
    }
    if (count == 0 || (digits != 0 && count != digits))
        line->bad = 1;
    if (line->at < line->end && *line->at == ' ')
        line->at++;
    return value;
}
