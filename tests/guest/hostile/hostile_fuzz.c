/*
 * hostile_fuzz.c - calls and messages at random.
 *
 * Aim     whatever four processes ask for at once, nobody but them is harmed, and all comes back.
 * Method  each process is a seed: its choices follow from that. Which call meets which is the
 *         machine's affair, but with `scripts/run --icount --seed N --no-store` it is decided by
 *         the count of instructions, so that a run repeats, all results of all calls included. It
 *         then has no disks.
 *
 *   hostile_fuzz [SEED [CALLS]]    fuzzers from SEED on, until CALLS (a million) were made
 *   hostile_fuzz fuzz SEED [x]     one alone; with a further word it tells each call before it
 *                                  makes it
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "katydid/trace.h"

#include "hostile_handles.h"

enum { FUZZ_AT_ONCE = 4, FUZZ_CALLS = 20000, FUZZ_TOTAL = 1000000, FUZZ_TEST = 300000,
       FUZZ_STUCK_MS = 400 };
enum { CAME_TO_THE_END = 64 };  /* in a fuzzer's exit status; the lower bits are of its results */

static const struct timespec moment = {0, 1000};
#define COUNT(table) (int)(sizeof(table) / sizeof(table)[0])

/* ---- arguments ---- */

static uint64_t fuzz_state, results;    /* results: of all calls so far, as one number */

static uint64_t dice(void)
{
    fuzz_state += 0x9e3779b97f4a7c15;
    uint64_t z = fuzz_state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static long noted(long result)
{
    results = (results ^ (uint64_t)result) * 0x100000001b3;
    return result;
}

static char *arena;
enum { ARENA_BYTES = 1 << 20, SCRATCH_BYTES = 16384 };
static uint64_t *scratch;               /* with nothing behind it: counts are wild */
static const char *const names[] = { "/tmp/f/a", "/tmp/f/b", "/tmp/f", "/tmp/f/a/b", "..",
                                     "/",        "fuzz",     "",       "/bin/none",  "/dev/null",
                                     "/import",  "store",    "export" };

static uint64_t bad_pointer(void) { return bad_pointers[dice() % BAD_POINTERS]; }

static uint64_t pointer(void)
{
    switch (dice() % 8) {
    case 0: return bad_pointer();
    case 1: return (uint64_t)writable_end - dice() % 64;
    case 2: return (uint64_t)read_only + dice() % 4096;
    case 3: return (uint64_t)names[dice() % COUNT(names)];
    case 4: return (uint64_t)(arena + dice() % ARENA_BYTES);
    default: return (uint64_t)&scratch[dice() % (SCRATCH_BYTES / 16)];
    }
}

static uint64_t value(void)
{
    static const uint64_t special[] = { ~0ull,      1ull << 31, 1ull << 63, ~0ull >> 1,
                                        4096,       4095,       255,        256,
                                        64,         65536,      1 << 20,    1ull << 32,
                                        1ull << 40, 0xfff,      512,        100 };
    switch (dice() % 8) {
    case 0: return special[dice() % COUNT(special)];
    case 1: return pointer();
    case 2: return dice();
    case 3: return 0;
    default: return dice() % 12;
    }
}

static void scratch_fill(void)
{
    for (int i = 0; i < 64; i++) scratch[dice() % (SCRATCH_BYTES / 8)] = value();
}

static const short linux_numbers[] = {
    SYS_read, SYS_write, SYS_open, SYS_close, SYS_stat, SYS_fstat, SYS_lstat, SYS_lseek, SYS_mmap,
    SYS_mprotect, SYS_munmap, SYS_brk, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigpending,
    SYS_ioctl, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev, SYS_access, SYS_pipe,
    SYS_sched_yield, SYS_mremap, SYS_madvise, SYS_dup, SYS_dup2, SYS_nanosleep, SYS_getpid,
    SYS_clone,
    SYS_kill, SYS_uname, SYS_fcntl, SYS_fsync, SYS_ftruncate, SYS_getcwd, SYS_chdir, SYS_fchdir,
    SYS_rename, SYS_mkdir, SYS_rmdir, SYS_unlink, SYS_readlink, SYS_gettimeofday, SYS_getrlimit,
    SYS_sysinfo, SYS_arch_prctl, SYS_gettid, SYS_tkill, SYS_futex, SYS_sched_getaffinity,
    SYS_getdents64, SYS_set_tid_address, SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep,
    SYS_tgkill, SYS_openat, SYS_mkdirat, SYS_newfstatat, SYS_unlinkat, SYS_renameat, SYS_faccessat,
    SYS_dup3, SYS_pipe2, SYS_prlimit64, SYS_renameat2, SYS_getrandom, SYS_wait4, SYS_getrusage,
    SYS_umask, SYS_getpgid, 7, 23, 319};

/* ---- the fuzzer's messages ---- */

/* ports: the other fuzzers', as far as they are there, and ours */
static int peers[FUZZ_AT_ONCE], own;
static uint64_t tokens[4];              /* of calls received: some are answered, late or twice */

static void peers_find(long seed)
{
    char name[16];
    own = (int)CALL(KD_PORT_CREATE, 0);
    for (int i = 0; i < FUZZ_AT_ONCE; i++) {
        snprintf(name, sizeof name, "fuzz %d", i);
        if (i == seed % FUZZ_AT_ONCE) CALL(KD_NAME_SET, name, own);
        peers[i] = (int)CALL(KD_NAME_FIND, name);
    }
}

static void fuzz_message(void)
{
    struct kd_message m = { .kind = (uint32_t)(dice() % 16),
                            .handle = dice() % 4 ? -1 : copy,
                            .handle_rights = dice() % 8,
                            .word = { value(), value(), value(), value() } };
    if (dice() % 4 == 0)
        m.data = (void *)pointer(), m.data_bytes = dice() % 8 ? dice() % 300 : value();
    m.buffer = dice() % 4 ? arena : (void *)pointer(), m.buffer_bytes = dice() % 512;
    uint64_t *token = &tokens[dice() % 4];
    switch (dice() % 4) {
    case 0:
        noted(CALL(KD_PORT_CALL_UNTIL, dice() % 4 ? peers[dice() % FUZZ_AT_ONCE] : store, &m,
                   dice() % 3));
        break;
    case 1: noted(CALL(KD_PORT_REPLY, dice() % 4 ? *token : value(), &m)); break;
    case 2: if (noted(CALL(KD_PORT_RECEIVE, own, &m, dice() % 2)) == 0) *token = m.token; break;
    default: noted(CALL(KD_PORT_NOTIFY, peers[dice() % FUZZ_AT_ONCE], value())); break;
    }
}

/* Keeps a call from ending the fuzzer itself, or from waiting for ever. False: leave it out. */
static int tame(long number, uint64_t a[6])
{
    static const int nobody[] = {999998, -1, 1 << 30, 1, 999999};
    switch (number) {
    case SYS_mmap: case SYS_munmap: case SYS_mprotect: case SYS_mremap: case SYS_madvise:
        if (number == SYS_mmap && dice() % 2) a[3] |= 0x20;
        a[0] = dice() % 4 ? (uint64_t)arena + dice() % 64 * 4096 : bad_pointer();
        a[1] = dice() % 4 ? dice() % (ARENA_BYTES / 4) : 1ull << 45 | dice();
        if (number == SYS_mremap) a[2] = dice() % 2 ? dice() % ARENA_BYTES : 1ull << 45 | dice();
        return bad_pointers[12] != a[0];
    case SYS_brk: a[0] = dice() % 2 ? 0 : dice() | 1ull << 45; return 1;
    case SYS_arch_prctl: a[0] = 0x1003; return 1;
    case SYS_clone: a[0] |= 0x10000, a[0] &= ~0x100ull; return 1; /* neither a thread nor a fork */
    case SYS_wait4: a[2] |= 1; return 1;
    case SYS_rt_sigaction: a[0] = 40 + dice() % 30; return 1;
    case SYS_kill: case SYS_tkill: case SYS_tgkill: case KD_PROCESS_KILL:
        a[0] = (uint64_t)nobody[dice() % 5];
        return 1;
    case SYS_nanosleep: a[0] = bad_pointer(); return 1;
    case SYS_clock_nanosleep: a[2] = bad_pointer(); return 1;
    case SYS_futex: a[3] = (uint64_t)&moment; return 1;
    case SYS_pipe: return 0;
    case SYS_pipe2: a[1] |= O_NONBLOCK; return 1;
    case SYS_fcntl: a[2] |= O_NONBLOCK; return 1;
    case SYS_ftruncate: a[1] = dice() % 2 ? dice() % (4 << 20) : dice(); return 1;
    case KD_PORT_CALL: a[0] = (uint64_t)store; return 1; /* others may never answer, */
    case KD_HANDLE_CLOSE: return (int)a[0] != store;  /* so its number stays its own */
    case KD_PORT_RECEIVE: a[2] = dice() % 2; return 1;
    case KD_PORT_REPLY_RECEIVE: a[2] = 200 + dice() % 100; return 1;
    case KD_PROCESS_WAIT: a[2] |= KD_WAIT_NOHANG; return 1;
    case KD_PORT_CALL_UNTIL: a[2] %= 4; return 1;
    case SYS_getrandom: a[1] %= 4096; return 1;
    case KD_KERNEL_LOG: return dice() % 512 == 0;
    case KD_CHECK: return dice() % 256 == 0;
    case KD_SPACE_ATTACH:
        a[0] = dice() % 8 ? (uint64_t)nobody[dice() % 3] : (uint64_t)getpid();
        return 1;
    case KD_SPACE_DETACH: a[0] = (uint64_t)nobody[dice() % 5]; return 1;
    case KD_NAME_SET: a[0] = dice() % 2 ? (uint64_t)"hostile-fuzz" : a[0]; return 1;
    default: return 1;
    }
}

static void fuzz_one(int trace)
{
    uint64_t a[6];
    long number = dice() % 2
                      ? linux_numbers[dice() % COUNT(linux_numbers)]
                      : KD_HANDLE_CLOSE + (long)(dice() % (KD_CALL_END - KD_HANDLE_CLOSE + 2));
    for (int i = 0; i < 6; i++) a[i] = dice() % 2 ? pointer() : value();
    if (!tame(number, a)) return;
    if (trace)
        fprintf(stderr, "%ld(%lx, %lx, %lx, %lx, %lx, %lx)\n", number, a[0], a[1], a[2], a[3], a[4],
                a[5]);
    noted(kd_call6(number, (long)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4], (long)a[5]));
}

static int role_fuzz(const char *self, long seed, int trace)
{
    fuzz_state = (uint64_t)seed * 1000003;
    signal(SIGPIPE, SIG_IGN);
    int null = open("/dev/null", O_RDWR);
    for (int i = 0; i < (trace ? 2 : 3); i++) dup2(null, i);
    mkdir("/tmp/f", 0700);
    prepare(self);
    peers_find(seed);
    arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    scratch =
        mmap(NULL, 2 * SCRATCH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap((char *)scratch + SCRATCH_BYTES, SCRATCH_BYTES);
    for (int i = 0; i < FUZZ_CALLS; i++) {
        if (i % 4 == 0) scratch_fill();
        if (i % 16 == 0) fuzz_message();
        else fuzz_one(trace);
    }
    _exit(CAME_TO_THE_END + (int)(results >> 40) % CAME_TO_THE_END);
}

/* The CPU time of a child; a fuzzer that uses none waits for something that does not come. */
static uint64_t child_cpu(int pid)
{
    static struct kd_process_info list[64];
    long n = CALL(KD_PROCESS_LIST, list, 64);
    for (long i = 0; i < n && i < 64; i++)
        if (list[i].pid == pid) return list[i].cpu_ns;
    return 0;
}

static struct fuzzer { int pid, seed, still_ms; uint64_t cpu; } fuzzers[FUZZ_AT_ONCE];
enum { FUZZ_DONE, FUZZ_EARLY, FUZZ_WAITED, FUZZ_ENDS };
static int fuzz_ends[FUZZ_ENDS];
static int told;                        /* each end is told: where two runs part is seen then */
static uint64_t ends_hash;              /* of who ended how, in which order */

/* Mostly none; but one that a busy host keeps from running looks as if it waited. */
static int fuzz_lost(void) { return fuzz_ends[FUZZ_EARLY] + fuzz_ends[FUZZ_WAITED]; }

static void fuzzer_start(const char *self, struct fuzzer *f, int seed)
{
    char number[16];
    snprintf(number, sizeof number, "%d", seed);
    *f = (struct fuzzer){.pid = child_start(self, "fuzz", number), .seed = seed};
}

/* Has it ended? One that waits for ever is killed. */
static int fuzzer_ended(struct fuzzer *f)
{
    int status = 0;
    if (CALL(KD_PROCESS_WAIT, f->pid, &status, KD_WAIT_NOHANG) == f->pid) {
        int how = f->still_ms >= FUZZ_STUCK_MS    ? FUZZ_WAITED
                  : status / CAME_TO_THE_END == 1 ? FUZZ_DONE
                                                  : FUZZ_EARLY;
        ends_hash =
            ((ends_hash ^ (unsigned)f->seed) * 0x100000001b3 ^ (unsigned)status) * 0x100000001b3;
        if (how != FUZZ_DONE || told)
            printf("# seed %d: status %d\n", f->seed, status);
        fuzz_ends[how]++;
        return 1;
    }
    uint64_t cpu = child_cpu(f->pid);
    f->still_ms = cpu == f->cpu ? f->still_ms + 20 : f->still_ms >= FUZZ_STUCK_MS ? f->still_ms : 0;
    f->cpu = cpu;
    if (f->still_ms == FUZZ_STUCK_MS) CALL(KD_PROCESS_KILL, f->pid, 137);
    return 0;
}

/* Fuzzers from seed `first` on until `calls` were made by those that came to their end. False: one
 * could not even be killed. */
static int fuzz(const char *self, int first, int calls)
{
    int seed = first, running = 0;
    memset(fuzz_ends, 0, sizeof fuzz_ends);
    for (int i = 0; i < FUZZ_AT_ONCE; i++, running++) fuzzer_start(self, &fuzzers[i], seed++);
    while (running > 0) {
        usleep(20000);
        for (struct fuzzer *f = fuzzers; f < fuzzers + FUZZ_AT_ONCE; f++) {
            if (f->pid == 0) continue;
            if (f->still_ms > 100 * FUZZ_STUCK_MS)
                return printf("# seed %d cannot be killed\n", f->seed), 0;
            if (!fuzzer_ended(f)) continue;
            f->pid = 0;
            int enough = (fuzz_ends[FUZZ_DONE] + running - 1) * FUZZ_CALLS >= calls;
            if (!enough && fuzz_lost() < (seed - first) / 2 + FUZZ_AT_ONCE)
                fuzzer_start(self, f, seed++);
            else running--;
        }
    }
    printf("# %d of %d calls each; %d more ended early, %d waited for ever; seeds %d to %d; all "
           "results: %016llx\n",
           fuzz_ends[FUZZ_DONE], FUZZ_CALLS, fuzz_ends[FUZZ_EARLY], fuzz_ends[FUZZ_WAITED], first,
           seed - 1, (unsigned long long)ends_hash);
    return 1;
}

/* What the fuzzer left in the folder, but for those that were there at first. */
static void folder_clean(const char *path)
{
    static const char *const stay[] = {".", "..", "bin", "dev", "etc", "tmp", "export", "import"};
    char name[512];
    struct dirent *e;
    DIR *d = opendir(path);
    for (int again = 1; d && again; rewinddir(d)) {
        for (again = 0; !again && (e = readdir(d));) {
            int stays = 0;
            for (int i = 0; i < COUNT(stay); i++)
                stays |= (i < 2 || !path[1]) && !strcmp(e->d_name, stay[i]);
            snprintf(name, sizeof name, "%s/%s", path[1] ? path : "", e->d_name);
            if (stays ||
                (unlink(name) < 0 && rmdir(name) < 0 && (folder_clean(name), rmdir(name)) < 0))
                continue;
            again = 1; /* it has changed: from the start */
        }
    }
    if (d) closedir(d);
}

/* What it left in the store and among the files. */
static void clean_up(void)
{
    static struct ps_info list[64];
    int n = ps_list(list, 64);
    for (int i = 0; i < n && i < 64; i++)
        if (strcmp(list[i].name, "hostile") != 0) ps_delete(list[i].name);
    folder_clean("/tmp");
    folder_clean("/export");
    folder_clean("/");
}

/* ---- all of it ---- */

static int role(int argc, char **argv)
{
    if (strcmp(argv[1], "fuzz") == 0 && argc > 2)
        return role_fuzz(argv[0], strtol(argv[2], NULL, 10), argc > 3);
    return strcmp(argv[1], "count") == 0 ? role_count() : 0;
}

int main(int argc, char **argv)
{
    int first = argc > 1 ? atoi(argv[1]) : 1, calls = argc > 2 ? atoi(argv[2])
                                                    : tap_long() ? FUZZ_TOTAL : FUZZ_TEST;
    if (argc > 1 && first == 0) return role(argc, argv);
    static char self[64];
    const char *name = strrchr(argv[0], '/');
    snprintf(self, sizeof self, "/bin/%s", name ? name + 1 : argv[0]);
    struct kd_system_info system;
    CALL(KD_SYSTEM_INFO, &system);
    int stored = CALL(KD_NAME_FIND, "store") >= 0;
    tap_plan(3 + 2 * stored);
    printf("# a run that repeats: scripts/run --icount --seed %d --no-store --cpus %u --timeout 0 "
           "--add "
           "build/tests/guest/hostile_fuzz -c 'hostile_fuzz %d %d'\n",
           first, (unsigned)system.cpus, first, calls);
    fflush(stdout);
    if (stored) is(child_run(self, "count", NULL), 0, "a counter is made");
    told = calls <= 10 * FUZZ_CALLS;
    fuzz(self, 100000, FUZZ_CALLS); /* what is allocated once */
    clean_up();
    struct counts before = counts_now();
    tap_ok(fuzz(self, first, calls) && fuzz_lost() <= fuzz_ends[FUZZ_DONE] / 4,
           "%d calls at random by four processes", calls);
    clean_up();
    tap_ok(counts_back(before, 200),
           "frames, objects, processes, views, handles and credits are back");
    tap_ok(check_clean(), "kcheck");
    if (stored)
        is(child_run(self, "count", NULL), 0, "the store manager lives, and a commit works");
    return tap_end();
}
