/*
 * changes.c - what a committing transaction changed, as records of a group; by the committer.
 *
 * The kernel compares copies with their base and tells the runs that differ, or whole pages. What
 * becomes of them is the container's form: a record of each page as it was told, or packed; and of
 * one whose pages are in no log, only that the page has a new version.
 */
#include "group.h"

#include <stdlib.h>
#include <string.h>

#define DIFF_BYTES (256u << 10)
#define OPERATE_REST 7u                 /* pages that adaptive leaves alone after one of no gain */

_Static_assert(KD_CSN_ANY == STORE_BASE_NEWEST, "the log has the page of others, too (IT6)");

static uint8_t *diff_buffer;
static struct store_chain *into;        /* pages go there, not into a transaction */
static bool strict;                     /* the transaction changes a container that is durable */

/* `same`: segment and container of the page that was added last; id 0: the lock was dropped. */
static struct {
    uint64_t cookie, id, first;
    enum store_durability durability;
    bool plain;
} same;

enum store_durability changes_note(const struct group *g, uint64_t id)
{
    enum store_durability is = store_txn_durability(g->disk, id);
    strict |= is == STORE_DURABILITY_FULL;
    return is;
}

/* same_note notes that this segment is changed. 1: of no container; 0; -errno. Lock held. */
static int same_note(const struct group *g, uint64_t cookie)
{
    if (index_lock_page(cookie)) return 1; /* a lock page's bytes mean nothing */
    int r = cookie_page(cookie, 0, &same.id, &same.first);
    if (r < 0) same.id = 0;
    if (r < 0) return r;
    const struct container *c = container_by_id(same.id);
    same.cookie = cookie;
    same.durability = into ? store_txn_durability(g->disk, same.id) : changes_note(g, same.id);
    same.plain = !c || c->form[WIRE_FORM_ENCODER] == STORE_ENCODER_DIFF;
    return 0;
}

/* operate makes operations of what was done to the page added last, whose version before comes from
 * the kernel. What the kernel does not give stays a difference. 1: it has become operations. */
static int operate(struct group *g, int object, uint64_t object_page, uint64_t base)
{
    static uint8_t before[PAGE_BYTES];
    uint64_t csn;
    long r = kd_object_read(object, object_page, before, &csn);
    return r == 0 && csn == base ? store_txn_operate(g->disk, before) : 0;
}

/* reform_as gives the last record, of `bytes` that differ from `base`, its container's form, which
 * is not plainly that. The lock is dropped meanwhile: only this thread is inside the gate. */
static __attribute__((noinline)) int reform_as(struct group *g, struct container *c, uint64_t id,
                                               uint64_t page, uint64_t base, uint32_t bytes)
{
    uint32_t encoder = c->form[WIRE_FORM_ENCODER];
    bool adaptive = encoder == STORE_ENCODER_ADAPTIVE && bytes < PAGE_BYTES;
    bool may = encoder == STORE_ENCODER_OPERATIONS || (adaptive && !c->operate_rest);
    if (adaptive && c->operate_rest) c->operate_rest--;
    int object, r = 0;
    uint64_t object_page;
    if (encoder != STORE_ENCODER_COMPRESSED &&
        (!may || bytes >= PAGE_BYTES || container_object(id, page, &object, &object_page) < 0))
        return 0;
    c->busy++;
    server_unlock();
    r = may ? operate(g, object, object_page, base) : store_txn_pack(g->disk);
    server_lock();
    same.id = 0;
    if (--c->busy == 0) pthread_cond_broadcast(&server.changed);
    if (adaptive && r == 0) c->operate_rest = OPERATE_REST;
    return r < 0 ? r : 0;
}

static int reform(struct group *g, uint64_t id, uint64_t page, uint64_t base, uint32_t bytes)
{
    return same.plain ? 0 : reform_as(g, container_by_id(id), id, page, base, bytes);
}

/* add_page adds a page, whose runs begin at *at, and moves that. Lock held, a transaction open. */
static int add_page(struct group *g, const struct batch *b, const uint8_t **at, const uint8_t *end)
{
    const struct kd_run *first = (const void *)*at;
    const uint8_t *next = *at;
    uint32_t bytes = 0;
    for (bool last = false; !last;) {
        const struct kd_run *run = (const void *)next;
        if (next >= end || run->bytes > PAGE_BYTES) return -EPROTO;
        last = run->flags & KD_RUN_LAST;
        bytes += 4u + run->bytes;
        next += sizeof(*run) + ((run->bytes + 7u) & ~7u);
    }
    *at = next;
    int r = first->cookie == same.cookie && same.id ? 0 : same_note(g, first->cookie);
    if (r) return r < 0 ? r : 0;
    uint64_t id = same.id, page = first->page + same.first;
    if (b->freed_count && batch_frees(b, id, page)) return 0;
    if (into)
        return same.durability >= STORE_DURABILITY_VOLATILE ? -EOPNOTSUPP
               : store_spill_page(g->disk, into, id, page, first + 1);
    watch_changes(id, page, 1);
    if (same.durability >= STORE_DURABILITY_VOLATILE)
        return store_txn_written(g->disk, id, page);
    if (first->flags & KD_RUN_FULL)
        return store_txn_page(g->disk, id, page, first + 1) ?: reform(g, id, page, 0, PAGE_BYTES);

    void *space;
    r = store_txn_diff_space(g->disk, bytes, &space);
    if (r < 0) return r;
    uint8_t *to = space;
    for (const struct kd_run *run = first; (const uint8_t *)run < next;
         run = (const void *)((const uint8_t *)(run + 1) + ((run->bytes + 7u) & ~7u))) {
        memcpy(to, &run->offset, 2); /* little-endian, as this machine is */
        memcpy(to + 2, &run->bytes, 2);
        if (run->bytes == 8)
            memcpy(to + 4, run + 1, 8); /* one word, as mostly: no call */
        else
            memcpy(to + 4, run + 1, run->bytes);
        to += 4u + run->bytes;
    }
    return store_txn_diff_done(g->disk, id, page, first->base_csn, bytes) ?:
           reform(g, id, page, first->base_csn, bytes);
}

static int add_pages(struct group *g, const struct batch *b, uint64_t bytes)
{
    const uint8_t *at = diff_buffer, *end = diff_buffer + bytes;
    int r = 0;
    same.id = 0;
    while (r == 0 && at < end) r = add_page(g, b, &at, end);
    return r;
}

/* add_view adds what one view changed. The lock is dropped while the kernel compares pages: only
 * this thread is inside the gate. */
static int add_view(struct group *g, const struct kd_message *m, const struct batch *b,
                    struct kd_diff diff, uint64_t *pages)
{
    int r = 0;
    diff.token = m->token;
    while (r == 0 && diff.cursor != ~0ull) {
        diff.buffer = diff_buffer;
        diff.buffer_bytes = DIFF_BYTES;
        server_unlock();
        r = (int)kd_txn_diff(&diff);
        server_lock();
        if (r == -EIO) audit_hurry(); /* the kernel met a damaged page */
        if (r == -EAGAIN) return -ESTALE; /* another one was refused meanwhile: told anew (IT6) */
        if (r >= 0) r = add_pages(g, b, diff.buffer_bytes);
        *pages += diff.pages;
    }
    return r;
}

int changes_add(struct group *g, const struct kd_message *m, const struct batch *b,
                uint64_t full_below, uint64_t *pages)
{
    struct kd_diff diff = {.view = m->word[0], .full_below = full_below};
    int r = m->word[7] ? 0 : add_view(g, m, b, diff, pages);
    for (unsigned i = 0; i < KD_VIEW_MAX / 64; i++)
        for (uint64_t helpers = m->word[4 + i]; r == 0 && helpers; helpers &= helpers - 1) {
            diff.view = i * 64 + (unsigned)__builtin_ctzll(helpers);
            r = add_view(g, m, b, diff, pages);
        }
    return r;
}

int changes_spill(struct group *g, const struct kd_message *m, const struct batch *b,
                  struct store_chain *chain, uint64_t *pages)
{
    into = chain;
    int r = changes_add(g, m, b, ~0ull, pages);
    into = NULL;
    return r;
}

void changes_begin(const struct group *g, const struct batch *b)
{
    strict = false;
    for (unsigned i = 0; i < b->change_count; i++) changes_note(g, b->changes[i].container->id);
}

bool changes_strict(void)
{
    return strict;
}

int changes_init(void)
{
    diff_buffer = malloc(DIFF_BYTES);
    if (diff_buffer) memset(diff_buffer, 0, DIFF_BYTES); /* memory from now on: see device.c */
    return diff_buffer ? 0 : -ENOMEM;
}
