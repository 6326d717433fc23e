/*
 * group.c - launches groups and lands them: the point of commit is here.
 *
 * A group that is launched has its place in the log. It lands when those before it have landed, by
 * the thread that filled it, or, if others wait for their turn to commit, by the publisher thread:
 * then the committer fills the next group while this one is flushed. Of two copies, who hears that
 * the other one has the group lands it, if nobody waits for that.
 *
 * Invariants
 *   GL1  Groups land in the order of their launch; so a group is durable, applied and published
 *       only if all before it are.
 *   GL2  The gate is passed by a committer only when fewer than two groups are in the air, and by
 *       the cleaner only when none is.
 *   GL3  After the fence none is launched. What is in the air is published if it is durable all the
 *       same, for the library's metadata have it then; else it is refused, outcome unknown.
 *   GL5  Of two copies (copy.h) both have a group before it is applied, unless it is lazy, and
 *        what is flushed later before it counts as durable.
 *   GL4  A group that is not lazy is flushed, and its flush begins when all before it are written:
 *       so it covers the lazy ones.
 *   GL6  Of each page that a group has freed, and has not written again, the kernel hears behind
 *        the group's publication that no version is wanted: then zeros are not too old for it, and
 *        no older snapshot takes them for what was there.
 */
#include "group.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "options.h"

#define FREED_PART 512

static struct group groups[2];          /* by the lowest bit of the number */
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;      /* a group has landed */
static pthread_cond_t to_land = PTHREAD_COND_INITIALIZER;   /* for the publisher */
static bool notice_wanted;

bool group_flying(void)
{
    return server.landed < server.launched;
}

/* ---- filling ---- */

int group_begin(struct group **out)
{
    struct group *g = &groups[server.launched & 1];
    assert(server.gate_taken && server.launched - server.landed < 2);   /* GL2 */
    if (server.fenced) return server.fenced;
    g->handed = g->left = g->spills = g->ends_chain = g->flushed = false;
    g->lazy_us = g->bytes = 0;
    g->voted = false;
    g->changes = 0;
    g->count = g->freed_count = g->name_count = 0;
    g->copies = g->layout = 0;
    *out = g;
    return store_group_begin(server.store, &g->disk);
}

void group_cancel(struct group *g)
{
    g->layout = 0;
    quota_before(g);
    store_group_cancel(g->disk);
    quota_after(g, false);
}

static void *grown(void *table, unsigned count, unsigned *room, size_t size)
{
    if (count < *room) return table;
    unsigned more = *room ? 2 * *room : 16;
    void *bigger = realloc(table, more * size);
    if (bigger) *room = more;
    return bigger;
}

int group_name_add(struct group *g, const struct store_op *op)
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

/* name_last returns the last that the group does to this name, or NULL. */
static const struct name_change *name_last(const struct group *g, const struct store_op *op)
{
    for (unsigned i = g->name_count; i-- > 0;)
        if (g->names[i].container == op->object && strcmp(g->names[i].name, op->name) == 0)
            return &g->names[i];
    return NULL;
}

bool group_name_exists(const struct group *g, const struct store_op *op)
{
    struct store_name found;
    const struct name_change *n = name_last(g, op);
    if (!n && group_flying()) n = name_last(&groups[server.landed & 1], op);
    return n ? n->set : store_name_find(server.store, op->object, op->name, &found) == 0;
}

bool group_changes_layout(uint64_t container)
{
    return groups[0].layout == container || groups[1].layout == container;
}

/* group_txn_begin gives a new id each time, also after a start: the clock runs faster. */
int group_txn_begin(struct group *g, uint64_t tag)
{
    static uint64_t id;
    int r = store_txn_begin(g->disk, tag);
    if (!id) id = time_of_day();
    store_txn_id(g->disk, ++id);
    return r;
}

int group_freed_add(struct group *g, const struct free_range *freed, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        void *table = grown(g->freed, g->freed_count, &g->freed_room, sizeof(*g->freed));
        if (!table) return -ENOMEM;
        g->freed = table;
        g->freed[g->freed_count++] = freed[i];
    }
    return 0;
}

bool checkpoint_helps(int error)
{
    struct store_stats stats;
    if (error == -EAGAIN) return true;
    if (error != -ENOSPC) return false;
    store_stats(server.store, &stats);
    return stats.freed_extents > 0;
}

/* ---- launching ---- */

int group_launch(struct group *g)
{
    store_group_time(g->disk, time_of_day());
    int r = server.fenced ? server.fenced : store_group_seal(g->disk);    /* GL3 */
    if (r < 0) {
        group_cancel(g);
        return r;
    }
    g->counted = store_group_txns(g->disk) > 0; /* the empty ones come as the clock has it */
    g->number = server.launched++;
    copy_sealed(g->disk);
    if (g->counted) step(STEP_CM5);
    uint64_t writes = device_writes;
    server_unlock();
    if (copy_is()) copy_sends();
    r = store_group_issue(g->disk);     /* an error comes out again when it lands */
    if (r == 0 && g->counted) step(STEP_CM5W);
    server_lock();
    server.log_writes += device_writes - writes;
    return 0;
}

void group_hand_over(struct group *g)
{
    g->handed = true;
    pthread_cond_signal(&to_land);
}

/* ---- landing ---- */

static void group_refuse(const struct group *g, int error)
{
    for (unsigned i = 0; i < g->count; i++)
        kd_txn_refuse(g->publish[i].view, g->publish[i].token, -error);
    server.refused += g->count;
}

/* tell_freed_part tells the kernel that nobody wants freed pages any more, if no later transaction
 * of the group wrote them again (GL6). */
static void tell_freed_part(uint64_t id, uint64_t first, uint32_t count)
{
    static struct store_page at[FREED_PART];
    int object;
    uint64_t page;
    if (container_object(id, first, &object, &page) < 0) return;
    if (store_pages_find(server.store, id, first, count, at) < 0) return;
    for (uint32_t i = 0, n; i < count; i += n + 1) {
        for (n = 0; i + n < count && !at[i + n].present;) n++;
        if (n > 0) kd_object_advise(object, page + i, n, KD_ADVISE_FREED);
    }
}

static void tell_freed(const struct group *g)
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
            tell_freed_part(f->container, p, (uint32_t)n);
        }
    }
}

/* group_settle notes what is durable now, and by when a lazy group has to be. */
static void group_settle(const struct group *g)
{
    uint64_t due = g->lazy_us ? disk_clock.microseconds(NULL) + g->lazy_us : 0;
    if (g->flushed) {
        server.durable_csn = server.last_csn;
        server.lazy_due_us = 0;
    } else if (due && (!server.lazy_due_us || due < server.lazy_due_us)) {
        server.lazy_due_us = due;
        if (g->handed) kd_notify(server.commit_port, NOTICE_LAZY);
    }
}

/* names_missed: did names of objects change? Nobody sleeps until something is noted. */
static bool names_missed(const struct group *g)
{
    for (unsigned i = 0; i < g->name_count; i++)
        if (*g->names[i].name != WIRE_NOTES) return true;
    return false;
}

/* group_publish publishes a group that is durable, or lazy (MG1). */
static int group_publish(struct group *g)
{
    for (unsigned i = 0; i < g->count; i++)
        g->publish[i].csn = server.last_csn = store_group_csn(g->disk, g->position[i]);
    if (g->voted) /* an earlier life's is published to nobody, but read, and brought home */
        server.last_csn = store_group_csn(g->disk, g->position[0]);
    quota_before(g);
    int r = store_group_apply(g->disk);
    quota_after(g, r == 0);
    if (r < 0) return r;
    group_settle(g);
    if (g->counted) step(STEP_CM6);
    if (g->count > 0) {
        r = (int)kd_txn_publish(g->publish, g->count, pager_settled());
        if (r < 0) say("the kernel did not publish a group: %s", strerror(-r));
        step(STEP_CM7);
    }
    versions_keep();
    tell_freed(g);
    if (names_missed(g)) watch_all_change(); /* who missed one watches no page; it is there now */
    server.credits -= g->copies < server.credits ? g->copies : server.credits;
    credits_update(false);
    server.credit_low |= server.credit_short;
    bool timed = g->counted && options.checkpoint_ms && !server.checkpoints.due_us;
    if (timed)
        server.checkpoints.due_us = disk_clock.microseconds(NULL) + options.checkpoint_ms * 1000;
    if (timed || server.credit_low || store_should_checkpoint(server.store))
        pthread_cond_signal(&server.work);
    return 0;
}

static void landed(void)
{
    server.landed++;
    if (group_flying()) pthread_cond_broadcast(&turn);
    if (group_flying() && groups[server.landed & 1].handed) pthread_cond_signal(&to_land);
    pthread_cond_broadcast(&server.changed);
    if (notice_wanted) kd_notify(server.commit_port, NOTICE_LANDED);
    notice_wanted = false;
}

bool group_flush_due(void)
{
    uint64_t due = __atomic_load_n(&server.lazy_due_us, __ATOMIC_RELAXED);
    return due && disk_clock.microseconds(NULL) >= due;
}

/* group_needs_flush: a group of lazy commits or spilled pages needs no flush of its own, unless one
 * is due or the store is about to end. */
static bool group_needs_flush(const struct group *g)
{
    return (!g->spills && (!g->lazy_us || server_writable() < 0)) || group_flush_due();
}

static store_lsn_t group_end(const struct group *g)
{
    size_t bytes;
    store_group_sealed_bytes(g->disk, &bytes);
    return store_group_csn(g->disk, 0) + bytes;
}

static int group_write(struct group *g)
{
    uint64_t flushes = device_flushes;
    server_unlock();
    /* <-- its return with 0 is the point of commit */
    int r = store_group_write(g->disk);
    if (r == 0 && g->counted) step(STEP_CM5F);
    server_lock();
    server.log_flushes += device_flushes - flushes;
    g->flushed = r == 0;
    return r;
}

int group_flush(void)
{
    uint64_t csn = server.last_csn, flushes = device_flushes;
    store_lsn_t lsn = store_log_applied(server.store);
    if (server.durable_csn >= csn) return 0;
    server.lazy_due_us = 0; /* of those so far */
    if (server.fenced) return server.fenced;
    server_unlock();
    int r = store_log_flush(server.store);
    server_lock();
    server.log_flushes += device_flushes - flushes;
    if (r < 0) {
        server_fence("a log flush failed", r);
        return r;
    }
    copy_flushed(lsn);
    store_log_flushed(server.store, lsn);
    if (server.durable_csn < csn) server.durable_csn = csn;
    kd_notify(server.commit_port, NOTICE_OWN); /* an empty group is to prove what was flushed */
    return 0;
}

/* group_turn waits until the groups before have landed. 0: it is durable here, or lazy. */
static int group_turn(struct group *g)
{
    while (server.landed != g->number) pthread_cond_wait(&turn, &server.lock);  /* GL1 */
    return group_needs_flush(g) ? group_write(g) : 0;
}

static int group_ends(struct group *g, int r)
{
    int applied = r == 0 ? group_publish(g) : store_group_apply(g->disk);
    if (r == 0) r = applied;
    if (r < 0) {
        server_fence("a log write or flush failed", r);
        if (!g->voted) group_refuse(g, -EIO);                                   /* VO8 */
    }
    g->layout = 0;
    landed();
    return r;
}

int group_land(struct group *g)
{
    int r = group_turn(g);
    if (g->flushed) copy_flushed(group_end(g));                                 /* GL5 */
    return group_ends(g, r);
}

void group_leave(struct group *g)
{
    int r = group_turn(g);
    g->left = g->flushed && !copy_has(group_end(g));                            /* GL5 */
    if (!g->left) group_ends(g, r);
}

void group_copied(void)
{
    struct group *g = &groups[server.landed & 1];
    if (group_flying() && g->left && copy_has(group_end(g))) group_ends(g, 0);
}

void group_notice(bool wanted)
{
    notice_wanted = wanted;
}

void *publisher_main(void *unused)
{
    (void)unused;
    server_lock();
    for (;;) {
        struct group *g = &groups[server.landed & 1];
        if (group_flying() && g->handed)
            group_land(g);
        else
            pthread_cond_wait(&to_land, &server.lock);
    }
}
