/*
 * commit.c - the committer: turns what committing views changed into log groups, and publishes.
 *
 *     receive COMMIT ... poll for more       a group
 *     group_add         pages, then the operations of the batch; a view that fails is refused alone
 *     group_commit      seal; one write, one flush: THE POINT OF COMMIT
 *     group_publish     apply to the metadata, publish all views at once, tell what was freed
 *
 * A view that does not fit into a group any more waits for the next (`pending`); one for which the
 * log has no room waits for a checkpoint. After the fence every commit is refused with EIO: what
 * became of the last group is unknown until the next start has recovered.
 */
#include "options.h"
#include "server.h"

#include <stdlib.h>
#include <string.h>

#define DIFF_BYTES     (256u << 10)
#define IDLE_MS        100              /* then the last group is sealed by an empty one */
#define SPACE_TRIES    3
#define FREED_PART     64
#define TOUCH_BYTES    (1u << 20)       /* of the group buffers are always memory */
#define FULL_ALWAYS    (~0ull)
#define NOTHING_TO_LOG 1                /* no error and no transaction either */

struct name_change { uint64_t container; bool set; char name[STORE_NAME_BYTES]; };

struct group {
    struct store_group *disk;
    unsigned count;
    struct kd_publish publish[KD_VIEW_MAX];
    uint32_t position[KD_VIEW_MAX];
    uint64_t copies;                    /* pages logged */
    /* what else happens when it is committed */
    struct free_range *freed;
    unsigned freed_count, freed_room;
    struct name_change *names;
    unsigned name_count, name_room;
};

static struct group group;              /* of the committer thread */
static uint8_t *diff_buffer, *batch_buffer;
static struct kd_message pending;       /* a COMMIT that is not in a group yet */
static bool has_pending;

/* ---- small tables of a group ---- */

static void *grown(void *table, unsigned count, unsigned *room, size_t size)
{
    if (count < *room) return table;
    unsigned more = *room ? 2 * *room : 16;
    void *bigger = realloc(table, more * size);
    if (bigger) *room = more;
    return bigger;
}

static int name_change_add(struct group *g, const struct store_op *op)
{
    void *table = grown(g->names, g->name_count, &g->name_room, sizeof(*g->names));
    if (!table) return -ENOMEM;
    g->names = table;
    struct name_change *n = &g->names[g->name_count++];
    n->container = op->object;
    n->set = op->type == STORE_OP_NAME_SET;
    memcpy(n->name, op->name, strlen(op->name) + 1);
    return 0;
}

/* Does the name exist for a transaction that follows what is in the group? */
static bool name_exists(const struct group *g, const struct store_op *op)
{
    struct store_name found;
    for (unsigned i = g->name_count; i-- > 0;)
        if (g->names[i].container == op->object && strcmp(g->names[i].name, op->name) == 0)
            return g->names[i].set;
    return store_name_find(server.store, op->object, op->name, &found) == 0;
}

static int freed_add(struct group *g, const struct batch *b)
{
    for (unsigned i = 0; i < b->freed_count; i++) {
        void *table = grown(g->freed, g->freed_count, &g->freed_room, sizeof(*g->freed));
        if (!table) return -ENOMEM;
        g->freed = table;
        g->freed[g->freed_count++] = b->freed[i];
    }
    return 0;
}

/* ---- one view ---- */

/* One page's runs begin at *at; moves it behind them. Lock held, a transaction open. */
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

    uint64_t id, page;
    int r = cookie_page(first->cookie, first->page, &id, &page);
    if (r < 0) return r;
    if (batch_frees(b, id, page)) return 0;
    if (first->flags & KD_RUN_FULL) return store_txn_page(g->disk, id, page, first + 1);

    void *space;
    r = store_txn_diff_space(g->disk, bytes, &space);
    if (r < 0) return r;
    uint8_t *to = space;
    for (const struct kd_run *run = first; (const uint8_t *)run < next;
         run = (const void *)((const uint8_t *)(run + 1) + ((run->bytes + 7u) & ~7u))) {
        memcpy(to, &run->offset, 2); /* little-endian, as this machine is */
        memcpy(to + 2, &run->bytes, 2);
        memcpy(to + 4, run + 1, run->bytes);
        to += 4u + run->bytes;
    }
    return store_txn_diff_done(g->disk, id, page, first->base_csn, bytes);
}

static int add_pages(struct group *g, const struct batch *b, uint64_t bytes)
{
    const uint8_t *at = diff_buffer, *end = diff_buffer + bytes;
    int r = 0;
    while (r == 0 && at < end) r = add_page(g, b, &at, end);
    return r;
}

static int add_ops(struct group *g, struct batch *b)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && i < b->op_count; i++) {
        struct store_op *op = &b->ops[i];
        bool set = op->type == STORE_OP_NAME_SET, unset = op->type == STORE_OP_NAME_UNSET;
        if (set || unset) {
            bool exists = name_exists(g, op);
            if (set == exists) return set ? -EEXIST : -ENOENT;
            r = name_change_add(g, op);
        }
        if (r == 0) r = store_txn_op(g->disk, op);
    }
    return r;
}

/* The transaction of one view, from its differences and its batch; 0, or it left no trace.
 * The lock is dropped while the kernel compares pages: only this thread is inside the gate. */
static int add_transaction(struct group *g, const struct kd_message *m, struct batch *b,
                           uint64_t full_below, uint64_t *pages, uint32_t *position)
{
    struct kd_diff diff = {.view = m->word[0], .token = m->token, .full_below = full_below};
    int r = store_txn_begin(g->disk, m->process);
    if (r < 0) return r;
    *pages = 0;
    while (r == 0 && diff.cursor != ~0ull && m->word[1] > 0) {
        diff.buffer = diff_buffer;
        diff.buffer_bytes = DIFF_BYTES;
        server_unlock();
        r = (int)kd_txn_diff(&diff);
        server_lock();
        if (r >= 0) r = add_pages(g, b, diff.buffer_bytes);
        *pages += diff.pages;
    }
    if (r == 0) r = add_ops(g, b);
    if (r == 0) r = freed_add(g, b);
    if (r == 0 && *pages == 0 && b->op_count == 0) r = NOTHING_TO_LOG;
    if (r == 0) return store_txn_end(g->disk, position); /* from here on it cannot be taken back */
    store_txn_cancel(g->disk);
    return r;
}

/* What a committed batch tells of pages; a hint may as well come before the commit. */
static void rooms_note(const struct batch *b)
{
    for (unsigned i = 0; i < b->room_count; i++) {
        struct container *c = container_by_id(b->rooms[i].container);
        if (c) space_room(c, b->rooms[i].page, b->rooms[i].bytes);
    }
}

/* A view that changed nothing needs no log: what it read was durable before it was visible. */
static int publish_unlogged(const struct kd_message *m)
{
    struct kd_publish p = {.view = m->word[0], .token = m->token, .csn = server.last_csn ? server.last_csn : 1};
    return (int)kd_txn_publish(&p, 1);
}

/* Adds a view to the group: 0, -ENOBUFS or -EAGAIN (it stays pending), or why it is refused. */
static int group_add(struct group *g, const struct kd_message *m)
{
    struct batch b;
    uint64_t pages;
    unsigned names = g->name_count, freed = g->freed_count;
    int r = batch_parse(&b, m->process, m->buffer, m->data_bytes);
    if (r < 0) return r;
    r = add_transaction(g, m, &b, store_full_below(server.store), &pages,
                        &g->position[g->count]);
    if (r == -ESTALE) { /* a page's home was freed under an old version: log such pages whole */
        g->name_count = names;
        g->freed_count = freed;
        r = add_transaction(g, m, &b, FULL_ALWAYS, &pages, &g->position[g->count]);
    }
    if (r < 0) {
        g->name_count = names;
        g->freed_count = freed;
    } else if (r == 0) {
        g->publish[g->count++] = (struct kd_publish){.view = m->word[0], .token = m->token};
        g->copies += pages;
        step(STEP_C4);
    }
    if (r >= 0) rooms_note(&b);
    if (r == NOTHING_TO_LOG) r = publish_unlogged(m);
    batch_release(&b);
    return r;
}

/* ---- a group ---- */

static int group_begin(struct group *g)
{
    g->count = 0;
    g->copies = 0;
    g->name_count = 0;
    g->freed_count = 0;
    return store_group_begin(server.store, &g->disk);
}

/* Seals and writes the group. Inside the gate; lock held, dropped for the disk. */
static int group_commit(struct store_group *disk)
{
    int r = store_group_seal(disk);
    if (r == -EAGAIN) store_group_cancel(disk);
    if (r < 0) return r;
    uint64_t writes = device_writes, flushes = device_flushes;
    bool real = store_group_txns(disk) > 0; /* the empty ones come as the clock has it */
    if (real) step(STEP_C5);
    server_unlock();
    r = store_group_issue(disk);
    if (r == 0 && real) step(STEP_C5W);
    r = store_group_write(disk);        /* <-- its return with 0 is the point of commit */
    if (r == 0 && real) step(STEP_C5F);
    server_lock();
    server.log_writes += device_writes - writes;
    server.log_flushes += device_flushes - flushes;
    return r;
}

static void group_refuse(const struct group *g, int error)
{
    for (unsigned i = 0; i < g->count; i++)
        kd_txn_refuse(g->publish[i].view, g->publish[i].token, -error);
    server.refused += g->count;
}

/* The kernel may forget freed pages, whichever version it has, if no later transaction of the group
 * wrote them again. */
static void tell_freed_part(uint64_t id, uint64_t first, uint64_t count)
{
    uint8_t bits[FREED_PART];
    int object;
    uint64_t page;
    struct store_page at;
    if (container_object(id, first, &object, &page) < 0) return;
    if (kd_object_info(object, page, count, bits) < 0) return;
    for (uint64_t i = 0; i < count; i++)
        if ((bits[i] & KD_PAGE_DIRTY) && store_page_find(server.store, id, first + i, &at) == 0
            && !at.present)
            kd_object_cleaned(object, page + i, KD_CSN_ANY);
}

static void tell_freed(struct group *g)
{
    for (unsigned i = 0; i < g->freed_count; i++) {
        const struct free_range *f = &g->freed[i];
        struct container *c = container_by_id(f->container);
        uint64_t count = c ? f->count : 0;
        if (c) space_freed(c, f->first, count);
        for (uint64_t p = f->first, end = p + count, n; p < end; p += n) {
            n = container_left(c, p);
            if (n > end - p) n = end - p;
            if (n > FREED_PART) n = FREED_PART;
            tell_freed_part(f->container, p, n);
        }
    }
    g->freed_count = 0;
}

/* Lock held, inside the gate. S1: the group is durable. */
static void group_publish(struct group *g)
{
    for (unsigned i = 0; i < g->count; i++)
        g->publish[i].csn = server.last_csn = store_group_csn(g->disk, g->position[i]);
    int r = store_group_apply(g->disk);
    if (r < 0) {
        group_refuse(g, -EIO);
        return;
    }
    step(STEP_C6);
    r = (int)kd_txn_publish(g->publish, g->count);
    if (r < 0) say("the kernel did not publish a group: error %d", -r);
    step(STEP_C7);
    tell_freed(g);
    server.credits -= g->copies < server.credits ? g->copies : server.credits;
    credits_update(false);
    server.credit_low |= server.credit_short;
    if (server.credit_low || store_should_checkpoint(server.store)) pthread_cond_signal(&server.work);
}

static void group_finish(struct group *g)
{
    if (g->count == 0) {
        store_group_cancel(g->disk);
        return;
    }
    int r = group_commit(g->disk);
    if (r == 0) {
        group_publish(g);
        return;
    }
    group_refuse(g, -EIO);
    r = store_group_apply(g->disk); /* ends the group, applies nothing */
    server_unlock();
    server_fence("a log write or flush failed", r);
    server_lock();
}

/* ---- a transaction of the manager's own ---- */

static int own_group(struct store_op *ops, unsigned count)
{
    struct store_group *disk;
    uint32_t position;
    uint64_t object = 0;
    int r = server.fenced ? server.fenced : store_group_begin(server.store, &disk);
    if (r < 0) return r;
    r = store_txn_begin(disk, 0);
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
    if (r < 0) {
        store_group_cancel(disk);
        return r;
    }
    r = group_commit(disk);
    int applied = store_group_apply(disk);
    if (r == 0) step(STEP_C6);
    kd_notify(server.commit_port, 1); /* the committer is to seal this group, too */
    return r < 0 ? r : applied;
}

/* After such an error, could a checkpoint help? */
static bool checkpoint_helps(int error)
{
    struct store_stats stats;
    if (error == -EAGAIN) return true;
    if (error != -ENOSPC) return false;
    store_stats(server.store, &stats);
    return stats.freed_extents > 0;
}

int commit_own(struct store_op *ops, unsigned count)
{
    int r;
    server_lock();
    for (int i = 0;; i++) {
        gate_enter(false);
        r = own_group(ops, count);
        int broken = store_error(server.store);
        gate_leave();
        if (broken) {
            server_unlock();
            server_fence("a log write or flush failed", broken);
            return -EIO;
        }
        if (!checkpoint_helps(r) || i == SPACE_TRIES || checkpoint_wait() < 0) break;
    }
    server_unlock();
    return r == -EAGAIN ? -ENOSPC : r;
}

/* ---- the thread ---- */

/* An empty group behind the last one: should that rot, it is not taken for a torn tail. */
static void idle_group(void)
{
    struct store_group *disk;
    server_lock();
    gate_enter(false);
    if (!server.fenced && store_group_begin(server.store, &disk) == 0) {
        int r = group_commit(disk);
        if (r != -EAGAIN && store_group_apply(disk) < 0) {
            server_unlock();
            server_fence("a log write or flush failed", r);
            server_lock();
        }
    }
    gate_leave();
    server_unlock();
}

/* The next COMMIT into `pending`; notices are dealt with on the way. 0, or -ETIMEDOUT, -EAGAIN;
 * -EINTR: a group of the manager's own was written. */
static long next_commit(long timeout_ms)
{
    for (;;) {
        pending.buffer = batch_buffer;
        pending.buffer_bytes = KD_DATA_MAX;
        long r = kd_receive(server.commit_port, &pending, timeout_ms);
        if (r < 0) return r;
        if (pending.kind == (uint32_t)KD_MSG_COMMIT) {
            has_pending = true;
            return 0;
        }
        if (pending.kind == (uint32_t)KD_MSG_NOTIFY) return -EINTR;
        server_notice(&pending);
    }
}

/* Lock held. Takes `pending` into the group, or refuses it; false: it has to wait. */
static bool take_pending(struct group *g, int *tries, bool *checkpoint)
{
    int r = server.fenced ? -EIO : group_add(g, &pending);
    *checkpoint = checkpoint_helps(r) && *tries < SPACE_TRIES;
    if (*checkpoint) {
        ++*tries;
        return false;
    }
    if (r == -ENOBUFS && g->count > 0) return false;
    has_pending = false;
    *tries = 0;
    if (r < 0) {
        if (r == -ENOBUFS) r = -E2BIG;
        if (r == -EAGAIN) r = -ENOSPC;
        kd_txn_refuse(pending.word[0], pending.token, -r);
        server.refused++;
    }
    return true;
}

/* What the pending transaction may take of the group's buffer. */
static size_t pending_bytes(void)
{
    return pending.word[1] * CREDIT_BYTES + 2 * pending.data_bytes + 2 * PAGE_BYTES;
}

/* `pending` and whatever else is queued, as far as it fits, become a group. */
static void run_group(int *tries)
{
    bool checkpoint = false;
    size_t used = pending_bytes(), room = used > TOUCH_BYTES ? used : TOUCH_BYTES;
    memory_touch(room);
    server_lock();
    gate_enter(false);
    int r = server.fenced ? server.fenced : group_begin(&group);
    if (r < 0) {
        kd_txn_refuse(pending.word[0], pending.token, r == -ENOMEM ? ENOMEM : EIO);
        server.refused++;
        has_pending = false;
    } else {
        while (take_pending(&group, tries, &checkpoint) && group.count < KD_VIEW_MAX) {
            server_unlock();
            r = (int)next_commit(0);
            server_lock();
            if (r < 0 || (used += pending_bytes()) > room) break;
        }
        group_finish(&group);
    }
    gate_leave();
    if (checkpoint && checkpoint_wait() < 0) *tries = SPACE_TRIES;
    server_unlock();
}

void *committer_main(void *unused)
{
    (void)unused;
    bool idle_due = false;
    int tries = 0;
    for (;;) {
        long r = has_pending ? 0 : next_commit(idle_due ? IDLE_MS : -1);
        if (r == 0) {
            run_group(&tries);
            idle_due = true;
        } else if (r == -EINTR) {
            idle_due = true;
        } else if (r == -ETIMEDOUT) {
            idle_group();
            idle_due = false;
        } else {
            say("the commit port failed: error %ld", -r);
            exit(1);
        }
    }
}

int committer_init(void)
{
    diff_buffer = malloc(DIFF_BYTES);
    batch_buffer = malloc(KD_DATA_MAX);
    if (!diff_buffer || !batch_buffer) return -ENOMEM;
    memset(diff_buffer, 0, DIFF_BYTES); /* memory from now on: see device.c */
    memset(batch_buffer, 0, KD_DATA_MAX);
    return 0;
}
