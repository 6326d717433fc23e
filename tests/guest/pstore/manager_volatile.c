/*
 * manager_volatile.c - /bin/volatile: a store whose containers are in memory alone.
 *
 * Aim     programs use it as any store: transactions of several processes keep a sum, whoever is
 *         killed; aborts undo, snapshots see one moment, memory that is freed is given out again as
 *         zeros, and a full container says ENOSPC. Nothing is written to any disk. A container
 *         outlives the program that made it, and ends with its manager; in a scratch store it ends
 *         with its last user, however that one ends. Requests that no library makes are refused.
 * Method  libpstore, with ps_connect("volatile"); children of this program.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pstore_test.h"
#include "store_protocol.h"
#include "user/start.h"

enum { ACCOUNTS = 40, START = 100, ROUNDS = 300, KILLS = 8, MIB = 4, FILL_BYTES = 100000 };
struct account { long money; char other_page[5000]; };
struct root { struct account *account[ACCOUNTS]; char *block[1024]; long changes; };
static ps_container *c;

static int manager_start(const char *option, const char *name)
{
    char digits[8];
    const char *argv[] = {"volatile", option ? option : name, option ? name : digits,
                          option ? digits : NULL, NULL};
    snprintf(digits, sizeof digits, "%d", MIB);
    int pid = (int)start_program("/bin/volatile", argv, 0, 1);
    for (int i = 0; i < 30000 && ps_connect(name); i++) pause_ms(1);
    return pid;
}
static void manager_end(int pid)
{
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    kd_call3(KD_PROCESS_WAIT, pid, 0, 0);
}
static ps_container *open_it(int flags) { return ps_open("box", flags, PS_LAYOUT(struct root, 1)); }

/* ---- accounts ---- */

static int make(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    for (int i = 0; root && i < ACCOUNTS; i++) {
        root->account[i] = ps_new(c, struct account, NULL);
        if (!root->account[i]) return -errno;
        root->account[i]->money = START;
    }
    return root ? 0 : -errno;
}

struct transfer { unsigned from, to; long sum; int undo; };
static int transfers(void *arg)
{
    const struct transfer *t = arg;
    struct root *root = ps_root(c);
    root->account[t->from]->money -= t->sum;
    root->account[t->to]->money += t->sum;
    root->changes++;
    return t->undo ? -ECANCELED : 0;
}
static int sums(void *out)
{
    struct root *root = ps_root(c);
    *(long *)out = 0;
    for (int i = 0; i < ACCOUNTS; i++) *(long *)out += root->account[i]->money;
    return 0;
}
static long sum_by(int isolation)
{
    long sum = -1;
    struct ps_options o = {.isolation = isolation};
    int e = ps_transaction_opt(sums, &sum, &o);
    return e ? e : sum;
}

static int child(long rounds)
{
    unsigned seed = (unsigned)getpid();
    if (ps_connect("volatile") || !(c = open_it(PS_WRITE))) return 2;
    for (long i = 0; i < rounds; i++) {
        struct transfer t = {(unsigned)rand_r(&seed) % ACCOUNTS, (unsigned)rand_r(&seed) % ACCOUNTS,
                             rand_r(&seed) % 9, rand_r(&seed) % 4 == 0};
        int e = ps_transaction(transfers, &t);
        if (e != (t.undo ? -ECANCELED : 0)) return 3;
        child_begun();
    }
    return 0;
}

static void accounts(const char *self)
{
    uint64_t written = system_info().block_writes;
    int pids[3], bad = 0, differ = 0;
    is(ps_transaction(make, NULL), 0, "accounts");
    for (int i = 0; i < 3; i++) pids[i] = child_start(self, "transfers", "300");
    for (int i = 0; i < 60; i++) differ += sum_by(PS_SNAPSHOT) != ACCOUNTS * START;
    for (int i = 0; i < 3; i++) bad += child_wait(pids[i]) != 0;
    tap_ok(!bad && !differ, "processes transfer, and snapshots see no transfer in its middle");
    for (int i = 0; i < KILLS; i++) {
        int a = child_start(self, "transfers", "1000000");
        int b = child_start(self, "transfers", "1000000");
        differ += !child_has_begun(a) + !child_has_begun(b);
        pause_ms(i * 2);
        kill(a, SIGKILL);
        kill(b, SIGKILL);
        (void)child_wait(a);
        (void)child_wait(b);
        differ += sum_by(i % 2 ? PS_SNAPSHOT : PS_SERIALISABLE) != ACCOUNTS * START;
    }
    is(differ, 0, "clients are killed, and no money is lost");
    is((long)(system_info().block_writes - written), 0, "no disk is written");
}

/* ---- memory ---- */

static int fill(void *out)
{
    struct root *root = ps_root(c);
    int n = 0;
    while (n < 1024 && (root->block[n] = ps_alloc(c, FILL_BYTES, NULL))) {
        for (int i = 0; i < FILL_BYTES; i++)
            if (root->block[n][i]) return -EBADMSG;
        memset(root->block[n++], 7, FILL_BYTES);
    }
    *(int *)out = n;
    return n == 1024 ? -ERANGE : errno == ENOSPC ? 0 : -errno;
}
static int empty(void *arg)
{
    struct root *root = ps_root(c);
    for (int i = 0, e; i < *(int *)arg; i++) {
        if ((e = ps_free(root->block[i]))) return e;
        root->block[i] = NULL;
    }
    return 0;
}

static void memory(void)
{
    int most = 0, least = 1024, e = 0;
    for (int round = 0; round < 5 && !e; round++) {
        int n = 0;
        e = ps_transaction(fill, &n);
        if (!e) e = ps_transaction(empty, &n);
        most = n > most ? n : most;
        least = n < least ? n : least;
    }
    tap_ok(!e && least > MIB * 8 && most - least <= 1,
           "a container is full at its size, and what is freed comes back as zeros (%d to %d; %s)",
           least, most, ps_strerror(e));
    is(sum_by(PS_SERIALISABLE), ACCOUNTS * START, "what else is there is as it was");
}

/* ---- ends ---- */

static void outlives(const char *self)
{
    is(child_run(self, "make", "other"), 0, "a program makes a container and ends");
    ps_container *other = ps_open("other", 0, PS_LAYOUT(struct root, 1));
    tap_ok(other && ps_close(other) == 0, "it is there");
    tap_ok(!ps_open("other", 0, PS_LAYOUT(struct transfer, 1)) && errno == EMEDIUMTYPE &&
               !ps_open("none", PS_WRITE, PS_LAYOUT(struct root, 1)) && errno == ENOENT &&
               !ps_open("box", PS_CREATE | PS_EXCLUSIVE, NULL) && errno == EEXIST,
           "opens that do not agree are refused");
    struct ps_info list[4];
    tap_ok(ps_list(list, 4) == 2 && !strcmp(list[1].name, "other"), "both are listed");
    int e = WHEN_FREE(ps_delete("other"));
    tap_ok(e == 0 && ps_list(list, 4) == 1, "and one is deleted");
}

/* Opens, changes, and ends without a close: by itself, or when it is killed. */
static int user(const char *store, const char *name)
{
    if (ps_connect(store) || !(c = ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1))))
        return 2;
    return ps_transaction(make, NULL) ? 3 : 0;
}
static int stays(void)
{
    if (user("scratch", "mine")) return 2;
    for (;;) pause_ms(50);
}

static void scratch(const char *self)
{
    struct ps_info list[4];
    int manager = manager_start("--scratch", "scratch");
    is(child_run(self, "scratch", "mine"), 0, "a program uses a scratch container and ends");
    while (ps_list(list, 4) != 0) pause_ms(1); /* the store may hear of the end behind us */
    tap_ok(1, "it is gone");
    int pid = child_start(self, "stays", "");
    while (ps_list(list, 4) != 1) pause_ms(1);
    ps_container *too = ps_open("mine", 0, NULL);
    kill(pid, SIGKILL);
    (void)child_wait(pid);
    tap_ok(too && ps_list(list, 4) == 1, "one that somebody else uses stays when its maker dies");
    is(ps_close(too), 0, "until that one closes it");
    while (ps_list(list, 4) != 0) pause_ms(1);
    manager_end(manager);
}

/* ---- requests that no library makes ---- */

static int fuzz(void)
{
    static union { struct wire_open open; char bytes[4096]; uint64_t words[512]; } data;
    unsigned seed = 7;
    long port = kd_call3(KD_NAME_FIND, (long)"volatile", 0, 0);
    if (ps_connect("volatile") || !(c = open_it(PS_WRITE)) || port < 0) return 2;
    for (int i = 0; i < 4000; i++) {
        struct kd_message m = {.kind = (uint32_t)rand_r(&seed) % 32, .handle = -1, .data = &data,
                               .data_bytes = (uint64_t)rand_r(&seed) % 300, .buffer = &data,
                               .buffer_bytes = sizeof data};
        for (int w = 0; w < KD_WORDS; w++) {
            uint64_t r = (uint64_t)rand_r(&seed) << 33 | (uint64_t)rand_r(&seed);
            m.word[w] = r % 3 == 0 ? r : r % 3 == 1 ? r % 4 : KD_STORE_BASE + r % (1ull << 46);
        }
        for (int w = 0; w < 40; w++) data.words[w] = (uint64_t)rand_r(&seed) * 0x100000001ull;
        if (m.kind == STORE_STOP || m.kind == STORE_DELETE) m.kind = STORE_OPEN;
        if (kd_call3(KD_PORT_CALL, port, (long)&m, 0) == -EOWNERDEAD) return 3;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        switch (argv[1][0]) {
        case 't': return child(atol(argv[2]));
        case 'm': return user("volatile", argv[2]);
        case 's': return argv[1][1] == 'c' ? user("scratch", argv[2]) : stays();
        default: return fuzz();
        }
    }
    tap_plan(20);
    int manager = manager_start(NULL, "volatile");
    c = open_it(PS_CREATE | PS_WRITE);
    if (!tap_ok(c != NULL, "a container in memory (%s)", c ? "" : strerror(errno)))
        return tap_end();
    accounts(argv[0]);
    memory();
    outlives(argv[0]);
    is(child_run(argv[0], "fuzz", ""), 0, "requests of no sense are answered");
    is(sum_by(PS_SERIALISABLE), ACCOUNTS * START, "and change nothing");
    scratch(argv[0]);
    manager_end(manager);
    tap_ok(sum_by(PS_SERIALISABLE) < 0, "a dead manager's container is gone");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
