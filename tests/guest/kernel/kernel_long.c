/*
 * kernel_long.c - no call keeps a CPU for as long as its argument is large.
 *
 * Aim     between two points at which the kernel serves shootdowns and can yield there are fewer
 *         than 200,000 instructions, whatever a call is asked for.
 * Method  the calls whose work grows with an argument, each with a large one; QEMU's plugin
 *         (scripts/run --stretch 200000) ends the run at a longer stretch. The call of getppid ends
 *         a row: tests/bench/longest.sh has the plugin write how long each one's longest was. One
 *         called "-" is what was between two of them.
 */
#define PAGES 20000
#define HOME_PAGES 1
#include "stacked_manager.h"
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>

enum { STEP_BYTES = 2 << 20, STEPS = 2048, WIDE_BYTES = 16 << 20, WIDE = 12 };
enum { BEHIND_BYTES = 1 << 30, VIEW_COPIES = 100 };
/* Of KD_VIEW_MAX, 128, the last 8 are for init and what it starts itself. A program may have 96, so
 * another one has the rest of 120: with main's own, these are all. */
enum { VIEWS_HERE = 95, VIEWS_THERE = 24, VIEWS = VIEWS_HERE + VIEWS_THERE };
enum { HOLDERS_MAX = 200, HELD = 255, MORE = 1, FULL = 2, NUMBER = 7 };
static const uint64_t SPARSE_PAGES = 1ull << 33;
static unsigned pages = PAGES, regions_made = 8192; /* VM_REGIONS_MAX */
static int holders = HOLDERS_MAX;
static size_t process_bytes = 100 << 20, scattered_bytes = 200 << 20;
static bool rows;
static int wrong;

/* ---- the manager's side of its own: many commits published at once, spills ---- */

static struct kd_publish gathered[VIEWS];
static _Atomic unsigned gather, gathered_count;
static bool takes(struct kd_message *m)
{
    if (m->kind != (uint32_t)KD_MSG_COMMIT || !gather)
        return false;
    gathered[gathered_count] = (struct kd_publish){m->word[0], m->token, next_csn++};
    if (++gathered_count < gather)
        return true;
    static uint8_t buffer[1 << 20];
    for (unsigned i = 0; i < gather; i++) {
        struct kd_diff d = {.view = gathered[i].view, .token = gathered[i].token};
        do {
            d.buffer = buffer;
            d.buffer_bytes = sizeof buffer;
            if (kd_call3(KD_TXN_DIFF, (long)&d, 0, 0))
                wrong += printf("# a diff failed\n");
        } while (d.cursor != ~0ull);
    }
    long e = kd_call3(KD_TXN_PUBLISH, (long)gathered, gather, 0);
    if (e)
        wrong += printf("# publish of %u: %ld\n", gather, e);
    gather = 0;
    return true;
}

/* ---- measuring ---- */

static void measured(const char *what)
{
    getppid();
    printf("%s%s\n", rows ? "" : "# ", what);
}

/* ---- transactions ---- */

static int touch(void *unused)
{
    for (unsigned i = 0; i < pages; i++)
        (void)*word_of(i, 0);
    return unused != NULL;
}

static int write_all(void *unused)
{
    for (unsigned i = 0; i < pages; i++)
        *word_of(i, 5) += i + 1;
    return unused != NULL;
}

static int hint(void *leave)
{
    struct kd_changes changes;
    long e = kd_call3(KD_TXN_HINT, (long)base, (long)pages * 4096, KD_HINT_WRITE);
    if (e)
        wrong += printf("# hint: %ld\n", e);
    measured("hint of 20,000 pages");
    (void)write_all(NULL);
    measured("-");
    e = kd_call3(KD_TXN_CHANGES, (long)word_of(pages - 1, 0), (long)&changes, 0);
    if (e || changes.address != (uint64_t)word_of(pages - 1, 0))
        wrong += printf("# changes: %ld\n", e);
    measured("changes of the last of 20,000 copies");
    return *(int *)leave;
}

static int hint_only(void *unused)
{
    kd_call3(KD_TXN_HINT, (long)base, (long)pages * 4096, KD_HINT_WRITE);
    return unused != NULL;
}

static void transactions(void)
{
    int leave = 17, stay = 0;
    run(touch, NULL, 0, 0);
    measured("-");
    run(hint, &leave, 0, 0);
    measured("abort of 20,000 copies");
    run(write_all, NULL, 0, 0);
    measured("commit of 20,000 copies");
    run(hint, &stay, 0, 0);
    measured("commit of 20,000 copies that were declared");
    run(hint_only, NULL, 0, 0);
    measured("commit of 20,000 copies that were left alone");
    view_anew();
    measured("end of a view");
}

/* ---- a manager that stands on another ---- */

static struct stacked upper = {.key = 1, .pages = 1};
static int write_two(void *unused)
{
    for (unsigned i = 0; i + 1 < pages; i++)
        *word_of(i, 6) += i + 1;
    *word_at(upper.base, 0, 0) += 1;
    return unused != NULL;
}

static void stacked(void)
{
    upper.below = base + (pages - 1) * 4096;
    if (stacked_start(&upper, &port, 1, 1, 1))
        wrong += printf("# no manager that stands on this one\n");
    measured("-");
    int e = run(write_two, NULL, 0, 0);
    if (e || upper.commits != 1)
        wrong += printf("# commit: %d\n", e);
    measured("commit of one page of a manager's, and 19,999 of the one below");
    kd_call3(KD_HANDLE_CLOSE, upper.object, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, upper.port, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, upper.commit_port, 0, 0);
    pthread_join(upper.pager, NULL); /* with their views: a program may have VIEWS + 1 */
    pthread_join(upper.committer, NULL);
    measured("-");
}

/* ---- many views ---- */

static pthread_barrier_t together;
static int write_some(void *first)
{
    for (unsigned i = 0; i < VIEW_COPIES; i++)
        *word_of(*(unsigned *)first + i, 1) += 1;
    pthread_barrier_wait(&together);
    return 0;
}

static int read_some(void *unused)
{
    for (unsigned i = 0; i < 2000; i++)
        (void)*word_of(i, 0);
    return unused != NULL;
}

static void *one_of_many(void *number)
{
    unsigned first = *(unsigned *)number * VIEW_COPIES;
    int e = run(write_some, &first, 0, 0);
    if (e)
        wrong += printf("# view: %d\n", e), exit(1);
    run(read_some, NULL, 0, 0);
    pthread_barrier_wait(&together); /* main looks ... */
    pthread_barrier_wait(&together); /* ... at what it does with the rights of all */
    return NULL;
}

static int lock_it(void *unused) { return unused != NULL; }

static void views_start(pthread_t threads[], unsigned first, unsigned n)
{
    static unsigned numbers[VIEWS];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    pthread_barrier_init(&together, NULL, n + 1);
    for (unsigned i = 0; i < n; i++) {
        numbers[i] = first + i;
        if (pthread_create(&threads[i], &small, one_of_many, &numbers[i]))
            wrong += printf("# no thread %u\n", i);
    }
}

static void views_end(pthread_t threads[], unsigned n)
{
    pthread_barrier_wait(&together);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

/* The other program. It hears when it may begin, and end, and says when its views have rights. */
static _Noreturn void has_the_rest(int heard, int said)
{
    pthread_t threads[VIEWS_THERE];
    char word = 0;
    (void)!read(heard, &word, 1);
    views_start(threads, VIEWS_HERE, VIEWS_THERE);
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    (void)!write(said, &word, 1);
    (void)!read(heard, &word, 1);
    views_end(threads, VIEWS_THERE);
    _exit(wrong != 0);
}

static void many_views(void)
{
    pthread_t threads[VIEWS_HERE];
    int tell[2], hear[2], status = 0;
    char word = 0;
    if (pipe(tell) || pipe(hear))
        wrong += printf("# no pipes\n");
    int pid = fork();
    if (pid == 0)
        has_the_rest(tell[0], hear[1]);
    if (kd_call3(KD_SPACE_ATTACH, pid, object, KD_RIGHT_READ | KD_RIGHT_WRITE))
        wrong += printf("# the other program has no object\n");
    gather = VIEWS;
    (void)!write(tell[1], &word, 1);
    views_start(threads, 0, VIEWS_HERE);
    pthread_barrier_wait(&together);
    measured("-");
    pthread_barrier_wait(&together);
    (void)!read(hear[0], &word, 1);
    measured("publish with 119 views, 11,900 copies");
    struct kd_begin locked = {.mode = KD_CONTAINER_LOCK, .locked = base};
    run_like(lock_it, NULL, &locked);
    measured("lock of a container that 119 views have rights in");
    (void)!write(tell[1], &word, 1);
    views_end(threads, VIEWS_HERE);
    if (waitpid(pid, &status, 0) != pid || status)
        wrong += printf("# the other program ended with %x\n", status);
    measured("ends of 119 threads with views");
}

/* ---- the object ---- */

/* Another thread revokes the object, too, when this one is in the middle of that. */
static void *revokes(void *begun)
{
    enum { MIDDLE_NS = 1500000 };
    *(_Atomic bool *)begun = true;
    nanosleep(&(struct timespec){.tv_nsec = MIDDLE_NS}, NULL);
    return (void *)kd_call3(KD_OBJECT_REVOKE, object, 0, 0);
}

static void revoked_twice(void)
{
    _Atomic bool begun = false;
    pthread_t other;
    void *e;
    pthread_create(&other, NULL, revokes, &begun);
    while (!begun)
        sched_yield();
    long mine_e = kd_call3(KD_OBJECT_REVOKE, object, 0, 0);
    pthread_join(other, &e);
    if (mine_e || e)
        wrong += printf("# revoke: %ld, %ld\n", mine_e, (long)e);
    measured("revoke by two threads, with 20,000 pages mapped");
}

static long check_of(uint64_t bytes)
{
    return kd_call3(KD_TXN_HINT, KD_STORE_BASE, (long)bytes, KD_HINT_CHECK);
}

/* Of a large object a hint looks at a part (a stretch is measured when it ends), at all, and at
 * more than that. */
static int check_all(void *unused)
{
    const uint64_t all = SPARSE_PAGES * KD_PAGE_BYTES;
    long e = check_of(all >> 9) ?: check_of(all), more = check_of(all + 1);
    if (e || more != -EINVAL)
        wrong += printf("# check: %ld, %ld\n", e, more);
    return unused != NULL;
}

static void objects(void)
{
    run(touch, NULL, 0, 0);
    measured("-");
    kd_call4(KD_OBJECT_RECALL, object, 0, pages, 0);
    measured("recall of 20,000 pages");
    run(touch, NULL, 0, 0);
    measured("-");
    if (check())
        wrong += printf("# kcheck found errors\n");
    measured("kcheck");
    static uint8_t bits[PAGES];
    kd_call4(KD_OBJECT_INFO, object, 0, pages, (long)bits);
    measured("state of 20,000 pages");
    kd_call4(KD_OBJECT_ADVISE, object, 0, pages, KD_ADVISE_DONT_NEED);
    measured("advice for 20,000 pages");
    revoked_twice();
    kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ | KD_RIGHT_WRITE);
    run(touch, NULL, 0, 0);
    measured("-");
    kd_call3(KD_OBJECT_DESTROY, object, 0, 0);
    measured("end of an object with 20,000 pages");
    struct kd_object_create c = { .port = port, .commit_port = commit_port,
                                  .flags = KD_OBJECT_TRANSACTIONAL, .base = KD_STORE_BASE,
                                  .pages = SPARSE_PAGES,
                                  .name = "sparse" };
    object = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    measured("making a sparse object of 32 TiB");
    kd_call4(KD_OBJECT_RECALL, object, 0, SPARSE_PAGES, 0);
    measured("recall of its pages");
    kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ);
    run(check_all, NULL, 0, 0);
    measured("check of its pages");
    static uint8_t many[1 << 20];
    kd_call4(KD_OBJECT_INFO, object, 1, sizeof many, (long)many);
    measured("-");
    kd_call4(KD_OBJECT_INFO, object, 1, sizeof many, (long)many);
    measured("state of a million of its pages");
    kd_call3(KD_OBJECT_DESTROY, object, 0, 0);
    measured("its end");
}

/* ---- memory of a process ---- */

static char *filled(void)
{
    char *p = mmap(NULL, process_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    for (size_t i = 0; i < process_bytes; i += 4096)
        p[i] = 1;
    measured("-");
    return p;
}

static void space(void)
{
    char *p = filled();
    int pid = fork();
    for (; pid == 0;)
        pause();
    measured("fork with 100 MiB");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    measured("end of a process with 100 MiB");
    if (check())
        wrong += printf("# kcheck found errors\n");
    measured("kcheck with 100 MiB");
    if ((pid = fork()) == 0) {
        measured("-");
        execl("/bin/kernel_long", "kernel_long", "nothing", NULL);
        _exit(1);
    }
    waitpid(pid, NULL, 0);
    measured("execve with 100 MiB");
    madvise(p, process_bytes, MADV_DONTNEED);
    measured("madvise of 100 MiB");
    munmap(p, process_bytes);
    p = filled();
    mprotect(p, process_bytes, PROT_READ);
    measured("mprotect of 100 MiB");
    munmap(p, process_bytes);
    measured("munmap of 100 MiB");
    p = filled();
    p = mmap(p, process_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    measured("mmap in the place of 100 MiB");
    munmap(p, process_bytes);
}

/* Each second frame of much memory is free, and so none is joined with its neighbour. */
static void scattered(void)
{
    char *p = mmap(NULL, scattered_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                   0);
    for (size_t i = 0; p != MAP_FAILED && i < scattered_bytes; i += 4096)
        p[i] = 1;
    for (size_t i = 0; p != MAP_FAILED && i < scattered_bytes; i += 2 * 4096)
        madvise(p + i, 4096, MADV_DONTNEED);
    measured("-");
    if (p == MAP_FAILED || check())
        wrong += printf("# kcheck found errors\n");
    measured("kcheck with 25,600 frames free one by one");
    munmap(p, scattered_bytes);
}

/* A page in each page table, of memory that is not promised any more. */
static void sparse(void)
{
    char *p = mmap(NULL, (size_t)STEPS * STEP_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; p != MAP_FAILED && i < STEPS; i++) {
        mprotect(p + i * STEP_BYTES, 4096, PROT_READ | PROT_WRITE);
        p[i * STEP_BYTES] = 1;
        mprotect(p + i * STEP_BYTES, 4096, PROT_NONE);
    }
    measured("-");
    if (p == MAP_FAILED || check())
        wrong += printf("# kcheck found errors\n");
    measured("kcheck with a page in each of 2,048 page tables");
    munmap(p, (size_t)STEPS * STEP_BYTES);
}

/* Regions that fill eight page tables each. */
static void wide(void)
{
    static char shown[1 << 16];
    for (unsigned i = 0; i < WIDE; i++) {
        char *p = mmap(NULL, WIDE_BYTES, i % 2 ? PROT_READ | PROT_WRITE : PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (size_t at = 0; p != MAP_FAILED && at < WIDE_BYTES; at += 4096)
            (void)*(volatile char *)(p + at);
        wrong += p == MAP_FAILED;
    }
    measured("-");
    kd_call4(KD_LOOK, KD_LOOK_MAP, getpid(), (long)shown, sizeof shown);
    measured("the map of 12 regions of 16 MiB");
}

static void random_bytes(void)
{
    static char bytes[1 << 20];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        wrong += printf("# no random bytes\n");
    measured("a mebibyte of random bytes");
}

/* As many as there may be, of which the program itself has some: making them ends by ENOMEM. One is
 * given back, for what comes then. */
static void regions(void)
{
    static char shown[1 << 20];
    size_t bytes = (size_t)regions_made * 4096, i = 0;
    char *spare = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    measured("-");
    while (i < regions_made && mprotect(p + i * 4096, 4096, PROT_READ) == 0)
        i += 2;
    if (i < regions_made ? errno != ENOMEM || i + 200 < regions_made : regions_made == 8192)
        wrong += printf("# regions end at %zu, errno %d\n", i, errno);
    measured("making 8,192 regions");
    munmap(spare, 4096);
    for (i = 0; i < regions_made; i++)
        (void)*(volatile char *)(p + i * 4096);
    measured("touching 8,192 regions");
    mprotect(p, bytes, PROT_READ);
    measured("protect over 8,192 regions");
    int pid = fork();
    for (; pid == 0;)
        pause();
    measured("fork with 8,192 regions");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    measured("end of a process with 8,192 regions");
    kd_call4(KD_LOOK, KD_LOOK_MAP, getpid(), (long)shown, sizeof shown);
    measured("the map of 8,192 regions");
    void *behind = mmap(NULL, BEHIND_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (behind == MAP_FAILED || munmap(behind, BEHIND_BYTES))
        wrong += printf("# no room behind\n");
    measured("mmap behind 8,192 regions");
    munmap(p, bytes);
    measured("munmap of 8,192 regions");
}

/* ---- badges: as many of a number as there can be nearly, in the tables of 200 processes ---- */

static _Noreturn void holds(void)
{
    struct kd_message m = {0};
    while (m.handle >= 0) {
        m = (struct kd_message){.kind = MORE, .handle = -1};
        kd_call3(KD_PORT_CALL, 0, (long)&m, 0);
    }
    m = (struct kd_message){.kind = FULL, .handle = -1};
    kd_call3(KD_PORT_CALL, 0, (long)&m, 0);
    for (;;)
        pause();
}

/* Starts a process and gives it handles until its table is full. Its pid. */
static int holder(int at)
{
    const char *argv[] = {"kernel_long", "holds", NULL};
    struct kd_process_create p = {.path = "/bin/kernel_long", .argv = argv, .fds = {-1, -1, -1},
                                  .handle_count = 1, .handles = {at},
                                  .handle_rights = {KD_RIGHT_CALL}};
    const unsigned rights = KD_RIGHT_CALL | KD_RIGHT_GRANT;
    struct kd_message m;
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    if (handle < 0)
        return wrong += printf("# no process: %ld\n", handle), 0;
    kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    do {
        m = (struct kd_message){.handle = -1};
        kd_call3(KD_PORT_RECEIVE, at, (long)&m, -1);
        long made = m.kind == MORE ? kd_call3(KD_BADGE_CREATE, at, NUMBER, rights) : -1;
        struct kd_message reply = {.handle = (int)made, .handle_rights = KD_RIGHT_CALL};
        kd_call3(KD_PORT_REPLY, (long)m.token, (long)&reply, 0);
        kd_call3(KD_HANDLE_CLOSE, made, 0, 0);
    } while (m.kind == MORE);
    return p.pid;
}

static void badges(void)
{
    int at = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0), pids[HOLDERS_MAX];
    for (int i = 0; i < holders; i++)
        pids[i] = holder(at);
    measured("-");
    long ended = kd_call3(KD_BADGE_END, at, NUMBER, 0);
    if (ended != holders * HELD)
        wrong += printf("# badges that ended: %ld\n", ended);
    measured("end of 51,000 badges");
    kd_call3(KD_HANDLE_CLOSE, at, 0, 0);
    measured("end of their port");
    for (int i = 0; i < holders; i++)
        kill(pids[i], SIGKILL);
    for (int i = 0; i < holders; i++)
        waitpid(pids[i], NULL, 0);
    measured("ends of 200 processes that held them");
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "nothing") == 0)
        return 0;
    if (argc == 2 && strcmp(argv[1], "holds") == 0)
        holds();
    rows = argc == 2 && strcmp(argv[1], "rows") == 0;
    if (!rows)
        tap_plan(1);
    if (!rows && !tap_long()) { /* still far more than the limit, if it were one stretch */
        printf("# half as many of each\n");
        pages /= 2, process_bytes /= 2, scattered_bytes /= 2, regions_made /= 2, holders /= 2;
    }
    if (!start_manager((struct own_manager){.pages = PAGES, .home_pages = HOME_PAGES,
                                            .messages = takes}))
        return 1;
    measured("-");
    transactions();
    stacked();
    many_views();
    space();
    scattered();
    sparse();
    regions();
    badges();
    objects();
    wide();
    random_bytes();
    if (!rows)
        tap_ok(wrong == 0, "each call did what it was asked for");
    return rows ? 0 : tap_end();
}
