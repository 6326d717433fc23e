/*
 * slots.c - what kind of disk this is, and which superblock to believe: both slots and the signpost
 * are read.
 */
#include "internal.h"

#define SLOTS_SCRATCH (256u << 10)      /* bytes that are read at once, at most */

struct slots {
    enum slot_verdict verdict[2];
    struct superblock super[2];         /* of a damaged slot: zeros, or its CRC is right */
    bool blank;                         /* the first blocks are zero, or creation was cut off */
    bool unfinished;                    /* block 0 says: a copy that is being made */
};

/* creation_cut tells if the signpost leads nowhere as a store is being made. But slot A is the last
 * write but one, and later slots have a larger generation: then only the signpost's end is lost. */
static bool creation_cut(const struct slots *slots, const uint8_t uuid[16])
{
    for (int i = 0; i < 2; i++)
        if (slots->verdict[i] == SLOT_VALID && slots->super[i].generation >= GENERATION_MADE &&
            !memcmp(slots->super[i].uuid, uuid, 16))
            return false;
    return true;
}

static bool version_tells(enum slot_verdict verdict)
{
    return verdict == SLOT_NEWER || verdict == SLOT_OLDER;
}

/* slot_read reads the slot at `offset`; one of an older format as the steps make it, if wanted. */
static enum slot_verdict slot_read(const struct disk_io *io, void *block, uint64_t offset,
                                   bool upgrade, struct superblock *super, uint32_t *version)
{
    if (io_read(io, offset, block, BLOCK_BYTES))
        return SLOT_UNREADABLE;
    enum slot_verdict verdict = superblock_decode(block, io->bytes, offset, super, version);
    if (verdict != SLOT_OLDER || !upgrade || !store_upgradable(*version))
        return verdict;
    uint32_t now;
    upgrade_superblock(block, *version);
    verdict = superblock_decode(block, io->bytes, offset, super, &now);
    super->format = *version;
    return verdict;
}

/* slot_b_seek looks for slot B. That of a store that has grown is in the middle of a smaller disk.
 * With slot A and the signpost lost, the middles of half, a quarter, an eighth ... of the disk are
 * tried: disks mostly grow to twice their size. `*zero`: all of these blocks are zero. */
static void slot_b_seek(const struct disk_io *io, void *block, struct slots *slots, bool *zero)
{
    uint32_t version;
    *zero = true;
    for (uint64_t bytes = io->bytes; bytes >= SMALLEST_BYTES; bytes /= 2) {
        uint64_t at = slot_b_place(bytes);
        enum slot_verdict verdict = slot_read(io, block, at, false, &slots->super[1], &version);
        *zero &= verdict == SLOT_ZERO;
        if (verdict == SLOT_VALID) {
            slots->verdict[1] = verdict;
            return;
        }
    }
}

/* disk_blank tells whether nothing is on the disk, as far as one can tell without reading all. A
 * log that was used is not zero, and lies within the first blocks; `block` is scratch. What cannot
 * be read is not blank. */
static bool disk_blank(const struct disk_io *io, void *block)
{
    uint64_t most = MIN(io->bytes / BLOCK_BYTES * BLOCK_BYTES, BLANK_BYTES);
    bool blank = true;
    for (uint64_t at = 0, some; at < most && blank; at += some) {
        some = MIN(most - at, SLOTS_SCRATCH);
        blank = !io_read(io, at, block, some) && bytes_zero(block, some);
    }
    uint64_t last = io->bytes / BLOCK_BYTES * BLOCK_BYTES - BLOCK_BYTES;
    return blank && !io_read(io, last, block, BLOCK_BYTES) && bytes_zero(block, BLOCK_BYTES);
}

static void slots_read(const struct disk_io *io, void *block, bool upgrade, struct slots *slots,
                      struct store_report *report)
{
    uint32_t version = 0;
    uint8_t making[16];
    slots->verdict[0] = slot_read(io, block, 0, upgrade, &slots->super[0], &version);
    slots->unfinished = slots->verdict[0] == SLOT_FOREIGN &&
                        le64_get(*(const le64 *)block) == UNFINISHED_MAGIC;
    if (version_tells(slots->verdict[0]))
        report->version = version;
    uint64_t b = 0;
    bool post = !io_read(io, SIGNPOST_OFFSET, block, BLOCK_BYTES) &&
                signpost_decode(block, io->bytes, &b);
    bool nowhere = post && !b;
    if (nowhere)
        memcpy(making, ((const struct signpost_disk *)block)->uuid, 16);
    if (!b)
        b = slot_b_place(io->bytes);
    if (slots->verdict[0] == SLOT_VALID)
        b = slots->super[0].slot_b_offset;
    slots->verdict[1] = slot_read(io, block, b, upgrade, &slots->super[1], &version);
    if (version_tells(slots->verdict[1]) && slots->verdict[0] != SLOT_VALID)
        report->version = version;
    if (slots->verdict[0] == SLOT_VALID && slots->verdict[1] == SLOT_VALID &&
        memcmp(slots->super[0].uuid, slots->super[1].uuid, 16))
        slots->verdict[1] = SLOT_FOREIGN;               /* of an earlier store */
    if (nowhere && creation_cut(slots, making)) {
        slots->verdict[0] = slots->verdict[1] = SLOT_ZERO;
        slots->blank = true;            /* whatever is there does not count */
        return;
    }
    bool zero = true;
    if (!post && slots->verdict[0] != SLOT_VALID && slots->verdict[1] != SLOT_VALID)
        slot_b_seek(io, block, slots, &zero);
    for (int i = 0; i < 2; i++)         /* a store is here, whatever became of its slots */
        if (post && (slots->verdict[i] == SLOT_ZERO || slots->verdict[i] == SLOT_FOREIGN))
            slots->verdict[i] = SLOT_DAMAGED;
    for (int i = 0; i < 2; i++)
        if (slots->verdict[i] == SLOT_DAMAGED && slots->super[i].disk_bytes > io->bytes)
            report->cut_bytes = slots->super[i].disk_bytes;
    report->slot_bad[0] = slots->verdict[0] != SLOT_VALID;
    report->slot_bad[1] = slots->verdict[1] != SLOT_VALID;
    slots->blank = slots->verdict[0] == SLOT_ZERO && slots->verdict[1] == SLOT_ZERO &&
                   zero && disk_blank(io, block);
}

/* slots_choose gives the slot to believe, or tells what the disk is. */
static int slots_choose(const struct slots *slots, struct superblock *super,
                        struct store_report *report)
{
    const enum slot_verdict *v = slots->verdict;
    int error = recovery_report(report, slots_fact(v[0], v[1], slots->blank), BASE_NEWEST,
                                LOG_EMPTY)->error;
    if (error == -EUCLEAN && report->cut_bytes)
        report->message = "the disk is shorter than its store: its end is cut off; restore a copy";
    if (error)
        return error;
    *super = slots->super[slots_newest(v[0] == SLOT_VALID, slots->super[0].generation,
                                       v[1] == SLOT_VALID, slots->super[1].generation)];
    report->version = super->format;
    return 0;
}

/* twin_missing tells if the older slot names the area that is overwritten next. (A damaged one is
 * written anew in any case.) */
static bool twin_missing(const struct slots *slots)
{
    return slots->verdict[0] == SLOT_VALID && slots->verdict[1] == SLOT_VALID &&
           slots->super[0].checkpoint_index != slots->super[1].checkpoint_index;
}

int slots_find(const struct disk_io *io, const struct disk_memory *memory, bool upgrade,
               struct superblock *super, bool *twin_first, struct store_report *report)
{
    struct slots slots = {0};
    bool tiny = io->bytes < SMALLEST_BYTES;
    void *block = tiny ? NULL : memory->alloc(memory->context, SLOTS_SCRATCH);
    if (!block) {
        report->message = tiny ? "the disk is too small to hold a store" : "out of memory";
        return tiny ? -EMEDIUMTYPE : -ENOMEM;
    }
    slots_read(io, block, upgrade, &slots, report);
    memory->free(memory->context, block, SLOTS_SCRATCH);
    if (slots.unfinished) {
        report->message = "a copy of a store that was never finished; make it again";
        report->rule = "RV3";
        return -EMEDIUMTYPE;
    }
    int error = slots_choose(&slots, super, report);
    *twin_first = !error && twin_missing(&slots);
    return error;
}
