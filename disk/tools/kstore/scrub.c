/*
 * scrub.c - kstore scrub: reads every copy of what a store holds, and repairs in place what has another one.
 *
 *     a page at home      from the log's ring, if a version there has the CRC that the page's leaf gives
 *     a superblock slot,
 *     a metadata area     from the other one: the store is opened, which recovers it, two checkpoints write
 *                         both areas and both slots anew, and it is closed
 *
 * A power cut inside costs nothing: a home that is torn is as rotten as before, and its version in the ring
 * is not overwritten; all else is the library's recovery and checkpoint. If nothing is to be repaired,
 * nothing is written. What recovery refuses is not touched: that is for salvage.
 */
#include "salvage.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct scrub {
    struct kview view;
    struct image image;
    struct copy copy;           /* only for past_find */
    uint64_t read, repaired, lost;
    bool     copies_bad;        /* a slot or an area is to be written anew */
};

static const struct argp_option options[] = { COMMON_QUIET, { 0 } };

static const struct argp argp = { options, common_parse, "IMAGE", "Reads every page, superblock and metadata "
    "area of a store, and repairs in place what has another copy."
    "\vStatus 0: all is sound now. 1: the lines that begin with `lost` say what has no other copy; `kstore salvage` "
    "makes a new store without it.", NULL, NULL, NULL };

static int page_scrub(struct scrub *s, const struct kleaf *leaf, uint32_t p)
{
    uint8_t bytes[BLOCK_BYTES];
    struct kview *view = &s->view;
    struct disk_io io = image_disk_io(&s->image);
    const struct kcontainer *c = kmodel_container(&view->model, leaf->object);
    unsigned long long page = leaf->index * view->super.extent_pages + p, id = leaf->object;
    const char *name = c ? c->disk.name : "?";
    int error = kview_page(view, &view->model, leaf, p, bytes);
    s->read++;
    if (!error || error == -ENOMEM)
        return error;
    progress_end();
    if (!past_find(&s->copy, leaf, p, bytes)) {
        printf("lost: %.63s (container %llu), page %llu: %s\n", name, id, page,
               error == -EUCLEAN ? "its bytes do not match their CRC" : "it cannot be read");
        s->lost++;
        return 0;
    }
    if (io.write(io.context, kview_home(view, leaf, p), bytes, BLOCK_BYTES))
        return -EIO;
    printf("repaired: %.63s (container %llu), page %llu: its bytes were in the log\n", name, id, page);
    s->repaired++;
    return 0;
}

static int pages_scrub(struct scrub *s)
{
    struct kmodel *model = &s->view.model;
    struct disk_io io = image_disk_io(&s->image);
    int error = 0;
    for (uint32_t i = 0; i < model->leaf_count && !error; i++) {
        const struct kleaf *leaf = kmodel_leaf_at(model, i);
        progress_show(NULL, "pages", i, model->leaf_count);
        for (uint32_t p = 0; leaf && p < s->view.super.extent_pages && !error; p++)
            if (leaf->mask >> p & 1)
                error = page_scrub(s, leaf, p);
    }
    return error || !s->repaired ? error : io.flush(io.context);
}

/* Which slots and areas do not verify? One of each does, or the view would not have opened. */
static void copies_scrub(struct scrub *s)
{
    struct kview *view = &s->view;
    for (int i = 0; i < 2; i++)
        if (view->slots[i].state != KSLOT_VALID) {
            printf("repaired: superblock slot %c: %s\n", 'A' + i, view->slots[i].why);
            s->copies_bad = true;
            s->repaired++;
        }
    view->quiet = true;
    for (uint32_t area = 0; area < 2; area++) {
        struct kmodel model;
        if (!view->super.checkpoints[area].redo_lsn)
            continue;
        int error = karea_load(view, area, &model);
        kmodel_free(&model);
        if (error != -EUCLEAN && error != -EIO)
            continue;
        printf("repaired: metadata area %u\n", area);
        s->copies_bad = true;
        s->repaired++;
    }
    view->quiet = false;
}

static int checkpoint(struct store *store)
{
    int error = store_checkpoint_begin(store);
    while (!error && (error = store_checkpoint_seal(store)) == -EAGAIN)
        error = store_checkpoint_write(store);
    if (!error)
        error = store_checkpoint_write(store);
    return error ? error : store_checkpoint_apply(store);
}

static int copies_write(struct image *image)
{
    struct disk_io io = image_disk_io(image);
    struct store_report report;
    struct store *store;
    int error = store_open(&io, &host_memory, NULL, &store, &report);
    if (error)
        return error;
    for (int i = 0; i < 2 && !error; i++)
        error = checkpoint(store);
    if (!error)
        return store_close(store);
    store_abandon(store);
    return error;
}

static int scrub(struct scrub *s)
{
    struct kcheck_options how = { .context = stderr, .report = finding_print, .progress = progress_show };
    struct kcheck_io io = image_kcheck_io(&s->image);
    int error = kview_open(&s->view, &io, &how, false);
    s->copy.from = &s->view;
    if (!error)
        error = pages_scrub(s);
    if (!error)
        copies_scrub(s);
    progress_end();
    kview_close(&s->view);
    past_free(&s->copy);
    if (!error && s->copies_bad)
        error = copies_write(&s->image);
    if (error) {
        fprintf(stderr, "kstore: %s: %s\n", s->image.path, error_text(error));
        return error_status(error);
    }
    printf("%llu pages read, %llu repairs, %llu lost\n", (unsigned long long)s->read,
           (unsigned long long)s->repaired, (unsigned long long)s->lost);
    return s->lost ? DAMAGED : SOUND;
}

int scrub_main(int count, char **words)
{
    struct common wish = { .wanted = 1 };
    struct scrub s = { .read = 0 };
    command_parse(&argp, count, words, &wish);
    int status = image_open(&s.image, wish.files[0], O_RDWR);
    if (!status)
        status = scrub(&s);
    image_close(&s.image);
    return status;
}
