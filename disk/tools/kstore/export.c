/*
 * export.c - kstore export: a container's objects as lines of JSON, their pointers as references.
 *
 *     {"container": "todo", "version": 1, "root": 4064, ...}
 *     {"page": 0, "marked": true}
 *     {"object": 4064, "bytes": 16, "type": "struct list", "data": [{"object": 4016}]}
 *     {"named": "index", "object": 3968, "bytes": 64}
 *     {"end": 3}
 *
 * An object is known by its place: how many bytes behind the container's beginning it lies. No
 * address is written, so a container that was imported elsewhere exports the same lines.
 *
 * A type is told by its text if that is known (heap.c), else by the number that the store keeps.
 *
 * A store keeps no description of types, so what is a pointer is told by its value, as for `kstore
 * leaks`: 8 bytes anywhere that are the address of a byte of an object, in any container; or, at a
 * multiple of 8, of anything in a page of this one.
 */
#include "heap.h"

#include "libpstore/slot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct argp_option options[] = { HEAP_PROGRAM, COMMON_QUIET, { 0 } };
static const struct argp argp = { options, heap_parse, "IMAGE CONTAINER",
    "Prints the objects of a container as lines of JSON, with pointers as references, for `kstore "
    "import` into another store, or at other addresses."
    "\vWhat is the address of an object counts as a pointer. Status 1: what cannot be exported "
    "whole is not exported: damaged pages, and pages without objects, which `kstore get` "
    "copies.",
    NULL, NULL, NULL };

struct export {
    struct heap *heap;
    struct heap_pages pages;
    const struct kcontainer *container;
    uint32_t number;                    /* of the container in the model */
    const char *wrong;
    uint64_t wrong_at, objects;
};

static int wrong(struct export *x, const char *what, uint64_t at)
{
    x->wrong = what;
    x->wrong_at = at;
    return -EUCLEAN;
}

/* ---- references */

/* The place of an address in the container; UINT64_MAX: it is not in a page that it has. */
static uint64_t place_of(const struct export *x, const struct kcontainer *c, uint64_t address)
{
    const struct kview *view = x->heap->view;
    uint64_t page = heap_page_number(view, c, address);
    uint32_t n = view->super.extent_pages;
    const struct kleaf *leaf =
        page == UINT64_MAX ? NULL
                           : kmodel_leaf((struct kmodel *)&view->model, c->object, page / n);
    bool has = leaf && (leaf->mask | leaf->claimed) >> page % n & 1;
    return has ? page * SLOT_PAGE_BYTES + address % SLOT_PAGE_BYTES : UINT64_MAX;
}

static void text_out(const char *text, size_t most)
{
    putchar('"');
    for (size_t i = 0; i < most && text[i]; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else
            printf(c < ' ' || c > '~' ? "\\u%04x" : "%c", c);
    }
    putchar('"');
}

static bool in_store(uint64_t word)
{
    return word - STORE_REGION_BASE < STORE_REGION_BYTES;
}

/* The word as a reference. False: it is none. */
static bool reference_out(const struct export *x, uint64_t word, const char *before)
{
    const struct kmodel *model = &x->heap->view->model;
    const struct heap_object *o = in_store(word) ? heap_at(x->heap, word) : NULL;
    const struct kcontainer *c = o ? &model->containers[o->container] : x->container;
    uint64_t at = in_store(word) ? place_of(x, c, word) : UINT64_MAX;
    uint64_t offset = o ? word - o->address : 0;
    if (at == UINT64_MAX)
        return false;
    printf("%s{", before);
    if (c != x->container) {
        printf("\"container\": ");
        text_out(c->disk.name, STORE_NAME_BYTES);
        printf(", ");
    }
    printf("\"object\": %llu", (unsigned long long)(at - offset));
    if (offset)
        printf(", \"offset\": %llu", (unsigned long long)offset);
    printf("}");
    return true;
}

/* Are the 8 bytes at `at` one? */
static bool is_reference(const struct export *x, const uint8_t *bytes, size_t at, size_t count)
{
    uint64_t word;
    if (at + 8 > count)
        return false;
    memcpy(&word, bytes + at, 8);
    return in_store(word) && (heap_at(x->heap, word) ||
                              (at % 8 == 0 && place_of(x, x->container, word) != UINT64_MAX));
}

/* ---- an object's bytes: words that are references, zeros, text, other bytes */

enum part { PART_ZEROS, PART_TEXT, PART_BYTES };
struct data {
    enum part part;
    const uint8_t *bytes;
    size_t from, to;                    /* of the part that is being collected */
    const char *comma;
};

static void part_out(struct data *d)
{
    if (d->from == d->to)
        return;
    printf("%s", d->comma);
    d->comma = ", ";
    if (d->part == PART_ZEROS)
        printf("{\"zeros\": %zu}", d->to - d->from);
    else if (d->part == PART_TEXT) {
        printf("{\"text\": ");
        text_out((const char *)d->bytes + d->from, d->to - d->from);
        printf("}");
    } else {
        printf("{\"hex\": \"");
        for (size_t i = d->from; i < d->to; i++)
            printf("%02x", d->bytes[i]);
        printf("\"}");
    }
    d->from = d->to;
}

/* Of up to 8 bytes. Text may end in zeros. */
static enum part part_of(const uint8_t *bytes, size_t count, size_t *text)
{
    bool printable = true;
    *text = count;
    while (*text && !bytes[*text - 1])
        --*text;
    for (size_t i = 0; i < *text; i++)
        printable &= bytes[i] >= ' ' && bytes[i] <= '~';
    return !*text ? PART_ZEROS : printable && *text >= 4 ? PART_TEXT : PART_BYTES;
}

static void part_add(struct data *d, enum part part, size_t bytes)
{
    if (part != d->part)
        part_out(d);
    d->part = part;
    d->to += bytes;
}

static void plain_add(struct data *d, const uint8_t *bytes, size_t count)
{
    size_t text;
    enum part part = part_of(bytes, count, &text);
    part_add(d, part, part == PART_TEXT ? text : count);
    if (part == PART_TEXT && text < count)
        part_add(d, PART_ZEROS, count - text);
}

static void data_out(struct export *x, const uint8_t *bytes, size_t count)
{
    struct data d = { .part = PART_ZEROS, .bytes = bytes, .comma = "" };
    for (size_t at = 0, n; at < count; at += n) {
        n = 8;
        if (is_reference(x, bytes, at, count)) {
            part_out(&d);
            reference_out(x, le64_get(*(const le64 *)(bytes + at)), d.comma);
            d.comma = ", ";
            d.from = d.to = at + 8;
            continue;
        }
        size_t most = 8 - at % 8 < count - at ? 8 - at % 8 : count - at;
        for (n = 1; n < most && !is_reference(x, bytes, at + n, count); n++)
            ;
        plain_add(&d, bytes + at, n);
    }
    part_out(&d);
}

static int object_read(struct export *x, const struct heap_object *o, uint8_t *to)
{
    for (uint64_t at = o->address, end = at + o->bytes, next; at < end; at = next) {
        const uint8_t *bytes;
        next = (at / SLOT_PAGE_BYTES + 1) * SLOT_PAGE_BYTES;
        next = next < end ? next : end;
        uint64_t page = heap_page_number(x->heap->view, x->container, at);
        if (heap_page_bytes(&x->pages, x->container, page, &bytes))
            return wrong(x, "a page that is damaged", at);
        if (bytes)
            memcpy(to + (at - o->address), bytes + at % SLOT_PAGE_BYTES, (size_t)(next - at));
    }
    return 0;
}

static int object_out(struct export *x, const struct heap_object *o)
{
    uint8_t *bytes = calloc(1, (size_t)o->bytes + 8);
    int error = bytes ? object_read(x, o, bytes) : -ENOMEM;
    if (!error) {
        const char *type = heap_type_text(x->heap, o->type);
        printf("{\"object\": %llu, \"bytes\": %u, \"type\": ",
               (unsigned long long)place_of(x, x->container, o->address), o->bytes);
        if (type)
            text_out(type, STORE_NAME_BYTES);
        else
            printf("%u", o->type);
        printf(", \"data\": [");
        data_out(x, bytes, o->bytes);
        printf("]}\n");
        x->objects++;
    }
    free(bytes);
    return error;
}

/* ---- pages */

static int page_out(void *context, const struct kheap_page *page)
{
    struct export *x = context;
    struct kobject objects[SLOT_COUNT_MAX];
    unsigned count;
    if (page->container != x->container)
        return 0;
    if (!page->sealed)
        return wrong(x, "a page without objects (`kstore get` copies bytes)", page->address);
    if (kheap_objects(page, objects, &count))
        return wrong(x, "a page whose slots are spoilt", page->address);
    printf("{\"page\": %llu",
           (unsigned long long)(place_of(x, x->container, page->address) / SLOT_PAGE_BYTES));
    printf(page->marked ? ", \"marked\": 1" : "");
    if (page->tail)
        printf(", \"tail\": %u", page->tail);
    if (page->arena && !reference_out(x, page->arena, ", \"arena\": "))
        return wrong(x, "a page of no arena", page->address);
    if (page->next && !reference_out(x, page->next, ", \"next\": "))
        return wrong(x, "an arena whose list of pages is torn", page->address);
    printf("}\n");
    return 0;
}

static int names_out(struct export *x)
{
    const struct kmodel *model = &x->heap->view->model;
    for (uint32_t i = 0; i < model->name_count; i++) {
        const struct name_value_disk *v = &model->names[i].value;
        if (model->names[i].object != x->container->object)
            continue;
        printf("{\"named\": ");
        text_out(v->name, STORE_NAME_BYTES);
        if (!name_is_setting(v->name) && !reference_out(x, le64_get(v->address), ", \"at\": "))
            return wrong(x, "a name of nothing", le64_get(v->address));
        printf(", \"bytes\": %llu}\n", (unsigned long long)le64_get(v->bytes));
    }
    return 0;
}

static int head_out(struct export *x)
{
    const struct container_disk *disk = &x->container->disk;
    uint64_t root = le64_get(disk->layout.root);
    printf("{\"container\": ");
    text_out(disk->name, STORE_NAME_BYTES);
    printf(", \"segments\": %u, \"flags\": %u, \"encoder\": %u, \"locking\": %u, "
           "\"protection\": %u, \"durability\": %u, \"type\": ",
           le32_get(disk->segment_count), le32_get(disk->flags), le16_get(disk->encoder),
           le16_get(disk->locking), le16_get(disk->protection), le16_get(disk->durability));
    text_out(disk->layout.type, STORE_NAME_BYTES);
    printf(", \"version\": %u, \"bytes\": %u", le32_get(disk->layout.version),
           le32_get(disk->layout.bytes));
    if (root && !reference_out(x, root, ", \"root\": "))
        return wrong(x, "a root that is no object", root);
    printf("}\n");
    return 0;
}

static int container_out(struct export *x)
{
    struct heap *heap = x->heap;
    int error = head_out(x);
    if (!error)
        error = kheap_pages(heap->view, page_out, x);
    for (uint32_t i = 0; i < heap->count && !error; i++)
        if (heap->object[i].container == x->number)
            error = object_out(x, &heap->object[i]);
    if (!error)
        error = names_out(x);
    if (!error)
        printf("{\"end\": %llu}\n", (unsigned long long)x->objects);
    return error;
}

int export_main(int count, char **words)
{
    struct heap_wish wish = { .common.wanted = 2 };
    struct heap heap;
    command_parse(&argp, count, words, &wish);
    int status = heap_open(&heap, &wish);
    const struct kcontainer *c =
        status <= DAMAGED ? container_named(heap.view, wish.common.files[1]) : NULL;
    int error = c ? 0 : -ENOENT;
    struct export x = { .heap = &heap, .pages = { .view = heap.view, .page = UINT64_MAX },
                        .container = c };
    if (c && heap_is_index(c)) {
        error = wrong(&x, "it is an index; the program that has it makes it anew from its objects "
                          "(libpstore/index.md)", 0);
    } else if (c) {
        x.number = (uint32_t)(c - heap.view->model.containers);
        error = container_out(&x);
    }
    progress_end();
    if (error == -EUCLEAN)
        fprintf(stderr, x.wrong_at ? "kstore: not exported: %s, at %#llx\n"
                                   : "kstore: not exported: %s\n",
                x.wrong, (unsigned long long)x.wrong_at);
    else if (error && c)
        fprintf(stderr, "kstore: %s\n", strerror(-error));
    heap_close(&heap);
    return status > DAMAGED ? status : error == -EUCLEAN ? DAMAGED : error ? CANNOT : SOUND;
}
