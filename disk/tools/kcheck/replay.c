/*
 * replay.c - applies the records of one group to a model.
 *
 * Bytes of pages are not built here; each page record is noted with its place on the disk, and
 * kview_page() builds the page when it is wanted.
 */
#include "view.h"

#include <string.h>

struct replay {
    struct kview *view;
    struct kmodel *model;
    const struct kgroup *group;
    uint64_t csn, redo_lsn, scan_lsn;
    const char *why;            /* what is wrong with the record */
};

static int wrong(struct replay *r, const char *why)
{
    r->why = why;
    return -EUCLEAN;
}

/* ---- pages */

static int extent_reuse_check(struct replay *r, uint64_t physical, uint64_t object, uint64_t index)
{
    struct kmodel *model = r->model;
    const struct kslot *super = &r->view->super;
    for (uint32_t i = 0; i < model->freed_count; i++) {
        struct kfreed *freed = &model->freed[i];
        if (freed->physical != physical)
            continue;
        bool early = freed->lsn >= super->checkpoints[super->newest].redo_lsn &&
                     (freed->object != object || freed->index != index) &&
                     super->checkpoints[!super->newest].redo_lsn &&     /* none was given up */
                     !(super->flags & FLAG_COPY) &&     /* there was one, at its home */
                     !r->view->result.slot_bad[0] && !r->view->result.slot_bad[1];
        if (early)
            kview_find(r->view, KCHECK_DAMAGE, "ST22",
                       "extent %llu was freed at LSN %llu and given "
                       "to another owner at %llu, before any checkpoint",
                       (unsigned long long)physical, (unsigned long long)freed->lsn,
                       (unsigned long long)r->csn);
        *freed = model->freed[--model->freed_count];
        return 0;
    }
    return 0;
}

static int leaf_make(struct replay *r, uint64_t object, uint64_t index, uint64_t physical,
                     struct kleaf **out)
{
    const struct kslot *super = &r->view->super;
    if (physical >= super->extents || kslot_reserves(super, physical))
        return wrong(r, "it names an extent that does not exist");
    if (kmodel_owner(r->model, physical))
        return wrong(r, "its extent belongs to another page");
    extent_reuse_check(r, physical, object, index);
    *out = kmodel_leaf_add(r->model, object, index, physical);
    if (!*out)
        return -ENOMEM;
    (*out)->born = r->csn;
    return 0;
}

static int page_note(struct replay *r, const struct record_disk *record, uint64_t data_offset,
                     struct kleaf *leaf, uint32_t page)
{
    struct kmodel *model = r->model;
    uint32_t *newest = &kleaf_record(model, leaf)[page];
    uint64_t base = le64_get(record->base);
    bool full = le16_get(record->type) == RECORD_PAGE_FULL;
    struct kpage_record note = { .data_offset = data_offset, .full = full,
                                 .packed = kpacked(record),
                                 .operations = le16_get(record->type) == RECORD_PAGE_OP,
                                 .data_bytes = le32_get(record->data_bytes) };
    if (!full && base) {
        if (!*newest || base != kleaf_lsn(leaf)[page])
            return wrong(r, "it is a difference from a version that is not there");
        note.before = *newest;
    }
    *newest = kmodel_record_add(model, &note);
    return *newest ? 0 : -ENOMEM;
}

/* A page of the chain that this transaction ends: its image is in the log, and must have the CRC
 * that is named. */
static int logged_note(struct replay *r, const struct record_disk *record, struct kleaf *leaf,
                       uint32_t page)
{
    uint8_t image[BLOCK_BYTES];
    const struct kslot *super = &r->view->super;
    uint64_t lsn = le64_get(record->base);
    uint32_t *newest = &kleaf_record(r->model, leaf)[page];
    struct kpage_record note = { .full = true, .data_bytes = BLOCK_BYTES,
                                 .data_offset = super->log_start + lsn % super->log_bytes };
    if (lsn % BLOCK_BYTES || lsn < r->scan_lsn || lsn >= r->csn)
        return wrong(r, "its image is outside of the log");
    if (kview_read(r->view, note.data_offset, image, sizeof image))
        return -EIO;
    if (kcheck_crc(0, image, sizeof image) != le32_get(record->crc))
        return wrong(r, "its image does not have its CRC");
    *newest = kmodel_record_add(r->model, &note);
    return *newest ? 0 : -ENOMEM;
}

static int page_apply(struct replay *r, const struct record_disk *record, uint64_t data_offset)
{
    struct kmodel *model = r->model;
    uint64_t object = le64_get(record->object), page = le64_get(record->page);
    uint64_t physical = le64_get(record->physical);
    uint32_t n = model->extent_pages, p = (uint32_t)(page % n);
    struct kcontainer *container = kmodel_container(model, object);
    if (!container || page >= kcontainer_pages(&container->disk))
        return wrong(r, "it is outside of any container");
    const char *why = kpage_wrong(record);
    if (why)
        return wrong(r, why);
    struct kleaf *leaf = kmodel_leaf(model, object, page / n);
    if (leaf && leaf->physical != physical)
        return wrong(r, "its page lies in another extent");
    int error = leaf ? 0 : leaf_make(r, object, page / n, physical, &leaf);
    if (!error)
        error = le16_get(record->type) == RECORD_PAGE_LOGGED
                    ? logged_note(r, record, leaf, p)
                    : page_note(r, record, data_offset, leaf, p);
    if (error)
        return error;
    if (!(leaf->mask >> p & 1)) {
        model->pages_present++;
        container->pages_present++;
    }
    leaf->mask |= 1u << p;
    leaf->claimed &= ~(1u << p);
    kleaf_lsn(leaf)[p] = r->csn;
    kleaf_crc(model, leaf)[p] = 0;
    return 0;
}

/* Pages that were home before the commit, in extents that this transaction gives. */
static int home_apply(struct replay *r, struct kcontainer *container,
                      const struct record_disk *record)
{
    struct kmodel *model = r->model;
    const le32 *crcs = (const le32 *)(record + 1);
    uint64_t first = le64_get(record->page), count = le64_get(record->base),
             n = model->extent_pages, pages = kcontainer_pages(&container->disk);
    if (!count || first >= pages || count > pages - first)
        return wrong(r, "its pages are outside its container");
    if (le32_get(record->data_bytes) != count * sizeof *crcs)
        return wrong(r, "it has a wrong size");
    for (uint64_t i = 0; i < count; i++) {
        uint64_t index = (first + i) / n, p = (first + i) % n;
        uint64_t physical = le64_get(record->physical) + index - first / n;
        struct kleaf *leaf = kmodel_leaf(model, container->object, index);
        int error = leaf ? 0 : leaf_make(r, container->object, index, physical, &leaf);
        if (error)
            return error;
        if (leaf->physical != physical || leaf->born != r->csn || leaf->mask >> p & 1)
            return wrong(r, "a page that it says is home lies in an extent from before");
        leaf->mask |= 1u << p;
        leaf->claimed &= ~(1u << p);
        kleaf_lsn(leaf)[p] = r->csn;
        kleaf_crc(model, leaf)[p] = le32_get(crcs[i]);
        kleaf_record(model, leaf)[p] = 0;
        model->pages_present++;
        container->pages_present++;
    }
    return 0;
}

static int claim_apply(struct replay *r, const struct kcontainer *container,
                       const struct record_disk *record)
{
    struct kmodel *model = r->model;
    uint64_t first = le64_get(record->page), count = le64_get(record->base),
             n = model->extent_pages;
    uint64_t pages = kcontainer_pages(&container->disk);
    int error = 0;
    if (le32_get(record->data_bytes))
        return wrong(r, "it has a wrong size");
    if (!count || first >= pages || count > pages - first)
        return wrong(r, "it claims pages outside its container");
    if (le16_get(record->flags) & RECORD_WRITTEN)
        return wrong(r, "pages whose bytes belong into the log are not there");
    for (uint64_t index = first / n; index <= (first + count - 1) / n && !error; index++) {
        uint64_t physical = le64_get(record->physical) + index - first / n;
        struct kleaf *leaf = kmodel_leaf(model, container->object, index);
        if (leaf && leaf->physical != physical)
            return wrong(r, "a page that it claims lies in another extent");
        error = leaf ? 0 : leaf_make(r, container->object, index, physical, &leaf);
        for (uint64_t p = 0; p < n && !error; p++)
            if (index * n + p >= first && index * n + p < first + count && !(leaf->mask >> p & 1))
                leaf->claimed |= 1u << p;
    }
    return error;
}

/* The leaf of an extent names another one; what was present of it is claimed. */
static int move_apply(struct replay *r, struct kcontainer *container,
                      const struct record_disk *record)
{
    struct kmodel *model = r->model;
    uint64_t page = le64_get(record->page), n = model->extent_pages;
    struct kleaf *leaf = kmodel_leaf(model, container->object, page / n);
    if (!leaf || page % n || le32_get(record->data_bytes) ||
        le64_get(record->physical) == leaf->physical)
        return wrong(r, "it moves an extent that is none, or to where it is");
    uint32_t held = leaf->mask | leaf->claimed, present = kbits(leaf->mask);
    struct kfreed freed = { leaf->physical, leaf->object, leaf->index, r->csn };
    kmodel_leaf_remove(model, leaf);
    int error = leaf_make(r, container->object, page / n, le64_get(record->physical), &leaf);
    if (error)
        return error;
    leaf->claimed = held;
    model->pages_present -= present;
    container->pages_present -= present;
    return kmodel_freed_add(model, &freed);
}

/* Frees the pages [from, to) of this leaf; the extent goes with its last page. */
static int leaf_free(struct replay *r, struct kcontainer *container, struct kleaf *leaf,
                     uint64_t from, uint64_t to)
{
    struct kmodel *model = r->model;
    uint64_t first = leaf->index * model->extent_pages;
    for (uint32_t p = 0; p < model->extent_pages; p++) {
        if (first + p < from || first + p >= to)
            continue;
        leaf->claimed &= ~(1u << p);
        if (!(leaf->mask >> p & 1))
            continue;
        leaf->mask &= ~(1u << p);
        kleaf_lsn(leaf)[p] = 0;
        kleaf_crc(model, leaf)[p] = kleaf_record(model, leaf)[p] = 0;
        model->pages_present--;
        container->pages_present--;
    }
    if (leaf->mask | leaf->claimed)
        return 0;
    struct kfreed freed = { leaf->physical, leaf->object, leaf->index, r->csn };
    kmodel_leaf_remove(model, leaf);
    return kmodel_freed_add(model, &freed);
}

static int range_free(struct replay *r, struct kcontainer *container, uint64_t from, uint64_t count)
{
    struct kmodel *model = r->model;
    uint64_t pages = kcontainer_pages(&container->disk), n = model->extent_pages;
    int error = 0;
    if (from > pages || count > pages - from)
        return wrong(r, "it frees pages outside its container");
    if (!count)
        return 0;
    uint64_t first = from / n, last = (from + count - 1) / n;
    if (last - first >= model->leaf_count) {            /* the shorter walk of the two */
        for (uint32_t i = 0; i < model->leaf_count && !error; i++) {
            struct kleaf *leaf = kmodel_leaf_at(model, i);
            if (leaf && leaf->object == container->object)
                error = leaf_free(r, container, leaf, from, from + count);
        }
        return error;
    }
    for (uint64_t i = first; i <= last && !error; i++) {
        struct kleaf *leaf = kmodel_leaf(model, container->object, i);
        if (leaf)
            error = leaf_free(r, container, leaf, from, from + count);
    }
    return error;
}

/* ---- directory */

static bool range_used(const struct kmodel *model, uint64_t first, uint64_t gib)
{
    for (uint32_t i = 0; i < model->container_count; i++) {
        const struct container_disk *c = &model->containers[i].disk;
        for (uint32_t s = 0; s < le32_get(c->segment_count); s++) {
            uint64_t from = le32_get(c->segments[s].first_gib);
            if (first < from + le32_get(c->segments[s].gib) && from < first + gib)
                return true;
        }
    }
    return false;
}

static bool name_taken(const struct kmodel *model, const char *name)
{
    for (uint32_t i = 0; i < model->container_count; i++)
        if (kname_equal(model->containers[i].disk.name, name))
            return true;
    return false;
}

static int create_apply(struct replay *r, const struct record_disk *record)
{
    struct container_disk disk;
    struct kmodel *model = r->model;
    uint64_t object = le64_get(record->object);
    if (le32_get(record->data_bytes) != CREATE_BYTES)
        return wrong(r, "it has a wrong size");
    memset(&disk, 0, sizeof disk);
    memcpy(&disk, record + 1, CREATE_BYTES);
    disk.object = record->object;
    disk.created = le64_of(r->csn);
    if (!kcontainer_valid(r->view->super.zone, &disk) || le32_get(disk.segment_count) != 1)
        return wrong(r, "its fields are out of range");
    if (object < model->next_object || object >> 62)
        return wrong(r, "its id was given before");
    if (name_taken(model, disk.name))
        return wrong(r, "its name is taken");
    if (range_used(model, le32_get(disk.segments[0].first_gib), le32_get(disk.segments[0].gib)))
        return wrong(r, "its addresses are taken");
    if (model->container_count >= r->view->super.directory_pages_max * CONTAINERS_PER_PAGE)
        return wrong(r, "the directory is full");
    model->next_object = object + 1;
    return kmodel_container_add(model, &disk);
}

static int delete_apply(struct replay *r, struct kcontainer *container)
{
    struct kmodel *model = r->model;
    int error = range_free(r, container, 0, kcontainer_pages(&container->disk));
    if (error)
        return error;
    for (uint32_t i = 0; i < model->name_count;)
        if (model->names[i].object == container->object)
            kmodel_name_remove(model, &model->names[i]);
        else
            i++;
    kmodel_container_remove(model, container);
    return 0;
}

static int rename_apply(struct replay *r, struct kcontainer *container, const char *name)
{
    if (!kname_valid(name) || name_taken(r->model, name))
        return wrong(r, "the new name is not valid or taken");
    memset(container->disk.name, 0, STORE_NAME_BYTES);
    memcpy(container->disk.name, name, strnlen(name, STORE_NAME_BYTES - 1));
    return 0;
}

static int grow_apply(struct replay *r, struct kcontainer *container,
                      const struct segment_disk *segment)
{
    uint32_t first = le32_get(segment->first_gib), gib = le32_get(segment->gib);
    uint32_t count = le32_get(container->disk.segment_count);
    if (!ksegment_valid(r->view->super.zone, first, gib) || range_used(r->model, first, gib) ||
        count >= STORE_SEGMENT_MAX)
        return wrong(r, "the new segment is out of range or taken");
    container->disk.segments[count] = *segment;
    container->disk.segment_count = le32_of(count + 1);
    return 0;
}

static int name_set_apply(struct replay *r, struct kcontainer *container,
                          const struct name_value_disk *value)
{
    struct kmodel *model = r->model;
    if (!kname_valid(value->name))
        return wrong(r, "the name is not valid");
    struct kname *name = kmodel_name(model, container->object, value->name);
    if (name) {
        name->value = *value;
        return 0;
    }
    if (model->name_count >= r->view->super.names_pages_max * NAMES_PER_PAGE)
        return wrong(r, "there are too many names");
    return kmodel_name_add(model, container->object, value);
}

static int name_unset_apply(struct replay *r, struct kcontainer *container, const char *text)
{
    struct kname *name = kmodel_name(r->model, container->object, text);
    if (!name)
        return wrong(r, "there is no such name");
    kmodel_name_remove(r->model, name);
    return 0;
}

/* The size of the payload of an operation on a container. */
static size_t payload_of(unsigned type)
{
    return type == RECORD_RENAME || type == RECORD_NAME_UNSET ? STORE_NAME_BYTES
         : type == RECORD_GROW ? sizeof(struct segment_disk)
         : type == RECORD_LAYOUT ? sizeof(struct layout_disk)
         : type == RECORD_NAME_SET ? sizeof(struct name_value_disk) : 0;
}

static int choice_apply(struct replay *r, le16 *choice, uint64_t value, uint64_t count)
{
    *choice = le16_of((uint16_t)value);
    return value < count ? 0 : wrong(r, "there is no such choice");
}

static int operation_apply(struct replay *r, const struct record_disk *record)
{
    unsigned type = le16_get(record->type);
    struct kcontainer *container = kmodel_container(r->model, le64_get(record->object));
    const void *data = record + 1;
    uint64_t value = le64_get(record->page);
    if (!container)
        return wrong(r, "there is no such container");
    if (payload_of(type) && le32_get(record->data_bytes) != payload_of(type))
        return wrong(r, "it has a wrong size");
    switch (type) {
    case RECORD_PAGE_CLAIM: return claim_apply(r, container, record);
    case RECORD_MOVE: return move_apply(r, container, record);
    case RECORD_PAGE_HOME: return home_apply(r, container, record);
    case RECORD_PAGE_FREE:
        return range_free(r, container, le64_get(record->page), le64_get(record->base));
    case RECORD_DELETE: return delete_apply(r, container);
    case RECORD_RENAME: return rename_apply(r, container, data);
    case RECORD_GROW: return grow_apply(r, container, data);
    case RECORD_LAYOUT:
        container->disk.layout = *(const struct layout_disk *)data;
        return !container->disk.layout.type[0] || kname_valid(container->disk.layout.type)
                   ? 0 : wrong(r, "the type has no valid name");
    case RECORD_NAME_SET: return name_set_apply(r, container, data);
    case RECORD_NAME_UNSET: return name_unset_apply(r, container, data);
    case RECORD_ENCODER:
        return choice_apply(r, &container->disk.encoder, value, STORE_ENCODER_COUNT);
    case RECORD_LOCKING:
        return choice_apply(r, &container->disk.locking, value, STORE_LOCKING_COUNT);
    case RECORD_PROTECTION:
        return choice_apply(r, &container->disk.protection, value, STORE_PROTECTION_COUNT);
    case RECORD_DURABILITY:
        r->why = kunlogged_change(r->model, container, value);
        return r->why ? -EUCLEAN : 0;
    default: return wrong(r, "it is of no known type");
    }
}

static int doubt_apply(struct replay *r, const struct record_disk *record)
{
    uint64_t scan_lsn = r->group->lsn < r->redo_lsn ? r->scan_lsn : 0;
    return kdoubt_apply(r->model, r->group, record, scan_lsn, &r->why);
}

static int record_apply(struct replay *r, const struct record_disk *record, size_t at)
{
    if (kunlogged_passes(r->model, record))
        return 0;
    switch (le16_get(record->type)) {
    case RECORD_PAGE_FULL:
    case RECORD_PAGE_DIFF:
    case RECORD_PAGE_OP:
    case RECORD_PAGE_LOGGED:
        return page_apply(r, record, r->group->offset + at + sizeof *record);
    case RECORD_CREATE:
        return create_apply(r, record);
    case RECORD_DECIDED:
        return doubt_apply(r, record);
    default:
        return operation_apply(r, record);
    }
}

/* ---- transactions: records, then the commit record that counts them */

static const struct record_disk *record_at(struct replay *r, size_t bytes, size_t at, size_t *next)
{
    const struct record_disk *record = kreplay_record(r->view->buffer, bytes, at, next);
    if (!record)
        wrong(r, "a record is malformed");
    return record;
}

/* The commit record of the transaction that begins at `at`; *records is how many come before. */
static const struct record_disk *commit_find(struct replay *r, size_t bytes, size_t at,
                                             uint32_t left, uint32_t *records)
{
    for (*records = 0; *records < left; ++*records) {
        size_t next = at;
        const struct record_disk *record = record_at(r, bytes, at, &next);
        if (!record)
            return NULL;
        r->csn = r->group->lsn + at;
        if (le16_get(record->type) == RECORD_COMMIT)
            return record;
        at = next;
    }
    wrong(r, "records without a commit record");
    return NULL;
}

static int transaction_apply(struct replay *r, size_t bytes, size_t *at, uint32_t *left)
{
    const uint8_t *group = r->view->buffer;
    uint32_t records;
    size_t next = *at;
    const struct record_disk *commit = commit_find(r, bytes, *at, *left, &records);
    if (!commit)
        return -EUCLEAN;
    if (le64_get(commit->page) != records)
        return wrong(r, "a commit record counts wrongly");
    r->why = kchain_end(r->model, commit);
    int error = r->why ? -EUCLEAN : 0;
    for (uint32_t i = 0; i < records && !error; i++, *at = next)
        error = record_apply(r, kreplay_record(group, bytes, *at, &next), *at);
    if (error)
        return error;
    kreplay_record(group, bytes, *at, &next);
    *at = next;
    *left -= records + 1;
    r->view->result.transactions++;
    return 0;
}

/* The next transaction, or what stands outside of one. */
static int piece_apply(struct replay *r, size_t bytes, size_t *at, uint32_t *left)
{
    size_t next = *at;
    const struct record_disk *record = record_at(r, bytes, *at, &next);
    if (!record)
        return -EUCLEAN;
    unsigned type = le16_get(record->type);
    bool before = r->group->lsn < r->redo_lsn;
    int error = 0;
    if (type == RECORD_SPILL)
        error = kchain_extend(r->model, r->group, le64_get(record->base));
    else if (kdoubt_alone(record) || (type == RECORD_DECIDED && before))
        error = doubt_apply(r, record);
    else if (type != RECORD_NOOP && !before)
        return transaction_apply(r, bytes, at, left);
    *at = next;
    --*left;
    return error;
}

int kreplay_group(struct kview *view, struct kmodel *model, const struct kgroup *group,
                  const struct kcheckpoint *from)
{
    const struct group_disk *header = (const void *)view->buffer;
    struct replay r = { .view = view, .model = model, .group = group,
                        .redo_lsn = from->redo_lsn, .scan_lsn = from->scan_lsn };
    size_t at = sizeof *header, bytes = sizeof *header + le32_get(header->payload_bytes);
    uint32_t left = group->records;
    int error = group->lsn < from->redo_lsn ? 0 : kdoubts_count(view, model);
    if (error)
        return error;
    while (left && !error)
        error = piece_apply(&r, bytes, &at, &left);
    if (!error && at != bytes)
        error = wrong(&r, "bytes follow the last record");
    if (!error && group->lsn >= from->pages_lsn && group->lsn < from->redo_lsn)
        error = kbefore_group(view, model, group, from, &at, &r.why);
    if (error == -EUCLEAN)
        kview_find(view, KCHECK_DAMAGE, "RC1", "the group at LSN %llu, byte %zu: %s",
                   (unsigned long long)group->lsn, at, r.why);
    return error;
}
