/*
 * archive.h - a directory that holds copies of a store, and its log since: what `kstore archive`
 * fills and `kstore restore` reads.
 *
 *     base-LSN-TIME.store    a copy (kstore backup), with the log up to LSN; made at TIME
 *     log-LSN.groups         groups of the log as they lay in the ring, the first one at LSN
 *     load-CSN.pages         the pages that transaction CSN had loaded past the log (ps_bulk), in
 *                            the order of its records, which have their CRCs
 *
 * Both numbers have 16 hexadecimal digits; TIME is in nanoseconds since 1970, UTC. A file gets its
 * name when it is whole and on stable storage; others are not looked at. Everything in them is
 * input: it is checked before it is believed.
 */
#ifndef KATYDID_KSTORE_ARCHIVE_H
#define KATYDID_KSTORE_ARCHIVE_H

#include "kstore.h"

#define ARCHIVE_FILE_BYTES (64ull << 20)        /* of a log file, about */
#define ARCHIVE_NAME_BYTES 64u

struct archive_file {
    uint64_t lsn, time;         /* of a base; of a log file time is 0 */
    uint64_t bytes;
};

/* Ascending by LSN. */
struct archive {
    const char *path;
    struct archive_file *bases, *logs;
    uint32_t base_count, base_room, log_count, log_room;
};

/* archive_open looks at what lies in the directory. SOUND, or CANNOT after a message. */
int  archive_open(struct archive *archive, const char *path);
void archive_close(struct archive *archive);
/* "path/base-....store" or "path/log-....groups"; the caller frees it. NULL: no memory. */
char *archive_name(const struct archive *archive, const struct archive_file *file, bool base);

/* "path/load-....pages", likewise. */
char *archive_load_name(const struct archive *archive, uint64_t csn);
/* archive_load.c: the loads in the group in view->buffer are put away; SOUND, or after a message
 * DAMAGED (a page was changed before that), CANNOT. */
int  archive_loads_put(const struct archive *archive, struct image *image, const struct kview *view,
                       const struct kgroup *group);

/* Groups, forward only. All zero but `archive` at first. */
struct archive_reader {
    const struct archive *archive;
    uint32_t file;              /* that is open is logs[file - 1]; 0: none yet */
    int      descriptor;
    uint64_t at;
    uint8_t *buffer;
    size_t   room;
};
/* The next group whose LSN is not below `lsn`: 1, 0 (there are no more), or -EIO, -ENOMEM,
 * -EUCLEAN, after a message. */
int  archive_group(struct archive_reader *reader, uint64_t lsn, const void **group, size_t *bytes);
void archive_reader_close(struct archive_reader *reader);
/* Prints what it holds. DAMAGED: it has a hole. */
int  archive_list(const struct archive *archive);

/* "2026-11-28T09:30:00.5Z" and back, in nanoseconds since 1970. 0: no such time. */
uint64_t time_parse(const char *text);
const char *time_text(uint64_t nanoseconds, char out[40]);      /* "an unknown time" */

#endif
