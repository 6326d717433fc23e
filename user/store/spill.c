/*
 * spill.c - transactions larger than memory, or than a group: their pages go into the log before the
 * commit, as a chain of the disk library.
 *
 *     SPILL, or a COMMIT that fits no group    groups of SPILL records: written, not flushed
 *     UNSPILL                                  the page is read back from the log
 *     COMMIT                                   ends the chain in an ordinary group (commit.c)
 *     VIEW_GONE                                the transaction was aborted: the chain is forgotten
 *
 * One transaction has a chain at a time, so each may take half of the log; the others that want to
 * spill wait, and the kernel knows for whom (KD_VIEW_WAIT), so a deadlock is found there. All of this
 * is done by the committer thread, and the chain is its own; the disk library is under the lock.
 */
#include "group.h"

#include <assert.h>
#include <string.h>

#define TOLD_BYTES  (64u * (PAGE_BYTES + 2 * sizeof(struct kd_run)))
#define ROOM_TRIES  3

static struct { struct store_chain *chain; uint64_t view; } holder;     /* chain NULL: nobody */
static struct { uint64_t token, process, wanted, order; } waiting[KD_VIEW_MAX]; /* order 0: no */
static uint64_t orders;
static uint8_t told[TOLD_BYTES];

struct store_chain *spill_chain(uint64_t view)
{
    return holder.chain && holder.view == view ? holder.chain : NULL;
}

/* ---- pages into the log ---- */

/* Puts what the kernel told into the group; how many there were before the error, if any. */
static int add_told(struct group *g, uint64_t bytes, uint64_t *pages)
{
    const uint8_t *at = told, *end = told + bytes;
    int r = 0;
    while (r == 0 && at < end) {
        const struct kd_run *run = (const void *)at;
        uint64_t id, page;
        r = cookie_page(run->cookie, run->page, &id, &page);
        if (r == 0) r = store_spill_page(g->disk, holder.chain, id, page, run + 1);
        if (r == 0) ++*pages;
        at += sizeof(*run) + PAGE_BYTES;
    }
    return r;
}

/* Inside the gate. Fills a group with up to `wanted` copies. */
static int fill_told(struct group *g, uint64_t view, uint64_t token, uint64_t wanted, uint64_t *pages)
{
    struct kd_diff diff = {.view = view, .token = token, .flags = KD_DIFF_SPILL};
    int r = 0;
    while (r == 0 && *pages < wanted && *pages < SPILL_GROUP_PAGES && diff.cursor != ~0ull) {
        uint64_t left = (wanted < SPILL_GROUP_PAGES ? wanted : SPILL_GROUP_PAGES) - *pages;
        diff.buffer = told;
        diff.buffer_bytes = left * (PAGE_BYTES + sizeof(struct kd_run)) + sizeof(struct kd_run);
        if (diff.buffer_bytes > TOLD_BYTES) diff.buffer_bytes = TOLD_BYTES;
        server_unlock();
        r = (int)kd_txn_diff(&diff);
        server_lock();
        if (r == 0 && diff.pages == 0) break;
        if (r == 0) r = add_told(g, diff.buffer_bytes, pages);
    }
    return r;
}

/* One group of SPILL records. *pages: how many copies are in the log, whatever the result. */
static int spill_group(uint64_t view, uint64_t token, uint64_t wanted, uint64_t *pages)
{
    struct group *g;
    *pages = 0;
    gate_enter(false);
    int r = group_begin(&g);
    if (r == 0) {
        g->spills = true;
        r = fill_told(g, view, token, wanted, pages);
        int launched = -ENODATA;
        if (*pages)
            launched = group_launch(g);
        else
            group_cancel(g);
        if (launched < 0) *pages = 0;
        if (r == 0 && *pages == 0) r = launched;
    }
    gate_leave();
    int landed = *pages ? group_land(g) : 0;
    if (landed < 0) *pages = 0;
    long spilled = kd_txn_spilled(view, token, *pages, 0); /* also with 0: tell those again */
    if (spilled > 0) {
        uint64_t gone = (uint64_t)spilled;
        server.credits -= gone < server.credits ? gone : server.credits;
        credits_update(true);
    }
    return landed < 0 ? landed : spilled < 0 ? (int)spilled : r;
}

/* Lock held. Brings up to `wanted` copies of a view into the log; how many, or why none. */
static int spill(uint64_t view, uint64_t token, uint64_t process, uint64_t wanted)
{
    int r = 0, tries = 0;
    uint64_t done = 0, pages;
    if (!holder.chain) {
        r = store_chain_begin(server.store, process, &holder.chain);
        holder.view = view;
    }
    while (r == 0 && done < wanted) {
        r = spill_group(view, token, wanted - done, &pages);
        done += pages;
        if (r == -ENOBUFS && pages) r = 0;
        if (r == -EAGAIN && tries++ < ROOM_TRIES) r = checkpoint_wait();
    }
    if (done) return (int)done;
    return r == -ENOBUFS || r == -EAGAIN ? -E2BIG : r == -ENODATA ? -EIO : r;
}

/* ---- who may ---- */

static void wait_edges(uint64_t view)
{
    uint64_t mask[2] = {0, 0};
    mask[holder.view / 64] = 1ull << holder.view % 64;
    kd_view_wait(view, mask);
}

static void wait_add(const struct kd_message *m)
{
    uint64_t view = m->word[0];
    waiting[view].token = m->token;
    waiting[view].process = m->process;
    waiting[view].wanted = m->word[2];
    waiting[view].order = ++orders;
    wait_edges(view);
}

static void answer_spill(uint64_t view, uint64_t token, uint64_t process, uint64_t wanted)
{
    int r = server.fenced ? -EIO : spill(view, token, process, wanted ? wanted : 1);
    if (r > 0)
        kd_txn_spilled(view, token, 0, 1);
    else if (r != -ESRCH)
        kd_txn_refuse(view, token, r < 0 ? -r : EIO);
    if (r < 0 && r != -ESRCH && r != -E2BIG)
        say("pages of a transaction cannot go into the log: error %d", -r);
    if (holder.chain && store_chain_pages(holder.chain) == 0) spill_end(holder.view);
}

/* The one that has waited longest. */
static int wait_first(void)
{
    int first = -1;
    for (int i = 0; i < KD_VIEW_MAX; i++)
        if (waiting[i].order && (first < 0 || waiting[i].order < waiting[first].order)) first = i;
    return first;
}

/* The next gets its chain; the others wait for that one. */
static void wait_next(void)
{
    int i;
    while (!holder.chain && (i = wait_first()) >= 0) {
        waiting[i].order = 0;
        answer_spill((uint64_t)i, waiting[i].token, waiting[i].process, waiting[i].wanted);
    }
    for (i = 0; holder.chain && i < KD_VIEW_MAX; i++)
        if (waiting[i].order) wait_edges((uint64_t)i);
}

void spill_end(uint64_t view)
{
    if (!spill_chain(view)) return;
    store_chain_end(holder.chain);
    holder.chain = NULL;
}

/* ---- messages ---- */

/* Where the page is in the log, and its bytes into `told`. Lock held, dropped for the disk. */
static int read_back(const struct kd_message *m, uint64_t *id, uint64_t *page)
{
    uint64_t offset;
    uint32_t crc;
    if (!spill_chain(m->word[0])) return -EIO;
    int r = cookie_page(m->word[1], m->word[2], id, page);
    if (r == 0) r = store_spill_find(server.store, holder.chain, *id, *page, &offset, &crc);
    if (r < 0) return r;
    server_unlock();
    r = log_page_read(offset, crc, told);
    server_lock();
    return r;
}

static void unspill(const struct kd_message *m)
{
    uint64_t id, page;
    int r = read_back(m, &id, &page);
    if (r == 0) r = (int)kd_txn_unspill(m->word[0], m->token, told);
    if (r == 0)
        store_spill_drop(holder.chain, id, page);
    else if (r != -ESRCH)
        kd_txn_refuse(m->word[0], m->token, -r);
}

bool spill_concerns(const struct kd_message *m)
{
    return m->kind == (uint32_t)KD_MSG_VIEW_GONE || m->kind == (uint32_t)KD_MSG_SPILL
           || m->kind == (uint32_t)KD_MSG_UNSPILL;
}

bool spill_message(const struct kd_message *m)
{
    bool gone = m->kind == (uint32_t)KD_MSG_VIEW_GONE;
    if (!spill_concerns(m)) return false;
    server_lock();
    if (gone) {
        waiting[m->word[0]].order = 0;
        spill_end(m->word[0]);
    } else if (m->kind == (uint32_t)KD_MSG_UNSPILL) {
        unspill(m);
    } else if (holder.chain && holder.view != m->word[0]) {
        wait_add(m);
    } else {
        answer_spill(m->word[0], m->token, m->process, m->word[2]);
    }
    wait_next();
    server_unlock();
    return true;
}

void spill_committed(uint64_t view)
{
    spill_end(view);
    wait_next();
}

int spill_for_commit(struct kd_message *m)
{
    if (holder.chain && holder.view != m->word[0]) return -EDEADLK; /* it is run again */
    int r = spill(m->word[0], m->token, m->process, m->word[1]);
    if (r < 0) return r;
    m->word[1] -= (uint64_t)r;
    m->word[2] += (uint64_t)r;
    return 0;
}

int spill_commit(struct store_group *disk, const struct kd_message *m, const struct batch *b)
{
    struct store_chain *chain = spill_chain(m->word[0]);
    if (!chain) return m->word[2] ? -EIO : 0;
    for (unsigned i = 0; i < b->freed_count; i++)
        for (uint64_t k = 0; k < b->freed[i].count; k++)
            store_spill_drop(chain, b->freed[i].container, b->freed[i].first + k);
    return store_txn_chain(disk, chain);
}
