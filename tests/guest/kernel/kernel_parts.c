/*
 * kernel_parts.c - transactions of several bases whose managers lie (store/parts.md).
 *
 * Aim     four bases take part, each in its part's order; a fifth, and one that does not vote, are
 *         refused. A vote counts once; nothing is published before it is decided, or after it is
 *         undone, and nobody refuses what is committed. A name is said once. What a commit tells
 *         goes to who decides, and nothing of it is lost. A snapshot waits for who shows its part
 *         last, and one that did not see that base's objects never comes to see a half; nor does
 *         anybody while a base that has died is swept.
 * Method  this process is five managers, with one object and one thread each, and the client; some
 *         transactions are a child's, so that this process need not have all objects.
 */
#include "own_manager.h"

#include <stdio.h>

enum { BASES = 5, PAGES = 4, WAIT_MS = 20000, SHORT_MS = 100, PARTS = KD_PART_ASK + 1 };

static struct manager {
    int port, object;
    uint64_t at;
    uint8_t name[16];
    uint64_t csn;
    struct kd_parts told;               /* at the last question */
    volatile unsigned asked[PARTS], answered[PARTS];
    volatile uint64_t batch[PARTS];     /* bytes that came with it */
    volatile bool lies, refuses, silent; /* the last: with what is decided */
    volatile long wrong;                /* lies that were taken */
} bases[BASES];

static volatile uint64_t *word(unsigned i) { return (volatile uint64_t *)bases[i].at; }

/* ---- the managers ---- */

static long publish(struct manager *b, const struct kd_message *m)
{
    struct kd_publish p = {m->word[0], m->token, ++b->csn};
    return kd_call3(KD_TXN_PUBLISH, (long)&p, 1, 0);
}

static long refuse(const struct kd_message *m, int error)
{
    return kd_call3(KD_TXN_REFUSE, (long)m->word[0], (long)m->token, error);
}

static long voted(const struct kd_message *m)
{
    return kd_call3(KD_TXN_VOTED, (long)m->word[0], (long)m->token, 0);
}

/* What was changed is what is told: a page that is not told is not published. */
static long told(const struct kd_message *m)
{
    static __thread uint8_t buffer[PAGES * (KD_PAGE_BYTES + sizeof(struct kd_run))];
    struct kd_diff d = {.view = m->word[0], .token = m->token, .buffer = buffer,
                        .buffer_bytes = sizeof buffer};
    return kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
}

static void serve_part(struct manager *b, const struct kd_message *m, unsigned part)
{
    if (part < KD_PART_COMMIT) b->wrong += told(m) != 0;
    if (b->lies) {
        bool early = part == KD_PART_VOTE || part == KD_PART_UNDO;
        b->wrong += early && publish(b, m) != -ESRCH;
        b->wrong += part != KD_PART_VOTE && voted(m) != -ESRCH;
        b->wrong += part == KD_PART_COMMIT && refuse(m, ECANCELED) != -ESRCH;
    }
    while (part == KD_PART_COMMIT && b->silent) pause_ms(1);
    if (part == KD_PART_UNDO) {
        refuse(m, ECANCELED);
    } else if (part == KD_PART_VOTE && b->refuses) {
        refuse(m, EPERM);
    } else if (part == KD_PART_VOTE) {
        b->wrong += voted(m) != 0;
        b->wrong += voted(m) != -ESRCH;
    } else {
        b->wrong += publish(b, m) != 0;
    }
}

static void *manages(void *base)
{
    struct manager *b = base;
    uint8_t buffer[KD_PAGE_BYTES];
    for (;;) {
        struct kd_message m = {.buffer = buffer, .buffer_bytes = sizeof buffer};
        if (kd_call3(KD_PORT_RECEIVE, b->port, (long)&m, -1)) return NULL;
        if (m.kind != (uint32_t)KD_MSG_COMMIT) continue;
        unsigned part = (unsigned)(m.word[3] >> KD_PART_SHIFT);
        b->told = (struct kd_parts){.view = m.word[0], .token = m.token};
        b->wrong += kd_call3(KD_TXN_PARTS, (long)&b->told, 0, 0) != 0 || b->told.part != part;
        b->batch[part] = m.data_bytes;
        b->asked[part]++;               /* whoever waits for the answer may look at it then */
        serve_part(b, &m, part);
        b->answered[part]++;
    }
}

static long attach(int pid, unsigned i)
{
    return kd_call3(KD_SPACE_ATTACH, pid, bases[i].object, KD_RIGHT_READ | KD_RIGHT_WRITE);
}

static void detach(unsigned i)
{
    kd_call3(KD_SPACE_DETACH, getpid(), bases[i].object, 0);
}

static bool manager_start(struct manager *b)
{
    pthread_t t;
    b->port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    struct kd_object_create c = {.port = b->port, .commit_port = b->port, .pages = PAGES,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .name = "parts"};
    b->object = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    b->at = c.base;
    struct kd_supply s = {.object = b->object, .source = KD_SUPPLY_ZERO, .count = PAGES,
                          .rights = KD_READ | KD_WRITE};
    memset(b->name, (int)(b - bases) + 1, sizeof b->name);
    return b->object >= 0 && kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) == 0 &&
           pthread_create(&t, NULL, manages, b) == 0;
}

static long votes(struct manager *b, const void *name)
{
    struct kd_voter k = {.life = 1};
    memcpy(k.name, name, sizeof k.name);
    return kd_call3(KD_PORT_VOTES, b->port, (long)&k, 0);
}

/* ---- who may ---- */

static int write_some(void *mask)
{
    for (unsigned i = 0; i < BASES; i++)
        if ((uintptr_t)mask >> i & 1) *word(i) += 1;
    return 0;
}
static int write_them(unsigned mask)
{
    return run(write_some, (void *)(uintptr_t)mask, KD_SERIALISABLE, 0);
}

static void names(void)
{
    char name[KD_NAME_MAX];
    bool good = true;
    is(votes(&bases[0], bases[0].name), -EPERM, "who has no published name does not vote");
    for (unsigned i = 0; i < BASES; i++) {
        snprintf(name, sizeof name, "parts.%u", i);
        good &= kd_call3(KD_NAME_SET, (long)name, bases[i].port, 0) == 0;
        if (i < BASES - 1) good &= votes(&bases[i], bases[i].name) == 0;
    }
    tap_ok(good && votes(&bases[0], bases[0].name) == 0, "four bases vote");
    is(votes(&bases[0], bases[1].name), -EBUSY, "and none takes another name");
    is(write_them(0x11), -EXDEV, "with one that does not vote: -EXDEV");
    is(votes(&bases[4], bases[4].name), 0, "it votes");
    is(write_them(0x1f), -EXDEV, "five are too many: -EXDEV");
}

/* ---- parts and lies ---- */

static bool told_right(unsigned i)
{
    const struct kd_parts *k = &bases[i].told;
    bool good = k->count == 4 && memcmp(k->id, bases[3].told.id, sizeof k->id) == 0;
    return good && memcmp(k->base[3], bases[3].name, sizeof k->base[3]) == 0;
}

static long lies_taken(void)
{
    long n = 0;
    for (unsigned i = 0; i < BASES; i++) n += bases[i].wrong;
    return n;
}

static bool id_differs(const struct kd_parts *a, const struct kd_parts *b)
{
    return memcmp(a->id, b->id, sizeof a->id) != 0;
}

static void four(void)
{
    bool good = true;
    for (unsigned i = 0; i < 4; i++) bases[i].lies = true;
    is(write_them(0x0f), 0, "a transaction of four bases");
    for (unsigned i = 0; i < 3; i++)
        good &= bases[i].asked[KD_PART_VOTE] == 1 && bases[i].asked[KD_PART_COMMIT] == 1 &&
                told_right(i);
    tap_ok(good && bases[3].asked[KD_PART_DECIDE] == 1 && told_right(3),
           "three vote, the last one decides, the three commit; all hear the same of it");
    tap_ok(lies_taken() == 0, "no vote counts twice, nothing is published before the decision, "
           "and who voted refuses nothing that is committed (%ld)", lies_taken());
    struct kd_parts first = bases[0].told;
    bases[1].refuses = true;
    int e = write_them(0x0f);
    bases[1].refuses = false;
    tap_ok(e == -EPERM && bases[0].asked[KD_PART_UNDO] == 1 && !bases[1].asked[KD_PART_UNDO] &&
               bases[2].asked[KD_PART_VOTE] == 1 && bases[3].asked[KD_PART_DECIDE] == 1,
           "one refuses: who voted undoes, and nobody else hears of it (%d)", e);
    tap_ok(lies_taken() == 0, "and nothing of it is published (%ld)", lies_taken());
    struct kd_parts refused = bases[0].told;
    is(write_them(0x0f), 0, "the next one is done");
    tap_ok(id_differs(&first, &refused) && id_differs(&refused, &bases[0].told) &&
               id_differs(&first, &bases[0].told), "each attempt has an id of its own");
}

/* ---- what a commit tells ---- */

static long commit_telling(int port, int told, uint64_t bytes)
{
    static struct context c;
    static const uint8_t batch[64];
    struct kd_commit k = {.port = port, .batch = batch, .batch_bytes = bytes};
    int reason = setjmp(c.env);
    if (reason) return -reason;
    long e = txn_open(&c, (struct kd_begin){.mode = KD_SERIALISABLE});
    if (!e) write_some((void *)3ul); /* of base 1 last, which decides */
    if (!e && told >= 0) e = kd_call3(KD_TXN_BATCH, told, (long)batch, 16);
    if (e) {
        kd_call3(KD_TXN_ABORT, (long)-e, 0, 0);
        return e;
    }
    return kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0);
}

static void batches(void)
{
    long e = commit_telling(-1, -1, 64);
    tap_ok(e == 0 && bases[1].batch[KD_PART_DECIDE] == 64 && !bases[0].batch[KD_PART_VOTE],
           "a batch for nobody by name goes to who decides (%ld)", e);
    e = commit_telling(bases[0].port, bases[1].port, 64);
    tap_ok(e == 0 && bases[0].batch[KD_PART_DECIDE] == 64 && bases[1].batch[KD_PART_VOTE] == 16,
           "whose batch goes with the commit decides, and the other one hears its own (%ld)", e);
    is(commit_telling(bases[0].port, bases[0].port, 64), -EEXIST,
       "two batches for one base are one too many");
    is(commit_telling(-1, bases[1].port, 64), -EEXIST, "also if it is not said by name");
    view_anew();
}

/* ---- snapshots ---- */

static bool becomes(volatile unsigned *count, unsigned wanted)
{
    for (int i = 0; i < WAIT_MS && *count < wanted; i++) pause_ms(1);
    return *count >= wanted;
}

static int child(void)
{
    struct kd_space_info info;
    for (unsigned i = 0; i < 2; i++)
        while (kd_call3(KD_CONTAINER_INFO, (long)bases[i].at, (long)&info, 0)) pause_ms(1);
    return write_them(3) == 0 ? 0 : 1;
}

/* A child's transaction of the bases 0 and 1, which 1 has shown and 0 has not. Its pid. */
static int half_begin(const char *self)
{
    char at[64];
    unsigned before = bases[1].answered[KD_PART_DECIDE];
    bases[0].silent = true;
    snprintf(at, sizeof at, "%lx.%lx", bases[0].at, bases[1].at);
    int pid = child_start(self, "child", at);
    if (attach(pid, 0) || attach(pid, 1) ||
        !becomes(&bases[1].answered[KD_PART_DECIDE], before + 1))
        return -1;
    return pid;
}

static bool half_end(int pid)
{
    bases[0].silent = false;
    return child_wait(pid) == 0;
}

static int read_both(void *out)
{
    for (unsigned i = 0; i < 2; i++) ((uint64_t *)out)[i] = *word(i);
    return 0;
}

static void waits(const char *self)
{
    uint64_t seen[2] = {1, 2};
    int pid = half_begin(self), e = run(read_both, seen, KD_SNAPSHOT, SHORT_MS);
    tap_ok(pid > 0 && e == -ETIMEDOUT, "a snapshot waits for who is silent, to its end (%d)", e);
    e = run(read_both, seen, KD_DIRTY_READ, 0);
    tap_ok(e == 0 && seen[1] == seen[0] + 1, "who waits for nothing sees the half (%lu and %lu)",
           seen[0], seen[1]);
    bool ended = half_end(pid);
    e = run(read_both, seen, KD_SNAPSHOT, 0);
    tap_ok(ended && e == 0 && seen[0] == seen[1], "then both are seen (%d, %lu and %lu)", e,
           seen[0], seen[1]);
}

static int read_one(void *out)
{
    *(uint64_t *)out = *word(0);
    return 0;
}

static int read_second(void *out)
{
    *(uint64_t *)out = *word(1);
    return 0;
}

/* This process has objects of base 0 alone: it could not see a half. */
static void alone(const char *self)
{
    uint64_t seen;
    bool good = true;
    for (unsigned i = 1; i < BASES; i++) detach(i);
    int pid = half_begin(self), e = run(read_one, &seen, KD_SNAPSHOT, SHORT_MS);
    tap_ok(pid > 0 && e == 0, "who has objects of one base alone waits for nobody (%d)", e);
    good &= half_end(pid);
    for (unsigned i = 1; i < BASES; i++) good &= attach(getpid(), i) == 0;
    tap_ok(good, "the transaction ends");
}

static long doubts(struct manager *b, uint64_t count)
{
    struct kd_voter k = {.life = 1};
    memcpy(k.name, b->name, sizeof k.name);
    return kd_call3(KD_PORT_VOTES, b->port, (long)&k, (long)count);
}

/* Until somebody waits for it: then it knows what became of its vote. */
static void *doubts_end(void *waited)
{
    for (int i = 0; i < WAIT_MS && doubts(&bases[0], 1) != 1; i++) pause_ms(1);
    *(long *)waited = doubts(&bases[0], 2);
    doubts(&bases[0], 0);
    return NULL;
}

/* Base 0 has voted for something, and others may know the outcome. */
static void in_doubt(void)
{
    pthread_t t;
    uint64_t seen;
    long waited = 0;
    for (unsigned i = 1; i < BASES; i++) detach(i);
    is(doubts(&bases[0], 1 << 16), -EINVAL, "so many votes nobody has");
    is(doubts(&bases[0], 1), 0, "a base has voted");
    is(run(read_one, &seen, KD_SNAPSHOT, SHORT_MS), -ETIMEDOUT,
       "a snapshot of its objects waits, though it sees no other base");
    pthread_create(&t, NULL, doubts_end, &waited);
    int e = run(read_one, &seen, KD_SNAPSHOT, WAIT_MS);
    pthread_join(t, NULL);
    tap_ok(e == 0 && waited == 1, "until it knows the outcome, and it is told of that (%d, %ld)", e,
           waited);
    for (unsigned i = 1; i < BASES; i++) e |= attach(getpid(), i) != 0;
    detach(0);
    e |= doubts(&bases[0], 1) != 0;
    is(run(read_second, &seen, KD_SNAPSHOT, SHORT_MS), 0, "who has no object of it does not wait");
    e |= doubts(&bases[0], 0) != 0;
    tap_ok(e == 0 && attach(getpid(), 0) == 0, "all is as it was");
}

static int read_nothing(void *unused) { return (void)unused, 0; }
static void *snapshot_of_nothing(void *result)
{
    *(int *)result = run(read_nothing, NULL, KD_SNAPSHOT, WAIT_MS);
    return NULL;
}

/* This process has no object at all: its snapshot waits until nobody owes anything, and all bases
 * hear of that, so that it does not wait for what begins meanwhile. */
static void bare(const char *self)
{
    pthread_t t;
    int e = -1;
    for (unsigned i = 0; i < BASES; i++) detach(i);
    int pid = half_begin(self);
    long heard = 0;
    pthread_create(&t, NULL, snapshot_of_nothing, &e);
    for (int i = 0; i < WAIT_MS / 10 && !(heard = doubts(&bases[2], 0)); i++) pause_ms(1);
    tap_ok(pid > 0 && heard == 1, "for a snapshot without objects any base is told that it waits");
    bool ended = half_end(pid);
    pthread_join(t, NULL);
    for (unsigned i = 0; i < BASES; i++) ended &= attach(getpid(), i) == 0;
    tap_ok(ended && e == 0 && doubts(&bases[2], 0) == 0, "until it has begun (%d)", e);
}

static _Atomic int halves_pid, tries, shared;
static int read_late(void *out)
{
    uint64_t *seen = out;
    seen[1] = *word(1);
    if (tries++ == 0) {
        shared = (int)kd_call3(KD_SNAPSHOT_SHARE, 0, 0, 0);
        bool over = halves_pid ? half_end(halves_pid) : doubts(&bases[0], 0) == 0;
        if (!over || attach(getpid(), 0)) return EIO;
    }
    seen[0] = *word(0);
    return 0;
}

/* This process has no object of base 0 when its snapshot begins. */
static void comes_late(const char *self)
{
    uint64_t seen[2] = {1, 2};
    detach(0);
    halves_pid = half_begin(self);
    int e = run(read_late, seen, KD_SNAPSHOT, WAIT_MS);
    tap_ok(halves_pid > 0 && e == 0 && seen[0] == seen[1] && tries == 2,
           "an object that comes later shows no half: it begins anew (%d, %lu and %lu, %d)", e,
           seen[0], seen[1], tries);
    const struct kd_begin there = {.mode = KD_SNAPSHOT, .snapshot = (uint64_t)shared + 1};
    e = shared < 0 ? shared : run_like(read_both, seen, &there);
    is(e, -ESTALE, "nor where its point was shared");
    detach(0);
    halves_pid = tries = 0;
    e = doubts(&bases[0], 1) == 0 ? run(read_late, seen, KD_SNAPSHOT, WAIT_MS) : -EINVAL;
    tap_ok(e == 0 && tries == 2, "nor one that was in doubt: it begins anew (%d, %d)", e, tries);
}

/* ---- a base that dies ---- */

enum { MORE = 600 };
static struct reader {
    unsigned mode;
    int result;
    uint64_t seen[2];
    _Atomic bool before, half, begun;   /* it has read; then there is a half; it has begun again */
} reader;

static int read_begun(void *out)
{
    reader.begun = true;
    return read_both(out);
}

static void *reads(void *unused)
{
    run(read_both, reader.seen, reader.mode, WAIT_MS); /* the right to read stays */
    reader.before = true;
    while (!reader.half) pause_ms(1);
    reader.result = run(read_begun, reader.seen, reader.mode, WAIT_MS);
    return unused;
}

/* Base 0 has shown nothing of what base 1 shows, and dies. Objects that it made later are swept
 * before the one that is looked at, and the reader has begun before, or waits to begin. */
static void dies(const char *self, unsigned mode, const char *what)
{
    pthread_t t;
    bool good = true, heard = false;
    for (unsigned i = 0; i < MORE; i++) {
        struct kd_object_create c = {.port = bases[0].port, .commit_port = bases[0].port,
                                     .pages = 1, .flags = KD_OBJECT_TRANSACTIONAL};
        long object = kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
        good &= kd_call3(KD_HANDLE_CLOSE, object, 0, 0) == 0; /* it lives as long as its port */
    }
    reader = (struct reader){.mode = mode};
    pthread_create(&t, NULL, reads, NULL);
    while (!reader.before) pause_ms(1);
    int pid = half_begin(self);
    reader.half = true;
    for (int i = 0; i < WAIT_MS && !(heard = reader.begun || doubts(&bases[0], 0)); i++)
        pause_ms(1);
    pause_ms(20); /* it waits for the page: where it does not yet, it meets less */
    kd_call3(KD_HANDLE_CLOSE, bases[0].port, 0, 0);
    pthread_join(t, NULL);
    tap_ok(good && pid > 0 && heard && half_end(pid) && reader.result == -EOWNERDEAD,
           "%s sees no half when a base dies (%d, %lu and %lu)", what, reader.result,
           reader.seen[0], reader.seen[1]);
    detach(0);
    view_anew();
}

int main(int argc, char **argv)
{
    if (argc == 3 && sscanf(argv[2], "%lx.%lx", &bases[0].at, &bases[1].at) == 2) return child();
    bool good = true;
    tap_plan(39);
    for (unsigned i = 0; i < BASES; i++)
        good &= manager_start(&bases[i]) && attach(getpid(), i) == 0;
    tap_ok(good, "five managers");
    names();
    four();
    batches();
    waits(argv[0]);
    alone(argv[0]);
    in_doubt();
    bare(argv[0]);
    comes_late(argv[0]);
    tap_ok(lies_taken() == 0, "no lie was taken (%ld)", lies_taken());
    dies(argv[0], KD_SNAPSHOT, "a snapshot that waits");
    good = manager_start(&bases[0]) && attach(getpid(), 0) == 0 &&
           kd_call3(KD_NAME_SET, (long)"parts.0", bases[0].port, 0) == 0;
    tap_ok(good && votes(&bases[0], bases[0].name) == 0, "the next manager");
    dies(argv[0], KD_SERIALISABLE, "who waits for a page");
    is(check(), 0, "kcheck");
    return tap_end();
}
