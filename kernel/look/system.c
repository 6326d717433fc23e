/*
 * system.c - the system as a whole, seen by programs: counters, the command line, self-checks.
 */
#include "block/block.h"
#include "base/boot.h"
#include "base/bug.h"
#include "memory/frame.h"
#include "linux/linux.h"
#include "base/panic.h"
#include "message/port.h"
#include "thread/sched.h"
#include "store/view.h"

extern __attribute__((weak)) int kcheck(void); /* of objects and views */

static uint64_t random_state; /* lost updates between CPUs do no harm */
static bool random_seeded;

void random_init(void)
{
    const char *seed = kernel_option("seed");
    random_seeded = seed;
    for (; seed && *seed; seed++)
        random_state = (random_state ^ (uint8_t)*seed) * 0x9e3779b97f4a7c15ull;
    random_bytes(&__stack_chk_guard, sizeof __stack_chk_guard);
}

void random_bytes(void *to, size_t bytes)
{
    uint8_t *out = to;
    for (size_t i = 0; i < bytes; i++) {
        if (i % 8 == 0)
            random_state += 0x9e3779b97f4a7c15ull ^ (random_seeded ? 0 : arch_cycles() << 20);
        uint64_t x = random_state + i;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ x >> 27) * 0x94d049bb133111ebull;
        out[i] = (uint8_t)(x >> 31);
    }
}

static void disk_info(struct kd_system_info *s)
{
    struct block_totals t;
    block_count(&t);
    s->block_reads = t.reads;
    s->block_writes = t.writes;
    s->block_flushes = t.flushes;
    s->block_read_bytes = t.read_bytes;
    s->block_write_bytes = t.write_bytes;
}

static long info_call(vaddr_t user)
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
    disk_info(&s);
    for (unsigned i = 0; i < s.cpus; i++) {
        s.kicks += cpus[i].kicks_sent;
        s.flush_interrupts += cpus[i].flushes_sent;
    }
    return copy_to_user(user, &s, sizeof(s));
}

static long command_line_call(vaddr_t user, uint64_t bytes)
{
    char line[BOOT_LINE_BYTES];
    size_t n = boot_get_line(line) + 1;
    if (bytes < n)
        return -ERANGE;
    return copy_to_user(user, line, n) ? -EFAULT : (long)n;
}

/* Page tables and handles of each process, frames, threads' queues, ports' queues, objects, views. */
static int check_all(void)
{
    bug_stack();
    process_check();
    sched_check();
    port_check();
    if (!frame_check())
        return -EIO;
    return kcheck ? kcheck() : 0;
}

void check_tick(uint64_t now_ns)
{
    static uint64_t next_ns, every_ns = UINT64_MAX;
    uint64_t due = __atomic_load_n(&next_ns, __ATOMIC_RELAXED);

    if (every_ns == UINT64_MAX)
        every_ns = tick_option_ms() * 1000000;
    if (every_ns == 0 || now_ns < due || process_count() == 0 ||
        !__atomic_compare_exchange_n(&next_ns, &due, now_ns + every_ns, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    if (check_all())
        panic("kcheck found errors");
    due = arch_time_ns(); /* half of the time is for programs, however slow the host */
    __atomic_store_n(&next_ns, MAX(now_ns + every_ns, due + (due - now_ns)), __ATOMIC_RELAXED);
}

uint64_t tick_option_ms(void)
{
    uint64_t ms = 0;
    for (const char *c = kernel_option("check_ms"); c && *c >= '0' && *c <= '9' && ms < 10000; c++)
        ms = ms * 10 + (uint64_t)(*c - '0');
    return ms;
}

long system_call(unsigned number, const uint64_t a[6])
{
    switch (number) {
    case KD_SYSTEM_INFO: return info_call(a[0]);
    case KD_KERNEL_COMMAND_LINE: return command_line_call(a[0], a[1]);
    case KD_CHECK: return check_all();
    case KD_LOOK: return look_call((unsigned)a[0], (int)a[1], a[2], a[3]);
    default: return -ENOSYS;
    }
}
