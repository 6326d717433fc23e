/*
 * linux_process.c - Linux calls on memory, time, and the little that is left.
 */
#include "file/file.h"
#include "process/descriptor.h"
#include "linux/linux.h"
#include "process/vm.h"

/* ---- memory ---- */

enum { MAP_SHARED = 1, MAP_PRIVATE = 2, MAP_KIND = 15, MAP_FIXED = 0x10, MAP_ANONYMOUS = 0x20,
       MAP_32BIT = 0x40, MAP_GROWS_DOWN = 0x100, MAP_HUGE = 0x40000, MAP_SYNC = 0x80000,
       MAP_NO_REPLACE = 0x100000 };

/* map_file maps a file. Pages have one owner, so a file in memory, which could change under a
 * shared mapping, is refused with -ENODEV. Other files never change, and nobody has them open for
 * writing. */
static long map_file(struct file *f, const uint64_t a[6], unsigned flags)
{
    unsigned protection = (unsigned)a[2] & 7;
    bool shared = (a[3] & MAP_KIND) == MAP_SHARED;
    if ((f->flags & O_ACCESS) == O_ACCESS)
        return -EBADF;
    if (!node_has_bytes(f->node) || (shared && f->node->kind == NODE_MEMORY))
        return -ENODEV;
    if ((f->flags & O_WRONLY) || (shared && (protection & VM_WRITE)))
        return -EACCES;
    if (a[5] % PAGE_BYTES)
        return -EINVAL;
    if (a[5] + a[1] < a[5])
        return -EOVERFLOW;
    struct vm_source source = {.node = f->node, .offset_bytes = a[5], .file_bytes = VM_WHOLE_FILE,
                               .shared = shared};
    return vm_map(process_this(), a[0], a[1], protection, flags, &source);
}

long linux_mmap(const uint64_t a[6])
{
    uint64_t kind = a[3] & MAP_KIND;
    unsigned flags = (a[3] & MAP_FIXED ? VM_FIXED : 0)
        | (a[3] & MAP_NO_REPLACE ? VM_NO_REPLACE : 0);
    if ((kind != MAP_SHARED && kind != MAP_PRIVATE)
        || (a[3] & (MAP_32BIT | MAP_GROWS_DOWN | MAP_HUGE | MAP_SYNC)))
        return -EINVAL;
    if (!(a[3] & MAP_ANONYMOUS)) {
        struct file *f = fd_file(process_this(), (int)a[4]);
        long result = f ? map_file(f, a, flags) : -EBADF;
        if (f)
            file_put(f);
        return result;
    }
    if (kind == MAP_SHARED) /* a child of fork gets copies */
        return -ENODEV;
    return vm_map(process_this(), a[0], a[1], (unsigned)a[2] & 7, flags, NULL);
}

long linux_munmap(const uint64_t a[6]) { return vm_unmap(process_this(), a[0], a[1]); }

long linux_mprotect(const uint64_t a[6])
{
    return a[2] & ~7ull ? -EINVAL : vm_protect(process_this(), a[0], a[1], (unsigned)a[2]);
}

long linux_brk(const uint64_t a[6]) { return (long)vm_break(process_this(), a[0]); }

/* linux_mremap: no mapping grows or moves; whoever wants a longer one copies. */
long linux_mremap(const uint64_t a[6]) { return (void)a, -ENOMEM; }

long linux_madvise(const uint64_t a[6])
{
    enum { MADV_DONTNEED = 4, MADV_FREE = 8, MADV_POPULATE_WRITE = 23 };
    const uint64_t hints = 0x33f00f; /* 0 to 3, 12 to 17, 20, 21: nothing depends on them */
    if (a[2] == MADV_DONTNEED || a[2] == MADV_FREE)
        return vm_forget(process_this(), a[0], a[1]);
    if (a[2] == MADV_POPULATE_WRITE) {
        int e = vm_populate(process_this(), a[0], a[1]);
        return e == -EFAULT ? -ENOMEM : e == -EACCES ? -EINVAL : e;
    }
    return a[2] < 64 && hints >> a[2] & 1 ? 0 : -EINVAL;
}

/* ---- processes and threads ---- */

long linux_exit(const uint64_t a[6])
{
    struct process *p = process_this();
    if (p->thread_count == 1)
        process_exit(p, (int)a[0]);
    process_thread_leave();
}

long linux_exit_group(const uint64_t a[6])
{
    process_exit(process_this(), (int)a[0]);
    process_thread_leave();
}

long linux_getpid(const uint64_t a[6]) { return (void)a, process_this()->pid; }
long linux_gettid(const uint64_t a[6]) { return (void)a, (long)thread_this()->id; }
long linux_getppid(const uint64_t a[6]) { return (void)a, process_this()->parent; }

/* linux_getpgid: the group is the family, which no process leaves. */
long linux_getpgid(const uint64_t a[6])
{
    struct process *p = process_find(a[0] ? (int)a[0] : process_this()->pid);
    long family = p ? p->family : -ESRCH;
    if (p)
        process_put(p);
    return family;
}

long linux_set_tid_address(const uint64_t a[6])
{
    thread_this()->clear_child_tid = a[0];
    return linux_gettid(a);
}

long linux_arch_prctl(const uint64_t a[6])
{
    enum { ARCH_SET_FS = 0x1002, ARCH_GET_FS = 0x1003 };
    struct thread *t = thread_this();
    uint64_t base = arch_get_fs_base(&t->arch);
    if (a[0] == ARCH_GET_FS)
        return copy_to_user(a[1], &base, sizeof(base));
    if (a[0] != ARCH_SET_FS)
        return -EINVAL;
    if (!user_range_ok(a[1], 8))
        return -EPERM;
    arch_set_fs_base(&t->arch, a[1]);
    return 0;
}

long linux_sched_yield(const uint64_t a[6])
{
    (void)a;
    thread_yield();
    return 0;
}

/* thread_nice: 20 - the niceness of the thread, 0: this one, which was set before unless nice is
 * NULL. -ESRCH; -EPERM. */
static long thread_nice(uint64_t id, const int *nice)
{
    long result = -ESRCH;
    id = id ? id : thread_this()->id;
    lock_acquire(&process_table.lock);
    list_each(struct process, p, &process_table.all, link) {
        lock_acquire(&p->lock);
        list_each(struct thread, t, &p->threads, process_link) {
            if (t->id != id)
                continue;
            bool may = !nice || process_in_reach_locked(p, KD_RIGHT_PROCESSES);
            if (nice && may)
                t->nice = (int8_t)*nice;
            result = may ? 20 - t->nice : -EPERM;
        }
        lock_release(&p->lock);
    }
    lock_release(&process_table.lock);
    return result;
}

/* Every process in reach may be less nice, too: there is one user. */
enum { PRIO_PROCESS = 0, NICE_MAX = 19, NICE_MIN = -20 };

long linux_setpriority(const uint64_t a[6])
{
    int nice = MAX(NICE_MIN, MIN((int)a[2], NICE_MAX));
    return a[0] == PRIO_PROCESS ? MIN(thread_nice((uint64_t)(int)a[1], &nice), 0) : -EINVAL;
}

long linux_getpriority(const uint64_t a[6])
{
    return a[0] == PRIO_PROCESS ? thread_nice((uint64_t)(int)a[1], NULL) : -EINVAL;
}

long linux_sched_getaffinity(const uint64_t a[6])
{
    uint64_t mask = (1ull << arch_cpu_count()) - 1;
    if (a[1] < sizeof(mask))
        return -EINVAL;
    if (thread_nice(a[0], NULL) < 0)
        return -ESRCH;
    return copy_to_user(a[2], &mask, sizeof(mask)) ? -EFAULT : (long)sizeof(mask);
}

/* ---- time ---- */

enum { CLOCK_REALTIME = 0, CLOCK_MONOTONIC = 1, CLOCK_PROCESS_CPUTIME = 2, CLOCK_THREAD_CPUTIME = 3,
       CLOCK_MONOTONIC_RAW = 4, CLOCK_REALTIME_COARSE = 5, CLOCK_MONOTONIC_COARSE = 6,
       CLOCK_BOOTTIME = 7 };

static int clock_read(uint64_t clock, uint64_t *ns)
{
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE: *ns = arch_time_ns() + time_of_day_offset_ns(); return 0;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME: *ns = arch_time_ns(); return 0;
    case CLOCK_PROCESS_CPUTIME:
    case CLOCK_THREAD_CPUTIME:
        *ns = thread_account();
        if (clock == CLOCK_PROCESS_CPUTIME)
            *ns = process_this()->home.cpu_ns;
        return 0;
    default: return -EINVAL;
    }
}

/* linux_times reports all CPU time as user time. */
long linux_times(const uint64_t a[6])
{
    enum { TICK_NS = 10000000 };
    struct process *p = process_this();
    (void)thread_account();
    const uint64_t ticks[4] = {p->home.cpu_ns / TICK_NS, 0, p->children_ns / TICK_NS, 0};
    return a[0] && copy_to_user(a[0], ticks, sizeof(ticks)) ? -EFAULT
                                                            : (long)(arch_time_ns() / TICK_NS);
}

static long time_to_user(vaddr_t to, uint64_t ns)
{
    const uint64_t t[2] = {ns / NS_PER_S, ns % NS_PER_S};
    return copy_to_user(to, t, sizeof(t));
}

long linux_clock_gettime(const uint64_t a[6])
{
    uint64_t ns;
    return clock_read(a[0], &ns) ?: time_to_user(a[1], ns);
}

long linux_clock_getres(const uint64_t a[6])
{
    uint64_t ns;
    int error = clock_read(a[0], &ns);
    return error || !a[1] ? error : time_to_user(a[1], 1);
}

long linux_gettimeofday(const uint64_t a[6])
{
    uint64_t ns = arch_time_ns() + time_of_day_offset_ns();
    const uint64_t t[2] = {ns / NS_PER_S, ns % NS_PER_S / 1000};
    static const uint32_t zone[2]; /* minutes west, summer time */
    if (a[1] && copy_to_user(a[1], zone, sizeof(zone)))
        return -EFAULT;
    return a[0] ? copy_to_user(a[0], t, sizeof(t)) : 0;
}

long linux_time(const uint64_t a[6])
{
    uint64_t s = (arch_time_ns() + time_of_day_offset_ns()) / NS_PER_S;
    return a[0] && copy_to_user(a[0], &s, sizeof(s)) ? -EFAULT : (long)s;
}

/* sleep_until sleeps; a signal's handler ends it with -EINTR, and `rest` (may be 0) gets the time
 * that was left. */
static long sleep_until(uint64_t deadline_ns, vaddr_t rest)
{
    int error;
    do
        error = thread_park_until_signal(deadline_ns);
    while (!error);
    if (error == -ETIMEDOUT)
        return 0;
    uint64_t now = arch_time_ns();
    /* whatever the handler's flags: it would begin anew */
    thread_this()->signals.restart_call = 0;
    if (rest && time_to_user(rest, deadline_ns > now ? deadline_ns - now : 0))
        return -EFAULT;
    return -EINTR;
}

long linux_pause(const uint64_t a[6]) { return (void)a, sleep_until(THREAD_NEVER, 0); }

long linux_nanosleep(const uint64_t a[6])
{
    uint64_t ns, now = arch_time_ns();
    return time_from_user(a[0], &ns) ?:
           sleep_until(ns > ~0ull - 1 - now ? ~0ull - 1 : now + ns, a[1]);
}

long linux_clock_nanosleep(const uint64_t a[6])
{
    enum { TIMER_ABSTIME = 1 };
    uint64_t ns, now;
    bool sleeps = a[0] == CLOCK_REALTIME || a[0] == CLOCK_MONOTONIC || a[0] == CLOCK_BOOTTIME;
    int error = clock_read(a[0], &now);
    if (!error && !sleeps)
        error = -EOPNOTSUPP;
    if (!error)
        error = time_from_user(a[2], &ns);
    if (error)
        return error;
    if (!(a[1] & TIMER_ABSTIME)) {
        const uint64_t b[6] = {a[2], a[3]};
        return linux_nanosleep(b);
    }
    return ns <= now ? 0 : sleep_until(arch_time_ns() + (ns - now), 0);
}

/* ---- the rest ---- */

long linux_uname(const uint64_t a[6])
{
    static const char *const fields[] = {"Katydid", "katydid", "1", "first", "x86_64", ""};
    char out[6 * 65];
    memset(out, 0, sizeof(out));
    for (unsigned i = 0; i < ARRAY_COUNT(fields); i++)
        strlcpy(out + 65 * i, fields[i], 65);
    return copy_to_user(a[0], out, sizeof(out));
}

long linux_getrandom(const uint64_t a[6])
{
    uint64_t done = 0, total = MIN(a[1], (uint64_t)1 << 20);
    if (a[2] & ~7ull)
        return -EINVAL;
    for (size_t n; done < total; done += n, thread_breathe()) {
        char piece[64];
        n = MIN(total - done, sizeof(piece));
        random_bytes(piece, n);
        if (copy_to_user(a[0] + done, piece, n))
            return done ? (long)done : -EFAULT;
    }
    return (long)done;
}

/* limit_call reads and sets one limit of p, which is the caller or its child; `in` and `out` may be
 * 0. */
static long limit_call(struct process *p, uint64_t resource, vaddr_t in, vaddr_t out)
{
    uint64_t wanted[2], now[2];
    if (in && copy_from_user(wanted, in, sizeof(wanted)))
        return -EFAULT;
    long error = limit_resource(p, resource, in ? wanted : NULL, now);
    return !error && out ? copy_to_user(out, now, sizeof(now)) : error;
}

long linux_prlimit64(const uint64_t a[6])
{
    struct process *me = process_this(), *p = a[0] ? process_find((int)a[0]) : me;
    if (!p)
        return -ESRCH;
    long error = p == me || p->parent == me->pid ? limit_call(p, a[1], a[2], a[3]) : -EPERM;
    if (a[0])
        process_put(p);
    return error;
}

long linux_getrlimit(const uint64_t a[6]) { return limit_call(process_this(), a[0], 0, a[1]); }
long linux_setrlimit(const uint64_t a[6]) { return limit_call(process_this(), a[0], a[1], 0); }

long linux_sysinfo(const uint64_t a[6])
{
    struct {
        int64_t uptime;
        uint64_t loads[3], total, free, shared, buffers, swap_total, swap_free;
        uint16_t processes, pad;
        uint32_t pad2;
        uint64_t high_total, high_free;
        uint32_t unit;
        char rest[4];
    } s = {
        .uptime = (int64_t)(arch_time_ns() / NS_PER_S),
        .total = frame_total_count() * PAGE_BYTES, .free = frame_free_count() * PAGE_BYTES,
        .processes = (uint16_t)process_count(), .unit = 1,
    };
    _Static_assert(sizeof(s) == 112, "Linux's size");
    return copy_to_user(a[0], &s, sizeof(s));
}

long linux_zero(const uint64_t a[6]) { return (void)a, 0; }
