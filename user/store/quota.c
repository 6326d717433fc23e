/*
 * quota.c - limits of directories are kept: what each transaction takes, counted before it commits.
 *
 * What a directory's containers hold is what the disk library says (limit.c), and so is right after
 * any crash. Transactions that are in a group, and not applied yet, have promised pages on top of
 * that: `promised`, by container. A promise is counted as held; when its group is applied it goes,
 * and the difference that the group made to the container's pages is counted in its place.
 *
 * A page is new if no commit that was applied holds it. A transaction that gives back pages is
 * counted by what it takes beyond these, over all its containers: so who is over his limit (it was
 * lowered) can still change what is there, and give back. Names of a transaction are promised, too,
 * and need not be looked for when its group is applied.
 *
 * Lock held everywhere. A store without limits pays one test for each transaction.
 */
#include "group.h"
#include "path.h"

#include <stdlib.h>
#include <string.h>

struct promise {
    struct group *group;                /* not applied */
    uint64_t container, pages;          /* new ones */
    uint64_t before;                    /* held, as quota_before saw it */
    int64_t names;                      /* more, or fewer */
};
static struct promise *promised;
static unsigned promise_count, promise_room;

/* `unpromised`: a limit was set when this group was the last, so it and those before may have no
 * promises: when they are applied all is counted again. */
static uint64_t unpromised;
static uint64_t counted;                /* directory_limits_counted, with our promises on top */

static struct store_txn_pages *spans;   /* of the transaction that is looked at */
static size_t span_count, span_room;

static int room_for(void **table, size_t count, size_t *room, size_t size)
{
    if (count < *room) return 0;
    size_t more = *room ? 2 * *room : 64;
    void *bigger = realloc(*table, more * size);
    if (!bigger) return -ENOMEM;
    *table = bigger;
    *room = more;
    return 0;
}

/* ---- what a transaction takes ---- */

static int span_order(const void *a, const void *b)
{
    const struct store_txn_pages *x = a, *y = b;
    if (x->object != y->object) return x->object < y->object ? -1 : 1;
    if (x->freed != y->freed) return x->freed ? 1 : -1;
    return x->page < y->page ? -1 : x->page > y->page;
}

static int spans_read(const struct group *g)
{
    struct store_txn_pages span;
    size_t cursor = 0;
    for (span_count = 0; store_txn_pages(g->disk, &cursor, &span); span_count++) {
        int r = room_for((void **)&spans, span_count, &span_room, sizeof(*spans));
        if (r < 0) return r;
        spans[span_count] = span;
    }
    if (span_count) qsort(spans, span_count, sizeof(*spans), span_order);
    return 0;
}

static bool is_held(uint64_t container, uint64_t page)
{
    struct store_page at;
    return store_page_find(server.store, container, page, &at) == 0 && (at.present || at.claimed);
}

/* new_pages counts a run's pages that no commit holds which was applied. */
static int64_t new_pages(uint64_t container, uint64_t from, uint64_t end)
{
    int64_t fresh = 0;
    for (uint64_t page = from; page < end; page++) fresh += !is_held(container, page);
    return fresh;
}

/* container_takes: more pages, or fewer, of the container at *i, which goes behind its spans: the
 * taken ones come first. A page counts once, however often it is named; one that is given back and
 * taken is taken: which of them was last is not asked. */
static int64_t container_takes(size_t *i)
{
    uint64_t container = spans[*i].object, end = 0, covered = 0;
    size_t take = *i;
    int64_t more = 0;
    for (; *i < span_count && spans[*i].object == container && !spans[*i].freed; ++*i) {
        uint64_t from = spans[*i].page, to = from + spans[*i].count;
        if (from < end) from = end;
        more += new_pages(container, from, to);
        if (to > end) end = to;
    }
    size_t frees = *i;
    for (end = 0; *i < span_count && spans[*i].object == container; ++*i) {
        uint64_t from = spans[*i].page, to = from + spans[*i].count;
        for (uint64_t page = from < end ? end : from; page < to; page++) {
            for (; take < frees && spans[take].page <= page; take++)
                if (spans[take].page + spans[take].count > covered)
                    covered = spans[take].page + spans[take].count;
            more -= page >= covered && is_held(container, page);
        }
        if (to > end) end = to;
    }
    return more;
}

/* ---- promises ---- */

/* promise_count_it counts a promise, or does not any more. */
static void promise_count_it(const struct promise *p, bool more)
{
    int64_t pages = (int64_t)p->pages;
    directory_limit_count(paths, p->container, LIMIT_PAGES, more ? pages : -pages);
    directory_limit_count(paths, p->container, LIMIT_NAMES, more ? p->names : -p->names);
}

static int promise_add(struct group *g, uint64_t container, uint64_t pages, int64_t names)
{
    size_t room = promise_room;
    int r = room_for((void **)&promised, promise_count, &room, sizeof(*promised));
    promise_room = (unsigned)room;
    if (r < 0) return r;
    promised[promise_count++] = (struct promise){g, container, pages, 0, names};
    promise_count_it(&promised[promise_count - 1], true);
    return 0;
}

static void promises_drop(unsigned from)
{
    while (promise_count > from) promise_count_it(&promised[--promise_count], false);
}

/* returns_count counts what is given back: it makes room for what the transaction takes. */
static void returns_count(int sign)
{
    for (size_t i = 0; i < span_count;) {
        uint64_t container = spans[i].object;
        int64_t more = container_takes(&i);
        if (more < 0) directory_limit_count(paths, container, LIMIT_PAGES, sign * more);
    }
}

static int pages_promise(struct group *g, uint64_t *full)
{
    int r = 0;
    returns_count(1);
    for (size_t i = 0; r == 0 && i < span_count;) {
        uint64_t container = spans[i].object;
        int64_t more = container_takes(&i);
        uint64_t pages = more > 0 ? (uint64_t)more : 0;
        if (pages && !g->voted)
            r = directory_limit_check(paths, container, LIMIT_PAGES, pages, full);
        if (r == 0) r = promise_add(g, container, pages, 0);
        directory_commit_mark(paths, container);
    }
    returns_count(-1);
    return r;
}

/* names_promise: one name more of a container, or fewer, in each: none is made that is there, nor
 * goes that is not (commit_ops). Those that go make room for the others. */
static int names_promise(struct group *g, const struct batch *b, enum store_op_type type,
                         uint64_t *full)
{
    int r = 0;
    for (unsigned i = 0, end; r == 0 && i < b->op_count; i = end) {
        uint64_t container = b->ops[i].object;
        int64_t names = 0;
        for (end = i; end < b->op_count && b->ops[end].object == container; end++)
            names += b->ops[end].type == type;
        if (names && type == STORE_OP_NAME_SET && !g->voted)
            r = directory_limit_check(paths, container, LIMIT_NAMES, (uint64_t)names, full);
        if (names && r == 0)
            r = promise_add(g, container, 0, type == STORE_OP_NAME_SET ? names : -names);
    }
    return r;
}

static int note_promise(struct group *g, const struct batch *b, uint64_t *full)
{
    uint64_t container = b->note.object;
    if (!b->note_made) return 0;
    int r = g->voted ? 0 : directory_limit_check(paths, container, LIMIT_NAMES, 1, full);
    return r == 0 ? promise_add(g, container, 0, 1) : r;
}

/* all_promise promises what the transaction takes. A vote's commit has no limit: the vote had. */
static int all_promise(struct group *g, const struct batch *b)
{
    uint64_t full = 0;
    int r = spans_read(g);
    if (r == 0) r = pages_promise(g, &full);
    if (r == 0) r = names_promise(g, b, STORE_OP_NAME_UNSET, &full);
    if (r == 0) r = names_promise(g, b, STORE_OP_NAME_SET, &full);
    if (r == 0) r = note_promise(g, b, &full);
    if (r == 0 && !g->voted)
        r = directory_commit_check(paths, disk_clock.microseconds(NULL), &full);
    return r;
}

bool quota_is(void) { return directory_limited(paths); }

int quota_txn_end(struct group *g, const struct batch *b, uint32_t *position)
{
    unsigned before = promise_count;
    if (!quota_is()) return store_txn_end(g->disk, position);
    int r = all_promise(g, b);
    if (r < 0)
        store_txn_cancel(g->disk);
    else
        r = store_txn_end(g->disk, position);
    directory_commit_end(paths, r == 0);
    if (r < 0) promises_drop(before);
    return r;
}

int quota_txn_try(struct group *g, const struct batch *b)
{
    unsigned before = promise_count;
    bool limited = quota_is();
    int r = limited ? all_promise(g, b) : 0;
    store_txn_cancel(g->disk);
    if (limited) directory_commit_end(paths, false);
    promises_drop(before);
    return r;
}

/* ---- groups ---- */

static uint64_t pages_held(uint64_t container)
{
    struct store_container c;
    int r = store_container_get(server.store, container, &c);
    return r == 0 ? c.pages_present + c.pages_claimed : 0;
}

static bool is_first(const struct promise *p)
{
    for (const struct promise *q = promised; q < p; q++)
        if (q->group == p->group && q->container == p->container) return false;
    return true;
}

void quota_before(struct group *g)
{
    for (unsigned i = 0; i < promise_count; i++)
        if (promised[i].group == g) promised[i].before = pages_held(promised[i].container);
}

static void promises_count(void)
{
    for (unsigned i = 0; i < promise_count; i++) promise_count_it(&promised[i], true);
    counted = directory_limits_counted(paths);
}

void quota_after(struct group *g, bool applied)
{
    unsigned left = 0;
    for (unsigned i = 0; i < promise_count; i++) {
        const struct promise *p = &promised[i];
        if (p->group != g) continue;
        int64_t more = is_first(p) ? (int64_t)(pages_held(p->container) - p->before) : 0;
        directory_limit_count(paths, p->container, LIMIT_PAGES, more - (int64_t)p->pages);
        if (!applied) directory_limit_count(paths, p->container, LIMIT_NAMES, -p->names);
    }
    for (unsigned i = 0; i < promise_count; i++)
        if (promised[i].group != g) promised[left++] = promised[i];
    promise_count = left;
    if (g->number > unpromised || !counted) return;
    directory_limits_count(paths);
    promises_count();
}

void quota_again(void)
{
    if (counted == directory_limits_counted(paths)) return;
    promises_count();
    unpromised = server.launched;
}
