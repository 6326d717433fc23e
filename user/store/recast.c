/*
 * recast.c - another layout for the objects of a container (recast.h).
 *
 * Pages are looked at in turns, from the first to the last; of each the LSN tells whether it was
 * converted as it is. So it does not matter what changed a page, a commit, a chain, a transaction
 * that was in doubt, or a free, and nothing is to be noted where the log is applied.
 */
#include "recast.h"

#include <errno.h>
#include <string.h>

#include "crc32c.h"
#include "../sites/agent_types.h"

enum { BLOCK = 64, LOOK_PAGES = 16, TAG = 0x72656361 };
#define TYPES_NAME "\6types"            /* as site.h of libpstore has it */
#define ROOT_NAME  "\1root"

struct page { store_lsn_t lsn; uint8_t *bytes; int error; uint32_t type; };    /* lsn 0: none */
struct block { struct page page[BLOCK]; };
struct text { uint64_t page; uint32_t offset, bytes; store_lsn_t lsn; char text[TYPES_TEXT_MAX]; };

struct recast {
    struct store *store;
    struct disk_memory memory;
    char name[STORE_NAME_BYTES];
    uint64_t object;
    struct store_layout to;
    struct text is, becomes;            /* the descriptions */
    struct types_pair types;            /* home: as it is; site: as it becomes */
    struct block **blocks;
    uint64_t room;                      /* of blocks */
    uint64_t cursor, seen;              /* of this turn: the next page; those that are there */
    uint64_t end;                       /* behind the last page that was ever made */
    uint64_t pages, converted;
    uint64_t wrong;
    bool     all;
};

static void *zeroed(struct recast *r, size_t bytes)
{
    void *at = r->memory.alloc(r->memory.context, bytes);
    if (at) memset(at, 0, bytes);
    return at;
}

/* ---- descriptions ---- */

static bool named(struct store *store, const struct store_container *c, const char *name,
                  uint64_t *page, uint32_t *offset)
{
    struct store_name found;
    struct store_container of;
    if (store_name_find(store, c->object, name, &found)) return false;
    if (store_container_at(store, found.address, &of, page)) return false;
    *offset = (uint32_t)(found.address % STORE_PAGE_BYTES);
    return of.object == c->object && found.bytes == TYPES_TEXT_MAX &&
           *offset + found.bytes <= STORE_PAGE_BYTES;
}

/* text_read reads the description of a container; 1: it is as it was. */
static int text_read(struct store *store, const struct store_container *c, struct text *t)
{
    uint8_t bytes[STORE_PAGE_BYTES];
    struct store_page found;
    uint64_t page;
    uint32_t offset;
    if (!named(store, c, TYPES_NAME, &page, &offset)) return -ENODATA;
    int error = store_page_find(store, c->object, page, &found);
    if (!error && t->lsn && t->lsn == found.lsn && t->page == page && t->offset == offset) return 1;
    error = error ? error : store_page_read(store, c->object, page, bytes);
    if (error) return error;
    bool same = t->lsn && t->page == page && t->offset == offset &&
                !memcmp(t->text, bytes + offset, TYPES_TEXT_MAX);
    t->page = page;
    t->offset = offset;
    t->lsn = found.lsn;
    if (same) return 1;
    memcpy(t->text, bytes + offset, TYPES_TEXT_MAX);
    t->bytes = (uint32_t)strnlen(t->text, TYPES_TEXT_MAX);
    return 0;
}

static const struct type *type_find(const struct types *t, const char *name)
{
    for (unsigned i = 0; i < t->types; i++)
        if (!strcmp(t->type[i].name, name)) return &t->type[i];
    return NULL;
}

static int types_read(struct recast *r, char refused[TYPE_NAME_BYTES])
{
    if (types_parse(&r->types.home, r->is.text, r->is.bytes) ||
        types_parse(&r->types.site, r->becomes.text, r->becomes.bytes))
        return -EBADMSG;
    int error = types_match(&r->types, refused);
    if (error) return error;
    const struct type *root = type_find(&r->types.site, r->to.type);
    bool fits = !r->to.type[0] || (root && root->bytes == r->to.bytes);
    return fits && r->types.home.big == r->types.site.big ? 0 : -EOPNOTSUPP;
}

/* ---- pages ---- */

static struct page *page_at(const struct recast *r, uint64_t page)
{
    struct block *b = page / BLOCK < r->room ? r->blocks[page / BLOCK] : NULL;
    return b ? &b->page[page % BLOCK] : NULL;
}

static void page_forget(struct recast *r, struct page *p)
{
    if (p->bytes) r->memory.free(r->memory.context, p->bytes, STORE_PAGE_BYTES);
    r->pages -= p->lsn != 0;
    r->wrong -= p->error != 0;
    *p = (struct page){ .lsn = 0 };
}

static void pages_forget(struct recast *r)
{
    for (uint64_t i = 0; i < r->room * BLOCK; i++) {
        struct page *p = page_at(r, i);
        if (p) page_forget(r, p);
    }
    r->cursor = 0;
    r->all = false;
}

static void blocks_free(struct recast *r)
{
    for (uint64_t i = 0; i < r->room; i++)
        if (r->blocks[i]) r->memory.free(r->memory.context, r->blocks[i], sizeof(struct block));
    if (r->blocks) r->memory.free(r->memory.context, r->blocks, r->room * sizeof *r->blocks);
    r->blocks = NULL;
    r->room = 0;
}

/* blocks_room makes room, as the container may have grown. What is made stays. */
static int blocks_room(struct recast *r, uint64_t pages)
{
    uint64_t room = (pages + BLOCK - 1) / BLOCK;
    if (room <= r->room) return 0;
    struct block **blocks = zeroed(r, room * sizeof *blocks);
    if (!blocks) return -ENOMEM;
    if (r->room) memcpy(blocks, r->blocks, r->room * sizeof *blocks);
    if (r->blocks) r->memory.free(r->memory.context, r->blocks, r->room * sizeof *r->blocks);
    r->blocks = blocks;
    r->room = room;
    return 0;
}

static int page_place(struct recast *r, uint64_t *place, uint64_t page)
{
    if (page / BLOCK >= r->room) return -E2BIG;
    if (!r->blocks[page / BLOCK]) r->blocks[page / BLOCK] = zeroed(r, sizeof(struct block));
    *place = page % BLOCK;
    return r->blocks[page / BLOCK] ? 0 : -ENOMEM;
}

/* address_of tells where a page begins in memory: segments lie apart. */
static uint64_t address_of(const struct store_container *c, uint64_t page)
{
    for (uint32_t i = 0; i < c->segment_count; i++) {
        if (page < c->segments[i].pages) return c->segments[i].address + page * STORE_PAGE_BYTES;
        page -= c->segments[i].pages;
    }
    return 0;
}

/* page_turn makes the page as it becomes; the description in it is the new one. */
static int page_turn(struct recast *r, const struct store_container *c, uint64_t page,
                     const uint8_t *is, uint8_t *becomes, uint32_t *type)
{
    int error = types_out(&r->types, address_of(c, page), is, becomes, type);
    if (!error && page == r->is.page)
        memcpy(becomes + r->is.offset, r->becomes.text, TYPES_TEXT_MAX);
    return error;
}

/* page_convert converts a page, or notes that it cannot: it may be stored to. */
static int page_convert(struct recast *r, const struct store_container *c, uint64_t page,
                        store_lsn_t lsn)
{
    uint8_t is[STORE_PAGE_BYTES], becomes[STORE_PAGE_BYTES];
    uint64_t place;
    int error = page_place(r, &place, page) ?: store_page_read(r->store, r->object, page, is);
    if (error) return error;
    struct page *p = &r->blocks[page / BLOCK]->page[place];
    page_forget(r, p);
    p->error = page_turn(r, c, page, is, becomes, &p->type);
    p->lsn = lsn;
    if (page >= r->end) r->end = page + 1;
    r->pages++;
    r->converted++;
    r->wrong += p->error != 0;
    if (p->error || !memcmp(is, becomes, sizeof is)) return 0;
    p->bytes = r->memory.alloc(r->memory.context, STORE_PAGE_BYTES);
    if (!p->bytes) {
        page_forget(r, p);
        return -ENOMEM;
    }
    memcpy(p->bytes, becomes, sizeof becomes);
    return 0;
}

/* log_pages: how many pages one transaction may have: a chain lives for half of the log. */
static uint64_t log_pages(const struct store *store)
{
    struct store_stats stats;
    store_stats(store, &stats);
    uint64_t pages = stats.log_bytes / 2 / (2 * STORE_PAGE_BYTES);
    return pages < RECAST_PAGES ? pages : RECAST_PAGES;
}

static int container_look(struct recast *r, struct store_container *c)
{
    int error = store_container_get(r->store, r->object, c);
    if (error) return error;
    if (c->durability >= STORE_DURABILITY_VOLATILE || strcmp(c->layout.type, r->to.type))
        return -EOPNOTSUPP;
    return c->pages_present > log_pages(r->store) ? -E2BIG : blocks_room(r, c->pages);
}

/* more_there: behind the last page there is nothing to look at, but what the last turn saw. */
static bool more_there(const struct recast *r, const struct store_container *c)
{
    return r->cursor < c->pages && (r->seen < c->pages_present || r->cursor < r->end);
}

/* turn_begin: a look at all begins: does the container look as it did? */
static int turn_begin(struct recast *r, const struct store_container *c)
{
    char refused[TYPE_NAME_BYTES];
    r->seen = 0;
    int same = text_read(r->store, c, &r->is);
    if (same < 0) return same;
    if (same) return 0;
    pages_forget(r);
    return types_read(r, refused);
}

/* pages_look looks at pages of one extent or more; how many were converted, or an error. */
static int pages_look(struct recast *r, const struct store_container *c, uint32_t count,
                      uint32_t most)
{
    struct store_page found[LOOK_PAGES];
    uint32_t made = 0;
    int error = store_pages_find(r->store, r->object, r->cursor, count, found);
    for (uint32_t i = 0; !error && i < count && made < most; i++, r->cursor++) {
        struct page *p = page_at(r, r->cursor);
        r->seen += found[i].present;
        if (!found[i].present && p && p->lsn) page_forget(r, p);
        if (!found[i].present || (p && p->lsn == found[i].lsn)) continue;
        error = page_convert(r, c, r->cursor, found[i].lsn);
        made++;
    }
    return error ? error : (int)made;
}

int recast_step(struct recast *r, uint32_t most)
{
    struct store_container c;
    uint64_t looks = 0;
    uint32_t made = 0;
    int error = container_look(r, &c);
    if (!error && r->cursor == 0) error = turn_begin(r, &c);
    while (!error && more_there(r, &c) && looks < RECAST_LOOKS && made < most) {
        uint64_t left = c.pages - r->cursor;
        int some = pages_look(r, &c, left < LOOK_PAGES ? (uint32_t)left : LOOK_PAGES, most - made);
        error = some < 0 ? some : 0;
        made += some > 0 ? (uint32_t)some : 0;
        looks += LOOK_PAGES;
    }
    if (error) return error;
    if (more_there(r, &c)) return 1;
    r->cursor = 0;
    r->all = true;
    return 0;
}

/* ---- begin and end ---- */

static int containers_find(struct recast *r, const char *name, const char *like,
                           char refused[TYPE_NAME_BYTES])
{
    struct store_container is, becomes;
    int error = store_container_find(r->store, name, &is) ?:
                store_container_find(r->store, like, &becomes);
    if (error) return error;
    r->object = is.object;
    r->to = becomes.layout;
    error = text_read(r->store, &is, &r->is) ?: text_read(r->store, &becomes, &r->becomes) ?:
            types_read(r, refused);
    return error ? error : container_look(r, &is);
}

int recast_begin(struct store *store, const struct disk_memory *memory, const char *name,
                 const char *like, struct recast **out, char refused[RECAST_TYPE_BYTES])
{
    _Static_assert((int)RECAST_TYPE_BYTES == (int)TYPE_NAME_BYTES, "a type's name fits");
    struct recast *r = memory->alloc(memory->context, sizeof *r);
    refused[0] = 0;
    if (!r) return -ENOMEM;
    memset(r, 0, sizeof *r);
    r->store = store;
    r->memory = *memory;
    strncpy(r->name, name, sizeof r->name - 1);
    int error = containers_find(r, name, like, refused);
    if (error) {
        recast_end(r);
        return error;
    }
    *out = r;
    return 0;
}

void recast_end(struct recast *r)
{
    if (!r) return;
    pages_forget(r);
    blocks_free(r);
    struct disk_memory memory = r->memory;
    memory.free(memory.context, r, sizeof *r);
}

static const struct page *wrong_one(const struct recast *r, uint64_t *page)
{
    for (*page = 0; r->wrong && *page < r->room * BLOCK; ++*page) {
        const struct page *p = page_at(r, *page);
        if (p && p->error) return p;
    }
    return NULL;
}

void recast_tell(const struct recast *r, struct recast_state *out)
{
    *out = (struct recast_state){ .pages = r->pages, .converted = r->converted,
                                  .wrong = r->wrong, .all = r->all };
    strcpy(out->name, r->name);
    const struct page *p = wrong_one(r, &out->wrong_page);
    if (!p) return;
    out->wrong_type = p->type;
    out->wrong_error = p->error;
}

/* ---- commit ---- */

static int group_ends(struct store_group *group)
{
    int error = store_group_seal(group);
    if (error) {
        store_group_cancel(group);
        return error;
    }
    error = store_group_write(group);
    int applied = store_group_apply(group);
    return error ? error : applied;
}

static int page_spill(struct recast *r, struct store_chain *chain, struct store_group **group,
                      uint64_t page, const uint8_t *bytes)
{
    int error = *group ? 0 : store_group_begin(r->store, group);
    if (!error) error = store_spill_page(*group, chain, r->object, page, bytes);
    if (error != -ENOBUFS) return error;
    error = group_ends(*group);
    *group = NULL;
    if (!error) error = store_group_begin(r->store, group);
    return error ? error : store_spill_page(*group, chain, r->object, page, bytes);
}

static int pages_spill(struct recast *r, struct store_chain *chain)
{
    struct store_group *group = NULL;
    int error = 0;
    for (uint64_t i = 0; !error && i < r->room * BLOCK; i++) {
        const struct page *p = page_at(r, i);
        if (p && p->bytes) error = page_spill(r, chain, &group, i, p->bytes);
    }
    if (group && error) store_group_cancel(group);
    return group && !error ? group_ends(group) : error;
}

/* name_bytes returns the size that a named object will have; 0: it stays as it is. */
static uint64_t name_bytes(const struct recast *r, const struct store_name *n)
{
    const struct types *is = &r->types.home;
    const struct type *t = strcmp(n->name, ROOT_NAME) ? NULL : type_find(is, r->to.type);
    for (const struct type_name *o = is->name; !t && o < is->name + is->names; o++)
        if (!strcmp(o->name, n->name)) t = &is->type[o->type];
    bool one = t && n->bytes == t->bytes;
    return one ? r->types.site.type[t->other].bytes : 0;
}

static int names_log(struct recast *r, struct store_group *group)
{
    struct store_name n;
    uint32_t cursor = 0;
    int error = 0;
    while (!error && store_name_next(r->store, r->object, &cursor, &n) == 0) {
        uint64_t bytes = name_bytes(r, &n);
        struct store_op op = { .type = STORE_OP_NAME_SET, .object = r->object, .name = n.name,
                               .address = n.address, .bytes = bytes };
        if (bytes && bytes != n.bytes) error = store_txn_op(group, &op);
    }
    return error;
}

static int change_log(struct recast *r, struct store_chain *chain, struct store_group *group)
{
    struct store_container c;
    uint32_t position;
    int error = store_container_get(r->store, r->object, &c) ?: store_txn_begin(group, TAG);
    struct store_op op = { .type = STORE_OP_LAYOUT, .object = r->object, .layout = &r->to,
                           .address = c.root };
    if (!error && store_chain_pages(chain)) error = store_txn_chain(group, chain);
    if (!error && r->to.type[0]) error = store_txn_op(group, &op);
    if (!error) error = names_log(r, group);
    int ended = store_txn_end(group, &position);
    return error ? error : ended;
}

static int chain_commit(struct recast *r, struct store_chain *chain)
{
    struct store_group *group;
    int error = pages_spill(r, chain) ?: store_group_begin(r->store, &group);
    if (error) return error;
    error = change_log(r, chain, group);
    if (!error) return group_ends(group);
    store_group_cancel(group);
    return error;
}

int recast_commit(struct recast *r)
{
    struct recast_state state;
    struct store_chain *chain;
    int more;
    r->cursor = 0;                      /* RX1 */
    while ((more = recast_step(r, RECAST_LOOKS)) > 0)
        ;
    if (more < 0) return more;
    recast_tell(r, &state);
    if (state.wrong) return state.wrong_error;                                  /* RX3 */
    int error = store_chain_begin(r->store, TAG, &chain);
    if (error) return error;
    error = chain_commit(r, chain);                                             /* RX2 */
    store_chain_end(chain);
    return error;
}
