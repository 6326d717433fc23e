/* rules.c - who may stand on whom, what a helper may touch, and what its manager may say. */
#include "parts.h"

#include <semaphore.h>

static int port_new(void) { return (int)kd_call3(KD_PORT_CREATE, 0, 0, 0); }

static long below(int p, int a, int b)
{
    int ports[2] = {a, b};
    return kd_call3(KD_PORT_BELOW, p, (long)ports, b < 0 ? 1 : 2);
}

/* An object that commits at p: the port has a manager from now on. */
static long object_at(int p)
{
    struct kd_object_create c = {.port = p, .commit_port = p, .flags = KD_OBJECT_TRANSACTIONAL,
                                 .pages = 1, .name = "rules"};
    return kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
}

static void ranks(void)
{
    int p = port_new(), other = port_new();
    tap_ok(below(p, other, -1) == -ENOENT && below(p, 9999, -1) == -EBADF &&
               kd_call3(KD_PORT_BELOW, p, (long)&other, 0) == -EINVAL &&
               kd_call3(KD_PORT_BELOW, p, (long)&other, 5) == -EINVAL,
           "nobody stands on a port without a manager, or on none, or on five");
    object_at(other);
    tap_ok(below(p, port, other) == -EXDEV && below(other, port, -1) == -EBUSY &&
               below(upper.commit_port, port, -1) == -EBUSY,
           "all have one base; who has objects, or a rank, does not change it");
    long e = 0;
    int at = upper.port; /* of rank 1 */
    for (int rank = 2; rank <= 5 && !e; rank++) {
        p = port_new();
        e = below(p, at, -1);
        if (!e) object_at(p);
        at = e ? at : p;
        if (e) tap_ok(rank == 5 && e == -EXDEV, "ranks end at 4 (rank %d: %ld)", rank, e);
    }
}

/* ---- too many, and too high ---- */

enum { MORE = 3 };
static struct stacked more[MORE];
static int write_all(void *count)
{
    *word_of(Q_PAGE, 0) += 1;
    for (long i = 0; i < (long)(uintptr_t)count; i++) *word_at(more[i].base, 1, 3) = 1;
    *word_at(upper.base, 3, 3) = (uint64_t)(uintptr_t)count;
    return 0;
}

static void enlisting(void)
{
    int e = 0;
    for (unsigned i = 0; i < MORE; i++) {
        more[i].below = base + (SIDE_AT + SIDE_PAGES * (i + 1)) * KD_PAGE_BYTES;
        more[i].key = i + 1;
        e |= (int)stacked_start(&more[i], &port, 1, SIDE_PAGES, 1);
    }
    int fits = run(write_all, (void *)2, KD_SERIALISABLE, 0);
    tap_ok(e == 0 && fits == 0 && more[0].commits == 1 && more[1].commits == 1 &&
               at_home(SIDE_AT + SIDE_PAGES + 1, 3) == (1 ^ more[0].key) &&
               at_home(SIDE_AT + 2 * SIDE_PAGES + 1, 3) == (1 ^ more[1].key),
           "a transaction writes containers of four managers (%d, %d)", e, fits);
    int many = run(write_all, (void *)3, KD_SERIALISABLE, 0);
    tap_ok(many == -EXDEV && at_home(Q_PAGE, 0) == 6 && is_now(upper.base, 3, 2, 6),
           "five are too many: -EXDEV at the store (%d)", many);
}

static int high(struct stacked *s, uint64_t view)
{
    (void)view;
    *word_at(s->base, 9, 0) = 1;
    return 0;
}

/* A token of another commit, and words that only the base may say. */
static long publish, wrong_token;
static int more_words(struct stacked *s, uint64_t view)
{
    (void)s;
    static struct context other;
    struct context *was = mine;
    uint64_t token = mine->begin.locked;
    wrong_token = txn_open(&other, (struct kd_begin){.mode = KD_HELPER, .view = (uint32_t)view,
                                                     .locked = token - 1});
    struct kd_publish p = {view, token, 1ull << 40};
    publish = kd_call3(KD_TXN_PUBLISH, (long)&p, 1, 0);
    in_view(was);
    return 0;
}

static void helpers(void)
{
    upper.beside = high;
    int e = commit_both(upper.base, 2, 1, 1);
    tap_ok(e == -EXDEV && is_now(upper.base, 2, 77, 6),
           "a helper cannot write its manager's own container: -EXDEV (%d)", e);
    upper.beside = more_words;
    e = commit_both(upper.base, 2, 78, 7);
    tap_ok(e == 0 && publish == -ESRCH && wrong_token == -ESRCH &&
               is_now(upper.base, 2, 78, 7),
           "a helper needs the COMMIT's token, and only the base publishes (%ld, %ld)",
           wrong_token, publish);
    upper.beside = NULL;
}

/* Another helper for the same commit, in a thread of its own. It is at work still when the first
 * has passed the commit on, and then wants to pass it on, too. */
static sem_t at_work, passed;
static _Atomic int second_outcome;
struct second { uint64_t view, token; };

static int write_and_wait(void *arg)
{
    (void)arg;
    *word_of(Q_PAGE + 2, 0) += 1;
    sem_post(&at_work);
    sem_wait(&passed);
    return 0;
}

static void *second_helper(void *arg)
{
    const struct second *s = arg;
    struct kd_begin like = {.mode = KD_HELPER, .view = (uint32_t)s->view, .locked = s->token};
    second_outcome = run_like(write_and_wait, NULL, &like);
    return NULL;
}

static pthread_t second_thread;
static int two_at_work(struct stacked *s, uint64_t view)
{
    static struct second second;
    (void)s;
    second = (struct second){view, mine->begin.locked};
    pthread_create(&second_thread, NULL, second_helper, &second);
    sem_wait(&at_work);
    return 0;
}

static void second(void)
{
    sem_init(&at_work, 0, 0);
    sem_init(&passed, 0, 0);
    uint64_t before = at_home(Q_PAGE + 2, 0);
    upper.beside = two_at_work;
    int e = commit_both(upper.base, 2, 80, 8);
    upper.beside = NULL;
    sem_post(&passed);
    pthread_join(second_thread, NULL);
    tap_ok(e == 0 && second_outcome < 0 && at_home(Q_PAGE + 2, 0) == before && !check() &&
               is_now(upper.base, 2, 80, 8),
           "of two helpers of a commit the first joins, the other is undone (%d, %d)", e,
           second_outcome);
    e = commit_both(upper.base, 2, 78, 7);
    tap_ok(e == 0 && is_now(upper.base, 2, 78, 7), "and what comes next does not notice (%d)", e);
}

/* ---- what helpers say to the base ---- */

static const char said[5000] = "helper";
static struct { long whole, small, client, between; uint64_t bytes, pid, alone; } looked;

static long batch_of(uint64_t view, uint64_t token, void *to, uint64_t *bytes, uint64_t *pid)
{
    struct kd_diff d = {.view = view, .token = token, .flags = KD_DIFF_BATCH, .buffer = to,
                        .buffer_bytes = *bytes};
    long e = kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
    *bytes = d.buffer_bytes;
    *pid = d.pages;
    return e;
}

static unsigned first_of(uint64_t low, uint64_t high)
{
    return (unsigned)(low ? __builtin_ctzll(low) : 64 + (high ? __builtin_ctzll(high) : 0));
}

bool batches_look(struct kd_message *m)
{
    static char bytes[8192];
    uint64_t some = sizeof bytes, few = 4999, pid;
    if (m->kind != (uint32_t)KD_MSG_COMMIT || !m->word[6]) return false;
    unsigned h = first_of(m->word[4], m->word[5]);
    for (; h < KD_VIEW_MAX && some != m->word[6]; h++) {
        some = sizeof bytes;
        if (m->word[4 + h / 64] >> h % 64 & 1)
            looked.whole = batch_of(h, m->token, bytes, &some, &looked.pid);
    }
    looked.whole = looked.whole ? looked.whole : memcmp(bytes, said, sizeof said);
    looked.bytes = some;
    looked.alone = m->word[7];
    looked.small = batch_of(h - 1, m->token, bytes, &few, &pid);
    looked.client = batch_of(m->word[0], m->token, bytes, &some, &pid);
    return false;
}

/* It passes on with a batch, by itself. */
static int says(struct stacked *s, uint64_t view)
{
    struct kd_commit k = {.port = -1, .batch = said, .batch_bytes = sizeof said};
    (void)s, (void)view;
    return (int)kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0) ? -EPROTO : 0;
}

/* A manager between asks for what one above it says. */
static int asks(struct stacked *s, uint64_t view)
{
    char byte;
    uint64_t one = 1, pid;
    (void)view;
    looked.between = batch_of(first_of(s->helpers, s->helpers_high), mine->begin.locked, &byte,
                              &one, &pid);
    return 0;
}

static void batches(void)
{
    upper.beside = says;
    int e = commit_both(upper.base, 2, 89, 0); /* the helper alone stores to the base's object */
    bool told = looked.alone == 1;
    e = e ? e : commit_both(upper.base, 2, 90, 7);
    upper.beside = NULL;
    tap_ok(e == 0 && told && looked.alone == 0 && looked.whole == 0 &&
               looked.bytes == sizeof said && looked.pid == (uint64_t)getpid() &&
               looked.small == -E2BIG && looked.client == -EINVAL &&
               is_now(upper.base, 2, 90, 7),
           "the base reads a helper's batch, whole (%d, %ld, %ld, %ld)", e, looked.whole,
           looked.small, looked.client);
    memset(&looked, 0xff, sizeof looked);
    top.beside = says;
    upper.beside = asks;
    e = commit_both(top.base, 1, 4321, 7);
    top.beside = upper.beside = NULL;
    tap_ok(e == 0 && looked.between == -EINVAL && looked.whole == 0 &&
               is_now(top.base, 1, 4321, 7),
           "a manager between does not (%d, %ld, %ld)", e, looked.between, looked.whole);
    e = commit_both(upper.base, 2, 78, 7);
    e = e ? e : commit_both(top.base, 1, 1234, 7);
    if (e) printf("# %d\n", e);
}

static int refuses(struct stacked *s, uint64_t view) { return (void)s, (void)view, -EDOM; }

void part_rules(void)
{
    ranks();
    enlisting();
    helpers();
    second();
    batches();
    upper.beside = refuses;
    int e = commit_both(upper.base, 2, 1, 1);
    tap_ok(e == -EDOM && is_now(upper.base, 2, 78, 7), "a manager refuses: all is as before (%d)",
           e);
    upper.beside = NULL;
    uint64_t before = at_home(1 + UPPER_AT, 3);
    upper.beside = refuses;
    e = commit_both(top.base, 1, 1, 1);
    upper.beside = NULL;
    tap_ok(e == -EDOM && at_home(1 + UPPER_AT, 3) == before && is_now(top.base, 1, 1234, 7),
           "a lower manager refuses what a higher one passed on (%d)", e);
}

/* ---- a group's own pages ---- */

static int reads_q(struct stacked *s, uint64_t view)
{
    (void)s, (void)view;
    return *word_of(Q_PAGE, 0) == 12345 ? -EPROTO : 0;
}

static int writes_q2(struct stacked *s, uint64_t view)
{
    (void)s, (void)view;
    *word_of(Q_PAGE + 1, 0) += 1;
    return 0;
}

struct index { uint64_t value, q2; };
static int read_q2(void *arg)
{
    struct index *x = arg;
    x->q2 = *word_of(Q_PAGE + 1, 0);
    if (x->value) *word_at(upper.base, 4, 3) = x->value;
    return 0;
}

void part_own(void)
{
    upper.beside = reads_q;
    int e = commit_both(upper.base, 2, 1, 12345);
    tap_ok(e == -EXDEV && is_now(upper.base, 2, 78, 7),
           "a helper reads what its transaction has written: -EXDEV (%d)", e);
    e = commit_both(upper.base, 2, 79, 0);
    tap_ok(e == 0 && is_now(upper.base, 2, 79, 7), "it may read the page otherwise (%d)", e);
    upper.beside = writes_q2;
    struct index x = {.value = 1};
    for (unsigned i = 0; i < 3; i++, x.value++) {
        e = run(read_q2, &x, KD_SERIALISABLE, 0);
        tap_ok(e == 0 && x.q2 == i && !check(),
               "a helper writes what its transaction has read: so it stays locked (%d, %lu)", e,
               x.q2);
    }
    upper.beside = NULL;
    x.value = 0;
    e = run(read_q2, &x, KD_SERIALISABLE, 0);
    tap_ok(e == 0 && x.q2 == 3 && at_home(Q_PAGE + 1, 0) == 3,
           "and the same view reads the new version afterwards (%lu)", x.q2);
    upper.beside = refuses;
    x.value = 9;
    e = run(read_q2, &x, KD_SERIALISABLE, 0);
    upper.beside = NULL;
    tap_ok(e == -EDOM && is_now(upper.base, 4, 3, 7), "refused, all of it is as before (%d)", e);
}

/* ---- supply ---- */

static int read_others(void *arg)
{
    uint64_t sum = 0;
    for (unsigned i = 8; i < UPPER_PAGES; i++) sum += *word_at(upper.base, i, 0);
    return (void)arg, (int)(sum & 0);
}

static void commit_and_evict(void)
{
    commit_both(upper.base, 0, 501, 0);
    view_anew();
    run(read_others, NULL, KD_SERIALISABLE, 0);
    view_anew();
}

void part_supply(void)
{
    commit_both(upper.base, 0, 500, 0);
    kd_call3(KD_CONTAINER_POLICY, (long)upper.base, KD_POLICY_MEMORY, KD_MEMORY_LEAST);
    long late = stacked_supply(&upper, 0, commit_and_evict);
    uint8_t bits = KD_PAGE_RESIDENT;
    kd_call4(KD_OBJECT_INFO, upper.object, 0, 1, (long)&bits);
    tap_ok(late == -ESTALE && !(bits & KD_PAGE_RESIDENT),
           "a page that was read before its last publication is not taken (%ld)", late);
    tap_ok(is_now(upper.base, 0, 501, 7), "its manager reads it again");
    kd_call3(KD_CONTAINER_POLICY, (long)upper.base, KD_POLICY_MEMORY, 0);
}
