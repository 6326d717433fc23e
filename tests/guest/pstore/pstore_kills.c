/*
 * pstore_kills.c - a program of libpstore dies at each step of each call.
 *
 * Aim     wherever a program is when it ends, in a call of the library, a fault, a message to the
 *         store or asleep: each of its transactions is there as a whole or not at all, nobody waits
 *         for it, and no right, view, copy, version, object of the kernel or leased page is left
 *         behind.
 * Method  a child makes every call once and is killed by its n-th trace event (KD_TRACE_DIE) for n
 *         = 1, 2, ... until it comes to its end alive; after each death this process looks, and
 *         writes what it had. Its transactions count on two pages, and have one object each:
 *         numbers must agree.
 */
#include <sched.h>
#include <stdlib.h>

#include "katydid/trace.h"
#include "process.h"
#include "pstore_test.h"

enum { STATUS_WRONG = 2, STATUS_END = 9, EVENTS_MAX = 5000, LOOKS_MAX = 1000000,
       WORDS = KD_PAGE_BYTES / 8,
       OBJECT_WORDS = 1500 };
struct object { struct object *next; long number, words[OBJECT_WORDS]; };
/* the two count the objects ever made */
struct root { long *first, *second; struct object *list; };
static ps_container *c;

static int make(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    root->first = ps_alloc(c, KD_PAGE_BYTES, NULL);
    root->second = ps_alloc(c, KD_PAGE_BYTES, NULL);
    return root->first && root->second ? 0 : -errno;
}

/* One object more; of those before only the newest stays. */
static int add(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    struct object *o = root ? ps_new(c, struct object, root) : NULL;
    if (!o) return -errno;
    for (struct object *old = root->list, *next; old; old = next) {
        next = old->next;
        int e = ps_free(old);
        if (e) return e;
    }
    ps_touch(root->second, sizeof *root->second);
    o->number = o->words[OBJECT_WORDS - 1] = ++*root->first;
    root->list = o;
    ++*root->second;
    return 0;
}
static int add_locked(void *unused)
{
    int e = ps_lock(c, PS_LOCK_SHARED);
    e = e ? e : ps_lock(c, 0);
    return e ? e : add(unused);
}
static int add_and_fail(void *unused)
{
    int e = add(unused);
    return e ? e : 17;
}

static int look(void *number)
{
    struct root *root = ps_root(c);
    const struct object *o = root->list;
    *(long *)number = *root->first;
    return *root->first != *root->second ? 1
           : !o                          ? *root->first != 0
           : o->next || o->number != *root->first || o->words[OBJECT_WORDS - 1] != o->number ? 2
                                                                                             : 0;
}
static int look_and_share(void *number)
{
    int e = look(number), state = ps_snapshot_share();
    return e ? e : state < 0 ? state : ps_snapshot_drop(state);
}

/* ---- the one that dies ---- */

#define CALL(call, wanted)                             \
    do {                                               \
        if ((call) != (wanted))                        \
            return STATUS_WRONG + __LINE__ % 100 + 10; \
    } while (0)

static int client(const char *event)
{
    long number;
    struct ps_info info;
    CALL(die_at_event(atol(event)), 0);
    c = ps_open("kills", PS_WRITE, PS_LAYOUT(struct root, 1));
    CALL(!c, 0);
    struct ps_options snapshot = {.isolation = PS_SNAPSHOT}, dirty = {.isolation = PS_DIRTY_READ};
    struct ps_options locked = {.isolation = PS_CONTAINER_LOCK, .locked = c};
    CALL(ps_transaction(add, NULL), 0);
    CALL(ps_transaction(add_and_fail, NULL), 17);
    CALL(ps_transaction_opt(look_and_share, &number, &snapshot), 0);
    CALL(ps_transaction_opt(look, &number, &dirty), 0);
    CALL(ps_transaction(add_locked, NULL), 0);
    CALL(ps_transaction_opt(add, NULL, &locked), 0);
    CALL(ps_begin(NULL), 0);
    CALL(add(NULL), 0);
    ps_tx *tx = ps_suspend();
    CALL(ps_transaction_opt(look, &number, &snapshot), 0);
    CALL(ps_resume(tx), 0);
    CALL(ps_commit(), 0);
    CALL(ps_begin(NULL), 0);
    CALL(add(NULL), 0);
    CALL(ps_prefetch(ps_root(c), 1), 0);
    CALL(ps_rollback(), 0);
    CALL(ps_policy(c, PS_ESCALATE, 1), 0);
    CALL(ps_transaction(add, NULL), 0);
    CALL(ps_policy(c, PS_ESCALATE, 0) | ps_encoder(c, PS_ENCODE_FULL) |
             ps_encoder(c, PS_ENCODE_DIFF),
         0);
    CALL(ps_close(ps_open("kills-other", PS_CREATE | PS_WRITE, NULL)), 0);
    CALL(ps_rename("kills-other", "kills-more") | ps_delete("kills-more"), 0);
    CALL(ps_list(&info, 1) < 1, 0);
    CALL(ps_close(c), 0);
    return STATUS_END;
}

/* ---- who looks at what it left ---- */

struct counts { long objects, copies, versions, views, processes; };
static struct counts counts_now(void)
{
    struct kd_system_info s = {0};
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return (struct counts){ (long)s.objects, (long)s.copies, (long)s.versions,
                            kd_call3(KD_VIEW_LIST, 0, 0, 0), s.processes };
}
/* Who is killed in a commit ends before it: its view goes when the manager has answered. */
static void views_settle(long wanted)
{
    for (int i = 0; kd_call3(KD_VIEW_LIST, 0, 0, 0) != wanted && i < LOOKS_MAX; i++) sched_yield();
}
static uint64_t pages_used(void)
{
    struct ps_info info[16];
    int n = ps_list(info, 16);
    for (int i = 0; i < n && i < 16; i++)
        if (strcmp(info[i].name, "kills") == 0) return info[i].pages_used;
    return 0;
}
static void others_delete(void)
{
    WHEN_FREE(ps_delete("kills-other"));
    WHEN_FREE(ps_delete("kills-more"));
}

/* Is nothing there that was not when the program began? */
static int nothing_left(struct counts first, long event)
{
    struct counts now = counts_now();
    int left = now.objects != first.objects || now.copies || now.versions ||
               now.views != first.views || now.processes != first.processes;
    if (left)
        printf("# event %ld: objects %ld copies %ld versions %ld views %ld processes %ld\n", event,
               now.objects - first.objects, now.copies, now.versions, now.views - first.views,
               now.processes - first.processes);
    return !left;
}

/* The program dies at its n-th event: its status. *e: 0, or what was not whole then; *number: what
 * it added up to. */
static int death(const char *self, long n, struct counts first, int *e, long *number)
{
    char event[24];
    snprintf(event, sizeof event, "%ld", n);
    int status = child_run(self, event, NULL);
    views_settle(first.views);
    others_delete();
    *e = ps_transaction(look, number);
    *e = *e ? *e : ps_transaction(add, NULL);
    *e = *e ? *e : (int)kd_call3(KD_CHECK, 0, 0, 0);
    int left = !nothing_left(first, n);
    *e = *e ? *e : left ? -EUCLEAN : 0;
    return status;
}

int main(int argc, char **argv)
{
    if (argc > 1) return client(argv[1]);
    tap_plan(7);
    ps_delete("kills");
    others_delete();
    c = ps_open("kills", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    long number = 0, before = 0, made = 0, most = 0;
    int e = c ? ps_transaction(make, NULL) : -errno, status = 0;
    is(e, 0, "a container");
    is(child_run(argv[0], "0", NULL), STATUS_END, "a program makes every call");
    others_delete();
    kd_call3(KD_TRACE, KD_TRACE_START, 0, 0);
    e = ps_transaction(look, &before);
    uint64_t used = pages_used();
    struct counts first = counts_now();
    long n = 0;
    for (status = 0; !e && status < STATUS_WRONG && n < EVENTS_MAX;) {
        n += tap_long() ? 1 : 2;
        status = death(argv[0], n, first, &e, &number);
        made = number - before;
        most = made > most ? made : most;
        before = number + 1;
        if (e) printf("# event %ld: %d\n", n, e);
    }
    kd_call3(KD_TRACE, KD_TRACE_STOP, 0, 0);
    is(e, 0, "after each death all is whole, and nothing is left behind");
    is(status, STATUS_END, "until it comes to its end alive");
    tap_ok(n > 200 && most == 5, "it died at each of %ld events, or each second one", n - 1);
    uint64_t more = pages_used() - used;
    tap_ok(more < 64, "pages that the dead had leased are used by others (%ld more)", (long)more);
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
