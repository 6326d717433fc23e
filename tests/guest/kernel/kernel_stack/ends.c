/* ends.c - managers die while transactions commit through them: here their ports are closed. */
#include "parts.h"

enum { COMES_MS = 20000 };
static _Atomic int working, go_on;
static int works(struct stacked *s, uint64_t view)
{
    (void)s, (void)view;
    working = 1;
    while (!go_on) sched_yield();
    return 0;
}

struct job { pthread_t thread; struct change c; bool reads; _Atomic int result, done; };
static int read_then_write(void *arg)
{
    const struct change *c = arg;
    *word_of(Q_PAGE, 0) = c->q + (*word_at(c->base, c->page, 3) & 0);
    return 0;
}
static void *job_main(void *arg)
{
    struct job *j = arg;
    j->result = run(j->reads ? read_then_write : write_both, &j->c, KD_SERIALISABLE, 0);
    view_anew();
    j->done = 1;
    return NULL;
}
static void job_start(struct job *j, struct change c, bool reads)
{
    *j = (struct job){.c = c, .reads = reads};
    pthread_create(&j->thread, NULL, job_main, j);
}
static int job_end(struct job *j)
{
    pthread_join(j->thread, NULL);
    return j->result;
}

/* So many transactions commit that began after the last manager did: helpers of earlier ones may be
 * on their way out still. */
static uint64_t since;
static void until_committing(long n)
{
    enum { COMMITTING = 3 };
    static struct kd_view_info list[KD_VIEW_MAX];
    for (long are = 0; are < n; sched_yield()) {
        long all = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
        are = 0;
        for (long i = 0; i < all; i++)
            are += list[i].state == COMMITTING && list[i].ticket > since;
    }
}

static void mark(void)
{
    static struct kd_view_info list[KD_VIEW_MAX];
    long all = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
    for (long i = 0; i < all; i++)
        if (list[i].ticket > since) since = list[i].ticket;
}

/* A manager that is to die, over this port. */
static struct stacked *mortals[32], **mortals_end = mortals;
static struct stacked *mortal_beside(int on, uint64_t below, unsigned threads)
{
    struct stacked *s = *mortals_end++ = calloc(1, sizeof *s);
    mark();
    s->below = below;
    s->key = 0x7777;
    working = go_on = 0;
    if (stacked_start(s, &on, 1, SIDE_PAGES, threads)) printf("# no manager\n");
    return s;
}

/* Over the base's port the ones before are dead: a thread of theirs that is yet to learn it would
 * serve a new port of the same number, so all end first. */
static struct stacked *mortal(int on, uint64_t below, unsigned threads)
{
    for (struct stacked **m = mortals; on == port && m < mortals_end; m++)
        while ((*m)->serving) sched_yield();
    return mortal_beside(on, below, threads);
}

static void die(const struct stacked *s)
{
    kd_call3(KD_HANDLE_CLOSE, s->commit_port, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, s->port, 0, 0);
}

/* Its helper, which is doomed, ends. */
static void let_go(const struct stacked *s)
{
    go_on = 1;
    while (!s->outcome) sched_yield();
}

static uint64_t mortal_at(void) { return base + (SIDE_AT + 4 * SIDE_PAGES) * KD_PAGE_BYTES; }

/* What the base has on page 1 of a mortal manager, without its key, and on Q. */
static bool base_has(uint64_t value, uint64_t q)
{
    uint64_t is = at_home(SIDE_AT + 4 * SIDE_PAGES + 1, 3) ^ 0x7777;
    bool good = (is == value || (!value && is == 0x7777)) && at_home(Q_PAGE, 0) == q && !check();
    if (!good) printf("# base: %lu, %lu\n", is, at_home(Q_PAGE, 0));
    return good;
}

static void before(void)
{
    struct job j;
    struct stacked *s = mortal(port, mortal_at(), 0);
    job_start(&j, (struct change){s->base, 1, 1, 100}, false);
    until_committing(1);
    die(s);
    int e = job_end(&j);
    tap_ok(e == -ECANCELED && base_has(0, 8), "a manager dies that was asked: undone (%d)", e);
    s = mortal(port, mortal_at(), 1);
    s->beside = works;
    job_start(&j, (struct change){s->base, 1, 1, 100}, false);
    while (!working) sched_yield();
    die(s);
    e = job_end(&j);
    let_go(s);
    tap_ok(e == -ECANCELED && base_has(0, 8), "one that works for a commit: undone (%d)", e);
}

/* A manager that begins again reads below what the one before it has passed on (SK16), also if that
 * one has closed its ports only. */
struct again { int port; _Atomic int error, done; volatile uint64_t value; };
static int read_again(void *arg)
{
    ((struct again *)arg)->value = *word_at(mortal_at(), 1, 3) ^ 0x7777;
    return 0;
}
static void *again_main(void *arg)
{
    struct again *a = arg;
    a->error = (int)kd_call3(KD_PORT_BELOW, a->port, (long)&port, 1);
    if (!a->error) a->error = run(read_again, a, KD_SNAPSHOT, 0);
    view_anew();
    a->done = 1;
    return NULL;
}

static void behind(void)
{
    enum { TOO_EARLY_MS = 20 };
    pthread_t t;
    struct again a = {.port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0)};
    struct job first, j;
    struct stacked *s = mortal(port, mortal_at(), 1);
    hold_commits = 1;
    job_start(&j, (struct change){s->base, 1, 5, 9}, false);
    while (!held_commits) sched_yield();
    die(s);
    pthread_create(&t, NULL, again_main, &a);
    for (int ms = 0; ms < TOO_EARLY_MS && !a.done; ms++) pause_ms(1);
    bool early = a.done;
    hold_commits = 0;
    int e = job_end(&j);
    tap_ok(e == 0 && base_has(5, 9), "one whose commit the base has received: that goes on (%d)",
           e);
    pthread_join(t, NULL);
    kd_call3(KD_HANDLE_CLOSE, a.port, 0, 0);
    tap_ok(!early && !a.error && a.value == 5,
           "and the next one begins behind it, and has it (%d, %lu)", a.error, a.value);
    s = mortal(port, mortal_at(), 1);
    hold_commits = 1;
    job_start(&first, (struct change){single.base, 3, 1, 0}, false);
    while (!held_commits) sched_yield();
    job_start(&j, (struct change){s->base, 1, 6, 10}, false);
    until_committing(4);
    die(s);
    e = job_end(&j);
    hold_commits = 0;
    int other = job_end(&first);
    tap_ok(e == -ECANCELED && other == 0 && base_has(5, 9),
           "one whose commit waits at the base: undone (%d, %d)", e, other);
}

static void reader(void)
{
    struct job first, j;
    struct stacked *s = mortal(port, mortal_at(), 1);
    hold_commits = 1;
    job_start(&first, (struct change){single.base, 3, 2, 0}, false);
    while (!held_commits) sched_yield();
    job_start(&j, (struct change){s->base, 1, 6, 10}, true);
    until_committing(3);
    die(s);
    int e = job_end(&j);
    hold_commits = 0;
    int other = job_end(&first);
    tap_ok(e == -ECANCELED && other == 0 && base_has(5, 9),
           "who commits below and has only read its page: undone (%d, %d)", e, other);
}

/* The page is wanted for a store by a call, which fails as the process has lost the container: the
 * transaction has come to the manager, and has nothing of it. */
struct comes { struct stacked *s; long wanted; int result; };
static int comes(void *arg)
{
    struct comes *c = arg;
    *word_of(Q_PAGE, 0) = 77;
    c->wanted = kd_call3(KD_SYSTEM_INFO, (long)word_at(c->s->base, 2, 0), 0, 0);
    return 0;
}
static void *comes_main(void *arg)
{
    struct comes *c = arg;
    c->result = run(comes, c, KD_SERIALISABLE, COMES_MS);
    return NULL;
}

static struct stacked *lost;
static void lose(void) { kd_call3(KD_SPACE_DETACH, getpid(), lost->object, 0); }

static uint32_t next_kind(const struct stacked *s, struct kd_message *m)
{
    *m = (struct kd_message){0};
    return kd_call3(KD_PORT_RECEIVE, s->port, (long)m, -1) ? 0 : m->kind;
}

static void without_a_page(void)
{
    pthread_t t;
    struct kd_message m;
    struct comes c = {.s = lost = calloc(1, sizeof *lost)};
    lost->below = mortal_at();
    lost->key = 0x7777;
    long e = stacked_make(lost, &port, 1, SIDE_PAGES);
    e = e ? e : kd_call3(KD_SPACE_ATTACH, getpid(), lost->object, KD_RIGHT_READ | KD_RIGHT_WRITE);
    pthread_create(&t, NULL, comes_main, &c);
    bool asked = next_kind(lost, &m) == (uint32_t)KD_MSG_PAGE;
    e = e ? e : stacked_supply(lost, m.word[1], lose);
    bool commits = next_kind(lost, &m) == (uint32_t)KD_MSG_COMMIT;
    kd_call3(KD_HANDLE_CLOSE, lost->port, 0, 0);
    pthread_join(t, NULL);
    tap_ok(!e && asked && c.wanted == -EFAULT && commits && c.result == -ECANCELED &&
               base_has(5, 9), "one that has a commit with no page of it: undone (%d)", c.result);
}

/* A second manager of the transaction dies, and the one that works for it refuses before the client
 * has woken: the reason is the death, and not what the worker heard of it. */
static struct stacked *pair[2];
static int other_dies(struct stacked *s, uint64_t view)
{
    (void)view;
    die(pair[s == pair[0]]);
    return ESRCH;
}
static int write_pair(void *unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) *word_at(pair[i]->base, 1, 3) = 8;
    return 0;
}

static void beside(void)
{
    pair[0] = mortal(port, mortal_at(), 1);
    pair[1] = mortal_beside(port, mortal_at() + SIDE_PAGES * KD_PAGE_BYTES, 1);
    pair[0]->beside = pair[1]->beside = other_dies;
    int e = run(write_pair, NULL, KD_SERIALISABLE, 0);
    tap_ok(e == -ECANCELED && base_has(5, 9),
           "one of two managers dies while the other works for the commit: undone (%d)", e);
    for (int i = 0; i < 2; i++)
        if (pair[i]->commits) die(pair[i]);
}

/* Two managers, one over the other, of which the lower one dies. */
static void lower(bool asked)
{
    struct job j;
    struct stacked *low = mortal(port, mortal_at(), 1), *high = mortal(low->port, low->base, 1);
    (asked ? low : high)->beside = works;
    job_start(&j, (struct change){high->base, 1, 7, 11}, false);
    while (!working) sched_yield();
    die(low);
    int e = job_end(&j);
    let_go(asked ? low : high);
    struct kd_object_create c = {.port = high->port, .commit_port = high->commit_port,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .pages = 1, .name = "late"};
    long late = kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    tap_ok(e == -ECANCELED && at_home(Q_PAGE, 0) == 9 && !check(),
           "the lower of two dies while the %s one works: undone (%d)", asked ? "same" : "higher",
           e);
    tap_ok(late == -EBADF, "and the higher one with it (%ld)", late);
    die(high);
}

void part_deaths(void)
{
    before();
    behind();
    reader();
    without_a_page();
    beside();
    lower(true);
    lower(false);
    /* a thread of a dead manager has left nothing behind */
    tap_ok(commit_both(upper.base, 2, 81, 12) == 0 && is_now(upper.base, 2, 81, 12) &&
               is_now(single.base, 3, 2, 12), "others go on");
}

void part_base_dies(void)
{
    struct job held, at_work;
    hold_commits = 1;
    working = go_on = 0;
    job_start(&held, (struct change){single.base, 4, 1, 0}, false);
    while (!held_commits) sched_yield();
    upper.beside = works;
    job_start(&at_work, (struct change){upper.base, 1, 1, 0}, false);
    while (!working) sched_yield();
    kd_call3(KD_HANDLE_CLOSE, commit_port, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    int one = job_end(&held), two = job_end(&at_work);
    go_on = 1;
    tap_ok(one == -EOWNERDEAD, "the base dies with a commit: nobody knows its outcome (%d)", one);
    tap_ok(two == -ECANCELED, "another one has not come there: undone (%d)", two);
    struct kd_object_create c = {.port = top.port, .commit_port = top.commit_port,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .pages = 1, .name = "late"};
    tap_ok(kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0) == -EBADF,
           "all that stand on it die with it");
    hold_commits = 0;
    tap_ok(!check(), "kcheck");
}
