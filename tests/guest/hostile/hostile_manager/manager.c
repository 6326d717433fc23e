/* manager.c - a manager that does one thing wrong. */
#include "manager.h"

#include <sched.h>

long die_at, calls;
void step_counted(void)
{
    if (die_at && ++calls == die_at) _exit(0);
}

const char *const kind_names[KINDS] = {"a call", "a page", "a plain page", "a lock", "a spill",
                                              "an unspill", "a commit"};
const char name[] = "hostile.manager", stalled[] = "hostile.stalled";

/* ---- the manager ---- */

enum deed deed;
enum kind deed_kind;
static int hostile_port, objects[OBJECTS], wrong;
uint64_t bases[OBJECTS], client;
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
    static const uint32_t flags[OBJECTS] = { KD_OBJECT_TRANSACTIONAL | KD_OBJECT_SPILLS |
                                                 KD_OBJECT_NOTICES,
                                             KD_OBJECT_TRANSACTIONAL, 0 };
    int p = hostile_port = (int)CALL(KD_PORT_CREATE, 0);
    for (int i = 0; i < OBJECTS; i++) {
        struct kd_object_create c = { .port = p,
                                      .commit_port = p,
                                      .flags = flags[i],
                                      .cookie = (uint64_t)i,
                                      .pages = i == LARGE ? LARGE_PAGES : SMALL_PAGES,
                                      .name = "hostile" };
        objects[i] = (int)CALL(KD_OBJECT_CREATE, &c);
        bases[i] = c.base;
        if (objects[i] < 0) return false;
    }
    struct kd_supply s = { .object = objects[LARGE], .source = KD_SUPPLY_ZERO, .rights = 3,
                           .page = 2, .count = LARGE_PAGES - 2 };
    return CALL(KD_OBJECT_SUPPLY, &s) == 0 && CALL(KD_CREDIT_GRANT, p, LARGE_CREDITS) >= 0 &&
           CALL(KD_SPACE_ATTACH, getpid(), objects[PLAIN], 3) == 0 &&
           CALL(KD_NAME_SET, name, p) == 0;
}

static struct kd_supply supply_of(const struct kd_message *m)
{
    bool is_large = m->word[0] == LARGE;
    return (struct kd_supply){ .object = (int)m->word[5],
                               .source = is_large ? KD_SUPPLY_MEMORY : KD_SUPPLY_ZERO,
                               .rights = m->word[0] == ASKING ? 0 : 3, .page = m->word[1],
                               .count = 1, .csn = next_csn,
                               .memory = is_large ? large[m->word[1]] : NULL };
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
            struct kd_diff d = {
                .view = view, .token = token, .buffer = spilled, .buffer_bytes = 8192
            };
            REFUSED(KD_TXN_PUBLISH, &p, 1);
            REFUSED(KD_TXN_DIFF, &d);
            REFUSED(KD_TXN_REFUSE, view, token, EIO);
            REFUSED(KD_TXN_SPILLED, view, token, 1, 1);
            REFUSED(KD_TXN_UNSPILL, view, token, large[0]);
            REFUSED(KD_VIEW_WAIT, view, large[0]);
            REFUSED(KD_OBJECT_GRANT, objects[ASKING], view % SMALL_PAGES, 1, KD_READ, ~token);
        }
    for (uint64_t token = 0; token < 1u << 20; token += 4099)
        WANT(-ESRCH, KD_PORT_REPLY, token, &r);
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
        BAD(-EINVAL, bad.rights = 4);
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
        /* of a page that nobody waits for */
        WANT(0, KD_OBJECT_FAIL, s.object, (s.page + 1) % pages, 1, EIO);
        WANT(0, KD_OBJECT_INFO, s.object, s.page, 1, &bits);
        want(bits & ~KD_PAGE_AWAY, 0, __LINE__);
    }
    WANT(0, KD_OBJECT_SUPPLY, &s);
    /* The first answer counts. A client of the asking object may wait for a right by now, which
     * these would be answers to. */
    if (deed == LIES && m->word[0] != ASKING) {
        static uint8_t other[KD_PAGE_BYTES] = {0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee};
        s.source = KD_SUPPLY_MEMORY, s.memory = other, s.csn = 0;
        WANT(0, KD_OBJECT_SUPPLY, &s);
        WANT(0, KD_OBJECT_FAIL, s.object, s.page, 1, EIO);
    }
}

/* Rights that were just given are called back, and given to all, which answers what is asked at
 * that moment. */
static void call_back(long o)
{
    if (deed != HONEST && deed != STORMS) return;
    long used = CALL(KD_OBJECT_RECALL, o, 0, SMALL_PAGES, 0);
    want(used >= 0 && used <= SMALL_PAGES, 1, __LINE__);
    WANT(0, KD_OBJECT_GRANT, o, 0, SMALL_PAGES, KD_READ, 0);
    used = CALL(KD_OBJECT_RECALL, o, 0, SMALL_PAGES, KD_READ);
    want(used >= 0 && used <= SMALL_PAGES, 1, __LINE__);
}

/* All rights to all pages of what is transactional, always; these calls are no steps. */
static void *storm(void *arg)
{
    for (unsigned i = 0;; i++) {
        int which = i % 2 ? LARGE : ASKING;
        kd_call6(KD_OBJECT_RECALL, objects[which], 0, which == LARGE ? LARGE_PAGES : SMALL_PAGES,
                 i / 2 % 4 ? 0 : KD_READ, 0, 0);
        sched_yield();
    }
    return arg;
}

static void answer_lock(struct kd_message *m)
{
    long o = (long)m->word[5], page = (long)m->word[1], number = (long)m->word[6];
    long rights = m->word[3] & KD_WRITE ? KD_READ | KD_WRITE : KD_READ;
    if (deed == LIES) {
        REFUSED(KD_OBJECT_GRANT, o, page, 1, KD_WRITE, number);
        REFUSED(KD_OBJECT_GRANT, o, page, 1, -1, number);
        REFUSED(KD_OBJECT_GRANT, o, page, 0, rights, number);
        REFUSED(KD_OBJECT_GRANT, o, SMALL_PAGES, 1, rights, number);
        REFUSED(KD_OBJECT_GRANT, o, page, 1, rights, number + 1);
        REFUSED(KD_OBJECT_GRANT, objects[LARGE], page, 1, rights, number);
    }
    long e = CALL(KD_OBJECT_GRANT, o, page, 1, rights, number);
    want(e == 0 || (deed != LIES && e == -ESRCH), 1, __LINE__);
    if (deed == LIES) {
        WANT(-ESRCH, KD_OBJECT_GRANT, o, page, 1, rights, number);
        REFUSED(KD_OBJECT_RECALL, o, page, SMALL_PAGES + 1ul - page, 0);
        REFUSED(KD_OBJECT_RECALL, o, page, 1, KD_WRITE);
        REFUSED(KD_OBJECT_RECALL, o, page, 1, 8);
        REFUSED(KD_OBJECT_RECALL, hostile_port, page, 1, 0);
        for (int i = 0; i < BAD_POINTERS; i++)
            if (bad_pointers[i])
                WANT(-EFAULT, KD_OBJECT_RECALL, o, page, 1, 0, bad_pointers[i]);
    }
    call_back(o);
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
    struct kd_diff d = {
        .view = m->word[0], .token = m->token, .buffer = small, .buffer_bytes = sizeof small
    };
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
        for (int i = 0; i < BAD_POINTERS; i++)
            REFUSED(KD_TXN_UNSPILL, m->word[0], m->token, bad_pointers[i]);
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

/* The answer that should be given from memory, or received into it, waits for this manager itself;
 * or is refused, where its client could not leave meanwhile. */
static void own_fault(enum kind kind, struct kd_message *m)
{
    char *at = own_page();
    struct kd_supply s = supply_of(m);
    struct kd_diff d = {
        .view = m->word[0], .token = m->token, .buffer = at, .buffer_bytes = 2 * KD_PAGE_BYTES
    };
    s.source = KD_SUPPLY_MEMORY, s.memory = at;
    switch (kind) {
    case CALL_KIND: CALL(KD_PORT_REPLY, m->token, at); break;
    case PAGE_KIND: CALL(KD_OBJECT_SUPPLY, &s); break;
    case PLAIN_KIND: touch_own(at); break;
    case LOCK_KIND:
        CALL(KD_PORT_NOTIFY, hostile_port, 1), CALL(KD_PORT_RECEIVE, hostile_port, at, -1);
        break;
    case SPILL_KIND: d.flags = KD_DIFF_SPILL, WANT(-EINVAL, KD_TXN_DIFF, &d), touch_own(at); break;
    case UNSPILL_KIND:
        WANT(-EINVAL, KD_TXN_UNSPILL, m->word[0], m->token, at), touch_own(at);
        break;
    default: WANT(-EINVAL, KD_TXN_DIFF, &d), CALL(KD_TXN_PUBLISH, at, 1); break;
    }
}

static void stop_serving(enum kind kind)
{
    if (deed == CLOSES) CALL(KD_HANDLE_CLOSE, hostile_port);
    if (deed == DESTROYS) for (int i = 0; i < OBJECTS; i++) WANT(0, KD_OBJECT_DESTROY, objects[i]);
    if (deed == DETACHES)
        for (int i = 0; i < OBJECTS; i++)
            CALL(KD_SPACE_DETACH, client, objects[i]);
    if (deed == LEAVES) _exit(GOOD);
    static struct kd_view_info list[KD_VIEW_MAX];
    long n = deed == ABORTS ? CALL(KD_VIEW_LIST, list, KD_VIEW_MAX) : 0;
    for (long i = 0; i < n; i++) /* a commit it may only refuse */
        if (list[i].pid == (int)client)
            WANT(kind == COMMIT_KIND ? -EBUSY : 0, KD_VIEW_ABORT, list[i].view, EIO);
    CALL(KD_NAME_SET, stalled, CALL(KD_PORT_CREATE, 0));
    if (kind == COMMIT_KIND && deed == ABORTS) _exit(GOOD);
    for (;;) usleep(10000); /* and lives on, so that it is not its end that ends others' waits */
}

int manager_role(void)
{
    static void (*const answers[KINDS])(
        struct kd_message *) = { answer_call,  answer_page,    answer_page,  answer_lock,
                                 answer_spill, answer_unspill, answer_commit };
    static uint8_t buffer[KD_PAGE_BYTES];
    pthread_t t;
    if (!manager_start()) return MANAGER_WRONG;
    if (deed == STORMS) pthread_create(&t, NULL, storm, NULL);
    for (;;) {
        struct kd_message m = {.buffer = buffer, .buffer_bytes = sizeof buffer}, r = {.handle = -1};
        if (CALL(KD_PORT_RECEIVE, hostile_port, &m, -1)) return MANAGER_WRONG + 1;
        enum kind kind = CALL_KIND;
        switch (m.kind) {
        case (uint32_t)KD_MSG_PAGE:
            kind = m.word[3] & KD_PAGE_HERE ? LOCK_KIND
                   : m.word[0] == PLAIN     ? PLAIN_KIND
                                            : PAGE_KIND;
            break;
        case (uint32_t)KD_MSG_COMMIT: kind = COMMIT_KIND; break;
        case (uint32_t)KD_MSG_SPILL: kind = SPILL_KIND; break;
        case (uint32_t)KD_MSG_UNSPILL: kind = UNSPILL_KIND; break;
        /* no more */
        case (uint32_t)KD_MSG_CREDIT_LOW: CALL(KD_CREDIT_GRANT, hostile_port, 0); continue;
        case (uint32_t)KD_MSG_RECALLED: call_back(objects[m.word[0]]); continue;
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
        if (deed > STORMS && kind == deed_kind) {
            if (deed == STALLS) stall();
            if (deed == OWN_FAULT) own_fault(kind, &m);
            else stop_serving(kind);
        }
        answers[kind](&m);
    }
}
