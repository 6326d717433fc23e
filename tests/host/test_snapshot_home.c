/*
 * test_snapshot_home.c - snapshots that a site has of this home (user/sites/agent_snapshot.c).
 *
 * Aim     SNAPPED stands in the stream where the snapshot does among commits and grants: it sees a
 *         commit of the site whose DONE is before it, and no other; what was granted before it and
 *         not given back is as it sees it. If it sees what follows from a decision, it sees that.
 *         Commits do not put a snapshot off without end. STOOD says 0 only if nothing was shown, or
 *         voted for, between SNAPPED and STILL; one that holds stands still, as long as the store
 *         lets it, and no hold is left behind. A page that is read is of the snapshot
 *         that was named, whatever ends meanwhile; nothing is kept of those that are over; a site
 *         has so many and no more.
 * Method  the file itself. The site applies the stream as it comes. Home and site go on in random
 *         steps, also wherever the agent leaves its lock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "pstore.h"
#undef ps_transaction_opt               /* the store is here */
#define ps_transaction_opt home_transaction
#define ps_begin home_begin
#define ps_rollback home_rollback
#define ps_snapshot_share home_share
#define ps_snapshot_drop home_drop
static int home_transaction(int (*fn)(void *), void *arg, const struct ps_options *how);
static int home_begin(const struct ps_options *how);
static int home_rollback(void), home_share(void), home_drop(int shared);
#define KATYDID_CALL_H                  /* and the kernel */
static long kd_call3(long number, long a, long b, long c);
#include "user/sites/agent_snapshot.c"

enum { PAGES = 3, POINTS = 64, QUEUE = 512, SITE_COMMITS = 2 };
#define BASE 0x200000000000ull
#define PAGE(n) (BASE + (uint64_t)(n) * SITE_PAGE_BYTES)
#define NUMBER(address) ((int)(((address) - BASE) / SITE_PAGE_BYTES))

static struct {
    uint64_t now[PAGES], count;         /* the home's pages; of versions */
    struct { bool used; uint64_t page[PAGES], x, y; } point[POINTS];
    uint64_t publications, x, y;        /* x: decided elsewhere and applied here; y: what follows */
    uint64_t hold;                      /* the store's, for this agent; 0: none */
    uint64_t holds, broken, stood, moved;
    bool patient;                       /* the store ends no hold */
    int part;                           /* 0: none; 1: x is prepared; 2: decided */
    bool open;
    struct site_message stream[QUEUE];
    unsigned sent;
    struct { bool under_way, published; int page; uint64_t value; } commit[SITE_COMMITS];
    bool cached[PAGES], taken[PAGES];
    uint64_t has[PAGES], copied[PAGES]; /* at the site; by a worker, before its GRANT */
    uint64_t name, snaps, taken_while, began, read, refused, late;
    uint64_t state[256][PAGES];         /* of a name */
    bool alive[256], ended[256];
    bool same[256];                     /* nothing had happened when STILL came */
    uint64_t still[256];                /* that is open */
} w;
struct agent agent;
static struct container container;
#include "any.h"
static jmp_buf idle;
static int locked, busy_home;
static bool busy_site;                  /* it commits whenever it may */

static void step(void);
static void others(void) { for (unsigned n = any(4); n > 0; n--) step(); }

void agent_lock(void) { locked++; }
void agent_unlock(void)
{
    assert_int_equal(locked, 1);
    locked--;
    others();
}
void agent_wait(enum agent_wait what) { (void)what, longjmp(idle, 1); }
void agent_changed(enum agent_wait what) { (void)what; }
_Noreturn void agent_ends(const char *why) { fail_msg("%s", why); abort(); }
void container_let(struct container *c) { c->busy--; }
struct container *container_at(uint64_t page)
{
    return page - BASE < PAGES * SITE_PAGE_BYTES ? &container : NULL;
}
int convert_page(uint64_t page, uint8_t contents[SITE_PAGE_BYTES])
{
    (void)page, (void)contents;
    return 0;
}

/* ---- the store ---- */

bool parts_none(void)
{
    others();
    bool none = w.part == 0;
    others();
    return none;
}

/* What was under way is over, and nothing is prepared. */
int parts_hold(uint64_t *number)
{
    others();
    if (!w.hold) w.hold = ++w.holds;
    *number = w.hold;
    bool clear = w.part == 0;
    for (int i = 0; i < SITE_COMMITS; i++) assert_false(w.commit[i].under_way);
    return clear && any(3) ? 0 : -EAGAIN;
}

int parts_hold_end(uint64_t number)
{
    others();
    bool stood = w.hold == number;
    if (stood) w.hold = 0;
    others();
    return stood ? 0 : -ESTALE;
}

static long kd_call3(long number, long a, long b, long c)
{
    (void)b, (void)c;
    assert_int_equal(number, KD_SYSTEM_INFO);
    ((struct kd_system_info *)a)->publications = w.publications;
    return 0;
}

static int home_begin(const struct ps_options *how)
{
    assert_true(how->isolation == PS_SNAPSHOT && how->timeout_ms);
    if (busy_home > 0 && busy_home--) return -ETIMEDOUT;
    w.open = true;
    return 0;
}
static int home_share(void)
{
    int n = 0;
    while (w.point[n].used) n++;
    assert_true(w.open && n < POINTS);
    w.point[n].used = true;
    memcpy(w.point[n].page, w.now, sizeof w.now);
    w.point[n].x = w.x;
    w.point[n].y = w.y;
    return n + 1;
}
static int home_rollback(void)
{
    w.open = false;
    return 0;
}
static int home_drop(int shared)
{
    assert_true(shared > 0 && w.point[shared - 1].used);
    w.point[shared - 1].used = false;
    return 0;
}
static int home_transaction(int (*fn)(void *), void *arg, const struct ps_options *how)
{
    struct page *p = arg;
    (void)fn;
    assert_true(how->isolation == PS_SNAPSHOT && how->snapshot > 0);
    others();
    assert_true(w.point[how->snapshot - 1].used);
    memcpy(p->contents, &w.point[how->snapshot - 1].page[NUMBER(p->at)], sizeof(uint64_t));
    others();
    return 0;
}
int nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)time, (void)left;
    others();
    return 0;
}

/* ---- the site ---- */

static void heard_snapped(const struct site_message *m)
{
    uint64_t name = m->answer_to;
    w.began++;
    w.late = 0;
    if (m->error) return;
    w.alive[name] = true;
    int last = -1;
    for (int n = 0; n < POINTS; n++)
        for (unsigned i = 0; i < SNAPSHOTS_MAX; i++)
            if (snapshots[i].name == name && snapshots[i].shared == n + 1) last = n;
    assert_true(last >= 0);
    memcpy(w.state[name], w.point[last].page, sizeof w.now);
    assert_true(w.point[last].y <= w.point[last].x);
    for (int i = 0; i < PAGES; i++)
        if (w.cached[i]) assert_int_equal(w.has[i], w.state[name][i]);
}

static void heard_stood(const struct site_message *m)
{
    uint64_t name = 0;
    while (name < 256 && w.still[name] != m->answer_to) name++;
    assert_true(name < 256);
    w.still[name] = 0;
    w.stood += m->error == 0;
    w.moved += m->error != 0;
    if (!m->error) assert_true(w.same[name]);
}

void agent_send(const struct site_message *m)
{
    assert_int_equal(locked, 1);
    w.sent++;
    if (m->kind == SITE_SNAPPED) {
        heard_snapped(m);
    } else if (m->kind == SITE_STOOD) {
        heard_stood(m);
    } else if (m->kind == SITE_OLD) {
        uint64_t value, name = m->answer_to;
        w.read++;
        if (m->error) {
            w.refused++;
            assert_true(w.ended[name] || !w.alive[name] || m->error == EACCES);
            return;
        }
        memcpy(&value, m->data, sizeof value);
        assert_int_equal(value, w.state[name][NUMBER(m->page)]);
    }
}

/* ---- what happens ---- */

static void commit_step(int i)
{
    if (!w.commit[i].under_way) {
        int page = (int)any(PAGES);
        if (snapshot_waits() || w.hold || !w.cached[page] || w.taken[page]) return;
        for (int k = 0; k < SITE_COMMITS; k++)
            if (w.commit[k].under_way && w.commit[k].page == page) return;
        agent.committing++;
        w.commit[i].under_way = true;
        w.commit[i].published = false;
        w.commit[i].page = page;
    } else if (!w.commit[i].published) {
        w.commit[i].published = true;
        w.commit[i].value = w.now[w.commit[i].page] = ++w.count;
        w.publications++;
    } else { /* DONE: the site has it from here on */
        w.has[w.commit[i].page] = w.commit[i].value;
        w.commit[i].under_way = false;
        agent.committing--;
    }
}

static bool commits_page(int page)
{
    for (int i = 0; i < SITE_COMMITS; i++)
        if (w.commit[i].under_way && w.commit[i].page == page) return true;
    return false;
}

static void ask_snapshot(void)
{
    if (w.name == 255) return;
    struct site_message m = {.kind = SITE_SNAP, .number = ++w.name, .right = (uint8_t)any(2)};
    w.snaps++;
    snapshot_asked(&m);
}

/* The site has its point, and asks. */
static void ask_still(uint64_t name)
{
    static uint64_t number = 1000;
    struct site_message m = {.kind = SITE_STILL, .number = ++number, .serial = name};
    if (w.still[name] || w.ended[name]) return;
    w.still[name] = number;
    w.same[name] = w.alive[name] && w.part == 0 &&
                   memcmp(w.state[name], w.now, sizeof w.now) == 0;
    snapshot_still(&m);
}

static void over(uint64_t name)
{
    w.ended[name] = true;
    snapshot_over(&(struct site_message){.kind = SITE_SNAP_END, .serial = name});
}

/* A step that the home or the site makes by itself; the lock is free. */
static void step(void)
{
    if (locked) return;
    int page = (int)any(PAGES);
    w.late++;
    for (int i = 0; busy_site && i < SITE_COMMITS; i++) {
        if (w.commit[i].under_way) commit_step(i);
        for (int n = 0; n < 100 && !w.commit[i].under_way; n++) commit_step(i);
    }
    if (busy_site) return;
    switch (any(8)) {
    case 0: commit_step((int)any(SITE_COMMITS)); break;
    case 1: /* another program of the home's: the site does not have the page */
        if (w.cached[page] || w.taken[page] || w.hold) break;
        w.now[page] = ++w.count;
        w.publications++;
        break;
    case 2: /* a worker takes a page, and its GRANT goes later */
        if (!w.cached[page] && !w.taken[page]) w.copied[page] = w.now[page], w.taken[page] = true;
        break;
    case 3:
        if (!w.taken[page]) break;
        w.has[page] = w.copied[page];
        w.cached[page] = true;
        w.taken[page] = false;
        break;
    case 4: /* GONE */
        if (w.cached[page] && !commits_page(page)) w.cached[page] = false;
        break;
    case 5:
        if (w.name && !any(8)) over(1 + any((unsigned)w.name));
        break;
    case 6: /* votes; is decided; what follows is shown here, or it is applied */
        if (w.part < 2) {
            w.part += w.part || !w.hold;
            break;
        }
        w.publications++;
        if (w.y <= w.x && !w.hold && any(2)) {
            w.y = w.x + 1;
        } else {
            w.x++;
            w.part = 0;
        }
        break;
    case 7: /* the store lets no hold stand for ever */
        if (w.hold && !w.patient && !any(20)) w.hold = 0, w.broken++;
        break;
    default: break;
    }
}

static void work(void *(*thread)(void *))
{
    if (setjmp(idle) == 0)
        thread(NULL);
    else
        locked = 0;
}

static void round_of(void)
{
    switch (any(9)) {
    case 0: ask_snapshot(); break;
    case 8:
        if (w.name) ask_still(1 + any((unsigned)w.name));
        break;
    case 1:
        if (w.name) over(1 + any((unsigned)w.name));
        break;
    case 2: case 3:
        if (w.name) {
            uint64_t name = 1 + any((unsigned)w.name);
            snapshot_read(&(struct site_message){.kind = SITE_GET_OLD, .number = name,
                                                 .serial = name,
                                                 .page = any(20) ? PAGE(any(PAGES)) : BASE / 2});
        }
        break;
    case 4: work(snapshot_work); break;
    case 5: work(snapshot_read_work); break;
    case 6: busy_home = any(10) ? 0 : (int)any(4); break;
    default: step(); break;
    }
}

static void begin_all(void) /* that were asked for */
{
    for (int n = 0; asked.count && n < 1000; n++) {
        for (int i = 0; i < SITE_COMMITS; i++)
            if (w.commit[i].under_way) commit_step(i);
        if (w.part) w.x++, w.part = 0, w.publications++;
        work(snapshot_work);
    }
}

static void end_all(void)
{
    busy_home = 0;
    begin_all();
    while (still_due()) work(snapshot_work);
    for (int i = 0; reads.count && i < 1000; i++) work(snapshot_read_work);
    assert_true(!asked.count && !reads.count);
    for (uint64_t name = 1; name <= w.name; name++)
        snapshot_over(&(struct site_message){.serial = name});
    while (still_due()) work(snapshot_work);
    for (int i = 0; i < POINTS; i++) assert_false(w.point[i].used);
    assert_int_equal(w.hold, 0);
    for (int i = 0; i < 256; i++) assert_int_equal(w.still[i], 0);
    for (unsigned i = 0; i < SNAPSHOTS_MAX; i++) assert_int_equal(snapshots[i].name, 0);
    assert_int_equal(container.busy, 0);
    assert_int_equal(w.began, w.snaps);
}

static void begin_world(uint64_t run)
{
    memset(&w, 0, sizeof w);
    memset(&agent, 0, sizeof agent);
    memset(&reads, 0, sizeof reads);
    memset(&asked, 0, sizeof asked);
    memset(snapshots, 0, sizeof snapshots);
    memset(&container, 0, sizeof container);
    locked = busy_home = 0;
    busy_site = false;
    seed = run;
}

static void random_steps(void **state)
{
    uint64_t began = 0, read = 0, refused = 0, stood = 0, moved = 0, holds = 0, broken = 0;
    (void)state;
    for (uint64_t run = 1; run <= 3000; run++) {
        begin_world(run);
        for (int i = 0; i < 400; i++) round_of();
        end_all();
        began += w.began, read += w.read, refused += w.refused;
        stood += w.stood, moved += w.moved, holds += w.holds, broken += w.broken;
    }
    print_message("%lu snapshots, %lu pages read, %lu not\n", (unsigned long)began,
                  (unsigned long)read, (unsigned long)refused);
    print_message("%lu stood still, %lu not; %lu holds, %lu ended by the store\n",
                  (unsigned long)stood, (unsigned long)moved, (unsigned long)holds,
                  (unsigned long)broken);
    assert_true(began > 10000 && read - refused > 10000 && refused > 1000);
    assert_true(stood > 1000 && moved > 1000 && holds > 1000 && broken > 100);
}

/* As many commits as may be: a snapshot that was asked for begins when those under way have ended.
 */
static void beside_commits(void **state)
{
    (void)state;
    begin_world(1);
    for (int i = 0; i < PAGES; i++) w.cached[i] = true;
    for (int n = 0; n < 1000 && agent.committing < SITE_COMMITS; n++)
        for (int i = 0; i < SITE_COMMITS; i++)
            if (!w.commit[i].under_way) commit_step(i);
    busy_site = true;
    ask_snapshot();
    work(snapshot_work);
    busy_site = false;
    assert_true(w.began == 1 && w.alive[1]);
    for (int i = 0; i < SITE_COMMITS; i++)
        while (w.commit[i].under_way) commit_step(i);
    snapshot_over(&(struct site_message){.serial = 1});
}

/* Whatever others do, one that holds has stood still, until it is asked; and then no more. */
static void holds(void **state)
{
    (void)state;
    for (uint64_t run = 1; run <= 200; run++) {
        begin_world(run);
        w.snaps++;
        w.patient = true;
        snapshot_asked(&(struct site_message){.kind = SITE_SNAP, .number = 1, .right = 1});
        begin_all();
        assert_true(w.alive[1] && w.hold);
        for (int i = 0; i < 50; i++) {
            if (!w.cached[0] && !w.hold) w.now[0] = ++w.count, w.publications++;
            step();
        }
        ask_still(1);
        work(snapshot_work);
        assert_true(w.stood == 1 && w.moved == 0 && !w.hold);
        ask_still(1);
        work(snapshot_work);
        assert_true(w.stood == 1 && w.moved == 1);
        w.name = 1;
        over(1);
        end_all();
    }
}

static void bounded(void **state)
{
    (void)state;
    begin_world(1);
    for (unsigned i = 0; i < SNAPSHOTS_MAX + 3; i++) ask_snapshot();
    begin_all();
    unsigned points = 0;
    for (int i = 0; i < POINTS; i++) points += w.point[i].used;
    assert_true(points <= SNAPSHOTS_MAX);
    assert_int_equal(w.began, SNAPSHOTS_MAX + 3);
    for (uint64_t name = 1; name <= w.name; name++)
        snapshot_over(&(struct site_message){.serial = name});
    busy_home = 1 << 12; /* another store of the machine never says what it owes */
    ask_snapshot();
    begin_all();
    assert_int_equal(w.began, SNAPSHOTS_MAX + 4);
    assert_false(w.alive[w.name]);
    busy_home = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_steps),
        cmocka_unit_test(beside_commits),
        cmocka_unit_test(holds),
        cmocka_unit_test(bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
