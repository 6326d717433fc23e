/*
 * system.c - the system as a whole, seen by programs: counters, the command line, self-checks.
 */
#include "block/block.h"
#include "base/boot.h"
#include "look/look.h"
#include "memory/frame.h"
#include "message/message.h"
#include "process/handle.h"
#include "store/store.h"

long kd_system_info(const uint64_t a[6])
{
    struct kd_system_info s = counters;
    s.memory_bytes = frame_total_count() * PAGE_BYTES;
    s.free_bytes = frame_free_count() * PAGE_BYTES;
    s.uptime_ns = arch_time_ns();
    s.cpus = arch_cpu_count();
    s.idle_cycles = arch_idle_cycles();
    s.resident_pages = evict_resident_count();
    s.copies = view_copy_count();
    s.processes = process_count();
    s.unknown_calls = syscall_unknown_count;
    block_count(&s);
    for (unsigned i = 0; i < s.cpus; i++) {
        s.kicks += cpus[i].kicks_sent;
        s.flush_interrupts += cpus[i].flushes_sent;
    }
    return copy_to_user(a[0], &s, sizeof(s));
}

long kd_kernel_command_line(const uint64_t a[6])
{
    size_t n = strlen(boot_info.line) + 1;
    if (a[1] < n)
        return -ERANGE;
    return copy_to_user(a[0], boot_info.line, n) ? -EFAULT : (long)n;
}

/* Page tables and handles of each process with the queues of ports behind these, frames, threads'
 * queues, objects, views. */
static int check_all(void)
{
    process_check();
    sched_check();
    thread_breathe();
    uint64_t uses[FRAME_USES] = {0};
    bool good = true;
    for (paddr_t at = 0; frame_of(at); at += FRAME_RUN_MAX * PAGE_BYTES) {
        good &= frame_check(at, uses);
        thread_breathe();
    }
    return good ? kcheck() : -EIO;
}

long kd_check(const uint64_t a[6])
{
    (void)a;
    return system_allows(KD_RIGHT_LOOK) ? check_all() : -EPERM;
}

void check_tick(uint64_t now_ns)
{
    static uint64_t next_ns, every_ns = UINT64_MAX;
    uint64_t due = __atomic_load_n(&next_ns, __ATOMIC_RELAXED);

    if (every_ns == UINT64_MAX)
        every_ns = boot_option_number("check_ms") % (1ull << 40) * 1000000;
    if (every_ns == 0 || now_ns < due || process_count() == 0 ||
        !__atomic_compare_exchange_n(&next_ns, &due, now_ns + every_ns, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;
    if (check_all())
        panic("kcheck found errors");
    due = arch_time_ns(); /* half of the time is for programs, however slow the host */
    __atomic_store_n(&next_ns, MAX(now_ns + every_ns, due + (due - now_ns)), __ATOMIC_RELAXED);
}
