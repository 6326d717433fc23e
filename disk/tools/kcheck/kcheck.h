/*
 * kcheck.h - an independent checker of store images.
 *
 * Written from the format chapter (disk/format.md). It shares the structures of format.h with the
 * store and no algorithm: CRCs, seeds, slots, areas, hash addresses, the scan of the log and the
 * replay are done in its own way. So a mistake in one of the two shows as a disagreement.
 *
 * The image is input: whatever it holds, a call ends with a verdict. Memory is bounded by the
 * image: its metadata, half of its log, and one number per page that the log writes.
 */
#ifndef KATYDID_KCHECK_H
#define KATYDID_KCHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* read: 0 or a negative errno; offset and bytes are multiples of 4096, inside `bytes`. */
struct kcheck_io {
    void    *context;
    uint64_t bytes;
    int    (*read)(void *context, uint64_t offset, void *buffer, size_t bytes);
};

enum kcheck_level {
    KCHECK_NOTE,    /* as a power cut may leave it */
    KCHECK_WARNING, /* no loss is seen, but something that guards against loss is gone; a
                     * power cut may do that to one superblock slot */
    KCHECK_DAMAGE,  /* something is lost or wrong */
};

/* `label` names the invariant, such as "ST21", or is empty. */
typedef void kcheck_report_fn(void *context, enum kcheck_level level, const char *label,
                              const char *text);
typedef void kcheck_progress_fn(void *context, const char *what, uint64_t done, uint64_t of);

struct kcheck_options {
    bool  quick;                /* metadata and log only: data pages are not read */
    void *context;
    kcheck_report_fn   *report;         /* may be NULL */
    kcheck_progress_fn *progress;       /* may be NULL */
};

enum kcheck_verdict { KCHECK_SOUND, KCHECK_DAMAGED, KCHECK_NO_STORE, KCHECK_CANNOT };

struct kcheck_result {
    enum kcheck_verdict verdict;
    /* What opening the store read-only must give: 0, -ENODATA (blank), -EMEDIUMTYPE (foreign),
     * -EPROTONOSUPPORT (newer), -EOPNOTSUPP (older), -EUCLEAN, -EIO, -ENOMEM. */
    int      error;
    uint64_t damage_lsn;        /* acknowledged history is lost from here on, or 0 */
    bool     slot_bad[2], older_checkpoint, was_clean, torn_tail;
    uint64_t redo_lsn, end_lsn, groups, transactions;
    uint64_t containers, names, extents_used, extents_free, pages;
    uint64_t pages_verified, pages_in_log, pages_lost;
    uint64_t damages, warnings, notes;  /* findings by level */
};

/* The verdict as an exit status would give it is result->verdict; the same is returned. */
enum kcheck_verdict kcheck_image(const struct kcheck_io *io, const struct kcheck_options *options,
                                 struct kcheck_result *result);

/* CRC-32C, chained like the store's; in its own implementation. */
uint32_t kcheck_crc(uint32_t crc, const void *bytes, size_t count);

#endif
