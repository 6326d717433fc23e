/*
 * hostile_calls.c - every call with every kind of bad argument.
 *
 * Aim     any pointer, length, handle or flag gives an errno, and costs nobody else anything.
 * Method  tables: each call stands in one with arguments that are good but for one, which is
 *         replaced. In the end everything is counted. hostile_fuzz.c makes calls at random.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "katydid/trace.h"

#include "hostile_handles.h"
#include "store_protocol.h"

enum { FUTEX_WAIT = 0, FUTEX_REQUEUE = 3, FUTEX_CMP_REQUEUE = 4, FUTEX_WAIT_BITSET = 9 };

/* Name and number of a call, for the tables. */
#define NAMED(call) #call, call

/* Marks in arguments: the bad pointer, the bad handle. */
#define P 0x5a5a000000000001
#define H 0x5a5a000000000002

enum { IN = 1, OUT = 2, STRING = 4, NULL_IS_FINE = 8, NOT_FIRST = 16 };
struct pointer_case {
    const char *name;
    long number;
    unsigned long a[6];
    unsigned what, bytes;
};

static struct kd_message message;
static const struct timespec moment = {0, 1000};

/* Where the system's aborts go: none of the calls here should cause one. */
static void aborted(long reason)
{
    printf("not ok - a transaction was aborted: %ld\n", reason);
    _exit(1);
}
static char abort_stack[16384] __attribute__((aligned(16)));
#define ABORTS .entry = (uint64_t)aborted, .stack = (uint64_t)(abort_stack + sizeof abort_stack - 8)

/* A line of a table is tried: its call is not forgotten (none_forgotten). */
static char tried_call[KD_CALL_END];

static long try_call(long number, const unsigned long a[6])
{
    if (number >= 0 && number < KD_CALL_END) tried_call[number] = 1;
    return kd_call6(number, (long)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4], (long)a[5]);
}

/* ---- pointers ---- */

static int pointers_try(const struct pointer_case *c, unsigned long pointer, long wanted)
{
    unsigned long a[6];
    for (int i = 0; i < 6; i++) a[i] = c->a[i] == P ? pointer : c->a[i];
    if (c->number == KD_PORT_RECEIVE || c->number == KD_PORT_REPLY_RECEIVE)
        CALL(KD_PORT_NOTIFY, my_port, 1); /* else it waits for what it cannot take */
    long r = try_call(c->number, a);
    int good = wanted ? r == wanted : is_errno(r);
    if (!good) printf("# %s (%ld) with 0x%lx: %ld\n", c->name, c->number, pointer, r);
    return good;
}

/* Good memory, but at every odd place, and across two pages: done, or refused. All bits are set in what the
 * call reads, so that little is done. */
static int unaligned_try(const struct pointer_case *c)
{
    static char misplaced[1 << 16] __attribute__((aligned(4096)));
    int good = 1;
    for (int by = -7; by < 8; by++) {
        char *at = misplaced + KD_PAGE_BYTES + by;
        unsigned long a[6];
        if (c->number == SYS_munmap && by == 0) continue;
        memset(misplaced, 0xff, sizeof misplaced);
        for (int i = 0; i < 6; i++) a[i] = c->a[i] == P ? (unsigned long)at : c->a[i];
        if (c->number == KD_PORT_REPLY_RECEIVE) CALL(KD_PORT_NOTIFY, my_port, 1); /* it would wait for one */
        long r = kd_call6(c->number, (long)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4], (long)a[5]);
        if (r < 0 && !is_errno(r)) good = 0, printf("# %s at ...%d: %ld\n", c->name, by, r);
        int made[2];
        memcpy(made, at, sizeof made);
        if (r == 0 && (c->number == SYS_pipe || c->number == SYS_pipe2)) close(made[0]), close(made[1]);
    }
    while (read(ends[0], misplaced, sizeof misplaced) > 0) {}
    return good;
}

static void unaligned(const struct pointer_case *cases, int count, const char *what)
{
    int good = 1;
    for (const struct pointer_case *c = cases; c < cases + count; c++) good &= unaligned_try(c);
    tap_ok(good, "%s: pointers that are not aligned, in %d arguments", what, count);
}

static void pointers(const struct pointer_case *cases, int count, const char *what)
{
    int good = 1, tried = 0;
    for (const struct pointer_case *c = cases; c < cases + count; c++) {
        for (int i = 0; i < BAD_POINTERS; i++) {
            if (bad_pointers[i] == 0 && (c->what & NULL_IS_FINE)) continue;
            good &= pointers_try(c, bad_pointers[i], 0);
            tried++;
        }
        unsigned part = c->bytes > 1 ? c->bytes / 2 : 0;
        char *in = c->what & STRING ? writable_end - 8 : writable_end - part;
        good &= pointers_try(c, (unsigned long)in, c->what & (STRING | NOT_FIRST) ? 0 : -EFAULT);
        good &= pointers_try(c, (unsigned long)writable_end, 0);
        if (c->what & OUT) good &= pointers_try(c, (unsigned long)read_only, -EFAULT);
        if (c->what & IN)
            good &= pointers_try(c, (unsigned long)read_only_end - part,
                                 c->what & NOT_FIRST ? 0 : -EFAULT);
        tried += 4;
    }
    tap_ok(good, "%s: %d bad pointers in %d arguments", what, tried, count);
}

#define COUNT(table) (int)(sizeof(table) / sizeof(table)[0])
#define G(...) (unsigned long)(__VA_ARGS__)

static void katydid_pointers(void)
{
    struct kd_supply supply = {.object = my_object, .source = KD_SUPPLY_MEMORY, .rights = 3, .count = 1};
    struct kd_page_io io = {.object = my_object};
    struct kd_diff diff = {0};
    (void)supply, (void)io, (void)diff;
    const struct pointer_case cases[] = {
        {NAMED(KD_PROCESS_CREATE), {P}, IN, sizeof(struct kd_process_create)},
        {NAMED(KD_PROCESS_LIST), {P, 64}, OUT, 64},
        {NAMED(KD_SYSTEM_INFO), {P}, OUT, sizeof(struct kd_system_info)},
        {NAMED(KD_LOOK), {KD_LOOK_LOG, 0, P, 64}, OUT, 64},
        {NAMED(KD_TRACE), {KD_TRACE_READ, 0, P}, IN | OUT, sizeof(struct kd_trace_read)},
        {NAMED(KD_KERNEL_LOG), {P, 100}, IN, 100},
        {NAMED(KD_KERNEL_COMMAND_LINE), {P, 4096}, OUT, 2},
        {NAMED(KD_PORT_CALL), {G(store), P}, IN, sizeof message},
        {NAMED(KD_PORT_CALL_UNTIL), {G(store), P, 1000}, IN, sizeof message},
        {NAMED(KD_PORT_RECEIVE), {G(my_port), P, 0}, IN, sizeof message},
        {NAMED(KD_PORT_REPLY), {1, P}, IN | NOT_FIRST, sizeof message},
        {NAMED(KD_PORT_REPLY_RECEIVE), {1, P, G(my_port), P}, IN, sizeof message},
        {NAMED(KD_PORT_REPLY_RECEIVE), {1, G(&message), G(my_port), P}, IN,
         sizeof message},
        {NAMED(KD_NAME_SET), {P, G(my_port)}, STRING, 0},
        {NAMED(KD_NAME_FIND), {P}, STRING, 0},
        {NAMED(KD_OBJECT_CREATE), {P}, IN, sizeof(struct kd_object_create)},
        {NAMED(KD_OBJECT_SUPPLY), {P}, IN, sizeof(struct kd_supply)},
        {NAMED(KD_OBJECT_INFO), {G(my_object), 0, 8, P}, OUT, 8},
        {NAMED(KD_TXN_BEGIN), {P}, IN, sizeof(struct kd_begin)},
        {NAMED(KD_TXN_COMMIT), {P}, IN, sizeof(struct kd_commit)},
        {NAMED(KD_VIEW_STATS), {P}, OUT, sizeof(struct kd_view_stats)},
        {NAMED(KD_CONTAINER_INFO), {my_base, P}, OUT, sizeof(struct kd_space_info)},
        {NAMED(KD_TXN_DIFF), {P}, IN, sizeof(struct kd_diff)},
        {NAMED(KD_TXN_PUBLISH), {P, 1}, IN, sizeof(struct kd_publish)},
        {NAMED(KD_TXN_UNSPILL), {0, 0, P}, IN | NOT_FIRST, 4096},
        {NAMED(KD_VIEW_LIST), {P, 128}, OUT, sizeof(struct kd_view_info)},
        {NAMED(KD_VIEW_WAIT), {0, P}, IN, 16},
        {NAMED(KD_BLOCK_OPEN), {P, G(room)}, STRING, 0},
        {NAMED(KD_BLOCK_READ), {G(disk), 1 << 20, P, 4096}, OUT, 4096},
        {NAMED(KD_BLOCK_WRITE), {G(disk), 1 << 20, P, 4096}, IN, 4096},
        {NAMED(KD_BLOCK_READ_PAGES), {G(disk), P, 1}, IN, sizeof(struct kd_page_io)},
        {NAMED(KD_BLOCK_WRITE_PAGES), {G(disk), P, 1}, IN, sizeof(struct kd_page_io)},
    };
    CALL(KD_VIEW_ENTER, view);
    pointers(cases, COUNT(cases), "Katydid's calls");
    unaligned(cases, COUNT(cases), "Katydid's calls");
    CALL(KD_VIEW_ENTER, -1);
    CALL(KD_PORT_RECEIVE, my_port, &message, 0); /* the last notice, if it is still there */
}

static void linux_pointers(void)
{
    const unsigned long no = (unsigned long)-100;
    const struct pointer_case cases[] = {
        {"read", SYS_read, {G(file), P, 100}, OUT, 100},
        {"write", SYS_write, {G(file), P, 100}, IN, 100},
        {"pread", SYS_pread64, {G(file), P, 100, 0}, OUT, 100},
        {"pwrite", SYS_pwrite64, {G(file), P, 100, 0}, IN, 100},
        {"readv", SYS_readv, {G(file), P, 1}, IN, 16},
        {"writev", SYS_writev, {G(file), P, 1}, IN, 16},
        {"pipe write", SYS_write, {G(ends[1]), P, 100}, IN, 100},
        {"open", SYS_open, {P, O_RDONLY}, STRING, 0},
        {"openat", SYS_openat, {no, P, O_RDONLY}, STRING, 0},
        {"stat", SYS_stat, {P, G(room)}, STRING, 0},
        {"stat", SYS_stat, {G(here), P}, OUT, 144},
        {"lstat", SYS_lstat, {G(here), P}, OUT, 144},
        {"fstat", SYS_fstat, {G(file), P}, OUT, 144},
        {"newfstatat", SYS_newfstatat, {no, P, G(room), 0}, STRING, 0},
        {"newfstatat", SYS_newfstatat, {no, G(here), P, 0}, OUT, 144},
        {"newfstatat, empty path", SYS_newfstatat, {G(file), P, G(room), 0x1000}, STRING, 0},
        {"rt_sigaction", SYS_rt_sigaction, {1, 0, P, 8}, OUT | NULL_IS_FINE, 32},
        {"rt_sigprocmask", SYS_rt_sigprocmask, {0, 0, P, 8}, OUT | NULL_IS_FINE, 8},
        {"access", SYS_access, {P, 0}, STRING, 0},
        {"faccessat", SYS_faccessat, {no, P, 0}, STRING, 0},
        {"pipe", SYS_pipe, {P}, OUT, 8},
        {"pipe2", SYS_pipe2, {P, 0}, OUT, 8},
        {"nanosleep", SYS_nanosleep, {P, 0}, IN, 16},
        {"clock_nanosleep", SYS_clock_nanosleep, {CLOCK_MONOTONIC, 0, P, 0}, IN, 16},
        {"uname", SYS_uname, {P}, OUT, 390},
        {"getcwd", SYS_getcwd, {P, 100}, OUT, 2},
        {"chdir", SYS_chdir, {P}, STRING, 0},
        {"rename", SYS_rename, {P, G(here)}, STRING, 0},
        {"rename", SYS_rename, {G(here), P}, STRING, 0},
        {"renameat", SYS_renameat, {no, P, no, G(here)}, STRING, 0},
        {"renameat2", SYS_renameat2, {no, G(here), no, P, 0}, STRING, 0},
        {"mkdir", SYS_mkdir, {P, 0}, STRING, 0},
        {"mkdirat", SYS_mkdirat, {no, P, 0}, STRING, 0},
        {"rmdir", SYS_rmdir, {P}, STRING, 0},
        {"unlink", SYS_unlink, {P}, STRING, 0},
        {"unlinkat", SYS_unlinkat, {no, P, 0}, STRING, 0},
        {"readlink", SYS_readlink, {P, G(room), 100}, STRING, 0},
        {"gettimeofday", SYS_gettimeofday, {P, 0}, OUT | NULL_IS_FINE, 16},
        {"time", SYS_time, {P}, OUT | NULL_IS_FINE, 8},
        {"clock_gettime", SYS_clock_gettime, {0, P}, OUT, 16},
        {"clock_getres", SYS_clock_getres, {0, P}, OUT | NULL_IS_FINE, 16},
        {"getrlimit", SYS_getrlimit, {3, P}, OUT | NULL_IS_FINE, 16},
        {"prlimit64", SYS_prlimit64, {0, 3, 0, P}, OUT | NULL_IS_FINE, 16},
        {"prlimit64", SYS_prlimit64, {0, KD_RLIMIT, P, 0}, IN | NULL_IS_FINE, 16},
        {"setrlimit", SYS_setrlimit, {7, P}, IN | NULL_IS_FINE, 16},
        {"sysinfo", SYS_sysinfo, {P}, OUT, 112},
        {"getrusage", SYS_getrusage, {0, P}, OUT | NULL_IS_FINE, 144},
        {"times", SYS_times, {P}, OUT | NULL_IS_FINE, 32},
        {"rt_sigpending", SYS_rt_sigpending, {P, 8}, OUT, 8},
        {"arch_prctl", SYS_arch_prctl, {0x1003, P}, OUT, 8},
        {"futex wait", SYS_futex, {P, FUTEX_WAIT, 0, G(&moment)}, 0, 0},
        {"futex wait, timeout", SYS_futex, {G(room), FUTEX_WAIT, 0, P}, IN | NULL_IS_FINE, 16},
        {"futex requeue", SYS_futex, {P, FUTEX_CMP_REQUEUE, 0, 0, G(room), 0}, 0, 0},
        {"sched_getaffinity", SYS_sched_getaffinity, {0, 8, P}, OUT, 8},
        {"getdents64", SYS_getdents64, {G(folder), P, 1000}, OUT, 8},
        {"getrandom", SYS_getrandom, {P, 16, 0}, OUT, 16},
        {"munmap", SYS_munmap, {P, 4096}, 0, 0},
    };
    /* futexes and munmap: pages that may be read are good enough */
    const struct pointer_case *last = cases + COUNT(cases);
    int good = lseek(file, 0, SEEK_SET) == 0;
    for (const struct pointer_case *c = cases; c < last; c++)
        for (int i = 0; c->what == 0 && i < BAD_POINTERS; i++)
            if (c->number != SYS_munmap || bad_pointers[i] != 0x123456789000)
                good &= pointers_try(c, bad_pointers[i], 0);
    tap_ok(good, "Linux's calls: words and ranges that are nowhere");
    struct pointer_case rest[COUNT(cases)];
    int count = 0;
    for (const struct pointer_case *c = cases; c < last; c++)
        if (c->what) rest[count++] = *c;
    pointers(rest, count, "Linux's calls");
    unaligned(cases, COUNT(cases), "Linux's calls");
    lseek(folder, 0, SEEK_SET);
}

/* Pointers inside of structures. A child that a call started after all ends at once (role), and does not test in its
 * turn. */
static void inner_pointers(const char *self)
{
    int good = 1, i;
    const char *argv[] = {self, "nothing", NULL};
    for (i = 0; i < BAD_POINTERS; i++) {
        void *bad = (void *)bad_pointers[i];
        const char *bad_argv[] = {self, bad, NULL};
        struct kd_process_create p = {.path = bad, .argv = argv, .fds = {-1, -1, -1}};
        good &= is_errno(CALL(KD_PROCESS_CREATE, &p));
        p.path = self;
        p.argv = bad_argv;
        if (bad) good &= CALL(KD_PROCESS_CREATE, &p) == -EFAULT;
        p.argv = bad;
        if (bad) good &= CALL(KD_PROCESS_CREATE, &p) == -EFAULT;
        p.argv = argv;
        p.envp = bad;
        if (bad) good &= CALL(KD_PROCESS_CREATE, &p) == -EFAULT;
    }
    tap_ok(good, "process_create: path, argv, envp");
#define FAULTS(call)                                                                              \
    do {                                                                                          \
        long result = call;                                                                       \
        if (result != -EFAULT) good = 0, printf("# %s, 0x%lx: %ld\n", #call, bad_pointers[i], result); \
    } while (0)
    for (good = 1, i = 0; i < BAD_POINTERS; i++) {
        void *bad = (void *)bad_pointers[i];
        struct kd_message m = {.kind = STORE_STATS, .handle = -1, .data = bad, .data_bytes = 8};
        FAULTS(CALL(KD_PORT_CALL, store, &m));
        m = (struct kd_message){.kind = STORE_STATS, .handle = -1, .buffer = bad,
                                .buffer_bytes = sizeof(struct wire_stats)};
        FAULTS(CALL(KD_PORT_CALL, store, &m));
        struct kd_supply s = {.object = my_object, .source = KD_SUPPLY_MEMORY, .rights = 3, .count = 1,
                              .memory = bad};
        FAULTS(CALL(KD_OBJECT_SUPPLY, &s));
        const unsigned long vector[2] = {bad_pointers[i], 10};
        FAULTS(CALL(SYS_readv, file, vector, 1));
        FAULTS(CALL(SYS_writev, file, vector, 1));
    }
    tap_ok(good, "messages, supplies, vectors");
    CALL(KD_VIEW_ENTER, view);
    for (good = 1, i = 0; i < BAD_POINTERS; i++) {
        struct kd_begin b = {ABORTS};
        struct kd_commit k = {.batch = (void *)bad_pointers[i], .batch_bytes = 64, .port = store};
        long begun = CALL(KD_TXN_BEGIN, &b), result = CALL(KD_TXN_COMMIT, &k); /* and it is over: */
        if (begun || result != -EFAULT || CALL(KD_TXN_ABORT, 1) != -ENOENT)
            good = 0, printf("# batch at 0x%lx: %ld, %ld\n", bad_pointers[i], begun, result);
        b.ticket = 0;
        b.entry = bad_pointers[i];
        if (b.entry < KD_STORE_END) continue;
        good &= CALL(KD_TXN_BEGIN, &b) < 0 || CALL(KD_TXN_ABORT, 1) == 0;
    }
    CALL(KD_VIEW_ENTER, -1);
    tap_ok(good, "batches and entries of transactions");
}

/* ---- handles ---- */

struct handle_case { const char *name; long number; unsigned long a[6]; int type; };
enum { A_PORT, A_OBJECT, A_VIEW, A_PROCESS, A_DISK, TYPES };

static int handle_try(const struct handle_case *c, unsigned long handle)
{
    unsigned long a[6];
    for (int i = 0; i < 6; i++) a[i] = c->a[i] == H ? handle : c->a[i];
    long r = try_call(c->number, a);
    int good = r == -EBADF || r == -EACCES;
    if (!good) printf("# %s with handle 0x%lx: %ld\n", c->name, handle, r);
    return good;
}

static void handles(void)
{
    static const unsigned long forged[] = {~0ul, 200, 255, 256, 1ul << 31, 1ul << 31 | 1, 0x7fffffff,
                                           ~0ul - 100, 0xffff};
    struct kd_supply supply = {.source = KD_SUPPLY_ZERO, .rights = 3, .count = 1};
    const struct handle_case cases[] = {
        {NAMED(KD_HANDLE_CLOSE), {H}, -1},
        {NAMED(KD_HANDLE_COPY), {H, 1}, -1},
        {NAMED(KD_OBJECT_REVOKE), {H}, A_OBJECT},
        {NAMED(KD_PORT_CALL), {H, G(&message)}, A_PORT},
        {NAMED(KD_PORT_RECEIVE), {H, G(&message), 0}, A_PORT},
        {NAMED(KD_PORT_REPLY_RECEIVE), {1, G(&message), H, G(&message)}, A_PORT},
        {NAMED(KD_PORT_CALL_UNTIL), {H, G(&message), 0}, A_PORT},
        {NAMED(KD_PORT_NOTIFY), {H, 1}, A_PORT},
        {NAMED(KD_NAME_SET), {G("hostile"), H}, A_PORT},
        {NAMED(KD_OBJECT_DESTROY), {H}, A_OBJECT},
        {NAMED(KD_SPACE_ATTACH), {G(getpid()), H, 3}, A_OBJECT},
        {NAMED(KD_SPACE_DETACH), {G(getpid()), H}, A_OBJECT},
        {NAMED(KD_OBJECT_FAIL), {H, 0, 1, 5}, A_OBJECT},
        {NAMED(KD_OBJECT_RECALL), {H, 0, 1, 0}, A_OBJECT},
        {NAMED(KD_OBJECT_INFO), {H, 0, 1, G(room)}, A_OBJECT},
        {NAMED(KD_OBJECT_ENCODER), {H, 0}, A_OBJECT},
        {NAMED(KD_OBJECT_CLEANED), {H, 0, 1}, A_OBJECT},
        {NAMED(KD_LOCK_ANSWER), {H, 0, 0, 0}, A_OBJECT},
        {NAMED(KD_OBJECT_PIN), {H, 0, 1, 1}, A_OBJECT},
        {NAMED(KD_CREDIT_GRANT), {H, 1}, A_PORT},
        {NAMED(KD_BLOCK_READ), {H, 0, G(room), 512}, A_DISK},
        {NAMED(KD_BLOCK_WRITE), {H, 0, G(room), 512}, A_DISK},
        {NAMED(KD_BLOCK_FLUSH), {H}, A_DISK},
        {NAMED(KD_BLOCK_READ_PAGES), {H, G(room), 1}, A_DISK},
        {NAMED(KD_BLOCK_WRITE_PAGES), {H, G(room), 1}, A_DISK},
        {NAMED(KD_VIEW_ENTER), {H}, A_VIEW},
    };
    const int of_type[TYPES] = {my_port, my_object, view, process, disk};
    int good = 1, tried = 0;
    (void)supply;
    for (const struct handle_case *c = cases; c < cases + COUNT(cases); c++) {
        for (int i = 0; i < COUNT(forged); i++)
            if (c->number != KD_VIEW_ENTER || (int)forged[i] >= 0)
                good &= handle_try(c, forged[i]), tried++;
        for (int t = 0; c->type >= 0 && t < TYPES; t++)
            if (t != c->type) good &= handle_try(c, (unsigned long)of_type[t]), tried++;
    }
    tap_ok(good, "%d calls, %d forged handles and handles of another type", COUNT(cases), tried);

    const struct handle_case weak[] = {
        {NAMED(KD_PORT_RECEIVE), {H, G(&message), 0}, A_PORT},
        {NAMED(KD_NAME_SET), {G("hostile"), H}, A_PORT},
        {NAMED(KD_CREDIT_GRANT), {H, 1}, A_PORT},
        {NAMED(KD_HANDLE_COPY), {H, KD_RIGHT_RECEIVE}, A_PORT},
        {NAMED(KD_HANDLE_COPY), {H, ~0ul}, A_PORT},
    };
    for (good = 1, tried = 0; tried < COUNT(weak); tried++)
        good &= handle_try(&weak[tried], (unsigned long)copy);
    struct kd_object_create o = {.port = copy, .commit_port = copy, .pages = 1};
    good &= CALL(KD_OBJECT_CREATE, &o) == -EACCES;
    o.port = my_port;
    good &= CALL(KD_OBJECT_CREATE, &o) == -EACCES;
    struct kd_supply s = {.object = copy, .source = KD_SUPPLY_ZERO, .rights = 3, .count = 1};
    good &= CALL(KD_OBJECT_SUPPLY, &s) == -EBADF;
    good &= CALL(KD_HANDLE_COPY, view, 1) == -EPERM && CALL(KD_HANDLE_COPY, disk, 1) == -EPERM;
    tap_ok(good, "handles without the right");
}

/* ---- lengths, counts, flags, enums ---- */

/* wanted: 0 for any errno. */
struct value_case { const char *name; long number; unsigned long a[6]; long wanted; };

static void values_try(const struct value_case *cases, int count, const char *what)
{
    int good = 1;
    for (const struct value_case *c = cases; c < cases + count; c++) {
        long r = try_call(c->number, c->a);
        int fits = c->wanted ? r == c->wanted : is_errno(r);
        if (!fits)
            printf("# %s(%lx, %lx, %lx, %lx): %ld, wanted %ld\n", c->name, c->a[0], c->a[1],
                   c->a[2], c->a[3], r, c->wanted);
        good &= fits;
    }
    tap_ok(good, "%s: %d bad values", what, count);
}

static void katydid_values(void)
{
    const unsigned long huge = 1ul << 63, big = 1ul << 31, all = ~0ul, o = G(my_object), r = G(room);
    const struct value_case cases[] = {
        {NAMED(KD_HANDLE_COPY), {G(my_port), 0}, -EINVAL},
        {NAMED(KD_PROCESS_WAIT), {all, 0, 2}, -EINVAL},
        {NAMED(KD_PROCESS_WAIT), {all, 0, all}, -EINVAL},
        {NAMED(KD_PROCESS_WAIT), {0, 0, 0}, -ECHILD},
        {NAMED(KD_PROCESS_WAIT), {big, 0, 0}, -ECHILD},
        {NAMED(KD_PROCESS_KILL), {0, 1}, -ESRCH},
        {NAMED(KD_PROCESS_KILL), {all, 1}, -ESRCH},
        {NAMED(KD_PROCESS_KILL), {big, 1}, -ESRCH},
        {NAMED(KD_PROCESS_KILL), {1, 1}, -EPERM},
        {"kill", SYS_kill, {1, 9}, -EPERM},
        {"tgkill", SYS_tgkill, {1, 1, 9}, -EPERM},
        {"tkill", SYS_tkill, {1, 9}, -ESRCH},
        {NAMED(KD_HALT), {0}, -EPERM},
        {NAMED(KD_KERNEL_COMMAND_LINE), {r, 0}, -ERANGE},
        {NAMED(KD_PORT_REPLY), {0, G(&message)}, -ESRCH},
        {NAMED(KD_PORT_REPLY), {all, G(&message)}, -ESRCH},
        {NAMED(KD_PORT_REPLY), {huge | 1, G(&message)}, -ESRCH},
        {NAMED(KD_PORT_RECEIVE), {G(my_port), G(&message), 0}, -EAGAIN},
        {NAMED(KD_NAME_SET), {G(""), G(my_port)}, -EINVAL},
        {NAMED(KD_NAME_SET), {G("store"), G(my_port)}, -EPERM},
        {NAMED(KD_NAME_FIND), {G("")}, -EINVAL},
        {NAMED(KD_NAME_FIND), {G("no-such")}, -ENOENT},
        {NAMED(KD_NAME_FIND), {G(read_only)}, 0},
        {NAMED(KD_SPACE_ATTACH), {0, o, 3}, -ESRCH},
        {NAMED(KD_SPACE_ATTACH), {all, o, 3}, -ESRCH},
        {NAMED(KD_SPACE_ATTACH), {G(getpid()), o, 0}, -EINVAL},
        {NAMED(KD_SPACE_ATTACH), {G(getpid()), o, 4}, -EINVAL},
        {NAMED(KD_SPACE_ATTACH), {G(getpid()), o, all}, -EINVAL},
        {NAMED(KD_SPACE_DETACH), {1, o}, -ENOENT},
        {NAMED(KD_OBJECT_FAIL), {o, 0, 0, 5}, -EINVAL},
        {NAMED(KD_OBJECT_FAIL), {o, 8, 1, 5}, -EINVAL},
        {NAMED(KD_OBJECT_FAIL), {o, 1, all, 5}, -EINVAL},
        {NAMED(KD_OBJECT_FAIL), {o, all, 2, 5}, -EINVAL},
        {NAMED(KD_OBJECT_FAIL), {o, 0, 1, 0}, -EINVAL},
        {NAMED(KD_OBJECT_FAIL), {o, 0, 1, 4096}, -EINVAL},
        {NAMED(KD_OBJECT_FAIL), {o, 0, 1, big}, -EINVAL},
        {NAMED(KD_OBJECT_RECALL), {o, 0, 9, 0}, -EINVAL},
        {NAMED(KD_OBJECT_RECALL), {o, huge, huge, 0}, -EINVAL},
        {NAMED(KD_OBJECT_INFO), {o, 0, huge, r}, -EINVAL},
        {NAMED(KD_OBJECT_PIN), {o, 7, 2, 1}, -EINVAL},
        {NAMED(KD_OBJECT_CLEANED), {o, 8, 1}, -EINVAL},
        {NAMED(KD_LOCK_ANSWER), {o, 0, 128, 0}, -EINVAL},
        {NAMED(KD_LOCK_ANSWER), {o, 0, 0, 1}, -EINVAL},
        {NAMED(KD_LOCK_ANSWER), {o, 0, 0, huge}, -EINVAL},
        {NAMED(KD_LOCK_ANSWER), {o, all, 0, 0}, -ESRCH},
        {NAMED(KD_LOCK_ANSWER), {o, 0, 127, 0}, -ESRCH},
        {NAMED(KD_TXN_BEGIN), {r}, -ENOENT},
        {NAMED(KD_TXN_COMMIT), {r}, -ENOENT},
        {NAMED(KD_TXN_ABORT), {all}, -ENOENT},
        {NAMED(KD_TXN_HINT), {my_base, 8, 1}, -ENOENT},
        {NAMED(KD_TXN_LOCK), {my_base, 0}, -ENOENT},
        {NAMED(KD_TXN_CHANGES), {0, r}, -ENOENT},
        {NAMED(KD_CONTAINER_INFO), {0, r}, -ENOENT},
        {NAMED(KD_CONTAINER_INFO), {all, r}, -ENOENT},
        {NAMED(KD_TXN_PUBLISH), {r, 0}, -EINVAL},
        {NAMED(KD_TXN_PUBLISH), {r, 129}, -EINVAL},
        {NAMED(KD_TXN_PUBLISH), {r, all}, -EINVAL},
        {NAMED(KD_TXN_PUBLISH), {r, 1}, 0},
        {NAMED(KD_SNAPSHOT_SHARE), {r}, -ENOENT},
        {NAMED(KD_CONTAINER_POLICY), {0, KD_POLICY_CLUSTER, 1}, -ENOENT},
        {NAMED(KD_CONTAINER_POLICY), {all, KD_POLICY_CLUSTER, 1}, -ENOENT},
        {NAMED(KD_CONTAINER_POLICY), {my_base, 0, 1}, -EINVAL},
        {NAMED(KD_CONTAINER_POLICY), {my_base, all, 1}, -EINVAL},
        {NAMED(KD_CONTAINER_POLICY), {my_base, KD_POLICY_CLUSTER, 3}, -EINVAL},
        {NAMED(KD_CONTAINER_POLICY), {my_base, KD_POLICY_CLUSTER, 128}, -EINVAL},
        {NAMED(KD_CONTAINER_POLICY), {my_base, KD_POLICY_CLUSTER, huge}, -EINVAL},
        {NAMED(KD_CONTAINER_POLICY), {my_base, KD_POLICY_ESCALATE, all}, -EINVAL},
        {NAMED(KD_OBJECT_ENCODER), {o, KD_ENCODER_ADAPTIVE + 1}, -EINVAL},
        {NAMED(KD_OBJECT_ENCODER), {o, all}, -EINVAL},
        {NAMED(KD_TXN_SPILLED), {0, 0, 1, 1}, -ESRCH},
        {NAMED(KD_TXN_SPILLED), {128, 0, all, 1}, -ESRCH},
        {NAMED(KD_TXN_SPILLED), {all, all, all, 1}, -ESRCH},
        {NAMED(KD_TXN_UNSPILL), {0, 0, r}, -ESRCH},
        {NAMED(KD_TXN_UNSPILL), {all, all, r}, -ESRCH},
        {NAMED(KD_TXN_UNSPILL), {0, 0, my_base}, -EINVAL},
        {NAMED(KD_TXN_REFUSE), {0, 0, 5}, -ESRCH},
        {NAMED(KD_TXN_REFUSE), {all, 0, 5}, -ESRCH},
        {NAMED(KD_TXN_REFUSE), {128, 0, 5}, -ESRCH},
        {NAMED(KD_VIEW_ABORT), {128, 5}, -EINVAL},
        {NAMED(KD_VIEW_ABORT), {all, 5}, -EINVAL},
        {NAMED(KD_VIEW_ABORT), {0, 0}, -EINVAL},
        {NAMED(KD_VIEW_ABORT), {0, 4096}, -EINVAL},
        {NAMED(KD_VIEW_ABORT), {127, 5}, 0},
        {NAMED(KD_VIEW_WAIT), {128, r}, -EINVAL},
        {NAMED(KD_VIEW_WAIT), {127, r}, -ESRCH},
        {NAMED(KD_CREDIT_GRANT), {G(my_port), all}, -EINVAL},
        {NAMED(KD_CREDIT_GRANT), {G(my_port), huge}, -EINVAL},
        {NAMED(KD_BLOCK_OPEN), {G("store"), r}, -EBUSY},
        {NAMED(KD_BLOCK_OPEN), {G("export"), r}, -EBUSY},
        {NAMED(KD_BLOCK_OPEN), {G("nothing"), r}, -ENODEV},
        {NAMED(KD_BLOCK_OPEN), {G(""), r}, -ENODEV},
        {NAMED(KD_BLOCK_READ), {G(disk), 1, r, 512}, -EINVAL},
        {NAMED(KD_BLOCK_READ), {G(disk), 0, r, 511}, -EINVAL},
        {NAMED(KD_BLOCK_READ), {G(disk), huge, r, 512}, -EINVAL},
        {NAMED(KD_BLOCK_READ), {G(disk), 0, r, huge}, -EINVAL},
        {NAMED(KD_BLOCK_READ), {G(disk), all - 511, r, 512}, -EINVAL},
        {NAMED(KD_BLOCK_READ), {G(disk), 0, r, 128ul << 20}, -EFAULT},
        {NAMED(KD_BLOCK_READ), {G(disk), 0, my_base, 4096}, -EINVAL},
        {NAMED(KD_BLOCK_WRITE), {G(disk), 512, r, all - 511}, -EINVAL},
        {NAMED(KD_BLOCK_WRITE), {G(disk), 0, r, all - 511}, -EINVAL},
        {NAMED(KD_BLOCK_READ_PAGES), {G(disk), r, 257}, -EINVAL},
        {NAMED(KD_BLOCK_READ_PAGES), {G(disk), r, all}, -EINVAL},
        {NAMED(KD_BLOCK_WRITE_PAGES), {G(disk), r, huge}, -EINVAL},
        {"no call", 1003, {1, 2, 3}, -ENOSYS}, {"no call", 1009, {1, 2, 3}, -ENOSYS},
        {"no call", 1039, {1, 2, 3}, -ENOSYS}, {"no call", 1106, {1, 2, 3}, -ENOSYS},
        {"no call", 999, {1, 2, 3}, -ENOSYS}, {"no call", 320, {1, 2, 3}, -ENOSYS},
        {"no call", 100000, {1, 2, 3}, -ENOSYS}, {"no call", -1, {1, 2, 3}, -ENOSYS},
        {"no call", (long)(1ul << 63), {1}, -ENOSYS}, {"no call", 0x100000001, {1}, -ENOSYS},
    };
    memset(room, 0, sizeof room);
    memset(&message, 0, sizeof message);
    values_try(cases, COUNT(cases), "Katydid's calls");
}

/* Structures with one bad field: made whole, spoilt, tried; `fits` says what the result is to be. */
#define TRY(what, whole, call, fits, ...)                                                           \
    do {                                                                                          \
        whole;                                                                                    \
        __VA_ARGS__;                                                                              \
        long result = call;                                                                       \
        good &= (fits) || (printf("# " what " %s: %ld\n", #__VA_ARGS__, result), 0);              \
    } while (0)

#define OBJECT(...) TRY("object", struct kd_object_create c = OBJECT_WHOLE, CALL(KD_OBJECT_CREATE, &c), \
                        is_errno(result), __VA_ARGS__)
#define OBJECT_WHOLE {.port = my_port, .commit_port = my_port, .pages = 1}
static void object_structures(void)
{
    int good = 1;
    OBJECT(c.flags = 16);
    OBJECT(c.flags = ~0u);
    OBJECT(c.pages = 0);
    OBJECT(c.pages = ~0ull);
    OBJECT(c.pages = 1ull << 63);
    OBJECT(c.pages = 1ull << 34, c.base = 0);
    OBJECT(c.base = 4096);
    OBJECT(c.base = KD_STORE_BASE + 1);
    OBJECT(c.base = KD_STORE_END);
    OBJECT(c.base = KD_STORE_END - 4096, c.pages = 2);
    OBJECT(c.base = 0xffffffff80000000);
    OBJECT(c.base = ~0ull - 4095);
    OBJECT(c.port = -1);
    OBJECT(c.commit_port = 256);
    OBJECT(c.port = my_object);
    tap_ok(good, "object_create");
}

#define SUPPLY(...) TRY("supply", struct kd_supply s = SUPPLY_WHOLE, CALL(KD_OBJECT_SUPPLY, &s), is_errno(result), \
                        __VA_ARGS__)
#define SUPPLY_WHOLE {.object = my_object, .rights = 1, .count = 1}
static void supply_structures(void)
{
    int good = 1;
    SUPPLY(s.object = -1);
    SUPPLY(s.object = my_port);
    SUPPLY(s.source = 3);
    SUPPLY(s.source = ~0u);
    SUPPLY(s.source = KD_SUPPLY_READ);
    SUPPLY(s.rights = 0);
    SUPPLY(s.rights = 2);
    SUPPLY(s.count = 0);
    SUPPLY(s.count = 9);
    SUPPLY(s.count = ~0ull, s.page = 1);
    SUPPLY(s.page = 8);
    SUPPLY(s.page = ~0ull, s.count = 2);
    tap_ok(good, "object_supply");
}

#define CREATE(...) TRY("process", struct kd_process_create c = CREATE_WHOLE, CALL(KD_PROCESS_CREATE, &c), \
                        is_errno(result), __VA_ARGS__)
#define CREATE_WHOLE {.path = self, .argv = argv, .fds = {-1, -1, -1}}
static void process_structures(const char *self)
{
    const char *argv[] = {self, "nothing", NULL};
    int good = 1;
    CREATE(c.flags = 2);
    CREATE(c.flags = ~0u);
    CREATE(c.handle_count = 9);
    CREATE(c.handle_count = ~0u);
    CREATE(c.handle_count = 1, c.handles[0] = -1);
    CREATE(c.handle_count = 1, c.handles[0] = 256);
    CREATE(c.handle_count = 1, c.handles[0] = view);
    CREATE(c.handle_count = 1, c.handles[0] = disk);
    CREATE(c.handle_count = 2, c.handles[0] = my_port, c.handles[1] = 200);
    CREATE(c.fds[1] = -2);
    CREATE(c.fds[2] = 64);
    CREATE(c.fds[0] = 63);
    CREATE(c.path = "");
    CREATE(c.path = "/");
    CREATE(c.path = "/tmp/no-such");
    static char *many[2000];
    for (int i = 0; i < 1999; i++) many[i] = "x";
    CREATE(c.argv = (const char *const *)many);
    static char text[70000];
    memset(text, 'x', sizeof text - 1);
    CREATE(c.path = text);
    CREATE(many[0] = text, many[2] = NULL, c.argv = (const char *const *)many);
    tap_ok(good, "process_create");
}

#define SEND(wanted, ...) TRY("call", struct kd_message m = SEND_WHOLE, CALL(KD_PORT_CALL, store, &m), \
                              result == (wanted), __VA_ARGS__)
#define SEND_WHOLE {.kind = STORE_HELLO, .handle = -1}
static void message_structures(void)
{
    int good = 1;
    SEND(-EPROTONOSUPPORT, m.kind = STORE_HELLO);
    SEND(-EINVAL, m.kind = 0x80000001);
    SEND(-EINVAL, m.kind = ~0u);
    SEND(-E2BIG, m.data = room, m.data_bytes = KD_DATA_MAX + 1);
    SEND(-E2BIG, m.data = room, m.data_bytes = ~0ull);
    SEND(-E2BIG, m.data = room, m.data_bytes = 1ull << 63);
    SEND(-EMSGSIZE, m.data = room, m.data_bytes = 4096);
    SEND(-EMSGSIZE, m.kind = STORE_STATS, m.buffer = room, m.buffer_bytes = 8);
    SEND(-EPROTONOSUPPORT, m.handle = 255, m.handle_rights = 4);
    SEND(-EPROTONOSUPPORT, m.handle = view, m.handle_rights = ~0u);
    SEND(-EPROTONOSUPPORT, m.handle = copy, m.handle_rights = KD_RIGHT_RECEIVE);
    tap_ok(good, "messages");
}

#define BEGIN(wanted, ...) TRY("begin", struct kd_begin b = {ABORTS}, CALL(KD_TXN_BEGIN, &b), result == (wanted), \
                               __VA_ARGS__)
static int begin_structures(void)
{
    int good = 1;
    BEGIN(-EINVAL, b.mode = 4);
    BEGIN(-EINVAL, b.mode = ~0u);
    BEGIN(-ENOENT, b.mode = KD_CONTAINER_LOCK; b.locked = 4096);
    BEGIN(-EINVAL, b.mode = KD_SERIALISABLE | KD_LOCKED_SHARED);
    BEGIN(-EINVAL, b.ticket = 1ull << 62);
    BEGIN(-EINVAL, b.ticket = ~0ull);
    BEGIN(0, b.mode = KD_SERIALISABLE);
    BEGIN(-EALREADY, b.mode = KD_SERIALISABLE);
    good &= CALL(KD_TXN_HINT, my_base, 0, 1) == -EINVAL && CALL(KD_TXN_HINT, my_base, 8, 0) == -EINVAL;
    good &= CALL(KD_TXN_HINT, my_base, 8, 3) == -EINVAL && CALL(KD_TXN_HINT, my_base, ~0ul, 1) == -EINVAL;
    good &= is_errno(CALL(KD_TXN_HINT, 4096, 1ul << 40, 2));
    good &= is_errno(CALL(KD_TXN_HINT, 0x3f0000000000, 1ul << 40, 2));
    return good;
}

/* In a transaction that runs. */
static int commit_structures(void)
{
    int good = 1;
    struct kd_commit k = {.batch = room, .batch_bytes = KD_DATA_MAX + 1, .port = store};
    good &= CALL(KD_TXN_COMMIT, &k) == -E2BIG;
    BEGIN(0, b.mode = KD_SERIALISABLE);
    k = (struct kd_commit){.batch = room, .batch_bytes = 64, .port = 255};
    good &= CALL(KD_TXN_COMMIT, &k) == -EBADF;
    BEGIN(0, b.mode = KD_SERIALISABLE);
    k = (struct kd_commit){.batch = room, .batch_bytes = 64, .port = copy};
    good &= CALL(KD_TXN_COMMIT, &k) == -EINVAL; /* no manager of transactions */
    int gone = (int)CALL(KD_PORT_CREATE, 0);
    k.port = (int)CALL(KD_HANDLE_COPY, gone, KD_RIGHT_CALL);
    CALL(KD_HANDLE_CLOSE, gone);
    BEGIN(0, b.mode = KD_SERIALISABLE);
    good &= CALL(KD_TXN_COMMIT, &k) == -EOWNERDEAD; /* a manager that is no more */
    CALL(KD_HANDLE_CLOSE, k.port);
    return good;
}

static void transaction_structures(void)
{
    CALL(KD_VIEW_ENTER, view);
    int good = begin_structures() & commit_structures();
    CALL(KD_VIEW_ENTER, -1);
    tap_ok(good, "transactions");
}

static void linux_values(void)
{
    const unsigned long huge = 1ul << 63, all = ~0ul, r = G(room), f = G(file), big = 1ul << 47;
    const unsigned long vectors[2][4] = {{r, 8, r, all}, {r, 8, r, big}}; /* the second part is bad */
    const struct value_case cases[] = {
        {"read", SYS_read, {all, r, 8}, -EBADF}, {"read", SYS_read, {64, r, 8}, -EBADF},
        {"write", SYS_write, {1ul << 31, r, 8}, -EBADF},
        {"read", SYS_read, {G(folder), r, 8}, -EISDIR},
        {"write", SYS_write, {f, all - 99, all}, -EFAULT}, {"write", SYS_write, {f, G(writable_end), huge}, -EFAULT},
        {"read", SYS_read, {f, r, all}, -EFAULT}, {"read", SYS_read, {f, r, huge}, -EFAULT},
        {"read", SYS_read, {f, r, big}, -EFAULT}, {"write", SYS_write, {f, r, huge}, -EFAULT},
        {"pread", SYS_pread64, {f, r, all, 0}, -EFAULT}, {"pwrite", SYS_pwrite64, {f, r, huge, 0}, -EFAULT},
        {"writev", SYS_writev, {f, G(vectors[0]), 2}, -EINVAL}, {"writev", SYS_writev, {f, G(vectors[1]), 2}, -EFAULT},
        {"readv", SYS_readv, {f, G(vectors[0]), 2}, -EINVAL},
        {"pread", SYS_pread64, {f, r, 8, all}, -EINVAL},
        {"pwrite", SYS_pwrite64, {f, r, 8, huge}, -EINVAL},
        {"pwrite", SYS_pwrite64, {f, r, 8, huge - 1}, -EFBIG},
        {"pwrite", SYS_pwrite64, {f, r, 8, 1ul << 40}, -EFBIG},
        {"readv", SYS_readv, {f, r, all}, -EINVAL}, {"writev", SYS_writev, {f, r, 1025}, -EINVAL},
        {"lseek", SYS_lseek, {f, all, 0}, -EINVAL}, {"lseek", SYS_lseek, {f, huge - 1, 1}, 0},
        {"lseek", SYS_lseek, {f, 0, 3}, -EINVAL}, {"lseek", SYS_lseek, {f, 0, all}, -EINVAL},
        {"lseek", SYS_lseek, {G(ends[0]), 0, 0}, -ESPIPE},
        {"ftruncate", SYS_ftruncate, {f, all}, -EINVAL},
        {"ftruncate", SYS_ftruncate, {f, 1ul << 50}, -EFBIG},
        {"ftruncate", SYS_ftruncate, {G(folder), 0}, -EINVAL},
        {"close", SYS_close, {all}, -EBADF}, {"close", SYS_close, {63}, -EBADF},
        {"fstat", SYS_fstat, {63, r}, -EBADF}, {"dup", SYS_dup, {63}, -EBADF},
        {"dup2", SYS_dup2, {f, 64}, -EBADF}, {"dup2", SYS_dup2, {f, all}, -EBADF},
        {"dup3", SYS_dup3, {f, f, 0}, -EINVAL}, {"dup3", SYS_dup3, {f, 40, 1}, -EINVAL},
        {"fcntl", SYS_fcntl, {f, 0, 64}, 0}, {"fcntl", SYS_fcntl, {f, 0, all}, 0},
        {"fcntl", SYS_fcntl, {f, 999, 0}, -EINVAL}, {"fcntl", SYS_fcntl, {63, 1, 0}, -EBADF},
        {"ioctl", SYS_ioctl, {f, 0x5401, 0}, -ENOTTY}, {"ioctl", SYS_ioctl, {63, 1, 0}, -EBADF},
        {"fsync", SYS_fsync, {63}, -EBADF}, {"getdents64", SYS_getdents64, {f, r, 99}, -ENOTDIR},
        {"getdents64", SYS_getdents64, {G(folder), r, 1}, -EINVAL},
        {"open", SYS_open, {G(here), 3}, -EINVAL}, {"open", SYS_open, {G(""), 0}, -ENOENT},
        {"open", SYS_open, {G(here), O_CREAT | O_EXCL | O_RDWR}, -EEXIST},
        {"open", SYS_open, {G("/tmp"), O_WRONLY}, -EISDIR},
        {"open", SYS_open, {G("/bin/sh"), O_RDWR}, -EROFS},
        {"open", SYS_open, {G("/tmp/hostile/x"), O_RDONLY}, -ENOTDIR},
        {"openat", SYS_openat, {63, G("x"), 0}, -EBADF}, {"openat", SYS_openat, {f, G("x"), 0}, 0},
        {"mkdir", SYS_mkdir, {G("/tmp/..")}, 0}, {"mkdir", SYS_mkdir, {G("/")}, 0},
        {"mkdir", SYS_mkdir, {G("/bin/x")}, -EROFS}, {"rmdir", SYS_rmdir, {G("/tmp")}, 0},
        {"rmdir", SYS_rmdir, {G("/")}, 0}, {"unlink", SYS_unlink, {G("/tmp")}, 0},
        {"unlink", SYS_unlink, {G("/bin/sh")}, -EROFS}, {"unlink", SYS_unlink, {G("/")}, 0},
        {"rename", SYS_rename, {G("/tmp"), G("/tmp/a")}, 0},
        {"rename", SYS_rename, {G(here), G("/bin/x")}, -EROFS},
        {"chdir", SYS_chdir, {G(here)}, -ENOTDIR}, {"fchdir", SYS_fchdir, {f}, -ENOTDIR},
        {"fchdir", SYS_fchdir, {63}, -EBADF}, {"getcwd", SYS_getcwd, {r, 0}, -ERANGE},
        {"getcwd", SYS_getcwd, {r, 1}, -ERANGE},
        {"mmap", SYS_mmap, {0, 0, 3, 0x22, all, 0}, -EINVAL},
        {"mmap", SYS_mmap, {0, all, 3, 0x22, all, 0}, -ENOMEM},
        {"mmap", SYS_mmap, {0, huge, 3, 0x22, all, 0}, -ENOMEM},
        {"mmap", SYS_mmap, {0, big, 3, 0x22, all, 0}, -ENOMEM},
        {"mmap", SYS_mmap, {0, 4096, 7, 0x22, all, 0}, -EACCES},
        {"mmap", SYS_mmap, {1, 4096, 3, 0x32, all, 0}, -EINVAL},
        {"mmap", SYS_mmap, {0, 4096, 3, 0x32, all, 0}, 0},
        {"mmap", SYS_mmap, {KD_STORE_BASE, 4096, 3, 0x32, all, 0}, -ENOMEM},
        {"mmap", SYS_mmap, {0xffffffff80000000, 4096, 3, 0x32, all, 0}, -ENOMEM},
        {"mmap", SYS_mmap, {0x7fffe00000, huge, 3, 0x32, all, 0}, -ENOMEM},
        {"mmap", SYS_mmap, {0, 4096, 3, 2, 63, 0}, -EBADF},
        {"mmap", SYS_mmap, {0, 4096, 3, 2, f, 1}, -EINVAL},
        {"mmap", SYS_mmap, {0, 4096, 3, 1, f, 0}, -ENODEV},
        {"mmap", SYS_mmap, {0, 4096, 1, 2, G(folder), 0}, -ENODEV},
        {"munmap", SYS_munmap, {r + 1, 4096}, -EINVAL}, {"munmap", SYS_munmap, {r, 0}, -EINVAL},
        {"munmap", SYS_munmap, {r, all}, -EINVAL}, {"munmap", SYS_munmap, {r, huge}, -EINVAL},
        {"mprotect", SYS_mprotect, {r, 4096, 7}, -EACCES},
        {"mprotect", SYS_mprotect, {r, 4096, 8}, -EINVAL},
        {"mprotect", SYS_mprotect, {r + 8, 4096, 3}, -EINVAL},
        {"mprotect", SYS_mprotect, {r, all, 3}, 0}, {"mprotect", SYS_mprotect, {r, big, 3}, 0},
        {"mprotect", SYS_mprotect, {KD_STORE_BASE, 4096, 3}, 0},
        {"mremap", SYS_mremap, {r, all, 4096, 0}, -EINVAL},
        {"mremap", SYS_mremap, {r, 4096, huge, 1}, -EINVAL},
        {"mremap", SYS_mremap, {r, 4096, 8192, 6}, -EINVAL},
        {"mremap", SYS_mremap, {G(writable_end), 4096, 8192, 0}, -EFAULT},
        {"madvise", SYS_madvise, {r + 1, 4096, 4}, -EINVAL},
        {"madvise", SYS_madvise, {r, all, 4}, -EINVAL},
        {"madvise", SYS_madvise, {KD_STORE_BASE, 4096, 4}, -EINVAL},
        {"clone", SYS_clone, {0x111, r}, -ENOSYS}, {"clone", SYS_clone, {0x10011, r}, -ENOSYS},
        {"clone", SYS_clone, {0x10d00, 0}, -ENOSYS}, {"clone", SYS_clone, {~0x100ul, r}, -ENOSYS},
        {"clone", SYS_clone, {0x110d00, r, 8}, -EFAULT},
        {"clone", SYS_clone, {0x1010d00, r, 0, 0xffffffff80000000}, -EFAULT},
        {"arch_prctl", SYS_arch_prctl, {0x1002, huge}, -EPERM},
        {"arch_prctl", SYS_arch_prctl, {0x1002, 0xffffffff80000000}, -EPERM},
        {"arch_prctl", SYS_arch_prctl, {0x1001, r}, -EINVAL},
        {"rt_sigaction", SYS_rt_sigaction, {0, r, 0}, -EINVAL},
        {"rt_sigaction", SYS_rt_sigaction, {65, r, 0}, -EINVAL},
        {"kill", SYS_kill, {G(getpid()), 65}, -EINVAL}, {"kill", SYS_kill, {all, 9}, -EPERM},
        {"kill", SYS_kill, {G(getpid()), all}, -EINVAL},
        {"tkill", SYS_tkill, {all, 9}, -EINVAL}, {"tkill", SYS_tkill, {G(getpid()), 99}, -EINVAL},
        {"nanosleep", SYS_nanosleep, {G(&(struct timespec){-1, 0})}, -EINVAL},
        {"nanosleep", SYS_nanosleep, {G(&(struct timespec){0, 1000000000})}, -EINVAL},
        {"nanosleep", SYS_nanosleep, {G(&(struct timespec){0, -1})}, -EINVAL},
        {"clock_gettime", SYS_clock_gettime, {99, r}, -EINVAL},
        {"clock_gettime", SYS_clock_gettime, {all, r}, -EINVAL},
        {"clock_nanosleep", SYS_clock_nanosleep, {99, 0, G(&moment)}, -EINVAL},
        {"getrlimit", SYS_getrlimit, {16, r}, -EINVAL}, {"getrlimit", SYS_getrlimit, {all, r}, -EINVAL},
        {"prlimit64", SYS_prlimit64, {1, 3, 0, r}, -EPERM},
        {"prlimit64", SYS_prlimit64, {0, 3, r, 0}, -EPERM}, {"prlimit64", SYS_prlimit64, {all, 7, 0, r}, -ESRCH},
        {"prlimit64", SYS_prlimit64, {0, KD_RLIMIT + KD_LIMITS, 0, r}, -EINVAL},
        {"prlimit64", SYS_prlimit64, {0, KD_RLIMIT - 1, 0, r}, -EINVAL},
        {NAMED(KD_OBJECT_ADVISE), {G(my_object), 0, 1, 5}, -EINVAL},
        {NAMED(KD_OBJECT_ADVISE), {G(my_object), 0, huge, KD_ADVISE_DONT_NEED}, -EINVAL},
        {NAMED(KD_OBJECT_ADVISE), {G(my_port), 0, 1, 4}, -EBADF},
        {"sched_getaffinity", SYS_sched_getaffinity, {0, 7, r}, -EINVAL},
        {"futex", SYS_futex, {r + 1, FUTEX_WAIT, 0, G(&moment)}, -EINVAL},
        {"futex", SYS_futex, {r, 77, 0, 0}, -ENOSYS},
        {"futex", SYS_futex, {r, FUTEX_WAIT_BITSET, 0, G(&moment), 0, 0}, -EINVAL},
        {"futex", SYS_futex, {r, FUTEX_REQUEUE, 0, 0, 3}, -EINVAL},
        {"futex", SYS_futex, {my_base, FUTEX_WAIT, 0, G(&moment)}, -EFAULT},
        {"pipe2", SYS_pipe2, {r, all}, -EINVAL},
        {"execve", SYS_execve, {G("/none"), 0, 0}, -ENOENT}, {"execve", SYS_execve, {1, 0, 0}, -EFAULT},
        {"execve", SYS_execve, {G("/bin/sh"), 1, 0}, -EFAULT},
        {"execve", SYS_execve, {G("/bin/sh"), 0, 1}, -EFAULT},
        {"execve", SYS_execve, {G("/etc"), 0, 0}, -EACCES},
        {"wait4", SYS_wait4, {all, 0, 0, 0}, -ECHILD}, {"wait4", SYS_wait4, {all, 0, 16, 0}, -EINVAL},
        {"rt_sigsuspend", SYS_rt_sigsuspend, {1, 8}, -EFAULT},
        {"rt_sigsuspend", SYS_rt_sigsuspend, {r, 9}, -EINVAL},
        {"rt_sigaction", SYS_rt_sigaction, {SIGUSR1, 1, 0, 8}, -EFAULT},
        {"rt_sigaction", SYS_rt_sigaction, {SIGKILL, r, 0, 8}, -EINVAL},
        {"rt_sigaction", SYS_rt_sigaction, {65, 0, 0, 8}, -EINVAL},
        {"kill", SYS_kill, {1 << 30, 9}, -ESRCH}, {"kill", SYS_kill, {1, 9}, -EPERM},
        {"socket", SYS_socket, {1, 1, 0}, -ENOSYS}, {"iopl", SYS_iopl, {3}, -ENOSYS},
        {"modify_ldt", SYS_modify_ldt, {1, r, 16}, -ENOSYS}, {"reboot", SYS_reboot, {1, 2, 3}, -ENOSYS},
    };
    memset(room, 0, sizeof room);
    values_try(cases, COUNT(cases), "Linux's calls");
    is(ftruncate(file, 8192), 0, "the file is cut again");
}

/* Where the disk's size cannot be told it is not open: nobody holds it. */
static void disk_opened(void)
{
    int good = CALL(KD_HANDLE_CLOSE, disk) == 0;
    for (int i = 0; i < BAD_POINTERS; i++) {
        long r = CALL(KD_BLOCK_OPEN, "export", bad_pointers[i]);
        if (r != -EFAULT) good = 0, printf("# block_open, 0x%lx: %ld\n", bad_pointers[i], r);
    }
    disk = (int)CALL(KD_BLOCK_OPEN, "export", room);
    tap_ok(good && disk >= 0, "block_open: what it is to tell goes nowhere");
}

/* All of Katydid's calls have a line in a table, but those that are given nothing, and the list of dirty
 * pages: it is empty here, and copies nothing. */
static void none_forgotten(void)
{
#define ENTRY(number, call, function) {NAMED(call)},
    static const struct { const char *name; long number; } calls[] = {KD_CALLS(ENTRY)};
    int good = CALL(KD_CLEAN_LIST, 1, ~0ul) == 0;
    for (int i = 0; i < COUNT(calls); i++) {
        long n = calls[i].number;
        if (tried_call[n] || n == KD_PORT_CREATE || n == KD_VIEW_CREATE || n == KD_CHECK || n == KD_CLEAN_LIST)
            continue;
        good = 0;
        printf("# %s has no line in the tables\n", calls[i].name);
    }
    tap_ok(good, "%d calls of Katydid's, and none is forgotten", COUNT(calls));
}

/* ---- scenes: what once was wrong ---- */

static void *commits_to_itself(void *unused)
{
    (void)unused;
    struct kd_object_create c = {.port = my_port, .commit_port = my_port, .pages = 1,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .name = "itself"};
    CALL(KD_OBJECT_CREATE, &c);
    CALL(KD_VIEW_ENTER, CALL(KD_VIEW_CREATE, 0));
    struct kd_begin b = {ABORTS};
    struct kd_commit k = {.batch = room, .batch_bytes = 64, .port = my_port};
    CALL(KD_TXN_BEGIN, &b);
    CALL(KD_TXN_COMMIT, &k);
    return NULL;
}

static void scenes(const char *self)
{
    int p = (int)CALL(KD_PORT_CREATE, 0);
    tap_ok(CALL(KD_PORT_NOTIFY, p, 1) == 0 && CALL(KD_HANDLE_CLOSE, p) == 0,
           "a port is closed with a notice in it");
    is(child_wait_for(child_start(self, "itself", NULL), 1), -ETIMEDOUT,
       "who waits for his own answer to a commit can be killed");
    p = (int)CALL(KD_PORT_CREATE, 0);
    struct kd_object_create c = {.port = p, .commit_port = p, .base = KD_STORE_BASE, .name = "all",
                                 .pages = (KD_STORE_END - KD_STORE_BASE) / KD_PAGE_BYTES};
    int o = (int)CALL(KD_OBJECT_CREATE, &c);
    tap_ok(CALL(KD_OBJECT_RECALL, o, 0, c.pages) == 0 && CALL(KD_OBJECT_PIN, o, 0, c.pages, 0) == 0
               && CALL(KD_OBJECT_FAIL, o, 0, c.pages, EIO) == 0
               && CALL(KD_OBJECT_INFO, o, 0, c.pages, area) == -EFAULT,
           "ranges of 64 TiB take no time");
    int client = child_start(self, "nothing", NULL);
    CALL(KD_SPACE_ATTACH, client, o, 3);
    child_wait(client);
    tap_ok(CALL(KD_HANDLE_CLOSE, p) == 0 && CALL(KD_OBJECT_DESTROY, o) == 0,
           "an object and its port end with news of a client in it");
    mkdir("/tmp/gone", 0700);
    int moved = chdir("/tmp/gone") == 0 && rmdir("/tmp/gone") == 0;
    tap_ok(moved && CALL(SYS_rename, here, "x") == -ENOENT
               && CALL(SYS_open, "x", O_CREAT | O_RDWR, 0600) == -ENOENT && chdir("/tmp") == 0,
           "nothing is put into a folder that is gone");
    is(child_run(self, "orphan", NULL), 0, "an orphan, of whom init takes care,");
    usleep(300000);
    tap_ok(1, "does not halt the machine");
    int good = 1;
    for (int i = 0; i < 300; i++) {
        struct kd_message m = {.kind = STORE_HELLO, .word = {STORE_PROTOCOL_VERSION},
                               .handle = copy, .handle_rights = KD_RIGHT_CALL};
        good &= CALL(KD_PORT_CALL, store, &m) == 0;
    }
    ps_container *some = ps_open("after-handles", PS_CREATE | PS_WRITE, NULL);
    tap_ok(good && some && ps_close(some) == 0 && ps_delete("after-handles") == 0,
           "handles sent to the store manager do not fill its table");
}

static int role(char **argv)
{
    const char *what = argv[1];
    if (strcmp(what, "count") == 0) return role_count();
    if (strcmp(what, "itself") == 0) {
        my_port = (int)CALL(KD_PORT_CREATE, 0);
        commits_to_itself(NULL);
        return 1;
    }
    if (strcmp(what, "orphan") == 0) return child_start(argv[0], "halt", NULL) < 0;
    if (strcmp(what, "halt") == 0) {
        usleep(100000); /* the parent has ended */
        CALL(KD_HALT, 55);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) return role(argv);
    static char self[64];
    const char *name = strrchr(argv[0], '/');
    snprintf(self, sizeof self, "/bin/%s", name ? name + 1 : argv[0]);
    tap_plan(33);
    is(child_run(self, "count", NULL), 0, "a counter is made");
    prepare(self);
    tap_ok(my_port >= 0 && copy >= 0 && my_object >= 0 && view >= 0 && process >= 0 && disk >= 0
               && store >= 0 && file >= 0 && my_base != KD_STORE_BASE, "one of each handle");
    ps_list(&(struct ps_info){0}, 1); /* the library keeps its handle */
    const struct counts before = counts_now();
    katydid_pointers();
    linux_pointers();
    inner_pointers(self);
    handles();
    katydid_values();
    object_structures();
    supply_structures();
    process_structures(self);
    message_structures();
    transaction_structures();
    linux_values();
    disk_opened();
    none_forgotten();
    scenes(self);
    tap_ok(counts_back(before, MANAGER_KEEPS), "frames, objects, processes, views, handles and credits are back");
    tap_ok(check_clean(), "kcheck");
    is(child_run(self, "count", NULL), 0, "the store manager lives, and a commit works");
    return tap_end();
}
