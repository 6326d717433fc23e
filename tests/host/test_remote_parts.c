/*
 * test_remote_parts.c - a site's part in transactions of several stores
 * (user/sites/remote_parts.c, remote_commit.c).
 *
 * Aim     what the kernel asks of a base that votes goes to the home as it should, in the words of
 *         its store; nothing is answered before the home has; and each view is answered once.
 * Method  the files themselves between a kernel and a home that are tables here: what was called,
 *         what was sent. First each question alone, then random ones of all views at once.
 */
#define KATYDID_CALL_H                  /* the kernel is here */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/abi.h"

static long kd_call6(long number, long a, long b, long c, long d, long e, long f);
#define kd_call3(n, a, b, c) kd_call6(n, a, b, c, 0, 0, 0)
#include "user/sites/frame.c"
#include "user/sites/message.c"
#include "user/sites/pages.c"
#include "user/sites/remote_commit.c"
#include "user/sites/remote_parts.c"
#include <cmocka.h>

enum { BASES = 3, PEER = 5, STORE = 77, OWN = 20, SENT = 256 };
#define BASE 0x200000000000ull

struct remote remote = {.zone = OWN};
static struct container container = {.id = 1, .segments = 1, .segment = {{3, BASE, 16}}};
static struct opening opening = {.process = 9, .container = &container, .times = 1, .writes = true};

/* ---- the kernel's tables ---- */

enum answered { NO, VOTED, PUBLISHED, REFUSED };
static struct { enum answered is; int error; unsigned times; uint64_t token; } view[KD_VIEW_MAX];
static struct kd_parts k;
static bool parts_gone;
static uint64_t outcome;                /* what the peer says; ~0: it is not there */
static struct wire_peer asked;
static struct kd_message replied;
static unsigned asks;

static void answer_note(uint64_t v, uint64_t token, enum answered is, int error)
{
    view[v].is = is;
    view[v].error = error;
    view[v].token = token;
    view[v].times++;
}

static long call_peer(struct kd_message *m)
{
    asks++;
    assert_int_equal(m->kind, WIRE_PEER_OUTCOME);
    assert_int_equal(m->word[0], OWN);
    memcpy(&asked, m->data, sizeof asked);
    if (outcome == ~0ull) return -ENOENT;
    m->status = 0;
    m->word[0] = outcome;
    return 0;
}

static long kd_call6(long number, long a, long b, long c, long d, long e, long f)
{
    (void)c, (void)d, (void)e, (void)f;
    switch (number) {
    case KD_TXN_DIFF: {
        struct kd_diff *diff = (void *)a;
        const struct kd_run run = {.cookie = 1 << 4, .page = 2, .offset = 8, .bytes = 8};
        memcpy(diff->buffer, &run, sizeof run);
        memset((uint8_t *)diff->buffer + sizeof run, 7, 8);
        diff->buffer_bytes = sizeof run + 8;
        diff->cursor = ~0ull;
        return 0;
    }
    case KD_TXN_PARTS: {
        struct kd_parts *out = (void *)a;
        k.view = out->view;
        k.token = out->token;
        *out = k;
        return parts_gone ? -ESRCH : 0;
    }
    case KD_TXN_VOTED: answer_note((uint64_t)a, (uint64_t)b, VOTED, 0); return 0;
    case KD_TXN_REFUSE: answer_note((uint64_t)a, (uint64_t)b, REFUSED, (int)c); return 0;
    case KD_TXN_PUBLISH: {
        const struct kd_publish *p = (void *)a;
        answer_note(p->view, p->token, PUBLISHED, 0);
        return 0;
    }
    case KD_NAME_FIND: {
        char name[16];
        snprintf(name, sizeof name, "peer %d", PEER);
        return strcmp((const char *)a, name) == 0 ? 40 : -ENOENT;
    }
    case KD_PORT_CALL_UNTIL: return call_peer((void *)b);
    case KD_PORT_OWNER: return STORE;
    case KD_PORT_REPLY: memcpy(&replied, (void *)b, sizeof replied); return 0;
    default: return 0;
    }
}

void remote_lock(void) {}
uint64_t remote_now(void) { return 1000000000; }
void remote_unlock(void) {}
_Noreturn void remote_ends(const char *why) { fail_msg("%s", why); abort(); }
struct container *container_of_id(uint64_t id) { return id == 1 ? &container : NULL; }
struct opening *opening_of(uint64_t process, const struct container *c)
{
    return process == opening.process && c == &container ? &opening : NULL;
}
struct container *container_at(uint64_t address, struct segment **s)
{
    *s = &container.segment[0];
    return address >= BASE ? &container : NULL;
}
uint32_t crc32c(uint32_t sum, const void *bytes, size_t count)
{
    (void)bytes, (void)count;
    return sum;
}

/* ---- the home: what was sent ---- */

static uint8_t frames[SENT][4096];
static struct site_message sent[SENT];
static unsigned sent_count;

static void sent_note(const void *frame, size_t bytes)
{
    struct frame f;
    assert_true(sent_count < SENT && bytes <= sizeof frames[0]);
    memcpy(frames[sent_count], frame, bytes);
    assert_true(frame_head(&f, frame, bytes));
    assert_true(message_take(&sent[sent_count], &f, frames[sent_count]));
    sent_count++;
}

int link_send(int handle, const void *at, size_t bytes)
{
    (void)handle;
    sent_note(at, bytes);
    return 0;
}

uint64_t remote_place(void) { return 1; }
uint8_t *remote_frame(void) { return NULL; }
void remote_frame_is(size_t bytes) { (void)bytes; }
void remote_send(const struct site_message *m)
{
    uint8_t frame[512];
    sent_note(frame, message_put(m, frame, sizeof frame));
}

static struct { uint32_t kind; uint64_t what, token, word1; size_t bytes; } home_asked;
int store_home_ask(uint32_t kind, uint64_t what, const void *data, size_t bytes, uint64_t token,
                   uint64_t word1)
{
    (void)data;
    home_asked.kind = kind, home_asked.what = what, home_asked.bytes = bytes;
    home_asked.token = token, home_asked.word1 = word1;
    return 0;
}

/* ---- steps ---- */

static void begin(void)
{
    memset(view, 0, sizeof view);
    memset(pending, 0, sizeof pending);
    memset(parts, 0, sizeof parts);
    pages_free(&remote.pages);
    remote.pages = (struct site_pages){.most = 64};
    struct site_page *p = pages_make(&remote.pages, BASE + 2 * SITE_PAGE_BYTES);
    p->right = SITE_EXCLUSIVE;
    p->serial = 6;
    sent_count = asks = 0;
    parts_gone = false;
    outcome = ~0ull;
    k = (struct kd_parts){.count = BASES};
    for (int i = 0; i < 16; i++) k.id[i] = (uint8_t)(i + 1);
    for (int i = 0; i < BASES; i++) memset(k.base[i], 0x10 * (i + 1), sizeof k.base[i]);
}

static struct wire_op room = {.kind = WIRE_ROOM, .op_bytes = sizeof(struct wire_op),
                              .container = 1};
static void kernel_asks(uint64_t v, enum kd_part part, uint64_t token)
{
    struct kd_message m = {.kind = (uint32_t)KD_MSG_COMMIT, .token = token, .process = 9,
                           .word = {v, 1, 0, (uint64_t)part << KD_PART_SHIFT | 5},
                           .buffer = &room, .buffer_bytes = sizeof room};
    if (part >= KD_PART_COMMIT) m.buffer_bytes = 0;
    commit_asked(&m);
}

static void home_says(enum site_kind kind, int error)
{
    const struct site_message m = {.kind = kind, .answer_to = sent[sent_count - 1].number,
                                   .error = error};
    if (kind == SITE_APPLIED) parts_applied(&m);
    else commit_answered(&m);
}

static void votes(uint64_t v)
{
    kernel_asks(v, KD_PART_VOTE, 11);
    home_says(SITE_VOTED, 0);
    assert_int_equal(view[v].is, VOTED);
}

/* ---- each question ---- */

static void a_vote_is_the_homes(void **state)
{
    struct wire_op op;
    struct wire_vote v;
    (void)state;
    begin();
    kernel_asks(4, KD_PART_VOTE, 11);
    const struct site_message *m = &sent[0];
    assert_int_equal(m->kind, SITE_COMMIT);
    assert_int_equal(m->request, 0);    /* no part is lazy */
    assert_int_equal(m->bytes, sizeof op + sizeof v + sizeof room);
    memcpy(&op, m->data, sizeof op);
    memcpy(&v, (const uint8_t *)m->data + sizeof op, sizeof v);
    assert_int_equal(op.kind, WIRE_VOTE);
    assert_memory_equal(&v.id, k.id, sizeof k.id);
    assert_memory_equal(v.coordinator, k.base[BASES - 1], sizeof v.coordinator);
    assert_memory_equal((const uint8_t *)m->data + op.op_bytes, &room, sizeof room);
    assert_true(m->runs_bytes > 0 && view[4].is == NO);
    home_says(SITE_VOTED, 0);
    assert_true(view[4].is == VOTED && view[4].token == 11);
    kernel_asks(5, KD_PART_VOTE, 12);
    home_says(SITE_VOTED, ENOSPC);
    assert_true(view[5].is == REFUSED && view[5].error == ENOSPC && view[5].times == 1);
    kernel_asks(5, KD_PART_COMMIT, 13); /* it has not voted */
    assert_true(view[5].is == REFUSED && view[5].error == ECANCELED && sent_count == 2);
    parts_gone = true;
    kernel_asks(6, KD_PART_VOTE, 14);
    assert_true(view[6].is == REFUSED && sent_count == 2);
}

static void an_outcome_is_told_and_awaited(void **state)
{
    (void)state;
    for (int commits = 0; commits < 2; commits++) {
        begin();
        votes(4);
        kernel_asks(4, commits ? KD_PART_COMMIT : KD_PART_UNDO, 21);
        const struct site_message *m = &sent[1];
        assert_true(m->kind == SITE_DECIDE && m->right == commits);
        assert_memory_equal(m->word, k.id, sizeof k.id);
        assert_int_equal(view[4].is, VOTED);
        home_says(SITE_APPLIED, commits ? 0 : ECANCELED);
        assert_true(view[4].is == (commits ? PUBLISHED : REFUSED) && view[4].token == 21);
        assert_true(commits || view[4].error == ECANCELED);
    }
    begin();
    votes(4);
    kernel_asks(4, KD_PART_COMMIT, 21);
    home_says(SITE_APPLIED, ENOENT);    /* who decides has told the home */
    assert_int_equal(view[4].is, PUBLISHED);
}

static void a_decision_names_the_others(void **state)
{
    struct wire_op op;
    struct wire_participant p;
    (void)state;
    begin();
    kernel_asks(4, KD_PART_DECIDE, 11);
    const uint8_t *data = sent[0].data;
    memcpy(&op, data, sizeof op);
    assert_true(op.kind == WIRE_DECISION && sent[0].request == 0);
    assert_int_equal(op.op_bytes, sizeof op + sizeof k.id + (BASES - 1) * sizeof p);
    assert_memory_equal(data + sizeof op, k.id, sizeof k.id);
    for (unsigned i = 0; i + 1 < BASES; i++) {
        memcpy(&p, data + sizeof op + sizeof k.id + i * sizeof p, sizeof p);
        assert_memory_equal(p.store, k.base[i], sizeof p.store);
    }
    assert_int_equal(view[4].is, NO);
    home_says(SITE_DONE, 0);
    assert_true(view[4].is == PUBLISHED);
    kernel_asks(4, KD_PART_DECIDE, 12);
    home_says(SITE_REFUSED, EDEADLK);
    assert_true(view[4].is == REFUSED && view[4].error == EDEADLK);
}

static void who_decides_is_asked_until_it_says(void **state)
{
    (void)state;
    for (int commits = 0; commits < 2; commits++) {
        begin();
        votes(4);
        kernel_asks(4, KD_PART_ASK, 31);
        assert_true(sent_count == 1 && parts[4].asks);
        ask_for(&parts[4]);             /* it is not there */
        outcome = WIRE_IN_DOUBT;
        ask_for(&parts[4]);
        assert_true(sent_count == 1 && asks == 2 && view[4].is == VOTED);
        assert_memory_equal(asked.store, k.base[BASES - 1], sizeof asked.store);
        assert_memory_equal(&asked.id[0], k.id, sizeof k.id);
        outcome = commits ? WIRE_COMMITTED : WIRE_UNDONE;
        ask_for(&parts[4]);
        assert_true(sent_count == 2 && sent[1].kind == SITE_DECIDE && sent[1].right == commits);
        assert_true(!parts[4].asks);
        home_says(SITE_APPLIED, commits ? 0 : ECANCELED);
        assert_true(view[4].is == (commits ? PUBLISHED : REFUSED) && view[4].token == 31);
    }
}

static void only_stores_ask_the_homes(void **state)
{
    struct wire_peer q = {.count = 1};
    struct kd_message m = {.kind = WIRE_PEER_DOUBTS, .token = 8, .process = STORE + 1,
                           .word = {PEER, 99}, .buffer = &q, .buffer_bytes = sizeof q};
    (void)state;
    begin();
    peer_asked(&m);
    assert_true(replied.status == -EPERM && home_asked.token == 0);
    m.process = STORE;
    m.word[0] = PEER + 1;               /* nobody's */
    peer_asked(&m);
    assert_true(replied.status == -EPERM && home_asked.token == 0);
    m.word[0] = PEER;
    peer_asked(&m);                     /* the home has not said which store it is */
    assert_true(replied.status == -ENOENT && home_asked.token == 0);
    parts_named(0, (const uint64_t[]){77, 78});
    peer_asked(&m);                     /* for another store it does not speak (PS1) */
    assert_true(replied.status == -ENOENT && home_asked.token == 0);
    memcpy(q.store, (const uint64_t[]){77, 78}, sizeof q.store);
    peer_asked(&m);
    assert_true(home_asked.kind == SITE_PEER && home_asked.what == WIRE_PEER_DOUBTS);
    assert_true(home_asked.token == 8 && home_asked.word1 == 99 && home_asked.bytes == sizeof q);
}

/* ---- many at once ---- */

#include "any.h"

static void each_view_is_answered_once(void **state)
{
    enum { VIEWS = 12 };
    unsigned commits = 0;
    (void)state;
    for (unsigned run = 1; run <= 200; run++) {
        struct { int at; bool commits; uint64_t number; } v[VIEWS] = {{0}};
        begin();
        seed = run;
        for (int left = VIEWS; left > 0;) {
            unsigned i = any(VIEWS);
            unsigned before = sent_count;
            k.id[0] = (uint8_t)i;
            outcome = any(2) ? WIRE_IN_DOUBT : v[i].commits ? WIRE_COMMITTED : WIRE_UNDONE;
            switch (v[i].at) {
            case 0: kernel_asks(i, KD_PART_VOTE, i); break;
            case 1:
                assert_int_equal(view[i].times, 0);
                commit_answered(&(struct site_message){.kind = SITE_VOTED,
                                                       .answer_to = v[i].number});
                break;
            case 2:
                assert_true(view[i].times == 1 && view[i].is == VOTED);
                v[i].commits = any(2);
                kernel_asks(i, any(2) ? KD_PART_ASK : v[i].commits ? KD_PART_COMMIT : KD_PART_UNDO,
                            100 + i);
                break;
            case 3: /* it asks, until it has heard */
                while (parts[i].asks && any(4)) ask_for(&parts[i]);
                if (parts[i].asks) continue;
                assert_int_equal(view[i].times, 1);
                parts_applied(&(struct site_message){
                    .kind = SITE_APPLIED, .answer_to = parts[i].number,
                    .error = v[i].commits ? 0 : ECANCELED});
                assert_true(view[i].times == 2 && view[i].token == 100 + i);
                assert_int_equal(view[i].is, v[i].commits ? PUBLISHED : REFUSED);
                commits += v[i].commits;
                left--;
                break;
            default: continue;
            }
            v[i].at++;
            if (sent_count > before && v[i].at == 1) v[i].number = sent[before].number;
        }
    }
    assert_true(commits > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vote_is_the_homes),
        cmocka_unit_test(an_outcome_is_told_and_awaited),
        cmocka_unit_test(a_decision_names_the_others),
        cmocka_unit_test(who_decides_is_asked_until_it_says),
        cmocka_unit_test(only_stores_ask_the_homes),
        cmocka_unit_test(each_view_is_answered_once),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
