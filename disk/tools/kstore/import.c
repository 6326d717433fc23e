/*
 * import.c - kstore import: a container made of the lines of kstore export.
 *
 * All lines are read, checked and turned into pages in memory before anything is written: objects
 * go where they were, counted from the container's beginning, and references become addresses of
 * the new container. Then a container with a name of its own is filled; it gets its true name last,
 * in one transaction. So an import that was cut off leaves none of that name.
 */
#include "import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define UNDER_WAY "import under way"
#define OBJECT_PAGES_MAX (1u << 18)     /* of the largest object */

static const struct argp_option options[] = {
    { "name", 'n', "NAME", 0, "call the container so, not as it was called", 0 },
    COMMON_QUIET,
    { 0 },
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct import_wish *wish = state->input;
    if (key == 'n')
        wish->name = value;
    return key == 'n' ? 0 : common_parse(key, value, state);
}

static const struct argp argp = { options, parse, "IMAGE FILE", "Makes a container of the lines "
    "that `kstore export` printed, in this or another store, at addresses of its own; references "
    "become pointers to them. FILE may be - for standard input. A container whose objects others "
    "point to is imported before those."
    "\vAll or nothing is imported: what is wrong is told with its line. An import that was stopped "
    "leaves a container `" UNDER_WAY "`, which the next one removes, or `rm-container` in the "
    "guest. Of containers that point into each other one comes first with `zeros` in the place "
    "of its pointers into the others.", NULL, NULL, NULL };

int import_wrong(struct import *m, const char *text, ...)
{
    va_list values;
    if (!m->wrong) {
        va_start(values, text);
        fprintf(stderr, "kstore: line %llu: ", (unsigned long long)m->line);
        vfprintf(stderr, text, values);
        fprintf(stderr, "\n");
        va_end(values);
    }
    m->wrong = true;
    return -EINVAL;
}

/* ---- pages of the new container, in memory */

static struct import_page *page_find(struct import *m, uint64_t number)
{
    uint32_t low = 0, high = m->page_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (m->page[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->page_count && m->page[low].number == number ? &m->page[low] : NULL;
}

static struct import_page *page_add(struct import *m, uint64_t number)
{
    if (m->page_count && m->page[m->page_count - 1].number >= number) {
        import_wrong(m, "page %llu is not behind the one before it", (unsigned long long)number);
        return NULL;
    }
    if (m->page_count == m->pages_max) {
        import_wrong(m, "more pages than the store could hold");
        return NULL;
    }
    if (!karray_room((void **)&m->page, m->page_count, &m->page_room, sizeof *m->page)) {
        import_wrong(m, "no memory");
        return NULL;
    }
    struct import_page *page = &m->page[m->page_count++];
    *page = (struct import_page){ .number = number, .bytes = calloc(1, SLOT_PAGE_BYTES) };
    if (!page->bytes)
        import_wrong(m, "no memory");
    return page->bytes ? page : NULL;
}

static uint64_t pages_of(uint32_t segments)     /* STORE_OP_GROW */
{
    uint64_t gib = segments ? 1 : 0;
    for (uint32_t s = 1; s < segments; s++)
        gib *= gib < 256 ? 2 : 3;
    return gib * (STORE_SEGMENT_UNIT / STORE_PAGE_BYTES);
}

int import_page_line(struct import *m, const struct import_line *l)
{
    uint64_t most = pages_of(m->segments);
    if (l->page >= most || l->tail >= most - l->page || l->tail > OBJECT_PAGES_MAX)
        return import_wrong(m, "page %llu is outside the container", (unsigned long long)l->page);
    if (l->page < m->covered)
        return import_wrong(m, "page %llu is of a large object", (unsigned long long)l->page);
    struct import_page *page = page_add(m, l->page);
    if (!page)
        return -EINVAL;
    page->sealed = true;
    page->marked = l->marked;
    page->tail = (uint32_t)l->tail;
    page->arena = l->arena;
    page->next = l->next;
    for (uint64_t i = 1; i <= l->tail; i++)
        if (!page_add(m, l->page + i))
            return -EINVAL;
    m->covered = l->page + l->tail + 1;
    return 0;
}

/* ---- objects */

/* The page that an object at this place begins in, and its first unit there, 1 to SLOT_UNITS. */
static struct import_page *page_of_object(struct import *m, uint64_t place, unsigned *start)
{
    struct import_page *page = place % SLOT_PAGE_BYTES ? page_find(m, place / SLOT_PAGE_BYTES)
                                                       : NULL;
    *start = (unsigned)(place % SLOT_PAGE_BYTES / SLOT_UNIT_BYTES);
    if (!page && place >= SLOT_PAGE_BYTES) {            /* it begins at the next page's begin */
        page = page_find(m, place / SLOT_PAGE_BYTES - 1);
        *start = SLOT_UNITS;
    }
    return page && page->sealed ? page : NULL;
}

int import_object_line(struct import *m, const struct import_line *l)
{
    unsigned start;
    struct import_page *page = page_of_object(m, l->object, &start);
    uint64_t units = l->bytes / SLOT_UNIT_BYTES;
    if (!page || l->object % SLOT_UNIT_BYTES)
        return import_wrong(m, "no page for object %llu", (unsigned long long)l->object);
    uint64_t run = SLOT_UNITS - start + (uint64_t)page->tail * (SLOT_PAGE_BYTES / SLOT_UNIT_BYTES);
    bool runs = page->tail && units == run;
    if (!units || l->bytes % SLOT_UNIT_BYTES || (!runs && start + units > SLOT_UNITS))
        return import_wrong(m, "%llu bytes are no size there", (unsigned long long)l->bytes);
    if (l->type && !page->marked)
        return import_wrong(m, "a type in a page that is not marked");
    for (unsigned unit = start; unit < SLOT_UNITS && unit < start + units; unit++)
        if (page->used[unit]++)
            return import_wrong(m, "object %llu lies over another",
                                (unsigned long long)l->object);
    if (page->slots == SLOT_COUNT_MAX || (runs && page->runs))
        return import_wrong(m, "too many objects in a page");
    page->runs |= runs;
    page->slot[page->slots].start = (uint8_t)start;
    page->slot[page->slots].units = runs ? SLOT_RUNS_ON : (uint8_t)units;
    page->type[page->slots++] = (uint32_t)l->type;
    m->objects++;
    m->at = l->object;
    m->end = l->object + l->bytes;
    return 0;
}

static uint8_t *byte_at(struct import *m, uint64_t place)
{
    struct import_page *page = page_find(m, place / SLOT_PAGE_BYTES);
    return page ? page->bytes + place % SLOT_PAGE_BYTES : NULL;
}

int import_bytes(struct import *m, const uint8_t *bytes, uint64_t count)
{
    if (count > m->end - m->at)
        return import_wrong(m, "the data are longer than the object");
    for (uint64_t i = 0; bytes && i < count; i++) {
        uint8_t *to = byte_at(m, m->at + i);
        if (!to)
            return import_wrong(m, "no page for the data");
        *to = bytes[i];
    }
    m->at += count;
    return 0;
}

int import_reference(struct import *m, const struct import_ref *ref)
{
    if (m->end - m->at < 8)
        return import_wrong(m, "the data are longer than the object");
    if (!karray_room((void **)&m->ref, m->ref_count, &m->ref_room, sizeof *m->ref))
        return import_wrong(m, "no memory");
    if (!byte_at(m, m->at) || !byte_at(m, m->at + 7))
        return import_wrong(m, "no page for the data");
    m->ref[m->ref_count] = *ref;
    m->ref[m->ref_count].line = m->line;
    m->ref[m->ref_count++].from = m->at;
    m->at += 8;
    return 0;
}

/* ---- addresses */

struct place { struct store_segment segment[STORE_SEGMENT_MAX]; uint32_t count; };

static uint64_t address_in(const struct place *p, uint64_t place)
{
    uint64_t page = place / SLOT_PAGE_BYTES;
    for (uint32_t s = 0; s < p->count; page -= p->segment[s++].pages)
        if (page < p->segment[s].pages)
            return p->segment[s].address + page * SLOT_PAGE_BYTES + place % SLOT_PAGE_BYTES;
    return 0;
}

/* Are these bytes in one object of the file? */
static bool in_object(struct import *m, const struct import_ref *ref, uint64_t bytes)
{
    unsigned start;
    const struct import_page *page = page_of_object(m, ref->object, &start);
    for (unsigned i = 0; page && i < page->slots; i++) {
        if (page->slot[i].start != (uint8_t)start)
            continue;
        uint64_t units = page->slot[i].units;
        if (units == SLOT_RUNS_ON)
            units = SLOT_UNITS - start + (uint64_t)page->tail * (SLOT_PAGE_BYTES / SLOT_UNIT_BYTES);
        uint64_t size = units * SLOT_UNIT_BYTES;
        return ref->object % SLOT_UNIT_BYTES == 0 && ref->offset < size &&
               bytes <= size - ref->offset;
    }
    return false;
}

/* Root and names must be objects: programs take them at their word. */
static int named_check(struct import *m)
{
    m->line = m->root.line;
    if (m->root.given && !in_object(m, &m->root, m->root_bytes))
        return import_wrong(m, "the root is no object, or larger than its object");
    for (uint32_t i = 0; i < m->name_count; i++) {
        m->line = m->named[i].at.line;
        if (!name_is_setting(m->named[i].name) && !in_object(m, &m->named[i].at, m->named[i].bytes))
            return import_wrong(m, "%s names no object, or more bytes than it has",
                                m->named[i].name);
    }
    return 0;
}

/* 0: no such place. `own` is the new container. */
static uint64_t address_of(struct import *m, struct copy *copy, const struct place *own,
                           const struct import_ref *ref)
{
    struct store_container other;
    struct place p;
    m->line = ref->line ? ref->line : m->line;
    if (!ref->container[0]) {
        if (!page_find(m, ref->object / SLOT_PAGE_BYTES))
            import_wrong(m, "a reference to page %llu, which there is not",
                         (unsigned long long)ref->object / SLOT_PAGE_BYTES);
        return m->wrong ? 0 : address_in(own, ref->object) + ref->offset;
    }
    if (store_container_find(copy->to, ref->container, &other)) {
        import_wrong(m, "the store has no container %s: import that first", ref->container);
        return 0;
    }
    p.count = other.segment_count;
    memcpy(p.segment, other.segments, sizeof p.segment);
    uint64_t address = address_in(&p, ref->object);
    if (!address)
        import_wrong(m, "%s has no object %llu", ref->container, (unsigned long long)ref->object);
    return m->wrong ? 0 : address + ref->offset;
}

static void word_put(struct import *m, uint64_t place, uint64_t word)
{
    le64 bytes = le64_of(word);
    for (unsigned i = 0; i < sizeof bytes; i++)
        *byte_at(m, place + i) = bytes.byte[i];
}

/* Header and slots (slot.h), once it is known where the page will be. */
static int page_finish(struct import *m, struct copy *copy, const struct place *own,
                       struct import_page *page)
{
    size_t header = page->marked ? sizeof(struct slot_page_marked) : sizeof(struct slot_page);
    size_t size = page->marked ? sizeof(struct slot_marked) : sizeof(struct slot);
    unsigned area = (unsigned)((header + page->slots * size + SLOT_UNIT_BYTES - 1) /
                               SLOT_UNIT_BYTES), taken = 0, lowest = SLOT_UNITS;
    uint64_t address = address_in(own, page->number * SLOT_PAGE_BYTES);
    for (unsigned unit = SLOT_UNITS; unit-- > 0;) {
        taken += page->used[unit] != 0;
        lowest = page->used[unit] ? unit : lowest;
    }
    if (area > lowest || (page->tail && !page->runs))
        return import_wrong(m, "the objects of page %llu do not fill it as they should",
                            (unsigned long long)page->number);
    le32 seal = le32_of((page->marked ? SLOT_SEAL_MARKED : SLOT_SEAL) ^
                        (uint32_t)(address / SLOT_PAGE_BYTES)), tail = le32_of(page->tail);
    memcpy(page->bytes, &seal, 4);
    memcpy(page->bytes + 4, &tail, 4);
    page->bytes[8] = (uint8_t)page->slots;
    page->bytes[10] = (uint8_t)(SLOT_UNITS - lowest);
    page->bytes[11] = (uint8_t)(SLOT_UNITS - area - taken);
    for (unsigned i = 0; i < page->slots; i++) {
        le32 type = le32_of(page->type[i]);
        memcpy(page->bytes + header + i * size, &page->slot[i], sizeof(struct slot));
        if (page->marked)
            memcpy(page->bytes + header + i * size + sizeof(struct slot), &type, 4);
    }
    if (page->arena.given)
        word_put(m, page->number * SLOT_PAGE_BYTES + 16, address_of(m, copy, own, &page->arena));
    if (page->next.given)
        word_put(m, page->number * SLOT_PAGE_BYTES + 24, address_of(m, copy, own, &page->next));
    return m->wrong ? -EINVAL : 0;
}

/* ---- the container */

static int container_make(struct import *m, struct copy *copy, struct place *own, uint64_t *object)
{
    struct store_op op = { .type = STORE_OP_CREATE, .name = UNDER_WAY,
                           .flags = (uint32_t)m->flags, .encoder = (enum store_encoder)m->encoder,
                           .locking = (enum store_locking)m->locking,
                           .protection = (uint32_t)m->protection,
                           .durability = durability_asked((uint32_t)m->durability) };
    struct store_container old, made;
    if (store_container_find(copy->to, m->name, &old) == 0)
        return -EEXIST;
    int error = 0;
    if (store_container_find(copy->to, UNDER_WAY, &old) == 0) {
        struct store_op gone = { .type = STORE_OP_DELETE, .object = old.object };
        if (old.layout.type[0])             /* a program's, or all is done but for the name */
            return import_wrong(m, "there is a whole container `" UNDER_WAY "`: remove it first");
        error = copy_op(copy, &gone);
        if (!error)
            fprintf(stderr, "kstore: removed what an import that was cut off has left\n");
    }
    if (!error)
        error = copy_op(copy, &op);
    *object = op.object;
    for (uint32_t s = 1; s < m->segments && !error; s++) {
        struct store_op grow = { .type = STORE_OP_GROW, .object = *object };
        error = copy_op(copy, &grow);
    }
    if (!error)
        error = store_container_get(copy->to, *object, &made);
    if (error)
        return error;
    own->count = made.segment_count;
    memcpy(own->segment, made.segments, sizeof own->segment);
    return made.pages == pages_of(m->segments) ? 0 : -EPROTO;
}

static int pages_write(struct import *m, struct copy *copy, const struct place *own,
                       uint64_t object)
{
    static const uint8_t zeros[SLOT_PAGE_BYTES];
    int error = 0;
    for (uint32_t i = 0; i < m->ref_count && !m->wrong; i++) {
        uint64_t address = address_of(m, copy, own, &m->ref[i]);
        if (!m->wrong)
            word_put(m, m->ref[i].from, address);
    }
    for (uint32_t i = 0; i < m->page_count && !m->wrong && !error; i++)
        error = m->page[i].sealed ? page_finish(m, copy, own, &m->page[i]) : 0;
    for (uint32_t i = 0; i < m->page_count && !m->wrong && !error; i++) {
        const struct import_page *page = &m->page[i];
        struct store_op claim = { .type = STORE_OP_PAGE_CLAIM, .object = object,
                                  .page = page->number, .count = 1 };
        if (page->sealed || memcmp(page->bytes, zeros, sizeof zeros))
            error = copy_page(copy, object, page->number, page->bytes);
        else
            error = copy_op(copy, &claim);
    }
    return m->wrong ? -EINVAL : error;
}

/* Layout, root and names; then the name. */
static int container_name(struct import *m, struct copy *copy, const struct place *own,
                          uint64_t object)
{
    struct store_layout layout = { .version = (uint32_t)m->version,
                                   .bytes = (uint32_t)m->root_bytes };
    memcpy(layout.type, m->type, sizeof layout.type);
    struct store_op op = { .type = STORE_OP_LAYOUT, .object = object, .layout = &layout };
    if (m->root.given)
        op.address = address_of(m, copy, own, &m->root);
    int error = m->wrong ? -EINVAL : m->type[0] ? copy_op(copy, &op) : 0;
    for (uint32_t i = 0; i < m->name_count && !error; i++) {
        struct store_op name = { .type = STORE_OP_NAME_SET, .object = object,
                                 .name = m->named[i].name, .bytes = m->named[i].bytes,
                                 .address = 0 };
        if (m->named[i].at.given)
            name.address = address_of(m, copy, own, &m->named[i].at);
        error = m->wrong ? -EINVAL : copy_op(copy, &name);
    }
    struct store_op rename = { .type = STORE_OP_RENAME, .object = object, .name = m->name };
    return error ? error : copy_op(copy, &rename);
}

static int container_write(struct import *m, struct copy *copy)
{
    struct place own;
    uint64_t object = 0;
    int error = container_make(m, copy, &own, &object);
    if (error)
        return error;
    error = pages_write(m, copy, &own, object);
    if (!error)
        error = container_name(m, copy, &own, object);
    if (error) {
        struct store_op gone = { .type = STORE_OP_DELETE, .object = object };
        int ignored = copy_op(copy, &gone);
        (void)ignored;                          /* the next import does it */
    }
    return error;
}

static int import(struct import *m, struct image *image)
{
    struct copy copy = { .to_image = image };
    int error = copy_begin(&copy);
    if (!error) {
        error = container_write(m, &copy);
        int end = copy_end(&copy, true, m->wrong || error == -EEXIST ? 0 : error);
        error = error ? error : end;
    }
    if (error && !m->wrong)
        fprintf(stderr, "kstore: %s: %s\n", image->path,
                error == -EEXIST   ? "there is such a container already; --name gives another"
                : error == -ENOSPC ? "no room for it"
                                   : error_text(error));
    else if (!error)
        printf("imported %s: %llu objects in %u pages\n", m->name, (unsigned long long)m->objects,
               m->page_count);
    return m->wrong ? CANNOT : error_status(error);
}

int import_main(int count, char **words)
{
    struct import_wish wish = { .common.wanted = 2 };
    struct import m = { .line = 0 };
    struct image image;
    command_parse(&argp, count, words, &wish);
    bool standard = strcmp(wish.common.files[1], "-") == 0;
    FILE *file = standard ? stdin : fopen(wish.common.files[1], "r");
    if (!file) {
        perror(wish.common.files[1]);
        return CANNOT;
    }
    int status = image_open(&image, wish.common.files[0], O_RDWR);
    uint64_t pages = status ? 0 : image.bytes / STORE_PAGE_BYTES;
    m.pages_max = pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX;
    if (!status && (import_read(&m, file) || named_check(&m)))
        status = CANNOT;
    if (!standard)
        fclose(file);
    if (wish.name)
        snprintf(m.name, sizeof m.name, "%s", wish.name);
    if (!status && strlen(wish.name ? wish.name : m.name) >= STORE_NAME_BYTES) {
        fprintf(stderr, "kstore: a name has at most 63 characters\n");
        status = WRONG_USE;
    }
    if (!status)
        status = import(&m, &image);
    image_close(&image);
    import_free(&m);
    return status;
}
