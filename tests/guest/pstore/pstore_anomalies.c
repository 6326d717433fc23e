/*
 * pstore_anomalies.c - the published anomalies of isolation, at each level: which can occur?
 *
 * Aim     the table of libpstore/isolation.md is true: G0, G1a, G1b, G1c, OTV, PMP, P4, G-single,
 *         G2-item and G2 (Adya 1999, Berenson and others 1995, Bailis and others 2014).
 * Method  each is a script of steps of two to four transactions, in threads of their own. A step is
 *         given when every thread has done its steps so far or waits for a lock (the kernel says
 *         so), so the interleaving is the script's; steps of a thread that waits come when it goes
 *         on. The level is that of the transactions in `who`; 4 is a snapshot, the others are
 *         serialisable. At the level ITEMS all are in a container of items, which they lock, and
 *         the predicate as a range of keys: each that is there, and the first one behind, whose
 *         gap is where others insert. The program computes the table, prints it and compares it
 *         with the page, which is read from /import.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pstore_test.h"

enum { ACTORS = 4, STEPS = 12, READS = 8, ITEMS = 4, LEVELS, NODES = 6, BEHIND = 1000 };

/* Everything in pages of its own; the list is what a predicate is evaluated over. */
struct node { struct node *next; long value; char other_page[4064]; };
struct root { struct node *list; struct node *item[2], *spare[NODES]; };
static ps_container *c, *both[2];        /* the one in use; of pages, of items */

struct actor {
    int level, number, tid;
    char steps[STEPS][8];
    volatile int given, done, quit;     /* steps; all of them are done when given == done */
    jmp_buf env;
    int active, reads;
    long read[READS];
    int result;                         /* 1: runs; 0: committed; else -errno */
};
static struct actor actors[ACTORS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* ---- a thread: does the steps that it is given ---- */

static void on_abort(int error, void *arg)
{
    struct actor *a = arg;
    a->active = 0;
    a->result = error < 0 ? error : -error;
    longjmp(a->env, 1);
}

static void begin(struct actor *a)
{
    struct ps_options how = { .isolation = a->level,
                              .locked = a->level == PS_CONTAINER_LOCK ? c : NULL };
    int e = ps_begin(&how);
    a->active = e == 0;
    a->result = e ? e : 1;
}

/* Where items are locked: to read, to write. */
#define TO_READ(p)  (c == both[1] ? (__typeof__(p))ps_access(p, sizeof *(p), PS_S) : (p))
#define TO_WRITE(p) (c == both[1] ? (__typeof__(p))ps_access(p, sizeof *(p), PS_X) : (p))

static long count_threes(const struct root *root)
{
    long n = 0;
    for (const struct node *i = root->list; i; i = i->next) {
        if (c == both[1])
            ps_key(c, (uint64_t)i->value, PS_S);
        n += *TO_READ(&i->value) % 3 == 0;
    }
    if (c == both[1])
        ps_key(c, BEHIND, PS_S);
    return n;
}

static void insert_three(struct root *root, int number)
{
    if (c == both[1]) {
        ps_key(c, BEHIND, PS_X);
        ps_key(c, 30, PS_X);
    }
    struct node *n = TO_WRITE(root->spare[number]);
    TO_WRITE(&root->list);
    n->value = 30;
    n->next = root->list;
    root->list = n;
}

/* "wx11", "rx", "P" count what matches, "I" insert what matches, "c", "a" */
static void step(struct actor *a, const char *text)
{
    if (!a->active && a->result == 1)
        begin(a);
    if (!a->active)
        return;                         /* it is over */
    struct root *root = ps_root(c);
    long *item = text[1] ? &root->item[text[1] == 'y']->value : NULL;
    switch (text[0]) {
    case 'w': *(volatile long *)TO_WRITE(item) = atol(text + 2); break;
    case 'r': a->read[a->reads] = *(volatile long *)TO_READ(item); a->reads++; break;
    case 'P': a->read[a->reads] = count_threes(root); a->reads++; break;
    case 'I': insert_three(root, a->number); break;
    case 'c':
        a->active = 0;
        a->result = ps_commit();
        break;
    case 'a':
        ps_rollback();
        a->active = 0;
        a->result = -ECANCELED;
    }
}

static void *actor_main(void *arg)
{
    struct actor *a = arg;
    a->tid = (int)syscall(SYS_gettid);
    ps_catch(on_abort, a);
    for (;;) {
        pthread_mutex_lock(&lock);
        while (a->given == a->done && !a->quit)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        if (a->given == a->done)
            return NULL;
        if (setjmp(a->env) == 0)
            step(a, a->steps[a->done]);
        __atomic_store_n(&a->done, a->done + 1, __ATOMIC_SEQ_CST);
    }
}

/* ---- the script ---- */

/* Waits for a transaction that has not ended. */
static int blocked(const struct actor *a)
{
    static struct kd_view_info views[KD_VIEW_MAX];
    uint64_t active[2] = {0};
    long n = kd_call3(KD_VIEW_LIST, (long)views, KD_VIEW_MAX, 0);
    for (long i = 0; i < n; i++)
        if (views[i].state > 1)
            active[views[i].view / 64] |= 1ull << views[i].view % 64;
    for (long i = 0; i < n; i++)
        if (views[i].tid == a->tid &&
            (views[i].waits[0] & active[0] || views[i].waits[1] & active[1]))
            return 1;
    return 0;
}

static void settle(int to_the_end)
{
    for (int i = 0; i < ACTORS; i++)
        while (__atomic_load_n(&actors[i].done, __ATOMIC_SEQ_CST) != actors[i].given &&
               (to_the_end || !blocked(&actors[i])))
            sched_yield();
}

static int make(void *unused)
{
    struct root *root = TO_WRITE((struct root *)ps_root(c));
    (void)unused;
    if (!root->item[0])
        for (int i = 0; i < NODES + 2; i++)
            *(i < 2 ? &root->item[i] : &root->spare[i - 2]) = ps_new(c, struct node, NULL);
    root->list = root->item[0];
    *TO_WRITE(root->item[0]) = (struct node){.next = root->item[1], .value = 10};
    *TO_WRITE(root->item[1]) = (struct node){.value = 20};
    return 0;
}

static long last[2];                    /* x and y afterwards */
static int look(void *unused)
{
    struct root *root = ps_root(c);
    (void)unused;
    last[0] = *TO_READ(&root->item[0]->value);
    last[1] = *TO_READ(&root->item[1]->value);
    return 0;
}

/* Plays it with `level` for the transactions in `who`. */
static int play(const char *script, const char *who, int level)
{
    pthread_t thread[ACTORS];
    c = both[level == ITEMS];
    level = level == ITEMS ? PS_SERIALISABLE : level;
    int bad = ps_transaction(make, NULL);
    memset(actors, 0, sizeof actors);
    for (int i = 0; i < ACTORS; i++) {
        actors[i] = (struct actor){.number = i, .result = 1};
        actors[i].level = strchr(who, '1' + i) ? level : i == 3 ? PS_SNAPSHOT : PS_SERIALISABLE;
        bad |= pthread_create(&thread[i], NULL, actor_main, &actors[i]);
    }
    for (const char *at = script; *at && !bad;) {
        struct actor *a = &actors[*at - '1'];
        size_t length = strcspn(at, " ");
        pthread_mutex_lock(&lock);
        memcpy(a->steps[a->given], at + 1, length - 1);
        a->given++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        settle(0);
        at += length + (at[length] == ' ');
    }
    settle(1);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < ACTORS; i++)
        actors[i].quit = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < ACTORS; i++)
        pthread_join(thread[i], NULL);
    return bad | ps_transaction(look, NULL);
}

/* ---- the anomalies ---- */

static long read_of(int actor, int n) { return actors[actor - 1].read[n]; }
static int done(int actor) { return actors[actor - 1].result == 0; }
static int saw(int actor, long value)
{
    for (int i = 0; i < actors[actor - 1].reads; i++)
        if (read_of(actor, i) == value)
            return 1;
    return 0;
}

static int g0(void) { return (last[0] == 12 && last[1] == 21) || (last[0] == 11 && last[1] == 22); }
static int g1ab(void) { return saw(2, 101); }
static int g1c(void) { return done(1) && done(2) && saw(1, 22) && saw(2, 11); }
static int otv(void) { return done(3) && read_of(3, 1) == 18 && read_of(3, 2) == 11; }
static int pmp(void) { return done(1) && done(2) && read_of(1, 0) != read_of(1, 1); }
static int p4(void) { return done(1) && done(2) && saw(1, 10) && saw(2, 10); }
static int g_single(void) { return done(1) && read_of(1, 0) == 10 && read_of(1, 1) == 18; }
static int g2_item(void) { return p4() && saw(1, 20) && saw(2, 20); }
static int g2(void) { return done(1) && done(2) && read_of(1, 0) == 0 && read_of(2, 0) == 0; }

static const struct anomaly {
    const char *name, *meaning, *script, *who;
    int (*occurred)(void);
} anomalies[] = {
    { "G0", "dirty write", "1wx11 2wx12 1wy21 1c 2wy22 2c", "12", g0 },
    { "G1a", "aborted read", "1wx101 2rx 1a 2rx 2c", "2", g1ab },
    { "G1b", "intermediate read", "1wx101 2rx 1wx11 1c 2rx 2c", "2", g1ab },
    { "G1c", "circular information flow", "1wx11 2wy22 1ry 2rx 1c 2c", "12", g1c },
    /* 4 keeps the version of x that 3 has seen */
    { "OTV", "observed transaction vanishes", "1wx11 1wy19 1c 4ry 2wx12 3rx 2wy18 2c 3ry 3rx 3c 4c",
      "3", otv },
    { "PMP", "predicate-many-preceders", "1P 2I 2c 1P 1c", "1", pmp },
    { "P4", "lost update", "1rx 2rx 1wx11 2wx12 1c 2c", "12", p4 },
    { "G-single", "read skew", "1rx 2rx 2ry 2wx12 2wy18 2c 1ry 1c", "1", g_single },
    { "G2-item", "write skew", "1rx 1ry 2rx 2ry 1wx11 2wy21 1c 2c", "12", g2_item },
    { "G2", "anti-dependency cycle over a predicate", "1P 2P 1I 2I 1c 2c", "12", g2 },
};
enum { ANOMALIES = sizeof anomalies / sizeof anomalies[0] };

/* "yes", "no", or "-": the level does not let these transactions store. */
static const char *cell(const struct anomaly *a, int level)
{
    if (play(a->script, a->who, level))
        return "error";
    for (const char *w = a->who; *w; w++)
        if (actors[*w - '1'].result == -EROFS)
            return "-";
    for (int i = 0; i < ACTORS; i++)
        if (actors[i].given && actors[i].result == 1)
            return "unfinished";
    return a->occurred() ? "yes" : "no";
}

/* The page's row of this name, without spaces at its ends; "" if there is none. */
static void page_row(const char *name, char *out, size_t bytes)
{
    char start[24];
    FILE *page = fopen("/import/isolation.md", "r");
    out[0] = 0;
    snprintf(start, sizeof start, "| %s |", name);
    while (page && fgets(out, (int)bytes, page))
        if (strncmp(out, start, strlen(start)) == 0)
            break;
        else
            out[0] = 0;
    out[strcspn(out, "\n")] = 0;
    if (page)
        fclose(page);
}

static void test(const struct anomaly *a)
{
    char row[160], page[160];
    int n = snprintf(row, sizeof row, "| %s | %s |", a->name, a->meaning);
    for (int level = 0; level < LEVELS; level++)
        n += snprintf(row + n, sizeof row - (size_t)n, " %s |", cell(a, level));
    page_row(a->name, page, sizeof page);
    if (!tap_ok(strcmp(row, page) == 0, "%s", row))
        printf("# the page says '%s'; the steps: %s\n", page, a->script);
}

int main(void)
{
    tap_plan(ANOMALIES + 2);
    ps_delete("anomalies");
    ps_delete("anomalies-items");
    /* one page a fault: which neighbours come along must not decide what is seen */
    both[0] = c = ps_open("anomalies", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    both[1] = ps_open("anomalies-items", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    tap_ok(c && ps_policy(c, PS_GROUP, 1) == 0 && ps_locking(both[1], PS_LOCK_ITEMS) == 0,
           "the columns: serialisable, snapshot, dirty read, container lock, items");
    for (int i = 0; i < ANOMALIES && c; i++)
        test(&anomalies[i]);
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck is clean");
    return tap_end();
}
