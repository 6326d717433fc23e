/*
 * shared.c - for tests of sites: programs at several sites use one container.
 *
 *     shared NAME WORD ...    each word in turn; the container's name may be SITE:NAME
 *
 *     create=N     makes N accounts of 1,000 each, on a page each, in a list, unless there are some
 *     open         waits until the container is there, and may be opened
 *     sum          follows the list, prints how many accounts there are and their sum
 *     total        the same, also if sessions end meanwhile
 *     snapshot     the same in a snapshot; begun again when a page is newer than it
 *     moves=N      N transfers between accounts that seed=N says, also if sessions end meanwhile;
 *                  of two the order differs
 *     phase=N      stores N; await=N waits until it is stored by somebody, without a store
 *     abort        stores to each account, and undoes that
 *     busy=N       transfers until N is stored by somebody
 *     deadlocks=N  transfers until the home has denied N pages: each was a deadlock of two sites
 *     ups=N        counts N times one up; after a death it looks whether the last one was made
 *     pause=MS     says which was the longest of these, and fails if it took longer than MS
 *     truths=N     counts N times one up; what each commit was told is how it was
 *     upto=N       waits until that count is N; kill:NAME ends the programs of that name
 *     history=N    N transfers, each counted in the same transaction by a counter of this seed's,
 *                  and before each a look at all accounts, every third in a snapshot: no account is
 *                  as it was before an earlier look; through the ends of sessions, and disks that
 *                  fail
 *     stay         says so, and keeps the container open for good
 *     lost         waits until link has lost a site that it had a session with
 *     takes=MS     counts one up, not before so long behind the session that `lost` waited for
 *     counts       what has been said to the home since the last `counts`
 *     fail=ERRNO   the next word has to fail so
 */
#include <errno.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <katydid/call.h>

#include "user/sites/link.h"
#include "user/sites/remote.h"

enum { START = 1000 };
struct account { struct account *next; int64_t amount; uint64_t changes; char owner[4072]; };
struct root { struct account *first; uint64_t count; };
struct phase { uint64_t number, arrived; char rest[4080]; };

static const char *name;
static ps_container *c;
static uint64_t seed = 1, first_seed;   /* first_seed: before a history */

static uint64_t draw(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

/* Between two looks at what another machine does. */
static void pause_ms(void) { nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); }

static bool died(int error)
{
    if (error == -EOWNERDEAD || error == -ENOTCONN || error == -ECANCELED) pause_ms();
    return error == -EOWNERDEAD || error == -ENOTCONN || error == -ECANCELED;
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
    if (root->first) return 0; /* the machine was started again */
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

static int snapshot(int64_t total[2])
{
    const struct ps_options options = {.isolation = PS_SNAPSHOT};
    int error;
    while ((error = ps_transaction_opt(sum, total, &options)) == -ESTALE) continue;
    return error;
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
    from->amount -= (int64_t)n[2];
    to->amount += (int64_t)n[2];
    from->changes++;
    to->changes++;
    return 0;
}

static int moves(uint64_t times)
{
    int64_t of[2];
    int error;
    while (died(error = ps_transaction(sum, of))) continue;
    for (uint64_t i = 0; !error && i < times; i++) {
        uint64_t all = (uint64_t)of[0], n[3] = {draw(all), draw(all - 1), draw(100)};
        n[1] = (n[0] + 1 + n[1]) % all;
        while (died(error = ps_transaction(move, n))) continue;
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

static int set_through(uint64_t number)
{
    int error;
    while (died(error = ps_transaction(set, &number))) continue;
    return error;
}

static int await(uint64_t number)
{
    uint64_t now = 0;
    int error;
    while (died(error = ps_transaction(look, &now)) || (!error && now < number)) pause_ms();
    return error;
}

static int spoil(void *unused)
{
    (void)unused;
    for (struct account *a = ((struct root *)ps_root(c))->first; a; a = a->next) a->amount = -1;
    return -ECANCELED;
}

static long counts_ask(uint64_t now[KD_WORDS])
{
    char store[KD_NAME_MAX];
    snprintf(store, sizeof store, "%.*s/store", (int)strcspn(name, ":"), name);
    struct kd_message m = {.kind = REMOTE_COUNTS, .handle = -1};
    long port = kd_call3(KD_NAME_FIND, (long)store, 0, 0);
    long r = port < 0 ? port : kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    if (port >= 0) kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    memcpy(now, m.word, sizeof m.word);
    return r < 0 ? r : m.status;
}

static int counts(void)
{
    static uint64_t before[KD_WORDS];
    static const char *const what[] = {"GET", "GRANT", "CALL", "GONE", "COMMIT", "answer"};
    uint64_t now[KD_WORDS];
    long r = counts_ask(now);
    for (unsigned i = 0; !r && i < sizeof what / sizeof *what; i++)
        printf("%s%llu %s", i ? ", " : "", (unsigned long long)(now[i] - before[i]), what[i]);
    if (!r) printf("\n");
    memcpy(before, now, sizeof before);
    return (int)r;
}

/* ---- deaths ---- */

static int up(void *unused)
{
    struct phase *p = phase();
    (void)unused;
    if (!p) return -errno;
    p->arrived++;
    return 0;
}

static int count_look(void *number)
{
    const struct phase *p = phase();
    if (!p) return -errno;
    *(uint64_t *)number = p->arrived;
    return 0;
}

static uint64_t longest_ms;             /* between two counts that were acknowledged */

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int pause_said(uint64_t most)
{
    printf("the longest pause took %llu ms\n", (unsigned long long)longest_ms);
    return longest_ms > most ? -ETIME : 0;
}

/* Nobody else counts: so what was acknowledged is there, and of what was not, all or nothing. */
static int ups(uint64_t times)
{
    uint64_t at, now, unknown = 0;
    int error;
    while (died(error = ps_transaction(count_look, &at))) continue;
    uint64_t last = now_ms();
    for (uint64_t end = at + times; !error && at < end; at = now) {
        if (now_ms() - last > longest_ms) longest_ms = now_ms() - last;
        last = now_ms();
        error = ps_transaction(up, NULL);
        now = at + 1;
        if (!died(error)) continue;
        while (died(error = ps_transaction(count_look, &now))) continue;
        unknown++;
        if (!error && now != at && now != at + 1) {
            printf("%llu were acknowledged, %llu are there\n", (unsigned long long)at,
                   (unsigned long long)now);
            error = -EIO;
        }
    }
    printf("counted to %llu%s\n", (unsigned long long)at, unknown ? ", through deaths" : "");
    return error;
}

/* Nobody else counts. -EOWNERDEAD is from a transaction that had not come to its commit. */
static int truths(uint64_t times)
{
    uint64_t at, now, committed = 0, undone = 0;
    int error;
    while (died(error = ps_transaction(count_look, &at))) continue;
    for (uint64_t i = 0; !error && i < times; i++, at = now) {
        int told = ps_transaction(up, NULL);
        if (told && !died(told)) return told;
        while (died(error = ps_transaction(count_look, &now))) continue;
        committed += told == 0;
        undone += told == -ECANCELED;
        if (!error && now != at + (told == 0)) {
            printf("told %d, but %llu became %llu\n", told, (unsigned long long)at,
                   (unsigned long long)now);
            return -EIO;
        }
    }
    if (!error) printf("%llu were committed%s\n", (unsigned long long)committed,
                       undone ? ", others undone" : "");
    return error;
}

static int upto(uint64_t number)
{
    uint64_t now = 0;
    int error = 0;
    while (!error && now < number) {
        pause_ms();
        error = ps_transaction(count_look, &now);
        if (died(error)) error = 0;
    }
    return error;
}

struct counter { uint64_t moves; char rest[4088]; };

enum { ACCOUNTS_MAX = 64 };
struct look { uint64_t accounts, changes[ACCOUNTS_MAX]; };

static int sum_right(void *out)
{
    struct look *l = out;
    const struct root *root = ps_root(c);
    int64_t of[2];
    int error = sum(of);
    if (error) return error;
    l->accounts = 0;
    for (const struct account *a = root->first; a && l->accounts < ACCOUNTS_MAX; a = a->next)
        l->changes[l->accounts++] = a->changes;
    return of[1] != of[0] * START ? -EILSEQ : 0;
}

/* Or the home's disk has failed: then it may be that nothing more is committed before the store is
 * started again. Or it is silent for so long that a page does not come: then that is told. */
static bool fails(int error)
{
    bool disk = error == -EIO || error == -ETIMEDOUT;
    if (disk) pause_ms();
    return died(error) || disk;
}

/* Nothing that was seen is undone. */
static int look_right(uint64_t number)
{
    static struct look seen, now;
    const struct ps_options options = {.isolation = PS_SNAPSHOT};
    int error;
    do
        error = number % 3 == 2 ? ps_transaction_opt(sum_right, &now, &options)
                                : ps_transaction(sum_right, &now);
    while (error == -ESTALE || fails(error));
    for (uint64_t i = 0; !error && i < now.accounts; i++)
        if (now.changes[i] < seen.changes[i]) {
            printf("account %llu was changed %llu times, then %llu\n", (unsigned long long)i,
                   (unsigned long long)seen.changes[i], (unsigned long long)now.changes[i]);
            error = -EILSEQ;
        }
    if (!error) seen = now;
    return error;
}

static struct counter *counter(void)
{
    char text[32];
    snprintf(text, sizeof text, "moves of %llu", (unsigned long long)first_seed);
    return ps_named(c, text, sizeof(struct counter));
}

static int counter_look(void *number)
{
    const struct counter *mine = counter();
    if (!mine) return -errno;
    *(uint64_t *)number = mine->moves;
    return 0;
}

static int counted_move(void *numbers)
{
    struct counter *mine = counter();
    if (!mine) return -errno;
    mine->moves++;
    return move(numbers);
}

/* What was acknowledged is there; what got no answer has happened or not, as a whole. */
static int history(uint64_t times)
{
    uint64_t before = 0, at, n[3], unknown = 0;
    int64_t of[2];
    int error;
    first_seed = seed;
    while (fails(error = ps_transaction(sum, of)) || (!error && fails(error = ps_transaction(
                                                          counter_look, &before)))) continue;
    for (at = before; !error && at < before + times;) {
        uint64_t all = (uint64_t)of[0], now;
        if ((error = look_right(at)) != 0) break;
        n[0] = draw(all);
        n[1] = (n[0] + 1 + draw(all - 1)) % all;
        n[2] = draw(100);
        int result = ps_transaction(counted_move, n);
        if (result && !fails(result)) return result;
        while (result == -EIO && fails(ps_transaction(up, NULL))) continue;
        while (fails(error = ps_transaction(counter_look, &now))) continue;
        unknown += result != 0;
        if (!error && now != at + 1 && !(result && now == at)) {
            printf("%llu were acknowledged, %llu are there\n", (unsigned long long)at + !result,
                   (unsigned long long)now);
            return -EIO;
        }
        at = now;
    }
    if (!error) printf("seed %llu: all is there%s\n", (unsigned long long)first_seed,
                       unknown ? ", through losses" : "");
    return error;
}

static uint64_t live_ms;                /* when a session was seen last */

static int takes(uint64_t ms)
{
    int error = ups(1);
    uint64_t took = now_ms() - live_ms;
    if (took < ms) printf("after %llu ms\n", (unsigned long long)took);
    return error;
}

static int lost(void)
{
    static struct link_site all[LINK_SITES_MAX + 1]; /* the first one is this site */
    long link = kd_call3(KD_NAME_FIND, (long)LINK_NAME, 0, 0), r = link;
    for (bool live = true; r >= 0 && live;) {
        struct kd_message m = {.kind = LINK_LOOK, .buffer = all, .buffer_bytes = sizeof all,
                               .handle = -1};
        r = kd_call3(KD_PORT_CALL, link, (long)&m, 0);
        live = false;
        for (size_t i = 1; r >= 0 && i < m.buffer_bytes / sizeof *all; i++)
            live |= all[i].state == LINK_LIVE;
        if (live) live_ms = now_ms();
        pause_ms();
    }
    if (link >= 0) kd_call3(KD_HANDLE_CLOSE, link, 0, 0);
    return r < 0 ? (int)r : 0;
}

static int kill_all(const char *program)
{
    static struct kd_process_info all[128];
    long n = kd_call3(KD_PROCESS_LIST, (long)all, 128, 0), killed = 0;
    for (long i = 0; i < n; i++)
        if (!strcmp(all[i].name, program) && all[i].at >= 0)
            killed += kd_call3(KD_PROCESS_KILL, all[i].pid, 9, 0) == 0;
    if (!killed) pause_ms();
    return killed ? 0 : kill_all(program);
}

static int busy(uint64_t number)
{
    uint64_t now = 0;
    int error = 0;
    while (!error && now < number) error = moves(4) ?: ps_transaction(look, &now);
    return error;
}

static int deadlocks(uint64_t number)
{
    uint64_t now[KD_WORDS] = {0};
    int error = 0;
    while (!error && now[7] < number) error = moves(1) ?: (int)counts_ask(now);
    return error;
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
        while ((error = opens()) == -ENOENT || error == -EACCES || died(error)) pause_ms();
        return error;
    }
    if (!strncmp(w, "kill:", 5)) return kill_all(w + 5);
    if (!strcmp(w, "lost")) return lost();
    while (!c && died(error = opens())) continue;
    if (error) return error;
    if (!strcmp(w, "sum") || !strcmp(w, "total") || !strcmp(w, "snapshot")) {
        do error = *w == 't' || w[1] == 'u' ? ps_transaction(sum, of) : snapshot(of);
        while (*w == 't' && died(error));
        if (!error) printf("%lld accounts, %lld\n", (long long)of[0], (long long)of[1]);
        return error;
    }
    if (!strcmp(w, "stay")) {
        printf("the machine ends now\n");
        for (;;) pause_ms();
    }
    if (!strcmp(w, "abort"))
        return (error = ps_transaction(spoil, NULL)) == -ECANCELED ? 0 : error;
    return !strncmp(w, "moves", 5)   ? moves(n)
           : !strncmp(w, "seed", 4)  ? (seed = n, 0)
           : !strncmp(w, "phase", 5) ? set_through(n)
           : !strncmp(w, "await", 5) ? await(n)
           : !strncmp(w, "busy", 4)  ? busy(n)
           : !strncmp(w, "dead", 4)  ? deadlocks(n)
           : !strncmp(w, "pause", 5) ? pause_said(n)
           : !strncmp(w, "upto", 4)  ? upto(n)
           : !strncmp(w, "ups", 3)   ? ups(n)
           : !strncmp(w, "truths", 6) ? truths(n)
           : !strncmp(w, "takes", 5) ? takes(n)
           : !strncmp(w, "hist", 4)  ? history(n)
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
