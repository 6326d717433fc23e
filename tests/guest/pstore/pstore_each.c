/*
 * pstore_each.c - going through all objects of a container; names listed and taken away.
 *
 * Aim     each object of a type comes up once, whoever made it and however large it is, also one
 *         that is not committed yet, and what was freed does not; a name that was taken away is
 *         nobody's any more.
 * Method  objects carry a number; the numbers seen are counted and added up.
 */
#include "pstore_test.h"

struct small { long number; char rest[40]; };
struct large { long number; char rest[9000]; };
struct edge { long number; char rest[4048]; };         /* 4,056 bytes: 254 units */
struct other { long number; };
struct root { long number; };
struct seen { long count, sum; };

enum { SMALL = 700, LARGE = 9, EDGE = 5 };

static ps_container *c;

/* Fills a large object with what stands in the page of a small one, page upon page, with the right
 * seals (slot.h): nothing in it is an object for that. */
static void disguise(struct large *l, const struct small *s)
{
    const uint64_t bytes = KD_PAGE_BYTES;
    const char *page = (const char *)((uintptr_t)s / bytes * bytes);
    for (char *to = l->rest; to < l->rest + sizeof l->rest; to++)
        *to = page[(uintptr_t)to % bytes];
    for (uint64_t at = ((uintptr_t)l->rest / bytes + 1) * bytes;
         at + 4 <= (uintptr_t)(l->rest + sizeof l->rest); at += bytes)
        *(uint32_t *)at ^= (uint32_t)((uintptr_t)page / bytes ^ at / bytes);
}

static int make(void *first)
{
    struct root *root = ps_root(c);
    long from = *(long *)first;
    const struct small *last = NULL;
    if (!root || !ps_arena_make(c)) /* an arena is no object */
        return -errno;
    for (long i = from; i < from + SMALL; i++) {
        struct small *s = ps_new(c, struct small, i % 3 ? NULL : root);
        struct other *o = ps_new(c, struct other, s);
        void *untyped = ps_alloc(c, 100, NULL);
        if (!s || !o || !untyped)
            return -errno;
        s->number = o->number = i;
        memset(untyped, 0xff, 100);
        last = s;
    }
    for (long i = from; i < from + LARGE; i++) {
        struct large *l = ps_new(c, struct large, NULL);
        if (!l)
            return -errno;
        disguise(l, last);
        l->number = i;
    }
    for (long i = from; i < from + EDGE; i++) {
        struct edge *e = ps_new(c, struct edge, NULL);
        if (!e)
            return -errno;
        e->number = i;
    }
    return 0;
}

static struct seen seen_of(const char *type)
{
    struct seen seen = {0, 0};
    for (const long *p = NULL; (p = ps_each(c, type, p)) != NULL; seen.count++)
        seen.sum += *p;
    if (errno)
        seen.count = -errno;
    return seen;
}

static int add_up(void *out)
{
    struct seen *seen = out;
    seen[0] = seen_of("struct small");
    seen[1] = seen_of("struct large");
    seen[2] = seen_of("struct edge");
    seen[3] = seen_of("struct root");
    seen[4] = seen_of("struct nobody");
    seen[5] = seen_of(NULL);
    return 0;
}

static long sum(long from, long count)
{
    return count * from + count * (count - 1) / 2;
}

static int are(const struct seen *seen, long rounds)
{
    struct seen wanted[] = { { SMALL * rounds, 0 },
                             { LARGE * rounds, 0 },
                             { EDGE * rounds, 0 },
                             { 1, 0 },
                             { 0, 0 },
                             { 1 + rounds * (3 * SMALL + LARGE + EDGE), -1 } };
    for (long r = 0; r < rounds; r++) {
        wanted[0].sum += sum(r * 1000, SMALL);
        wanted[1].sum += sum(r * 1000, LARGE);
        wanted[2].sum += sum(r * 1000, EDGE);
    }
    for (int i = 0; i < 6; i++)
        if (seen[i].count != wanted[i].count ||
            (wanted[i].sum >= 0 && seen[i].sum != wanted[i].sum)) {
            printf("# %d: %ld objects, %ld; wanted %ld, %ld\n", i, seen[i].count, seen[i].sum,
                   wanted[i].count, wanted[i].sum);
            return 0;
        }
    return 1;
}

static int make_and_look(void *out)
{
    long from = 1000;
    int result = make(&from);
    return result ? result : add_up(out);
}

static int make_and_fail(void *out)
{
    long from = 2000;
    int result = make(&from);
    add_up(out);
    return result ? result : 77;
}

/* Every second small one, and all large ones, while the loop goes on. */
static int free_in_the_loop(void *unused)
{
    int result = 0;
    (void)unused;
    for (struct small *s = NULL; result == 0 && (s = ps_each(c, "struct small", s)) != NULL;)
        if (s->number % 2)
            result = ps_free(s);
    for (struct large *l = NULL; result == 0 && (l = ps_each(c, "struct large", l)) != NULL;)
        result = ps_free(l);
    return result;
}

static int snapshot_is_refused(void *unused)
{
    (void)unused;
    return !ps_each(c, NULL, NULL) && errno == EINVAL ? 0 : 1;
}

static void objects(void)
{
    long from = 0;
    struct seen seen[6];
    is(ps_transaction(make, &from), 0, "objects of four types and of none are made");
    is(ps_transaction(add_up, seen), 0, "and gone through");
    tap_ok(are(seen, 1), "each once, by its type, and all");
    is(ps_transaction(make_and_look, seen), 0, "as many again, looked at in the same transaction");
    tap_ok(are(seen, 2), "come up, too");
    is(ps_transaction(make_and_fail, seen), 77, "a third time, undone");
    tap_ok(are(seen, 3), "they came up");
    is(ps_transaction(add_up, seen), 0, "and are gone");
    tap_ok(are(seen, 2), "without a trace");
    is(ps_transaction(free_in_the_loop, NULL), 0, "some are freed while the loop goes on");
    is(ps_transaction(add_up, seen), 0, "the rest is gone through");
    tap_ok(seen[0].count == SMALL && seen[1].count == 0 && seen[2].count == 2 * EDGE,
           "%ld, %ld, %ld", seen[0].count, seen[1].count, seen[2].count);
    is(ps_transaction_opt(snapshot_is_refused, NULL,
                          &(struct ps_options){ .isolation = PS_SNAPSHOT }),
       0, "not in a snapshot");
    tap_ok(!ps_each(c, NULL, NULL) && errno == EPERM, "nor outside a transaction");
}

/* ---- names ---- */

static int name_make(void *name)
{
    long *p = ps_named(c, name, 64);
    if (p && !*p)
        *p = strcmp(name, "second") == 0 ? 2 : 1;
    return p ? 0 : -errno;
}

static int name_remove(void *name) { return ps_name_remove(c, name); }

static int name_find(void *name)
{
    const long *p = ps_named(c, name, 0);
    return p ? (int)*p + 100 : -errno;
}

static int free_named(void *object) { return ps_free(object); }

static int replace(void *name)
{
    int result = ps_name_remove(c, name);
    long *fresh = result == 0 && !ps_named(c, name, 0) ? ps_named(c, name, 128) : NULL;
    if (fresh)
        *fresh = 7;
    return fresh ? 0 : -EINVAL;
}

static int names_are(int count, const char *one)
{
    struct ps_name_info info[8];
    int found = 0, n = ps_names(c, info, 8);
    for (int i = 0; i < n && i < 8; i++)
        found += strcmp(info[i].name, one) == 0 && info[i].bytes >= 64;
    if (n != count || !found)
        printf("# %d names\n", n);
    return n == count && found == 1;
}

static void names(void)
{
    struct ps_name_info info[2];
    is(ps_transaction(name_make, "first"), 0, "a name");
    is(ps_transaction(name_make, "second"), 0, "and another");
    tap_ok(names_are(2, "first") && names_are(2, "second"), "are listed, and the root is not");
    is(ps_names(c, info, 1), 2, "how many there are is said also where there is room for one");
    void *object = strcmp(info[0].name, "first") == 0 ? info[0].object : NULL;
    if (!object && ps_names(c, info, 2) == 2)
        object = info[1].object;
    is(ps_transaction(free_named, object), -EBUSY, "an object with a name cannot be freed");
    is(ps_transaction(name_remove, "first"), 0, "the name is taken away");
    tap_ok(names_are(1, "second"), "and not listed any more");
    is(ps_transaction(name_find, "first"), -ENOENT,
       "nor found, though this process had learned it");
    is(ps_transaction(name_remove, "first"), -ENOENT, "nor taken away twice");
    is(ps_transaction(free_named, object), 0, "its object is freed like any other");
    is(ps_transaction(replace, "second"), 0,
       "a name goes and comes back with another object, in one transaction");
    is(ps_transaction(name_find, "second"), 107, "which is found");
    is(ps_transaction(name_remove, "\1root"), -EINVAL, "the root's name stays");
}

int main(void)
{
    tap_plan(28);
    ps_delete("each");
    c = ps_open("each", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c != NULL, 1, "a container is created");
    objects();
    names();
    return tap_end();
}
