/*
 * index.c - server-kept indexes: B+-trees whose pages clients map read-only, and we change.
 *
 *     committer                           the index thread, in a view of its own
 *     index_change   of each commit  ---> begins a transaction; writes heads, nodes
 *     index_commit   the group is full -> writes the ends; KD_TXN_COMMIT, which asks ...
 *     ... the committer (index_commit_port): its differences end the group, as a transaction
 *     group_publish  all of them, in one publication --------> it goes on, and is idle
 *
 * So what a commit changes in indexes is durable with it, seen with it, and nothing of it is in a
 * page before. Changes are made when a commit is added to a group; if that commit is refused, the
 * transaction is undone and those of the commits before it are made again. The structures' own tree
 * does the work (tree.c), on pages of the container that stand for nodes.
 *
 * Invariants
 *   KX1  Only this thread writes to indexes, only inside the gate, and has one transaction at a
 *       time: the next waits until it has been published. So no two wait for each other.
 *   KX2  A transaction writes the head of an index before all else there, and the ends of all
 *       behind all else (index_format.h).
 *   KX3  A node is used only after it was found sound: what a disk says is input.
 *   KX4  Only job_do() touches the pages, and the kernel ends a transaction in the midst of
 *        something only in a touch (AB5): so landed() finds job_do()'s frame.
 *
 * The thread takes server.lock never: the pages that it touches may have to be brought.
 */
#include "group.h"

#include <assert.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "index_format.h"
#include "structures/tree_private.h"

enum { PAGES_MAX = 256, PAGES_MIN = 16,     /* of a group */
       GROUP_CHANGES = 4 * INDEX_OPS_MAX, GROUP_KEY_BYTES = 512 << 10, MEMBERS_BYTES = 4 << 20,
       STACK_BYTES = 16384, INDEXES_TOUCHED = 64, SPARE = 0xffff };

struct index {
    int locks;                          /* the object whose pages are locks of keys */
    const struct ps_type *type;
    struct index_head *head;            /* in the store: touched by the thread alone */
    struct index_end *end;
    uint64_t pages_max;
    uint64_t touched_by;                /* the number of a transaction */
    uint8_t sound[];                    /* a bit for each page that was checked */
};

/* `changes`: what the group's commits want, in order; the committer's while the thread is idle. */
static struct index_op *changes;
static unsigned change_count;
static uint8_t *keys;
static size_t key_bytes;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;        /* for these: */
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static enum job { NOTHING, CHANGE, END, COMMIT, ABORT } job;
static unsigned job_from;               /* CHANGE: those from here on */
static int job_result;

/* These are the thread's. */
static jmp_buf out;
static bool at_work;                    /* in job_do() */
static int view;
static bool active;
static struct container *touched[INDEXES_TOUCHED];
static unsigned touched_count;
static uint64_t number = 1;             /* of the transaction */
static char stack[STACK_BYTES] __attribute__((aligned(16)));

/* ---- pages that are nodes ---- */

static uint64_t page_number(const struct index *x, const void *node)
{
    return ((uintptr_t)node - (uintptr_t)x->head) / PAGE_BYTES;
}

static void *page_at(const struct index *x, uint64_t page)
{
    return (uint8_t *)x->head + page * PAGE_BYTES;
}

static struct ps_node *node_at(const struct index *x, uint64_t page)
{
    return page_at(x, page);
}

static void *node_new(void *index, size_t bytes, const void *near)
{
    struct index *x = index;
    struct index_head *h = x->head;
    uint64_t page = h->spare;
    (void)near;
    if (page && (page < INDEX_FIRST || page >= h->pages || node_at(x, page)->level != SPARE)) {
        errno = EUCLEAN;
        return NULL;
    }
    if (!page && h->pages >= x->pages_max) {
        errno = ENOSPC;
        return NULL;
    }
    if (page)
        h->spare = (uintptr_t)node_at(x, page)->first;
    else
        page = h->pages++;
    x->sound[page / 8] |= (uint8_t)(1u << page % 8);
    return memset(page_at(x, page), 0, bytes);
}

/* node_free: a free page's level tells it from all others: none in use is taken, nor one twice. */
static void node_free(void *index, void *node)
{
    struct index *x = index;
    *(struct ps_node *)node =
        (struct ps_node){ .level = SPARE, .first = (void *)(uintptr_t)x->head->spare };
    x->head->spare = page_number(x, node);
}

/* ---- KX3 ---- */

/* struct bounds: what a node's keys are between: from <= key < to; no bytes: any. */
struct bounds { struct bytes from, to; };

/* bounds_below gives a child's bounds; branches have no prefix, so keys are read in place. */
static struct bounds bounds_below(const struct ps_tree_access *a, const struct ps_node *n,
                                  unsigned child, struct bounds b)
{
    if (child > 0) b.from = node_suffix(&a->base, n, child - 1);
    if (child < n->count) b.to = node_suffix(&a->base, n, child);
    return b;
}

/* node_within: a sound node's keys are in order, so two of them tell. No node with keys passes in
 * two places, and all keys of two neighbours share what the first and the last of them do: leaves
 * are joined by that. */
static bool node_within(const struct ps_tree_access *a, const struct ps_node *n, struct bounds b)
{
    _Alignas(16) uint8_t key[KEY_COPY];
    if (n->count == 0) return n->level > 0 || (!b.from.at && !b.to.at);
    struct bytes first = node_key(&a->base, n, 0, key);
    if (b.from.at && node_order(&a->base, b.from, first) > 0) return false;
    struct bytes last = node_key(&a->base, n, n->count - 1u, key);
    return !b.to.at || node_order(&a->base, last, b.to) < 0;
}

static bool node_sound(const struct ps_tree_access *a, struct index *x, const struct ps_node *n,
                       unsigned level, struct bounds b)
{
    const struct bytes none = {0};
    uint64_t page = page_number(x, n);
    if ((uintptr_t)n % PAGE_BYTES || page < INDEX_FIRST || page >= x->head->pages ||
        n->level != level)
        return false;
    if (!(x->sound[page / 8] >> page % 8 & 1) &&
        (node_check(&a->base, n, none, none, 0) || (level && n->prefix)))
        return false;
    x->sound[page / 8] |= (uint8_t)(1u << page % 8);
    return node_within(a, n, b);
}

/* edge_sound looks at a neighbour of the way, which may be joined with a node of it, and then their
 * children where they meet, and so on. */
static bool edge_sound(const struct ps_tree_access *a, struct index *x, const struct ps_node *n,
                       bool last, struct bounds b)
{
    for (unsigned level = n->level; level > 0; level--) {
        unsigned i = last ? n->count : 0;
        b = bounds_below(a, n, i, b);
        n = node_child(n, i);
        if (!node_sound(a, x, n, level - 1, b)) return false;
    }
    return true;
}

static bool neighbours_sound(const struct ps_tree_access *a, struct index *x,
                             const struct ps_node *parent, unsigned at, struct bounds of_parent)
{
    for (unsigned i = at ? at - 1 : 0; i <= at + 1 && i <= parent->count; i++) {
        const struct ps_node *n = node_child(parent, i);
        struct bounds b = bounds_below(a, parent, i, of_parent);
        if (!node_sound(a, x, n, parent->level - 1u, b)) return false;
        if (!edge_sound(a, x, n, true, b) || !edge_sound(a, x, n, false, b)) return false;
    }
    return true;
}

/* way_sound: is all sound that a change of this key may touch? */
static bool way_sound(const struct ps_tree_access *a, struct index *x, struct bytes key)
{
    const struct ps_tree *tree = &x->head->tree;
    const struct ps_node *n = tree->root;
    struct bounds b = {0};
    if (x->head->pages > x->pages_max || tree->height == 0 || tree->height >= PS_TREE_LEVELS ||
        tree->spare || tree->head.flags || tree->head.node_bytes != INDEX_NODE_BYTES ||
        !node_sound(a, x, n, tree->height - 1u, b))
        return false;
    while (n->level > 0) {
        unsigned at = node_search(&a->base, n, key, NODE_UPPER);
        if (!neighbours_sound(a, x, n, at, b)) return false;
        b = bounds_below(a, n, at, b);
        n = node_child(n, at);
    }
    return true;
}

/* ---- a change ---- */

static struct ps_instance instance_of(struct index *x)
{
    return (struct ps_instance){ .head = &x->head->tree.head,
                                 .memory = {.take = node_new, .give = node_free, .arg = x},
                                 .name = NULL };
}

/* index_touch: a transaction's first touch of this index (KX2). 0, -ENOBUFS: in the next group. */
static int index_touch(struct container *c)
{
    struct index *x = c->index;
    if (x->touched_by == number) return 0;
    if (touched_count == INDEXES_TOUCHED) return -ENOBUFS;
    (void)*(volatile uint64_t *)&x->end->stamp; /* if that fails, then not all of the group does */
    x->head->stamp++;
    x->touched_by = number;
    touched[touched_count++] = c;
    if (x->head->tree.head.fingerprint) return 0;
    struct ps_instance i = instance_of(x);
    x->head->pages = INDEX_FIRST;
    x->head->spare = 0;
    return ps_tree_set_up(&i, x->type);
}

static int change_make(const struct index_op *op)
{
    struct index *x = op->container->index;
    int r = index_touch(op->container);
    if (r < 0) return r;
    struct ps_instance i = instance_of(x);
    struct ps_tree_access a;
    ps_access_open(&a.base, &i, x->type, PS_CHANGE);
    if (a.base.error) return -EUCLEAN;
    if (!way_sound(&a, x, node_probe(&a.base, op->key))) return -EUCLEAN;
    if (op->set) return ps_tree_insert(&a, op->key, &op->value, 1);
    r = ps_tree_remove(&a, op->key);
    return r == -ENOENT ? 0 : r;
}

/* ---- the thread ---- */

/* landed is where the thread goes on when the kernel aborted the transaction. */
static _Noreturn void landed(long reason)
{
    __asm__ volatile("cld");
    assert(at_work);                                                            /* KX4 */
    active = false;
    longjmp(out, (int)reason);
}

/* touched_forget looks at no index: once a group is published they may be deleted. */
static void touched_forget(void)
{
    touched_count = 0;
    number++;
}

/* pages_most: pages that it may change: a part of the log that is not lent (credits_update). */
static uint32_t pages_most(void)
{
    uint64_t most = server.log_bytes / 16 / CREDIT_BYTES;
    return (uint32_t)(most < PAGES_MIN ? PAGES_MIN : most > PAGES_MAX ? PAGES_MAX : most);
}

static int txn_begin(void)
{
    struct kd_begin b = { .entry = (uintptr_t)landed,
                          .stack = (uintptr_t)stack + STACK_BYTES - 8,
                          .pages_max = pages_most() };
    int r = (int)KD1(KD_TXN_BEGIN, &b);
    active = r == 0;
    return r;
}

static void txn_abort(void)
{
    if (active) (void)KD1(KD_TXN_ABORT, ECANCELED);
    active = false;
    touched_forget();
}

static int changes_make(unsigned from)
{
    int r = active ? 0 : txn_begin();
    for (unsigned i = from; r == 0 && i < change_count; i++) r = change_make(&changes[i]);
    return r;
}

static int ends_make(void)
{
    for (unsigned i = 0; i < touched_count; i++)
        touched[i]->index->end->stamp = touched[i]->index->head->stamp;
    return 0;
}

static int txn_commit(void)
{
    struct kd_commit k = {.port = -1};
    touched_forget(); /* once it is published, the containers may go before this thread runs */
    int r = active ? (int)KD1(KD_TXN_COMMIT, &k) : -ENOENT;
    active = false;
    return r;
}

static int job_do(enum job what, unsigned from)
{
    int reason = setjmp(out);
    at_work = true;
    int r = reason ? -reason
            : what == CHANGE ? changes_make(from)
            : what == END    ? ends_make()
            : what == COMMIT ? txn_commit()
                             : -ECANCELED;
    at_work = false;
    if (r < 0) txn_abort();
    return r;
}

void *index_main(void *unused)
{
    (void)unused;
    view = (int)kd_system(KD_VIEW_CREATE, 0, 0, 0, 0);
    int entered = view < 0 ? view : (int)KD1(KD_VIEW_ENTER, view);
    pthread_mutex_lock(&lock);
    for (;;) {
        while (job == NOTHING) pthread_cond_wait(&moved, &lock);
        enum job what = job;
        unsigned from = job_from;
        pthread_mutex_unlock(&lock);
        int r = entered < 0 ? entered : job_do(what, from);
        pthread_mutex_lock(&lock);
        job_result = r;
        job = NOTHING;
        /* The committer waits for a COMMIT that will not come, or will hear of no other; it looks
         * at `job` then. */
        if (what == COMMIT) kd_notify(server.index_commit_port, 1);
        pthread_cond_broadcast(&moved);
    }
}

/* ---- the committer ---- */

static void job_wait(void)
{
    while (job != NOTHING) pthread_cond_wait(&moved, &lock);
}

static void job_give(enum job what, unsigned from)
{
    job_wait();
    job = what;
    job_from = from;
    pthread_cond_broadcast(&moved);
}

static int job_run(enum job what, unsigned from)
{
    server_unlock();
    pthread_mutex_lock(&lock);
    job_give(what, from);
    job_wait();
    int r = job_result;
    pthread_mutex_unlock(&lock);
    server_lock();
    return r;
}

int index_room(const struct group *g, uint64_t bytes)
{
    uint64_t most = server.log_bytes / 2, own = bytes + (pages_most() + 16) * CREDIT_BYTES;
    if (most > MEMBERS_BYTES) most = MEMBERS_BYTES;
    if (g->bytes + own > most) return g->count ? -ENOBUFS : -E2BIG;
    if (store_log_free(server.store) < g->bytes + own) return g->count ? -ENOBUFS : -EAGAIN;
    pthread_mutex_lock(&lock);
    bool busy = job != NOTHING;
    pthread_mutex_unlock(&lock);
    if (!busy) return 0;
    if (g->count) return -ENOBUFS;
    server_unlock();
    pthread_mutex_lock(&lock);
    job_wait();                         /* until the group in the air is published (KX1) */
    pthread_mutex_unlock(&lock);
    server_lock();
    return 0;
}

/* changes_keep copies changes, which outlive the batch: they may have to be made again. */
static int changes_keep(const struct index_op *ops, unsigned count)
{
    if (change_count + count > GROUP_CHANGES) return -ENOBUFS;
    for (unsigned i = 0; i < count; i++) {
        size_t at = (key_bytes + 7) & ~(size_t)7;
        if (at + ops[i].length + 1 > GROUP_KEY_BYTES) return -ENOBUFS;
        memcpy(keys + at, ops[i].key, ops[i].length + 1);
        changes[change_count + i] = ops[i];
        changes[change_count + i].key = keys + at;
        key_bytes = at + ops[i].length + 1;
    }
    change_count += count;
    return 0;
}

int index_take_back(struct group *g, unsigned count)
{
    g->changes = change_count = count;
    job_run(ABORT, 0);
    return count == 0 || job_run(CHANGE, 0) == 0 ? 0 : -ECANCELED;
}

int index_change(struct group *g, const struct index_op *ops, unsigned count)
{
    unsigned before = g->changes;
    if (before == 0) change_count = key_bytes = 0;
    size_t bytes = key_bytes;
    int r = changes_keep(ops, count);
    if (r == 0) r = job_run(CHANGE, before);
    if (r == 0) {
        g->changes = change_count;
        return 0;
    }
    key_bytes = bytes;
    change_count = before;
    if (before && index_take_back(g, before) < 0) return -ECANCELED;
    return r != -E2BIG && r != -ENOBUFS ? r : before ? -ENOBUFS : -EFBIG;
}

int index_commit(struct kd_message *m)
{
    int r = job_run(END, 0);
    if (r < 0) return r;
    server_unlock();
    pthread_mutex_lock(&lock);
    job_give(COMMIT, 0);
    pthread_mutex_unlock(&lock);
    bool asked = false, over = false;
    while (!asked && !over) { /* a notice of the one before may still be there */
        *m = (struct kd_message){.handle = -1};
        if (kd_receive(server.index_commit_port, m, -1) < 0) break;
        asked = m->kind == (uint32_t)KD_MSG_COMMIT;
        pthread_mutex_lock(&lock);
        over = !asked && job == NOTHING;
        pthread_mutex_unlock(&lock);
    }
    server_lock();
    return asked ? 0 : -ENOMEM;
}

void index_cancel(struct group *g)
{
    if (g->changes) job_run(ABORT, 0);
    g->changes = 0;
}

/* ---- kernel objects ---- */

bool index_key_ok(const struct container *c, const char *key, uint64_t length)
{
    if (c->index->type->key_bytes) return length == c->index->type->key_bytes;
    return length <= INDEX_KEY_MAX && !memchr(key, 0, length);
}

#define LOCKS_SEGMENT 15u               /* of the cookie; segments are fewer */
_Static_assert(STORE_SEGMENT_MAX <= LOCKS_SEGMENT, "one more fits the cookie");

bool index_lock_page(uint64_t cookie)
{
    return (cookie & 15) == LOCKS_SEGMENT;
}

void index_lock_clean(uint64_t cookie, uint64_t page)
{
    const struct container *c = container_by_id(cookie >> 4);
    if (c && c->index) kd_object_cleaned(c->index->locks, page, KD_CSN_ANY);
}

bool index_lock_request(const struct kd_message *m)
{
    if (!index_lock_page(m->word[0])) return false;
    server_lock();
    struct container *c = container_by_id(m->word[0] >> 4);
    bool is = c && c->index;
    if (is) c->busy++;
    uint64_t csn = server.last_csn;     /* of a transaction that spilled it, at most */
    server_unlock();
    if (!is) return true;
    struct kd_supply s = { .object = c->index->locks, .source = KD_SUPPLY_ZERO,
                           .rights = KD_READ | KD_WRITE, .page = m->word[1], .count = 1,
                           .csn = csn };
    if (kd_object_supply(&s) == -ENOMEM)
        kd_object_fail(c->index->locks, m->word[1], 1, ENOMEM);
    server_lock();
    c->busy--;
    pthread_cond_broadcast(&server.changed);
    server_unlock();
    return true;
}

static long locks_make(const struct container *c, uint64_t base)
{
    struct kd_object_create o = { .port = server.port, .commit_port = server.commit_port,
                                  .flags = KD_OBJECT_TRANSACTIONAL | KD_OBJECT_SPILLS,
                                  .cookie = cookie_of(c->id, LOCKS_SEGMENT), .base = base,
                                  .pages = INDEX_LOCKS };
    memcpy(o.name, c->name, sizeof(o.name));
    long object = kd_object_create(&o);
    if (object >= 0) kd_object_encoder((int)object, KD_ENCODER_RANGES); /* no byte is looked at */
    return object;
}

static long pages_make(const struct container *c, uint64_t base, uint64_t pages)
{
    struct kd_object_create o = { .port = server.port, .commit_port = server.index_commit_port,
                                  .flags = KD_OBJECT_TRANSACTIONAL | KD_OBJECT_UNLOCKED,
                                  .cookie = cookie_of(c->id, 0), .base = base, .pages = pages };
    memcpy(o.name, c->name, sizeof(o.name));
    return kd_object_create(&o);
}

int index_make(struct container *c, int kind, uint64_t base, uint64_t pages)
{
    uint64_t most = INDEX_PAGES(pages);
    struct index *x = calloc(1, sizeof(*x) + most / 8);
    long locks = x ? locks_make(c, base + most * PAGE_BYTES) : -ENOMEM;
    long object = locks < 0 ? locks : pages_make(c, base, most);
    long r = object < 0 ? object
                        : kd_space_attach((uint64_t)getpid(), (int)object,
                                          KD_RIGHT_READ | KD_RIGHT_WRITE);
    if (r < 0) {
        if (object >= 0) kd_object_destroy((int)object, false);
        if (locks >= 0) kd_object_destroy((int)locks, false);
        free(x);
        return (int)r;
    }
    x->locks = (int)locks;
    x->type = &index_types[kind];
    x->head = (struct index_head *)(uintptr_t)base;
    x->end = page_at(x, INDEX_END);
    x->pages_max = most;
    c->index = x;
    c->segment[0].object = (int)object;
    c->segment[0].base = base;
    c->segment[0].pages = most;
    c->segment_count = 1;
    server.objects += 2;
    return 0;
}

int index_destroy(struct container *c, bool if_unused)
{
    int object = c->segment[0].object;
    kd_space_detach((uint64_t)getpid(), object);
    int r = (int)kd_object_destroy(object, if_unused);
    if (r == 0) r = (int)kd_object_destroy(c->index->locks, false); /* nobody can be attached */
    if (r < 0) {
        kd_space_attach((uint64_t)getpid(), object, KD_RIGHT_READ | KD_RIGHT_WRITE);
        return r;
    }
    free(c->index);
    c->index = NULL;
    c->segment_count = 0;
    server.objects -= 2;
    return 0;
}

int index_attach(const struct container *c, uint64_t process, uint32_t rights)
{
    int r = (int)kd_space_attach(process, c->segment[0].object, KD_RIGHT_READ);
    return r < 0 ? r : (int)kd_space_attach(process, c->index->locks, rights);
}

void index_detach(const struct container *c, uint64_t process)
{
    kd_space_detach(process, c->segment[0].object);
    kd_space_detach(process, c->index->locks);
}

int index_init(void)
{
    changes = malloc(GROUP_CHANGES * sizeof(*changes));
    keys = malloc(GROUP_KEY_BYTES);
    return changes && keys ? 0 : -ENOMEM;
}
