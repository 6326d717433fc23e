/*
 * archive_files.c - what an archive holds: its files, and the groups in them, one after the other.
 */
#include "archive.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define GROUP_MOST (1u << 30)

/* ---- files */

static int file_order(const void *a, const void *b)
{
    const struct archive_file *x = a, *y = b;
    if (x->lsn != y->lsn)
        return x->lsn < y->lsn ? -1 : 1;
    return x->time < y->time ? -1 : x->time > y->time;
}

char *archive_name(const struct archive *archive, const struct archive_file *file, bool base)
{
    size_t bytes = strlen(archive->path) + ARCHIVE_NAME_BYTES;
    char *name = malloc(bytes);
    if (name && base)
        snprintf(name, bytes, "%s/base-%016llx-%016llx.store", archive->path,
                 (unsigned long long)file->lsn, (unsigned long long)file->time);
    else if (name)
        snprintf(name, bytes, "%s/log-%016llx.groups", archive->path,
                 (unsigned long long)file->lsn);
    return name;
}

char *archive_load_name(const struct archive *archive, uint64_t csn)
{
    size_t bytes = strlen(archive->path) + ARCHIVE_NAME_BYTES;
    char *name = malloc(bytes);
    if (name)
        snprintf(name, bytes, "%s/load-%016llx.pages", archive->path, (unsigned long long)csn);
    return name;
}

/* Exactly as archive_name writes it. */
static bool name_read(const struct archive *archive, const char *name, struct archive_file *file,
                      bool *base)
{
    unsigned long long lsn, time = 0;
    *base = sscanf(name, "base-%16llx-%16llx.store", &lsn, &time) == 2;
    if (!*base && sscanf(name, "log-%16llx.groups", &lsn) != 1)
        return false;
    *file = (struct archive_file){ .lsn = lsn, .time = *base ? time : 0 };
    char *right = archive_name(archive, file, *base);
    bool same = right && !strcmp(right + strlen(archive->path) + 1, name);
    free(right);
    return same;
}

static bool file_note(struct archive *archive, const char *name)
{
    struct archive_file file;
    struct stat status;
    bool base;
    if (!name_read(archive, name, &file, &base))
        return true;
    char *path = archive_name(archive, &file, base);
    bool good = path && stat(path, &status) == 0;
    free(path);
    if (!good || !karray_room(base ? (void **)&archive->bases : (void **)&archive->logs,
                              base ? archive->base_count : archive->log_count,
                              base ? &archive->base_room : &archive->log_room, sizeof file))
        return false;
    file.bytes = (uint64_t)status.st_size;
    if (base)
        archive->bases[archive->base_count++] = file;
    else
        archive->logs[archive->log_count++] = file;
    return true;
}

int archive_open(struct archive *archive, const char *path)
{
    *archive = (struct archive){ .path = path };
    DIR *folder = opendir(path);
    bool good = folder != NULL;
    for (struct dirent *entry; good && (entry = readdir(folder));)
        good = file_note(archive, entry->d_name);
    if (!good)
        fprintf(stderr, "kstore: %s: %s\n", path, strerror(errno));
    if (folder)
        closedir(folder);
    if (archive->base_count)
        qsort(archive->bases, archive->base_count, sizeof *archive->bases, file_order);
    if (archive->log_count)
        qsort(archive->logs, archive->log_count, sizeof *archive->logs, file_order);
    return good ? SOUND : CANNOT;
}

void archive_close(struct archive *archive)
{
    free(archive->bases);
    free(archive->logs);
    *archive = (struct archive){ .path = archive->path };
}

/* ---- groups */

static int damaged(const struct archive_reader *reader, const char *why)
{
    char *name = archive_name(reader->archive, &reader->archive->logs[reader->file - 1], false);
    progress_end();
    fprintf(stderr, "kstore: %s: byte %llu %s\n", name ? name : "?",
            (unsigned long long)reader->at, why);
    free(name);
    return -EUCLEAN;
}

static int file_open(struct archive_reader *reader, uint32_t number)
{
    char *name = archive_name(reader->archive, &reader->archive->logs[number - 1], false);
    archive_reader_close(reader);
    reader->descriptor = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (reader->descriptor < 0)
        fprintf(stderr, "kstore: %s: %s\n", name ? name : "?", strerror(errno));
    free(name);
    if (reader->descriptor < 0)
        return -EIO;
    reader->file = number;
    reader->at = 0;
    return 0;
}

void archive_reader_close(struct archive_reader *reader)
{
    if (reader->file)
        close(reader->descriptor);
    free(reader->buffer);
    *reader = (struct archive_reader){ .archive = reader->archive };
}

static int bytes_read(struct archive_reader *reader, size_t from, size_t bytes)
{
    if (bytes > reader->room) {
        uint8_t *more = realloc(reader->buffer, bytes);
        if (!more)
            return -ENOMEM;
        reader->buffer = more;
        reader->room = bytes;
    }
    while (from < bytes) {
        ssize_t got = pread(reader->descriptor, reader->buffer + from, bytes - from,
                            (off_t)(reader->at + from));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return damaged(reader, "cannot be read"), -EIO;
        from += (size_t)got;
    }
    return 0;
}

/* The group at reader->at; its size says only its header, which nobody has verified. */
static int group_read(struct archive_reader *reader, size_t *bytes)
{
    uint64_t left = reader->archive->logs[reader->file - 1].bytes - reader->at;
    int error = left < BLOCK_BYTES ? damaged(reader, "begins no whole group")
                                   : bytes_read(reader, 0, BLOCK_BYTES);
    if (error)
        return error;
    const struct group_disk *header = (const void *)reader->buffer;
    *bytes = (size_t)le32_get(header->blocks) * BLOCK_BYTES;
    if (le64_get(header->magic) != GROUP_MAGIC || !*bytes || *bytes > GROUP_MOST || *bytes > left)
        return damaged(reader, "begins no whole group");
    return bytes_read(reader, BLOCK_BYTES, *bytes);
}

/* The last file that begins at or before lsn, or the first one. */
static uint32_t file_of(const struct archive *archive, uint64_t lsn)
{
    uint32_t number = 1;
    while (number < archive->log_count && archive->logs[number].lsn <= lsn)
        number++;
    return number;
}

int archive_group(struct archive_reader *reader, uint64_t lsn, const void **group, size_t *bytes)
{
    const struct archive *archive = reader->archive;
    if (!archive->log_count)
        return 0;
    int error = reader->file ? 0 : file_open(reader, file_of(archive, lsn));
    while (!error) {
        if (reader->at == archive->logs[reader->file - 1].bytes) {
            if (reader->file == archive->log_count)
                return 0;
            error = file_open(reader, reader->file + 1);
            continue;
        }
        error = group_read(reader, bytes);
        if (error)
            break;
        const struct group_disk *header = (const void *)reader->buffer;
        if (!reader->at && le64_get(header->lsn) != archive->logs[reader->file - 1].lsn)
            return damaged(reader, "begins a group of another LSN than the file's name says");
        reader->at += *bytes;
        *group = header;
        if (le64_get(header->lsn) >= lsn)
            return 1;
    }
    return error;
}

/* ---- times */

uint64_t time_parse(const char *text)
{
    struct tm when = { .tm_isdst = 0 };
    char *end = strptime(text, "%Y-%m-%d", &when);
    if (end && (*end == 'T' || *end == ' '))
        end = strptime(end + 1, "%H:%M:%S", &when);
    time_t seconds = end ? timegm(&when) : 0;
    uint64_t part = 0, unit = 1000000000;
    if (end && *end == '.')
        for (end++; *end >= '0' && *end <= '9'; end++)
            part += (uint64_t)(*end - '0') * (unit /= 10);
    if (end && *end == 'Z')
        end++;
    return !end || *end || seconds <= 0 ? 0 : (uint64_t)seconds * 1000000000 + part;
}

const char *time_text(uint64_t nanoseconds, char out[40])
{
    time_t seconds = (time_t)(nanoseconds / 1000000000);
    struct tm when;
    size_t used = nanoseconds && gmtime_r(&seconds, &when)
                      ? strftime(out, 20, "%Y-%m-%dT%H:%M:%S", &when) : 0;
    if (!used)
        return strcpy(out, "an unknown time");
    snprintf(out + used, 40 - used, ".%09lluZ", (unsigned long long)(nanoseconds % 1000000000));
    return out;
}
