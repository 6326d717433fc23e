/*
 * manager_outcome.c - a manager on the store hears how each commit ended (ops->outcome).
 *
 * Aim     once for each commit that it worked on: 0 with a number that rises; its own refusal; that
 *         the client's time was up while it worked. Nothing for what never came to it.
 * Method  a child serves one page, whose first word tells it what to do with the commit: keep it,
 *         refuse it, or go on until it is taken back. Its answers to km_call are what it heard.
 */
#include <errno.h>
#include <sched.h>

#include "manager.h"
#include "pstore_test.h"

enum { KEEP = 1, REFUSE, STALL, SHORT_MS = 30 };
static const char name[] = "outcome";
struct heard { uint64_t commits, outcomes, csn; int64_t error; };

/* ---- the manager ---- */

struct root { uint64_t words[KM_PAGE_BYTES / 8]; };
static ps_container *box;
static struct root *root;
static struct heard heard;
static _Atomic int asked;              /* since the third commit came */

static void page(struct km_request *r) { km_supply(r, root->words, 1); }

static int commit(struct km_object *o, uint64_t view)
{
    uint64_t runs[1024], cursor = 0;
    long n = km_diff(o, view, &cursor, runs, sizeof runs);
    const struct km_run *r = n > 0 ? km_run_first(runs, n) : NULL;
    const uint64_t *word = r ? (const void *)r->data : NULL;
    heard.commits++;
    if (!word || r->offset) return -EPROTO;
    while (*word == STALL && !asked) sched_yield();
    root->words[0] = *word;
    return *word == REFUSE ? -EDOM : 0;
}

static void outcome(struct km_object *o, uint64_t view, int error, uint64_t csn)
{
    (void)o, (void)view;
    heard.csn = csn;
    heard.error = error;
    __atomic_fetch_add(&heard.outcomes, 1, __ATOMIC_SEQ_CST);
}

static void tell(struct km_object *o, void *message, int bytes)
{
    if (bytes == sizeof heard) *(struct heard *)message = heard;
    asked = heard.commits > 2;
    (void)o;
}

static int set_up(void *unused)
{
    (void)unused;
    root = ps_root(box);
    return root ? 0 : -errno;
}

static int serve(void)
{
    static const struct km_ops ops = {.page = page, .commit = commit, .outcome = outcome,
                                      .call = tell};
    struct km_object *object;
    box = ps_open("outcome.kept", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = box ? km_below("store") : -errno;
    if (!e) e = ps_transaction(set_up, NULL);
    if (!e) e = km_create(name, 1, KM_READ | KM_WRITE | KM_TRANSACTIONAL, &ops, NULL, &object);
    return e ? e : km_serve(1);
}

/* ---- the client ---- */

static uint64_t *word;
static int say(void *what) { return *word = *(uint64_t *)what, 0; }
static int undo(void *what) { return *word = *(uint64_t *)what, -ECANCELED; }
static int look(void *out) { return *(uint64_t *)out = *word, 0; }

static int commit_of(uint64_t what, unsigned ms)
{
    return ps_transaction_opt(say, &what, &(struct ps_options){.timeout_ms = ms});
}

/* What it has heard, as soon as that are so many outcomes. */
static struct heard after(uint64_t outcomes)
{
    struct heard h = {0};
    while (km_call(name, name, &h, sizeof h) == 0 && h.outcomes < outcomes) sched_yield();
    return h;
}

int main(int argc, char **argv)
{
    uint64_t keep = KEEP, is_now = 0, nothing = 0;
    if (argc > 1) return serve() != 0;
    tap_plan(7);
    int pid = child_start(argv[0], "serve", NULL);
    while (pid > 0 && !(word = km_open(name, name, KM_READ | KM_WRITE))) sched_yield();
    int e = commit_of(KEEP, 0);
    struct heard first = after(1);
    tap_ok(e == 0 && first.commits == 1 && first.error == 0 && first.csn > 0,
           "a commit: its number (%d, %lu)", e, first.csn);
    e = commit_of(REFUSE, 0);
    struct heard h = after(2);
    tap_ok(e == -EDOM && h.outcomes == 2 && h.error == -EDOM && h.csn == 0,
           "one that it refused: its own error (%d, %ld)", e, h.error);
    for (unsigned ms = SHORT_MS; h.commits < 3; ms *= 2) { /* it may be late to come there */
        e = commit_of(STALL, ms);
        h = after(2);
    }
    h = after(3);
    tap_ok(e == -ETIMEDOUT && h.outcomes == 3 && h.error == -ECANCELED && h.csn == 0,
           "one that was taken back while it worked: undone (%d, %ld)", e, h.error);
    uint64_t before = h.commits;
    e = ps_transaction(undo, &keep);
    e = e == -ECANCELED ? commit_of(KEEP + 10, 0) : e;
    h = after(4);
    bool next = h.outcomes == 4 && h.commits == before + 1 && !h.error && h.csn > first.csn;
    tap_ok(e == 0 && next,
           "nothing of one that never came to it; the next has a greater number (%lu)", h.csn);
    e = ps_transaction(look, &is_now);
    tap_ok(e == 0 && is_now == KEEP + 10 && after(4).outcomes == 4, "nor of one that only reads");
    kd_call3(KD_PROCESS_KILL, pid, 1, 0);
    tap_ok(child_wait(pid) == 1, "it ends");
    tap_ok(kd_call3(KD_CHECK, nothing, 0, 0) == 0, "kcheck");
    return tap_end();
}
