/*
 * kernel_many.c - how many objects, ports and files there are costs nobody anything.
 *
 * Aim     a call that makes an object takes at most four times as many instructions among 10,000
 *         others as among 10 (the tree of all is deeper), the end of one, and of the process that
 *         made them, by object, no more; nor the end of a transaction that used a page which is
 *         called back, the search for a port by its name, the next name of a folder, the end of a
 *         port on which others stand, a publication or a snapshot. Objects are charged: a process
 *         that makes them without end meets its limit, and all comes back.
 * Method  QEMU counts instructions as time, so the time stamp counter counts them; its plugin ends
 *         the run at a stretch of 200,000 instructions (kernel_long.c). A child has the others.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PAGES 1
#include "own_manager.h"

enum { FEW = 10, MANY = 10000, MEASURED = 10, MAKE_TIMES = 4, END_PERCENT = 150 };
enum { BYTES_LEAST = 256, ATTACHED = 1024, CLIENTS = 64, NOTICE_BYTES = 128, PORT_BYTES = 1024 };
enum { PORTS = 250, RECALLED = 1000, PROCESSES = 40 }; /* of one process; at most */
enum { FILES_FEW = 100, FILES_MANY = 5000, LIST_TIMES = 2 };
static int ask, commit, said[2], heard[2], failed;

/* Makes an object; its handle, or -errno. */
static long object_make(void)
{
    struct kd_object_create c = {.port = ask, .commit_port = commit, .pages = 1,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .name = "one of many"};
    return kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
}

/* Makes n objects, which stay when their handles are closed. How many there were. */
static long objects_make(long n)
{
    long made = 0, h;
    for (; made < n && (h = object_make()) >= 0; made++)
        kd_call3(KD_HANDLE_CLOSE, h, 0, 0);
    return made;
}

static void ports_make(void)
{
    ask = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    commit = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
}

/* What it hears of rights that are called back it has no use for. */
static bool hears(struct kd_message *m) { return m->kind == (uint32_t)KD_MSG_RECALLED; }

static int use_recalled(void *unused)
{
    uint64_t was = *word_of(0, 0);
    long used = kd_call4(KD_OBJECT_RECALL, object, 0, 1, 0);
    return used != 1 || was || unused ? -EIO : 0;
}

static uint64_t clock_now(void) { return time_stamp() - system_info().idle_cycles; }

/* Instructions of a make, of an end, and of a transaction which uses what is called back. */
struct cost { uint64_t make, end, use; };
static struct cost cost(void)
{
    struct cost all = {.use = ~0ull};
    for (int i = 0; i < MEASURED; i++) {
        uint64_t before = time_stamp();
        long h = object_make();
        uint64_t between = time_stamp();
        kd_call3(KD_OBJECT_DESTROY, h, 0, 0);
        all.make += between - before;
        all.end += time_stamp() - between;
        kd_call4(KD_OBJECT_GRANT, object, 0, 1, KD_READ | KD_WRITE);
        before = clock_now();
        failed += run(use_recalled, NULL, 0, 0) != 0;
        uint64_t use = clock_now() - before; /* the least: others may have a turn within it */
        all.use = use < all.use ? use : all.use;
    }
    return (struct cost){all.make / MEASURED, all.end / MEASURED, all.use};
}

/* A child that makes n objects and waits: how many it has. *took: instructions of its end, by
 * object. */
static long with_objects(long n, struct cost *among, uint64_t *took)
{
    long made = -EIO;
    int pid = fork();
    if (pid == 0) {
        char word;
        ports_make();
        made = objects_make(n);
        (void)!write(said[1], &made, sizeof made);
        (void)!read(heard[0], &word, 1);
        _exit(0);
    }
    (void)!read(said[0], &made, sizeof made);
    *among = cost();
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "the kernel finds itself in order");
    uint64_t before = time_stamp() - system_info().idle_cycles;
    (void)!write(heard[1], "", 1);
    waitpid(pid, NULL, 0);
    *took = (time_stamp() - system_info().idle_cycles - before) / (uint64_t)n;
    return made;
}

static void costs(void)
{
    struct cost few, many;
    uint64_t end_few, end_many;
    is(with_objects(FEW, &few, &end_few), FEW, "a few objects");
    is(with_objects(MANY, &many, &end_many), MANY, "many objects");
    printf("# instructions: make %llu and %llu, end %llu and %llu, transaction %llu and %llu, the "
           "end of their process %llu and %llu for each\n",
           (unsigned long long)few.make, (unsigned long long)many.make,
           (unsigned long long)few.end, (unsigned long long)many.end, (unsigned long long)few.use,
           (unsigned long long)many.use, (unsigned long long)end_few,
           (unsigned long long)end_many);
    bool any = !time_stamp_counts();
    tap_ok(any || many.make <= few.make * MAKE_TIMES, "a make costs not much more than among few");
    tap_ok(any || many.end * 100 <= few.end * END_PERCENT, "and an end");
    tap_ok((any || many.use * 100 <= few.use * END_PERCENT) && !failed,
           "and a transaction that uses what is called back");
    tap_ok(any || end_many <= end_few, "and the end of all");
}

/* ---- attachments ---- */

/* A child that has attached as many objects as it may, and ends. How many. */
static long attached(void)
{
    long n = -EIO;
    int pid = fork();
    if (pid == 0) {
        long e = 0;
        ports_make();
        for (n = 0; e == 0; n += e == 0) {
            long h = object_make();
            e = kd_call3(KD_SPACE_ATTACH, getpid(), h, KD_RIGHT_READ);
            kd_call3(KD_HANDLE_CLOSE, h, 0, 0);
        }
        (void)!write(said[1], &n, sizeof n);
        _exit(0);
    }
    (void)!read(said[0], &n, sizeof n);
    waitpid(pid, NULL, 0);
    return n;
}

/* ---- what many processes have ---- */

/* What each of some processes makes (how much, or -errno), and what then costs as much as among
 * few: instructions. `has` stays with its process. */
struct among {
    const char *what;
    long (*has)(void);
    uint64_t (*costs)(void);
    int few, many;
};

static uint64_t cost_among(const struct among *a, int processes, long *all)
{
    int pids[PROCESSES];
    for (int i = 0; i < processes; i++) {
        long made = -EIO;
        if ((pids[i] = fork()) == 0) {
            made = a->has();
            (void)!write(said[1], &made, sizeof made);
            for (;;)
                pause();
        }
        (void)!read(said[0], &made, sizeof made);
        failed += made < 0;
        *all += made;
    }
    uint64_t took = a->costs();
    failed += check() != 0;
    for (int i = 0; i < processes; i++)
        kill(pids[i], SIGKILL);
    for (int i = 0; i < processes; i++)
        waitpid(pids[i], NULL, 0);
    return took;
}

static void among(const struct among *a)
{
    long n_few = 0, n_many = 0;
    failed = 0;
    uint64_t few = cost_among(a, a->few, &n_few), many = cost_among(a, a->many, &n_many);
    tap_ok((!time_stamp_counts() || many * 100 <= few * END_PERCENT) && !failed,
           "%s: %llu instructions among %ld, %llu among %ld", a->what, (unsigned long long)few,
           n_few, (unsigned long long)many, n_many);
}

static long ports_have(void)
{
    long n = 0, h = 0;
    for (; n < PORTS && h >= 0; n += h >= 0)
        h = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    return h < 0 ? h : n;
}

/* A search for a name that no port has. */
static uint64_t search_costs(void)
{
    uint64_t took = 0;
    for (int i = 0; i < MEASURED; i++) {
        uint64_t before = time_stamp();
        failed += kd_call3(KD_NAME_FIND, (long)"nobody", 0, 0) != -ENOENT;
        took = time_stamp() - before; /* of the last: the first ones met page faults */
    }
    return took;
}

/* Makes a port that stands on the one whose objects are at `ask`. Its handle, or -errno. */
static long port_above(void)
{
    long h = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    long e = h < 0 ? h : kd_call3(KD_PORT_BELOW, h, (long)&ask, 1);
    return e ? e : h;
}

static long ports_above_have(void)
{
    long n = 0, h = 0;
    ports_make();
    for (h = object_make(); n < PORTS - 4 && h >= 0; n += h >= 0)
        h = port_above();
    return h < 0 ? h : n;
}

/* The end of a port on which another one stands, with that one. */
static uint64_t end_costs(void)
{
    uint64_t took = 0;
    for (int i = 0; i < MEASURED; i++) {
        ports_make();
        long o = object_make(), h = port_above();
        uint64_t before = time_stamp();
        kd_call3(KD_HANDLE_CLOSE, commit, 0, 0);
        took = time_stamp() - before;
        struct kd_message m = {.handle = -1};
        failed += kd_call3(KD_PORT_RECEIVE, h, (long)&m, 0) != -EBADF;
        kd_call3(KD_HANDLE_CLOSE, ask, 0, 0);
        kd_call3(KD_HANDLE_CLOSE, o, 0, 0);
        kd_call3(KD_HANDLE_CLOSE, h, 0, 0);
    }
    return took;
}

/* Objects of which a page is called back that this process's transaction uses. */
static long recalled_have(void)
{
    static struct context c;
    long n = 0, e = txn_open(&c, (struct kd_begin){0});
    ports_make();
    for (; !e && n < RECALLED; n += !e) {
        struct kd_object_create o = {.port = ask, .commit_port = commit, .pages = 1,
                                     .flags = KD_OBJECT_TRANSACTIONAL, .name = "recalled"};
        long h = kd_call3(KD_OBJECT_CREATE, (long)&o, 0, 0);
        struct kd_supply s = {.object = (int)h, .source = KD_SUPPLY_ZERO, .count = 1,
                              .rights = KD_READ | KD_WRITE};
        e = h < 0 ? h : kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0)
                        ?: kd_call3(KD_SPACE_ATTACH, getpid(), h, KD_RIGHT_READ);
        if (!e && *(volatile uint64_t *)o.base == 0)
            e = kd_call4(KD_OBJECT_RECALL, h, 0, 1, 0) == 1 ? 0 : -EIO;
        kd_call3(KD_HANDLE_CLOSE, h, 0, 0);
    }
    return e ? e : n;
}

static uint64_t use_costs(void) { return cost().use; }

/* Handles of commit points. The last one that all of them may have is for the test. */
static long snapshots_have(void)
{
    static struct context c;
    long n = 0, last = 0, h = 0, e = txn_open(&c, (struct kd_begin){.mode = KD_SNAPSHOT});
    for (; !e && n < PORTS - 4 && h >= 0; n += h >= 0) {
        last = h;
        h = kd_call3(KD_SNAPSHOT_SHARE, 0, 0, 0);
    }
    if (h == -EAGAIN)
        n -= kd_call3(KD_HANDLE_CLOSE, last, 0, 0) == 0;
    return e ? e : h < 0 && h != -EAGAIN ? h : n;
}

static int share(void *unused)
{
    long h = kd_call3(KD_SNAPSHOT_SHARE, 0, 0, 0);
    failed += kd_call3(KD_SNAPSHOT_SHARE, h + 1, 0, 0) != 1 || *word_of(0, 1) == 0 || unused;
    kd_call3(KD_HANDLE_CLOSE, h, 0, 0);
    return 0;
}

static int put(void *unused) { return (*word_of(0, 1) += 1) == 0 || unused; }

/* A publication, and a snapshot whose commit point is shared. */
static uint64_t publish_costs(void)
{
    uint64_t took = 0;
    for (int i = 0; i < MEASURED; i++) {
        uint64_t before = clock_now();
        failed += run(put, NULL, 0, 0) != 0 || run(share, NULL, KD_SNAPSHOT, 0) != 0;
        took = clock_now() - before;
    }
    return took;
}

static const struct among everywhere[] = {
    {"a port is found by its name", ports_have, search_costs, 1, 40},
    {"a port ends, and one that stands on it", ports_above_have, end_costs, 1, 40},
    {"a transaction used what is called back", recalled_have, use_costs, 1, 10},
    {"a publication, and a snapshot that is shared", snapshots_have, publish_costs, 1, 40},
};

/* ---- files ---- */

/* Instructions of a listing of a folder with so many files, for each. */
static uint64_t listing(int files)
{
    char name[64];
    int listed = 0;
    failed += mkdir("/tmp/many", 0755) != 0;
    for (int i = 0; i < files; i++) {
        snprintf(name, sizeof name, "/tmp/many/%d", i);
        int fd = open(name, O_CREAT | O_WRONLY, 0644);
        failed += fd < 0;
        close(fd);
    }
    DIR *folder = opendir("/tmp/many");
    uint64_t before = time_stamp();
    for (struct dirent *e; folder && (e = readdir(folder));)
        listed += e->d_name[0] != '.';
    uint64_t took = (time_stamp() - before) / (uint64_t)files;
    failed += listed != files;
    if (folder)
        closedir(folder);
    for (int i = 0; i < files; i++) {
        snprintf(name, sizeof name, "/tmp/many/%d", i);
        failed += unlink(name) != 0;
    }
    failed += rmdir("/tmp/many") != 0;
    return took;
}

static void folders(void)
{
    uint64_t few = listing(FILES_FEW), many = listing(FILES_MANY);
    tap_ok((!time_stamp_counts() || many <= LIST_TIMES * few) && !failed,
           "a folder is listed: %llu instructions a file of 100, %llu of 5,000",
           (unsigned long long)few, (unsigned long long)many);
}

static uint64_t memory_used(void) { return process_self().used[KD_LIMIT_MEMORY]; }

static void charges(void)
{
    ports_make();
    uint64_t before = memory_used();
    is(objects_make(MANY), MANY, "many objects of this process");
    uint64_t used = memory_used() - before;
    tap_ok(used >= (uint64_t)MANY * BYTES_LEAST, "they are charged: %llu bytes for each",
           (unsigned long long)used / MANY);
    kd_call3(KD_HANDLE_CLOSE, ask, 0, 0);
    is((long)(memory_used() - before), 0, "all comes back with their port");
}

static void ports_charged(void)
{
    uint64_t before = memory_used();
    long handles[PORTS], n = 0;
    while (n < PORTS - 8 && (handles[n] = kd_call3(KD_PORT_CREATE, 0, 0, 0)) >= 0)
        n++;
    uint64_t used = memory_used() - before;
    for (long i = 0; i < n; i++)
        kd_call3(KD_HANDLE_CLOSE, handles[i], 0, 0);
    tap_ok(n == PORTS - 8 && used >= (uint64_t)(n - 4) * PORT_BYTES && memory_used() <= before,
           "ports are charged: %llu bytes for each", (unsigned long long)used / (uint64_t)n);
}

/* Children attach an object and end; the notices of that wait. */
static void notices(const char *self)
{
    const char *argv[] = {self, "attach", NULL};
    ports_make();
    int mine_alone = (int)object_make();
    uint64_t before = memory_used();
    for (int i = 0; i < CLIENTS; i++) {
        struct kd_process_create p = {.path = "/bin/kernel_many", .argv = argv,
                                      .fds = {-1, -1, -1}, .handle_count = 1,
                                      .handles = {mine_alone}, .handle_rights = {KD_RIGHT_READ}};
        long h = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
        kd_call3(KD_HANDLE_CLOSE, h, 0, 0);
        failed += h < 0 || child_wait(p.pid) != 0;
    }
    uint64_t used = memory_used() - before;
    kd_call3(KD_HANDLE_CLOSE, ask, 0, 0);
    tap_ok(used >= CLIENTS * NOTICE_BYTES && memory_used() <= before && !failed,
           "so are notices that a manager has not heard: %llu bytes, %d",
           (unsigned long long)used / CLIENTS, failed);
}

static void limited(void)
{
    enum { MORE_BYTES = 1 << 20 };
    struct rlimit most = {memory_used() + MORE_BYTES, memory_used() + MORE_BYTES};
    ports_make();
    int e = setrlimit(RLIMIT_RSS, &most);
    long made = objects_make(MANY);
    tap_ok(e == 0 && made > 0 && made <= MORE_BYTES / BYTES_LEAST,
           "no more than the limit allows: %d, %ld", e, made);
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return kd_call3(KD_SPACE_ATTACH, getpid(), 0, KD_RIGHT_READ) != 0;
    tap_plan(20);
    if (pipe(said) || pipe(heard) ||
        !start_manager((struct own_manager){.pages = PAGES, .messages = hears}))
        return 1;
    ports_make();
    costs();
    is(attached(), ATTACHED, "a process with all attachments ends");
    for (unsigned i = 0; i < sizeof everywhere / sizeof *everywhere; i++)
        among(&everywhere[i]);
    folders();
    charges();
    ports_charged();
    notices(argv[0]);
    limited();
    return tap_end();
}
