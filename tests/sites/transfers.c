/*
 * transfers.c - for tests of sites: one transaction changes containers of two homes.
 *
 *     transfers ONE OTHER WORD ...    each word in turn; ONE and OTHER are NAME or SITE:NAME
 *
 *     create       makes ONE, which is here
 *     open         waits until both are there, and may be opened
 *     moves=N      N transfers from ONE to OTHER, of seed=N's amounts; what each was told is how it
 *                  was, in both, through the ends of sessions and failures of disks
 *     looks=N      N times: the sums of both fit each other, and so do their counts
 *     upto=N       the same until N transfers were made; kill:NAME ends the programs of that name
 *     costs=N      what N transfers between two pages cost: instructions here, messages, flushes of
 *                  each store, and bytes of its log
 *     old          a clock is wrong, so what is read may be old for a while, at one home alone
 *     number=N     these transfers are counted by themselves, as N; programs at once need that
 */
#include <errno.h>
#include <pstore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <katydid/call.h>

#include "tests/bench/measure.h"
#include "user/sites/remote.h"

enum { ACCOUNTS = 8, NUMBERS = 8, OLD_LOOKS = 10000 };
struct account { int64_t amount; char rest[4088]; };
struct root { uint64_t moves[NUMBERS], tries; char rest[4024]; struct account account[ACCOUNTS]; };

static const char *name[2];
static ps_container *c[2];
static uint64_t seed = 1, number;
static bool old;
static unsigned old_seen;

static uint64_t draw(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static void pause_ms(void) { nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL); }

static bool died(int error)
{
    bool is = error == -EOWNERDEAD || error == -ENOTCONN || error == -ECANCELED || error == -EIO;
    if (is) pause_ms();
    return is;
}

static int opens(int i, int flags)
{
    c[i] = ps_open(name[i], PS_WRITE | flags, PS_LAYOUT(struct root, 1));
    return c[i] ? 0 : -errno;
}

static int root_make(void *unused)
{
    (void)unused;
    return ps_root(c[0]) ? 0 : -errno;
}

static int open_both(void)
{
    int error = 0;
    for (int i = 0; i < 2 && !error; i++)
        while ((error = opens(i, 0)) == -ENOENT || error == -EACCES || error == -EAGAIN ||
               died(error))
            pause_ms();
    return error;
}

static int move(void *amount)
{
    struct root *from = ps_root(c[0]), *to = from ? ps_root(c[1]) : NULL;
    const int64_t *a = amount;
    if (!to) return -errno;
    from->account[a[0]].amount -= a[2];
    to->account[a[1]].amount += a[2];
    from->moves[number]++;
    to->moves[number]++;
    return 0;
}

static int touch(void *unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        struct root *root = ps_root(c[i]);
        if (!root) return -errno;
        root->tries++;
    }
    return 0;
}

struct seen { uint64_t moves, all; int64_t sum; };

static int look(void *seen)
{
    struct seen *s = seen;
    *s = (struct seen){0};
    for (int i = 0; i < 2; i++) {
        const struct root *root = ps_root(c[i]);
        if (!root) return -errno;
        for (int k = 0; k < ACCOUNTS; k++) s->sum += root->account[k].amount;
        for (int k = 0; k < NUMBERS; k++) s->all += i ? -root->moves[k] : root->moves[k];
        s->moves = root->moves[number];
    }
    return s->sum || s->all ? -EILSEQ : 0;
}

/* Not for ever: a home that does not come back. */
static int looks_right(struct seen *s)
{
    int error;
    unsigned patience = old ? OLD_LOOKS : 0;
    while (died(error = ps_transaction(look, s)) || (error == -EILSEQ && patience)) {
        if (error != -EILSEQ) continue;
        old_seen++;
        patience--;
        pause_ms();
    }
    if (error == -EILSEQ)
        printf("sums differ by %lld, counts by %lld\n", (long long)s->sum, (long long)s->all);
    return error;
}

static int moves(uint64_t times)
{
    struct seen before, now;
    uint64_t committed = 0, undone = 0;
    int error = looks_right(&before);
    for (uint64_t i = 0; !error && i < times; i++, before = now) {
        int64_t a[3] = {(int64_t)draw(ACCOUNTS), (int64_t)draw(ACCOUNTS), (int64_t)draw(100)};
        int told = ps_transaction(move, a);
        /* nobody knows before both take commits again; or for good: a home was away for too long */
        bool unknown = told == -EIO || told == -ENOTRECOVERABLE;
        if (told && !unknown && !died(told)) return told;
        error = looks_right(&now);
        if (unknown) {
            while (died(error = ps_transaction(touch, NULL)) || error == -ENOTRECOVERABLE) continue;
            error = error ?: looks_right(&now);
        }
        bool both = told == 0 || (unknown && now.moves == before.moves + 1);
        committed += both;
        undone += !both;
        if (!error && now.moves != before.moves + both) {
            printf("told %d, but %llu became %llu\n", told, (unsigned long long)before.moves,
                   (unsigned long long)now.moves);
            error = -EIO;
        }
    }
    if (!error) printf("%llu moves in both%s\n", (unsigned long long)committed,
                       undone ? ", others in none" : "");
    if (!error && old_seen) printf("%u looks were old\n", old_seen);
    return error;
}

static int looks(uint64_t times, uint64_t upto)
{
    struct seen s = {0};
    int error = 0;
    for (uint64_t i = 0; !error && (i < times || s.moves < upto); i++) {
        error = looks_right(&s);
        pause_ms();
    }
    if (!error && times) printf("%llu looks, all right\n", (unsigned long long)times);
    return error;
}

/* ---- what it costs (tests/bench/sites.sh) ---- */

struct spent { uint64_t instructions, messages, flushes[2], log[2]; };

static long asks(int i, uint32_t kind, struct kd_message *m, void *data, size_t bytes)
{
    char store[KD_NAME_MAX] = "store";
    if (strchr(name[i], ':'))
        snprintf(store, sizeof store, "%.*s/store", (int)strcspn(name[i], ":"), name[i]);
    *m = (struct kd_message){.kind = kind, .handle = -1, .buffer = data, .buffer_bytes = bytes};
    long port = kd_call3(KD_NAME_FIND, (long)store, 0, 0);
    long r = port < 0 ? port : kd_call3(KD_PORT_CALL, port, (long)m, 0);
    if (port >= 0) kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return r < 0 ? r : m->status;
}

static struct spent so_far(void)
{
    struct spent now = {0};
    struct kd_message m;
    struct wire_stats stats;
    struct kd_system_info s;
    for (int i = 0; i < 2; i++) {
        if (strchr(name[i], ':') && asks(i, REMOTE_COUNTS, &m, NULL, 0) == 0)
            for (int k = 0; k < 6; k++) now.messages += m.word[k];
        if (asks(i, STORE_STATS, &m, &stats, sizeof stats) != 0) continue;
        now.flushes[i] = stats.flushes;
        now.log[i] = stats.log_bytes;
    }
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    now.instructions = counter() - s.idle_cycles;
    return now;
}

static int costs(uint64_t times)
{
    int64_t a[3] = {1, 1, 1};
    int error = ps_transaction(move, a);        /* both pages are here, to write */
    struct spent from = so_far();
    for (uint64_t i = 0; !error && i < times; i++) error = ps_transaction(move, a);
    struct spent now = so_far();
    if (error) return error;
    printf("= transfer %llu %llu %llu", (unsigned long long)times,
           (unsigned long long)(now.instructions - from.instructions),
           (unsigned long long)(now.messages - from.messages));
    for (int i = 0; i < 2; i++)
        printf(" %llu %llu", (unsigned long long)(now.flushes[i] - from.flushes[i]),
               (unsigned long long)(now.log[i] - from.log[i]));
    printf("\n");
    return 0;
}

static int kill_all(const char *program)
{
    static struct kd_process_info all[64];
    long n = kd_call3(KD_PROCESS_LIST, (long)all, 64, 0);
    for (long i = 0; i < n && i < 64; i++)
        if (!strcmp(all[i].name, program)) kd_call3(KD_PROCESS_KILL, all[i].pid, SIGKILL, 0);
    return n < 0 ? (int)n : 0;
}

static int word(const char *w, uint64_t n)
{
    int error = 0;
    if (!strcmp(w, "create")) {
        error = opens(0, PS_CREATE);
        return error ? error : ps_transaction(root_make, NULL);
    }
    if (!strcmp(w, "open")) return open_both();
    if (!strcmp(w, "old")) return old = true, 0;
    if (!strncmp(w, "kill:", 5)) return kill_all(w + 5);
    if (!c[1] && (error = open_both())) return error;
    return !strncmp(w, "moves", 5)    ? moves(n)
           : !strncmp(w, "looks", 5)  ? looks(n, 0)
           : !strncmp(w, "costs", 5)  ? costs(n)
           : !strncmp(w, "upto", 4)   ? looks(0, n)
           : !strncmp(w, "seed", 4)   ? (seed = n, 0)
           : !strncmp(w, "number", 6) ? (number = n % NUMBERS, 0)
                                      : -EINVAL;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 4) return 2;
    name[0] = argv[1];
    name[1] = argv[2];
    for (int i = 3; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        int error = word(argv[i], value ? strtoull(value + 1, NULL, 10) : 0);
        if (error) {
            printf("%s, %s: %s: %s (%d)\n", name[0], name[1], argv[i], ps_strerror(error), error);
            return 1;
        }
    }
    return 0;
}
