/*
 * kernel_late.c - a manager that fails to take a COMMIT answers that one, not what its view asks
 * next.
 *
 * Aim     a thread of the manager received a COMMIT, and its message's buffer fails long after;
 *         meanwhile another thread has refused that COMMIT, and the next one of the same view is
 *         queued.
 * Method  own_manager.h. The buffer lies in an object of this process whose only page fails when
 *         the test says.
 */
enum { PAGES = 4 };
struct kd_message;
static _Bool late_message(struct kd_message *m);
#include "own_manager.h"

static struct kd_message *slow;         /* lies in the page that does not come */
static int slow_port, slow_object;
static _Atomic uint64_t view, token;   /* of the last COMMIT that was received */
static _Atomic int stall;              /* the next COMMIT is received into `slow` */
static _Atomic long received;

static _Bool late_message(struct kd_message *m)
{
    if (m->kind != (uint32_t)KD_MSG_COMMIT) return 0;
    view = m->word[0];
    token = m->token;
    serve_commit(m);
    if (stall) {
        stall = 0;
        received = kd_call3(KD_PORT_RECEIVE, commit_port, (long)slow, -1);
    }
    return 1;
}

/* Of the transaction that commits in the view; 0: none does. */
static uint64_t committing(void)
{
    enum { COMMITTING = 3 };
    static struct kd_view_info list[KD_VIEW_MAX];
    for (long i = 0, n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0); i < n; i++)
        if (list[i].view == view) return list[i].state == COMMITTING ? list[i].ticket : 0;
    return 0;
}

/* The slow page was asked for, so the COMMIT is in a receiver's hands. */
static void *refuser(void *unused)
{
    struct kd_message m = {0};
    kd_call3(KD_PORT_RECEIVE, slow_port, (long)&m, -1);
    uint64_t refused = committing(), now;
    kd_call3(KD_TXN_REFUSE, (long)view, (long)token + 1, ENOSPC);
    while ((now = committing()) == 0 || now == refused) kd_call3(24, 0, 0, 0);
    kd_call4(KD_OBJECT_FAIL, slow_object, 0, 1, EIO);
    return unused;
}

static int write_word(void *arg)
{
    *word_of(1, 0) = (uint64_t)(uintptr_t)arg;
    return 0;
}

int main(void)
{
    pthread_t t;
    tap_plan(5);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .messages = late_message}),
           "an object is created and attached");
    slow_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    struct kd_object_create c = {
        .port = slow_port, .commit_port = slow_port, .pages = 1, .name = "slow"
    };
    slow_object = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    slow = (void *)c.base;
    long e = kd_call3(KD_SPACE_ATTACH, getpid(), slow_object, KD_RIGHT_READ | KD_RIGHT_WRITE);
    tap_ok(slow_object >= 0 && e == 0, "and another one, for a buffer");
    pthread_create(&t, NULL, refuser, NULL);
    stall = 1;
    int first = run(write_word, (void *)1, KD_SERIALISABLE, 0);
    int second = run(write_word, (void *)2, KD_SERIALISABLE, 0);
    int third = run(write_word, (void *)3, KD_SERIALISABLE, 0);
    pthread_join(t, NULL);
    tap_ok(first == 0 && second == -ENOSPC && received == -EFAULT,
           "a COMMIT is refused while its buffer fails (%d %d %ld)", first, second, received);
    tap_ok(third == 0, "the failure answers nothing that came later (%d)", third);
    tap_ok(check() == 0, "kcheck is clean");
    return tap_end();
}
