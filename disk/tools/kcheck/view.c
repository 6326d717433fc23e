/*
 * view.c - opens an image as a recovery would, in memory; and reads its pages.
 */
#include "view.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_TRIES 3

int kview_read(struct kview *view, uint64_t offset, void *buffer, size_t bytes)
{
    int error = -EIO;
    if (offset > view->io.bytes || bytes > view->io.bytes - offset)
        return -EIO;
    for (int try = 0; try < READ_TRIES && error; try++)
        error = view->io.read(view->io.context, offset, buffer, bytes);
    return error ? -EIO : 0;
}

int kview_buffer(struct kview *view, size_t bytes)
{
    if (bytes <= view->buffer_bytes)
        return 0;
    void *grown = realloc(view->buffer, bytes);
    if (!grown)
        return -ENOMEM;
    view->buffer = grown;
    view->buffer_bytes = bytes;
    return 0;
}

void kview_find(struct kview *view, enum kcheck_level level, const char *label,
                const char *text, ...)
{
    char line[400];
    va_list values;
    view->problems += level == KCHECK_DAMAGE;
    if (view->quiet)
        return;
    if (level > view->at_most)
        level = view->at_most;
    view->result.damages += level == KCHECK_DAMAGE;
    view->result.warnings += level == KCHECK_WARNING;
    view->result.notes += level == KCHECK_NOTE;
    if (!view->options.report)
        return;
    va_start(values, text);
    vsnprintf(line, sizeof line, text, values);
    va_end(values);
    view->options.report(view->options.context, level, label, line);
}

void kview_progress(struct kview *view, const char *what, uint64_t done, uint64_t of)
{
    if (view->options.progress)
        view->options.progress(view->options.context, what, done, of);
}

/* ---- the metadata to start from */

static int area_try(struct kview *view, uint32_t area, bool quiet, enum kcheck_level at_most)
{
    kmodel_free(&view->model);
    view->quiet = quiet;
    view->at_most = at_most;
    int error = karea_load(view, area, &view->model);
    view->quiet = false;
    view->at_most = KCHECK_DAMAGE;
    view->base = area;
    view->base_loaded = !error;
    return error;
}

/* Neither area is whole: keep what the newest gave, and take from the older what is not there.
 * A page that has changed since then fails its CRC later. */
static int areas_merge(struct kview *view)
{
    struct kmodel older, *model = &view->model;
    view->quiet = true;
    int error = karea_load(view, !view->super.newest, &older);
    view->quiet = false;
    bool any = error != -ENOMEM;
    for (uint32_t i = 0; any && i < older.container_count; i++)
        if (!kmodel_container(model, older.containers[i].object) &&
            kmodel_container_add(model, &older.containers[i].disk))
            any = false;
    for (uint32_t i = 0; any && i < older.name_count; i++)
        if (!kmodel_name(model, older.names[i].object, older.names[i].value.name) &&
            kmodel_name_add(model, older.names[i].object, &older.names[i].value))
            any = false;
    for (uint32_t i = 0; any && i < older.leaf_count; i++) {
        const struct kleaf *from = kmodel_leaf_at(&older, i);
        if (!from || kmodel_leaf(model, from->object, from->index) ||
            kmodel_owner(model, from->physical))
            continue;
        struct kleaf *to = kmodel_leaf_add(model, from->object, from->index, from->physical);
        any = to != NULL;
        if (to) {
            memcpy(kleaf_lsn(to), kleaf_lsn(from), model->leaf_size - sizeof *to);
            to->mask = from->mask;
            to->claimed = from->claimed;
            to->born = from->born;
            model->pages_present += kbits(to->mask);
        }
    }
    kmodel_free(&older);
    return any ? 0 : -ENOMEM;
}

static int base_choose(struct kview *view)
{
    uint32_t newest = view->super.newest;
    int error = area_try(view, newest, true, KCHECK_DAMAGE);
    if (error != -EUCLEAN)
        return error;
    int older = area_try(view, !newest, true, KCHECK_DAMAGE);
    if (older == -ENOMEM)
        return older;
    view->result.older_checkpoint = true;
    if (older == 0) {
        area_try(view, newest, false, KCHECK_WARNING);
        kview_find(view, KCHECK_WARNING, "ST18",
                   "the newest checkpoint does not verify; a recovery "
                   "starts from the older one at redo LSN %llu and replays more of the log. "
                   "Nothing is lost by that, but until the next checkpoint there is no other way "
                   "back",
                   (unsigned long long)view->super.checkpoints[!newest].redo_lsn);
        return area_try(view, !newest, true, KCHECK_DAMAGE);
    }
    area_try(view, !newest, false, KCHECK_DAMAGE);
    error = area_try(view, newest, false, KCHECK_DAMAGE);
    kview_find(view, KCHECK_DAMAGE, "ST18", "no checkpoint verifies");
    if (error != -EUCLEAN)
        return error;
    if (view->rescue && areas_merge(view))
        return -ENOMEM;
    return -EUCLEAN;
}

/* ---- the log */

static int groups_replay(struct kview *view)
{
    int error = 0;
    bool same = !view->result.groups && !view->result.older_checkpoint;     /* UL3 */
    kunlogged_forget(&view->model, same);
    for (uint32_t i = 0; i < view->group_count && !error; i++) {
        struct kgroup group;
        int found = klog_group(view, view->groups[i].lsn, &group);
        kview_progress(view, "replay", i, view->group_count);
        if (found != 1)
            return found < 0 ? found : -EIO;            /* it was there a moment ago */
        error = kreplay_group(view, &view->model, &group,
                              &view->super.checkpoints[view->base]);
        if (error == -EUCLEAN)
            view->result.damage_lsn = group.lsn;
    }
    if (!error)
        error = kdoubts_count(view, &view->model);
    if (error == -EUCLEAN && !view->result.damage_lsn)
        view->result.damage_lsn = view->result.redo_lsn;
    kunlogged_lose(&view->model, same);
    return error ? error : kdoubts_end(view);
}

static int recover(struct kview *view)
{
    int base = base_choose(view);
    if (base && (base != -EUCLEAN || !view->rescue))
        return base;
    view->result.redo_lsn = view->super.checkpoints[view->base].redo_lsn;
    if (!view->result.redo_lsn)
        return base;
    int error = klog_follow(view, view->base);
    for (uint32_t i = 0; i < view->group_count; i++)
        view->result.groups +=
            view->groups[i].lsn >= view->super.checkpoints[view->base].pages_lsn;
    if (!error)
        error = klog_judge(view);
    if (!error)
        error = groups_replay(view);
    if (!error && !base)
        klog_epochs(view);
    return error ? error : base;
}

static void slots_report(struct kview *view)
{
    for (int i = 0; i < 2; i++)
        if (view->slots[i].state != KSLOT_VALID)
            kview_find(view, KCHECK_WARNING, "ST17",
                       "superblock slot %c is not valid: %s; the next "
                       "checkpoint repairs it. With only one valid superblock, loss of the newest "
                       "commits cannot be excluded: the other may have known of them",
                       'A' + i, view->slots[i].why);
    const struct kslot *a = &view->slots[0], *b = &view->slots[1];
    bool both = a->state == KSLOT_VALID && b->state == KSLOT_VALID;
    if (both && a->generation + 1 != b->generation && b->generation + 1 != a->generation)
        kview_find(view, KCHECK_DAMAGE, "ST17", "the superblocks' generations, %llu and %llu, do "
                   "not follow each other", (unsigned long long)a->generation,
                   (unsigned long long)b->generation);
    if (view->io.bytes < view->super.disk_bytes)
        kview_find(view, KCHECK_DAMAGE, "", "the image is %llu bytes shorter than the store",
                   (unsigned long long)(view->super.disk_bytes - view->io.bytes));
    if (view->io.bytes / BLOCK_BYTES * BLOCK_BYTES > view->super.disk_bytes)
        kview_find(view, KCHECK_NOTE, "", "the image is %llu bytes larger than the store",
                   (unsigned long long)(view->io.bytes - view->super.disk_bytes));
}

int kview_open(struct kview *view, const struct kcheck_io *io,
               const struct kcheck_options *options, bool rescue)
{
    memset(view, 0, sizeof *view);
    view->io = *io;
    if (options)
        view->options = *options;
    view->rescue = rescue;
    view->at_most = KCHECK_DAMAGE;
    if (io->bytes < 8 * BLOCK_BYTES)
        return view->result.error = -EMEDIUMTYPE;
    kslots_read(view);
    int error = kslots_choose(view);
    if (!error)
        slots_report(view);
    if (error == -EUCLEAN)
        for (int i = 0; i < 2; i++)
            kview_find(view, KCHECK_DAMAGE, "ST17", "superblock slot %c is not valid: %s", 'A' + i,
                       view->slots[i].why);
    for (int i = 0; error == -EUCLEAN && i < 2; i++)
        if (view->slots[i].disk_bytes > io->bytes) {
            kview_find(view, KCHECK_DAMAGE, "", "the image has %llu bytes, the store on it %llu: "
                       "its end is cut off; restore a copy, or `kstore salvage` what is there",
                       (unsigned long long)io->bytes,
                       (unsigned long long)view->slots[i].disk_bytes);
            break;
        }
    if (!error)
        error = recover(view);
    return view->result.error = error;
}

void kview_close(struct kview *view)
{
    kmodel_free(&view->model);
    free(view->groups);
    free(view->buffer);
    view->groups = NULL;
    view->buffer = NULL;
}

/* ---- pages */

uint64_t kview_home(const struct kview *view, const struct kleaf *leaf, uint32_t page)
{
    return view->super.data_start + leaf->physical * view->super.extent_bytes +
           (uint64_t)page * BLOCK_BYTES;
}

uint64_t kview_address(const struct kview *view, const struct kcontainer *container, uint64_t page)
{
    const uint64_t per_gib = STORE_SEGMENT_UNIT / STORE_PAGE_BYTES;
    for (uint32_t s = 0; s < le32_get(container->disk.segment_count); s++) {
        const struct segment_disk *segment = &container->disk.segments[s];
        uint64_t pages = le32_get(segment->gib) * per_gib;
        if (page < pages)
            return store_zone_base(view->super.zone) +
                   le32_get(segment->first_gib) * STORE_SEGMENT_UNIT + page * STORE_PAGE_BYTES;
        page -= pages;
    }
    return 0;
}

static int record_patch(struct kview *view, const struct kpage_record *record, uint8_t *page)
{
    uint64_t from = record->data_offset / BLOCK_BYTES * BLOCK_BYTES;
    size_t skip = (size_t)(record->data_offset - from);
    size_t bytes = (skip + record->data_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    uint8_t *blocks = malloc(bytes);
    int error = !blocks ? -ENOMEM : kview_read(view, from, blocks, bytes);
    const uint8_t *data = blocks + skip;
    uint8_t unpacked[KUNPACKED_BYTES];
    int count = (int)record->data_bytes;
    if (!error && record->packed) {
        count = kunpack(data, record->data_bytes, unpacked);
        data = unpacked;
    }
    if (!error && (count < 0 || (record->full         ? count != BLOCK_BYTES
                                 : record->operations ? !!koperations(data, (uint32_t)count)
                                                      : !!kreplay_runs(data, (uint32_t)count))))
        error = -EUCLEAN;               /* the log changed under our hands */
    if (!error && record->full)
        memcpy(page, data, BLOCK_BYTES);
    else if (!error && record->operations)
        koperate(page, data, (uint32_t)count);
    else if (!error)
        kreplay_patch(page, data, (uint32_t)count);
    free(blocks);
    return error;
}

/* Oldest record first: the chain is turned round in an array. */
static int page_from_log(struct kview *view, const struct kmodel *model, uint32_t newest,
                         uint8_t *page)
{
    uint32_t count = 0, n;
    for (uint32_t at = newest; at; at = model->records[at - 1].before)
        count++;
    uint32_t *chain = malloc(count * sizeof *chain);
    if (!chain)
        return -ENOMEM;
    n = count;
    for (uint32_t at = newest; at; at = model->records[at - 1].before)
        chain[--n] = at;
    memset(page, 0, BLOCK_BYTES);
    int error = 0;
    for (; n < count && !error; n++)
        error = record_patch(view, &model->records[chain[n] - 1], page);
    free(chain);
    return error;
}

int kview_page(struct kview *view, struct kmodel *model, const struct kleaf *leaf, uint32_t page,
               uint8_t *bytes)
{
    uint32_t newest = kleaf_record(model, leaf)[page];
    if (newest)
        return page_from_log(view, model, newest, bytes);
    if (kview_read(view, kview_home(view, leaf, page), bytes, BLOCK_BYTES))
        return -EIO;
    return kcheck_crc(0, bytes, BLOCK_BYTES) == kleaf_crc(model, leaf)[page] ? 0 : -EUCLEAN;
}
