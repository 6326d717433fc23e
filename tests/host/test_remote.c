/*
 * test_remote.c - pages at a site that uses another one's container (user/sites/remote_page.c).
 *
 * Aim     somebody can always go on: each wait for a page ends, whatever is called back, evicted,
 *         denied or undone meanwhile; and a circle over both machines is in the answers to probes,
 *         however many pages one round of them asks about.
 * Method  the file itself between a kernel and a home that are small machines of random steps. When
 *         nothing else can happen the home probes all that it has called, in one round, as a thread
 *         that does not let go of its processor would hear it. Rounds that change nothing fail.
 */
#define KATYDID_CALL_H                  /* the kernel is here */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/abi.h"

static long kd_call6(long number, long a, long b, long c, long d, long e, long f);
#define kd_call4(n, a, b, c, d) kd_call6(n, a, b, c, d, 0, 0)
#define kd_call3(n, a, b, c) kd_call6(n, a, b, c, 0, 0, 0)
#define fail page_fail                  /* that is cmocka's */
#include "user/sites/pages.c"
#include "user/sites/remote_page.c"
#undef fail
#include <cmocka.h>

enum { VIEWS = 3, RIVALS = 2, PAGES = 3, OPS = 3, QUEUE = 256, ROUNDS = 60 };
#define BASE 0x200000000000ull
#define PAGE(address) ((int)(((address) - BASE) / SITE_PAGE_BYTES))

enum state { RUNS, ASKS, BLOCKED, ENDED };
struct view {
    enum state state;
    int op, page[OPS], want[OPS], used[PAGES], given, given_page, waits, told;
    bool noted, doomed;
    uint64_t number;                    /* of its question; 0: another one's stands for it */
    uint64_t ticket, elsewhere;         /* elsewhere: of another home, for which it waits */
};
static struct {
    struct view view[VIEWS];
    struct { bool here, asked; int has, open; } page[PAGES];    /* the kernel's */
    struct { struct kd_message m[QUEUE]; unsigned first, count; } port;
    struct { struct kd_message m; bool is; } held;  /* a question that a thread has received */
    struct { struct site_message m[QUEUE]; unsigned first, count; } to_home, to_site;
    struct { int right, called, ask; bool wants, came_anew; uint64_t serial, asked; } home[PAGES];
    struct view rival[RIVALS];          /* transactions at home; ASKS: it stands in a queue */
    uint64_t serial, ticket, questions;
    unsigned long uses, undone, circles, denied, calls, rounds, evicted, given_up, cancelled, anew;
    unsigned far;                       /* mask of views that a thread of an agent waits for */
} w;
struct remote remote;
#include "any.h"

#define PUSH(q, x) (assert_true((q).count < QUEUE), (q).m[((q).first + (q).count++) % QUEUE] = (x))
#define PULL(q) ((q).count--, (q).first++, (q).m[((q).first - 1) % QUEUE])

void remote_lock(void) {}
void remote_unlock(void) {}
static uint64_t clock_ns, aborted;
uint64_t remote_now(void) { return clock_ns; }
void snapshot_page_asked(uint64_t page, const struct kd_message *m) { (void)page, (void)m; }
void snapshot_page_came(uint64_t page) { (void)page; } /* nobody has any: test_snapshot_site */
void remote_send(const struct site_message *m)
{
    int page = PAGE(m->page);           /* what is given back nobody has here (NU1) */
    if (m->kind == SITE_GONE)
        assert_true(w.page[page].has <= m->right && w.page[page].open <= m->right);
    PUSH(w.to_home, *m);
}
_Noreturn void remote_ends(const char *why) { fail_msg("%s", why); abort(); }
struct container *container_of_id(uint64_t id) { return id == 1 ? remote.containers : NULL; }
struct container *container_at(uint64_t address, struct segment **segment)
{
    *segment = remote.containers[0].segment;
    return address - BASE < PAGES * SITE_PAGE_BYTES ? remote.containers : NULL;
}

#include "remote_kernel.h"              /* the site's kernel */

/* ---- the home ---- */

static void calls(int page, int to)
{
    if (w.home[page].right <= to || (w.home[page].called && w.home[page].called <= to + 1)) return;
    w.home[page].called = to + 1;
    w.calls++;
    PUSH(w.to_site, ((struct site_message){
        .kind = SITE_CALL, .page = BASE + (uint64_t)page * SITE_PAGE_BYTES,
        .serial = w.home[page].serial, .right = (uint8_t)to}));
}

/* Does rival i wait for rival k, who has the page or stood in its queue before? */
static bool behind(int i, int k)
{
    const struct view *r = &w.rival[i], *other = &w.rival[k];
    int page = r->page[r->op];
    bool before = other->state == ASKS && other->page[other->op] == page && other->told < r->told;
    return i != k && r->state == ASKS && (before || takes(other, page, r->want[r->op]));
}

/* Those who keep a GET from a page. */
static int rivals(int page, int want)
{
    int m = 0;
    for (int i = 0; i < RIVALS; i++) {
        const struct view *r = &w.rival[i];
        if ((r->state == ASKS && r->page[r->op] == page) || takes(r, page, want)) m |= 1 << i;
    }
    return m;
}

static int rival_step(int i, bool begins)
{
    struct view *r = &w.rival[i];
    if (r->state == ENDED) return 0;
    if (r->op == OPS) return program(r, false), r->state = begins ? RUNS : ENDED, 1;
    int page = r->page[r->op], want = r->want[r->op];
    int to = want == SITE_EXCLUSIVE ? SITE_NO : SITE_SHARED;
    bool stood = r->state == ASKS;
    if (!stood) r->told = (int)++w.ticket;
    r->state = ASKS;
    if (behind(i, !i)) { /* a home has a search of its own: the younger one begins anew */
        if (!behind(!i, i)) return !stood;
        program(&w.rival[w.rival[0].ticket < w.rival[1].ticket], true);
        return 1;
    }
    if (w.home[page].right > to) {
        bool was = w.home[page].called && w.home[page].called <= to + 1;
        calls(page, to);
        return !stood || !was;
    }
    if (r->used[page] < want) r->used[page] = want;
    r->state = RUNS;
    r->op++;
    return 1;
}

static int grant_step(int page)
{
    uint64_t number = w.home[page].asked;
    int right = w.home[page].ask;
    if (!number || (right > w.home[page].right && rivals(page, right))) return 0;
    static uint8_t contents[SITE_PAGE_BYTES];
    w.home[page].right = right;
    w.home[page].asked = 0;
    w.home[page].called = 0;
    w.home[page].serial = ++w.serial;
    PUSH(w.to_site, ((struct site_message){
        .kind = SITE_GRANT, .answer_to = number, .page = BASE + (uint64_t)page * SITE_PAGE_BYTES,
        .serial = w.serial, .right = (uint8_t)right, .data = contents,
        .bytes = w.home[page].wants ? SITE_PAGE_BYTES : 0}));
    for (int i = 0; i < RIVALS; i++)
        if (w.rival[i].state == ASKS && w.rival[i].page[w.rival[i].op] == page)
            calls(page, w.rival[i].want[w.rival[i].op] == SITE_EXCLUSIVE ? SITE_NO : SITE_SHARED);
    return 1;
}

static void denies(int page, int error)
{
    PUSH(w.to_site, ((struct site_message){
        .kind = SITE_DENIED, .answer_to = w.home[page].asked, .error = error,
        .page = BASE + (uint64_t)page * SITE_PAGE_BYTES}));
    w.home[page].asked = 0;
    w.denied += error == EDEADLK;
    w.cancelled += error == ECANCELED;
}

/* Whom the rivals of `m` wait for, and those. */
static int reached_from(int m)
{
    for (int n = 0; n < RIVALS; n++)
        for (int i = 0; i < RIVALS; i++)
            if (m >> i & 1 && behind(i, !i)) m |= 1 << !i;
    return m;
}

static void probed(const struct site_message *m)
{
    for (unsigned k = 0; k < m->count; k++)
        for (int q = 0; q < PAGES; q++) {
            if (!w.home[q].asked || w.home[q].asked != m->waits[k].number) continue;
            if (w.home[q].ask <= w.home[q].right) continue; /* it waits for nobody */
            int to = reached_from(rivals(q, w.home[q].ask));
            for (int i = 0; i < RIVALS; i++) {
                const struct view *r = &w.rival[i];
                if (!(to >> i & 1) || r->state != ASKS || r->page[r->op] != PAGE(m->page)) continue;
                if (any(2))
                    denies(q, EDEADLK);
                else
                    program(&w.rival[i], true);
                break;
            }
        }
}

static int home_step(void)
{
    if (!w.to_home.count) return 0;
    struct site_message m = PULL(w.to_home);
    int page = PAGE(m.page);
    switch (m.kind) {
    case SITE_GET:
        assert_true(!w.home[page].asked && m.right >= w.home[page].right);
        w.home[page].asked = m.number;
        w.home[page].ask = m.right;
        w.home[page].wants = m.wants;
        w.home[page].came_anew = false;
        break;
    case SITE_GONE:
        if (m.serial != w.home[page].serial || m.right >= w.home[page].right) {
            assert_int_equal(m.number, 0);
            break;
        }
        w.home[page].right = m.right;
        if (w.home[page].called > m.right) w.home[page].called = 0;
        if (!m.number) break;
        assert_true(!w.home[page].asked);
        w.home[page].asked = m.number;
        w.home[page].ask = SITE_SHARED;
        w.home[page].wants = w.home[page].came_anew = true;
        w.anew++;
        break;
    case SITE_PROBED: probed(&m); break;
    case SITE_CANCEL:
        if (m.number == w.home[page].asked) denies(page, ECANCELED); /* else a GRANT crosses it */
        break;
    default: fail_msg("kind %d", m.kind);
    }
    return 1;
}

static int site_step(void)
{
    if (!w.to_site.count) return 0;
    struct site_message m = PULL(w.to_site);
    switch (m.kind) {
    case SITE_GRANT:
        page_granted(&m);
        assert_false(pages_find(&remote.pages, m.page)->used);
        break;
    case SITE_DENIED: page_denied(&m); break;
    case SITE_CALL: page_called(&m); break;
    default: page_probed(&m);
    }
    return 1;
}

static void probe_all(void)
{
    for (int page = 0; page < PAGES; page++) {
        struct site_message m = {.kind = SITE_PROBE, .number = w.home[page].serial,
                                 .serial = w.home[page].serial,
                                 .page = BASE + (uint64_t)page * SITE_PAGE_BYTES};
        if (w.home[page].called) page_probed(&m);
    }
    w.rounds++;
}

/* ---- all ---- */

/* Its time is up, or its program is killed, while it waits. */
static int give_up(int i, bool begins)
{
    if (!begins || any(8) || w.view[i].state != ASKS) return 0;
    w.given_up++;
    view_ends(i, false, true);
    return 1;
}

/* When nothing is on its way, and time passes, a GET is waited for, or is taken back; or it came
 * with a GONE, and ends with the writer that it waits for. */
static void gets_are_wanted(void)
{
    if (w.port.count || w.held.is || w.to_home.count || w.to_site.count) return;
    for (int i = 0; i < 3; i++, clock_ns += LOOK_MS * 1000000) pages_look(true);
    while (home_step() || site_step()) continue;
    for (int page = 0; page < PAGES; page++) {
        bool wanted = !w.home[page].asked || w.home[page].came_anew;
        for (int i = 0; i < VIEWS; i++)
            wanted |= w.view[i].state != ENDED && w.view[i].op < OPS &&
                      w.view[i].page[w.view[i].op] == page;
        if (!wanted) fail_msg("the home has a GET that nobody waits for");
    }
}

static int step(unsigned what, bool begins)
{
    int page = (int)any(PAGES);
    switch (what) {
    case 0: return port_step();
    case 1: return home_step();
    case 2: return site_step();
    case 3: return grant_step(page);
    case 4: return rival_step((int)any(RIVALS), begins);
    case 5: /* the page leaves memory; rights stay */
        clock_ns += LOOK_MS * 1000000;
        pages_look(true);
        if (!any(2)) return give_up((int)any(VIEWS), begins);
        if (!begins || any(6) || !w.page[page].here) return 0;
        w.page[page].here = false;
        w.evicted++;
        return 1;
    default: return view_step((int)any(VIEWS), begins);
    }
}

static bool all_ended(void)
{
    bool all = true;
    for (int i = 0; i < VIEWS; i++) all &= w.view[i].state == ENDED;
    for (int i = 0; i < RIVALS; i++) all &= w.rival[i].state == ENDED;
    return all;
}

static void begin(void)
{
    memset(&w, 0, sizeof w);
    pages_free(&remote.pages);
    remote.pages.most = 2 * PAGES;
    called.count = asked.count = 0;
    remote.containers[0] = (struct container){
        .id = 1, .segments = 1, .updates = seed % 2,
        .segment = {{.object = 7, .base = BASE, .pages = PAGES}}};
    for (int i = 0; i < VIEWS; i++) program(&w.view[i], false);
    for (int i = 0; i < RIVALS; i++) program(&w.rival[i], false);
}

static void run(unsigned number, unsigned steps)
{
    unsigned idle = 0, vain = 0;
    seed = number;
    unsigned long before = 0;
    begin();
    for (unsigned i = 0; i < steps || !all_ended(); i++) {
        assert_true(i < 1000 * steps);
        idle = step(any(9), i < steps) ? 0 : idle + 1;
        if (idle < 400) continue;
        idle = 0;
        gets_are_wanted();
        unsigned long now = w.uses + w.undone + w.denied;
        vain = now == before ? vain + 1 : 0;
        before = now;
        if (vain == ROUNDS) fail_msg("run %u: nobody can go on", number);
        probe_all();
    }
}

static void walk(void **state)
{
    const char *tier = getenv("TEST_TIER");
    unsigned runs = tier && strcmp(tier, "long") == 0 ? 200000 : 10000;
    unsigned long uses = 0, undone = 0, circles = 0, denied = 0, calls_sent = 0, evicted = 0;
    unsigned long given_up = 0, cancelled = 0, anew = 0;
    (void)state;
    for (unsigned i = 0; i < runs; i++) {
        run(i + 1, 1000);
        uses += w.uses;
        undone += w.undone;
        circles += w.circles;
        denied += w.denied;
        calls_sent += w.calls;
        evicted += w.evicted;
        given_up += w.given_up;
        cancelled += w.cancelled;
        anew += w.anew;
    }
    print_message("%u runs: %lu uses, %lu undone, %lu circles here, %lu GETs denied, %lu CALLs, "
                  "%lu evictions, %lu gave up, %lu GETs taken back, %lu pages anew\n", runs, uses,
                  undone, circles, denied, calls_sent, evicted, given_up, cancelled, anew);
    assert_true(undone && circles && denied && calls_sent && evicted && cancelled && anew);
}

/* Until somebody is to run again; how long that took, in ms; 0: nobody is. */
static unsigned patience(void (*look)(void), unsigned most)
{
    uint64_t from = clock_ns;
    for (aborted = 0; !aborted && clock_ns - from < most * 1000000ull; clock_ns += 10000000) {
        look();
        w.to_home.count = 0;
    }
    return aborted ? (unsigned)((clock_ns - from) / 1000000) : 0;
}

static void again_later(void (*look)(void))
{
    for (unsigned least = WAIT_MS, i = 0; i < AGAIN_MOST + 3; i++) {
        unsigned ms = patience(look, 3 * least + LOOK_MS); /* a GET is looked at twice */
        assert_int_equal(aborted, 2);
        assert_in_range(ms, least, 2 * least + 2 * LOOK_MS);
        least *= i < AGAIN_MOST ? 2 : 1;
    }
}

/* Two views use a page that the home calls back; one waits for a page of another home. */
static void waits_elsewhere_from(uint64_t ticket, uint64_t page)
{
    begin();
    w.page[0].here = true;
    w.page[0].has = SITE_EXCLUSIVE;
    w.home[0].right = pages_make(&remote.pages, BASE)->right = SITE_EXCLUSIVE;
    w.home[0].serial = pages_find(&remote.pages, BASE)->serial = 1;
    w.view[0].used[0] = w.view[1].used[0] = SITE_SHARED;
    w.view[1].ticket = ticket;
    w.view[1].elsewhere = page;
    calls(0, SITE_NO);
    assert_true(site_step());
}

/* It runs again if that lasts, and has to wait longer before it does the next time. */
static void elsewhere(void **state)
{
    (void)state;
    waits_elsewhere_from(20, 2 * BASE);
    again_later(probe_all);
}

/* A wait begins with its transaction and its page: no part of one before it is counted, were it the
 * transaction just before this one's, or the page beside. */
static void new_wait(void **state)
{
    static const struct { int ticket, pages; } before[] = {{-1, 0}, {-1, 1}, {0, 1}, {1, 0}};
    (void)state;
    for (unsigned i = 0; i < sizeof before / sizeof *before; i++) {
        uint64_t ticket = (6 + i) * APART;  /* of those that wait for WAIT_MS and no longer */
        waits_elsewhere_from(ticket + (uint64_t)before[i].ticket,
                             2 * BASE + (uint64_t)before[i].pages * KD_PAGE_BYTES);
        assert_int_equal(patience(probe_all, WAIT_MS), 0);
        waits_elsewhere_from(ticket, 2 * BASE);
        assert_int_equal(patience(probe_all, WAIT_MS), 0);
        assert_int_equal(patience(probe_all, WAIT_MS), 10);     /* at the first look */
    }
}

static void gets_seen(void) { pages_look(true); }

/* A view waits for a page of this home, and keeps one of its own machine's that another site waits
 * for: itself, or from somebody who keeps it from that site. */
static void kept(void **state)
{
    (void)state;
    for (unsigned far = 0; far < 3; far++) {
        begin();
        w.view[0].ticket = 3;
        w.view[1].ticket = 40 + far;
        assert_true(view_step(1, true));
        while (port_step()) {}
        assert_int_equal(asked.count, 1);
        w.far = far;
        w.view[0].told = 2;
        if (far)
            again_later(gets_seen);
        else
            assert_int_equal(patience(gets_seen, 20000), 0);
    }
}

/* GETs of a container that is closed are taken back: the home waits for them before it closes. */
static void closed(void **state)
{
    (void)state;
    begin();
    assert_true(view_step(1, true));
    while (port_step()) {}
    assert_true(asked.count == 1 && w.to_home.count == 1);
    struct site_message get = PULL(w.to_home);
    pages_closed(remote.containers);
    assert_true(asked.count == 0 && w.to_home.count == 1);
    struct site_message cancel = PULL(w.to_home);
    assert_true(get.kind == SITE_GET && cancel.kind == SITE_CANCEL);
    assert_true(cancel.number == get.number && cancel.page == get.page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(walk), cmocka_unit_test(elsewhere),
                                       cmocka_unit_test(new_wait), cmocka_unit_test(kept),
                                       cmocka_unit_test(closed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
