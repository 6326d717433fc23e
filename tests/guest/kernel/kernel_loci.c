/*
 * kernel_loci.c - a call runs in the server as its caller, and a chain of calls ends in order.
 *
 * Aim     the time of a call, and of the calls inside of it, is the first caller's, and so is the
 *         priority; all times together are what the CPU worked. If one of a chain of three is
 *         killed, those above hear it at once, and those below one after the other, the innermost
 *         first. A chain has an end. Who looks sees where each call is.
 * Method  two servers, processes of their own, each with two threads; the first passes calls on to
 *         the second. What they hear goes into a pipe, one letter for each; what is to wait reads
 *         another pipe. QEMU counts instructions as time, so a run repeats itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "katydid/call.h"
#include "system.h"
#include "tap.h"

enum { WORK = 1, HOLD, PASS, KEEP, ANSWER_KEPT, LEAVE, DEEPER, WORK_ALONE, WORK_MS = 60 };
enum { FIRST, SECOND, SERVERS, SERVER_THREADS = 2, PIPE_READ = 0, PIPE_WRITE = 1 };
static const char *const names[SERVERS] = {"loci-first", "loci-second"};
static int heard[2] = {0, 1}, held[2] = {0, 1}; /* the pipes; of a server its input and output */
static const char *self;
static int pids[SERVERS];

static long call(long port, struct kd_message *m)
{
    m->handle = -1;
    m->handle_rights = 0;
    return kd_call3(KD_PORT_CALL, port, (long)m, 0);
}

static void hear(char letter)
{
    if (write(heard[PIPE_WRITE], &letter, 1) != 1)
        _exit(3);
}

static void compute(double seconds)
{
    for (double begin = clock_s(CLOCK_THREAD_CPUTIME_ID);
         clock_s(CLOCK_THREAD_CPUTIME_ID) - begin < seconds;) {
    }
}

/* ---- the servers ---- */

static int my_number, my_port, below;
static uint64_t kept;                   /* the token of a call that was put off */

/* The call that a server makes in the one that it serves, and how that ended. */
static void pass(struct kd_message *m, struct kd_message *reply)
{
    struct kd_message inner = {.kind = (uint32_t)m->word[0], .word = {m->word[1]}};
    long e = call(below, &inner);
    hear(e == 0 ? 'o' : e == -ECANCELED ? 'c' : e == -EOWNERDEAD ? 'd' : e == -EINTR ? 'i' : 'x');
    reply->word[0] = inner.word[0];
    reply->status = (int)e;
}

static void serve_one(struct kd_message *m, struct kd_message *reply)
{
    char byte;
    switch (m->kind) {
    case WORK: compute((double)m->word[0] / 1000); break;
    case HOLD:
        hear('h');
        if (read(held[PIPE_READ], &byte, 1) != 1)
            _exit(4);
        break;
    case PASS: pass(m, reply); break;
    case LEAVE: pthread_exit(NULL);
    case WORK_ALONE:
        for (double begin = clock_s(CLOCK_MONOTONIC);
             clock_s(CLOCK_MONOTONIC) - begin < (double)m->word[0] / 1000;) {
        }
        break;
    case DEEPER: {
        struct kd_message inner = {.kind = DEEPER, .word = {m->word[0] + 1}};
        long e = m->word[0] < 30 ? call(my_port, &inner) : -E2BIG;
        reply->word[0] = e ? m->word[0] : inner.word[0];
        reply->status = 0;
        if (e && e != -ELOOP)
            reply->word[0] = (uint64_t)-e * 1000;
        break;
    }
    case ANSWER_KEPT: {
        struct kd_message late = {.handle = -1, .word = {77}};
        reply->status = (int)kd_call3(KD_PORT_REPLY, (long)kept, (long)&late, 0);
        break;
    }
    default: break;
    }
}

static void *serve(void *unused)
{
    struct kd_message m = {.handle = -1}, reply = {.handle = -1};
    uint64_t token = 0;
    for (;;) {
        long e = 0;
        if (m.kind == WORK && token) { /* both at once, as most servers do */
            e = kd_call4(KD_PORT_REPLY_RECEIVE, (long)token, (long)&reply, my_port, (long)&m);
        } else {
            if (token && kd_call3(KD_PORT_REPLY, (long)token, (long)&reply, 0) == -ESRCH)
                hear(my_number == FIRST ? 'A' : 'B');
            e = kd_call3(KD_PORT_RECEIVE, my_port, (long)&m, -1);
        }
        if (e)
            break;
        token = m.token;
        reply = (struct kd_message){.handle = -1, .word = {42}};
        if (m.kind == (uint32_t)KD_MSG_NOTIFY && m.word[0] == KD_NOTIFY_CUT) {
            e = kd_call3(KD_CALL_STATE, (long)kept, 0, 0);
            hear(e == -ECANCELED ? 'n' : e == -ESRCH ? 'g' : 'w');
        } else if (m.kind == KEEP || m.kind == HOLD || m.kind == WORK_ALONE) {
            kept = m.token;
        }
        if (m.kind == KEEP) {
            token = 0; /* put off: another thread answers it */
            hear('k');
        } else if (token) {
            serve_one(&m, &reply);
        }
    }
    return unused;
}

static _Noreturn void server(int number, int threads)
{
    pthread_t t;
    my_number = number;
    setpriority(PRIO_PROCESS, 0, number == SECOND ? 19 : 0);
    my_port = (int)kd_call3(KD_PORT_CREATE, KD_PORT_TELLS, 0, 0);
    below = number == FIRST ? (int)kd_call3(KD_NAME_FIND, (long)names[SECOND], 0, 0) : -1;
    for (int i = 1; i < threads; i++)
        if (pthread_create(&t, NULL, serve, NULL))
            _exit(5);
    if (kd_call3(KD_NAME_SET, (long)names[number], my_port, 0))
        _exit(6);
    serve(NULL);
    _exit(11);
}

/* ---- the client's side ---- */

static long find(const char *name)
{
    long port, tries = 0;
    while ((port = kd_call3(KD_NAME_FIND, (long)name, 0, 0)) == -ENOENT && tries++ < 1000)
        pause_ms(1);
    if (port < 0)
        _exit(10);
    return port;
}

/* A server reads `held` as its standard input, and says what it hears as its output. */
static int start(int number, int threads)
{
    char first[12], second[12];
    const char *argv[] = {self, "--serve", first, second, NULL};
    struct kd_process_create p = {.path = self, .argv = argv, .handle_count = 1,
                                  .handles = {KD_SYSTEM_HANDLE},
                                  .fds = {held[PIPE_READ], heard[PIPE_WRITE], -1}};
    snprintf(first, sizeof first, "%d", number);
    snprintf(second, sizeof second, "%d", threads);
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    if (handle < 0)
        _exit(9);
    kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, find(names[number]), 0, 0);
    return p.pid;
}

static void start_both(void)
{
    pids[SECOND] = start(SECOND, SERVER_THREADS);
    pids[FIRST] = start(FIRST, SERVER_THREADS);
}

static void end(int pid)
{
    int status;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

static void end_both(void)
{
    end(pids[FIRST]);
    end(pids[SECOND]);
}

static char letters[1024];
static _Atomic unsigned letter_count, letters_read;
static void *listen_always(void *unused)
{
    while (letter_count < sizeof letters && read(heard[PIPE_READ], &letters[letter_count], 1) == 1)
        letter_count++;
    return unused;
}

/* What was heard next: a letter, or '-' if nothing comes for a while. */
static char next(void)
{
    for (int ms = 0; ms < 300 && letters_read == letter_count; ms++)
        pause_ms(1);
    return letters_read < letter_count ? letters[letters_read++] : '-';
}

static int heard_are(const char *wanted)
{
    for (const char *l = wanted; *l; l++) {
        char got = next();
        if (got != *l)
            return printf("# heard %c, wanted %c of %s\n", got, *l, wanted), 0;
    }
    return 1;
}

static void release(void)
{
    if (write(held[PIPE_WRITE], "", 1) != 1)
        _exit(7);
}

static struct kd_process_info info_of(int pid)
{
    static struct kd_process_info all[32];
    long n = kd_call3(KD_PROCESS_LIST, (long)all, 32, 0);
    for (long i = 0; i < n && i < 32; i++)
        if (all[i].pid == pid)
            return all[i];
    return (struct kd_process_info){0};
}

static double used(int pid) { return (double)info_of(pid).cpu_ns / 1e9; }

static long work(int port, unsigned ms)
{
    struct kd_message m = {.kind = PASS, .word = {WORK, ms}};
    long e = call(port, &m);
    next(); /* the 'o' */
    return e ? e : m.status;
}

static int near(double value, double wanted, double part)
{
    if (value < wanted * (1 - part) || value > wanted * (1 + part))
        return printf("# %g, wanted %g\n", value, wanted), 0;
    return 1;
}

/* ---- whose time ---- */

static void time_is_the_callers(int port)
{
    double first = used(pids[FIRST]), second = used(pids[SECOND]);
    double mine = clock_s(CLOCK_PROCESS_CPUTIME_ID), thread = clock_s(CLOCK_THREAD_CPUTIME_ID);
    double whole = clock_s(CLOCK_MONOTONIC);
    long e = work(port, WORK_MS);
    mine = clock_s(CLOCK_PROCESS_CPUTIME_ID) - mine;
    thread = clock_s(CLOCK_THREAD_CPUTIME_ID) - thread;
    whole = clock_s(CLOCK_MONOTONIC) - whole;
    first = used(pids[FIRST]) - first;
    second = used(pids[SECOND]) - second;
    tap_ok(e == 0 && near(mine, WORK_MS / 1e3, 0.1) && near(thread, mine, 0.02),
           "the time of a call within a call is the first caller's: %.1f ms", mine * 1e3);
    tap_ok(first < 0.003 && second < 0.003, "and not the servers': %.1f and %.1f ms", first * 1e3,
           second * 1e3);
    tap_ok(near(mine + first + second, whole, 0.03), "all together are what the CPU worked");
}

static _Atomic int stop;
static volatile double hog_used;
static void *hog(void *unused)
{
    while (!stop)
        for (volatile int i = 0; i < 1000; i++) {}
    hog_used = clock_s(CLOCK_THREAD_CPUTIME_ID);
    return unused;
}

/* Beside a thread that computes: its part of the time, per cent. */
static double beside_a_hog(int port, int nice)
{
    pthread_t t;
    stop = 0;
    setpriority(PRIO_PROCESS, 0, 0);
    if (pthread_create(&t, NULL, hog, NULL))
        _exit(8);
    setpriority(PRIO_PROCESS, 0, nice);
    double whole = clock_s(CLOCK_MONOTONIC);
    long e = work(port, nice > 0 ? WORK_MS / 4 : 3 * WORK_MS);
    whole = clock_s(CLOCK_MONOTONIC) - whole;
    stop = 1;
    setpriority(PRIO_PROCESS, 0, 0);
    pthread_join(t, NULL);
    return e ? -1 : 100 * hog_used / whole;
}

static void priority_is_the_callers(int port)
{
    double equal = beside_a_hog(port, 0), better = beside_a_hog(port, -10);
    double worse = beside_a_hog(port, 10);
    tap_ok(equal > 35 && equal < 65,
           "a server of niceness 19 works at its caller's, 0: %.0f %% for a hog", equal);
    tap_ok(better >= 0 && better < 25, "or at -10: %.0f %%", better);
    tap_ok(worse > 75, "and no better than at 10 for such a caller: %.0f %%", worse);
}

/* ---- where it is ---- */

/* A child whose call is at HOLD in the second server, through the first. */
static int caller(int number, uint32_t kind, uint64_t inner)
{
    int pid = fork();
    if (pid)
        return pid;
    struct kd_message m = {.kind = kind, .word = {inner}};
    long e = call(find(names[number]), &m);
    hear(e == 0 ? 'r' : e == -EOWNERDEAD ? 'e' : e == -ETIMEDOUT ? 't' : 'y');
    _exit(0);
}

static int threads_say(int pid, const char *what)
{
    static char text[4096];
    long n = kd_call4(KD_LOOK, KD_LOOK_THREADS, pid, (long)text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    return strstr(text, what) != NULL;
}

static void where_it_is(void)
{
    char at[64], for_it[32];
    int r = caller(FIRST, PASS, HOLD);
    int good = heard_are("h");
    snprintf(at, sizeof at, "  at %d > %d\n", pids[FIRST], pids[SECOND]);
    snprintf(for_it, sizeof for_it, "  for %d\n", r);
    tap_ok(good && threads_say(r, at) && threads_say(pids[SECOND], for_it) &&
               info_of(r).at == pids[SECOND] && info_of(pids[SECOND]).at == 0,
           "who looks sees where a call is, and for whom");
    int other = caller(FIRST, PASS, HOLD);
    good = heard_are("h");
    snprintf(for_it, sizeof for_it, "  for %d\n", other);
    tap_ok(good && threads_say(pids[SECOND], for_it), "two may be in one place");
    release();
    release();
    int back = 0; /* in any order: o r, twice */
    for (char letter; (letter = next()) != '-';)
        back += letter == 'o' ? 1 : letter == 'r' ? 10 : 100;
    tap_ok(back == 22, "they come back");
    waitpid(r, NULL, 0);
    waitpid(other, NULL, 0);
    tap_ok(info_of(getpid()).at == 0 && !threads_say(pids[SECOND], "  for"), "and are nowhere");
}

/* ---- ends ---- */

/* Nobody above is there any more: the second server is told, and goes on; the first hears it when
 * the second has answered. */
static void first_is_killed(int port)
{
    int r = caller(FIRST, PASS, HOLD);
    int good = heard_are("h");
    double mine = used(pids[SECOND]);
    end(r);
    tap_ok(good && heard_are("n"), "the caller is killed: the innermost server is told");
    tap_ok(heard_are("-"), "nobody else, until it has answered");
    release();
    tap_ok(heard_are("cA"), "then the other hears it, and that nobody waits for its answer");
    tap_ok(used(pids[SECOND]) >= mine && work(port, 1) == 0, "both serve on");
}

static void middle_is_killed(void)
{
    int r = caller(FIRST, PASS, HOLD);
    int good = heard_are("h");
    end(pids[FIRST]);
    char one = next(), two = next(); /* they have nothing to do with each other any more */
    tap_ok(good && ((one == 'e' && two == 'g') || (one == 'g' && two == 'e')),
           "the first server is killed: its caller and the second one hear it");
    release();
    tap_ok(heard_are("B"), "whose answer nobody wants");
    waitpid(r, NULL, 0);
    pids[FIRST] = start(FIRST, SERVER_THREADS);
}

static void last_is_killed(void)
{
    int r = caller(FIRST, PASS, HOLD);
    int good = heard_are("h");
    end(pids[SECOND]);
    tap_ok(good && heard_are("de"), "the second is killed: the first hears it, and answers");
    waitpid(r, NULL, 0);
    end(pids[FIRST]);
    start_both();
}

static void nobody_has_it(void)
{
    int busy[SERVER_THREADS], good = 1;
    long second = find(names[SECOND]);
    for (int i = 0; i < SERVER_THREADS; i++)
        busy[i] = caller(SECOND, HOLD, 0);
    for (int i = 0; i < SERVER_THREADS; i++)
        good &= heard_are("h");
    int r = caller(FIRST, PASS, HOLD);
    pause_ms(5);
    good &= threads_say(r, "> 0\n");
    end(r);
    tap_ok(good && heard_are("iA"), "a call that nobody has received yet is taken back");
    for (int i = 0; i < SERVER_THREADS; i++)
        release();
    tap_ok(heard_are("rr-"), "and is never seen");
    for (int i = 0; i < SERVER_THREADS; i++)
        waitpid(busy[i], NULL, 0);
    kd_call3(KD_HANDLE_CLOSE, second, 0, 0);
}

/* What is put off is nobody's work, until another thread answers it. */
static void put_off(void)
{
    int r = caller(FIRST, PASS, KEEP);
    int good = heard_are("k");
    struct kd_message m = {.kind = ANSWER_KEPT};
    long second = find(names[SECOND]);
    double mine = used(r);
    compute(0.01);
    tap_ok(good && !threads_say(pids[SECOND], "for") && used(r) - mine < 0.001,
           "a call that is put off costs its caller nothing");
    tap_ok(call(second, &m) == 0 && heard_are("or"), "another thread answers it");
    waitpid(r, NULL, 0);
    r = caller(FIRST, PASS, KEEP);
    good = heard_are("k");
    end(r);
    tap_ok(good && heard_are("n"), "or hears that it is wanted no more");
    m = (struct kd_message){.kind = ANSWER_KEPT};
    tap_ok(call(second, &m) == 0 && heard_are("cA"), "and who waits in between, after it");
    kd_call3(KD_HANDLE_CLOSE, second, 0, 0);
}

static void thread_leaves(void)
{
    long second = find(names[SECOND]);
    struct kd_message m = {.kind = LEAVE};
    tap_ok(call(second, &m) == -EOWNERDEAD, "a thread that ends with a call answers it so");
    m = (struct kd_message){.kind = WORK};
    tap_ok(call(second, &m) == 0, "others of its process serve on");
    kd_call3(KD_HANDLE_CLOSE, second, 0, 0);
}

/* A caller that waits no longer is no caller any more: what the second server then uses is not
 * charged to it. */
static void time_is_up(int port)
{
    struct kd_message m = {.kind = PASS, .word = {WORK_ALONE, 4 * WORK_MS}, .handle = -1};
    double mine = clock_s(CLOCK_PROCESS_CPUTIME_ID), whole = clock_s(CLOCK_MONOTONIC);
    long e = kd_call3(KD_PORT_CALL_UNTIL, port, (long)&m, WORK_MS);
    whole = clock_s(CLOCK_MONOTONIC) - whole;
    mine = clock_s(CLOCK_PROCESS_CPUTIME_ID) - mine;
    tap_ok(e == -ETIMEDOUT && near(mine, whole, 0.1), "a call that lasts too long is given up: %ld",
           e);
    mine = clock_s(CLOCK_PROCESS_CPUTIME_ID);
    double first = used(pids[FIRST]), second = used(pids[SECOND]);
    int good = heard_are("ncA");
    mine = clock_s(CLOCK_PROCESS_CPUTIME_ID) - mine;
    tap_ok(good && mine < 0.01 && used(pids[SECOND]) - second < 0.01 &&
               near(used(pids[FIRST]) - first, 3 * WORK_MS / 1e3, 0.2),
           "the rest is the first server's: %.0f ms", (used(pids[FIRST]) - first) * 1e3);
}

/* A server that calls itself, with threads enough. */
static void depth(void)
{
    end_both();
    pids[SECOND] = start(SECOND, 24);
    long second = find(names[SECOND]);
    struct kd_message m = {.kind = DEEPER};
    long e = call(second, &m);
    tap_ok(e == 0 && m.word[0] == 15, "calls within calls end at 16: %lu", m.word[0]);
    kd_call3(KD_HANDLE_CLOSE, second, 0, 0);
    end(pids[SECOND]);
}

int main(int argc, char **argv)
{
    self = "/bin/kernel_loci";
    if (argc == 4)
        server(atoi(argv[2]), atoi(argv[3]));
    tap_plan(29);
    pthread_t t;
    if (pipe(heard) || pipe(held) || pthread_create(&t, NULL, listen_always, NULL))
        return 1;
    start_both();
    int port = (int)find(names[FIRST]);
    time_is_the_callers(port);
    priority_is_the_callers(port);
    where_it_is();
    first_is_killed(port);
    middle_is_killed();
    port = (int)find(names[FIRST]);
    nobody_has_it();
    put_off();
    time_is_up(port);
    last_is_killed();
    thread_leaves();
    depth();
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck is clean");
    return tap_end();
}
