/*
 * shared.c - for tests of sites: programs at several sites use one container.
 *
 *     shared NAME WORD ...    each word in turn; the container's name may be SITE:NAME
 *
 *     create=N     makes N accounts of 1,000 each, on a page each, in a list
 *     open         waits until the container is there, and may be opened
 *     sum          follows the list, prints how many accounts there are and their sum
 *     moves=N      N transfers between accounts that seed=N says; of two the order differs
 *     phase=N      stores N; await=N waits until it is stored by somebody, without a store
 *     abort        stores to each account, and undoes that
 *     cross=N      stores to account N, waits until the other site has stored to its own (phase),
 *                  and stores to that one: two of them are a deadlock
 *     counts       what has been said to the home since the last `counts`
 *     fail=ERRNO   the next word has to fail so
 */
#include <errno.h>
#include <pstore.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <katydid/call.h>

#include "user/sites/remote.h"

enum { START = 1000 };
struct account { struct account *next; int64_t amount; char owner[4080]; };
struct root { struct account *first; uint64_t count; };
struct phase { uint64_t number, arrived; char rest[4080]; };

static const char *name;
static ps_container *c;
static uint64_t seed = 1;

static uint64_t draw(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static int opens(void)
{
    c = ps_open(name, PS_WRITE, PS_LAYOUT(struct root, 1));
    return c ? 0 : -errno;
}

static struct phase *phase(void) { return ps_named(c, "phase", sizeof(struct phase)); }

static int create(void *number)
{
    struct root *root = ps_root(c);
    if (!root || !phase()) return -errno;
    for (root->count = 0; root->count < *(uint64_t *)number; root->count++) {
        struct account *a = ps_new(c, struct account, NULL);
        if (!a) return -errno;
        a->amount = START;
        a->next = root->first;
        root->first = a;
    }
    return 0;
}

static int sum(void *total)
{
    const struct root *root = ps_root(c);
    int64_t *of = total;
    if (!root) return -errno;
    of[0] = of[1] = 0;
    for (const struct account *a = root->first; a; a = a->next, of[0]++) of[1] += a->amount;
    return 0;
}

static struct account *account(uint64_t number)
{
    struct account *a = ((struct root *)ps_root(c))->first;
    while (number-- > 0) a = a->next;
    return a;
}

static int move(void *numbers)
{
    const uint64_t *n = numbers;
    struct account *from = account(n[0]), *to = account(n[1]);
    if (from == to) return 0;
    from->amount -= (int64_t)n[2];
    to->amount += (int64_t)n[2];
    return 0;
}

static int moves(uint64_t times)
{
    int64_t of[2];
    int error = ps_transaction(sum, of);
    for (uint64_t i = 0; !error && i < times; i++) {
        uint64_t n[3] = {draw((uint64_t)of[0]), draw((uint64_t)of[0]), draw(100)};
        error = ps_transaction(move, n);
    }
    return error;
}

static int set(void *number)
{
    struct phase *p = phase();
    if (!p) return -errno;
    p->number = *(uint64_t *)number;
    return 0;
}

static int look(void *number)
{
    const struct phase *p = phase();
    if (!p) return -errno;
    *(uint64_t *)number = p->number;
    return 0;
}

static int await(uint64_t number)
{
    uint64_t now = 0;
    int error;
    while (!(error = ps_transaction(look, &now)) && now < number) sched_yield();
    return error;
}

static int spoil(void *unused)
{
    (void)unused;
    for (struct account *a = ((struct root *)ps_root(c))->first; a; a = a->next) a->amount = -1;
    return -ECANCELED;
}

/* Both sites have stored to one account each when they want the other's. */
static int cross(void *number)
{
    static unsigned runs;
    uint64_t mine = *(uint64_t *)number;
    struct account *a = account(mine), *b = account(!mine);
    a->amount++;
    if (runs++ == 0) {
        struct phase *p = phase();
        (void)p;
        printf("stored to %llu\n", (unsigned long long)mine);
        fflush(stdout);
        char line[8];
        if (!fgets(line, sizeof line, stdin)) return -EPIPE;
    }
    b->amount--;
    return 0;
}

static int counts(void)
{
    static uint64_t before[KD_WORDS];
    static const char *const what[] = {"GET", "GRANT", "CALL", "GONE", "COMMIT", "answer", "ASK"};
    char store[KD_NAME_MAX];
    snprintf(store, sizeof store, "%.*s/store", (int)strcspn(name, ":"), name);
    struct kd_message m = {.kind = REMOTE_COUNTS, .handle = -1};
    long port = kd_call3(KD_NAME_FIND, (long)store, 0, 0);
    long r = port < 0 ? port : kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    if (r < 0 || m.status) return r < 0 ? (int)r : m.status;
    for (unsigned i = 0; i < sizeof what / sizeof *what; i++)
        printf("%s%llu %s", i ? ", " : "", (unsigned long long)(m.word[i] - before[i]), what[i]);
    printf("\n");
    memcpy(before, m.word, sizeof before);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return 0;
}

static int word(const char *w, uint64_t n)
{
    int64_t of[2];
    int error = 0;
    if (!strncmp(w, "create", 6)) {
        c = ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
        return c ? ps_transaction(create, &n) : -errno;
    }
    if (!strcmp(w, "open")) {
        while ((error = opens()) == -ENOENT || error == -EACCES || error == -ENOTCONN || error == -EOWNERDEAD)
            sched_yield();
        return error;
    }
    if (!c && (error = opens()) != 0) return error;
    if (!strcmp(w, "sum")) {
        error = ps_transaction(sum, of);
        if (!error) printf("%lld accounts, %lld\n", (long long)of[0], (long long)of[1]);
        return error;
    }
    return !strncmp(w, "moves", 5)   ? moves(n)
           : !strncmp(w, "seed", 4)  ? (seed = n, 0)
           : !strncmp(w, "phase", 5) ? ps_transaction(set, &n)
           : !strncmp(w, "await", 5) ? await(n)
           : !strcmp(w, "abort")     ? (error = ps_transaction(spoil, NULL), error == -ECANCELED ? 0 : error)
           : !strncmp(w, "cross", 5) ? ps_transaction(cross, &n)
           : !strcmp(w, "counts")    ? counts()
                                     : -EINVAL;
}

int main(int argc, char **argv)
{
    int wanted = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 3) return 2;
    name = argv[1];
    for (int i = 2; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        uint64_t n = value ? strtoull(value + 1, NULL, 10) : 0;
        if (!strncmp(argv[i], "fail=", 5)) {
            wanted = -(int)n;
            continue;
        }
        int error = word(argv[i], n);
        if (error != wanted) {
            printf("%s: %s: %s (%d)\n", name, argv[i], ps_strerror(error), error);
            return 1;
        }
        wanted = 0;
    }
    return 0;
}
