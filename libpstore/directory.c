/*
 * directory.c - names of congeries, and rules that lead objects of a type to one.
 *
 * Both lie in one object of the container, which has a name of the library's own and is made with
 * the first of them. It is written hardly ever, so all who read it keep the right to its page. A
 * process asks the store manager for it once: before its first object with a type.
 */
#include "congeries.h"
#include "pstore_private.h"

#include <errno.h>
#include <string.h>

enum { ENTRIES = 48, RULES = 96, NONE = 1 };

struct directory {
    uint32_t entries, rules, unused[2];
    struct { uint64_t arena; char name[40]; } entry[ENTRIES];
    struct { uint64_t arena; uint32_t type, unused; } rule[RULES];
};
_Static_assert(sizeof(struct directory) <= 4048, "within one page");

/* directory_of finds the container's directory, or NULL. */
static struct directory *directory_of(const struct ps_tx *tx, ps_container *c)
{
    uint64_t address = c->directory;
    if (address <= NONE && tx->directories)           /* made in this transaction? */
        address = names_find(tx, c, DIRECTORY_NAME, 0);
    if (address == 0 && c->directory == 0) {
        address = names_find(tx, c, DIRECTORY_NAME, 1);
        c->directory = address ? address : NONE;
    }
    return address > NONE ? (struct directory *)(uintptr_t)address : NULL;
}

/* directory_make does so to change it, and makes it if there is none. NULL with errno. */
static struct directory *directory_make(struct ps_tx *tx, ps_container *c)
{
    struct directory *d = directory_of(tx, c);
    if (!d && (d = names_private(c, DIRECTORY_NAME, sizeof *d)))
        tx->directories = 1;
    if (d)
        heap_declare(c, PAGE_OF(d), 1);
    if (d && (d->entries > ENTRIES || d->rules > RULES)) {
        errno = EUCLEAN;
        return NULL;
    }
    return d;
}

uint64_t directory_arena_of(struct ps_tx *tx, ps_container *c, uint32_t type)
{
    const struct directory *d = directory_of(tx, c);
    for (uint32_t i = 0; d && i < d->rules && i < RULES; i++)
        if (d->rule[i].type == type)
            return arena_is(c, (ps_arena *)(uintptr_t)d->rule[i].arena) ? d->rule[i].arena : 0;
    return 0;
}

static int entry_named(const struct directory *d, const char *name)
{
    for (uint32_t i = 0; d && i < d->entries && i < ENTRIES; i++)
        if (strncmp(d->entry[i].name, name, sizeof d->entry[i].name) == 0)
            return (int)i;
    return -1;
}

static int entry_of(const struct directory *d, const ps_arena *arena)
{
    for (uint32_t i = 0; d && i < d->entries && i < ENTRIES; i++)
        if (d->entry[i].arena == (uintptr_t)arena)
            return (int)i;
    return -1;
}

int directory_forget(ps_container *c, const ps_arena *arena)
{
    struct ps_tx *tx = tx_active();
    struct directory *d = directory_of(tx, c);
    int i = entry_of(d, arena), declared = 0;
    if (!d || d->entries > ENTRIES || d->rules > RULES)
        return d ? -EUCLEAN : 0;
    if (i >= 0) {
        heap_declare(c, PAGE_OF(d), 1);
        declared = 1;
        d->entry[i] = d->entry[--d->entries];
    }
    for (uint32_t k = d->rules; k-- > 0;)
        if (d->rule[k].arena == (uintptr_t)arena) {
            if (!declared++)
                heap_declare(c, PAGE_OF(d), 1);
            d->rule[k] = d->rule[--d->rules];
        }
    return 0;
}

const char *directory_name_of(ps_container *c, const ps_arena *arena)
{
    const struct directory *d = directory_of(tx_active(), c);
    int i = entry_of(d, arena);
    return i >= 0 ? d->entry[i].name : "";
}

/* ---- the calls ---- */

static int name_enter(struct ps_tx *tx, ps_container *c, const char *name, ps_arena *arena)
{
    GUARD_OPENED(c);
    struct directory *d = directory_make(tx, c);
    if (!d)
        return -errno;
    if (d->entries == ENTRIES)
        return -ENOSPC;
    memset(&d->entry[d->entries], 0, sizeof d->entry[0]);
    strcpy(d->entry[d->entries].name, name);
    d->entry[d->entries++].arena = (uintptr_t)arena;
    return 0;
}

static int wish_check(ps_container *c, const char *name, unsigned block_pages, unsigned fill)
{
    size_t length = name ? strnlen(name, sizeof((struct directory *)0)->entry[0].name) : 1;
    struct ps_tx *tx = tx_writing(c);
    if (!tx)
        return -errno;
    int result = items_lock_whole(tx, c);
    if (result != 0)
        return result;
    if (block_pages > BLOCK_PAGES_MAX || block_pages & (block_pages - 1) || fill > 100 || !length)
        return -EINVAL;
    if (length == sizeof((struct directory *)0)->entry[0].name)
        return -ENAMETOOLONG;
    const struct directory *d = name ? directory_of(tx, c) : NULL;
    if (name && entry_named(d, name) >= 0)
        return -EEXIST;
    return d && d->entries >= ENTRIES ? -ENOSPC : 0;
}

ps_congeries *ps_congeries_make(ps_container *c, const char *name,
                                const struct ps_congeries_wish *wish)
{
    unsigned block = wish && wish->block_pages ? wish->block_pages : EXTENT_BYTES / KD_PAGE_BYTES;
    unsigned fill = wish ? wish->fill : 0;
    int result = wish_check(c, name, block, fill);
    ps_arena *arena = result == 0 ? arena_make(c, block, fill) : NULL;
    if (result == 0 && !arena)
        result = -errno;
    if (arena && name)
        result = name_enter(tx_active(), c, name, arena);
    if (arena && result != 0)
        ps_arena_free(arena);
    if (error_told(ERROR_ALLOC, result) == 0)
        return arena;
    errno = -result;
    return NULL;
}

ps_congeries *ps_congeries_named(ps_container *c, const char *name)
{
    struct ps_tx *tx = tx_active();
    int result = !tx ? -EPERM : !container_is_open(c) || !name ? -EINVAL : 0;
    const struct directory *d = result == 0 ? directory_of(tx, c) : NULL;
    int i = d ? entry_named(d, name) : -1;
    if (result == 0 && i < 0)
        result = -ENOENT;
    errno = -result;
    return result == 0 ? (ps_congeries *)(uintptr_t)d->entry[i].arena : NULL;
}

static int rule_set(ps_container *c, const char *type, ps_congeries *congeries)
{
    struct ps_tx *tx = tx_writing(c);
    uint32_t number = tx && type ? type_number(type) : 0, i = 0;
    if (!number)
        return tx && !type ? -EINVAL : -errno;
    GUARD_OPENED(c);
    int result = items_lock_whole(tx, c);
    if (result != 0)
        return result;
    if (congeries && !arena_is(c, congeries))
        return -EINVAL;
    struct directory *d = congeries || directory_of(tx, c) ? directory_make(tx, c) : NULL;
    if (!d)
        return congeries ? -errno : 0;
    while (i < d->rules && d->rule[i].type != number)
        i++;
    if (!congeries && i < d->rules)
        d->rule[i] = d->rule[--d->rules];
    if (!congeries)
        return 0;
    if (i == RULES)
        return -ENOSPC;
    d->rule[i].type = number;
    d->rule[i].arena = (uintptr_t)congeries;
    d->rules += i == d->rules;
    return 0;
}

int ps_congeries_rule(ps_container *c, const char *type, ps_congeries *congeries)
{
    return error_told(ERROR_ALLOC, rule_set(c, type, congeries));
}

int ps_congeries_list(ps_container *c, struct ps_congeries_info *out, int count)
{
    struct ps_tx *tx = tx_active();
    if (!tx || !container_is_open(c) || count < 0 || (count > 0 && !out))
        return tx ? -EINVAL : -EPERM;
    const struct directory *d = directory_of(tx, c);
    int all = d ? (int)(d->entries < ENTRIES ? d->entries : ENTRIES) : 0;
    for (int i = 0; i < all && i < count; i++) {
        ps_arena *arena = (ps_arena *)(uintptr_t)d->entry[i].arena;
        out[i] = (struct ps_congeries_info){.congeries = arena};
        memcpy(out[i].name, d->entry[i].name, sizeof out[i].name - 1);
        if (arena_is(c, arena))
            arena_knobs(arena, &out[i].block_pages, &out[i].fill);
    }
    return all;
}
