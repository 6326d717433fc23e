/*
 * exchange.c - a telephone exchange: subscribers, look-ups and calls that bill, by several
 * operators at once, with live rates. exchange.md is its chapter.
 *
 * A subscriber is an item of 32 bytes, 126 of them on a page, found by number in a hash index. A
 * look-up locks one of them to read (S); a call locks two to write (X), and adds to three counters
 * that all calls share (ADD). Credit goes from who calls to who is called, so its sum never
 * changes, and each counter is the sum over subscribers: `check` says whether that is so.
 */
#include <errno.h>
#include <katydid/call.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { START = 100000, LINES_MAX = 200000, OPERATORS_MAX = 16, NUMBERS = 1000000,
       FIRST_NUMBER = 5000000, TELL_MS = 250, LONGEST_CALL = 600 };
struct subscriber { uint64_t number; int64_t credit, calls, seconds; };
/* The root object. What is found by `index` is there before the container has items, and stays. */
struct exchange {
    uint64_t lines, mask;
    struct subscriber *line;
    uint32_t *index;                    /* by the number's hash: 1 + where in `line`; 0: nobody */
    int64_t calls, seconds, billed;     /* all calls */
};

static ps_container *c;
static struct exchange *x;
static uint64_t lines;                  /* as x->lines, for outside of transactions */

/* ---- the index ---- */

static uint64_t hash(uint64_t number)
{
    return number * 0x9e3779b97f4a7c15ull >> 32 & x->mask;
}

static struct subscriber *find(uint64_t number)
{
    for (uint64_t at = hash(number); x->index[at]; at = (at + 1) & x->mask)
        if (x->line[x->index[at] - 1].number == number)
            return &x->line[x->index[at] - 1];
    return NULL;
}

/* 7,919 and a million have no factor in common: no number comes twice. */
static uint64_t number_of(uint64_t i)
{
    return FIRST_NUMBER + i * 7919 % NUMBERS;
}

static int set_up(void *unused)
{
    uint64_t slots = 2;
    (void)unused;
    x = ps_root(c);
    if (!x)
        return -errno;
    lines = x->line ? x->lines : lines;
    if (x->line)
        return 0;
    while (slots < 2 * lines)
        slots *= 2;
    x->line = ps_alloc(c, lines * sizeof *x->line, NULL);
    x->index = ps_alloc(c, slots * sizeof *x->index, NULL);
    if (!x->line || !x->index)
        return -errno;
    x->lines = lines;
    x->mask = slots - 1;
    for (uint64_t i = 0; i < lines; i++) {
        x->line[i] = (struct subscriber){.number = number_of(i), .credit = START};
        uint64_t at = hash(x->line[i].number);
        while (x->index[at])
            at = (at + 1) & x->mask;
        x->index[at] = (uint32_t)(i + 1);
    }
    return 0;
}

/* `lines`: if there are none yet. */
static int exchange_open(void)
{
    c = ps_open("exchange", PS_CREATE | PS_WRITE, PS_LAYOUT(struct exchange, 1));
    int error = c ? ps_transaction(set_up, NULL) : -errno;
    return error ? error : ps_locking(c, PS_LOCK_ITEMS);
}

/* ---- what an operator does ---- */

struct lookup { uint64_t number; struct subscriber found; };
static int look_up(void *arg)
{
    struct lookup *l = arg;
    const struct subscriber *s = find(l->number);
    if (!s || !(s = ps_read(s)))
        return s ? -errno : -ENOENT;
    l->found = *s;
    return 0;
}

struct call { uint64_t from, to; int64_t seconds; };

/* Both are locked in the order of their addresses, so that no two calls wait for each other. */
static int call(void *arg)
{
    const struct call *k = arg;
    struct subscriber *from = find(k->from), *to = find(k->to);
    if (!from || !to || from == to)
        return -ENOENT;
    struct subscriber *first = from < to ? from : to, *second = from < to ? to : from;
    if (!ps_write(first) || !ps_write(second))
        return -errno;
    int64_t price = k->seconds < from->credit ? k->seconds : from->credit;
    from->credit -= price;
    to->credit += price;
    from->calls++;
    from->seconds += k->seconds;
    int error = ps_add(&x->calls, 1);
    error = error ? error : ps_add(&x->seconds, k->seconds);
    return error ? error : ps_add(&x->billed, price);
}

/* ---- latencies ---- */

/* Four steps from each power of two to the next, in nanoseconds: a step is at most 25 %. */
enum { BUCKETS = 160 };
struct times { uint64_t count, longest; uint32_t in[BUCKETS]; };

static void time_add(struct times *t, uint64_t ns)
{
    unsigned power = 63 - (unsigned)__builtin_clzll(ns | 4);
    unsigned bucket = (power - 2) * 4 + (unsigned)(ns >> (power - 2) & 3);
    t->in[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    t->count++;
    t->longest = ns > t->longest ? ns : t->longest;
}

/* Microseconds that `percent` of them took at most. */
static double time_of(const struct times *t, unsigned percent)
{
    uint64_t seen = 0, wanted = t->count * percent / 100 + 1;
    for (unsigned i = 0; i < BUCKETS; i++)
        if ((seen += t->in[i]) >= wanted) {
            double most = (double)((5ull + i % 4) << i / 4) / 1e3;
            return most < (double)t->longest / 1e3 ? most : (double)t->longest / 1e3;
        }
    return (double)t->longest / 1e3;
}

static void times_join(struct times *all, const struct times *t)
{
    all->count += t->count;
    all->longest = t->longest > all->longest ? t->longest : all->longest;
    for (unsigned i = 0; i < BUCKETS; i++)
        all->in[i] += t->in[i];
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- operators: processes that tell by a pipe what they did ---- */

struct plan { uint64_t seconds, calls, updates; };      /* updates: calls among 100 requests */
struct told { struct times lookups, calls; uint64_t waits, failed; };
static uint32_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)seed * below >> 32);
}

static uint64_t waits_now(void)
{
    struct kd_view_stats s = {0};
    kd_call3(KD_VIEW_STATS, (long)&s, 0, 0);
    return s.lock_waits;
}

static int one_request(const struct plan *p, struct told *t)
{
    int bills = draw(100) < p->updates, error;
    uint32_t from = draw((uint32_t)lines), to = draw((uint32_t)lines - 1);
    struct lookup l = {.number = number_of(from)};
    struct call k = {l.number, number_of(to < from ? to : to + 1), 1 + draw(LONGEST_CALL)};
    uint64_t begin = now_ns();
    error = bills ? ps_transaction(call, &k) : ps_transaction(look_up, &l);
    time_add(bills ? &t->calls : &t->lookups, now_ns() - begin);
    t->failed += error != 0;
    return bills;
}

/* Until its calls are made, or its time is over. */
static int operate(const struct plan *p, int out)
{
    static struct told t;
    uint64_t begin = now_ns(), told = begin, now = begin, calls = 0, waits = waits_now();
    for (int more = 1; more;) {
        calls += (uint64_t)one_request(p, &t);
        now = now_ns();
        more = p->calls ? calls < p->calls : now - begin < p->seconds * 1000000000;
        if (more && now - told < TELL_MS * 1000000ull)
            continue;
        t.waits = waits_now() - waits;
        waits += t.waits;
        if (write(out, &t, sizeof t) != sizeof t)
            return 1;
        memset(&t, 0, sizeof t);
        told = now;
    }
    return 0;
}

/* ---- what is shown ---- */

static const char *const head =
    "                                      commits    look-up, us           call, us\n"
    " look-ups/s    calls/s    waits/s     a flush    p50    p99      max    p50    p99      max\n";

static void show(const struct told *t, uint64_t ns, uint64_t flushes)
{
    double s = (double)ns / 1e9;
    printf("%11.0f %10.0f %10.0f %11.2f %6.0f %6.0f %8.0f %6.0f %6.0f %8.0f\n",
           (double)t->lookups.count / s, (double)t->calls.count / s, (double)t->waits / s,
           flushes ? (double)t->calls.count / (double)flushes : 0, time_of(&t->lookups, 50),
           time_of(&t->lookups, 99), (double)t->lookups.longest / 1e3, time_of(&t->calls, 50),
           time_of(&t->calls, 99), (double)t->calls.longest / 1e3);
    fflush(stdout);
}

static uint64_t flushes_now(void)
{
    struct kd_system_info s = {0};
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return s.block_flushes;
}

/* A message is there as a whole, or the pipe has ended: 1 or 0. */
static int hear(int in, struct told *t)
{
    for (size_t have = 0; have < sizeof *t;) {
        ssize_t n = read(in, (char *)t + have, sizeof *t - have);
        if (n <= 0)
            return 0;
        have += (size_t)n;
    }
    return 1;
}

/* A line for each second, and one for all of it. How many requests failed. */
static uint64_t watch(const int *in, unsigned operators)
{
    static struct told t, second, all;
    uint64_t begin = now_ns(), last = begin, flushes = flushes_now(), first = flushes, now;
    fputs(head, stdout);
    for (unsigned open = (1u << operators) - 1, i = 0; open; i = (i + 1) % operators) {
        if (!(open >> i & 1))
            continue;
        if (!hear(in[i], &t)) {
            open &= ~(1u << i);
            continue;
        }
        times_join(&second.lookups, &t.lookups);
        times_join(&second.calls, &t.calls);
        second.waits += t.waits;
        second.failed += t.failed;
        if ((now = now_ns()) - last < 1000000000)
            continue;
        show(&second, now - last, flushes_now() - flushes);
        times_join(&all.lookups, &second.lookups);
        times_join(&all.calls, &second.calls);
        all.waits += second.waits;
        all.failed += second.failed;
        memset(&second, 0, sizeof second);
        last = now;
        flushes = flushes_now();
    }
    times_join(&all.lookups, &second.lookups);
    times_join(&all.calls, &second.calls);
    all.waits += second.waits;
    all.failed += second.failed;
    printf("all of it:\n");
    show(&all, now_ns() - begin, flushes_now() - first);
    printf("exchange: %llu look-ups, %llu calls, %llu failed\n",
           (unsigned long long)all.lookups.count, (unsigned long long)all.calls.count,
           (unsigned long long)all.failed);
    return all.failed;
}

static int work(const struct plan *p, unsigned operators)
{
    int in[OPERATORS_MAX], bad = 0, status;
    fflush(stdout);
    for (unsigned i = 0; i < operators; i++) {
        int ends[2];
        if (pipe(ends) != 0)
            return 1;
        long pid = fork();
        if (pid == 0) {
            seed = i + 1;
            _exit(operate(p, ends[1]));
        }
        close(ends[1]);
        in[i] = ends[0];
        bad |= pid < 0;
    }
    bad |= watch(in, operators) != 0;
    while (wait(&status) > 0)
        bad |= status != 0;
    return bad;
}

/* ---- the proof ---- */

struct sums { int64_t credit, calls, seconds; struct exchange root; };
static int add_up(void *arg)
{
    struct sums *s = arg;
    memset(s, 0, sizeof *s);
    for (uint64_t i = 0; i < x->lines; i++) {
        s->credit += x->line[i].credit;
        s->calls += x->line[i].calls;
        s->seconds += x->line[i].seconds;
    }
    s->root = *x;
    return 0;
}

static int check(void)
{
    struct sums s;
    int error = ps_transaction_opt(add_up, &s, &(struct ps_options){.isolation = PS_SNAPSHOT});
    if (error)
        return error;
    int equal = s.credit == (int64_t)s.root.lines * START && s.calls == s.root.calls &&
                s.seconds == s.root.seconds && s.root.billed <= s.seconds;
    printf("exchange: %lld calls, %lld seconds; %llu subscribers have %lld: %s\n",
           (long long)s.root.calls, (long long)s.root.seconds, (unsigned long long)s.root.lines,
           (long long)s.credit, equal ? "equal" : "DIFFERENT");
    return equal ? 0 : -EUCLEAN;
}

/* ---- commands ---- */

static const char *const help =
    "usage: exchange [--lines N] [--operators N] [--updates PERCENT] [--seconds N | --calls N]\n"
    "       exchange find NUMBER | check | --help\n"
    "A telephone exchange: processes look subscribers up, and make calls that bill. Each second a\n"
    "line says how many, and how long they took.\n"
    "  --lines N          subscribers, if there are none yet (10000)\n"
    "  --operators N      processes at once, 1 to 16 (3)\n"
    "  --updates PERCENT  calls among 100 requests (10)\n"
    "  --seconds N        how long (10)\n"
    "  --calls N          instead: until each operator has made N calls\n"
    "  find NUMBER        one subscriber; the first one is 5000000\n"
    "  check              credit, calls and seconds add up, also beside operators\n";

static int find_one(const char *number)
{
    struct lookup l = {.number = strtoull(number, NULL, 10)};
    int error = ps_transaction(look_up, &l);
    if (error == 0)
        printf("%llu: credit %lld, %lld calls, %lld seconds\n", (unsigned long long)l.number,
               (long long)l.found.credit, (long long)l.found.calls, (long long)l.found.seconds);
    return error;
}

/* The numbers of the options, and what follows them: how many words were options. -1: wrong. */
struct option { const char *name; uint64_t least, most, value; };
enum { LINES, OPERATORS, UPDATES, SECONDS, CALLS, OPTIONS };
static int options_read(int argc, char **argv, struct option *o)
{
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at += 2) {
        int i = 0;
        while (i < OPTIONS && strcmp(argv[at], o[i].name) != 0)
            i++;
        if (i == OPTIONS || at + 1 == argc)
            return -1;
        char *end;
        o[i].value = strtoull(argv[at + 1], &end, 10);
        if (*end || end == argv[at + 1] || o[i].value < o[i].least || o[i].value > o[i].most)
            return -1;
    }
    return at;
}

int main(int argc, char **argv)
{
    struct option o[OPTIONS] = {{"--lines", 2, LINES_MAX, 10000},
                                {"--operators", 1, OPERATORS_MAX, 3},
                                {"--updates", 0, 100, 10},
                                {"--seconds", 1, 1000000, 10},
                                {"--calls", 1, 1000000000, 0}};
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return fputs(help, stdout) < 0;
    int at = options_read(argc, argv, o), left = argc - at;
    int checks = left == 1 && at > 0 && strcmp(argv[at], "check") == 0;
    int finds = left == 2 && at > 0 && strcmp(argv[at], "find") == 0;
    if (at < 0 || (left && !checks && !finds) || (o[CALLS].value && !o[UPDATES].value)) {
        fputs(help, stderr);
        return 2;
    }
    lines = o[LINES].value;
    int error = exchange_open();
    struct plan plan = {o[SECONDS].value, o[CALLS].value, o[UPDATES].value};
    if (error == 0 && !left && work(&plan, (unsigned)o[OPERATORS].value) != 0) {
        fputs("exchange: an operator failed\n", stderr);
        return 1;
    }
    if (error == 0)
        error = finds ? find_one(argv[at + 1]) : check();
    if (error)
        fprintf(stderr, "exchange: %s\n", ps_strerror(error));
    return error != 0;
}
