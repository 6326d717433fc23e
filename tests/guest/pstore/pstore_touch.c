/*
 * pstore_touch.c - first touches open containers, if the program's root leads to them.
 *
 * Aim     A load or store where nothing is open opens the container that lies there: in
 *         transactions, snapshots, many threads at once, after fork, by a root directory, by a
 *         handle of one container, to write or only to read. Whoever is confined reaches nothing
 *         more by it, and learns nothing of what it does not reach: other containers, deleted ones,
 *         those taken back, those behind a circle of links all are as addresses where nothing lies.
 *         Without the switch, and for all other faults, a program ends as it always did, and its
 *         own handler of SIGSEGV goes on.
 * Method  This program starts itself in roles, with addresses as arguments. A role's exit status is
 *         the line of the first thing that was wrong; ENDS: it was ended for a touch.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pstore_test.h"
#include "store_protocol.h"

struct page { uint64_t number; };
#define PAGE PS_LAYOUT(struct page, 1)
#define WANT(good) do { if (!(good)) exit(__LINE__ % 100 + 1); } while (0)
enum { ENDS = 128 + SIGSEGV, READS = PS_MAY_READ, WRITES = PS_MAY_READ | PS_MAY_WRITE };
enum { THREADS = 4, ROUNDS = 60, SOME = 24 };

static char **addresses;                /* of root objects: arguments of a role */
static volatile uint64_t *at(int i)
{
    return (volatile uint64_t *)(uintptr_t)strtoull(addresses[i], NULL, 16);
}

static _Atomic uint64_t loaded;
static int loads(void *address)
{
    loaded = *(volatile uint64_t *)address;
    return 0;
}
static int stores(void *address)
{
    ++*(volatile uint64_t *)address;
    return 0;
}
static int load(volatile uint64_t *p) { return ps_transaction(loads, (void *)p); }
static int store(volatile uint64_t *p) { return ps_transaction(stores, (void *)p); }

struct job { ps_container *c; uint64_t number; volatile uint64_t *at; };
static int set(void *arg)
{
    struct job *j = arg;
    struct page *p = ps_root(j->c);
    if (!p) return -errno;
    p->number = j->number;
    j->at = &p->number;
    return 0;
}

/* A container with a number; where that is. */
static volatile uint64_t *put_in(const char *path, uint64_t number)
{
    struct job j = {.c = ps_open(path, PS_CREATE | PS_WRITE, PAGE), .number = number};
    int e = j.c ? ps_transaction(set, &j) : -1;
    if (j.c) ps_close(j.c);
    return e == 0 ? j.at : NULL;
}

/* ---- roles of programs that have all rights ---- */

static int role_load(void)
{
    WANT(ps_open_on_touch(1) == 0 && ps_open_on_touch(1) == 1);
    WANT(!ps_container_of((void *)at(0)));
    WANT(load(at(0)) == 0 && loaded == 1);
    ps_container *c = ps_container_of((void *)at(0));
    WANT(c && c == ps_open("seen", PS_WRITE, PAGE) && ps_close(c) == 0);
    WANT(store(at(1)) == 0 && load(at(1)) == 0 && loaded == 3);
    WANT(store(at(0)) == 0 && loaded == 3 && load(at(0)) == 0 && loaded == 2);
    WANT(ps_close(c) == 0 && load(at(0)) == 0 && loaded == 2);
    return 0;
}

static int role_off(void)
{
    WANT(ps_open_on_touch(1) == 0 && ps_open_on_touch(0) == 1 && ps_open_on_touch(0) == 0);
    load(at(0));
    return 0;
}

static int role_snapshot(void)
{
    struct ps_options snapshot = {.isolation = PS_SNAPSHOT}, dirty = {.isolation = PS_DIRTY_READ};
    WANT(ps_open_on_touch(1) == 0);
    WANT(ps_transaction_opt(loads, (void *)at(0), &snapshot) == 0 && loaded == 2);
    WANT(ps_transaction_opt(loads, (void *)at(1), &dirty) == 0 && loaded == 3);
    WANT(ps_transaction_opt(stores, (void *)at(0), &snapshot) == -EROFS);
    WANT(load(at(0)) == 0 && loaded == 2);
    return 0;
}

/* By hand, with a transaction suspended. */
static int role_begin(void)
{
    WANT(ps_open_on_touch(1) == 0 && ps_begin(NULL) == 0 && *at(0) == 2);
    ps_tx *tx = ps_suspend();
    WANT(tx && ps_begin(NULL) == 0 && *at(1) == 3 && ps_commit() == 0 && ps_resume(tx) == 0);
    WANT(*at(0) == 2 && ps_commit() == 0);
    return 0;
}

/* It is opened; that does not make a load outside of a transaction right. */
static int role_outside(void)
{
    WANT(ps_open_on_touch(1) == 0 && ps_strict(1) == 0);
    return (int)*at(0);
}

/* Each round touches two anew, while others do, and all add to one page: so transactions are
 * aborted at any place. */
static pthread_barrier_t round_end;
static int both(void *other)
{
    ++*at(0);
    loaded = *(volatile uint64_t *)other;
    return 0;
}
static void *toucher(void *number)
{
    for (int i = 0; i < ROUNDS; i++) {
        volatile uint64_t *other = at(1 + (i + (int)(uintptr_t)number) % 3);
        WANT(ps_transaction(both, (void *)other) == 0);
        if (pthread_barrier_wait(&round_end) == PTHREAD_BARRIER_SERIAL_THREAD)
            for (int k = 0; k < 4; k++)
                for (ps_container *c; (c = ps_container_of((void *)at(k)));)
                    WANT(ps_close(c) == 0);
        pthread_barrier_wait(&round_end);
    }
    return NULL;
}
static int role_threads(void)
{
    pthread_t thread[THREADS];
    WANT(ps_open_on_touch(1) == 0 && pthread_barrier_init(&round_end, NULL, THREADS) == 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        WANT(pthread_create(&thread[i], NULL, toucher, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) WANT(pthread_join(thread[i], NULL) == 0);
    WANT(load(at(0)) == 0 && loaded == 2 + THREADS * ROUNDS);
    return 0;
}

/* What it has read from is closed behind it, and behind the library, which aborts it: in the
 * handler, mostly, as that is where it is at that time. */
static _Atomic int stop, has_read;
static void *closer(void *unused)
{
    struct wire_open how = {.name = "seen"};
    struct wire_opened opened;
    long store = kd_call3(KD_NAME_FIND, (long)"store", 0, 0);
    struct kd_message m = {.kind = STORE_OPEN, .data = &how, .data_bytes = sizeof how,
                           .handle = -1, .buffer = &opened, .buffer_bytes = sizeof opened};
    WANT(kd_call3(KD_PORT_CALL, store, (long)&m, 0) == 0);
    while (!stop) {
        m = (struct kd_message){.kind = STORE_CLOSE, .word = {opened.container}, .handle = -1};
        while (!has_read && !stop) sched_yield();
        while (kd_call3(KD_PORT_CALL, store, (long)&m, 0) == 0)
            m = (struct kd_message){.kind = STORE_CLOSE, .word = {opened.container}, .handle = -1};
        has_read = 0;
    }
    return unused;
}
static volatile uint64_t *some[SOME];
static int reads_many(void *unused)
{
    (void)unused;
    loaded = *at(0);
    has_read = 1;
    for (int i = 0; i < SOME; i++) loaded += *some[i];
    return 0;
}
static int role_aborted(void)
{
    pthread_t thread;
    sigset_t now;
    char name[SOME][8];
    int failed = 0;
    for (int i = 0; i < SOME; i++) {
        snprintf(name[i], sizeof name[i], "some%d", i);
        some[i] = put_in(name[i], 1);
        WANT(some[i]);
    }
    WANT(ps_open_on_touch(1) == 0 && pthread_create(&thread, NULL, closer, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        failed += ps_transaction(reads_many, NULL) != 0;
        WANT(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && !sigismember(&now, SIGSEGV) &&
             !sigismember(&now, SIGALRM));
        while (has_read) sched_yield();
        for (int k = 0; k < SOME; k++) {
            ps_container *c = ps_container_of((void *)some[k]);
            if (c) ps_close(c);
        }
    }
    stop = 1;
    WANT(pthread_join(thread, NULL) == 0 && failed > 0);
    WANT(ps_transaction(reads_many, NULL) == 0);
    for (int i = 0; i < SOME; i++) WANT(ps_delete(name[i]) == 0);
    return 0;
}

/* The store manager dies under a transaction that has used nothing yet. */
static int dies_then_loads(void *address)
{
    int pid = store_pid();
    WANT(pid > 0 && kd_call3(KD_PROCESS_KILL, pid, 9, 0) == 0);
    return loads(address);
}
static int role_dead(void)
{
    WANT(ps_open_on_touch(1) == 0 && ps_connect(NULL) == 0);
    WANT(ps_transaction(dies_then_loads, (void *)at(1)) == -EOWNERDEAD);
    WANT(load(at(1)) == 0 && load(at(0)) == 0);
    return 0;
}

static int role_fork(void)
{
    int status;
    WANT(ps_open_on_touch(1) == 0 && load(at(0)) == 0);
    pid_t pid = fork();
    if (pid == 0) _exit(load(at(1)) == 0 && loaded == 3 && load(at(0)) == 0 ? 0 : 1);
    WANT(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    WANT(load(at(2)) == 0);
    return 0;
}

static int deeper(volatile char *p)
{
    volatile char more[4096];
    more[0] = *p;
    return *p == 77 ? 0 : deeper(more) + more[0];
}
static int role_overflow(void)
{
    WANT(ps_open_on_touch(1) == 0 && load(at(0)) == 0);
    return deeper((char[]){1});
}

static volatile uintptr_t nowhere = 16;
static int role_wild(void)
{
    WANT(ps_open_on_touch(1) == 0);
    return *(volatile int *)nowhere;
}

static int role_sent(void)
{
    WANT(ps_open_on_touch(1) == 0);
    raise(SIGSEGV);
    return 0;
}

/* ---- a handler of its own, before and behind ---- */

static sigjmp_buf back;
static volatile sig_atomic_t handled, passed;
static struct sigaction theirs;
static void own(int number, siginfo_t *info, void *context)
{
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    handled += number == SIGSEGV && context && sigismember(&now, SIGSEGV) == 1;
    siglongjmp(back, (uintptr_t)info->si_addr == 16 ? 1 : 2);
}
static void in_front(int number, siginfo_t *info, void *context)
{
    passed++;
    theirs.sa_sigaction(number, info, context);
}
static int wild(uint64_t address)
{
    int how = sigsetjmp(back, 1);
    return how ? how : *(volatile int *)address;
}
static int role_own(void)
{
    struct sigaction set = {.sa_flags = SA_SIGINFO, .sa_sigaction = own}, now;
    WANT(sigaction(SIGSEGV, &set, NULL) == 0 && ps_open_on_touch(1) == 0);
    WANT(wild(16) == 1 && wild(16) == 1 && handled == 2);
    WANT(load(at(0)) == 0 && handled == 2);
    WANT(wild(KD_STORE_END - 4096) == 2 && handled == 3);
    set.sa_sigaction = in_front;
    set.sa_flags |= SA_NODEFER;
    WANT(sigaction(SIGSEGV, &set, &theirs) == 0);
    WANT(load(at(1)) == 0 && passed == 1 && wild(16) == 1 && handled == 4 && passed == 2);
    WANT(ps_open_on_touch(0) == 1 && wild(16) == 1 && handled == 5);
    WANT(ps_open_on_touch(1) == 0 && load(at(2)) == 0 && handled == 5);
    WANT(sigaction(SIGSEGV, &theirs, NULL) == 0 && ps_open_on_touch(0) == 1);
    WANT(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_sigaction == own);
    return 0;
}

/* ---- roles of confined programs; arguments: what they reach, and what not ---- */

/* All that is not reached sounds as if it were not there. */
static void probe(uint64_t address, int reached)
{
    char path[WIRE_PATH_BYTES];
    struct kd_message m = {.kind = STORE_AT, .word = {address}, .handle = -1, .buffer = path,
                           .buffer_bytes = sizeof path};
    long r = kd_call3(KD_PORT_CALL, 0, (long)&m, 0);
    WANT(reached ? r == 0 : r == -ENOENT && m.buffer_bytes == 0 && m.word[0] == 0);
}

static int role_reads(void)
{
    WANT(ps_open_on_touch(1) == 0 && load(at(0)) == 0 && loaded >= 3);
    probe((uintptr_t)at(0), 1);
    probe((uintptr_t)at(1), 0);
    probe(0, 0);
    probe(~0ull, 0);
    for (uint64_t g = 0; g < 64; g++) {
        uint64_t address = KD_STORE_BASE + (g << 30);
        if (((uintptr_t)at(0) ^ address) >> 30 && ((uintptr_t)at(3) ^ address) >> 30)
            probe(address + 4096, 0);
    }
    return 0;
}

static int role_reads_then_stores(void)
{
    WANT(ps_open_on_touch(1) == 0 && load(at(0)) == 0 && loaded >= 3);
    return store(at(0));
}

static int role_writes(void)
{
    WANT(ps_open_on_touch(1) == 0 && store(at(0)) == 0);
    return 0;
}

static int role_other(void)
{
    WANT(ps_open_on_touch(1) == 0 && load(at(0)) == 0);
    return load(at(1));
}

/* Opens it again and again, until it is taken back; the load behind that ends it. */
static int role_loops(void)
{
    WANT(ps_open_on_touch(1) == 0 && load(at(0)) == 0);
    child_begun();
    for (int failed = 0; failed < 3;) { /* it may end in the middle of a load, or of an open */
        failed += load(at(0)) != 0;
        ps_container *c = ps_container_of((void *)at(0));
        if (c) ps_close(c);
    }
    return 1;
}

static const struct role { const char *name; int (*run)(void); } roles[] = {
    {"load", role_load}, {"off", role_off}, {"snapshot", role_snapshot}, {"begin", role_begin},
    {"outside", role_outside}, {"threads", role_threads}, {"fork", role_fork},
    {"aborted", role_aborted}, {"dead", role_dead},
    {"overflow", role_overflow}, {"wild", role_wild}, {"sent", role_sent}, {"own", role_own},
    {"reads", role_reads}, {"reads then stores", role_reads_then_stores}, {"writes", role_writes},
    {"other", role_other}, {"loops", role_loops}
};

/* ---- who starts them ---- */

static char text[4][20];
static volatile uint64_t *object[4];    /* seen, dir/in, vault/hidden, dir/sub/low */
static const char *const paths[] = {"seen", "dir/in", "vault/hidden", "dir/sub/low"};

/* Its exit status. root: a handle, confined; or -1. The arguments are the objects at i and j. */
static int begin(const char *role, int i, int j, int root, unsigned rights, const char *roots)
{
    const char *argv[] = {"pstore_touch", role, text[i], text[j], text[2], text[3], NULL};
    const char *envp[] = {roots, NULL};
    struct kd_process_create p = {.path = "/bin/pstore_touch", .argv = argv, .envp = envp,
                                  .fds = {-1, -1, -1}};
    if (root >= 0) {
        p.flags = KD_PROCESS_CONFINED;
        p.handle_count = 1;
        p.handles[0] = root;
        p.handle_rights[0] = KD_RIGHT_CALL | (rights & 31) << 16;
    } else {
        p.envp = NULL;
        system_pass(&p);
    }
    long h = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    if (h >= 0) kd_call3(KD_HANDLE_CLOSE, h, 0, 0);
    return h < 0 ? (int)h : p.pid;
}
static int all(const char *role) { return child_wait(begin(role, 0, 1, -1, 0, NULL)); }
static int confined(const char *role, int i, int j, int root, unsigned rights)
{
    return child_wait(begin(role, i, j, root, rights, "PS_ROOTS=store:0"));
}

static int make(int i, uint64_t number)
{
    object[i] = put_in(paths[i], number);
    snprintf(text[i], sizeof text[i], "%llx", (unsigned long long)(uintptr_t)object[i]);
    return object[i] ? 0 : -errno;
}

static int link_to(const char *from, unsigned rights, const char *to)
{
    int h = ps_handle(from, rights | PS_MAY_GRANT);
    int e = h < 0 ? h : ps_link(h, to, rights);
    if (h >= 0) ps_drop(h);
    return e;
}

/* Does the kernel say that of the end of the last program, and nothing else? */
static int told(const char *what)
{
    static char log[1 << 17];
    long n = kd_call4(KD_LOOK, KD_LOOK_LOG, 0, (long)log, sizeof log - 1);
    char *last = NULL;
    log[n > 0 && n < (long)sizeof log ? n : 0] = '\0';
    for (char *p = log; (p = strstr(p, "pstore_touch[")); p++)
        if (strstr(p, "killed: ") && strstr(p, "killed: ") < p + 40) last = strstr(p, "killed: ");
    return last && strncmp(last + 8, what, strlen(what)) == 0;
}

static void test_all(void)
{
    is(all("load"), 0, "a load opens, a store opens to write");
    is(all("off"), ENDS, "without the switch it ends the program");
    tap_ok(told("no container lies there: load from"), "as it always did");
    is(all("snapshot"), 0, "in a snapshot, in a dirty read");
    is(all("begin"), 0, "with a transaction suspended");
    is(all("outside"), ENDS, "outside of a transaction it is as wrong as ever");
    is(all("fork"), 0, "in the child of fork, and in the parent");
    is(all("threads"), 0, "in many threads at once, with aborts");
    is(all("aborted"), 0, "an abort in the middle of it leaves nothing blocked");
    is(all("overflow"), ENDS, "a stack that overflows ends the program");
    tap_ok(told("stack overflow: "), "and is called so");
    is(all("wild"), ENDS, "so does a load from nowhere");
    is(all("sent"), ENDS, "and a signal that is sent");
    is(all("own"), 0, "a handler of the program's own goes on");
}

static void test_confined(void)
{
    int dir = ps_handle("dir", PS_MAY_ALL), in = ps_handle("dir/in", PS_MAY_ALL);
    is(confined("reads", 1, 0, dir, READS), 0, "by a directory: its own, and nothing is told");
    is(confined("reads then stores", 1, 0, dir, READS), ENDS,
       "by a right to read nothing is stored");
    tap_ok(told("container "), "the kernel says that it is to read");
    is(confined("other", 1, 0, dir, WRITES), ENDS, "what the root does not lead to ends it");
    tap_ok(told("no container lies there: load from"), "as if nothing were there");
    is(confined("writes", 1, 0, dir, WRITES), 0, "with the right to write it stores");
    is(child_wait(begin("reads", 1, 0, in, READS, "PS_ROOTS=store:0=given")) |
           child_wait(begin("writes", 1, 0, in, WRITES, "PS_ROOTS=store:0=given")), 0,
       "by a handle of one container, whatever it is called");
    is(child_wait(begin("other", 1, 3, in, WRITES, "PS_ROOTS=store:0=given")), ENDS,
       "and no other");
    is(confined("writes", 3, 0, dir, PS_MAY_WRITE), ENDS, "no right to walk, no way");
    ps_drop(dir);
    ps_drop(in);
}

/* dir/loop is dir, dir/sub/up is dir: ways in circles. vault is in none. */
static void test_circles(void)
{
    is(link_to("dir", WRITES, "dir/loop") | link_to("dir", READS, "dir/sub/up"), 0, "circles");
    int sub = ps_handle("dir/sub", PS_MAY_ALL), vault = ps_handle("vault", PS_MAY_ALL);
    is(confined("writes", 3, 0, sub, WRITES), 0, "what lies in it");
    is(confined("other", 1, 2, sub, WRITES), ENDS, "up, by the link; the vault is in no circle");
    is(confined("reads then stores", 1, 2, sub, WRITES), ENDS, "which is to read");
    is(confined("other", 2, 1, vault, WRITES), ENDS, "nor is the circle in the vault");
    is(link_to("dir/sub", WRITES, "vault/wide"), 0, "a link out of it");
    is(confined("writes", 3, 0, vault, WRITES), 0, "leads there");
    ps_drop(sub);
    ps_drop(vault);
}

static void test_ends(void)
{
    is(ps_unlink("vault/wide") | link_to("dir/in", WRITES, "vault/loan"), 0, "lent by one way");
    int vault = ps_handle("vault", PS_MAY_ALL);
    int pid = begin("loops", 1, 0, vault, WRITES, "PS_ROOTS=store:0");
    tap_ok(child_has_begun(pid) && ps_unlink("vault/loan") == 0, "taken back while it opens");
    is(child_wait_for(pid, CHILD_ENDS_S), ENDS, "and it opens no more");
    is(confined("writes", 1, 0, vault, WRITES), ENDS, "nor does the next one");
    ps_drop(vault);
    is(WHEN_FREE(ps_delete("dir/in")), 0, "deleted");
    is(child_wait(begin("writes", 1, 0, -1, 0, NULL)), ENDS, "what is not there any more");
}

static void test_dead(void)
{
    is(child_wait(begin("dead", 0, 2, -1, 0, NULL)), 0,
       "the store manager's death undoes the transaction");
    int e;
    do e = ps_rights("", NULL); while (e == -EOWNERDEAD);
    is(e, PS_MAY_ALL, "the next one is there");
}

int main(int argc, char **argv)
{
    addresses = argv + 2;
    for (unsigned i = 0; argc > 2 && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(argv[1], roles[i].name) == 0) return roles[i].run();
    tap_plan(43);
    is(ps_directory_create("dir") | ps_directory_create("dir/sub") | ps_directory_create("vault"),
       0, "directories");
    is(make(0, 1) | make(1, 2) | make(2, 3) | make(3, 4), 0, "containers");
    test_all();
    test_confined();
    test_circles();
    test_ends();
    test_dead();
    is(ps_unlink("dir/loop") | ps_unlink("dir/sub/up"), 0, "unlinked");
    is(WHEN_FREE(ps_delete("seen")) | WHEN_FREE(ps_delete("vault/hidden")) |
           WHEN_FREE(ps_delete("dir/sub/low")) | ps_delete("dir/sub") | ps_delete("dir") |
           ps_delete("vault"), 0, "all is deleted");
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
