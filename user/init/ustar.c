/*
 * ustar.c - POSIX ustar archives: their headers are checked, their members become files.
 *
 * The archive is input, and perhaps hostile: no length, name or number is believed before it was
 * checked, the kernel's tree of files bounds what it can make, and the worst that happens is a
 * message. Links, devices and pax headers are skipped. A member that comes again replaces the
 * earlier one.
 */
#include "ustar.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define BLOCK USTAR_BLOCK

struct ustar_header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
    char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct ustar_header) == BLOCK, "on-disk size");

/* Octal digits up to a space or NUL. False: something else is in the field. */
static bool octal(const char *field, size_t n, uint64_t *out)
{
    size_t i = 0;
    uint64_t value = 0;
    while (i < n && field[i] == ' ')
        i++;
    for (; i < n && field[i] >= '0' && field[i] <= '7'; i++)
        value = value * 8 + (uint64_t)(field[i] - '0'); /* at most 12 digits: no overflow */
    *out = value;
    return i == n || field[i] == ' ' || field[i] == 0;
}

static bool checksum_ok(const uint8_t *block)
{
    const struct ustar_header *h = (const void *)block;
    uint64_t want, sum = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        bool own = i >= offsetof(struct ustar_header, checksum)
            && i < offsetof(struct ustar_header, type);
        sum += own ? ' ' : block[i];
    }
    return octal(h->checksum, sizeof(h->checksum), &want) && want == sum;
}

static bool all_zero(const uint8_t *block)
{
    for (size_t i = 0; i < BLOCK; i++)
        if (block[i])
            return false;
    return true;
}

/* FOLDER/PREFIX/NAME, cleaned of "." and double slashes. False: "..", too long, or empty. */
static bool path_make(const struct ustar_source *s, const struct ustar_header *h, char *path)
{
    char raw[sizeof(h->prefix) + sizeof(h->name) + 3];
    size_t prefix = strnlen(h->prefix, sizeof(h->prefix)), name = strnlen(h->name, sizeof(h->name));
    memcpy(raw, h->prefix, prefix);
    raw[prefix] = '/';
    memcpy(raw + prefix + 1, h->name, name);
    raw[prefix + 1 + name] = 0;

    size_t at = strlen(s->folder), start = at;
    memcpy(path, s->folder, at);
    for (const char *p = raw; *p; ) {
        size_t n = 0;
        while (p[n] && p[n] != '/')
            n++;
        if (n == 2 && p[0] == '.' && p[1] == '.')
            return false;
        if (n > 0 && !(n == 1 && p[0] == '.')) {
            if (at + n + 2 > USTAR_PATH_MAX)
                return false;
            path[at++] = '/';
            memcpy(path + at, p, n);
            at += n;
        }
        p += n + (p[n] == '/');
    }
    path[at] = 0;
    return at > start;
}

__attribute__((format(printf, 2, 3)))
static void say(const struct ustar_source *s, const char *format, ...)
{
    char text[256];
    va_list arguments;
    int n = snprintf(text, sizeof(text), "%s: ", s->name);
    va_start(arguments, format);
    vsnprintf(text + n, sizeof(text) - (size_t)n, format, arguments);
    va_end(arguments);
    s->say(text);
}

static int folder_add(struct ustar_source *s, const char *path)
{
    int error = s->add(s, path, true, 0, 0);
    return error == -EEXIST ? 0 : error;
}

/* Makes the folders above the last component that do not exist yet. */
static int parents_add(struct ustar_source *s, char *path)
{
    int error = 0;
    for (size_t i = strlen(s->folder) + 1; path[i] && !error; i++) {
        if (path[i] != '/')
            continue;
        path[i] = 0;
        error = folder_add(s, path);
        path[i] = '/';
    }
    return error;
}

static int member_add(struct ustar_source *s, char *path, bool folder, uint64_t offset,
                      uint64_t bytes)
{
    int error = parents_add(s, path);
    if (error)
        return error;
    return folder ? folder_add(s, path) : s->add(s, path, false, offset, bytes);
}

void ustar_add(struct ustar_source *s)
{
    uint8_t block[BLOCK];
    char path[USTAR_PATH_MAX];
    unsigned zeros = 0, skipped = 0;
    uint64_t at = 0;

    for (; at <= s->bytes && s->bytes - at >= BLOCK; at += BLOCK) {
        const struct ustar_header *h = (const void *)block;
        uint64_t bytes;
        int error = s->read(s, at, block);
        if (error) {
            say(s, "cannot read the archive at byte %lu (error %d)", at, -error);
            return;
        }
        if (all_zero(block)) {
            if (++zeros == 2)
                break; /* the archive's end */
            continue;
        }
        zeros = 0;
        if (memcmp(h->magic, "ustar", 5) != 0 || !checksum_ok(block)
            || !octal(h->size, sizeof(h->size), &bytes)) {
            say(s, "no ustar header at byte %lu; what follows is ignored", at);
            return;
        }
        if (bytes > s->bytes - at - BLOCK) {
            say(s, "%.40s is cut off (%lu bytes, %lu are there); ignored", h->name, bytes,
                s->bytes - at - BLOCK);
            return;
        }
        bool file = h->type == '0' || h->type == 0, folder = h->type == '5';
        if (path_make(s, h, path)) {
            if (!file && !folder)
                skipped++;
            else if ((error = member_add(s, path, folder, at + BLOCK, bytes)))
                say(s, "cannot add %s (error %d)", path, -error);
            if (error == -ENOSPC || error == -ENOMEM)
                return;
        } else if (file) {
            skipped++;
        }
        at += (bytes + BLOCK - 1) / BLOCK * BLOCK;
    }
    if (skipped)
        say(s, "skipped what is no file or folder, or has a bad name: %u", skipped);
}
