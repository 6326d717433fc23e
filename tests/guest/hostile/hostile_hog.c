/*
 * hostile_hog.c - programs that want all memory there is, each in its way.
 *
 * Aim     what cannot be had is refused where that can be known; else the one who holds most ends,
 *         with a line in the log that says so, and how much it held; being a manager is no help. A
 *         program beside them that takes and gives back some memory, and commits to the store, are
 *         never refused anything.
 * Method  children. Two that fill what they were promised, three quarters of memory each; one that
 *         forks and fills; a manager whose pages are dirty and that never cleans one.
 */
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "hostile.h"

enum { SMALL = 1 << 20, ROUNDS = 40 };

/* Fills pieces until there are no more, then says so by 1. */
static int greedy(void)
{
    char *p;
    while ((p = mmap(NULL, SMALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) !=
           MAP_FAILED)
        memset(p, 1, SMALL);
    if (errno != ENOMEM) return 2;
    for (;;) usleep(10000);
}

/* Its children do the same, and end when their parent has: else some would fork for ever in the
 * memory that others leave. */
static int forking(void)
{
    char *p = mmap(NULL, 8 * SMALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return 2;
    memset(p, 1, 8 * SMALL);
    for (; getppid() != 1; usleep(1000))
        if (fork() < 0) return errno == ENOMEM ? 0 : 3;
    return 0;
}

static int port, object;

/* Supplies pages, and never cleans one. */
static void *supplier(void *unused)
{
    (void)unused;
    for (;;) {
        struct kd_message m = {.handle = -1};
        if (CALL(KD_PORT_RECEIVE, port, &m, -1)) return NULL;
        struct kd_supply s = {
            .object = object, .source = KD_SUPPLY_ZERO, .rights = 3, .page = m.word[1], .count = 1
        };
        if (m.kind == (uint32_t)KD_MSG_PAGE) CALL(KD_OBJECT_SUPPLY, &s);
    }
}

static int dirty(void)
{
    pthread_t t;
    port = (int)CALL(KD_PORT_CREATE, 0);
    struct kd_object_create o = {
        .port = port, .commit_port = port, .pages = 1 << 16, .name = "hog"
    };
    object = (int)CALL(KD_OBJECT_CREATE, &o);
    CALL(KD_SPACE_ATTACH, getpid(), object, 3);
    pthread_create(&t, NULL, supplier, NULL);
    for (uint64_t page = 0; page < o.pages; page++)
        *(volatile char *)(o.base + page * KD_PAGE_BYTES) = 1;
    return 2;
}

/* Takes memory, sees that it is its own, gives it back. */
static int modest(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        char *p = mmap(NULL, SMALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) return 1;
        memset(p, i, SMALL);
        usleep(10000);
        for (int at = 0; at < SMALL; at++)
            if (p[at] != (char)i) return 2;
        munmap(p, SMALL);
    }
    return 0;
}

/* A manager that receives its client's commit, kills the client, and never answers. */
static int silent(void)
{
    port = (int)CALL(KD_PORT_CREATE, 0);
    struct kd_object_create o = { .port = port,
                                  .commit_port = port,
                                  .pages = 1,
                                  .name = "silent",
                                  .flags = KD_OBJECT_TRANSACTIONAL,
                                  .base = KD_STORE_BASE + (32ull << 30) };
    object = (int)CALL(KD_OBJECT_CREATE, &o);
    int client = fork();
    if (client == 0) {
        struct kd_begin b = {.entry = (uint64_t)_exit, .stack = (uint64_t)&b};
        struct kd_commit k = {.port = -1};
        struct kd_space_info info;
        while (CALL(KD_CONTAINER_INFO, o.base, &info)) usleep(1000);
        CALL(KD_VIEW_ENTER, CALL(KD_VIEW_CREATE, 0));
        CALL(KD_TXN_BEGIN, &b);
        *(volatile char *)o.base = 1;
        CALL(KD_TXN_COMMIT, &k);
        for (;;) usleep(1000);
    }
    if (object < 0 || CALL(KD_SPACE_ATTACH, client, object, 3)) return 2;
    for (;;) {
        struct kd_message m = {.handle = -1};
        struct kd_supply s = {.object = object, .source = KD_SUPPLY_ZERO, .rights = 3, .count = 1};
        if (CALL(KD_PORT_RECEIVE, port, &m, -1)) return 3;
        if (m.kind == (uint32_t)KD_MSG_PAGE) CALL(KD_OBJECT_SUPPLY, &s);
        if (m.kind == (uint32_t)KD_MSG_COMMIT) CALL(KD_PROCESS_KILL, client, 137);
    }
}

/* Says of itself that it takes the copies of others; nobody trusts it with a disk. */
static int greedy_manager(void)
{
    CALL(KD_HANDLE_CLOSE, KD_SYSTEM_HANDLE);
    port = (int)CALL(KD_PORT_CREATE, 0);
    struct kd_object_create o = {.port = port, .commit_port = port, .pages = 1, .name = "greedy",
                                 .flags = KD_OBJECT_TRANSACTIONAL | KD_OBJECT_SPILLS};
    return CALL(KD_OBJECT_CREATE, &o) < 0 ? 3 : greedy();
}

static int (*const roles[])(void) = {greedy, forking, dirty, modest, silent, greedy_manager};
enum { GREEDY, FORKING, DIRTY, MODEST, SILENT, GREEDY_MANAGER };

static int start(const char *self, int which)
{
    char number[2] = {(char)('0' + which)};
    return child_start(self, number, NULL);
}

/* How often the log says so. */
static int told(const char *what)
{
    static char text[65536];
    long n = CALL(KD_LOOK, KD_LOOK_LOG, 0, text, sizeof text - 1);
    int count = 0;
    text[n < 0 ? 0 : n] = 0;
    for (const char *at = text; (at = strstr(at, what)); at++) count++;
    return count;
}
static const char said[] = "out of memory: of all programs it holds the most, ";

static ps_container *c;
struct root { long numbers[32 * 512]; };

static int change(void *unused)
{
    (void)unused;
    struct root *r = ps_root(c);
    for (int i = 0; i < 32; i++) r->numbers[i * 512]++;
    return 0;
}

/* The two that are not to be disturbed go on while the others fill memory. */
static int undisturbed(const char *self, int rounds)
{
    int pid = start(self, MODEST), good = 1;
    for (int i = 0; i < rounds; i++, usleep(10000)) {
        int e = ps_transaction(change, NULL);
        if (e) printf("# commit %d: %d\n", i, e), good = 0;
    }
    int status = child_wait_for(pid, CHILD_ENDS_S);
    if (status) printf("# the modest program: %d\n", status);
    return good && status == 0;
}

/* Is a commit under way whose process has ended? */
static int forsaken(void)
{
    struct kd_process_info list[64];
    struct kd_view_info views[KD_VIEW_MAX];
    long n = CALL(KD_PROCESS_LIST, list, 64), found = 0;
    for (long v = CALL(KD_VIEW_LIST, views, KD_VIEW_MAX) - 1; v >= 0; v--)
        for (long i = 0; i < n && i < 64; i++)
            found |= list[i].state == 2 && list[i].pid == views[v].pid && views[v].state == 3;
    return found != 0;
}

static void end(int pid)
{
    CALL(KD_PROCESS_KILL, pid, 137);
    child_wait(pid);
}

static void two_fill(const char *self, int role, const char *what)
{
    int before = told(said), a = start(self, role), b = start(self, role), status[2] = {0};
    tap_ok(undisturbed(self, ROUNDS), "%s: another program and commits go on", what);
    long ended, other = 0;
    while (!(ended = CALL(KD_PROCESS_WAIT, a, &status[0], KD_WAIT_NOHANG)) && !other) {
        usleep(10000);
        other = CALL(KD_PROCESS_WAIT, b, &status[1], KD_WAIT_NOHANG);
    }
    if (ended) other = CALL(KD_PROCESS_WAIT, b, &status[1], KD_WAIT_NOHANG);
    tap_ok((ended == a) + (other == b) == 1 && (status[0] == 137 || status[1] == 137),
           "one of them has ended");
    tap_ok(told(said) == before + 1, "and the log says who, and what it held");
    end(ended ? b : a);
}

int main(int argc, char **argv)
{
    if (argc > 1) return roles[argv[1][0] - '0']();
    tap_plan(14);
    c = ps_open("hog", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c ? ps_transaction(change, NULL) : -errno, 0, "a container");
    child_wait(start(argv[0], MODEST));
    struct counts before = counts_now();

    int silent_one = start(argv[0], SILENT);
    while (counts_now().processes < before.processes + 2 || !forsaken()) usleep(10000);
    two_fill(argv[0], GREEDY, "two fill what they were promised");
    tap_ok(forsaken(), "what a killed program commits, whose manager does not answer, keeps no "
                       "others from ending");
    end(silent_one);

    two_fill(argv[0], GREEDY_MANAGER, "two managers do");
    int a = start(argv[0], FORKING);
    tap_ok(undisturbed(argv[0], ROUNDS), "one forks and fills: the others go on");
    int forks = child_wait_for(a, CHILD_ENDS_S);
    tap_ok(forks == 0 || forks == 137, "a fork was refused, or it ended (%d)", forks);
    for (int i = 0; i < 3000 && counts_now().processes > before.processes; i++) usleep(10000);

    int before_told = told(said);
    a = start(argv[0], DIRTY);
    int cleans = child_wait_for(a, CHILD_ENDS_S);
    tap_ok(cleans == 137 && told(said) == before_told + 1,
           "a manager that cleans nothing ends by that (%d)", cleans);
    tap_ok(undisturbed(argv[0], 3), "and then all is as before");
    tap_ok(counts_back(before, 700), "counts are back");
    tap_ok(check_clean(), "kcheck");
    return tap_end();
}
