/* fire.c - managers under fire: what is done to each, and what must be there behind it (fire.h). */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fire.h"
#include "katydid/trace.h"
#include "process.h"
#include "system.h"
#include "tap.h"
#include "user/start.h"

enum { EVENTS_MAX = 5000, FIGHTERS = 4, HOGS = 2, ENDS_MS = 20000, STATUS_KILLED = 77,
       STATUS_SIGNAL = 128, RESULTS = 10, PRLIMIT64 = 302, ROWS = 64, STATE_ENDED = 2,
       OWN_HANDLES = 4 /* that it may have made for itself: views of its threads */ };
enum mortal { CLIENT, AT_WORK, AT_START, NOBODY };

static const struct fire *f;            /* the one under fire */
static const char *self;
static unsigned at;                     /* its number in the table */
static int manager;                     /* its process; 0: none, or the store's business */
static uint64_t number;                 /* what the next client stores: what is there, and 1 */

/* ---- processes ---- */

static int start(const char *role, uint64_t n, long argument)
{
    char a[12], b[24], c[24];
    snprintf(a, sizeof a, "%u", at);
    snprintf(b, sizeof b, "%lu", n);
    snprintf(c, sizeof c, "%ld", argument);
    const char *argv[] = {self, role, a, b, c, NULL};
    struct kd_process_create p = {.path = self, .argv = argv, .fds = {-1, 1, 2}};
    system_pass(&p);
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    if (handle < 0) return (int)handle;
    kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    return p.pid;
}
static int client(const char *role, uint64_t n, long argument)
{
    return child_wait(start(role, n, argument));
}

/* The row of a process that runs, by its number or, if that is 0, by the manager's name. */
static struct kd_process_info row_of(int pid)
{
    static struct kd_process_info rows[ROWS];
    long n = kd_call3(KD_PROCESS_LIST, (long)rows, ROWS, 0);
    for (long i = 0; i < n && i < ROWS; i++)
        if (rows[i].state != STATE_ENDED && (pid ? rows[i].pid == pid
                                                 : strcmp(rows[i].name, f->program) == 0))
            return rows[i];
    return (struct kd_process_info){0};
}

static bool ended(int pid)
{
    return kd_call3(KD_PROCESS_WAIT, pid, 0, KD_WAIT_NOHANG) != 0;
}

/* It serves, or has died as it began (false). The store starts its own when they are opened. */
static bool manager_begin(void)
{
    if (!f->argv[0]) return true;
    char path[64];
    snprintf(path, sizeof path, "/bin/%s", f->program);
    manager = (int)start_program(path, f->argv, 0, 1);
    for (;;) {
        long found = kd_call3(KD_NAME_FIND, (long)f->name, 0, 0);
        if (found >= 0) {
            kd_call3(KD_HANDLE_CLOSE, found, 0, 0);
            return true;
        }
        if (manager < 0 || ended(manager)) {
            manager = 0;
            return false;
        }
        sched_yield();
    }
}

static int manager_pid(void) { return manager ? manager : row_of(0).pid; }

/* It has been killed, or is now: waits until it is no more. */
static void manager_end(void)
{
    int pid = manager_pid();
    if (pid) kd_call3(KD_PROCESS_KILL, pid, STATUS_KILLED, 0);
    if (manager) child_wait(manager);
    for (int ms = 0; !manager && pid && row_of(pid).pid && ms < ENDS_MS; ms++) pause_ms(1);
    manager = 0;
}

static bool manager_anew(void)
{
    manager_end();
    return manager_begin();
}

/* ---- what must be there ---- */

/* The next client: what it may find is known, then it goes on. `acknowledged`: the number was.
 * `anew`: the manager has died. */
static bool goes_on(bool acknowledged, bool anew)
{
    int status = client("next", number, 0);
    bool is_first = status == FIRE_FOUND, is_before = status == FIRE_FOUND + 1,
         is_this = status == FIRE_FOUND + 2;
    bool free = f->how == FIRE_READS || f->how == FIRE_CELLS;
    bool good = free              ? is_this
                : anew && !f->keeps ? is_first || (is_before && number == 1)
                : acknowledged    ? is_this
                                  : is_this || is_before;
    if (!good)
        printf("# %s: number %lu, %sacknowledged, %s: the next client: %d\n", f->program, number,
               acknowledged ? "" : "not ", anew ? "anew" : "the same", status);
    number += 2;
    return good;
}

struct counts { long objects, copies, processes, views; };
static struct counts counts_now(void)
{
    struct kd_system_info s = system_info();
    return (struct counts){(long)s.objects, (long)s.copies, s.processes,
                           kd_call3(KD_VIEW_LIST, 0, 0, 0)};
}
/* What the store had to end from before may have ended since. */
static bool more(struct counts c, struct counts before)
{
    return c.objects > before.objects || c.copies > before.copies ||
           c.processes > before.processes || c.views > before.views + f->beside;
}
static bool counts_back(struct counts before)
{
    struct counts c = counts_now();
    for (int ms = 0; more(c, before) && ms < ENDS_MS; ms += 10) {
        pause_ms(10);
        c = counts_now();
    }
    long e = kd_call3(KD_CHECK, 0, 0, 0);
    bool good = !e && !more(c, before);
    if (!good)
        printf("# kcheck %ld, objects %ld copies %ld processes %ld views %ld more\n", e,
               c.objects - before.objects, c.copies - before.copies,
               c.processes - before.processes, c.views - before.views);
    return good;
}

/* ---- deaths ---- */

/* What a client may say whose manager has died under it. */
static bool is_end(int status)
{
    return status == FIRE_END || status == FIRE_UNDONE ||
           (f->how != FIRE_COMMITS && status >= STATUS_SIGNAL);
}

/* One of them dies by its n-th event: *died; else it has lived on. */
static bool one_life(enum mortal who, long n, bool *died)
{
    bool serves = true;
    if (who == AT_START) manager_end();
    if (who != CLIENT) fire_die(n, f->program);
    if (who == AT_START) serves = manager_begin();
    bool over = who == AT_START && f->argv[0]; /* its start is all that is wanted */
    int status = over ? FIRE_UNDONE : client("works", number, who == CLIENT ? n : 0);
    /* it goes on behind the client's end: to ask and to call off is one step */
    bool called = fire_die(0, f->program) == 0;
    *died = who == CLIENT ? status != FIRE_END : called;
    bool good = who == CLIENT ? status == FIRE_END || status == 0
                : *died       ? is_end(status)
                              : over ? serves : status == FIRE_END;
    if (!good) printf("# event %ld: a client ended with %d\n", n, status);
    if (*died && who != CLIENT) good &= manager_anew();
    return goes_on(status == FIRE_END, (*died && who != CLIENT) || who == AT_START) && good;
}

/* In make test-long at each event, else at those of a series that grows. */
static void each_step(enum mortal who)
{
    static const char *const names[] = {"a client of %s", "%s at work", "%s as it starts"};
    bool good = true, died = true;
    int deaths = 0;
    long n = 0;
    while (good && died && n < EVENTS_MAX) {
        n += tap_long() ? 1 : 1 + n;
        good = one_life(who, n, &died);
        deaths += died;
    }
    char name[64];
    snprintf(name, sizeof name, names[who], f->program);
    tap_ok(good && !died && deaths > 1, "%s dies at each of %d of %ld events: nothing half", name,
           deaths, n);
}

/* ---- the rest ---- */

static void stalls(void)
{
    bool good = client("works", number, 0) == FIRE_END;
    int status = child_wait_for(start("stalls", ++number, manager_pid()), CHILD_ENDS_S / 4);
    fire_hold(0);
    good &= f->how == FIRE_COMMITS ? status == FIRE_END : status >= STATUS_SIGNAL;
    if (f->how != FIRE_COMMITS) number--;
    if (!good) printf("# its client: %d\n", status);
    tap_ok(goes_on(true, false) && good, "%s stands still: a limit helps, and all goes on after",
           f->program);
}

static void storm(void)
{
    int pids[FIGHTERS], bad = client("zero", 0, 0) != FIRE_END;
    int fighters = f->how == FIRE_CELLS ? 1 : FIGHTERS;
    for (int i = 0; i < fighters; i++) pids[i] = start("fights", 0, 0);
    if (strcmp(f->program, "squares") != 0) bad += client("press", 0, 0) != FIRE_END;
    for (int i = 0; i < fighters; i++) bad += child_wait(pids[i]) != FIRE_END;
    bad += client("+", (uint64_t)fighters * FIRE_ROUNDS, 0) != FIRE_END;
    tap_ok(!bad, "%d clients of %s fight for the same pages, memory is short: the sum is right",
           fighters, f->program);
}

/* How often the log says this. */
static int told(const char *what)
{
    static char text[65536];
    long n = kd_call4(KD_LOOK, KD_LOOK_LOG, 0, (long)text, sizeof text - 1);
    int count = 0;
    text[n < 0 ? 0 : n] = 0;
    for (const char *p = text; (p = strstr(p, what)); p++) count++;
    return count;
}
static int ends_told(void) { return told("out of memory") + told("no memory is left"); }

/* It is no more, or will not be for long: a process that the kernel has killed ends in its time. */
static bool has_been_killed(int pid)
{
    char line[32];
    snprintf(line, sizeof line, "[%d]: killed:", pid);
    return told(line) > 0 || !row_of(pid).pid;
}

static void memory_ends(void)
{
    int hogs[HOGS], before = ends_told(), status = FIRE_END, rounds = 0, pid = manager_pid();
    for (int i = 0; i < HOGS; i++) hogs[i] = start("hog", 0, 0);
    /* until all memory was wanted: one of them has ended, or has all that it may have */
    for (bool over = false; status == FIRE_END && !over; rounds++) {
        status = client("works", number, 0);
        for (int i = 0; i < HOGS; i++) over |= ended(hogs[i]);
        over |= rounds > 40;
    }
    for (int i = 0; i < HOGS; i++) kd_call3(KD_PROCESS_KILL, hogs[i], STATUS_KILLED, 0);
    for (int i = 0; i < HOGS; i++) child_wait(hogs[i]);
    bool anew = pid && has_been_killed(pid);
    /* or there was not even memory for a client */
    bool good = status == FIRE_END || is_end(status) || status == -ENOMEM || status == -EAGAIN;
    if (anew) good &= manager_anew() && (ends_told() > before || !manager);
    if (!good) printf("# client %d, manager %s, told %d\n", status, anew ? "ended" : "lives",
                      ends_told() - before);
    tap_ok(goes_on(status == FIRE_END, anew) && good,
           "%s goes on when memory has ended (%d clients, %d told)", f->program, rounds,
           ends_told() - before);
}

static long manager_limit(const uint64_t *most, uint64_t *was)
{
    return kd_call4(PRLIMIT64, manager_pid(), KD_RLIMIT + KD_LIMIT_MEMORY, (long)most, (long)was);
}

/* It may have no more memory: what it cannot answer it answers so, and goes on. A page that it
 * needs for itself ends it, which is told. Those of the store's have another parent. */
static void starves(void)
{
    uint64_t was[2] = {0}, least[2] = {KD_PAGE_BYTES, ~0ull};
    bool good = client("works", number, 0) == FIRE_END;
    int pid = manager_pid(), before = ends_told();
    if (manager) good &= !manager_limit(NULL, was) && !manager_limit(least, NULL);
    int status = child_wait_for(start("asks", number, 0), CHILD_ENDS_S / 4);
    bool anew = row_of(pid).pid == 0;
    if (manager && !anew) good &= !manager_limit(was, NULL);
    good &= status == FIRE_END || (anew && is_end(status));
    if (anew) good &= manager_anew() && (ends_told() > before || !manager);
    if (!good) printf("# client %d, manager %s\n", status, anew ? "ended" : "lives");
    if (!good && !anew) anew = manager_anew(); /* else the next client could wait for ever */
    tap_ok(goes_on(true, anew) && good, "%s has no memory for an answer, and goes on", f->program);
}

static void lies(void)
{
    int pid;
    bool good = client("works", number, 0) == FIRE_END && (pid = manager_pid());
    struct kd_process_info before = row_of(manager_pid());
    int status = client("lies", number, 0);
    struct kd_process_info now = row_of(manager_pid());
    uint64_t handles = now.used[KD_LIMIT_HANDLES] - before.used[KD_LIMIT_HANDLES];
    bool anew = now.pid != before.pid;
    good &= status == FIRE_END && !anew && handles <= OWN_HANDLES;
    if (!good) printf("# %d; %d was %d; %ld handles\n", status, now.pid, before.pid, (long)handles);
    if (anew) (void)manager_anew();
    tap_ok(goes_on(true, anew) && good,
           "a client of %s says what makes no sense: each is refused", f->program);
}

static void fire(void)
{
    number = 1;
    bool good = (!f->prepare || f->prepare() == 0) && manager_begin() && goes_on(false, false);
    manager_end();
    struct counts before = counts_now();
    good &= manager_begin() && goes_on(false, true);
    if (!tap_ok(good, "%s serves", f->program)) return;
    lies();
    for (enum mortal who = CLIENT; who < NOBODY; who++) each_step(who);
    stalls();
    storm();
    starves();
    memory_ends();
    manager_end();
    tap_ok(counts_back(before), "kcheck and counts are as before %s", f->program);
}

int fire_main(const struct fire *managers, unsigned count, int argc, char **argv)
{
    if (argc == 5)
        return fire_role(&managers[atoi(argv[2])], argv[1], strtoul(argv[3], NULL, 10),
                         atol(argv[4]));
    char path[64];
    const char *name = strrchr(argv[0], '/');
    snprintf(path, sizeof path, "/bin/%s", name ? name + 1 : argv[0]);
    self = path;
    bool one = argc == 2; /* by hand: only the manager of this name */
    tap_plan((int)((one ? 1 : count) * RESULTS));
    if (kd_call3(KD_TRACE, KD_TRACE_START, 0, 0) <= 0) printf("# no trace\n");
    for (at = 0; at < count; at++) {
        f = &managers[at];
        if (!one || strcmp(f->program, argv[1]) == 0) fire();
    }
    kd_call3(KD_TRACE, KD_TRACE_STOP, 0, 0);
    return tap_end();
}
