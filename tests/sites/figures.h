/*
 * figures.h - what the programs share that measure what containers of another site cost
 * (user/sites/figures.md): windows, which are counted at both sites, and phases, which tell the
 * home where a window begins and ends.
 *
 * A window prints: its name, a phase, how often, instructions here, those of `link`, flushes,
 * nanoseconds, and what was said to the home and by it; the home says at each phase what it has
 * spent since it was started. The window is between its phase and the next one.
 */
#ifndef TESTS_SITES_FIGURES_H
#define TESTS_SITES_FIGURES_H

#include <errno.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <katydid/call.h>

#include "tests/bench/measure.h"
#include "user/sites/link.h"
#include "user/sites/remote.h"

static const char *name;                /* of the container; it may be SITE:NAME */
static ps_container *c;
static int is_remote, quiet;            /* quiet: this site says no phases, another one does */
static uint64_t phase_now;
static volatile uint64_t sink;

static void pause_ms(long ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }

static void need(int error, const char *what)
{
    if (error >= 0) return;
    printf("%s: %s: %s (%d)\n", name, what, ps_strerror(-error), error);
    exit(1);
}

/* ---- what was spent ---- */

enum { SAID = KD_WORDS + 1 };           /* the last: pages whose contents came */
struct spent { uint64_t instructions, link, flushes, ns, said[SAID]; };

/* What link does for who calls it is charged to the caller. A tick is a nanosecond. */
static uint64_t link_served(void)
{
    static struct link_site all[LINK_SITES_MAX + 1];
    struct kd_message m = {.kind = LINK_LOOK, .buffer = all, .buffer_bytes = sizeof all,
                           .handle = -1};
    long port = kd_call3(KD_NAME_FIND, (long)LINK_NAME, 0, 0);
    if (port < 0) return 0; /* no site */
    need((int)kd_call3(KD_PORT_CALL, port, (long)&m, 0), "link");
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return m.word[1];
}

/* What all programs but link have spent, with the kernel's work for them. The rest is link's: what
 * comes by its streams interrupts an idle CPU. */
static uint64_t others_spent(void)
{
    static struct kd_process_info all[128];
    struct timespec own;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own); /* and so this process is charged up to now */
    long n = kd_call3(KD_PROCESS_LIST, (long)all, 128, 0);
    uint64_t ns = 0;
    for (long i = 0; i < n; i++)
        if (strcmp(all[i].name, "link")) ns += all[i].cpu_ns;
    return ns - link_served();
}

static void said(uint64_t now[SAID])
{
    char store[KD_NAME_MAX];
    struct kd_message m = {.kind = REMOTE_COUNTS, .handle = -1},
                      came = {.kind = REMOTE_PAGES, .handle = -1};
    snprintf(store, sizeof store, "%.*s/store", (int)strcspn(name, ":"), name);
    long port = kd_call3(KD_NAME_FIND, (long)store, 0, 0);
    need(port < 0 ? (int)port : (int)kd_call3(KD_PORT_CALL, port, (long)&m, 0), "counts");
    need((int)kd_call3(KD_PORT_CALL, port, (long)&came, 0), "pages");
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    memcpy(now, m.word, sizeof m.word);
    now[KD_WORDS] = came.word[0];
}

static struct spent so_far(void)
{
    struct kd_system_info s;
    struct spent now = {0};
    uint64_t others = others_spent();
    if (is_remote) said(now.said);
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    now.flushes = s.block_flushes;
    now.ns = s.uptime_ns;
    now.instructions = counter() - s.idle_cycles;
    now.link = now.instructions - others;
    return now;
}

static void print(const char *what, uint64_t phase, uint64_t count, const struct spent *from)
{
    struct spent now = so_far();
    printf("= %s %llu %llu %llu %llu %llu %llu", what, (unsigned long long)phase,
           (unsigned long long)count,
           (unsigned long long)(now.instructions - from->instructions),
           (unsigned long long)(now.link - from->link),
           (unsigned long long)(now.flushes - from->flushes),
           (unsigned long long)(now.ns - from->ns));
    for (int i = 0; i < SAID; i++)
        printf(" %llu", (unsigned long long)(now.said[i] - from->said[i]));
    printf("\n");
}

/* ---- phases: in a page, which the home's program sleeps on ---- */

/* steals: so many pages the home is to store to now; READY: it serves; END: it need not. */
#define READY (~(uint64_t)0)
#define END (READY - 1)
struct phase { uint64_t number, steals; char rest[4080]; };

static struct phase *phase(void) { return ps_named(c, "phase", sizeof(struct phase)); }

static int phase_set(void *steals)
{
    struct phase *p = phase();
    if (!p) return -errno;
    p->number = phase_now;
    p->steals = *(uint64_t *)steals;
    return 0;
}

static int phase_see(void *seen)
{
    const struct phase *p = phase();
    if (!p) return -errno;
    *(struct phase *)seen = *p;
    return 0;
}

static int phase_wait(void *seen)
{
    int error = phase_see(seen);
    if (!error && ((struct phase *)seen)->number < phase_now) ps_retry();
    return error;
}

/* The home says now what it has spent, and is quiet again when this returns. */
static void mark(uint64_t steals)
{
    if (!is_remote || quiet) return;
    phase_now++;
    need(ps_transaction(phase_set, &steals), "phase");
    if (!steals) pause_ms(300);
}

/* Until another site says that it is the end; stores to pages for it by `steal`. */
static void serve(int (*steal)(void *))
{
    struct spent zero = {0};
    struct phase seen = {0};
    uint64_t ready = READY;
    need(ps_transaction(phase_see, &seen), "serve");
    phase_now = seen.number;
    need(ps_transaction(phase_set, &ready), "serve");
    seen.steals = 0; /* that was the end of those before */
    while (seen.steals != END) {
        phase_now = seen.number + 1;
        need(ps_transaction(phase_wait, &seen), "serve");
        print("home", seen.number, 1, &zero);
        if (!seen.steals || seen.steals == END) continue;
        struct spent from = so_far();
        (void)ps_transaction(steal, &seen.steals);
        print("stolen", seen.number, seen.steals, &from);
    }
}

/* Goes on behind the last phase of those that went before, when the home serves. */
static void ready(void)
{
    struct phase seen = {0};
    while (seen.steals != READY) {
        pause_ms(20);
        need(ps_transaction(phase_see, &seen), "ready");
    }
    phase_now = seen.number;
}

/* `times` transactions of fn(arg) between two looks at both sites, `count` things in all. */
static inline void window(const char *what, uint64_t count, uint64_t times, int (*fn)(void *),
                          void *arg)
{
    mark(0);
    struct spent from = so_far();
    for (uint64_t i = 0; i < times; i++) {
        int error = ps_transaction(fn, arg);
        need(error == -ECANCELED ? 0 : error, what);
    }
    print(what, phase_now, count, &from);
    mark(0);
}

static inline uint64_t draw(uint64_t *seed, uint64_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % below;
}

static void opens(const struct ps_layout *layout, int flags)
{
    while (!(c = ps_open(name, PS_WRITE | flags, layout))) {
        bool later = errno == ENOENT || errno == EACCES || errno == ENOTCONN || errno == EOWNERDEAD;
        need(later ? 0 : -errno, "open");
        pause_ms(20);
    }
}

/* Words that both programs have. False: it is none of them. */
static inline bool common(const char *w, int (*steal)(void *))
{
    if (!strcmp(w, "serve")) serve(steal);
    else if (!strcmp(w, "ready")) ready();
    else if (!strcmp(w, "quiet")) quiet = 1;
    else if (!strcmp(w, "end")) mark(END);
    else return false;
    return true;
}

#endif
