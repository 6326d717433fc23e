/*
 * archive_list.c - kstore restore --list: what an archive holds, group by group, and its holes.
 */
#include "archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

struct listing {
    const struct archive *archive;
    uint8_t  uuid[16];
    uint64_t ring;
    uint64_t first, end, groups, transactions, from_time, to_time;  /* of a run without holes */
    uint32_t crc, holes;
};

/* The uuid, and the size of the ring, say the newest base that can be read. */
static int store_tell(struct listing *l)
{
    int error = -ENODATA;
    for (uint32_t i = l->archive->base_count; error && i--;) {
        struct image image;
        struct kview view = { .quiet = true, .archived = true };
        char *name = archive_name(l->archive, &l->archive->bases[i], true);
        error = !name || image_open(&image, name, O_RDONLY) ? -EIO : 0;
        if (!error) {
            view.io = image_kcheck_io(&image);
            kslots_read(&view);
            error = kslots_choose(&view);
            memcpy(l->uuid, view.super.uuid, sizeof l->uuid);
            l->ring = view.super.log_bytes;
            kview_close(&view);
            image_close(&image);
        }
        if (error)
            printf("%s: %s\n", name ? name : "?", error_text(error));
        free(name);
    }
    return error;
}

static bool group_holds(const struct listing *l, const uint8_t *group, size_t bytes)
{
    const struct group_disk *h = (const void *)group;
    uint32_t crc = kview_seed(l->uuid, CRC_GROUP, le64_get(h->lsn), le32_get(h->epoch));
    crc = kcheck_crc(crc, group, offsetof(struct group_disk, crc));
    return kcheck_crc(crc, group + sizeof *h, bytes - sizeof *h) == le32_get(h->crc);
}

static bool group_follows(const struct listing *l, const struct group_disk *h)
{
    uint64_t lsn = le64_get(h->lsn);
    return le32_get(h->prev_crc) == l->crc &&
           (lsn == l->end || lsn == (l->end + l->ring - 1) / l->ring * l->ring);
}

static void run_print(const struct listing *l)
{
    char from[40], to[40];
    if (l->groups)
        printf("log   LSN %llu to %llu: %llu groups, %llu transactions, %s to %s\n",
               (unsigned long long)l->first, (unsigned long long)l->end,
               (unsigned long long)l->groups, (unsigned long long)l->transactions,
               time_text(l->from_time, from), time_text(l->to_time, to));
}

static void transactions_note(struct listing *l, const uint8_t *group, size_t bytes)
{
    const struct group_disk *h = (const void *)group;
    size_t at = sizeof *h, next;
    for (uint32_t i = 0; i < le32_get(h->records); i++, at = next) {
        const struct record_disk *record = kreplay_record(group, bytes, at, &next);
        if (!record)
            break;
        if (le16_get(record->type) != RECORD_COMMIT)
            continue;
        l->transactions++;
        l->to_time = le64_get(record->base) ? le64_get(record->base) : l->to_time;
        l->from_time = l->from_time ? l->from_time : l->to_time;
    }
}

static void group_note(struct listing *l, const uint8_t *group, size_t bytes)
{
    const struct group_disk *h = (const void *)group;
    if (!group_holds(l, group, bytes) || (l->groups && !group_follows(l, h))) {
        run_print(l);
        if (l->groups)
            printf("HOLE  from LSN %llu to %llu: what was committed in between is missing, or was "
                   "changed\n", (unsigned long long)l->end, (unsigned long long)le64_get(h->lsn));
        else
            printf("HOLE  the group of LSN %llu was changed\n",
                   (unsigned long long)le64_get(h->lsn));
        l->holes++;
        l->groups = l->transactions = l->from_time = 0;
        if (!group_holds(l, group, bytes))
            return;
    }
    if (!l->groups++)
        l->first = le64_get(h->lsn);
    transactions_note(l, group, bytes);
    l->end = le64_get(h->lsn) + bytes;
    l->crc = le32_get(h->crc);
}

int archive_list(const struct archive *archive)
{
    struct listing l = { .archive = archive };
    struct archive_reader reader = { .archive = archive };
    char when[40];
    for (uint32_t i = 0; i < archive->base_count; i++)
        printf("base  LSN %llu, made at %s, %llu MiB\n", (unsigned long long)archive->bases[i].lsn,
               time_text(archive->bases[i].time, when),
               (unsigned long long)(archive->bases[i].bytes >> 20));
    int found = store_tell(&l);
    if (found)
        fprintf(stderr, "kstore: %s: it holds no base that can be read\n", archive->path);
    const void *group;
    size_t bytes;
    while (!found && (found = archive_group(&reader, 0, &group, &bytes)) > 0) {
        group_note(&l, group, bytes);
        found = 0;
    }
    run_print(&l);
    archive_reader_close(&reader);
    return found ? error_status(found) : l.holes ? DAMAGED : SOUND;
}
