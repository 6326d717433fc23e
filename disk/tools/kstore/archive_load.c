/*
 * archive_load.c - pages that a transaction loaded past the log, for an archive of that log.
 *
 * They are copied from their homes when the group that names them is put away, and each must have
 * the CRC that its record says. One that was changed since then is lost for the archive: the load
 * cannot be restored, only what a later base has of it.
 */
#include "archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct loading {
    const struct kslot *super;
    struct disk_io from;
    FILE *to;
    const char *name;
};

static int changed(const struct loading *l, uint64_t page)
{
    progress_end();
    fprintf(stderr, "kstore: %s: page %llu of a load (ps_bulk) was changed before it was archived: "
            "`kstore archive --base` makes a new base; what was committed from the load to there "
            "cannot be restored one by one\n", l->name, (unsigned long long)page);
    return DAMAGED;
}

static int record_put(struct loading *l, const struct record_disk *record)
{
    const le32 *crc = (const le32 *)(record + 1);
    uint64_t first = le64_get(record->page), n = l->super->extent_pages;
    uint64_t count = le32_get(record->data_bytes) / sizeof *crc;
    for (uint64_t i = 0; i < count; i++) {
        uint8_t page[BLOCK_BYTES];
        uint64_t extent = le64_get(record->physical) + (first + i) / n - first / n;
        uint64_t offset = l->super->data_start + extent * l->super->extent_bytes +
                          (first + i) % n * BLOCK_BYTES;
        if (extent >= l->super->extents)
            return changed(l, first + i);
        if (l->from.read(l->from.context, offset, page, sizeof page) ||
            kcheck_crc(0, page, sizeof page) != le32_get(crc[i]))
            return changed(l, first + i);
        if (fwrite(page, sizeof page, 1, l->to) != 1) {
            fprintf(stderr, "kstore: %s: %s\n", l->name, strerror(errno));
            return CANNOT;
        }
    }
    return SOUND;
}

/* The records in [at, end) of the group, of one transaction, which has some. */
static int load_put(const struct archive *archive, struct loading *l, const uint8_t *group,
                    size_t at, size_t end, uint64_t csn)
{
    char *part = NULL, *name = archive_load_name(archive, csn);
    int status = name && asprintf(&part, "%s/part-load", archive->path) > 0 ? SOUND : CANNOT;
    l->name = name;
    l->to = status ? NULL : fopen(part, "we");
    status = l->to ? SOUND : CANNOT;
    for (size_t next = at; at < end && !status; at = next) {
        const struct record_disk *record = kreplay_record(group, end, at, &next);
        if (record && le16_get(record->type) == RECORD_PAGE_HOME)
            status = record_put(l, record);
    }
    bool good = !status && !fflush(l->to) && !fsync(fileno(l->to));
    if (l->to)
        good = !fclose(l->to) && good;
    if (good && rename(part, name))
        good = false;
    if (!status && !good)
        fprintf(stderr, "kstore: %s: %s\n", name, strerror(errno));
    free(part);
    free(name);
    return status ? status : good ? SOUND : CANNOT;
}

int archive_loads_put(const struct archive *archive, struct image *image, const struct kview *view,
                      const struct kgroup *group)
{
    struct loading l = { .super = &view->super, .from = image_disk_io(image) };
    const struct group_disk *header = (const void *)view->buffer;
    size_t end = sizeof *header + le32_get(header->payload_bytes), at = sizeof *header, next = at;
    size_t first = at;
    bool loads = false;
    int status = SOUND;
    for (uint32_t left = group->records; left && !status; left--, at = next) {
        const struct record_disk *record = kreplay_record(view->buffer, end, at, &next);
        if (!record)
            return SOUND;               /* the restore will say so */
        loads |= le16_get(record->type) == RECORD_PAGE_HOME;
        if (le16_get(record->type) != RECORD_COMMIT)
            continue;
        if (loads)
            status = load_put(archive, &l, view->buffer, first, at, group->lsn + at);
        first = next;
        loads = false;
    }
    return status;
}
