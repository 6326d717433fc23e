/*
 * test_snapshot_site.c - a home's snapshots at a site that uses it (user/sites/remote_snapshot.c).
 *
 * Aim     no two snapshots of different states have one number, nor has any that begins beside
 *         them; of a part, whose number another manager names, each question has one answer, only
 *         who leads is heard, and it ends with him; an old page goes to the number that it was
 *         asked for, and to no other; each question has one answer, whatever crosses it; a
 *         snapshot ends at the home when nobody sees its point, and not before.
 * Method  the file itself between a kernel, a home and programs that are small machines of random
 *         steps.
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
#include "user/sites/remote_snapshot.c"
#include <cmocka.h>

enum { HANDLES = 64, NAMES = 4096, QUEUE = 64, VIEWS = 4, PROGRAMS = 3, LEADERS = 3, OBJECT = 5 };
#define BASE 0x200000000000ull
#define PAGE(n) (BASE + (uint64_t)(n) * KD_PAGE_BYTES)

static struct {
    uint64_t published, begun_at;
    bool begun;
    struct { bool used; uint64_t at; unsigned users; } handle[HANDLES];
    bool at_home[NAMES];
    uint64_t at_of[NAMES];              /* the number that its handle has here */
    struct { struct site_message m[QUEUE]; unsigned first, count; } to_home;
    struct { uint64_t token; int handle; } program[PROGRAMS];
    struct {                            /* of a part; SNAPPED, or it stands: answered */
        bool dead, answered, stands;
        int lives;
        uint64_t name, token, at;
        int handle;
    } leader[LEADERS];
    struct { bool asks; uint64_t page, at; uint32_t question; } view[VIEWS];
    uint32_t question;
    uint64_t tokens, given, refused, parts, pages, stale, ended;
    bool cached;
} w;
struct remote remote;
#include "any.h"

void remote_lock(void) {}
void remote_unlock(void) {}
_Noreturn void remote_ends(const char *why) { fail_msg("%s", why); abort(); }
struct container *container_at(uint64_t address, struct segment **segment)
{
    *segment = remote.containers[0].segment;
    return address - BASE < 8 * KD_PAGE_BYTES ? remote.containers : NULL;
}
bool page_bring(uint64_t page) { return (void)page, !w.cached; }

void remote_send(const struct site_message *m)
{
    if (m->kind == SITE_SNAP_END) {
        w.ended += w.at_home[m->serial];
        w.at_home[m->serial] = false;
        for (int i = 0; i < HANDLES; i++) /* nobody sees it any more */
            assert_false(w.handle[i].users && w.at_of[m->serial] &&
                         w.handle[i].at == w.at_of[m->serial]);
        return;
    }
    assert_true(w.to_home.count < QUEUE);
    w.to_home.m[(w.to_home.first + w.to_home.count++) % QUEUE] = *m;
}

/* ---- the kernel ---- */

static bool told_leader(uint64_t token, const struct kd_message *reply)
{
    for (int i = 0; i < LEADERS; i++) {
        if (!token || w.leader[i].token != token) continue;
        w.leader[i].token = 0;
        if (w.leader[i].dead) return true;
        w.leader[i].stands = w.leader[i].answered && reply->status == 0;
        w.leader[i].answered = reply->status == 0;
        w.parts += w.leader[i].stands;
        return true;
    }
    return false;
}

static void told_program(uint64_t token, const struct kd_message *reply)
{
    if (told_leader(token, reply)) return;
    for (int i = 0; i < PROGRAMS; i++) {
        if (w.program[i].token != token) continue;
        w.program[i].token = 0;
        w.given += reply->status == 0;
        w.refused += reply->status != 0;
        if (reply->status) continue;
        assert_true(reply->handle > 0 && reply->handle_rights);
        w.program[i].handle = reply->handle;
        w.handle[reply->handle].users++;
        return;
    }
}

static long supply(const struct kd_supply *s)
{
    assert_int_equal(s->object, OBJECT);
    if (s->source == (KD_SUPPLY_MEMORY | KD_SUPPLY_NEWER)) {
        assert_int_equal(s->count, 0);
        w.published++;
        return 0;
    }
    assert_int_equal(s->source, KD_SUPPLY_MEMORY | KD_SUPPLY_OLD);
    uint64_t name;
    memcpy(&name, s->memory, sizeof name);
    assert_int_equal(w.at_of[name], s->csn); /* its own state, at its own number */
    for (int i = 0; i < VIEWS; i++)
        if (w.view[i].asks && w.view[i].question == s->number) {
            assert_int_equal(w.view[i].at, s->csn);
            assert_int_equal(w.view[i].page, s->page);
            w.view[i].asks = false;
            w.pages++;
        }
    return any(10) ? 0 : -ESRCH;
}

static long shared(long handle1)
{
    if (handle1) return w.handle[handle1 - 1].users > 0;
    int n = 1;
    while (w.handle[n].used) n++;
    assert_true(w.begun && n < HANDLES);
    for (int i = 0; i < HANDLES; i++)
        if (w.handle[i].used) assert_true(w.handle[i].at != w.begun_at);
    w.handle[n].used = true;
    w.handle[n].at = w.begun_at;
    return n;
}

static long process_of(int leader)
{
    return w.leader[leader].dead ? -EOWNERDEAD : 100 + leader + 10 * w.leader[leader].lives;
}

static long kd_call6(long number, long a, long b, long c, long d, long e, long f)
{
    (void)f;
    struct kd_begin *begin = (void *)a;
    switch (number) {
    case KD_PORT_REPLY: told_program((uint64_t)a, (const void *)b); return 0;
    case KD_OBJECT_SUPPLY: return supply((const void *)a);
    case KD_VIEW_CREATE: return 3;
    case KD_VIEW_ENTER: return 0;
    case KD_TXN_BEGIN:
        assert_false(w.begun);
        begin->csn = w.begun_at = w.published;
        w.begun = true;
        return 0;
    case KD_TXN_ABORT: w.begun = false; return 0;
    case KD_SNAPSHOT_SHARE: return shared(a);
    case KD_HANDLE_CLOSE:
        w.handle[a].used = false;
        return 0;
    case KD_NAME_FIND: return 20 + *(const char *)a - '0';
    case KD_PORT_OWNER: return a < 20 ? -EOWNERDEAD : process_of((int)a - 20);
    case KD_OBJECT_FAIL:
        assert_true(a == OBJECT && c == 1 && d > 0);
        for (int i = 0; i < VIEWS; i++)
            if (w.view[i].asks && w.view[i].question == (uint32_t)e) {
                assert_int_equal(w.view[i].page, b);
                w.view[i].asks = false;
                w.stale++;
            }
        return 0;
    default: fail_msg("call %ld", number); return -ENOSYS;
    }
}

/* ---- the home: answers what was asked, in order ---- */

static void home(void)
{
    static uint64_t contents[KD_PAGE_BYTES / 8];
    if (!w.to_home.count) return;
    struct site_message m = w.to_home.m[w.to_home.first];
    w.to_home.first = (w.to_home.first + 1) % QUEUE;
    w.to_home.count--;
    struct site_message answer = {.answer_to = m.number, .page = m.page};
    if (m.kind == SITE_SNAP) {
        answer.error = any(10) ? 0 : EAGAIN;
        w.at_home[m.number] = !answer.error;
        uint64_t next = w.published + 1; /* after its tick */
        if (!answer.error) w.at_of[m.number] = next;
        uint64_t given = w.given;
        snapshot_begun(&answer);
        if (!answer.error && given == w.given) w.at_of[m.number] = 0;
    } else if (m.kind == SITE_STILL) {
        answer.error = w.at_home[m.serial] ? any(4) ? 0 : EAGAIN : ENOENT;
        snapshot_stood(&answer);
    } else {
        contents[0] = m.serial;
        answer.error = w.at_home[m.serial] ? 0 : ESTALE;
        answer.data = contents;
        answer.bytes = sizeof contents;
        snapshot_page_told(&answer);
    }
}

/* ---- programs ---- */

static void program(int i)
{
    if (w.program[i].token) return;
    if (w.program[i].handle) {
        if (any(3)) return;
        w.handle[w.program[i].handle].users--;
        w.program[i].handle = 0;
        return;
    }
    struct kd_message m = {.token = ++w.tokens, .process = 7};
    w.program[i].token = m.token;
    int status = snapshot_asked(&m);
    if (status <= 0) {
        w.program[i].token = 0;
        w.refused++;
    }
}

/* ---- managers of other homes, which lead snapshots that have a part here ---- */

int several_asked(const struct kd_message *m) { return (void)m, -EAGAIN; }
void several_counted(uint64_t word[3]) { (void)word; }

static int leads(int i, uint32_t kind, uint64_t word0, uint64_t word1, uint64_t *told)
{
    char store[STORE_NAME_BYTES] = {(char)('0' + i), '/'};
    struct kd_message m = {.kind = kind, .token = ++w.tokens, .word = {word0, word1},
                           .process = (uint64_t)process_of(i), .buffer = store,
                           .buffer_bytes = sizeof store};
    w.leader[i].token = m.token;
    int status = snapshot_part(&m);
    if (status <= 0) w.leader[i].token = 0;
    *told = m.word[0];
    return status;
}

static void forget_leader(int i)
{
    if (w.leader[i].handle) {
        w.handle[w.leader[i].handle].users--;
        w.handle[w.leader[i].handle].used = false;
    }
    w.leader[i].handle = 0;
    w.leader[i].name = w.leader[i].token = 0;
    w.leader[i].answered = w.leader[i].stands = false;
}

static void leader_dies(int i)
{
    if (w.leader[i].dead) {
        w.leader[i].dead = false;
        w.leader[i].lives++;
        return;
    }
    forget_leader(i);
    w.leader[i].dead = true;
}

static void waits_for(int i)
{
    uint64_t none;
    int status = leads(i, REMOTE_WAIT, w.leader[i].name, 0, &none);
    if (status > 0) return;
    w.leader[i].stands = w.leader[i].answered && !status;
    w.leader[i].answered = !status;
    w.parts += w.leader[i].stands;
}

static void leader(int i)
{
    uint64_t none, name = w.leader[i].name;
    if (w.leader[i].dead || w.leader[i].token) return;
    if (!name) {
        int status = leads(i, REMOTE_SNAP, 7, any(2), &w.leader[i].name);
        if (status) w.leader[i].name = 0;
        else waits_for(i);
        return;
    }
    int other = (int)any(LEADERS);      /* nobody else's word counts */
    if (other != i && !w.leader[other].dead && !w.leader[other].token)
        assert_int_equal(leads(other, REMOTE_DROP, name, 0, &none), -ENOENT);
    if (w.leader[i].answered && !w.leader[i].handle) {
        w.leader[i].handle = snapshot_point(&w.leader[i].at);
        w.handle[w.leader[i].handle].users++;
        if (!w.at_home[name]) return;
        w.at_of[name] = w.leader[i].at;
        assert_int_equal(leads(i, REMOTE_STILL, name, w.leader[i].at, &none), 0);
        waits_for(i);
    } else if (any(3) == 0) {
        forget_leader(i);
        w.at_of[name] = 0;
        assert_int_equal(leads(i, REMOTE_DROP, name, 0, &none), 0);
    }
}

/* ---- views ---- */

/* A view of a snapshot at one of the points, or at none, wants a page. It gives up, perhaps. */
static void view(int v)
{
    int i = (int)any(PROGRAMS + LEADERS), k = i - PROGRAMS;
    int handle = k < 0 ? w.program[i].handle : w.leader[k].stands ? w.leader[k].handle : 0;
    if (w.view[v].asks && any(4)) return;
    w.view[v].asks = handle != 0;
    if (!w.view[v].asks) return;
    w.view[v].page = any(8);
    w.view[v].at = any(5) ? w.handle[handle].at : w.published + 1;
    w.view[v].question = ++w.question;
    struct kd_message m = {.word = {0, 0, 1, KD_READ | KD_PAGE_OLD, (uint64_t)v + 1, OBJECT,
                                    w.view[v].question, w.view[v].at}};
    w.cached = any(2);
    snapshot_page_asked(PAGE(w.view[v].page), &m);
}

static void step(void)
{
    switch (any(11)) {
    case 0: program((int)any(PROGRAMS)); break;
    case 1: case 2: home(); break;
    case 3: view((int)any(VIEWS)); break;
    case 4: if (!any(4)) w.published++; break; /* another store of the machine */
    case 5: /* what the home has granted, or this site has committed there */
        w.published++;
        snapshot_page_came(PAGE(any(8)));
        break;
    case 6: (void)look(); break;
    case 7: case 8: leader((int)any(LEADERS)); break;
    case 9: if (!any(8)) leader_dies((int)any(LEADERS)); break;
    default: break;
    }
}

static void begin_world(uint64_t run)
{
    memset(&w, 0, sizeof w);
    memset(&remote, 0, sizeof remote);
    memset(snapshots, 0, sizeof snapshots);
    memset(waits, 0, sizeof waits);
    remote.containers[0] = (struct container){.id = 1, .segments = 1,
                                              .segment = {{OBJECT, BASE, 8}}};
    remote.openings[0] = (struct opening){.process = 7, .container = remote.containers,
                                          .times = 1};
    w.published = 10;
    seed = run;
}

static void end_world(void)
{
    while (w.to_home.count) home();
    for (int i = 0; i < LEADERS; i++) {
        assert_int_equal(w.leader[i].token, 0);
        if (!w.leader[i].dead) leader_dies(i);
    }
    for (int p = 0; p < 8; p++) snapshot_page_came(PAGE(p));
    for (int v = 0; v < VIEWS; v++) assert_false(w.view[v].asks); /* each has its answer */
    for (int i = 0; i < PROGRAMS; i++) {
        assert_int_equal(w.program[i].token, 0);
        if (w.program[i].handle) w.handle[w.program[i].handle].users--;
    }
    assert_int_equal(look(), 0);
    for (int i = 0; i < HANDLES; i++) assert_false(w.handle[i].used);
    for (int i = 0; i < NAMES; i++) assert_false(w.at_home[i]);
}

static void random_steps(void **state)
{
    uint64_t sums[6] = {0};
    (void)state;
    for (uint64_t run = 1; run <= 2000; run++) {
        begin_world(run);
        for (int i = 0; i < 1000; i++) step();
        end_world();
        const uint64_t of[] = {w.given, w.refused, w.parts, w.pages, w.stale, w.ended};
        for (int i = 0; i < 6; i++) sums[i] += of[i];
    }
    print_message("%lu given, %lu refused, %lu parts, %lu pages, %lu not, %lu ended\n",
                  (unsigned long)sums[0], (unsigned long)sums[1], (unsigned long)sums[2],
                  (unsigned long)sums[3], (unsigned long)sums[4], (unsigned long)sums[5]);
    for (int i = 0; i < 6; i++) assert_true(sums[i] > 1000);
}

/* More than there may be are refused; and of a program that has nothing open. */
static void bounded(void **state)
{
    (void)state;
    begin_world(2);
    struct kd_message m = {.token = 1, .process = 7};
    for (int i = 0; i < SNAPSHOTS_MAX; i++) assert_int_equal(snapshot_asked(&m), 1);
    assert_int_equal(snapshot_asked(&m), -EAGAIN);
    m.process = 8;
    assert_int_equal(snapshot_asked(&m), -EACCES);
    memset(&w.to_home, 0, sizeof w.to_home);
    uint64_t none;
    begin_world(3);
    for (int i = 0; i < SNAPSHOTS_MAX; i++)
        assert_int_equal(leads(0, REMOTE_SNAP, 7, 0, &none), 0);
    assert_int_equal(leads(0, REMOTE_SNAP, 7, 0, &none), -EAGAIN);
    assert_int_equal(leads(0, REMOTE_SNAP, 8, 0, &none), -EACCES);
    w.leader[1].dead = true;            /* it does not receive at the port that it names */
    assert_int_equal(leads(1, REMOTE_SNAP, 7, 0, &none), -EPERM);
    leader_dies(0);
    while (w.to_home.count) home();
    assert_int_equal(look(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_steps),
        cmocka_unit_test(bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
