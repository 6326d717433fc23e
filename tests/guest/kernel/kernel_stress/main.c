/*
 * kernel_stress - the kernel's transactions under load, deaths and bad managers.
 *
 * Aim     eviction and HELD rights, snapshots and their versions, credits, deadlocks, managers that
 *         misuse their calls, processes that die at any moment; nothing is left behind.
 * Method  this program is a manager whose pages are computed, but for four words each, and its own
 *         clients; then it starts itself as a manager and as clients, and kills them. Transfers
 *         keep a sum that every reader checks. Work is counted in kills, transactions and
 *         evictions, not in seconds. `kernel_stress SEED` repeats a run's choices.
 */
#include "stress.h"

static int not_started;
static int start(const char *role, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%lu", (unsigned long)number);
    const char *argv[] = {self, role, text, NULL};
    struct kd_process_create c = { .path = self,
                                   .argv = argv,
                                   .fds = { -1, -1, -1 },
                                   .handle_count = 1,
                                   .handles = { KD_SYSTEM_HANDLE } };
    int h = (int)call(KD_PROCESS_CREATE, (long)&c, 0, 0);
    not_started += h < 0; /* memory may be full: one client less, this time */
    if (h >= 0) call(KD_HANDLE_CLOSE, h, 0, 0);
    return h < 0 ? h : c.pid;
}
static int status_of(int pid)
{
    int status = -1;
    call(KD_PROCESS_WAIT, pid, (long)&status, 0);
    return status;
}

static int manager_main(void)
{
    if (!start_manager(0) || call(KD_NAME_SET, (long)"stress", port, 0)) return 1;
    for (;;) nap(1000);
}

static int attach(int *at)
{
    struct kd_message m;
    if (*at >= 0) call(KD_HANDLE_CLOSE, *at, 0, 0);
    for (int i = 0; i < 30000; i++, nap(2)) {
        *at = (int)call(KD_NAME_FIND, (long)"stress", 0, 0);
        if (*at < 0) continue;
        m = (struct kd_message){.kind = KIND_OPEN, .handle = -1};
        if (call(KD_PORT_CALL, *at, (long)&m, 0) == 0) {
            for (int k = 0; k < OBJECTS; k++) objects[k].base = m.word[k];
            return 0;
        }
        call(KD_HANDLE_CLOSE, *at, 0, 0);
    }
    return 1;
}

static int client_at = -1;
static void *client_thread(void *arg)
{
    (void)arg;
    while (!stop && any(LENT) == 0) continue;
    return NULL;
}
static int client_main(void)
{
    pthread_t t;
    objects[LARGE].pages = PAGES;
    objects[LENT].pages = objects[ASKED].pages = FEW;
    if (attach(&client_at)) return 2;
    pthread_create(&t, NULL, client_thread, NULL);
    for (;;) {
        int e = any(next(&me.rng) % 4 ? LENT : LARGE);
        if (e == STATUS_WRONG) return STATUS_WRONG;
        if (e == -EOWNERDEAD && attach(&client_at)) return 2;
        if (e && e != -EOWNERDEAD) return 100 + (-e & 63);
    }
}

enum { CLIENTS = 4, KILLS = 24, SOME_KILLS = 8 };
static int wrong_ends;
static void expect_killed(int pid)
{
    int s = pid < 0 ? STATUS_KILLED : status_of(pid);
    if (s == STATUS_KILLED) return;
    printf("# a client ended with %d\n", s);
    wrong_ends++;
}

static int kills(int manager_too, int rounds)
{
    int pid[CLIENTS], m = start("manager", 0), bad = 0, restarts = 0;
    for (int i = 0; i < CLIENTS; i++) pid[i] = start("client", next(&seed));
    for (int round = 0; round < rounds && !bad; round++) {
        nap((unsigned)(next(&seed) % 120));
        unsigned i = (unsigned)(next(&seed) % CLIENTS);
        if (pid[i] > 0) call(KD_PROCESS_KILL, pid[i], STATUS_KILLED, 0);
        if (manager_too && next(&seed) % 4 == 0) {
            call(KD_PROCESS_KILL, m, STATUS_KILLED, 0);
            if (next(&seed) % 2) bad |= check() != 0;
            bad |= status_of(m) != STATUS_KILLED;
            while ((m = start("manager", 0)) < 0) nap(10);
            restarts++;
        }
        expect_killed(pid[i]);
        bad |= check() != 0;
        pid[i] = start("client", next(&seed));
    }
    for (int i = 0; i < CLIENTS; i++) {
        if (pid[i] > 0) call(KD_PROCESS_KILL, pid[i], STATUS_KILLED, 0);
        expect_killed(pid[i]);
    }
    call(KD_PROCESS_KILL, m, STATUS_KILLED, 0);
    status_of(m);
    if (manager_too) printf("# the manager died %d times\n", restarts + 1);
    return bad || wrong_ends;
}

/* Detached or revoked, a client ends; the others go on. */
static int detaches(void)
{
    int bad = 0;
    call(KD_NAME_SET, (long)"stress", port, 0);
    for (int i = 0; i < (tap_long() ? 12 : 4) && !bad; i++) {
        int pid = start("client", next(&seed));
        nap(60 + (unsigned)(next(&seed) % 60));
        if (i % 3 == 2) call(KD_PROCESS_KILL, pid, STATUS_KILLED, 0); /* both at once */
        for (int k = 0; k < OBJECTS; k++) {
            long e = i % 2 || k ? call(KD_SPACE_DETACH, pid, objects[k].handle, 0) : 0;
            bad |= e && e != -ESRCH && e != -ENOENT;
        }
        if (!(i % 2)) call(KD_OBJECT_REVOKE, objects[LARGE].handle, 0, 0);
        if (pid > 0) status_of(pid);
        bad |= check() != 0;
        call(KD_SPACE_ATTACH, getpid(), objects[LARGE].handle, 3); /* revoking was for all */
    }
    return bad;
}

/* ---- all of it ---- */

static int is_empty(const struct kd_system_info *s, uint64_t objects_before, int views_before)
{
    return s->objects == objects_before && s->versions == 0 && s->dirty_pages == 0 &&
           s->resident_pages == 0 && views_used() == views_before;
}

/* What the system has when nothing has been given back for 200 ms: leaves of objects that died are
 * free only when every CPU has been outside the kernel. */
static struct kd_system_info at_rest(void)
{
    struct kd_system_info was = {0}, is = system_info();
    for (int same = 0; same < 20; is = system_info()) {
        same = is.free_bytes == was.free_bytes ? same + 1 : 0;
        was = is;
        nap(10);
    }
    return is;
}

static long missing(const struct kd_system_info *before, const struct kd_system_info *after)
{
    return ((long)before->free_bytes - (long)after->free_bytes) / KD_PAGE_BYTES;
}

static void killed(void)
{
    enum { MISSING_MOST = 16 };
    int views_at_start = views_used(), rounds = tap_long() ? KILLS : SOME_KILLS;
    kills(0, rounds / 2); /* warm: what is allocated once */
    struct kd_system_info before = at_rest();
    wrong_ends = 0;
    int e = kills(0, rounds);
    tap_ok(e == 0, "clients that are killed at any moment leave a clean kernel");
    e = kills(1, rounds);
    tap_ok(e == 0, "and so do managers; clients come back to the next one");
    struct kd_system_info after = system_info();
    for (int i = 0; i < 1000 && (!is_empty(&after, before.objects, views_at_start) ||
                                 missing(&before, &after) >= MISSING_MOST);
         i++, after = system_info())
        nap(10);
    tap_ok(is_empty(&after, before.objects, views_at_start),
           "objects, versions, views and pages are gone with them");
    long lost = missing(&before, &after);
    tap_ok(lost < MISSING_MOST, "and their frames are free again (%ld missing)", lost);
}

static void views_and_credits(void)
{
    int e = ring();
    tap_ok(e == 0 && ring_views == RING, "a ring of %d views is undone (%d)", ring_views, e);
    e = two_views();
    tap_ok(e == 0, "two views of one thread (%d)", e);
    tap_ok(all_views() == 0, "the views of a process have a limit");
    lend = 12;
    call(KD_CREDIT_GRANT, lent_port, lend, 0);
    e = beside(4, LENT, credits);
    tap_ok(e == 0, "twelve credits for four threads (%d; %lu transactions)", e, done_count);
    lend = 0;
    e = run(write_n, (void *)13, KD_SERIALISABLE, 60000);
    tap_ok(e == -E2BIG || e == -ENOSPC, "more than there are: refused (%d)", e);
    lend = 12;
    call(KD_CREDIT_GRANT, lent_port, 64, 0);
    e = run(write_n, (void *)13, KD_SERIALISABLE, 60000);
    tap_ok(e == 0, "and granted (%d)", e);
}

static void managers(void)
{
    tap_ok(asking() == 0, "a manager that is asked for each page");
    int e = beside(2, LARGE, nonsense);
    tap_ok(e == 0, "calls on what is not the manager's are refused (%d)", e);
    e = bad_manager();
    tap_ok(e == 0, "a manager that publishes twice (%d)", e);
    e = destroyed_under_diff();
    tap_ok(e == 0, "an object destroyed under a commit (%d)", e);
    e = detaches();
    tap_ok(e == 0 && check() == 0, "clients that are detached while they run (%d)", e);
}

static void little_memory(void)
{
    struct kd_system_info before = system_info();
    int e = beside(3, LARGE, many_evictions);
    tap_ok(e == 0, "pages come and go under three threads (%d; %lu transactions)", e, done_count);
    struct kd_system_info after = system_info();
    tap_ok(after.evictions > before.evictions + 1000 && odd_runs == 0, "%lu evictions",
           after.evictions - before.evictions);
    tap_ok(check() == 0, "kcheck is clean");
    e = beside(2, LARGE, held);
    tap_ok(e == 0, "rights are held over eviction: a second look sees the same (%d)", e);
    e = beside(3, LARGE, snapshots);
    tap_ok(e == 0, "a snapshot sees one state, however long it looks (%d)", e);
    tap_ok(system_info().versions == 0, "and no old version is left (%lu)", system_info().versions);
    int stamps = -1;
    e = run(look_too_long, &stamps, KD_SNAPSHOT, 0);
    tap_ok(e == -ESTALE && stamps == 0, "a snapshot that needs too much memory ends (%d, %d)", e,
           stamps);
    tap_ok(system_info().versions == 0 && check() == 0, "with its versions");
}

int main(int argc, char **argv)
{
    self = strchr(argv[0], (int)0x2f) ? argv[0] : "/bin/kernel_stress";
    seed = argc > 2   ? strtoul(argv[2], NULL, 0)
           : argc > 1 ? strtoul(argv[1], NULL, 0)
                      : now_ms() * 2654435761u;
    seed |= 1;
    if (argc > 2) return strcmp(argv[1], "manager") ? client_main() : manager_main();

    tap_plan(24);
    printf("# seed %lu\n", (unsigned long)seed);
    uint64_t started = now_ms();
    killed();
    tap_ok(start_manager(1) && enter() == 0 && pool_start() == 0, "a manager in this process");
    views_and_credits();
    managers();
    little_memory();
    printf("# %lu ms; for want of memory: %lu retries, %d processes not started\n",
           (unsigned long)(now_ms() - started), starved, not_started);
    return tap_end();
}
