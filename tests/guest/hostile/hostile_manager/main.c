/*
 * hostile_manager - managers that stall, lie, answer twice, supply what they do not have, fault on
 * their own objects, stop in the middle, or die at each step.
 *
 * Aim     a wrong call of a manager is an errno; what it does not answer ends its clients' waits by
 *         their time-outs, by a kill, or by its own end; nobody else notices, and frames, handles,
 *         objects, views, copies and credits are back where they were.
 * Method  a manager with three objects (transactional and spilling; asking; plain) and one thread,
 *         and a client that needs each of its answers, in processes of their own. The manager does
 *         one wrong thing; or it ends in place of its n-th call, for n = 1, 2, ... until it comes
 *         to its end alive. This process is a bystander: another manager, whose client commits
 *         meanwhile.
 */
#include "manager.h"

static volatile uint64_t *at_page(int object, unsigned page)
{
    return (volatile uint64_t *)(bases[object] + page * KD_PAGE_BYTES);
}
static int use_page(void *arg)
{
    (void)arg;
    if (*at_page(LARGE, 0) != 0) return 1;
    *at_page(LARGE, 1) += 5;
    return 0;
}
static int use_lock(void *arg) { return (void)arg, *at_page(ASKING, 0) += 1, 0; }
static int use_commit(void *arg) { return (void)arg, *at_page(LARGE, 2) += 1, 0; }
static int see_spill(void *value) /* some of what use_spill left */
{
    for (unsigned i = 2; i < LARGE_PAGES; i += 15)
        if (*at_page(LARGE, i) != (uintptr_t)value + i) return 1;
    return 0;
}
static int use_spill(void *value)
{
    for (unsigned i = 2; i < LARGE_PAGES; i++) *at_page(LARGE, i) = (uintptr_t)value + i;
    return 0;
}
static int use_twice(void *value) { return use_spill(value), see_spill(value); }

static int step(enum kind kind, long p, unsigned ms)
{
    struct kd_message m = {.kind = KIND_ECHO, .handle = -1, .word = {77}};
    switch (kind) {
    case CALL_KIND: {
        long e = ms ? CALL(KD_PORT_CALL_UNTIL, p, &m, ms) : CALL(KD_PORT_CALL, p, &m);
        return e ? (int)e : m.word[0] != 77;
    }
    case PAGE_KIND: return run(use_page, NULL, KD_SERIALISABLE, ms);
    case PLAIN_KIND: return *at_page(PLAIN, 0) != 0 ? 1 : (*at_page(PLAIN, 1) = 1, 0);
    case LOCK_KIND: return run(use_lock, NULL, KD_SERIALISABLE, ms);
    case SPILL_KIND: return run(use_spill, (void *)1000, KD_SERIALISABLE, ms);
    case UNSPILL_KIND: {
        int e = run(use_twice, (void *)2000, KD_SERIALISABLE, ms);
        return e ? e : run(see_spill, (void *)2000, KD_SNAPSHOT, ms);
    }
    default: return run(use_commit, NULL, KD_SERIALISABLE, ms);
    }
}

/* All steps, or one, for which it has a time limit. Its end: GOOD, or the errno. */
static int client_role(int manager, int only, unsigned ms)
{
    long p;
    struct kd_message m = {.kind = KIND_OPEN, .handle = -1};
    while ((p = CALL(KD_NAME_FIND, name)) == -ENOENT) {
        if (kill(manager, 0) && errno == ESRCH) return ESRCH;
        usleep(1000);
    }
    if (p < 0 || CALL(KD_PORT_CALL, p, &m)) return EPIPE;
    memcpy(bases, m.word, sizeof bases);
    for (int i = 0; i < KINDS; i++) {
        int e = only == KINDS || only == i ? step((enum kind)i, p, ms) : 0;
        if (e) return e < 0 ? -e : GOOD + 1;
    }
    m.kind = KIND_END;
    return CALL(KD_PORT_CALL, p, &m) ? EPIPE : GOOD;
}

/* ---- the bystander ---- */

static bool lend_credits(struct kd_message *m)
{
    /* there are no more */
    if (m->kind == (uint32_t)KD_MSG_CREDIT_LOW) CALL(KD_CREDIT_GRANT, commit_port, 0);
    /* what it spends */
    if (m->kind == (uint32_t)KD_MSG_COMMIT) CALL(KD_CREDIT_GRANT, commit_port, m->word[1]);
    return false;
}

static sem_t bystander_go, bystander_done;
static _Atomic int bystander_result;
static int all_credits(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < CREDITS; i++) *word_of(i, 1) += 1;
    return 0;
}
static void *bystander(void *arg)
{
    for (;;) {
        sem_wait(&bystander_go);
        for (int i = 0; i < 3 && !bystander_result; i++)
            bystander_result = run(all_credits, NULL, KD_SERIALISABLE, 0);
        sem_post(&bystander_done);
    }
    return arg;
}

/* ---- lives ---- */

static const char *self;
static long counts_before[8], frames_least;
enum { FRAMES_LOST = 64 }; /* fewer may be missing when the evictor has freed all of the dead */

static void counts_take(long c[8])
{
    static struct kd_process_info p[64];
    struct kd_system_info s = {0};
    CALL(KD_SYSTEM_INFO, &s);
    memset(c, 0, 8 * sizeof c[0]);
    long all[] = { (long)s.objects, (long)s.versions, (long)s.processes,
                   CALL(KD_VIEW_LIST, NULL, 0) };
    memcpy(c, all, sizeof all);
    long n = CALL(KD_PROCESS_LIST, p, 64);
    for (long i = 0; i < n && i < 64; i++) c[4] += (long)p[i].used[KD_LIMIT_HANDLES];
    c[7] = (long)(s.free_bytes / KD_PAGE_BYTES);
}

/* All is as it was, and the bystander has committed meanwhile. What a moment changes gets its
 * time. */
static bool undisturbed(const char *what, long number)
{
    long now[8];
    bool same = false;
    sem_wait(&bystander_done);
    for (int i = 0; i < SURE_S * 1000 && !same; i++) {
        counts_take(now);
        same = !memcmp(now, counts_before, 4 * sizeof now[0]) &&
               now[4] <= counts_before[4] && /* the shell may close one of its own (hostile.c) */
               counts_before[7] - now[7] < FRAMES_LOST;
        if (!same) usleep(1000);
    }
    frames_least = now[7] < frames_least ? now[7] : frames_least;
    bool good = same && check() == 0 && !bystander_result;
    if (!good)
        printf("# %s %ld: bystander %d; objects %+ld versions %+ld processes %+ld views %+ld "
               "handles %+ld frames %+ld\n",
               what, number, bystander_result, now[0] - counts_before[0], now[1] - counts_before[1],
               now[2] - counts_before[2], now[3] - counts_before[3], now[4] - counts_before[4],
               now[7] - counts_before[7]);
    return good;
}

static int start(const char *role, long a, long b, long c)
{
    char text[80];
    snprintf(text, sizeof text, "%ld %ld %ld", a, b, c);
    return child_start(self, role, text);
}

struct life { int manager, client, manager_status, client_status; };
static struct life life_begin(enum deed d, enum kind kind, long dies, int only, unsigned ms)
{
    struct life l = {.manager = start("manager", d, kind, dies)};
    sem_post(&bystander_go);
    l.client = start("client", l.manager, only, ms);
    return l;
}

/* The manager said so: it does nothing any more. False: it has ended before, or its client, whose
 * time was up. */
static bool is_stalled(const struct life *l, unsigned ms)
{
    for (int i = 0; i < SURE_S * 1000; i++, usleep(1000)) {
        long p = CALL(KD_NAME_FIND, stalled);
        if (p < 0 && (kill(l->manager, 0) || (ms && kill(l->client, 0)))) return false;
        if (p < 0) continue;
        CALL(KD_HANDLE_CLOSE, p);
        return true;
    }
    return false;
}

/* Whoever does not end is found by the time limit of the whole test. */
static int end_of(int pid, bool killed)
{
    if (killed) CALL(KD_PROCESS_KILL, pid, 137);
    return child_wait(pid);
}

/* A life whose manager has stalled. Where the host took the CPU away before it came to that, its
 * client's time may have been up first: then another one. */
static struct life life_stalled(enum deed d, enum kind kind, unsigned ms, bool *is)
{
    struct life l = life_begin(d, kind, 0, (int)kind, ms);
    for (int i = 0; !(*is = is_stalled(&l, ms)) && ms && i < 5; i++) {
        end_of(l.client, true);
        end_of(l.manager, true);
        sem_wait(&bystander_done);
        l = life_begin(d, kind, 0, (int)kind, ms *= 2);
    }
    return l;
}

/* A manager that goes on after its deed, and its client. The client ends by itself where it can:
 * where it waits for what cannot time out, by a kill, or at its manager's end. */
static bool one_deed(enum deed d, enum kind kind)
{
    bool stalls = d == STALLS || d == OWN_FAULT;
    unsigned ms = stalls ? STALL_MS : 0;
    bool good = true;
    struct life l =
        d == LEAVES ? life_begin(d, kind, 0, (int)kind, ms) : life_stalled(d, kind, ms, &good);
    /* no time-out, but a kill */
    bool killed = stalls && (kind == PLAIN_KIND || kind == COMMIT_KIND);
    /* the answer may still come */
    bool waits = d == DETACHES || (d == DESTROYS && kind == COMMIT_KIND);
    if (!waits) l.client_status = end_of(l.client, killed);
    l.manager_status = end_of(l.manager, d != LEAVES);
    if (waits) l.client_status = end_of(l.client, false);
    good &= l.client_status > 0 && l.client_status != GOOD && l.manager_status > 0;
    if (!good)
        printf("# deed %d at %s: manager %d, client %d\n", d, kind_names[kind], l.manager_status,
               l.client_status);
    return undisturbed(kind_names[kind], d) && good;
}

static void deeds(enum deed d, const char *what)
{
    bool good = true;
    for (int kind = 0; kind < KINDS; kind++) {
        /* not of an object */
        if ((d == DETACHES || d == ABORTS || d == DESTROYS) && kind == CALL_KIND) continue;
        /* not in a transaction */
        if (d == ABORTS && (kind == PLAIN_KIND || kind == COMMIT_KIND)) continue;
        good &= one_deed(d, (enum kind)kind);
    }
    tap_ok(good, "a manager that %s", what);
}

static void honest_and_lying(void)
{
    static const char *const what[] = {
        "an honest manager, which calls rights back as it gives them, serves its client",
        "lies, double answers and answers nobody asked for are refused, and the right ones count",
        "a manager that calls all rights back always serves its client"};
    for (enum deed d = HONEST; d <= STORMS; d++) {
        struct life l = life_begin(d, KINDS, 0, KINDS, 0);
        l.client_status = end_of(l.client, false);
        l.manager_status = end_of(l.manager, l.client_status != GOOD); /* nobody else ends it */
        if (!tap_ok(l.manager_status == GOOD && l.client_status == GOOD && undisturbed("life", d),
                    "%s", what[d]))
            printf("# manager %d, client %d\n", l.manager_status, l.client_status);
    }
}

static void deaths(void)
{
    bool good = true;
    long n = 1;
    struct life l = {0};
    for (; n < CALLS_MAX && good && l.manager_status == 0; n++) {
        l = life_begin(HONEST, KINDS, n, KINDS, 0);
        l.manager_status = end_of(l.manager, false);
        l.client_status = end_of(l.client, false);
        good = undisturbed("call", n) && l.client_status > 0;
        if (!good)
            printf("# call %ld: manager %d, client %d\n", n, l.manager_status, l.client_status);
    }
    tap_ok(good, "it dies at each of its %ld calls: its client ends, counts are as before", n - 2);
    tap_ok(l.manager_status == GOOD && l.client_status == GOOD && n > 100,
           "until it comes to its end alive (%d, %d)", l.manager_status, l.client_status);
}

int main(int argc, char **argv)
{
    long a[3] = {0};
    pthread_t t;
    if (argc > 2) {
        char *at = argv[2];
        for (int i = 0; i < 3; i++) a[i] = strtol(at, &at, 10);
        if (strcmp(argv[1], "client") == 0)
            return client_role((int)a[0], (int)a[1], (unsigned)a[2]);
        deed = (enum deed)a[0];
        deed_kind = (enum kind)a[1];
        die_at = a[2];
        return manager_role();
    }
    self = argv[0];
    tap_plan(14);
    sem_init(&bystander_go, 0, 0);
    sem_init(&bystander_done, 0, 0);
    bool good = start_manager((struct own_manager){.pages = PAGES, .messages = lend_credits}) &&
                CALL(KD_CREDIT_GRANT, commit_port, CREDITS) >= 0 &&
                pthread_create(&t, NULL, bystander, NULL) == 0;
    for (int i = 0; i < 2 && good; i++) { /* what is made once is made now */
        struct life l = life_begin(HONEST, KINDS, 0, KINDS, 0);
        good = end_of(l.manager, false) == GOOD && end_of(l.client, false) == GOOD;
        sem_wait(&bystander_done);
    }
    tap_ok(good, "a bystander, a manager and its client");
    counts_take(counts_before);
    frames_least = counts_before[7];
    honest_and_lying();
    deeds(STALLS, "stalls: its clients' time-outs, their kills, or its own end help");
    deeds(OWN_FAULT, "faults on its own object waits for itself, and for nothing else");
    deeds(CLOSES, "closes its port ends its clients' waits");
    deeds(DESTROYS, "destroys its objects does so, too");
    deeds(DETACHES, "detaches its client keeps it waiting until its own end at the latest");
    deeds(ABORTS, "aborts its client's transaction does so, too");
    deeds(LEAVES, "ends does so, too");
    deaths();
    long lost = counts_before[7] - frames_least;
    tap_ok(lost < FRAMES_LOST, "their frames are free again (%ld missing at most)", lost);
    return tap_end();
}
