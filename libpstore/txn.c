/*
 * txn.c - transactions: begin, commit, abort, the way out of a body, suspend and resume.
 *
 * Owns      struct ps_tx, a view of the kernel with the transaction in it. A thread makes one at
 *           its first transaction and enters it for good, so rights stay cached; it makes another
 *           only while a transaction is suspended.
 * Not here  locks, undo and waiting: a load or store takes the right, the kernel undoes.
 *
 * A transaction ends in one of four ways; each comes through tx_ended() exactly once:
 *
 *      committed   tx_commit(), the kernel returned 0
 *      refused     tx_commit(), the kernel returned -errno; undone
 *      given up    tx_undo(): the body returned a value, ps_abort(), ps_rollback()
 *      aborted     by the kernel, in the middle of any instruction of the body: tx_entry,
 *                  tx_landed()
 */
#include "pstore_private.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RARE __attribute__((noinline, cold))
#define LANDING_BYTES 65536u              /* stack of tx_landed() and of a ps_catch() handler */

_Thread_local struct ps_tx *tx_current;
static _Thread_local struct {
    struct ps_tx *all;                    /* those that this thread made */
    void (*handler)(int error, void *arg);
    void *handler_arg;
} thread;

/* Functions set by index.c, in programs that have it. */
void (*index_ended)(struct ps_tx *tx);
const ps_container *(*index_used)(const struct ps_tx *tx, unsigned i);

static pthread_key_t thread_key;          /* the key's destructor is thread_ended() */
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

/* ---- views ---- */

static void tx_destroy(struct ps_tx *tx)
{
    if (tx->items.used)
        items_ended(tx, -ECANCELED);
    heap_release(&tx->heap);
    ps_kernel(KD_HANDLE_CLOSE, tx->view, 0, 0);
    for (int i = 0; i < TX_STORES_MAX; i++)
        if (tx->batch[i].ops)
            munmap(tx->batch[i].ops, tx->batch[i].size);
    if (tx->indexes)
        munmap(tx->indexes, tx->indexes_size);
    if (tx->map)
        munmap(tx->map, tx->map_size);
    if (tx->scratch)
        munmap(tx->scratch, tx->scratch_size);
    chunks_free(&tx->items.chunk);
    munmap((char *)tx - LANDING_BYTES, LANDING_BYTES + sizeof *tx);
}

static void thread_ended(void *unused)
{
    (void)unused;
    ps_kernel(KD_VIEW_ENTER, -1, 0, 0);   /* what is active ends with its view */
    tx_current = NULL;
    while (thread.all) {
        struct ps_tx *tx = thread.all;
        thread.all = tx->next;
        tx_destroy(tx);
    }
}

void tx_forget(void)
{
    tx_current = thread.all = NULL;   /* their views are not this process's */
}

static void thread_key_make(void) { pthread_key_create(&thread_key, thread_ended); }

/* tx_create makes a ps_tx; its landing stack lies below and begins at the first word, `landing`. */
static int tx_create(struct ps_tx **out)
{
    pthread_once(&thread_once, thread_key_make);
    size_t bytes = LANDING_BYTES + sizeof(struct ps_tx);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    struct ps_tx *tx = (struct ps_tx *)(memory + LANDING_BYTES);
    tx->view = (int)ps_kernel(KD_VIEW_CREATE, 0, 0, 0);
    if (tx->view < 0) {
        int error = tx->view;
        munmap(memory, bytes);
        return error;
    }
    tx->landing = (uintptr_t)tx;
    tx->now = tx->batch;
    tx->owner = pthread_self();
    tx->next = thread.all;
    thread.all = tx;
    pthread_setspecific(thread_key, tx);
    *out = tx;
    return 0;
}

static struct ps_tx *tx_idle(int kind)
{
    struct ps_tx *tx = thread.all;
    while (tx && (tx->active || tx->busy || (kind >= 0 && tx->kind != kind)))
        tx = tx->next;
    return tx;
}

/* tx_enter_idle makes an idle transaction the current one. Snapshots have a view of their own: what
 * it maps is no right, and would all have to go whenever the view changes sides. */
static int tx_enter_idle(int kind)
{
    struct ps_tx *tx = tx_idle(kind);
    int result = tx ? 0 : tx_create(&tx);
    if (result == -ENFILE && (tx = tx_idle(-1)))
        result = 0;
    if (result == 0)
        tx->kind = kind;
    if (result == 0)
        result = (int)ps_kernel(KD_VIEW_ENTER, tx->view, 0, 0);
    if (result == 0)
        tx_current = tx;
    return result;
}

static int strict; /* of the process: rights end with each transaction */

uint64_t tx_read_at(void)
{
    struct ps_tx *tx = tx_active();
    return tx && tx->options.isolation == PS_SNAPSHOT ? tx->begin.csn : 0;
}

/* ---- begin and end ---- */

enum { APART_MAX = 1 << 20 };            /* views end long before that */

static int options_check(const struct ps_options *o)
{
    if (o->isolation < PS_SERIALISABLE || o->isolation > PS_CONTAINER_LOCK || o->retries < 0 ||
        o->weight < 0 || o->apart < 0 || o->apart > APART_MAX)
        return -EINVAL;
    return o->isolation == PS_CONTAINER_LOCK && !container_is_open(o->locked) ? -EINVAL : 0;
}

/* tx_prepare checks and sets up for ps_transaction and ps_begin; *out: the current, idle one. */
static RARE int tx_prepare(const struct ps_options *options, int explicit_, struct ps_tx **out)
{
    static const struct ps_options plain;
    int is_plain = !options && !explicit_ && !strict;
    if (!options)
        options = &plain;
    int result = options_check(options);
    if (result != 0)
        return result;
    if (tx_active())
        return -EALREADY;
    int reads = options->isolation == PS_SNAPSHOT || options->isolation == PS_DIRTY_READ;
    int kind = reads ? TX_READS : options->apart + TX_PLAIN;
    int fits = tx_current && tx_current->kind == kind && !tx_current->busy;
    if (!fits && (result = tx_enter_idle(kind)) != 0)
        return result;
    struct ps_tx *tx = *out = tx_current;
    /* An interpreter that runs a deadlock's victim again keeps its ticket, as ps_transaction
     * does. */
    int keeps_ticket = explicit_ && tx->explicit_ && tx->again;
    tx->explicit_ = explicit_;
    tx->plain = is_plain;
    tx->aborts = 0;
    tx->retry.since_ms = 0;
    tx->retry.waits = tx->retry.looks_again = 0;
    tx->options = *options;
    tx->place = ps_place;
    tx->begin = (struct kd_begin){
        .mode = (uint32_t)options->isolation | (strict ? KD_STRICT : 0) |
                (options->helps ? KD_HELPER : 0) | (options->heir ? KD_HEIR : 0) |
                (options->isolation == PS_CONTAINER_LOCK && options->shared ? KD_LOCKED_SHARED : 0),
        .weight = (uint32_t)options->weight,
        .ticket = keeps_ticket ? tx->begin.ticket : options->heir ? options->helps_token : 0,
        .entry = (uintptr_t)tx_entry,
        .stack = (uintptr_t)&tx->landing,
        .locked = options->isolation == PS_CONTAINER_LOCK ? options->locked->base
                  : options->helps ? options->helps_token : 0,
        .view = options->helps - 1,
        .snapshot = options->isolation == PS_SNAPSHOT ? options->snapshot : options->heir,
        .timeout_ms = options->timeout_ms,
        .pages_max = options->pages_max,
    };
    return 0;
}

/* tx_plain_again: a plain one behind a plain one finds all but this as that left it; or NULL. */
static inline struct ps_tx *tx_plain_again(void)
{
    struct ps_tx *last = tx_current;
    if (!last || !last->plain || last->active | last->busy | strict)
        return NULL;
    last->aborts = 0;
    last->begin.ticket = 0;
    last->retry.since_ms = 0;
    last->retry.looks_again = 0;
    last->place = ps_place;
    return last;
}

static void tx_undo(struct ps_tx *tx, int error);

/* tx_begin_again begins once more, as the program perhaps left the view behind us. */
static RARE int tx_begin_again(struct ps_tx *tx, int result)
{
    if (result == -ENOENT && ps_kernel(KD_VIEW_ENTER, tx->view, 0, 0) == 0)
        result = tx_begin_now(tx);
    if (result == -EOWNERDEAD)
        stores_note_death();
    return tx->reason = result;
}

static inline int tx_begin(struct ps_tx *tx)
{
    tx->again = 0;
    tx->retry.missed = 0;
    tx->hook_count = 0;
    error_forget();
    int result = stores_refresh();
    if (tx->options.timeout_ms)
        tx->ends_ms = now_ms() + tx->options.timeout_ms;
    if (result == 0)
        result = tx_begin_now(tx);
    if (result != 0 && (result = tx_begin_again(tx, result)) != 0)
        return result;
    tx->active = 1;
    if (tx->options.isolation == PS_CONTAINER_LOCK) /* the kernel has locked its first segment */
        result = container_lock(tx->options.locked, 1, tx->options.shared ? KD_LOCK_SHARED : 0);
    if (result != 0)
        tx_undo(tx, -result);
    return result;
}

/* tx_ended_as: every end comes here; result: 0 (committed) or -errno. again: it may be tried once
 * more. Inline for commits: there it is a few stores. */
static inline __attribute__((always_inline)) int tx_ended_as(struct ps_tx *tx, int result,
                                                             int again)
{
    assert(tx->active);                                                         /* TX3 */
    tx->active = 0;
    tx->writing = NULL;
    tx->held.container = NULL;
    tx->items.accesses = NULL;
    tx->reason = result;
    tx->again = again;
    if (result == 0) {
        if (tx->heap.used)
            heap_committed(&tx->heap);
        if (tx->names)
            names_committed(tx);
    } else {
        tx->aborts++;
        heap_aborted(&tx->heap);
        if (result == -EOWNERDEAD)
            stores_note_death();
    }
    if (tx->now->bytes | (uint64_t)tx->several)     /* else there are none */
        tx_ops_forget(tx);
    tx->directories = 0;
    if (tx->indexes)
        index_ended(tx);
    if (tx->items.used)
        items_ended(tx, result);
    assert(!tx->heap.used);                                                     /* TX3 */
    return result;
}

static RARE int tx_ended(struct ps_tx *tx, int result, int again)
{
    return tx_ended_as(tx, result, again);
}

/* tx_ended_by_kernel: if the kernel says that a manager died, containers are opened anew.
 * ECANCELED: one that stands on others, before the base had the commit, so it is undone for
 * certain. ENOENT: the thread has no transaction, or a name that is to go is not there. */
static RARE int tx_ended_by_kernel(struct ps_tx *tx, int result, int again)
{
    if (result == -ECANCELED)
        stores_note_death();
    else if (result == -ENOENT && tx_left(tx, ECANCELED))
        result = -EBADFD;
    else if ((result == -E2BIG || result == -ENOMEM) && !tx->options.pages_max)
        again |= items_too_large(tx);
    return error_told(ERROR_TXN, tx_ended(tx, result, again));
}

/* tx_in_doubt is for a session with another site that ended under the commit: whatever is known of
 * containers is known anew, and then that site says what became of it. */
static RARE int tx_in_doubt(struct ps_tx *tx)
{
    tx_ended(tx, -EOWNERDEAD, 0);
    tx->reason = outcome_ask();
    if (tx->reason == -ENOTRECOVERABLE)
        tx->hook_count = 0;
    return error_told_if(ERROR_TXN, tx->reason);
}

/* tx_refused: `prepared`: so it may have an id (outcome.c). */
static RARE int tx_refused(struct ps_tx *tx, int result, int prepared)
{
    if (result == -EOWNERDEAD && prepared && stores_elsewhere && outcome_marked())
        return tx_in_doubt(tx);
    /* Somebody else made the same name or root: run again, and find it. */
    int again = result == -EDEADLK || (result == -EEXIST && tx->names > 0);
    if (result == -EIO || result == -EOWNERDEAD)
        tx->hook_count = 0;               /* nobody knows which hooks to run */
    return tx_ended_by_kernel(tx, result, again);
}

static inline int tx_commit_now(struct ps_tx *tx, int port_without_batch)
{
    struct kd_commit commit = {
        .batch = tx->now->bytes ? tx->now->ops : NULL,
        .batch_bytes = tx->now->bytes,
        .port = tx->now->bytes ? tx->now->store->port : port_without_batch,
        .flags = tx->options.bulk ? STORE_BULK : !tx->options.lazy ? 0
                 : tx->options.lazy_ms ? tx->options.lazy_ms : STORE_LAZY,
    };
    int result = (int)ps_kernel(KD_TXN_COMMIT, (long)&commit, 0, 0);
    tx->committed_at = commit.csn;
    return result == -EBADF ? -ECANCELED : result; /* another thread has just found it dead */
}

static RARE int tx_commit_prepared(struct ps_tx *tx)
{
    int failed = tx_commit_prepare(tx), result = failed ? failed : tx_commit_now(tx, -1);
    if (failed)
        tx_undo(tx, failed < 0 ? -failed : ECANCELED);
    return failed   ? failed
           : result ? tx_refused(tx, result, 1) : error_told(ERROR_TXN, tx_ended(tx, 0, 0));
}

/* tx_commit commits, prepared if changes are of several stores; KD_COMMIT_READ tells of pages. */
static int tx_commit(struct ps_tx *tx)
{
    if (tx->items.accesses || tx->heap.used | tx->several | lint_on ||
        items_declares(&tx->items) || (tx->now->bytes && stores_several))
        return tx_commit_prepared(tx);
    int result = tx_commit_now(tx, stores_several ? KD_COMMIT_READ : -1);
    if (result == 0)
        return error_told(ERROR_TXN, tx_ended_as(tx, 0, 0));
    return stores_several && result == -ENOTEMPTY ? tx_commit_prepared(tx)
                                                  : tx_refused(tx, result, 0);
}

static void tx_undo(struct ps_tx *tx, int error)
{
    if (ps_kernel(KD_TXN_ABORT, error, 0, 0) == -ENOENT)
        tx_left(tx, error);
    tx_ended(tx, -error, 0);
}

/* ---- functions that are run once it is known how a transaction ended ---- */

/* hooks_run runs the functions that fit the end; no transaction is active. They may begin
 * transactions, in another ps_tx. */
static void hooks_run(struct ps_tx *tx)
{
    struct ps_tx *current = tx_current;
    unsigned count = tx->hook_count;
    if (count == 0)
        return;
    tx->busy++;
    current->busy++;
    for (unsigned i = 0; i < count; i++)
        if (tx->hook[i].commit == (tx->reason == 0))
            tx->hook[i].function(tx->hook[i].argument);
    tx->hook_count = 0;
    tx->busy--;
    current->busy--;
    if (tx_current != current && ps_kernel(KD_VIEW_ENTER, current->view, 0, 0) == 0)
        tx_current = current;
}

/* tx_abandon_inner ends suspended transactions whose ps_transaction() was called further in: the
 * thread jumps over their bodies, so nobody will ever resume them. */
static void tx_abandon_inner(struct ps_tx *outer)
{
    for (struct ps_tx *tx = thread.all; tx; tx = tx->next) {
        if (tx == outer || !tx->active || tx->explicit_ || tx->frame > outer->frame)
            continue;
        if (ps_kernel(KD_VIEW_ENTER, tx->view, 0, 0) == 0)
            ps_kernel(KD_TXN_ABORT, ECANCELED, 0, 0);
        tx_ended(tx, -ECANCELED, 0);
        tx->abandoned = 1;
    }
    ps_kernel(KD_VIEW_ENTER, outer->view, 0, 0);
    for (struct ps_tx *tx = thread.all; tx; tx = tx->next) {
        if (tx->abandoned)
            hooks_run(tx);
        tx->abandoned = 0;
    }
}

static int others_suspended(const struct ps_tx *tx)
{
    int any = 0;
    for (const struct ps_tx *other = thread.all; other; other = other->next)
        any |= other != tx && other->active;
    return any;
}

/* tx_leave leaves the body of a transaction that has ended. */
static _Noreturn void tx_leave(struct ps_tx *tx)
{
    if (!tx->explicit_) {
        if (others_suspended(tx))
            tx_abandon_inner(tx);
        longjmp(tx->env, 1);
    }
    hooks_run(tx);
    if (thread.handler)
        thread.handler(-tx->reason, thread.handler_arg);
    fprintf(stderr, "pstore: an explicit transaction was aborted (%s)%s\n",
            ps_strerror(tx->reason),
            thread.handler ? ", and its ps_catch handler returned" : ", and there is no ps_catch");
    abort();
}

_Noreturn void tx_landed(int reason, struct ps_tx *tx)
{
    tx_current = tx;
    tx_ended_by_kernel(tx, reason > 0 ? -reason : -ECANCELED, reason == EDEADLK);
    tx_leave(tx);
}

/* ---- the usual form: a function ---- */

/* tx_attempt makes one attempt, up to its end if that is not an abort. */
static int tx_attempt(struct ps_tx *tx, int (*fn)(void *arg), void *arg)
{
    int result = tx_begin(tx);
    if (result != 0)
        return result;
    if (tx->aborts && tx->items.too_large && (result = items_lock_stored(tx)) != 0)
        ps_abort(-result);
    result = fn(arg);
    if (tx_current != tx) {           /* the body suspended this one and forgot to resume */
        if (ps_resume(tx) != 0) {
            fprintf(stderr, "pstore: a transaction's function returned inside another one\n");
            abort();
        }
        result = -EPERM;
    }
    if (result == 0)
        return tx_commit(tx);
    tx_undo(tx, ECANCELED);
    return result;
}

static int tx_runs_again(const struct ps_tx *tx)
{
    return tx->again && (tx->options.retries == 0 || tx->aborts <= (unsigned)tx->options.retries);
}

int (ps_transaction_opt)(int (*fn)(void *arg), void *arg, const struct ps_options *opt)
{
    struct ps_tx *tx;
    int result = !fn ? -EINVAL : opt || !(tx = tx_plain_again()) ? tx_prepare(opt, 0, &tx) : 0;
    if (result != 0)
        return error_told(ERROR_TXN, result);
    tx->frame = __builtin_frame_address(0);
    do {
        if (setjmp(tx->env) == 0)
            result = tx_attempt(tx, fn, arg);
        else
            result = tx->reason;
        if (tx->hook_count)
            hooks_run(tx);
        if (result == 0)
            break;
        if (tx->retry.waits)
            tx->again = (result = error_told(ERROR_RETRY, retry_wait(tx))) == 0;
    } while (tx_runs_again(tx));
    if (tx->retry.watched[0])
        retry_end(tx);
    return result;
}

int (ps_transaction)(int (*fn)(void *arg), void *arg)
{
    return (ps_transaction_opt)(fn, arg, NULL);
}

_Noreturn void ps_abort(int error)
{
    struct ps_tx *tx = tx_active();
    if (!tx) {
        fprintf(stderr, "pstore: ps_abort(%d) outside a transaction\n", error);
        abort();
    }
    tx_undo(tx, error > 0 ? error : error < 0 && error > INT_MIN ? -error : EINVAL);
    tx_leave(tx);
}

_Noreturn void ps_retry(void)
{
    struct ps_tx *tx = tx_active();
    if (!tx || tx->explicit_) {
        fprintf(stderr, "pstore: ps_retry() outside a function of ps_transaction\n");
        abort();
    }
    /* Of a thread with another transaction, nobody knows who waits for that one. */
    int result = tx->kind == TX_READS ? -EINVAL : others_suspended(tx) ? -EDEADLK : retry_watch(tx);
    if (result != 0)
        tx->retry.waits = 0;
    tx_undo(tx, result ? -result : EAGAIN);
    tx->again = 0;
    tx->aborts -= result == 0;            /* what `retries` counts are deadlocks */
    error_told(ERROR_RETRY, result);
    tx_leave(tx);
}

/* ---- the explicit form, for interpreters ---- */

int ps_begin(const struct ps_options *opt)
{
    struct ps_tx *tx;
    int result = tx_prepare(opt, 1, &tx);
    return result == 0 ? tx_begin(tx) : result;
}

int (ps_commit)(void)
{
    struct ps_tx *tx = tx_active();
    if (tx)
        tx->place = ps_place;
    if (!tx || !tx->explicit_)
        return -EPERM;
    int result = tx_commit(tx);
    hooks_run(tx);
    return result;
}

int ps_rollback(void)
{
    struct ps_tx *tx = tx_active();
    if (!tx || !tx->explicit_)
        return -EPERM;
    tx_undo(tx, ECANCELED);
    hooks_run(tx);
    return 0;
}

int ps_catch(void (*handler)(int error, void *arg), void *arg)
{
    thread.handler = handler;
    thread.handler_arg = arg;
    return 0;
}

int ps_strict(int on)
{
    int before = strict;
    strict = on;
    return before;
}

int ps_active(void) { return tx_active() != NULL; }

/* ---- suspend and resume ---- */

static int tx_is_mine(const struct ps_tx *tx)
{
    for (const struct ps_tx *mine = thread.all; mine; mine = mine->next)
        if (mine == tx)
            return 1;
    return 0;
}

/* ps_resume resumes a transaction. If it was aborted, the thread leaves in KD_VIEW_ENTER. */
int ps_resume(ps_tx *tx)
{
    if (tx_active())
        return -EALREADY;
    if (!tx_is_mine(tx))
        return tx ? -EPERM : -EINVAL;
    if (!tx->active)
        return -EINVAL;
    struct ps_tx *idle = tx_current;
    tx_current = tx;
    int result = (int)ps_kernel(KD_VIEW_ENTER, tx->view, 0, 0);
    if (result != 0)
        tx_current = idle;
    else
        guard_suspended(tx, 0);
    return result;
}
