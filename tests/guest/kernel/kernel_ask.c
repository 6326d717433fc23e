/*
 * kernel_ask.c - pages that come without rights, so that each first touch asks for its own.
 *
 * Aim     what is asked and what is not; an answer counts for the question it answers and for
 *         nothing else: not for another access, another transaction, a neighbour; who asks a
 *         manager that is no more does not wait for it.
 * Method  own_manager.h. Its thread answers at once, or keeps what it was asked for the test to
 *         answer.
 */
enum { PAGES = 64, SHORT_MS = 60, LONG_MS = 20000, LOST_MS = 2000, KEPT_MAX = 4, NEVER = 5,
       OTHERS = 31 };
#include "own_manager.h"
#include <sched.h>

static _Atomic long asked, asked_access, told;
static _Atomic int less;           /* than a store asks for is given next */
static _Atomic int keep;           /* answers, for the test to give */
static struct kd_message kept[KEPT_MAX];
static _Atomic int kept_count;
static _Atomic int lose;           /* the next message is received to where nothing lies */

static long answer(const struct kd_message *m, int error)
{
    long page = (long)m->word[1], number = (long)m->word[6];
    if (error)
        return kd_call6(KD_OBJECT_FAIL, object, page, 1, error, number, 0);
    bool all = m->word[3] & KD_WRITE && !less;
    less = 0;
    return kd_call6(KD_OBJECT_GRANT, object, page, 1, all ? KD_READ | KD_WRITE : KD_READ, number,
                    0);
}

/* Does somebody still ask it? */
static long stands(const struct kd_message *m)
{
    return kd_call6(KD_OBJECT_FAIL, object, (long)m->word[1], 1, EAGAIN, (long)m->word[6], 0);
}

static bool asked_for(struct kd_message *m)
{
    if (m->kind == (uint32_t)KD_MSG_RECALLED) {
        told++;
        return true;
    }
    if (m->kind != (uint32_t)KD_MSG_PAGE || !(m->word[3] & KD_PAGE_HERE))
        return false;
    asked++;
    asked_access = (long)m->word[3] & (KD_READ | KD_WRITE);
    if (!keep) {
        answer(m, m->word[1] == NEVER ? EPERM : 0);
    } else if (kept_count < KEPT_MAX) {
        kept[kept_count] = *m;
        kept_count++;
    }
    if (lose) {
        lose = 0;
        kd_call3(KD_PORT_RECEIVE, port, 8, -1);
    }
    return true;
}

static void *number(unsigned page) { return (void *)(uintptr_t)page; }
static int reads(void *page) { return (int)(*word_of((unsigned)(uintptr_t)page, 0) & 0); }
/* no load */
static int writes(void *page) { *word_of((unsigned)(uintptr_t)page, 0) = 1; return 0; }
static int reads_then_writes(void *page) { return reads(page) + writes(page); }
static int reads_four(void *page)
{
    for (unsigned i = 0; i < 4; i++)
        (void)*word_of((unsigned)(uintptr_t)page + i, 0);
    return 0;
}

/* How often was it asked? */
static long asks(int (*body)(void *), unsigned page, int *result)
{
    long before = asked;
    *result = run(body, number(page), KD_SERIALISABLE, LONG_MS);
    return asked - before;
}

static void what_is_asked(void)
{
    int e;
    tap_ok(asks(reads, 1, &e) == 1 && e == 0 && asked_access == 1,
           "a first load asks, for reading");
    tap_ok(asks(reads, 1, &e) == 0 && e == 0, "a right that was kept does not");
    tap_ok(asks(writes, 1, &e) == 1 && e == 0 && asked_access == 2,
           "a first store asks, for writing");
    tap_ok(asks(reads_then_writes, 2, &e) == 2 && e == 0, "a word for a load is none for a store");
    tap_ok(asks(reads_four, 8, &e) == 4 && e == 0, "nor for the neighbours");
    view_anew();
    tap_ok(asks(reads_four, 8, &e) == 4 && e == 0, "nor if they are in memory");
    kd_call6(KD_OBJECT_GRANT, object, 8, 1, KD_READ, 0, 0);
    view_anew();                        /* the first fault of it keeps the leaf for the others */
    tap_ok(asks(reads_four, 8, &e) == 3 && e == 0, "nor near a page that the kernel may give");
    view_anew();
    tap_ok(asks(reads_then_writes, 8, &e) == 1 && e == 0 && asked_access == 2,
           "nor is a store free where a load is");
    tap_ok(asks(writes, NEVER, &e) == 1 && e == -EPERM, "what is refused ends the transaction");
    tap_ok(asks(reads, NEVER, &e) == 1 && e == -EPERM, "and is asked for again");
    less = 1;
    tap_ok(asks(writes, 20, &e) == 2 && e == 0, "a store that may only load asks again");
}

/* ---- a page in somebody's hands ---- */

static _Atomic int at, go;
static int holds_page(void *page)
{
    writes(page);
    at = 1;
    while (!go) sched_yield();
    return 0;
}
static void *holder(void *page)
{
    run(holds_page, page, KD_SERIALISABLE, 0);
    return NULL;
}

static void one_word_one_transaction(void)
{
    pthread_t t;
    int e;
    pthread_create(&t, NULL, holder, number(OTHERS));
    while (!at) sched_yield();
    long before = asked;
    unsigned ms = SHORT_MS;
    do e = run(reads, number(OTHERS), KD_SERIALISABLE, ms);
    /* its time was up before it had asked */
    while (e == -ETIMEDOUT && asked == before && (ms *= 4) < LONG_MS);
    tap_ok(e == -ETIMEDOUT && asked - before == 1, "who waits for a page has asked once (%ld, %d)",
           asked - before, e);
    go = 1;
    pthread_join(t, NULL);
    tap_ok(asks(reads, OTHERS, &e) == 1 && e == 0, "the word ended with the transaction");
}

/* ---- answers that come late ---- */

static struct asker { int (*body)(void *); unsigned page; volatile int result; } asker;
static void *ask_main(void *arg)
{
    (void)arg;
    unsigned ms = SHORT_MS;
    do asker.result = run(asker.body, number(asker.page), KD_SERIALISABLE, ms);
    /* its time was up before it had asked */
    while (asker.result == -ETIMEDOUT && !kept_count && (ms *= 4) < LONG_MS);
    asker.result = run(writes, number(asker.page), KD_SERIALISABLE, LONG_MS);
    return NULL;
}

/* The load's question is left unanswered until its time is up; then the store's stands open. What
 * is told of the first one's end the manager hears before the second one. */
static void late_answers(void)
{
    pthread_t t;
    long before = told;
    keep = 1;
    asker = (struct asker){.body = reads, .page = 40, .result = 1};
    pthread_create(&t, NULL, ask_main, NULL);
    while (kept_count < 2) sched_yield();
    tap_ok(asker.result == -ETIMEDOUT, "a question ends with its transaction's time (%d)",
           asker.result);
    tap_ok(told == before + 1, "that nobody asks it any more is told (%ld)", told - before);
    tap_ok(stands(&kept[0]) == -ESRCH && stands(&kept[1]) == 0 && stands(&kept[1]) == 0,
           "and which one it was can be seen; the other one stands");
    long e = answer(&kept[0], 0);
    tap_ok(e == -ESRCH && answer(&kept[0], EPERM) == -ESRCH, "its answer comes too late (%ld)", e);
    e = kd_call6(KD_OBJECT_GRANT, object, 40, 1, 0, (long)kept[1].word[6], 0);
    while (kept_count < 3) sched_yield();
    tap_ok(e == 0 && stands(&kept[1]) == -ESRCH && stands(&kept[2]) == 0,
           "a grant of no rights has it ask anew, by another number");
    e = answer(&kept[2], EACCES);
    pthread_join(t, NULL);
    tap_ok(e == 0 && asker.result == -EACCES, "an answer is taken for its own question (%ld, %d)",
           e, asker.result);
    tap_ok(answer(&kept[2], 0) == -ESRCH, "which is answered once");
    tap_ok(told == before + 1, "of a question that was answered nothing is told");
    tap_ok(check() == 0, "kcheck is clean");
}

/* The manager's receive fails with the question in its hands: who asked is told, and does not wait
 * for ever. */
static void lost(void)
{
    pthread_t t;
    kept_count = 0;
    lose = 1;
    asker = (struct asker){.body = reads, .page = 41, .result = 1};
    pthread_create(&t, NULL, ask_main, NULL);
    while (!kept_count) sched_yield();
    int e = run(reads, number(42), KD_SERIALISABLE, LOST_MS);
    tap_ok(e == -EIO, "a question that its manager could not receive is an error (%d)", e);
    while (kept_count < 2) sched_yield();
    answer(&kept[1], 0);
    pthread_join(t, NULL);
    tap_ok(asker.result == 0 && check() == 0, "its next one is heard");
}

static void *ask_once(void *arg)
{
    (void)arg;
    asker.result = run(reads, number(50), KD_SERIALISABLE, LONG_MS); /* is asleep until then */
    return NULL;
}

static void destroyed(void)
{
    pthread_t t;
    kept_count = 0;
    pthread_create(&t, NULL, ask_once, NULL);
    while (!kept_count) sched_yield();
    long e = kd_call3(KD_OBJECT_DESTROY, object, 0, 0);
    pthread_join(t, NULL);
    tap_ok(e == 0 && asker.result == -EOWNERDEAD,
           "who asks does not wait for an object that is no more (%d)", asker.result);
    tap_ok(check() == 0, "kcheck is clean");
}

int main(void)
{
    tap_plan(27);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .closed = true,
                                              .messages = asked_for}),
           "an object that asks");
    what_is_asked();
    one_word_one_transaction();
    late_answers();
    lost();
    destroyed();
    return tap_end();
}
