/*
 * bench-logs.c - what a changed byte costs in the log, by the form of the container's log
 * (ps_encoder), and what a commit costs, by form and durability (ps_durability).
 *
 *     bench-logs WORKLOAD FORM     oo1, tree, index, phone, wordnet (/import/data); a line of four
 *                                  fields: WORKLOAD, FORM, log bytes and instructions for a changed
 *                                  byte. Then it waits for the power to be cut
 *     bench-logs lazy              a thousand small transactions, by durability: flushes
 *     bench-logs parts             two hundred transfers, of two containers of a store and of two
 *                                  stores: instructions, flushes and log bytes of each
 *
 * OO1: parts of 100 bytes at random places move and are connected anew, 400 in a transaction. Tree:
 * 400 inserts into a B+-tree that begins empty; index: into one of 30,000 records. Phone: 800
 * numbers of a table of records are changed. WordNet: lines
 * of a dictionary become objects, 512 in a transaction: whole pages of text. A commit is a write of
 * whole blocks, so transactions are large enough for that to matter little. Changed bytes are
 * counted by comparing all of the container with what it was before each commit; that is not
 * measured.
 */
#include <pstore.h>
#include <unistd.h>
#include <structures/tree.h>

#include "katydid/call.h"
#include "tests/bench/measure.h"

enum { PARTS = 10000, BATCH = 400, ROUNDS = 12, LINES = 512, LAZY = 1000, BOOK = 20000,
       TRANSFERS = 200, CALLS = 800, KEYS = 30000 };

struct key { uint64_t number; };
struct value { uint64_t of, weight; };
static int by_number(const struct key *a, const struct key *b)
{
    return (a->number > b->number) - (a->number < b->number);
}
PS_TREE(numbers, struct key, struct value, by_number);

struct part { uint32_t id; char type[12]; uint32_t x, y; uint64_t build; uint64_t to[3], kind[3]; };
struct entry { char name[32], number[16]; uint32_t calls, last; };
struct root {
    struct part *parts;
    struct entry *book;
    struct numbers_head tree;
    uint64_t lines;
};

static ps_container *box;
static int declares;
static uint64_t random_state = 88172645463325252ull;
static FILE *text;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static void fail(const char *what, int error)
{
    fprintf(stderr, "bench-logs: %s: %s\n", what, ps_strerror(error));
    exit(1);
}

/* Instructions of all processes and the kernel so far, not those of an idle machine. */
static uint64_t instructions(void)
{
    struct kd_system_info now = {0};
    kd_call3(KD_SYSTEM_INFO, (long)&now, 0, 0);
    return counter() - now.idle_cycles;
}

static void touched(void *p, size_t bytes)
{
    if (declares) ps_touch(p, bytes);
}

/* ---- workloads: one transaction ---- */

static int oo1(void *unused)
{
    struct root *r = ps_root(box);
    (void)unused;
    if (!r->parts) {
        touched(r, sizeof *r);
        r->parts = ps_alloc(box, PARTS * sizeof *r->parts, NULL);
        return r->parts ? 0 : -errno;
    }
    for (int i = 0; i < BATCH; i++) {
        struct part *p = &r->parts[random_next() % PARTS];
        touched(&p->x, 16);
        p->x = (uint32_t)random_next() % 100000;
        p->y = (uint32_t)random_next() % 100000;
        unsigned n = random_next() % 3;
        touched(&p->to[n], 8);
        p->to[n] = random_next() % PARTS;
    }
    return 0;
}

static int tree(void *unused)
{
    struct root *r = ps_root(box);
    struct numbers t = {.head = &r->tree, .memory = ps_in(box)};
    (void)unused;
    int e = numbers_set_up(&t);
    if (e == -EEXIST) e = 0;
    PS_ACCESS(numbers_keyed, a, &t, PS_CHANGE);
    for (int i = 0; e == 0 && i < BATCH; i++) {
        struct key k = {random_next() % 1000000};
        struct value v = {k.number * 3, (uint64_t)i};
        e = numbers_put(&a, &k, &v);
    }
    return e;
}

/* The first one makes it. */
static int index_tree(void *unused)
{
    struct root *r = ps_root(box);
    int e = 0;
    for (int i = 0; e == 0 && i < (r->lines ? 1 : KEYS / BATCH); i++) e = tree(unused);
    r->lines = 1;
    return e;
}

static int phone(void *unused)
{
    struct root *r = ps_root(box);
    (void)unused;
    if (!r->book) {
        touched(r, sizeof *r);
        r->book = ps_alloc(box, BOOK * sizeof *r->book, NULL);
        return r->book ? 0 : -errno;
    }
    for (int i = 0; i < CALLS; i++) {
        struct entry *e = &r->book[random_next() % BOOK];
        touched(e->number, 16);
        snprintf(e->number, sizeof e->number, "+49 %llu",
                 (unsigned long long)(random_next() % 10000000000));
        touched(&e->calls, 8);
        e->calls++;
        e->last = (uint32_t)random_next();
    }
    return 0;
}

static int wordnet(void *unused)
{
    static char line[16384];
    struct root *r = ps_root(box);
    (void)unused;
    for (int i = 0; i < LINES && fgets(line, sizeof line, text); i++) {
        size_t bytes = strlen(line) + 1;
        char *to = ps_alloc(box, bytes, NULL);
        if (!to) return -errno;
        touched(to, bytes);
        memcpy(to, line, bytes);
    }
    touched(r, sizeof *r);
    r->lines += LINES;
    return 0;
}

static const struct { const char *name; int (*run)(void *); int first; } workloads[] = {
    {"oo1", oo1, 1}, {"tree", tree, 0}, {"index", index_tree, 1}, {"phone", phone, 1},
    {"wordnet", wordnet, 0},
};
static const char *const forms[] = {"difference", "whole", "ranges", "adaptive", "compressed",
                                   "operations"};

/* ---- measured ---- */

struct shadow { uint8_t *bytes; size_t size; uint64_t changed; };
static int compare(void *arg)
{
    struct shadow *s = arg;
    const uint8_t *now = ps_address(box);
    for (size_t i = 0; i < s->size; i += 8)
        if (memcmp(now + i, s->bytes + i, 8))
            for (size_t k = i; k < i + 8; k++) s->changed += now[k] != s->bytes[k];
    memcpy(s->bytes, now, s->size);
    return 0;
}

static uint64_t changes(struct shadow *s)
{
    s->changed = 0;
    int e = ps_transaction(compare, s);
    if (e) fail("comparing", e);
    return s->changed;
}

static uint64_t log_bytes(void)
{
    struct ps_stats stats;
    ps_stats(&stats);
    return stats.log_bytes;
}

static void measure(unsigned w, int form)
{
    struct shadow shadow = {.size = 4 << 20};
    shadow.bytes = calloc(1, shadow.size);
    text = fopen("/import/data", "r");
    if (!shadow.bytes || (w == 4 && !text)) fail("/import/data", -ENOENT);
    box = ps_open("bench-logs", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = box ? ps_encoder(box, form) : -errno;
    declares = form == PS_ENCODE_RANGES;
    if (e == 0) e = ps_transaction(workloads[w].run, NULL);
    for (int i = 0; e == 0 && i < 2 && workloads[w].first; i++)
        e = ps_transaction(workloads[w].run, NULL);
    if (e) fail(workloads[w].name, e);
    changes(&shadow);
    uint64_t changed = 0, log = 0, spent = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t before = log_bytes(), start = instructions();
        e = ps_transaction(workloads[w].run, NULL);
        spent += instructions() - start;
        if (e) fail(workloads[w].name, e);
        log += log_bytes() - before;
        changed += changes(&shadow);
    }
    printf("%s\t%s\t%.3f\t%.1f\nthe power may be cut\n", workloads[w].name, forms[form],
           (double)log / (double)changed, (double)spent / (double)changed);
    fflush(stdout);
    pause();
}

/* ---- durability ---- */

static int small(void *arg)
{
    uint64_t *word = ps_root(box);
    *word = (uint64_t)(uintptr_t)arg;
    return 0;
}

static void durability(int which, const char *name)
{
    struct ps_stats before, after;
    struct small { uint64_t word; };
    box = ps_open("bench-logs", PS_CREATE | PS_WRITE, PS_LAYOUT(struct small, 1));
    int e = box ? ps_durability(box, which) : -errno;
    if (e == 0) e = ps_transaction(small, NULL);
    ps_stats(&before);
    uint64_t start = instructions();
    for (uintptr_t i = 1; e == 0 && i <= LAZY; i++) e = ps_transaction(small, (void *)i);
    uint64_t spent = instructions() - start;
    ps_stats(&after);
    if (e) fail(name, e);
    printf("%d small transactions, %s: flushes\tflushes\t%llu\t%s\n", LAZY, name,
           (unsigned long long)(after.flushes - before.flushes), which == PS_LAZY ? "8" : "-");
    printf("%d small transactions, %s: instructions of each\tinstructions\t%llu\t-\n", LAZY, name,
           (unsigned long long)(spent / LAZY));
    ps_delete("bench-logs");
}

/* ---- transactions over two stores ---- */

struct account { long amount; };
static ps_container *account[2];
static int transfer(void *unused)
{
    struct account *from = ps_root(account[0]), *to = ps_root(account[1]);
    (void)unused;
    from->amount--;
    to->amount++;
    return 0;
}

/* Log bytes and flushes of both stores so far. */
static struct ps_stats both_logs(void)
{
    struct ps_stats one, other;
    ps_connect("store2");
    ps_stats(&other);
    ps_connect("store");
    ps_stats(&one);
    one.log_bytes += other.log_bytes;
    one.flushes += other.flushes;
    return one;
}

static void transfers(const char *name, const char *store, const char *most)
{
    int e = ps_connect("store");
    account[0] = ps_open("from", PS_CREATE | PS_WRITE, PS_LAYOUT(struct account, 1));
    e = e ? e : ps_connect(store);
    account[1] = ps_open("to", PS_CREATE | PS_WRITE, PS_LAYOUT(struct account, 1));
    if (e || !account[0] || !account[1]) fail(name, e ? e : -errno);
    e = ps_transaction(transfer, NULL);
    struct ps_stats before = both_logs();
    uint64_t start = instructions();
    for (int i = 0; e == 0 && i < TRANSFERS; i++) e = ps_transaction(transfer, NULL);
    uint64_t spent = instructions() - start;
    struct ps_stats after = both_logs();
    if (e) fail(name, e);
    printf("a transfer %s\tinstructions\t%.0f\t-\n", name, (double)spent / TRANSFERS);
    printf("a transfer %s: flushes\tflushes\t%.2f\t%s\n", name,
           (double)(after.flushes - before.flushes) / TRANSFERS, most);
    printf("a transfer %s: log\tbytes\t%.0f\t-\n", name,
           (double)(after.log_bytes - before.log_bytes) / TRANSFERS);
}

int main(int argc, char **argv)
{
    int lazy = argc == 2 && strcmp(argv[1], "lazy") == 0;
    int parts = argc == 2 && strcmp(argv[1], "parts") == 0;
    usage(argc, argv, lazy || parts || argc == 3,
          "usage: bench-logs WORKLOAD FORM | lazy | parts\n");
    if (parts) {
        transfers("within a store", "store", "1.1");
        transfers("between two stores", "store2", "2.1");
        return 0;
    }
    if (lazy) {
        static const char *const names[] = {"durable", "lazy", "volatile", "rebuild"};
        for (int d = PS_DURABLE; d <= PS_REBUILD; d++) durability(d, names[d]);
        return 0;
    }
    for (unsigned w = 0; w < sizeof workloads / sizeof *workloads; w++)
        for (int f = 0; f < (int)(sizeof forms / sizeof *forms); f++)
            if (strcmp(argv[1], workloads[w].name) == 0 && strcmp(argv[2], forms[f]) == 0) {
                measure(w, f);
                return 0;
            }
    fprintf(stderr, "bench-logs: no such workload or form\n");
    return 2;
}
