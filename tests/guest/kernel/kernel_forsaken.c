/*
 * kernel_forsaken.c - clients that are killed while their manager has their COMMIT and says
 * nothing.
 *
 * Aim     the process ends at once. What it committed stays whole and shut to others, until the
 *         manager answers late, or ends: then it is there, or not, as the manager said, and views,
 *         copies, frames, handles and credits are as before. The manager hears of the client's end
 *         after its answer.
 * Method  own_manager.h, with a manager that keeps the COMMITs it receives until the test answers
 *         them; clients are this program again.
 */
enum { PAGES = 16, CREDITS = 12 };

#include "own_manager.h"
#include <sched.h>
#include <stdio.h>

#include "hostile.h"

enum {
    KIND_OPEN = 1, KIND_RECEIVED, END = 9, KILLED = 137, SURE_S = 30, LIVES = 20, SLACK = 8,
    LATE_MS = 60, THEIRS = 4,
    KEPT_MAX = 4,
};

static struct kd_message kept[KEPT_MAX];
static _Atomic int kept_count, gone;   /* CLIENT_GONE messages */
static const char *self;

static void lend(const struct kd_message *m) /* what its commit spends */
{
    CALL(KD_CREDIT_GRANT, commit_port, m->word[1]);
}

static bool keep_commits(struct kd_message *m)
{
    if (m->kind == KIND_OPEN) {
        struct kd_message reply = {.handle = -1, .word = {base}};
        reply.status =
            (int)CALL(KD_SPACE_ATTACH, m->process, object, KD_RIGHT_READ | KD_RIGHT_WRITE);
        CALL(KD_PORT_REPLY, m->token, &reply);
    } else if (m->kind == KIND_RECEIVED) {
        struct kd_message reply = {.handle = -1, .status = kept_count ? 0 : -EAGAIN};
        CALL(KD_PORT_REPLY, m->token, &reply);
    } else if (m->kind == (uint32_t)KD_MSG_CLIENT_GONE) {
        gone++;
    } else if (m->kind == (uint32_t)KD_MSG_CREDIT_LOW) {
        CALL(KD_CREDIT_GRANT, commit_port, 0); /* there are no more */
    } else if (m->kind == (uint32_t)KD_MSG_COMMIT && m->process != (uint64_t)getpid()) {
        kept[kept_count] = *m;
        kept_count++;
    } else {
        if (m->kind == (uint32_t)KD_MSG_COMMIT) lend(m);
        return false;
    }
    return true;
}

/* ---- transactions ---- */

struct range { unsigned from, count; uint64_t value; };
static int write_range(void *arg)
{
    const struct range *r = arg;
    for (unsigned p = r->from; p < r->from + r->count; p++) *word_of(p, p) = r->value;
    return 0;
}
static int read_range(void *arg)
{
    const struct range *r = arg;
    int bad = 0;
    for (unsigned p = r->from; p < r->from + r->count; p++) bad += *word_of(p, p) != r->value;
    return bad;
}
static int writes(unsigned from, unsigned count, uint64_t value, unsigned ms)
{
    return run(write_range, &(struct range){from, count, value}, KD_SERIALISABLE, ms);
}
static int is_there(unsigned from, unsigned count, uint64_t value)
{
    return run(read_range, &(struct range){from, count, value}, KD_SERIALISABLE, 0) == 0;
}

/* ---- the client: pages 0.. get `value` ---- */

static void *second_writer(void *value)
{
    return writes(THEIRS / 2, THEIRS / 2, (uint64_t)(uintptr_t)value, 0) ? value : NULL;
}

static int client(const char *role, uint64_t value)
{
    struct kd_message m = {.kind = KIND_OPEN, .handle = -1};
    pthread_t t;
    if (CALL(KD_PORT_CALL, 0, &m) || m.status) return 1;
    base = m.word[0];
    if (strcmp(role, "one") == 0) return writes(0, THEIRS, value, 0) ? 2 : END;
    if (strcmp(role, "timed") == 0) { /* as short as its COMMIT is received just so */
        unsigned ms = 1;
        int e;
        while ((e = writes(0, THEIRS, value, ms)) == -ETIMEDOUT) ms *= 2;
        return e ? 2 : END;
    }
    if (pthread_create(&t, NULL, second_writer, (void *)(uintptr_t)value)) return 3;
    if (strcmp(role, "two") == 0) return writes(0, THEIRS / 2, value, 0) ? 2 : END;
    do { /* "exec": until the other thread's COMMIT is received; before that it is taken back */
        sched_yield();
        m = (struct kd_message){.kind = KIND_RECEIVED, .handle = -1};
    } while (CALL(KD_PORT_CALL, 0, &m) == -EAGAIN);
    execl("/bin/kernel_forsaken", "kernel_forsaken", "end", "0", (char *)NULL);
    return 4;
}

/* One that is to have so many commits received. */
static int begin(const char *role, uint64_t value, int commits)
{
    char text[24];
    snprintf(text, sizeof text, "%lu", (unsigned long)value);
    const char *argv[] = {self, role, text, NULL};
    struct kd_process_create c = {.path = "/bin/kernel_forsaken", .argv = argv, .fds = {-1, -1, -1},
                                  .handle_count = 1, .handles = {port}};
    kept_count = gone = 0;
    long h = CALL(KD_PROCESS_CREATE, &c);
    CALL(KD_HANDLE_CLOSE, h);
    while (kept_count < commits) sched_yield();
    return c.pid;
}
static int killed(int pid)
{
    CALL(KD_PROCESS_KILL, pid, KILLED);
    return child_wait_for(pid, SURE_S);
}
static void publish(int i)
{
    serve_commit(&kept[i]);
    lend(&kept[i]);
}
static void refuse(int i)
{
    CALL(KD_TXN_REFUSE, kept[i].word[0], kept[i].token, EIO);
}

/* ---- what must be as before ---- */

static struct counts before;
static uint64_t copies(void)
{
    struct kd_system_info s = {0};
    CALL(KD_SYSTEM_INFO, &s);
    return s.copies;
}
static void as_before(const char *when)
{
    while (!gone) sched_yield();
    int back = counts_back(before, SLACK);
    tap_ok(writes(0, CREDITS, 1, 0) == 0, "%s every page and every credit can be had", when);
    tap_ok(back && check() == 0 && copies() == 0, "%s kcheck and all counts are as before", when);
}

/* ---- tests ---- */

static void test_late(bool published)
{
    const char *when = published ? "after a late answer" : "after a late refusal";
    int pid = begin("one", 77, 1);
    is(killed(pid), KILLED, "a client whose COMMIT is not answered ends when it is killed");
    is(writes(THEIRS - 1, 1, 5, LATE_MS), -ETIMEDOUT, "its pages stay shut");
    tap_ok(is_there(THEIRS, 1, 1) && !gone && check() == 0,
           "others do not, and its manager has heard of no end");
    if (published) publish(0);
    else refuse(0);
    tap_ok(is_there(0, THEIRS, published ? 77 : 1), "%s it is all there, or nothing", when);
    tap_ok(CALL(KD_TXN_REFUSE, kept[0].word[0], kept[0].token, EIO) == -ESRCH,
           "%s another one finds nothing", when);
    as_before(when);
}

static void test_timed(void)
{
    int pid = begin("timed", 78, 1);
    is(writes(0, 1, 5, LATE_MS), -ETIMEDOUT,
       "the time of a transaction is up while its COMMIT is not answered");
    is(killed(pid), KILLED, "then a kill ends it, too");
    publish(0);
    as_before("then");
}

static void test_two(void)
{
    int pid = begin("two", 79, 2), first = kept[0].word[0] < kept[1].word[0] ? 0 : 1;
    is(killed(pid), KILLED, "two threads commit, and both are left behind");
    publish(first);
    is(writes(0, THEIRS, 5, LATE_MS), -ETIMEDOUT, "one is answered");
    is(gone, 0, "the manager hears of the client's end after both");
    refuse(!first);
    tap_ok(is_there(0, 2, 79) != is_there(2, 2, 79), "each has its own outcome");
    as_before("then");
}

static void test_exec(void)
{
    int pid = begin("exec", 80, 1), status = 0;
    is(writes(2, 1, 5, LATE_MS), -ETIMEDOUT,
       "execve while another thread's COMMIT is not answered");
    is(CALL(KD_PROCESS_WAIT, pid, &status, KD_WAIT_NOHANG), 0, "waits");
    publish(0);
    is(child_wait_for(pid, SURE_S), END, "and goes on with the answer");
    as_before("then");
    is(killed(begin("exec", 81, 1)), KILLED, "or ends when it is killed");
    refuse(0);
    as_before("then");
}

static void test_many(void)
{
    int bad = 0;
    for (int i = 0; i < LIVES; i++) {
        bad += killed(begin("one", 100, 1)) != KILLED;
        if (i & 1) publish(0);
        else refuse(0);
        while (!gone) sched_yield();
    }
    tap_ok(!bad, "%d of them, one after the other (%d)", LIVES, bad);
    as_before("after them");
}

/* Last: there is no manager behind it. */
static void test_end(void)
{
    is(killed(begin("one", 82, 1)), KILLED, "a client ends, and then its manager's port does");
    CALL(KD_HANDLE_CLOSE, commit_port);
    before.objects--;
    before.handles--;
    tap_ok(counts_back(before, SLACK) && check() == 0 && copies() == 0,
           "views, copies and frames are as before");
    is(CALL(KD_TXN_REFUSE, kept[0].word[0], kept[0].token, EIO), -ESRCH, "an answer finds nothing");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "end") == 0) return END;
    if (argc > 2) return client(argv[1], strtoul(argv[2], NULL, 10));
    self = argv[0];
    tap_plan(1 + 2 * 7 + 4 + 6 + 8 + 3 + 3);
    bool good = start_manager((struct own_manager){.pages = PAGES, .messages = keep_commits}) &&
                CALL(KD_CREDIT_GRANT, commit_port, CREDITS) >= 0;
    for (int i = 0; i < 2; i++) { /* what is made once is made now */
        int pid = begin("two", 1, 2);
        publish(0), publish(1);
        good &= child_wait(pid) == END;
        while (!gone) sched_yield(); /* all that it had is back */
    }
    tap_ok(good && writes(0, CREDITS, 1, 0) == 0, "a manager and its clients");
    before = counts_now();
    test_late(true);
    test_late(false);
    test_timed();
    test_two();
    test_exec();
    test_many();
    test_end();
    return tap_end();
}
