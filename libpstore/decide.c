/* decide.c - decide.h: calls to the store manager, which knows who decides. */
#include "decide.h"

#include <errno.h>

#include "pstore_private.h"

_Static_assert((int)PS_DECIDE_STORE == WIRE_DECIDE_STORE &&
                   (int)PS_DECIDE_PROGRAM == WIRE_DECIDE_CALLER &&
                   (int)PS_RECALLED == WIRE_RECALLED && (int)PS_ASKED == WIRE_ASKED,
               "one number means one thing");

static int decide_call(const ps_container *c, struct kd_message *m)
{
    if (!container_is_open(c) || tx_active())
        return -EINVAL;
    m->kind = STORE_DECIDE;
    m->handle = -1;
    m->word[0] = c->id;
    int result = (int)ps_kernel(KD_PORT_CALL, c->store->port, (long)m, 0);
    if (result == -EBADF)
        result = -EOWNERDEAD;
    if (result == -EOWNERDEAD)
        stores_note_death();
    return result ? result : m->status;
}

int ps_decide(ps_container *c, int who)
{
    struct kd_message m = {.word = {0, (uint64_t)who}};
    if (who < PS_DECIDE_KERNEL || who > PS_DECIDE_PROGRAM)
        return -EINVAL;
    return decide_call(c, &m);
}

static int is_answer(const struct ps_question *q)
{
    return q->answer <= PS_GRANT_ALL && q->answer >= -4095;
}

/* answer_of makes a message of the answer in q. */
static struct kd_message answer_of(const struct ps_question *q)
{
    int all = q->answer == PS_GRANT_ALL;
    int error = q->answer == PS_LATER ? EAGAIN : q->answer < 0 ? -q->answer : 0;
    uint64_t rights = q->write || all ? KD_READ | KD_WRITE : KD_READ;
    uint64_t what = error ? WIRE_DECIDE_FAIL : WIRE_DECIDE_GRANT;
    return (struct kd_message){.word = {0, what, (uintptr_t)q->page, 1,
                                        error ? (uint64_t)error : rights, all ? 0 : q->number}};
}

int ps_decide_next(ps_container *c, struct ps_question *q)
{
    struct kd_message m = {.word = {0, WIRE_DECIDE_NEXT}};
    if (q->number && q->kind == PS_ASKED) {
        if (!is_answer(q))
            return -EINVAL;
        m = answer_of(q);
        m.word[1] |= WIRE_DECIDE_AND_NEXT;
    }
    int result = decide_call(c, &m);
    q->answer = PS_LATER;
    if (result)
        return result;
    *q = (struct ps_question){.kind = (int)m.word[0], .write = m.word[2] == KD_WRITE,
                              .page = (void *)(uintptr_t)m.word[1], .view = m.word[3],
                              .number = m.word[4]};
    return 0;
}

int ps_decide_answer(ps_container *c, const struct ps_question *q)
{
    if (q->kind != PS_ASKED || !is_answer(q))
        return -EINVAL;
    struct kd_message m = answer_of(q);
    return decide_call(c, &m);
}

int ps_decide_grant(ps_container *c, const void *page, uint64_t pages, int write)
{
    struct kd_message m = {.word = {0, WIRE_DECIDE_GRANT, (uintptr_t)page, pages,
                                    write ? KD_READ | KD_WRITE : KD_READ}};
    return decide_call(c, &m);
}

long ps_decide_recall(ps_container *c, const void *page, uint64_t pages, int to_read,
                      uint64_t users[2])
{
    struct kd_message m = {.word = {0, WIRE_DECIDE_RECALL, (uintptr_t)page, pages,
                                    to_read ? KD_READ : 0}};
    int result = decide_call(c, &m);
    if (result == 0 && users) {
        users[0] = m.word[1];
        users[1] = m.word[2];
    }
    return result ? result : (long)m.word[0];
}

int ps_decide_waits(ps_container *c, uint64_t view, const uint64_t users[2])
{
    struct kd_message m = {.word = {0, WIRE_DECIDE_WAITS, view, users[0], users[1]}};
    return decide_call(c, &m);
}
