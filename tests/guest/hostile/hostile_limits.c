/*
 * hostile_limits.c - a process that wants ever more of something, one kind of thing at a time.
 *
 * Aim     handles (ports, objects), threads, memory, views, copies, messages and their data, files,
 *         processes, pins, old versions: at the limit there is an errno and nothing else; what was
 *         given back can be had again; in the end the process's own counters are what they were,
 *         and so are the system's. A storm of forks leaves others what they need, and so do several
 *         programs that take all views and threads that each may have.
 * Method  a child for each, with that limit set by who starts it (struct kd_process_create).
 */
#define PAGES 256
#include "own_manager.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "hostile.h"

enum { SOME = 20, STORM = 60, SURE_MS = 30000 };
/* as thread.h and limit.h have it */
enum { CROWD = 6, THREADS_ALL = 1024, THREADS_KEPT = 32, VIEWS_KEPT = 8 };

static uint64_t used(int which) { return process_self().used[which]; }

/* Status of a child: 0, or which of its expectations failed. */
#define EXPECT(condition)                                                                         \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "# line %d: %s (errno %d)\n", __LINE__, #condition, errno);            \
            return 1;                                                                             \
        }                                                                                         \
    } while (0)

static int handles(void)
{
    int last[SOME + 1], n = 0;
    while (n <= SOME && (last[n] = (int)CALL(KD_PORT_CREATE, 0)) >= 0) n++;
    EXPECT(n == SOME && last[n] == -EMFILE);
    EXPECT(CALL(KD_HANDLE_COPY, last[0], KD_RIGHT_CALL) == -EMFILE);
    EXPECT(CALL(KD_VIEW_CREATE, 0) == -EMFILE && used(KD_LIMIT_VIEWS) == 0);
    struct kd_object_create c = {.port = last[0], .commit_port = last[0], .pages = 1};
    EXPECT(CALL(KD_OBJECT_CREATE, &c) == -EMFILE);
    EXPECT(CALL(KD_HANDLE_CLOSE, last[3]) == 0 && CALL(KD_OBJECT_CREATE, &c) == last[3]);
    for (int i = 0; i < SOME; i++) EXPECT(CALL(KD_HANDLE_CLOSE, last[i]) == 0);
    EXPECT(used(KD_LIMIT_HANDLES) == 0);
    return 0;
}

static _Atomic int go;
static void *until_go(void *unused)
{
    (void)unused;
    while (!go) usleep(1000);
    return NULL;
}

static int threads(void)
{
    pthread_t t[SOME + 1];
    for (int round = 0; round < 2; round++) {
        int n = 0, e = 0;
        go = 0;
        while (n <= SOME && !(e = pthread_create(&t[n], NULL, until_go, NULL))) n++;
        EXPECT(e == EAGAIN && n == SOME - 1 && used(KD_LIMIT_THREADS) == SOME);
        go = 1;
        for (int i = 0; i < n; i++) pthread_join(t[i], NULL);
        for (int i = 0; i < SURE_MS && used(KD_LIMIT_THREADS) > 1; i++) usleep(1000);
        EXPECT(used(KD_LIMIT_THREADS) == 1);
    }
    return 0;
}

enum { MEMORY = 16 << 20, PIECE = 1 << 20 };

/* What was promised can be filled, to the last page. */
static int memory(void)
{
    static char *pieces[64];
    struct rlimit l;
    EXPECT(getrlimit(RLIMIT_AS, &l) == 0 && l.rlim_cur == MEMORY && l.rlim_max == MEMORY);
    for (int round = 0; round < 2; round++) {
        int n = 0;
        while (n < 64 && (pieces[n] = mmap(NULL, PIECE, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED)
            memset(pieces[n++], 1, PIECE);
        EXPECT(errno == ENOMEM && n > 1 && n < MEMORY / PIECE);
        EXPECT(sbrk(PIECE) == (void *)-1 && errno == ENOMEM);
        while (n) munmap(pieces[--n], PIECE);
    }
    l.rlim_cur = MEMORY / 2;
    EXPECT(setrlimit(RLIMIT_AS, &l) == 0 && malloc(MEMORY * 3 / 4) == NULL && errno == ENOMEM);
    l.rlim_cur = MEMORY;
    EXPECT(setrlimit(RLIMIT_AS, &l) == 0 && malloc(PIECE) != NULL);
    l.rlim_max = RLIM_INFINITY;
    l.rlim_cur = 2 * MEMORY;
    EXPECT(setrlimit(RLIMIT_AS, &l) < 0 && errno == EINVAL);
    l.rlim_max = 2 * MEMORY;
    EXPECT(setrlimit(RLIMIT_AS, &l) < 0 && errno == EPERM);
    return 0;
}

static int views(void)
{
    int last[SOME + 1], n = 0;
    while (n <= SOME && (last[n] = (int)CALL(KD_VIEW_CREATE, 0)) >= 0) n++;
    EXPECT(n == SOME && last[n] == -ENFILE && used(KD_LIMIT_VIEWS) == SOME);
    EXPECT(CALL(KD_HANDLE_CLOSE, last[0]) == 0 && CALL(KD_VIEW_CREATE, 0) == last[0]);
    for (int i = 0; i < n; i++) EXPECT(CALL(KD_HANDLE_CLOSE, last[i]) == 0);
    EXPECT(used(KD_LIMIT_VIEWS) == 0);
    return 0;
}

static int write_pages(void *count)
{
    for (uintptr_t i = 0; i < (uintptr_t)count; i++) *word_of((unsigned)i, 1) += 1;
    return 0;
}

static int copies(void)
{
    EXPECT(start_manager((struct own_manager){.pages = PAGES}));
    EXPECT(run(write_pages, (void *)SOME, KD_SERIALISABLE, 0) == 0);
    EXPECT(run(write_pages, (void *)(SOME + 1), KD_SERIALISABLE, 0) == -E2BIG);
    EXPECT(used(KD_LIMIT_COPIES) == 0);
    EXPECT(run(write_pages, (void *)SOME, KD_SERIALISABLE, 0) == 0 && used(KD_LIMIT_COPIES) == 0);
    return *word_of(0, 0) != 0 && check() ? 1 : 0;
}

static long silent;
static void *caller(void *result)
{
    struct kd_message m = {.handle = -1};
    *(long *)result = CALL(KD_PORT_CALL, silent, &m);
    return NULL;
}

/* Nobody answers; then one thread answers all. */
static int messages(void)
{
    pthread_t t[SOME + 1];
    static long results[SOME + 1];
    silent = CALL(KD_PORT_CREATE, 0);
    for (int i = 0; i <= SOME; i++) {
        results[i] = 1;
        EXPECT(pthread_create(&t[i], NULL, caller, &results[i]) == 0);
    }
    int refused = 0;
    for (int i = 0; i < SURE_MS && !refused; i++, usleep(1000))
        for (int k = 0; k <= SOME; k++) refused += results[k] == -EAGAIN;
    EXPECT(refused == 1 && used(KD_LIMIT_MESSAGES) == SOME);
    for (int i = 0; i < SOME; i++) {
        struct kd_message m = {.handle = -1}, answer = {.handle = -1};
        EXPECT(CALL(KD_PORT_RECEIVE, silent, &m, -1) == 0 &&
               CALL(KD_PORT_REPLY, m.token, &answer) == 0);
    }
    for (int i = 0; i <= SOME; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < SURE_MS && used(KD_LIMIT_MESSAGES); i++) usleep(1000);
    EXPECT(used(KD_LIMIT_MESSAGES) == 0);
    return 0;
}

static void *data_caller(void *result)
{
    static char data[KD_DATA_MAX];
    struct kd_message m = {.handle = -1, .data = data, .data_bytes = sizeof data};
    *(volatile long *)result = CALL(KD_PORT_CALL, silent, &m);
    return NULL;
}

/* Data that nobody takes are the sender's memory. */
static int data(void)
{
    pthread_t t[SOME];
    static volatile long results[SOME];
    silent = CALL(KD_PORT_CREATE, 0);
    uint64_t before = used(KD_LIMIT_MEMORY);
    for (int i = 0; i < SOME; i++) {
        results[i] = 1;
        EXPECT(pthread_create(&t[i], NULL, data_caller, (void *)&results[i]) == 0);
    }
    int refused = 0, answered = 0;
    for (int i = 0; i < SURE_MS && !refused; i++, usleep(1000))
        for (int k = 0; k < SOME; k++) refused += results[k] == -ENOMEM;
    EXPECT(refused > 0 && used(KD_LIMIT_MEMORY) > before + KD_DATA_MAX);
    for (int open = SOME; open;) { /* a thread may come late: it is refused, or answered */
        static char room[KD_DATA_MAX];
        struct kd_message m = { .handle = -1, .buffer = room, .buffer_bytes = sizeof room },
                          answer = { .handle = -1 };
        if (CALL(KD_PORT_RECEIVE, silent, &m, 1) == 0) {
            EXPECT(CALL(KD_PORT_REPLY, m.token, &answer) == 0);
            answered++;
        }
        open = 0;
        for (int k = 0; k < SOME; k++) open += results[k] == 1;
    }
    EXPECT(answered > 0);
    for (int i = 0; i < SOME; i++) pthread_join(t[i], NULL);
    EXPECT(used(KD_LIMIT_MEMORY) < before + 4 * KD_DATA_MAX);
    return 0;
}

static int files(void)
{
    struct rlimit l;
    int fd, n = 0, last = -1;
    EXPECT(getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur == SOME);
    while ((fd = open("/dev/null", O_RDONLY)) >= 0 && n++ < SOME) last = fd;
    EXPECT(errno == EMFILE && last == SOME - 1 && used(KD_LIMIT_FILES) == SOME);
    int ends[2];
    EXPECT(pipe(ends) < 0 && errno == EMFILE && used(KD_LIMIT_FILES) == SOME);
    EXPECT(dup2(0, SOME) < 0 && errno == EBADF);
    while (last > 2) close(last--);
    EXPECT(pipe(ends) == 0);
    return 0;
}

/* The limit is of the whole system's processes: so many as there are, and SOME. */
static int processes(void)
{
    int ends[2], n = 0, pid = 0;
    struct kd_system_info s;
    EXPECT(CALL(KD_SYSTEM_INFO, &s) == 0 && pipe(ends) == 0);
    struct rlimit l = {s.processes + SOME, s.processes + SOME};
    EXPECT(setrlimit(RLIMIT_NPROC, &l) == 0);
    while (n <= SOME && (pid = fork()) > 0) n++;
    if (pid == 0) {
        char c;
        close(ends[1]);
        _exit((int)read(ends[0], &c, 1));
    }
    EXPECT(pid < 0 && errno == EAGAIN && n == SOME);
    close(ends[1]);
    while (n--) EXPECT(wait(NULL) > 0);
    EXPECT((pid = fork()) >= 0);
    if (pid == 0) _exit(0);
    EXPECT(wait(NULL) == pid);
    return 0;
}

static int pins(void)
{
    uint8_t bits[2 * SOME];
    EXPECT(start_manager((struct own_manager){.pages = PAGES}));
    struct kd_supply s = {
        .object = object, .source = KD_SUPPLY_ZERO, .rights = 3, .count = 2 * SOME
    };
    EXPECT(CALL(KD_OBJECT_PIN, object, 0, 2 * SOME, 1) == 0); /* none is in memory */
    EXPECT(CALL(KD_OBJECT_SUPPLY, &s) == 0);
    EXPECT(CALL(KD_OBJECT_PIN, object, 5, 1, 1) == 1 && CALL(KD_OBJECT_PIN, object, 5, 1, 1) == 1);
    EXPECT(used(KD_LIMIT_PINS) == 1);
    EXPECT(CALL(KD_OBJECT_PIN, object, 0, 2 * SOME, 1) == -ENOMEM && used(KD_LIMIT_PINS) == SOME);
    int pinned = 0;
    EXPECT(CALL(KD_OBJECT_INFO, object, 0, 2 * SOME, bits) == 0);
    for (int i = 0; i < 2 * SOME; i++) pinned += (bits[i] & KD_PAGE_PINNED) != 0;
    EXPECT(pinned == SOME);
    EXPECT(CALL(KD_OBJECT_PIN, object, 0, 2 * SOME, 0) == SOME && used(KD_LIMIT_PINS) == 0);
    EXPECT(CALL(KD_OBJECT_PIN, object, SOME, SOME, 1) == SOME);
    EXPECT(CALL(KD_OBJECT_DESTROY, object) == 0 && used(KD_LIMIT_PINS) == 0);
    return 0;
}

/* ---- old versions ---- */

static _Atomic int writing;
static void *writer(void *count)
{
    long e = run(write_pages, count, KD_SERIALISABLE, 0);
    writing = 0;
    return (void *)e;
}

/* A snapshot reads one page, meanwhile `pages` are changed by one commit; then it reads them
 * all. */
static int look(void *pages)
{
    pthread_t t;
    uint64_t before = *word_of(0, 1), sum = 0;
    writing = 1;
    pthread_create(&t, NULL, writer, pages);
    pthread_join(t, NULL);
    for (uintptr_t i = 0; i < (uintptr_t)pages; i++) sum += *word_of((unsigned)i, 1) != before;
    return sum ? 1 : used(KD_LIMIT_VERSIONS) == (uintptr_t)pages ? 0 : 2;
}

static int versions(void)
{
    EXPECT(start_manager((struct own_manager){.pages = PAGES}) &&
           run(write_pages, (void *)(2 * SOME), KD_SERIALISABLE, 0) == 0);
    EXPECT(run(look, (void *)SOME, KD_SNAPSHOT, 0) == 0);
    EXPECT(run(look, (void *)(SOME / 2), KD_SNAPSHOT, 0) != 1);
    EXPECT(run(write_pages, (void *)(2 * SOME), KD_SERIALISABLE, 0) == 0);
    EXPECT(run(look, (void *)(SOME + 1), KD_SNAPSHOT, 0) == -ESTALE);
    EXPECT(run(write_pages, (void *)1, KD_SERIALISABLE, 0) == 0 && used(KD_LIMIT_VERSIONS) == 0);
    struct kd_system_info s;
    EXPECT(CALL(KD_SYSTEM_INFO, &s) == 0 && s.versions == 0 && check() == 0);
    return 0;
}

/* ---- tables that a large object needs are memory ---- */

static int objects(void)
{
    int p = (int)CALL(KD_PORT_CREATE, 0), n = 0;
    long e;
    struct kd_object_create c = {.port = p, .commit_port = p, .base = KD_STORE_BASE,
                                 .pages = (KD_STORE_END - KD_STORE_BASE) / KD_PAGE_BYTES};
    while ((e = CALL(KD_OBJECT_CREATE, &c)) >= 0 && n < 64) n++;
    EXPECT(e == -ENOMEM && n >= 2 && n < MEMORY >> 22);
    EXPECT(CALL(KD_HANDLE_CLOSE, p) == 0);
    return 0;
}

/* ---- a storm ---- */

/* Every process forks as long as it can; all end when nobody writes to the pipe any more. */
static int storm(void)
{
    char c;
    for (int i = 0; i < 400; i++)
        if (fork() < 0) {
            if (errno != EAGAIN && errno != ENOMEM) return 1;
            usleep(2000);
        }
    while (read(0, &c, 1) > 0) {
    }
    _exit(0);
}

/* ---- all views and threads that it may have, until nobody writes to the pipe ---- */

static void *for_ever(void *unused)
{
    pause();
    return unused;
}

static int greedy(void)
{
    char c = 0;
    pthread_t t;
    while (CALL(KD_VIEW_CREATE, 0) >= 0) {
    }
    while (!pthread_create(&t, NULL, for_ever, NULL)) {
    }
    write(1, &c, 1);
    while (read(0, &c, 1) > 0) {
    }
    _exit(0);
}

static const struct { const char *name; int (*run)(void); int which; uint64_t most; } roles[] = {
    {"handles", handles, KD_LIMIT_HANDLES, SOME}, {"threads", threads, KD_LIMIT_THREADS, SOME},
    {"memory", memory, KD_LIMIT_MEMORY, MEMORY}, {"views", views, KD_LIMIT_VIEWS, SOME},
    {"copies", copies, KD_LIMIT_COPIES, SOME}, {"messages", messages, KD_LIMIT_MESSAGES, SOME},
    {"data of messages", data, KD_LIMIT_MEMORY, MEMORY}, {"files", files, KD_LIMIT_FILES, SOME},
    {"processes", processes, KD_LIMITS, 0}, {"pins", pins, KD_LIMIT_PINS, SOME},
    {"old versions of a snapshot", versions, KD_LIMIT_VERSIONS, SOME},
    {"tables of large objects", objects, KD_LIMIT_MEMORY, MEMORY},
    {"storm", storm, KD_LIMIT_PROCESSES, STORM}, {"greedy", greedy, KD_LIMITS, 0},
};
enum { ALONE = sizeof roles / sizeof roles[0] - 2, STORM_ROLE = ALONE, GREEDY_ROLE };

static int start(const char *self, int i, int in, int out)
{
    char path[128], number[8];
    const char *name = strrchr(self, '/'), *argv[] = {self, number, NULL};
    struct kd_process_create p = {.path = path, .argv = argv, .fds = {in, out, -1}};
    snprintf(path, sizeof path, "/bin/%s", name ? name + 1 : self);
    snprintf(number, sizeof number, "%d", i);
    if (roles[i].which != KD_LIMIT_HANDLES) system_pass(&p);
    if (roles[i].which < KD_LIMITS) p.limits[roles[i].which] = roles[i].most;
    long handle = CALL(KD_PROCESS_CREATE, &p);
    if (handle < 0) return (int)handle;
    CALL(KD_HANDLE_CLOSE, handle);
    return p.pid;
}

static int commit_one(void *p) { return ++*(long *)p, 0; }

/* Beside a storm: programs start, and the store commits. */
static void beside_a_storm(const char *self)
{
    int ends[2], most = 0, started = 0, committed = 0;
    ps_container *c =
        ps_open("limits", PS_CREATE | PS_WRITE, &(struct ps_layout){ "long", 1, sizeof(long) });
    if (!c || pipe(ends)) return tap_ok(0, "a container and a pipe"), (void)0;
    int pid = start(self, STORM_ROLE, ends[0], -1);
    struct kd_system_info s;
    for (int i = 0; i < 300 || (most < STORM / 2 && i < SURE_MS); i++) {
        CALL(KD_SYSTEM_INFO, &s);
        most = (int)s.processes > most ? (int)s.processes : most;
        if (i < 300 && i % 30 == 0) {
            started += child_run(self, "nothing", NULL) == 0;
            ps_begin(NULL);
            committed += commit_one(ps_root(c)) == 0 && ps_commit() == 0;
        }
        usleep(2000);
    }
    close(ends[1]);
    close(ends[0]);
    is(child_wait(pid), 0, "a storm of forks ends");
    printf("# %d processes at most\n", most);
    tap_ok(most >= STORM / 2 && most <= STORM + 1,
           "there never were more processes than its limit, and one");
    tap_ok(started == 10 && committed == 10, "others started programs and committed meanwhile");
    ps_close(c);
}

/* Beside several that have taken all they may: what all share is not used up, and the store goes
 * on. */
static void beside_a_crowd(const char *self)
{
    static struct kd_process_info rows[256];
    int in[2], out[2], pid[CROWD], ready = 0, committed = 0, ended = 0;
    char c;
    ps_container *old =
        ps_open("limits", PS_CREATE | PS_WRITE, &(struct ps_layout){ "long", 1, sizeof(long) });
    if (!old || pipe(in) || pipe(out)) return tap_ok(0, "a container and pipes"), (void)0;
    ps_begin(NULL);
    ps_commit(); /* this program has its view */
    for (int i = 0; i < CROWD; i++) pid[i] = start(self, GREEDY_ROLE, in[0], out[1]);
    for (int i = 0; i < CROWD; i++) ready += read(out[0], &c, 1) == 1;
    long n = CALL(KD_PROCESS_LIST, rows, 256), views = CALL(KD_VIEW_LIST, NULL, 0), threads = 0;
    for (long i = 0; i < n; i++) threads += (long)rows[i].used[KD_LIMIT_THREADS];
    printf("# %d of them, %ld views, %ld threads\n", ready, views, threads);
    tap_ok(ready == CROWD && views <= KD_VIEW_MAX - VIEWS_KEPT &&
               threads <= THREADS_ALL - THREADS_KEPT,
           "views and threads are kept for the shell and managers");
    ps_container *fresh =
        ps_open("crowd", PS_CREATE | PS_WRITE, &(struct ps_layout){ "long", 1, sizeof(long) });
    for (int i = 0; fresh && i < 10; i++) {
        ps_begin(NULL);
        committed += commit_one(ps_root(i % 2 ? fresh : old)) == 0 && ps_commit() == 0;
    }
    is(committed, 10, "a container is made, and commits go on");
    close(in[1]);
    close(in[0]);
    for (int i = 0; i < CROWD; i++) ended += child_wait_for(pid[i], CHILD_ENDS_S) == 0;
    is(ended, CROWD, "they end");
    close(out[0]);
    close(out[1]);
    ps_close(fresh);
    ps_close(old);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        int i = strcmp(argv[1], "nothing") == 0 ? -1 : atoi(argv[1]);
        return i < 0 ? 0 : roles[i].run();
    }
    tap_plan(ALONE + 8);
    for (int i = 0; i < ALONE; i++) { /* what is kept for the next time is kept now */
        is(child_wait_for(start(argv[0], i, -1, -1), CHILD_ENDS_S), 0, roles[i].name);
    }
    struct counts before = counts_now();
    for (int i = 0; i < ALONE; i++) child_wait_for(start(argv[0], i, -1, -1), CHILD_ENDS_S);
    tap_ok(counts_back(before, 64),
           "frames, objects, processes, views, handles and credits are back");
    beside_a_storm(argv[0]);
    beside_a_crowd(argv[0]);
    tap_ok(check_clean(), "kcheck");
    return tap_end();
}
