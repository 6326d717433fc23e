/*
 * mend.c - scrubs a store that nobody has open: rounds of disk/scrub.c, in two passes.
 *
 *     look    opened read-only: tells what is rotten, and which page has no other copy
 *     mend    only if something has another copy: opened as after a power cut, which repairs
 *             superblocks and the newest area; each rotten piece is put back, or written anew by
 *             two checkpoints; closed
 *
 * A power cut inside is one inside a recovery, a repair (SR2) or a checkpoint. What recovery
 * refuses is not touched: that is for salvage.
 */
#include "mend.h"

#include "errno_numbers.h"

#include <string.h>

struct mend {
    mend_heard *heard;
    void *context;
    struct store_scrub piece;
    bool looks, rotten, anew, told[STORE_SCRUB_KINDS][3];
};

int mend_checkpoint(struct store *store)
{
    int error = store_checkpoint_begin(store);
    while (!error && (error = store_checkpoint_seal(store)) == -EAGAIN)
        error = store_checkpoint_write(store);
    if (!error)
        error = store_checkpoint_write(store);
    return error ? error : store_checkpoint_apply(store);
}

/* Tells of a page; of a slot, an area (by its map or a page) and the log once. */
static int piece_tell(struct store *store, struct mend *m)
{
    struct store_scrub *s = &m->piece;
    bool page = s->kind == STORE_SCRUB_PAGE;
    bool *told = &m->told[s->kind == STORE_SCRUB_META ? STORE_SCRUB_MAP : s->kind][s->part];
    int error = page ? store_scrub_seek(store, s) : 0;
    if (error && error != -ENODATA)
        return error;
    if (page || !*told)
        m->heard(m->context, store, s, error ? error : -EUCLEAN);
    *told = true;
    m->rotten |= !error;
    store_scrub_skip(s);
    return 0;
}

/* Puts it back, or steps over a page that is lost. */
static int piece_mend(struct store *store, struct mend *m)
{
    struct store_scrub *s = &m->piece;
    bool page = s->kind == STORE_SCRUB_PAGE;
    int error = store_scrub_seek(store, s);
    if (!error)
        error = store_scrub_holds(store, s);
    if (!error)
        return store_scrub_write(store, s);
    if (error != -ENODATA)
        return error;
    if (s->written >> s->bad & 1 || (!page && m->anew))
        return -EIO;
    if (page) {
        store_scrub_skip(s);
        return 0;
    }
    m->anew = true;
    error = mend_checkpoint(store);
    return error ? error : mend_checkpoint(store);
}

static int round_run(struct store *store, struct mend *m)
{
    struct store_scrub *s = &m->piece;
    int error;
    memset(s, 0, sizeof *s);
    while ((error = store_scrub_next(store, s)) == 0 || error == -EAGAIN) {
        if (error)
            continue;
        store_scrub_read(store, s);
        m->heard(m->context, store, s, 0);
        if (store_scrub_judge(store, s) == -EUCLEAN)
            error = m->looks ? piece_tell(store, m) : piece_mend(store, m);
        if (error)
            return error;
    }
    return error == -ENOENT ? 0 : error;
}

static int pass(const struct disk_io *io, const struct disk_memory *memory, struct mend *m,
                struct store_report *report)
{
    const struct store_open_options options = { .flags = m->looks ? STORE_READ_ONLY : 0 };
    struct store *store;
    int error = store_open(io, memory, &options, &store, report);
    if (error)
        return error;
    error = report->damage_lsn ? -EUCLEAN : round_run(store, m);
    if (!error)
        return store_close(store);
    store_abandon(store);
    return error;
}

int mend_store(const struct disk_io *io, const struct disk_memory *memory, mend_heard *heard,
               void *context, struct store_report *report)
{
    struct mend *m = memory->alloc(memory->context, sizeof *m);
    if (!m)
        return -ENOMEM;
    *m = (struct mend){ .heard = heard, .context = context, .looks = true };
    int error = pass(io, memory, m, report);
    m->looks = false;
    if (!error && m->rotten)
        error = pass(io, memory, m, report);
    memory->free(memory->context, m, sizeof *m);
    return error;
}
