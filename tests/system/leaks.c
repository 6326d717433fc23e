/*
 * leaks.c - what leaks.sh looks at: objects of several types that something leads to in each way,
 * objects that nothing leads to, and pages that were stored over.
 *
 *     leaks WORD...       each a transaction of that name
 */
#include <index.h>
#include <pstore.h>
#include <stdio.h>
#include <string.h>

struct node { struct node *next; long n[6]; };
struct packed { char tag; struct node *leaf; } __attribute__((packed));
struct far { struct node *leaf; };
struct root { struct node *first; char *large; struct packed *packed; ps_arena *arena; };
enum { LARGE = 100000 };
static ps_container *c, *other;
static ps_index *kept;

static void add(struct root *r, struct node *n)
{
    n->next = r->first;
    r->first = n;
}

static int make(void *unused)
{
    struct root *r = ps_root(c);
    for (int i = 0; i < 500; i++)
        add(r, ps_new(c, struct node, r));
    char *middle = (char *)ps_new(c, struct far, NULL) + 3;
    r->large = ps_alloc(c, LARGE, NULL);        /* it ends where a page ends */
    memcpy(r->large + LARGE - 3 * 4096 - 5, &middle, sizeof middle);
    r->packed = ps_new(c, struct packed, NULL);
    r->packed->leaf = ps_new(c, struct node, NULL);
    *(void **)ps_named(c, "by name", 8) = ps_new(c, struct node, NULL);
    r->arena = ps_arena_make(c);
    for (int i = 0; i < 300; i++)
        add(r, ps_new_in(r->arena, struct node, NULL));
    return (void)unused, 0;
}

/* The only pointer to an object of one container lies in the other one. */
static int across(void *unused)
{
    struct node *n = ps_new(c, struct node, NULL);
    *(void **)ps_named(other, "to", 8) = n;
    return (void)unused, 0;
}

/* Only a value of a server-kept index leads to two of a list. */
static int keep(void *unused)
{
    struct node *n = ps_new(c, struct node, NULL);
    n->next = ps_new(c, struct node, NULL);
    return (void)unused, ps_index_insert(kept, &(uint64_t){7}, (uintptr_t)n);
}

/* Two of one list, a large object that leads to itself, an arena with one object. */
static int leak(void *unused)
{
    struct node *head = ps_new(c, struct node, NULL);
    head->next = ps_new(c, struct node, NULL);
    char **own = ps_alloc(c, 20000, NULL);
    own[1000] = (char *)own;
    ps_arena *arena = ps_arena_make(c);
    ps_new_in(arena, struct far, NULL);
    return (void)unused, 0;
}

static char *page_of(void *object)
{
    return (char *)((uintptr_t)object & ~4095ul);
}

/* The free units of a page, as its header has them. */
static int spoil(void *unused)
{
    page_of(((struct root *)ps_root(c))->packed)[11] ^= 1;
    return (void)unused, 0;
}

/* The list of an arena's pages ends too early. */
static int tear(void *unused)
{
    *(long *)(page_of(((struct root *)ps_root(c))->arena) + 24) = 0;
    return (void)unused, 0;
}

int main(int argc, char **argv)
{
    static int (*const what[])(void *) = { make, across, keep, leak, spoil, tear };
    static const char *const names[] = { "make", "across", "keep", "leak", "spoil", "tear" };
    c = ps_open("leaky", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    for (int a = 1; a < argc; a++)
        for (int i = 0; i < 6; i++) {
            if (what[i] == across)
                other = ps_open("other", PS_CREATE | PS_WRITE, NULL);
            if (what[i] == keep)
                kept = ps_index_open("kept", PS_NUMBERS, PS_CREATE | PS_WRITE);
            if (strcmp(argv[a], names[i]) == 0 && ps_transaction(what[i], NULL) != 0)
                return printf("%s fails\n", names[i]), 1;
        }
    return 0;
}
