/* congeries_model.c - see congeries_model.h. */
#include "congeries_model.h"

#include <errno.h>
#include <string.h>

static const struct ps_congeries_wish wishes[REGIONS] = {
    {0}, {.block_pages = 1, .fill = 60}, {.block_pages = 16}, {.block_pages = 2, .fill = 50}};
static const char *const names[REGIONS] = {"parts", NULL, "links", "log"};
static ps_container *container;
const char *regions_wrong;

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)*seed * below >> 32);
}

int regions_begin(ps_container *c, uint32_t seed)
{
    struct regions *root = ps_root(c);
    root->seed = seed;
    root->ruled = REGIONS;
    for (int i = 0; i < REGIONS; i++)
        if (!(root->region[i] = ps_congeries_make(c, names[i], &wishes[i])))
            return -errno;
    return 0;
}

/* ---- operations; an error leaves the model as it is ---- */

static int add(struct regions *root)
{
    uint32_t most = draw(&root->seed, 25) ? 400 : 15000;
    struct region_object o = {.bytes = 16 + draw(&root->seed, most),
                              .region = (uint8_t)draw(&root->seed, REGIONS + 1),
                              .fill = (uint8_t)(1 + draw(&root->seed, 15))};
    const void *near = root->count && draw(&root->seed, 2)
                           ? root->object[draw(&root->seed, root->count)].at : NULL;
    int by_rule = o.region == REGIONS && draw(&root->seed, 2);
    if (root->count == OBJECTS)
        return 0;
    if (by_rule)
        o.region = (uint8_t)root->ruled;
    o.at = by_rule               ? ps_alloc_as(container, o.bytes, near, "struct ruled")
           : o.region < REGIONS ? ps_alloc_in(root->region[o.region], o.bytes, near, "struct part")
                                : ps_alloc(container, o.bytes, near);
    if (!o.at)
        return -errno;
    memset(o.at, o.fill, o.bytes);
    root->object[root->count++] = o;
    return 0;
}

static int take(struct regions *root)
{
    struct region_object *o = root->count ? &root->object[draw(&root->seed, root->count)] : NULL;
    int error = o ? ps_free(o->at) : 0;
    if (o && error == 0)
        *o = root->object[--root->count];
    return error;
}

static int resize(struct regions *root)
{
    struct region_object *o = root->count ? &root->object[draw(&root->seed, root->count)] : NULL;
    uint32_t bytes = 16 + draw(&root->seed, 600);
    void *at = o ? ps_realloc(o->at, bytes) : NULL;
    if (!o || !at)
        return o ? -errno : 0;
    o->at = at;
    o->bytes = bytes;
    memset(o->at, o->fill, o->bytes);
    return 0;
}

/* A third of its objects, perhaps, has no root any more. */
static int collect(struct regions *root)
{
    void *roots[OBJECTS];
    uint8_t region = (uint8_t)draw(&root->seed, REGIONS);
    uint32_t count = 0, kept = 0, gone = 0, some = draw(&root->seed, 3);
    uint8_t keep[OBJECTS];
    for (uint32_t i = 0; i < root->count; i++) {
        keep[i] = root->object[i].region != region || some || draw(&root->seed, 3);
        if (keep[i] && root->object[i].region == region)
            roots[count++] = root->object[i].at;
        gone += !keep[i];
    }
    int64_t freed = ps_congeries_collect(root->region[region], roots, count);
    if (freed < 0)
        return (int)freed;
    MUST(freed == gone);
    for (uint32_t i = 0; i < root->count; i++)
        if (keep[i])
            root->object[kept++] = root->object[i];
    root->count = kept;
    return 0;
}

/* One is dropped and made again. */
static int drop(struct regions *root)
{
    uint8_t region = (uint8_t)draw(&root->seed, REGIONS);
    uint32_t kept = 0;
    int error = ps_arena_free(root->region[region]);
    for (uint32_t i = 0; i < root->count; i++)
        if (root->object[i].region != region)
            root->object[kept++] = root->object[i];
    root->count = kept;
    if (root->ruled == region)
        root->ruled = REGIONS;
    root->region[region] =
        error ? NULL : ps_congeries_make(container, names[region], &wishes[region]);
    return error ? error : root->region[region] ? 0 : -errno;
}

static int operate(struct regions *root)
{
    ps_congeries *any = root->region[draw(&root->seed, REGIONS)];
    uint32_t what = draw(&root->seed, 100);
    if (what < 50)
        return add(root);
    if (what < 70)
        return take(root);
    if (what < 80)
        return resize(root);
    if (what < 84)
        return ps_congeries_grow(any, 1 + draw(&root->seed, 5));
    if (what < 88) {
        int64_t given = ps_congeries_release(any);
        return given < 0 ? (int)given : 0;
    }
    if (what < 92)
        return collect(root);
    if (what < 94)
        return drop(root);
    if (what < 97) {
        root->ruled = draw(&root->seed, REGIONS + 1);
        return ps_congeries_rule(container, "struct ruled",
                                 root->ruled < REGIONS ? root->region[root->ruled] : NULL);
    }
    return ps_congeries_lock(any, draw(&root->seed, 2) ? PS_LOCK_SHARED : 0);
}

int regions_work(ps_container *c, int operations)
{
    struct regions *root = ps_root(c);
    int error = root ? 0 : -errno;
    container = c;
    while (operations-- > 0 && error == 0)
        error = operate(root);
    return error;
}

/* ---- all of it with the model ---- */

static void region_compare(const struct regions *root, uint8_t region)
{
    ps_congeries *g = root->region[region];
    struct ps_congeries_info info;
    uint64_t objects = 0, bytes = 0, walked = 0;
    MUST(ps_congeries_count(g, &info) == 0);
    MUST(strcmp(info.name, names[region] ? names[region] : "") == 0);
    MUST(!names[region] || ps_congeries_named(container, names[region]) == g);
    for (uint32_t i = 0; i < root->count; i++)
        if (root->object[i].region == region) {
            objects++;
            bytes += ps_size(root->object[i].at);
        }
    for (void *p = NULL; (p = ps_congeries_each(g, NULL, p)); walked++)
        MUST(ps_arena_of(p) == g);
    MUST(info.objects == objects && walked == objects && info.bytes == bytes);
    MUST(info.pages * 4096 >= bytes + info.bytes_free);
}

void regions_compare(ps_container *c)
{
    const struct regions *root = ps_root(c);
    container = c;
    for (uint32_t i = 0; i < root->count; i++) {
        const struct region_object *o = &root->object[i];
        MUST(ps_arena_of(o->at) == (o->region < REGIONS ? root->region[o->region] : NULL));
        for (uint32_t b = 0; b < o->bytes; b++)
            MUST(o->at[b] == o->fill);
    }
    for (uint8_t i = 0; i < REGIONS; i++)
        region_compare(root, i);
}
