/*
 * pstore_window.c - windows of containers: ps_window, ps_home.
 *
 * Aim     processes that work by windows and at the containers' own addresses see one store:
 *         transfers between accounts keep their sum, whoever is killed meanwhile; so it is after
 *         the store manager has died, and windows are still there. Errors are as pstore.h says. A
 *         window walks through a large container with little memory.
 * Method  children of this program, some of them killed; sums in snapshots, by windows.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pstore_test.h"

enum { ACCOUNTS = 24, START = 1000, ROUNDS = 150, KILLS = 12, LARGE_MIB = 256 };
struct account { long money; char other_page[4080]; };
struct root { struct account *account[ACCOUNTS]; char *large; };

static ps_container *c;
static struct account *seen[ACCOUNTS];   /* by windows, or not */

static int make(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    for (int i = 0; i < ACCOUNTS; i++) {
        root->account[i] = ps_new(c, struct account, NULL);
        if (!root->account[i]) return -errno;
        root->account[i]->money = START;
    }
    return 0;
}

static int find(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    for (int i = 0; i < ACCOUNTS; i++) seen[i] = root->account[i];
    return 0;
}

/* One window of all accounts, as they lie in one stretch of the container. */
static int look_by_window(int flags)
{
    char *low = (char *)seen[0], *high = low;
    for (int i = 0; i < ACCOUNTS; i++) {
        if ((char *)seen[i] < low) low = (char *)seen[i];
        if ((char *)seen[i] > high) high = (char *)seen[i];
    }
    char *window = ps_window(low, (size_t)(high - low) + sizeof(struct account), flags);
    for (int i = 0; window && i < ACCOUNTS; i++)
        seen[i] = (struct account *)(window + ((char *)seen[i] - low));
    return window ? 0 : -errno;
}

struct transfer { int from, to; long sum; };
static int transfers(void *arg)
{
    const struct transfer *t = arg;
    long money = seen[t->from]->money;
    seen[t->to]->money += t->sum;
    seen[t->from]->money -= t->sum;
    return t->from != t->to && seen[t->from]->money != money - t->sum ? -EBADMSG : 0;
}

static int sums(void *arg)
{
    long *sum = arg;
    *sum = 0;
    for (int i = 0; i < ACCOUNTS; i++) *sum += seen[i]->money;
    return 0;
}

static long sum_by(int isolation)
{
    long sum = -1;
    struct ps_options o = {.isolation = isolation};
    int e = ps_transaction_opt(sums, &sum, &o);
    return e ? e : sum;
}

/* A child: `window` or `direct`; so many transfers, or for ever. */
static int child(const char *how, int rounds)
{
    unsigned at = (unsigned)getpid();
    c = ps_open("accounts", PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!c || ps_transaction(find, NULL)) return 2;
    if (*how == 'w' && look_by_window(PS_WRITE)) return 3;
    for (int i = 0; i < rounds; i++) {
        at = at * 1103515245 + 12345;
        struct transfer t = {(int)(at >> 16) % ACCOUNTS, (int)(at >> 8) % ACCOUNTS, (long)(at % 7)};
        int e = ps_transaction(transfers, &t);
        if (e) {
            printf("# transfer: %s\n", ps_strerror(e));
            return 4;
        }
        child_begun();
    }
    return 0;
}

static void processes(const char *self)
{
    int pids[4], bad = 0;
    for (int i = 0; i < 4; i++) pids[i] = child_start(self, i % 2 ? "window" : "direct", "some");
    int differ = 0;
    for (int i = 0; i < 50; i++) differ += sum_by(PS_SNAPSHOT) != ACCOUNTS * START;
    for (int i = 0; i < 4; i++) bad += child_wait(pids[i]) != 0;
    is(differ, 0, "snapshots by a window see no transfer in its middle");
    tap_ok(bad == 0 && sum_by(PS_SERIALISABLE) == ACCOUNTS * START,
           "processes with windows and without, and no money is lost");
}

static void kills(const char *self)
{
    int differ = 0;
    for (int i = 0; i < KILLS; i++) {
        int pid = child_start(self, "window", "ever"), other = child_start(self, "direct", "ever");
        differ += !child_has_begun(pid) + !child_has_begun(other);
        pause_ms(i * 3);
        kill(pid, SIGKILL);
        pause_ms(2);
        kill(other, SIGKILL);
        (void)child_wait(pid);
        (void)child_wait(other);
        differ += sum_by(i % 2 ? PS_SNAPSHOT : PS_SERIALISABLE) != ACCOUNTS * START;
    }
    is(differ, 0, "clients are killed at their windows, and no money is lost");
}

static int stores_to(void *at) { return *(volatile long *)at = 5, ECANCELED; }
static int touches(void *at)
{
    long was = *(long *)at;
    int e = ps_touch(at, sizeof was);
    *(long *)at = was;
    return e;
}

static void errors(void)
{
    struct account *home = ps_home(seen[0]);
    void *none = ps_window(home, 0, 0);
    int wrong = none || errno != EINVAL;
    wrong += ps_window(home, 1ul << 40, 0) || errno != EINVAL;
    wrong += ps_window(&none, 8, 0) || errno != EINVAL;
    wrong += ps_window(home, 8, PS_CREATE) || errno != EINVAL;
    wrong += ps_window_end(home) != -EINVAL || ps_window_end(&none) != -EINVAL;
    wrong += ps_home(&none) != &none || ps_home(home) != home;
    long *reading = ps_window(home, sizeof *home, 0);
    wrong += !reading || ps_home(reading) != home || ps_container_of(reading) != c;
    wrong += ps_window(reading, 8, PS_WRITE) || errno != EROFS;
    long *inner = ps_window(reading, 8, 0);
    wrong += !inner || ps_home(inner) != home || ps_window_end(reading);
    wrong += ps_transaction(touches, ps_home(inner)) != 0;
    wrong += ps_window_end(inner) || ps_window_end(inner) != -EINVAL;
    void *all[40];
    int n = 0;
    while (n < 40 && (all[n] = ps_window(home, 8, PS_WRITE))) n++;
    wrong += n < 30 || errno != EMFILE;
    wrong += ps_transaction(touches, all[0]) || ps_transaction(stores_to, all[1]) != ECANCELED;
    while (n--) wrong += ps_window_end(all[n]) != 0;
    is(wrong, 0, "ps_window, ps_window_end and ps_home say what is wrong");
}

static void manager_dies(void)
{
    int pid = store_pid();
    kill(pid, SIGKILL);
    while (store_pid() == pid) pause_ms(1);
    long sum = -1;
    for (int i = 0; i < 50 && sum != ACCOUNTS * START; i++) sum = sum_by(PS_SERIALISABLE);
    struct transfer t = {0, 1, 3};
    tap_ok(sum == ACCOUNTS * START && !ps_transaction(transfers, &t) && ps_home(seen[0]) != seen[0],
           "a window is there again when the store manager has died (%ld)", sum);
}

static int make_large(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    root->large = ps_alloc(c, (size_t)LARGE_MIB << 20, NULL);
    return root->large ? 0 : -errno;
}
static int find_large(void *out) { return *(char **)out = ((struct root *)ps_root(c))->large, 0; }

static int walks(void *at)
{
    volatile char *window = at;
    for (size_t mib = 0; mib < LARGE_MIB; mib += 2) window[(mib << 20) + mib] = (char)(mib / 2);
    return 0;
}
static int walks_home(void *at)
{
    const char *home = at;
    int wrong = 0;
    for (size_t mib = 0; mib < LARGE_MIB; mib += 2)
        wrong += home[(mib << 20) + mib] != (char)(mib / 2);
    return wrong ? EBADMSG : 0;
}

static void large(void)
{
    char *home = NULL;
    int e = ps_transaction(make_large, NULL);
    e = e ? e : ps_transaction(find_large, &home);
    char *window = e ? NULL : ps_window(home, (size_t)LARGE_MIB << 20, PS_WRITE);
    /* room for the page tables of the container, and not for as many of the window */
    struct rlimit most = {process_self().used[KD_LIMIT_MEMORY] + (LARGE_MIB / 2 + 40) * 4096,
                          RLIM_INFINITY};
    e = e ? e : (int)syscall(SYS_prlimit64, 0, KD_RLIMIT + KD_LIMIT_MEMORY, &most, NULL);
    e = e || !window ? -1 : ps_transaction(walks, window);
    is(e, 0, "a walk through a large window goes on where there is no room for more page tables");
    is(ps_transaction(walks_home, home), 0, "and has stored to the container");
    is(ps_window_end(window), 0, "the window ends");
}

int main(int argc, char **argv)
{
    if (argc > 2) return child(argv[1], argv[2][0] == 's' ? ROUNDS : 1 << 30);
    tap_plan(9);
    c = ps_open("accounts", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!tap_ok(c && !ps_transaction(make, NULL) && !ps_transaction(find, NULL) &&
                    !look_by_window(PS_WRITE), "accounts, and a window of them"))
        return tap_end();
    processes(argv[0]);
    kills(argv[0]);
    errors();
    manager_dies();
    large();
    return tap_end();
}
