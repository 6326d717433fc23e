/*
 * system.c - the system as a whole, seen by programs: counters, the command line, self-checks.
 */
#include "block.h"
#include "boot.h"
#include "frame.h"
#include "linux.h"
#include "view.h"

extern __attribute__((weak)) int kcheck(void); /* of objects and views */

void random_bytes(void *to, size_t bytes)
{
    static uint64_t state; /* lost updates between CPUs do no harm */
    uint8_t *out = to;
    for (size_t i = 0; i < bytes; i++) {
        if (i % 8 == 0)
            state += 0x9e3779b97f4a7c15ull ^ arch_cycles() << 20;
        uint64_t x = state + i;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ x >> 27) * 0x94d049bb133111ebull;
        out[i] = (uint8_t)(x >> 31);
    }
}

static void disk_info(struct kd_system_info *s)
{
    static const char *const names[] = {"store", "import", "export"};
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        const struct block_device *d = block_find(names[i]);
        if (!d)
            continue;
        s->block_reads += d->reads;
        s->block_writes += d->writes;
        s->block_flushes += d->flushes;
        s->block_read_bytes += d->read_bytes;
        s->block_write_bytes += d->write_bytes;
    }
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

static long check_call(void)
{
    process_check();
    if (!frame_check())
        return -EIO;
    return kcheck ? kcheck() : 0;
}

long system_call(unsigned number, const uint64_t a[6])
{
    switch (number) {
    case KD_SYSTEM_INFO: return info_call(a[0]);
    case KD_KERNEL_COMMAND_LINE: return command_line_call(a[0], a[1]);
    case KD_CHECK: return check_call();
    case KD_LOOK: return look_call((unsigned)a[0], (int)a[1], a[2], a[3]);
    default: return -ENOSYS;
    }
}
