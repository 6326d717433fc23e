/*
 * stretch.c - the longest stretch (trace.h).
 *
 * Owns      each CPU's last point, and the longest stretch.
 * Not here  where stretches begin and end: calls and faults (look/trace_call.c), other traps
 *           (arch's trap.c), halts (tlb.c), switches (trace.c), thread_breathe and yields
 *           (thread.c).
 *
 * Locks: none. A CPU's last point is its own, as interrupts are off; of two stretches that end at
 * the same moment on two CPUs either may stay as the longest.
 */
#include "thread/trace.h"

#include "base/boot.h"
#include "thread/thread.h"

bool stretch_on;
static uint64_t limit;
static struct stretch longest;
/* since 0: in user mode or halted */
static struct { uint64_t since, place; uint32_t what; } last[CPU_MAX];

#define CALLER ((uint64_t)__builtin_return_address(0))

void stretch_init(void)
{
    const char *text = kernel_option("stretch"), *end = text;
    while (end && *end >= '0' && *end <= '9')
        end++;
    stretch_on = end != text && !*end;
    limit = boot_option_number("stretch");
    if (text && !stretch_on)
        printk("stretch=%s: not a number: nothing is measured", text);
}

static void measure(uint64_t to)
{
    unsigned cpu = arch_cpu_id();
    uint64_t ticks = arch_cycles() - last[cpu].since;
    if (last[cpu].since == 0 || ticks <= longest.ticks)
        return;
    longest = (struct stretch){ticks, last[cpu].place, to, last[cpu].what, thread_this()->pid};
    if (limit && ticks > limit)
        panic("%lu ticks without a point that serves shootdowns and yields, limit %lu; what %u, "
              "pid %d, from %lx",
              ticks, limit, longest.what, longest.pid, longest.from);
}

static void begin(uint32_t what, uint64_t place)
{
    unsigned cpu = arch_cpu_id();
    last[cpu].place = place;
    last[cpu].what = what;
    last[cpu].since = arch_cycles();
}

void stretch_enter(uint32_t what) { begin(what, CALLER); }

void stretch_passed(uint32_t what)
{
    measure(CALLER);
    begin(what ? what : last[arch_cpu_id()].what, CALLER);
}

void stretch_end(void)
{
    measure(CALLER);
    last[arch_cpu_id()].since = 0;
}

struct stretch stretch_longest(bool forget)
{
    struct stretch s = longest;
    if (forget)
        longest = (struct stretch){0};
    return s;
}
