/*
 * kernel_trace.c - the rings of events, and the call that reads them.
 *
 * Aim     what a program does appears, in order and with its numbers; what was overwritten is
 *         counted exactly; nothing that is asked for wrongly does harm; frames are back when the
 *         tracer ended.
 * Method  the test is the tracer, whose own calls and faults are left out; so a child does what is
 *         traced.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "katydid/call.h"
#include "katydid/trace.h"
#include "tap.h"

enum { AT_ONCE = 512, CPUS_MAX = 8, PAGES = 10, UMASK = 95 };
static const uint64_t TEXT = 0x6d61726b;       /* "kram" */

static long trace(long what, long a, long b) { return kd_call3(KD_TRACE, what, a, b); }

static struct kd_trace_event events[AT_ONCE];
static uint64_t positions[CPUS_MAX], lost, misordered, last_ns[CPUS_MAX];
static long cpus;

static void from_now(void)
{
    lost = misordered = 0;
    for (long cpu = 0; cpu < cpus; cpu++) {
        struct kd_trace_read r = {.position = ~0ull};
        trace(KD_TRACE_READ, cpu, (long)&r);
        positions[cpu] = r.position;
        last_ns[cpu] = 0;
    }
}

/* Reads all there is; how many events of the process are of that kind, and have that number. */
static uint64_t count(int pid, unsigned kind, uint64_t c)
{
    uint64_t n = 0;
    for (long cpu = 0; cpu < cpus; cpu++)
        for (long got = 1; got > 0;) {
            struct kd_trace_read r = { .position = positions[cpu],
                                       .events = events,
                                       .count = AT_ONCE };
            got = trace(KD_TRACE_READ, cpu, (long)&r);
            lost += r.lost;
            positions[cpu] = r.position;
            for (long i = 0; i < got; i++) {
                misordered += events[i].time_ns < last_ns[cpu] || events[i].cpu != cpu;
                last_ns[cpu] = events[i].time_ns;
                n += events[i].process == (uint32_t)pid && events[i].kind == kind &&
                     events[i].c == c;
            }
        }
    return n;
}

/* A child that calls umask so often. Its pid, when it has ended. */
static int child_calls(unsigned times)
{
    int pid = fork(), status;
    if (pid == 0) {
        while (times--)
            kd_call3(UMASK, 0, 0, 0);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return pid;
}

/* A child that touches pages of new memory. */
static int child_touches(void)
{
    int pid = fork(), status;
    if (pid == 0) {
        volatile char *memory = mmap(NULL, PAGES * KD_PAGE_BYTES, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (unsigned i = 0; i < PAGES; i++)
            memory[i * KD_PAGE_BYTES] = 1;
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return pid;
}

static void what_a_child_does_is_seen(void)
{
    from_now();
    int pid = child_calls(100);
    tap_ok(count(pid, KD_TRACE_CALL, UMASK) == 100, "each_call_of_a_child_is_an_event");
    from_now();
    pid = child_calls(100);
    tap_ok(count(pid, KD_TRACE_RETURN, UMASK) == 100, "each_return_is_an_event");
    from_now();
    pid = child_touches();
    tap_ok(count(pid, KD_TRACE_FAULTED, 0) > 0, "its_faults_are_events");
    from_now();
    kd_call3(UMASK, 0, 0, 0);
    tap_ok(count(getpid(), KD_TRACE_CALL, UMASK) == 0, "the_tracers_own_calls_are_left_out");
    from_now();
    trace(KD_TRACE_MARK_IT, (long)TEXT, 0);
    tap_ok(count(getpid(), KD_TRACE_MARK, 0) == 1, "a_mark_is_an_event");
    from_now();
    kd_call4(KD_TRACE, KD_TRACE_GRANT_IT, KD_TRACE_LINKED | 7 << 8, 5, KD_RIGHT_OWN);
    tap_ok(count(getpid(), KD_TRACE_GRANT, KD_TRACE_LINKED | 7 << 8) == 1, "so_is_a_grant");
}

static void what_was_overwritten_is_counted(void)
{
    from_now();
    uint64_t before = 0, after = 0;
    for (long cpu = 0; cpu < cpus; cpu++)
        before += positions[cpu];
    int pid = child_calls(KD_TRACE_EVENTS * (unsigned)cpus);
    uint64_t seen = 0;
    for (long cpu = 0; cpu < cpus; cpu++) {
        struct kd_trace_read r;
        long got;
        do {
            r = (struct kd_trace_read){ .position = positions[cpu],
                                        .events = events,
                                        .count = AT_ONCE };
            got = trace(KD_TRACE_READ, cpu, (long)&r);
            seen += got > 0 ? (uint64_t)got : 0;
            lost += r.lost;
            positions[cpu] = r.position;
        } while (got > 0);
        after += positions[cpu];
    }
    tap_ok(lost > 0 && pid > 0, "a_ring_that_went_round_has_lost_events (%llu)",
           (unsigned long long)lost);
    tap_ok(seen + lost == after - before, "those_read_and_those_lost_are_all (%llu + %llu)",
           (unsigned long long)seen, (unsigned long long)lost);
}

static void wrong_calls_do_no_harm(void)
{
    struct kd_trace_read r = {.events = (void *)0xffff800000000000ull, .count = AT_ONCE};
    tap_ok(trace(99, 0, 0) == -EINVAL && trace(-1, 0, 0) == -EINVAL,
           "an_unknown_request_is_refused");
    tap_ok(trace(KD_TRACE_READ, 64, (long)&r) == -EINVAL &&
               trace(KD_TRACE_READ, -1, (long)&r) == -EINVAL,
           "a_cpu_that_is_not_there_is_refused");
    tap_ok(trace(KD_TRACE_READ, 0, 0) == -EFAULT &&
               trace(KD_TRACE_READ, 0, (long)0xffff800000000000ull) == -EFAULT,
           "a_bad_structure_is_refused");
    tap_ok(trace(KD_TRACE_READ, 0, (long)&r) == -EFAULT, "events_do_not_go_to_the_kernels_memory");
    r.events = events;
    r.position = ~0ull - 5;
    r.count = ~0ull;
    tap_ok(trace(KD_TRACE_READ, 0, (long)&r) >= 0 && r.lost == 0, "a_position_to_come_is_now");
    tap_ok(trace(KD_TRACE_START, 0, 0) == -EBUSY, "one_traces_at_a_time");
    int status = 0, pid = fork();
    if (pid == 0)
        _exit(trace(KD_TRACE_STOP, 0, 0) == -EPERM && trace(KD_TRACE_START, 0, 0) == -EPERM ? 7
                                                                                            : 0);
    waitpid(pid, &status, 0);
    tap_ok(WEXITSTATUS(status) == 7, "another_process_can_neither_stop_nor_start");
}

/* ---- badges: the points are the kernel's own, so the tracer's are seen, too ---- */

static long port;
static void *answers_one(void *unused)
{
    struct kd_message m = {.handle = -1}, reply = {.handle = -1};
    if (kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1) == 0)
        kd_call3(KD_PORT_REPLY, (long)m.token, (long)&reply, 0);
    return unused;
}

/* How many events of this badge say so, each with these rights and by this process. */
static uint64_t badge_events(enum kd_trace_badge what, uint64_t number, uint64_t rights)
{
    uint64_t n = 0, server = (uint64_t)getpid();
    for (long cpu = 0; cpu < cpus; cpu++)
        for (long got = 1; got > 0;) {
            struct kd_trace_read r = {.position = positions[cpu], .events = events,
                                      .count = AT_ONCE};
            got = trace(KD_TRACE_READ, cpu, (long)&r);
            positions[cpu] = r.position;
            for (long i = 0; i < got; i++)
                n += events[i].kind == KD_TRACE_BADGE && events[i].c == (what | server << 8) &&
                     events[i].a == number && events[i].b == rights && events[i].process == server;
        }
    return n;
}

static void badges_are_seen(void)
{
    enum { NUMBER = 4711, ALL = KD_RIGHT_CALL | KD_RIGHT_GRANT | KD_RIGHT_OWN };
    enum { LESS = KD_RIGHT_CALL };
    static const struct { enum kd_trace_badge what; uint64_t rights; const char *name; } seen[] = {
        {KD_TRACE_MADE, ALL, "a_badge_that_is_made"}, {KD_TRACE_USED, ALL, "called_by"},
        {KD_TRACE_PASSED, LESS, "sent_with_fewer_rights"}, {KD_TRACE_GOT, LESS, "got"},
        {KD_TRACE_ENDED, 0, "and_ended_is_an_event"}};
    uint64_t start[CPUS_MAX];
    pthread_t other;
    from_now();
    memcpy(start, positions, sizeof start);
    port = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    long badge = kd_call3(KD_BADGE_CREATE, port, NUMBER, ALL);
    struct kd_message m = {.handle = (int)badge, .handle_rights = LESS};
    pthread_create(&other, NULL, answers_one, NULL);
    long r = kd_call3(KD_PORT_CALL, badge, (long)&m, 0);
    pthread_join(other, NULL);
    kd_call3(KD_BADGE_END, port, NUMBER, 0);
    for (unsigned i = 0; i < sizeof seen / sizeof *seen; i++) {
        memcpy(positions, start, sizeof start);
        tap_ok(r == 0 && badge_events(seen[i].what, NUMBER, seen[i].rights) == 1, "%s",
               seen[i].name);
    }
    kd_call3(KD_HANDLE_CLOSE, badge, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
}

static uint64_t free_bytes(void)
{
    struct kd_system_info s;
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return s.free_bytes;
}

static void a_tracer_that_dies_stops(void)
{
    int status, pid = fork();
    if (pid == 0) {
        trace(KD_TRACE_START, 0, 0);
        *(volatile int *)0 = 1;
    }
    waitpid(pid, &status, 0);
    tap_ok(WIFSIGNALED(status), "a_tracer_dies");
    long again = trace(KD_TRACE_START, 0, 0);
    tap_ok(again == cpus, "then_another_can_trace");
    trace(KD_TRACE_STOP, 0, 0);
}

int main(void)
{
    tap_plan(26);
    child_calls(1); /* what a first child allocates stays */
    uint64_t free_before = free_bytes();
    cpus = trace(KD_TRACE_START, 0, 0);
    if (!tap_ok(cpus > 0 && cpus <= CPUS_MAX, "tracing_starts"))
        return 1;
    what_a_child_does_is_seen();
    badges_are_seen();
    tap_ok(misordered == 0, "times_rise_on_each_cpu");
    what_was_overwritten_is_counted();
    wrong_calls_do_no_harm();
    tap_ok(trace(KD_TRACE_STOP, 0, 0) == 0, "tracing_stops");
    from_now();
    int pid = child_calls(10);
    uint64_t calls = count(pid, KD_TRACE_CALL, UMASK);
    a_tracer_that_dies_stops();
    int64_t missing = (int64_t)(free_before - free_bytes());
    tap_ok(calls == 0 && missing < (int64_t)(KD_TRACE_EVENTS * sizeof(events[0]) / 2),
           "then_nothing_is_recorded_and_the_rings_are_back (%lld bytes less)", (long long)missing);
    return tap_end();
}
