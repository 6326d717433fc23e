/*
 * spill.c - transactions larger than memory, or than a group: their pages go into the log before
 * the commit, as a chain of the disk library.
 *
 *     SPILL, or a COMMIT that fits no group    groups of SPILL records: written, not flushed
 *     UNSPILL                                  the page is read back from the log
 *     COMMIT                                   ends the chain in an ordinary group (commit.c)
 *     VIEW_GONE                                the transaction was aborted: the chain is forgotten
 *
 * One running transaction has a chain at a time, so each may take half of the log; the others that
 * want to spill wait, and the kernel knows for whom (KD_VIEW_WAIT), so a deadlock is found there. A
 * COMMIT that fits no group does not wait: it has a chain of its own, from its receipt to its
 * answer. What it writes has room, for its copies hold credits.
 *
 * A page goes home instead, and into no log, if it lies in an extent that nobody has a page of and
 * that is leased as a whole to the transaction's process: then no other one can be given a page
 * there before this one commits. So a load of new pages is limited by the disk, not by the log. A
 * COMMIT with STORE_BULK sends all of its copies this way.
 *
 * All of this is done by the
 * committer thread, and the chains are its own; the disk library is under the lock. Only the disk
 * reads of UNSPILL are those of a thread for them alone: no commit waits for them, and no page
 * fault, which may wait for frames that only this transaction will give back.
 */
#include "copy.h"
#include "group.h"
#include "options.h"

#include <assert.h>
#include <string.h>

#define TOLD_ONE    (PAGE_BYTES + sizeof(struct kd_run))
#define TOLD_BYTES  (64u * (PAGE_BYTES + 2 * sizeof(struct kd_run)))
#define TOLD_PAGES  (TOLD_BYTES / TOLD_ONE)
#define ROOM_TRIES  3

struct chain { struct store_chain *chain; uint64_t view, process; };    /* chain NULL: nobody's */
static struct chain holder, late;                               /* of a COMMIT */
static struct { uint64_t token, process, wanted, order; } waiting[KD_VIEW_MAX]; /* order 0: no */
static uint64_t orders;
static uint64_t locks[KD_VIEW_MAX];     /* copies that spilled and are in no log: locks of keys */
static uint8_t told[TOLD_BYTES];
static struct { uint64_t token, cookie, page; bool wanted; } unspills[KD_VIEW_MAX];
static pthread_cond_t unspill_wanted = PTHREAD_COND_INITIALIZER;

static struct chain *chain_of(uint64_t view)
{
    return holder.chain && holder.view == view ? &holder
           : late.chain && late.view == view   ? &late
                                               : NULL;
}

struct store_chain *spill_chain(uint64_t view)
{
    const struct chain *c = chain_of(view);
    return c ? c->chain : NULL;
}

/* ---- pages home ---- */

/* home_place: where a page's home will be, if it may go there; -ENOENT: to the log. Lock held. */
static int home_place(struct store_chain *chain, uint64_t process, uint64_t id, uint64_t page,
                      uint64_t *offset)
{
    const struct container *c = container_by_id(id);
    uint64_t n = server.extent_pages;
    if (copy_is()) return -ENOENT;      /* the other copy has what is in the log, no more */
    if (!c || !space_leased(c, process, page / n * n, n)) return -ENOENT;
    return store_bulk_page(chain, id, page, offset);
}

/* `leaving` is of what the kernel told last: places in `told`, which all leave for the front. */
static struct home { uint64_t id, page, offset; const uint8_t *bytes; } leaving[TOLD_PAGES];

/* leaving_write writes copies home, neighbours on the disk at once. Lock dropped for that. */
static int leaving_write(struct store_chain *chain, unsigned count)
{
    uint32_t crcs[TOLD_PAGES];
    int r = 0;
    server_unlock();
    for (unsigned i = 0; i < count; i++) {
        crcs[i] = crc32c(0, leaving[i].bytes, PAGE_BYTES);
        memmove(told + i * PAGE_BYTES, leaving[i].bytes, PAGE_BYTES);
    }
    for (unsigned i = 0, n; i < count && r == 0; i += n) {
        for (n = 1; i + n < count &&
                    leaving[i + n].offset == leaving[i].offset + n * PAGE_BYTES;
             n++)
            ;
        r = server.disk.write(server.disk.context, leaving[i].offset, told + i * PAGE_BYTES,
                              n * PAGE_BYTES);
    }
    if (r == 0 && count) step(STEP_SS5);
    server_lock();
    for (unsigned i = 0; r == 0 && i < count; i++)
        store_bulk_written(chain, leaving[i].id, leaving[i].page, crcs[i]);
    server.home_writes += r == 0 ? count : 0;
    return r;
}

/* ---- pages into the log ---- */

/* add_one puts a copy that the kernel told home, or into the group, which is *logged then. */
static int add_one(struct group *g, const struct chain *c, const struct kd_run *run,
                   unsigned *home_count, bool *logged)
{
    struct home *home = &leaving[*home_count];
    bool lock = index_lock_page(run->cookie); /* a lock page's bytes mean nothing */
    int r = lock ? 0 : cookie_page(run->cookie, run->page, &home->id, &home->page);
    locks[c->view] += lock;
    if (r < 0 || lock) return r;
    home->bytes = (const uint8_t *)(run + 1);
    r = home_place(c->chain, c->process, home->id, home->page, &home->offset);
    if (r == 0) ++*home_count;
    if (r != -ENOENT) return r;
    *logged = true;
    return store_spill_page(g->disk, c->chain, home->id, home->page, run + 1);
}

/* add_told has what the kernel told leave; *pages: more by those that did before an error. */
static int add_told(struct group *g, const struct chain *c, uint64_t bytes, uint64_t *pages,
                    bool *logged)
{
    uint64_t before = *pages;
    unsigned home_count = 0;
    int r = 0;
    for (const uint8_t *at = told; r == 0 && at < told + bytes; at += TOLD_ONE) {
        r = add_one(g, c, (const void *)at, &home_count, logged);
        *pages += r == 0;
    }
    int written = leaving_write(c->chain, home_count);
    if (written == 0) return r;
    *pages = before;
    return written;
}

/* fill_told has up to `wanted` copies leave, into the group or home. Inside the gate. */
static int fill_told(struct group *g, const struct chain *c, uint64_t token, uint64_t wanted,
                     uint64_t *pages, bool *logged)
{
    struct kd_diff diff = {.view = c->view, .token = token, .flags = KD_DIFF_SPILL};
    int r = 0;
    while (r == 0 && *pages < wanted && *pages < SPILL_GROUP_PAGES && diff.cursor != ~0ull) {
        uint64_t left = (wanted < SPILL_GROUP_PAGES ? wanted : SPILL_GROUP_PAGES) - *pages;
        diff.buffer = told;
        diff.buffer_bytes = left * (PAGE_BYTES + sizeof(struct kd_run)) + sizeof(struct kd_run);
        if (diff.buffer_bytes > TOLD_BYTES) diff.buffer_bytes = TOLD_BYTES;
        server_unlock();
        r = (int)kd_txn_diff(&diff);
        server_lock();
        if (r == -EIO) audit_hurry(); /* the kernel met a damaged page */
        if (r == 0 && diff.pages == 0) break;
        if (r == 0) r = add_told(g, c, diff.buffer_bytes, pages, logged);
    }
    return r;
}

/* spill_group makes one group of SPILL records, or none if all go home. *pages: how many copies
 * have left, whatever the result. */
static int spill_group(const struct chain *c, uint64_t token, uint64_t wanted, uint64_t *pages)
{
    struct group *g;
    bool logged = false;
    *pages = 0;
    gate_enter(false);
    int r = group_begin(&g);
    if (r == 0) {
        g->spills = true;
        r = fill_told(g, c, token, wanted, pages, &logged);
        int launched = *pages ? 0 : -ENODATA;
        logged = logged && *pages;
        if (logged) step(STEP_SS1);
        if (logged)
            launched = group_launch(g);
        else
            group_cancel(g);
        if (launched < 0) *pages = 0;
        if (r == 0 && *pages == 0) r = launched;
    }
    gate_leave();
    int landed = logged && *pages ? group_land(g) : 0;
    if (landed < 0) *pages = 0;
    if (*pages) step(STEP_SS2);
    long spilled = kd_txn_spilled(c->view, token, *pages, 0); /* also with 0: tell those again */
    if (spilled > 0) {
        step(STEP_SS3);
        uint64_t gone = (uint64_t)spilled;
        server.credits -= gone < server.credits ? gone : server.credits;
        credits_update(true);
    }
    return landed < 0 ? landed : spilled < 0 ? (int)spilled : r;
}

/* spill, lock held, brings up to `wanted` copies of a view into the log, or home; how many, or why
 * none. */
static int spill(struct chain *c, uint64_t view, uint64_t token, uint64_t process, uint64_t wanted)
{
    int r = 0, tries = 0;
    uint64_t done = 0, pages;
    if (!c->chain) {
        r = store_chain_begin(server.store, process, &c->chain);
        c->view = view;
        c->process = process;
    }
    while (r == 0 && done < wanted) {
        r = spill_group(c, token, wanted - done, &pages);
        done += pages;
        if (r == -ENOBUFS && pages) r = 0;
        if (checkpoint_helps(r) && tries++ < ROOM_TRIES) r = checkpoint_wait();
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
    int r = server.fenced ? -EIO : spill(&holder, view, token, process, wanted ? wanted : 1);
    if (r > 0)
        kd_txn_spilled(view, token, 0, 1);
    else if (r != -ESRCH)
        kd_txn_refuse(view, token, r < 0 ? -r : EIO);
    if (r < 0 && r != -ESRCH && r != -E2BIG)
        say("pages of a transaction cannot go into the log: %s", strerror(-r));
    if (holder.chain && store_chain_pages(holder.chain) == 0 && !locks[holder.view])
        spill_end(holder.view);
}

/* wait_first returns the view that has waited longest. */
static int wait_first(void)
{
    int first = -1;
    for (int i = 0; i < KD_VIEW_MAX; i++)
        if (waiting[i].order && (first < 0 || waiting[i].order < waiting[first].order)) first = i;
    return first;
}

/* wait_next gives the next its chain; the others wait for that one. */
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
    struct chain *c = chain_of(view);
    if (!c) return;
    store_chain_end(c->chain);
    c->chain = NULL;
    locks[view] = 0;
}

/* ---- pages back from the log ---- */

static void unspill_post(const struct kd_message *m)
{
    uint64_t view = m->word[0];
    server_lock(); /* nobody waits any more for an older one of the same view */
    unspills[view].token = m->token;
    unspills[view].cookie = m->word[1];
    unspills[view].page = m->word[2];
    unspills[view].wanted = true;
    pthread_cond_signal(&unspill_wanted);
    server_unlock();
}

/* unspill reads a page back, lock held, dropped for the disk. The transaction may end meanwhile:
 * then the token is worth nothing. */
static void unspill(uint64_t view, uint64_t token, uint64_t cookie, uint64_t object_page)
{
    static uint8_t bytes[PAGE_BYTES];
    uint64_t id, page, offset;
    uint32_t crc;
    if (index_lock_page(cookie)) {
        memset(bytes, 0, sizeof(bytes));
        int e = (int)kd_txn_unspill(view, token, bytes);
        if (e == 0 && locks[view]) locks[view]--;
        if (e < 0 && e != -ESRCH) kd_txn_refuse(view, token, -e);
        return;
    }
    int r = spill_chain(view) ? cookie_page(cookie, object_page, &id, &page) : -EIO;
    if (r == 0) r = store_spill_find(server.store, spill_chain(view), id, page, &offset, &crc);
    if (r == 0) {
        server_unlock();
        r = log_page_read(offset, crc, bytes);
        if (r == 0) step(STEP_SS4);
        server_lock();
    }
    if (r == 0) r = (int)kd_txn_unspill(view, token, bytes);
    if (r == 0)
        store_spill_drop(spill_chain(view), id, page); /* the same transaction: its owner slept */
    else if (r != -ESRCH)
        kd_txn_refuse(view, token, -r);
}

static int unspill_next(void)
{
    for (int i = 0; i < KD_VIEW_MAX; i++)
        if (unspills[i].wanted) return i;
    return -1;
}

void *unspill_main(void *unused)
{
    (void)unused;
    server_lock();
    for (;;) {
        int i = unspill_next();
        if (i < 0) {
            pthread_cond_wait(&unspill_wanted, &server.lock);
            continue;
        }
        unspills[i].wanted = false;
        unspill((uint64_t)i, unspills[i].token, unspills[i].cookie, unspills[i].page);
    }
}

/* ---- messages ---- */

bool spill_needs_gate(const struct kd_message *m)
{
    return m->kind == (uint32_t)KD_MSG_VIEW_GONE || m->kind == (uint32_t)KD_MSG_SPILL;
}

/* views_gone: the transactions of these views have ended, by an abort or otherwise. */
static void views_gone(const uint64_t mask[2])
{
    for (uint64_t view = 0; view < KD_VIEW_MAX; view++) {
        if (!(mask[view / 64] >> view % 64 & 1)) continue;
        waiting[view].order = 0;
        unspills[view].wanted = false;
        spill_end(view);
    }
}

bool spill_message(const struct kd_message *m)
{
    bool gone = m->kind == (uint32_t)KD_MSG_VIEW_GONE;
    if (m->kind == (uint32_t)KD_MSG_UNSPILL) {
        unspill_post(m);
        return true;
    }
    if (!spill_needs_gate(m)) return false;
    server_lock();
    if (gone)
        views_gone(m->word);
    else if (holder.chain && holder.view != m->word[0])
        wait_add(m);
    else
        answer_spill(m->word[0], m->token, m->process, m->word[2]);
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
    struct chain *c = holder.chain && holder.view != m->word[0] ? &late : &holder;
    if (late.chain && late.view != m->word[0]) spill_end(late.view); /* that one was refused */
    int r = spill(c, m->word[0], m->token, m->process, m->word[1]);
    if (r < 0) return r;
    m->word[1] -= (uint64_t)r;
    m->word[2] += (uint64_t)r;
    return 0;
}

/* leaving_flush, before the group that names them is written. Lock held, dropped for the disk. */
static int leaving_flush(struct store_chain *chain)
{
    server_unlock();
    int r = store_bulk_flush(chain);
    server_lock();
    if (r < 0) server_fence("pages at home were not flushed", r);
    return r;
}

int spill_commit(struct store_group *disk, const struct kd_message *m, const struct batch *b)
{
    struct store_chain *chain = spill_chain(m->word[0]);
    uint64_t pages = chain ? store_chain_pages(chain) : 0;
    if (pages + (chain ? locks[m->word[0]] : 0) < m->word[2]) {
        say("a transaction spilled %llu pages, and the log has %llu of them: it is refused",
            (unsigned long long)m->word[2], (unsigned long long)pages);
        return -EIO;
    }
    if (pages == 0) return 0;
    int r = leaving_flush(chain);
    if (r < 0) return r;
    for (unsigned i = 0; i < b->freed_count; i++)
        for (uint64_t k = 0; k < b->freed[i].count; k++)
            store_spill_drop(chain, b->freed[i].container, b->freed[i].first + k);
    r = store_txn_chain(disk, chain);
    return r == -ESTALE ? -EDEADLK : r; /* somebody else was given a page there: run it again */
}
