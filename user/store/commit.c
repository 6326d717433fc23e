/*
 * commit.c - the committer: turns what committing views changed into log groups, and publishes.
 *
 *     receive COMMIT ... poll for more       a group
 *     group_add         pages, then the operations of the batch; a view that fails is refused alone
 *     group_launch      seal, one write
 *     group_land        one flush: THE POINT OF COMMIT; apply, publish all views at once, answer
 *
 * A view that does not fit into a group any more waits for the next (`pending`); one for which the
 * log has no room waits for a checkpoint. After the fence every commit is refused with EIO: what
 * became of the last group is unknown until the next start has recovered.
 */
#include "copy.h"
#include "group.h"
#include "options.h"

#include <stdlib.h>
#include <string.h>

#define IDLE_MS        100              /* then the last group is sealed by an empty one */
#define COMPRESS_LEAST (1u << 20)       /* of less log a start makes no more of its newest copies */
#define SPACE_TRIES    3
#define LAZY_TIMES     10               /* a lazy container's commits wait so many lazy_ms */
#define FULL_ALWAYS    (~0ull)
#define NOTHING_TO_LOG 1                /* no error and no transaction either */

static uint8_t *batch_buffer;
static struct kd_message pending;       /* a COMMIT that is not in a group yet */
static bool has_pending;
static struct kd_message held;          /* one for spill.c that came while a group was filled */
static bool has_held, filling;
static bool idle_due;                   /* nothing seals the last group yet */
static bool quiet;                      /* no other commit is being made or waits */
static unsigned alone;                  /* so many groups have one commit each (group_failed) */

/* ---- one view ---- */

/* add_layout wants the container for one alone: others have pointers to objects of the old layout.
 * One change for each group (-ENOBUFS: in the next one). */
static int add_layout(struct group *g, uint64_t process, uint64_t container)
{
    if (g->layout) return -ENOBUFS;
    int r = container_alone(container, process);
    if (r == 0) g->layout = container;
    return r;
}

int commit_ops(struct group *g, uint64_t process, struct batch *b)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && i < b->op_count; i++) {
        struct store_op *op = &b->ops[i];
        changes_note(g, op->object);
        bool set = op->type == STORE_OP_NAME_SET, unset = op->type == STORE_OP_NAME_UNSET;
        if (set || unset) {
            bool exists = group_name_exists(g, op);
            if (votes_name(op)) return -EDEADLK; /* run again, when that is decided */
            if (set == exists) return set ? -EEXIST : -ENOENT;
            r = group_name_add(g, op);
        }
        if (op->type == STORE_OP_LAYOUT) r = add_layout(g, process, op->object);
        if (r == 0) r = store_txn_op(g->disk, op);
    }
    return r;
}

/* add_note adds a note: for the first time it is a name more, if names are limited; whoever comes
 * later in the group sees that. */
static int add_note(struct group *g, struct batch *b)
{
    if (!b->note.name) return 0;
    b->note_made = quota_is() && !group_name_exists(g, &b->note);
    int r = b->note_made ? group_name_add(g, &b->note) : 0;
    return r == 0 ? store_txn_op(g->disk, &b->note) : r;
}

/* add_transaction makes one of a view's differences and batch; 0, or it left no trace. */
static int add_transaction(struct group *g, const struct kd_message *m, struct batch *b,
                           uint64_t full_below, uint64_t *pages, uint32_t *position)
{
    int r = group_txn_begin(g, m->process);
    if (r < 0) return r;
    *pages = 0;
    changes_begin(g, b);
    if (b->decision) r = votes_decision(g, m, b);
    if (r == 0) r = spill_commit(g->disk, m, b);
    if (r == 0 && m->word[1] > 0) r = changes_add(g, m, b, full_below, pages);
    if (r == 0) r = commit_ops(g, m->process, b);
    if (r == 0) r = add_note(g, b);
    if (r == 0) r = group_freed_add(g, b->freed, b->freed_count);
    for (unsigned i = 0; r == 0 && i < b->freed_count; i++)
        watch_changes(b->freed[i].container, b->freed[i].first, b->freed[i].count);
    if (r == 0 && spill_chain(m->word[0])) watch_all_change();
    bool empty = *pages == 0 && b->op_count + b->change_count == 0 && !b->decision &&
                 !b->note.name && !spill_chain(m->word[0]);
    if (r == 0 && empty) r = NOTHING_TO_LOG;
    unsigned changes = g->changes;
    if (r == 0 && b->change_count) r = index_change(g, b->changes, b->change_count);
    if (r == 0) {
        r = quota_txn_end(g, b, position); /* from here on it cannot be taken back */
        if (r < 0 && b->change_count && index_take_back(g, changes) < 0) r = -ECANCELED;
        return r;
    }
    store_txn_cancel(g->disk);
    return r;
}

/* full_more, after -ESTALE: pages of a chunk with a redo point of its own (clean.c) come whole, and
 * then all: a page's home was freed under an old version. */
static uint64_t full_more(uint64_t below)
{
    uint64_t newest = store_full_newest(server.store);
    return below < newest ? newest : FULL_ALWAYS;
}

/* add_indexes: our own transaction, with all changes of indexes that the group's others want, ends
 * the group. */
static int add_indexes(struct group *g)
{
    const struct batch nothing = {0};
    struct kd_message m;
    uint64_t pages;
    uint32_t *position = &g->position[g->count];
    int r = index_commit(&m);
    if (r < 0) return r;
    m.process = 0;
    for (uint64_t below = store_full_below(server.store);; below = full_more(below)) {
        r = add_transaction(g, &m, (struct batch *)&nothing, below, &pages, position);
        if (r != -ESTALE || below == FULL_ALWAYS) break;
    }
    if (r == 0)
        g->publish[g->count++] = (struct kd_publish){.view = m.word[0], .token = m.token};
    else
        kd_txn_refuse(m.word[0], m.token, r < 0 ? -r : EIO);
    return r;
}

/* rooms_note notes what a batch tells of pages; a hint may as well come before the commit. */
static void rooms_note(const struct batch *b)
{
    for (unsigned i = 0; i < b->room_count; i++) {
        struct container *c = container_by_id(b->rooms[i].container);
        if (c) space_room(c, b->rooms[i].page, b->rooms[i].bytes);
    }
}

/* lazy_us: so long the flush of this commit may wait; 0: it is not lazy. */
static uint64_t lazy_us(const struct kd_message *m)
{
    if (m->word[3] == STORE_BULK) return 0;
    uint64_t ms = m->word[3] == STORE_LAZY ? options.lazy_ms : m->word[3];
    return options.lazy_ms ? ms * 1000 : 0;
}

/* publish_unlogged publishes a view that changed nothing: it needs no log; what it read may be
 * lazy. Lock held, dropped for a flush. */
static int publish_unlogged(const struct kd_message *m)
{
    int r = lazy_us(m) ? 0 : group_flush();
    if (r < 0) return r;
    struct kd_publish p = { .view = m->word[0],
                            .token = m->token,
                            .csn = server.last_csn ? server.last_csn : 1 };
    return (int)kd_txn_publish(&p, 1, pager_settled());
}

/* group_add adds a view: 0, -ENOBUFS or -EAGAIN (it stays pending), or why it is refused. */
static int group_add(struct group *g, const struct kd_message *m)
{
    struct batch b;
    uint64_t pages;
    unsigned names = g->name_count, freed = g->freed_count;
    uint64_t layout = g->layout;
    uint64_t bytes = m->word[1] * CREDIT_BYTES + 2 * m->data_bytes;
    int r = batch_parse(&b, m->buffer);
    if (r < 0) return r;
    if (b.vote) r = -EINVAL; /* a vote is the first that is said: see votes_wanted() */
    if (r == 0 && g->changes + b.change_count) r = index_room(g, bytes);
    if (r < 0) {
        batch_release(&b);
        return r;
    }
    for (uint64_t below = store_full_below(server.store);; below = full_more(below)) {
        r = add_transaction(g, m, &b, below, &pages, &g->position[g->count]);
        if (r >= 0) break;
        g->name_count = names;
        g->freed_count = freed;
        g->layout = layout;
        if (r != -ESTALE || below == FULL_ALWAYS) break;
    }
    if (r == 0) {
        g->ends_chain = spill_chain(m->word[0]) != NULL;
        g->chain_view = m->word[0];
        g->bytes += bytes;
        bool flushed = g->ends_chain || b.decision;
        uint64_t us = flushed ? 0 : lazy_us(m);
        if (!changes_strict() && !us && !flushed) us = LAZY_TIMES * options.lazy_ms * 1000;
        if (g->count == 0 || us < g->lazy_us) g->lazy_us = us;
        g->publish[g->count++] = (struct kd_publish){.view = m->word[0], .token = m->token};
        g->copies += pages;
        step(STEP_CM4);
    }
    if (r >= 0) rooms_note(&b);
    if (r == NOTHING_TO_LOG) r = publish_unlogged(m);
    batch_release(&b);
    return r;
}

/* ---- a transaction of the manager's own ---- */

/* own_launch launches a group of our own, inside the gate. 0: *out is in the air. */
static int own_launch(struct store_op *ops, unsigned count, struct group **out)
{
    uint32_t position;
    uint64_t object = 0;
    int r = group_begin(out);
    if (r < 0) return r;
    struct store_group *disk = (*out)->disk;
    r = group_txn_begin(*out, 0);
    for (unsigned i = 0; r == 0 && i < count; i++) {
        struct store_op op = ops[i];
        if (!op.object) op.object = object;
        r = store_txn_op(disk, &op);
        object = op.object;
    }
    if (r == 0)
        r = store_txn_end(disk, &position);
    else
        store_txn_cancel(disk);
    if (r == 0) return group_launch(*out);
    group_cancel(*out);
    return r;
}

int commit_own(struct store_op *ops, unsigned count)
{
    struct group *g;
    int r;
    server_lock();
    for (int i = 0;; i++) {
        gate_enter(false);
        r = own_launch(ops, count, &g);
        gate_leave();
        if (r == 0) r = group_land(g);
        if (r < 0 && server_writable() < 0) r = server_writable();
        if (!checkpoint_helps(r) || i == SPACE_TRIES) break;
        int waited = checkpoint_wait();
        if (waited == -ENOMEM) r = -ENOMEM;
        if (server_writable() < 0) r = server_writable(); /* the group's flush may have failed */
        if (waited < 0) break;
    }
    server_unlock();
    if (r == 0) kd_notify(server.commit_port, NOTICE_OWN); /* to seal this group, too */
    return r == -EAGAIN ? -ENOSPC : r;
}

/* ---- the thread ---- */

/* log_compress is for when nobody commits. If the log since the last checkpoint is four times what
 * its pages take (a page in it once has two blocks), one copy of each, the newest, goes home now,
 * by an early checkpoint: it writes a quarter of what the commits have, at most. Lock held. */
static void log_compress(void)
{
    struct store_stats now;
    store_stats(server.store, &now);
    uint64_t log = now.end_lsn - now.redo_lsn;
    if (!server.checkpoints.due_us || log < COMPRESS_LEAST ||
        log < 4 * now.pages_dirty * PAGE_BYTES)
        return;
    server.checkpoints.due_us = disk_clock.microseconds(NULL);
    pthread_cond_signal(&server.work);
}

/* idle_group flushes lazy groups when that is due; else an empty group follows the last one: should
 * that rot, it is not taken for a torn tail. While a group is in the air nobody is idle, and that
 * one may be lazy. */
static void idle_group(void)
{
    struct group *g;
    server_lock();
    if (server.lazy_due_us || group_flying()) {
        if (group_flush_due()) group_flush();
        server_unlock();
        return;
    }
    idle_due = false;
    gate_enter(false);
    int r = group_begin(&g);
    if (r == 0) r = group_launch(g);
    gate_leave();
    if (r == 0) group_land(g);
    log_compress();
    server_unlock();
}

/* next_commit gets the next COMMIT into `pending`, and deals with notices. 0, or -ETIMEDOUT,
 * -EAGAIN; -EINTR: something else came; -EBUSY: the group is to be launched first. */
static long next_commit(long timeout_ms)
{
    pending.buffer = batch_buffer;
    pending.buffer_bytes = KD_DATA_MAX;
    long wait_ms = filling ? timeout_ms : hold_idle(timeout_ms);
    bool aside = hold_next(&pending);
    long r = aside ? 0 : kd_receive(server.commit_port, &pending, wait_ms);
    if (r < 0) return r == -ETIMEDOUT && wait_ms != timeout_ms ? -EINTR : r;
    if (pending.kind == (uint32_t)KD_MSG_COMMIT) {
        if (!aside && hold_takes(&pending)) return -EINTR;
        has_pending = batch_fetch(&pending, KD_DATA_MAX) && part_receive(&pending);
        return has_pending ? 0 : -EINTR;
    }
    if (pending.kind == (uint32_t)KD_MSG_NOTIFY) {
        idle_due |= pending.word[0] & NOTICE_OWN;
    } else if (filling && spill_needs_gate(&pending)) {
        held = pending;
        has_held = true;
        return -EBUSY;
    } else if (!spill_message(&pending)) {
        server_notice(&pending);
    }
    return -EINTR;
}

static int no_checkpoint; /* why the one that `pending` waited for was not made */

/* enum taken: what became of `pending`, and what follows:
 *
 *     TAKEN        it is in the group, or was answered       the next COMMIT is looked for
 *     NEXT_GROUP   there is no room beside the others        it stays; the group goes
 *     CHECKPOINT   log or disk have no room yet              it stays; the group goes, and a
 *                                                            checkpoint is waited for, SPACE_TRIES
 *                                                            times at most
 *     TOO_LARGE    it fits no group                          it stays; once it is alone, its copies
 *                                                            are spilled first
 *     LOST         changes of indexes cannot be made again   it stays; the group is refused
 */
enum taken { TAKEN, NEXT_GROUP, CHECKPOINT, TOO_LARGE, LOST };

/* pending_loads: are the pending one's copies to leave before it is in a group? */
static bool pending_loads(void)
{
    if (copy_is() && pending.word[3] == STORE_BULK) pending.word[3] = 0; /* spill.c: home_place */
    return pending.word[3] == STORE_BULK && pending.word[1];
}

/* take_pending takes `pending` into the group, if it can. Lock held. */
static enum taken take_pending(struct group *g, int *tries)
{
    if (pending_loads() || votes_wanted(&pending)) return NEXT_GROUP;
    int r = server.fenced ? -EIO : group_add(g, &pending);
    if (checkpoint_helps(r) && *tries < SPACE_TRIES) {
        ++*tries;
        return CHECKPOINT;
    }
    if (checkpoint_helps(r) && no_checkpoint == -ENOMEM) r = -ENOMEM;
    if (r == -ECANCELED) return LOST;
    if (r == -ENOBUFS && g->count > 0) return NEXT_GROUP;
    if ((r == -ENOBUFS || r == -E2BIG) && pending.word[1] > 0) return TOO_LARGE;
    has_pending = false;
    *tries = no_checkpoint = 0;
    if (r < 0) {
        if (r == -ENOBUFS || r == -EFBIG) r = -E2BIG;
        if (r == -EAGAIN) r = -ENOSPC;
        if (r == -EACCES && pending.word[6]) r = -ECANCELED; /* a helper's process has gone */
        kd_txn_refuse(pending.word[0], pending.token, -r);
        server.refused++;
    }
    return TAKEN;
}

/* pending_bytes: what the pending transaction may take of the group's buffer. */
static size_t pending_bytes(void)
{
    return pending.word[1] * CREDIT_BYTES + 2 * pending.data_bytes + 2 * PAGE_BYTES;
}

/* gather waits for one more COMMIT as long as a group is in the air, for until that has landed
 * nothing is gained by sealing this; else takes what is queued. Lock held, dropped meanwhile. */
static bool gather(void)
{
    for (;;) {
        bool flying = group_flying();
        group_notice(flying);
        server_unlock();
        long r = next_commit(flying ? -1 : 0);
        server_lock();
        if (r != -EINTR) return r == 0;
    }
}

/* group_fill fills the group with `pending` and what else comes. Lock held. */
static enum taken group_fill(struct group *g, size_t room, int *tries)
{
    enum taken taken;
    size_t used = pending_bytes();
    while ((taken = take_pending(g, tries)) == TAKEN && g->count < KD_VIEW_MAX) {
        if (quiet || alone || g->ends_chain || !gather()) break;
        if ((used += pending_bytes()) > room) break;
    }
    return taken;
}

static void pending_refuse(int error)
{
    kd_txn_refuse(pending.word[0], pending.token, error);
    server.refused++;
    has_pending = false;
}

static void group_refuse_all(const struct group *g, int error)
{
    for (unsigned i = 0; i < g->count; i++)
        kd_txn_refuse(g->publish[i].view, g->publish[i].token, error);
    server.refused += g->count;
}

/* group_failed refuses a group, as changes of indexes were lost, or not logged. Nothing of it is in
 * the log. Whose fault that is only he hears who is alone: others begin again, and each has a group
 * of his own then. */
static void group_failed(struct group *g, int error, bool lost)
{
    bool again = lost || g->count > 1 || error == -ENOBUFS || error == -EAGAIN;
    index_cancel(g);
    group_cancel(g);
    group_refuse_all(g, again ? EDEADLK : -error);
    if (lost || g->count > 1) alone = g->count + lost;
}

/* group_make makes a group from `pending` on, inside the gate; NULL: none is in the air. */
static struct group *group_make(size_t room, int *tries, enum taken *taken)
{
    struct group *g;
    int r = group_begin(&g);
    if (r < 0) {
        pending_refuse(r == -ENOMEM ? ENOMEM : EIO);
        return NULL;
    }
    filling = true;
    *taken = group_fill(g, room, tries);
    filling = false;
    alone -= alone > 0;
    if (g->count == 0) {
        index_cancel(g);
        group_cancel(g);
        return NULL;
    }
    r = *taken == LOST ? -ENOMEM : g->changes ? add_indexes(g) : 0;
    if (r < 0) {
        group_failed(g, r, *taken == LOST);
        return NULL;
    }
    r = group_launch(g);
    if (r == 0) return g;
    group_refuse_all(g, EIO);
    return NULL;
}

/* land_here lands a group by this thread; the chain that it ends is over when it is applied. */
static void land_here(struct group *g)
{
    uint64_t view = g->chain_view;
    if (group_land(g) == 0) spill_committed(view);
}

/* make_smaller has copies of `pending`, which fits no group or is a load, leave, into the log or
 * home. A load that cannot do so (it stands on another manager, or has locked items) is logged. */
static void make_smaller(bool load)
{
    int r = spill_for_commit(&pending);
    if (r == -E2BIG && load) pending.word[3] = r = 0;
    if (r == 0) return;
    kd_txn_refuse(pending.word[0], pending.token, -r);
    server.refused++;
    has_pending = false;
}

/* run_group makes a group of `pending` and whatever else is queued, as far as it fits. */
static void run_group(int *tries)
{
    if (votes_wanted(&pending)) {
        votes_vote(&pending);
        has_pending = false;
        return;
    }
    enum taken taken = TAKEN;
    size_t room = pending_bytes() > TOUCH_BYTES ? pending_bytes() : TOUCH_BYTES;
    bool many = pending.word[1] > SPILL_GROUP_PAGES, chained = spill_chain(pending.word[0]);
    bool load = pending_loads();
    if (load || (many && chained) || memory_touch(room) < 0) {
        server_lock();
        if (load || many)
            make_smaller(load); /* rather than fill memory with a large group's buffers */
        else
            pending_refuse(ENOMEM); /* what its batch frees and allocates is too much */
        server_unlock();
        return;
    }
    server_lock();
    gate_enter(false);
    struct group *g = group_make(room, tries, &taken);
    gate_leave();
    if (g && g->ends_chain)
        land_here(g);
    else if (g && quiet)
        group_leave(g);
    else if (g)
        group_hand_over(g);
    switch (taken) {
    case TAKEN:
    case LOST:
    case NEXT_GROUP: break;
    case CHECKPOINT: no_checkpoint = checkpoint_wait(); break;
    case TOO_LARGE:
        if (!g) make_smaller(false);
    }
    if (no_checkpoint) *tries = SPACE_TRIES;
    server_unlock();
}

/* patience_ms tells how long nothing else is to be done if no COMMIT comes. Lazy groups are flushed
 * before an empty one is written behind them. */
static long patience_ms(void)
{
    /* without the lock: a change by another thread is followed by NOTICE_LAZY, or a flush */
    uint64_t due = __atomic_load_n(&server.lazy_due_us, __ATOMIC_RELAXED);
    if (!due) return idle_due ? IDLE_MS : -1;
    uint64_t now = disk_clock.microseconds(NULL);
    return due > now ? (long)((due - now + 999) / 1000) : 1;
}

/* await_commit waits for a COMMIT. `quiet`: none was queued before it and no group in the air: then
 * one thread does it all, and no time is spent on looking for company. */
static long await_commit(void)
{
    long r = next_commit(0);
    quiet = false;
    if (r != -EAGAIN) return r;
    r = next_commit(patience_ms());
    server_lock();
    quiet = !group_flying();
    server_unlock();
    return r;
}

void *committer_main(void *unused)
{
    (void)unused;
    int tries = 0;
    for (;;) {
        if (has_held) spill_message(&held);
        has_held = false;
        uint64_t launched = __atomic_load_n(&server.launched, __ATOMIC_RELAXED);
        votes_renew();
        long r = has_pending ? 0 : await_commit();
        if (r == 0) {
            run_group(&tries);
            idle_due = true;
        } else if (r == -ETIMEDOUT) {
            idle_group();
        } else if (r != -EINTR) {
            say("the commit port failed: error %ld", -r);
            exit(1);
        }
        /* What came was refused, or no commit: there is no group whose flush would do. */
        if (server.launched == launched && group_flush_due()) idle_group();
    }
}

int committer_init(void)
{
    batch_buffer = malloc(KD_DATA_MAX);
    if (!batch_buffer || changes_init() < 0) return -ENOMEM;
    memset(batch_buffer, 0, KD_DATA_MAX); /* memory from now on: see device.c */
    return memory_touch(TOUCH_BYTES);
}
