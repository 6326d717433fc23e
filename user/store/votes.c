/*
 * votes.c - transactions of several stores (votes.md): this store votes, keeps its vote, and
 * does what it is told; or it decides, and says so to those who ask.
 *
 *     COMMIT with WIRE_VOTE     records are made on trial; images and PREPARED in a group of their
 *                               own; flushed: it has voted. The COMMIT is not answered
 *     WIRE_TXN_COMMIT, _UNDO    a group with the decision; the COMMIT is published, or refused
 *     COMMIT with WIRE_DECISION a commit as any other, and a decision that is kept
 *
 * What was prepared in an earlier life of the manager has no COMMIT to be answered, and no
 * transaction that locks its pages: until its end no page of it is given to anybody.
 *
 * Invariants
 *   VO1  A vote is told when its group is durable, and its COMMIT answered when its outcome is.
 *   VO2  A page request for what an earlier life has prepared waits until its outcome is applied.
 *   VO3  An id that was asked for when nothing was known of it never commits in this life: a COMMIT
 *        that brings it is refused. So "undone" stays true. Those of the last ten minutes at least
 *        are remembered, however many, and some that nobody has asked for with them: whose COMMIT
 *        is refused runs again, by another id.
 *   VO4  Only who may manage the store as a whole says who votes and what is decided; or the
 *        kernel (parts.c).
 *   VO8  A fenced store publishes what it has voted for and is decided, also if the group with that
 *        outcome was the first to fail, and stays in doubt of it in its log.
 *   VO5  What the kernel, or an agent, has asked to be committed may be lazy: the vote is durable,
 *        and so is the decision where it was made, which is kept there until this is durable here.
 *   VO10  As long as a vote is in doubt, for half a second at most, the kernel begins no snapshot
 *        of containers here: others may know the outcome already, and what follows from it. No
 *        vote is given while a snapshot waits for that.
 *   VO11  Votes, and decisions, that one site has asked for, in whatever sessions of this life,
 *        take half of the places at most, and of the room in the log; those of all sites, and what
 *        an earlier life has left, three quarters. The kernel's own have the rest.
 *   VO9  In a site, a store that has exported something grants no page at first: other sites may
 *        still use what an earlier life has granted (sites.md: NS6). It does not know which do.
 */
#include "path.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "group.h"
#include "options.h"
#include "votes.h"

#define VOTE_TRIES  3
#define UNDONE_BITS (1u << 20)
#define UNDONE_US   600000000u          /* so long a COMMIT may be under way (VO3) */

struct vote votes[STORE_PREPARED_MAX];
/* `undone`: two bits for each id (a Bloom filter); what was asked for lately, and before that. */
static struct { uint64_t began_us, key, now[UNDONE_BITS / 64], before[UNDONE_BITS / 64]; } undone;
static unsigned orphans;
static struct kd_message *blocked;      /* page requests (VO2) */
static unsigned blocked_count, blocked_room;

/* struct kept_op: an operation of a batch, as it is kept with a vote. */
struct kept_op {
    uint64_t type, object, page, count, address, bytes;
    char name[STORE_NAME_BYTES];
};

bool same_txn(const struct store_txn_id *a, const struct store_txn_id *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

struct vote *vote_of(const struct store_txn_id *id)
{
    for (struct vote *v = votes; v < votes + STORE_PREPARED_MAX; v++)
        if (v->used && same_txn(&v->id, id)) return v;
    return NULL;
}

/* undone_bits: bits that nobody knows beforehand: nobody can have another one's ids refused. */
static void undone_bits(const struct store_txn_id *id, unsigned bit[2])
{
    uint64_t half[2];
    if (!undone.key && getrandom(&undone.key, sizeof(undone.key), 0) != sizeof(undone.key))
        undone.key = disk_clock.microseconds(NULL);
    memcpy(half, id, sizeof(half));
    uint64_t x = (half[0] ^ undone.key) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 32 ^ half[1]) * 0xd6e8feb86659fd93u;
    x = (x ^ x >> 32 ^ undone.key) * 0x9e3779b97f4a7c15u;
    bit[0] = (unsigned)(x >> 40) % UNDONE_BITS;
    bit[1] = (unsigned)(x >> 16) % UNDONE_BITS;
}

static bool has_bits(const uint64_t *of, const unsigned bit[2])
{
    return of[bit[0] / 64] >> bit[0] % 64 & of[bit[1] / 64] >> bit[1] % 64 & 1;
}

bool is_undone(const struct store_txn_id *id)
{
    unsigned bit[2];
    undone_bits(id, bit);
    return has_bits(undone.now, bit) || has_bits(undone.before, bit);
}

static void undone_add(const struct store_txn_id *id)
{
    unsigned bit[2];
    uint64_t now = disk_clock.microseconds(NULL);
    if (now - undone.began_us >= UNDONE_US) {
        memcpy(undone.before, undone.now, sizeof(undone.before));
        memset(undone.now, 0, sizeof(undone.now));
        undone.began_us = now;
    }
    undone_bits(id, bit);
    for (int i = 0; i < 2; i++) undone.now[bit[i] / 64] |= 1ull << bit[i] % 64;
}

/* ---- what is kept with a vote ---- */

/* ops_keep keeps only operations that nobody else's commit can come between. */
static int ops_keep(const struct batch *b, struct kept_op **out, uint32_t *names)
{
    struct kept_op *kept = calloc(b->op_count + 1, sizeof(*kept));
    int r = kept ? b->change_count ? -EOPNOTSUPP : 0 : -ENOMEM;
    *names = 0;
    for (unsigned i = 0; r == 0 && i < b->op_count; i++) {
        const struct store_op *op = &b->ops[i];
        bool named = op->type == STORE_OP_NAME_SET || op->type == STORE_OP_NAME_UNSET;
        if (!named && op->type != STORE_OP_PAGE_FREE && op->type != STORE_OP_PAGE_CLAIM)
            r = -EOPNOTSUPP;
        kept[i] = (struct kept_op){op->type, op->object, op->page, op->count, op->address,
                                   op->bytes, {0}};
        if (named) memcpy(kept[i].name, op->name, strlen(op->name));
        *names += op->type == STORE_OP_NAME_SET;
    }
    *out = kept;
    if (r < 0) free(kept);
    return r;
}

/* ops_make makes the batch that was kept; its names lie in the vote. */
static int ops_make(const struct store_doubt *d, struct batch *b)
{
    const struct kept_op *kept = d->data;
    unsigned count = d->bytes / sizeof(*kept);
    *b = (struct batch){0};
    b->memory = malloc((count + 1) * (sizeof(*b->ops) + sizeof(*b->freed)));
    if (!b->memory) return -ENOMEM;
    b->ops = b->memory;
    b->freed = (void *)(b->ops + count);
    for (unsigned i = 0; i < count; i++) {
        const struct kept_op *k = &kept[i];
        b->ops[b->op_count++] = (struct store_op){
            .type = (enum store_op_type)k->type, .object = k->object, .page = k->page,
            .count = k->count, .address = k->address, .bytes = k->bytes, .name = k->name};
        if (k->type == STORE_OP_PAGE_FREE)
            b->freed[b->freed_count++] = (struct free_range){k->object, k->page, k->count};
    }
    return 0;
}

bool votes_name(const struct store_op *op)
{
    struct store_doubt d;
    uint64_t cursor = 0;
    while (store_doubt_next(server.store, &cursor, &d) == 0) {
        const struct kept_op *kept = d.data;
        for (unsigned i = 0; d.prepared && i < d.bytes / sizeof(*kept); i++)
            if (*kept[i].name && kept[i].object == op->object &&
                strcmp(kept[i].name, op->name) == 0)
                return true;
    }
    return false;
}

/* ---- the vote; by the committer ---- */

bool votes_wanted(const struct kd_message *m)
{
    const struct wire_op *op = m->buffer;
    return part_of_commit() == KD_PART_VOTE ||
           (m->data_bytes >= sizeof(*op) && op->kind == WIRE_VOTE);
}

/* try_commit: all that a commit would be refused for, now: its records are made, taken back. */
static int try_commit(struct group *g, const struct kd_message *m, struct batch *b)
{
    uint64_t pages = 0;
    int r = group_txn_begin(g, m->process);
    if (r == 0) r = changes_add(g, m, b, ~0ull, &pages);
    if (r == 0) r = commit_ops(g, m->process, b);
    if (r == 0) return quota_txn_try(g, b);
    store_txn_cancel(g->disk);
    return r;
}

static int vote_check(const struct kd_message *m, const struct batch *b)
{
    bool of_kernel = part_of_commit() == KD_PART_VOTE;
    if (!of_kernel && !may_vote(m->process)) return -EPERM;                     /* VO4 */
    if (!b->vote) return -EINVAL;
    if (is_undone(&b->vote->id)) return of_kernel ? -EDEADLK : -ECANCELED;      /* VO3 */
    if (vote_of(&b->vote->id)) return of_kernel ? -EDEADLK : -EEXIST;
    return m->word[2] ? -E2BIG : 0;     /* it has spilled */
}

/* log_bytes counts a block for the record, and one that each may begin (TP2). */
static uint64_t log_bytes(uint64_t pages, uint64_t bytes)
{
    return (pages + 2) * PAGE_BYTES + bytes;
}

/* vote_fill, inside the gate: the group has images, PREPARED record; *chain is the store's then. */
static int vote_fill(struct group *g, const struct kd_message *m, struct batch *b, struct vote *v,
                     struct store_chain **chain)
{
    struct kept_op *kept = NULL;
    struct store_prepare what = {.id = b->vote->id};
    int r = try_commit(g, m, b) ?: ops_keep(b, &kept, &what.names);
    if (r < 0) return r;
    g->name_count = g->freed_count = 0;
    if (!*chain) r = store_chain_begin(server.store, m->process, chain);
    if (r == 0) r = changes_spill(g, m, b, *chain, &v->pages);
    memcpy(what.coordinator, b->vote->coordinator, sizeof(what.coordinator));
    what.data = kept;
    what.bytes = (uint32_t)(b->op_count * sizeof(*kept));
    v->bytes = log_bytes(v->pages, what.bytes);
    if (r == 0) r = vote_share(v);
    if (r == 0) r = store_prepare(g->disk, *chain, &what);
    if (r == 0) r = store_doubt_claims(server.store, &what.id, b->ops, b->op_count);
    free(kept);
    return r == -ENOBUFS ? -E2BIG : r;
}

/* vote_write makes one try, in a group of its own. */
static int vote_write(const struct kd_message *m, struct batch *b, struct vote *v)
{
    struct store_chain *chain = NULL;
    struct group *g;
    gate_enter(false);
    int r = group_begin(&g);
    if (r == 0) {
        r = vote_fill(g, m, b, v, &chain);
        if (r == 0) r = group_launch(g);
        else group_cancel(g);
        if (r < 0 && chain) store_chain_end(chain);
    }
    gate_leave();
    if (r == 0) r = group_land(g);
    return r;
}

static struct vote *vote_free(void)
{
    struct vote *v = votes;
    while (v < votes + STORE_PREPARED_MAX && v->used) v++;
    return v < votes + STORE_PREPARED_MAX ? v : NULL;
}

/* renew_due, lock held: a log that another keeps full is left to who says so: the next COMMIT. */
static void renew_due(void)
{
    int tries = 0;
    for (int more = 1; more > 0 && !server.fenced && store_doubts_due(server.store);) {
        struct group *g;
        gate_enter(true);
        more = group_begin(&g);
        if (more == 0) {
            more = store_doubts_renew(g->disk);
            int launched = more < 0 ? more : group_launch(g);
            if (more < 0) group_cancel(g);
            if (launched < 0) more = launched;
        }
        gate_leave();
        if (more >= 0 && group_land(g) < 0) more = -EIO;
        if (more == -EAGAIN && tries++ < VOTE_TRIES && checkpoint_wait() == 0) more = 1;
        if (more == -EUCLEAN) server_fence("an image of what is prepared is damaged", more);
    }
}

static int vote_give(const struct kd_message *m, struct batch *b)
{
    struct vote *v = vote_free();
    int r = vote_check(m, b);
    if (r == 0 && !v) r = -EAGAIN;
    if (r == 0 && doubts_tell(1, NULL)) r = -EDEADLK;                           /* VO10 */
    if (r < 0) {
        doubts_tell(0, NULL);
        return r;
    }
    *v = (struct vote){.id = b->vote->id, .used = true, .view = m->word[0], .token = m->token,
                       .process = m->process, .of_kernel = part_of_commit() == KD_PART_VOTE,
                       .begun_us = disk_clock.microseconds(NULL)};
    v->lazy = v->of_kernel;
    if (!v->of_kernel) strcpy(v->site, voter_site(m->process));
    memcpy(v->coordinator, b->vote->coordinator, sizeof(v->coordinator));
    for (int i = 0;; i++) {
        v->pages = 0;
        r = server.fenced ? server.fenced : vote_write(m, b, v);
        if (r != -ENOSPC && r != -EAGAIN) break;
        if (!checkpoint_helps(r) || i == VOTE_TRIES || checkpoint_wait() < 0) break;
        renew_due();
    }
    v->prepared = v->used = r == 0;
    doubts_tell(0, NULL);
    parts_look();
    return r;
}

void votes_vote(const struct kd_message *m)
{
    struct batch b;
    server_lock();
    int r = batch_parse(&b, m->buffer);
    if (r == 0) {
        struct store_txn_id id = b.vote ? b.vote->id : (struct store_txn_id){{0}};
        r = vote_give(m, &b);
        if (r == 0) step(STEP_VT1);
        bool of_kernel = part_of_commit() == KD_PART_VOTE;
        if (r == 0 && of_kernel) kd_txn_voted(m->word[0], m->token);            /* VO1 */
        if (!of_kernel && may_vote(m->process)) vote_told(&id, r);
        if (r == -EAGAIN && of_kernel && orphans == 0) r = -EDEADLK; /* others end soon */
        batch_release(&b);
    }
    if (r < 0) {
        kd_txn_refuse(m->word[0], m->token, -r);
        server.refused++;
    }
    server_unlock();
}

int votes_decision(struct group *g, const struct kd_message *m, const struct batch *b)
{
    struct store_participant to[STORE_PARTICIPANTS_MAX];
    bool of_kernel = part_of_commit() == KD_PART_DECIDE;
    if (!of_kernel && !may_vote(m->process)) return -EPERM;                     /* VO4 */
    if (is_undone(&b->decision->id)) return of_kernel ? -EDEADLK : -EALREADY;   /* VO3 */
    for (unsigned i = 0; i < b->participants; i++) {
        memcpy(to[i].store, b->decision->participant[i].store, sizeof(to[i].store));
        to[i].number = b->decision->participant[i].number;
    }
    int r = of_kernel ? 0 : decision_share(voter_site(m->process), &b->decision->id);
    if (r == 0) r = store_txn_decided(g->disk, &b->decision->id, to, b->participants);
    if (r == 0 && !of_kernel && b->participants) part_decided();
    if (r == -EAGAIN) r = parts_full();
    if (r == -EDEADLK && !of_kernel) r = -EALREADY;     /* the site runs it again, not its agent */
    if (r == -EEXIST) r = of_kernel ? -EDEADLK : -EALREADY;
    return r == -EBUSY ? -ENOBUFS : r;
}

/* ---- the outcome; by a request's thread ---- */

/* blocked_go asks again for pages of an earlier life's votes. Lock held, dropped. */
static void blocked_go(void)
{
    unsigned count = blocked_count;
    struct kd_message *all = blocked;
    blocked = NULL;
    blocked_count = blocked_room = 0;
    server_unlock();
    for (unsigned i = 0; i < count; i++) pager_request(&all[i]);
    free(all);
    server_lock();
}

/* `grace` (VO9): other sites may still use what an earlier life has granted. */
static bool grace;

static void *grace_main(void *ms)
{
    const uintptr_t n = (uintptr_t)ms;
    const struct timespec time = {.tv_sec = (time_t)(n / 1000),
                                  .tv_nsec = (long)(n % 1000) * 1000000};
    nanosleep(&time, NULL);
    server_lock();
    grace = false;
    blocked_go();
    server_unlock();
    return NULL;
}

void grace_begin(unsigned ms)
{
    struct directory_found found;
    struct sources by;
    pthread_t thread;
    if (!ms) return;
    server_lock();
    grace = path_walk("exports", &found, &by) == 0;
    server_unlock();
    if (!grace) return;
    say("no page is granted for %u ms: other sites may still use what was granted before", ms);
    if (pthread_create(&thread, NULL, grace_main, (void *)(uintptr_t)ms))
        grace_main((void *)(uintptr_t)ms);
    else
        pthread_detach(thread);
}

bool votes_hold(const struct kd_message *m, uint64_t container, uint64_t page)
{
    if (!votes_held(container, page)) return false;
    if (blocked_count == blocked_room) {
        unsigned room = blocked_room ? 2 * blocked_room : 16;
        struct kd_message *larger = realloc(blocked, room * sizeof(*larger));
        if (!larger) {
            kd_object_fail((int)m->word[5], m->word[1], 1, ENOMEM);
            return true;
        }
        blocked = larger;
        blocked_room = room;
    }
    blocked[blocked_count++] = *m;
    return true;
}

bool votes_held(uint64_t container, uint64_t page)
{
    return grace || (orphans && store_page_prepared(server.store, container, page));
}

/* outcome_fill, inside the gate, fills the group that commits it. */
static int outcome_fill(struct group *g, const struct vote *v)
{
    struct store_doubt d;
    struct batch b;
    int r = store_doubt_find(server.store, &v->id, &d);
    if (r == 0) r = ops_make(&d, &b);
    if (r < 0) return r;
    r = group_txn_begin(g, 0);
    if (r == 0) r = store_txn_decided(g->disk, &v->id, NULL, 0);
    for (unsigned i = 0; r == 0 && i < b.op_count; i++) {
        r = store_txn_op(g->disk, &b.ops[i]);
        if (r == 0 && *(b.ops[i].name ? b.ops[i].name : "")) r = group_name_add(g, &b.ops[i]);
    }
    if (r == 0) r = group_freed_add(g, b.freed, b.freed_count);
    g->voted = true;
    if (r == 0)
        r = quota_txn_end(g, &b, &g->position[0]);
    else
        store_txn_cancel(g->disk);
    batch_release(&b);
    if (r < 0 || v->orphan) return r;
    g->publish[g->count++] = (struct kd_publish){.view = v->view, .token = v->token};
    g->copies = v->pages;
    return 0;
}

/* outcome_write makes one try to write an outcome. */
static int outcome_write(struct vote *v, bool commits)
{
    struct group *g;
    gate_enter(true);                   /* nothing about it is in the air */
    int r = group_begin(&g);
    if (r == 0) {
        /* The outcome is durable here, and where it was decided: VO5. */
        if (v->lazy && !v->orphan) g->lazy_us = options.lazy_ms * 1000;
        r = commits ? outcome_fill(g, v) : store_undo(g->disk, &v->id);
        if (r == 0) r = group_launch(g);
        else group_cancel(g);
    }
    gate_leave();
    if (r == 0) r = group_land(g);
    return r;
}

/* vote_end ends a vote: its pages, and its place, are free. */
static void vote_end(struct vote *v, bool commits)
{
    if (!commits && !v->orphan) kd_txn_refuse(v->view, v->token, ECANCELED);
    orphans -= v->orphan;
    watch_all_change();
    v->used = v->prepared = false;
    doubts_tell(0, NULL);
    blocked_go();
}

/* shown_all_the_same: the log takes no more, but vote and decision are durable: the next life
 * commits it. Those who wait for it, and snapshots, need not wait for that (VO8). */
static void shown_all_the_same(const struct vote *v)
{
    struct kd_publish p = {.view = v->view, .token = v->token, .csn = ++server.last_csn};
    int r = (int)kd_txn_publish(&p, 1, 0);
    say("the store shows a transaction that is committed, and that its log cannot take: its next "
        "start writes it (%s)", r < 0 ? strerror(-r) : "published");
}

int vote_outcome(struct vote *v, bool commits)
{
    int r;
    v->deciding = true;
    for (int i = 0;; i++) {
        r = server.fenced ? server.fenced : outcome_write(v, commits);
        if (r != -EAGAIN || i == VOTE_TRIES || checkpoint_wait() < 0) break;
        renew_due();            /* what is due may be in its way, and the committer waits */
    }
    v->deciding = false;
    if (r == 0) vote_end(v, commits);
    else if (server.fenced && !v->orphan && commits) shown_all_the_same(v);
    else if (server.fenced && !v->orphan) kd_txn_refuse(v->view, v->token, ECANCELED);
    return r;
}

int vote_decide(const struct store_txn_id *id, bool commits, bool lazy)
{
    struct vote *v = vote_of(id);
    int r = v ? v->prepared && !v->deciding ? 0 : -EBUSY : -ENOENT;
    if (r == -ENOENT && !commits) {     /* the id's COMMIT may still come */
        r = 0;
        undone_add(id);
        vote_told(id, -ECANCELED);
    }
    if (r == 0 && v) v->lazy |= lazy;
    return r < 0 || !v ? r : vote_outcome(v, commits);
}

int decision_forget(const struct store_txn_id *id)
{
    struct group *g;
    gate_enter(true);
    int r = group_begin(&g);
    if (r == 0) {
        r = store_forget(g->disk, id);
        if (r == 0) r = group_launch(g);
        else group_cancel(g);
    }
    gate_leave();
    return r == 0 ? group_land(g) : r;
}

/* outcome_ask: what is known of it, when no group is in the air; nothing: undone, for good. */
int outcome_ask(const struct store_txn_id *id, uint64_t *outcome)
{
    struct store_doubt d;
    int r = 0;
    gate_enter(true);
    if (server.fenced) r = server.fenced;
    else if (store_doubt_find(server.store, id, &d) == 0)
        *outcome = d.prepared ? WIRE_IN_DOUBT : WIRE_COMMITTED;
    else undone_add(id);                                                        /* VO3 */
    gate_leave();
    return r;
}

/* ---- written again, as the log goes on; by the committer ---- */

void votes_renew(void)
{
    server_lock();
    renew_due();
    server_unlock();
}

void votes_start(void)
{
    struct store_doubt d;
    struct batch b;
    uint64_t cursor = 0;
    while (store_doubt_next(server.store, &cursor, &d) == 0) {
        struct vote *v = d.prepared ? vote_free() : NULL;
        if (!d.prepared) decision_note(VOTES_EARLIER, &d.id);
        if (!v) continue;
        *v = (struct vote){.id = d.id, .used = true, .prepared = true, .orphan = true,
                           .site = VOTES_EARLIER, .pages = d.pages,
                           .bytes = log_bytes(d.pages, d.bytes),
                           .begun_us = disk_clock.microseconds(NULL)};
        memcpy(v->coordinator, d.coordinator, sizeof(v->coordinator));
        orphans++;
        int r = ops_make(&d, &b);
        if (r == 0) r = store_doubt_claims(server.store, &d.id, b.ops, b.op_count);
        if (r < 0) say("no room is promised for what a vote claims: %s", strerror(-r));
        else batch_release(&b);
    }
    if (orphans) say("%u transactions are prepared and wait for the word of others", orphans);
}
