/*
 * leaks.c - kstore objects and kstore leaks: objects by type; those that nothing leads to.
 *
 * An object is reached if it is a root or has a name, or if any 8 bytes, aligned or not, of an
 * object that is reached hold an address inside it. So a number that looks like an address may hide
 * a leak, but what a program can find by a pointer is never called one. An arena is reached with
 * any of its objects (ps_arena_of).
 */
#include "heap.h"

#include "libpstore/slot.h"

#include <stdlib.h>
#include <string.h>

static const struct argp_option options[] = {
    HEAP_PROGRAM, { "each", 'e', NULL, 0, "each object, not only their number (not as JSON)", 0 },
    COMMON_JSON, COMMON_QUIET, { 0 }
};
static const struct argp objects_argp = { options, heap_parse, "IMAGE...",
    "Counts the objects that programs keep in each container, and their bytes, by type."
    "\vThe store keeps types as numbers made of their texts: the root's text is known, others are "
    "looked for in the programs given.", NULL, NULL, NULL };
static const struct argp leaks_argp = { options, heap_parse, "IMAGE...",
    "Finds objects that no root, no name and no index of index.h leads to, over pointers in any "
    "container."
    "\vA program that finds its objects by ps_each needs no pointers to them: they are told here, "
    "too. Whatever looks like a pointer counts as one.", NULL, NULL, NULL };

int objects_main(int count, char **words)
{
    struct heap_wish wish = { .common.wanted = 1 };
    struct heap heap;
    command_parse(&objects_argp, count, words, &wish);
    int status = heap_open(&heap, &wish);
    if (status <= DAMAGED)
        heap_show(&heap, true, true, &wish);
    heap_close(&heap);
    return status;
}

/* ---- what leads where */

struct walk {
    struct heap *heap;
    uint32_t *todo, todo_count;         /* reached, and not looked into yet */
    struct heap_pages pages;
};

static void reach(struct walk *w, struct heap_object *o)
{
    if (!o || o->reached)
        return;
    o->reached = true;
    w->todo[w->todo_count++] = (uint32_t)(o - w->heap->object);
}

/* The arena that the object lies in. */
static struct heap_object *arena_of(const struct heap *heap, const struct heap_object *o)
{
    uint64_t page = (o->address - 1) / SLOT_PAGE_BYTES * SLOT_PAGE_BYTES;
    uint32_t low = 0, high = heap->arena_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (heap->arena[middle].page < page)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < heap->arena_count && heap->arena[low].page == page;
    return found ? heap_at(heap, heap->arena[low].arena) : NULL;
}

/* *word: the last 8 bytes before, of which a pointer may still have some. */
static void part_look(struct walk *w, const uint8_t *bytes, size_t count, uint64_t *word)
{
    for (size_t i = 0; i < count; i++) {
        *word = *word >> 8 | (uint64_t)bytes[i] << 56;
        if (*word - STORE_REGION_BASE < STORE_REGION_BYTES)
            reach(w, heap_at(w->heap, *word));
    }
}

static void object_look(struct walk *w, const struct heap_object *o)
{
    const struct kcontainer *c = &w->heap->view->model.containers[o->container];
    uint64_t end = o->address + o->bytes, word = 0;
    for (uint64_t at = o->address, next; at < end; at = next) {
        next = (at / SLOT_PAGE_BYTES + 1) * SLOT_PAGE_BYTES;
        next = next < end ? next : end;
        const uint8_t *bytes = NULL;
        uint64_t page = heap_page_number(w->heap->view, c, at);
        if (page != UINT64_MAX && !heap_page_bytes(&w->pages, c, page, &bytes) && bytes)
            part_look(w, bytes + at % SLOT_PAGE_BYTES, (size_t)(next - at), &word);
        else
            word = 0;
    }
}


/* The values in an index's pages lead to objects. */
static int index_page_look(void *walk, const struct kheap_page *page)
{
    uint64_t word = 0;
    if (heap_is_index(page->container))
        part_look(walk, page->bytes, sizeof page->bytes, &word);
    return 0;
}

static int indexes_look(struct walk *w)
{
    const struct kmodel *model = &w->heap->view->model;
    bool any = false;
    for (uint32_t i = 0; i < model->container_count; i++)
        any |= heap_is_index(&model->containers[i]);
    return any ? kheap_pages(w->heap->view, index_page_look, w) : 0;
}

static int walk_all(struct heap *heap)
{
    const struct kmodel *model = &heap->view->model;
    struct walk w = { .heap = heap, .pages = { .view = heap->view, .page = UINT64_MAX } };
    w.todo = malloc(((size_t)heap->count + 1) * sizeof *w.todo);
    if (!w.todo)
        return fprintf(stderr, "kstore: no memory\n"), CANNOT;
    int error = indexes_look(&w);
    for (uint32_t i = 0; i < model->name_count; i++)
        reach(&w, heap_at(heap, le64_get(model->names[i].value.address)));
    for (uint32_t i = 0; i < heap->count; i++)
        if (heap->object[i].type & SLOT_TYPE_NAME)
            reach(&w, &heap->object[i]);
    while (w.todo_count) {
        struct heap_object *o = &heap->object[w.todo[--w.todo_count]];
        if (heap->arena_count)
            reach(&w, arena_of(heap, o));
        object_look(&w, o);
    }
    free(w.todo);
    return error ? error_status(error) : SOUND;
}

int leaks_main(int count, char **words)
{
    struct heap_wish wish = { .common.wanted = 1 };
    struct heap heap;
    command_parse(&leaks_argp, count, words, &wish);
    int status = heap_open(&heap, &wish);
    if (status <= DAMAGED && walk_all(&heap) != SOUND)
        status = CANNOT;
    if (status <= DAMAGED)
        heap_show(&heap, false, true, &wish);
    heap_close(&heap);
    return status;
}
