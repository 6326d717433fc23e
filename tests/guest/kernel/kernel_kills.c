/*
 * kernel_kills.c - a client dies at each step of its transactions, one step after the other.
 *
 * Aim     whatever a client is doing when it ends, in a fault, a call or asleep: kcheck is clean,
 *         no right, frame, credit, view, handle or object is left behind, and nobody waits for it.
 * Method  a client runs one transaction of each kind, in the way of a neighbour that makes it wait,
 *         or with so few credits that it spills, or while all rights are called back. It
 *         is killed by its n-th trace event
 *         (KD_TRACE_DIE) for n = 1, 2, ... until it comes to its end alive, for odd n at work by a
 *         window. Events are each entry into the kernel and the way out of it, each wait, message,
 *         callback and phase of a commit. Then it is killed asleep, and while its manager works for
 *         it. This process is the manager, the neighbour, and the one that traces. The clock
 *         chooses each third event; `kernel_kills all` and the long tier take them all.
 */
/* with 64 copies, and no fewer, a transaction spills */
enum { PAGES = 80, CREDITS = 12, SPILL_CREDITS = 64 };

#include "process.h"
#include "own_manager.h"
#include "katydid/trace.h"
#include <sched.h>
#include <stdio.h>

enum {
    KIND_OPEN = 1, STATUS_END = 9, STATUS_WRONG = 10, STATUS_KILLED = 77, STEPS_MAX = 2000,
    SURE_MS = 20000,
    OTHERS = 4,                     /* the page that the neighbour holds */
    FRAMES_SLACK = 8,               /* slabs and lists that grow, not with the number of deaths */
};
/* what the neighbour makes it wait for */
enum kind { SHUT_OUT, POOR, ASLEEP, CALLED_BACK, SPILLS, SPILLS_ABORTS, KINDS };
/* in which it is killed by neighbour or manager */
enum phase { NOBODY, ASLEEP_THERE, AT_ASK, AT_COMMIT, AT_SPILL, AT_UNSPILL, PHASES };

static _Atomic int client_pid, phase, kind;
static _Atomic bool ready, over, spilled_some;
static _Atomic long kills;
static uintptr_t credits = CREDITS;
static uint8_t spilled[PAGES][KD_PAGE_BYTES];
static bool in_log[PAGES];

static void kill_client(void)
{
    kills += kd_call3(KD_PROCESS_KILL, client_pid, STATUS_KILLED, 0) == 0;
}

static void take_copies(const struct kd_message *m)
{
    static uint8_t buffer[SPILL_CREDITS * (KD_PAGE_BYTES + sizeof(struct kd_run))];
    struct kd_diff d = {.view = m->word[0], .token = m->token, .flags = KD_DIFF_SPILL,
                        .buffer = buffer, .buffer_bytes = sizeof buffer};
    long e = kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
    for (uint64_t at = 0; !e && at < d.buffer_bytes; at += sizeof(struct kd_run) + KD_PAGE_BYTES) {
        const struct kd_run *r = (const void *)(buffer + at);
        memcpy(spilled[r->page], r + 1, KD_PAGE_BYTES);
        in_log[r->page] = true;
    }
    if (phase == AT_SPILL) kill_client();
    long n = e ? e : kd_call4(KD_TXN_SPILLED, (long)m->word[0], (long)m->token, (long)d.pages, 1);
    if (n > 0) kd_call3(KD_CREDIT_GRANT, commit_port, n, 0);
    spilled_some |= n > 0;
}

static bool serve_spill(const struct kd_message *m)
{
    struct kd_supply s = { .object = object, .source = KD_SUPPLY_MEMORY,
                           .rights = 0, .page = m->word[1], .count = 1, .csn = next_csn };
    if (m->kind == (uint32_t)KD_MSG_SPILL) {
        take_copies(m);
    } else if (m->kind == (uint32_t)KD_MSG_UNSPILL) {
        if (phase == AT_UNSPILL) kill_client();
        in_log[m->word[2]] = false;
        kd_call3(KD_TXN_UNSPILL, (long)m->word[0], (long)m->token, (long)spilled[m->word[2]]);
    } else if (m->kind == (uint32_t)KD_MSG_VIEW_GONE) {
        memset(in_log, 0, sizeof in_log);
    } else if (m->kind == (uint32_t)KD_MSG_PAGE && !(m->word[3] & KD_PAGE_HERE)) {
        s.memory = home[s.page];
        kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
    } else {
        return false;
    }
    return true;
}

/* All rights to all pages, used or not. */
static void call_back(void)
{
    if (kind == CALLED_BACK)
        kd_call6(KD_OBJECT_RECALL, object, 0, PAGES, 0, 0, 0);
}

static bool serve_client(struct kd_message *m)
{
    if (m->kind != KIND_OPEN) call_back();
    if (m->kind == KIND_OPEN) {
        struct kd_message reply = {.handle = -1, .word = {base}};
        client_pid = (int)m->process; /* life() may come late, the client waits for this answer */
        reply.status = (int)kd_call3(KD_SPACE_ATTACH, (long)m->process, object,
                                     KD_RIGHT_READ | KD_RIGHT_WRITE);
        kd_call3(KD_PORT_REPLY, (long)m->token, (long)&reply, 0);
    } else if (m->kind == (uint32_t)KD_MSG_PAGE && m->word[3] & KD_PAGE_HERE) {
        if (phase == AT_ASK) kill_client();
        kd_call6(KD_OBJECT_GRANT, object, (long)m->word[1], 1,
                 m->word[3] & KD_WRITE ? KD_READ | KD_WRITE : KD_READ, (long)m->word[6], 0);
    } else if (m->kind == (uint32_t)KD_MSG_CREDIT_LOW) {
        kd_call3(KD_CREDIT_GRANT, commit_port, 0, 0); /* there are no more */
    } else if (m->kind == (uint32_t)KD_MSG_COMMIT) {
        if (phase == AT_COMMIT) kill_client();
        for (unsigned i = 0; i < PAGES; i++)
            if (in_log[i]) memcpy(home[i], spilled[i], KD_PAGE_BYTES);
        memset(in_log, 0, sizeof in_log);
        /* those that the commit spends */
        kd_call3(KD_CREDIT_GRANT, commit_port, (long)m->word[1], 0);
        return false;
    } else {
        return serve_spill(m);
    }
    return true;
}

/* ---- transactions ---- */

static int read_two(void *arg) { return (void)arg, (int)(*word_of(0, 0) + *word_of(9, 0)) & 0; }
static int write_two(void *arg)
{
    *word_of(1, 0) += 1;
    *word_of(2, (uintptr_t)arg) += 1;
    return 0;
}
static int upgrade(void *arg)
{
    uint64_t x = *word_of(3, 0), y = *word_of(OTHERS, 0);
    /* always another value: a copy that is the same as before costs no credit */
    *word_of(3, 0) = x + 1;
    *word_of(OTHERS, 0) = y + 1 + (uintptr_t)arg;
    return 0;
}
static int locked(void *arg)
{
    long e = kd_call3(KD_TXN_LOCK, (long)base, 0, 0);
    return e ? (int)e : write_two(arg);
}
static int given_up(void *arg) { return write_two(arg), 1; }
static int write_all(void *arg)
{
    for (uintptr_t i = 0; i < (uintptr_t)arg; i++) *word_of((unsigned)i, 1) += 1;
    return 0;
}

/* It dies where it spills or later: by the 65th copy, by what it brings back, or by its end. */
static uint64_t dies_at;
static int spill_more(void *arg)
{
    write_all((void *)SPILL_CREDITS);
    die_at_event((long)dies_at);
    *word_of(SPILL_CREDITS, 1) += *word_of(0, 1);
    *word_of(1, 1) += 1;
    return (int)(uintptr_t)arg;
}
static int spill_aborts(void *arg) { return (void)arg, spill_more((void *)1); }

static int client(uint64_t n, unsigned kind)
{
    struct kd_message m = {.kind = KIND_OPEN, .handle = -1};
    if (kd_call3(KD_PORT_CALL, 0, (long)&m, 0) || m.status) return STATUS_WRONG;
    base = m.word[0];
    if (n % 2)
        base = (uint64_t)kd_call3(KD_MAP, (long)base, PAGES, KD_RIGHT_READ | KD_RIGHT_WRITE);
    dies_at = n;
    if (kind < SPILLS) die_at_event((long)n);
    static const struct { int (*body)(void *); unsigned mode; int result;
    } all[KINDS][5] = {
        [SHUT_OUT] = { { read_two, KD_SERIALISABLE, 0 }, { write_two, KD_SERIALISABLE, 0 } },
        [POOR] = { { write_two, KD_SERIALISABLE, 0 }, { given_up, KD_SERIALISABLE, 1 } },
        [ASLEEP] = { { read_two, KD_SNAPSHOT, 0 },
                     { upgrade, KD_SERIALISABLE, 0 },
                     { write_two, KD_SERIALISABLE, 0 },
                     { locked, KD_SERIALISABLE, 0 } },
        [CALLED_BACK] = { { read_two, KD_SERIALISABLE, 0 },
                          { upgrade, KD_SERIALISABLE, 0 },
                          { given_up, KD_SERIALISABLE, 1 },
                          { locked, KD_SERIALISABLE, 0 } },
        [SPILLS] = { { spill_more, KD_SERIALISABLE, 0 } },
        [SPILLS_ABORTS] = { { spill_aborts, KD_SERIALISABLE, 1 } },
    };
    for (unsigned i = 0; all[kind][i].body; i++)
        if (run(all[kind][i].body, NULL, all[kind][i].mode, 0) != all[kind][i].result)
            return STATUS_WRONG + (int)i;
    return STATUS_END;
}

/* ---- the neighbour ---- */

static bool client_has_view(bool that_waits)
{
    struct kd_view_info list[KD_VIEW_MAX];
    long n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
    for (long i = 0; i < n; i++)
        if (list[i].pid == client_pid && (!that_waits || (list[i].waits[0] | list[i].waits[1])))
            return true;
    return false;
}

/* Has the container (it begins so), all credits, or a page until the client waits for it or is
 * gone; or waits for a page that the client has spilled. */
static int in_the_way(void *arg)
{
    (void)arg;
    for (unsigned i = 0; kind == POOR && i < CREDITS; i++) *word_of(OTHERS + 16 + i, 7) += 1;
    if (kind == ASLEEP) *word_of(OTHERS, 7) += 1;
    ready = true;
    while (!over && !spilled_some && (kind == CALLED_BACK || !client_has_view(true))) {
        call_back();
        sched_yield();
    }
    if (spilled_some) read_two(NULL);
    if (phase == ASLEEP_THERE && !over) kill_client();
    return 0;
}
static int all_credits(void *arg) { return (void)arg, write_all((void *)credits); }

/* One life of a client, and what must be there after it: all pages, and all credits, at once. */
static _Atomic long asked, done;
static _Atomic int neighbour_result;
static void *neighbour(void *arg)
{
    for (long i = 1;; i++) {
        while (asked < i) sched_yield();
        struct kd_begin like = { .mode = KD_SERIALISABLE },
                        locker = { .mode = KD_CONTAINER_LOCK | KD_LOCKED_SHARED };
        locker.locked = base;
        int e = run_like(in_the_way, NULL, kind == SHUT_OUT ? &locker : &like);
        if (!e) e = run(all_credits, NULL, KD_SERIALISABLE, SURE_MS);
        neighbour_result = e;
        view_anew();
        done = i;
    }
    return arg;
}

/* ---- lives ---- */

static const char *self;
static long first_event = 1, every = 1;
static int life(long n)
{
    char text[24], which[2] = {(char)(48 + kind)};
    snprintf(text, sizeof text, "%ld", n);
    const char *argv[] = {self, which, text, NULL};
    struct kd_process_create c = {
        .path = self, .argv = argv, .fds = { -1, -1, -1 }, .handle_count = 1, .handles = { port }
    };
    int status = -1;
    ready = over = spilled_some = false;
    asked++;
    while (!ready) sched_yield();
    int h = (int)kd_call3(KD_PROCESS_CREATE, (long)&c, 0, 0);
    if (h < 0 || kd_call3(KD_PROCESS_WAIT, c.pid, (long)&status, 0) < 0) return -1;
    kd_call3(KD_HANDLE_CLOSE, h, 0, 0);
    over = true;
    while (done < asked || client_has_view(false)) sched_yield(); /* a commit may outlive it */
    return status;
}

struct counts { long credits, frames, objects, copies, versions, views, processes, handles; };
static struct counts counts_now(void)
{
    static struct kd_process_info p[64];
    struct kd_system_info s = {0};
    struct counts c = {.views = kd_call3(KD_VIEW_LIST, 0, 0, 0)};
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    c.credits = kd_call3(KD_CREDIT_GRANT, commit_port, 0, 0);
    c.frames = (long)(s.free_bytes / KD_PAGE_BYTES);
    c.objects = (long)s.objects;
    c.copies = (long)s.copies;
    c.versions = (long)s.versions;
    c.processes = s.processes;
    long n = kd_call3(KD_PROCESS_LIST, (long)p, 64, 0);
    for (long i = 0; i < n && i < 64; i++) c.handles += (long)p[i].used[KD_LIMIT_HANDLES];
    return c;
}

static struct counts before;
static long least_frames;
static bool clean(const char *when, long n)
{
    struct counts c = counts_now();
    long e = check();
    least_frames = c.frames < least_frames ? c.frames : least_frames;
    bool good = !e && !neighbour_result && c.credits == (long)credits &&
                c.objects == before.objects && c.copies == 0 && c.versions == 0 &&
                c.views == before.views && c.processes == before.processes &&
                c.handles == before.handles;
    if (!good)
        printf("# %s %ld: kcheck %ld, neighbour %d; objects %ld copies %ld versions %ld views %ld "
               "processes %ld "
               "handles %ld credits %ld\n",
               when, n, e, neighbour_result, c.objects - before.objects, c.copies, c.versions,
               c.views - before.views, c.processes - before.processes, c.handles - before.handles,
               c.credits - (long)credits);
    return good;
}

static const char *const kinds[KINDS] = {"that is shut out of the container", "without a credit",
                                         "in a page's queue", "whose rights are called back",
                                         "that spills", "that spills and aborts"};

static void each_step(void)
{
    bool good = true;
    long n = first_event, lives = -1;
    int status = 0;
    for (; n < STEPS_MAX && good && status == 0; n += every, lives++) {
        status = life(n);
        good = clean("event", n);
    }
    tap_ok(good, "a client %s dies at %ld events: kcheck, counts and credits are as before",
           kinds[kind], lives);
    tap_ok(status == STATUS_END && n > 15, "until it comes to its end alive (%d)", status);
}

static void frames(void)
{
    long lost = before.frames - counts_now().frames;
    tap_ok(lost < FRAMES_SLACK, "their frames are free again (%ld missing, at most %ld)", lost,
           before.frames - least_frames);
}

static void each_phase(int first, int last)
{
    static const char *const name[PHASES] = { NULL,
                                              "asleep",
                                              "while its manager is asked for a page",
                                              "while its commit is written",
                                              "while its copies are taken",
                                              "while a page is brought back" };
    for (int i = first; i <= last; i++) {
        kills = 0;
        phase = i;
        int status = life(0);
        phase = NOBODY;
        tap_ok(clean(name[i], i) && kills && status == STATUS_KILLED,
               "a client %s is killed %s (%ld, %d)", kinds[kind], name[i], kills, status);
    }
}

/* What is made once. */
static bool warm(void)
{
    int e = 0;
    for (int i = 0; i < 2 && (!i || e == STATUS_END); i++) e = life(0);
    before = counts_now();
    least_frames = before.frames;
    bool good = e == STATUS_END && !neighbour_result;
    if (!good) printf("# a client ended with %d, its neighbour with %d\n", e, neighbour_result);
    return good;
}

int main(int argc, char **argv)
{
    static const struct { int first, last; } phases[KINDS] = {
        {ASLEEP_THERE, ASLEEP_THERE}, {ASLEEP_THERE, ASLEEP_THERE}, {ASLEEP_THERE, AT_COMMIT},
        {AT_ASK, AT_COMMIT},
        {AT_COMMIT, AT_UNSPILL}, {AT_SPILL, AT_UNSPILL}};
    pthread_t t;
    if (argc > 2) return client(strtoul(argv[2], NULL, 10), (unsigned)argv[1][0] - 48);
    if (argc == 1 && !tap_long()) {
        every = 3;
        first_event = 1 + (long)(system_info().uptime_ns / 1000 % 3);
        printf("# each third event from %ld on\n", first_event);
    }
    self = strchr(argv[0], (int)0x2f) ? argv[0] : "/bin/kernel_kills";
    tap_plan(1 + 4 * KINDS + 1 + 1 + 3 + 2 + 3 + 2);
    if (!tap_ok(start_manager((struct own_manager){ .pages = PAGES,
                                                    .flags = KD_OBJECT_SPILLS,
                                                    .messages = serve_client }) &&
                    kd_call3(KD_CREDIT_GRANT, commit_port, CREDITS, 0) >= 0 &&
                    pthread_create(&t, NULL, neighbour, NULL) == 0 &&
                    kd_call3(KD_TRACE, KD_TRACE_START, 0, 0) > 0,
                "a manager, a neighbour"))
        return tap_end();
    for (kind = 0; kind < KINDS; kind++) {
        if (kind == SPILLS) {
            kd_call3(KD_CREDIT_GRANT, commit_port, SPILL_CREDITS - CREDITS, 0);
            credits = SPILL_CREDITS;
        }
        if (!tap_ok(warm(), "a client %s", kinds[kind])) return tap_end();
        each_step();
        each_phase(phases[kind].first, phases[kind].last);
        frames();
    }
    kd_call3(KD_TRACE, KD_TRACE_STOP, 0, 0);
    return tap_end();
}
