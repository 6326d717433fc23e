/*
 * pstore_alloc.c - objects in containers, in the guest and through the real store manager.
 *
 * Aim     new objects are zeroed, aligned, where the hint wants them; freed space is used again,
 *         also by a later process; contents survive the process that made them; names and roots.
 * Method  a table of objects with their patterns lies in the container itself, so that a child
 *         process can check and change everything that its parent made.
 */
#include "pstore_test.h"

enum { OBJECTS = 1200 };
struct entry { uint8_t *at; uint32_t bytes, fill; };
/* 19,208 bytes: several pages */
struct root { uint32_t count, seed; struct entry entry[OBJECTS]; };

static ps_container *c;

static uint32_t draw(struct root *root, uint32_t below)
{
    root->seed = root->seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)root->seed * below >> 32);
}

static int is_filled(const uint8_t *p, uint32_t bytes, uint32_t with)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (p[i] != with)
            return 0;
    return 1;
}

/* Some random allocations and frees; 1: something was wrong. */
static int churn(void *steps)
{
    struct root *root = ps_root(c);
    if (!root)
        return -errno;
    for (int step = *(int *)steps; step > 0; step--) {
        if (root->count < OBJECTS && draw(root, 9) < (root->count < OBJECTS / 2 ? 6u : 4u)) {
            uint32_t bytes = 1 + draw(root, draw(root, 30) ? 300 : 20000);
            void *near = root->count ? root->entry[draw(root, root->count)].at : NULL;
            uint8_t *p = ps_alloc(c, bytes, draw(root, 2) ? near : NULL);
            if (!p)
                return -errno;
            if ((uintptr_t)p % 16 || !is_filled(p, bytes, 0) || ps_size(p) < bytes ||
                ps_container_of(p) != c)
                return 1;
            struct entry *e = &root->entry[root->count++];
            *e = (struct entry){p, bytes, 1 + draw(root, 255)};
            memset(p, (int)e->fill, bytes);
        } else if (root->count > 0) {
            struct entry *e = &root->entry[draw(root, root->count)];
            if (!is_filled(e->at, e->bytes, e->fill) || ps_free(e->at) != 0)
                return 1;
            *e = root->entry[--root->count];
        }
    }
    return 0;
}

static int churn_and_fail(void *steps)
{
    int result = churn(steps);
    return result ? result : 7;
}

static int all_filled(void *unused)
{
    (void)unused;
    const struct root *root = ps_root(c);
    for (uint32_t i = 0; i < root->count; i++)
        if (!is_filled(root->entry[i].at, root->entry[i].bytes, root->entry[i].fill))
            return 1;
    return 0;
}

static int free_all(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    while (root->count > 0) {
        int result = ps_free(root->entry[root->count - 1].at);
        if (result != 0)
            return result;
        root->count--;
    }
    return 0;
}

static int rounds(int count)
{
    int steps = 60, result = 0;
    for (int i = 0; i < count && result == 0; i++)
        result = i % 4 == 3 ? ps_transaction(churn_and_fail, &steps) - 7
                            : ps_transaction(churn, &steps);
    return result ? result : ps_transaction(all_filled, NULL);
}

static uint64_t pages_used(void)
{
    struct ps_info info[32];
    int count = ps_list(info, 32);
    for (int i = 0; i < count && i < 32; i++)
        if (strcmp(info[i].name, "alloc") == 0)
            return info[i].pages_used;
    return 0;
}

static void reuse(const char *self)
{
    uint64_t other = pages_used();        /* what the tests before this one left */
    is(rounds(40), 0,
       "random objects keep their contents, also when every fourth transaction fails");
    is(child_run(self, "check", NULL), 0, "another process finds them all");
    is(child_run(self, "churn", NULL), 0, "changes them, and all are right");
    is(ps_transaction(all_filled, NULL), 0, "which the first one sees");
    uint64_t before = pages_used();
    for (int i = 0; i < 8; i++)
        if (rounds(10) != 0 || ps_transaction(free_all, NULL) != 0)
            tap_ok(0, "round %d of fill and free", i);
    uint64_t after = pages_used();
    printf("# pages in use: %lu, full %lu, after everything was freed %lu\n", (unsigned long)other,
           (unsigned long)before, (unsigned long)after);
    tap_ok(before > other + 50 && after < other + 20, "freed pages go back to the store");
}

static int take_unwritten(void *out)
{
    *(void **)out = ps_alloc(c, 500 * 4096 + 100, NULL);
    return *(void **)out ? 0 : -errno;
}
static int give_back(void *object) { return ps_free(*(void **)object); }

/* pages_used left out what had been allocated and never written. */
static void unwritten(void)
{
    void *object;
    struct ps_stats at_first, at_last;
    uint64_t before = pages_used();
    ps_stats(&at_first);
    is(ps_transaction(take_unwritten, &object), 0,
       "an object of 500 pages is made and not written");
    ps_stats(&at_last);
    tap_ok(at_last.read_faults - at_first.read_faults < 8, "nor are its pages read: %lu faults",
           (unsigned long)(at_last.read_faults - at_first.read_faults));
    uint64_t with = pages_used();
    is(ps_transaction(give_back, &object), 0, "and freed");
    tap_ok(with >= before + 500 && pages_used() < before + 3,
           "its pages are counted meanwhile: %lu, %lu, %lu", (unsigned long)before,
           (unsigned long)with, (unsigned long)pages_used());
}

/* ---- hints, names, large objects ---- */

static int hints(void *unused)
{
    (void)unused;
    char *far[4], *p;
    for (int i = 0; i < 4; i++)
        if (!(far[i] = ps_alloc(c, 3800, NULL)))
            return -errno;
    for (int i = 0; i < 4; i++) {
        if (!(p = ps_alloc(c, 64, far[i])) || ((uintptr_t)p ^ (uintptr_t)far[i]) >> 12)
            return 1;                     /* not the same page */
        if (!(p = ps_alloc(c, 2000, far[i])) || labs(p - far[i]) > 64 * 4096)
            return 2;                     /* not close by */
    }
    return ps_alloc(c, 64, &far) ? 7 : 3; /* a foolish hint does no harm */
}

struct names { void *first, *second, *again; };

static int names(void *arg)
{
    struct names *n = arg;
    n->first = ps_named(c, "first", 100);
    n->second = ps_named(c, "second", 100000);
    n->again = ps_named(c, "first", 100);
    if (!n->first || !n->second)
        return -errno;
    return is_filled(n->second, 100000, 0) || *(uint8_t *)n->second == 0x5a ? 0 : 1;
}

static int large(void *arg)
{
    uint8_t **p = arg;
    static const size_t sizes[] = {4063, 4064, 4065, 4080, 4096, 8176, 8192, 65536, 1000000};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        *p = ps_alloc(c, sizes[i], NULL);
        if (!*p || !is_filled(*p, (uint32_t)sizes[i], 0) || ps_size(*p) < sizes[i] ||
            ps_size(*p) > sizes[i] + 47)
            return *p ? 1 : -errno;
        memset(*p, 0xff, sizes[i]);
        if (i % 2 && ps_free(*p) != 0)
            return 2;
    }
    return 0;
}

static int child(const char *what)
{
    c = ps_open("alloc", PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!c)
        return 90;
    return strcmp(what, "check") == 0 ? ps_transaction(all_filled, NULL) : rounds(20);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return child(argv[1]);
    tap_plan(18);
    ps_delete("alloc");
    c = ps_open("alloc", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c != NULL, 1, "a container is created");
    is(ps_transaction(hints, NULL), 7, "hints are followed: same page, then close by");
    struct names one = {0}, two = {0};
    is(ps_transaction(names, &one), 0, "named objects are made");
    is(ps_transaction(names, &two), 0, "and found");
    tap_ok(one.first == two.first && one.second == two.second && one.first == one.again,
           "at the same addresses");
    is(ps_free(one.first), -EPERM, "freeing outside a transaction gives EPERM");
    uint8_t *p;
    is(ps_transaction(large, &p), 0, "objects of several pages");
    is(ps_transaction(large, &p), 0, "are zeroed when their pages are used again");
    unwritten();
    reuse(argv[0]);
    is(ps_close(c), 0, "the container is closed");
    return tap_end();
}
