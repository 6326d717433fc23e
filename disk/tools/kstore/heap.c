/*
 * heap.c - reads the objects of libpstore in an image, and counts them by type.
 *
 * A slot keeps a number made of the type's text (libpstore/slot.h), so a text has to come from
 * elsewhere: containers keep the text of their root's type, programs have those of ps_new and
 * ps_alloc_as among their constants.
 */
#include "heap.h"

#include "libpstore/slot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

error_t heap_parse(int key, char *value, struct argp_state *state)
{
    struct heap_wish *wish = state->input;
    if (key == 'e')
        wish->each = true;
    else if (key != 'p')
        return common_parse(key, value, state);
    else if (wish->programs == HEAP_PROGRAMS_MAX)
        argp_error(state, "at most %d programs", HEAP_PROGRAMS_MAX);
    else
        wish->program[wish->programs++] = value;
    return 0;
}

/* ---- texts of types */

static int text_order(const void *a, const void *b)
{
    uint32_t x = ((const struct type_text *)a)->type, y = ((const struct type_text *)b)->type;
    return x < y ? -1 : x > y;
}

static struct type_text *text_find(const struct heap *heap, uint32_t type)
{
    struct type_text key = { .type = type };
    return heap->text_count
               ? bsearch(&key, heap->text, heap->text_count, sizeof key, text_order) : NULL;
}

static int text_add(struct heap *heap, uint32_t type)
{
    if (!karray_room((void **)&heap->text, heap->text_count, &heap->text_room,
                     sizeof *heap->text))
        return -ENOMEM;
    heap->text[heap->text_count++] = (struct type_text){ .type = type };
    return 0;
}

static int number_order(const void *a, const void *b)
{
    return (*(const uint32_t *)a > *(const uint32_t *)b) -
           (*(const uint32_t *)a < *(const uint32_t *)b);
}

/* A place for the text of each type that some object has. */
static int texts_prepare(struct heap *heap)
{
    uint32_t *type = malloc(((size_t)heap->count + 1) * sizeof *type);
    int error = type ? 0 : -ENOMEM;
    for (uint32_t i = 0; !error && i < heap->count; i++)
        type[i] = heap->object[i].type;
    if (!error)
        qsort(type, heap->count, sizeof *type, number_order);
    for (uint32_t i = 0; !error && i < heap->count; i++)
        if (type[i] > SLOT_TYPE_ARENA && !(type[i] & SLOT_TYPE_NAME) &&
            (!i || type[i] != type[i - 1]))
            error = text_add(heap, type[i]);
    free(type);
    return error;
}

/* The first text of a number is kept. */
static void text_learn(struct heap *heap, const char *text)
{
    struct type_text *t = *text ? text_find(heap, slot_type_of(text)) : NULL;
    if (t && !t->text[0])
        snprintf(t->text, sizeof t->text, "%s", text);
}

/* Each run of printable bytes before a zero byte, and each end of one: linkers share those. */
static int program_learn(struct heap *heap, const char *path)
{
    FILE *file = fopen(path, "rb");
    char text[sizeof heap->text->text];
    size_t length = 0;
    int c;
    if (!file)
        return -errno;
    while ((c = getc(file)) != EOF) {
        if (c == 0 && length < sizeof text) {
            text[length] = 0;
            for (size_t i = 0; i < length; i++)
                text_learn(heap, text + i);
        }
        if (c >= ' ' && c <= '~' && length < sizeof text)
            text[length++ % sizeof text] = (char)c;
        else if (c < ' ' || c > '~')
            length = 0;
    }
    int error = ferror(file) ? -EIO : 0;
    fclose(file);
    return error;
}

bool heap_is_index(const struct kcontainer *container)
{
    static const char layout[] = "ps_index ";
    return !strncmp(container->disk.layout.type, layout, sizeof layout - 1);
}

const char *heap_type_text(const struct heap *heap, uint32_t type)
{
    const struct type_text *t = text_find(heap, type);
    return t && t->text[0] ? t->text : NULL;
}

static const char *type_show(const struct heap *heap, uint32_t type, char out[64])
{
    const char *text = heap_type_text(heap, type);
    if (!type)
        return "(no type)";
    if (type & SLOT_TYPE_NAME)
        return "(with a name)";
    if (type == SLOT_TYPE_ARENA)
        return "(an arena)";
    if (text)
        return text;
    snprintf(out, 64, "type %#x", type);
    return out;
}

/* ---- reading */

static int page_read(void *context, const struct kheap_page *page)
{
    struct heap *heap = context;
    struct kobject objects[SLOT_COUNT_MAX];
    unsigned count;
    if (!page->sealed)
        return 0;
    kheap_objects(page, objects, &count);       /* of a spoilt page what is left of it */
    for (unsigned i = 0; i < count; i++) {
        if (!karray_room((void **)&heap->object, heap->count, &heap->room, sizeof *heap->object))
            return -ENOMEM;
        heap->object[heap->count++] = (struct heap_object){
            objects[i].address, (uint32_t)objects[i].bytes, objects[i].type,
            (uint32_t)(page->container - heap->view->model.containers), false };
    }
    if (!page->arena)
        return 0;
    if (!karray_room((void **)&heap->arena, heap->arena_count, &heap->arena_room,
                     sizeof *heap->arena))
        return -ENOMEM;
    heap->arena[heap->arena_count++] = (struct heap_arena){ page->address, page->arena };
    return 0;
}

static int address_order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b; /* the first member of both */
    return x < y ? -1 : x > y;
}

static int read_all(struct heap *heap, const struct heap_wish *wish)
{
    const struct kmodel *model = &heap->view->model;
    int error = kheap_pages(heap->view, page_read, heap);
    if (!error)
        error = texts_prepare(heap);
    if (error)
        return fprintf(stderr, "kstore: %s\n", strerror(-error)), CANNOT;
    if (heap->count)
        qsort(heap->object, heap->count, sizeof *heap->object, address_order);
    if (heap->arena_count)
        qsort(heap->arena, heap->arena_count, sizeof *heap->arena, address_order);
    for (uint32_t i = 0; i < model->container_count; i++)
        text_learn(heap, model->containers[i].disk.layout.type);
    for (int i = 0; i < wish->programs; i++)
        if ((error = program_learn(heap, wish->program[i])) != 0)
            return fprintf(stderr, "kstore: %s: %s\n", wish->program[i], strerror(-error)), CANNOT;
    return SOUND;
}

int heap_open(struct heap *heap, const struct heap_wish *wish)
{
    *heap = (struct heap){ 0 };
    int status = image_view(&heap->image, wish->common.files[0], &heap->opened);
    if (status > DAMAGED)
        return status;
    heap->view = &heap->opened;
    objects_sort(&heap->view->model);
    int cannot = read_all(heap, wish);
    progress_end();
    return cannot ? cannot : status;
}

void heap_close(struct heap *heap)
{
    if (heap->view)
        image_unview(&heap->image, heap->view);
    free(heap->object);
    free(heap->arena);
    free(heap->text);
}

struct heap_object *heap_at(const struct heap *heap, uint64_t address)
{
    uint32_t low = 0, high = heap->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (heap->object[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    struct heap_object *o = low ? &heap->object[low - 1] : NULL;
    return o && address - o->address < o->bytes ? o : NULL;
}

uint64_t heap_page_number(const struct kview *view, const struct kcontainer *c, uint64_t address)
{
    uint64_t before = 0;
    for (uint32_t s = 0; s < le32_get(c->disk.segment_count); s++) {
        const uint64_t per_gib = STORE_SEGMENT_UNIT / STORE_PAGE_BYTES;
        uint64_t pages = le32_get(c->disk.segments[s].gib) * per_gib;
        uint64_t base = store_zone_base(view->super.zone) +
                        le32_get(c->disk.segments[s].first_gib) * STORE_SEGMENT_UNIT;
        if (address >= base && address - base < pages * STORE_PAGE_BYTES)
            return before + (address - base) / STORE_PAGE_BYTES;
        before += pages;
    }
    return UINT64_MAX;
}

int heap_page_bytes(struct heap_pages *p, const struct kcontainer *c, uint64_t page,
                    const uint8_t **bytes)
{
    struct kview *view = p->view;
    if (p->container != c || p->page != page) {
        const uint32_t in_extent = view->super.extent_pages, i = (uint32_t)(page % in_extent);
        const struct kleaf *leaf = kmodel_leaf(&view->model, c->object, page / in_extent);
        p->container = c;
        p->page = page;
        p->there = leaf && leaf->mask >> i & 1;
        p->error = p->there ? kview_page(view, &view->model, leaf, i, p->bytes) : 0;
    }
    *bytes = p->there && !p->error ? p->bytes : NULL;
    return p->error;
}

/* ---- showing */

struct row { uint32_t container, type; uint64_t objects, bytes, first; };

/* row_order puts types in order, by container; of one container those with the most bytes first. */
static int row_order(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->container != y->container)
        return x->container < y->container ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->type < y->type ? -1 : x->type > y->type;
}

static int type_order(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->container != y->container)
        return x->container < y->container ? -1 : 1;
    if (x->type != y->type)
        return x->type < y->type ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* One row for each object, then one for each container and type. NULL: no memory. */
static struct row *rows_make(const struct heap *heap, bool reached, bool unreached, uint32_t *count)
{
    struct row *rows = malloc(((size_t)heap->count + 1) * sizeof *rows);
    uint32_t n = 0, kept = 0;
    for (uint32_t i = 0; rows && i < heap->count; i++) {
        const struct heap_object *o = &heap->object[i];
        uint32_t type = o->type & SLOT_TYPE_NAME ? SLOT_TYPE_NAME : o->type;
        if (o->reached ? reached : unreached)
            rows[n++] = (struct row){ o->container, type, 1, o->bytes, o->address };
    }
    if (rows)
        qsort(rows, n, sizeof *rows, type_order);
    for (uint32_t i = 0; i < n; i++)
        if (kept && rows[kept - 1].container == rows[i].container &&
            rows[kept - 1].type == rows[i].type) {
            rows[kept - 1].objects++;
            rows[kept - 1].bytes += rows[i].bytes;
        } else {
            rows[kept++] = rows[i];
        }
    if (rows)
        qsort(rows, kept, sizeof *rows, row_order);
    *count = kept;
    return rows;
}

static void row_show(const struct heap *heap, const struct row *row, bool json)
{
    char text[64];
    const char *type = type_show(heap, row->type, text);
    if (!json) {
        printf("  %10llu objects %14llu bytes  %s\n", (unsigned long long)row->objects,
               (unsigned long long)row->bytes, type);
        return;
    }
    json_begin("", '{');
    json_text("type", type, 64);
    json_number("number", row->type);
    json_number("objects", row->objects);
    json_number("bytes", row->bytes);
    json_number("first", row->first);
    json_end();
}

static void each_show(const struct heap *heap, const struct row *row, bool reached, bool unreached)
{
    for (uint32_t i = 0; i < heap->count; i++) {
        const struct heap_object *o = &heap->object[i];
        uint32_t type = o->type & SLOT_TYPE_NAME ? SLOT_TYPE_NAME : o->type;
        if (o->container == row->container && type == row->type &&
            (o->reached ? reached : unreached))
            printf("    %#llx, %u bytes\n", (unsigned long long)o->address, o->bytes);
    }
}

static void container_show(const struct heap *heap, const struct row *rows, uint32_t count,
                           const struct heap_wish *wish, bool reached, bool unreached)
{
    const struct kcontainer *c = &heap->view->model.containers[rows->container];
    struct row sum = { 0 };
    for (uint32_t i = 0; i < count; i++) {
        sum.objects += rows[i].objects;
        sum.bytes += rows[i].bytes;
    }
    if (wish->common.json) {
        json_begin("", '{');
        json_text("name", c->disk.name, STORE_NAME_BYTES);
        json_number("id", c->object);
        json_number("objects", sum.objects);
        json_number("bytes", sum.bytes);
        json_begin("types", '[');
    } else {
        printf("container %.63s: %llu object%s, %llu bytes\n", c->disk.name,
               (unsigned long long)sum.objects, sum.objects == 1 ? "" : "s",
               (unsigned long long)sum.bytes);
    }
    for (uint32_t i = 0; i < count; i++) {
        row_show(heap, &rows[i], wish->common.json);
        if (wish->each && !wish->common.json)
            each_show(heap, &rows[i], reached, unreached);
    }
    if (wish->common.json) {
        json_end();
        json_end();
    }
}

void heap_show(struct heap *heap, bool reached, bool unreached, const struct heap_wish *wish)
{
    uint32_t count, end;
    struct row *rows = rows_make(heap, reached, unreached, &count);
    if (!rows) {
        fprintf(stderr, "kstore: %s\n", strerror(ENOMEM));
        return;
    }
    if (wish->common.json) {
        json_begin("", '{');
        json_begin("containers", '[');
    }
    if (count == 0 && !wish->common.json && reached)
        printf("no objects\n");
    else if (count == 0 && !wish->common.json)
        printf("no leaks among %u objects\n", heap->count);
    for (uint32_t i = 0; i < count; i = end) {
        for (end = i + 1; end < count && rows[end].container == rows[i].container; end++)
            ;
        container_show(heap, rows + i, end - i, wish, reached, unreached);
    }
    if (wish->common.json) {
        json_end();
        json_end();
    }
    free(rows);
}
