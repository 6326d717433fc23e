/*
 * circle.c - for tests of sites: money goes round in the containers of several homes, and snapshots
 * look at all of it.
 *
 *     circle NAME ... : WORD ...   each word in turn; a name is NAME or SITE:NAME
 *
 *     create     makes the first, which is here
 *     open       waits until all are there, and may be opened
 *     moves=N    N transfers between two accounts, of any two of the containers, or of one
 *     looks=N    N snapshots of all accounts: each has to find the sum 0
 *     pairs=N    N snapshots of the first two alone
 *     until=N    snapshots until N transfers were made in all; it says how many there were
 *     chains=N   N times: a transaction raises the step of the first container, and when it has
 *                committed another one that of the second, to the same; nothing leads from the one
 *                to the other but this program
 *     order=N    N snapshots: the second is never ahead of the first, nor more than one behind
 *     sleep      until the sum of all steps has changed (ps_retry)
 *     drips=N    raises the step of the last container N times, ten times a second
 *     seed=N
 */
#include <errno.h>
#include <pstore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <katydid/call.h>

#include "user/sites/remote.h"

enum { NAMES_MAX = 4, ACCOUNTS = 6 };
struct account { int64_t amount; char rest[4088]; };
struct root { uint64_t moves, step; char rest[4080]; struct account account[ACCOUNTS]; };

static const char *name[NAMES_MAX];
static ps_container *c[NAMES_MAX];
static unsigned count;
static uint64_t seed = 1;

static unsigned draw(unsigned below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % below;
}

static void pause_ms(long ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }

static int root_make(void *unused)
{
    (void)unused;
    return ps_root(c[0]) ? 0 : -errno;
}

static int create(void)
{
    c[0] = ps_open(name[0], PS_WRITE | PS_CREATE, PS_LAYOUT(struct root, 1));
    return c[0] ? ps_transaction(root_make, NULL) : -errno;
}

static int open_all(void)
{
    for (unsigned i = 0; i < count; i++)
        while (!c[i] && !(c[i] = ps_open(name[i], PS_WRITE, PS_LAYOUT(struct root, 1)))) {
            if (errno != ENOENT && errno != EACCES && errno != EAGAIN && errno != ENOTCONN &&
                errno != EOWNERDEAD)
                return -errno;
            pause_ms(3);
        }
    return 0;
}

struct move { unsigned from, to, of, at; int64_t amount; };
static int move(void *arg)
{
    const struct move *m = arg;
    struct root *from = ps_root(c[m->from]), *to = from ? ps_root(c[m->to]) : NULL;
    if (!to) return -errno;
    from->account[m->of].amount -= m->amount;
    to->account[m->at].amount += m->amount;
    from->moves++;
    return 0;
}

static int moves(uint64_t times)
{
    for (uint64_t i = 0; i < times; i++) {
        struct move m = {draw(count), draw(count), draw(ACCOUNTS), draw(ACCOUNTS), draw(100)};
        int error = ps_transaction(move, &m);
        if (error) return error;
    }
    printf("%llu moves\n", (unsigned long long)times);
    return 0;
}

struct look { unsigned of, begun; int64_t sum; uint64_t moves; };
static int look(void *arg)
{
    struct look *l = arg;
    l->begun++;
    l->sum = 0;
    l->moves = 0;
    for (unsigned i = 0; i < l->of; i++) {
        const struct root *root = ps_root(c[i]);
        if (!root) return -errno;
        l->moves += root->moves;
        for (unsigned k = 0; k < ACCOUNTS; k++) l->sum += root->account[k].amount;
    }
    return 0;
}

/* -ESTALE: it saw what was cached, and more was wanted; it begins anew. */
static int look_once(struct look *l, int (*fn)(void *))
{
    const struct ps_options how = {.isolation = PS_SNAPSHOT};
    int error;
    while ((error = ps_transaction_opt(fn, l, &how)) == -ESTALE) continue;
    return error;
}

static int looks(uint64_t times, unsigned of, uint64_t until)
{
    struct look l = {.of = of};
    uint64_t n = 0;
    for (; n < times || l.moves < until; n++) {
        int error = look_once(&l, look);
        if (error) return error;
        pause_ms(5);
        if (l.sum && of == count) {
            printf("the sum is %lld\n", (long long)l.sum);
            return -EILSEQ;
        }
    }
    printf("%llu looks, %llu anew\n", (unsigned long long)n, (unsigned long long)(l.begun - n));
    return 0;
}

/* ---- two homes, one commit at each ---- */

struct step { unsigned of; uint64_t to; };
static int step(void *arg)
{
    const struct step *s = arg;
    struct root *root = ps_root(c[s->of]);
    if (!root) return -errno;
    root->step = s->to;
    return 0;
}

static int chains(uint64_t times)
{
    for (uint64_t i = 1; i <= times; i++)
        for (unsigned k = 0; k < 2; k++) {
            int error = ps_transaction(step, &(struct step){k, i});
            if (error) return error;
        }
    printf("%llu chains\n", (unsigned long long)times);
    return 0;
}

static int drips(uint64_t times)
{
    for (uint64_t i = 1; i <= times; i++) {
        int error = ps_transaction(step, &(struct step){count - 1, i});
        if (error) return error;
        pause_ms(100);
    }
    return 0;
}

struct steps { unsigned begun; uint64_t step[2]; };
static int steps(void *arg)
{
    struct steps *s = arg;
    s->begun++;
    for (unsigned i = 0; i < 2; i++) {
        const struct root *root = ps_root(c[i]);
        if (!root) return -errno;
        s->step[i] = root->step;
    }
    return 0;
}

static int order(uint64_t times)
{
    const struct ps_options how = {.isolation = PS_SNAPSHOT};
    struct steps s = {0};
    for (uint64_t n = 0; n < times;) {
        int error = ps_transaction_opt(steps, &s, &how);
        if (error == -ESTALE) continue;
        if (error) return error;
        n++;
        if (s.step[1] > s.step[0] || s.step[0] > s.step[1] + 1) {
            printf("steps %llu, %llu\n", (unsigned long long)s.step[0],
                   (unsigned long long)s.step[1]);
            return -EILSEQ;
        }
    }
    printf("%llu looks in order\n", (unsigned long long)times);
    return 0;
}

/* ---- ps_retry ---- */

static int changed(void *arg)
{
    uint64_t *before = arg, now = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct root *root = ps_root(c[i]);
        if (!root) return -errno;
        now += root->step;
    }
    if (*before == ~0ull) *before = now;
    if (now == *before) ps_retry();
    return 0;
}

static int sleeps(void)
{
    uint64_t before = ~0ull;
    int error = ps_transaction(changed, &before);
    if (!error) printf("woken\n");
    return error;
}

/* ---- messages of the first home that is another site ---- */

static int counts(void)
{
    for (unsigned i = 0; i < count; i++) {
        char store[KD_NAME_MAX];
        struct kd_message m = {.kind = REMOTE_SNAPSHOTS, .handle = -1};
        if (!strchr(name[i], ':')) continue;
        snprintf(store, sizeof store, "%.*s/store", (int)strcspn(name[i], ":"), name[i]);
        long port = kd_call3(KD_NAME_FIND, (long)store, 0, 0);
        if (port < 0 || kd_call3(KD_PORT_CALL, port, (long)&m, 0)) return -ENOENT;
        printf("%llu SNAP, %llu there, %llu rounds, %llu refused, %llu given\n",
               (unsigned long long)m.word[0], (unsigned long long)m.word[4],
               (unsigned long long)m.word[5], (unsigned long long)m.word[6],
               (unsigned long long)m.word[7]);
        kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    }
    return 0;
}

static int word(const char *w, uint64_t n)
{
    if (!strcmp(w, "create")) return create();
    int error = open_all();
    if (error) return error;
    return !strcmp(w, "open")          ? 0
           : !strcmp(w, "counts")      ? counts()
           : !strcmp(w, "sleep")       ? sleeps()
           : !strncmp(w, "moves", 5)   ? moves(n)
           : !strncmp(w, "looks", 5)   ? looks(n, count, 0)
           : !strncmp(w, "pairs", 5)   ? looks(n, 2, 0)
           : !strncmp(w, "until", 5)   ? looks(0, count, n)
           : !strncmp(w, "chains", 6)  ? chains(n)
           : !strncmp(w, "order", 5)   ? order(n)
           : !strncmp(w, "drips", 5)   ? drips(n)
           : !strncmp(w, "seed", 4)    ? (seed = n, 0)
                                       : -EINVAL;
}

int main(int argc, char **argv)
{
    int i = 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (; i < argc && strcmp(argv[i], ":") && count < NAMES_MAX; i++) name[count++] = argv[i];
    if (i >= argc || strcmp(argv[i], ":")) return 2;
    for (i++; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        int error = word(argv[i], value ? strtoull(value + 1, NULL, 10) : 0);
        if (error) {
            printf("%s: %s (%d)\n", argv[i], ps_strerror(error), error);
            return 1;
        }
    }
    return 0;
}
