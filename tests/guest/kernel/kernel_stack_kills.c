/*
 * kernel_stack_kills.c - clients and managers die at each step of a stacked commit.
 *
 * Aim     whoever of a client over two managers over a base ends, and whenever: what the client
 *         wrote through them and what it wrote to the base is there as a whole or not at all; a
 *         manager's successor finds it; kcheck is clean, and views, versions, copies, objects,
 *         processes and handles are as before.
 * Method  this process is the base. The managers are programs of one thread; a client's one
 *         transaction stores the same number through them and to the base. One of them is killed by
 *         its n-th trace event (KD_TRACE_DIE), n = 1, 2, ... until it comes to its end alive: the
 *         client in its transaction; each manager in its start, and in its work for a client.
 */
#include "stacked_manager.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include "katydid/trace.h"

enum {
    PAGES = 32, Q_PAGE = 20,            /* of the base; the client writes Q itself */
    LEVELS = 2, LEVEL_PAGES = 4, AT = 8, PAGE = 1, /* of a manager; where the base keeps them */
    OPEN_MANAGER = 1, IS_READY, IS_PORT, OPEN_CLIENT,
    STATUS_END = 9, STATUS_UNDONE, STATUS_WRONG, STATUS_KILLED = 77,
    STEPS_MAX = 1000, LOOKED_AT = 10, SURE_MS = 20000, FRAMES_SLACK = 32,
};
enum mortal { CLIENT, UPPER_WORKS, LOWER_WORKS, UPPER_STARTS, LOWER_STARTS, NOBODY };
static const uint64_t keys[LEVELS] = {0x5555555555555555, 0x0f0f0f0f0f0f0f0f};
static const char *self;

static long say(struct kd_message *m)
{
    long e = kd_call3(KD_PORT_CALL, 0, (long)m, 0);
    return e ? e : m->status;
}

/* ---- a manager: its handle 0 is the port of this test's base, 1 that of what it stands on ---- */

static int manager(uint64_t life, enum mortal who, long n)
{
    unsigned level = life % LEVELS;
    struct stacked s = {.key = keys[level]};
    struct kd_message m = {.kind = OPEN_MANAGER, .handle = -1, .word = {life}};
    bool starts = who == (level ? UPPER_STARTS : LOWER_STARTS);
    bool works = who == (level ? UPPER_WORKS : LOWER_WORKS);
    if (starts) die_at_event(n);
    if (say(&m)) return STATUS_WRONG;
    s.below = m.word[0];
    int below = 1;
    if (stacked_make(&s, &below, 1, LEVEL_PAGES)) return STATUS_WRONG;
    m = (struct kd_message){.kind = IS_PORT, .handle = s.port, .handle_rights = KD_RIGHT_CALL,
                            .word = {life}};
    if (say(&m)) return STATUS_WRONG;
    m = (struct kd_message){.kind = IS_READY, .handle = s.object, .handle_rights = KD_RIGHT_MANAGE,
                            .word = {life, s.base}};
    if (say(&m)) return STATUS_WRONG;
    if (starts || works) die_at_event(works ? n : 0);
    while (stacked_serve(&s, s.port))
        if (s.commits && works) die_at_event(0);
    return STATUS_END; /* the lower one has died */
}

/* ---- a client ---- */

static int change(void *arg)
{
    uint64_t number = *(uint64_t *)arg, top = ((uint64_t *)arg)[1];
    *word_at(top, PAGE, 3) = number;
    *word_of(Q_PAGE, 0) = number;
    return 0;
}

static int same(void *arg)
{
    return *word_at(*(uint64_t *)arg, PAGE, 3) == *word_of(Q_PAGE, 0) ? 0 : 1;
}

static int client(uint64_t number, bool dies, long n)
{
    struct kd_message m = {.kind = OPEN_CLIENT, .handle = -1};
    if (say(&m)) return STATUS_UNDONE; /* its manager has died already */
    base = m.word[0];
    uint64_t arg[2] = {number, m.word[1]};
    if (!number) /* what successors have */
        return run(same, &arg[1], KD_SERIALISABLE, SURE_MS) ? STATUS_WRONG : STATUS_END;
    if (dies) die_at_event(n);
    int e = run(change, arg, KD_SERIALISABLE, SURE_MS);
    if (dies) die_at_event(0);
    /* EIO: a page of the upper manager, which could not read it below */
    bool undone = e == -ECANCELED || e == -EOWNERDEAD || e == -EIO;
    if (e && !undone) printf("# client: %d\n", e);
    return !e ? STATUS_END : undone ? STATUS_UNDONE : STATUS_WRONG;
}

/* ---- the base ---- */

/* `life` is a new number for each manager: what is said by one that has died comes too late. */
static volatile struct { uint64_t life, base; int pid, port, object; bool ready; } level[LEVELS];
static pthread_mutex_t level_lock = PTHREAD_MUTEX_INITIALIZER;

static long attach(const struct kd_message *m, int o)
{
    return kd_call3(KD_SPACE_ATTACH, (long)m->process, o, KD_RIGHT_READ | KD_RIGHT_WRITE);
}

/* A manager has passed the handle of its port or its object. */
static void note(const struct kd_message *m)
{
    unsigned l = m->word[0] % LEVELS;
    if (m->word[0] != level[l].life) {
        kd_call3(KD_HANDLE_CLOSE, m->handle, 0, 0);
    } else if (m->kind == IS_PORT) {
        level[l].port = m->handle;
    } else {
        level[l].object = m->handle;
        level[l].base = m->word[1];
        level[l].ready = true;
    }
}

/* Looks at a commit's copies again and again; each time the kernel holds it for this manager. */
static _Atomic bool looks, looking;
static void commit_look(const struct kd_message *m)
{
    static uint8_t runs[2 * KD_PAGE_BYTES];
    while (looks) {
        struct kd_diff d = {.view = m->word[0], .token = m->token, .buffer = runs,
                            .buffer_bytes = sizeof runs};
        kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
        looking = true;
    }
    looking = false;
}

static bool serve_open(struct kd_message *m)
{
    struct kd_message reply = {.handle = -1};
    bool above = m->word[0] % LEVELS;
    if (m->kind == (uint32_t)KD_MSG_COMMIT) commit_look(m);
    if (m->kind < OPEN_MANAGER || m->kind > OPEN_CLIENT) return false;
    pthread_mutex_lock(&level_lock);
    if (m->kind == OPEN_MANAGER) {
        reply.word[0] = above ? level[0].base : base + AT * KD_PAGE_BYTES;
        reply.status = (int)attach(m, above ? level[0].object : object);
    } else if (m->kind == OPEN_CLIENT) {
        reply.word[0] = base;
        reply.word[1] = level[1].base;
        reply.status = (int)attach(m, object);
        if (!reply.status) reply.status = (int)attach(m, level[1].object);
    } else {
        note(m);
    }
    pthread_mutex_unlock(&level_lock);
    kd_call3(KD_PORT_REPLY, (long)m->token, (long)&reply, 0);
    return true;
}

/* The handles of what has died are closed. */
static void forget(unsigned l)
{
    pthread_mutex_lock(&level_lock);
    kd_call3(KD_HANDLE_CLOSE, level[l].port, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, level[l].object, 0, 0);
    level[l].port = level[l].object = -1;
    level[l].life += LEVELS;
    level[l].ready = false;
    level[l].pid = 0;
    pthread_mutex_unlock(&level_lock);
}

static int start(const char *role, uint64_t number, enum mortal who, long n, int below)
{
    char a[24], b[8], c[24];
    snprintf(a, sizeof a, "%lu", number);
    snprintf(b, sizeof b, "%d", who);
    snprintf(c, sizeof c, "%ld", n);
    const char *argv[] = {self, role, a, b, c, NULL};
    struct kd_process_create p = {.path = self, .argv = argv, .fds = {-1, 1, 2},
                                  .handle_count = below ? 2 : 1, .handles = {port, below}};
    long h = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    if (h < 0) return (int)h;
    kd_call3(KD_HANDLE_CLOSE, h, 0, 0);
    return p.pid;
}

/* Has it ended? Its status, then; else -1. */
static int ended(int pid)
{
    int status = 0;
    return kd_call3(KD_PROCESS_WAIT, pid, (long)&status, KD_WAIT_NOHANG) ? status : -1;
}

/* A manager that serves, or has died: then its status, else -1. */
static int manager_begin(unsigned l, enum mortal who, long n)
{
    int status = -1;
    forget(l);
    level[l].pid = start("manager", level[l].life, who, n, l ? level[0].port : port);
    while (!level[l].ready && (status = ended(level[l].pid)) < 0) sched_yield();
    if (status >= 0) level[l].pid = 0;
    return level[l].ready ? -1 : status;
}

/* It is no more, by itself or by a kill. */
static int manager_end(unsigned l)
{
    int status = 0;
    if (level[l].pid) {
        kd_call3(KD_PROCESS_KILL, level[l].pid, STATUS_KILLED, 0);
        status = child_wait(level[l].pid);
    }
    forget(l);
    return status;
}

static bool managers_begin(void)
{
    return manager_begin(0, NOBODY, 0) < 0 && manager_begin(1, NOBODY, 0) < 0;
}

/* ---- what must be there afterwards ---- */

struct both { uint64_t kept, q; };
static int look(void *arg)
{
    struct both *b = arg;
    b->kept = *word_of(AT + PAGE, 3) ^ keys[0] ^ keys[1];
    b->q = *word_of(Q_PAGE, 0);
    *word_of(AT + PAGE, 4) += 1; /* nobody has it locked */
    return 0;
}

struct counts { long objects, copies, versions, views, processes, handles, frames; };
static struct counts before;
static struct counts counts_now(void)
{
    static struct kd_process_info p[64];
    struct kd_system_info s = system_info();
    struct counts c = {(long)s.objects, (long)s.copies, (long)s.versions,
                       kd_call3(KD_VIEW_LIST, 0, 0, 0), s.processes, 0,
                       (long)(s.free_bytes / KD_PAGE_BYTES)};
    long n = kd_call3(KD_PROCESS_LIST, (long)p, 64, 0);
    for (long i = 0; i < n && i < 64; i++) c.handles += (long)p[i].used[KD_LIMIT_HANDLES];
    return c;
}

static bool as_before(long n)
{
    struct counts c = counts_now();
    /* of one that died while the base had its commit, and the managers hear the outcome */
    for (long ms = 0; (c.views > before.views || c.copies > before.copies) && ms < SURE_MS; ms++) {
        pause_ms(1);
        c = counts_now();
    }
    long e = check();
    bool good = !e && !memcmp(&c, &before, offsetof(struct counts, frames));
    if (!good)
        printf("# %ld: kcheck %ld, objects %ld copies %ld versions %ld views %ld processes %ld "
               "handles %ld\n", n, e, c.objects - before.objects, c.copies - before.copies,
               c.versions - before.versions, c.views - before.views,
               c.processes - before.processes, c.handles - before.handles);
    return good;
}

/* All or nothing; the new number, if its commit was answered; the old one, if it was undone. */
static uint64_t number = 1;
static bool is_whole(int client_status)
{
    struct both b = {0};
    int e = run(look, &b, KD_SERIALISABLE, SURE_MS);
    view_anew();
    bool good = !e && b.kept == b.q && (b.q == number || b.q == number - 1) &&
                (client_status != STATUS_END || b.q == number) &&
                (client_status != STATUS_UNDONE || b.q == number - 1) &&
                client_status != STATUS_WRONG;
    if (!good)
        printf("# number %lu, client %d: %d, %lx and %lx\n", number, client_status, e, b.kept, b.q);
    number = b.q + 1;
    return good;
}

static bool successors_have_it(void)
{
    int status = child_wait(start("client", 0, NOBODY, 0, 0));
    if (status != STATUS_END) printf("# successors: %d\n", status);
    return status == STATUS_END;
}

/* ---- lives ---- */

static const char *const names[] = {
    "a client", "the upper manager at work", "the lower manager at work",
    "the upper manager, as it starts,", "the lower manager, as it starts,"};

/* The one that dies by its n-th event is started, or is begun anew; its status: 0, it did. */
static int life(enum mortal who, long n, int *client_status)
{
    int status[LEVELS] = {-1, -1};
    bool starts = who == UPPER_STARTS || who == LOWER_STARTS;
    unsigned from = who == LOWER_WORKS || who == LOWER_STARTS ? 0 : 1;
    *client_status = -1;
    if (who != CLIENT) {
        for (unsigned l = LEVELS; l-- > from;) manager_end(l);
        for (unsigned l = from; l < LEVELS && (l == from || status[from] < 0); l++)
            status[l] = manager_begin(l, l == from ? who : NOBODY, n);
    }
    if (!starts)
        *client_status = child_wait(start("client", number, who, n, 0));
    if (who == CLIENT) return *client_status;
    if (status[from] >= 0) return status[from];
    return manager_end(from);
}

static bool one_life(enum mortal who, long n, int *status)
{
    int of_client;
    *status = life(who, n, &of_client);
    bool good = of_client < 0 || is_whole(who == CLIENT ? -1 : of_client);
    if (who != CLIENT) {
        manager_end(1);
        if (who == LOWER_WORKS || who == LOWER_STARTS) manager_end(0);
        good &= level[0].pid || manager_begin(0, NOBODY, 0) < 0;
        good &= manager_begin(1, NOBODY, 0) < 0;
    }
    return good && (who == CLIENT || successors_have_it()) && as_before(n);
}

static void each_step(enum mortal who)
{
    int status = 0, alive = who == CLIENT ? STATUS_END : STATUS_KILLED;
    bool good = true;
    long n = 1, step = who == CLIENT || tap_long() ? 1
                       : who < UPPER_STARTS         ? 2
                                                    : 5;
    for (; n < STEPS_MAX && good && status == 0; n += step)
        good = one_life(who, n, &status);
    tap_ok(good && status == alive && n > 10,
           "%s dies at each %ld. of %ld events, until it lives (%d): all or nothing, as before",
           names[who], step, n - step - 1, status);
}

/* A manager dies while the base looks at the commit that it has passed on. */
static void while_looked_at(void)
{
    bool good = true;
    for (int i = 0; i < LOOKED_AT && good; i++) {
        unsigned l = (unsigned)i % LEVELS;
        looks = true;
        int pid = start("client", number, NOBODY, 0, 0);
        while (!looking) sched_yield();
        manager_end(l);
        looks = false;
        good = is_whole(child_wait(pid));
        manager_end(1);
        good &= (level[0].pid || manager_begin(0, NOBODY, 0) < 0) &&
                manager_begin(1, NOBODY, 0) < 0 && successors_have_it() && as_before(i);
    }
    tap_ok(good, "a manager is killed while the base looks at what it has passed on");
}

/* What is made once is made now. */
static bool warm(void)
{
    for (unsigned l = 0; l < LEVELS; l++) level[l].life = l, level[l].port = level[l].object = -1;
    bool good = managers_begin();
    for (int i = 0; i < 3 && good; i++) {
        good = child_wait(start("client", number, NOBODY, 0, 0)) == STATUS_END &&
               is_whole(STATUS_END);
        manager_end(1);
        manager_end(0);
        good &= managers_begin() && successors_have_it();
    }
    before = counts_now();
    return good;
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "manager"))
        return manager(strtoul(argv[2], NULL, 10), (enum mortal)atoi(argv[3]), atol(argv[4]));
    if (argc == 5)
        return client(strtoul(argv[2], NULL, 10), atoi(argv[3]) == CLIENT, atol(argv[4]));
    self = "/bin/kernel_stack_kills";
    tap_plan(1 + NOBODY + 2);
    if (!tap_ok(start_manager((struct own_manager){.pages = PAGES, .messages = serve_open}) &&
                    kd_call3(KD_TRACE, KD_TRACE_START, 0, 0) > 0 && warm(),
                "a base, two managers over it, a client"))
        return tap_end();
    while_looked_at();
    for (enum mortal who = CLIENT; who < NOBODY; who++) each_step(who);
    long lost = before.frames - counts_now().frames;
    for (long ms = 0; lost >= FRAMES_SLACK && ms < SURE_MS; ms++) { /* the evictor frees leaves */
        pause_ms(1);
        lost = before.frames - counts_now().frames;
    }
    tap_ok(lost < FRAMES_SLACK, "their frames are free again (%ld missing)", lost);
    return tap_end();
}
