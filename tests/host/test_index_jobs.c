/*
 * test_index_jobs.c - the store manager's index thread and the committer that gives it work.
 *
 * Aim     changes of a group's commits are made, taken back and committed as index.c says, also
 *         when the kernel ends the thread's transaction: in a touch, between two jobs, before its
 *         COMMIT was received; then the next group finds the index as it was. A landing outside of
 *         any job ends the manager: there is no frame to go back to.
 * Method  user/store/index.c itself over a kernel with one view: its copies are the pages, and what
 *         is committed is kept beside them. A doom takes the pages away, so that the next touch
 *         leads to the transaction's entry, as in the kernel (AB5).
 */
#include "user/store/index.c"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "index_pages.h"

enum { PORT = 3, VIEW = 5, LIMIT_S = 60, LANDS_S = 10 };
struct server server = {.lock = PTHREAD_MUTEX_INITIALIZER, .index_commit_port = PORT,
                        .log_bytes = 64 << 20};
uint64_t store_log_free(const struct store *store) { return (void)store, 32 << 20; }
struct container *container_by_id(uint64_t id) { return (void)id, NULL; }

/* ---- the kernel ---- */

static pthread_mutex_t kernel = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint8_t committed[PAGES * PAGE];
static struct kd_begin begun;
static int begins_left = -1, commit_error;      /* so many begins succeed; what a commit says */
static int doom;
static bool asks, notice;
static int answer = 1;                          /* 1: none yet */

static void pages_back(void)
{
    mprotect(pages, PAGES * PAGE, PROT_READ | PROT_WRITE);
    memcpy(pages, committed, sizeof(committed));
    doom = 0;
}

/* The thread's transaction ends with its next touch. */
static void doomed_for(int reason)
{
    doom = reason;
    mprotect(pages, PAGES * PAGE, PROT_NONE);
}

/* A signal of the thread is its fault: user mode goes on at the entry given at begin. */
static void redirected(int signal, siginfo_t *info, void *context)
{
    ucontext_t *c = context;
    (void)info;
    if (signal == SIGSEGV && !doom) abort();
    c->uc_mcontext.gregs[REG_RDI] = doom ? doom : EDEADLK;
    c->uc_mcontext.gregs[REG_RIP] = (greg_t)begun.entry;
    c->uc_mcontext.gregs[REG_RSP] = (greg_t)begun.stack;
    pages_back();
}

static long begin(const struct kd_begin *b)
{
    begun = *b;
    if (begins_left == 0) return -ENOMEM;
    begins_left -= begins_left > 0;
    return 0;
}

static long commit(void)
{
    pthread_mutex_lock(&kernel);
    int r = doom ? -doom : commit_error;
    asks = r == 0;
    pthread_cond_broadcast(&changed);
    while (r == 0 && answer > 0) pthread_cond_wait(&changed, &kernel);
    if (r == 0) r = answer;
    answer = 1;
    if (r == 0)
        memcpy(committed, pages, sizeof(committed));
    else
        pages_back();
    pthread_mutex_unlock(&kernel);
    return r;
}

static long receive(struct kd_message *m)
{
    pthread_mutex_lock(&kernel);
    while (!asks && !notice) pthread_cond_wait(&changed, &kernel);
    m->kind = (uint32_t)(asks ? KD_MSG_COMMIT : KD_MSG_NOTIFY);
    m->word[0] = VIEW;
    if (asks)
        asks = false;
    else
        notice = false;
    pthread_mutex_unlock(&kernel);
    return 0;
}

static long notify(void)
{
    pthread_mutex_lock(&kernel);
    notice = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&kernel);
    return 0;
}

long kd_system(long number, long a, long b, long c, long d)
{
    (void)c, (void)d;
    switch (number) {
    case KD_VIEW_CREATE: return VIEW;
    case KD_TXN_BEGIN: return begin((const struct kd_begin *)a);
    case KD_TXN_ABORT: pages_back(); return 0;
    case KD_TXN_COMMIT: return commit();
    case KD_PORT_RECEIVE: return receive((struct kd_message *)b);
    case KD_PORT_NOTIFY: return notify();
    default: return 0;
    }
}

/* ---- the committer ---- */

static struct container container;
static struct group group;
static pthread_t thread;

static int change(uint64_t number, bool set)
{
    struct index_op op = {.container = &container, .set = set, .value = number,
                          .length = sizeof(number), .key = (const uint8_t *)&number};
    return index_change(&group, &op, 1);
}

/* The group's changes are published; what index_commit says. */
static int group_commit(void)
{
    struct kd_message m;
    int r = index_commit(&m);
    if (r == 0) {
        pthread_mutex_lock(&kernel);
        answer = 0;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&kernel);
    } else {
        index_cancel(&group);
    }
    group = (struct group){0};
    return r == 0 ? index_room(&group, 0) : r;  /* waits for the thread */
}

/* Are exactly these keys there? */
static bool has(unsigned bits)
{
    bool good = true;
    for (uint64_t key = 0; key < 32; key++) {
        struct ps_instance i = instance_of(container.index);
        struct ps_tree_access a;
        ps_access_open(&a.base, &i, container.index->type, PS_LOOK);
        good &= (ps_tree_find(&a, &key, PS_LOOK) != NULL) == (bits >> key & 1);
    }
    return good;
}

static unsigned results;
static void ok(bool good, const char *what)
{
    printf("%sok %u - %s\n", good ? "" : "not ", ++results, what);
}

static void cases(void)
{
    bool good = change(1, true) == 0 && change(2, true) == 0 && group_commit() == 0;
    ok(good && has(6), "changes of two commits");
    good = change(3, true) == 0;
    doomed_for(E2BIG);
    good &= change(4, true) == -ENOBUFS && group.changes == 1 && group_commit() == 0;
    ok(good && has(14), "a change too many is taken back, and that before it made again");
    good = change(5, true) == 0;
    doomed_for(E2BIG);
    begins_left = 0;
    good &= change(6, true) == -ECANCELED;
    begins_left = -1;
    index_cancel(&group);
    ok(good && has(14), "if it cannot be made again the group is lost");
    good = change(5, true) == 0 && change(1, false) == 0;
    doomed_for(EINTR);
    ok(good && group_commit() == -EINTR && has(14), "the kernel ends it between two jobs");
    good = change(5, true) == 0;
    commit_error = -EOWNERDEAD;
    good &= group_commit() == -ENOMEM;
    commit_error = 0;
    ok(good && has(14), "... as it is to ask for its commit");
    good = change(7, true) == 0;
    index_cancel(&group);
    ok(good && has(14), "a group that is given up");
    good = change(1, false) == 0 && change(9, true) == 0 && group_commit() == 0;
    ok(good && has(0x20c), "and the next one finds all in order");
}

/* The kernel's rule AB5 is broken: the thread lands while it waits for work. */
static void lands_idle(void)
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct sigaction none = {.sa_handler = SIG_DFL};
        sigaction(SIGABRT, &none, NULL);
        fclose(stderr);
        pthread_create(&thread, NULL, index_main, NULL);
        if (change(30, true)) _exit(2);
        pthread_kill(thread, SIGUSR1);
        sleep(LANDS_S);
        _exit(3);
    }
    waitpid(pid, &status, 0);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "no landing without a job");
}

int main(void)
{
    struct sigaction fault = {.sa_sigaction = redirected, .sa_flags = SA_SIGINFO};
    alarm(LIMIT_S);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("1..8\n");
    if (region_make() < 0 || index_init() < 0) return 1;
    sigaction(SIGSEGV, &fault, NULL);
    sigaction(SIGUSR1, &fault, NULL);
    struct index *x = calloc(1, sizeof(*x) + PAGES / 8);
    x->type = &index_types[0];
    x->head = head();
    x->end = page_at(x, INDEX_END);
    x->pages_max = PAGES;
    container.index = x;
    server_lock();
    lands_idle();                       /* before there is a thread: a child has none of it */
    pthread_create(&thread, NULL, index_main, NULL);
    cases();
    return 0;
}
