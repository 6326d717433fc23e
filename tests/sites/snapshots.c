/*
 * snapshots.c - for tests of sites: snapshots of a container that other sites change.
 *
 *     snapshots NAME WORD ...    each word in turn; the container's name may be SITE:NAME
 *
 *     create=N     makes N pages, in a list, each with the value 1,000
 *     open         waits until the container is there, and may be opened
 *     store=N      stores N into each page
 *     read         reads each page in a transaction, so they are cached
 *     begin        begins a snapshot, which stays open
 *     see          reads all pages in it, and says their values
 *     share        keeps its state; behind `end`, `again` begins there once more; `drop`
 *     end          ends it; `dies`: reads until it is ended, kill:NAME ends programs of that name
 *     moves=N      N transfers between pages
 *     looks=N      N snapshots: each has to see the sum that there was; how many began anew
 *     both=N       the same beside transfers of another thread
 *     phase=N      stores N; await=N waits until it is stored by somebody
 *     until=N      sleeps until N is stored by somebody (ps_retry); later=N stores N a moment
 *                  later, from another thread
 *     counts       what was said to the home for snapshots since the last `counts`, and how many
 *                  there are; none=MS waits so long until there is none
 *     local        connects to the own store, too
 */
#include <errno.h>
#include <pstore.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <katydid/call.h>

#include "user/sites/remote.h"

enum { START = 1000 };
struct page { struct page *next; int64_t value; char rest[4080]; };
struct root { struct page *first; uint64_t count; };
struct phase { uint64_t number; char rest[4088]; };

static const char *name;
static ps_container *c;
static ps_tx *suspended;
static int shared;
static uint64_t seed = 1;

static uint64_t draw(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static void pause_ms(void) { nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); }

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
        struct page *p = ps_new(c, struct page, NULL);
        if (!p) return -errno;
        p->value = START;
        p->next = root->first;
        root->first = p;
    }
    return 0;
}

static int store(void *number)
{
    for (struct page *p = ((struct root *)ps_root(c))->first; p; p = p->next)
        p->value = *(int64_t *)number;
    return 0;
}

/* How many, their sum, the least value and the greatest. */
static int sum(void *total)
{
    const struct root *root = ps_root(c);
    int64_t *of = total;
    if (!root) return -errno;
    of[0] = of[1] = 0;
    of[2] = INT64_MAX;
    of[3] = INT64_MIN;
    for (const struct page *p = root->first; p; p = p->next, of[0]++) {
        of[1] += p->value;
        of[2] = p->value < of[2] ? p->value : of[2];
        of[3] = p->value > of[3] ? p->value : of[3];
    }
    return 0;
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
    while (!(error = ps_transaction(look, &now)) && now < number) pause_ms();
    return error;
}

static unsigned looked;
static int reached(void *number)
{
    const struct phase *p = phase();
    if (!p) return -errno;
    looked++;
    if (p->number < *(uint64_t *)number) ps_retry();
    return 0;
}

/* It sleeps: so it has looked a few times only. */
static int until(uint64_t n)
{
    looked = 0;
    int error = ps_transaction(reached, &n);
    if (!error && looked > 6) printf("looked %u times\n", looked);
    return error;
}

static void *store_later(void *number)
{
    for (int i = 0; i < 50; i++) pause_ms();
    ps_transaction(set, number);
    return NULL;
}

static int later(uint64_t n)
{
    static uint64_t number;
    pthread_t thread;
    number = n;
    return -pthread_create(&thread, NULL, store_later, &number);
}

/* ---- a snapshot that stays open ---- */

static _Noreturn void aborted(int error, void *unused)
{
    (void)unused;
    printf("the snapshot has ended: %s\n", ps_strerror(error));
    exit(1);
}

static int begin(int at)
{
    ps_catch(aborted, NULL);
    int error = ps_begin(&(struct ps_options){.isolation = PS_SNAPSHOT, .snapshot = at});
    suspended = error ? NULL : ps_suspend();
    return error;
}

static int see(void)
{
    int64_t of[4];
    int error = ps_resume(suspended);
    if (!error) error = sum(of);
    suspended = ps_suspend();
    if (!error) printf("%lld pages of %lld to %lld\n", (long long)of[0], (long long)of[2],
                       (long long)of[3]);
    return error;
}

static int share(void)
{
    int error = ps_resume(suspended);
    shared = error ? error : ps_snapshot_share();
    suspended = ps_suspend();
    return shared < 0 ? shared : 0;
}

static int end(void)
{
    int error = ps_resume(suspended);
    return error ? error : ps_rollback();
}

static int dies(void)
{
    int64_t of[4];
    for (int error = 0; !error; pause_ms()) {
        error = ps_resume(suspended);
        if (!error) error = sum(of);
        suspended = ps_suspend();
    }
    return -EIO; /* it is ended by what it touches */
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

/* ---- beside writers ---- */

static int move(void *numbers)
{
    const uint64_t *n = numbers;
    struct page *from = ((struct root *)ps_root(c))->first, *to = from;
    for (uint64_t i = 0; i < n[0]; i++) from = from->next;
    for (uint64_t i = 0; i < n[1]; i++) to = to->next;
    from->value -= (int64_t)n[2];
    to->value += (int64_t)n[2];
    return 0;
}

static int moves(uint64_t times)
{
    int64_t of[4];
    int error = ps_transaction(sum, of);
    for (uint64_t i = 0; !error && i < times; i++) {
        uint64_t n[3] = {draw((uint64_t)of[0]), draw((uint64_t)of[0]), draw(100)};
        error = ps_transaction(move, n);
    }
    return error;
}

static int looks(uint64_t times)
{
    const struct ps_options how = {.isolation = PS_SNAPSHOT};
    int64_t of[4];
    uint64_t again = 0;
    int error = 0;
    for (uint64_t i = 0; !error && i < times; i++) {
        while ((error = ps_transaction_opt(sum, of, &how)) == -ESTALE) again++;
        if (!error && of[1] != of[0] * START) {
            printf("the sum is %lld\n", (long long)of[1]);
            error = -EILSEQ;
        }
    }
    if (!error) printf("%llu looks, %llu anew\n", (unsigned long long)times,
                       (unsigned long long)again);
    return error;
}

static atomic_int enough;

static void *moves_beside(void *unused)
{
    while (!enough && moves(1) == 0) continue;
    return unused;
}

static int both(uint64_t times)
{
    pthread_t thread;
    enough = 0;
    int error = -pthread_create(&thread, NULL, moves_beside, NULL);
    if (error) return error;
    error = looks(times);
    enough = 1;
    pthread_join(thread, NULL);
    return error;
}

/* ---- what was said ---- */

static long counts_ask(uint64_t now[KD_WORDS])
{
    char home[KD_NAME_MAX];
    snprintf(home, sizeof home, "%.*s/store", (int)strcspn(name, ":"), name);
    struct kd_message m = {.kind = REMOTE_SNAPSHOTS, .handle = -1};
    long port = kd_call3(KD_NAME_FIND, (long)home, 0, 0);
    long r = port < 0 ? port : kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    if (port >= 0) kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    memcpy(now, m.word, sizeof m.word);
    return r < 0 ? r : m.status;
}

static int counts(void)
{
    static uint64_t before[KD_WORDS];
    uint64_t now[KD_WORDS];
    long r = counts_ask(now);
    if (!r) printf("%llu SNAP, %llu GET_OLD, %llu OLD, %llu there\n",
                   (unsigned long long)(now[0] - before[0]),
                   (unsigned long long)(now[2] - before[2]),
                   (unsigned long long)(now[3] - before[3]), (unsigned long long)now[4]);
    memcpy(before, now, sizeof before);
    return (int)r;
}

static int none(uint64_t ms)
{
    uint64_t now[KD_WORDS] = {[4] = 1};
    long r = 0;
    for (uint64_t i = 0; !r && now[4] && i < ms; i += 2) {
        r = counts_ask(now);
        pause_ms();
    }
    return r ? (int)r : now[4] ? -EBUSY : 0;
}

static int word(const char *w, uint64_t n)
{
    int64_t of[4];
    int error = 0;
    if (!strncmp(w, "create", 6)) {
        c = ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
        return c ? ps_transaction(create, &n) : -errno;
    }
    if (!strcmp(w, "open")) {
        while ((error = opens()) == -ENOENT || error == -EACCES || error == -ENOTCONN ||
               error == -EOWNERDEAD) pause_ms();
        return error;
    }
    if (!strcmp(w, "local")) return ps_connect(NULL);
    if (!strncmp(w, "kill:", 5)) return kill_all(w + 5);
    if (!c && (error = opens())) return error;
    return !strncmp(w, "store", 5)   ? ps_transaction(store, &n)
           : !strcmp(w, "read")      ? ps_transaction(sum, of)
           : !strcmp(w, "begin")     ? begin(0)
           : !strcmp(w, "again")     ? begin(shared)
           : !strcmp(w, "see")       ? see()
           : !strcmp(w, "share")     ? share()
           : !strcmp(w, "drop")      ? ps_snapshot_drop(shared)
           : !strcmp(w, "end")       ? end()
           : !strcmp(w, "dies")      ? dies()
           : !strncmp(w, "moves", 5) ? moves(n)
           : !strncmp(w, "looks", 5) ? looks(n)
           : !strncmp(w, "both", 4)  ? both(n)
           : !strncmp(w, "until", 5) ? until(n)
           : !strncmp(w, "later", 5) ? later(n)
           : !strncmp(w, "phase", 5) ? ps_transaction(set, &n)
           : !strncmp(w, "await", 5) ? await(n)
           : !strcmp(w, "counts")    ? counts()
           : !strncmp(w, "none", 4)  ? none(n)
                                     : -EINVAL;
}

int main(int argc, char **argv)
{
    name = argc > 1 ? argv[1] : "";
    for (int i = 2; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        int error = word(argv[i], value ? strtoull(value + 1, NULL, 10) : 0);
        if (!error) continue;
        printf("snapshots %s %s: %s\n", name, argv[i], ps_strerror(error));
        return 1;
    }
    return 0;
}
