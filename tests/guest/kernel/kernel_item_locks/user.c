/* user.c - locks of items without a call, and the actors. */
#include "locks.h"

struct kd_item_table table;
static __thread unsigned my_view;
static __thread struct { struct kd_item_entry *e; bool twice; } list[64];
static __thread unsigned listed;

long table_map(uint64_t at)
{
    struct kd_item_table t;
    long e = kd_call3(KD_ITEM_MAP, (long)at, (long)&t, 0);
    if (e)
        return e;
    my_view = t.view;
    if (at - base < PAGES * KD_PAGE_BYTES)
        table = t;
    return 0;
}

struct kd_item_entry *entry_of(uint64_t name)
{
    return &table.entries[kd_item_entry(name, table.bits)];
}

static uint64_t my_bit(void) { return 1ull << my_view % 64; }

static uint32_t own_modes(const struct kd_item_entry *e)
{
    uint32_t m = 0;
    for (unsigned k = 0; k < KD_ITEM_MODES; k++)
        m |= (uint32_t)((e->holders[k][my_view / 64] & my_bit()) != 0) << k;
    return m;
}

static void note(struct kd_item_entry *e)
{
    for (unsigned i = 0; i < listed; i++)
        if (list[i].e == e)
            return;
    list[listed].twice = false;
    list[listed++].e = e;
}

static void twice(const struct kd_item_entry *e)
{
    for (unsigned i = 0; i < listed; i++)
        list[i].twice |= list[i].e == e;
}

static bool meets(const struct kd_item_entry *e, unsigned mode)
{
    uint32_t against = kd_item_against(mode, table.own);
    for (unsigned k = 0; k < KD_ITEM_MODES; k++)
        for (unsigned w = 0; w < 2 && against >> k & 1; w++)
            if (__atomic_load_n(&e->holders[k][w], __ATOMIC_SEQ_CST) &
                ~(w == my_view / 64 ? my_bit() : 0))
                return true;
    return false;
}

long item_lock(uint64_t name, unsigned how)
{
    struct kd_item_entry *e = entry_of(name);
    unsigned mode = how & 7, asks = how & (7 | KD_ITEM_NOW);
    uint32_t own = own_modes(e);
    if (own)
        twice(e);
    if (own >> mode & 1 && !(how & CALLS))
        return 0;
    note(e);
    if (how & CALLS ||
        (!own && !(how & BARGES) && __atomic_load_n(&e->waiting, __ATOMIC_SEQ_CST)))
        return kd_call3(KD_ITEM_LOCK, (long)base, (long)name, asks);
    __atomic_fetch_or(&e->holders[mode][my_view / 64], my_bit(), __ATOMIC_SEQ_CST);
    return meets(e, mode) ? kd_call3(KD_ITEM_LOCK, (long)base, (long)name, asks) : 0;
}

static void clear(struct kd_item_entry *e)
{
    for (unsigned k = 0; k < KD_ITEM_MODES; k++)
        if (e->holders[k][my_view / 64] & my_bit())
            __atomic_fetch_and(&e->holders[k][my_view / 64], ~my_bit(), __ATOMIC_SEQ_CST);
}

bool item_leave(uint64_t name)
{
    struct kd_item_entry *e = entry_of(name);
    for (unsigned i = 0; i < listed; i++)
        if (list[i].e == e && list[i].twice)
            return false;
    clear(e);
    if (__atomic_load_n(&e->waiting, __ATOMIC_SEQ_CST))
        kd_call3(KD_ITEM_WAKE, (long)base, (long)name, 0);
    return true;
}

void items_over(void)
{
    while (listed)
        clear(list[--listed].e);
}

long stale_bits(void)
{
    static struct kd_view_info all[KD_VIEW_MAX];
    uint64_t runs[2] = {0, 0};
    long n = kd_call3(KD_VIEW_LIST, (long)all, KD_VIEW_MAX, 0), stale = 0;
    for (long i = 0; i < n; i++)
        if (all[i].state == 2 || all[i].state == 3)
            runs[all[i].view / 64] |= 1ull << all[i].view % 64;
    for (uint64_t i = 0; i < 1ull << table.bits; i++)
        for (unsigned k = 0; k < KD_ITEM_MODES * 2; k++)
            stale += (table.entries[i].holders[k / 2][k % 2] & ~runs[k % 2]) != 0;
    return stale;
}

long all_bits(void)
{
    long n = 0;
    for (uint64_t i = 0; i < 1ull << table.bits; i++)
        for (unsigned k = 0; k < KD_ITEM_MODES * 2; k++)
            n += __builtin_popcountll(table.entries[i].holders[k / 2][k % 2]);
    return n;
}

/* ---- actors ---- */

enum what { OPEN, LOCK, LEAVE, COMMIT, ABORT, LOAD, STORE, LOCK_ALL };
static struct actor {
    struct context context;
    _Atomic bool started, busy;
    enum what what;
    uint64_t at;
    unsigned how;
    struct kd_begin begin;
    long result;
    unsigned view;
    pthread_mutex_t mutex;
    pthread_cond_t told;
} actors[ACTORS];

static long act(struct actor *a)
{
    struct kd_commit k = {.port = -1};
    long e;
    switch (a->what) {
    case OPEN: return txn_open(&a->context, a->begin);
    case LOCK:
        e = item_lock(a->at, a->how);
        if (e && e != -EBUSY)
            items_over();
        return e;
    case LEAVE: return !item_leave(a->at);
    case LOAD: return (long)(*(volatile uint64_t *)a->at & 0);
    case LOCK_ALL: return kd_call3(KD_TXN_LOCK, (long)a->at, a->how, 0);
    case STORE:
        ++*(volatile uint64_t *)a->at;
        return kd_call3(KD_TXN_DECLARE, (long)&(struct kd_range){a->at, 8}, 1, 0);
    case COMMIT: e = kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0); break;
    default: e = kd_call3(KD_TXN_ABORT, 1, 0, 0);
    }
    items_over();
    return e;
}

static void *actor(void *of)
{
    struct actor *a = of;
    in_view(&a->context);
    table_map(base);
    a->view = my_view;
    a->started = true;
    for (;;) {
        pthread_mutex_lock(&a->mutex);
        while (!a->busy)
            pthread_cond_wait(&a->told, &a->mutex);
        pthread_mutex_unlock(&a->mutex);
        int reason = setjmp(a->context.env);
        if (reason)
            items_over();
        a->result = reason ? -reason : act(a);
        __atomic_store_n(&a->busy, false, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

struct kd_view_info shown(int n)
{
    static struct kd_view_info all[KD_VIEW_MAX];
    long count = kd_call3(KD_VIEW_LIST, (long)all, KD_VIEW_MAX, 0);
    for (long i = 0; i < count; i++)
        if (all[i].view == actors[n].view)
            return all[i];
    return (struct kd_view_info){0};
}

long now_is(int n)
{
    return __atomic_load_n(&actors[n].busy, __ATOMIC_SEQ_CST) ? WAITS : actors[n].result;
}

long ended(int n)
{
    while (now_is(n) == WAITS && actors[n].busy)
        pause_ms(1);
    return actors[n].result;
}

long still(int n)
{
    pause_ms(3);
    return now_is(n);
}

/* Does it wait for another transaction, or for a commit that is held? */
static bool stands(int n)
{
    struct kd_view_info v = shown(n);
    bool in_queue = v.item_mode || v.page || v.container;
    return in_queue ? (v.waits[0] | v.waits[1]) && !v.doom : v.state == 3 && held_commits;
}

static void tell(int n, enum what what, uint64_t at, unsigned how)
{
    struct actor *a = &actors[n];
    pthread_t t;
    if (!a->started) {
        pthread_mutex_init(&a->mutex, NULL);
        pthread_cond_init(&a->told, NULL);
        pthread_create(&t, NULL, actor, a);
        while (!a->started)
            sched_yield();
    }
    a->what = what;
    a->at = at;
    a->how = how;
    pthread_mutex_lock(&a->mutex);
    a->busy = true;
    pthread_cond_signal(&a->told);
    pthread_mutex_unlock(&a->mutex);
}

long settles(int n)
{
    while (!stands(n)) {
        if (now_is(n) != WAITS || !actors[n].busy)
            return actors[n].result;
        sched_yield();
    }
    return WAITS;
}

static long go(int n, enum what what, uint64_t at, unsigned how)
{
    tell(n, what, at, how);
    return settles(n);
}

long opens(int n, struct kd_begin how)
{
    actors[n].begin = how;
    return go(n, OPEN, 0, 0);
}
long locks(int n, uint64_t name, unsigned how) { return go(n, LOCK, name, how); }
void begins_to_lock(int n, uint64_t name, unsigned how) { tell(n, LOCK, name, how); }

uint64_t *bit_of(int n, uint64_t name, unsigned mode, uint64_t *bit)
{
    *bit = 1ull << actors[n].view % 64;
    return &entry_of(name)->holders[mode][actors[n].view / 64];
}

long leaves(int n, uint64_t name) { return go(n, LEAVE, name, 0); }
long commits(int n) { return go(n, COMMIT, 0, 0); }
long aborts(int n) { return go(n, ABORT, 0, 0); }
long loads(int n, uint64_t at) { return go(n, LOAD, at, 0); }
long stores(int n, uint64_t at) { return go(n, STORE, at, 0); }
long locks_all(int n, uint64_t at, unsigned how) { return go(n, LOCK_ALL, at, how); }
