/*
 * store_stress.c - random work of several processes on one store, each beside a model in its
 * memory.
 *
 * Aim     commits, aborts, frees, leases, container creation and deletion, eviction and cleaning at
 *         once: no page ever holds what its last commit did not write, and a fresh page is zero.
 * Method  each process has a container of its own, whose pages it checks against version numbers,
 *         and all add to counters in a shared one. Each takes so many steps, however long that
 *         takes. tests/system/store-stress.sh runs it with a small log and little memory, and with
 *         a disk that fails:
 *             store_stress [SEED [STEPS]] repeats a run's choices; STEPS: of each process
 *                                         (300, in the long tier 700)
 *             store_stress ledger         commits 1, 2, ... until EIO; prints the last acknowledged
 *             store_stress look N         after the next boot: N or N + 1, and whole
 *             store_stress hoard          commits new pages until EIO; then programs take all
 *                                         memory beside these pages, which nobody can clean any
 *                                         more
 */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "store_client.h"

enum { PROCESSES = 3, PAGES = 4000, COUNTERS = 64, STEPS_USUAL = 700, LEDGER_PAGES = 24 };

struct page {
    uint64_t *at;
    uint32_t version;           /* 0: fresh, so zero */
};

static struct wire_opened own, shared;
static struct page pages[PAGES];
static uint64_t *counters[COUNTERS];
static uint64_t self, added, commits, retries;
static uint32_t seed;

static uint32_t random_below(uint32_t limit)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(seed >> 4) * limit >> 28);
}

static uint64_t word_of(const struct page *p, uint32_t version, unsigned word)
{
    if (version == 0 || word % (version % 2 ? 1 : 64)) return 0;
    return ((uint64_t)p->at ^ (uint64_t)version << 40 ^ word) * 0x9e3779b97f4a7c15ull | 1;
}

static long page_check(const struct page *p)
{
    for (unsigned w = 0; w < 512; w++)
        if (p->at[w] != word_of(p, p->version, w)) {
            printf("# page %p word %u: %llx instead of version %u\n", (void *)p->at, w,
                   (unsigned long long)p->at[w], p->version);
            return -EBADMSG;
        }
    return 0;
}

/* ---- transactions: a run of pages that begins at a random one ---- */

struct work { uint32_t first, count; bool abort, free; };

static long work_write(void *arg)
{
    const struct work *w = arg;
    for (uint32_t i = w->first; i < w->first + w->count; i++) {
        const struct page *p = &pages[i % PAGES];
        for (unsigned k = 0; k < 512; k++) p->at[k] = word_of(p, p->version + 1, k);
        if (w->free) client_op(WIRE_PAGE_FREE, own.container, p->at, 1, NULL);
    }
    return w->abort ? -ECANCELED : 0;
}
static long work_check(void *arg)
{
    const struct work *w = arg;
    long r = 0;
    for (uint32_t i = w->first; r == 0 && i < w->first + w->count; i++)
        r = page_check(&pages[i % PAGES]);
    return r;
}
static long work_free(void *arg)
{
    const struct work *w = arg;
    for (uint32_t i = w->first; i < w->first + w->count; i++)
        client_op(WIRE_PAGE_FREE, own.container, pages[i % PAGES].at, 1, NULL);
    return w->abort ? -ECANCELED : 0;
}
static long work_add(void *arg)
{
    const struct work *w = arg;
    ++*counters[w->first % COUNTERS];
    ++*counters[(w->first + 1 + w->count) % COUNTERS];
    return 0;
}

/* Memory and log may be short for a moment, and a commit may be told that others wait for its
 * transaction in vain; then nothing has happened. */
static long run(long (*fn)(void *), const struct work *w)
{
    for (int i = 0;; i++) {
        long r = client_run(fn, (void *)w);
        if ((r != -ENOMEM && r != -ENOSPC && r != -EDEADLK) || i == 6000) return r;
        retries++;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

static long lease(uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        struct page *p = &pages[i % PAGES];
        p->at = client_lease(own.container, 1, NULL);
        p->version = 0;
        if (!p->at) return -ENOSPC;
    }
    return 0;
}

static long temporary_container(void)
{
    struct wire_opened keep = own;
    struct page saved[8];
    struct work w = {.count = 8};
    char name[32];
    snprintf(name, sizeof(name), "temporary%llu", (unsigned long long)self);
    memcpy(saved, pages, sizeof(saved));
    long r = client_open(name, PS_CREATE | PS_WRITE, NULL, 0, 0, &own);
    if (r == 0) r = lease(0, 8);
    if (r == 0) r = run(work_check, &w);
    if (r == 0) r = run(work_write, &w);
    if (r == 0) r = client_name(STORE_DELETE, 0, name);
    own = keep;
    memcpy(pages, saved, sizeof(saved));
    return r;
}

static long step(void)
{
    struct work w = {.first = random_below(PAGES), .count = 1 + random_below(12),
                     .abort = random_below(8) == 0};
    uint32_t what = random_below(32);
    long r;
    if (what == 0) return temporary_container();
    if (what == 1) return client_call(STORE_CHECKPOINT, 0, 0, 0, NULL, 0, NULL, 0);
    if (what < 10) return run(work_check, &w);
    if (what < 14) {
        r = run(work_add, &w);
        added += r == 0 ? 2 : 0;
        commits += r == 0;
        return r;
    }
    w.free = what < 18 && random_below(2);
    r = run(what < 18 ? work_free : work_write, &w);
    if (w.abort && r == -ECANCELED) return 0;
    if (r) return r;
    commits++;
    if (what < 18) return lease(w.first, w.count);
    for (uint32_t i = w.first; i < w.first + w.count; i++) pages[i % PAGES].version++;
    return 0;
}

static long shared_open(void)
{
    long r = client_open("shared", PS_WRITE, NULL, 0, 0, &shared);
    for (unsigned i = 0; i < COUNTERS; i++) counters[i] = (uint64_t *)(shared.base + i * 4096ull);
    return r;
}

static int child(const char *number, const char *from, int steps)
{
    char name[32];
    self = (uint64_t)atoi(number);
    seed = 12345 * (uint32_t)atoi(from) + (uint32_t)self;
    snprintf(name, sizeof(name), "own%s", number);
    long r = client_connect();
    if (r == 0) r = client_open(name, PS_CREATE | PS_WRITE, NULL, 0, 0, &own);
    if (r == 0) r = lease(0, PAGES);
    if (r == 0) r = shared_open();
    for (int i = 0; r == 0 && i < steps; i++) r = step();
    for (uint32_t i = 0; r == 0 && i < PAGES; i += 50)
        r = run(work_check, &(struct work){.first = i, .count = 50});
    printf("# process %s: result %ld, %llu commits, %llu retries\n", number, r,
           (unsigned long long)commits, (unsigned long long)retries);
    printf("%s added %llu\n", number, (unsigned long long)added);
    return r ? 1 : 0;
}

/* ---- the parent ---- */

static int pipes[2] = {-1, -1};

static long child_beside(const char *path, const char *what, const char *number, const char *from,
                         const char *steps)
{
    const char *argv[] = {path, what, number, from, steps, NULL};
    struct kd_process_create c = {.path = path, .argv = argv, .fds = {-1, pipes[1], -1}};
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&c, 0, 0);
    return handle < 0 ? handle : c.pid;
}

static long counters_sum(void *out)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < COUNTERS; i++) sum += *counters[i];
    *(uint64_t *)out = sum;
    return 0;
}

static uint64_t output_read(void)
{
    char line[256];
    uint64_t sum = 0, number, value;
    FILE *in = fdopen(pipes[0], "r");
    while (in && fgets(line, sizeof(line), in))
        if (sscanf(line, "%lu added %lu", &number, &value) == 2)
            sum += value;
        else
            fputs(line, stdout);
    return sum;
}

static int parent(const char *from, const char *steps)
{
    long pid[PROCESSES];
    int status, good = 0;
    uint64_t sum = 0, wanted;
    tap_plan(4);
    if (client_connect() < 0 || client_open("shared", PS_CREATE | PS_WRITE, NULL, 0, 0, &shared) ||
        !client_lease(shared.container, COUNTERS, NULL) || shared_open() || pipe(pipes)) {
        printf("Bail out! there is no store\n");
        return 1;
    }
    for (int i = 0; i < PROCESSES; i++) {
        char number[8];
        snprintf(number, sizeof(number), "%d", i);
        pid[i] = child_beside("/bin/store_stress", "child", number, from, steps);
    }
    close(pipes[1]);
    wanted = output_read();
    for (int i = 0; i < PROCESSES; i++) {
        status = 99;
        if (pid[i] > 0) kd_call3(KD_PROCESS_WAIT, pid[i], (long)&status, 0);
        good += status == 0;
    }
    tap_ok(good == PROCESSES, "%d of %d processes found what they had committed", good, PROCESSES);
    long r = run(counters_sum, (void *)&sum);
    tap_ok(r == 0 && sum == wanted, "nothing was lost of %llu additions (%llu, %ld)",
           (unsigned long long)wanted, (unsigned long long)sum, r);
    struct wire_stats s = client_stats();
    tap_ok(s.checkpoints > 3 && s.home_writes > 100, "%llu checkpoints, %llu pages home, %llu read",
           (unsigned long long)s.checkpoints, (unsigned long long)s.home_writes,
           (unsigned long long)s.pages_read);
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}

/* ---- the ledger ---- */

static uint64_t *ledger_page(unsigned i) { return (uint64_t *)(own.base + i * 4096ull); }

static long ledger_write(void *n)
{
    uint64_t value = *(uint64_t *)n;
    ledger_page(0)[0] = value;
    for (unsigned i = 1; i < LEDGER_PAGES; i++) ledger_page(i)[value % 512] = value;
    return 0;
}
static long ledger_read(void *out)
{
    uint64_t value = ledger_page(0)[0];
    *(uint64_t *)out = value;
    for (unsigned i = 1; i < LEDGER_PAGES; i++)
        for (uint64_t v = value; v > 0 && v + 512 > value; v--)
            if (ledger_page(i)[v % 512] != v) return -EBADMSG;
    return 0;
}

static int ledger(void)
{
    uint64_t n = 0, seen = 0;
    long r = 0;
    int bad = 0;
    while (r == 0 && n < 20000) {
        uint64_t next = n + 1;
        r = client_run(ledger_write, &next);
        if (r == 0) n = next;
    }
    for (uint64_t k = n + 2; k < n + 12; k++) bad += client_run(ledger_write, &k) != -EIO;
    long look = client_run(ledger_read, &seen);
    bool same = look == 0 && seen == n;
    printf("result %ld, %s, %s, acknowledged %llu\n", r, bad ? "and goes on" : "fenced",
           same ? "readable" : "unreadable", (unsigned long long)n);
    return r == -EIO && !bad && same ? 0 : 1;
}

static int look(const char *text)
{
    uint64_t n = strtoull(text, NULL, 10), seen = 0;
    long r = client_run(ledger_read, &seen);
    printf("seen %llu, result %ld\n", (unsigned long long)seen, r);
    return r == 0 && (seen == n || seen == n + 1) ? 0 : 1;
}

/* ---- memory beside a fenced store ---- */

enum { HOARD_PAGES = 12000, HOARD_STEP = 192, PIECE_BYTES = 1 << 20, GREEDY = 2, NO_MEMORY = 12,
       KILLED = 137 };

static long hoard_write(void *first)
{
    uint64_t from = *(uint64_t *)first;
    for (uint64_t i = from; i < from + HOARD_STEP; i++) *ledger_page((unsigned)i) = i + 1;
    return 0;
}
static long hoard_read(void *count)
{
    for (uint64_t i = 0; i < *(uint64_t *)count; i++)
        if (*ledger_page((unsigned)i) != i + 1) return -EBADMSG;
    return 0;
}
static int greedy(void)
{
    void *p;
    while ((p = mmap(NULL, PIECE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                     0)) != MAP_FAILED)
        memset(p, 1, PIECE_BYTES);
    return errno == ENOMEM ? NO_MEMORY : 1;
}

static int hoard(void)
{
    struct kd_system_info info = {0};
    uint64_t n = 0;
    long r = 0, pid[GREEDY];
    int good = 1, ended[GREEDY];
    while (n + HOARD_STEP <= HOARD_PAGES && (r = client_run(hoard_write, &n)) == 0) n += HOARD_STEP;
    kd_call3(KD_SYSTEM_INFO, (long)&info, 0, 0);
    bool many = info.dirty_pages > info.memory_bytes / 4096 / 4;
    for (int i = 0; i < GREEDY; i++)
        pid[i] = child_beside("/bin/store_stress", "greedy", NULL, NULL, NULL);
    long more = client_run(hoard_write, &n);
    for (int i = 0; i < GREEDY; i++) {
        if (pid[i] == -ENOMEM) /* no free frames lie together for its kernel stack */
            ended[i] = NO_MEMORY;
        else if (kd_call3(KD_PROCESS_WAIT, pid[i], (long)&ended[i], 0) < 0)
            ended[i] = -1;
        good &= ended[i] == KILLED || ended[i] == NO_MEMORY;
    }
    long look = client_run(hoard_read, &n), check = kd_call3(KD_CHECK, 0, 0, 0);
    kd_call3(KD_SYSTEM_INFO, (long)&info, 0, 0);
    printf("# %llu pages committed, %llu dirty, %llu of %llu frames free; "
           "program %ld ended with %d, %ld with %d\n",
           (unsigned long long)n, (unsigned long long)info.dirty_pages,
           (unsigned long long)info.free_bytes / 4096,
           (unsigned long long)info.memory_bytes / 4096, pid[0], ended[0], pid[1], ended[1]);
    printf("result %ld, %s dirty, %s, a commit %s, %s, kcheck %ld\n", r, many ? "many" : "few",
           good ? "who takes all ends" : "who takes all goes on",
           more == -EIO || more == -ENOMEM ? "is refused" : "goes on",
           look ? "unreadable" : "readable", check);
    return r != -EIO || !many || !good || (more != -EIO && more != -ENOMEM) || look || check;
}

int main(int argc, char **argv)
{
    bool hoards = argc > 1 && strcmp(argv[1], "hoard") == 0;
    if (argc > 1 && strcmp(argv[1], "greedy") == 0) return greedy();
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 3 && strcmp(argv[1], "child") == 0)
        return child(argv[2], argv[3], argc > 4 ? atoi(argv[4]) : STEPS_USUAL);
    if (argc == 1 || atoi(argv[1]) > 0)
        return parent(argc == 1 ? "1" : argv[1], argc > 2 ? argv[2] : tap_long() ? NULL : "300");
    if (client_connect() < 0 || client_open("ledger", PS_CREATE | PS_WRITE, NULL, 0, 0, &own) ||
        (argc == 2 && !client_lease(own.container, hoards ? HOARD_PAGES : LEDGER_PAGES, NULL)))
        return puts("no store") < 0 ? 1 : 2;
    if (hoards) return hoard();
    return argc > 2 ? look(argv[2]) : ledger();
}
