/*
 * hostile_manager.c - managers that stall, lie, answer twice, supply what they do not have, fault on their
 * own objects, stop in the middle, or die at each step.
 *
 * Aim     a wrong call of a manager is an errno; what it does not answer ends its clients' waits by their
 *         time-outs, by a kill, or by its own end; nobody else notices, and frames, handles, objects,
 *         views, copies and credits are back where they were.
 * Method  a manager with three objects (transactional and spilling; asking; plain) and one thread, and a
 *         client that needs each of its answers, in processes of their own. The manager does one wrong
 *         thing; or it ends in place of its n-th call, for n = 1, 2, ... until it comes to its end alive.
 *         This process is a bystander: another manager, whose client commits meanwhile.
 */
enum { PAGES = 24, CREDITS = 16 };
#include "own_manager.h"

#include <semaphore.h>
#include <signal.h>
#include <stdio.h>

#include "hostile.h"

static long die_at, calls;
static void step_counted(void)
{
    if (die_at && ++calls == die_at) _exit(0);
}
#undef CALL
#define CALL(number, ...) \
    (step_counted(), kd_call6((number), CALL_SIX(__VA_ARGS__, 0, 0, 0, 0, 0, 0)))

enum { LARGE, ASKING, PLAIN, OBJECTS };
enum { LARGE_PAGES = 80, LARGE_CREDITS = 70, SMALL_PAGES = 4, NEVER = 2 /* from there on nobody supplies */ };
enum kind { CALL_KIND, PAGE_KIND, PLAIN_KIND, LOCK_KIND, SPILL_KIND, UNSPILL_KIND, COMMIT_KIND, KINDS };
static const char *const kind_names[KINDS] = {"a call", "a page", "a plain page", "a lock", "a spill",
                                              "an unspill", "a commit"};
enum deed { HONEST, LIES, STALLS, OWN_FAULT, CLOSES, DESTROYS, DETACHES, ABORTS, LEAVES, DEEDS };
enum { KIND_OPEN = 1, KIND_ECHO, KIND_END };
enum { GOOD = 9, MANAGER_WRONG = 40, SURE_S = 60, STALL_MS = 300, CALLS_MAX = 3000 };
static const char name[] = "hostile.manager", stalled[] = "hostile.stalled";

/* ---- the manager ---- */

static enum deed deed;
static enum kind deed_kind;
static int hostile_port, objects[OBJECTS], wrong;
static uint64_t bases[OBJECTS], client;
static uint8_t large[LARGE_PAGES][KD_PAGE_BYTES], spilled[LARGE_PAGES][KD_PAGE_BYTES];
static uint8_t runs[40 * (KD_PAGE_BYTES + sizeof(struct kd_run))];
static bool in_log[LARGE_PAGES];

static void want(long got, long wanted, int line)
{
    if (got == wanted) return;
    printf("# manager, line %d: %ld, not %ld\n", line, got, wanted);
    wrong = 1;
}
#define WANT(wanted, ...) want(CALL(__VA_ARGS__), wanted, __LINE__)
#define REFUSED(...) want(is_errno(CALL(__VA_ARGS__)), 1, __LINE__)

static bool manager_start(void)
{
    static const uint32_t flags[OBJECTS] = {KD_OBJECT_TRANSACTIONAL | KD_OBJECT_SPILLS | KD_OBJECT_NOTICES,
                                            KD_OBJECT_TRANSACTIONAL | KD_OBJECT_ASK, 0};
    int p = hostile_port = (int)CALL(KD_PORT_CREATE, 0);
    for (int i = 0; i < OBJECTS; i++) {
        struct kd_object_create c = {.port = p, .commit_port = p, .flags = flags[i], .cookie = (uint64_t)i,
                                     .pages = i == LARGE ? LARGE_PAGES : SMALL_PAGES, .name = "hostile"};
        objects[i] = (int)CALL(KD_OBJECT_CREATE, &c);
        bases[i] = c.base;
        if (objects[i] < 0) return false;
    }
    struct kd_supply s = {.object = objects[LARGE], .source = KD_SUPPLY_ZERO, .rights = 3, .page = 2,
                          .count = LARGE_PAGES - 2};
    return CALL(KD_OBJECT_SUPPLY, &s) == 0 && CALL(KD_CREDIT_GRANT, p, LARGE_CREDITS) >= 0 &&
           CALL(KD_SPACE_ATTACH, getpid(), objects[PLAIN], 3) == 0 && CALL(KD_NAME_SET, name, p) == 0;
}

static struct kd_supply supply_of(const struct kd_message *m)
{
    bool is_large = m->word[0] == LARGE;
    return (struct kd_supply){.object = (int)m->word[5], .source = is_large ? KD_SUPPLY_MEMORY : KD_SUPPLY_ZERO,
                              .rights = 3, .page = m->word[1], .count = 1, .csn = next_csn,
                              .memory = is_large ? large[m->word[1]] : NULL};
}

/* A page of this manager's own that it never supplies: touching it, it waits for itself. */
static void *own_page(void)
{
    CALL(KD_NAME_SET, stalled, CALL(KD_PORT_CREATE, 0));
    return (void *)(bases[PLAIN] + NEVER * KD_PAGE_BYTES);
}
static void stall(void)
{
    CALL(KD_NAME_SET, stalled, CALL(KD_PORT_CREATE, 0));
    for (;;) usleep(10000);
}

/* Nobody asked for any of these answers. */
static void answers_unasked(void)
{
    struct kd_message r = {.handle = -1};
    for (uint64_t view = 0; view <= KD_VIEW_MAX; view += 16)
        for (uint64_t token = 0; token < 4; token++) {
            struct kd_publish p = {view, token, next_csn + 1};
            struct kd_diff d = {.view = view, .token = token, .buffer = spilled, .buffer_bytes = 8192};
            REFUSED(KD_TXN_PUBLISH, &p, 1);
            REFUSED(KD_TXN_DIFF, &d);
            REFUSED(KD_TXN_REFUSE, view, token, EIO);
            REFUSED(KD_TXN_SPILLED, view, token, 1, 1);
            REFUSED(KD_TXN_UNSPILL, view, token, large[0]);
            REFUSED(KD_VIEW_WAIT, view, large[0]);
            REFUSED(KD_LOCK_ANSWER, objects[ASKING], token, view, 0);
        }
    for (uint64_t token = 0; token < 1u << 20; token += 4099) WANT(-ESRCH, KD_PORT_REPLY, token, &r);
}

/* ---- each answer: wrong ones, the right one, and once more ---- */

static void answer_call(struct kd_message *m)
{
    struct kd_message r = {.handle = -1, .word = {m->word[0]}};
    if (deed == LIES) {
        struct kd_message huge = {.handle = -1, .data = large, .data_bytes = ~0ull};
        answers_unasked();
        WANT(-ESRCH, KD_PORT_REPLY, m->token + 1, &r);
        WANT(-EFAULT, KD_PORT_REPLY, m->token, 8);
        WANT(-E2BIG, KD_PORT_REPLY, m->token, &huge);
        huge.data_bytes = 8, huge.data = (void *)16;
        WANT(-EFAULT, KD_PORT_REPLY, m->token, &huge);
    }
    WANT(0, KD_PORT_REPLY, m->token, &r);
    if (deed == LIES) WANT(-ESRCH, KD_PORT_REPLY, m->token, &r);
}

static void answer_page(struct kd_message *m)
{
    struct kd_supply s = supply_of(m), bad;
#define BAD(error, ...) (bad = s, __VA_ARGS__, WANT(error, KD_OBJECT_SUPPLY, &bad))
    if (deed == LIES) {
        uint8_t bits = 0;
        uint64_t pages = m->word[0] == LARGE ? LARGE_PAGES : SMALL_PAGES;
        BAD(-EBADF, bad.object = 77);
        BAD(-EBADF, bad.object = hostile_port);
        BAD(-EINVAL, bad.page = pages);
        BAD(-EINVAL, bad.page = ~0ull);
        BAD(-EINVAL, bad.count = 0);
        BAD(-EINVAL, bad.count = ~0ull);
        BAD(-EINVAL, bad.count = pages - bad.page + 1);
        BAD(-EINVAL, bad.source = 3);
        BAD(-EINVAL, bad.rights = 0);
        BAD(-EINVAL, bad.rights = KD_WRITE);
        BAD(-ENOENT, bad.source = KD_SUPPLY_READ); /* no disk brought it */
        for (int i = 0; i < BAD_POINTERS; i++) {   /* contents that it does not have */
            BAD(-EFAULT, (bad.source = KD_SUPPLY_MEMORY, bad.memory = (void *)bad_pointers[i]));
            WANT(-EFAULT, KD_OBJECT_SUPPLY, bad_pointers[i]);
        }
        REFUSED(KD_OBJECT_FAIL, s.object, s.page, 1, 0);
        REFUSED(KD_OBJECT_FAIL, s.object, s.page, 1, 4096);
        REFUSED(KD_OBJECT_FAIL, s.object, pages, 1, EIO);
        WANT(0, KD_OBJECT_FAIL, s.object, s.page, 1, EAGAIN); /* waits on */
        WANT(0, KD_OBJECT_FAIL, s.object, (s.page + 1) % pages, 1, EIO); /* of a page that nobody waits for */
        WANT(0, KD_OBJECT_INFO, s.object, s.page, 1, &bits);
        want(bits & ~KD_PAGE_AWAY, 0, __LINE__);
    }
    WANT(0, KD_OBJECT_SUPPLY, &s);
    if (deed == LIES) { /* the first answer counts */
        static uint8_t other[KD_PAGE_BYTES] = {0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee};
        s.source = KD_SUPPLY_MEMORY, s.memory = other, s.csn = 0;
        WANT(0, KD_OBJECT_SUPPLY, &s);
        WANT(0, KD_OBJECT_FAIL, s.object, s.page, 1, EIO);
    }
}

static void answer_lock(struct kd_message *m)
{
    long o = (long)m->word[4], view = (long)m->word[3];
    if (deed == LIES) {
        REFUSED(KD_LOCK_ANSWER, o, m->token, view, 1);
        REFUSED(KD_LOCK_ANSWER, o, m->token, view, -4096);
        REFUSED(KD_LOCK_ANSWER, o, m->token, view + 1, 0);
        REFUSED(KD_LOCK_ANSWER, o, m->token, KD_VIEW_MAX, 0);
        REFUSED(KD_LOCK_ANSWER, o, m->token + 1, view, 0);
        REFUSED(KD_LOCK_ANSWER, objects[LARGE], m->token, view, 0);
    }
    WANT(0, KD_LOCK_ANSWER, o, m->token, view, 0);
    if (deed == LIES) WANT(-ESRCH, KD_LOCK_ANSWER, o, m->token, view, -EIO);
}

/* Copies all that KD_TXN_DIFF tells to `to`; pages. */
static long take(struct kd_message *m, uint64_t flags, uint8_t to[][KD_PAGE_BYTES])
{
    struct kd_diff d = {.view = m->word[0], .token = m->token, .flags = flags};
    long pages = 0;
    while (d.cursor != ~0ull && (flags == 0 || pages == 0)) {
        d.buffer = runs, d.buffer_bytes = sizeof runs;
        WANT(0, KD_TXN_DIFF, &d);
        if (wrong) break;
        pages += (long)d.pages;
        for (uint64_t at = 0; at < d.buffer_bytes;) {
            const struct kd_run *r = (const void *)(runs + at);
            if (r->cookie == LARGE) memcpy(to[r->page] + r->offset, r + 1, r->bytes);
            if (r->cookie == LARGE && flags) in_log[r->page] = true;
            at += sizeof *r + ((r->bytes + 7u) & ~7u);
        }
    }
    return pages;
}

static void bad_diffs(struct kd_message *m)
{
    static uint8_t small[KD_PAGE_BYTES - 1];
    struct kd_diff d = {.view = m->word[0], .token = m->token, .buffer = small, .buffer_bytes = sizeof small};
    WANT(-EINVAL, KD_TXN_DIFF, &d);
    d.token++;
    d.buffer = large, d.buffer_bytes = 2 * KD_PAGE_BYTES;
    WANT(-ESRCH, KD_TXN_DIFF, &d);
    d.token--;
    for (int i = 0; i < BAD_POINTERS; i++) {
        d.buffer = (void *)bad_pointers[i];
        REFUSED(KD_TXN_DIFF, &d);
        WANT(-EFAULT, KD_TXN_DIFF, bad_pointers[i]);
    }
    REFUSED(KD_TXN_UNSPILL, m->word[0], m->token, large[0]);
}

static void answer_spill(struct kd_message *m)
{
    if (deed == LIES) {
        struct kd_publish p = {m->word[0], m->token, next_csn};
        bad_diffs(m);
        WANT(-ESRCH, KD_TXN_PUBLISH, &p, 1); /* it has not committed */
        WANT(0, KD_TXN_SPILLED, m->word[0], m->token, 40, 0); /* what was never told */
        WANT(-ESRCH, KD_TXN_SPILLED, m->word[0], m->token + 1, 1, 1);
    }
    long told = take(m, KD_DIFF_SPILL, spilled);
    long n = CALL(KD_TXN_SPILLED, m->word[0], m->token, deed == LIES ? told * 2 : told, 1);
    want(n, told, __LINE__);
    if (deed == LIES) WANT(-ESRCH, KD_TXN_SPILLED, m->word[0], m->token, told, 1);
    if (n > 0) CALL(KD_CREDIT_GRANT, hostile_port, n);
}

static void answer_unspill(struct kd_message *m)
{
    uint64_t page = m->word[2];
    if (deed == LIES) {
        for (int i = 0; i < BAD_POINTERS; i++) REFUSED(KD_TXN_UNSPILL, m->word[0], m->token, bad_pointers[i]);
        WANT(-ESRCH, KD_TXN_UNSPILL, m->word[0], m->token + 1, spilled[page]);
        WANT(-ESRCH, KD_TXN_SPILLED, m->word[0], m->token, 1, 1);
    }
    in_log[page] = false;
    WANT(0, KD_TXN_UNSPILL, m->word[0], m->token, spilled[page]);
    if (deed == LIES) WANT(-ESRCH, KD_TXN_UNSPILL, m->word[0], m->token, large[0]);
}

static void answer_commit(struct kd_message *m)
{
    struct kd_publish p = {m->word[0], m->token, next_csn++}, twice[2] = {p, p}, bad = p;
    CALL(KD_CREDIT_GRANT, hostile_port, m->word[1]); /* those that the commit spends */
    if (deed == LIES) {
        twice[1].csn++;
        bad_diffs(m);
        WANT(-ESRCH, KD_TXN_PUBLISH, twice, 2);
        twice[1].csn--;
        WANT(-EINVAL, KD_TXN_PUBLISH, twice, 2);
        WANT(-EINVAL, KD_TXN_PUBLISH, &p, 0);
        WANT(-EINVAL, KD_TXN_PUBLISH, &p, KD_VIEW_MAX + 1);
        bad.token++;
        WANT(-ESRCH, KD_TXN_PUBLISH, &bad, 1);
        bad.token--, bad.view = KD_VIEW_MAX;
        WANT(-ESRCH, KD_TXN_PUBLISH, &bad, 1);
        for (int i = 0; i < BAD_POINTERS; i++) WANT(-EFAULT, KD_TXN_PUBLISH, bad_pointers[i], 1);
        WANT(-EINVAL, KD_TXN_REFUSE, p.view, p.token, 0);
        WANT(-EINVAL, KD_TXN_REFUSE, p.view, p.token, 4096);
        WANT(-ESRCH, KD_TXN_REFUSE, p.view, p.token + 1, EIO);
        WANT(-EINVAL, KD_CREDIT_GRANT, hostile_port, ~0ull);
    }
    for (int i = 0; i < LARGE_PAGES; i++)
        if (in_log[i]) memcpy(large[i], spilled[i], KD_PAGE_BYTES);
    memset(in_log, 0, sizeof in_log);
    take(m, 0, large);
    WANT(0, KD_TXN_PUBLISH, &p, 1);
    if (deed == LIES) {
        WANT(-ESRCH, KD_TXN_PUBLISH, &p, 1);
        WANT(-ESRCH, KD_TXN_REFUSE, p.view, p.token, EIO);
    }
}

static void touch_own(char *at) { *(volatile char *)at = 1; }

/* The answer that should be given from memory, or received into it, waits for this manager itself; or is
 * refused, where its client could not leave meanwhile. */
static void own_fault(enum kind kind, struct kd_message *m)
{
    char *at = own_page();
    struct kd_supply s = supply_of(m);
    struct kd_diff d = {.view = m->word[0], .token = m->token, .buffer = at, .buffer_bytes = 2 * KD_PAGE_BYTES};
    s.source = KD_SUPPLY_MEMORY, s.memory = at;
    switch (kind) {
    case CALL_KIND: CALL(KD_PORT_REPLY, m->token, at); break;
    case PAGE_KIND: CALL(KD_OBJECT_SUPPLY, &s); break;
    case PLAIN_KIND: touch_own(at); break;
    case LOCK_KIND: CALL(KD_PORT_NOTIFY, hostile_port, 1), CALL(KD_PORT_RECEIVE, hostile_port, at, -1); break;
    case SPILL_KIND: d.flags = KD_DIFF_SPILL, WANT(-EINVAL, KD_TXN_DIFF, &d), touch_own(at); break;
    case UNSPILL_KIND: WANT(-EINVAL, KD_TXN_UNSPILL, m->word[0], m->token, at), touch_own(at); break;
    default: WANT(-EINVAL, KD_TXN_DIFF, &d), CALL(KD_TXN_PUBLISH, at, 1); break;
    }
}

static void stop_serving(enum kind kind)
{
    if (deed == CLOSES) CALL(KD_HANDLE_CLOSE, hostile_port);
    if (deed == DESTROYS) for (int i = 0; i < OBJECTS; i++) WANT(0, KD_OBJECT_DESTROY, objects[i]);
    if (deed == DETACHES) for (int i = 0; i < OBJECTS; i++) CALL(KD_SPACE_DETACH, client, objects[i]);
    if (deed == LEAVES) _exit(GOOD);
    static struct kd_view_info list[KD_VIEW_MAX];
    long n = deed == ABORTS ? CALL(KD_VIEW_LIST, list, KD_VIEW_MAX) : 0;
    for (long i = 0; i < n; i++) /* a commit it may only refuse */
        if (list[i].pid == (int)client) WANT(kind == COMMIT_KIND ? -EBUSY : 0, KD_VIEW_ABORT, list[i].view, EIO);
    CALL(KD_NAME_SET, stalled, CALL(KD_PORT_CREATE, 0));
    if (kind == COMMIT_KIND && deed == ABORTS) _exit(GOOD);
    for (;;) usleep(10000); /* and lives on, so that it is not its end that ends others' waits */
}

static int manager_role(void)
{
    static void (*const answers[KINDS])(struct kd_message *) = {
        answer_call, answer_page, answer_page, answer_lock, answer_spill, answer_unspill, answer_commit};
    static uint8_t buffer[KD_PAGE_BYTES];
    if (!manager_start()) return MANAGER_WRONG;
    for (;;) {
        struct kd_message m = {.buffer = buffer, .buffer_bytes = sizeof buffer}, r = {.handle = -1};
        if (CALL(KD_PORT_RECEIVE, hostile_port, &m, -1)) return MANAGER_WRONG + 1;
        enum kind kind = CALL_KIND;
        switch (m.kind) {
        case (uint32_t)KD_MSG_PAGE: kind = m.word[0] == PLAIN ? PLAIN_KIND : PAGE_KIND; break;
        case (uint32_t)KD_MSG_LOCK: kind = LOCK_KIND; break;
        case (uint32_t)KD_MSG_COMMIT: kind = COMMIT_KIND; break;
        case (uint32_t)KD_MSG_SPILL: kind = SPILL_KIND; break;
        case (uint32_t)KD_MSG_UNSPILL: kind = UNSPILL_KIND; break;
        case (uint32_t)KD_MSG_CREDIT_LOW: CALL(KD_CREDIT_GRANT, hostile_port, 0); continue; /* no more */
        case KIND_ECHO: break;
        case KIND_OPEN:
            client = m.process;
            for (int i = 0; i < OBJECTS; i++) {
                WANT(0, KD_SPACE_ATTACH, client, objects[i], 3);
                r.word[i] = bases[i];
            }
            WANT(0, KD_PORT_REPLY, m.token, &r);
            continue;
        case KIND_END: WANT(0, KD_PORT_REPLY, m.token, &r); return wrong ? MANAGER_WRONG + 2 : GOOD;
        default: continue; /* notices */
        }
        if (deed > LIES && kind == deed_kind) {
            if (deed == STALLS) stall();
            if (deed == OWN_FAULT) own_fault(kind, &m);
            else stop_serving(kind);
        }
        answers[kind](&m);
    }
}

/* ---- its client: a step for each kind; 0 or an errno ---- */

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
    if (m->kind == (uint32_t)KD_MSG_CREDIT_LOW) CALL(KD_CREDIT_GRANT, commit_port, 0); /* there are no more */
    if (m->kind == (uint32_t)KD_MSG_COMMIT) CALL(KD_CREDIT_GRANT, commit_port, m->word[1]); /* what it spends */
    return false;
}

static sem_t bystander_go, bystander_done;
static volatile int bystander_result;
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
        for (int i = 0; i < 3 && !bystander_result; i++) bystander_result = run(all_credits, NULL, KD_SERIALISABLE, 0);
        sem_post(&bystander_done);
    }
    return arg;
}

/* ---- lives ---- */

static const char *self;
static long counts_before[8], frames_least;

static void counts_take(long c[8])
{
    static struct kd_process_info p[64];
    struct kd_system_info s = {0};
    CALL(KD_SYSTEM_INFO, &s);
    memset(c, 0, 8 * sizeof c[0]);
    long all[] = {(long)s.objects, (long)s.versions, (long)s.processes, CALL(KD_VIEW_LIST, NULL, 0)};
    memcpy(c, all, sizeof all);
    long n = CALL(KD_PROCESS_LIST, p, 64);
    for (long i = 0; i < n && i < 64; i++) c[4] += (long)p[i].used[KD_LIMIT_HANDLES];
    c[7] = (long)(s.free_bytes / KD_PAGE_BYTES);
}

/* All is as it was, and the bystander has committed meanwhile. What a moment changes gets its time. */
static bool undisturbed(const char *what, long number)
{
    long now[8];
    bool same = false;
    sem_wait(&bystander_done);
    for (int i = 0; i < SURE_S * 1000 && !same; i++) {
        counts_take(now);
        same = !memcmp(now, counts_before, 5 * sizeof now[0]);
        if (!same) usleep(1000);
    }
    frames_least = now[7] < frames_least ? now[7] : frames_least;
    bool good = same && check() == 0 && !bystander_result;
    if (!good)
        printf("# %s %ld: bystander %d; objects %+ld versions %+ld processes %+ld views %+ld handles %+ld\n",
               what, number, bystander_result, now[0] - counts_before[0], now[1] - counts_before[1],
               now[2] - counts_before[2], now[3] - counts_before[3], now[4] - counts_before[4]);
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

/* The manager said so: it does nothing any more. False: it has ended before, or its client, whose time was up. */
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

/* A life whose manager has stalled. Where the host took the CPU away before it came to that, its client's time may
 * have been up first: then another one. */
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

/* A manager that goes on after its deed, and its client. The client ends by itself where it can: where it
 * waits for what cannot time out, by a kill, or at its manager's end. */
static bool one_deed(enum deed d, enum kind kind)
{
    bool stalls = d == STALLS || d == OWN_FAULT;
    unsigned ms = stalls ? STALL_MS : 0;
    bool good = true;
    struct life l = d == LEAVES ? life_begin(d, kind, 0, (int)kind, ms) : life_stalled(d, kind, ms, &good);
    bool killed = stalls && (kind == PLAIN_KIND || kind == COMMIT_KIND); /* no time-out, but a kill */
    bool waits = d == DETACHES || (d == DESTROYS && kind == COMMIT_KIND); /* the answer may still come */
    if (!waits) l.client_status = end_of(l.client, killed);
    l.manager_status = end_of(l.manager, d != LEAVES);
    if (waits) l.client_status = end_of(l.client, false);
    good &= l.client_status > 0 && l.client_status != GOOD && l.manager_status > 0;
    if (!good) printf("# deed %d at %s: manager %d, client %d\n", d, kind_names[kind], l.manager_status,
                      l.client_status);
    return undisturbed(kind_names[kind], d) && good;
}

static void deeds(enum deed d, const char *what)
{
    bool good = true;
    for (int kind = 0; kind < KINDS; kind++) {
        if ((d == DETACHES || d == ABORTS || d == DESTROYS) && kind == CALL_KIND) continue; /* not of an object */
        if (d == ABORTS && (kind == PLAIN_KIND || kind == COMMIT_KIND)) continue;       /* not in a transaction */
        good &= one_deed(d, (enum kind)kind);
    }
    tap_ok(good, "a manager that %s", what);
}

static void honest_and_lying(void)
{
    for (enum deed d = HONEST; d <= LIES; d++) {
        struct life l = life_begin(d, KINDS, 0, KINDS, 0);
        l.manager_status = end_of(l.manager, false);
        l.client_status = end_of(l.client, false);
        if (!tap_ok(l.manager_status == GOOD && l.client_status == GOOD && undisturbed("life", d), "%s",
                    d ? "lies, double answers and answers nobody asked for are refused, and the right ones count"
                      : "an honest manager serves its client"))
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
        if (!good) printf("# call %ld: manager %d, client %d\n", n, l.manager_status, l.client_status);
    }
    tap_ok(good, "it dies at each of its %ld calls: its client ends, counts are as before", n - 2);
    tap_ok(l.manager_status == GOOD && l.client_status == GOOD && n > 100, "until it comes to its end alive (%d, %d)",
           l.manager_status, l.client_status);
}

int main(int argc, char **argv)
{
    long a[3] = {0};
    pthread_t t;
    if (argc > 2) {
        char *at = argv[2];
        for (int i = 0; i < 3; i++) a[i] = strtol(at, &at, 10);
        if (strcmp(argv[1], "client") == 0) return client_role((int)a[0], (int)a[1], (unsigned)a[2]);
        deed = (enum deed)a[0];
        deed_kind = (enum kind)a[1];
        die_at = a[2];
        return manager_role();
    }
    self = argv[0];
    tap_plan(13);
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
    tap_ok(lost < 64, "their frames are free again (%ld missing at most)", lost);
    return tap_end();
}
