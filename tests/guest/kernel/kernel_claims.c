/*
 * kernel_claims.c - objects end while calls of managers work on transactions (store/commit.md).
 *
 * Aim     a transaction has parts at two bases: the end of one's object, or of that base, frees
 *         nothing that a call of the other one is walking over, which comes to its end, as the
 *         transaction does; nor what a call of a base walks over that a helper has stored. Who
 *         stands on a base and destroys objects, in vain or not, holds up nobody's commits there,
 *         nor the end of that base when it is killed. A manager that claims a commit again and
 *         again holds up no end of an object.
 * Method  two managers in this process; all of a transaction's pages are stored to alternately.
 *         When the second one is to decide, it tells and publishes, and a thread ends the object
 *         of the first one, which has voted, or its port. Then threads that destroy an object with
 *         large tables and a pinned page: commits of others are counted against their calls.
 */
#include "stacked_manager.h"

#include <sched.h>
#include <stdio.h>

enum { PAGES = 1000, ROUNDS = 16, TELLS = 3, WAIT_MS = 10000 };

/* ---- two bases ---- */

static struct manager {
    int port, object;
    uint64_t at, csn;
    const char *name;
} bases[2] = {{.name = "claims.0"}, {.name = "claims.1"}};
static _Atomic bool deciding, ending, ended;
static _Atomic long wrong;
static struct kd_message asked;         /* the COMMIT of one base (asks_beside) */
static bool tells_first;                /* who decides tells all of it some times, and publishes */

static long publish(struct manager *b, const struct kd_message *m)
{
    struct kd_publish p = {m->word[0], m->token, ++b->csn};
    return kd_call3(KD_TXN_PUBLISH, (long)&p, 1, 0);
}

static long tell(uint64_t view, uint64_t token)
{
    static __thread uint8_t buffer[PAGES * 64];
    struct kd_diff d = {.view = view, .token = token};
    long e = 0;
    while (!e && d.cursor != ~0ull) {
        d.buffer = buffer;
        d.buffer_bytes = sizeof buffer;
        e = kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
    }
    return e;
}

static void serve(struct manager *b, const struct kd_message *m)
{
    unsigned part = (unsigned)(m->word[3] >> KD_PART_SHIFT);
    if (part == KD_PART_ALL) {          /* others serve it: asks_beside */
        asked = *m;
        deciding = true;
        return;
    }
    if (part == KD_PART_VOTE) {
        wrong += tell(m->word[0], m->token) != 0;
        wrong += kd_call3(KD_TXN_VOTED, (long)m->word[0], (long)m->token, 0) != 0;
        return;
    }
    deciding = deciding || part == KD_PART_DECIDE;
    for (int i = 0; i < TELLS && part == KD_PART_DECIDE && (tells_first || i == 0); i++)
        wrong += tell(m->word[0], m->token) != 0;
    wrong += publish(b, m) != 0 && b == &bases[1]; /* the other one may have ended */
}

static void *manages(void *base)
{
    struct manager *b = base;
    uint8_t buffer[KD_PAGE_BYTES];
    for (;;) {
        struct kd_message m = {.buffer = buffer, .buffer_bytes = sizeof buffer};
        if (kd_call3(KD_PORT_RECEIVE, b->port, (long)&m, -1)) return NULL;
        if (m.kind == (uint32_t)KD_MSG_COMMIT) serve(b, &m);
    }
}

static bool manager_start(struct manager *b, pthread_t *t)
{
    struct kd_voter k = {.life = 1};
    b->port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    struct kd_object_create c = {.port = b->port, .commit_port = b->port, .pages = PAGES,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .name = "claims"};
    b->object = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    b->at = c.base;
    struct kd_supply s = {.object = b->object, .source = KD_SUPPLY_ZERO, .count = PAGES,
                          .rights = KD_READ | KD_WRITE};
    memset(k.name, (int)(b - bases) + 1, sizeof k.name);
    return b->object >= 0 && kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) == 0 &&
           kd_call3(KD_SPACE_ATTACH, getpid(), b->object, KD_RIGHT_READ | KD_RIGHT_WRITE) == 0 &&
           kd_call3(KD_NAME_SET, (long)b->name, b->port, 0) == 0 &&
           kd_call3(KD_PORT_VOTES, b->port, (long)&k, 0) == 0 &&
           pthread_create(t, NULL, manages, b) == 0;
}

static int write_all(void *value)
{
    for (unsigned i = 0; i < PAGES; i++)
        for (int b = 0; b < 2; b++)     /* the last one decides */
            *(volatile uint64_t *)(bases[b].at + i * KD_PAGE_BYTES) = (uint64_t)(uintptr_t)value;
    return 0;
}

static int count_seen(void *value)
{
    uint64_t *v = value, seen = 0;
    for (unsigned i = 0; i < PAGES; i++)
        seen += *(volatile uint64_t *)(bases[1].at + i * KD_PAGE_BYTES) == *v;
    *v = seen;
    return 0;
}

static _Atomic int result;
static int (*_Atomic writes)(void *) = write_all;
static void *client(void *value)
{
    result = run(writes, value, KD_SERIALISABLE, 0);
    view_anew();
    ended = true;
    return value;
}

static void *ends(void *port_too)
{
    while (!deciding) sched_yield();
    ending = true;
    if (port_too) kd_call3(KD_HANDLE_CLOSE, bases[0].port, 0, 0);
    kd_call3(KD_OBJECT_DESTROY, bases[0].object, 0, 0);
    return port_too;
}

/* Is the transaction what was decided, and all of it there? False, too: it does not end. */
static bool round_of(bool port_too, uint64_t value)
{
    pthread_t managers[2], writer, ender;
    uint64_t seen = value;
    for (int b = 0; b < 2; b++)
        if (!manager_start(&bases[b], &managers[b])) return false;
    deciding = ended = false;
    pthread_create(&ender, NULL, ends, port_too ? &ender : NULL);
    pthread_create(&writer, NULL, client, (void *)(uintptr_t)value);
    for (int i = 0; i < WAIT_MS && !ended; i++) pause_ms(1);
    if (!ended) return false;
    pthread_join(writer, NULL);
    pthread_join(ender, NULL);
    bool good = result == 0 && run(count_seen, &seen, KD_SERIALISABLE, 0) == 0 && seen == PAGES;
    view_anew();
    for (int b = 0; b < 2; b++) {
        if (b || !port_too) kd_call3(KD_HANDLE_CLOSE, bases[b].port, 0, 0);
        pthread_join(managers[b], NULL);
        kd_call3(KD_SPACE_DETACH, getpid(), bases[b].object, 0);
        kd_call3(KD_HANDLE_CLOSE, bases[b].object, 0, 0);
    }
    return good;
}

static bool rounds(bool port_too)
{
    int good = 0;
    for (int i = 0; i < ROUNDS && good == i; i++) {
        tells_first = i % 2;
        good += round_of(port_too, (uint64_t)i + 1);
    }
    return tap_ok(good == ROUNDS && wrong == 0,
                  "%s ends while the other one tells and publishes its part (%d, %ld)",
                  port_too ? "a base" : "an object", good, wrong);
}

/* ---- a manager that claims a commit again and again ---- */

enum { ASKERS = 6, ASKS_MOST = 800, ASKED_ROUNDS = 8 };
static _Atomic long asks;
static _Atomic bool destroyed;

static int write_one_base(void *value)
{
    for (unsigned i = 0; i < PAGES; i++)
        *(volatile uint64_t *)(bases[0].at + i * KD_PAGE_BYTES) = (uint64_t)(uintptr_t)value;
    return 0;
}

/* Those count that find a page still, behind the beginning of the end. */
static void *asks_on(void *unused)
{
    static __thread uint8_t buffer[PAGES * 64];
    while (!destroyed && asks < ASKS_MOST) {
        struct kd_diff d = {.view = asked.word[0], .token = asked.token, .buffer = buffer,
                            .buffer_bytes = sizeof buffer};
        asks += kd_call3(KD_TXN_DIFF, (long)&d, 0, 0) == 0 && d.pages && ending;
    }
    return unused;
}

/* Threads of the manager have the commit nearly always: its object ends all the same. */
static bool asked_round(void)
{
    pthread_t writer, ender, askers[ASKERS], serves;
    bool good = manager_start(&bases[0], &serves);
    deciding = ended = ending = destroyed = false;
    writes = write_one_base;
    pthread_create(&writer, NULL, client, (void *)1ul);
    for (int i = 0; i < WAIT_MS && !deciding; i++) pause_ms(1);
    for (int i = 0; i < ASKERS; i++) pthread_create(&askers[i], NULL, asks_on, NULL);
    pthread_create(&ender, NULL, ends, NULL);
    pthread_join(ender, NULL);
    destroyed = true;
    for (int i = 0; i < ASKERS; i++) pthread_join(askers[i], NULL);
    wrong += publish(&bases[0], &asked) != 0;
    pthread_join(writer, NULL);
    kd_call3(KD_HANDLE_CLOSE, bases[0].port, 0, 0);
    pthread_join(serves, NULL);
    kd_call3(KD_SPACE_DETACH, getpid(), bases[0].object, 0);
    writes = write_all;
    return good && result == 0;
}

static void asks_beside(void)
{
    int good = 0;
    for (int i = 0; i < ASKED_ROUNDS && asks < ASKS_MOST; i++) good += asked_round();
    tap_ok(good == ASKED_ROUNDS && asks < ASKS_MOST && !wrong,
           "objects end whose manager asks for what was stored again and again (%ld, %ld)", asks,
           wrong);
}

/* ---- who stands on a base ---- */

enum { ENDERS = 4, COMMITS = 20, DESTROYS = 2000, FEW = 20 };
static const uint64_t LARGE_PAGES = 1ull << 31, LARGE_BASE = KD_STORE_BASE + KD_ZONE_BYTES;
static _Atomic long destroys, commits;
static _Atomic bool over;

static int write_first(void *unused)
{
    *word_of(0, 0) += 1;
    return unused != NULL;
}
static void *commits_on(void *unused)
{
    while (!over) commits += run(write_first, NULL, KD_SERIALISABLE, 0) == 0;
    return unused;
}

/* A port on the base, with an object that has 512 KiB of tables, and a page that cannot go. */
static int large_made(int below)
{
    int own = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    struct kd_object_create c = {.port = own, .commit_port = own, .pages = LARGE_PAGES,
                                 .base = LARGE_BASE, .flags = KD_OBJECT_TRANSACTIONAL};
    long e = kd_call3(KD_PORT_BELOW, own, (long)&below, 1);
    long large = e ? e : kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    struct kd_supply s = {.object = (int)large, .source = KD_SUPPLY_ZERO, .count = 1,
                          .csn = 1ull << 40, .rights = KD_READ | KD_WRITE}; /* read just now */
    if (large < 0) return (int)large;
    e = kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
    return !e && kd_call4(KD_OBJECT_PIN, large, 0, 1, 1) == 1 ? (int)large : -1;
}

static struct stacked upper = {.key = 0x55};
static int write_upper(void *value)
{
    for (unsigned i = 0; i < PAGES; i++)
        *word_at(upper.base, i, 0) = (uint64_t)(uintptr_t)value;
    return 0;
}
static void *ends_base_object(void *unused)
{
    while (!deciding && !ended) sched_yield();
    kd_call3(KD_OBJECT_DESTROY, object, 0, 0);
    return unused;
}

/* What the base does with a commit that has a helper. */
static bool helped(struct kd_message *m)
{
    enum { TIMES = 50 };
    if (m->kind != (uint32_t)KD_MSG_COMMIT || !(m->word[4] | m->word[5])) return false;
    deciding = true;
    for (unsigned i = 0; i < TIMES * KD_VIEW_MAX; i++)
        if (m->word[4 + i % KD_VIEW_MAX / 64] >> i % 64 & 1)
            wrong += tell(i % KD_VIEW_MAX, m->token) != 0;
    struct kd_publish p = {m->word[0], m->token, next_csn++};
    wrong += kd_call3(KD_TXN_PUBLISH, (long)&p, 1, 0) != 0;
    return true;
}

static void *destroys_on(void *large)
{
    while (!over && kd_call3(KD_OBJECT_DESTROY, *(int *)large, 1, 0) == -EBUSY) destroys++;
    return NULL;
}

static void destroyers_start(pthread_t t[ENDERS], int *large)
{
    over = false;
    for (int i = 0; i < ENDERS; i++) pthread_create(&t[i], NULL, destroys_on, large);
}
static void destroyers_end(pthread_t t[ENDERS])
{
    over = true;
    for (int i = 0; i < ENDERS; i++) pthread_join(t[i], NULL);
}

static void commits_beside(void)
{
    pthread_t t[ENDERS], committer;
    bool good = start_manager((struct own_manager){.pages = PAGES, .messages = helped});
    int large = large_made(commit_port);
    destroyers_start(t, &large);
    while (destroys < FEW && large >= 0) pause_ms(1);
    pthread_create(&committer, NULL, commits_on, NULL);
    for (long from = destroys; commits < COMMITS && destroys - from < DESTROYS;) pause_ms(1);
    long done = commits, beside = destroys;
    destroyers_end(t);
    pthread_join(committer, NULL);
    tap_ok(good && large >= 0 && done >= COMMITS,
           "destroying what is in use, again and again, holds up no commits of the base (%ld, "
           "%ld)", done, beside);
    kd_call3(KD_HANDLE_CLOSE, large, 0, 0);
}

/* The object ends to which the helper of a transaction has stored, which commits nothing else
 * there. */
static void helper_beside(void)
{
    pthread_t writer, ender;
    upper.below = base;
    bool good = stacked_start(&upper, &commit_port, 1, PAGES, 1) == 0;
    deciding = ended = false;
    writes = write_upper;
    pthread_create(&writer, NULL, client, (void *)1ul);
    pthread_create(&ender, NULL, ends_base_object, NULL);
    for (int i = 0; i < WAIT_MS && !ended && good; i++) pause_ms(1);
    tap_ok(good && ended && deciding && !result && !wrong,
           "an object ends while what a helper stored to it is told and published (%d, %ld)",
           result, wrong);
    writes = write_all;
}

/* A base in a process of its own, which commits all the time. */
static int child(void)
{
    if (!start_manager((struct own_manager){.pages = 1}) ||
        kd_call3(KD_NAME_SET, (long)"claims.base", commit_port, 0))
        return 1;
    while (run(write_first, NULL, KD_SERIALISABLE, 0) == 0) child_begun();
    return 1;
}

static void killed_beside(const char *self)
{
    pthread_t t[ENDERS];
    int pid = child_start(self, "child", ""), status = 0;
    bool begun = child_has_begun(pid), dead = false;
    int below = (int)kd_call3(KD_NAME_FIND, (long)"claims.base", 0, 0), large = large_made(below);
    long from = destroys;
    destroyers_start(t, &large);
    while (destroys - from < FEW && large >= 0) pause_ms(1);
    kd_call3(KD_PROCESS_KILL, pid, 1, 0);
    for (from = destroys; !dead && large >= 0 && destroys - from < DESTROYS; pause_ms(1))
        dead = kd_call3(KD_PROCESS_WAIT, pid, (long)&status, KD_WAIT_NOHANG) == pid;
    destroyers_end(t);
    tap_ok(begun && dead, "nor does it hold up the end of the base, which is killed (%d, %d)",
           begun, large);
    if (!dead) child_wait(pid);
    kd_call3(KD_HANDLE_CLOSE, large, 0, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) return child();
    tap_plan(7);
    commits_beside();
    helper_beside();
    asks_beside();
    killed_beside(argv[0]);
    if (!rounds(false) || !rounds(true)) return tap_end();
    is(check(), 0, "kcheck");
    return tap_end();
}
