/*
 * stray.c - pages that somebody stored to and that hold no object, pages whose slots are spoilt,
 * and arenas whose pages do not fit together.
 *
 * A container of libpstore has slotted pages, and pages that large objects go on in. A page that
 * was written and is neither was hit by a wild store: to what was freed, or was never allocated.
 * Nothing of the store is wrong with it, and nobody will ever give it back. A wild store may hit
 * the slots of a page as well, or what says of which arena a page is (libpstore/arena.c).
 */
#include "libpstore/slot.h"
#include "view.h"

#include <stdlib.h>

struct arena_page { uint64_t address, arena, next; bool handle, listed; };
struct found { uint64_t count, first; const char *label; };
struct strays {                         /* of one container */
    struct kview *view;
    const struct kcontainer *container;
    uint64_t sealed;
    struct found stray, spoilt;
    struct arena_page *arena;           /* the pages of arenas, by address */
    uint32_t arena_count, arena_room;
};

static void found_add(struct found *found, uint64_t address, const char *label)
{
    if (found->count++)
        return;
    found->first = address;
    found->label = label;
}

/* ---- arenas */

static int page_order(const void *a, const void *b)
{
    const struct arena_page *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static struct arena_page *arena_page(const struct strays *s, uint64_t address)
{
    struct arena_page key = { .address = address };
    return s->arena_count ? bsearch(&key, s->arena, s->arena_count, sizeof key, page_order) : NULL;
}

/* The first page of the arena, which holds the object that it is known by; NULL: there is none. */
static struct arena_page *arena_first(const struct strays *s, uint64_t arena)
{
    struct arena_page *first = arena_page(s, (arena - 1) / SLOT_PAGE_BYTES * SLOT_PAGE_BYTES);
    return first && first->handle && first->arena == arena ? first : NULL;
}

/* Marks what the list of the arena leads to; each page is passed once at most. */
static void arena_walk(struct strays *s, struct arena_page *first, struct found *wrong)
{
    struct arena_page *page = first;
    while (page && !page->listed && page->arena == first->arena) {
        page->listed = true;
        if (!page->next)
            return;
        page = arena_page(s, page->next);
    }
    found_add(wrong, first->arena, "AR2");
}

static void arenas_check(struct strays *s, struct found *wrong)
{
    for (uint32_t i = 0; i < s->arena_count; i++)
        if (arena_first(s, s->arena[i].arena) == &s->arena[i])
            arena_walk(s, &s->arena[i], wrong);
    for (uint32_t i = 0; i < s->arena_count; i++)
        if (!arena_first(s, s->arena[i].arena))
            found_add(wrong, s->arena[i].address, "AR1");
        else if (!s->arena[i].listed)
            found_add(wrong, s->arena[i].address, "AR2");
}

static int arena_add(struct strays *s, const struct kheap_page *page,
                     const struct kobject *objects, unsigned count)
{
    struct arena_page new = { .address = page->address, .arena = page->arena, .next = page->next };
    for (unsigned i = 0; i < count; i++)
        new.handle |= objects[i].address == page->arena && objects[i].type == SLOT_TYPE_ARENA;
    if (!karray_room((void **)&s->arena, s->arena_count, &s->arena_room, sizeof new))
        return -ENOMEM;
    s->arena[s->arena_count++] = new;
    return 0;
}

/* ---- a container */

/* A container without a seal is another library's, or has a file's bytes (kstore put). */
static void container_tell(struct strays *s)
{
    const char *name = s->container->disk.name;
    struct found arena = { 0 };
    if (!s->sealed)
        return;
    if (s->stray.count)
        kview_find(s->view, KCHECK_WARNING, "", "container %.63s: %llu written pages are of no "
                   "object, the first at %#llx: a program stored to what it had freed, or never "
                   "allocated", name, (unsigned long long)s->stray.count,
                   (unsigned long long)s->stray.first);
    if (s->spoilt.count)
        kview_find(s->view, KCHECK_WARNING, s->spoilt.label, "container %.63s: the slots of %llu "
                   "pages are spoilt, the first at %#llx: a program stored over them; copy what is "
                   "still good into a new container", name, (unsigned long long)s->spoilt.count,
                   (unsigned long long)s->spoilt.first);
    if (s->arena_count)
        qsort(s->arena, s->arena_count, sizeof *s->arena, page_order);
    arenas_check(s, &arena);
    if (arena.count)
        kview_find(s->view, KCHECK_WARNING, arena.label, "container %.63s: %llu pages or lists of "
                   "arenas do not fit together, the first at %#llx: a program stored over them",
                   name, (unsigned long long)arena.count, (unsigned long long)arena.first);
}

static void container_end(struct strays *s)
{
    if (s->container)
        container_tell(s);
    free(s->arena);
    *s = (struct strays){ .view = s->view };
}

static int page_look(void *context, const struct kheap_page *page)
{
    struct strays *s = context;
    struct kobject objects[SLOT_COUNT_MAX];
    unsigned count;
    if (s->container != page->container)
        container_end(s);
    s->container = page->container;
    if (!page->sealed) {
        found_add(&s->stray, page->address, "");
        return 0;
    }
    s->sealed++;
    const char *wrong = kheap_objects(page, objects, &count);
    if (wrong)
        found_add(&s->spoilt, page->address, wrong);
    return page->arena ? arena_add(s, page, objects, count) : 0;
}

int kstrays_check(struct kview *view)
{
    struct strays s = { .view = view };
    int error = kheap_pages(view, page_look, &s);
    if (error)
        s.container = NULL;             /* half of it says nothing */
    container_end(&s);
    return error;
}
