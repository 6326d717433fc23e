/*
 * begin.c - how a transaction begins, and what it may ask for before its first touch: locks, hints,
 * a commit point to share (views.md: BG1..BG3).
 *
 * Locks: view->lock; versions lock for snapshots (version.c).
 */
#include "process/handle.h"
#include "store/codeword.h"
#include "store/commit.h"
#include "store/dying.h"
#include "store/fault.h"
#include "store/holder.h"
#include "store/mapping.h"
#include "store/parts.h"
#include "store/right.h"
#include "store/stack.h"
#include "store/wait.h"

static uint64_t next_ticket = 1;

uint64_t view_tickets(void) { return __atomic_load_n(&next_ticket, __ATOMIC_RELAXED); }

long lock_over(struct view *v, int e)
{
    if (e == -ECANCELED || e == -ETIMEDOUT) {
        view_doom(v, e == -ETIMEDOUT ? ETIMEDOUT : EINTR); /* the first reason counts */
        v->deliver = true;
        thread_kick(thread_this()); /* view_return_to_user */
    }
    return e;
}

/* txn_lock locks a container for the running transaction. */
static long txn_lock(struct view *v, vaddr_t at, unsigned how)
{
    if (v->snapshot_rights || heir_is(v))
        return -EINVAL;
    return lock_over(v, container_lock_at(v, at, how));
}

/* begin_more does what most begins do not: a container's lock comes before the first touch. */
static __attribute__((noinline)) long begin_more(struct view *v, const struct kd_begin *b,
                                                 vaddr_t at)
{
    bool locks = v->txn.mode == KD_CONTAINER_LOCK;
    unsigned how = b->mode & KD_LOCKED_SHARED ? KD_LOCK_SHARED : 0;
    long e = locks                 ? txn_lock(v, b->locked, how)
             : b->mode & KD_HELPER ? helper_begin(v, b->view, b->locked)
             : b->mode & KD_HOLDER ? holder_begin(v, b, at)
             : b->mode & KD_HEIR   ? heir_begin(v, b) : 0;
    if (locks) {
        lock_acquire(&v->lock);
        v->txn.untouched = false;
        lock_release(&v->lock);
    }
    if (e && !(locks && v->deliver))
        view_abort(v, (int)-e);
    return e;
}

/* begin_check refuses a begin in the wrong state, or with fields that contradict each other. 0 or
 * -errno. */
static int begin_check(const struct view *v, const struct kd_begin *b)
{
    uint32_t how = b->mode & (KD_HELPER | KD_HOLDER | KD_HEIR);
    uint32_t mode = b->mode & ~(how | KD_STRICT | KD_LOCKED_SHARED);
    if (!v)
        return -ENOENT;
    if (v->state != VIEW_IDLE)
        return -EALREADY;
    if (mode > KD_CONTAINER_LOCK || (b->mode & KD_LOCKED_SHARED && mode != KD_CONTAINER_LOCK) ||
        (b->snapshot && mode != KD_SNAPSHOT && !(how & (KD_HOLDER | KD_HEIR))) ||
        (how && (mode || how & (how - 1))))
        return -EINVAL;
    if (!user_range_ok(b->entry, 1) || !user_range_ok(b->stack, 1))
        return -EFAULT;
    if (b->ticket >= __atomic_load_n(&next_ticket, __ATOMIC_RELAXED))
        /* no program invents a ticket of the future, or takes an old one of others */
        return -EINVAL;
    return b->ticket && b->ticket != v->txn.ticket && how != KD_HEIR ? -EINVAL : 0;
}

/* begin_snapshot gives the view the commit point that its snapshot will see (BG2). 0 or -errno. */
static int begin_snapshot(struct view *v, const struct kd_begin *b)
{
    if (!b->snapshot)
        return parts_snapshot_begin(v, b->timeout_ms);
    struct snapshot *shared = handle_find(b->snapshot - 1, HANDLE_SNAPSHOT, 0, snapshot_get);
    if (handle_failed(shared))
        return (int)(long)shared;
    int e = version_snapshot_begin(v, shared);
    v->snapshot.seen.given = true;
    v->snapshot.seen.only = shared->only;
    v->snapshot.seen.generation = shared->generation;
    snapshot_put(shared);
    return e;
}

static void begin_fields(struct view *v, const struct kd_begin *b)
{
    if (!b->ticket || b->ticket != v->txn.ticket) { /* else a retry */
        v->txn.ticket = b->ticket ?: __atomic_fetch_add(&next_ticket, 1, __ATOMIC_RELAXED);
        v->txn.want_x_count = 0;
        v->txn.aborts = 0;
    }
    v->txn.mode = b->mode & ~(uint32_t)(KD_STRICT | KD_LOCKED_SHARED | KD_HELPER | KD_HEIR);
    v->txn.bare = heir_is(v); /* its last one has left no right */
    v->txn.heir = WRITER_NONE;
    v->txn.strict = b->mode & KD_STRICT;
    v->txn.meant = false;
    v->txn.weight = b->weight;
    v->txn.pages_max = b->pages_max;
    v->locks.faults = v->locks.escalate_at = 0;
    v->txn.entry = b->entry;
    v->txn.stack = b->stack;
    v->txn.deadline_ns = b->timeout_ms ? arch_time_ns() + (uint64_t)b->timeout_ms * 1000000 : ~0ull;
}

/* begin_active makes the view ACTIVE (BG1). Entries of a snapshot stay for the next one, but for
 * pages published since: those are owed (commit.c). All go if one may be too new (`newest`), or is
 * a right of the other kind. */
static void begin_active(struct view *v, bool snapshot)
{
    bool all = snapshot != v->snapshot_rights || v->snapshot.at < v->snapshot.newest;
    lock_acquire(&v->lock);
    v->state = VIEW_ACTIVE;
    v->txn.untouched = v->txn.mode == KD_CONTAINER_LOCK;
    if (all || v->owed.count) {
        right_drop(v, all, false);
        right_kind(v, snapshot);
    }
    right_flush_due(v);
    lock_release(&v->lock);
}

/* begin_tell writes the ticket, and a snapshot's commit point, to user memory. The view is idle
 * still, so no page of a container can be written: a transaction that waits for its first lock has
 * no copies. 0 or -EFAULT. */
static int begin_tell(vaddr_t at, const struct view *v, bool snapshot)
{
    if (user_words_out(at + offsetof(struct kd_begin, ticket), &v->txn.ticket, 1))
        return -EFAULT;
    vaddr_t csn = at + offsetof(struct kd_begin, csn);
    return snapshot ? user_words_out(csn, &v->snapshot.at, 1) : 0;
}

long kd_txn_begin(const uint64_t a[6])
{
    struct view *v = thread_this()->view;
    vaddr_t at = a[0];
    struct kd_begin b;
    if (user_words_in(&b, at, sizeof b / 8))
        return -EFAULT;
    int e = begin_check(v, &b);
    if (!e)
        e = deaths_wait(v->process, KD_OBJECT_TRANSACTIONAL, 0, ~0ull); /* BG3 */
    if (e)
        return e;
    bool snapshot = (b.mode & 3) == KD_SNAPSHOT || (b.mode & 3) == KD_DIRTY_READ;
    v->snapshot.at = ~0ull; /* a dirty read sees whatever is published */
    if ((b.mode & 3) == KD_SNAPSHOT && (e = begin_snapshot(v, &b)))
        return e;
    begin_fields(v, &b);
    if (begin_tell(at, v, snapshot)) {
        version_snapshot_end(v);
        return -EFAULT;
    }
    begin_active(v, snapshot);
    return b.mode < KD_CONTAINER_LOCK ? 0 : begin_more(v, &b, at);
}

TXN_CALL(kd_txn_abort)
{
    int reason = (int)a[0];
    view_abort(v, reason > 0 && reason < 4096 ? reason : ECANCELED);
    return 0;
}

TXN_CALL(kd_txn_lock) { return txn_lock(v, a[0], (unsigned)a[1]); }

enum { PREFETCH_BYTES_MAX = 4 << 20 };

TXN_CALL(kd_txn_hint)
{
    static const uint8_t wants[] = {WANT_WRITE, WANT_READ, WANT_READ_FOR_WRITE};
    vaddr_t at = a[0];
    uint64_t bytes = a[1];
    unsigned hint = (unsigned)a[2];
    bool now = hint == (KD_HINT_PREFETCH | KD_HINT_NOW);
    hint = now ? KD_HINT_PREFETCH : hint;
    if (hint == KD_HINT_PREFETCH)
        bytes = MIN(bytes, PREFETCH_BYTES_MAX); /* a hint must not fill the memory */
    if (hint == KD_HINT_OPEN || hint == KD_HINT_SHUT) {
        v->txn.meant = hint == KD_HINT_OPEN;
        return 0;
    }
    bool check = hint == KD_HINT_CHECK;
    if (bytes == 0 || !user_range_ok(at, bytes) || (!check && hint - 1 >= sizeof wants))
        return -EINVAL;
    at = mapping_first(v->process, at, bytes);
    if (check) {
        uint32_t rights;
        struct object *o = view_object_at(v, at, &rights);
        return o ? codeword_at(o, at, bytes) : -EFAULT;
    }
    bool meant = v->txn.meant;
    int e = 0;
    v->txn.meant = true;
    v->txn.now = now;
    for (vaddr_t page = page_down(at); page < at + bytes && !e; page += PAGE_BYTES) {
        e = view_touch(v, page, (enum view_want)wants[hint - 1]);
        thread_breathe();
    }
    v->txn.meant = meant;
    v->txn.now = false;
    if (!e && hint == KD_HINT_WRITE)
        encode_declare(v, &(struct kd_range){at, bytes}, 1);
    return e;
}

/* kd_txn_declare goes with a commit, or before it where there are more ranges than one call
 * takes. */
TXN_CALL(kd_txn_declare)
{
    enum { AT_ONCE = 16 };
    struct kd_range some[AT_ONCE];
    if (a[1] > KD_RANGES_MAX)
        return -EINVAL;
    for (uint64_t i = 0, n; i < a[1]; i += n) {
        n = MIN(a[1] - i, AT_ONCE);
        if (user_words_in(some, a[0] + i * sizeof *some, n * sizeof *some / 8))
            return -EFAULT;
        for (struct kd_range *r = some; r < some + n; r++) {
            if (r->address - KD_WINDOW_BASE < KD_WINDOW_END - KD_WINDOW_BASE)
                r->address = mapping_first(v->process, r->address, r->bytes);
            if (r->bytes == 0 || !user_range_ok(r->address, r->bytes))
                return -EINVAL;
        }
        encode_declare(v, some, n);
        if (i % 64 == 64 - AT_ONCE)
            thread_breathe();
    }
    return 0;
}
