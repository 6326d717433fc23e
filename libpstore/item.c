/*
 * item.c - locks of items, in containers in item mode (PS_LOCK_ITEMS; items.md).
 *
 * Owns      struct items of each ps_tx: which bits of which entries the transaction has set, and
 *           which bytes it means its stores to. The tables of locks as this process maps them.
 * Not here  queues, waits and deaths (the kernel's item_lock.c, in whose items.md the rules are).
 *
 * A lock that nobody stands in the way of is one locked instruction: the view's bit in one of the
 * masks of the item's entry, which all programs that write the container share. Then the masks that
 * conflict are looked at, and another's bit there means a call.
 *
 * Invariants
 *   LI1  An entry's mask is in the list before the bit is set in it: an abort may come at any
 *        instruction, and the list says what to clear (TX2).
 *   LI2  Bits are cleared behind the end of the transaction, which is behind publication, and
 *        before the next one begins: one place, items_ended(). Only ps_release clears before.
 *   LI3  What was stored under a lock is declared when the commit is asked for. A list that is full
 *        is handed over before, with its pages stored to, for only copies have declarations.
 *   LI4  Who has locked the whole container takes no items in it, and declares nothing.
 *   LI5  A lock of the container waits for who has locked keys in it, and the other way round: who
 *        locks a key uses a page first, for which a lock waits; and to write, has IX at the name of
 *        all keys, of which who locks the container shared has S.
 */
#include "item_private.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

_Static_assert((int)PS_S == KD_ITEM_S && (int)PS_U == KD_ITEM_U && (int)PS_X == KD_ITEM_X &&
                   (int)PS_ADD == KD_ITEM_ADD && (int)PS_IS == KD_ITEM_IS &&
                   (int)PS_IX == KD_ITEM_IX && (int)PS_OWN == KD_ITEM_OWN &&
                   (int)PS_NOW == KD_ITEM_NOW,
               "one number means one mode");

/* `users` are transactions of this process that may have bits in tables: while there is one, none
 * is unmapped. */
static _Atomic unsigned users;

/* items_use counts a user; an abort in the middle leaves one too many. */
void items_use(struct items *t)
{
    if (t->used)
        return;
    users++;
    t->range[0].address = ~0ull;
    t->next = t->range + 1;
    __asm__ volatile("" ::: "memory");
    t->used = 1;
}

int items_whole(const struct ps_tx *tx, const ps_container *c)
{
    const struct items *t = &tx->items;
    int i = container_index(c);
    return !c->items || (t->locked >> i & 1 && t->segments[i] == c->segment_count);
}

void items_lock_all(struct ps_tx *tx, const ps_container *c, unsigned segments)
{
    items_use(&tx->items);
    tx->items.segments[container_index(c)] = (uint8_t)segments;
    tx->items.locked |= 1ull << container_index(c);
    tx->items.place.bytes = tx->items.place.stores = 0;
}

/* ---- what is declared ---- */

int items_declare(struct ps_tx *tx)
{
    struct items *t = &tx->items;
    long count = t->used ? t->next - t->range - 1 : 0;
    t->next = t->range + 1;
    return count ? (int)ps_kernel(KD_TXN_DECLARE, (long)(t->range + 1), count, 0) : 0;
}

/* ranges_full makes room (LI3). */
static void ranges_full(struct ps_tx *tx)
{
    struct ps_tx *opened = tx->items.guard.brackets ? guard_open_rare() : NULL;
    for (const struct kd_range *r = tx->items.range + 1; r < tx->items.next; r++)
        for (uint64_t page = PAGE_OF(r->address); page < r->address + r->bytes;
             page += KD_PAGE_BYTES)
            __asm__ volatile("lock orb $0, (%0)" ::"r"(page) : "memory", "cc"); /* IL10 */
    int result = items_declare(tx);
    guard_shut(&opened);
    if (result != 0)
        ps_abort(-result);
}

static void declare(struct ps_tx *tx, uint64_t at, uint64_t bytes)
{
    if (declare_fast(&tx->items, at, bytes))
        return;
    ranges_full(tx);
    declare_fast(&tx->items, at, bytes);
}

void items_store(struct ps_tx *tx, const ps_container *c, uint64_t at, uint64_t bytes)
{
    if (!items_whole(tx, c)) {
        items_use(&tx->items);
        declare(tx, at, bytes);
    }
}

/* ---- tables ---- */

/* table_map learns a segment's table and this view's number, in the view. 0 or -errno. */
static int table_map(struct items *t, struct ps_segment *s)
{
    struct kd_item_table table;
    int result = (int)ps_kernel(KD_ITEM_MAP, (long)s->base, (long)&table, 0);
    if (result != 0)
        return result;
    t->word = table.view / 64;
    t->bit = 1ull << table.view % 64;
    t->others[t->word] = ~t->bit;
    t->others[t->word ^ 1] = ~0ull;
    s->locks = table.entries;            /* two threads may: it is the same */
    s->lock_bits = table.bits;
    return 0;
}

void items_forget(ps_container *c)
{
    for (unsigned i = 0; i < PS_SEGMENTS_MAX; i++) {
        struct ps_segment *s = &c->segment[i];
        struct kd_item_entry *locks = s->locks;
        size_t bytes = sizeof *locks << s->lock_bits;
        s->lock_bits = 0;
        s->locks = NULL;
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (locks && users == 0)          /* else another thread may be about to clear bits */
            munmap(locks, bytes);
    }
}

/* place_set makes the table that `at` is locked by t->place, for the fast path, unless reads are to
 * take U first. stores: the transaction may write there. 0 or -errno. */
static int place_set(struct items *t, ps_container *c, uint64_t at, int stores)
{
    items_use(t);
    struct ps_segment *s = container_segment(c, at);
    /* a program that opened it to read had no table, and may write since */
    int known = s && s->lock_bits && t->bit && (s->locks || !(c->flags & PS_WRITE));
    int result = !s ? -EINVAL : known ? 0 : table_map(t, s);
    if (result != 0)
        return result;
    struct kd_item_entry *locks = s->locks; /* items_forget may come at any moment */
    unsigned bits = s->lock_bits;
    uint64_t bytes = locks && bits && !t->wants ? s->end - s->base : 0;
    stores |= t->place.base == s->base && t->place.stores;
    t->place.guards = c->protection & PS_PROTECT_GUARD;
    stores &= !t->place.guards;           /* each of them is told (guard.c) */
    t->place.bytes = t->place.stores = 0;
    t->place.segment = s;
    t->place.entries = locks;
    t->place.shift = 64 - bits;
    t->place.base = s->base;
    t->place.writes = stores;
    t->place.stored = stores ? 1ull << container_index(c) : 0;
    t->stored |= t->place.stored;
    t->place.bytes = bytes;
    t->place.stores = stores ? bytes : 0;
    return 0;
}

/* place_again takes, at a transaction's first item, the place of the one before, if its table is
 * still the segment's. */
static int place_again(struct ps_tx *tx, uint64_t at)
{
    struct items *t = &tx->items;
    const struct ps_segment *s = t->place.segment;
    if (t->used || !s || tx->kind == TX_READS || t->wants)
        return 0;
    items_use(t);
    if (s->locks != t->place.entries || 64 - s->lock_bits != t->place.shift ||
        s->base != t->place.base || !s->locks ||
        at - s->base >= s->end - s->base)
        return 0;
    t->place.stores = t->place.writes ? s->end - s->base : 0;
    t->place.bytes = s->end - s->base;
    t->stored |= t->place.stored;
    return 1;
}

/* ---- one lock ---- */

/* lock_call asks the kernel, which waits. A deadlock in which a reader wanted more is remembered:
 * its next run takes U at once. 0, -EBUSY, -errno. */
static int lock_call(struct items *t, uint64_t name, int mode, int now, unsigned had)
{
    t->wanted = had & 1 << PS_S && mode != PS_S ? name : 0;
    int result = (int)ps_kernel(KD_ITEM_LOCK, (long)t->place.base, (long)name, mode | now);
    t->wanted = 0;
    return result;
}

static int lock_contended(struct items *t, uint64_t name, int mode, int now)
{
    entry *e = &t->place.entries[entry_of(t, name)];
    volatile uint64_t *mask = t->held[t->count - 1];
    unsigned had = own_modes(e, t) & ~(1u << mode);
    if (had && !(*mask & t->bit)) {       /* who has a mode here goes before those who wait */
        __atomic_fetch_or(mask, t->bit, __ATOMIC_SEQ_CST);
        if (!foreign(e, t, mode))
            return 0;
    }
    int result = lock_call(t, name, mode, now, had);
    if (result != 0) {
        __atomic_fetch_and(mask, ~t->bit, __ATOMIC_SEQ_CST);
        t->count--;
    }
    return result;
}

/* lock_any locks a name: 0; -EBUSY; -ENOLCK: the list is full. Who only reads asks the kernel each
 * time, which clears its bits. */
static int lock_any(struct items *t, uint64_t name, int mode, int now)
{
    if (!t->place.entries)
        return lock_call(t, name, mode, now, 0);
    int how = lock(t, name, mode);
    return how == CONTENDED ? lock_contended(t, name, mode, now) : how == FULL ? -ENOLCK : 0;
}

static int wants_more(const struct items *t, uint64_t name)
{
    for (unsigned i = 0; i < t->wants; i++)
        if (t->want[i] == name)
            return 1;
    return 0;
}

/* ---- what is not done by the table in t->place ---- */

/* page_access locks an item of pages: its pages (IK3). The mode has no PS_NOW. */
static int page_access(ps_container *c, const void *p, size_t bytes, int mode)
{
    if (mode == PS_X || ((mode == PS_OWN || mode == PS_ADD) && ps_declares(c)))
        return ps_touch(p, bytes);
    return mode == PS_U ? (int)ps_kernel(KD_TXN_HINT, (long)ps_home(p), (long)bytes,
                                         KD_HINT_EXCLUSIVE)
                        : 0;
}

/* named_access locks an item in the table of at's segment; -ENOLCK: the list is full. */
static int named_access(struct ps_tx *tx, ps_container *c, uint64_t at, uint64_t name, int mode,
                        int now)
{
    struct items *t = &tx->items;
    if (items_whole(tx, c))
        return 0;                         /* LI4 */
    int result = place_set(t, c, at, mode != PS_S && mode != PS_IS);
    if (mode == PS_S && t->wants && t->place.entries && wants_more(t, name))
        mode = PS_U;
    return result ? result : lock_any(t, name, mode, now);
}

/* item_access locks an item of the container, or all of it: 0 or -errno. */
static int item_access(struct ps_tx *tx, ps_container *c, uint64_t at, uint64_t name, int mode,
                       int now)
{
    int result = named_access(tx, c, at, name, mode, now);
    if (result == -ENOLCK)
        result = segments_lock(c, 0, (c->flags & PS_WRITE ? 0 : KD_LOCK_SHARED) |
                                         (now ? KD_LOCK_NOW : 0));
    return result;
}

/* ---- keys and locks of the container (LI5) ---- */

/* all_keys is the name of all keys: no item's address; a key that has it is only locked coarser. */
static uint64_t all_keys(const ps_container *c)
{
    return c->base | 1;
}

static int key_access(struct ps_tx *tx, ps_container *c, uint64_t key, int mode, int now)
{
    int result = 0;
    if (items_whole(tx, c))
        return 0;
    (void)*(const volatile char *)(uintptr_t)c->base;
    if (mode != PS_S && mode != PS_U && mode != PS_IS)
        result = item_access(tx, c, c->base, all_keys(c), PS_IX, now);
    if (result == 0)
        result = c->flags & PS_WRITE ? item_access(tx, c, c->base, key, mode, now)
                                     : named_access(tx, c, c->base, key, mode, now);
    return result;
}

int items_lock_keys(struct ps_tx *tx, ps_container *c, int now)
{
    return item_access(tx, c, c->base, all_keys(c), PS_S, now ? PS_NOW : 0);
}

int items_lock(struct ps_tx *tx, ps_container *c, uint64_t at, int mode)
{
    return c->items ? item_access(tx, c, at, at, mode & ~PS_NOW, mode & PS_NOW) : 0;
}

int items_lock_whole(struct ps_tx *tx, ps_container *c)
{
    return items_whole(tx, c) ? 0 : container_lock(c, 0, 0);
}

/* access_check checks a call: 0; NOTHING: there is nothing to lock; -errno. */
enum { NOTHING = 1 };
static int access_check(struct ps_tx *tx, ps_container *c, int mode)
{
    if (!tx)
        return -EPERM;
    if (!c || !container_is_open(c) || mode < 0 || (mode & ~PS_NOW) > PS_OWN)
        return -EINVAL;
    if (tx->kind == TX_READS)
        return NOTHING;
    mode &= ~PS_NOW;
    if (mode != PS_S && mode != PS_IS && !tx_writing(c))
        return -errno;
    return 0;
}

static int stores_meant(struct ps_tx *tx, const ps_container *c, uint64_t at, uint64_t bytes)
{
    if (c->items && c->protection & PS_PROTECT_GUARD)
        return guard_access(tx, c, at, bytes);
    items_store(tx, c, at, bytes);
    return 0;
}

static __attribute__((noinline)) void *access_slow(const void *p, size_t bytes, int mode)
{
    struct ps_tx *tx = tx_active();
    uint64_t home = (uintptr_t)ps_home(p);
    ps_container *c = ps_container_of(p);
    int now = mode & PS_NOW, result = access_check(tx, c, mode);
    mode &= ~PS_NOW;
    if (result >= 0 && !container_has(c, home, bytes ? bytes : 1))
        result = -EINVAL;
    if (result == 0)
        result = c->items ? item_access(tx, c, home, home, mode, now)
                          : page_access(c, p, bytes, mode);
    if (result == 0 && STORE >> mode & 1 && bytes)
        result = stores_meant(tx, c, home, bytes);
    errno = result < 0 ? -result : errno;
    return error_told_by(ERROR_OBJECT, result < 0 ? NULL : (void *)(uintptr_t)p);
}

/* ---- what programs call ---- */

/* access_contended goes on with an access that was contended, and is in the list. */
static __attribute__((noinline)) void *access_contended(const void *p, size_t bytes, int modes)
{
    struct ps_tx *tx = tx_current;
    const int mode = modes & ~PS_NOW;
    int result = lock_contended(&tx->items, (uintptr_t)p, mode, modes & PS_NOW);
    errno = result ? -result : errno;
    if (result)
        return error_told_by(ERROR_OBJECT, NULL);
    if (STORE >> mode & 1)
        declare(tx, (uintptr_t)p, bytes);
    return (void *)(uintptr_t)p;
}

/* access_guarded accesses to write, in a container with a guard, a page that the kernel has. */
static __attribute__((noinline)) void *access_guarded(struct ps_tx *tx, const void *p, size_t bytes,
                                                      int mode)
{
    struct items *t = &tx->items;
    uint64_t at = (uintptr_t)p;
    int how = lock(t, at, mode);
    if (how == CONTENDED && !access_contended(p, bytes, mode))
        return NULL;
    if (how == FULL || (how != CONTENDED && !declare_fast(t, at, bytes)))
        return access_slow(p, bytes, mode);
    guard_bracket(&tx->items.guard, at);
    return (void *)at;
}

/* access_first finds a place first: perhaps the last transaction's. */
static __attribute__((noinline)) void *access_first(const void *p, size_t bytes, int mode)
{
    struct ps_tx *tx = tx_active();
    if (tx && tx->items.place.guards && STORE >> mode & 1 &&
        (uintptr_t)p - tx->items.place.base < tx->items.place.bytes &&
        guard_knows(&tx->items.guard, (uintptr_t)p, bytes))
        return access_guarded(tx, p, bytes, mode);
    return tx && place_again(tx, (uintptr_t)p) ? ps_access(p, bytes, mode)
                                               : access_slow(p, bytes, mode);
}

/* access_try is lock, and FULL where ranges are to be declared first. FIRST: nothing was done, as
 * no segment is at hand: to write, one that is written. Else there is a transaction, too. */
enum { FIRST = FULL + 1 };
static inline __attribute__((always_inline)) int access_try(const void *p, size_t bytes, int mode)
{
    struct ps_tx *tx = tx_current;
    uint64_t at = (uintptr_t)p;
    if (!tx)
        return FIRST;
    struct items *t = &tx->items;
    const int reads = mode == PS_S || mode == PS_IS, declares = STORE >> mode & 1;
    uint64_t most = reads ? t->place.bytes : t->place.stores, offset = at - t->place.base;
    if (offset >= most || (declares && bytes - 1 >= most - offset))
        return FIRST;
    int how = lock(t, at, mode);
    return how <= TAKEN && declares && !declare_fast(t, at, bytes) ? FULL : how;
}

/* access_end leaves what access_try has not done, by its result, to other functions as the last
 * step, so no register is saved. */
static inline __attribute__((always_inline)) void *access_end(const void *p, size_t bytes,
                                                              int modes, int how)
{
    return __builtin_expect(how <= TAKEN, 1) ? (void *)(uintptr_t)p
           : how == FIRST                    ? access_first(p, bytes, modes)
           : how == CONTENDED                ? access_contended(p, bytes, modes)
                                             : access_slow(p, bytes, modes);
}

static inline __attribute__((always_inline)) void *access_fast(const void *p, size_t bytes,
                                                               int modes)
{
    return access_end(p, bytes, modes, access_try(p, bytes, modes & ~PS_NOW));
}

/* check_again has the store mend the page of bytes that are not as they were committed, and looks
 * at them again. 0 or -errno. */
static __attribute__((noinline)) int check_again(const void *p, size_t bytes)
{
    const ps_container *c = ps_container_of(p);
    uint64_t home = (uintptr_t)ps_home(p), word[STORE_REQUEST_WORDS] = {2, home};
    if (!c)
        return -EINVAL;
    (void)store_request(c->store, STORE_AUDIT, word, NULL, 0, NULL, NULL);
    return (int)ps_kernel(KD_TXN_HINT, (long)home, (long)bytes, KD_HINT_CHECK);
}

static __attribute__((noinline)) void *access_checked(const void *p, size_t bytes, int mode)
{
    void *at = ps_access(p, bytes, mode);
    int result = at ? (int)ps_kernel(KD_TXN_HINT, (long)p, (long)bytes, KD_HINT_CHECK) : 0;
    if (result == -EIO)
        result = check_again(p, bytes);
    if (result == 0)
        return at;
    errno = -result;
    return error_told_by(ERROR_OBJECT, NULL);
}

void *ps_access(const void *p, size_t bytes, int mode)
{
    if (mode == PS_S)
        return access_fast(p, bytes, PS_S);
    if (mode == PS_X)
        return access_fast(p, bytes, PS_X);
    if (mode == PS_IS)
        return access_fast(p, bytes, PS_IS);
    if (mode == PS_IX)
        return access_fast(p, bytes, PS_IX);
    if (mode == (PS_X | PS_NOW))
        return access_fast(p, bytes, PS_X | PS_NOW);
    if (mode & PS_CHECK)
        return access_checked(p, bytes, mode & ~PS_CHECK);
    return mode == PS_ADD ? access_fast(p, bytes, PS_ADD) : access_slow(p, bytes, mode);
}

static __attribute__((noinline)) int key_slow(ps_container *c, uint64_t key, int mode)
{
    struct ps_tx *tx = tx_active();
    int result = access_check(tx, c, mode);
    if (result == 0 && c->items)
        result = key_access(tx, c, key, mode & ~PS_NOW, mode & PS_NOW);
    return error_told(ERROR_OBJECT, result < 0 ? result : 0);
}

static __attribute__((noinline)) int key_contended(uint64_t key, int mode)
{
    return error_told(ERROR_OBJECT, lock_contended(&tx_current->items, key, mode, 0));
}

static inline __attribute__((always_inline)) int key_fast(ps_container *c, uint64_t key, int mode)
{
    struct ps_tx *tx = tx_current;
    struct items *t = tx ? &tx->items : NULL;
    if (!t || t->place.segment != c->segment ||
        !(mode == PS_S ? t->place.bytes : t->place.stores))
        return key_slow(c, key, mode);
    (void)*(const volatile char *)(uintptr_t)c->base; /* LI5 */
    int how = mode == PS_S ? HELD : lock(t, all_keys(c), PS_IX);
    int result = how == CONTENDED ? key_contended(all_keys(c), PS_IX) : 0;
    if (result != 0)
        return result;
    how = how == FULL ? FULL : lock(t, key, mode);
    return how == CONTENDED ? key_contended(key, mode)
           : how == FULL    ? key_slow(c, key, mode)
                            : 0;
}

int ps_key(ps_container *c, uint64_t key, int mode)
{
    return mode == PS_S   ? key_fast(c, key, PS_S)
           : mode == PS_X ? key_fast(c, key, PS_X)
                          : key_slow(c, key, mode);
}

static __attribute__((noinline)) int add_slowly(int64_t *p, int64_t delta, int how)
{
    if (!access_end(p, sizeof *p, PS_ADD, how))
        return -errno;
    __atomic_fetch_add(p, delta, __ATOMIC_RELAXED);
    if (tx_current->items.guard.brackets) /* it needed none of its own */
        (void)guard_released(&tx_current->items.guard, (uintptr_t)ps_home(p));
    return 0;
}

int ps_add(int64_t *p, int64_t delta)
{
    if ((uintptr_t)p % sizeof *p != 0)
        return -EINVAL;
    int how = access_try(p, sizeof *p, PS_ADD);
    if (__builtin_expect(how > TAKEN || tx_current->items.guard.brackets, 0))
        return add_slowly(p, delta, how);
    __atomic_fetch_add(p, delta, __ATOMIC_RELAXED); /* a publication may come between */
    return 0;
}

static void note_drop(struct items *t, const volatile uint64_t *mask)
{
    for (unsigned i = t->count; i-- > 0;)
        if (t->held[i] == mask) {
            t->held[i] = t->held[t->count - 1];
            t->count--;
            return;
        }
}

int items_release(struct ps_tx *tx, ps_container *c, uint64_t at, uint64_t name)
{
    int result = items_whole(tx, c) ? NOTHING : place_set(&tx->items, c, at, 0);
    if (result != 0)
        return result < 0 ? error_told(ERROR_OBJECT, result) : 0;
    struct items *t = &tx->items;
    if (!t->place.entries)
        return (int)ps_kernel(KD_ITEM_WAKE, (long)t->place.base, (long)name, 0);
    uint64_t number = entry_of(t, name);
    entry *e = &t->place.entries[number];
    unsigned own = own_modes(e, t);
    if (own & STORE)
        return c->protection & PS_PROTECT_GUARD ? 0 : -EINVAL;
    if (own & STAY)
        return -EINVAL;
    if (!own || own & (own - 1) || *again_of(t, number) >> number % 64 & 1)
        return 0;
    volatile uint64_t *mask = &e->holders[__builtin_ctz(own)][t->word];
    __atomic_fetch_and(mask, ~t->bit, __ATOMIC_SEQ_CST);
    note_drop(t, mask);
    return e->waiting ? (int)ps_kernel(KD_ITEM_WAKE, (long)t->place.base, (long)name, 0) : 0;
}

int ps_release(const void *p)
{
    struct ps_tx *tx = tx_active();
    uint64_t name = (uintptr_t)ps_home(p);
    if (tx && guard_released(&tx->items.guard, name))
        return 0;
    ps_container *c = ps_container_of(p);
    int result = access_check(tx, c, PS_S);
    if (result != 0)
        return result < 0 ? error_told(ERROR_OBJECT, result) : 0;
    return items_release(tx, c, name, name);
}

/* ---- the end ---- */

void items_ended(struct ps_tx *tx, int result)
{
    struct items *t = &tx->items;
    for (unsigned i = 0, count = t->count; i < count; i++)
        __atomic_fetch_and(t->held[i], ~t->bit, __ATOMIC_RELEASE);
    t->count = 0;
    if (t->any_again)
        memset(t->again, 0, sizeof t->again);
    t->any_again = 0;
    t->place.bytes = t->place.stores = 0;
    t->locked = 0;
    if (result != -EDEADLK && !(t->too_large && (result == -E2BIG || result == -ENOMEM)))
        t->stored = t->too_large = 0;
    if (result == 0)
        t->wants = 0;
    else if (result == -EDEADLK && t->wanted)
        t->want[t->wants < WANTS_MAX ? t->wants++ : t->wanted / 16 % WANTS_MAX] = t->wanted;
    t->wanted = 0;
    if (tx->items.guard.used)
        guard_ended(tx);
    t->used = 0;
    users--;
}
