/* pointers.c - bad pointers and bad handles. */
#include "calls.h"

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

struct kd_message message;
const struct timespec moment = {0, 1000};

void aborted(long reason)
{
    printf("not ok - a transaction was aborted: %ld\n", reason);
    _exit(1);
}
char abort_stack[16384] __attribute__((aligned(16)));

char tried_call[KD_CALL_END];

long try_call(long number, const unsigned long a[6])
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

/* Good memory, but at every odd place, and across two pages: done, or refused. All bits are set in
 * what the call reads, so that little is done. */
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
        /* it would wait for one */
        if (c->number == KD_PORT_REPLY_RECEIVE) CALL(KD_PORT_NOTIFY, my_port, 1);
        long r = kd_call6(c->number, (long)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4],
                          (long)a[5]);
        if (r < 0 && !is_errno(r)) good = 0, printf("# %s at ...%d: %ld\n", c->name, by, r);
        int made[2];
        memcpy(made, at, sizeof made);
        if (r == 0 && (c->number == SYS_pipe || c->number == SYS_pipe2))
            close(made[0]), close(made[1]);
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

void katydid_pointers(void)
{
    struct kd_supply supply = {
        .object = my_object, .source = KD_SUPPLY_MEMORY, .rights = 3, .count = 1
    };
    struct kd_page_io io = {.object = my_object};
    struct kd_diff diff = {0};
    const long badge = CALL(KD_BADGE_CREATE, my_port, 5, KD_RIGHT_CALL);
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
        {NAMED(KD_PORT_BELOW), {G(my_port), P, 2}, IN, 2 * sizeof(int)},
        {NAMED(KD_PORT_VOTES), {G(my_port), P}, IN, 24},
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
        {NAMED(KD_TXN_PARTS), {P}, IN, sizeof(struct kd_parts)},
        {NAMED(KD_TXN_UNSPILL), {0, 0, P}, IN | NOT_FIRST, 4096},
        {NAMED(KD_VIEW_LIST), {P, 128}, OUT, sizeof(struct kd_view_info)},
        {NAMED(KD_VIEW_WAIT), {0, P}, IN, 16},
        {NAMED(KD_BLOCK_OPEN), {P, G(room)}, STRING, 0},
        {NAMED(KD_BLOCK_READ), {G(disk), 1 << 20, P, 4096}, OUT, 4096},
        {NAMED(KD_BLOCK_WRITE), {G(disk), 1 << 20, P, 4096}, IN, 4096},
        {NAMED(KD_BLOCK_READ_PAGES), {G(disk), P, 1}, IN, sizeof(struct kd_page_io)},
        {NAMED(KD_BLOCK_WRITE_PAGES), {G(disk), P, 1}, IN, sizeof(struct kd_page_io)},
        {NAMED(KD_STREAM_OPEN), {P, G(my_port), 1}, STRING, 0},
        {NAMED(KD_STREAM_READ), {G(stream), P, 4096}, OUT, 4096},
        {NAMED(KD_STREAM_WRITE), {G(stream), P, 4096}, IN, 4096},
        {NAMED(KD_BADGE_READ), {G(my_port), G(badge), P}, OUT, 16}, /* its 0 would end strings */
    };
    CALL(KD_VIEW_ENTER, view);
    pointers(cases, COUNT(cases), "Katydid's calls");
    unaligned(cases, COUNT(cases), "Katydid's calls");
    CALL(KD_VIEW_ENTER, -1);
    CALL(KD_HANDLE_CLOSE, badge);
    CALL(KD_PORT_RECEIVE, my_port, &message, 0); /* the last notice, if it is still there */
}

void linux_pointers(void)
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

static void process_pointers(const char *self)
{
    int good = 1;
    const char *argv[] = {self, "nothing", NULL};
    for (int i = 0; i < BAD_POINTERS; i++) {
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
}

static int faults(const char *call, unsigned long pointer, long result)
{
    if (result != -EFAULT) printf("# %s, 0x%lx: %ld\n", call, pointer, result);
    return result == -EFAULT;
}
#define FAULTS(call) good &= faults(#call, bad_pointers[i], call)

static void vector_pointers(void)
{
    int good = 1;
    for (int i = 0; i < BAD_POINTERS; i++) {
        void *bad = (void *)bad_pointers[i];
        struct kd_message m = {.kind = STORE_STATS, .handle = -1, .data = bad, .data_bytes = 8};
        FAULTS(CALL(KD_PORT_CALL, store, &m));
        m = (struct kd_message){.kind = STORE_STATS, .handle = -1, .buffer = bad,
                                .buffer_bytes = sizeof(struct wire_stats)};
        FAULTS(CALL(KD_PORT_CALL, store, &m));
        struct kd_supply s = {.object = my_object, .source = KD_SUPPLY_MEMORY, .rights = 3,
                              .count = 1, .memory = bad};
        FAULTS(CALL(KD_OBJECT_SUPPLY, &s));
        const unsigned long vector[2] = {bad_pointers[i], 10};
        FAULTS(CALL(SYS_readv, file, vector, 1));
        FAULTS(CALL(SYS_writev, file, vector, 1));
    }
    tap_ok(good, "messages, supplies, vectors");
}

static void batch_pointers(void)
{
    int good = 1;
    CALL(KD_VIEW_ENTER, view);
    for (int i = 0; i < BAD_POINTERS; i++) {
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

void inner_pointers(const char *self)
{
    process_pointers(self);
    vector_pointers();
    batch_pointers();
}

/* ---- handles ---- */

struct handle_case { const char *name; long number; unsigned long a[6]; int type; };
enum { A_PORT, A_OBJECT, A_VIEW, A_PROCESS, A_DISK, A_STREAM, TYPES };

static int handle_try(const struct handle_case *c, unsigned long handle)
{
    unsigned long a[6];
    for (int i = 0; i < 6; i++) a[i] = c->a[i] == H ? handle : c->a[i];
    long r = try_call(c->number, a);
    int good = r == -EBADF || r == -EACCES;
    if (!good) printf("# %s with handle 0x%lx: %ld\n", c->name, handle, r);
    return good;
}

void handles(void)
{
    static const unsigned long forged[] = { ~0ul,          200,        255,        256,   1ul << 31,
                                            1ul << 31 | 1, 0x7fffffff, ~0ul - 100, 0xffff };
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
        {NAMED(KD_PORT_BELOW), {H, G(room), 1}, A_PORT},
        {NAMED(KD_PORT_VOTES), {H, G(room)}, A_PORT},
        {NAMED(KD_PORT_OWNER), {H}, A_PORT},
        {NAMED(KD_BADGE_CREATE), {H, 1, KD_RIGHT_CALL}, A_PORT},
        {NAMED(KD_BADGE_END), {H, 1}, A_PORT},
        {NAMED(KD_BADGE_USED), {H, 1}, A_PORT},
        {NAMED(KD_BADGE_READ), {H, G(my_port), G(room)}, A_PORT},
        {NAMED(KD_BADGE_INHERIT), {H}, A_PORT},
        {NAMED(KD_BADGE_READ), {G(my_port), H, G(room)}, TYPES},
        {NAMED(KD_PORT_SAME), {H, G(my_port)}, A_PORT},
        {NAMED(KD_PORT_SAME), {G(my_port), H}, A_PORT},
        {NAMED(KD_NAME_SET), {G("hostile"), H}, A_PORT},
        {NAMED(KD_OBJECT_DESTROY), {H}, A_OBJECT},
        {NAMED(KD_SPACE_ATTACH), {G(getpid()), H, 3}, A_OBJECT},
        {NAMED(KD_SPACE_DETACH), {G(getpid()), H}, A_OBJECT},
        {NAMED(KD_SPACE_RIGHTS), {G(getpid()), H}, A_OBJECT},
        {NAMED(KD_OBJECT_FAIL), {H, 0, 1, 5}, A_OBJECT},
        {NAMED(KD_OBJECT_RECALL), {H, 0, 1, 0}, A_OBJECT},
        {NAMED(KD_OBJECT_INFO), {H, 0, 1, G(room)}, A_OBJECT},
        {NAMED(KD_OBJECT_ENCODER), {H, 0}, A_OBJECT},
        {NAMED(KD_OBJECT_CLEANED), {H, 0, 1}, A_OBJECT},
        {NAMED(KD_OBJECT_READ), {H, 0, G(room), G(room)}, A_OBJECT},
        {NAMED(KD_OBJECT_GRANT), {H, 0, 1, 0}, A_OBJECT},
        {NAMED(KD_OBJECT_AUDIT), {H, 0, 1, G(room)}, A_OBJECT},
        {NAMED(KD_OBJECT_MEND), {H, 0, G(room), 0}, A_OBJECT},
        {NAMED(KD_TXN_RELEASE), {H, my_base, 1, 0}, A_VIEW},
        {NAMED(KD_TXN_TAKE), {H, my_base, 1, KD_READ, G(room)}, A_VIEW},
        {NAMED(KD_OBJECT_PIN), {H, 0, 1, 1}, A_OBJECT},
        {NAMED(KD_CREDIT_GRANT), {H, 1}, A_PORT},
        {NAMED(KD_BLOCK_READ), {H, 0, G(room), 512}, A_DISK},
        {NAMED(KD_BLOCK_WRITE), {H, 0, G(room), 512}, A_DISK},
        {NAMED(KD_BLOCK_FLUSH), {H}, A_DISK},
        {NAMED(KD_BLOCK_READ_PAGES), {H, G(room), 1}, A_DISK},
        {NAMED(KD_BLOCK_WRITE_PAGES), {H, G(room), 1}, A_DISK},
        {NAMED(KD_STREAM_OPEN), {G("outer"), H, 1}, A_PORT},
        {NAMED(KD_STREAM_READ), {H, G(room), 1}, A_STREAM},
        {NAMED(KD_STREAM_WRITE), {H, G(room), 1}, A_STREAM},
        {NAMED(KD_VIEW_ENTER), {H}, A_VIEW},
    };
    const int of_type[TYPES] = {my_port, my_object, view, process, disk, stream};
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
        {NAMED(KD_BADGE_CREATE), {H, 1, KD_RIGHT_CALL}, A_PORT},
        {NAMED(KD_BADGE_END), {H, 1}, A_PORT},
        {NAMED(KD_BADGE_USED), {H, 1}, A_PORT},
        {NAMED(KD_BADGE_INHERIT), {H}, A_PORT},
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
