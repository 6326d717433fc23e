/*
 * top.c - what every process does, as it does it.
 *
 *   top            at a terminal: once a second, until q or Ctrl-C
 *   top N [MS]     N times, MS milliseconds (1000) apart, one below the other
 *
 * Values are per second since the last time; what a row has are the process's own faults, waits and
 * commits, what the head has is the whole system's. logKiB is what managers took of its commits for
 * their logs, diskKiB what it had disks do (a manager), or managers bring (any other program). Of
 * each site whose containers are used here: pages that are cached, and waited for at the moment.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <katydid/abi.h>

#include "sites/site_look.h"

#define PROCESSES_MAX 256

struct state {
    struct kd_system_info system;
    struct kd_process_info process[PROCESSES_MAX];
    long count;
    uint64_t now_ns;
    size_t sites;
    struct link_site site[SITE_LOOKS_MAX];
    uint64_t cached[SITE_LOOKS_MAX][KD_WORDS];
};

static void look(struct state *s)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    s->now_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    syscall(KD_SYSTEM_INFO, &s->system);
    s->count = syscall(KD_PROCESS_LIST, s->process, PROCESSES_MAX);
    if (s->count > PROCESSES_MAX)
        s->count = PROCESSES_MAX;
    s->sites = sites_look(s->site);
    for (size_t i = 1; i < s->sites; i++)
        if (!site_cached(&s->site[i], s->cached[i]))
            s->site[i].remote = 0;
}

static const struct kd_process_info *before(const struct state *old, int pid)
{
    static const struct kd_process_info nothing;
    for (long i = 0; i < old->count; i++)
        if (old->process[i].pid == pid)
            return &old->process[i];
    return &nothing;
}

static double rate(uint64_t now, uint64_t then, double seconds)
{
    return now > then ? (double)(now - then) / seconds : 0;
}

static int by_cpu(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static void print_sites(const struct state *s, const struct state *old, double seconds)
{
    for (size_t i = 1; i < s->sites; i++) {
        const uint64_t *now = s->cached[i], *then = now;
        for (size_t k = 1; k < old->sites; k++)
            if (strcmp(old->site[k].site, s->site[i].site) == 0)
                then = old->cached[k];
        if (s->site[i].remote)
            printf("site %s: %llu pages, %llu to write, %llu waited for; %.0f GET, %.0f called, "
                   "%.0f gone, %.0f commits\n",
                   s->site[i].site, (unsigned long long)now[0], (unsigned long long)now[1],
                   (unsigned long long)now[2], rate(now[3], then[3], seconds),
                   rate(now[4], then[4], seconds), rate(now[5], then[5], seconds),
                   rate(now[7], then[7], seconds));
    }
}

static void print_head(const struct state *s, const struct state *old, double seconds)
{
#define RATE(field) rate(s->system.field, old->system.field, seconds)
    printf("up %.0f s, %u CPUs, %llu of %llu MiB free, %ld processes\n",
           (double)s->system.uptime_ns / 1e9, s->system.cpus,
           (unsigned long long)s->system.free_bytes >> 20,
           (unsigned long long)s->system.memory_bytes >> 20, s->count);
    printf("per second: faults %.0f read %.0f write, %.0f callbacks, %.0f shootdowns\n"
           "            %.0f deadlocks, %.0f publications, %.0f evictions\n", RATE(read_faults),
           RATE(write_faults), RATE(callbacks), RATE(shootdowns), RATE(deadlocks),
           RATE(publications), RATE(evictions));
    printf("            disk %.0f reads (%.0f KiB), %.0f writes (%.0f KiB), %.0f flushes\n",
           RATE(block_reads), RATE(block_read_bytes) / 1024, RATE(block_writes),
           RATE(block_write_bytes) / 1024, RATE(block_flushes));
#undef RATE
    print_sites(s, old, seconds);
    printf("  pid  cpu%%     KiB  reads writes waits commits aborts  logKiB diskKiB name\n");
}

static void print_rows(const struct state *s, const struct state *old, double seconds)
{
    struct { double cpu; const struct kd_process_info *now; } rows[PROCESSES_MAX];
    for (long i = 0; i < s->count; i++) {
        rows[i].now = &s->process[i];
        rows[i].cpu =
            rate(s->process[i].cpu_ns, before(old, s->process[i].pid)->cpu_ns, seconds) / 1e7;
    }
    qsort(rows, (size_t)s->count, sizeof(rows[0]), by_cpu);
    for (long i = 0; i < s->count && i < 18; i++) {
        const struct kd_process_info *n = rows[i].now, *o = before(old, n->pid);
#define RATE(field) rate(n->stats.field, o->stats.field, seconds)
        printf("%5d %5.1f %7llu %6.0f %6.0f %5.0f %7.0f %6.0f %7.0f %7.0f %.10s\n", n->pid,
               rows[i].cpu, (unsigned long long)n->frames * 4, RATE(read_faults),
               RATE(write_faults), RATE(lock_waits), RATE(commits), RATE(aborts),
               RATE(log_bytes) / 1024,
               RATE(pages_read) * KD_PAGE_BYTES / 1024 + RATE(disk_bytes) / 1024, n->name);
#undef RATE
    }
    fflush(stdout);
}

/* Sleeps; true: a key said that it is enough. */
static int wait_ms(long ms, int keys)
{
    for (; ms > 0; ms -= 50) {
        const struct timespec t = {0, (ms < 50 ? ms : 50) * 1000000l};
        char c;
        if (keys && read(0, &c, 1) == 1 && (c == 'q' || c == 3))
            return 1;
        nanosleep(&t, NULL);
    }
    return 0;
}

static void show(long times, long ms, int live)
{
    static struct state states[2];
    look(&states[1]);
    for (long i = 0; live || i < times; i++) {
        struct state *s = &states[i % 2], *old = &states[(i + 1) % 2];
        if (wait_ms(ms, live))
            return;
        look(s);
        double seconds = (double)(s->now_ns - old->now_ns) / 1e9;
        if (live)
            printf("\x1b[H\x1b[J");
        print_head(s, old, seconds);
        print_rows(s, old, seconds);
    }
}

int main(int argc, char **argv)
{
    struct termios cooked, raw;
    char *end = "";
    long times = argc > 1 ? strtol(argv[1], &end, 10) : 0;
    long ms = argc > 2 ? atol(argv[2]) : 1000;
    if (*end || (argc > 1 && times < 1) || ms < 1 || ms > 3600000) {
        fprintf(stderr, "use: top [TIMES [MILLISECONDS]]   (q ends it)\n");
        return 2;
    }
    if (times || tcgetattr(0, &cooked)) {
        show(times ? times : 1, ms, 0);
        return 0;
    }
    raw = cooked;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 0;
    tcsetattr(0, TCSANOW, &raw);
    show(0, ms, 1);
    tcsetattr(0, TCSANOW, &cooked);
    return 0;
}
