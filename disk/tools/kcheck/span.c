/*
 * span.c - labels and places of a store over several disks, by the format chapter.
 */
#include "span.h"

#include "view.h"

#include <errno.h>
#include <string.h>

enum copy { NONE, SOUND_COPY, NEWER, UNREADABLE };

static uint32_t crc_of(const struct label_disk *label, uint64_t at)
{
    return kcheck_crc(kview_seed(label->uuid, CRC_LABEL, at, 0), (const uint8_t *)label + 12,
                      sizeof *label - 12);
}

/* The tables of the chapter, line by line. */
static enum copy copy_of(const struct label_disk *l, uint64_t at)
{
    uint32_t count = le32_get(l->count), number = le32_get(l->number);
    uint64_t unit = le64_get(l->unit_bytes), units = le64_get(l->units);
    uint64_t head = le64_get(l->head_bytes), disk = le64_get(l->disk_bytes);
    if (le64_get(l->magic) != LABEL_MAGIC || le32_get(l->crc) != crc_of(l, at))
        return NONE;
    if (le32_get(l->version) > 1)
        return NEWER;
    if (count < 2 || count > KSPAN_MAX || number >= count || le64_get(l->making) > 1)
        return NONE;
    uint32_t shift = 12;
    while (shift < 39 && 1ull << shift != unit)
        shift++;
    if (1ull << shift != unit || !units || units > UINT64_MAX >> shift)
        return NONE;
    if (head % BLOCK_BYTES || disk % BLOCK_BYTES || head >> 60 || disk >> 60)
        return NONE;
    uint64_t other = number ? 2 * BLOCK_BYTES : 3 * BLOCK_BYTES + head;
    if (disk < other || disk - other < units << shift)
        return NONE;
    for (size_t i = 0; i < sizeof l->zero; i++)
        if (l->zero[i])
            return NONE;
    return SOUND_COPY;
}

struct labelled {
    struct label_disk label;
    enum copy state;            /* of the better copy */
    bool     first;             /* the copy in block 0 is sound */
    uint32_t lost;
};

static uint64_t blocks_of(const struct kcheck_io *disk)
{
    return disk->bytes / BLOCK_BYTES * BLOCK_BYTES;
}

static int block_get(const struct kcheck_io *disk, uint64_t at, void *block)
{
    int error = -EIO;
    for (int tries = 0; tries < 3 && error; tries++)
        error = disk->read(disk->context, at, block, BLOCK_BYTES);
    return error;
}

static void copies_read(const struct kcheck_io *disk, struct labelled *out)
{
    struct label_disk copy[2];
    enum copy state[2] = { NONE, NONE };
    memset(out, 0, sizeof *out);
    if (disk->bytes < 8 * BLOCK_BYTES)
        return;
    for (int i = 0; i < 2; i++) {
        uint64_t at = i ? blocks_of(disk) - BLOCK_BYTES : 0;
        state[i] = block_get(disk, at, &copy[i]) ? UNREADABLE : copy_of(&copy[i], at);
        if (!i && state[0] == NONE && le64_get(copy[0].magic) == SUPERBLOCK_MAGIC)
            return;
    }
    bool second = state[1] == SOUND_COPY &&
                  (state[0] != SOUND_COPY || le64_get(copy[0].making) > le64_get(copy[1].making));
    out->state = second || state[0] == NONE ? state[1] : state[0];
    out->label = copy[second];
    out->first = state[0] == SOUND_COPY;
    out->lost = (state[0] != SOUND_COPY) + (state[1] != SOUND_COPY);
}

static bool signpost_there(const struct kcheck_io *disk)
{
    struct signpost_disk post;
    if (block_get(disk, SIGNPOST_OFFSET, &post) || le64_get(post.magic) != SIGNPOST_MAGIC ||
        le32_get(post.version) > FORMAT_VERSION)
        return false;
    uint64_t b = le64_get(post.slot_b_offset);
    uint32_t crc = kcheck_crc(kview_seed(post.uuid, CRC_SIGNPOST, SIGNPOST_OFFSET, 0),
                              (const uint8_t *)&post + 12, sizeof post - 12);
    return crc == le32_get(post.crc) && b % BLOCK_BYTES == 0 && b <= disk->bytes - BLOCK_BYTES;
}

/* ---- places */

static int whole_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    const struct kspan *span = context;
    uint64_t slot_b = span->total_bytes / 2 / BLOCK_BYTES * BLOCK_BYTES;
    for (size_t done = 0; done < bytes; done += BLOCK_BYTES) {
        uint64_t x = offset + done, at = BLOCK_BYTES + x;
        uint32_t disk = 0;
        if (x == slot_b) {
            at = BLOCK_BYTES + span->head_bytes + span->units * span->unit_bytes;
        } else if (x >= span->head_bytes) {
            uint64_t unit = (x - span->head_bytes) / span->unit_bytes;
            disk = (uint32_t)(unit % span->count);
            at = BLOCK_BYTES + (disk ? 0 : span->head_bytes) +
                 unit / span->count * span->unit_bytes + (x - span->head_bytes) % span->unit_bytes;
        }
        int error = span->disk[disk].read(span->disk[disk].context, at, (char *)buffer + done,
                                          BLOCK_BYTES);
        if (error)
            return error;
    }
    return 0;
}

/* ---- which disks */

static bool same_store(const struct label_disk *a, const struct label_disk *b)
{
    return !memcmp(a->uuid, b->uuid, 16) && le32_get(a->count) == le32_get(b->count) &&
           le64_get(a->unit_bytes) == le64_get(b->unit_bytes) &&
           le64_get(a->units) == le64_get(b->units) &&
           le64_get(a->head_bytes) == le64_get(b->head_bytes);
}

static int disk_place(struct kspan *span, const struct kcheck_io *disk, const struct labelled *own,
                      const struct label_disk *made)
{
    uint32_t number = le32_get(own->label.number);
    if (own->state == UNREADABLE)
        return -EIO;
    if (own->state != SOUND_COPY || !same_store(&own->label, made) || span->disk[number].read ||
        blocks_of(disk) != le64_get(own->label.disk_bytes))
        return -EUCLEAN;
    span->disk[number] = *disk;
    span->lost += own->lost;
    return 0;
}

int kspan_open(const struct kcheck_io *disks, uint32_t count, struct kspan *span,
               struct kcheck_io *io)
{
    static struct labelled own[KSPAN_MAX];
    const struct label_disk *made = NULL;
    memset(span, 0, sizeof *span);
    for (uint32_t i = 0; i < count; i++)
        copies_read(&disks[i], &own[i]);
    if (count == 1 && (own[0].state == NONE || own[0].state == UNREADABLE ||
                       (!own[0].first && signpost_there(disks)))) {
        span->count = 1;
        *io = *disks;
        return 0;
    }
    for (uint32_t i = 0; i < count; i++)
        if (own[i].state == NEWER)
            return -EPROTONOSUPPORT;
        else if (own[i].state == SOUND_COPY && !le64_get(own[i].label.making) && !made)
            made = &own[i].label;
    if (!made)
        return -ENODATA;
    span->count = le32_get(made->count);
    span->unit_bytes = le64_get(made->unit_bytes);
    span->units = le64_get(made->units);
    span->head_bytes = le64_get(made->head_bytes);
    span->total_bytes = span->head_bytes + span->count * span->units * span->unit_bytes;
    for (uint32_t i = 0; i < count; i++) {
        int error = disk_place(span, &disks[i], &own[i], made);
        if (error)
            return error;
    }
    for (uint32_t i = 0; i < span->count; i++)
        if (!span->disk[i].read)
            return -EUCLEAN;
    *io = (struct kcheck_io){ span, span->total_bytes, whole_read };
    return 0;
}
