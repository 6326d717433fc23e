/*
 * old-pages.c - works on the container of tests/disk/fixtures/unmarked-pages.store.xz, in pages
 * that an older Katydid wrote (old-pages.sh). Each word of the command line names a step
 * below, and the first step with an error ends the program.
 */
#include "unmarked-pages.h"

#include <stdio.h>
#include <string.h>

#define UNMARKED_SEAL 0x7a3d51c7u
/* What becomes of object i, which the older Katydid has not freed. */
enum fate { STAYS, FREED, DOUBLED, HALVED };
static enum fate fate(int i)
{
    static const enum fate of[] = {STAYS, FREED, FREED, DOUBLED, FREED, HALVED};
    return of[i % 6];
}

enum { MORE = 30, BIG = 20, BIG_BYTES = 2000, LARGE_NOW = 2 * LARGE };
struct big { char bytes[BIG_BYTES]; };
struct more {                            /* the named object of what is new */
    char *object[MORE];
    struct item *items;
    struct big *big[BIG];
};

static ps_container *c;
static int grown;                        /* what is looked at has been through grow() */

#define EXPECT(fact)                                                                    \
    do {                                                                                \
        if (!(fact))                                                                    \
            return printf("line %d: not so: %s, errno %d\n", __LINE__, #fact, errno), -EILSEQ; \
    } while (0)

static int is_unmarked(const void *p)
{
    uintptr_t page = (uintptr_t)p & ~4095ul;
    return *(const uint32_t *)page == (UNMARKED_SEAL ^ (uint32_t)(page / 4096));
}

/* Bytes asked for, in units of 16. */
static size_t rounded(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

static int count(const char *type)
{
    int n = 0;
    for (void *p = NULL; (p = ps_each(c, type, p)) != NULL;)
        n++;
    return errno ? -errno : n;
}

/* ---- what is there ---- */

static int objects(const struct root *root)
{
    int n = 0;
    for (int i = 0; i < OBJECTS; i++) {
        size_t bytes = object_bytes(i), now = bytes;
        const char *p = root->object[i];
        if (object_is_freed(i) || (grown && fate(i) == FREED)) {
            EXPECT(!p);
            continue;
        }
        if (grown)
            now = fate(i) == DOUBLED ? bytes * 2 : fate(i) == HALVED ? bytes / 2 : bytes;
        EXPECT(ps_size(p) >= rounded(now) && ps_size(p) < rounded(now) + 4096);
        EXPECT(object_is(p, now < bytes ? now : bytes, i));
        for (size_t k = rounded(bytes); k < now; k++)
            EXPECT(p[k] == 0);
        n++;
    }
    return n;
}

static int names(void *unused)
{
    struct ps_name_info name[4];
    int n = ps_names(c, name, 4);
    EXPECT(n == (grown ? 3 : 2));
    for (int i = 0; i < n; i++)
        EXPECT(strcmp(name[i].name, "alpha") == 0   ? name[i].bytes == ALPHA
               : strcmp(name[i].name, "beta") == 0 ? name[i].bytes == BETA
                                                   : strcmp(name[i].name, "more") == 0);
    return (void)unused, 0;
}

static int more_is(const struct more *more)
{
    int n = 0;
    EXPECT(more);
    for (int i = 0; i < MORE; i++)
        EXPECT(object_is(more->object[i], object_bytes(i), 100 + i));
    for (int i = 0; i < BIG; i++)
        EXPECT(object_is(more->big[i]->bytes, BIG_BYTES, 200 + i));
    for (const struct item *item = more->items; item; item = item->next)
        EXPECT(item->number == ITEMS - 1 - n++);
    EXPECT(n == ITEMS && count("struct item") == ITEMS && count("struct big") == BIG);
    return 0;
}

static int look(void *unused)
{
    struct root *root = ps_root(c);
    EXPECT(root && ps_size(root) == rounded(sizeof *root));
    int n = objects(root), items = 0;
    char *alpha = ps_named(c, "alpha", ALPHA), *beta = ps_named(c, "beta", BETA);
    EXPECT(n > 0 && alpha && beta && object_is(alpha, ALPHA, 'a') && object_is(beta, BETA, 'b'));
    EXPECT(object_is(root->large, LARGE, 'l') && object_is(root->page, 4096, 'p'));
    EXPECT(ps_size(root->page) == 4096 && (uintptr_t)root->page % 4096 == 0);
    for (struct item *item = root->items; item; item = item->next, items++)
        EXPECT(item->number == ITEMS - 1 - items && is_unmarked(item) && !ps_arena_of(item));
    EXPECT(items == ITEMS);
    n += ITEMS + 5 + (grown ? 1 + MORE + ITEMS + BIG : 0);
    EXPECT(count(NULL) == n);
    if (grown)
        return more_is(ps_named(c, "more", sizeof(struct more)));
    EXPECT(count("struct item") == 0 && count("struct root") == 0);        /* nobody kept types */
    return (void)unused, 0;
}

/* What is refused leaves all as it is. */
static int refused(void *unused)
{
    struct root *root = ps_root(c);
    char *alpha = ps_named(c, "alpha", ALPHA);
    EXPECT(ps_free(root) == -EBUSY && ps_free(alpha) == -EBUSY);
    EXPECT(!ps_realloc(alpha, 100) && errno == EBUSY);
    EXPECT(ps_name_remove(c, "alpha") == -ENOTSUP && ps_name_remove(c, "omega") == -ENOENT);
    EXPECT(ps_free(root->large + 16) == -EINVAL && ps_free(root->object[5] + 16) == -EINVAL);
    EXPECT(!ps_alloc_in((ps_arena *)root->items, 16, NULL, NULL) && errno == EINVAL);
    EXPECT(ps_arena_free((ps_arena *)root->items) == -EINVAL);
    return (void)unused, 0;
}

/* ---- what is done to it ---- */

static int change(struct root *root)
{
    for (int i = 0; i < OBJECTS; i++) {
        size_t bytes = object_bytes(i);
        if (!root->object[i])
            continue;
        if (fate(i) == FREED) {
            EXPECT(ps_free(root->object[i]) == 0);
            root->object[i] = NULL;
        } else if (fate(i) != STAYS) {
            bytes = fate(i) == HALVED ? bytes / 2 : bytes * 2;
            root->object[i] = ps_realloc(root->object[i], bytes);
            EXPECT(root->object[i]);
        }
    }
    char *large = root->large;
    root->large = ps_realloc(root->large, LARGE / 2);
    EXPECT(root->large == large);
    root->large = ps_realloc(root->large, LARGE_NOW);
    EXPECT(root->large);
    object_fill(root->large, LARGE, 'l');
    return 0;
}

/* Of the new objects, those without types have room in old pages, too. */
static int add(struct root *root)
{
    struct more *more = ps_named(c, "more", sizeof *more);
    int in_old = 0;
    EXPECT(more && !is_unmarked(more));
    for (int i = 0; i < MORE; i++) {
        const void *near = i % 2 ? (void *)root->items : root->object[0];
        more->object[i] = ps_alloc(c, object_bytes(i), near);
        EXPECT(more->object[i]);
        object_fill(more->object[i], object_bytes(i), 100 + i);
        in_old += is_unmarked(more->object[i]);
    }
    EXPECT(in_old > 0);
    for (long i = 0; i < ITEMS; i++) {
        struct item *item = ps_new(c, struct item, root->items);
        EXPECT(item && !is_unmarked(item));
        *item = (struct item){more->items, i};
        more->items = item;
    }
    for (int i = 0; i < BIG; i++) {
        more->big[i] = ps_new(c, struct big, NULL);
        EXPECT(more->big[i]);
        object_fill(more->big[i]->bytes, BIG_BYTES, 200 + i);
    }
    return 0;
}

static int grow(void *cancel)
{
    struct root *root = ps_root(c);
    EXPECT(root);
    int result = change(root);
    if (result == 0)
        result = add(root);
    grown = 1;
    if (result == 0)
        result = look(NULL);
    grown = 0;
    return result ? result : cancel ? -ECANCELED : 0;
}

static int undone(void *unused)
{
    int result = ps_transaction(grow, &grown);
    EXPECT(result == -ECANCELED);
    return (void)unused, 0;
}

/* All but the root and what an older Katydid gave a name. */
static int empty(void *unused)
{
    struct root *root = ps_root(c);
    void *keep[] = {root, ps_named(c, "alpha", ALPHA), ps_named(c, "beta", BETA)};
    EXPECT(ps_name_remove(c, "more") == 0);
    for (void *p = NULL; (p = ps_each(c, NULL, p)) != NULL;)
        if (p != keep[0] && p != keep[1] && p != keep[2])
            EXPECT(ps_free(p) == 0);
    EXPECT(errno == 0 && count(NULL) == 3);
    memset(root, 0, sizeof *root);
    return (void)unused, 0;
}

/* ---- room in old pages does not cost pages ---- */

/* More room in the root's page than an object of BIG_BYTES leaves in a new one. */
static int hole(void *unused)
{
    struct root *root = ps_root(c);
    static const int some[] = {3, 5, 12, 17};
    for (int i = 0; i < 4; i++) {
        EXPECT((uintptr_t)root->object[some[i]] / 4096 == (uintptr_t)root / 4096);
        EXPECT(ps_free(root->object[some[i]]) == 0);
        root->object[some[i]] = NULL;
    }
    return (void)unused, 0;
}

/* Without a type, so it lies in the hole; what has a type must not take a page for each object. */
static int beside(void *unused)
{
    char *untyped = ps_alloc(c, 16, NULL);
    uintptr_t last = 0;
    int pages = 0;
    EXPECT(untyped && is_unmarked(untyped));
    for (int i = 0; i < BIG; i++) {
        struct big *big = ps_new(c, struct big, NULL);
        EXPECT(big);
        pages += (uintptr_t)big / 4096 != last;
        last = (uintptr_t)big / 4096;
    }
    EXPECT(pages == BIG / 2);
    return (void)unused, 0;
}

/* By a process that adds one and ends. */
static int one(void *unused)
{
    struct item *item = ps_new(c, struct item, NULL);
    EXPECT(item);
    printf("page %lx\n", (unsigned long)((uintptr_t)item / 4096));
    return (void)unused, 0;
}

struct step { const char *name; int (*function)(void *); int outside; };
static const struct step steps[] = {
    {"look", look, 0},     {"names", names, 1}, {"refused", refused, 0},
    {"undone", undone, 1}, {"grow", grow, 0},   {"empty", empty, 0},
    {"hole", hole, 0},     {"beside", beside, 0}, {"one", one, 0},
};

int main(int argc, char **argv)
{
    c = ps_open("old", PS_WRITE, PS_LAYOUT(struct root, 1));
    int result = c ? 0 : -errno;
    for (int a = 1; a < argc && result == 0; a++) {
        if (strcmp(argv[a], "grown") == 0)
            grown = 1;
        for (const struct step *s = steps; s < steps + sizeof steps / sizeof *steps; s++)
            if (strcmp(argv[a], s->name) == 0)
                result = s->outside ? s->function(NULL) : ps_transaction(s->function, NULL);
        if (result)
            printf("%s: %d\n", argv[a], result);
    }
    puts(result ? "failed" : "done");
    return result != 0;
}
