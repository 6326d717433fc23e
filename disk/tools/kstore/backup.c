/*
 * backup.c - kstore backup: a copy of a store that a guest may have open, made on the host.
 *
 * The guest knows nothing of it, so nothing is held: as disk/backup.c does, extents are copied in
 * rounds, each those that the newest checkpoint has with pages since the one of the round before.
 * Then come that checkpoint's metadata and the log from its scan LSN on; and if the superblock says
 * afterwards that both were still needed meanwhile, they were not overwritten either, and the copy
 * is what a power cut would have left. Else another round is made.
 */
#include "kstore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROUNDS_MAX 40u

struct backup {
    struct image *from, *to;
    struct kview view;
    uint64_t since, copied, end_lsn;
    uint8_t buffer[STORE_BACKUP_BYTES];
};

static const struct argp_option options[] = {
    COMMON_FORCE("NEW if it exists"), COMMON_QUIET,
    { 0 },
};
static const struct argp argp = { options, common_parse, "IMAGE NEW", "Copies a store, "
    "also one that a running guest has open, to NEW: what it holds is all that was committed "
    "when the copying of the log began, and perhaps more. IMAGE is not changed."
    "\vA copy that was not finished says so when it is opened. Beside writers that are faster than "
    "the copy use `store backup` in the guest.", NULL, NULL, NULL };

/* ---- reading what is newest */

/* The superblock to believe now, into b->view.super. */
static int super_read(struct backup *b)
{
    struct kview *view = &b->view;
    struct kcheck_io io = image_kcheck_io(b->from);
    kview_close(view);
    memset(view, 0, sizeof *view);
    view->io = io;
    view->quiet = true;
    view->at_most = KCHECK_DAMAGE;
    kslots_read(view);
    return kslots_choose(view);
}

/* How many checkpoints were made since the one of that sequence; negative: it cannot be read. */
static int64_t checkpoints_since(struct backup *b, uint64_t sequence)
{
    int error = super_read(b);
    return error ? -1 : (int64_t)(b->view.super.checkpoints[b->view.super.newest].sequence -
                                  sequence);
}

/* ---- copying */

static int bytes_copy(struct backup *b, uint64_t offset, uint64_t bytes)
{
    struct disk_io from = image_disk_io(b->from), to = image_disk_io(b->to);
    for (uint64_t at = 0; at < bytes; at += sizeof b->buffer) {
        size_t n = bytes - at < sizeof b->buffer ? (size_t)(bytes - at) : sizeof b->buffer;
        int error = from.read(from.context, offset + at, b->buffer, n);
        if (error) {
            fprintf(stderr, "kstore: %s: byte %llu cannot be read\n", b->from->path,
                    (unsigned long long)(offset + at));
            return error;
        }
        error = to.write(to.context, offset + at, b->buffer, n);
        if (error)
            return error;
        b->copied += n;
    }
    return 0;
}

static int zeros_write(struct backup *b, uint64_t offset, uint64_t bytes)
{
    struct disk_io to = image_disk_io(b->to);
    int error = 0;
    memset(b->buffer, 0, sizeof b->buffer);
    for (uint64_t at = 0; at < bytes && !error; at += sizeof b->buffer)
        error = to.write(to.context, offset + at, b->buffer,
                         bytes - at < sizeof b->buffer ? (size_t)(bytes - at) : sizeof b->buffer);
    return error;
}

static bool leaf_changed(const struct backup *b, const struct kleaf *leaf)
{
    bool changed = false;
    for (uint32_t p = 0; leaf && p < b->view.super.extent_pages; p++)
        changed |= leaf->mask >> p & 1 && kleaf_lsn(leaf)[p] >= b->since;
    return changed;
}

/* The extents of a checkpoint with pages since b->since. */
static int extents_copy(struct backup *b, const struct kmodel *model)
{
    int error = 0;
    for (uint32_t i = 0; i < model->leaf_count && !error; i++) {
        const struct kleaf *leaf = kmodel_leaf_at(model, i);
        progress_show(NULL, "extents", i, model->leaf_count);
        if (leaf_changed(b, leaf))
            error = bytes_copy(b, kview_home(&b->view, leaf, 0), b->view.super.extent_bytes);
    }
    return error;
}

static int area_copy(struct backup *b, const struct kslot *super)
{
    uint64_t start = super->area_start[super->newest];
    uint32_t pages = super->checkpoints[super->newest].pages;
    return bytes_copy(b, start, kslot_page_offset(super, super->newest, pages) - start);
}

/* The extents of a record of pages that are at home and in no log. */
static int record_homes_copy(struct backup *b, const struct record_disk *record)
{
    const struct kslot *super = &b->view.super;
    uint64_t page = le64_get(record->page), n = super->extent_pages;
    uint64_t count = le32_get(record->data_bytes) / sizeof(le32);
    uint64_t extent = le64_get(record->physical);
    uint64_t last = extent + (page % n + count - 1) / n;
    if (le16_get(record->type) != RECORD_PAGE_HOME || !count || last < extent ||
        last >= super->extents)
        return 0;
    return bytes_copy(b, super->data_start + extent * super->extent_bytes,
                      (last - extent + 1) * super->extent_bytes);
}

/* Of the groups from *lsn on: what is at home and in no log. *lsn: behind them. */
static int homes_copy(struct backup *b, uint64_t *lsn)
{
    struct kgroup group;
    int error = 0;
    for (uint32_t i = 0; i < b->view.group_count && !error; i++) {
        if (b->view.groups[i].lsn < *lsn)
            continue;
        if (klog_group(&b->view, b->view.groups[i].lsn, &group) != 1)
            return -EAGAIN;
        const uint8_t *bytes = b->view.buffer;
        size_t at = sizeof(struct group_disk), next;
        size_t end = at + le32_get(((const struct group_disk *)(const void *)bytes)->payload_bytes);
        for (uint32_t r = 0; r < group.records && !error; r++, at = next) {
            const struct record_disk *record = kreplay_record(bytes, end, at, &next);
            if (!record)
                break;
            error = record_homes_copy(b, record);
        }
        *lsn = group.lsn + group.bytes;
    }
    return error;
}

/* From the scan LSN to the end that the log has now; behind it zeros. Before that end is looked
 * for, the pages are copied that the log names and does not have: what is written over them
 * later comes from a group that is then found, too. */
static int log_copy(struct backup *b, const struct kslot *super)
{
    uint64_t ring = super->log_bytes, at = super->checkpoints[super->newest].scan_lsn;
    uint64_t seen = at, before;
    int error;
    do {
        b->view.super = *super;
        before = seen;
        error = klog_follow(&b->view, super->newest) ?: homes_copy(b, &seen);
    } while (!error && seen > before);
    uint64_t end = b->end_lsn = b->view.result.end_lsn;
    if (!error)
        error = zeros_write(b, super->log_start, ring);
    for (uint64_t n; at < end && !error; at += n) {
        n = end - at < ring - at % ring ? end - at : ring - at % ring;
        error = bytes_copy(b, super->log_start + at % ring, n);
    }
    return error;
}

/* ---- superblocks */

static int mark_write(struct backup *b)
{
    struct disk_io to = image_disk_io(b->to);
    store_backup_mark(b->buffer);
    int error = to.write(to.context, 0, b->buffer, BLOCK_BYTES);
    return error ? error : to.flush(to.context);
}

static uint32_t slot_crc(const struct superblock_disk *s)
{
    const size_t from = offsetof(struct superblock_disk, version);
    return kcheck_crc(kview_seed(s->uuid, CRC_SUPERBLOCK, le32_get(s->slot), 0),
                      (const uint8_t *)s + from, sizeof *s - from);
}

/* The block of the superblock that the view believes. -EAGAIN: it has changed, or is just being
 * written. */
static int superblock_take(struct backup *b, struct superblock_disk *out)
{
    struct disk_io from = image_disk_io(b->from);
    int error = from.read(from.context, b->view.super.offset, out, BLOCK_BYTES);
    if (error)
        return error;
    bool same = le64_get(out->generation) == b->view.super.generation &&
                le32_get(out->crc) == slot_crc(out);
    return same ? 0 : -EAGAIN;
}

static int slot_write(struct backup *b, const struct superblock_disk *s, uint32_t slot)
{
    struct disk_io to = image_disk_io(b->to);
    uint64_t generation = le64_get(s->generation);
    struct superblock_disk block = *s;
    block.slot = le32_of(slot);
    block.generation = le64_of(generation + ((generation ^ slot) & 1));
    block.crc = le32_of(slot_crc(&block));
    int error = to.flush(to.context);
    return error ? error : to.write(to.context, slot ? le64_get(s->slot_b_offset) : 0, &block,
                                    sizeof block);
}

/* Both name one checkpoint only; the mark is overwritten last. */
static int slots_write(struct backup *b, struct superblock_disk *s)
{
    struct disk_io to = image_disk_io(b->to);
    uint32_t newest = le32_get(s->checkpoint_index);
    uint64_t sequence = le64_get(s->checkpoints[newest].sequence);
    s->checkpoints[!newest] = (struct checkpoint_disk){ .sequence = le64_of(sequence - 1) };
    s->chunks[!newest] = (struct chunks_disk){ .pages_lsn = le64_of(0) };
    s->flags = le32_of(0);
    s->end_lsn = le64_of(b->end_lsn);
    int error = bytes_copy(b, SIGNPOST_OFFSET, BLOCK_BYTES);
    if (!error)
        error = slot_write(b, s, 1);
    if (!error)
        error = slot_write(b, s, 0);
    return error ? error : to.flush(to.context);
}

/* ---- rounds */

/* What the checkpoint has: pages since the round before, then its metadata. */
static int checkpoint_copy(struct backup *b, const struct kslot *super)
{
    const struct kcheckpoint *c = &super->checkpoints[super->newest];
    int error = karea_load(&b->view, super->newest, &b->view.model);
    if (error == -EUCLEAN)
        return checkpoints_since(b, c->sequence) ? -EAGAIN : -EUCLEAN;
    if (!error)
        error = extents_copy(b, &b->view.model);
    if (!error)
        error = area_copy(b, super);
    if (!error)
        b->since = c->pages_lsn;
    return error ? error : checkpoints_since(b, c->sequence) ? -EAGAIN : 0;
}

/* 0: the copy is whole. -EAGAIN: what the checkpoint needs was written over; another round. */
static int round_copy(struct backup *b)
{
    struct superblock_disk s;
    int error = super_read(b);
    struct kslot super = b->view.super;
    if (!error)
        error = superblock_take(b, &s);
    if (!error)
        error = checkpoint_copy(b, &super);
    if (!error)
        error = log_copy(b, &super);
    if (error)
        return error;
    int64_t since = checkpoints_since(b, super.checkpoints[super.newest].sequence);
    return since < 0 || since > 1 ? -EAGAIN : slots_write(b, &s);
}

static int rounds_copy(struct backup *b)
{
    int error = image_resize(b->to, 0);
    if (!error)
        error = mark_write(b);
    if (!error)
        error = image_resize(b->to, b->from->bytes);
    uint32_t rounds = 0;
    if (!error)
        do
            error = round_copy(b);
        while (error == -EAGAIN && ++rounds < ROUNDS_MAX);
    if (!error)
        printf("%llu KiB copied in %u rounds\n", (unsigned long long)(b->copied >> 10),
               rounds + 1);
    return error;
}

/* ---- what was copied */

static void damage_print(void *context, enum kcheck_level level, const char *label,
                         const char *text)
{
    if (level == KCHECK_DAMAGE)
        finding_print(context, level, label, text);
}

/* What is rotten in the store is so in the copy. A home that is newer than its checksum is not told
 * from a rotten one while a guest writes; in the copy nothing changes, and kcheck knows the log. */
static int copy_check(struct backup *b)
{
    struct kcheck_io io = image_kcheck_io(b->to);
    struct kcheck_options how = { .context = stderr, .report = damage_print,
                                  .progress = progress_show };
    struct kcheck_result result;
    int status = (int)kcheck_image(&io, &how, &result);
    progress_end();
    if (status == SOUND)
        return SOUND;
    fprintf(stderr, "kstore: the copy is damaged as told above, and so is the store, or its disk: "
                    "`kstore check` both. The copy is kept\n");
    return DAMAGED;
}

static int target_open(const struct common *common, const struct image *from, struct image *to)
{
    const char *name = common->files[1];
    if (!common->force && access(name, F_OK) == 0) {
        fprintf(stderr, "kstore: %s exists; give a new name, or --force to overwrite it\n", name);
        return CANNOT;
    }
    int status = image_open(to, name, O_RDWR | O_CREAT | (common->force ? 0 : O_EXCL));
    if (!status && images_share(from, to)) {
        fprintf(stderr, "kstore: %s is the store itself; give a new name\n", name);
        return WRONG_USE;
    }
    return status;
}

int image_backup(struct image *from, struct image *to, uint64_t *end_lsn)
{
    static struct backup b;
    b = (struct backup){ .from = from, .to = to };
    int error = rounds_copy(&b), status = error ? 0 : copy_check(&b);
    progress_end();
    if (error)
        fprintf(stderr, "kstore: not finished: %s\n",
                error == -EAGAIN ? "the guest writes faster; `store backup` in the guest waits"
                                 : error_text(error));
    *end_lsn = b.end_lsn;
    kview_close(&b.view);
    return error == -EAGAIN ? CANNOT : error ? error_status(error) : status;
}

int image_is_store(struct image *image)
{
    static struct backup b;
    b = (struct backup){ .from = image };
    int error = super_read(&b);
    kview_close(&b.view);
    if (error)
        fprintf(stderr, "kstore: %s: %s\n", image->path, image_error_text(image, error));
    return error ? error_status(error) : SOUND;
}

int backup_main(int count, char **words)
{
    struct common common = { .wanted = 2 };
    struct image from, to = { .count = 0 };
    uint64_t end_lsn;
    command_parse(&argp, count, words, &common);
    int status = image_open(&from, common.files[0], O_RDONLY);
    if (!status)
        status = image_is_store(&from);
    if (!status)
        status = target_open(&common, &from, &to);
    if (!status)
        status = image_backup(&from, &to, &end_lsn);
    image_close(&to);
    image_close(&from);
    return status;
}
