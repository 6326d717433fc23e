/*
 * pstore_realloc.c - objects that become larger and smaller, copies of texts.
 *
 * Aim     contents stay, new bytes are zero, the object stays where it is if it can, an abort takes
 *         the change back, and all pages come back at the end.
 * Method  random sizes from 1 byte to some pages; what each object must hold is in a table beside
 *         it.
 */
#include "pstore_test.h"

enum { OBJECTS = 60, STEPS = 400 };
struct entry { uint8_t *at; uint32_t bytes, fill; };
struct root { uint32_t seed, moved, stayed; struct entry entry[OBJECTS]; };

static ps_container *c;

static uint32_t draw(struct root *root, uint32_t below)
{
    root->seed = root->seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)root->seed * below >> 32);
}

static int is_filled(const uint8_t *p, size_t from, size_t to, uint32_t with)
{
    for (size_t i = from; i < to; i++)
        if (p[i] != with)
            return 0;
    return 1;
}

/* One object; 1 or more: what was wrong. */
static int step(struct root *root)
{
    struct entry *e = &root->entry[draw(root, OBJECTS)];
    uint32_t bytes = 1 + draw(root, draw(root, 6) ? 600 : 30000);
    if (!e->at) {
        e->at = ps_alloc(c, bytes, root);
        if (!e->at)
            return -errno;
    } else {
        size_t before = ps_size(e->at);
        uint8_t *now = ps_realloc(e->at, bytes);
        if (!now)
            return -errno;
        if (ps_size(now) < bytes || (uintptr_t)now % 16)
            return 1;
        if (!is_filled(now, 0, bytes < e->bytes ? bytes : e->bytes, e->fill))
            return 2;
        if (bytes > before && !is_filled(now, before, bytes, 0))
            return 3;
        *(now == e->at ? &root->stayed : &root->moved) += 1;
        e->at = now;
    }
    e->bytes = bytes;
    e->fill = 1 + draw(root, 255);
    memset(e->at, (int)e->fill, bytes);
    return 0;
}

static int steps(void *count)
{
    struct root *root = ps_root(c);
    int result = root ? 0 : -errno;
    for (int i = *(int *)count; i > 0 && result == 0; i--)
        result = step(root);
    return result;
}

static int steps_undone(void *count)
{
    int result = steps(count);
    return result ? result : 77;
}

static int all_filled(void *unused)
{
    const struct root *root = ps_root(c);
    (void)unused;
    for (int i = 0; i < OBJECTS; i++)
        if (root->entry[i].at &&
            !is_filled(root->entry[i].at, 0, root->entry[i].bytes, root->entry[i].fill))
            return 1;
    return 0;
}

static int free_all(void *unused)
{
    struct root *root = ps_root(c);
    int result = 0;
    (void)unused;
    for (int i = 0; i < OBJECTS && result == 0; i++) {
        result = ps_free(root->entry[i].at);
        root->entry[i].at = NULL;
    }
    printf("# %u stayed where they were, %u moved\n", root->stayed, root->moved);
    return result ? result : root->stayed && root->moved ? 0 : 1;
}

static uint64_t pages_used(void)
{
    struct ps_info info[32];
    int count = ps_list(info, 32);
    for (int i = 0; i < count && i < 32; i++)
        if (strcmp(info[i].name, "realloc") == 0)
            return info[i].pages_used;
    return 0;
}

static void random_sizes(void)
{
    int some = 40, bad = 0;
    bad += ps_transaction(steps, &(int){1}) != 0;
    uint64_t before = pages_used();
    for (int i = 0; i < STEPS / 40 && !bad; i++) {
        bad += ps_transaction(steps, &some) != 0;
        bad += ps_transaction(steps_undone, &some) != 77;
        bad += ps_transaction(all_filled, NULL) != 0;
    }
    is(bad, 0,
       "objects change their sizes and keep their contents, also when every other transaction "
       "fails");
    is(ps_transaction(free_all, NULL), 0, "some stayed where they were, some moved; all are freed");
    tap_ok(pages_used() <= before + 8, "and their pages: %lu, %lu", (unsigned long)before,
           (unsigned long)pages_used());
}

/* ---- in place ---- */

static int in_place(void *unused)
{
    char *a = ps_alloc(c, 3000, NULL), *b = ps_alloc(c, 500, a);
    (void)unused;
    if (!a || !b || ps_realloc(a, 3008) != a)
        return 1;                         /* the same units */
    if (ps_realloc(a, 100) != a || ps_size(a) != 112 || ps_realloc(a, 3000) != a)
        return 2;                         /* there and back */
    strcpy(b, "stays");
    if (ps_free(a) != 0 || ps_realloc(b, 900) != b || strcmp(b, "stays") != 0)
        return 3;                         /* what lay behind it is free */
    return ps_free(b);
}

static int large(void *unused)
{
    char *p = ps_alloc(c, 20 * 4096, NULL), *q;
    (void)unused;
    if (!p)
        return -errno;
    memset(p, 5, 20 * 4096);
    if (ps_realloc(p, 8 * 4096) != p || ps_size(p) != 8 * 4096)
        return 1;
    q = ps_realloc(p, 300 * 4096);        /* its old pages are freed with the commit: it moves */
    if (!q || q[8 * 4096 - 1] != 5 || q[8 * 4096] != 0)
        return 2;
    p = ps_realloc(q, 400 * 4096);        /* behind it nothing lies yet */
    return p == q && !p[400 * 4096 - 1] ? ps_free(p) : 3;
}

static int refused(void *unused)
{
    struct root *root = ps_root(c);
    char *p = ps_alloc(c, 100, NULL);
    int volatile_one;
    (void)unused;
    if (ps_realloc(NULL, 5) || errno != EINVAL || ps_realloc(&volatile_one, 5) || errno != EINVAL)
        return 1;
    if (ps_realloc(p + 16, 5) || errno != EINVAL || ps_realloc(p, 0) || errno != EINVAL)
        return 2;
    if (ps_realloc(root, 5) || errno != EBUSY || ps_realloc(p, 2ul << 30) || errno != ENOSPC)
        return 3;
    return ps_size(p) == 112 ? ps_free(p) : 4;
}

static int copies(void *out)
{
    char *text = ps_strdup(c, "a text of some length", NULL), *empty = ps_strdup(c, "", text);
    if (!text || !empty)
        return -errno;
    *(char **)out = text;
    return strcmp(text, "a text of some length") == 0 && *empty == '\0' &&
                   ps_container_of(text) == c
               ? 0
               : 1;
}

int main(void)
{
    char *text = NULL;
    tap_plan(10);
    ps_delete("realloc");
    c = ps_open("realloc", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c != NULL, 1, "a container is created");
    random_sizes();
    is(ps_transaction(in_place, NULL), 0,
       "an object grows and shrinks where it is, while there is room behind it");
    is(ps_transaction(large, NULL), 0, "a large one gives pages back, and takes those behind it");
    is(ps_transaction(refused, NULL), 0,
       "no object, one with a name, impossible sizes: refused, nothing done");
    tap_ok(!ps_realloc(text, 5) && errno == EPERM, "outside a transaction: EPERM");
    is(ps_transaction(copies, &text), 0, "copies of texts");
    is(ps_close(c), 0, "the container is closed");
    return tap_end();
}
